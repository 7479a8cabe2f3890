"""Checkers of the exercises on residual connections and weight tying."""

import torch

from .machinery import Attempt, checker, close, show

BOTH = "That is the share of both matrices. Tying keeps one of them: only one is saved."
OF_TIED = "The share is of the untied model: the total you are given is without the second matrix, so add it."
PERCENT = "Right, in percent. Return the share as a number between 0 and 1."
COUNT = "That is the number of parameters saved. Divide it by the parameters of the untied model."
KEPT = "That is the share that stays. Return the share that tying saves."
TWO_ADDED = "Two matrices were added to the total. It holds one already: the untied model has one more."

NO_ONE = "The 1 is missing: this chain has no residual connections. Add what passes beside each sublayer."
NO_TRANSPOSE = (
    "On the way down each Jacobian is transposed: entry [i, j] takes output i's gradient to input j."
)
FORWARD_ORDER = "The sublayers were passed in forward order. The gradient meets the last one first."
FIRST_ORDER = (
    "Each stop received the gradient from the top. It receives what arrives there, the stops above included."
)
BACKWARDS = "A tensor cannot be sliced with [::-1]: go through reversed(jacobians), or flip it with .flip(0)."
SKIPPED = "The lowest sublayer, jacobians[0], was left out: n of them lie between x_n and x_0."
STOPS_ONLY = "These are the stops without the express: the gradient at the top arrives as well."
EXPRESS_ONLY = "That is the express path alone. Each sublayer adds its own contribution."

OVERWRITTEN = (
    "A token that occurs twice lost one of its gradients: `grad[ids] += …` writes each row once. "
    "Use index_add_, or a loop over positions."
)
HEAD_ONLY = "This is the head's half. Add each position's grad_embedded to the row of its token."
INPUT_ONLY = "This is the embedding's half. The head adds grad_logitsᵀ @ hidden, to every row."
AVERAGED = "Sum over the positions; do not average. Any mean is in the gradients you were given."
HALVED = "The two halves add up; they are not averaged."
TRANSPOSED = "The right numbers, transposed: the matrix is (V, C)."


@checker("residuals.saving", 1)
def saving(attempt: Attempt) -> None:
    """`fn(vocab_size, d_model, tied_total)` returns the share of the untied model that tying saves."""
    cases = [
        (4096, 512, 35_926_528),  # MiniLLaMA
        (49_152, 576, 134_515_008),  # SmolLM2 135M
        (128_256, 2048, 1_235_814_400),  # Llama 3.2 1B
        (10, 4, 100),
        (5, 2, 10),  # nothing but the one matrix
    ]
    for vocab_size, d_model, tied_total in cases:
        got = attempt(vocab_size=vocab_size, d_model=d_model, tied_total=tied_total)
        matrix = vocab_size * d_model
        untied = tied_total + matrix
        expected = matrix / untied
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, int | float):
            attempt.fail(show(expected), show(got), "Return one number.")
        wrong = [
            (2 * matrix / untied, BOTH),
            (200 * matrix / untied, BOTH),
            (matrix / tied_total, OF_TIED),
            (100 * matrix / tied_total, OF_TIED),
            (2 * matrix / tied_total, BOTH),
            (100 * expected, PERCENT),
            (float(matrix), COUNT),
            (1 - expected, KEPT),
            (matrix / (tied_total + 2 * matrix), TWO_ADDED),
        ]
        hint = "One matrix has vocab_size · d_model entries; the untied model has one more than the tied."
        attempt.match(float(got), expected, close, wrong=wrong, hint=hint)


def _down(jacobians, grad, *, one=True, transpose=True, order=reversed):
    for jacobian in order(jacobians):
        stop = (jacobian.T if transpose else jacobian) @ grad
        grad = grad + stop if one else stop
    return grad


