"""How sharp a softmax over Gaussian scores is, by head size, number of keys, and with or without the √d.

    python experiments/softmax_saturation.py

Queries and keys have independent entries from N(0, 1), as the usual argument for the scale assumes: 2,000
queries for each head size and number of keys, every query with keys of its own. The same draws serve with
the division by √d and without. The chapter measures its main claims itself; this is the whole grid, for its
explorer. Half a minute; writes experiments/results/softmax_saturation.json.
"""

import json
import re
from pathlib import Path

import torch

from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "softmax_saturation.json"
HEAD_DIMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEYS = (4, 16, 64, 256)
QUERIES, CHUNK = 2000, 100
BINS = 20


def scores(head_dim: int, keys: int) -> torch.Tensor:
    """(QUERIES, keys), undivided."""
    generator = torch.Generator().manual_seed(1000 * keys + head_dim)
    parts = []
    for _ in range(QUERIES // CHUNK):
        q = torch.randn(CHUNK, head_dim, 1, generator=generator)
        k = torch.randn(CHUNK, keys, head_dim, generator=generator)
        parts.append((k @ q)[..., 0])
    return torch.cat(parts).double()


def describe(s: torch.Tensor) -> dict:
    p = s.softmax(-1)
    a, b = p.pow(2).sum(-1), p.pow(3).sum(-1)
    jacobian = (a - 2 * b + a * a).clamp(min=0).sqrt()  # Frobenius norm of diag(p) - p pᵀ
    largest = p.amax(-1)

    def per_mille(x, high):
        return [round(n) for n in (torch.histc(x, BINS, 0, high) * 1000 / len(x)).tolist()]

    return {
        "p_max_mean": round(largest.mean().item(), 3),
        "jacobian_mean": round(jacobian.mean().item(), 3),
        "jacobian_median": round(jacobian.median().item(), 3),
        "jacobian_below_001": round((jacobian < 0.01).double().mean().item(), 3),
        "p_max_per_mille": per_mille(largest, 1.0),
        "jacobian_per_mille": per_mille(jacobian, 0.5),
    }


def main() -> None:
    torch.set_num_threads(1)
    cells = []
    for keys in KEYS:
        for head_dim in HEAD_DIMS:
            s = scores(head_dim, keys)
            for divided in (True, False):
                row = describe(s / head_dim**0.5 if divided else s)
                cells.append({"keys": keys, "head_dim": head_dim, "divided": divided, **row})
    result = {
        "what": "rows of a softmax over Gaussian scores; histograms in thousandths of the rows",
        "queries": QUERIES,
        "head_dims": HEAD_DIMS,
        "keys": KEYS,
        "torch": torch.__version__.split("+")[0],
        "cells": cells,
    }
    text = json.dumps(result, indent=1)
    record(RESULT, re.sub(r"\[[\d,\s]*\]", lambda found: " ".join(found[0].split()), text) + "\n")


if __name__ == "__main__":
    main()
