"""Costs: published totals, sums by component, and a count of every multiplication in a forward pass."""

import math

import pytest
import torch

from minillama import KVCache, MiniLLaMAConfig, MiniLLaMAForCausalLM
from minillama.accounting import count_parameters, flops_per_token, kv_cache_bytes, training_bytes

FIELDS = ("n_layers", "d_model", "n_q_heads", "n_kv_heads", "head_dim", "d_ffn", "vocab_size", "max_seq_len")


def published(*sizes, theta=1e4, tied=False):
    return MiniLLaMAConfig(
        **dict(zip(FIELDS, sizes, strict=True)), rope_theta=theta, tie_word_embeddings=tied
    )


LLAMA2_7B = published(32, 4096, 32, 32, 128, 11008, 32_000, 4096)
LLAMA3_8B = published(32, 4096, 32, 8, 128, 14336, 128_256, 8192, theta=5e5)
LLAMA32_1B = published(16, 2048, 32, 8, 64, 8192, 128_256, 131_072, theta=5e5, tied=True)
SMOLLM2_135M = published(30, 576, 9, 3, 64, 1536, 49_152, 8192, theta=1e5, tied=True)


@pytest.mark.parametrize(
    "config, total",
    [
        (MiniLLaMAConfig(), 35_926_528),
        (MiniLLaMAConfig(tie_word_embeddings=False), 38_023_680),
        (LLAMA2_7B, 6_738_415_616),
        (LLAMA3_8B, 8_030_261_248),
        (LLAMA32_1B, 1_235_814_400),
        (SMOLLM2_135M, 134_515_008),
    ],
)
def test_known_totals(config, total):
    parts = count_parameters(config)
    assert parts["total"] == total == sum(n for name, n in parts.items() if name != "total")
    with torch.device("meta"):
        model = MiniLLaMAForCausalLM(config)
    assert sum(p.numel() for p in model.parameters()) == total


# CASES 11: a tied matrix counts once.
@pytest.mark.parametrize("tied, total", [(True, 6_736), (False, 7_248)])
def test_tied_parameters_count_once(tied, total):
    config = published(2, 16, 4, 2, 4, 48, 32, 64, tied=tied)
    assert count_parameters(config)["total"] == total
    assert sum(p.numel() for p in MiniLLaMAForCausalLM(config).parameters()) == total


@pytest.mark.parametrize("tied", [True, False])
def test_components_are_those_of_the_model(make_config, tied):
    config = make_config(tie_word_embeddings=tied)
    counted = dict.fromkeys(("token_embeddings", "attention", "feed_forward", "norms", "lm_head"), 0)
    for name, parameter in MiniLLaMAForCausalLM(config).named_parameters():
        if "norm" in name:
            counted["norms"] += parameter.numel()
        elif ".attn." in name:
            counted["attention"] += parameter.numel()
        elif ".ffn." in name:
            counted["feed_forward"] += parameter.numel()
        else:
            counted[name.removesuffix(".weight")] += parameter.numel()
    assert count_parameters(config) == counted | {"total": sum(counted.values())}


def test_shares_of_the_books_model():
    parts, untied = (
        count_parameters(MiniLLaMAConfig()),
        count_parameters(MiniLLaMAConfig(tie_word_embeddings=False)),
    )
    assert parts["feed_forward"] / parts["total"] == pytest.approx(0.722, abs=5e-4)
    assert parts["feed_forward"] / (parts["total"] - parts["token_embeddings"]) == pytest.approx(
        0.767, abs=5e-4
    )
    both = untied["token_embeddings"] + untied["lm_head"]
    assert both / untied["total"] == pytest.approx(0.1103, abs=5e-5)


def test_cache_bytes(make_config):
    assert kv_cache_bytes(LLAMA3_8B, 1, 1, 2) == 128 * 1024
    assert kv_cache_bytes(LLAMA2_7B, 1, 1, 2) == 512 * 1024
    assert kv_cache_bytes(make_config(), 5, 7, 4) == 2 * 3 * 5 * 7 * 2 * 10 * 4
    assert kv_cache_bytes(make_config(), 5, 7, 4) == KVCache(make_config(), batch_size=5, max_len=7).nbytes
    eight_to_two = kv_cache_bytes(MiniLLaMAConfig(), 1, 1, 2) / kv_cache_bytes(
        MiniLLaMAConfig(n_kv_heads=8), 1, 1, 2
    )
    assert eight_to_two == 0.25  # the model saves 75 %


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("length", [1, 5, 32])
def test_flops_against_a_count_of_every_multiplication(make_model, make_ids, tied, length):
    config = (model := make_model(tie_word_embeddings=tied)).config
    total = 0

    def count(module, inputs, _out):
        nonlocal total
        rows = math.prod(inputs[0].shape[:-1])
        total += 2 * rows * module.in_features * module.out_features

    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(count)
    with torch.no_grad():
        model(make_ids(1, length))
    for _layer in range(config.n_layers):
        for _head in range(config.n_q_heads):
            for visible in range(1, length + 1):
                total += 2 * visible * config.head_dim  # scores
                total += 2 * visible * config.head_dim  # mixture
    assert flops_per_token(config, length) == pytest.approx(total / length, rel=1e-12)


def test_training_bytes():
    config = MiniLLaMAConfig()
    parts = training_bytes(config)
    # float32 weights and gradients and AdamW's two moments: 16 bytes a parameter
    assert parts["total"] == 16 * 35_926_528 == sum(n for name, n in parts.items() if name != "total")
    assert training_bytes(LLAMA3_8B)["total"] > training_bytes(LLAMA3_8B, n_shards=8)["total"] > 0
    assert training_bytes(config, n_shards=4)["total"] == parts["total"] / 4
    lean = training_bytes(config, weight_bytes=2, gradient_bytes=2, optimizer_bytes=12)
    assert lean["total"] == 16 * 35_926_528


@pytest.mark.parametrize("value", [-1, 1.5, True, "3"])
def test_bad_sizes_are_named(value):
    config = MiniLLaMAConfig()
    for name, call in {
        "batch_size": lambda: kv_cache_bytes(config, value, 3, 2),
        "seq_len": lambda: kv_cache_bytes(config, 3, value, 2),
        "bytes_per_value": lambda: kv_cache_bytes(config, 3, 3, value),
        "n_shards": lambda: training_bytes(config, n_shards=value),
        "weight_bytes": lambda: training_bytes(config, weight_bytes=value),
    }.items():
        with pytest.raises(ValueError, match=name) as error:
            call()
        assert repr(value) in str(error.value)
    for length in (0, value):
        with pytest.raises(ValueError, match="seq_len"):
            flops_per_token(config, length)
