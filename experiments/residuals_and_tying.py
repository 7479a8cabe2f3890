"""Residual streams at the start, and what training makes of them, tied and untied.

    python experiments/residuals_and_tying.py

Two studies. *Streams*: MiniLLaMA's own sublayers at full width read the book's line, 3 to 48 layers deep,
with the norm before each sublayer (pre), after each addition (post), or before it and nothing added (none);
weights as the package draws them, the same without its factor 1/√(2L), and Xavier's. Recorded before any
training, at every sixth of the way: level, gradient, likeness of the tokens. *Training*: a byte-level model
on Twelfth Night, the last tenth held out, as in depth_without_norms.py but for 150 steps at one rate; and
some of the runs again for 300 steps at three tenths of it. About 15 minutes on one core; writes
experiments/results/residuals_and_tying.json.
"""

import json
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from twelfth_night import in_rows, twelfth_night, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, cross_entropy
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "residuals_and_tying.json"
LINE = "If music be the food of love, play on"
ARRANGEMENTS = ("pre", "post", "none")
INITS = ("package", "unscaled", "xavier")
DEPTHS, POINTS = (3, 6, 12, 24, 48), 6  # layers; points of a recorded curve, the first apart
SMALL = dict(
    vocab_size=256, d_model=64, n_layers=12, n_q_heads=4, n_kv_heads=2, head_dim=16, d_ffn=176, max_seq_len=64
)
STEPS, BATCH, T, EVERY = 150, 8, 64, 10
SEEDS = (0, 1, 2)
RATE = 1e-3
SLOWER, SLOWER_STEPS = 3e-4, 300
RUNS = [  # arrangement, weights, tied
    ("pre", "package", True),
    ("pre", "package", False),
    ("post", "package", True),
    ("none", "package", True),
    ("pre", "xavier", True),
    ("post", "xavier", True),
]
SLOWER_RUNS = [
    ("pre", "package", True),
    ("post", "package", True),
    ("post", "xavier", True),
    ("none", "package", True),
]


def build(config: MiniLLaMAConfig, init: str, seed: int) -> MiniLLaMAForCausalLM:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(config)
    with torch.no_grad():
        for block in model.layers:
            if init == "unscaled":
                block.attn.wo.weight *= (2 * config.n_layers) ** 0.5
                block.ffn.w_down.weight *= (2 * config.n_layers) ** 0.5
            if init == "xavier":
                for weight in block.parameters():
                    if weight.ndim == 2:
                        nn.init.xavier_normal_(weight)
    return model


def stream(model: MiniLLaMAForCausalLM, ids: Tensor, arrangement: str) -> tuple[list[Tensor], Tensor]:
    """The stream after the embedding and after each sublayer, and the logits. 2 L + 1 norms in every case."""
    t = ids.shape[1]
    cos, sin = model.cos[:t], model.sin[:t]
    h = model.token_embeddings(ids)  # (B, T, C)
    points = [model.norm(h) if arrangement == "post" else h]
    for block in model.layers:
        for norm, sublayer in (
            (block.attn_norm, lambda x, block=block: block.attn(x, cos, sin)),
            (block.ffn_norm, block.ffn),
        ):
            h = points[-1]
            if arrangement == "pre":
                h = h + sublayer(norm(h))
            elif arrangement == "post":
                h = norm(h + sublayer(h))
            else:
                h = sublayer(norm(h))
            points.append(h)
    top = points[-1] if arrangement == "post" else model.norm(points[-1])
    return points, model.lm_head(top)


def likeness(x: Tensor) -> float:
    """Mean cosine of two different tokens of one text: 1 when all have become the same."""
    n = F.normalize(x[0], dim=-1)  # (T, C)
    k = len(n)
    return ((n @ n.T).sum().item() - k) / (k * (k - 1))


