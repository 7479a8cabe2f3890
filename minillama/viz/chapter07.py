"""Explorer of chapter 7: what a configuration costs in parameters, arithmetic and memory."""

from ..accounting import count_parameters, flops_per_token, kv_cache_bytes, training_bytes
from ..config import MiniLLaMAConfig
from . import marks
from .chapter05 import BYTES, PUBLISHED, amount, published_config
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula

OWN = "as set above"
# Models that the configuration describes to the last parameter: no biases, no norms on queries and keys.
NAMES = ("Llama 2 7B", "Llama 2 70B", "Llama 3 8B", "Llama 3 70B", "Llama 3.2 1B", "SmolLM2 135M")
TIED, UNTIED = "the embedding", "a matrix of its own"
WIDE = 372  # of a full bar, in the picture's own pixels


def preset_sizes() -> dict[str, list]:
    """Layers, C, d_ffn, H, G, D, V and whether the head is tied, of each published model."""
    sizes = {}
    for name in NAMES:
        layers, c, h, g, d, d_ffn, v, _, tied, _ = PUBLISHED[name]
        sizes[name] = [layers, c, d_ffn, h, g, d, v, tied]
    return sizes


def sizes_of(state: dict) -> MiniLLaMAConfig:
    """The configuration that a state of the explorer stands for."""
    if state["preset"] != OWN:
        return published_config(state["preset"])
    return MiniLLaMAConfig(
        vocab_size=state["vocab"],
        d_model=state["width"],
        n_layers=state["layers"],
        n_q_heads=state["heads"],
        n_kv_heads=state["heads"] // state["group"],
        head_dim=state["dim"],
        d_ffn=int(state["ratio"] * state["width"]),
        tie_word_embeddings=state["head"] == TIED,
    )


def count_text(n: float) -> str:
    """A number of operations in the largest unit that leaves 1 or more."""
    for power, unit in ((12, "T"), (9, "G"), (6, "M")):
        if n >= 10**power:
            return f"{marks.fixed(n / 10**power, 2 if n < 10 ** (power + 1) else 1)} {unit}"
    return f"{marks.fixed(n / 1000, 1)} K"


def _bill_marks(**state) -> list[dict]:
    """The picture; bill.js is its twin."""
    rect, text, fixed = marks.rect, marks.text, marks.fixed
    config, tokens, size = sizes_of(state), state["tokens"], BYTES[state["precision"]]
    c, h, g, d = config.d_model, config.n_q_heads, config.n_kv_heads, config.head_dim
    parts = count_parameters(config)
    flops = flops_per_token(config, tokens)
    words = parts["token_embeddings"] + parts["lm_head"]
    vocabulary = "embedding = head" if config.tie_word_embeddings else "embedding, head"
    kinds = (
        (vocabulary, words, "orange"),
        ("attention", parts["attention"], "blue"),
        ("feed-forward", parts["feed_forward"], "sky"),
    )
    work = (
        ("head", 2 * config.vocab_size * c, "orange"),
        ("projections", 2 * parts["attention"], "blue"),
        ("feed-forward", 2 * parts["feed_forward"], "sky"),
        ("scores", 2 * config.n_layers * h * d * (tokens + 1), "vermillion"),
    )
    even = 3 * c * config.d_ffn // (h * d) - 1
    weights, cache = parts["total"] * size, kv_cache_bytes(config, 1, tokens, size)
    training = int(training_bytes(config)["total"])
    bold, end = {"font_weight": "bold"}, {"text_anchor": "end"}
    plural = "" if config.n_layers == 1 else "s"
    sizes = f"{config.n_layers} layer{plural}, C {c:,}, heads {h} : {g} of {d}"
    shapes = [
        text(4, 14, sizes, **bold),
        text(4, 31, f"d_ffn {config.d_ffn:,}, V {config.vocab_size:,}", **bold),
    ]

    def bar(y, title, total, rows, whole):
        found = [text(4, y, title), text(376, y, total, **end, **bold)]
        left, notes = 4, []
        for name, value, color in rows:
            wide = WIDE * value / whole
            found.append(rect(left, y + 7, wide, 16, color, stroke="paper", stroke_width=0.5))
            left += wide
            notes.append(f"{name} {fixed(100 * value / whole, 1)} %")
        return found, notes

    found, kept = bar(58, "Parameters", f"{parts['total']:,}", kinds, parts["total"])
    shapes += found
    for i, (note, (_, _, color)) in enumerate(zip(kept, kinds, strict=True)):
        y = 99 + 17 * (i // 2)
        shapes += [rect(4 + 200 * (i % 2), y - 10, 11, 11, color), text(20 + 200 * (i % 2), y, note)]
    shapes.append(text(220, 116, f"norms {fixed(100 * parts['norms'] / parts['total'], 3)} %", "muted"))
    found, spent = bar(148, f"FLOPs a token, text of {tokens:,}", count_text(flops), work, flops)
    shapes += found
    for i, (note, (_, _, color)) in enumerate(zip(spent, work, strict=True)):
        y = 189 + 17 * (i // 2)
        shapes += [rect(4 + 200 * (i % 2), y - 10, 11, 11, color), text(20 + 200 * (i % 2), y, note)]
    beyond = f"Scores outgrow feed-forward beyond {even:,} tokens."
    if even < 1:
        beyond = "Scores outgrow feed-forward from the start."
    shapes.append(text(4, 228, beyond))
    widest = max(weights, cache, training)
    rows = (
        ("Weights", weights, "blue"),
        (f"Cache of one text of {tokens:,}", cache, "vermillion"),
        ("Training with AdamW, float32", training, "green"),
    )
    for i, (name, value, color) in enumerate(rows):
        y = 256 + 34 * i
        shapes += [
            text(4, y, name),
            text(376, y, amount(value), **end, **bold),
            rect(4, y + 6, WIDE * value / widest, 8, color),
        ]
    described = (
        f"{sizes}, d_ffn {config.d_ffn:,}, V {config.vocab_size:,}. {parts['total']:,} parameters: "
        f"{', '.join(kept)}. {count_text(flops)} FLOPs a token in a text of {tokens:,}: {', '.join(spent)}. "
        f"{beyond} Weights {amount(weights)}, cache {amount(cache)}, training {amount(training)}."
    )
    return [marks.title(described), *shapes]


def model_bill() -> FormulaExplorer:
    """Sizes in, costs out: parameters, FLOPs per token, cache and memory of any Llama-shaped model."""
    return formula(
        _bill_marks,
        f"const PRESETS = {as_json(preset_sizes())};\n{read_asset('bill.js')}",
        [
            Control("layers", "Layers", (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80), 12),
            Control("width", "Width C", (64, 128, 256, 512, 768, 1024, 2048, 4096, 8192), 512),
            Control("heads", "Query heads", (4, 8, 16, 32, 64), 8),
            Control("group", "… to a set of keys", (1, 2, 4), 4),
            Control("dim", "Width of a head", (32, 64, 128), 64),
            Control("ratio", "d_ffn", (1, 2, 2.75, 3.5, 4), 2.75, " C", 2),
            Control("vocab", "Vocabulary", (256, 4096, 32000, 128256), 4096),
            Control("head", "Head", (TIED, UNTIED), TIED),
            Control("tokens", "Tokens in the text", (1, 37, 256, 2048, 8192, 32768, 131072), 2048),
            Control("precision", "Precision", tuple(BYTES), "float32"),
            Control("preset", "Sizes", (OWN, *NAMES), OWN),
        ],
        title="The bill of a model",
        size=(380, 342),
        name="model-bill",
    )
