"""cross_entropy against PyTorch, by hand, and at the places where a mean can go wrong."""

import math

import pytest
import torch
from torch.nn import functional as F

from minillama import cross_entropy
from minillama.loss import log_softmax


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# CASES 18: all ignored gives 0, never NaN; ignored places do not enter the mean.
def test_ignored_targets():
    logits = torch.zeros(3, 4, requires_grad=True)
    nothing = cross_entropy(logits, torch.full((3,), -100))
    assert nothing.item() == 0.0
    nothing.backward()
    assert torch.equal(logits.grad, torch.zeros(3, 4))
    assert cross_entropy(torch.zeros(3, 4), torch.tensor([0, 1, -100])).item() == pytest.approx(
        1.386294, abs=1e-6
    )


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4)])
def test_equals_torch_for_any_leading_shape(shape):
    logits = randn(*shape, 7) * 4
    targets = torch.randint(7, shape, generator=torch.Generator().manual_seed(1))
    expected = F.cross_entropy(logits.reshape(-1, 7), targets.reshape(-1))
    loss = cross_entropy(logits, targets)
    assert loss.shape == ()
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("ignore_index", [-100, -1, 0, 3])
def test_ignore_index(ignore_index):
    logits = randn(4, 6, 7)
    targets = torch.randint(7, (4, 6), generator=torch.Generator().manual_seed(1))
    targets[0] = ignore_index
    targets[2, :2] = ignore_index
    expected = F.cross_entropy(logits.reshape(-1, 7), targets.reshape(-1), ignore_index=ignore_index)
    torch.testing.assert_close(cross_entropy(logits, targets, ignore_index=ignore_index), expected)


def test_by_hand():
    # ln(e^1 + e^2 + e^3) - 3
    loss = cross_entropy(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(2))
    assert loss.item() == pytest.approx(math.log(math.exp(-2) + math.exp(-1) + 1), abs=1e-6)


def test_the_gradient_is_probability_minus_one_hot():
    logits = randn(5, 7).requires_grad_()
    targets = torch.tensor([0, 6, -100, 3, -100])
    cross_entropy(logits, targets).backward()
    valid = (targets != -100)[:, None]
    expected = logits.detach().softmax(-1) - F.one_hot(targets.clamp(min=0), 7)
    torch.testing.assert_close(logits.grad, torch.where(valid, expected, 0.0) / 3, rtol=1e-5, atol=1e-7)


def test_extreme_logits():
    logits = torch.tensor([[1e4, 0.0, -1e4], [1e30, 0.0, -1e30]], requires_grad=True)
    certain = cross_entropy(logits, torch.tensor([0, 0]))
    certain.backward()
    assert certain.item() == 0.0 and logits.grad.isfinite().all()
    assert cross_entropy(logits[:1], torch.tensor([2])).item() == pytest.approx(2e4)
    with_hole = torch.tensor([0.0, 0.0, -math.inf], requires_grad=True)
    loss = cross_entropy(with_hole, torch.tensor(1))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2)) and with_hole.grad.isfinite().all()


def test_an_ignored_row_cannot_spoil_the_others():
    # Multiplying by a zero mask would turn these infinities into NaN.
    logits = torch.tensor([[0.0, 0.0, 0.0], [-math.inf, 0.0, -math.inf]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([1, -100]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(3), abs=1e-6)
    assert logits.grad.isfinite().all() and torch.equal(logits.grad[1], torch.zeros(3))


def test_half_precision_is_summed_in_float32():
    # bfloat16 has eight bits: neither ln 512 nor a mean over 512 targets would come out right in it.
    logits, targets = torch.zeros(512, 512, dtype=torch.bfloat16), torch.zeros(512, dtype=torch.long)
    assert cross_entropy(logits, targets).item() == pytest.approx(math.log(512), rel=1e-6)
    noisy = (randn(512, 512) * 3).to(torch.bfloat16).requires_grad_()
    loss = cross_entropy(noisy, targets)
    loss.backward()
    assert loss.item() == pytest.approx(F.cross_entropy(noisy.double(), targets).item(), rel=1e-5)
    assert noisy.grad.dtype == torch.bfloat16


def test_log_softmax():
    x = randn(3, 7) * 10
    torch.testing.assert_close(log_softmax(x), F.log_softmax(x, dim=-1))
    assert log_softmax(torch.tensor([1e4, 0.0])).tolist() == [0.0, -1e4]


@pytest.mark.parametrize("target", [4, 100, -1, -2])
def test_a_target_outside_the_vocabulary_is_refused(target):
    with pytest.raises(ValueError) as error:
        cross_entropy(torch.zeros(3, 4), torch.tensor([0, target, 1]))
    assert "target" in str(error.value) and str(target) in str(error.value)
    assert "3" in str(error.value) or "4" in str(error.value)  # the last class, or their number


def test_bad_shapes_and_dtypes_are_refused():
    for logits, targets in [((3, 4), (4,)), ((2, 3, 4), (6,)), ((2, 3, 4), (3, 2)), ((3, 4), (3, 1))]:
        with pytest.raises(ValueError):
            cross_entropy(torch.zeros(logits), torch.zeros(targets, dtype=torch.long))
    with pytest.raises((TypeError, ValueError), match="float"):
        cross_entropy(torch.zeros(3, 4), torch.zeros(3))
