"""Train one small model with AdamW taken apart: clipping, warmup, correction, decay, one oversized gradient.

    python experiments/optimizers.py

A byte-level model of two layers on Twelfth Night, the last tenth of the play held out. Within a seed all runs
start from the same weights and see the same batches. Also the full MiniLLaMA, untrained: what one AdamW step
at several rates does to its loss on one line. Three seeds throughout.
About eight minutes of one core; writes experiments/results/optimizers.json.
"""

import functools
import json
import math
from pathlib import Path

import torch
from twelfth_night import held_out_loss, twelfth_night, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM
from minillama.optim import AdamW, SGDDecay, cos_lr_scheduler, decay_groups, gradient_clip
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "optimizers.json"
LINE = "If music be the food of love, play on"
CONFIG = MiniLLaMAConfig(
    vocab_size=256, d_model=64, n_layers=2, n_q_heads=4, n_kv_heads=2, head_dim=16, d_ffn=176, max_seq_len=64
)
STEPS, BATCH, T, SEEDS = 240, 8, 64, (0, 1, 2)
WARMUP, EVERY = 24, 4  # steps to the peak rate, steps between points of a curve
SPIKE_AT, SPIKE = 100, 1000.0


def without_correction(t: int, betas: tuple[float, float]) -> float:
    """What a step of AdamW at step t must be multiplied by to undo its two bias corrections."""
    return (1 - betas[0] ** t) / math.sqrt(1 - betas[1] ** t)


BASE = {
    "method": "adamw",
    "rate": 3e-3,
    "betas": (0.9, 0.999),
    "corrected": True,
    "warmup": WARMUP,
    "cosine": True,
    "decay": 0.1,
    "l2": 0.0,
    "max_norm": None,
    "spike": False,
}


def run(seed: int, **settings) -> dict:
    """What `settings` do not name is as in BASE; the same run is not made twice."""
    return train(seed, **(BASE | settings))


@functools.cache
def train(seed, *, method, rate, betas, corrected, warmup, cosine, decay, l2, max_norm, spike) -> dict:
    data = twelfth_night()[0]
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    generator = torch.Generator().manual_seed(1000 + seed)
    groups = decay_groups(model, decay)
    decayed = groups[0]["params"]
    if method == "sgd":
        optimizer = SGDDecay(model.parameters(), lr=rate)
    else:
        optimizer = AdamW(groups, betas=betas)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        x = windows(data, BATCH, T, generator)  # (BATCH, T)
        loss = model(x, labels=x)[1]
        losses.append(loss.item())
        optimizer.zero_grad()
        (loss * (SPIKE if spike and step == SPIKE_AT else 1.0)).backward()
        try:
            norms.append(gradient_clip(model.parameters(), max_norm or 1e30).item())
        except RuntimeError:  # not finite: the run is over
            break
        if l2:
            for p in decayed:
                p.grad.add_(p.detach(), alpha=l2)
        if method == "adamw":
            lr = rate
            if cosine:
                lr = cos_lr_scheduler(step, rate, rate / 10, warmup, STEPS)
            elif step < warmup:
                lr = rate * step / warmup
            factor = 1.0 if corrected else without_correction(step, betas)
            for group, weight_decay in zip(optimizer.param_groups, (decay, 0.0), strict=True):
                group["lr"], group["weight_decay"] = lr * factor, weight_decay / factor
        optimizer.step()
    else:
        final = held_out_loss(model, twelfth_night()[1], T)
        rms = torch.cat([p.detach().flatten() for p in decayed]).square().mean().sqrt().item()
        return {"held_out": final, "losses": losses, "norms": norms, "rms": rms}
    return {"held_out": math.nan, "losses": losses, "norms": norms, "rms": math.nan}


def finite(value: float, digits: int = 3) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def ends(name: str, **settings) -> dict:
    runs = [run(seed, **settings) for seed in SEEDS]
    norms = [norm for run in runs for norm in run["norms"]]
    limit = settings.get("max_norm") or math.inf
    result = {
        "held_out": [finite(run["held_out"]) for run in runs],
        "weights_rms": [finite(run["rms"], 4) for run in runs],
        "clipped": round(sum(norm > limit for norm in norms) / len(norms), 2),
    }
    print(f"{name:44} {result['held_out']} rms {result['weights_rms']} {result['clipped']}", flush=True)
    return result


