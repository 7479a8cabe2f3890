"""Explorers of chapter 2: two hands of a clock, and the wavelengths of all planes of a head."""

import math

from . import marks
from .controls import Control
from .explorer import read_asset
from .formula_explorer import FormulaExplorer, formula

FACE = (104, 118, 96)  # center and radius of the clock
FARTHEST = 20  # distances shown on either side of 0


def _on_grid(value: float) -> float:
    """Six decimals: languages differ in the last bit of a cosine or a power, and digits must not."""
    return math.floor(value * 1e6 + 0.5) / 1e6


def _degrees(tenths: int) -> str:
    return marks.fixed(tenths / 10, 1 if tenths % 10 else 0) + "°"


def score(m: int, n: int, theta: float, words: float) -> float:
    """Cosine of the angle between a query at m and a key at n, both of length 1."""
    return _on_grid(math.cos(math.radians((m - n) * theta + words)))


def _tip(angle: float, radius: float) -> tuple[float, float]:
    """Clockwise from 12, as clocks go."""
    x, y, _ = FACE
    return x + radius * math.sin(math.radians(angle)), y - radius * math.cos(math.radians(angle))


def _clock_marks(m: float, n: float, shift: float, theta: float, words: float) -> list[dict]:
    """The picture; rope_clock.js is its twin. Angles are whole tenths of a degree, so both print the same."""
    line, text, circle = marks.line, marks.text, marks.circle
    step, own = round(theta * 10), round(words * 10)  # tenths of a degree
    query, key = int(m + shift), int(n + shift)
    turned, distance = (query * step, key * step), query - key
    apart = distance * step + own
    result = marks.fixed(score(query, key, theta, words), 3)

    x, y, radius = FACE
    shapes = [circle(x, y, radius, "none", stroke="muted", stroke_width=1.5)]
    for hour in range(1, 13):
        at = _tip(30 * hour, radius - 13)
        shapes.append(text(at[0], at[1] + 4, str(hour), "muted", text_anchor="middle", font_size=11))
    start, sweep = turned[1] / 10, apart % 3600
    sweep = (sweep - 3600 if sweep > 1800 else sweep) / 10
    arc = [_tip(start + sweep * i / 24, 26) for i in range(25)]
    shapes.append(marks.polyline(arc, "purple", stroke_width=3))
    for angle, reach, color, dash in (
        ((turned[0] + own) / 10, 66, "blue", "none"),
        (turned[1] / 10, 52, "vermillion", "6 3"),
    ):
        end = _tip(angle, reach)
        shapes += [
            line(x, y, end[0], end[1], color, stroke_width=3, stroke_dasharray=dash),
            circle(end[0], end[1], 5, color),
        ]
    shapes.append(circle(x, y, 3, "ink"))

    rows = (
        (22, "query, position", str(query), "blue", "none"),
        (42, "turned by", _degrees(turned[0]), None, None),
        (72, "key, position", str(key), "vermillion", "6 3"),
        (92, "turned by", _degrees(turned[1]), None, None),
        (122, "distance m − n", marks.fixed(distance, 0), None, None),
        (142, "angle apart", _degrees(apart), "purple", "none"),
    )
    for row, word, value, color, dash in rows:
        if color:
            shapes.append(line(214, row - 4, 230, row - 4, color, stroke_width=3, stroke_dasharray=dash))
        shapes += [text(236, row, word), text(380, row, value, text_anchor="end", font_weight="bold")]
    shapes += [
        text(236, 184, "score"),
        text(380, 184, result, text_anchor="end", font_weight="bold", font_size=18),
        text(236, 204, "cosine of that angle", "muted", font_size=12),
    ]

    def across(d):
        return 34 + 336 * (d + FARTHEST) / (2 * FARTHEST)

    def height(d):
        return 284 - 34 * math.cos(math.radians(d * theta + words))

    shapes.append(text(34, 238, "Score at every distance", font_weight="bold"))
    for level, word in ((-1, "−1"), (0, "0"), (1, "1")):
        at = 284 - 34 * level
        shapes += [
            line(34, at, 370, at, "grid"),
            text(28, at + 4, word, "muted", text_anchor="end", font_size=11),
        ]
    wave = [(across(i / 4), height(i / 4)) for i in range(-4 * FARTHEST, 4 * FARTHEST + 1)]
    shapes.append(marks.polyline(wave, "sky", stroke_width=1.5))
    shapes += [circle(across(d), height(d), 2, "ink") for d in range(-FARTHEST, FARTHEST + 1)]
    shapes += [
        line(across(distance), 250, across(distance), 318, "purple", stroke_width=1.5),
        circle(across(distance), height(distance), 5, "purple"),
    ]
    for d in (-FARTHEST, 0, FARTHEST):
        shapes.append(text(across(d), 334, marks.fixed(d, 0), "muted", text_anchor="middle", font_size=11))
    shapes.append(text(118, 334, "m − n", "muted", text_anchor="middle", font_size=12))

    described = (
        f"Query at position {query}, turned by {_degrees(turned[0])}; key at position {key}, turned by "
        f"{_degrees(turned[1])}; {_degrees(step)} per token. Distance {marks.fixed(distance, 0)}, "
        f"angle apart {_degrees(apart)}, score {result}."
    )
    return [marks.title(described), *shapes]


