"""What the cache and shared keys save in time, as ratios of times taken in one run.

    python benchmarks/cache.py [--rounds 5] [--write]

Three questions. Generating after a prompt of 37 tokens: time without the cache / time with it. One attention
step (one new token, all twelve layers' caches in turn) at a context of 2,048: time with G key/value heads /
time with eight. The same step where the cache grows by concatenation / where it was allocated beforehand.
One thread. Contestants alternate within a round; a ratio is the median over rounds. `--write` puts the
result into benchmarks/results/cache.json.
"""

import argparse
import json
import platform
import statistics
from pathlib import Path

import torch
from run import alternate
from torch.nn import functional as F

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, generate
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "cache.json"
CONFIG = MiniLLaMAConfig()
PROMPT, NEW_TOKENS = 37, (16, 64, 128)
H, D, LAYERS, CONTEXT = CONFIG.n_q_heads, CONFIG.head_dim, CONFIG.n_layers, CONFIG.max_seq_len


def median_ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def generating(rounds: int) -> dict:
    torch.manual_seed(0)
    model = MiniLLaMAForCausalLM(CONFIG)
    ids = torch.randint(CONFIG.vocab_size, (1, PROMPT))
    ratios = {}
    for new in NEW_TOKENS:

        def write(use_cache, new=new):
            return lambda: generate(model, ids, new, temperature=0, use_cache=use_cache)

        times = alternate({"with": write(True), "without": write(False)}, rounds)
        ratios[str(new)] = round(median_ratio(times["without"], times["with"]), 1)
        print(f"{new} tokens: {ratios[str(new)]}", flush=True)
    return ratios


def attention_step(batch: int, kv_heads: int, how: str):
    """One query of H heads against the full context of each layer."""
    shape = (batch, kv_heads, CONTEXT, D)
    layers = [(torch.randn(shape), torch.randn(shape)) for _ in range(LAYERS)]
    q = torch.randn(batch, H, 1, D)
    grouped = q.view(batch, kv_heads, H // kv_heads, D)

    def rows():
        for k, v in layers:
            F.scaled_dot_product_attention(grouped, k, v)

    def ungrouped():  # the kernel repeats keys and values itself
        for k, v in layers:
            F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    return {"rows": rows, "ungrouped": ungrouped}[how]


def sharing(batch: int, rounds: int) -> dict:
    contestants = {str(g): attention_step(batch, g, "rows") for g in (8, 4, 2, 1)}
    contestants["2, enable_gqa"] = attention_step(batch, 2, "ungrouped")
    times = alternate(contestants, rounds)
    ratios = {name: round(median_ratio(seen, times["8"]), 2) for name, seen in times.items()}
    print(f"batch {batch}: {ratios}", flush=True)
    return ratios


def growing(rounds: int) -> float:
    """A step of all layers near the full context; concatenation copies each layer's past."""
    shape = (1, CONFIG.n_kv_heads, CONTEXT, D)
    fixed = [(torch.randn(shape), torch.randn(shape)) for _ in range(LAYERS)]
    past = [(k[:, :, :-1].clone(), v[:, :, :-1].clone()) for k, v in fixed]
    q = torch.randn(1, CONFIG.n_kv_heads, H // CONFIG.n_kv_heads, D)
    new = torch.randn(1, CONFIG.n_kv_heads, 1, D)

    def concatenated():
        for k, v in past:
            F.scaled_dot_product_attention(q, torch.cat([k, new], 2), torch.cat([v, new], 2))

    def written():
        for k, v in fixed:
            k[:, :, -1:], v[:, :, -1:] = new, new
            F.scaled_dot_product_attention(q, k, v)

    times = alternate({"concatenated": concatenated, "written": written}, rounds)
    ratio = round(median_ratio(times["concatenated"], times["written"]), 1)
    print(f"concatenated: {ratio}", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.inference_mode():
        result = {
            "unit": "ratios of times, float32, medians",
            "torch": torch.__version__.split("+")[0],
            "machine": f"{platform.machine()} CPU",
            "threads": torch.get_num_threads(),
            "prompt": PROMPT,
            "context": CONTEXT,
            "generating without the cache over with it, by new tokens": generating(args.rounds),
            "attention step over that of 8 key/value heads": {
                f"batch {batch}": sharing(batch, 8 * args.rounds) for batch in (1, 8)
            },
            "concatenated over preallocated": growing(8 * args.rounds),
        }
    if args.write:
        record(RESULT, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
