"""A published model with one thing wrong at a time: mismatched pairs of RoPE, a prompt that sees its future.

    python experiments/smollm2_faults.py

SmolLM2-135M-Instruct in this package's code, on the four speeches of smollm2_norms.py. For each fault: the
loss in nats per token, how many of 16 capitals it names, and what it writes after three prompts, taking the
most likely token each time.
Then all 270 heads, on random tokens that are repeated and on one short text: which heads look at the first
token, at the one before, at the one that followed last time.
About eight minutes on one core; writes experiments/results/smollm2_faults.json.
"""

import importlib.metadata
import json
import math
import platform
import types
from contextlib import contextmanager
from pathlib import Path

import torch
from smollm2_attention import flat
from smollm2_norms import SPEECHES, number, speech
from torch.nn import functional as F

from minillama import KVCache, apply_rotary_emb, assets, causal_mask, generate
from minillama import half_to_interleaved as stored
from minillama import interleaved_to_half as regrouped
from minillama.checkpoint import from_gguf
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "smollm2_faults.json"
PROMPTS = ("The capital of France is", "If music be the food of love, play on", "Once upon a time")
NEW = 16
CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Germany": "Berlin",
    "Austria": "Vienna",
    "Greece": "Athens",
    "Poland": "Warsaw",
    "Russia": "Moscow",
    "Japan": "Tokyo",
    "China": "Beijing",
    "Egypt": "Cairo",
    "Ireland": "Dublin",
    "Norway": "Oslo",
    "Sweden": "Stockholm",
    "Cuba": "Havana",
    "Peru": "Lima",
}
REPEATED = " play food music love sea king" * 2
RANDOM_LENGTH, RANDOM_TEXTS = 32, 4

# What stands in wq and wk instead of the regrouped rows; `w` are the rows as the file has them.
ROWS = {
    "as loaded": (lambda w: regrouped(w, 9), lambda w: regrouped(w, 3)),
    "neither regrouped": (lambda w: w, lambda w: w),
    "queries only": (lambda w: regrouped(w, 9), lambda w: w),
    "keys only": (lambda w: w, lambda w: regrouped(w, 3)),
    "keys as 1 head": (lambda w: regrouped(w, 9), lambda w: regrouped(w, 1)),
    "queries as 3 heads": (lambda w: regrouped(w, 3), lambda w: regrouped(w, 3)),
    "regrouped twice": (lambda w: regrouped(regrouped(w, 9), 9), lambda w: regrouped(regrouped(w, 3), 3)),
}
# May query i of t see key j of s? `cached`: whether there is a cache.
MASKS = {
    "by lengths": lambda t, s, cached: causal_mask(t, s),
    "is there a cache?": lambda t, s, cached: (
        torch.ones(t, s).bool() if cached or t == 1 else causal_mask(t, s)
    ),
    "torch's flag": lambda t, s, cached: (
        torch.ones(t, s).bool() if t == 1 else torch.ones(t, s).tril().bool()
    ),
}


def masked_by(rule):
    """Attention.forward with a mask of its own."""

    def forward(self, x, cos, sin, kv_cache=None, layer=0):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q, k = (apply_rotary_emb(z, cos, sin).transpose(1, 2) for z in (q, k))
        v = v.transpose(1, 2)
        if kv_cache is not None:
            k, v = kv_cache.append(layer, k, v)
        mask = rule(t, k.shape[2], kv_cache is not None)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.wo(h.transpose(1, 2).flatten(2))

    return forward


@contextmanager
def attention(model, forward):
    for block in model.layers:
        block.attn.forward = types.MethodType(forward, block.attn)
    try:
        yield
    finally:
        for block in model.layers:
            del block.attn.forward


def loss(model, texts) -> float:
    """Mean over all tokens that have a predecessor."""
    parts = [(model(ids, labels=ids)[1].item(), ids.shape[1] - 1) for ids in texts]
    return number(sum(value * n for value, n in parts) / sum(n for _, n in parts))


def cached_losses(model, texts) -> dict:
    """The speech in two halves through a cache: loss within the first, and within the second after it."""
    sums = {"prompt": [0.0, 0], "second_piece": [0.0, 0], "one_by_one": [0.0, 0]}

    def add(name, logits, targets):
        sums[name][0] += F.cross_entropy(logits, targets, reduction="sum").item()
        sums[name][1] += len(targets)

    for ids in texts:
        half, row = ids.shape[1] // 2, ids[0]
        cache = KVCache(model.config, max_len=ids.shape[1])
        first = model(ids[:, :half], past_key_values=cache)[0][0]
        add("prompt", first[:-1], row[1:half])
        second = model(ids[:, half:], past_key_values=cache)[0][0]
        add("second_piece", second[:-1], row[half + 1 :])
        cache.truncate(half)  # the same second half once more, token by token
        singles = [model(ids[:, t : t + 1], past_key_values=cache)[0][0] for t in range(half, ids.shape[1])]
        add("one_by_one", torch.cat(singles)[:-1], row[half + 1 :])
    return {name: number(total / n) for name, (total, n) in sums.items()}


def written(model, tokenizer) -> dict:
    out = {}
    for prompt in PROMPTS:
        ids = torch.tensor([tokenizer.encode(prompt)])
        out[prompt] = tokenizer.decode(generate(model, ids, NEW, temperature=0)[0, ids.shape[1] :])
    return out


