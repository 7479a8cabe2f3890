"""Explorers of chapter 1: a chain of amplifiers, and four values on their way through two norms."""

import math

from . import marks
from .controls import Control
from .explorer import Explorer, read_asset
from .formula_explorer import FormulaExplorer, formula
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


class _Chain:
    """Draws the chain. The axes are built once and only the curves and numbers move: twice as fast."""

    figure = None

    def __call__(self, gain: float, depth: int):
        if self.figure is None:
            self._build()
        rows = [
            (levels(gain, depth), f"no control: {gain:.2f}{str(depth).translate(_RAISED)} ="),
            (levels(gain, depth, controlled=True), "gain control before each layer:"),
        ]
        for (curve, words, number), (values, text) in zip(self.rows, rows, strict=True):
            curve.set_data(range(depth + 1), values)
            curve.set_markevery(max(1, depth // 6))
            words.set_text(text)
            number.set_text(_plain(values[-1]))
        return self.figure

    def _build(self):
        from matplotlib.figure import Figure

        self.figure = Figure()
        ax = self.figure.subplots(gridspec_kw={"left": 0.17, "top": 0.84})
        ax.set(yscale="log", ylim=(LOWEST, HIGHEST), xlim=(0, DEPTH + 0.5), xticks=range(0, DEPTH + 1, 4))
        ax.set_yticks([1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000])
        ax.set_yticklabels(["0.0001", "0.001", "0.01", "0.1", "1", "10", "100", "1000"])
        ax.minorticks_off()
        ax.set_xlabel("after layer")
        ax.axhline(1, color=MUTED, linewidth=0.8)
        self.rows = []
        for y, style in (
            (1.16, {"color": VERMILLION, "linestyle": "-", "marker": "o"}),
            (1.07, {"color": BLUE, "linestyle": "--", "marker": "s"}),
        ):
            (curve,) = ax.plot([], [], **style)
            # The read-outs stand still while the curves move.
            ax.plot([-0.17, -0.07], [y, y], transform=ax.transAxes, clip_on=False, **style)
            where = {"transform": ax.transAxes, "va": "center", "color": INK}
            words = ax.text(-0.04, y, "", **where)
            number = ax.text(1, y, "", ha="right", weight="bold", **where)
            self.rows.append((curve, words, number))


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
        _Chain(),
        [
            Control("gain", "Gain per layer", (0.7, 0.75, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3), 1.2, "×", digits=2),
            Control("depth", "Layers", (1, 2, 4, 8, 12, 16, DEPTH), 12),
        ],
        alt=_chain_alt,
        title="A chain of amplifiers",
        name="loudspeakers",
    )


EPS = 1e-6


def norms(x1: float, x2: float, x3: float, x4: float, offset: float, alpha: float) -> dict:
    """Mean and RMS of α(x + offset), and what RMSNorm and LayerNorm (both without gain) make of it."""
    x = [alpha * (x1 + offset), alpha * (x2 + offset), alpha * (x3 + offset), alpha * (x4 + offset)]
    mean = (x[0] + x[1] + x[2] + x[3]) / 4
    square = (x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]) / 4
    c = [value - mean for value in x]
    variance = (c[0] * c[0] + c[1] * c[1] + c[2] * c[2] + c[3] * c[3]) / 4
    rms_norm = [value / math.sqrt(square + EPS) for value in x]
    layer_norm = [value / math.sqrt(variance + EPS) for value in c]
    return {"x": x, "mean": mean, "rms": math.sqrt(square), "rms_norm": rms_norm, "layer_norm": layer_norm}


def _bars(left, width, zero, height, values, color, value_row):
    """Four bars from the line at `zero`, each number below; `height(v)` is v in pixels."""
    step = width / 4
    shapes = []
    for i, value in enumerate(values):
        tall, center = height(value), left + step * (i + 0.5)
        shapes += [
            marks.rect(center - step * 0.3, zero - max(tall, 0), step * 0.6, abs(tall), color),
            marks.text(center, value_row, _short(value), text_anchor="middle", font_size=11),
        ]
    return [*shapes, marks.line(left, zero, left + width, zero, "muted")]


def _short(value: float) -> str:
    """Three decimals, from 10 on one: a number must leave room for its neighbor."""
    return marks.fixed(value, 3 if abs(value) < 9.9995 else 1)


