"""Llamas from GGUF files: written here with the library `gguf`, and a published one if it is in the cache."""

import gguf
import numpy as np
import pytest
import torch

import minillama
from minillama import assets
from minillama.checkpoint import _GGUF_NAMES, _translate, from_gguf
from minillama.tokenizer import Tokenizer


@pytest.fixture
def tokenizer():
    return Tokenizer.train(["to be or not to be, that is the question"], 270)


def write(path, model, tokenizer, *, change=None, fields=None, kind=None):
    """A GGUF file of `model`: q and k rows interleaved, as llama.cpp keeps them."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    numbers = {
        "block_count": config.n_layers,
        "context_length": config.max_seq_len,
        "embedding_length": config.d_model,
        "feed_forward_length": config.d_ffn,
        "attention.head_count": config.n_q_heads,
        "attention.head_count_kv": config.n_kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "rope.dimension_count": config.head_dim,
        "vocab_size": config.vocab_size,
    }
    numbers = {f"llama.{name}": value for name, value in numbers.items()}
    floats = {
        "llama.rope.freq_base": config.rope_theta,
        "llama.attention.layer_norm_rms_epsilon": config.norm_eps,
    }
    vocab = tokenizer._fields["model"]["vocab"]
    strings = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2"}
    for name, value in ((fields or {}) | {}).items():
        for group in (numbers, floats, strings):
            group.pop(name, None)
        if isinstance(value, str):
            strings[name] = value
        elif isinstance(value, int):
            numbers[name] = value
        elif isinstance(value, float):
            floats[name] = value
    for name, value in numbers.items():
        writer.add_uint32(name, value)
    for name, value in floats.items():
        writer.add_float32(name, value)
    for name, value in strings.items():
        if name != "general.architecture":  # the writer's own
            writer.add_string(name, value)
    writer.add_array("tokenizer.ggml.tokens", sorted(vocab, key=vocab.get))
    types = [3 if i == tokenizer.eos_id else 1 for i in range(tokenizer.vocab_size)]
    writer.add_array("tokenizer.ggml.token_type", types)
    writer.add_array(
        "tokenizer.ggml.merges", [" ".join(pair) for pair in tokenizer._fields["model"]["merges"]]
    )
    writer.add_uint32("tokenizer.ggml.eos_token_id", tokenizer.eos_id)
    tensors = {}
    heads = {"wq": config.n_q_heads, "wk": config.n_kv_heads}
    for name, p in model.named_parameters():
        weight = p.detach()
        if (projection := name.split(".")[-2]) in heads:
            weight = minillama.half_to_interleaved(weight, heads[projection])
        tensors[_translate(name, _GGUF_NAMES)] = weight.float().numpy().copy()
    if change:
        change(tensors)
    for name, array in tensors.items():
        if kind is not None and array.ndim == 2:
            writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def make(make_model, tokenizer):
    def build(**overrides):
        return make_model(vocab_size=tokenizer.vocab_size, **overrides)

    return build


@pytest.mark.parametrize("tied", [True, False])
def test_weights_and_tokenizer_come_back(tmp_path, make, tokenizer, tied):
    model = make(tie_word_embeddings=tied, rope_theta=5e5, norm_eps=1e-5)
    loaded, words = from_gguf(write(tmp_path / "m.gguf", model, tokenizer))
    assert loaded.config == model.config
    for (name, a), (other, b) in zip(model.named_parameters(), loaded.named_parameters(), strict=True):
        assert name == other and torch.equal(a, b), name
    assert (loaded.lm_head.weight is loaded.token_embeddings.weight) is tied
    assert words.sha256 == tokenizer.sha256
    ids = torch.tensor([words.encode("to be")])
    torch.testing.assert_close(loaded(ids)[0], model(ids)[0])


def test_the_wrong_head_count_would_be_seen(tmp_path, make, tokenizer):
    """G heads for wk, H for wq: with the other's count the rows come out in another order."""
    model = make()
    k = model.layers[0].attn.wk.weight.detach()
    stored = minillama.half_to_interleaved(k, model.config.n_kv_heads)
    assert torch.equal(minillama.interleaved_to_half(stored, model.config.n_kv_heads), k)
    assert not torch.equal(minillama.interleaved_to_half(stored, 1), k)


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_1])
def test_quantized_tensors_are_expanded(tmp_path, make, tokenizer, kind):
    model = make(d_model=32, d_ffn=64, head_dim=16)  # blocks of 32 values along a row
    loaded, _ = from_gguf(write(tmp_path / "m.gguf", model, tokenizer, kind=kind))
    for (name, a), b in zip(model.named_parameters(), loaded.parameters(), strict=True):
        if a.ndim == 1:
            assert torch.equal(a, b)
            continue
        heads = {"wq": model.config.n_q_heads, "wk": model.config.n_kv_heads}.get(name.split(".")[-2])
        stored = a.detach() if heads is None else minillama.half_to_interleaved(a.detach(), heads)
        stored = torch.tensor(gguf.dequantize(gguf.quantize(stored.numpy(), kind), kind))
        wanted = stored if heads is None else minillama.interleaved_to_half(stored, heads)
        assert torch.equal(b, wanted), name
        span = a.detach().unflatten(1, (-1, 32)).aminmax(dim=-1)
        step = (span.max - span.min).max() / (15 if kind.name == "Q4_1" else 127)
        assert 0 < (a - b).abs().max() < step


