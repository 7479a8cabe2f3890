"""Checkers of chapter 5: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math

import pytest
import torch
from torch.nn import functional as F

import minillama
from minillama import checks
from minillama.checks import gqa

ALL = [gqa.cache_bytes, gqa.repeat_heads, gqa.buffer_mask, gqa.decode]


def size(layers, heads, kv_heads, dim, tokens, batch, each):
    return 2 * layers * kv_heads * dim * tokens * batch * each


def by_package(layers, heads, kv_heads, dim, tokens, batch, each):
    config = minillama.MiniLLaMAConfig(
        n_layers=layers, n_q_heads=heads, n_kv_heads=kv_heads, head_dim=dim + dim % 2, max_seq_len=tokens + 1
    )
    return minillama.accounting.kv_cache_bytes(config, batch, tokens, each) * dim // config.head_dim


def expanded(x, n_rep):
    b, t, g, d = x.shape
    return x[:, :, :, None].expand(b, t, g, n_rep, d).reshape(b, t, g * n_rep, d)


def by_index(x, n_rep):
    return x[:, :, torch.arange(x.shape[2] * n_rep) // n_rep]


def mask(past, new, max_len):
    return torch.arange(max_len) <= past + torch.arange(new)[:, None]


def padded_mask(past, new, max_len):
    return F.pad(minillama.causal_mask(new, past + new), (0, max_len - past - new))


def looped_mask(past, new, max_len):
    return torch.tensor([[j <= past + i for j in range(max_len)] for i in range(new)])


def grouped(q, k, v, softmax=-1, scale=None):
    rows = q.view(q.shape[0], k.shape[1], -1, q.shape[-1])  # (B, G, H / G, D)
    scores = rows @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return (scores.softmax(softmax) @ v).reshape(q.shape)


def by_einsum(q, k, v):
    rows = q.view(q.shape[0], k.shape[1], -1, q.shape[-1])
    weights = (torch.einsum("bgrd,bgsd->bgrs", rows, k) / math.sqrt(q.shape[-1])).softmax(-1)
    return torch.einsum("bgrs,bgsd->bgrd", weights, v).flatten(1, 2)


def fused(q, k, v):
    rows = q.view(q.shape[0], k.shape[1], -1, q.shape[-1])
    return F.scaled_dot_product_attention(rows, k, v).flatten(1, 2)


def looped(q, k, v):
    group = q.shape[1] // k.shape[1]
    heads = [
        ((q[:, h, None] @ k[:, h // group].mT / math.sqrt(q.shape[-1])).softmax(-1) @ v[:, h // group])[:, 0]
        for h in range(q.shape[1])
    ]
    return torch.stack(heads, 1)


def with_keys(q, k, v, head):
    k, v = k[:, head], v[:, head]
    return ((q[:, :, None] @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v)[:, :, 0]


def repeated(q, k, v):
    return with_keys(q, k, v, torch.arange(q.shape[1]) // (q.shape[1] // k.shape[1]))


def tiled(q, k, v):
    return with_keys(q, k, v, torch.arange(q.shape[1]) % k.shape[1])


RIGHT = [
    (gqa.cache_bytes, size),
    (gqa.cache_bytes, lambda *a: float(size(*a))),
    (gqa.cache_bytes, by_package),
    (gqa.repeat_heads, minillama.repeat_kv),
    (gqa.repeat_heads, expanded),
    (gqa.repeat_heads, by_index),
    (gqa.repeat_heads, lambda x, n: torch.stack([x] * n, 3).flatten(2, 3)),
    (gqa.buffer_mask, mask),
    (gqa.buffer_mask, padded_mask),
    (gqa.buffer_mask, looped_mask),
    (gqa.buffer_mask, lambda p, n, m: torch.ones(n, m, dtype=torch.bool).tril(p)),
    (gqa.decode, grouped),
    (gqa.decode, by_einsum),
    (gqa.decode, fused),
    (gqa.decode, looped),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED
    inputs = {"cache_bytes": 5, "repeat_heads": 4, "buffer_mask": 6, "decode": 5}[check.__name__]
    assert capsys.readouterr().out == f"Exercise {ALL.index(check) + 1}: right on all {inputs} inputs.\n"
    assert result.name == f"gqa.{check.__name__}"


def stub(*arguments):
    pass  # your code


@pytest.mark.parametrize("check", ALL)
def test_a_stub_is_not_an_error(check, is_not_attempted):
    is_not_attempted(check, ALL.index(check) + 1, stub)


def changed(index):
    """The size with one factor left out."""
    return lambda *a: size(*a) // a[index]


WRONG = [
    (gqa.cache_bytes, lambda *a: size(*a) // 2, "keys *and* values"),
    (gqa.cache_bytes, lambda L, h, g, *a: size(L, h, h, *a), "Only key/value heads are kept"),
    (gqa.cache_bytes, lambda L, h, g, *a: size(L, h, h, *a) // 2, "keys *and* values are kept. And: Only"),
    (gqa.cache_bytes, lambda L, h, g, *a: size(L, h, h // g, *a), "Only key/value heads are kept"),
    (gqa.cache_bytes, changed(0), "Every layer keeps its own"),
    (gqa.cache_bytes, changed(5), "Each text of the batch"),
    (gqa.cache_bytes, changed(6), "multiply by the bytes"),
    (gqa.cache_bytes, lambda *a: 8 * size(*a), "These are bits"),
    (gqa.cache_bytes, lambda *a: size(*a) * a[4], "not with its square"),
    (gqa.cache_bytes, changed(3), "Count the values first"),
    (gqa.cache_bytes, lambda *a: "many", "Return one number"),
    (gqa.repeat_heads, lambda x, n: x.repeat(1, 1, n, 1), "The heads come in turns"),
    (gqa.repeat_heads, lambda x, n: torch.cat([x] * n, 2), "The heads come in turns"),
    (gqa.repeat_heads, lambda x, n: x.repeat_interleave(n, 1), "Another axis was repeated"),
    (gqa.repeat_heads, lambda x, n: x.repeat_interleave(n, 3), "Another axis was repeated"),
    (gqa.repeat_heads, lambda x, n: x, "each must appear n_rep times"),
    (gqa.repeat_heads, lambda x, n: expanded(x, n).transpose(1, 2), "transposed"),
    (gqa.repeat_heads, lambda x, n: torch.stack([x] * n, 3), "on an axis of their own"),
    (gqa.repeat_heads, lambda x, n: x.flatten(2), "The shape must be (B, T, G·n_rep, D) = (1, 1, 4, 1)"),
    (gqa.repeat_heads, lambda x, n: x.tolist(), "Return a tensor of shape"),
    (gqa.buffer_mask, lambda *a: ~mask(*a), "Inverted"),
    (gqa.buffer_mask, lambda p, n, m: mask(0, n, m), "taken for the first of the sequence"),
    (gqa.buffer_mask, lambda p, n, m: mask(p - 1, n, m), "may attend to itself as well"),
    (
        gqa.buffer_mask,
        lambda p, n, m: ~mask(p - 1, n, m),
        "Inverted: True means that a query may attend. A token",
    ),
    (gqa.buffer_mask, lambda p, n, m: mask(p + n - 1, 1, m).expand(n, m), "none may see a later one"),
    (gqa.buffer_mask, lambda p, n, m: torch.ones(n, m, dtype=torch.bool), "hold nothing yet"),
    (gqa.buffer_mask, lambda p, n, m: minillama.causal_mask(n, m), "hold nothing yet"),
    (gqa.buffer_mask, lambda p, n, m: mask(p, n, m) & (torch.arange(m) >= p), "must see what came before"),
    (gqa.buffer_mask, lambda *a: mask(*a).float(), "a comparison gives one"),
    (gqa.buffer_mask, lambda p, n, m: minillama.causal_mask(n, p + n), "one column for each place"),
    (gqa.buffer_mask, lambda p, n, m: mask(p + 1, n, m), "sees the rows up to there"),
    (gqa.buffer_mask, lambda p, n, m: mask(p, n, m).tolist(), "Return a bool tensor of shape"),
    (gqa.decode, tiled, "The heads come in turns"),
    (gqa.decode, lambda q, k, v: grouped(q, k, v, scale=1.0), "not divided by √D"),
    (gqa.decode, lambda q, k, v: grouped(q, k, v, scale=1 / q.shape[-1]), "divide by its square root"),
    (
        gqa.decode,
        lambda q, k, v: grouped(q, k, v, scale=(q.shape[1] * q.shape[2]) ** -0.5),
        "square root of the head dimension",
    ),
    (gqa.decode, lambda q, k, v: with_keys(q, k, v, [0] * q.shape[1]), "All query heads read the same"),
    (gqa.decode, lambda q, k, v: grouped(q, k, k), "taken of the keys"),
    (gqa.decode, lambda q, k, v: grouped(0 * q, k, v), "Every key got the same weight"),
    (gqa.decode, lambda q, k, v: grouped(q, k, v, softmax=2), "must run over the S keys"),
    (gqa.decode, lambda q, k, v: grouped(q, k, v, softmax=1), "must run over the S keys"),
    (gqa.decode, lambda q, k, v: grouped(q, k, v).unflatten(1, (k.shape[1], -1)), "still sorted by group"),
    (gqa.decode, repeated, "as large as the repeated keys"),
    (gqa.decode, lambda q, k, v: grouped(q, k, v) + 1, "Head h reads key/value head h // (H / G)"),
    (gqa.decode, lambda q, k, v: 1.0, "Return a tensor (B, H, D)"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, meets_its_hint):
    meets_its_hint(check, answer, hint, number=ALL.index(check) + 1)


def test_every_checker_knows_two_mistakes_at_least(knows_two_mistakes):
    for check in ALL:
        knows_two_mistakes(check, WRONG)
