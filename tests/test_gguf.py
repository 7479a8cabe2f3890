"""Llamas from GGUF files: written here with the library `gguf`, and a published one if it is in the cache."""

import random
import resource
import struct
import tracemalloc

import gguf
import numpy as np
import pytest
import torch

import minillama
from minillama import assets
from minillama.checkpoint import _GGUF_NAMES, _translate, from_gguf, from_pretrained, save_pretrained
from minillama.gguf_file import GGUFFile
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
    if "tokenizer.ggml.eos_token_id" not in numbers:
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


# -- what a file claims is not believed unseen ------------------------------------------------------------


def header(*, magic=b"GGUF", version=3, n_tensors=0, fields=(), entries=b"", n_fields=None):
    """The bytes of a file: `fields` holds (name, type, payload)."""
    count = len(fields) if n_fields is None else n_fields
    parts = [magic, struct.pack("<IQQ", version, n_tensors, count)]
    for name, kind, payload in fields:
        parts += [struct.pack("<Q", len(name)), name, struct.pack("<I", kind), payload]
    return b"".join(parts) + entries


def entry(name=b"w", dims=(4,), kind=0, start=0, n_dims=None):
    count = len(dims) if n_dims is None else n_dims
    return struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(dims)}QIQ", count, *dims, kind, start)


