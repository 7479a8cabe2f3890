"""Checkers of the exercises on attention."""

import math

import torch

from .machinery import Attempt, checker, close, show

NO_CENTERING = "The mean of the gradient, weighted by p, must be subtracted: every score moves every weight."
PLAIN_MEAN = "Subtract the mean weighted by p, Σ p·u, not the plain mean over the keys."
PLAIN_SUM = "Subtract the sum weighted by p, Σ p·u, not the plain sum over the keys."
SUMMED = "Σ p·u was taken over the whole tensor. Each row has its own: sum(-1, keepdim=True)."
KEEPDIM = "sum(-1) drops the last axis, so the shapes do not fit. Keep it: sum(-1, keepdim=True)."
NO_WEIGHT = "The factor p in front is missing: a key that is not heard does not answer to its score."
SIGN = "The sign is wrong: p·(u − Σ p·u), with a minus."
FORWARD_AGAIN = "p holds the weights already: no softmax is taken here."

INVERTED = "True and False are swapped. In this book True means: may attend."
TOP_LEFT = "The queries are the last ones: query i stands at position kv_len − q_len + i."
WINDOW_TOP_LEFT = (
    "The causal edge is right; the window's other edge is aligned with the top left. Shift it, too."
)
NO_WINDOW = "The causal half is right; the window is missing: keys too far back must be hidden."
NO_CAUSE = "The window reaches into the future: a key after the query must be hidden."
ONE_MORE = "One key too many: `window` counts the query's own position."
ONE_LESS = "One key too few: `window` counts the query's own position."
NOT_BOOL = "Return a bool tensor: True where the query may attend."

PAD_KEPT = "The causal half is right; keys on padding must be hidden too."
RIGHT_PADDED = "Padding stands on the left here: the last lengths[b] of T places are real."
COUNTED = "lengths[b] counts the real tokens; the first t − lengths[b] places are the padding."
NO_CAUSAL = "Padding is hidden; the future is not. Combine with the causal triangle by &."
ROWS = "The padded queries were emptied, and the padded keys left in view. Hide keys: the last axis."
HEAD_AXIS = "The shape must be (B, 1, T, T): the 1 lets every head share the mask."

AVERAGE = "The two outputs were averaged. Each counts by the exponentials behind it, l · e^(m − max)."
NO_RESCALE = "The sums l belong to different maxima: bring both to the larger one first, with e^(m − max)."
NOT_DIVIDED = (
    "Divide by the common sum of exponentials in the end: o1 and o2 were normalized each by its own."
)
OVERFLOW = "Subtract the larger of the two maxima before you exponentiate; e^m alone overflows or vanishes."
SWAPPED = "The weights of the two halves are swapped."


def _lost_axis(x) -> dict:
    """Hints for the error that x meets when its sum has lost the last axis."""
    if x.dim() == 1:
        return {}
    return {(RuntimeError, f"size of tensor {which} ({x.shape[-2]})"): KEEPDIM for which in "ab"}


@checker("attention.softmax_backward", 1, autograd=False)
def softmax_backward(attempt: Attempt) -> None:
    """`fn(p, grad_p)` returns the gradient by the scores, for p = softmax(scores) of shape (..., S)."""
    seeded = torch.Generator().manual_seed(0)
    for shape in [(2, 3), (4,), (3, 2, 5), (2, 2, 4, 4), (3, 1)]:
        p = torch.randn(shape, generator=seeded, dtype=torch.float64).softmax(-1)
        u = torch.randn(shape, generator=seeded, dtype=torch.float64)
        got = attempt(p=p, grad_p=u, on_error=_lost_axis(p))
        inner = (p * u).sum(-1, keepdim=True)
        expected = p * (u - inner)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of the shape of p.")
        got = got.detach()
        wrong = [
            (p * u, NO_CENTERING),
            (p * (1 - p) * u, "Only the diagonal of the Jacobian was used. " + NO_CENTERING),
            (p * (u - u.mean(-1, keepdim=True)), PLAIN_MEAN),
            (p * (u - u.sum(-1, keepdim=True)), PLAIN_SUM),
            (p * (u - (p * u).mean(-1, keepdim=True)), "The sum Σ p·u was divided by the number of keys."),
            (p * (u - (p * u).sum()), SUMMED),
            (u - inner, NO_WEIGHT),
            (p * (u + inner), SIGN),
            (p * (inner - u), SIGN),
            (p.softmax(-1) * (u - (p.softmax(-1) * u).sum(-1, keepdim=True)), FORWARD_AGAIN),
        ]
        hint = "Row i of the Jacobian is p_i (δ_ij − p_j). Multiply by u_j, sum over j, and see what is left."
        if got.shape != expected.shape:
            hint = "The shape must be that of p: one number for each score."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


