"""Explorers of chapter 4: three scores and their Jacobian, thousands of random rows, trained heads."""

import math

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula
from .results import recorded

fixed, line, text = marks.fixed, marks.line, marks.text


# -- three scores ----------------------------------------------------------------------------------------


def _snap(value: float) -> float:
    """On a grid of 10⁻⁹: the last bit of exp may differ between Python and JavaScript."""
    return math.floor(value * 1e9 + 0.5) / 1e9


def row_of_three(s1: float, s2: float, s3: float, factor: float) -> dict:
    """Softmax of three scores times `factor`, its Jacobian, and both numbers of the hill."""
    scores = [s1 * factor, s2 * factor, s3 * factor]
    top = max(scores)
    e = [_snap(math.exp(s - top)) for s in scores]
    total = e[0] + e[1] + e[2]
    p = [value / total for value in e]
    jacobian = [[p[i] * ((1 if i == j else 0) - p[j]) for j in range(3)] for i in range(3)]
    a = p[0] * p[0] + p[1] * p[1] + p[2] * p[2]
    square = 0.0
    for row in jacobian:
        for value in row:
            square += value * value
    return {"scores": scores, "p": p, "jacobian": jacobian, "a": a, "size": math.sqrt(square)}


_HILL = [[200 + 170 * i / 40, 150 - 240 * math.sqrt(i / 40 * (1 - i / 40))] for i in range(41)]


def _hill_marks(s1: float, s2: float, s3: float, factor: float) -> list[dict]:
    """The picture; softmax_hill.js is its twin."""
    r = row_of_three(s1, s2, s3, factor)
    shapes = [
        text(0, 14, "Weights", font_weight="bold"),
        text(196, 14, "Size of the Jacobian", font_weight="bold"),
    ]
    for i, (p, score) in enumerate(zip(r["p"], r["scores"], strict=True)):
        center = 28 + 56 * i
        shapes += [
            marks.rect(center - 18, 150 - 104 * p, 36, 104 * p, "blue"),
            text(center, 42, fixed(p, 3), text_anchor="middle", font_size=12),
            text(center, 168, fixed(score, 2), "muted", text_anchor="middle", font_size=12),
        ]
    shapes += [
        line(4, 150, 164, 150, "muted"),
        text(0, 186, "scores × factor", "muted", font_size=12),
        line(200, 150, 370, 150, "muted"),
        line(200, 30, 370, 30, "grid"),
        text(196, 34, "½", "muted", text_anchor="end", font_size=12),
        text(196, 154, "0", "muted", text_anchor="end", font_size=12),
        text(285, 168, "½", "muted", text_anchor="middle", font_size=12),
        text(370, 168, "1", "muted", text_anchor="middle", font_size=12),
        text(285, 186, "Σ p² (1: all on one key)", "muted", text_anchor="middle", font_size=12),
        marks.polyline(_HILL, "muted", stroke_dasharray="4 3"),
        marks.circle(200 + 170 * r["a"], 150 - 240 * r["size"], 6, "vermillion"),
    ]
    shapes.append(text(0, 216, "Jacobian diag(p) − ppᵀ", font_weight="bold"))
    for i, row in enumerate(r["jacobian"]):
        for j, value in enumerate(row):
            shapes.append(text(60 + 62 * j, 238 + 20 * i, fixed(value, 3), text_anchor="end", font_size=12))
    for y, name, value in (
        (238, "Σ p²", r["a"]),
        (258, "1 / Σ p²", 1 / r["a"]),
        (278, "size ‖J‖", r["size"]),
    ):
        shapes += [text(230, y, name), text(370, y, fixed(value, 3), text_anchor="end", font_weight="bold")]
    weights = ", ".join(fixed(p, 3) for p in r["p"])
    described = (
        f"Scores {', '.join(fixed(s, 2) for s in r['scores'])} give weights {weights}. "
        f"The sum of their squares is {fixed(r['a'], 3)}, as if {fixed(1 / r['a'], 3)} keys were heard; "
        f"the Jacobian has size {fixed(r['size'], 3)} "
        "under a hill that peaks at one half."
    )
    return [marks.title(described), *shapes]


def softmax_hill() -> FormulaExplorer:
    """Three scores and a common factor: the weights, and where the Jacobian's size lies under its bound."""
    scores = [
        Control.steps(f"s{i}", f"Score {sub}", -4, 4, 0.5, value, digits=1)
        for i, sub, value in ((1, "s₁", 2), (2, "s₂", 1), (3, "s₃", 0))
    ]
    factor = Control("factor", "Factor", (0, 0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8), 1, "×", digits=3)
    return formula(
        _hill_marks,
        read_asset("softmax_hill.js"),
        [*scores, factor],
        title="Three scores, and how much the weights give way",
        size=(380, 288),
        name="softmax-hill",
    )


# -- the whole grid --------------------------------------------------------------------------------------

DIVIDED, BARE = "divided by √d", "as they are"


