"""Faults of a training loop and what the loss shows of them (chapter 12).

    python experiments/training_symptoms.py

The tiny model of the chapter, trained on the plays for 160 steps: right, and with one fault at a time.
Recorded is the training loss as the faulty loop reports it, and the loss on held-out windows as the right
evaluation reports it (mask on, targets one token later). Two seeds. Also recorded: how much the predictions
on eight held-out windows differ from their average, in the first 40 steps of the small run itself.
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
from minillama.__main__ import SIZES
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


@torch.no_grad()
def spread(model, windows: torch.Tensor) -> tuple[float, float]:
    """Loss on the windows, and mean divergence of the predictions from their average."""
    logits = model(windows[:, :-1])[0].flatten(0, 1)
    log_p = logits.log_softmax(-1)
    p = log_p.exp()
    loss = cross_entropy(logits, windows[:, 1:].flatten()).item()
    return round(loss, 3), round((p * (log_p - p.mean(0).log())).sum(-1).mean().item(), 4)


def hearing(tokens: np.ndarray, held_out: np.ndarray) -> list[dict]:
    """The first steps of the small run (`small_run.py`), its predictions compared after each second one."""
    sizes, given = SIZES["small"]
    settings = TrainingSettings(**given)
    starts = np.arange(8) * (len(held_out) // 8)
    windows = torch.from_numpy(held_out[starts[:, None] + np.arange(129)].astype(np.int64))
    torch.manual_seed(settings.seed)
    model = MiniLLaMAForCausalLM(MiniLLaMAConfig(vocab_size=V, **sizes))
    optimizer = AdamW(decay_groups(model, settings.weight_decay), betas=(settings.beta1, settings.beta2))
    rows = []
    for step in range(41):
        if step % 2 == 0:
            loss, told = spread(model, windows)
            rows.append({"step": step, "loss": loss, "spread": told})
        for group in optimizer.param_groups:
            group["lr"] = cos_lr_scheduler(
                step + 1, settings.lr, settings.lr_min, settings.warmup, settings.steps
            )
        x, y = step_batch(tokens, settings, step + 1)
        cross_entropy(model(x)[0], y).backward()
        gradient_clip(model.parameters(), settings.max_norm)
        optimizer.step()
        optimizer.zero_grad()
    return rows


def main() -> None:
    torch.set_num_threads(1)
    plays = split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    tokenizer = Tokenizer.train((text for _, text in plays[0]), V)
    tokens, held_out = (
        np.concatenate(list(encode_documents((text for _, text in part), tokenizer))).astype(np.uint16)
        for part in plays
    )
    heard = hearing(tokens, held_out)
    print(heard, flush=True)
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
        "hearing_of_the_small_run": heard,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
