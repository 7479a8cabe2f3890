"""Checkers of the exercises on grouped-query attention and the KV cache."""

import itertools
import math

import torch
from torch.overrides import TorchFunctionMode

from .machinery import Attempt, checker, close, show

ONE_OF_TWO = "Twice as much: keys *and* values are kept."
QUERY_HEADS = "Only key/value heads are kept; how many query heads read them changes nothing."
NO_LAYERS = "Every layer keeps its own keys and values: multiply by the number of layers."
NO_BATCH = "Each text of the batch has a cache of its own: multiply by the batch."
NO_BYTES = "These are the values that are kept; multiply by the bytes that each takes."
BITS = "These are bits; bytes_per_value is in bytes already."
SQUARED = "A cache grows with the number of tokens, not with its square: scores are not kept."
TILED = (
    "The heads come in turns, [a, b, a, b]. Query heads 0 and 1 then read different heads: "
    "repeat each in place, [a, a, b, b]."
)
WRONG_AXIS = "Another axis was repeated. In (B, T, G, D) the heads are axis 2."
INVERTED = "Inverted: True means that a query may attend."
TOP_LEFT = (
    "The queries were taken for the first of the sequence. They follow `past` tokens: "
    "query i stands at position past + i."
)
STRICT = "A token may attend to itself as well: position past + i is included."
EMPTY_ROWS = "Rows of the buffer from past + new on hold nothing yet; no query may see them."
NO_PAST = "The queries must see what came before them: the first `past` columns are True."
NO_SCALE = "The scores were not divided by √D."
ONE_GROUP = "All query heads read the same key/value head. Head h reads head h // (H / G)."
OWN_SCALE = "Divide by the square root of the head dimension D, the last axis of q."


