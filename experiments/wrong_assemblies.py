"""Train the model as it should be, and with one line of its assembly changed, in twelve ways.

    python experiments/wrong_assemblies.py

Byte-level language models of four layers. First each learns a single line by heart. Then all but two are
trained on Twelfth Night at two rates, three seeds each, the last tenth of the play held out (without the mask
the loss would be no loss, and with positions from 100 on the function is the right model's). Within a seed
all start from the same weights and see the same batches; only what is done with the parts differs.
About eight minutes on one core; writes experiments/results/wrong_assemblies.json.
"""

import json
import types
from pathlib import Path

import torch
from torch.nn import functional as F
from twelfth_night import held_out_loss, twelfth_night, windows

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, apply_rotary_emb
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "wrong_assemblies.json"
CONFIG = MiniLLaMAConfig(
    vocab_size=256, d_model=64, n_layers=4, n_q_heads=4, n_kv_heads=2, head_dim=16, d_ffn=176, max_seq_len=256
)
SEEDS = (0, 1, 2)
RATES, STEPS, BATCH, T = (3e-3, 1e-3), 300, 8, 64
LINE = "If music be the food of love, play on"
BY_HEART_RATE, BY_HEART_STEPS = 3e-3, 150


def right(b, x, a):
    h = x + a(b.attn_norm(x))
    return h + b.ffn(b.ffn_norm(h))


def wrong_variable(b, x, a):
    h = x + a(b.attn_norm(x))
    return x + b.ffn(b.ffn_norm(h))


def norm_into_stream(b, x, a):
    x = b.attn_norm(x)
    h = b.ffn_norm(x + a(x))
    return h + b.ffn(h)


def post_norm(b, x, a):
    h = b.attn_norm(x + a(x))
    return b.ffn_norm(h + b.ffn(h))


def both_read_x(b, x, a):
    return x + a(b.attn_norm(x)) + b.ffn(b.ffn_norm(x))


def one_norm_twice(b, x, a):
    h = x + a(b.attn_norm(x))
    return h + b.ffn(b.attn_norm(h))


def feed_forward_first(b, x, a):
    h = x + b.ffn(b.ffn_norm(x))
    return h + a(b.attn_norm(h))


BLOCKS = {
    "right": right,
    "wrong variable": wrong_variable,
    "norm into stream": norm_into_stream,
    "post-norm": post_norm,
    "both read x": both_read_x,
    "one norm twice": one_norm_twice,
    "ffn first": feed_forward_first,
}
ELSEWHERE = ("no final norm", "gate and up swapped", "no rotation", "one block for all")
UNTRAINED = ("no mask", "positions from 100")


def build(name: str, seed: int) -> MiniLLaMAForCausalLM:
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(CONFIG)
    if name == "no final norm":
        model.norm.forward = lambda x: x
    if name == "no rotation":
        model.cos.fill_(1.0)
        model.sin.fill_(0.0)
    if name == "one block for all":
        for i in range(1, CONFIG.n_layers):
            model.layers[i] = model.layers[0]
    if name == "positions from 100":
        model.cos, model.sin = model.cos[100:], model.sin[100:]
    for block in model.layers:
        if name == "no mask":

            def forward(self, x, cos, sin, kv_cache=None, layer=0):
                split = [w(x).view(*x.shape[:2], -1, self.head_dim) for w in (self.wq, self.wk, self.wv)]
                q, k, v = (y.transpose(1, 2) for y in split)
                q, k = (apply_rotary_emb(y.transpose(1, 2), cos, sin).transpose(1, 2) for y in (q, k))
                h = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
                return self.wo(h.transpose(1, 2).flatten(2))

            block.attn.forward = types.MethodType(forward, block.attn)
        if name in BLOCKS:
            arrange = BLOCKS[name]

            def forward(self, x, cos, sin, kv_cache=None, layer=0, arrange=arrange):
                return arrange(self, x, lambda n: self.attn(n, cos, sin, kv_cache, layer))

            block.forward = types.MethodType(forward, block)
        if name == "gate and up swapped":

            def forward(self, x):
                return self.w_down(F.silu(self.w_up(x)) * self.w_gate(x))

            block.ffn.forward = types.MethodType(forward, block.ffn)
    return model


def train(name: str, rate: float, seed: int, train_data: torch.Tensor, held_out: torch.Tensor) -> float:
    model = build(name, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1000 + seed)
    for _ in range(STEPS):
        x = windows(train_data, BATCH, T, generator)
        optimizer.zero_grad()
        model(x, labels=x)[1].backward()
        optimizer.step()
    return round(held_out_loss(model, held_out, T), 3)


def by_heart(name: str) -> float:
    """The lowest loss on one line, in training on nothing else."""
    model, line = build(name, seed=0), torch.tensor([list(LINE.encode())])
    optimizer = torch.optim.AdamW(model.parameters(), lr=BY_HEART_RATE)
    losses = []
    for _ in range(BY_HEART_STEPS):
        loss = model(line, labels=line)[1]
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return round(min(losses), 3)


def main() -> None:
    train_data, held_out = twelfth_night()
    counts = torch.bincount(train_data, minlength=256).double() + 1
    unigram = -(counts / counts.sum()).log()[held_out].mean().item()
    learned = {}
    for name in (*BLOCKS, *ELSEWHERE, *UNTRAINED):
        learned[name] = by_heart(name)
        print(f"{name}: {learned[name]} by heart", flush=True)
    losses_of = {}
    for rate in RATES:
        for name in (*BLOCKS, *ELSEWHERE):
            losses = [train(name, rate, seed, train_data, held_out) for seed in SEEDS]
            losses_of.setdefault(str(rate), {})[name] = losses
            print(f"rate {rate}: {name} {losses}", flush=True)
    result = {
        "what": "nats per byte: lowest on the line learned by heart; held out, by rate, one for each seed",
        "torch": torch.__version__.split("+")[0],
        "layers": CONFIG.n_layers,
        "steps": STEPS,
        "unigram": round(unigram, 3),
        "by_heart_rate": BY_HEART_RATE,
        "by_heart_steps": BY_HEART_STEPS,
        "by_heart": learned,
        "held_out": losses_of,
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
