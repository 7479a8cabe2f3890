"""Checkers of the exercises on RoPE."""

import math

import torch

from ..rope import apply_rotary_emb, apply_rotary_emb_interleaved, precompute_freqs_cis
from .machinery import Attempt, checker, close, show

WRONG_WAY = (
    "This turns forward once more. The gradient of a rotation turns back: change the sign of one table."
)
WRONG_AXIS = (
    "The tables met the wrong axis: each position has its angle, shared by all heads. Give them a head axis, "
    "(T, 1, D)."
)


def _score(q, k, distance: float, theta: float, *, rate=lambda i, d: -2 * i / d, near=False, sign=1) -> float:
    """The score at a distance, added up plane by plane; `near` pairs neighbors."""
    half, total = len(q) // 2, 0.0
    for i in range(half):
        a, b = (2 * i, 2 * i + 1) if near else (i, i + half)
        angle = distance * theta ** rate(i, len(q))
        along, across = q[a] * k[a] + q[b] * k[b], q[a] * k[b] - q[b] * k[a]
        total += along * math.cos(angle) + sign * across * math.sin(angle)
    return total


@checker("rope.score", 1)
def score(attempt: Attempt) -> None:
    """`fn(q, k, m, n, theta)`: the dot product of q turned by m and k turned by n, for lists of floats."""
    # The first input tells every wrong formula below from every other.
    cases = [
        ([1.0, -2.0, 3.0, 0.5], [0.5, 1.0, -1.0, 2.0], 5, 2, 100.0),
        ([2.0, 1.0], [1.0, -1.0], 1, 3, 10000.0),
        ([1.0, -2.0, 3.0, 0.5, -1.0, 2.0], [0.5, 1.0, -1.0, 2.0, 1.5, -0.5], 1007, 1000, 10000.0),
        ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], 9, 9, 500.0),
    ]
    for q, k, m, n, theta in cases:
        got = attempt(q=q, k=k, m=m, n=n, theta=theta)
        expected = _score(q, k, m - n, theta)
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, int | float):
            attempt.fail(show(expected), show(got), "Return one number, the dot product.")
        wrong = [
            (
                _score(q, k, n - m, theta),
                "The sign of the distance is turned around: the planes turn counterclockwise, (a, b) to "
                "(a cos − b sin, a sin + b cos).",
            ),
            (
                expected / math.sqrt(len(q)),
                "This is the score divided by √D; here it is asked for as it is.",
            ),
            (
                _score(q, k, m - n, 10000.0),
                "θ is given: do not take 10,000 for granted.",
            ),
            (sum(x * y for x, y in zip(q, k, strict=True)), "This is the score without any rotation."),
            (_score(q, k, m, theta), "Only q was turned; k has a position, too."),
            (_score(q, k, -n, theta), "Only k was turned; q has a position, too."),
            (_score(q, k, m + n, theta), "The two turns were added: one of the vectors was turned backward."),
            (
                _score(q, k, m - n, theta, near=True),
                "Right for pairs (0, 1), (2, 3), …; here entry i is paired with i + D/2.",
            ),
            (
                _score(q, k, m - n, theta, rate=lambda i, d: -i / d),
                "The planes slow down too slowly: plane i turns by θ^(−2i/D), with a 2.",
            ),
            (
                _score(q, k, m - n, theta, rate=lambda i, d: -2 * (i + 1) / d),
                "Planes count from 0 here: the first turns by θ^0 = 1.",
            ),
            (
                _score(q, k, m - n, theta, rate=lambda i, d: 2 * i / d),
                "The exponent has lost its minus: later planes turn slower, by θ^(−2i/D).",
            ),
            (
                _score(q, k, m - n, theta, rate=lambda i, d: 0),
                "Every plane turned by 1: plane i turns by θ^(−2i/D).",
            ),
            (
                _score(q, k, math.radians(m - n), theta),
                "The angles were taken for degrees. They are radians, as math.cos wants them.",
            ),
            (
                _score(q, k, m - n, theta, sign=0),
                "The part with the sine is missing: it is q_a k_b − q_b k_a times sin((m − n)θ_i).",
            ),
        ]
        hint = "Turn each pair (i, i + D/2) of q by m·θ^(−2i/D) and of k by n·θ^(−2i/D); multiply, add up."
        attempt.match(float(got), expected, close, wrong=wrong, hint=hint)


@checker("rope.backward", 2, autograd=False)
def backward(attempt: Attempt) -> None:
    """`fn(grad_out, cos, sin)` is the gradient by x of `apply_rotary_emb(x, cos, sin)`."""
    seeded = torch.Generator().manual_seed(0)
    for (batch, length, heads, head_dim), first in [
        ((1, 2, 3, 4), 1),
        ((2, 3, 3, 8), 5),
        ((3, 4, 1, 6), 0),
        ((1, 5, 2, 64), 100),
    ]:
        grad_out = torch.randn(batch, length, heads, head_dim, generator=seeded)
        cos, sin = (t[first:] for t in precompute_freqs_cis(head_dim, first + length))
        on_error = {(RuntimeError, "must match the size of tensor"): WRONG_AXIS}
        got = attempt(grad_out=grad_out, cos=cos, sin=sin, on_error=on_error)
        expected = apply_rotary_emb(grad_out, cos, -sin)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return one tensor, the gradient by x.")
        if got.shape != expected.shape:
            attempt.fail(
                f"shape {tuple(expected.shape)}",
                f"shape {tuple(got.shape)}",
                "The gradient by x has the shape of x, which is the shape of grad_out.",
            )
        wrong = [
            (apply_rotary_emb(grad_out, cos, sin), WRONG_WAY),
            (grad_out, "grad_out came back as it was: turn it back by each position's angle."),
            (
                apply_rotary_emb(grad_out, -cos, sin),
                "The sign was changed at cos; then every vector also flips. Change it at sin: cos is even.",
            ),
            (
                apply_rotary_emb_interleaved(grad_out, cos, -sin),
                "This turns neighbors (0, 1), (2, 3), …; here entry i is paired with i + D/2.",
            ),
            (apply_rotary_emb(grad_out, sin, -cos), "cos and sin have changed places."),
            (
                grad_out * cos[:, None],
                "Half of it: the part with sin, which came through rotate_half, is missing.",
            ),
        ]
        hint = "out = R x with R a rotation, so the gradient by x is Rᵀ grad_out, and Rᵀ turns by −m·θ."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


