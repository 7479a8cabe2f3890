"""rms_norm and RMSNorm: the walkthrough, PyTorch's own module, the precision rules, gradients, bad input."""

import math

import pytest
import torch

from minillama import RMSNorm, rms_norm


def reference(x, weight, eps):
    x, weight = x.double(), weight.double()
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


def test_the_walkthrough():
    x = torch.tensor([2.0, -2.0, 2.0, -2.0])
    torch.testing.assert_close(rms_norm(x, torch.ones(4), 0.0), torch.tensor([1.0, -1.0, 1.0, -1.0]))
    gain = torch.tensor([1.0, 2.0, 3.0, 4.0])
    torch.testing.assert_close(rms_norm(x, gain, 0.0), torch.tensor([1.0, -2.0, 3.0, -4.0]))


def test_epsilon_sits_inside_the_root():
    # mean square 4, epsilon 12: 2 / sqrt(16); outside the root it would be 2 / (2 + 12).
    torch.testing.assert_close(rms_norm(torch.full((4,), 2.0), torch.ones(4), 12.0), torch.full((4,), 0.5))


def test_the_mean_is_not_subtracted():
    out = rms_norm(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.ones(4), 0.0)
    torch.testing.assert_close(out, torch.tensor([1.0, 2.0, 3.0, 4.0]) / math.sqrt(7.5))


@pytest.mark.parametrize("shape", [(8,), (5, 8), (2, 3, 8), (2, 3, 4, 8), (0, 8)])
def test_equals_torch_in_float32(shape):
    generator = torch.Generator().manual_seed(0)
    x, gain = torch.randn(shape, generator=generator) * 3, torch.rand(8, generator=generator) + 0.5
    theirs = torch.nn.RMSNorm(8, eps=1e-6)
    ours = RMSNorm(8, eps=1e-6)
    with torch.no_grad():
        theirs.weight.copy_(gain)
        ours.weight.copy_(gain)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(rms_norm(x, gain, 1e-6), theirs(x), rtol=1e-6, atol=1e-6)


def test_the_module():
    norm = RMSNorm(7)
    assert list(norm.state_dict()) == ["weight"] and norm.weight.shape == (7,)
    assert norm.weight.requires_grad and norm.weight.dtype == torch.float32
    assert torch.equal(norm.weight, torch.ones(7))
    tiny = torch.full((7,), 1e-3)  # mean square 1e-6: the default epsilon halves it
    torch.testing.assert_close(norm(tiny), torch.full((7,), 1 / math.sqrt(2.0)))
    torch.testing.assert_close(RMSNorm(7, eps=3e-6)(tiny), torch.full((7,), 0.5))


