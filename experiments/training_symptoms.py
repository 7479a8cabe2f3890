"""Faults of a training loop and what the loss shows of them (chapter 12).

    python experiments/training_symptoms.py

The tiny model of the chapter, trained on the plays for 160 steps: right, and with one fault at a time.
Recorded is the training loss as the faulty loop reports it, and the loss on held-out windows as the right
evaluation reports it (mask on, targets one token later). Two seeds.
About five minutes of one core; writes experiments/results/training_symptoms.json.
"""

import json
import math
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, assets, cross_entropy
from minillama.data import encode_documents, shakespeare_plays, split_by_play
from minillama.optim import AdamW, cos_lr_scheduler, decay_groups, gradient_clip
from minillama.tokenizer import Tokenizer
from minillama.train import TrainingSettings, evaluate, step_batch
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "training_symptoms.json"
V, T, BATCH, STEPS, RATE, SEEDS, EVERY, WINDOWS = 4096, 64, 8, 160, 1e-2, (0, 1), 10, 32
CONFIG = MiniLLaMAConfig(
    vocab_size=V, d_model=128, n_layers=2, n_q_heads=4, n_kv_heads=2, head_dim=32, d_ffn=352, max_seq_len=T
)
FAULTS = (
    "none",
    "no causal mask",
    "labels not shifted",
    "inputs of another batch",
    "softmax before the loss",
    "optimizer of another model",
    "gradients never zeroed",
    "rate times 10",
    "rate over 100",
    "the same batch every step",
)


@contextmanager
def everything_in_view(fault: str):
    """With this fault the model's attention ignores causality while open."""
    fused = F.scaled_dot_product_attention
    if fault == "no causal mask":
        F.scaled_dot_product_attention = lambda q, k, v, **_: fused(q, k, v, enable_gqa=True)
    try:
        yield
    finally:
        F.scaled_dot_product_attention = fused


def run(fault: str, seed: int, tokens: np.ndarray, held_out: np.ndarray) -> dict:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    trained = MiniLLaMAForCausalLM(CONFIG) if fault == "optimizer of another model" else model
    optimizer = AdamW(decay_groups(trained, 0.1), betas=(0.9, 0.95))
    factor = {"rate times 10": 10, "rate over 100": 0.01}.get(fault, 1)
    settings = TrainingSettings(steps=STEPS, batch_size=BATCH, seq_len=T, seed=seed)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = factor * cos_lr_scheduler(step, RATE, RATE / 10, 16, STEPS)
        x, y = step_batch(tokens, settings, 1 if fault == "the same batch every step" else step)
        if fault == "labels not shifted":
            y = x
        if fault == "inputs of another batch":
            x = step_batch(tokens, settings, STEPS + step)[0]
        with everything_in_view(fault):
            logits = model(x)[0]
        if fault == "softmax before the loss":
            logits = logits.softmax(-1)
        loss = cross_entropy(logits, y)
        loss.backward()
        try:
            norms.append(gradient_clip(model.parameters(), 1.0).item())
            optimizer.step()
        except RuntimeError:  # a gradient that is not finite: no step
            norms.append(math.inf)
        if fault != "gradients never zeroed":
            optimizer.zero_grad()
        losses.append(loss.item())
    held = evaluate(model, held_out, BATCH, T, WINDOWS)
    means = [sum(losses[i : i + EVERY]) / EVERY for i in range(0, STEPS, EVERY)]
    return {
        "fault": fault,
        "seed": seed,
        "curve": [round(mean, 3) if math.isfinite(mean) else None for mean in means],
        "held_out": round(held, 3) if math.isfinite(held) else None,
        "clipped": sum(norm > 1 for norm in norms),
    }


def main() -> None:
    torch.set_num_threads(1)
    plays = split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    tokenizer = Tokenizer.train((text for _, text in plays[0]), V)
    tokens, held_out = (
        np.concatenate(list(encode_documents((text for _, text in part), tokenizer))).astype(np.uint16)
        for part in plays
    )
    runs = []
    for fault in FAULTS:
        for seed in SEEDS:
            runs.append(run(fault, seed, tokens, held_out))
            told = runs[-1]
            print(f"{fault:28} {told['curve'][-1]} held out {told['held_out']} {told['clipped']}", flush=True)
    result = {
        "what": "loss in nats per token; the curve as the loop reports it, a mean of `every` steps a point",
        "config": vars(CONFIG),
        "steps": STEPS,
        "every": EVERY,
        "torch": torch.__version__.split("+")[0],
        "runs": runs,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
