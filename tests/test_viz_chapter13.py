"""The explorer of chapter 13 keeps what filter_logits keeps."""

import math

import pytest
import torch

from minillama import filter_logits, viz
from minillama.viz.chapter13 import OFF, _Distributions


@pytest.fixture(scope="module")
def seen():
    return _Distributions()


@pytest.fixture(scope="module")
def explorer():
    return viz.sampling_filters()


def logits_of(seen, context) -> torch.Tensor:
    return -torch.tensor(seen.data[context]["steps"]).cumsum(0).double() / 100


def test_every_context_holds_all_tokens(seen):
    for context, each in seen.data.items():
        assert len(each["steps"]) == 4096 and each["steps"][0] == 0 and min(each["steps"]) >= 0, context
        assert len(set(each["tokens"])) == len(each["tokens"]), context


def test_it_keeps_what_the_package_keeps(seen, explorer):
    """A count may differ by rounding where a sum meets p; it may not differ by more."""
    by_key = {control.key: control.values for control in explorer.controls}
    for context in by_key["context"]:
        logits = logits_of(seen, context)
        for temperature in (0.3, 1, 2):
            for k in by_key["k"]:
                for p in (0.05, 0.5, 0.9, 1):
                    ours = seen.filtered(context, temperature, k, p)
                    kept = filter_logits(logits, temperature, k, p)
                    count = int(kept.isfinite().sum())
                    assert abs(ours["kept"] - count) <= 1 + count // 500, (context, temperature, k, p)
                    probability = kept.softmax(-1).double()
                    entropy = torch.distributions.Categorical(probability).entropy().item()
                    assert math.isclose(ours["entropy"], entropy, abs_tol=5e-3)
                    full = (logits / temperature).softmax(-1)
                    mass = full[kept.isfinite()].sum().item()
                    assert math.isclose(ours["mass"], mass, abs_tol=5e-3)


def test_shares_are_those_of_the_package(seen):
    for context in seen.data:
        ours = seen.filtered(context, 0.8, 50, 0.9)["share"]
        theirs = filter_logits(logits_of(seen, context), 0.8, 50, 0.9).softmax(-1)[: len(ours)]
        assert torch.allclose(torch.tensor(ours).double(), theirs.double(), atol=1e-5)


def test_struck_out_tokens_have_a_dash(explorer):
    state = explorer.start | {"k": 3, "p": 1}
    words = [mark["content"] for mark in explorer.marks(**state) if mark["kind"] == "text"]
    assert words.count("–") == 9 and "3 of 4,096 tokens kept" in words
    state = explorer.start | {"k": OFF, "p": 1}
    assert "4,096 of 4,096 tokens kept: top-k leaves 4,096" in explorer.alt(**state)
    assert "100.0 % of the mass" in explorer.alt(**state)


def test_bars_stay_between_the_names_and_the_numbers(explorer):
    for state in explorer.states():
        if state["p"] not in (0.05, 1):
            continue
        for mark in explorer.marks(**state):
            if mark["kind"] == "rect":
                assert mark["x"] == 110 and 0 <= mark["width"] <= 160.001
