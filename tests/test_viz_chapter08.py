"""The explorer of chapter 8 shows what torch computes."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from minillama import viz
from minillama.viz import chapter08


@pytest.fixture(scope="module")
def explorer():
    return viz.next_token()


@pytest.mark.parametrize("scores", [(2, 1, 0, -1), (0, 0, 0, 0), (10, -10, 0, -10), (-3.5, 4, 4, 0.5)])
@pytest.mark.parametrize("came", range(4))
def test_it_computes_the_loss_and_its_gradient(scores, came):
    row = chapter08.next_word(scores, came)
    z = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    loss = F.cross_entropy(z, torch.tensor(came))
    (gradient,) = torch.autograd.grad(loss, z)
    assert row["loss"] == pytest.approx(loss.item(), abs=1e-7)
    assert row["gradient"] == pytest.approx(gradient.tolist(), abs=1e-8)
    assert row["length"] == pytest.approx(gradient.norm().item(), abs=1e-8)
    assert row["length"] <= 2**0.5


def test_verdicts(explorer):
    at = dict.fromkeys(("s1", "s2", "s3", "s4"), 0)
    assert "loss 1.386, as good as guessing." in explorer.alt(**at, came="war")
    assert "better than guessing." in explorer.alt(**{**at, "s4": 2}, came="war")
    assert "worse than guessing." in explorer.alt(**{**at, "s4": 2}, came="love")


def test_sure_and_wrong_costs_20_and_pulls_with_root_2(explorer):
    alt = explorer.alt(s1=10, s2=-10, s3=0, s4=-1, came="life")
    assert "loss 20.000" in alt and alt.endswith("of length 1.414.")


def test_it_stays_in_its_frame(explorer):
    width, height = explorer.view_box
    for values in itertools.product(*((c.values[0], c.default, c.values[-1]) for c in explorer.controls)):
        for mark in explorer.marks(*values):
            if mark["kind"] == "rect":
                assert 0 <= mark["x"] and mark["x"] + mark["width"] <= width, (values, mark)
                assert mark["y"] + mark["height"] <= height
