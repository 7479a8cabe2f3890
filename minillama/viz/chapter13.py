"""The explorer of chapter 13: what temperature, top-k and top-p leave of a trained model's distribution."""

import functools
import math

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula
from .results import recorded

ROWS = 12  # tokens shown
OFF = 4096  # a k that keeps all

fixed, line, text = marks.fixed, marks.line, marks.text


class _Distributions:
    """Recorded scores of all 4,096 tokens, by context, sorted: how far each lies below the first."""

    def __init__(self):
        contexts = recorded("sampling")["contexts"]
        self.data = {
            c["name"]: {"tokens": c["tokens"][:ROWS], "steps": [int(s) for s in c["steps"].split()]}
            for c in contexts
        }

    @functools.cache  # noqa: B019
    def weights(self, context: str, temperature: float) -> tuple[list[int], int]:
        """e^(score / temperature), the largest being 10⁹, as integers: they add up alike everywhere."""
        below, weights, total = 0, [], 0
        for step in self.data[context]["steps"]:
            below += step
            weight = math.floor(math.exp(-below / 100 / temperature) * 1e9 + 0.5)
            weights.append(weight)
            total += weight
        return weights, total

    def filtered(self, context: str, temperature: float, k: int, p: float) -> dict:
        """Shares before and after, how many are kept, their mass and the entropy of what is left."""
        weights, total = self.weights(context, temperature)
        among = sum(weights[:k])  # top-p sees what top-k has left
        kept, mass = 0, 0
        while kept < k and kept < len(weights) and (kept == 0 or mass < (p - 1e-6) * among or p == 1):
            mass += weights[kept]
            kept += 1
        entropy = 0.0
        for weight in weights[:kept]:
            if weight > 0:
                entropy -= weight / mass * math.log(weight / mass)
        plain, plain_total = self.weights(context, 1)
        return {
            "plain": [w / plain_total for w in plain[:ROWS]],
            "share": [weights[i] / mass if i < kept else 0 for i in range(ROWS)],
            "kept": kept,
            "mass": mass / total,
            "entropy": entropy,
        }

    def marks(self, context: str, temperature: float, k: int, p: float) -> list[dict]:
        """The picture; sampling_filters.js is its twin."""
        r = self.filtered(context, temperature, k, p)
        shapes = [
            text(0, 14, "next token", font_weight="bold"),
            text(318, 14, "model", "muted", text_anchor="end", font_size=12),
            text(380, 14, "drawn", text_anchor="end", font_size=12, font_weight="bold"),
        ]
        told = []
        longest = max(r["plain"][0], r["share"][0])
        for i, token in enumerate(self.data[context]["tokens"]):
            y, plain, share = 34 + 19 * i, r["plain"][i], r["share"][i]
            gone = i >= r["kept"]
            shapes += [
                text(0, y, token, "muted" if gone else "ink"),
                marks.rect(110, y - 12, 160 * share / longest, 8, "blue"),
                marks.rect(110, y - 4, 160 * plain / longest, 4, "muted"),
                text(318, y, f"{fixed(100 * plain, 1)} %", "muted", text_anchor="end", font_size=12),
                text(
                    380,
                    y,
                    "–" if gone else f"{fixed(100 * share, 1)} %",
                    "muted" if gone else "ink",
                    text_anchor="end",
                    font_size=12,
                    font_weight="normal" if gone else "bold",
                ),
            ]
            if i < 3:
                told.append(f"{token} {'struck out' if gone else fixed(100 * share, 1) + ' %'}")
        bottom = 34 + 19 * ROWS
        kept = f"{r['kept']:,} of {len(self.data[context]['steps']):,} tokens kept"
        rule = f"top-k leaves {k:,}, top-p asks for {fixed(p, 2)} of their mass"
        mass = f"{fixed(100 * r['mass'], 1)} % of the mass at this temperature"
        spread = (
            f"entropy {fixed(r['entropy'], 2)} nats, as of {fixed(math.exp(r['entropy']), 1)} equal tokens"
        )
        shapes += [
            text(0, bottom + 6, kept, font_weight="bold"),
            text(0, bottom + 25, rule),
            text(0, bottom + 44, mass),
            text(0, bottom + 63, spread),
        ]
        described = f"After “{context}”: {', '.join(told)}. {kept}: {rule}. {mass}; {spread}."
        return [marks.title(described), *shapes]


def sampling_filters() -> FormulaExplorer:
    """Temperature, k and p on what the small model expects after five contexts."""
    seen = _Distributions()
    return formula(
        seen.marks,
        read_asset("sampling_filters.js").replace("DATA", as_json(seen.data)),
        [
            Control("context", "After", tuple(seen.data), next(iter(seen.data))),
            Control(
                "temperature", "Temperature", (0.1, 0.2, 0.3, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 3), 1, digits=1
            ),
            Control("k", "Top-k", (1, 2, 3, 5, 10, 20, 50, 100, 500, OFF), OFF),
            Control("p", "Top-p", (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1), 0.9, digits=2),
        ],
        title="What the filters leave of 4,096 tokens",
        size=(380, 331),
        name="sampling-filters",
    )
