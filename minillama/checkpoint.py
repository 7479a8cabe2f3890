"""Weights in the Hugging Face Llama layout, and training runs to be resumed. Nothing is unpickled."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .config import MiniLLaMAConfig, RopeScaling, require_int
from .gguf_file import GGUFFile
from .model import MiniLLaMAForCausalLM
from .rope import interleaved_to_half
from .tokenizer import Tokenizer

TRAINING_FORMAT = "minillama-training-1"
LONGEST = 2**20  # tokens; as many rows have RoPE's tables
WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"

# Our name, Hugging Face's name; {} is the layer.
_NAMES = {
    "token_embeddings.weight": "model.embed_tokens.weight",
    "layers.{}.attn_norm.weight": "model.layers.{}.input_layernorm.weight",
    "layers.{}.attn.wq.weight": "model.layers.{}.self_attn.q_proj.weight",
    "layers.{}.attn.wk.weight": "model.layers.{}.self_attn.k_proj.weight",
    "layers.{}.attn.wv.weight": "model.layers.{}.self_attn.v_proj.weight",
    "layers.{}.attn.wo.weight": "model.layers.{}.self_attn.o_proj.weight",
    "layers.{}.ffn_norm.weight": "model.layers.{}.post_attention_layernorm.weight",
    "layers.{}.ffn.w_gate.weight": "model.layers.{}.mlp.gate_proj.weight",
    "layers.{}.ffn.w_up.weight": "model.layers.{}.mlp.up_proj.weight",
    "layers.{}.ffn.w_down.weight": "model.layers.{}.mlp.down_proj.weight",
    "norm.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}
# The same for GGUF.
_GGUF_NAMES = {
    "token_embeddings.weight": "token_embd.weight",
    "layers.{}.attn_norm.weight": "blk.{}.attn_norm.weight",
    "layers.{}.attn.wq.weight": "blk.{}.attn_q.weight",
    "layers.{}.attn.wk.weight": "blk.{}.attn_k.weight",
    "layers.{}.attn.wv.weight": "blk.{}.attn_v.weight",
    "layers.{}.attn.wo.weight": "blk.{}.attn_output.weight",
    "layers.{}.ffn_norm.weight": "blk.{}.ffn_norm.weight",
    "layers.{}.ffn.w_gate.weight": "blk.{}.ffn_gate.weight",
    "layers.{}.ffn.w_up.weight": "blk.{}.ffn_up.weight",
    "layers.{}.ffn.w_down.weight": "blk.{}.ffn_down.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_WRAPPERS = re.compile(r"\b(?:_orig_mod|module)\.")  # of torch.compile and of data-parallel training
_LAYER = re.compile(r"(?:(?<=layers\.)|(?<=blk\.))\d+(?=\.)")


def _translate(name: str, table: dict[str, str]) -> str | None:
    """`name` in the other code base, or None when the table has no such tensor."""
    layer = _LAYER.search(name)
    pattern = table.get(_LAYER.sub("{}", name, count=1))
    return pattern and pattern.format(*[layer.group()] if layer else [])


def to_hf_name(name: str) -> str | None:
    """`layers.3.attn.wq.weight` -> `model.layers.3.self_attn.q_proj.weight`; None for an unknown name."""
    return _translate(name, _NAMES)


def from_hf_name(name: str) -> str | None:
    """The inverse of `to_hf_name`."""
    return _translate(name, {theirs: ours for ours, theirs in _NAMES.items()})


def config_to_hf(config: MiniLLaMAConfig, dtype: torch.dtype = torch.float32) -> dict:
    """The fields of a Hugging Face `config.json`."""
    scaling = None
    if config.rope_scaling is not None:
        scaling = {"rope_type": "llama3", **vars(config.rope_scaling)}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_q_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.d_ffn,
        "max_position_embeddings": config.max_seq_len,
        "rope_theta": config.rope_theta,
        "rope_scaling": scaling,
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tie_word_embeddings,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,  # Llama's defaults would stop generation at token 2
        "eos_token_id": None,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def config_from_hf(fields: dict) -> MiniLLaMAConfig:
    """Read the fields of a Hugging Face `config.json`; one that is missing has Llama's default there.

    RoPE's base and scaling are read where transformers 4 keeps them (`rope_theta`, `rope_scaling`) and where
    transformers 5 does (`rope_parameters`).

    Raises:
        ValueError: a feature this package does not have (biases, sliding windows, another architecture,
            activation, RoPE rule or quantization), named; or a value out of range.
    """
    refused = [
        ("model_type", fields.get("model_type", "llama"), "llama"),
        ("hidden_act", fields.get("hidden_act", "silu"), "silu"),
        ("attention_bias", fields.get("attention_bias") or False, False),
        ("mlp_bias", fields.get("mlp_bias") or False, False),
        ("sliding_window", fields.get("sliding_window"), None),
        ("quantization_config", fields.get("quantization_config"), None),
    ]
    for architecture in fields.get("architectures") or ["LlamaForCausalLM"]:
        refused.append(("architectures", architecture, "LlamaForCausalLM"))
    for name, value, supported in refused:
        if value != supported:
            raise ValueError(f"{CONFIG}: {name} = {value!r} is not supported, only {supported!r}")

    rope = {**(fields.get("rope_scaling") or {}), **(fields.get("rope_parameters") or {})}
    thetas = {float(t) for t in (fields.get("rope_theta"), rope.pop("rope_theta", None)) if t is not None}
    if len(thetas) > 1:
        raise ValueError(f"{CONFIG}: rope_theta stands in two places with different values {sorted(thetas)}")
    partial = rope.pop("partial_rotary_factor", fields.get("partial_rotary_factor", 1.0))
    if partial != 1.0:
        raise ValueError(f"{CONFIG}: partial_rotary_factor = {partial!r} is not supported, only 1.0")
    kind = rope.pop("rope_type", rope.pop("type", "default"))
    rope.pop("type", None)
    scaling = None
    if kind == "llama3":
        names = tuple(RopeScaling.__dataclass_fields__)
        missing = [name for name in names if name not in rope]
        if missing:
            raise ValueError(f"{CONFIG}: llama3 rope scaling lacks {', '.join(missing)}")
        scaling = RopeScaling(**{name: rope[name] for name in names})
    elif kind != "default":
        raise ValueError(f"{CONFIG}: rope_type = {kind!r} is not supported, only 'default' and 'llama3'")

    d_model, n_heads = fields.get("hidden_size", 4096), fields.get("num_attention_heads", 32)
    head_dim, n_kv_heads = fields.get("head_dim"), fields.get("num_key_value_heads")
    return MiniLLaMAConfig(
        vocab_size=fields.get("vocab_size", 32000),
        d_model=d_model,
        n_layers=fields.get("num_hidden_layers", 32),
        n_q_heads=n_heads,
        n_kv_heads=n_heads if n_kv_heads is None else n_kv_heads,
        head_dim=d_model // n_heads if head_dim is None else head_dim,
        d_ffn=fields.get("intermediate_size", 11008),
        max_seq_len=fields.get("max_position_embeddings", 2048),
        rope_theta=thetas.pop() if thetas else 10000.0,
        norm_eps=fields.get("rms_norm_eps", 1e-6),
        tie_word_embeddings=fields.get("tie_word_embeddings", False),
        rope_scaling=scaling,
    )


def save_pretrained(model: MiniLLaMAForCausalLM, directory: str | os.PathLike) -> None:
    """Write `config.json` and `model.safetensors` as Hugging Face's `LlamaForCausalLM` reads them.

    Both files are written beside their final names and renamed when complete, so an interrupted save leaves
    the old ones. A tied head is stored once, as the embedding. `model` may be wrapped by torch.compile or
    data-parallel training; where it is sharded over ranks, every rank must call this, and rank 0 writes.

    Raises:
        ValueError: a parameter with no place in the layout.
    """
    state = {_WRAPPERS.sub("", name): tensor for name, tensor in model.state_dict().items()}
    config = _unwrap(model).config
    if config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    tensors = {}
    for name, tensor in state.items():
        theirs = to_hf_name(name)
        if theirs is None:
            raise ValueError(f"parameter {name!r} has no name in the Hugging Face Llama layout")
        tensors[theirs] = _whole(tensor) if hasattr(tensor, "full_tensor") else tensor.detach().contiguous()
    if not _writes():
        return
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    dtype = tensors["model.embed_tokens.weight"].dtype
    text = json.dumps(config_to_hf(config, dtype), indent=2) + "\n"
    with tempfile.TemporaryDirectory(dir=directory, prefix=".saving-") as scratch:
        weights, fields = Path(scratch, WEIGHTS), Path(scratch, CONFIG)
        save_file(tensors, weights, metadata={"format": "pt"})
        fields.write_text(text, encoding="utf-8")
        os.replace(weights, directory / WEIGHTS)
        os.replace(fields, directory / CONFIG)


def from_pretrained(
    directory: str | os.PathLike,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> MiniLLaMAForCausalLM:
    """Load a Llama in the Hugging Face layout: one `model.safetensors`, or shards with their index.

    No weight is initialized first: the tensors read from disk become the parameters.

    Args:
        directory: holds `config.json` and the weights.
        dtype: of the loaded parameters, whatever the file's.
        device: where they go.

    Raises:
        FileNotFoundError: no config or no weights.
        ValueError: an unreadable file, pickled weights, an unsupported feature, a missing, unexpected or
            misshapen tensor; named.
    """
    directory = Path(directory)
    if not (directory / CONFIG).is_file():
        raise FileNotFoundError(f"no {CONFIG} in {directory}")
    _require_floating(dtype)
    config = config_from_hf(_read_json(directory / CONFIG))
    state = {}
    for file in _weight_files(directory):
        try:
            shard = safe_open(file, framework="pt", device=str(device))
        except SafetensorError as error:
            raise ValueError(f"{file} cannot be read: {error}") from error
        with shard as tensors:
            for name in tensors.keys():
                plain = _WRAPPERS.sub("", name)
                if plain.endswith("rotary_emb.inv_freq"):
                    continue  # a table that old files carry; ours is computed
                ours = from_hf_name(plain)
                if ours is None or ours in state:
                    raise ValueError(f"{file.name}: unexpected tensor {name!r}")
                state[ours] = tensors.get_tensor(name).to(dtype)
    return _assemble(config, state)


def _require_floating(dtype) -> None:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point type, got {dtype}")


def _require_layers(config: MiniLLaMAConfig, n_tensors: int, source: str) -> None:
    """Before anything of a claimed size is built."""
    if config.n_layers > n_tensors:
        raise ValueError(f"{source} speaks of {config.n_layers:,} layers and holds {n_tensors} tensors")
    if config.max_seq_len > LONGEST:
        raise ValueError(
            f"{source} asks for a context of {config.max_seq_len:,} tokens; RoPE's tables are built for at "
            f"most {LONGEST:,}"
        )


def _assemble(
    config: MiniLLaMAConfig, state: dict[str, Tensor], names: dict[str, str] = _NAMES, source: str = CONFIG
) -> MiniLLaMAForCausalLM:
    """A model around the tensors in `state` (our names), every one checked for name and shape.

    Errors speak of `source` and call a tensor what `names` says it is called there.
    """
    _require_layers(config, len(state), source)
    try:
        with torch.device("meta"):  # shapes without storage
            model = MiniLLaMAForCausalLM(config)
    except RuntimeError as error:  # more bytes than an integer counts
        raise ValueError(f"{source} asks for sizes that cannot be: {error}") from error
    wanted = dict(model.state_dict())
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight")
        head = state.pop("lm_head.weight", None)
        if head is not None and not torch.equal(head, state.get("token_embeddings.weight", head)):
            raise ValueError(
                f"{source} says tie_word_embeddings, but 'lm_head.weight' differs from the embedding"
            )
    for name, tensor in wanted.items():
        if name not in state:
            raise ValueError(f"missing tensor {_translate(name, names)!r}")
        if state[name].shape != tensor.shape:
            raise ValueError(
                f"tensor {_translate(name, names)!r} has shape {tuple(state[name].shape)}, "
                f"{source} asks for {tuple(tensor.shape)}"
            )
    unexpected = [_translate(name, names) for name in state if name not in wanted]
    if unexpected:
        raise ValueError(f"unexpected tensors {unexpected}")
    model.load_state_dict(state, strict=False, assign=True)  # strictness is checked above, tie included
    model.build_rope_tables(model.token_embeddings.weight.device)
    return model


def from_gguf(
    path: str | os.PathLike,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> tuple[MiniLLaMAForCausalLM, Tokenizer]:
    """Load a Llama and its byte-level BPE tokenizer from a GGUF file, the format of llama.cpp.

    Quantized tensors are expanded one by one to `dtype`. GGUF keeps the rows of the query and key projections
    in interleaved order; they are regrouped for the half-split pairs used here. A file without an output
    matrix has a tied one. The tokenizer adds no token to a text, whatever the file says about one.

    Args:
        path: the file.
        dtype, device: of the loaded parameters.

    Returns:
        (model, tokenizer).

    Raises:
        FileNotFoundError: no such file.
        ValueError: an unreadable file, an unsupported feature, a missing, unexpected or misshapen tensor.
        ModuleNotFoundError: the library `gguf` or `tokenizers` is not installed.
    """
    gguf = _import_gguf()
    _require_floating(dtype)
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        file = GGUFFile(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as GGUF: {error}") from error
    fields, found = file.fields, file.tensors
    config = _config_from_gguf(fields, tied="output.weight" not in found)
    _require_layers(config, len(found), "the file")
    tokenizer = _tokenizer_from_gguf(fields)
    ours_of = {gguf_name: ours for ours, gguf_name in _GGUF_NAMES.items()}
    state = {}
    for count, (name, entry) in enumerate(found.items(), start=1):
        ours = _translate(name, ours_of)
        if ours is None:
            raise ValueError(f"{path}: unexpected tensor {name!r}")
        try:
            kind = gguf.GGMLQuantizationType(entry.kind)
            raw = file.read(entry, *gguf.GGML_QUANT_SIZES[kind])
            state[ours] = _expand(gguf, raw, kind).to(device, dtype)  # (out, in)
        except NotImplementedError as error:
            raise ValueError(f"{path}: {name!r} has the unsupported type {kind.name}") from error
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as GGUF: {error}") from error
        if sys.stderr.isatty():
            end = "\n" if count == len(found) else ""
            print(f"\rreading tensor {count} of {len(found)}", end=end, file=sys.stderr, flush=True)
    model = _assemble(config, state, _GGUF_NAMES, "the file")
    for block in model.layers:
        for projection, n_heads in ((block.attn.wq, config.n_q_heads), (block.attn.wk, config.n_kv_heads)):
            projection.weight.data = interleaved_to_half(projection.weight.data, n_heads)
    return model, tokenizer


def _expand(gguf, raw: np.ndarray, kind) -> Tensor:
    """float32 values of a tensor's bytes, the formula being the library's."""
    values = gguf.dequantize(raw, kind)
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def _config_from_gguf(fields: dict, tied: bool) -> MiniLLaMAConfig:
    if fields.get("general.architecture") != "llama":
        architecture = fields.get("general.architecture")
        raise ValueError(f"general.architecture = {architecture!r} is not supported, only 'llama'")

    def read(name, default=None):
        value = fields.get(f"llama.{name}", default)
        if value is None:
            raise ValueError(f"the GGUF file lacks llama.{name}")
        if type(value) not in (int, float) or value <= 0:
            raise ValueError(f"llama.{name} = {value!r} is not supported, only one number > 0")
        # float32 in the file: 1e-5 arrives as 9.99999974e-06
        return float(str(np.float32(value))) if isinstance(value, float) else value

    n_heads, d_model = read("attention.head_count"), read("embedding_length")
    head_dim = read("attention.key_length", d_model // n_heads)
    refused = [
        ("llama.rope.dimension_count", fields.get("llama.rope.dimension_count", head_dim), head_dim),
        ("llama.attention.value_length", fields.get("llama.attention.value_length", head_dim), head_dim),
        ("llama.rope.scaling.type", fields.get("llama.rope.scaling.type", "none"), "none"),
        ("llama.expert_count", fields.get("llama.expert_count", 0), 0),
        ("llama.attention.sliding_window", fields.get("llama.attention.sliding_window"), None),
    ]
    for name, value, supported in refused:
        if value != supported:
            raise ValueError(f"{name} = {value!r} is not supported, only {supported!r}")
    return MiniLLaMAConfig(
        vocab_size=read("vocab_size", len(fields.get("tokenizer.ggml.tokens", [])) or None),
        d_model=d_model,
        n_layers=read("block_count"),
        n_q_heads=n_heads,
        n_kv_heads=read("attention.head_count_kv", n_heads),
        head_dim=head_dim,
        d_ffn=read("feed_forward_length"),
        max_seq_len=read("context_length"),
        rope_theta=read("rope.freq_base", 10000.0),
        norm_eps=read("attention.layer_norm_rms_epsilon"),
        tie_word_embeddings=tied,
    )


def _tokenizer_from_gguf(fields: dict) -> Tokenizer:
    def read(name, kind):
        value = fields.get(f"tokenizer.ggml.{name}")
        if value is None:
            raise ValueError(f"the GGUF file lacks tokenizer.ggml.{name}")
        if type(value) is not kind:
            raise ValueError(f"tokenizer.ggml.{name} must be {kind.__name__}, not {type(value).__name__}")
        return value

    if read("model", str) != "gpt2":
        raise ValueError(
            f"tokenizer.ggml.model = {fields['tokenizer.ggml.model']!r} is not supported, only 'gpt2'"
        )
    tokens, types, eos = read("tokens", list), read("token_type", list), read("eos_token_id", int)
    if len(types) != len(tokens) or not 0 <= eos < len(tokens):
        raise ValueError(
            f"the tokenizer has {len(tokens)} tokens and {len(types)} token types, and ends texts with {eos}"
        )
    return Tokenizer(
        tokens,
        read("merges", list),
        special_tokens=[
            token for token, kind in zip(tokens, types, strict=True) if kind in (3, 4)
        ],  # 3: control, 4: defined by the user
        eos=tokens[eos],
        pre_tokenizer=read("pre", str),
    )


def _import_gguf():
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading a GGUF file needs the library gguf, which is not installed: python -m pip install gguf",
            name="gguf",
        ) from error
    return gguf


def save_training(
    path: str | os.PathLike,
    model: MiniLLaMAForCausalLM,
    optimizer: torch.optim.Optimizer,
    step: int,
    *,
    generator: torch.Generator | None = None,
    extra: dict | None = None,
) -> None:
    """Write all that an exact continuation needs into one safetensors file, whole or not at all.

    Weights, optimizer state by parameter name, the settings of the optimizer's groups, `step`, the state of
    torch's CPU random numbers and of `generator`, and `extra`, anything that JSON can hold. The file is
    written beside `path`, flushed to the disk and renamed: a process killed at any moment, or a full disk,
    leaves the previous checkpoint. Where parameters are sharded over ranks, every rank must call this; the
    shards are gathered and rank 0 writes.

    Raises:
        ValueError: `step` not an integer >= 0; `extra` that is not JSON.
    """
    require_int("step", step, 0)
    state = optimizer.state_dict()
    names = _optimized_names(model, optimizer)
    tensors, numbers = {}, {}
    for name, tensor in _training_weights(model).items():
        tensors[f"model.{name}"] = _whole(tensor)
    for index, entries in state["state"].items():
        for key, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{names[index]}.{key}"] = _whole(value)
            else:
                numbers.setdefault(names[index], {})[key] = value
    tensors["random.torch"] = torch.get_rng_state()
    if generator is not None:
        tensors["random.generator"] = generator.get_state()
    fields = {
        "format": TRAINING_FORMAT,
        "step": step,
        "config": config_to_hf(_unwrap(model).config),
        "groups": [
            {**group, "params": [names[i] for i in group["params"]]} for group in state["param_groups"]
        ],
        "optimizer": numbers,
        "extra": extra,
    }
    try:
        text = json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"extra and the optimizer's settings must be JSON: {error}") from error
    if not _writes():
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".saving-") as folder:
        unfinished = Path(folder, path.name)
        save_file(tensors, unfinished, metadata={"training": text})
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)


def load_training(
    path: str | os.PathLike,
    model: MiniLLaMAForCausalLM,
    optimizer: torch.optim.Optimizer,
    *,
    generator: torch.Generator | None = None,
) -> int:
    """Put model, optimizer and random numbers back where `save_training` found them; returns the step.

    Everything is checked before anything is changed. A file saved from several ranks loads on one and the
    other way round.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an unreadable file, another configuration, missing, unexpected or misshapen tensors.
    """
    fields, tensors = _read_training(path)
    config, found = _unwrap(model).config, config_from_hf(fields["config"])
    if found != config:
        differing = [k for k, value in vars(config).items() if vars(found)[k] != value]
        raise ValueError(f"{path} was saved from another configuration: {', '.join(differing)} differ")
    weights, names = _training_weights(model), _optimized_names(model, optimizer)
    groups = [[names[i] for i in group["params"]] for group in optimizer.state_dict()["param_groups"]]
    if groups != [group["params"] for group in fields["groups"]]:
        raise ValueError(f"{path} was saved with other parameter groups")
    parameters = {name: p for p, name in zip(_optimized(optimizer), names, strict=True)}
    wanted = {f"model.{name}": tensor for name, tensor in weights.items()}
    state = {name: dict(entries) for name, entries in fields["optimizer"].items()}
    for full, tensor in tensors.items():
        kind, _, rest = full.partition(".")
        name, _, key = rest.rpartition(".")
        if kind == "optimizer" and name in parameters:
            state.setdefault(name, {})[key] = tensor
            if tensor.ndim:  # torch's own optimizers keep a 0-d step
                wanted[full] = parameters[name]
    for full, target in wanted.items():
        if full not in tensors:
            raise ValueError(f"{path} lacks the tensor {full!r}")
        if tensors[full].shape != target.shape or tensors[full].dtype != target.dtype:
            raise ValueError(
                f"{path}: {full!r} is {tuple(tensors[full].shape)} {tensors[full].dtype}, "
                f"the model's is {tuple(target.shape)} {target.dtype}"
            )
    randoms = {"random.torch"} | ({"random.generator"} if generator is not None else set())
    if missing := randoms - tensors.keys():
        raise ValueError(f"{path} lacks {sorted(missing)}")
    known = wanted.keys() | {f"optimizer.{n}.{k}" for n, entries in state.items() for k in entries}
    if unexpected := tensors.keys() - known - {"random.torch", "random.generator"}:
        raise ValueError(f"{path}: unexpected tensors {sorted(unexpected)}")

    with torch.no_grad():
        for name, target in weights.items():
            target.copy_(_sharded_like(tensors[f"model.{name}"], target))
    shard = {
        name: {
            key: _sharded_like(value, parameters[name]) if isinstance(value, Tensor) and value.ndim else value
            for key, value in entries.items()
        }
        for name, entries in state.items()
    }
    index = {name: i for i, name in enumerate(names)}
    optimizer.load_state_dict(
        {
            "state": {index[name]: entries for name, entries in shard.items()},
            "param_groups": [
                {
                    **{
                        k: tuple(v) if isinstance(v, list) else v for k, v in group.items()
                    },  # JSON: no tuples
                    "params": [index[name] for name in group["params"]],
                }
                for group in fields["groups"]
            ],
        }
    )
    torch.set_rng_state(tensors["random.torch"])
    if generator is not None:
        generator.set_state(tensors["random.generator"])
    return fields["step"]


def read_training(path: str | os.PathLike) -> dict:
    """What `save_training` wrote apart from tensors: {"step", "config", "extra", …}; `config` is ours.

    Raises:
        FileNotFoundError, ValueError: as `load_training`.
    """
    fields, _ = _read_training(path, tensors=False)
    return {**fields, "config": config_from_hf(fields["config"])}


def _read_training(path: str | os.PathLike, tensors: bool = True) -> tuple[dict, dict[str, Tensor]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("training", "{}")
            found = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}
        fields = json.loads(text)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if fields.get("format") != TRAINING_FORMAT:
        raise ValueError(f"{path} is no training checkpoint ({TRAINING_FORMAT})")
    return fields, found


def _training_weights(model) -> dict[str, Tensor]:
    """Every parameter once, under its name without wrappers."""
    return {_WRAPPERS.sub("", name): p.detach() for name, p in model.named_parameters()}


def _optimized(optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _optimized_names(model, optimizer) -> list[str]:
    """Names of the optimizer's parameters in the order in which its state dict numbers them."""
    names = {id(p): _WRAPPERS.sub("", name) for name, p in model.named_parameters()}
    foreign = [p for p in _optimized(optimizer) if id(p) not in names]
    if foreign:
        raise ValueError(f"optimizer holds a tensor {tuple(foreign[0].shape)} that is no parameter of model")
    return [names[id(p)] for p in _optimized(optimizer)]