def _bool_only(attempt: Attempt, got, expected) -> None:
    if not torch.is_tensor(got):
        attempt.fail(show(expected), show(got), "Return a tensor.")
    if got.dtype != torch.bool and got.shape == expected.shape:
        hint = NOT_BOOL
        if got.is_floating_point() and (got == -math.inf).any():
            hint = "This is a mask to be added to the scores. " + NOT_BOOL
        attempt.fail("dtype bool", f"dtype {str(got.dtype).removeprefix('torch.')}", hint)


def _equal(a, b) -> bool:
    return torch.is_tensor(a) and torch.is_tensor(b) and a.shape == b.shape and torch.equal(a, b)


def _distance(q_len: int, kv_len: int, offset: int):
    return torch.arange(q_len)[:, None] + offset - torch.arange(kv_len)


@checker("attention.window_mask", 2)
def window_mask(attempt: Attempt) -> None:
    """`fn(q_len, kv_len, window)` is causal_mask cut to the last `window` keys, own one included."""
    for q_len, kv_len, window in [(5, 7, 3), (4, 4, 2), (6, 6, 1), (1, 9, 4), (3, 5, 99), (3, 2, 2)]:
        got = attempt(q_len=q_len, kv_len=kv_len, window=window)
        d = _distance(q_len, kv_len, kv_len - q_len)  # how far back each key lies
        t = _distance(q_len, kv_len, 0)
        expected = (d >= 0) & (d < window)
        _bool_only(attempt, got, expected)
        wrong = [
            (~expected, INVERTED),
            ((t >= 0) & (t < window), TOP_LEFT),
            (~((t >= 0) & (t < window)), f"{INVERTED} {TOP_LEFT}"),
            (d >= 0, NO_WINDOW),
            ((d >= 0) & (t < window), WINDOW_TOP_LEFT),
            (d < window, NO_CAUSE),
            (d.abs() < window, NO_CAUSE),
            ((d >= 0) & (d <= window), ONE_MORE),
            ((d >= 0) & (d < window - 1), ONE_LESS),
            (
                (d > 0) & (d <= window),
                "The query must see itself: distance 0 is the first of its `window` keys.",
            ),
        ]
        hint = (
            "A key at distance d = (position of the query) − (position of the key) is seen if 0 ≤ d < window."
        )
        if got.shape != expected.shape:
            hint = "The shape must be (q_len, kv_len): a row for each query, a column for each key."
        attempt.match(got, expected, _equal, wrong=wrong, hint=hint)


