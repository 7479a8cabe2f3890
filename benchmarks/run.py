"""The package beside its peer and beside the machine, in one run, as ratios.

    python benchmarks/run.py [--runs 3] [--rounds 5] [--only training,decoding] [--compile] [--write]

Peer: transformers' LlamaForCausalLM with the same weights. Limits: what the machine reaches in a large matrix
product (GEMM, FLOP/s) and in streaming the weights through a matrix-vector product (bytes/s), measured in the
same rounds. Contestants alternate within a round and a ratio is the median over rounds, so that a machine
that slows down slows all of them. On CUDA (used if present) the products are bfloat16; see README.md.
`--write` records the ratios in benchmarks/results/core.json; what they should reach is in targets.json.
"""

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch

from minillama import KVCache, MiniLLaMAConfig, MiniLLaMAForCausalLM, accounting, checkpoint, generate
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "core.json"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIG = MiniLLaMAConfig()
BATCH, T = (32, 1024) if DEVICE == "cuda" else (4, 256)
PROMPT, NEW, PREFILL, PRODUCT = 64, 128, 1024, 2048
STEP = f"forward and backward over {BATCH} × {T} tokens; the limit: the rate of a {PRODUCT:,}³ matrix product"
WORK = {
    "training": f"{'float32' if DEVICE == 'cpu' else 'bfloat16 autocast'}, {STEP}",
    "training, bfloat16 autocast": STEP,
    "decoding": f"one text, {NEW} tokens greedily after {PROMPT}; the limit: each weight read once a token",
    "prefill": f"scores of the next token after {PREFILL:,}, into an empty cache",
    "checkpoints": "the whole model to disk and back; loading touches every weight once",
    "import": "in a fresh process",
}