def look(model: MiniLLaMAForCausalLM, ids: Tensor, arrangement: str) -> dict:
    points, logits = stream(model, ids, arrangement)
    loss = cross_entropy(logits[:, :-1], ids[:, 1:])
    gradients = torch.autograd.grad(loss, points)
    step = (len(points) - 1) // POINTS
    return {
        "level": [p.pow(2).mean().sqrt().item() for p in points[::step]],
        "gradient": [g.norm().item() for g in gradients[::step]],
        "likeness": [likeness(p.detach()) for p in points[::step]],
        "loss": loss.item(),
    }


def streams() -> list[dict]:
    ids = torch.tensor([list(LINE.encode())])
    rows = []
    for depth in DEPTHS:
        for init in INITS:
            seen = {arrangement: [] for arrangement in ARRANGEMENTS}
            for seed in SEEDS:
                model = build(MiniLLaMAConfig(n_layers=depth), init, seed)
                for weight in model.layers.parameters():
                    weight.requires_grad_(False)  # only the stream's gradients are wanted
                for arrangement in ARRANGEMENTS:
                    seen[arrangement].append(look(model, ids, arrangement))
            for arrangement, looks in seen.items():
                row = {"depth": depth, "init": init, "arrangement": arrangement}
                for key in ("level", "gradient"):  # powers of ten, averaged over the seeds
                    logs = torch.tensor([each[key] for each in looks]).log10().mean(0)
                    row[f"log10_{key}"] = [round(v, 2) + 0.0 for v in logs.tolist()]
                mean = torch.tensor([each["likeness"] for each in looks]).mean(0)
                row["likeness"] = [round(v, 2) + 0.0 for v in mean.tolist()]
                rows.append(row)
                print(row, flush=True)
    return rows


def repeats(logits: Tensor, x: Tensor) -> float:
    """Share of positions whose first choice is the token just read."""
    return (logits.argmax(-1) == x).double().mean().item()


def train(arrangement, init, tied, seed, train_data, held_out, rate=RATE, steps=STEPS) -> dict:
    model = build(MiniLLaMAConfig(**SMALL, tie_word_embeddings=tied), init, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1000 + seed)
    curve, recent, parrot = [], [], []
    for step in range(steps + 1):
        x = windows(train_data, BATCH, T, generator)
        logits = stream(model, x, arrangement)[1]
        loss = cross_entropy(logits[:, :-1], x[:, 1:])
        recent.append(loss.item())
        if step % EVERY == 0:
            curve.append(sum(recent) / len(recent))
            parrot.append(round(repeats(logits, x), 3))
            recent = []
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x = in_rows(held_out, T)
        logits = stream(model, x, arrangement)[1]
        last = cross_entropy(logits[:, :-1], x[:, 1:]).item()
    return {"held_out": finite(last), "curve": [finite(v) for v in curve], "repeats": parrot}


def finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def train_all(wanted: list[tuple], **how) -> list[dict]:
    runs = []
    for seed in SEEDS:
        for arrangement, init, tied in wanted:
            run = {"arrangement": arrangement, "init": init, "tied": tied, "seed": seed}
            run |= train(arrangement, init, tied, seed, *twelfth_night(), **how)
            runs.append(run)
            print(run, flush=True)
    return runs


def training() -> dict:
    data = torch.cat(twelfth_night())
    doubled = (data[1:] == data[:-1]).double().mean().item()
    commonest = torch.bincount(data).max().item() / len(data)
    shares = {"repeats_in_text": round(doubled, 3), "commonest_byte": round(commonest, 3)}
    return {"rate": RATE, "steps": STEPS, "every": EVERY, **shares, "runs": train_all(RUNS)}


def slower() -> dict:
    runs = train_all(SLOWER_RUNS, rate=SLOWER, steps=SLOWER_STEPS)
    return {"rate": SLOWER, "steps": SLOWER_STEPS, "every": EVERY, "runs": runs}


def main() -> None:
    result = {
        "what": "streams: log10 of levels and gradient norms, mean over seeds; runs: loss in nats per byte",
        "torch": torch.__version__.split("+")[0],
        "seeds": len(SEEDS),
        "streams": streams(),
        "training": training(),
        "slower": slower(),
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
