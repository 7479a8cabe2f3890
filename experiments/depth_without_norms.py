"""Train the same twelve-layer model with RMSNorm, with LayerNorm, and with no norm at all.

    python experiments/depth_without_norms.py

Byte-level language models on Twelfth Night, the last tenth of the play held out. Everything but the norm
is the same: weights at the start, batches, AdamW, rate. Three rates, three seeds. LayerNorm has no bias, so
it differs from RMSNorm in one thing, the mean that it subtracts.
About ten minutes on two cores; writes experiments/results/depth_without_norms.json.
"""

import json
import math
from pathlib import Path

import torch
from torch import nn
from twelfth_night import held_out_loss, twelfth_night, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "depth_without_norms.json"
CONFIG = MiniLLaMAConfig(
    vocab_size=256, d_model=64, n_layers=12, n_q_heads=4, n_kv_heads=2, head_dim=16, d_ffn=176, max_seq_len=64
)
NORMS = {
    "RMSNorm": None,  # as the package builds it
    "LayerNorm": lambda: nn.LayerNorm(CONFIG.d_model, eps=CONFIG.norm_eps, bias=False),
    "no norm": nn.Identity,
}
RATES, SEEDS = (1e-3, 3e-3, 1e-2), (0, 1, 2)
STEPS, BATCH, T = 300, 8, 64
EVERY = 20  # steps between points of the recorded curve


def build(norm: str, seed: int) -> MiniLLaMAForCausalLM:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    make = NORMS[norm]
    if make is not None:
        for block in model.layers:
            block.attn_norm, block.ffn_norm = make(), make()
        model.norm = make()
    return model


def train(norm: str, rate: float, seed: int, train_data: torch.Tensor, held_out: torch.Tensor) -> dict:
    model = build(norm, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1000 + seed)
    curve, recent = [], []
    for step in range(STEPS + 1):
        x = windows(train_data, BATCH, T, generator)
        loss = model(x, labels=x)[1]
        recent.append(loss.item())
        if step % EVERY == 0:
            curve.append(sum(recent) / len(recent))
            recent = []
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"curve": curve, "held_out": held_out_loss(model, held_out, T)}


def finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def main() -> None:
    train_data, held_out = twelfth_night()
    runs = []
    for norm in NORMS:
        for rate in RATES:
            for seed in SEEDS:
                run = train(norm, rate, seed, train_data, held_out)
                curve, loss = [finite(v) for v in run["curve"]], finite(run["held_out"])
                runs.append({"norm": norm, "rate": rate, "seed": seed, "held_out": loss, "curve": curve})
                print(f"{norm:10} rate {rate:g} seed {seed}: held out {loss}", flush=True)
    counts = torch.bincount(train_data, minlength=256).double() + 1
    log_p = (counts / counts.sum()).log()
    result = {
        "what": "loss in nats per byte; null: not finite",
        "unigram": round(-log_p[held_out].mean().item(), 3),
        "steps": STEPS,
        "every": EVERY,
        "torch": torch.__version__.split("+")[0],
        "runs": runs,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