def _squeeze(value: float) -> float:
    """Pixels of an input: asinh keeps 0.2 and 80 visible in one picture."""
    return 56 * math.asinh(value) / math.asinh(80)


def _norm_marks(x1: float, x2: float, x3: float, x4: float, offset: float, alpha: float) -> list[dict]:
    """The picture; norm_walkthrough.js is its twin."""
    n = norms(x1, x2, x3, x4, offset, alpha)
    fixed, line, text = marks.fixed, marks.line, marks.text
    gap = max(abs(a - b) for a, b in zip(n["rms_norm"], n["layer_norm"], strict=True))
    if n["rms"] == 0:
        verdict = "All four are 0: ε keeps both outputs at 0."
    elif n["x"].count(n["x"][0]) == 4:
        verdict = f"All equal: LayerNorm gives 0, RMSNorm {fixed(n['rms_norm'][0], 3)}."
    elif gap < 0.0005:
        verdict = f"Mean {fixed(n['mean'], 3)}: both norms give the same."
    else:
        verdict = f"Mean {fixed(n['mean'], 3)}: the norms differ by up to {fixed(gap, 3)}."

    shapes = [text(34, 14, "Input α(x + offset)", font_weight="bold")]
    shapes.append(text(200, 14, "(squeezed axis)", "muted"))
    for tick in (-80, -4, 4, 80):
        y = 86 - _squeeze(tick)
        shapes += [
            line(34, y, 230, y, "grid"),
            text(29, y + 4, fixed(tick, 0), "muted", text_anchor="end", font_size=11),
        ]
    shapes += _bars(34, 196, 86, _squeeze, n["x"], "sky", 164)
    for row, word, value, color, dash in (
        (70, "RMS", n["rms"], "purple", "7 3"),
        (96, "mean", n["mean"], "vermillion", "2 3"),
    ):
        y = 86 - _squeeze(value)
        shapes += [
            line(34, y, 240, y, color, stroke_width=2, stroke_dasharray=dash),
            line(248, row - 4, 268, row - 4, color, stroke_width=2, stroke_dasharray=dash),
            text(273, row, word),
            text(380, row, _short(value), text_anchor="end", font_weight="bold"),
        ]

    for left, name, rule, values, color in (
        (0, "RMSNorm", "input / RMS", n["rms_norm"], "blue"),
        (202, "LayerNorm", "(input − mean) / deviation", n["layer_norm"], "green"),
    ):
        shapes += [text(left, 194, name, font_weight="bold"), text(left, 210, rule, "muted", font_size=12)]
        shapes += [line(left, 280 - 28 * level, left + 178, 280 - 28 * level, "grid") for level in (-1, 1)]
        shapes += _bars(left, 178, 280, lambda value: 28 * value, values, color, 354)
    for level in (-1, 1):
        y = 284 - 28 * level
        shapes.append(text(190, y, fixed(level, 0), "muted", text_anchor="middle", font_size=11))
    shapes.append(text(0, 380, verdict, font_weight="bold"))

    inputs, rms_norm, layer_norm = (
        ", ".join(fixed(value, 3) for value in n[key]) for key in ("x", "rms_norm", "layer_norm")
    )
    described = (
        f"Input α(x + offset): {inputs}; mean {fixed(n['mean'], 3)}, RMS {fixed(n['rms'], 3)}. "
        f"RMSNorm gives {rms_norm}; LayerNorm gives {layer_norm}. {verdict}"
    )
    return [marks.title(described), *shapes]


def norm_walkthrough() -> FormulaExplorer:
    """Four values, a common offset and a scale, through RMSNorm and LayerNorm side by side."""
    sliders = [
        Control.steps(f"x{i}", f"x{sub}", -4, 4, 0.1, value, digits=1)
        for i, sub, value in ((1, "₁", 2), (2, "₂", -2), (3, "₃", 2), (4, "₄", -2))
    ]
    offset = Control.steps("offset", "Offset", -4, 4, 0.5, 0, digits=1)
    scale = Control("alpha", "Scale α", (-2, -1, 0.1, 0.2, 0.5, 1, 2, 5, 10), 1, "×", digits=1)
    return formula(
        _norm_marks,
        read_asset("norm_walkthrough.js"),
        [*sliders, offset, scale],
        title="Four values, two norms (ε = 10⁻⁶)",
        size=(380, 388),
        name="norm-walkthrough",
    )
