"""Explorers of chapter 3: three activations with their slopes, and one gated unit from input to product."""

import math

from . import marks
from .controls import Control
from .explorer import Explorer, read_asset
from .formula_explorer import FormulaExplorer, formula
from .frame_explorer import frames
from .style import BLUE, GREEN, INK, MUTED, VERMILLION

REACH = 4.0  # inputs run from -REACH to REACH


def _sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _normal(x: float) -> float:
    """Φ, the share of a standard normal distribution below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


ACTIVATIONS = {  # name: (value, slope); ReLU's slope at 0 is 0, as in torch
    "ReLU": (lambda x: max(x, 0.0), lambda x: float(x > 0)),
    "GELU": (
        lambda x: x * _normal(x),
        lambda x: _normal(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    ),
    "SiLU": (lambda x: x * _sigma(x), lambda x: _sigma(x) * (1 + x * _sigma(-x))),
}
_LOOKS = {
    "ReLU": {"color": GREEN, "linestyle": ":", "marker": "^"},
    "GELU": {"color": VERMILLION, "linestyle": "--", "marker": "s"},
    "SiLU": {"color": BLUE, "linestyle": "-", "marker": "o"},
}


class _Slopes:
    """Values above, slopes below, and the numbers at one x. Only dots, lines and numbers move."""

    figure = None

    def __call__(self, x: float):
        if self.figure is None:
            self._build()
        for mark in self.here:
            mark.set_xdata([x, x])
        for name, (dots, numbers) in self.rows.items():
            for function, dot, number in zip(ACTIVATIONS[name], dots, numbers, strict=True):
                dot.set_data([x], [function(x)])
                number.set_text(marks.fixed(function(x), 4))
        (value, slope), (segment,) = ACTIVATIONS["SiLU"], self.tangent
        ends = [x - 0.9, x + 0.9]
        segment.set_data(ends, [value(x) + slope(x) * (end - x) for end in ends])
        return self.figure

    def _build(self):
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(4.2, 4.6))
        upper, lower = self.figure.subplots(
            2, 1, sharex=True, gridspec_kw={"left": 0.13, "top": 0.81, "bottom": 0.1, "hspace": 0.12}
        )
        upper.set(ylim=(-0.7, 4.2), ylabel="value")
        lower.set(
            ylim=(-0.25, 1.25), yticks=(0, 0.5, 1), ylabel="slope", xlim=(-REACH, REACH), xlabel="input x"
        )
        self.here = [ax.axvline(0, color=MUTED, linewidth=0.8) for ax in (upper, lower)]
        self.tangent = upper.plot([], [], color=INK, linewidth=1.2)
        grid = [-REACH + i / 10 for i in range(round(20 * REACH) + 1)]
        words = {"transform": upper.transAxes, "va": "center", "color": INK}
        upper.text(0.62, 1.47, "value", ha="right", **words)
        upper.text(0.92, 1.47, "slope", ha="right", **words)
        self.rows = {}
        for i, (name, look) in enumerate(_LOOKS.items()):
            functions, y = ACTIVATIONS[name], 1.34 - 0.13 * i
            for ax, function in zip((upper, lower), functions, strict=True):
                points = grid if name != "ReLU" else [-REACH, 0, 0, REACH]
                ys = [function(p) for p in points]
                if name == "ReLU" and ax is lower:
                    ys = [0, 0, 1, 1]
                ax.plot(points, ys, **(look | {"marker": ""}))
            upper.plot([0.0, 0.1], [y, y], transform=upper.transAxes, clip_on=False, **look)
            upper.text(0.13, y, name, **words)
            numbers = [upper.text(at, y, "", ha="right", weight="bold", **words) for at in (0.62, 0.92)]
            dots = [
                ax.plot([], [], color=look["color"], marker=look["marker"], clip_on=False)[0]
                for ax in (upper, lower)
            ]
            self.rows[name] = dots, numbers


def _slopes_alt(x: float) -> str:
    said = [
        f"{name} {marks.fixed(value(x), 4)} with slope {marks.fixed(slope(x), 4)}"
        for name, (value, slope) in ACTIVATIONS.items()
    ]
    return f"ReLU, GELU and SiLU above, their slopes below. At x = {marks.fixed(x, 2)}: {', '.join(said)}."


def slopes() -> Explorer:
    """ReLU, GELU and SiLU and their derivatives at one input, with SiLU's tangent."""
    steps = round(8 * REACH)
    return frames(
        _Slopes(),
        [Control("x", "Input x", [(i - steps // 2) / 4 for i in range(steps + 1)], -1.25, digits=2)],
        alt=_slopes_alt,
        title="Three activations and their slopes",
        name="slopes",
    )


VALVES = ("SiLU's, σ(a)", "ReLU's, a step", "none, always open")


def _coarse(value: float) -> float:
    """To six decimals: the last bit of an exponential differs between languages."""
    return math.floor(value * 1e6 + 0.5) / 1e6


def gated(x: float, gate: float, up: float, valve: str = VALVES[0]) -> dict:
    """One gated unit with scalar weights: gate a, content b, the valve's share, a · share, the product."""
    a, b = gate * x, up * x
    if valve == VALVES[2]:
        share = 1.0
    elif valve == VALVES[1]:
        share = float(a > 0)
    else:
        share = _coarse(1 / (1 + math.exp(-a)))
    return {"a": a, "b": b, "share": share, "passed": a * share, "product": a * share * b}


def _unit_marks(x: float, gate: float, up: float, valve: str) -> list[dict]:
    """The picture; gated_unit.js is its twin."""
    fixed, line, text = marks.fixed, marks.line, marks.text
    now, shapes = gated(x, gate, up, valve), []
    rows = [
        ("input x", "ink", fixed(x, 2), ""),
        ("gate a = w_gate · x", "ink", fixed(now["a"], 3), ""),
        ("valve, share let through", "ink", fixed(now["share"], 3), ""),
        ("a · valve", "vermillion", fixed(now["passed"], 3), "7 3"),
        ("content b = w_up · x", "green", fixed(now["b"], 3), "2 3"),
        ("product a · valve · b", "blue", fixed(now["product"], 3), "none"),
    ]
    for i, (words, color, number, dash) in enumerate(rows):
        y, style = 16 + 20 * i, {"font_weight": "bold"} if i == 5 else {}
        shapes += [text(34, y, words, **style), text(290, y, number, text_anchor="end", **style)]
        if dash:
            shapes.append(line(2, y - 4, 26, y - 4, color, stroke_width=2.5, stroke_dasharray=dash))

    def across(value):
        return 205 + 56 * value

    def down(value):
        return 246 - 14 * value

    for tick in (-8, -4, 4, 8):
        shapes += [
            line(37, down(tick), 373, down(tick), "grid"),
            text(30, down(tick) + 4, fixed(tick, 0), "muted", text_anchor="end", font_size=11),
        ]
    shapes += [
        line(37, down(0), 373, down(0), "muted"),
        line(across(0), down(-8), across(0), down(8), "muted"),
    ]
    for tick in (-3, -2, -1, 1, 2, 3):
        style = {"text_anchor": "middle", "font_size": 11}
        shapes.append(text(across(tick), down(-8) + 15, fixed(tick, 0), "muted", **style))
    shapes.append(text(205, down(-8) + 31, "input x", "muted", text_anchor="middle"))
    for name, color, dash in (
        ("passed", "vermillion", "7 3"),
        ("b", "green", "2 3"),
        ("product", "blue", "none"),
    ):
        curve = [(i / 20, gated(i / 20, gate, up, valve)[name]) for i in range(-60, 61)]
        points = [(across(at), down(y)) for at, y in curve if abs(y) <= 8]
        shapes.append(marks.polyline(points, color, stroke_width=2.5, stroke_dasharray=dash))
        if abs(now[name]) <= 8:
            shapes.append(marks.circle(across(x), down(now[name]), 4.5, color))
    described = (
        f"A gated unit with weights {fixed(gate, 2)} and {fixed(up, 2)}, valve: {valve}. "
        f"Input {fixed(x, 2)}, gate {fixed(now['a'], 3)}, valve {fixed(now['share'], 3)}, "
        f"let through {fixed(now['passed'], 3)}, content {fixed(now['b'], 3)}, "
        f"product {fixed(now['product'], 3)}."
    )
    return [marks.title(described), *shapes]


def gated_unit() -> FormulaExplorer:
    """One gated unit: input, gate, content and product, with SiLU's valve, ReLU's, or none."""
    return formula(
        _unit_marks,
        read_asset("gated_unit.js"),
        [
            Control.steps("x", "Input x", -3, 3, 0.25, 1.5, digits=2),
            Control.steps("gate", "w_gate", -1.5, 1.5, 0.25, 1, digits=2),
            Control.steps("up", "w_up", -1.5, 1.5, 0.25, 1, digits=2),
            Control("valve", "Valve", VALVES, VALVES[0]),
        ],
        title="One gated unit",
        size=(380, 396),
        name="gated-unit",
    )
