"""Which module may import which, what `import minillama` loads, and the names it offers."""

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import minillama

PACKAGE = Path(minillama.__file__).resolve().parent

BLOCKS = {"config", "layers", "rope", "feed_forward", "attention", "cache", "loss"}
CORE = BLOCKS | {"model", "generation", "gguf_file", "checkpoint", "accounting"}
REST = {"optim", "tokenizer", "data", "train", "assets"}
ARROWS = {
    "config": set(),
    "layers": set(),
    "rope": set(),
    "feed_forward": {"layers"},
    "attention": {"layers", "rope"},
    "cache": {"config"},
    "loss": set(),
    "model": BLOCKS,
    "optim": set(),
    "tokenizer": set(),
    "data": {"tokenizer"},
    "generation": {"attention", "cache", "model"},
    "gguf_file": set(),
    "checkpoint": {"config", "model", "rope", "tokenizer", "gguf_file"},
    "train": {"model", "loss", "optim", "data", "checkpoint", "generation"},
    "assets": set(),
    "__main__": (CORE | REST) - {"accounting"},
    "accounting": {"config"},
    "scratch": set(),
    "__init__": CORE | REST,
}
LIBRARIES = {"torch", "numpy", "safetensors"}
LAZY = {"checkpoint": {"gguf"}}  # imported when needed


def imports_of(source, module):
    """(modules of the package, top-level names outside it) that a source imports, inside functions too."""
    inside, outside = set(), set()
    tree = ast.parse(source)
    names = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    package = ("minillama." + module).split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            targets = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        for target in targets:
            top, *rest = target.split(".")
            if top != "minillama":
                outside.add(top)
            elif rest and rest[0] in names:
                inside.add(rest[0])
            else:
                inside.add("__init__")
    return inside, outside


def modules():
    return sorted(path.stem for path in PACKAGE.glob("*.py"))


@pytest.mark.parametrize("module", modules())
def test_arrows(module):
    assert module in ARROWS, f"{module} has no place in the design's table"
    inside, outside = imports_of((PACKAGE / f"{module}.py").read_text(), module)
    assert inside <= ARROWS[module], f"{module} must not import {sorted(inside - ARROWS[module])}"
    if module in CORE:
        outside -= set(sys.stdlib_module_names)
        outside -= LAZY.get(module, set())
        assert outside <= LIBRARIES, f"{module} must not depend on {sorted(outside - LIBRARIES)}"
        assert "pickle" not in outside


def test_the_core_is_there():
    assert set(modules()) >= CORE | {"__init__"}
    # One way only: a depth-first walk of the table meets no module above the one it started from.
    done = set()

    def visit(module, above):
        assert module not in above, f"{module} imports itself by way of {above}"
        if module not in done:
            for imported in ARROWS[module]:
                visit(imported, (*above, module))
            done.add(module)

    for module in ARROWS:
        visit(module, ())


@pytest.mark.parametrize("folder", ["viz", "checks"])
def test_figures_and_checkers_import_the_core_and_not_the_other_way_round(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        inside, _ = imports_of(path.read_text(), module)
        assert "scratch" not in inside and inside <= CORE | REST | {folder, "__init__"}, path.name


def test_the_reader_of_imports_sees_every_spelling():
    source = """
import torch.nn
import minillama.viz
from . import scratch
from .rope import rotate_half
from minillama import generate
from minillama.optim import AdamW
def later():
    from .checks import check
"""
    inside, outside = imports_of(source, "model")
    assert outside == {"torch"}
    known = {path.stem for path in PACKAGE.glob("*.py")} | {"viz", "checks"}
    assert inside == {"__init__"} | ({"viz", "scratch", "rope", "optim", "checks"} & known)
    deeper, _ = imports_of(
        "from . import style\nfrom ..rope import rotate_half\nfrom .. import model", "viz.plots"
    )
    assert deeper == {"viz", "rope", "model"}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )


NAMES = """
    MiniLLaMAConfig RopeScaling rms_norm RMSNorm precompute_freqs_cis rotate_half apply_rotary_emb
    apply_rotary_emb_interleaved interleaved_to_half half_to_interleaved silu silu_derivative
    SwiGLUFeedForward softmax causal_mask scaled_dot_product_attention repeat_kv Attention TransformerBlock
    KVCache MiniLLaMAForCausalLM cross_entropy generate filter_logits
""".split()


