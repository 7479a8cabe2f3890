"""ReLU, SiLU and GELU: what an activation costs, alone and inside a feed-forward network, as ratios.

    python benchmarks/activations.py [--write]

Contestants on the same tensors, one after the other in each round: torch's ReLU, SiLU, GELU with the error
function and GELU in its tanh form. First elementwise on the hidden tensor of MiniLLaMA, then with the three
matrix products of a gated network around them. Processor time on one thread, which other programs disturb
least; a ratio is the median over rounds of time / time of SiLU in the same round. `--write` puts the result
into benchmarks/results/activations.json.
"""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "activations.json"
TOKENS, C, FFN = 1024, 512, 1408
FNS = {
    "SiLU": F.silu,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "GELU, tanh form": lambda x: F.gelu(x, approximate="tanh"),
}
CASES = {  # (inside a network, with the backward pass)
    "alone, forward": (False, False),
    "alone, forward and backward": (False, True),
    "in the network, forward": (True, False),
    "in the network, forward and backward": (True, True),
}


def seconds(fn, repeats):
    start = time.process_time()
    for _ in range(repeats):
        fn()
    return (time.process_time() - start) / repeats


def measure(network, backward, rounds=21):
    x = torch.randn(TOKENS, C if network else FFN, requires_grad=backward)
    gate, up = (0.02 * torch.randn(FFN, C) for _ in range(2))
    down = 0.02 * torch.randn(C, FFN)
    for weight in (gate, up, down):
        weight.requires_grad_(backward)
    grad = torch.randn(TOKENS, C if network else FFN)

    def call(fn):
        y = F.linear(fn(F.linear(x, gate)) * F.linear(x, up), down) if network else fn(x)
        if backward:
            y.backward(grad)

    for fn in FNS.values():
        for _ in range(3):
            call(fn)
    repeats = max(1, int(0.01 / seconds(lambda: call(F.silu), 5)))
    ratios = {name: [] for name in FNS}
    for _ in range(rounds):
        times = {name: seconds(lambda fn=fn: call(fn), repeats) for name, fn in FNS.items()}
        for name, t in times.items():
            ratios[name].append(t / times["SiLU"])
    return {name: round(statistics.median(values), 2) for name, values in ratios.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result = {
        "unit": "processor time / processor time with torch's SiLU, float32, medians",
        "shape": {"tokens": TOKENS, "C": C, "d_ffn": FFN},
        "torch": torch.__version__.split("+")[0],
        "machine": f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "ratios": {},
    }
    for case, (network, backward) in CASES.items():
        with torch.set_grad_enabled(backward):
            result["ratios"][case] = measure(network, backward)
        print(f"{case}: {result['ratios'][case]}", flush=True)
    if args.write:
        record(RESULT, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