# CASES 10: the output keeps the input's dtype, whatever the gain's.
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("gain_dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_output_dtype_is_input_dtype(dtype, gain_dtype):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    gain = torch.linspace(0.5, 1.5, 8).to(gain_dtype)
    out = rms_norm(x, gain, 1e-6)
    assert out.dtype == dtype
    tolerance = {torch.bfloat16: 8e-3, torch.float16: 1e-3}.get(dtype, 1e-6)
    torch.testing.assert_close(out.double(), reference(x, gain, 1e-6), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_gain_is_applied_before_the_cast(dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 128, generator=generator).to(dtype)
    gain = torch.rand(128, generator=generator) + 0.5
    rounded_once = reference(x, gain, 1e-6).to(dtype)
    rounded_twice = reference(x, torch.ones(128), 1e-6).to(dtype) * gain.to(dtype)
    same = (rms_norm(x, gain, 1e-6) == rounded_once).double().mean().item()
    assert same > 0.998  # float32 arithmetic may fall on the other side of a rare tie
    assert (
        rounded_twice == rounded_once
    ).double().mean().item() < 0.9  # so the check can tell the orders apart


def test_half_precision_neither_overflows_nor_underflows():
    # 300² = 90,000 is above float16's largest number; (1e-4)² = 1e-8 is below its smallest.
    loud = torch.full((4,), 300.0, dtype=torch.float16)
    assert torch.equal(rms_norm(loud, torch.ones(4), 1e-6), torch.ones(4, dtype=torch.float16))
    quiet = torch.full((4,), 1e-4, dtype=torch.float16)
    torch.testing.assert_close(rms_norm(quiet, torch.ones(4), 0.0), torch.ones(4, dtype=torch.float16))
    with_eps = rms_norm(quiet, torch.ones(4), 1e-6)
    torch.testing.assert_close(with_eps.float(), torch.full((4,), 0.09951), rtol=2e-3, atol=0)


@pytest.mark.parametrize("scale", [1e-15, 1e-3, 1.0, 1e3, 1e17])
def test_scale_does_not_matter_without_epsilon(scale):
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    expected = reference(x, torch.ones(8), 0.0).float()
    torch.testing.assert_close(rms_norm(x * scale, torch.ones(8), 0.0), expected, rtol=1e-5, atol=1e-6)


def test_zeros_stay_zeros():
    x = torch.zeros(2, 8, requires_grad=True)
    out = rms_norm(x, torch.ones(8), 1e-6)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(2, 8)) and x.grad.isfinite().all()


def test_the_energy_is_bounded_the_entries_are_not():
    x = torch.randn(100, 512, generator=torch.Generator().manual_seed(0)) * 5
    assert (rms_norm(x, torch.ones(512), 1e-6).pow(2).mean(-1) <= 1 + 1e-6).all()
    one_hot = torch.nn.functional.one_hot(torch.tensor(3), 512).float()
    assert rms_norm(one_hot, torch.ones(512), 0.0).max().item() == pytest.approx(math.sqrt(512), rel=1e-6)


def test_gradients_equal_torch():
    generator = torch.Generator().manual_seed(0)
    x, upstream = torch.randn(3, 5, 8, generator=generator), torch.randn(3, 5, 8, generator=generator)
    gain = torch.rand(8, generator=generator) + 0.5
    grads = []
    for function in (
        lambda x, w: rms_norm(x, w, 1e-6),
        lambda x, w: torch.nn.functional.rms_norm(x, (8,), w, 1e-6),
    ):
        leaves = x.clone().requires_grad_(), gain.clone().requires_grad_()
        function(*leaves).backward(upstream)
        grads.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-6)


def test_the_gradient_is_orthogonal_to_the_input_without_epsilon():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 16, generator=generator, requires_grad=True)
    rms_norm(x, torch.ones(16), 0.0).backward(torch.randn(6, 16, generator=generator))
    assert (x.grad * x).sum(-1).abs().max().item() < 1e-5 and x.grad.abs().max().item() > 0.01


def test_the_input_is_left_alone():
    x, gain = torch.randn(3, 8), torch.rand(8)
    before = x.clone(), gain.clone()
    rms_norm(x, gain, 1e-6)
    assert torch.equal(x, before[0]) and torch.equal(gain, before[1])


@pytest.mark.parametrize("width, gain", [(7, 8), (1, 8), (8, 1), (9, 8)])
def test_wrong_widths_are_refused(width, gain):
    # 1 against 8 would broadcast without a word.
    with pytest.raises(ValueError) as error:
        rms_norm(torch.randn(2, width), torch.ones(gain), 1e-6)
    assert str(width) in str(error.value) and str(gain) in str(error.value)


def test_integers_are_refused():
    with pytest.raises((TypeError, ValueError), match="int64"):
        rms_norm(torch.tensor([2, -2, 2, -2]), torch.ones(4), 1e-6)


@pytest.mark.parametrize("eps", [-1e-6, math.nan, math.inf])
def test_bad_epsilon_is_refused(eps):
    with pytest.raises(ValueError, match="eps"):
        RMSNorm(8, eps=eps)


@pytest.mark.parametrize("dim", [0, -3, 2.5, True])
def test_bad_dim_is_refused(dim):
    with pytest.raises((TypeError, ValueError), match="dim"):
        RMSNorm(dim)