def clock(fn) -> float:
    """Seconds that one call of `fn` takes."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    fn()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def alternate(contestants: dict, rounds: int) -> dict[str, list[float]]:
    """Seconds of every contestant in every round; one uncounted call of each comes first."""
    for fn in contestants.values():
        fn()
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, fn in contestants.items():
            times[name].append(clock(fn))
    return times


def ratio(times: dict, above: str, below: str) -> float:
    """Median over rounds of time(above) / time(below): how many times as fast `below` is."""
    return statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))


def models() -> tuple[MiniLLaMAForCausalLM, torch.nn.Module]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    ours = MiniLLaMAForCausalLM(CONFIG).to(DEVICE)
    theirs = LlamaForCausalLM(LlamaConfig(**checkpoint.config_to_hf(CONFIG))).to(DEVICE)
    weights = {checkpoint.to_hf_name(name): tensor for name, tensor in ours.state_dict().items()}
    theirs.load_state_dict(weights)
    ids = torch.randint(CONFIG.vocab_size, (2, 32), device=DEVICE)
    with torch.no_grad():
        gap = (ours(ids)[0] - theirs(ids).logits).abs().max().item()
    if not gap < 1e-3:
        raise SystemExit(f"the models differ by {gap}: the comparison would mean nothing")
    return ours, theirs


def gemm(dtype: torch.dtype, n: int = PRODUCT):
    a, b = torch.randn(n, n, device=DEVICE).to(dtype), torch.randn(n, n, device=DEVICE).to(dtype)
    return lambda: torch.mm(a, b), 2 * n**3


def training(rounds: int, dtype: torch.dtype | None) -> dict:
    """Forward and backward at BATCH x T tokens; float32, or autocast to `dtype`."""
    ours, theirs = models()
    ids = torch.randint(CONFIG.vocab_size, (BATCH, T), device=DEVICE)

    def step(model):
        model.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=dtype, enabled=dtype is not None):
            out = model(ids, labels=ids)
            loss = out[1] if isinstance(out, tuple) else out.loss
        loss.backward()

    product, flops = gemm(dtype or torch.float32)
    contestants = {"minillama": lambda: step(ours), "transformers": lambda: step(theirs)}
    times = alternate(contestants | {"gemm": product}, rounds)
    work = 3 * accounting.flops_per_token(CONFIG, T) * BATCH * T
    share = {
        name: statistics.median(
            work / t / (flops / g) for t, g in zip(times[name], times["gemm"], strict=True)
        )
        for name in contestants
    }
    return {
        "throughput over transformers": ratio(times, "transformers", "minillama"),
        "share of the GEMM limit": share["minillama"],
        "share of the GEMM limit, transformers": share["transformers"],
    }


def decoding(rounds: int, compiled: bool) -> dict:
    """Greedy, one row, PROMPT + NEW tokens."""
    ours, theirs = models()
    ids = torch.randint(CONFIG.vocab_size, (1, PROMPT), device=DEVICE)
    # Four matrices of 92 MB in turn: together more than a large last-level cache holds.
    weights = [torch.randn(8 * CONFIG.d_ffn, 4 * CONFIG.d_model, device=DEVICE) for _ in range(4)]
    vector = torch.randn(4 * CONFIG.d_model, device=DEVICE)

    def their_tokens():
        with torch.no_grad():
            theirs.generate(ids, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0)

    def our_tokens():
        generate(ours, ids, NEW, temperature=0)

    contestants = {"minillama": our_tokens, "transformers": their_tokens}
    if compiled:
        fast = MiniLLaMAForCausalLM(CONFIG).to(DEVICE)
        fast.load_state_dict(ours.state_dict())
        fast.next_token_logits = torch.compile(fast.next_token_logits, dynamic=True, fullgraph=True)
        contestants["compiled"] = lambda: generate(fast, ids, NEW, temperature=0)
    contestants["stream"] = lambda: [torch.mv(matrix, vector) for _ in range(5) for matrix in weights]
    times = alternate(contestants, rounds)
    read = 4 * accounting.count_parameters(CONFIG)["total"]  # bytes per token: the head reads the embedding
    result = {}
    for name in contestants.keys() - {"stream"}:
        result[f"share of the bandwidth limit, {name}"] = statistics.median(
            (NEW * read / t) / (20 * weights[0].nbytes / s)
            for t, s in zip(times[name], times["stream"], strict=True)
        )
        if name != "transformers":
            result[f"tokens per second over transformers, {name}"] = ratio(times, "transformers", name)
    result["speed at position 1,900 over position 100"] = decay_with_position(ours, rounds)
    return result


@torch.no_grad()
def decay_with_position(model: MiniLLaMAForCausalLM, rounds: int, steps: int = 32) -> float:
    cache = KVCache(CONFIG, device=DEVICE)
    model.next_token_logits(torch.randint(CONFIG.vocab_size, (1, 1900), device=DEVICE), cache)
    token = torch.zeros(1, 1, dtype=torch.long, device=DEVICE)

    def decode_at(position):
        cache.truncate(position)
        for _ in range(steps):
            model.next_token_logits(token, cache)

    # Late first: truncating to 100 forgets what lies behind, so it is filled again by length alone.
    def late():
        cache.length = 1900
        decode_at(1900)

    times = alternate({"late": late, "early": lambda: decode_at(100)}, rounds)
    return ratio(times, "early", "late")


def prefill(rounds: int) -> dict:
    ours, theirs = models()
    ids = torch.randint(CONFIG.vocab_size, (1, PREFILL), device=DEVICE)

    @torch.no_grad()
    def ours_once():
        ours.next_token_logits(ids, KVCache(CONFIG, max_len=PREFILL, device=DEVICE))

    @torch.no_grad()
    def theirs_once():
        theirs(ids, use_cache=True, logits_to_keep=1)

    times = alternate({"minillama": ours_once, "transformers": theirs_once}, rounds)
    return {"throughput over transformers": ratio(times, "transformers", "minillama")}


def checkpoints(rounds: int) -> dict:
    from safetensors.torch import load_file, save_file

    model = MiniLLaMAForCausalLM(CONFIG)
    raw = {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "raw.safetensors")

        def read_raw():
            for tensor in load_file(path).values():
                tensor.sum()

        def read_ours():
            for tensor in checkpoint.from_pretrained(Path(folder, "ours")).parameters():
                tensor.detach().sum()

        times = alternate(
            {
                "save raw": lambda: save_file(raw, path),
                "save": lambda: checkpoint.save_pretrained(model, Path(folder, "ours")),
                "load raw": read_raw,
                "load": read_ours,
            },
            rounds,
        )
    return {
        "save, time over raw safetensors": ratio(times, "save", "save raw"),
        "load, time over raw safetensors": ratio(times, "load", "load raw"),
    }


def imports(rounds: int) -> dict:
    def run(module):
        return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    times = alternate({"minillama": run("minillama"), "torch": run("torch")}, rounds)
    return {"time over import torch": ratio(times, "minillama", "torch")}


def main() -> None:
    tasks = {
        "training": lambda n: training(n, None if DEVICE == "cpu" else torch.bfloat16),
        "training, bfloat16 autocast": lambda n: training(n, torch.bfloat16),
        "decoding": lambda n: decoding(n, args.compile),
        "prefill": prefill,
        "checkpoints": checkpoints,
        "import": imports,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="repeat everything; medians over the runs")
    parser.add_argument("--rounds", type=int, default=5, help="alternations; medians are taken over them")
    parser.add_argument("--only", help=f"comma-separated, of: {'; '.join(tasks)}")
    parser.add_argument("--compile", action="store_true", help="also decode with a torch.compile'd step")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    if min(args.runs, args.rounds) < 1:
        parser.error(f"--runs and --rounds must be >= 1, got {args.runs} and {args.rounds}")
    chosen = {name: task for name, task in tasks.items() if not args.only or name in args.only.split(",")}
    found = {}  # (task, ratio) -> its value in every run
    for _ in range(args.runs):
        for name, task in chosen.items():
            for key, value in task(args.rounds).items():
                if not math.isfinite(value):
                    raise SystemExit(f"{name}: {key} is not finite: {value}")
                found.setdefault((name, key), []).append(value)
                print(f"{name:28} {key:50} {value:.2f}", flush=True)
    result = {
        "machine": f"{platform.machine()} CPU" if DEVICE == "cpu" else torch.cuda.get_device_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__.split("+")[0],
        "transformers": version("transformers"),
        "runs": args.runs,
        "rounds": args.rounds,
        "work": {name: WORK[name] for name in chosen},
        "ratios": {name: {} for name in chosen},
        "every run": {name: {} for name in chosen},
    }
    for (name, key), values in found.items():
        result["ratios"][name][key] = round(statistics.median(values), 3)
        result["every run"][name][key] = [round(value, 3) for value in values]
        if args.runs > 1:
            print(f"median: {name:20} {key:50} {result['ratios'][name][key]:.2f}")
    if args.write:
        record(RESULT, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