def test_dtype(tmp_path, make, tokenizer):
    model = make()
    loaded, _ = from_gguf(write(tmp_path / "m.gguf", model, tokenizer), dtype=torch.bfloat16)
    assert loaded.norm.weight.dtype == torch.bfloat16 and loaded.cos.dtype == torch.float32
    with pytest.raises(ValueError, match="dtype"):
        from_gguf(tmp_path / "m.gguf", dtype=torch.int8)


def widen(name, shape):
    return lambda tensors: tensors.update({name: np.zeros(shape, np.float32)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("blk.1.attn_k.weight"), "missing tensor 'blk.1.attn_k.weight'"),
        (lambda t: t.pop("output_norm.weight"), "missing tensor 'output_norm.weight'"),
        (widen("blk.0.attn_q.bias", (60,)), "unexpected tensor 'blk.0.attn_q.bias'"),
        (widen("rope_freqs.weight", (5,)), "unexpected tensor 'rope_freqs.weight'"),
        (widen("blk.3.ffn_up.weight", (44, 24)), r"unexpected tensors \['blk.3.ffn_up.weight'\]"),
        (
            widen("blk.0.ffn_up.weight", (43, 24)),
            "'blk.0.ffn_up.weight' has shape .43, 24., the file asks for .44, 24.",
        ),
        (widen("blk.0.attn_k.weight", (30, 24)), "'blk.0.attn_k.weight' has shape"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path, make, tokenizer, change, message):
    path = write(tmp_path / "m.gguf", make(), tokenizer, change=change)
    with pytest.raises(ValueError, match=message):
        from_gguf(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"llama.rope.dimension_count": 4}, "llama.rope.dimension_count = 4 is not supported"),
        ({"llama.attention.value_length": 4}, "value_length"),
        ({"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type = 'yarn'"),
        ({"llama.expert_count": 8}, "llama.expert_count = 8"),
        ({"llama.attention.sliding_window": 16}, "sliding_window = 16"),
        ({"llama.block_count": None}, "lacks llama.block_count"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model = 'llama'"),
        ({"tokenizer.ggml.pre": "qwen2"}, "pre_tokenizer"),
        ({"tokenizer.ggml.pre": None}, "lacks tokenizer.ggml.pre"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, make, tokenizer, fields, message):
    path = write(tmp_path / "m.gguf", make(), tokenizer, fields=fields)
    with pytest.raises(ValueError, match=message):
        from_gguf(path)


def test_another_architecture_is_named(tmp_path, make, tokenizer):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    writer.add_uint32("qwen2.block_count", 1)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    with pytest.raises(ValueError, match=r"general\.architecture = 'qwen2'"):
        from_gguf(tmp_path / "m.gguf")


@pytest.mark.parametrize("share", [0, 0.0001, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_named(tmp_path, make, tokenizer, share):
    path = write(tmp_path / "m.gguf", make(), tokenizer)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ValueError, match=r"m\.gguf cannot be read"):
        from_gguf(path)


def test_no_file_and_a_foreign_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        from_gguf(tmp_path / "none.gguf")
    (tmp_path / "text").write_text("If music be the food of love, play on" * 10)
    with pytest.raises(ValueError, match="cannot be read as GGUF"):
        from_gguf(tmp_path / "text")


WEIGHTS = assets.cache_directory() / "smollm2-135m-instruct-0.1.2"


@pytest.mark.skipif(not WEIGHTS.is_dir(), reason="needs the 93 MB of weights in the cache")
def test_a_published_model_knows_the_capital_of_france():
    model, tokenizer = from_gguf(assets.fetch("smollm2-135m-instruct"))
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    out = minillama.generate(model, ids, 1, temperature=0)
    assert tokenizer.decode(out[0, ids.shape[1] :]) == " Paris"
