"""Softmax, masks, explicit attention against PyTorch's, grouped heads, the module inside a model."""

import math

import pytest
import torch
from torch.nn import functional as F

from minillama import (
    Attention,
    apply_rotary_emb,
    causal_mask,
    precompute_freqs_cis,
    repeat_kv,
    scaled_dot_product_attention,
    softmax,
)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_softmax_along_any_dimension(dim):
    x = randn(3, 4, 5)
    torch.testing.assert_close(softmax(x, dim=dim), torch.softmax(x, dim=dim))
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=-1))


def test_softmax_of_large_and_hidden_entries():
    x = torch.tensor([[1e4, 1e4, -1e4], [3e38, -3e38, 0.0], [-math.inf, 0.0, 0.0]])
    expected = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    torch.testing.assert_close(softmax(x), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_softmax_in_half_precision(dtype):
    out = softmax((randn(3, 500) * 100).to(dtype))
    assert out.dtype == dtype and out.isfinite().all()
    torch.testing.assert_close(out.float().sum(-1), torch.ones(3), rtol=0, atol=1e-2)


def test_softmax_gradient():
    x, upstream = randn(3, 5).double().requires_grad_(), randn(3, 5, seed=1).double()
    softmax(x).backward(upstream)
    p = x.detach().softmax(-1)
    expected = p * (upstream - (p * upstream).sum(-1, keepdim=True))
    torch.testing.assert_close(x.grad, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "q_len, kv_len, rows",
    [
        (1, 1, ["1"]),
        (1, 4, ["1111"]),
        (3, 3, ["100", "110", "111"]),
        (2, 5, ["11110", "11111"]),
        (5, 2, ["00", "00", "00", "10", "11"]),
    ],
)
def test_the_causal_mask_is_aligned_bottom_right(q_len, kv_len, rows):
    mask = causal_mask(q_len, kv_len)
    assert mask.dtype == torch.bool and mask.shape == (q_len, kv_len)
    assert ["".join(str(int(cell)) for cell in row) for row in mask] == rows


def test_the_causal_mask_lands_on_the_device():
    assert causal_mask(2, 3, device="meta").device.type == "meta"
    assert causal_mask(2, 3).device.type == "cpu"


@pytest.mark.parametrize("lengths", [(-1, 3), (3, -1)])
def test_negative_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match="-1"):
        causal_mask(*lengths)


# CASES 2: torch's own causal flag would align two queries with the first two of five keys.
def test_two_queries_at_the_end_of_five_keys():
    q, k = torch.zeros(1, 1, 2, 4), randn(1, 1, 5, 4)
    v = torch.arange(5.0).view(1, 1, 5, 1)
    out = scaled_dot_product_attention(q, k, v, causal_mask(2, 5))
    torch.testing.assert_close(out.flatten(), torch.tensor([1.5, 2.0]))
    decode = scaled_dot_product_attention(q[:, :, :1], k, v, causal_mask(1, 5))
    torch.testing.assert_close(decode.flatten(), torch.tensor([2.0]))


# CASES 5: a fully hidden row gives zero and finite gradients.
def test_a_fully_hidden_row():
    q, k = torch.zeros(2, 1, requires_grad=True), torch.zeros(3, 1, requires_grad=True)
    v = torch.tensor([[1.0], [2.0], [6.0]], requires_grad=True)
    mask = torch.tensor([[True, True, True], [False, False, False]])
    out = scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(out, torch.tensor([[3.0], [0.0]]))
    out.sum().backward()
    torch.testing.assert_close(v.grad, torch.full((3, 1), 1 / 3))
    assert q.grad.isfinite().all() and k.grad.isfinite().all()


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("masked", ["no", "causal", "random"])
def test_equals_torch_in_values_and_gradients(shape, masked):
    t, s, d = 5, 7, 4
    q, k, v = randn(*shape, t, d), randn(*shape, s, d, seed=1), randn(*shape, s, d, seed=2)
    mask = {"no": None, "causal": causal_mask(t, s), "random": randn(*shape, t, s, seed=3) > -0.5}[masked]
    if masked == "random":
        mask[..., 0] = True  # torch's treatment of hidden rows is not the yardstick here
    upstream = randn(*shape, t, d, seed=4)
    results = []
    for function in (scaled_dot_product_attention, F.scaled_dot_product_attention):
        leaves = [x.double().requires_grad_() for x in (q, k, v)]
        out = function(*leaves, mask)
        out.backward(upstream.double())
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_hidden_rows_next_to_visible_ones():
    q, k, v = randn(2, 3, 5, 4), randn(2, 3, 2, 4, seed=1), randn(2, 3, 2, 4, seed=2)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = scaled_dot_product_attention(*leaves, causal_mask(5, 2))  # rows 0 to 2 see nothing
    assert torch.equal(out[..., :3, :], torch.zeros(2, 3, 3, 4))
    torch.testing.assert_close(out[..., 3, :], v[..., 0, :])
    out.pow(2).sum().backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)
    assert torch.equal(q.grad[..., :3, :], torch.zeros(2, 3, 3, 4))


def test_a_mask_broadcasts_over_batch_and_heads():
    q, k, v = randn(2, 3, 5, 4), randn(2, 3, 5, 4, seed=1), randn(2, 3, 5, 4, seed=2)
    per_row = torch.stack([causal_mask(5, 5), torch.ones(5, 5, dtype=torch.bool)])[:, None]
    torch.testing.assert_close(
        scaled_dot_product_attention(q, k, v, per_row), F.scaled_dot_product_attention(q, k, v, per_row)
    )


