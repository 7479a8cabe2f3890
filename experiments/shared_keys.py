"""Train the same small model with eight, two and one key/value heads, and then run it with faulty attention.

    python experiments/shared_keys.py

Byte-level language models with eight query heads on Shakespeare's plays, Twelfth Night held out. Multi-head
(8 key/value heads), grouped-query (2) and multi-query attention (1); the last two once with the feed-forward
width of the first, hence fewer parameters, and once with a wider one that makes up for them. Everything else
is the same for all five: batches, AdamW, schedule. Five seeds, each with its own weights and batches.
The GQA models are then run with their attention broken in three ways, nothing retrained.
About ten minutes on one core; writes experiments/results/shared_keys.json.
"""

import json
import math
from pathlib import Path

import torch
from torch.nn import functional as F
from twelfth_night import plays, windows

from minillama import KVCache, MiniLLaMAConfig, MiniLLaMAForCausalLM, accounting, causal_mask
from minillama.rope import apply_rotary_emb
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "shared_keys.json"
SIZES = dict(vocab_size=256, d_model=96, n_layers=2, n_q_heads=8, head_dim=12)
LAYOUTS = {  # (key/value heads, d_ffn)
    "MHA": (8, 256),
    "GQA": (2, 256),
    "MQA": (1, 256),
    "GQA, wider": (2, 304),  # 6 heads less, 6 · 2 · 96 · 12 parameters a layer; they are 48 · 3 · 96
    "MQA, wider": (1, 312),  # 7 heads less: 7 · 2 · 96 · 12 = 56 · 3 · 96
}
SEEDS = range(5)
STEPS, WARMUP, BATCH, T, RATE = 700, 40, 8, 64, 5e-3
HELD_OUT_WINDOWS = 512
# What is done to the attention of a trained grouped model.
FAULTS = ("none", "no mask with a cache", "torch's causal flag", "heads tiled")


def build(layout: str, seed: int) -> MiniLLaMAForCausalLM:
    g, d_ffn = LAYOUTS[layout]
    torch.manual_seed(seed)
    return MiniLLaMAForCausalLM(MiniLLaMAConfig(**SIZES, n_kv_heads=g, d_ffn=d_ffn, max_seq_len=T))


def rate(step: int) -> float:
    """Share of the full rate: a linear start, then half a cosine down to a tenth."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.55 + 0.45 * math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))


def train(layout: str, seed: int, data: torch.Tensor) -> MiniLLaMAForCausalLM:
    model = build(layout, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(1000 + seed)
    for step in range(STEPS):
        x = windows(data, BATCH, T, generator).long()  # (BATCH, T)
        for group in optimizer.param_groups:
            group["lr"] = RATE * rate(step)
        optimizer.zero_grad()
        model(x, labels=x)[1].backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def held_out_loss(model: MiniLLaMAForCausalLM, windows: torch.Tensor) -> float:
    losses = [model(x, labels=x)[1].item() for x in windows.split(64)]
    return sum(losses) / len(losses)


def faulty(fault: str):
    """The forward pass of `Attention`, explicit, with one thing wrong; always given a cache."""

    def forward(self, x, cos, sin, kv_cache=None, layer=0):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q = apply_rotary_emb(q, cos, sin).transpose(1, 2)  # (B, H, T, D)
        k = apply_rotary_emb(k, cos, sin).transpose(1, 2)  # (B, G, T, D)
        k, v = kv_cache.append(layer, k, v.transpose(1, 2))  # (B, G, S, D)
        n_rep = q.shape[1] // k.shape[1]
        if fault == "heads tiled":
            k, v = k.repeat(1, n_rep, 1, 1), v.repeat(1, n_rep, 1, 1)
        else:
            k, v = k.repeat_interleave(n_rep, 1), v.repeat_interleave(n_rep, 1)
        s = k.shape[2]
        mask = causal_mask(t, s)
        if fault == "no mask with a cache":
            mask = torch.ones_like(mask)
        elif fault == "torch's causal flag" and t > 1:
            mask = torch.ones_like(mask).tril()  # aligned top-left
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(h.transpose(1, 2).flatten(2))

    return forward


@torch.no_grad()
def chunk_losses(model: MiniLLaMAForCausalLM, windows: torch.Tensor, fault: str, sizes) -> list[float]:
    """Nats per byte that each chunk's predictions cost, the window fed to a cache in chunks of `sizes`."""
    for block in model.layers:
        block.attn.forward = faulty(fault).__get__(block.attn)
    cache = KVCache(model.config, batch_size=len(windows))
    losses, start = [], 0
    for size in sizes:
        logits = model(windows[:, start : start + size], past_key_values=cache)[0]
        targets = windows[:, start + 1 : start + size + 1]
        logits = logits[:, : targets.shape[1]]
        losses.append(F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item())
        start += size
    for block in model.layers:
        del block.attn.forward
    return losses


def main() -> None:
    torch.set_num_threads(1)
    twelfth, others = plays()
    data = torch.frombuffer(bytearray(b"\n".join(p.read_bytes() for p in others)), dtype=torch.uint8)
    held_out = torch.tensor(list(twelfth.read_bytes()[: HELD_OUT_WINDOWS * T])).view(-1, T)

    layouts = {}
    for layout in LAYOUTS:
        config = build(layout, 0).config
        layouts[layout] = {
            "kv_heads": config.n_kv_heads,
            "d_ffn": config.d_ffn,
            "parameters": accounting.count_parameters(config)["total"],
            "cache_bytes_per_token": accounting.kv_cache_bytes(config, 1, 1, 4),
        }
    runs, faults = [], {fault: {"one_by_one": [], "prefill": [], "second_chunk": []} for fault in FAULTS}
    for seed in SEEDS:
        for layout in LAYOUTS:
            model = train(layout, seed, data)
            loss = round(held_out_loss(model, held_out), 4)
            runs.append({"layout": layout, "seed": seed, "held_out": loss})
            print(f"{layout:10} seed {seed}: held out {loss}", flush=True)
            if layout != "GQA":
                continue
            some = held_out[::8]
            for fault, seen in faults.items():
                half = T // 2
                by_one = chunk_losses(model, some, fault, [1] * (T - 1))
                prefill, second = chunk_losses(model, some, fault, [half, half])
                # The same positions in all three: the second half of each window, except for the prefill.
                seen["one_by_one"].append(round(sum(by_one[half:]) / len(by_one[half:]), 3))
                seen["prefill"].append(round(prefill, 3))
                seen["second_chunk"].append(round(second, 3))
                print(f"  {fault:22} {[values[-1] for values in seen.values()]}", flush=True)
    result = {
        "what": "loss in nats per byte on a play that was held out",
        "steps": STEPS,
        "batch": [BATCH, T],
        "torch": torch.__version__.split("+")[0],
        "layouts": layouts,
        "runs": runs,
        "faults": faults,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
