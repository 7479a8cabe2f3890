"""Train the same small model with scores divided by √D, not divided, and not divided but started smaller.

    python experiments/attention_scale.py

Byte-level language models on Twelfth Night, the last tenth of the play held out; two blocks, 256 channels of
queries cut into heads of 64 or one head of 256. W_q and W_k start with standard deviation 1/√C, so that the
entries of queries and keys have variance 1, as the usual argument for the scale assumes. Three ways:

    divided    scores q·k / √D
    bare       scores q·k
    folded     scores q·k, and W_q starts √D times smaller: at the start the same function as "divided"
    slow       as folded, and for W_q the rate is divided, AdamW's ε and weight decay are multiplied by √D:
               in exact arithmetic every step is that of "divided"; one head size and one rate only

The rest is equal: other weights, batches, AdamW. Four rates, three seeds.
About ten minutes of one core; writes experiments/results/attention_scale.json.
"""

import json
import math
import re
from pathlib import Path

import torch
from torch import nn
from twelfth_night import held_out_loss, twelfth_night, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, apply_rotary_emb, causal_mask, softmax
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "attention_scale.json"
HEAD_DIMS, WAYS = (64, 256), ("divided", "bare", "folded")
RATES, SEEDS = (3e-4, 1e-3, 3e-3, 1e-2), (0, 1, 2)
ONCE_MORE = [("slow", 256, 3e-3, seed) for seed in SEEDS]
STEPS, BATCH, T = 200, 8, 64
EVERY = 10  # steps between points of the recorded curve
LOOKS = (0, 20, STEPS)  # steps before which the attention weights are looked at


class Louder(nn.Module):
    """A projection whose output is multiplied: √D on the queries undoes the division by √D that follows."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.factor * self.inner(x)


def build(way: str, head_dim: int, seed: int) -> MiniLLaMAForCausalLM:
    torch.manual_seed(seed)
    heads = 256 // head_dim
    config = MiniLLaMAConfig(
        vocab_size=256, d_model=64, n_layers=2, n_q_heads=heads, n_kv_heads=heads, head_dim=head_dim,
        d_ffn=176, max_seq_len=T,
    )  # fmt: skip
    model = MiniLLaMAForCausalLM(config)
    for block in model.layers:
        for projection in (block.attn.wq, block.attn.wk):
            nn.init.normal_(projection.weight, std=config.d_model**-0.5)
        if way in ("folded", "slow"):
            with torch.no_grad():
                block.attn.wq.weight /= math.sqrt(head_dim)
        if way != "divided":
            block.attn.wq = Louder(block.attn.wq, math.sqrt(head_dim))
    return model


@torch.no_grad()
def look(model: MiniLLaMAForCausalLM, x: torch.Tensor) -> dict:
    """What the softmax does on held-out text, over heads, layers and the queries that see 32 keys or more."""
    rows, scores = [], []
    mask = causal_mask(T, T)

    def listen(attention, inputs):
        h = inputs[0]
        q, k = (
            apply_rotary_emb(w(h).view(*h.shape[:2], -1, attention.head_dim), model.cos, model.sin)
            for w in (attention.wq, attention.wk)
        )
        s = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(attention.head_dim)
        rows.append(softmax(s.masked_fill(~mask, -math.inf))[:, :, 31:].flatten(0, 2))
        scores.append(s[:, :, mask])

    hooks = [block.attn.register_forward_pre_hook(listen) for block in model.layers]
    model(x)
    for hook in hooks:
        hook.remove()
    p = torch.cat(rows).double()
    a, b = p.pow(2).sum(-1), p.pow(3).sum(-1)
    jacobian = (a - 2 * b + a * a).clamp(min=0).sqrt()
    return {
        "score_std": round(torch.stack(scores).std().item(), 2),
        "p_max": round(p.amax(-1).mean().item(), 2),
        "jacobian_mean": round(jacobian.mean().item(), 3),
        "jacobian_median": round(jacobian.median().item(), 3),
    }


def train(way, head_dim, rate, seed, train_data, held_out) -> dict:
    model = build(way, head_dim, seed)
    queries = [p for name, p in model.named_parameters() if ".wq." in name]
    others = [p for name, p in model.named_parameters() if ".wq." not in name]
    slower = math.sqrt(head_dim) if way == "slow" else 1.0
    theirs = {"lr": rate / slower, "eps": 1e-8 * slower, "weight_decay": 1e-2 * slower}
    optimizer = torch.optim.AdamW([{"params": others}, {"params": queries, **theirs}], lr=rate)
    generator = torch.Generator().manual_seed(1000 + seed)
    probe = held_out[: 16 * T].view(-1, T)
    curve, recent, looks, gradient = [], [], [], None
    for step in range(STEPS + 1):
        if step in LOOKS:
            looks.append(look(model, probe))
        if step == STEPS:
            break
        x = windows(train_data, BATCH, T, generator)
        loss = model(x, labels=x)[1]
        recent.append(loss.item())
        if len(recent) == EVERY:
            curve.append(round(sum(recent) / EVERY, 3))
            recent = []
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            grads = [getattr(b.attn.wq, "inner", b.attn.wq).weight.grad for b in model.layers]
            gradient = float(f"{torch.cat(grads).norm().item():.3g}")
        optimizer.step()
    return {
        "head_dim": head_dim, "way": way, "rate": rate, "seed": seed,
        "held_out": round(held_out_loss(model, held_out, T), 3), "first_wq_gradient": gradient,
        "looks": looks, "curve": curve,
    }  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    train_data, held_out = twelfth_night()
    runs = []
    plan = [(way, d, rate, seed) for d in HEAD_DIMS for way in WAYS for rate in RATES for seed in SEEDS]
    for way, head_dim, rate, seed in plan + ONCE_MORE:
        run = train(way, head_dim, rate, seed, train_data, held_out)
        runs.append(run)
        print(f"D {head_dim} {way:8} {rate:g} seed {seed}: {run['held_out']}", flush=True)
    result = {
        "what": "loss in nats per byte; `looks` at attention before steps 0 and 20 and after the last",
        "steps": STEPS,
        "every": EVERY,
        "looked_at": LOOKS,
        "torch": torch.__version__.split("+")[0],
        "runs": runs,
    }
    text = json.dumps(result, indent=1)
    record(RESULT, re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n")


if __name__ == "__main__":
    main()