def capitals(model, tokenizer) -> int:
    """How many of the 16 stand at once behind "The capital of … is"."""
    right = 0
    for country, capital in CAPITALS.items():
        ids = torch.tensor([tokenizer.encode(f"The capital of {country} is")])
        out = generate(model, ids, 3, temperature=0)[0, ids.shape[1] :]
        right += tokenizer.decode(out).startswith(f" {capital}")
    return right


def maps(model, ids) -> torch.Tensor:
    """The weights of all heads, (L, H, T, T)."""
    seen = []

    def forward(self, x, cos, sin, kv_cache=None, layer=0):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, -1, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q, k = (apply_rotary_emb(z, cos, sin).transpose(1, 2) for z in (q, k))
        k, v = (z.repeat_interleave(q.shape[1] // z.shape[1], 1) for z in (k, v.transpose(1, 2)))
        scores = q @ k.mT / math.sqrt(self.head_dim)
        p = scores.masked_fill(~causal_mask(t, t), -math.inf).softmax(-1)
        seen.append(p[0])
        return self.wo((p @ v).transpose(1, 2).flatten(2))

    with attention(model, forward):
        logits = model(ids)[0]
    torch.testing.assert_close(logits, model(ids)[0], atol=1e-3, rtol=1e-3)
    return torch.stack(seen)


def shares(p: torch.Tensor, rows: range, target) -> torch.Tensor:
    """(L, H): mean weight of key `target(i)` over the queries i."""
    return torch.stack([p[:, :, i, target(i)] for i in rows]).mean(0)


def head_study(model, tokenizer, texts) -> dict:
    """Per head, in percent: on the speeches, and on random tokens with a repetition (Olsson et al. 2022)."""
    on_speeches = [maps(model, ids) for ids in texts]

    def over_speeches(target):
        weights = [ids.shape[1] - 1 for ids in texts]
        parts = [
            shares(p, range(1, p.shape[-1]), target) * n for p, n in zip(on_speeches, weights, strict=True)
        ]
        return sum(parts) / sum(weights)

    generator = torch.Generator().manual_seed(0)
    n, found = RANDOM_LENGTH, []
    for _ in range(RANDOM_TEXTS):
        once = torch.randint(17, model.config.vocab_size, (n,), generator=generator)
        p = maps(model, torch.cat([once, once])[None])
        found.append(shares(p, range(n, 2 * n - 1), lambda i: i - n + 1))
    table = {
        "first": over_speeches(lambda i: 0),
        "before": over_speeches(lambda i: i - 1),
        "itself": over_speeches(lambda i: i),
        "after_last_time": torch.stack(found).mean(0),
    }
    ids = torch.tensor([tokenizer.encode(REPEATED)])
    p, t = maps(model, ids), ids.shape[1]
    percent = [
        [[round(100 * w) for i in range(t) for w in head[i, : i + 1].tolist()] for head in layer]
        for layer in p
    ]
    return {
        "percent": {
            name: [[round(100 * w.item(), 1) for w in layer] for layer in value]
            for name, value in table.items()
        },
        "random_length": n,
        "random_texts": RANDOM_TEXTS,
        "text": {"tokens": [tokenizer.decode([i]) for i in ids[0].tolist()], "percent": percent},
    }


def judge(model, tokenizer, texts) -> dict:
    return {
        "loss": loss(model, texts),
        "capitals": capitals(model, tokenizer),
        "writes": written(model, tokenizer),
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model, tokenizer = from_gguf(assets.fetch("smollm2-135m-instruct"))
    model.eval()
    plays = assets.fetch("shakespeare")
    texts = [torch.tensor([tokenizer.encode(speech(plays, *where))]) for where in SPEECHES.values()]
    as_stored = [(stored(block.attn.wq.weight, 9), stored(block.attn.wk.weight, 3)) for block in model.layers]

    heads = head_study(model, tokenizer, texts)
    print("heads done", flush=True)

    rows = {}
    for name, (for_q, for_k) in ROWS.items():
        for block, (q, k) in zip(model.layers, as_stored, strict=True):
            block.attn.wq.weight.copy_(for_q(q))
            block.attn.wk.weight.copy_(for_k(k))
        rows[name] = judge(model, tokenizer, texts)
        print(name, rows[name], flush=True)
    for block, (q, k) in zip(model.layers, as_stored, strict=True):
        block.attn.wq.weight.copy_(regrouped(q, 9))
        block.attn.wk.weight.copy_(regrouped(k, 3))
    tables = model.cos.clone(), model.sin.clone()
    model.cos.fill_(1.0), model.sin.zero_()
    rows["no rotation"] = judge(model, tokenizer, texts)
    model.cos.copy_(tables[0]), model.sin.copy_(tables[1])

    masks = {}
    for name, rule in MASKS.items():
        with attention(model, masked_by(rule)):
            masks[name] = {**cached_losses(model, texts), "writes": written(model, tokenizer)}
        print(name, masks[name], flush=True)
    whole = loss(model, texts)
    assert whole == rows["as loaded"]["loss"]

    result = {
        "study": "SmolLM2-135M-Instruct (Q4_1, expanded), one fault at a time, on four speeches",
        "tokens": sum(ids.shape[1] for ids in texts),
        "new_tokens": NEW,
        "countries": len(CAPITALS),
        "rows": rows,
        "masks": masks,
        "heads": heads,
        "made_with": {
            "python": ".".join(platform.python_version_tuple()[:2]),
            **{name: importlib.metadata.version(name).partition("+")[0] for name in ("torch", "gguf")},
        },
    }
    record(RESULT, flat(json.dumps(result, indent=1, ensure_ascii=False)) + "\n")


if __name__ == "__main__":
    main()
