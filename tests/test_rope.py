"""Rotary positions: both pair layouts, the tables, llama3 scaling; Hugging Face as a second opinion."""

import math

import pytest
import torch

from minillama import (
    RopeScaling,
    apply_rotary_emb,
    apply_rotary_emb_interleaved,
    half_to_interleaved,
    interleaved_to_half,
    precompute_freqs_cis,
    rotate_half,
)

LLAMA3 = RopeScaling(
    factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192
)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rotate(x, positions, theta=10000.0):
    """Complex-number reference in float64, half-split pairs, x (..., T, heads, D)."""
    half = x.shape[-1] // 2
    rates = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones(()).double(), torch.as_tensor(positions).double()[:, None, None] * rates)
    z = torch.complex(x.double()[..., :half], x.double()[..., half:]) * turn
    return torch.cat([z.real, z.imag], dim=-1)


def test_tables():
    cos, sin = precompute_freqs_cis(6, 5, 100.0)
    for table, function in ((cos, math.cos), (sin, math.sin)):
        assert table.shape == (5, 6) and table.dtype == torch.float32 and not table.requires_grad
        angles = [[m * 100.0 ** (-2 * (i % 3) / 6) for i in range(6)] for m in range(5)]
        expected = torch.tensor([[function(a) for a in row] for row in angles])
        torch.testing.assert_close(table, expected, rtol=0, atol=1e-6)


def test_tables_stay_accurate_at_far_positions():
    cos, sin = precompute_freqs_cis(64, 2048)
    rates = 10000.0 ** (-torch.arange(32, dtype=torch.float64) / 32)
    angles = torch.arange(2048, dtype=torch.float64)[:, None] * torch.cat([rates, rates])
    # Phases in float32 are worth half a unit in the last place of the angle, 1.2e-4 at 2047.
    assert (cos - angles.cos()).abs().max().item() < 2e-4
    assert (sin - angles.sin()).abs().max().item() < 2e-4


def test_tables_do_not_depend_on_the_default_dtype():
    expected = precompute_freqs_cis(8, 5)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        torch.testing.assert_close(precompute_freqs_cis(8, 5), expected, rtol=0, atol=1e-6)
    finally:
        torch.set_default_dtype(before)


def test_the_slowest_plane():
    _, sin = precompute_freqs_cis(64, 2)
    slowest = math.asin(sin[1, 31].item())
    assert slowest == pytest.approx(1.3335e-4, rel=1e-4)
    assert 2 * math.pi / slowest == pytest.approx(47_117, abs=1)


def test_rotate_half():
    torch.testing.assert_close(
        rotate_half(torch.tensor([1.0, 2.0, 3.0, 4.0])), torch.tensor([-3.0, -4.0, 1.0, 2.0])
    )


# CASES 1: the two pair layouts give different numbers, and each has its own function.
@pytest.mark.parametrize(
    "function, expected",
    [
        (apply_rotary_emb, [-1.984111, 1.959901, 2.462378, 4.019800]),
        (apply_rotary_emb_interleaved, [-1.142640, 1.922076, 2.959851, 4.029800]),
    ],
)
def test_both_pair_layouts(function, expected):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(1, 2, 1, 4)
    cos, sin = precompute_freqs_cis(4, 2, 10000.0)
    rotated = function(x, cos, sin)
    torch.testing.assert_close(rotated[0, 0, 0], x[0, 0, 0])
    torch.testing.assert_close(rotated[0, 1, 0], torch.tensor(expected), rtol=0, atol=2e-6)


def test_against_complex_numbers():
    x = randn(2, 7, 3, 10)
    cos, sin = precompute_freqs_cis(10, 7)
    torch.testing.assert_close(apply_rotary_emb(x, cos, sin), rotate(x, range(7)).float(), rtol=0, atol=2e-6)


