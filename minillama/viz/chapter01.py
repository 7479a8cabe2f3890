"""Explorers of chapter 1: a chain of amplifiers, and four values on their way through two norms."""

import math

from . import marks
from .controls import Control
from .explorer import Explorer, read_asset
from .formula_explorer import formula
from .frame_explorer import frames
from .style import BLUE, INK, MUTED, VERMILLION

DEPTH = 24
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWEST, HIGHEST = 1e-4, 1e3  # what 24 layers make of the outermost gains, and a little room


def levels(gain: float, depth: int, controlled: bool = False) -> list[float]:
    """Level before the first layer and after each; a gain control resets it to 1 before each layer."""
    level = [1.0]
    for _ in range(depth):
        level.append((1.0 if controlled else level[-1]) * gain)
    return level


def _plain(value: float) -> str:
    """Four significant digits, never an exponent: the range is known."""
    return marks.fixed(value, max(0, 3 - math.floor(math.log10(value))))


def _draw_chain(gain: float, depth: int):
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots(gridspec_kw={"left": 0.17, "top": 0.84})
    layers = range(depth + 1)
    free, controlled = levels(gain, depth), levels(gain, depth, controlled=True)
    every = max(1, depth // 6)
    ax.axhline(1, color=MUTED, linewidth=0.8)
    ax.plot(layers, free, color=VERMILLION, linestyle="-", marker="o", markevery=every)
    ax.plot(layers, controlled, color=BLUE, linestyle="--", marker="s", markevery=every)
    ax.set(yscale="log", ylim=(LOWEST, HIGHEST), xlim=(0, DEPTH + 0.5), xticks=range(0, DEPTH + 1, 4))
    ax.set_yticks([1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000])
    ax.set_yticklabels(["0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "1000"])
    ax.minorticks_off()
    ax.set_xlabel("after layer")
    # The read-outs stand still while the curves move.
    where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center", "color": INK}
    for row, (words, value, color, marker, dash) in enumerate(
        [
            (f"no control: {gain:.2f}{str(depth).translate(_RAISED)} =", free[-1], VERMILLION, "o", "-"),
            ("gain control before each layer:", controlled[-1], BLUE, "s", "--"),
        ]
    ):
        y = 1.16 - 0.09 * row
        ax.plot(
            [-0.17, -0.07],
            [y, y],
            color=color,
            linestyle=dash,
            marker=marker,
            transform=ax.transAxes,
            clip_on=False,
        )
        ax.annotate(words, (-0.07, y), xytext=(8, 0), **where)
        ax.annotate(_plain(value), (1, y), xytext=(0, 0), ha="right", weight="bold", **where)
    return figure


def _chain_alt(gain: float, depth: int) -> str:
    end = levels(gain, depth)[-1]
    course = "stays at 1" if gain == 1 else f"{'climbs' if gain > 1 else 'falls'} from 1 to {_plain(end)}"
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    return (
        f"Signal level in a chain of {layers}, each with gain {gain:.2f}, on a logarithmic axis. "
        f"Without gain control it {course}. "
        f"With a gain control before each layer it is {_plain(gain)} after every layer."
    )


def loudspeakers() -> Explorer:
    """A chain of amplifiers, with and without a gain control before each."""
    return frames(
        _draw_chain,
        [
            Control.steps("gain", "Gain per layer", 0.7, 1.3, 0.05, 1.2, "×", digits=2),
            Control("depth", "Layers", (1, 6, 12, DEPTH), 12),
        ],
        alt=_chain_alt,
        title="A chain of amplifiers",
        name="loudspeakers",
    )


EPS = 1e-6


def norms(x1: float, x2: float, x3: float, x4: float, alpha: float) -> dict:
    """Mean and RMS of α·x, and what RMSNorm and LayerNorm (both without gain) make of it."""
    x = [alpha * x1, alpha * x2, alpha * x3, alpha * x4]
    mean = (x[0] + x[1] + x[2] + x[3]) / 4
    square = (x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]) / 4
    c = [value - mean for value in x]
    variance = (c[0] * c[0] + c[1] * c[1] + c[2] * c[2] + c[3] * c[3]) / 4
    rms_norm = [value / math.sqrt(square + EPS) for value in x]
    layer_norm = [value / math.sqrt(variance + EPS) for value in c]
    return {"x": x, "mean": mean, "rms": math.sqrt(square), "rms_norm": rms_norm, "layer_norm": layer_norm}


def _panel(left, width, zero, height, values, label, color, value_row):
    """Four bars from the zero line, each number under its bar; `height(v)` is v in pixels."""
    shapes = []
    step = width / 4
    for i, value in enumerate(values):
        tall = height(value)
        center = left + step * (i + 0.5)
        shapes += [
            marks.rect(center - step * 0.3, zero - max(tall, 0), step * 0.6, abs(tall), color),
            marks.text(center, value_row, marks.fixed(value, 3), text_anchor="middle"),
        ]
    return [
        marks.text(left, label[0], label[1], font_weight="bold"),
        *shapes,
        marks.line(left, zero, left + width, zero, "muted"),
    ]


def _squeeze(value: float) -> float:
    """Pixels of an input: asinh keeps 0.2 and 40 visible in one picture."""
    return 56 * math.asinh(value) / math.asinh(40)


def _norm_marks(x1: float, x2: float, x3: float, x4: float, alpha: float) -> list[dict]:
    n = norms(x1, x2, x3, x4, alpha)
    fixed = marks.fixed
    gap = max(abs(a - b) for a, b in zip(n["rms_norm"], n["layer_norm"], strict=True))
    if n["rms"] == 0:
        verdict = "All four are 0: ε keeps both outputs at 0."
    elif gap < 0.0005:
        verdict = "Mean 0: both norms give the same."
    else:
        verdict = f"Mean {fixed(n['mean'], 3)}: the norms differ by up to {fixed(gap, 3)}."
    shapes = []
    for tick in (-40, -4, 4, 40):
        y = 92 - _squeeze(tick)
        shapes += [
            marks.line(34, y, 266, y, "grid"),
            marks.text(28, y + 4, fixed(tick, 0), "muted", text_anchor="end", font_size=11),
        ]
    shapes += _panel(34, 232, 92, _squeeze, n["x"], (16, "Input αx"), "sky", 174)
    for level, color, dash in ((n["mean"], "vermillion", "2 3"), (n["rms"], "purple", "7 3")):
        y = 92 - _squeeze(level)
        shapes.append(marks.line(34, y, 282, y, color, stroke_width=2, stroke_dasharray=dash))
    shapes += [
        marks.line(292, 66, 316, 66, "purple", stroke_width=2, stroke_dasharray="7 3"),
        marks.text(322, 70, "RMS"),
        marks.text(420, 70, fixed(n["rms"], 3), text_anchor="end", font_weight="bold"),
        marks.line(292, 96, 316, 96, "vermillion", stroke_width=2, stroke_dasharray="2 3"),
        marks.text(322, 100, "mean"),
        marks.text(420, 100, fixed(n["mean"], 3), text_anchor="end", font_weight="bold"),
    ]
    for left, values, words, color in (
        (0, n["rms_norm"], "RMSNorm: αx ÷ RMS", "blue"),
        (222, n["layer_norm"], "LayerNorm: mean off first", "green"),
    ):
        for level in (-1, 1):
            shapes.append(marks.line(left, 266 - 28 * level, left + 198, 266 - 28 * level, "grid"))
        shapes += _panel(left, 198, 266, lambda value: 28 * value, values, (202, words), color, 340)
    described = ", ".join
    return [
        marks.title(
            f"Input αx: {described(fixed(v, 3) for v in n['x'])}; mean {fixed(n['mean'], 3)}, "
            f"RMS {fixed(n['rms'], 3)}. RMSNorm gives {described(fixed(v, 3) for v in n['rms_norm'])}; "
            f"LayerNorm gives {described(fixed(v, 3) for v in n['layer_norm'])}. {verdict}"
        ),
        *shapes,
        marks.text(0, 366, verdict, font_weight="bold"),
    ]


def norm_walkthrough() -> Explorer:
    """Four values and a scale, through RMSNorm and LayerNorm side by side."""
    sliders = [
        Control.steps(f"x{i}", f"x{sub}", -4, 4, 0.1, value, digits=1)
        for i, sub, value in ((1, "₁", 2), (2, "₂", -2), (3, "₃", 2), (4, "₄", -2))
    ]
    scale = Control("alpha", "Scale α", (0.1, 0.2, 0.5, 1, 2, 5, 10), 1, "×", digits=1)
    return formula(
        _norm_marks,
        read_asset("norm_walkthrough.js"),
        [*sliders, scale],
        title="Four values through two norms",
        size=(420, 376),
        name="norm-walkthrough",
    )
