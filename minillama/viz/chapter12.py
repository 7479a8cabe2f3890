"""Explorer of chapter 12: the recorded run, its loss and what the model writes, step by step."""

import functools
import math
import textwrap

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula
from .results import recorded

LEFT, RIGHT, TOP, BOTTOM = 26, 278, 14, 176  # the axes in pixels
LOWEST, HIGHEST = 4.0, 8.5  # nats
WRAP, TEXT_TOP, LINE_HEIGHT = 48, 246, 16


def smoothed(loss: list[float], ratio: float = 1.15) -> list[tuple[float, float]]:
    """(step, mean loss) over stretches of steps that grow with the step, for a logarithmic axis."""
    points, first = [], 1
    while first <= len(loss):
        last = min(len(loss), max(first, math.ceil(first * ratio) - 1))
        part = loss[first - 1 : last]
        points.append((math.sqrt(first * last), sum(part) / len(part)))
        first = last + 1
    return points


def loss_near(loss: list[float], step: int) -> float:
    """The training loss about a step: the mean over a twentieth of its number to both sides."""
    reach = step // 20
    part = loss[max(0, step - 1 - reach) : step + reach]
    return sum(part) / len(part)


def _x(step: float, last: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * math.log(max(1.0, step)) / math.log(last), 1)


def _y(loss: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * (loss - LOWEST) / (HIGHEST - LOWEST), 1)


@functools.cache
def run_view() -> dict:
    """What the explorer and its twin draw, in pixels and in words."""
    run, counted = recorded("small_run"), recorded("ngram_baselines")
    last = run["settings"]["steps"]
    lines = [
        ("ln 4096", counted["uniform"], 0),
        ("frequencies", counted["unigram_add_one"], 0),
        ("counted pairs", counted["kneser_ney"]["2"], -4),
        ("counted triples", counted["kneser_ney"]["3"], 5),
    ]
    states = {}
    for key, sample in run["samples"].items():
        step = int(key)
        loss = loss_near(run["loss"], max(1, step))
        rows = []
        for row in f"{run['prompt']}{sample.rstrip()}".split("\n"):
            rows += textwrap.wrap(row, WRAP) or [""]
        told = f"training loss {marks.fixed(loss, 2)}"
        if key in run["validation"]:
            told += f", held out {marks.fixed(run['validation'][key], 2)}"
        states[key] = {"x": _x(step, last), "y": _y(loss), "told": told, "rows": rows}
    return {
        "curve": [[_x(step, last), _y(loss)] for step, loss in smoothed(run["loss"])],
        "lines": [
            {"name": name, "y": _y(line["nats_per_token"]), "shift": shift} for name, line, shift in lines
        ],
        "ticks": [{"x": _x(step, last), "text": f"{step:,}"} for step in (1, 10, 100, last)],
        "states": states,
    }


def _run_marks(step: int) -> list[dict]:
    """The picture; training_run.js is its twin."""
    circle, line, polyline, text = marks.circle, marks.line, marks.polyline, marks.text
    view = run_view()
    state = view["states"][str(step)]
    shapes = []
    for each in view["lines"]:
        shapes += [
            line(LEFT, each["y"], RIGHT, each["y"], "muted", stroke_width=1, stroke_dasharray="4 3"),
            text(RIGHT + 10, each["y"] + 4 + each["shift"], each["name"], "muted", font_size=12),
        ]
    for tick in view["ticks"]:
        shapes.append(text(tick["x"], BOTTOM + 16, tick["text"], "muted", text_anchor="middle", font_size=12))
    for nats in (4, 6, 8):
        shapes.append(
            text(LEFT - 8, BOTTOM - 36 * (nats - 4) + 4, str(nats), "muted", text_anchor="end", font_size=12)
        )
    when = f"after step {step:,}" if step > 0 else "before training"
    shapes += [
        polyline(view["curve"], "blue", stroke_width=2),
        circle(state["x"], state["y"], 6, "vermillion"),
        text(4, 222, f"{when}: {state['told']}", font_weight="bold"),
    ]
    for i, row in enumerate(state["rows"]):
        shapes.append(text(4, TEXT_TOP + LINE_HEIGHT * i, row, "muted" if i < 1 else "ink", font_size=12))
    described = (
        f"{when[0].upper()}{when[1:]}: {state['told']}. It writes: {' / '.join(filter(None, state['rows']))}"
    )
    return [marks.title(described), *shapes]


def training_run() -> FormulaExplorer:
    """The recorded small run: a step's place on the loss curve, and the text that the model writes then."""
    view = run_view()
    steps = tuple(int(key) for key in view["states"])
    height = TEXT_TOP + LINE_HEIGHT * max(len(state["rows"]) for state in view["states"].values())
    return formula(
        _run_marks,
        f"const VIEW = {as_json(view)};\n{read_asset('training_run.js')}",
        [Control("step", "Steps trained", steps, 100)],
        title="1,800 steps: the loss, and Orsino's line continued",
        size=(380, height),
        name="training-run",
    )
