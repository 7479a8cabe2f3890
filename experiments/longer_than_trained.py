"""Train on 64 bytes, read 512: what relative scores are worth beyond the trained length, and some cures.

    python experiments/longer_than_trained.py

A small byte-level model learns from windows of 64 bytes of 37 of Shakespeare's plays and is then scored on
Twelfth Night, which it never saw, in windows up to eight times as long. Three kinds of position, three seeds
each: RoPE; learned badges, one vector per position, added to the embedding; none at all. The RoPE models are
also read with changed frequencies and with a sliding window, with planes held still, with the rotation taken
out, and with the two pair layouts mixed up. No cure trains anything.
About ten minutes on one core; writes experiments/results/longer_than_trained.json.
"""

import json
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from twelfth_night import plays, windows

from minillama import (
    MiniLLaMAConfig,
    MiniLLaMAForCausalLM,
    RopeScaling,
    apply_rotary_emb,
    half_to_interleaved,
)
from minillama.rope import inverse_frequencies
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "longer_than_trained.json"
TRAINED, LENGTHS = 64, (64, 128, 256, 512)
LONGEST = LENGTHS[-1]
CONFIG = MiniLLaMAConfig(
    vocab_size=256,
    d_model=64,
    n_layers=3,
    n_q_heads=2,
    n_kv_heads=1,
    head_dim=32,
    d_ffn=176,
    max_seq_len=LONGEST,
)
KINDS = ("rope", "badges", "none")
SEEDS = (0, 1, 2)
STEPS, WARMUP, BATCH, RATE = 1000, 50, 16, 3e-3
WINDOWS, BIN = 96, 16  # windows of each length that are scored; positions averaged in a point of the curve
PLAIN = inverse_frequencies(CONFIG.head_dim, CONFIG.rope_theta)  # (16,), radians per token
FAST = 2 * math.pi / PLAIN <= TRAINED  # planes that complete a turn within the trained length
STILL = torch.zeros((), dtype=torch.float64)


class Badges(nn.Module):
    """A token's vector plus the learned vector of its position."""

    def __init__(self, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = nn.Embedding(LONGEST, tokens.embedding_dim)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.tokens(ids) + self.positions.weight[: ids.shape[1]]


def rotate_by(model: MiniLLaMAForCausalLM, frequencies: torch.Tensor, sharper: float = 1.0) -> None:
    """Turn the planes by these angles per token, (D/2,), and multiply all scores by `sharper`."""
    angles = torch.outer(torch.arange(LONGEST, dtype=torch.float64), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    # q and k are both multiplied, so each by the root, as YaRN does.
    model.cos, model.sin = (sharper**0.5 * table.float() for table in (angles.cos(), angles.sin()))


def build(kind: str, seed: int) -> MiniLLaMAForCausalLM:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    if kind != "rope":
        rotate_by(model, torch.zeros_like(PLAIN))
    if kind == "badges":
        model.token_embeddings = Badges(model.token_embeddings)
    return model


def train(kind: str, seed: int, data: torch.Tensor) -> MiniLLaMAForCausalLM:
    model = build(kind, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95))
    generator = torch.Generator().manual_seed(1000 + seed)
    for step in range(STEPS):
        decay = 0.5 * (1 + math.cos(math.pi * step / STEPS))
        optimizer.param_groups[0]["lr"] = RATE * min(1, (step + 1) / WARMUP) * decay
        x = windows(data, BATCH, TRAINED + 1, generator)
        logits = model(x[:, :-1])[0]
        loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def losses(model: nn.Module, data: torch.Tensor, length: int, start_pos: int = 0) -> torch.Tensor:
    """Loss by position, (length,): the mean over windows spread evenly over the play."""
    starts = torch.linspace(0, len(data) - LONGEST - 1, WINDOWS).long() + LONGEST - length
    # Shorter windows end where the longest end: what is predicted at the end is the same text.
    total = torch.zeros(length)
    for s in starts.split(16):
        x = torch.stack([data[i : i + length + 1] for i in s])
        logits = model(x[:, :-1], start_pos=start_pos)[0]  # (16, length, 256)
        each = F.cross_entropy(logits.transpose(1, 2), x[:, 1:], reduction="none")
        total += each.sum(0)
    return total / WINDOWS


def sliding_window(attention: nn.Module):
    """A forward pass for `attention` in which a query sees only the last 64 keys, itself included."""

    def forward(x, cos, sin, kv_cache=None, layer=0):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, -1, CONFIG.head_dim) for w in (attention.wq, attention.wk, attention.wv))
        q, k = apply_rotary_emb(q, cos, sin), apply_rotary_emb(k, cos, sin)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        back = torch.arange(t)[:, None] - torch.arange(t)  # how far key n lies behind query m
        mask = (back >= 0) & (back < TRAINED)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return attention.wo(h.transpose(1, 2).flatten(2))

    return forward