def test_interleaved_pairs_against_complex_numbers():
    x = randn(2, 7, 3, 10)
    cos, sin = precompute_freqs_cis(10, 7)
    split = torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)
    expected = torch.stack(rotate(split, range(7)).float().chunk(2, dim=-1), dim=-1).flatten(-2)
    torch.testing.assert_close(apply_rotary_emb_interleaved(x, cos, sin), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("function", [apply_rotary_emb, apply_rotary_emb_interleaved])
def test_norms_are_kept_and_scores_depend_on_distance_alone(function):
    cos, sin = precompute_freqs_cis(10, 40)
    q, k = randn(10).expand(1, 40, 1, 10), randn(10, seed=1).expand(1, 40, 1, 10)
    q, k = function(q, cos, sin)[0, :, 0], function(k, cos, sin)[0, :, 0]
    torch.testing.assert_close(q.norm(dim=-1), randn(10).norm().expand(40), rtol=1e-5, atol=1e-5)
    scores = q @ k.T
    for distance in range(-30, 31):
        diagonal = scores.diagonal(distance)
        assert (diagonal - diagonal[0]).abs().max().item() < 2e-5
    assert scores[0].std() > 0.1  # and distance does matter


@pytest.mark.parametrize("function", [apply_rotary_emb, apply_rotary_emb_interleaved])
def test_rows_with_their_own_positions(function):
    x = randn(3, 4, 2, 10)
    cos, sin = precompute_freqs_cis(10, 20)
    positions = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10], [16, 3, 0, 19]])
    out = function(x, cos[positions], sin[positions])
    for row in range(3):
        alone = function(x[row : row + 1], cos[positions[row]], sin[positions[row]])
        torch.testing.assert_close(out[row : row + 1], alone)
    assert not torch.allclose(out[1], function(x, cos[:4], sin[:4])[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [apply_rotary_emb, apply_rotary_emb_interleaved])
def test_half_precision_is_rotated_in_float32(function, dtype):
    x = randn(2, 300, 3, 16).to(dtype)
    cos, sin = precompute_freqs_cis(16, 300)
    out = function(x, cos, sin)
    assert out.dtype == dtype
    once = function(x.float(), cos, sin).to(dtype)
    assert torch.equal(out, once)
    # bfloat16 has no 257; the phases do.
    same = x[:, :1].expand(2, 300, 3, 16)
    assert not torch.equal(function(same, cos, sin)[:, 256], function(same, cos, sin)[:, 257])


def test_float64_comes_back_as_float64():
    x = randn(1, 3, 2, 4).double()
    cos, sin = precompute_freqs_cis(4, 3)
    for function in (apply_rotary_emb, apply_rotary_emb_interleaved):
        assert function(x, cos, sin).dtype == torch.float64


def test_the_gradient_turns_back():
    x, upstream = randn(2, 5, 3, 6).requires_grad_(), randn(2, 5, 3, 6, seed=1)
    cos, sin = precompute_freqs_cis(6, 5)
    for function in (apply_rotary_emb, apply_rotary_emb_interleaved):
        x.grad = None
        function(x, cos, sin).backward(upstream)
        torch.testing.assert_close(x.grad, function(upstream, cos, -sin), rtol=1e-5, atol=1e-6)


def test_permutations_row_by_row():
    rows = torch.arange(12.0)[:, None]  # two heads of six, one input feature
    to_half = [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    to_interleaved = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert interleaved_to_half(rows, 2).flatten().tolist() == to_half
    assert half_to_interleaved(rows, 2).flatten().tolist() == to_interleaved


@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_permutations_undo_each_other_and_carry_one_rotation_into_the_other(n_heads):
    weight, x = randn(n_heads * 10, 7), randn(2, 5, 7, seed=1)
    torch.testing.assert_close(half_to_interleaved(interleaved_to_half(weight, n_heads), n_heads), weight)
    torch.testing.assert_close(interleaved_to_half(half_to_interleaved(weight, n_heads), n_heads), weight)
    cos, sin = precompute_freqs_cis(10, 5)
    as_meta = apply_rotary_emb_interleaved((x @ weight.T).view(2, 5, n_heads, 10), cos, sin)
    permuted = interleaved_to_half(weight, n_heads)
    assert permuted.shape == weight.shape
    as_here = apply_rotary_emb((x @ permuted.T).view(2, 5, n_heads, 10), cos, sin)
    split = torch.cat([as_meta[..., 0::2], as_meta[..., 1::2]], dim=-1)
    torch.testing.assert_close(as_here, split, rtol=1e-5, atol=1e-5)


def phases(scaling):
    """Inverse frequencies, read off the tables at position 1."""
    cos, sin = precompute_freqs_cis(64, 2, 5e5, scaling)
    return torch.atan2(sin[1, :32].double(), cos[1, :32].double())


# CASES 9: the llama3 rule leaves fast planes, slows slow ones by the factor and blends in between.
def test_llama3_scaling():
    ratio = phases(None) / phases(LLAMA3)
    torch.testing.assert_close(ratio[:14], torch.ones(14).double(), rtol=1e-5, atol=0)
    expected = torch.tensor([1, 1.6513, 3.2923, 9.6667, 32], dtype=torch.float64)
    torch.testing.assert_close(ratio[14:19], expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(ratio[19:], torch.full((13,), 32.0).double(), rtol=1e-5, atol=0)


def hugging_face_tables(theta, scaling, length):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    parameters = {"rope_type": "default", "rope_theta": theta}
    if scaling is not None:
        parameters = {"rope_type": "llama3", "rope_theta": theta} | vars(scaling)
    config = LlamaConfig(hidden_size=128, num_attention_heads=2, rope_parameters=parameters)
    return LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(length)[None])


@pytest.mark.parametrize("theta, scaling", [(10000.0, None), (5e5, None), (5e5, LLAMA3)])
def test_equals_hugging_face(theta, scaling):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    cos, sin = precompute_freqs_cis(64, 200, theta, scaling)
    their_cos, their_sin = hugging_face_tables(theta, scaling, 200)
    torch.testing.assert_close(cos, their_cos[0], rtol=0, atol=2e-5)
    torch.testing.assert_close(sin, their_sin[0], rtol=0, atol=2e-5)
    q, k = randn(2, 200, 4, 64), randn(2, 200, 2, 64, seed=1)
    their_q, their_k = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos[None], sin[None])
    torch.testing.assert_close(apply_rotary_emb(q, cos, sin), their_q.transpose(1, 2), rtol=0, atol=2e-6)
    torch.testing.assert_close(apply_rotary_emb(k, cos, sin), their_k.transpose(1, 2), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "arguments, name",
    [
        ((5, 4), "head_dim"),
        ((0, 4), "head_dim"),
        ((-2, 4), "head_dim"),
        ((4, 0), "max_seq_len"),
        ((4, -1), "max_seq_len"),
        ((4, 4, 0.0), "rope_theta"),
        ((4, 4, -1.0), "rope_theta"),
        ((4, 4, math.nan), "rope_theta"),
    ],
)
def test_bad_table_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        precompute_freqs_cis(*arguments)


@pytest.mark.parametrize("function", [apply_rotary_emb, apply_rotary_emb_interleaved])
@pytest.mark.parametrize(
    "x_shape, table_shape",
    [
        ((2, 3, 5, 4), (4, 4)),  # more positions than tokens
        ((2, 3, 5, 4), (2, 4)),  # fewer
        ((2, 3, 5, 4), (1, 4)),  # one, which would broadcast
        ((2, 3, 5, 4), (3, 6)),  # another head_dim
        ((2, 3, 5, 4), (3, 2)),  # half a table, as Meta's complex numbers have it
        ((2, 3, 5, 4), (3, 3, 4)),  # another batch
        ((2, 3, 5, 4), (2, 2, 4)),
        ((2, 5, 4), (5, 4)),  # no head axis
        ((2, 3, 5, 5), (3, 5)),  # odd head_dim
    ],
)
def test_shapes_that_do_not_fit_are_refused(function, x_shape, table_shape):
    with pytest.raises(ValueError):
        function(torch.zeros(x_shape), torch.zeros(table_shape), torch.zeros(table_shape))


@pytest.mark.parametrize("function", [interleaved_to_half, half_to_interleaved])
@pytest.mark.parametrize("rows, n_heads", [(12, 5), (12, 4), (12, 0), (12, -2)])
def test_rows_that_do_not_split_into_even_heads_are_refused(function, rows, n_heads):
    with pytest.raises(ValueError):
        function(torch.zeros(rows, 3), n_heads)