def test_importing_the_package_loads_nothing_optional():
    optional = "matplotlib ipywidgets IPython transformers tokenizers gguf playwright pytest".split()
    code = f"""
import sys
import tomllib
import minillama
from minillama import {", ".join(NAMES)}
import minillama.checkpoint, minillama.accounting, minillama.tokenizer, minillama.data
loaded = [name for name in {optional} if name in sys.modules]
assert not loaded, loaded
"""
    result = run(code)
    assert result.returncode == 0, result.stderr


def test_every_name_of_the_contract():
    for name in NAMES:
        assert callable(getattr(minillama, name)), name
    for name in ("checkpoint", "accounting", "optim", "tokenizer", "data"):
        assert inspect.ismodule(
            getattr(minillama, name, None) or importlib.import_module(f"minillama.{name}")
        )
    for name in getattr(minillama, "__all__", []):
        assert hasattr(minillama, name), name
    with pytest.raises(AttributeError, match="no_such_name"):
        minillama.no_such_name  # noqa: B018


def test_generate_is_the_function_and_generation_the_module():
    importlib.import_module("minillama.generation")
    assert inspect.isfunction(minillama.generate) and inspect.ismodule(minillama.generation)


@pytest.mark.parametrize(
    "name, signature",
    [
        ("rms_norm", "x weight eps"),
        ("RMSNorm", "dim eps=1e-06"),
        ("precompute_freqs_cis", "head_dim max_seq_len rope_theta=10000.0 rope_scaling=None"),
        ("rotate_half", "x"),
        ("apply_rotary_emb", "x cos sin"),
        ("apply_rotary_emb_interleaved", "x cos sin"),
        ("interleaved_to_half", "w n_heads"),
        ("half_to_interleaved", "w n_heads"),
        ("silu", "x"),
        ("silu_derivative", "x"),
        ("SwiGLUFeedForward", "config"),
        ("softmax", "x dim=-1"),
        ("causal_mask", "q_len kv_len device=None"),
        ("scaled_dot_product_attention", "q k v mask=None"),
        ("repeat_kv", "x n_rep"),
        ("Attention", "config"),
        ("TransformerBlock", "config"),
        ("KVCache", "config batch_size=1 max_len=None dtype=torch.float32 device='cpu'"),
        ("MiniLLaMAForCausalLM", "config"),
        ("MiniLLaMAForCausalLM.forward", "self input_ids labels=None past_key_values=None start_pos=None"),
        ("cross_entropy", "logits targets ignore_index=-100"),
        (
            "generate",
            "model input_ids max_new_tokens *temperature=1.0 *top_k=None *top_p=None *eos_id=None "
            "*generator=None *use_cache=True",
        ),
        ("filter_logits", "logits temperature=1.0 top_k=None top_p=None"),
        ("optim.SGDDecay", "params lr=0.001"),
        ("optim.AdamW", "params lr=0.001 betas=(0.9, 0.999) eps=1e-08 weight_decay=0.01"),
        ("optim.cos_lr_scheduler", "it lr_max lr_min warmup_iters cos_cycle_iters"),
        ("optim.gradient_clip", "params max_norm"),
        ("optim.decay_groups", "model weight_decay"),
        ("accounting.count_parameters", "config"),
        ("accounting.kv_cache_bytes", "config batch_size seq_len bytes_per_value"),
        ("accounting.flops_per_token", "config seq_len"),
    ],
)
def test_signatures_are_the_contracts(name, signature):
    target = importlib.import_module("minillama.accounting") if name.startswith("accounting.") else minillama
    for part in name.removeprefix("accounting.").split("."):
        target = getattr(target, part)
    found = []
    for parameter in inspect.signature(target).parameters.values():
        star = "*" if parameter.kind is parameter.KEYWORD_ONLY else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        # A default where the contract gives none breaks no caller.
        found.append(star + parameter.name + ("" if name.startswith("accounting.") else default))
    assert " ".join(found) == signature


def test_the_version_is_the_projects():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert minillama.__version__ == project["version"]