def test_values_may_have_another_width():
    q, k, v = randn(2, 5, 4), randn(2, 7, 4, seed=1), randn(2, 7, 9, seed=2)
    torch.testing.assert_close(
        scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v), rtol=1e-5, atol=1e-6
    )


def test_large_scores_and_half_precision():
    q, k, v = randn(3, 4) * 1e4, randn(6, 4, seed=1) * 1e4, randn(6, 4, seed=2)
    assert scaled_dot_product_attention(q, k, v).isfinite().all()
    halves = [x.to(torch.bfloat16) for x in (randn(3, 4), randn(6, 4, seed=1), v)]
    out = scaled_dot_product_attention(*halves)
    assert out.dtype == torch.bfloat16
    exact = F.scaled_dot_product_attention(*(x.double() for x in halves))
    torch.testing.assert_close(out.double(), exact, rtol=0, atol=2e-2)


@pytest.mark.parametrize("mask", [torch.zeros(5, 7), torch.ones(5, 7, dtype=torch.long)])
def test_a_mask_that_is_not_bool_is_refused(mask):
    # An additive mask, or a mask of ones and zeros, would be misread in silence.
    with pytest.raises((TypeError, ValueError), match="mask"):
        scaled_dot_product_attention(randn(5, 4), randn(7, 4), randn(7, 4), mask)


@pytest.mark.parametrize(
    "q, k, v, mask",
    [
        ((5, 4), (7, 3), (7, 4), None),  # widths of queries and keys
        ((5, 4), (7, 4), (6, 4), None),  # numbers of keys and values
        ((5, 4), (7, 4), (7, 4), (7, 5)),  # a transposed mask
    ],
)
def test_shapes_that_do_not_fit_are_refused(q, k, v, mask):
    mask = None if mask is None else torch.ones(mask, dtype=torch.bool)
    with pytest.raises(ValueError):
        scaled_dot_product_attention(randn(*q), randn(*k), randn(*v), mask)


# CASES 6: each head is repeated in place, not the whole row of heads tiled.
def test_repeat_kv_by_hand():
    heads = torch.tensor([10.0, 20.0]).view(1, 1, 2, 1)
    assert repeat_kv(heads, 2).flatten().tolist() == [10, 10, 20, 20]


@pytest.mark.parametrize("n_rep", [1, 2, 3])
def test_repeat_kv(n_rep):
    x = randn(2, 5, 3, 4).requires_grad_()
    out = repeat_kv(x, n_rep)
    assert out.shape == (2, 5, 3 * n_rep, 4)
    assert torch.equal(out, x.repeat_interleave(n_rep, dim=2))
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((2, 5, 3, 4), float(n_rep)))


@pytest.mark.parametrize("n_rep", [0, -1, 1.5])
def test_repeat_kv_refuses_a_bad_count(n_rep):
    with pytest.raises((TypeError, ValueError), match="n_rep"):
        repeat_kv(randn(2, 5, 3, 4), n_rep)


def test_grouped_heads_equal_torch_in_values_and_gradients():
    q, k, v = randn(2, 5, 6, 4), randn(2, 5, 2, 4, seed=1), randn(2, 5, 2, 4, seed=2)
    results = []
    for grouped in (False, True):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        if grouped:
            heads_first = [leaf.transpose(1, 2) for leaf in leaves]
            out = F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True)
        else:
            full = [leaves[0], repeat_kv(leaves[1], 3), repeat_kv(leaves[2], 3)]
            out = scaled_dot_product_attention(*(x.transpose(1, 2) for x in full), causal_mask(5, 5))
        out.pow(2).sum().backward()
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_the_modules_weights(make_config):
    shapes = {name: tuple(p.shape) for name, p in Attention(make_config()).named_parameters()}
    assert shapes == {
        "wq.weight": (60, 24),
        "wk.weight": (20, 24),
        "wv.weight": (20, 24),
        "wo.weight": (24, 60),
    }


@pytest.mark.parametrize("n_q_heads, n_kv_heads", [(6, 6), (6, 2), (6, 1)])
@pytest.mark.parametrize("offset", [0, 9])
def test_the_module_equals_the_explicit_attention(make_model, make_ids, n_q_heads, n_kv_heads, offset):
    """What enters wo is what the explicit functions make of what leaves wq, wk and wv."""
    model = make_model(n_q_heads=n_q_heads, n_kv_heads=n_kv_heads)
    seen = {}
    for name in ("wq", "wk", "wv"):
        getattr(model.layers[1].attn, name).register_forward_hook(
            lambda _module, _inputs, out, name=name: seen.update({name: out})
        )
    model.layers[1].attn.wo.register_forward_hook(lambda _module, inputs, _out: seen.update(mixed=inputs[0]))
    model(make_ids(2, 7), start_pos=offset)

    q, k, v = (seen[name].view(2, 7, -1, 10) for name in ("wq", "wk", "wv"))
    cos, sin = (table[offset:] for table in precompute_freqs_cis(10, offset + 7))
    q, k = apply_rotary_emb(q, cos, sin), apply_rotary_emb(k, cos, sin)
    k, v = repeat_kv(k, n_q_heads // n_kv_heads), repeat_kv(v, n_q_heads // n_kv_heads)
    mixed = scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), causal_mask(7, 7))
    expected = mixed.transpose(1, 2).reshape(2, 7, n_q_heads * 10)
    torch.testing.assert_close(seen["mixed"].view(2, 7, -1), expected, rtol=1e-5, atol=1e-5)