@checker("gqa.cache_bytes", 1)
def cache_bytes(attempt: Attempt) -> None:
    """`fn(n_layers, n_q_heads, n_kv_heads, head_dim, n_tokens, batch, bytes_per_value)`: a cache's bytes."""
    # No factor of the first input divides another's place: each mistake gives its own number.
    cases = [
        (3, 10, 5, 7, 11, 13, 4),
        (12, 8, 2, 64, 2048, 1, 4),
        (32, 32, 32, 128, 4096, 1, 2),
        (80, 64, 8, 128, 4096, 16, 2),
        (1, 4, 1, 2, 0, 1, 4),
    ]
    names = ("n_layers", "n_q_heads", "n_kv_heads", "head_dim", "n_tokens", "batch", "bytes_per_value")
    for case in cases:
        got = attempt(**dict(zip(names, case, strict=True)))
        layers, heads, kv_heads, dim, tokens, batch, size = case
        expected = 2 * layers * kv_heads * dim * tokens * batch * size
        if not isinstance(got, int | float) or isinstance(got, bool):
            attempt.fail(show(expected), show(got), "Return one number.")
        wrong = [
            (expected // 2, ONE_OF_TWO),
            (expected // kv_heads * heads, QUERY_HEADS),
            (expected // kv_heads * heads // 2, f"{ONE_OF_TWO} And: {QUERY_HEADS}"),
            (expected // kv_heads * (heads // kv_heads), QUERY_HEADS),
            (expected // layers, NO_LAYERS),
            (expected // batch, NO_BATCH),
            (expected // size, NO_BYTES),
            (expected * 8, BITS),
            (expected * tokens, SQUARED),
        ]
        hint = "Count the values first: two tensors, and the five sizes that each has. Then the bytes."
        attempt.match(got, expected, _equal, wrong=wrong, hint=hint)


def _equal(a, b) -> bool:
    return a == b


@checker("gqa.repeat_heads", 2)
def repeat_heads(attempt: Attempt) -> None:
    """`fn(x, n_rep)` repeats each head of x (B, T, G, D) in place: (B, T, G·n_rep, D)."""
    seeded = torch.Generator().manual_seed(0)
    for shape, n_rep in [((1, 1, 2, 1), 2), ((2, 3, 2, 4), 3), ((1, 5, 3, 2), 1), ((2, 1, 1, 6), 8)]:
        x = torch.randn(shape, generator=seeded)
        if shape == (1, 1, 2, 1):
            x = torch.tensor([10.0, 20.0]).view(shape)
        got = attempt(x=x, n_rep=n_rep)
        expected = x.repeat_interleave(n_rep, 2)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of shape (B, T, G·n_rep, D).")
        wrong = [
            (x.repeat(1, 1, n_rep, 1), TILED),
            (x.repeat_interleave(n_rep, 1), WRONG_AXIS),
            (x.repeat_interleave(n_rep, 3), WRONG_AXIS),
            (x.repeat_interleave(n_rep, 0), WRONG_AXIS),
            (x, "These are the heads as they came: each must appear n_rep times."),
            (expected.transpose(1, 2), "The right heads, transposed: keep (B, T, heads, D)."),
            (
                x[:, :, :, None].expand(*shape[:3], n_rep, shape[3]),
                "The copies are there, on an axis of their own: merge it with the heads, "
                "reshape(B, T, G·n_rep, D).",
            ),
        ]
        hint = "Head j of the result is head j // n_rep of x."
        if got.shape != expected.shape:
            hint = f"{hint} The shape must be (B, T, G·n_rep, D) = {tuple(expected.shape)}."
        attempt.match(got, expected, _same, wrong=wrong, hint=hint)


def _same(a, b) -> bool:
    return a.shape == b.shape and torch.equal(a.double(), b.double())


@checker("gqa.buffer_mask", 3)
def buffer_mask(attempt: Attempt) -> None:
    """`fn(past, new, max_len)` says what `new` queries may see of a buffer that held `past` rows."""
    for past, new, max_len in [(2, 3, 7), (0, 4, 4), (0, 3, 5), (5, 1, 8), (3, 2, 5), (0, 1, 1)]:
        got = attempt(past=past, new=new, max_len=max_len)
        at = past + torch.arange(new)[:, None]  # (new, 1)
        row = torch.arange(max_len)  # (max_len,)
        expected = row <= at
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a bool tensor of shape (new, max_len).")
        if got.shape == expected.shape and got.dtype != torch.bool:
            came = str(got.dtype).removeprefix("torch.")
            attempt.fail("dtype bool", f"dtype {came}", "Return a bool tensor; a comparison gives one.")
        written = (row < past + new).expand(new, max_len)
        wrong = [
            (~expected, INVERTED),
            (row <= at - past, TOP_LEFT),
            (row < at, STRICT),
            (row > at - 1, f"{INVERTED} {STRICT}"),
            (written, "Within the new tokens, too, none may see a later one."),
            (torch.ones(new, max_len, dtype=torch.bool), EMPTY_ROWS),
            ((row >= past) & expected, NO_PAST),
            (row <= at + max_len - past - new, EMPTY_ROWS),  # bottom-right of the whole buffer
        ]
        hint = "Query i stands at position past + i. It sees the rows up to there, its own included."
        if got.shape != expected.shape:
            hint = f"One row for each query, one column for each place of the buffer. {hint}"
        attempt.match(got, expected, _same, wrong=wrong, hint=hint)


def _attend(q, k, v, *, head=None, scale=None):
    """One query for each of H heads; `head[h]` is the key/value head that it reads."""
    h, g = q.shape[1], k.shape[1]
    head = torch.arange(h) // (h // g) if head is None else torch.tensor(head)
    k, v = k[:, head], v[:, head]  # (B, H, S, D)
    scores = (q[:, :, None] * k).sum(-1) * (q.shape[-1] ** -0.5 if scale is None else scale)  # (B, H, S)
    return (scores.softmax(-1)[..., None] * v).sum(2)  # (B, H, D)


@checker("gqa.decode", 4)
def decode(attempt: Attempt) -> None:
    """`fn(q, k, v)` attends from one new token, q (B, H, D), to k, v (B, G, S, D), and copies no key."""
    seeded = torch.Generator().manual_seed(0)
    for b, h, g, s, d in [
        (1, 4, 2, 3, 8),
        (2, 8, 2, 5, 4),
        (1, 3, 3, 2, 4),
        (2, 6, 1, 4, 2),
        (1, 2, 2, 1, 4),
    ]:
        q = torch.randn(b, h, d, generator=seeded, dtype=torch.float64)
        k, v = (torch.randn(b, g, s, d, generator=seeded, dtype=torch.float64) for _ in range(2))
        with _Copies(b * h * s * d if h > g else math.inf) as copies:
            got = attempt(q=q, k=k, v=v)
        expected = _attend(q, k, v)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor (B, H, D).")
        wrong = [
            (_attend(q, k, v, head=[i % g for i in range(h)]), TILED),
            (_attend(q, k, v, scale=1.0), NO_SCALE),
            (_attend(q, k, v, scale=1 / d), "The scores were divided by D; divide by its square root."),
            (_attend(q, k, v, scale=(g * d) ** -0.5), OWN_SCALE),
            (_attend(q, k, v, scale=(h * d) ** -0.5), OWN_SCALE),
            (_attend(q, k, v, scale=s**-0.5), OWN_SCALE),
            (_attend(q, k, v, head=[0] * h), ONE_GROUP),
            (_attend(q, k, k), "The mixture was taken of the keys; weights multiply the values."),
            (
                v.mean(2).repeat_interleave(h // g, 1),
                "Every key got the same weight: do the scores reach the softmax?",
            ),
            (
                expected.view(b, g, h // g, d),
                "The right numbers, still sorted by group: view them as (B, H, D).",
            ),
            *((each, "The softmax must run over the S keys.") for each in _other_softmax(q, k, v)),
        ]
        hint = "Head h reads key/value head h // (H / G). View q as (B, G, H / G, D); two products follow."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)
        if copies.made:
            attempt.fail(
                "keys and values read where they lie",
                f"a new tensor of {b * h * s * d} entries or more",
                "The result is right, but on the way it made a tensor as large as the repeated keys. "
                "Let the query heads of a group be the rows of one product.",
            )


def _other_softmax(q, k, v):
    """Answers with the softmax over the heads of a group, or over the groups."""
    b, h, d = q.shape
    rows = q.view(b, k.shape[1], -1, d)  # (B, G, H / G, D)
    scores = rows @ k.transpose(-2, -1) / math.sqrt(d)  # (B, G, H / G, S)
    return [(scores.softmax(axis) @ v).view(b, h, d) for axis in (1, 2)]


class _Copies(TorchFunctionMode):
    """Notices a result in new storage of `size` entries or more: what repeated keys would take."""

    def __init__(self, size):
        super().__init__()
        self.size, self.made = size, False

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        out = function(*arguments, **(keywords or {}))
        given = {t.untyped_storage().data_ptr() for t in _tensors(arguments)}
        for each in _tensors([out]):
            if each.untyped_storage().data_ptr() not in given:
                self.made |= each.untyped_storage().nbytes() >= self.size * each.element_size()
        return out


def _tensors(values) -> list:
    """The tensors among the values, and in lists and tuples among them."""
    flat = (each if isinstance(each, list | tuple) else [each] for each in values)
    return [t for t in itertools.chain.from_iterable(flat) if torch.is_tensor(t)]
