"""Checkers of the exercises on RoPE."""

import math

import torch

from ..rope import apply_rotary_emb, apply_rotary_emb_interleaved, precompute_freqs_cis
from .machinery import Attempt, checker, close, show

CLOCKWISE = "This turns clockwise. Counterclockwise, x' = x cos − y sin and y' = x sin + y cos."
OLD_X = "y' was computed from the new x. Keep the old one: both lines need the x and y that came in."
ONCE = "This turns by θ, whatever the position. Turn by m·θ."
DEGREES = "The angle was taken for degrees. θ is in radians, and so is what math.cos and math.sin want."
WRONG_WAY = (
    "This turns forward once more. The gradient of a rotation turns back: change the sign of one table."
)
WRONG_AXIS = (
    "The tables met the wrong axis: each position has its angle, shared by all heads. Give them a head axis, "
    "(T, 1, D)."
)


def _turned(x, y, angle):
    c, s = math.cos(angle), math.sin(angle)
    return x * c - y * s, x * s + y * c


@checker("rope.by_hand", 1)
def by_hand(attempt: Attempt) -> None:
    """`fn(x, y, m, theta)` turns the point (x, y) counterclockwise by m·theta radians: plain Python."""
    cases = [
        (3.0, 1.0, 2, 0.4),
        (1.0, 0.0, 1, math.pi / 2),
        (-0.5, 2.0, 0, 0.7),
        (1.5, -2.0, 7, 0.1),
        (0.3, 0.4, 1000, 1.0),
    ]
    for x, y, m, theta in cases:
        got = attempt(x=x, y=y, m=m, theta=theta)
        expected = _turned(x, y, m * theta)
        if isinstance(got, complex):
            attempt.fail(
                show(expected), show(got), "The right idea perhaps: return the pair (z.real, z.imag)."
            )
        pair = isinstance(got, tuple | list) and len(got) == 2
        if not pair or not all(isinstance(v, int | float) for v in got):
            attempt.fail(show(expected), show(got), "Return a pair of two floats, (x', y').")
        new_x = expected[0]
        c, s = math.cos(m * theta), math.sin(m * theta)
        wrong = [
            (_turned(x, y, -m * theta), CLOCKWISE),
            ((new_x, new_x * s + y * c), OLD_X),
            ((expected[1], expected[0]), "The right numbers, swapped: x' comes first."),
            ((new_x, y * c - x * s), "The second line has a sign too many: y' = x sin + y cos."),
            ((x * c + y * s, expected[1]), "The first line needs a minus: x' = x cos − y sin."),
            (_turned(x, y, theta), ONCE),
            (_turned(x, y, math.radians(m * theta)), DEGREES),
            (_turned(x, y, theta**m), "The angles add up: m steps turn by m·θ, not by θ to the power m."),
            (_turned(x, y, (m + 1) * theta), "Positions count from 0 here: turn by m·θ, not by (m + 1)·θ."),
            ((x * c, y * s), "Each new coordinate needs both old ones: x' = x cos − y sin, and so on."),
        ]
        hint = "Let a = m·θ; then x' = x cos a − y sin a and y' = x sin a + y cos a."
        attempt.match(tuple(got), expected, close, wrong=wrong, hint=hint)


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


def _turn(k, positions: int, theta: float, turn=apply_rotary_emb):
    """The vector k (D,) turned by `positions` tokens, which may be negative."""
    cos, sin = precompute_freqs_cis(len(k), abs(positions) + 1, theta)
    sign = 1 if positions >= 0 else -1
    return turn(k.view(1, 1, 1, -1), cos[-1:], sign * sin[-1:]).flatten()


@checker("rope.look_back", 3)
def look_back(attempt: Attempt) -> None:
    """`fn(k, distance, theta)`: the query as long as k (D,) whose score is largest `distance` tokens back."""
    seeded = torch.Generator().manual_seed(0)
    for head_dim, distance, theta in [(4, 1, 10000.0), (8, 3, 10000.0), (16, 12, 500.0), (64, 50, 10000.0)]:
        k = torch.randn(head_dim, generator=seeded)
        got = attempt(k=k, distance=distance, theta=theta)
        expected = _turn(k, -distance, theta)
        if not torch.is_tensor(got) or got.shape != k.shape:
            came = f"shape {tuple(got.shape)}" if torch.is_tensor(got) else show(got)
            attempt.fail(f"shape {tuple(k.shape)}", came, "Return the query: one vector of the length of k.")
        wrong = [
            (
                _turn(k, distance, theta),
                "This query is turned ahead: its score is largest for a key `distance` tokens to come. "
                "Turn k the other way.",
            ),
            (k, "This is k itself: its score is largest at distance 0."),
            (-k, "This is −k, whose score at distance 0 is the smallest."),
            (
                _turn(k, -distance, theta, apply_rotary_emb_interleaved),
                "Right for pairs (0, 1), (2, 3), …; here entry i is paired with i + D/2.",
            ),
            (_turn(k, 1 - distance, theta), "One token short: from m to m − distance are `distance` steps."),
            (
                _turn(k, -1 - distance, theta),
                "One token too far: from m to m − distance are `distance` steps.",
            ),
            (_turn(k, -distance, 10000.0), "θ is given: do not take 10,000 for granted."),
        ]
        hint = (
            "⟨R_m q, R_n k⟩ = ⟨q, R_(n−m) k⟩ and n − m = −distance: which q as long as k points along that?"
        )
        parallel = got.detach().double() / got.detach().double().norm().clamp_min(1e-30) * k.double().norm()
        if close(parallel, expected, 1e-4) and not close(got, expected, 1e-4):
            hint = "The direction is right. Keep the length of k."
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
