"""MiniLLaMAConfig and RopeScaling: frozen, hashable, and every bad value refused by name."""

import dataclasses
import math
import re

import pytest

from minillama import MiniLLaMAConfig, RopeScaling

INTEGER_FIELDS = [
    "vocab_size",
    "d_model",
    "n_layers",
    "n_q_heads",
    "n_kv_heads",
    "head_dim",
    "d_ffn",
    "max_seq_len",
]
LLAMA3 = dict(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)


def assert_names(error, field, value):
    """The message names the field and the value and says what is allowed."""
    message = str(error.value)
    assert field in message
    assert repr(value) in message or str(value) in message
    allowed = r"must|allowed|expected|positive|greater|at least|>|≥|divi|multiple|even|finite|None|bool"
    assert re.search(allowed, message.replace(field, "")), message


def test_defaults_are_the_books_model():
    config = MiniLLaMAConfig()
    assert dataclasses.asdict(config) == dict(
        vocab_size=4096,
        d_model=512,
        n_layers=12,
        n_q_heads=8,
        n_kv_heads=2,
        head_dim=64,
        d_ffn=1408,
        max_seq_len=2048,
        rope_theta=10000.0,
        norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_scaling=None,
    )


def test_keyword_only():
    with pytest.raises(TypeError):
        MiniLLaMAConfig(4096)
    with pytest.raises(TypeError):
        MiniLLaMAConfig(hidden_size=512)


@pytest.mark.parametrize("instance, field", [(MiniLLaMAConfig(), "d_ffn"), (RopeScaling(**LLAMA3), "factor")])
def test_frozen(instance, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(instance, field, 7)


def test_equal_configurations_have_equal_hashes():
    scaled = MiniLLaMAConfig(rope_scaling=RopeScaling(**LLAMA3))
    again = MiniLLaMAConfig(rope_scaling=RopeScaling(**LLAMA3))
    assert MiniLLaMAConfig() == MiniLLaMAConfig() and hash(MiniLLaMAConfig()) == hash(MiniLLaMAConfig())
    assert scaled == again and hash(scaled) == hash(again)
    assert len({MiniLLaMAConfig(), MiniLLaMAConfig(d_ffn=1409), scaled, again}) == 3


@pytest.mark.parametrize("field", INTEGER_FIELDS)
@pytest.mark.parametrize("value", [0, -1, 2.0, 2.5, True, "2", None, math.nan])
def test_sizes_are_positive_integers(field, value):
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(**{field: value})
    assert_names(error, field, value)


@pytest.mark.parametrize("field", ["rope_theta", "norm_eps"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf, True, "1e4", None])
def test_real_fields_are_positive_and_finite(field, value):
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(**{field: value})
    assert_names(error, field, value)


def test_theta_zero_is_refused():
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(rope_theta=0.0)
    assert_names(error, "rope_theta", 0.0)


@pytest.mark.parametrize("n_q_heads, n_kv_heads", [(8, 3), (2, 4), (7, 2)])
def test_query_heads_must_divide_into_groups(n_q_heads, n_kv_heads):
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(n_q_heads=n_q_heads, n_kv_heads=n_kv_heads)
    message = str(error.value)
    assert "n_q_heads" in message or "n_kv_heads" in message
    assert str(n_q_heads) in message and str(n_kv_heads) in message


@pytest.mark.parametrize("head_dim", [1, 3, 63])
def test_head_dim_must_be_even(head_dim):
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(head_dim=head_dim)
    assert_names(error, "head_dim", head_dim)


@pytest.mark.parametrize("value", ["yes", None, 1, 0.0])
def test_tying_is_a_bool(value):
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(tie_word_embeddings=value)
    assert_names(error, "tie_word_embeddings", value)


@pytest.mark.parametrize("value", [LLAMA3, 32.0, "llama3", (32.0, 1.0, 4.0, 8192)])
def test_rope_scaling_is_none_or_a_rope_scaling(value):
    with pytest.raises(ValueError) as error:
        MiniLLaMAConfig(rope_scaling=value)
    assert_names(error, "rope_scaling", value)


@pytest.mark.parametrize("field", ["factor", "low_freq_factor", "high_freq_factor"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, True, "8", None])
def test_scaling_factors_are_positive_and_finite(field, value):
    with pytest.raises(ValueError) as error:
        RopeScaling(**(LLAMA3 | {field: value}))
    assert_names(error, field, value)


@pytest.mark.parametrize("value", [0, -1, 8192.0, True, "8192", None])
def test_original_length_is_a_positive_integer(value):
    with pytest.raises(ValueError) as error:
        RopeScaling(**(LLAMA3 | {"original_max_position_embeddings": value}))
    assert_names(error, "original_max_position_embeddings", value)


@pytest.mark.parametrize("low, high", [(4.0, 4.0), (4.0, 1.0)])
def test_the_low_frequency_factor_lies_below_the_high_one(low, high):
    # Equal factors would divide by zero in the blend between the two bands.
    with pytest.raises(ValueError) as error:
        RopeScaling(**(LLAMA3 | {"low_freq_factor": low, "high_freq_factor": high}))
    assert "low_freq_factor" in str(error.value) and "high_freq_factor" in str(error.value)


def test_replace_checks_again():
    with pytest.raises(ValueError, match="n_layers"):
        dataclasses.replace(MiniLLaMAConfig(), n_layers=0)


def test_good_edge_values():
    smallest = dict(vocab_size=1, d_model=1, n_layers=1, n_q_heads=1, n_kv_heads=1, head_dim=2, d_ffn=1)
    config = MiniLLaMAConfig(
        **smallest, max_seq_len=1, rope_theta=1, norm_eps=1e-12, tie_word_embeddings=False
    )
    assert config.head_dim == 2 and config.rope_theta == 1
    assert MiniLLaMAConfig(n_q_heads=8, n_kv_heads=8).n_kv_heads == 8
    assert MiniLLaMAConfig(n_q_heads=8, n_kv_heads=1).n_kv_heads == 1
    assert MiniLLaMAConfig(d_model=30, n_q_heads=4, n_kv_heads=2, head_dim=6).d_model == 30
    assert MiniLLaMAConfig(rope_scaling=RopeScaling(**LLAMA3)).rope_scaling.factor == 32.0
