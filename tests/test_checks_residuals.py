"""Checkers of chapter 6: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import pytest
import torch

from minillama import checks
from minillama.checks import residuals

INPUTS = {residuals.saving: 5, residuals.backward: 6, residuals.tied_gradient: 5}
NUMBER = {check: number for number, check in enumerate(INPUTS, 1)}


def saving(vocab_size, d_model, tied_total):
    return vocab_size * d_model / (tied_total + vocab_size * d_model)


def backward(jacobians, grad_top):
    grad = grad_top
    for jacobian in reversed(jacobians):
        grad = grad + jacobian.T @ grad
    return grad


def as_one_matrix(jacobians, grad_top):
    whole = torch.eye(len(grad_top), dtype=grad_top.dtype)
    for jacobian in jacobians:
        whole = (torch.eye(len(grad_top), dtype=grad_top.dtype) + jacobian) @ whole
    return whole.T @ grad_top


def as_a_row(jacobians, grad_top):
    for jacobian in jacobians.flip(0):
        grad_top = grad_top + grad_top @ jacobian
    return grad_top


def tied_gradient(ids, grad_embedded, hidden, grad_logits):
    grad = grad_logits.T @ hidden
    grad.index_add_(0, ids, grad_embedded)
    return grad


def by_one_hot(ids, grad_embedded, hidden, grad_logits):
    one_hot = torch.nn.functional.one_hot(ids, grad_logits.shape[1]).to(hidden.dtype)
    return grad_logits.T @ hidden + one_hot.T @ grad_embedded


RIGHT = [
    (residuals.saving, saving),
    (residuals.saving, lambda v, c, n: torch.tensor(v * c / (n + v * c), dtype=torch.float64)),
    (residuals.saving, lambda v, c, n: 1 - n / (n + v * c)),
    (residuals.backward, backward),
    (residuals.backward, as_one_matrix),
    (residuals.backward, as_a_row),
    (residuals.tied_gradient, tied_gradient),
    (residuals.tied_gradient, by_one_hot),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: right on all {INPUTS[check]} inputs.\n"
    assert result.name == f"residuals.{check.__name__}"


@pytest.mark.parametrize("check", INPUTS)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, capsys):
    assert check(stub).status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: not attempted yet.\n"


def chain(jacobians, grad_top):
    for jacobian in reversed(jacobians):
        grad_top = jacobian.T @ grad_top
    return grad_top


def forwards(jacobians, grad_top):
    return backward(jacobians.flip(0), grad_top)


def from_the_top(jacobians, grad_top):
    return grad_top + sum((j.T @ grad_top for j in jacobians), torch.zeros_like(grad_top))


def untransposed(jacobians, grad_top):
    return backward(jacobians.mT, grad_top)


def in_place(jacobians, grad_top):
    for jacobian in reversed(jacobians):
        grad_top += jacobian.T @ grad_top
    return grad_top


def overwritten(ids, grad_embedded, hidden, grad_logits):
    grad = grad_logits.T @ hidden
    for t, row in enumerate(ids):
        grad[row] = (grad_logits.T @ hidden)[row] + grad_embedded[t]
    return grad


def assigned(ids, grad_embedded, hidden, grad_logits):
    grad = torch.zeros(grad_logits.shape[1], hidden.shape[1], dtype=hidden.dtype)
    grad[ids] += grad_embedded
    return grad + grad_logits.T @ hidden


def rows(ids, grad_embedded, hidden, grad_logits):
    return by_one_hot(ids, grad_embedded, 0 * hidden, grad_logits)


WRONG = [
    (residuals.saving, lambda v, c, n: 2 * v * c / (n + v * c), "share of both matrices"),
    (residuals.saving, lambda v, c, n: 200 * v * c / (n + v * c), "share of both matrices"),
    (residuals.saving, lambda v, c, n: 2 * v * c / n, "share of both matrices"),
    (residuals.saving, lambda v, c, n: v * c / n, "The share is of the untied model"),
    (residuals.saving, lambda v, c, n: 100 * v * c / n, "The share is of the untied model"),
    (residuals.saving, lambda v, c, n: 100 * saving(v, c, n), "in percent"),
    (residuals.saving, lambda v, c, n: v * c, "number of parameters saved"),
    (residuals.saving, lambda v, c, n: v * c / (n + 2 * v * c), "Two matrices were added"),
    (residuals.saving, lambda v, c, n: 1 - saving(v, c, n), "the share that stays"),
    (residuals.saving, lambda v, c, n: v / c, "One matrix has vocab_size"),
    (residuals.saving, lambda v, c, n: f"{saving(v, c, n):.2%}", "Return one number"),
    (residuals.backward, chain, "The 1 is missing"),
    (residuals.backward, untransposed, "each Jacobian is transposed"),
    (residuals.backward, lambda j, g: untransposed(j.flip(0), g), "each Jacobian is transposed"),
    (residuals.backward, forwards, "The gradient meets the last one first"),
    (residuals.backward, from_the_top, "Each stop received the gradient from the top"),
    (residuals.backward, lambda j, g: g.clone(), "express path alone"),
    (residuals.backward, lambda j, g: backward(j, g) - g, "the stops without the express"),
    (residuals.backward, lambda j, g: backward(j[1:], g), "jacobians[0], was left out"),
    (residuals.backward, lambda j, g: 2 * backward(j, g), "Start with grad_top"),
    (residuals.backward, lambda j, g: backward(j, g)[None], "the shape of grad_top"),
    (residuals.backward, lambda j, g: 1.0, "Return a tensor"),
    (residuals.backward, lambda j, g: backward(j[::-1], g), "flip it with .flip(0)"),
    (residuals.backward, in_place, "Your function changed its input grad_top"),
    (residuals.tied_gradient, overwritten, "lost one of its gradients"),
    (residuals.tied_gradient, assigned, "lost one of its gradients"),
    (residuals.tied_gradient, lambda i, e, h, z: z.T @ h, "the head's half"),
    (residuals.tied_gradient, rows, "the embedding's half"),
    (residuals.tied_gradient, lambda *a: tied_gradient(*a) / 2, "they are not averaged"),
    (residuals.tied_gradient, lambda i, e, h, z: tied_gradient(i, e, h / len(i), z), "do not average"),
    (residuals.tied_gradient, lambda *a: tied_gradient(*a) / len(a[0]), "do not average"),
    (residuals.tied_gradient, lambda *a: tied_gradient(*a).T, "transposed"),
    (residuals.tied_gradient, lambda *a: 3 * tied_gradient(*a), "adds grad_embedded to its token's row"),
    (residuals.tied_gradient, lambda i, e, h, z: e, "(V, C) = (5, 3)"),
    (residuals.tied_gradient, lambda *a: [tied_gradient(*a)], "Return one tensor"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG
    assert hint in " ".join(result.message.split()), result.message
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


@pytest.mark.parametrize("check", [residuals.backward, residuals.tied_gradient])
def test_by_hand_means_without_autograd(check):
    def answer(*arguments):
        x = torch.ones(2, requires_grad=True)
        return torch.autograd.grad(x.sum(), x)[0]

    assert "without autograd" in check(answer).message