@checker("residuals.backward", 2, autograd=False)
def backward(attempt: Attempt) -> None:
    """`fn(jacobians, grad_top)`, (n, C, C) and (C,), returns the gradient at the bottom of the stack."""
    seeded = torch.Generator().manual_seed(0)
    for count, width in [(3, 4), (1, 2), (5, 3), (0, 3), (24, 6), (2, 1)]:
        jacobians = 0.5 * torch.randn(count, width, width, generator=seeded, dtype=torch.float64)
        grad_top = torch.randn(width, generator=seeded, dtype=torch.float64)
        got = attempt(jacobians=jacobians, grad_top=grad_top, on_error={(ValueError, "step"): BACKWARDS})
        expected = _down(jacobians, grad_top)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of the shape of grad_top.")
        wrong = [
            (_down(jacobians, grad_top, one=False), NO_ONE),
            (_down(jacobians, grad_top, one=False, transpose=False), NO_ONE),
            (_down(jacobians, grad_top, transpose=False, order=iter), NO_TRANSPOSE),
            (_down(jacobians, grad_top, transpose=False), NO_TRANSPOSE),
            (_down(jacobians, grad_top, order=iter), FORWARD_ORDER),
            (grad_top + (jacobians.mT @ grad_top).sum(0), FIRST_ORDER),
            (grad_top, EXPRESS_ONLY),
            (expected - grad_top, STOPS_ONLY),
            (_down(jacobians[1:], grad_top), SKIPPED),
        ]
        hint = "Start with grad_top; for each Jacobian from the last to the first: g = g + Jᵀ g."
        if got.shape != expected.shape:
            hint = f"The result must have the shape of grad_top, {tuple(grad_top.shape)}."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


def _rows(ids, gradients, vocab_size, *, keep="sum"):
    """Gradients (T, C) gathered in the rows of their tokens (V, C); `keep` says what repeated tokens do."""
    out = gradients.new_zeros(vocab_size, gradients.shape[1])
    positions = range(len(ids)) if keep != "first" else reversed(range(len(ids)))
    for t in positions:
        row = int(ids[t])
        out[row] = out[row] + gradients[t] if keep == "sum" else gradients[t]
    return out


@checker("residuals.tied_gradient", 3, autograd=False)
def tied_gradient(attempt: Attempt) -> None:
    """`fn(ids, grad_embedded, hidden, grad_logits)` returns the gradient (V, C) of the tied matrix."""
    seeded = torch.Generator().manual_seed(0)
    for ids, vocab_size, width in [
        ([2, 0, 2, 3], 5, 3),
        ([1], 3, 2),
        ([0, 0, 0], 2, 4),
        ([3, 1, 2, 0], 4, 4),
        ([6, 5, 6, 5, 6, 1], 9, 2),
    ]:
        ids = torch.tensor(ids)
        grad_embedded, hidden = (
            torch.randn(len(ids), width, generator=seeded, dtype=torch.float64) for _ in range(2)
        )
        grad_logits = torch.randn(len(ids), vocab_size, generator=seeded, dtype=torch.float64)
        got = attempt(ids=ids, grad_embedded=grad_embedded, hidden=hidden, grad_logits=grad_logits)
        head, rows = grad_logits.T @ hidden, _rows(ids, grad_embedded, vocab_size)
        expected = head + rows
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return one tensor of shape (V, C).")
        lost = [head + _rows(ids, grad_embedded, vocab_size, keep=which) for which in ("last", "first")]
        wrong = [
            *((each, OVERWRITTEN) for each in lost),
            (head, HEAD_ONLY),
            (rows, INPUT_ONLY),
            (_rows(ids, grad_embedded, vocab_size, keep="last"), OVERWRITTEN),
            (expected / 2, HALVED),
            (expected / len(ids), AVERAGED),
            (rows + head / len(ids), AVERAGED),
            (expected.T, TRANSPOSED),
        ]
        hint = "Head: grad_logitsᵀ @ hidden. Embedding: each position adds grad_embedded to its token's row."
        if got.shape != expected.shape:
            hint = f"The gradient has the shape of the matrix, (V, C) = {tuple(expected.shape)}."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)
