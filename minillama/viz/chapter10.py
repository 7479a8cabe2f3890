"""Explorers of chapter 10: two optimizers in a valley, and the learning rate over a run."""

import itertools
import math

from ..optim import cos_lr_scheduler
from . import marks
from .controls import Control
from .explorer import read_asset
from .formula_explorer import FormulaExplorer, formula

# -- a valley --------------------------------------------------------------------------------------------

STEEP = 50.0  # curvature across the valley; along it, 1
START = (-3.6, 0.9)  # along and across
STEPS = 60
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
TURNS = {0: (1.0, 0.0), 15: (0.965926, 0.258819), 30: (0.866025, 0.5), 45: (0.707107, 0.707107)}
FACTORS = {"÷ 1,024": 1 / 1024, "× 1": 1.0, "× 1,024": 1024.0}
UNIT, WIDE, HIGH = 40, 190, 130  # pixels of 1, and from the middle to the frame
# Twelve directions and their opposites, for the contours: cosine and sine, rounded.
CIRCLE = (
    *((1.0, 0.0), (0.965926, 0.258819), (0.866025, 0.5), (0.707107, 0.707107)),
    *((0.5, 0.866025), (0.258819, 0.965926), (0.0, 1.0), (-0.258819, 0.965926)),
    *((-0.5, 0.866025), (-0.707107, 0.707107), (-0.866025, 0.5), (-0.965926, 0.258819)),
)


def descend(method: str, rate: float, turn: int, factor: float) -> dict:
    """Points of a descent until it ends or is far out; the last loss as a share of the first."""
    c, s = TURNS[turn]
    x, y = c * START[0] - s * START[1], s * START[0] + c * START[1]
    m = [0.0, 0.0]
    v = [0.0, 0.0]
    power1 = power2 = 1.0
    points, losses, gradients = [(x, y)], [], []
    for _ in range(STEPS + 1):
        along, across = c * x + s * y, c * y - s * x
        losses.append(along * along + STEEP * across * across)
        if len(points) > STEPS or abs(x) + abs(y) > 1000:
            break
        g = [
            factor * (c * along - s * STEEP * across),
            factor * (s * along + c * STEEP * across),
        ]
        gradients.append(g)
        if method == "AdamW":
            power1, power2 = power1 * BETA1, power2 * BETA2
            step = [0.0, 0.0]
            for i in range(2):
                m[i] = BETA1 * m[i] + (1 - BETA1) * g[i]
                v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i]
                step[i] = m[i] / (1 - power1) / (math.sqrt(v[i] / (1 - power2)) + EPS)
        else:
            step = g
        x, y = x - rate * step[0], y - rate * step[1]
        points.append((x, y))
    return {
        "points": points,
        "gradient": gradients[0],
        "left": len(points) <= STEPS,
        "share": losses[-1] / losses[0],
    }


def _edge(a: float, b: float, room: float) -> float:
    """How far one may go from a towards b, as a share, before |value| exceeds `room`."""
    if b > room:
        return (room - a) / (b - a)
    if b < -room:
        return (-room - a) / (b - a)
    return 1.0


def _short(value: float) -> str:
    size = abs(value)
    return marks.fixed(value, 4 if size < 1 else 2 if size < 100 else 0)


def _valley_marks(method: str, rate: float, factor: str, turn: int) -> list[dict]:
    """The picture; valley.js is its twin."""
    line, text, circle = marks.line, marks.text, marks.circle
    run = descend(method, rate, turn, FACTORS[factor])
    points = run["points"]
    c, s = TURNS[turn]
    shapes = []
    for size in (1.0, 2.0, 3.6):
        outline = []
        for sign in (1, -1):
            for p, q in CIRCLE:
                along, across = sign * size * p, sign * size * q / math.sqrt(STEEP)
                at = c * along - s * across, s * along + c * across
                outline.append((WIDE + UNIT * at[0], HIGH - UNIT * at[1]))
        shapes.append(marks.polyline([*outline, outline[0]], "grid", stroke_width=1.5))
    shapes += [
        line(WIDE - 6, HIGH, WIDE + 6, HIGH, "muted"),
        line(WIDE, HIGH - 6, WIDE, HIGH + 6, "muted"),
        text(366, HIGH + 4, "x", "muted"),
        text(WIDE - 4, 14, "y", "muted"),
    ]
    wide, high = (WIDE - 4) / UNIT, (HIGH - 4) / UNIT  # of the frame
    color = "blue" if method == "AdamW" else "vermillion"
    drawn, seen = [points[0]], 1
    for before, after in itertools.pairwise(points):
        share = min(_edge(before[0], after[0], wide), _edge(before[1], after[1], high))
        if share < 1:
            drawn.append(
                (before[0] + share * (after[0] - before[0]), before[1] + share * (after[1] - before[1]))
            )
            break
        drawn.append(after)
        seen += 1
    shapes.append(
        marks.polyline([(WIDE + UNIT * x, HIGH - UNIT * y) for x, y in drawn], color, stroke_width=1.5)
    )
    shapes += [
        circle(WIDE + UNIT * x, HIGH - UNIT * y, 4 if i == 0 else 2, "ink" if i == 0 else color)
        for i, (x, y) in enumerate(drawn[:seen])
    ]
    moved = points[1][0] - points[0][0], points[1][1] - points[0][1]
    first = f"first step: {_short(moved[0])} to the right, {_short(moved[1])} up"
    share = run["share"]
    if run["left"]:
        last = f"thrown far out of the picture by step {len(points) - 1}"
    elif share < 0.0001:
        last = f"after {STEPS} steps: loss below 0.0001 of the first"
    else:
        last = f"after {STEPS} steps: loss {_short(share)} of the first"
    gradient = f"gradient at the start: {_short(run['gradient'][0])} and {_short(run['gradient'][1])}"
    shapes += [text(4, 274, gradient), text(4, 293, first), text(4, 312, last, font_weight="bold")]
    described = (
        f"{method}, rate {marks.fixed(rate, 3)}, loss {factor}, valley turned by {turn}°: "
        f"{gradient}; {first}; {last}."
    )
    return [marks.title(described), *shapes]