def _writes() -> bool:
    """Of several ranks only the first writes."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0


def _whole(tensor: Tensor) -> Tensor:
    """A sharded tensor gathered from all ranks; contiguous, on the CPU, sharing nothing."""
    tensor = tensor.detach()
    tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return tensor.cpu().clone(memory_format=torch.contiguous_format)


def _sharded_like(tensor: Tensor, target: Tensor) -> Tensor:
    """This rank's part of `tensor` if `target` is sharded; otherwise `tensor` on the device of `target`."""
    if not hasattr(target, "full_tensor"):
        return tensor.to(target.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(target.device), target.device_mesh, target.placements)


def _read_json(path: Path) -> dict:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{path} must hold an object, got {type(fields).__name__}")
    return fields


def _weight_files(directory: Path) -> list[Path]:
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if (directory / INDEX).is_file():
        names = _read_json(directory / INDEX)["weight_map"].values()
        files = [directory / name for name in dict.fromkeys(names)]
        for file in files:
            if file.parent != directory or not file.is_file():
                raise FileNotFoundError(f"{INDEX} names {file.name!r}, which is not in {directory}")
        return files
    pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth") for p in directory.glob(pattern))
    if pickles:
        raise ValueError(
            f"{directory} holds only pickled weights ({', '.join(pickles)}), which can run code when opened; "
            f"convert them to safetensors"
        )
    raise FileNotFoundError(f"neither {WEIGHTS} nor {INDEX} in {directory}")


def _unwrap(model):
    while not hasattr(model, "config"):
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if inner is None:
            raise ValueError(f"model must be a MiniLLaMAForCausalLM, got {type(model).__name__}")
        model = inner
    return model