def _turn(w, positions: int, theta: float, turn=apply_rotary_emb):
    """The columns of w (D, C) turned by `positions` tokens, which may be negative."""
    cos, sin = precompute_freqs_cis(len(w), abs(positions) + 1, theta)
    sign = 1 if positions >= 0 else -1
    return turn(w.T[:, None, None], cos[-1:], sign * sin[-1:])[:, 0, 0].T


@checker("rope.look_back", 3)
def look_back(attempt: Attempt) -> None:
    """`fn(wk, distance, theta)`: the query matrix (D, C) that looks for its own token `distance` back."""
    seeded = torch.Generator().manual_seed(0)
    for head_dim, width, distance, theta in [
        (4, 3, 1, 10000.0),
        (8, 8, 3, 10000.0),
        (16, 5, 12, 500.0),
        (64, 2, 50, 10000.0),
    ]:
        wk = torch.randn(head_dim, width, generator=seeded)
        got = attempt(wk=wk, distance=distance, theta=theta)
        expected = _turn(wk, -distance, theta)
        if not torch.is_tensor(got) or got.shape != wk.shape:
            came = f"shape {tuple(got.shape)}" if torch.is_tensor(got) else show(got)
            attempt.fail(
                f"shape {tuple(wk.shape)}", came, "Return the query matrix, of the shape of wk, (D, C)."
            )
        wrong = [
            (
                _turn(wk, distance, theta),
                "This turns ahead: the score is largest for a key still to come. Turn the other way.",
            ),
            (wk, "This is wk itself: then the score is largest at distance 0."),
            (-wk, "This is −wk, whose score at distance 0 is the smallest."),
            (
                _turn(wk, -distance, theta, apply_rotary_emb_interleaved),
                "Right for pairs (0, 1), (2, 3), …; here row i is paired with row i + D/2.",
            ),
            (_turn(wk, 1 - distance, theta), "One token short: from m to m − distance are `distance` steps."),
            (
                _turn(wk, -1 - distance, theta),
                "One token too far: from m to m − distance are `distance` steps.",
            ),
            (_turn(wk, -distance, 10000.0), "θ is given: do not take 10,000 for granted."),
        ]
        if head_dim == width:
            by_rows = (
                "The rows were turned, which belong to inputs. wk is (D, C): turn each column, a vector of D."
            )
            wrong.append((_turn(wk.T, -distance, theta).T, by_rows))
        hint = (
            "⟨R_m q, R_n k⟩ = ⟨q, R_(n−m) k⟩ and n − m = −distance: which q as long as k points along that?"
        )
        attempt.match(got.detach(), expected, _nearly, wrong=wrong, hint=hint)


def _nearly(a, b) -> bool:
    """Angles computed in float32 are accepted."""
    return close(a, b, 1e-4)


@checker("rope.new_base", 4)
def new_base(attempt: Attempt) -> None:
    """`fn(theta, head_dim, factor)`: the base at which the slowest plane turns `factor` times slower."""
    for theta, head_dim, factor in [
        (10000.0, 8, 4.0),
        (10000.0, 64, 8.0),
        (500000.0, 128, 32.0),
        (10000.0, 4, 2.0),
        (10000.0, 64, 1.0),
    ]:
        got = attempt(theta=theta, head_dim=head_dim, factor=factor)
        exponent = head_dim / (head_dim - 2)
        expected = theta * factor**exponent
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, int | float):
            attempt.fail(show(expected), show(got), "Return one number, the new base.")
        wrong = [
            (
                theta * factor,
                "Not enough: this slows the slowest plane by factor^((D − 2)/D), for its exponent is "
                "−(D − 2)/D and not −1.",
            ),
            (theta * factor ** (1 / exponent), "The exponent is upside down: it must undo (D − 2)/D."),
            (
                theta * factor ** (head_dim / 2),
                "Planes count in pairs: the last has i = D/2 − 1, so the exponent of θ is −(D − 2)/D.",
            ),
            (
                theta * factor ** (head_dim / (head_dim - 1)),
                "The slowest plane has i = D/2 − 1, so the exponent of θ is −2i/D = −(D − 2)/D.",
            ),
            (theta / factor**exponent, "That makes the planes faster. A larger base turns them slower."),
            (theta / factor, "That makes the planes faster. A larger base turns them slower."),
            (factor**exponent, "This is by how much the base grows: multiply by the old one."),
            (theta, "This is the old base."),
        ]
        hint = "Solve θ'^(−(D−2)/D) = θ^(−(D−2)/D) / factor for θ'."
        attempt.match(float(got), expected, _relatively, wrong=wrong, hint=hint)


def _relatively(a, b) -> bool:
    return isinstance(a, float) and abs(a - b) <= 1e-6 * abs(b)
