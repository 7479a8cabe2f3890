"""Explorers of chapter 5: query heads that share keys and values, and what published models must remember."""

import functools
import math

from ..accounting import count_parameters, kv_cache_bytes
from ..config import MiniLLaMAConfig
from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula

BYTES = {"float32": 4, "bfloat16": 2, "8 bits": 1}
MINI = MiniLLaMAConfig()


def amount(n: int) -> str:
    """Bytes in the largest binary unit that leaves 1 or more: 12,288 becomes 12.0 KiB."""
    if n < 1024:
        return f"{n} bytes"
    power = min(4, (n.bit_length() - 1) // 10)
    value = n / 1024**power
    digits = 2 if power > 2 and value < 100 else 1
    return f"{marks.fixed(value, digits)} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


# -- heads that share ------------------------------------------------------------------------------------

LEFT, STEP, BOX = 4, 47, 40  # the row of query heads: first left edge, pitch, width


def _sharing_marks(kv_heads: int, context: int, precision: str, batch: int) -> list[dict]:
    """The picture; head_sharing.js is its twin."""
    line, rect, text = marks.line, marks.rect, marks.text
    heads, size = MINI.n_q_heads, BYTES[precision]
    group = heads // kv_heads
    token = 2 * MINI.n_layers * kv_heads * MINI.head_dim * size
    kept = token * context * batch
    own = token * context * batch * group  # if every query head had its own pair
    weights = count_parameters(MINI)["total"] * size
    shapes = [text(LEFT, 14, "8 query heads", font_weight="bold")]
    for h in range(heads):
        left, center = LEFT + STEP * h, LEFT + STEP * h + BOX / 2
        first = LEFT + STEP * (h // group) * group
        wide = STEP * (group - 1) + BOX
        target = first + wide / 2
        shapes += [
            line(center, 50, target, 78, "muted", stroke_width=1.5),
            rect(left, 24, BOX, 26, "sky"),
            text(center, 42, f"Q{h + 1}", text_anchor="middle"),
        ]
    for g in range(kv_heads):
        left = LEFT + STEP * g * group
        wide = STEP * (group - 1) + BOX
        shapes += [
            rect(left, 78, wide, 26, "blue"),
            text(left + wide / 2, 96, f"K{g + 1} V{g + 1}", "paper", text_anchor="middle"),
        ]
    if kv_heads == heads:
        name = "MHA: to each query head its own key/value head"
    elif kv_heads == 1:
        name = "MQA: one key/value head for all eight"
    else:
        name = f"GQA: {kv_heads} key/value heads, {group} query heads to each"
    shapes.append(text(LEFT, 126, name, font_weight="bold"))

    formula_text = f"2 · {MINI.n_layers} layers · {kv_heads} · {MINI.head_dim} · {size} bytes"
    one = f"{context:,} token" if context == 1 else f"{context:,} tokens"
    many = f"{batch} text of {one}" if batch == 1 else f"{batch} texts of {one}"
    for y, words, value in (
        (152, f"a token: {formula_text}", amount(token)),
        (172, many, amount(kept)),
        (192, "the model's weights", amount(weights)),
    ):
        shapes += [text(LEFT, y, words), text(376, y, value, text_anchor="end", font_weight="bold")]

    share = f"{marks.fixed(100 * kv_heads / heads, 1)} % of what 8 key/value heads would keep"
    beside = f"the weights, to the same scale (cache / weights = {_ratio(kept / weights)})"
    scale = 372 / max(own, weights)
    shapes += [
        text(LEFT, 222, share, font_size=12),
        rect(LEFT, 228, own * scale, 14, "grid"),
        rect(LEFT, 228, kept * scale, 14, "blue"),
        text(LEFT, 262, beside, font_size=12),
        rect(LEFT, 268, weights * scale, 14, "orange"),
    ]
    described = (
        f"{name}. Cache of a token: {amount(token)}; of {many}: {amount(kept)} in {precision}, "
        f"{share}. The model's weights: {amount(weights)}."
    )
    return [marks.title(described), *shapes]


def _ratio(value: float) -> str:
    """Three decimals below 10: enough to see the smallest cache."""
    return marks.fixed(value, 1 if value >= 10 else 5 if value < 0.01 else 3)


def head_sharing() -> FormulaExplorer:
    """Key/value heads of MiniLLaMA, length, number of texts and precision: what the cache takes."""
    return formula(
        _sharing_marks,
        f"const PARAMETERS = {count_parameters(MINI)['total']};\n{read_asset('head_sharing.js')}",
        [
            Control("kv_heads", "Key/value heads", (1, 2, 4, 8), 2),
            Control("context", "Tokens in each", (1, 37, 128, 256, 512, 1024, 2048), 2048),
            Control("precision", "Precision", tuple(BYTES), "float32"),
            Control("batch", "Texts at once", (1, 2, 4, 8, 16, 32, 64), 1),
        ],
        title="What MiniLLaMA keeps, by key/value heads",
        size=(380, 288),
        name="head-sharing",
    )


# -- published models ------------------------------------------------------------------------------------

# layers, C, H, G, D, d_ffn, V, context, tied, window (0: none), from the models' papers and config files
PUBLISHED = {
    "Llama 2 7B": (32, 4096, 32, 32, 128, 11008, 32000, 4096, False, 0),
    "Llama 2 70B": (80, 8192, 64, 8, 128, 28672, 32000, 4096, False, 0),
    "Llama 3 8B": (32, 4096, 32, 8, 128, 14336, 128256, 8192, False, 0),
    "Llama 3 70B": (80, 8192, 64, 8, 128, 28672, 128256, 8192, False, 0),
    "Llama 3.2 1B": (16, 2048, 32, 8, 64, 8192, 128256, 131072, True, 0),
    "Mistral 7B": (32, 4096, 32, 8, 128, 14336, 32000, 32768, False, 4096),
    "Qwen2.5 7B": (28, 3584, 28, 4, 128, 18944, 152064, 131072, False, 0),
    "Qwen3 8B": (36, 4096, 32, 8, 128, 12288, 151936, 40960, False, 0),
    "SmolLM2 135M": (30, 576, 9, 3, 64, 1536, 49152, 8192, True, 0),
}
HEADS = {"as published": "kv_heads", "one for each query head": "heads", "one for all": "one"}
LOWEST, HIGHEST = 20, 40  # powers of two: 1 MiB to 1 TiB
FROM, TO = 118, 284  # the axis in pixels


def published_config(name: str) -> MiniLLaMAConfig:
    """The sizes of a published model. Biases and norms on query and key heads are not among them."""
    layers, c, h, g, d, d_ffn, v, context, tied, _ = PUBLISHED[name]
    return MiniLLaMAConfig(
        vocab_size=v,
        d_model=c,
        n_layers=layers,
        n_q_heads=h,
        n_kv_heads=g,
        head_dim=d,
        d_ffn=d_ffn,
        max_seq_len=context,
        tie_word_embeddings=tied,
    )


@functools.cache
def memory_rows() -> tuple[dict, ...]:
    """What the explorer and its twin compute from: one row a model, the largest per token first."""
    configs = {name: (published_config(name), PUBLISHED[name][-1]) for name in PUBLISHED}
    configs["MiniLLaMA"] = (MINI, 0)
    rows = [
        {
            "name": name,
            "per_head": kv_cache_bytes(config, 1, 1, 1) // config.n_kv_heads,
            "kv_heads": config.n_kv_heads,
            "heads": config.n_q_heads,
            "one": 1,
            "limit": config.max_seq_len,
            "window": window,
            "weights": count_parameters(config)["total"],
        }
        for name, (config, window) in configs.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row["per_head"] * row["kv_heads"], -row["weights"])))


