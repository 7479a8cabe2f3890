"""Explorer of chapter 6: what 3 to 48 layers do to the stream and its gradient, in three arrangements."""

import math

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula
from .results import recorded

LEFT, RIGHT, TOP, BOTTOM = 48, 372, 92, 292  # the plot, in the picture's own pixels
ARRANGEMENTS = {  # name, color, dash and marker radius: told apart without color as well
    "pre": ("pre-norm", "blue", "none", 0),
    "post": ("post-norm", "green", "7 3", 0),
    "none": ("no residual", "vermillion", "none", 3.5),
}
WEIGHTS = {"package": "MiniLLaMA’s", "unscaled": "without 1/√(2L)", "xavier": "Xavier’s"}
QUANTITIES = {
    "level": "Level of the stream (RMS)",
    "gradient": "Length of the loss’s gradient in the stream",
    "likeness": "Likeness of tokens (mean cosine)",
}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _short(value: float) -> str:
    """Two significant digits; a power of ten below 0.001 and from 1,000 on."""
    exponent = math.floor(math.log10(value))
    if -4 < exponent < 3:
        return marks.fixed(value, max(0, 1 - exponent))
    return f"{marks.fixed(value / 10.0**exponent, 1)}·10{str(exponent).translate(_RAISED)}"


def _axis(quantity: str, rows: list) -> tuple[float, float, list]:
    """Lowest and highest value drawn, and the ticks as (value, text); logarithms but for the likeness."""
    if quantity == "likeness":
        return -0.05, 1.05, [(tick / 4, marks.fixed(tick / 4, 2)) for tick in range(5)]
    found = [value for row in rows for value in row[f"log10_{quantity}"]]
    low, high = math.floor(min(found)), math.ceil(max(found))
    step = max(1, math.ceil((high - low) / 6))
    return low, high, [(e, f"10{str(e).translate(_RAISED)}") for e in range(low, high + 1, step)]


def _prepare() -> dict:
    """All that is drawn, worked out here once: Python and JavaScript read the same rounded numbers."""
    rows = recorded("residuals_and_tying")["streams"]
    data = {"axes": {}, "curves": {}}
    for quantity, title in QUANTITIES.items():
        low, high, ticks = _axis(quantity, rows)

        def height(value, low=low, high=high):
            return round(BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP), 1)

        data["axes"][quantity] = {"title": title, "ticks": [[height(v), text] for v, text in ticks]}
        for row in rows:
            values = row["likeness"] if quantity == "likeness" else row[f"log10_{quantity}"]
            if quantity == "likeness":
                ends = [marks.fixed(v, 2) for v in (values[0], values[-1])]
            else:
                ends = [_short(10**v) for v in (values[0], values[-1])]
            key = f"{quantity} {row['depth']} {WEIGHTS[row['init']]} {row['arrangement']}"
            data["curves"][key] = [[height(v) for v in values], *ends]
    return data


def _stream_marks(data: dict, quantity: str, depth: int, weights: str) -> list[dict]:
    """The picture; residual_streams.js is its twin."""
    axis, line, text = data["axes"][quantity], marks.line, marks.text
    shapes = [
        text(0, 14, axis["title"], font_weight="bold"),
        text(RIGHT, 32, "bottom → top", "muted", text_anchor="end", font_size=12),
    ]
    for y, word in axis["ticks"]:
        shapes += [
            line(LEFT, y, RIGHT, y, "grid"),
            text(LEFT - 6, y + 4, word, "muted", text_anchor="end", font_size=12),
        ]
    for i in range(4):
        x, anchor = LEFT + (RIGHT - LEFT) * i / 3, "end" if i == 3 else "middle"
        shapes.append(text(x, 310, str(depth * i // 3), "muted", text_anchor=anchor, font_size=12))
    shapes.append(text((LEFT + RIGHT) / 2, 328, "after layer", "muted", text_anchor="middle", font_size=12))
    told = []
    for i, (arrangement, (name, color, dash, radius)) in enumerate(ARRANGEMENTS.items()):
        ys, first, last = data["curves"][f"{quantity} {depth} {weights} {arrangement}"]
        row, style = 48 + 16 * i, {"stroke_width": 2, "stroke_dasharray": dash}
        points = [[LEFT + (RIGHT - LEFT) * k / 6, y] for k, y in enumerate(ys)]
        shapes += [
            line(0, row - 4, 34, row - 4, color, **style),
            text(42, row, name),
            text(RIGHT, row, f"{first} → {last}", text_anchor="end", font_weight="bold"),
            marks.polyline(points, color, **style),
        ]
        if radius:
            shapes += [marks.circle(x, y, radius, color) for x, y in [[17, row - 4], *points]]
        told.append(f"{name} from {first} to {last}")
    described = f"{axis['title']}, {depth} layers, weights {weights}, from bottom to top: {'; '.join(told)}."
    return [marks.title(described), *shapes]


def residual_streams() -> FormulaExplorer:
    """Level, gradient and likeness of tokens through an untrained stack, as experiments recorded them."""
    data = _prepare()
    depths = tuple(sorted({int(key.split()[1]) for key in data["curves"]}))
    return formula(
        lambda quantity, depth, weights: _stream_marks(data, quantity, depth, weights),
        f"const data = {as_json(data)};\n{read_asset('residual_streams.js')}",
        [
            Control("quantity", "Show", tuple(QUANTITIES), "gradient"),
            Control("weights", "Weights", tuple(WEIGHTS.values()), WEIGHTS["package"]),
            Control("depth", "Depth", depths, 12, " layers"),
        ],
        title="A message through an untrained stack",
        size=(380, 334),
        name="residual-streams",
    )