def cures(factor: float) -> dict[str, tuple]:
    """Arguments of `rotate_by` for a context `factor` times as long."""
    half, theta = CONFIG.head_dim // 2, CONFIG.rope_theta
    slow_slower = PLAIN.where(FAST, PLAIN / factor)
    return {
        "all planes slower": (PLAIN / factor,),  # position interpolation
        "fast planes slower": (PLAIN.where(~FAST, PLAIN / factor),),
        "slow planes slower": (slow_slower,),
        "slow planes still": (PLAIN.where(FAST, STILL),),
        "larger base": (inverse_frequencies(CONFIG.head_dim, theta * factor ** (half / (half - 1))),),
        "llama3 rule": (inverse_frequencies(CONFIG.head_dim, theta, RopeScaling(factor, 1.0, 4.0, TRAINED)),),
        "slow slower, sharper": (slow_slower, (0.1 * math.log(factor) + 1) ** 2),  # YaRN's temperature
    }


def curve(values: torch.Tensor) -> list[float]:
    return [round(v, 3) for v in values.view(-1, BIN).mean(1).tolist()]


def read_longer(model: nn.Module, data: torch.Tensor, rope: bool) -> dict:
    """{reading: {length: loss by position}}, with the frequencies of each cure for each length."""
    found = {"plain": {length: losses(model, data, length) for length in LENGTHS}}
    if not rope:
        return found
    for length in LENGTHS[1:]:
        for name, how in cures(length / TRAINED).items():
            rotate_by(model, *how)
            found.setdefault(name, {})[length] = losses(model, data, length)
    rotate_by(model, PLAIN)
    for block in model.layers:
        block.attn.forward = sliding_window(block.attn)
    found["window of 64"] = {length: losses(model, data, length) for length in LENGTHS[1:]}
    for block in model.layers:
        del block.attn.forward  # the class's own again
    return found


def read_broken(model: nn.Module, data: torch.Tensor) -> dict:
    """Within the trained length: mean loss when part of the rotation is missing or mixed up."""

    def loss(frequencies=PLAIN, start_pos=0):
        rotate_by(model, frequencies)
        return round(losses(model, data, TRAINED, start_pos).mean().item(), 3)

    planes = torch.arange(len(PLAIN))
    broken = {
        "plane_held_still": [loss(PLAIN.where(planes != plane, STILL)) for plane in planes],
        "fast_held_still": loss(PLAIN.where(~FAST, STILL)),
        "slow_held_still": loss(PLAIN.where(FAST, STILL)),
        "no_rotation": loss(torch.zeros_like(PLAIN)),
        "shifted_by_448": loss(start_pos=LONGEST - TRAINED),
    }
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        for block in model.layers:
            for w, heads in ((block.attn.wq, CONFIG.n_q_heads), (block.attn.wk, CONFIG.n_kv_heads)):
                w.weight.copy_(half_to_interleaved(w.weight, heads))
    broken["layouts_mixed"] = loss()
    model.load_state_dict(before)
    return broken


def main() -> None:
    torch.set_num_threads(1)
    twelfth, others = plays()
    held_out = torch.tensor(list(twelfth.read_bytes()))
    data = torch.tensor(list(b"\n".join(p.read_bytes() for p in others)))
    runs = []
    for seed in SEEDS:
        for kind in KINDS:
            model = train(kind, seed, data)
            read = read_longer(model, held_out, rope=kind == "rope")
            run = {"kind": kind, "seed": seed}
            run["within"] = round(read["plain"][TRAINED].mean().item(), 3)
            # The last 64 positions of each window predict the same bytes, whatever the window's length.
            run["last_64"] = {
                name: {str(length): round(v[-TRAINED:].mean().item(), 3) for length, v in by_length.items()}
                for name, by_length in read.items()
            }
            run["curve_512"] = {name: curve(by_length[LONGEST]) for name, by_length in read.items()}
            if kind == "rope":
                run["broken"] = read_broken(model, held_out)
            runs.append(run)
            print(
                kind,
                seed,
                run["within"],
                json.dumps(run["last_64"]),
                json.dumps(run.get("broken")),
                flush=True,
            )
    counts = torch.bincount(data, minlength=256).double() + 1
    result = {
        "what": "loss in nats per byte; last_64: over the last 64 positions of windows that all end alike",
        "trained_length": TRAINED,
        "head_dim": CONFIG.head_dim,
        "rope_theta": CONFIG.rope_theta,
        "fast_planes": int(FAST.sum()),
        "bin": BIN,
        "parameters": sum(p.numel() for p in MiniLLaMAForCausalLM(CONFIG).parameters()),
        "unigram": round(-(counts / counts.sum()).log()[held_out].mean().item(), 3),
        "torch": torch.__version__.split("+")[0],
        "runs": runs,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