def _at(n: int) -> float:
    """Pixels of an amount of bytes on the logarithmic axis."""
    return FROM + (TO - FROM) * (math.log2(n) - LOWEST) / (HIGHEST - LOWEST)


def _memory_marks(context: int, heads: str, precision: str) -> list[dict]:
    """The picture; memories.js is its twin."""
    circle, line, text = marks.circle, marks.line, marks.text
    shapes = [
        circle(8, 10, 5, "blue"),
        text(18, 14, "cache of one text"),
        line(150, 3, 150, 17, "vermillion", stroke_width=3),
        text(158, 14, "the model's weights"),
    ]
    for power, words in ((20, "1 MiB"), (30, "1 GiB"), (40, "1 TiB")):
        x = FROM + (TO - FROM) * (power - LOWEST) / (HIGHEST - LOWEST)
        shapes += [
            line(x, 40, x, 282, "grid"),
            text(x, 36, words, "muted", text_anchor="middle", font_size=11),
        ]
    heavier, longer, told = 0, 0, []
    for i, row in enumerate(memory_rows()):
        y = 56 + 24 * i
        kept = min(context, row["window"]) if row["window"] > 0 else context
        cache = row["per_head"] * row[HEADS[heads]] * kept * BYTES[precision]
        weights = row["weights"] * BYTES[precision]
        beyond = context > row["limit"]
        heavier += cache > weights
        longer += beyond
        value = amount(cache) + ("*" if beyond else "")
        weight = "bold" if cache > weights else "normal"
        shapes += [
            text(4, y, row["name"]),
            line(FROM, y - 4, _at(cache), y - 4, "blue", stroke_width=1),
            circle(_at(cache), y - 4, 5, "sky" if beyond else "blue"),
            line(_at(weights), y - 11, _at(weights), y + 3, "vermillion", stroke_width=3),
            text(376, y, value, "muted" if beyond else "ink", text_anchor="end", font_weight=weight),
        ]
        told.append(f"{row['name']} {amount(cache)}" + (" beyond its context" if beyond else ""))
    few = (
        "1 of 10 caches outweighs its model"
        if heavier == 1
        else f"{heavier} of 10 caches outweigh their model"
    )
    shapes.append(text(4, 304, f"{few} (bold).", font_weight="bold"))
    note = "* longer than the model was published for" if longer > 0 else "All within the published contexts."
    shapes.append(text(4, 322, note, "muted", font_size=12))
    described = f"Cache of one text of {context:,} tokens, {precision}: {', '.join(told)}. {few}."
    return [marks.title(described), *shapes]


def memories() -> FormulaExplorer:
    """Cache of ten models beside their weights: length, key/value heads and precision are the reader's."""
    return formula(
        _memory_marks,
        f"const ROWS = {as_json(memory_rows())};\n{read_asset('memories.js')}",
        [
            Control("context", "Tokens", tuple(2**k for k in range(10, 18)), 4096),
            Control("heads", "Key/value heads", tuple(HEADS), "as published"),
            Control("precision", "Precision", tuple(BYTES), "bfloat16"),
        ],
        title="What ten models must remember",
        size=(380, 330),
        name="memories",
    )
