"""The explorers of chapter 3 show the functions of the package, and their known values."""

import math

import pytest
import torch
from torch.nn import functional as F

from minillama import silu_derivative, viz
from minillama.viz import chapter03

TORCH = {"ReLU": F.relu, "GELU": F.gelu, "SiLU": F.silu}


@pytest.mark.parametrize("name", TORCH)
def test_values_and_slopes_are_torchs(name):
    x = torch.linspace(-5, 5, 81, dtype=torch.float64, requires_grad=True)
    value, slope = chapter03.ACTIVATIONS[name]
    out = TORCH[name](x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert [value(v) for v in x.tolist()] == pytest.approx(out.tolist(), abs=1e-12)
    assert [slope(v) for v in x.tolist()] == pytest.approx(grad.tolist(), abs=1e-12)


def test_slopes_says_what_it_draws():
    explorer = viz.slopes()
    assert explorer.start == {"x": -1.25}
    assert "SiLU −0.2784 with slope 0.0063" in explorer.alt(x=-1.25)
    assert ">−0.2784<" in explorer.picture(x=-1.25)
    assert "SiLU 0.0000 with slope 0.5000" in explorer.alt(x=0.0)
    for x in (-4.0, 2.5, 4.0):
        slope = silu_derivative(torch.tensor(x, dtype=torch.float64)).item()
        assert f">{viz.marks.fixed(slope, 4)}<" in explorer.picture(x=x)


def test_one_gated_unit():
    now = chapter03.gated(3, 1, -0.5)
    assert now["a"] == 3 and now["b"] == -1.5
    assert now["share"] == pytest.approx(1 / (1 + math.exp(-3)), abs=1e-6)
    assert now["product"] == now["passed"] * now["b"]
    step, always = chapter03.VALVES[1:]
    assert [chapter03.gated(x, 1, 1, step)["share"] for x in (-2, 0, 2)] == [0, 0, 1]
    assert chapter03.gated(-2, 1.5, 1, always)["product"] == 6


def test_no_curve_leaves_the_axes():
    for gate in (-1.5, 0.25, 1.5):
        for valve in chapter03.VALVES:
            for mark in viz.gated_unit().marks(x=3, gate=gate, up=1.5, valve=valve):
                for _, y in mark.get("points", []):
                    assert 246 - 14 * 8 <= y <= 246 + 14 * 8