def rope_clock() -> FormulaExplorer:
    """A query and a key as hands of a clock: positions, a common shift, the angle per token."""
    return formula(
        _clock_marks,
        read_asset("rope_clock.js"),
        [
            Control.steps("m", "Query m", 0, 20, 1, 4),
            Control.steps("n", "Key n", 0, 20, 1, 1),
            Control.steps("shift", "Shift both", 0, 100, 10, 0, " tokens"),
            Control("theta", "θ per token", (1, 5, 10, 15, 30, 45, 57.3, 90), 30, "°", digits=1),
            Control.steps("words", "Query's own angle", -180, 180, 15, 0, "°"),
        ],
        title="Two hands of a clock",
        size=(380, 342),
        name="rope-clock",
    )


LONGEST = 8  # decades on the wavelength axis


def wavelengths_of(base: float, head_dim: int) -> list[float]:
    """Tokens per turn of each plane."""
    return [2 * math.pi * base ** (2 * i / head_dim) for i in range(int(head_dim) // 2)]


def _grouped(value: float) -> str:
    return f"{math.floor(value + 0.5):,}"


def _wavelength_marks(base: float, context: float, head_dim: float) -> list[dict]:
    """The picture; rope_wavelengths.js is its twin."""
    line, text, circle, rect = marks.line, marks.text, marks.circle, marks.rect
    waves = wavelengths_of(base, head_dim)
    planes, slowest = len(waves), waves[-1]
    never = sum(1 for wave in waves if wave > context)
    turn = _on_grid(360 * context / slowest)
    share = marks.fixed(turn, 1) + "°" if turn < 360 else marks.fixed(_on_grid(turn / 360), 1) + " turns"

    def across(i):
        return 56 + 310 * (i + 0.5) / planes

    def up(wave):
        return 262 - 224 * math.log10(wave) / LONGEST

    shapes = [text(0, 14, "Tokens per turn", font_weight="bold")]
    for decade, word in ((0, "1"), (2, "100"), (4, "10,000"), (6, "1 million"), (8, "100 mill.")):
        at = 262 - 224 * decade / LONGEST
        shapes += [
            line(56, at, 366, at, "grid"),
            text(52, at + 4, word, "muted", text_anchor="end", font_size=11),
        ]
    size = 3.5 if planes <= 32 else 2.2
    for i, wave in enumerate(waves):
        x, y = across(i), up(wave)
        if wave > context:
            shapes.append(
                rect(x - size, y - size, 2 * size, 2 * size, "paper", stroke="vermillion", stroke_width=1.6)
            )
        else:
            shapes.append(circle(x, y, size, "blue"))
    at = up(context)
    shapes += [
        line(56, at, 366, at, "ink", stroke_width=1.5, stroke_dasharray="5 3"),
        text(60, at - 6, f"context: {_grouped(context)} tokens", font_size=12),
    ]
    for plane in (1, planes // 2, planes):
        shapes.append(text(across(plane - 1), 280, str(plane), "muted", text_anchor="middle", font_size=11))
    shapes.append(text(211 - 310 / 4, 280, "plane", "muted", text_anchor="middle", font_size=12))
    shapes += [
        circle(6, 300, 4, "blue"),
        text(18, 304, f"{planes - never} of {planes} planes complete a turn"),
        rect(2.5, 317.5, 7, 7, "paper", stroke="vermillion", stroke_width=1.6),
        text(18, 325, f"{never} never do"),
        text(0, 349, f"The slowest needs {_grouped(slowest)} tokens"),
        text(0, 367, f"and makes {share} within the context."),
    ]
    described = (
        f"Wavelengths of the {planes} planes for base {_grouped(base)}, on a logarithmic axis: "
        f"a rising line from {_grouped(waves[0])} to {_grouped(slowest)} tokens. "
        f"Within {_grouped(context)} tokens {planes - never} planes complete a turn and {never} do not; "
        f"the slowest makes {share}."
    )
    return [marks.title(described), *shapes]


def rope_wavelengths() -> FormulaExplorer:
    """Wavelengths of all planes on a logarithmic axis, against the context length."""
    return formula(
        _wavelength_marks,
        read_asset("rope_wavelengths.js"),
        [
            Control("base", "Base θ", (100, 1000, 10_000, 100_000, 500_000, 1_000_000, 10_000_000), 10_000),
            Control(
                "context",
                "Context",
                (64, 256, 1024, 2048, 4096, 8192, 32_768, 131_072, 1_048_576),
                2048,
                " tokens",
            ),
            Control("head_dim", "Head size D", (16, 32, 64, 128), 64, " entries"),
        ],
        title="How many tokens a plane needs for one turn",
        size=(380, 374),
        name="rope-wavelengths",
    )
