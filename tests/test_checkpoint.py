"""The Hugging Face layout, both ways; nothing unsupported is read in silence."""

import json
import os

import pytest
import safetensors.torch
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from minillama import RopeScaling
from minillama.checkpoint import from_pretrained, save_pretrained

SCALING = RopeScaling(
    factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
)
VARIANTS = {
    "tied": dict(),
    "untied": dict(tie_word_embeddings=False),
    "theta": dict(rope_theta=1234.5, norm_eps=3e-4, n_kv_heads=6),
    "llama3 scaling": dict(rope_theta=5e5, rope_scaling=SCALING, tie_word_embeddings=False, head_dim=4),
}


def hugging_face_model(seed=0, **overrides):
    sizes = dict(
        vocab_size=61, hidden_size=24, intermediate_size=44, num_hidden_layers=3, num_attention_heads=6
    )
    sizes |= dict(num_key_value_heads=2, head_dim=10, max_position_embeddings=32)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**(sizes | overrides))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 1.5 / parameter.shape[1] ** 0.5)
    return model


def edit_config(folder, remove=(), **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name in remove:
        config.pop(name, None)
    path.write_text(json.dumps(config | changes))


def edit_weights(folder, change):
    path = folder / "model.safetensors"
    tensors = change(safetensors.torch.load_file(path))
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


@torch.no_grad()
def assert_same_logits(ours, theirs, ids):
    assert (ours(ids)[0] - theirs(input_ids=ids).logits).abs().max().item() <= 1e-4


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_round_trip_is_exact(make_model, make_ids, tmp_path, variant):
    model, ids = make_model(**VARIANTS[variant]), make_ids(2, 32)
    save_pretrained(model, tmp_path / "new" / "folder")
    loaded = from_pretrained(tmp_path / "new" / "folder")
    assert loaded.config == model.config
    expected, found = dict(model.named_parameters()), dict(loaded.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert all(p.requires_grad and p.device.type == "cpu" for p in found.values())
    assert torch.equal(loaded(ids)[0], model(ids)[0])
    assert torch.equal(from_pretrained(str(tmp_path / "new" / "folder"))(ids)[0], model(ids)[0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformers_loads_what_we_save(make_model, make_ids, tmp_path, variant):
    model = make_model(**VARIANTS[variant])
    save_pretrained(model, tmp_path)
    theirs, info = LlamaForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    assert_same_logits(model, theirs.eval(), make_ids(2, 32))
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["architectures"] == ["LlamaForCausalLM"] and written["model_type"] == "llama"


@pytest.mark.parametrize("variant", VARIANTS)
def test_we_load_what_transformers_saves(make_ids, tmp_path, variant):
    options = VARIANTS[variant]
    rope = {"rope_type": "default", "rope_theta": options.get("rope_theta", 10000.0)}
    if "rope_scaling" in options:
        rope |= {"rope_type": "llama3"} | vars(SCALING)
    theirs = hugging_face_model(
        rope_parameters=rope,
        rms_norm_eps=options.get("norm_eps", 1e-6),
        num_key_value_heads=options.get("n_kv_heads", 2),
        head_dim=options.get("head_dim", 10),
        tie_word_embeddings=options.get("tie_word_embeddings", True),
    )
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    assert_same_logits(ours, theirs, make_ids(2, 32))
    assert ours.config.rope_theta == rope["rope_theta"]
    assert ours.config.rope_scaling == options.get("rope_scaling")


@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_rope_settings_where_older_files_have_them(make_ids, tmp_path, key):
    parameters = {"rope_type": "llama3", "rope_theta": 5e5} | vars(SCALING)
    theirs = hugging_face_model(rope_parameters=parameters)
    theirs.save_pretrained(tmp_path)
    scaling = {key: "llama3"} | vars(SCALING)
    edit_config(tmp_path, remove=["rope_parameters"], rope_theta=500000, rope_scaling=scaling)
    ours = from_pretrained(tmp_path)
    assert ours.config.rope_theta == 5e5 and ours.config.rope_scaling == SCALING
    assert_same_logits(ours, theirs, make_ids(2, 32))


@pytest.mark.parametrize("scaling", [None, {"rope_type": "default"}, {"type": "default"}])
def test_no_scaling_in_older_files(make_ids, tmp_path, scaling):
    theirs = hugging_face_model(rope_parameters={"rope_type": "default", "rope_theta": 777.0})
    theirs.save_pretrained(tmp_path)
    edit_config(tmp_path, remove=["rope_parameters"], rope_theta=777.0, rope_scaling=scaling)
    ours = from_pretrained(tmp_path)
    assert ours.config.rope_theta == 777.0 and ours.config.rope_scaling is None
    assert_same_logits(ours, theirs, make_ids(2, 32))


def test_a_missing_field_takes_llamas_default(make_ids, tmp_path):
    theirs = hugging_face_model(num_key_value_heads=6, head_dim=4, max_position_embeddings=2048)
    assert not theirs.config.tie_word_embeddings
    theirs.save_pretrained(tmp_path)
    optional = [
        "rms_norm_eps",
        "rope_theta",
        "rope_parameters",
        "rope_scaling",
        "num_key_value_heads",
        "head_dim",
    ]
    optional += ["tie_word_embeddings", "max_position_embeddings", "hidden_act", "attention_bias", "mlp_bias"]
    edit_config(tmp_path, remove=optional)
    ours = from_pretrained(tmp_path)
    config = ours.config
    assert (config.n_kv_heads, config.head_dim, config.max_seq_len) == (6, 4, 2048)
    assert (config.rope_theta, config.norm_eps, config.tie_word_embeddings) == (10000.0, 1e-6, False)
    assert config.rope_scaling is None
    assert_same_logits(ours, theirs, make_ids(2, 32))
    edit_config(tmp_path, num_key_value_heads=None, head_dim=None, rope_scaling=None, rope_parameters=None)
    assert from_pretrained(tmp_path).config == config


@pytest.mark.parametrize("tied", [True, False])
def test_a_sharded_checkpoint(make_ids, tmp_path, tied):
    theirs = hugging_face_model(tie_word_embeddings=tied)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2
    assert_same_logits(from_pretrained(tmp_path), theirs, make_ids(2, 32))
    shards[1].unlink()
    with pytest.raises((ValueError, OSError), match=shards[1].name):
        from_pretrained(tmp_path)


def test_a_shard_outside_the_folder_is_refused(tmp_path):
    folder = tmp_path / "inside"
    theirs = hugging_face_model()
    theirs.save_pretrained(folder, max_shard_size="20KB")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    name, shard = next(iter(index["weight_map"].items()))
    (tmp_path / shard).write_bytes((folder / shard).read_bytes())
    index["weight_map"][name] = f"../{shard}"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises((ValueError, OSError), match=shard):
        from_pretrained(folder)


def test_saving_over_a_sharded_checkpoint(make_model, make_ids, tmp_path):
    hugging_face_model().save_pretrained(tmp_path, max_shard_size="20KB")
    model, ids = make_model(), make_ids(2, 8)
    save_pretrained(model, tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(ids)[0], model(ids)[0])
    assert_same_logits(model, LlamaForCausalLM.from_pretrained(tmp_path).eval(), ids)


def test_weights_load_as_float32_unless_told_otherwise(tmp_path):
    theirs = hugging_face_model().to(torch.bfloat16)
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    assert {p.dtype for p in ours.parameters()} == {torch.float32}
    assert torch.equal(ours.token_embeddings.weight, theirs.model.embed_tokens.weight.float())
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert {p.dtype for p in from_pretrained(tmp_path, dtype=dtype).parameters()} == {dtype}


def test_a_dtype_that_cannot_hold_weights_is_refused(saved):
    with pytest.raises((TypeError, ValueError), match="dtype"):
        from_pretrained(saved, dtype=torch.int64)


@torch.no_grad()
def test_a_half_precision_model_keeps_its_bits_and_its_phases(make_model, make_ids, tmp_path):
    model, ids = make_model(max_seq_len=300).to(torch.bfloat16), make_ids(1, 9)
    save_pretrained(model, tmp_path)
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert {t.dtype for t in stored.values()} == {torch.bfloat16}
    loaded = from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert torch.equal(loaded(ids, start_pos=280)[0], model(ids, start_pos=280)[0])


# --- ties -----------------------------------------------------------------------------------------


# CASES 12 and 14: a tied model is stored once and comes back tied.
def test_a_tied_model_stays_tied(make_model, make_ids, tmp_path):
    model, ids = make_model(), make_ids(2, 6)
    save_pretrained(model, tmp_path)
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in model.parameters())
    loaded = from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.token_embeddings.weight
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.1)
    loaded(ids, labels=ids)[1].backward()
    optimizer.step()
    assert loaded.lm_head.weight is loaded.token_embeddings.weight


def test_a_tied_file_that_also_stores_the_head(make_model, tmp_path):
    model = make_model()
    save_pretrained(model, tmp_path)
    edit_weights(tmp_path, lambda t: t | {"lm_head.weight": t["model.embed_tokens.weight"].clone()})
    loaded = from_pretrained(tmp_path)
    assert loaded.lm_head.weight is loaded.token_embeddings.weight
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)


# CASES 13: an untied model comes back untied.
def test_an_untied_model_stays_untied(make_model, tmp_path):
    save_pretrained(make_model(tie_word_embeddings=False), tmp_path)
    loaded = from_pretrained(tmp_path)
    embedding = loaded.token_embeddings.weight.detach().clone()
    with torch.no_grad():
        loaded.lm_head.weight.add_(1.0)
    assert torch.equal(loaded.token_embeddings.weight, embedding)


# CASES 14: an untied file without its head is an error naming the key.
def test_an_untied_file_without_its_head(make_model, tmp_path):
    save_pretrained(make_model(tie_word_embeddings=False), tmp_path)
    edit_weights(tmp_path, lambda t: {name: x for name, x in t.items() if name != "lm_head.weight"})
    with pytest.raises(ValueError, match=r"lm_head.weight"):
        from_pretrained(tmp_path)


# CASES 15: a parameter that is a transposed view.
def test_a_non_contiguous_parameter(make_model, tmp_path):
    model = make_model()
    transposed = torch.nn.Parameter(torch.randn(24, 60, generator=torch.Generator().manual_seed(0)).t())
    model.layers[1].attn.wq.weight = transposed
    assert not transposed.is_contiguous()
    save_pretrained(model, tmp_path)
    assert torch.equal(from_pretrained(tmp_path).layers[1].attn.wq.weight, transposed)


def test_parameters_that_share_one_storage(make_model, tmp_path):
    # Views of one buffer, as fused or flattened parameters are, must be stored apart.
    model = make_model()
    both = torch.randn(40, 24, generator=torch.Generator().manual_seed(0))
    model.layers[0].attn.wk.weight = torch.nn.Parameter(both[:20])
    model.layers[0].attn.wv.weight = torch.nn.Parameter(both[20:])
    save_pretrained(model, tmp_path)
    loaded = from_pretrained(tmp_path).layers[0].attn
    assert torch.equal(loaded.wk.weight, both[:20]) and torch.equal(loaded.wv.weight, both[20:])


# CASES 16: prefixes that wrappers leave behind.
@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_orig_mod.module.", "module._orig_mod."])
def test_wrapper_prefixes_load(make_model, make_ids, tmp_path, prefix):
    model, ids = make_model(tie_word_embeddings=False), make_ids(2, 6)
    save_pretrained(model, tmp_path)
    edit_weights(tmp_path, lambda t: {prefix + name: x for name, x in t.items()})
    assert torch.equal(from_pretrained(tmp_path)(ids)[0], model(ids)[0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrapper_prefixes_are_not_written(make_model, make_ids, tmp_path):
    model, ids = make_model(), make_ids(2, 6)
    compiled = torch.compile(model)  # wraps; nothing is compiled before the first call
    for name, wrapped in (("compiled", compiled), ("parallel", torch.nn.DataParallel(compiled))):
        save_pretrained(wrapped, tmp_path / name)
        stored = safetensors.torch.load_file(tmp_path / name / "model.safetensors")
        assert not [key for key in stored if "_orig_mod" in key or "module" in key]
        assert torch.equal(from_pretrained(tmp_path / name)(ids)[0], model(ids)[0])


# --- what is refused ------------------------------------------------------------------------------


@pytest.fixture
def saved(make_model, tmp_path):
    save_pretrained(make_model(tie_word_embeddings=False), tmp_path)
    return tmp_path


def test_a_missing_key_is_named(saved):
    key = "model.layers.1.self_attn.k_proj.weight"
    edit_weights(saved, lambda t: {name: x for name, x in t.items() if name != key})
    with pytest.raises(ValueError, match=key):
        from_pretrained(saved)


@pytest.mark.parametrize(
    "key", ["model.layers.1.self_attn.q_norm.weight", "model.layers.3.input_layernorm.weight", "surplus"]
)
def test_an_unexpected_key_is_named(saved, key):
    edit_weights(saved, lambda t: t | {key: torch.ones(24)})
    with pytest.raises(ValueError, match=key):
        from_pretrained(saved)


@pytest.mark.parametrize("shape", [(24, 60), (60, 23), (60,), (1440,), (1, 24)])
def test_a_wrong_shape_is_named(saved, shape):
    key = "model.layers.2.self_attn.q_proj.weight"
    edit_weights(saved, lambda t: t | {key: torch.zeros(shape)})
    with pytest.raises(ValueError, match=key) as error:
        from_pretrained(saved)
    assert "60, 24" in str(error.value) and ", ".join(map(str, shape)) in str(error.value)


@pytest.mark.parametrize(
    "changes, named",
    [
        (dict(attention_bias=True), "attention_bias"),
        (dict(mlp_bias=True), "mlp_bias"),
        (dict(sliding_window=4096), "sliding_window"),
        (dict(model_type="mistral"), "mistral"),
        (dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"]), "qwen2|Qwen2ForCausalLM"),
        (dict(architectures=["LlamaForSequenceClassification"]), "LlamaForSequenceClassification"),
        (dict(hidden_act="gelu"), "gelu"),
        (dict(quantization_config={"quant_method": "gptq", "bits": 4}), "quantization_config"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(saved, changes, named):
    from_pretrained(saved)
    edit_config(saved, **changes)
    with pytest.raises(ValueError, match=named):
        from_pretrained(saved)


@pytest.mark.parametrize("kind", ["yarn", "linear", "dynamic", "longrope"])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_other_rope_rules_are_refused_by_name(saved, kind, place):
    rope = {"rope_type": kind, "factor": 8.0} | ({"rope_theta": 1e4} if place == "rope_parameters" else {})
    edit_config(saved, remove=["rope_scaling", "rope_parameters"], **{place: rope})
    with pytest.raises(ValueError, match=kind):
        from_pretrained(saved)


def test_llama3_scaling_without_its_numbers_is_refused(saved):
    edit_config(saved, remove=["rope_parameters"], rope_scaling={"rope_type": "llama3", "factor": 8.0})
    with pytest.raises(ValueError, match="low_freq_factor"):
        from_pretrained(saved)


def test_a_bad_size_in_the_file_is_named(saved):
    edit_config(saved, num_hidden_layers=0)
    with pytest.raises(ValueError, match=r"num_hidden_layers|n_layers"):
        from_pretrained(saved)


def test_silu_and_swish_are_one(saved):
    edit_config(saved, hidden_act="silu", attention_dropout=0.0, torch_dtype="bfloat16", use_cache=False)
    from_pretrained(saved)


# Nothing is ever unpickled.
def test_a_pickle_is_refused(make_model, tmp_path, monkeypatch):
    model = make_model()
    save_pretrained(model, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")

    def refuse(*_args, **_kwargs):
        raise AssertionError("unpickled")

    monkeypatch.setattr(torch, "load", refuse)
    with pytest.raises((ValueError, OSError), match="safetensors"):
        from_pretrained(tmp_path)


def test_missing_files_are_named(saved):
    with pytest.raises((ValueError, OSError), match="nowhere"):
        from_pretrained(saved / "nowhere")
    (saved / "config.json").rename(saved / "kept.json")
    with pytest.raises((ValueError, OSError), match=r"config.json"):
        from_pretrained(saved)
    (saved / "kept.json").rename(saved / "config.json")
    (saved / "model.safetensors").unlink()
    with pytest.raises((ValueError, OSError), match=r"model.safetensors"):
        from_pretrained(saved)


@pytest.mark.parametrize("text", ["{not json", "[]", ""])
def test_a_broken_configuration_is_named(saved, text):
    (saved / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config.json"):
        from_pretrained(saved)


def test_a_cut_off_weights_file_is_named(saved):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises((ValueError, OSError), match=r"model.safetensors"):
        from_pretrained(saved)


def test_something_else_than_a_model_is_refused(tmp_path):
    with pytest.raises((TypeError, ValueError), match="model"):
        save_pretrained(torch.nn.Linear(2, 3), tmp_path)


# --- a failure midway -----------------------------------------------------------------------------


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def half_written(*args, **_kwargs):
    for argument in args:
        if isinstance(argument, (str, os.PathLike)):
            with open(argument, "wb") as file:
                file.write(b"half a fi")
    raise OSError("No space left on device")


def no_space(*_args, **_kwargs):
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    "place", ["weights", "weights while serializing", "config", "moving into place", "flushing to disk"]
)
def test_a_failed_save_leaves_the_old_files(make_model, make_ids, tmp_path, monkeypatch, place):
    old, ids = make_model(), make_ids(2, 6)
    save_pretrained(old, tmp_path)
    before = contents(tmp_path)
    import minillama.checkpoint as module

    with monkeypatch.context() as patch:
        if place == "weights":
            patch.setattr(safetensors.torch, "serialize_file", half_written)
            patch.setattr(safetensors.torch, "serialize", no_space)
        elif place == "weights while serializing":
            patch.setattr(safetensors.torch, "save_file", half_written)
            patch.setattr(safetensors.torch, "save", no_space)
            for name in ("save_file", "save"):
                if hasattr(module, name):
                    patch.setattr(module, name, half_written)
        elif place == "config":
            patch.setattr(json, "dumps", no_space)
            patch.setattr(json, "dump", no_space)
        elif place == "moving into place":
            patch.setattr(os, "replace", no_space)
            patch.setattr(os, "rename", no_space)
        else:
            patch.setattr(os, "fsync", no_space)
        try:
            save_pretrained(make_model(seed=1, n_layers=2), tmp_path)
        except OSError as error:
            assert "No space left" in str(error)
        else:
            assert place == "flushing to disk", "the failure was swallowed"
            return
    assert contents(tmp_path) == before  # nothing lost, nothing half-written left behind
    assert torch.equal(from_pretrained(tmp_path)(ids)[0], old(ids)[0])