HUGE = 2**60


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "starts with b''"),
        (header(magic=b"GGML"), "starts with b'GGML'"),
        (header(version=1), "version is 1"),
        (header(version=0x03000000), "version is 50331648"),  # written the other way round
        (header(n_fields=HUGE), "announces"),
        (header(n_tensors=HUGE), "announces"),
        (header(fields=[(b"a", 8, struct.pack("<Q", HUGE))]), "announces 1,152,921,504,606,846,976 bytes"),
        (header(fields=[(b"a", 9, struct.pack("<IQ", 8, HUGE))]), "announces"),
        (header(fields=[(b"a", 9, struct.pack("<IQ", 12, HUGE))]), "announces"),
        (header(fields=[(b"a", 9, struct.pack("<IQ", 9, 1))]), "unsupported type 9"),
        (header(fields=[(b"a", 77, b"")]), "unknown type 77"),
        (header(fields=[(b"a", 0, b"x"), (b"a", 0, b"x")]), "field 'a' stands there twice"),
        (header(fields=[(b"\xff", 0, b"x")]), "utf-8"),
        (header(fields=[(b"general.alignment", 4, struct.pack("<I", 24))]), "no power of two"),
        (header(n_tensors=1, entries=entry(n_dims=2**31)), "2147483648 dimensions"),
        (header(n_tensors=2, entries=2 * entry()), "tensor 'w' stands there twice"),
    ],
)
def test_a_header_that_cannot_be_is_named(tmp_path, data, message):
    (tmp_path / "m.gguf").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"m\.gguf cannot be read as GGUF: .*" + message):
        from_gguf(tmp_path / "m.gguf")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(dims=(HUGE, 3)), "ends at byte"),
        (dict(start=HUGE), "ends at byte"),
        (dict(dims=(33,), kind=3), "33 values, which is no multiple of 32"),
    ],
)
def test_a_tensor_that_cannot_be_there_is_named(tmp_path, given, message):
    path = tmp_path / "m.gguf"
    path.write_bytes(header(n_tensors=1, entries=entry(**given)) + bytes(64))
    file = GGUFFile(path)
    kind = gguf.GGMLQuantizationType(file.tensors["w"].kind)
    with pytest.raises(ValueError, match=message):
        file.read(file.tensors["w"], *gguf.GGML_QUANT_SIZES[kind])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"llama.block_count": 2**32 - 1}, "4,294,967,295 layers and holds"),
        ({"llama.context_length": 2**32 - 1}, "a context of 4,294,967,295 tokens"),
        ({"llama.embedding_length": 2**32 - 1}, "sizes that cannot be|has shape"),
        ({"llama.feed_forward_length": 2**32 - 1}, "sizes that cannot be|has shape"),
        ({"llama.vocab_size": 2**32 - 1}, "has shape"),
        ({"llama.attention.head_count": 0}, "head_count = 0 is not supported"),
        ({"llama.attention.head_count": "six"}, "head_count = 'six'"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, "ends texts with 1000000"),
    ],
)
def test_absurd_sizes_cost_nothing(tmp_path, make, tokenizer, fields, message):
    path = write(tmp_path / "m.gguf", make(), tokenizer, fields=fields)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=message):
        from_gguf(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_flipped_byte_loads_or_is_a_value_error(tmp_path, make, tokenizer):
    path = write(tmp_path / "m.gguf", make(n_layers=1), tokenizer)
    whole = path.read_bytes()
    start, draw = GGUFFile(path).data_start, random.Random(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[draw.randrange(start)] = draw.randrange(256)
        path.write_bytes(damaged)
        try:
            from_gguf(path)
        except ValueError:
            refused += 1
    assert 50 < refused < 300


def test_the_header_is_the_librarys(tmp_path, make, tokenizer):
    path = write(tmp_path / "m.gguf", make(), tokenizer, kind=None)
    assert_as_the_library(path)


def assert_as_the_library(path):
    ours, theirs = GGUFFile(path), gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in theirs.fields.items() if "." in name}
    assert ours.fields == {name: value for name, value in fields.items() if not name.startswith("GGUF.")}
    for tensor in theirs.tensors:
        found = ours.tensors[tensor.name]
        assert found.kind == tensor.tensor_type and found.shape == tuple(tensor.shape.tolist())[::-1]
        raw = ours.read(found, *gguf.GGML_QUANT_SIZES[tensor.tensor_type])
        assert raw.tobytes() == tensor.data.tobytes()
    assert len(ours.tensors) == len(theirs.tensors)


# -- the published model beside transformers' own reading ---------------------------------------------------

WEIGHTS = assets.cache_directory() / "smollm2-135m-instruct-0.1.2"
published = pytest.mark.skipif(not WEIGHTS.is_dir(), reason="needs the 93 MB of weights in the cache")
PROMPTS = (
    "The capital of France is",
    "If music be the food of love, play on",
    "def fibonacci(n):\n",
    "Once upon a time",
)
MIXED = (
    "To be, or not to be: that is the question.",
    "def f(x):\n    return {'a': x[0] ** 2}  # 3.14159\n\n\n\tprint(f(10_000))",
    "今天天气很好。我们去公园吧！",
    "naïve café, Größe, Ελληνικά, русский, العربية",
    "😀👩‍👩‍👧‍👦 ❤️ 🇫🇷",
    "  two   three    four\t\ttabs \r\n\r\n end  ",
    "1234567890 12 345 6.7e-8",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><|im_start|>",
    "<|im_start<|im_end|>|> <|IM_END|>",
    "",
)


@pytest.fixture(scope="module")
def ours():
    return from_gguf(assets.fetch("smollm2-135m-instruct"))


@pytest.fixture(scope="module")
def theirs():
    """transformers reads the same file with its own code."""
    pytest.importorskip("accelerate")
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = assets.fetch("smollm2-135m-instruct")
    source = dict(pretrained_model_name_or_path=path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(**source)


@published
def test_a_published_model_knows_the_capital_of_france(ours):
    model, tokenizer = ours
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    ids = torch.tensor([tokenizer.encode("The capital of France is")])
    out = minillama.generate(model, ids, 1, temperature=0)
    assert tokenizer.decode(out[0, ids.shape[1] :]) == " Paris"


@published
def test_the_published_header_is_the_librarys():
    assert_as_the_library(assets.fetch("smollm2-135m-instruct"))


@published
def test_token_ids_are_those_of_transformers(ours, theirs):
    for text in MIXED:
        wanted = theirs[1](text, add_special_tokens=False).input_ids
        assert ours[1].encode(text, allow_special=True) == wanted, text
        assert ours[1].decode(wanted) == text


@published
@torch.no_grad()
def test_logits_are_those_of_transformers(ours, theirs):
    for text in (*PROMPTS, *MIXED[:5]):
        ids = torch.tensor([ours[1].encode(text)])
        assert (ours[0](ids)[0] - theirs[0](ids).logits).abs().max().item() < 1e-3, text


@published
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_continuations_are_those_of_transformers(ours, theirs, prompt):
    ids = torch.tensor([ours[1].encode(prompt)])
    settings = dict(max_new_tokens=40, min_new_tokens=40, do_sample=False, pad_token_id=0)
    theirs[0].generation_config.eos_token_id = None
    wanted = theirs[0].generate(ids, attention_mask=torch.ones_like(ids), **settings)
    assert torch.equal(minillama.generate(ours[0], ids, 40, temperature=0), wanted)


@published
@torch.no_grad()
def test_there_and_back_by_way_of_transformers(tmp_path, ours):
    """minillama → safetensors → transformers → safetensors → minillama, bit for bit."""
    from transformers import LlamaForCausalLM

    model, tokenizer = ours
    save_pretrained(model, tmp_path / "ours")
    between = LlamaForCausalLM.from_pretrained(tmp_path / "ours")
    ids = torch.tensor([tokenizer.encode(PROMPTS[1])])
    assert (between(ids).logits - model(ids)[0]).abs().max().item() < 1e-3
    between.save_pretrained(tmp_path / "theirs")
    back = from_pretrained(tmp_path / "theirs")
    assert back.config == model.config
    for (name, a), b in zip(model.named_parameters(), back.parameters(), strict=True):
        assert torch.equal(a, b), name
