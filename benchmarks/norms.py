"""RMSNorm next to LayerNorm: what a norm costs, as ratios of times taken in one run.

    python benchmarks/norms.py [--write]

Contestants on the same tensors, one after the other in each round: torch's LayerNorm kernel, the package's
`rms_norm`, torch's own `rms_norm`, and the first two through torch.compile (left out, with a line, where no
C++ compiler is found). A ratio is the median over rounds of time / time of LayerNorm in the same round.
`--write` puts the result into benchmarks/results/norms.json.
"""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from minillama import rms_norm
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "norms.json"
EPS, C = 1e-6, 512
CASES = {  # (tokens, C), with the backward pass or without
    "4 x 256 tokens, forward": ((1024, C), False),
    "4 x 256 tokens, forward and backward": ((1024, C), True),
    "1 token, forward": ((1, C), False),
}


def layer_norm(x, weight, eps):
    return F.layer_norm(x, x.shape[-1:], weight, None, eps)


def torch_rms_norm(x, weight, eps):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def contestants():
    fns = {"LayerNorm": layer_norm, "RMSNorm": rms_norm, "torch's RMSNorm": torch_rms_norm}
    try:
        compiled = {f"{name}, compiled": torch.compile(fns[name]) for name in ("LayerNorm", "RMSNorm")}
        for fn in compiled.values():
            fn(torch.randn(2, C), torch.ones(C), EPS)
    except Exception as error:  # no compiler on this machine: measured without it, and said so
        print(f"torch.compile does not work here ({type(error).__name__}); compiled rows left out")
        return fns
    return fns | compiled


def seconds(fn, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        fn()
    return (time.perf_counter() - start) / repeats


def measure(fns, shape, backward, rounds=41):
    x = torch.randn(shape, requires_grad=backward)
    weight = torch.ones(C, requires_grad=backward)
    grad = torch.randn(shape)

    def call(fn):
        y = fn(x, weight, EPS)
        if backward:
            y.backward(grad)

    for fn in fns.values():
        for _ in range(3):
            call(fn)
    repeats = max(1, int(0.01 / seconds(lambda: call(layer_norm), 5)))
    ratios = {name: [] for name in fns}
    for _ in range(rounds):
        times = {name: seconds(lambda fn=fn: call(fn), repeats) for name, fn in fns.items()}
        for name, t in times.items():
            ratios[name].append(t / times["LayerNorm"])
    return {name: round(statistics.median(values), 2) for name, values in ratios.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    torch.manual_seed(0)
    fns = contestants()
    result = {
        "unit": "time / time of torch's LayerNorm kernel, float32, medians",
        "torch": torch.__version__.split("+")[0],
        "machine": f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "ratios": {},
    }
    for case, (shape, backward) in CASES.items():
        with torch.set_grad_enabled(backward):
            result["ratios"][case] = measure(fns, shape, backward)
        print(f"{case}: {result['ratios'][case]}")
    if args.write:
        record(RESULT, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