def curve(name: str, **settings) -> list:
    """Training loss by seed, each point the mean of EVERY steps."""
    rows = []
    for seed in SEEDS:
        losses = run(seed, **settings)["losses"]
        cut = [losses[i : i + EVERY] for i in range(0, len(losses), EVERY)]
        rows.append([finite(sum(part) / len(part), 2) for part in cut])
    print(f"{name:44} last points {[row[-1] for row in rows]}", flush=True)
    return rows


def first_step() -> list[dict]:
    """The untrained full model: predicted and actual fall of the loss on LINE after one AdamW step."""
    ids = torch.tensor([list(LINE.encode())])
    rows = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = MiniLLaMAForCausalLM(MiniLLaMAConfig())
        loss = model(ids, labels=ids)[1]
        loss.backward()
        slope = sum(p.grad.abs().sum(dtype=torch.float64) for p in model.parameters()).item()
        squares = sum(p.grad.square().sum(dtype=torch.float64) for p in model.parameters()).item()
        start = [(p, p.detach().clone()) for p in model.parameters()]
        for rate in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
            AdamW(model.parameters(), lr=rate, weight_decay=0).step()
            with torch.no_grad():
                after = model(ids, labels=ids)[1].item()
                for p, before in start:
                    p.copy_(before)
            rows.append(
                {
                    "seed": seed,
                    "rate": rate,
                    "before": round(loss.item(), 3),
                    "slope_times_rate": float(f"{slope * rate:.3g}"),
                    "fall": round(loss.item() - after, 4),
                    "gradient_norm": round(math.sqrt(squares), 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    torch.set_num_threads(1)  # small products: a second thread gains nothing
    result = {"what": "loss in nats per byte, by seed; null: not finite", "steps": STEPS, "warmup": WARMUP}
    result["torch"] = torch.__version__.split("+")[0]
    result["sgd_rates"] = {f"{r:g}": ends(f"sgd {r:g}", method="sgd", rate=r) for r in (0.1, 0.3, 1.0, 3.0)}
    limits = {"none": None, "1": 1.0, "0.1": 0.1, "0.01": 0.01}
    result["clip"] = {
        method: {
            name: ends(f"{method} clip {name}", method=method, rate=rate, max_norm=limit)
            for name, limit in limits.items()
        }
        for method, rate in (("adamw", 3e-3), ("sgd", 0.3))
    }
    result["warmup_by_rate"] = {
        f"{rate:g}": {
            "warmup": ends(f"rate {rate:g} warmup", rate=rate),
            "none": ends(f"rate {rate:g} no warmup", rate=rate, warmup=0),
        }
        for rate in (1e-3, 3e-3, 1e-2, 3e-2)
    }
    result["uncorrected"] = {
        f"{betas[1]:g}": {
            name: ends(
                f"beta2 {betas[1]:g} {name}", rate=1e-2, betas=betas, warmup=warmup, corrected=corrected
            )
            for name, warmup, corrected in (
                ("corrected", 0, True),
                ("uncorrected", 0, False),
                ("uncorrected, warmup", WARMUP, False),
            )
        }
        for betas in ((0.9, 0.999), (0.9, 0.95))
    }
    result["decay"] = {
        "decoupled": {f"{d:g}": ends(f"decoupled {d:g}", decay=d) for d in (0.0, 0.1, 1.0)},
        "in the gradient": {f"{d:g}": ends(f"l2 {d:g}", decay=0.0, l2=d) for d in (1e-3, 1e-2, 0.1, 1.0)},
    }
    spiked = {"method": "adamw", "cosine": False, "spike": True}
    sgd = {"method": "sgd", "rate": 0.3}
    result["spike"] = {"at": SPIKE_AT, "times": SPIKE, "every": EVERY}
    result["spike"]["curves"] = {
        "AdamW, no spike": curve("adamw no spike", cosine=False),
        "AdamW": curve("adamw spike", **spiked),
        "AdamW, clipped": curve("adamw spike clip", **spiked, max_norm=1.0),
        "AdamW, β2 0.95": curve("adamw .95 spike", **spiked, betas=(0.9, 0.95)),
        "SGD, no spike": curve("sgd no spike", **sgd),
        "SGD": curve("sgd spike", **sgd, spike=True),
        "SGD, clipped": curve("sgd spike clip", **sgd, spike=True, max_norm=1.0),
    }
    result["first_step"] = first_step()
    record(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