def valley() -> FormulaExplorer:
    """Gradient descent or AdamW in a long valley: rate, size of the loss, direction of the valley."""
    return formula(
        _valley_marks,
        read_asset("valley.js"),
        [
            Control("method", "Optimizer", ("gradient descent", "AdamW"), "gradient descent"),
            Control("rate", "Rate", (0.005, 0.01, 0.02, 0.039, 0.05, 0.1, 0.2, 0.5), 0.039, digits=3),
            Control("factor", "Loss", tuple(FACTORS), "× 1"),
            Control("turn", "Valley turned", tuple(TURNS), 0, "°"),
        ],
        title="Sixty steps in a valley, 50 times as steep across as along",
        size=(380, 320),
        name="valley",
    )


# -- the schedule ----------------------------------------------------------------------------------------

RUN = 1000  # steps of the run
LEFT, RIGHT, BOTTOM, TALL = 40, 360, 196, 160  # the axes in pixels
ASKS = {"step + 1": 1, "step": 0}


def _grid(value: float) -> float:
    """Millionths: the last bit of a cosine may differ between languages."""
    return math.floor(value * 1e6 + 0.5) / 1e6


def _percent(share: float) -> str:
    return marks.fixed(_grid(100 * share), 1) + " %"


def _schedule_marks(warmup: int, end: int, floor: int, step: int, asks: str) -> list[dict]:
    """The picture; schedule.js is its twin."""
    line, text = marks.line, marks.text

    def rate(it: int) -> float:
        return cos_lr_scheduler(it, 1.0, floor / 100, warmup, max(warmup, end))

    def at(it: int, share: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * it / RUN, BOTTOM - TALL * share

    shapes = []
    for share, words in ((0, "0"), (0.5, "50 %"), (1, "peak")):
        y = BOTTOM - TALL * share
        shapes += [
            line(LEFT, y, RIGHT, y, "grid"),
            text(LEFT - 6, y + 4, words, "muted", text_anchor="end", font_size=11),
        ]
    for it in (0, 250, 500, 750, 1000):
        x = at(it, 0)[0]
        shapes.append(text(x, BOTTOM + 16, marks.fixed(it, 0), "muted", text_anchor="middle", font_size=11))
    its = list(range(0, RUN + 1, 10))
    shapes.append(marks.polyline([at(it, _grid(rate(it))) for it in its], "blue", stroke_width=2.5))
    it = step + ASKS[asks]
    here = rate(it)
    x, y = at(it, _grid(here))
    shapes += [
        line(x, BOTTOM, x, y, "vermillion", stroke_width=1.5, stroke_dasharray="4 3"),
        marks.circle(x, y, 5, "vermillion"),
    ]
    if it < warmup:
        phase = "warmup"
    elif it <= max(warmup, end):
        phase = "cosine"
    else:
        phase = "floor"
    total = 0.0
    for k in range(RUN):
        total += rate(k + ASKS[asks])
    first = rate(ASKS[asks])
    one = f"step {step}, it = {it}: {_percent(here)} of the peak ({phase})"
    two = f"the first step: {_percent(first)}" + (", it moves nothing" if first == 0 else "")
    three = f"mean over {RUN:,} steps: {_percent(total / RUN)}"
    shapes += [
        text(4, 240, one, font_weight="bold"),
        text(4, 260, two),
        text(4, 280, three),
    ]
    described = (
        f"Learning rate over {RUN:,} steps: warmup {warmup}, cosine to {max(warmup, end)}, "
        f"floor {floor} % of the peak. {one}; {two}; {three}."
    )
    return [marks.title(described), *shapes]


def schedule() -> FormulaExplorer:
    """Warmup, cosine and floor over a run of 1,000 steps."""
    return formula(
        _schedule_marks,
        read_asset("schedule.js"),
        [
            Control("warmup", "Warmup steps", (0, 1, 10, 50, 100, 200, 400), 100),
            Control("end", "Cosine ends at", (0, 200, 400, 600, 800, 1000), 800),
            Control("floor", "Floor", (0, 10, 20, 50, 100), 10, " %"),
            Control("step", "Step", (0, 1, 2, 5, 10, 20, 50, *range(100, 1000, 50), 999), 450),
            Control("asks", "Training asks for", tuple(ASKS), "step + 1"),
        ],
        title="The learning rate over a run of 1,000 steps",
        size=(380, 288),
        name="schedule",
    )
