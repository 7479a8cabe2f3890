"""The factory check of the finished model: `python tests/test_model.py` prints it, pytest runs it."""

import math
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))  # found from any working directory

HINTS = {
    "torch": "PyTorch is not installed in this Python. In the project's folder: python -m pip install .",
    "minillama": "The package minillama was not found. Go to the project's folder, the one that holds "
    "minillama/ and tests/, and run: python tests/test_model.py",
}

try:
    import torch

    from minillama import KVCache, MiniLLaMAConfig, MiniLLaMAForCausalLM
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    hint = f"{error.name} is not installed in this Python. In the project's folder: python -m pip install ."
    sys.exit(f"{HINTS.get(error.name, hint)}\n(Python: {sys.executable})")

TOKENS = [[1, 232, 58, 209, 2]]
PARAMETERS = 35_926_528
COMPONENTS = {
    "token embeddings, shared with the head": (2_097_152, lambda name: name.startswith("token_embeddings")),
    "attention, 12 layers": (7_864_320, lambda name: ".attn." in name),
    "feed-forward, 12 layers": (25_952_256, lambda name: ".ffn." in name),
    "25 norms": (12_800, lambda name: "norm." in name),
}


@torch.no_grad()
def factory_check():
    """Yields (line, passed) for every line of the report."""
    torch.manual_seed(0)
    config = MiniLLaMAConfig()
    model = MiniLLaMAForCausalLM(config).eval()
    sizes = config.d_model, config.n_layers, config.vocab_size
    yield "1. Model: hidden size {}, layers {}, vocabulary {}".format(*sizes), sizes == (512, 12, 4096)

    parameters = {name: p.numel() for name, p in model.named_parameters()}
    total = sum(parameters.values())
    yield f"2. Parameters: {total:,} ({total / 1e6:.2f} M), expected {PARAMETERS:,}", total == PARAMETERS
    for component, (expected, belongs) in COMPONENTS.items():
        count = sum(n for name, n in parameters.items() if belongs(name))
        yield f"     {component:<40} {count:>10,}  {count / total:6.1%}", count == expected

    ids = torch.tensor(TOKENS)
    yield f"3. Input: tokens {TOKENS}, shape {tuple(ids.shape)}", ids.shape == (1, 5)
    logits, *_ = model(ids)
    yield f"4. Logits: shape {tuple(logits.shape)}, expected (1, 5, 4096)", logits.shape == (1, 5, 4096)

    line = torch.randint(config.vocab_size, (4, 64))
    loss = model(line, labels=line)[1].item()
    expected = math.log(config.vocab_size)
    yield (
        f"5. Loss before training: {loss:.2f}, expected near ln 4096 = {expected:.2f}",
        abs(loss - expected) < 0.2,
    )

    cache = KVCache(config)
    steps = [model(ids[:, t : t + 1], past_key_values=cache)[0] for t in range(ids.shape[1])]
    gap = (torch.cat(steps, dim=1) - logits).abs().max().item()
    yield f"6. Token by token with the KV cache: logits differ by {gap:.0e}, allowed 1e-05", gap <= 1e-5


def main():
    print("=" * 78, "MiniLLaMA factory check".center(78).rstrip(), "=" * 78, sep="\n")
    failures = 0
    for line, passed in factory_check():
        failures += not passed
        print(line if passed else f"{line}   <-- FAILED")
    print("-" * 78)
    print("All checks passed." if not failures else f"{failures} check(s) FAILED: see the marked lines.")
    print("=" * 78)
    return 1 if failures else 0


# --- the same under pytest ------------------------------------------------------------------------


def test_factory_check():
    lines = list(factory_check())
    assert len(lines) == 10
    assert [line for line, passed in lines if not passed] == []


def test_the_untied_model():
    model = MiniLLaMAForCausalLM(MiniLLaMAConfig(tie_word_embeddings=False))
    assert sum(p.numel() for p in model.parameters()) == 38_023_680


def run(*arguments, cwd=HERE.parents[1]):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_as_a_script_from_any_folder(tmp_path):
    result = run(HERE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for said in ("hidden size 512, layers 12, vocabulary 4096", "35,926,528 (35.93 M)", "shape (1, 5)"):
        assert said in result.stdout
    assert (
        "shape (1, 5, 4096), expected (1, 5, 4096)" in result.stdout and "All checks passed." in result.stdout
    )
    assert "FAILED" not in result.stdout and result.stderr == ""


def test_as_a_script_a_failure_is_said_and_returned():
    eleven_layers = f"""
import functools, runpy, sys
sys.path.insert(0, {str(HERE.parents[1])!r})
import minillama
minillama.MiniLLaMAConfig = functools.partial(minillama.MiniLLaMAConfig, n_layers=11)
runpy.run_path({str(HERE)!r}, run_name="__main__")
"""
    result = run("-c", eleven_layers)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "33,127,936" not in result.stdout or "FAILED" in result.stdout
    assert "expected 35,926,528   <-- FAILED" in result.stdout and "All checks passed" not in result.stdout


def test_as_a_script_without_torch():
    result = run("-S", "-E", HERE)  # no site-packages at all
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "PyTorch is not installed" in result.stderr and "pip install" in result.stderr


def test_as_a_script_without_the_package(tmp_path):
    (tmp_path / "tests").mkdir()
    copy = tmp_path / "tests" / "test_model.py"
    copy.write_text(HERE.read_text())
    # An installed minillama would be found, and rightly used; so it is hidden here.
    script = f"""
import runpy, sys
sys.modules["minillama"] = None
runpy.run_path({str(copy)!r}, run_name="__main__")
"""
    result = run("-c", script, cwd=tmp_path)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "python tests/test_model.py" in result.stderr and "minillama was not found" in result.stderr


if __name__ == "__main__":
    sys.exit(main())