class _Grid:
    """The recorded rows, by keys, head size and way."""

    def __init__(self):
        study = recorded("softmax_saturation")
        self.head_dims, self.keys = study["head_dims"], study["keys"]
        self.cells = {(c["keys"], c["head_dim"], c["divided"]): c for c in study["cells"]}
        names = ("p_max_mean", "jacobian_mean", "jacobian_median", "jacobian_below_001")
        self.data = {
            f"{keys} {head_dim} {'divided' if divided else 'bare'}": [
                *(cell[name] for name in names), cell["p_max_per_mille"], cell["jacobian_per_mille"]
            ]
            for (keys, head_dim, divided), cell in self.cells.items()
        }  # fmt: skip

    def marks(self, head_dim: int, keys: int, scores: str) -> list[dict]:
        """The picture; softmax_rows.js is its twin."""
        way = "divided" if scores == DIVIDED else "bare"
        p_max, mean, median, low, p_rows, j_rows = self.data[f"{keys} {head_dim} {way}"]
        other = self.data[f"{keys} {head_dim} {'bare' if way == 'divided' else 'divided'}"][1]
        color = "blue" if way == "divided" else "vermillion"
        shapes = []
        for top, name, number, rows, high in (
            (0, "Largest weight of a row", f"mean {fixed(p_max, 2)}", p_rows, 1.0),
            (150, "Size of a row's Jacobian", f"mean {fixed(mean, 3)}", j_rows, 0.5),
        ):
            tallest = max(rows)
            base = top + 116
            shapes += [
                text(0, top + 14, name, font_weight="bold"),
                text(380, top + 14, number, text_anchor="end", font_weight="bold"),
                line(10, base, 370, base, "muted"),
            ]
            for i, count in enumerate(rows):
                tall = 78 * count / tallest
                shapes.append(marks.rect(11 + 18 * i, base - tall, 16, tall, color))
            for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
                shapes.append(
                    text(
                        10 + 360 * share,
                        base + 16,
                        fixed(share * high, 2),
                        "muted",
                        text_anchor=anchor,
                        font_size=12,
                    )
                )
            at = 10 + 360 * (p_max if top == 0 else mean) / high
            shapes.append(line(at, base - 84, at, base, "ink", stroke_width=2, stroke_dasharray="5 3"))
        ratio = mean / other
        compared = "With" if way == "bare" else "Without"
        verdict = f"{compared} the division: mean {fixed(other, 3)}. Ratio {fixed(ratio, 2)}."
        rest = f"Median {fixed(median, 3)}; {fixed(100 * low, 1)} % of rows below 0.01."
        shapes += [text(0, 304, rest), text(0, 324, verdict)]
        described = (
            f"{keys} keys, head size {head_dim}, scores {scores}: "
            f"the largest weight of a row is {fixed(p_max, 2)} on average, "
            f"the size of its Jacobian {fixed(mean, 3)}. {rest} {verdict}"
        )
        return [marks.title(described), *shapes]


def softmax_rows() -> FormulaExplorer:
    """Rows of a softmax over Gaussian scores, by head size and number of keys, divided by √d or not."""
    grid = _Grid()
    return formula(
        grid.marks,
        read_asset("softmax_rows.js").replace("DATA", as_json(grid.data)),
        [
            Control("head_dim", "Head size d", grid.head_dims, 64),
            Control("keys", "Keys", grid.keys, 64),
            Control("scores", "Scores", (DIVIDED, BARE), BARE),
        ],
        title="2,000 random rows of a softmax",
        size=(380, 330),
        name="softmax-rows",
    )


# -- trained heads ---------------------------------------------------------------------------------------

_CELL = 32


class _Heads:
    def __init__(self):
        study = recorded("smollm2_attention")["line"]
        self.tokens = [token.strip() for token in study["tokens"]]
        self.percent = study["percent"]

    def marks(self, layer: int, head: int) -> list[dict]:
        """The picture; trained_heads.js is its twin."""
        percent, count = self.percent[layer - 1][head - 1], len(self.tokens)
        shapes, at = [], 0
        first = before = itself = 0
        for i in range(count):
            row = percent[at : at + i + 1]
            at += i + 1
            for j, value in enumerate(row):
                x, y = _CELL * j, _CELL * i
                shapes.append(marks.rect(x, y, _CELL - 2, _CELL - 2, "grid", fill_opacity=0.5))
                if value >= 1:
                    shapes.append(marks.rect(x, y, _CELL - 2, _CELL - 2, "blue", fill_opacity=value / 100))
                if value >= 10:
                    ink = "paper" if value >= 55 else "ink"
                    shapes.append(
                        text(x + 15, y + 19, fixed(value, 0), ink, text_anchor="middle", font_size=11)
                    )
            shapes.append(text(_CELL * (i + 1) + 3, _CELL * i + 19, self.tokens[i], font_weight="bold"))
            if i > 0:
                first, before, itself = first + row[0], before + row[i - 1], itself + row[i]
        shares = [fixed(value / (count - 1), 0) for value in (first, before, itself)]
        words = f"first token {shares[0]} %, one before {shares[1]} %, itself {shares[2]} %."
        shapes.append(text(0, _CELL * count + 18, "On average over all tokens but the first:"))
        shapes.append(text(0, _CELL * count + 38, words))
        described = (
            f"Layer {layer}, head {head}: a triangle of attention weights in percent, "
            f"one row for each of the {count} tokens of the line. "
            f"On average over all tokens but the first: {words}"
        )
        return [marks.title(described), *shapes]


def trained_heads() -> FormulaExplorer:
    """The 270 heads of SmolLM2-135M reading the book's line."""
    heads = _Heads()
    data = as_json({"tokens": heads.tokens, "percent": heads.percent})
    return formula(
        heads.marks,
        read_asset("trained_heads.js").replace("DATA", data),
        [
            Control("layer", "Layer", range(1, len(heads.percent) + 1), 12),
            Control("head", "Head", range(1, len(heads.percent[0]) + 1), 2),
        ],
        title="What each head of SmolLM2 listens to, in percent",
        size=(380, 366),
        name="trained-heads",
    )