@checker("attention.padded_mask", 3)
def padded_mask(attempt: Attempt) -> None:
    """`fn(lengths, t)` is the causal mask (B, 1, T, T) of a left-padded batch; padding is never a key."""
    for values, t in [([3, 5, 1], 5), ([4], 4), ([2, 3], 4), ([1, 6, 6, 2], 6)]:
        lengths = torch.tensor(values)
        got = attempt(lengths=lengths, t=t)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        real = torch.arange(t) >= t - lengths[:, None]  # (B, T)
        keys, queries = real[:, None, None, :], real[:, None, :, None]
        expected = causal & keys
        _bool_only(attempt, got, expected)
        right = (torch.arange(t) < lengths[:, None])[:, None, None, :]
        everyone = causal.expand(len(values), 1, t, t)
        wrong = [
            (~expected, INVERTED),
            (everyone, PAD_KEPT),
            (causal & (torch.arange(t) >= lengths[:, None])[:, None, None, :], COUNTED),
            (causal & right, RIGHT_PADDED),
            (~(causal & right), f"{INVERTED} {RIGHT_PADDED}"),
            (keys.expand_as(expected), NO_CAUSAL),
            (causal & queries, ROWS),
            (causal & ~keys, "The padded keys were kept and the real ones hidden."),
            (causal.T & keys, "The triangle is upside down: a query sees the keys before it, not behind."),
        ]
        hint = "Key j of row b is real when j ≥ t − lengths[b]; give that the shape (B, 1, 1, T) and combine."
        if got.shape == expected[:, 0].shape or got.shape != expected.shape:
            hint = HEAD_AXIS
        attempt.match(got, expected, _equal, wrong=wrong, hint=hint)


def _halves(s, v):
    m = s.amax(-1)
    e = (s - m[..., None]).exp()
    total = e.sum(-1)
    return m, total, (e @ v) / total[..., None]


@checker("attention.merge", 4)
def merge(attempt: Attempt) -> None:
    """`fn(m1, l1, o1, m2, l2, o2)`: attention over two blocks of keys from the results for each block."""
    seeded = torch.Generator().manual_seed(0)
    for queries, sizes, spread, level in [
        (2, (3, 2), 1, 0),
        (3, (1, 6), 3, 0),
        (1, (4, 4), 2, 1e3),
        (4, (2, 3), 2, -1e3),
    ]:
        s = level + spread * torch.randn(queries, sum(sizes), generator=seeded, dtype=torch.float64)
        v = torch.randn(sum(sizes), 3, generator=seeded, dtype=torch.float64)
        one = _halves(s[:, : sizes[0]], v[: sizes[0]])
        two = _halves(s[:, sizes[0] :], v[sizes[0] :])
        names = ("m1", "l1", "o1", "m2", "l2", "o2")
        got = attempt(**dict(zip(names, (*one, *two), strict=True)))
        expected = s.softmax(-1) @ v  # (T, Dv)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return one tensor, the output (T, Dv) for all keys.")
        (m1, l1, o1), (m2, l2, o2) = one, two
        m = torch.maximum(m1, m2)
        a, b = l1 * (m1 - m).exp(), l2 * (m2 - m).exp()  # (T,)
        wrong = [
            ((o1 + o2) / 2, AVERAGE),
            (_mix(l1, l2, o1, o2), NO_RESCALE),
            (
                _mix((m1 - m).exp(), (m2 - m).exp(), o1, o2),
                "The sums l1 and l2 are missing from the weights.",
            ),
            (a[:, None] * o1 + b[:, None] * o2, NOT_DIVIDED),
            ((a[:, None] * o1 + b[:, None] * o2) / (l1 + l2)[:, None], NOT_DIVIDED),
            (_mix(b, a, o1, o2), SWAPPED),
            (o1 + o2, AVERAGE),
            (torch.where((m1 > m2)[:, None], o1, o2), "The half with the smaller maximum counts, too."),
            (
                _mix(l1 * (m - m1).exp(), l2 * (m - m2).exp(), o1, o2),
                "The exponent has the wrong sign: e^(m − max).",
            ),
            (_mix(l1 * m1.exp(), l2 * m2.exp(), o1, o2), OVERFLOW),
        ]
        hint = "With m = max(m1, m2), block 1 holds l1·e^(m1 − m) of the exponentials: weigh o1 by its share."
        if not got.isfinite().all() and got.shape == expected.shape:
            hint = OVERFLOW
        if got.shape != expected.shape:
            hint = "The result must be of the shape of o1, (T, Dv); give the weights a last axis: w[:, None]."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


def _mix(a, b, o1, o2):
    share = (a / (a + b))[:, None]
    return share * o1 + (1 - share) * o2
