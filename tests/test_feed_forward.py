"""SiLU, its derivative and the gated feed-forward layer."""

import pytest
import torch
from torch.nn import functional as F

from minillama import SwiGLUFeedForward, silu, silu_derivative


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_silu_equals_torch(dtype):
    x = torch.linspace(-20, 20, 401, dtype=torch.float64).to(dtype)
    out = silu(x)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    assert out.dtype == dtype
    torch.testing.assert_close(out, F.silu(x), rtol=tolerance, atol=tolerance)


def test_silus_minimum():
    x = torch.linspace(-3, 3, 600_001, dtype=torch.float64)
    values = silu(x)
    assert values.min().item() == pytest.approx(-0.27846, abs=5e-6)
    assert x[values.argmin()].item() == pytest.approx(-1.27846, abs=5e-5)
    assert silu(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([0.0, 0.7310586])


def test_the_derivatives_extremes():
    x = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    values = silu_derivative(x)
    assert values.min().item() == pytest.approx(-0.0998, abs=5e-5)
    assert values.max().item() == pytest.approx(1.0998, abs=5e-5)
    assert silu_derivative(torch.zeros(1)).item() == pytest.approx(0.5)


def test_the_derivative_equals_autograd():
    x = torch.linspace(-30, 30, 601, dtype=torch.float64, requires_grad=True)
    F.silu(x).sum().backward()
    torch.testing.assert_close(silu_derivative(x.detach()), x.grad, rtol=1e-10, atol=1e-12)
    ours = x.detach().clone().requires_grad_()
    silu(ours).sum().backward()
    torch.testing.assert_close(ours.grad, x.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [100.0, 1e4])
def test_far_out_nothing_is_nan(dtype, size):
    x = torch.tensor([-size, size], dtype=dtype, requires_grad=True)
    value = silu(x)
    value.sum().backward()
    assert value.tolist() == pytest.approx([0.0, x[1].item()], abs=1e-6)
    assert x.grad.tolist() == pytest.approx([0.0, 1.0], abs=1e-6)
    slope = silu_derivative(x.detach())
    assert slope.dtype == dtype and slope.tolist() == pytest.approx([0.0, 1.0], abs=1e-6)


def test_feed_forward_formula(make_config):
    config = make_config()
    layer = SwiGLUFeedForward(config)
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "w_gate.weight": (44, 24),
        "w_up.weight": (44, 24),
        "w_down.weight": (24, 44),
    }
    x = torch.randn(2, 3, 24, generator=torch.Generator().manual_seed(0))
    gate, up, down = (getattr(layer, name).weight for name in ("w_gate", "w_up", "w_down"))
    expected = (F.silu(x @ gate.T) * (x @ up.T)) @ down.T
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-6)
    assert layer(x[0, 0]).shape == (24,)


def test_feed_forward_gradients_and_dtype(make_config):
    layer = SwiGLUFeedForward(make_config())
    x = torch.randn(2, 3, 24, generator=torch.Generator().manual_seed(0), requires_grad=True)
    layer(x).pow(2).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in [*layer.parameters(), x])
    half = layer.to(torch.bfloat16)(x.detach().to(torch.bfloat16))
    assert half.dtype == torch.bfloat16 and half.isfinite().all()


def test_a_wrong_width_is_refused(make_config):
    with pytest.raises((ValueError, RuntimeError)):
        SwiGLUFeedForward(make_config())(torch.randn(2, 3, 23))
