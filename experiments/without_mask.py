"""Train the same small model with the causal mask and without it, and test both with the mask on.

    python experiments/without_mask.py

Byte-level language models on Twelfth Night, the last tenth of the play held out; one block, four heads of 16.
Without the mask a position can look up the byte that it is to predict. Three seeds.
About a minute of one core; writes experiments/results/without_mask.json.
"""

import json
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.nn import functional as F
from twelfth_night import held_out_loss, twelfth_night, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "without_mask.json"
CONFIG = MiniLLaMAConfig(
    vocab_size=256, d_model=64, n_layers=1, n_q_heads=4, n_kv_heads=4, head_dim=16, d_ffn=176, max_seq_len=64
)
SEEDS, STEPS, BATCH, T, RATE, EVERY = (0, 1, 2), 200, 8, 64, 1e-2, 10


@contextmanager
def everything_in_view():
    """While open, the model's attention ignores causality."""
    fused = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = lambda q, k, v, **_: fused(q, k, v)
    try:
        yield
    finally:
        F.scaled_dot_product_attention = fused


def steps(model, data, seed):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(1000 + seed)
    for _ in range(STEPS):
        x = windows(data, BATCH, T, generator)  # (BATCH, T)
        loss = model(x, labels=x)[1]
        yield loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(masked: bool, seed: int, train_data, held_out) -> dict:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    if masked:
        losses = list(steps(model, train_data, seed))
        as_trained = round(held_out_loss(model, held_out, T), 3)
    else:
        with everything_in_view():
            losses = list(steps(model, train_data, seed))
            as_trained = round(held_out_loss(model, held_out, T), 3)
    curve = [round(sum(losses[i : i + EVERY]) / EVERY, 3) for i in range(0, STEPS, EVERY)]
    return {
        "masked": masked,
        "seed": seed,
        "held_out_as_trained": as_trained,
        "held_out_masked": round(held_out_loss(model, held_out, T), 3),
        "curve": curve,
    }


def main() -> None:
    torch.set_num_threads(1)
    train_data, held_out = twelfth_night()
    runs = [train(masked, seed, train_data, held_out) for masked in (True, False) for seed in SEEDS]
    for run in runs:
        print({key: value for key, value in run.items() if key != "curve"})
    result = {
        "what": "loss in nats per byte",
        "steps": STEPS,
        "every": EVERY,
        "torch": torch.__version__.split("+")[0],
        "runs": runs,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
