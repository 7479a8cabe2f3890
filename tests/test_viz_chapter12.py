"""The explorer of chapter 12 shows what the recorded run wrote, where it stood then, and the lines."""

import math

import pytest

from minillama import viz
from minillama.viz import chapter12


@pytest.fixture(scope="module")
def explorer():
    return viz.training_run()


@pytest.fixture(scope="module")
def run():
    return viz.recorded("small_run")


def words(explorer, step) -> list[str]:
    return [mark["content"] for mark in explorer.marks(step=step) if mark["kind"] == "text"]


def test_every_sample_is_shown_whole(explorer, run):
    steps = [state["step"] for state in explorer.states()]
    assert steps == sorted(int(key) for key in run["samples"])
    for step in steps:
        shown = "".join("".join(words(explorer, step)).split())
        assert shown.endswith("".join((run["prompt"] + run["samples"][str(step)]).split()))


def test_losses_are_those_of_the_log(explorer, run):
    assert "before training: training loss 8.29" in words(explorer, 0)
    last = words(explorer, 1800)
    near = run["loss"][1799 - 90 :]
    assert f"after step 1,800: training loss {sum(near) / len(near):.2f}, held out 4.32" in last


def test_the_dot_lies_on_the_curve(explorer):
    for state in explorer.states():
        marks = explorer.marks(**state)
        dot = next(mark for mark in marks if mark["kind"] == "circle")
        curve = next(mark for mark in marks if mark["kind"] == "polyline")["points"]
        nearest = min(curve, key=lambda point: abs(point[0] - dot["cx"]))
        assert abs(nearest[1] - dot["cy"]) < 6


def test_everything_lies_inside_the_picture(explorer):
    width, height = explorer.view_box
    for state in explorer.states():
        for mark in explorer.marks(**state):
            if mark["kind"] == "text":
                assert 0 <= mark["x"] <= width and 0 < mark["y"] <= height
                assert len(mark["content"]) <= 60


def test_smoothing_keeps_the_mean():
    loss = [math.sin(i) + 5 for i in range(300)]
    points = chapter12.smoothed(loss)
    assert points[0] == (1.0, loss[0]) and len(points) < 60
    assert [x for x, _ in points] == sorted(x for x, _ in points) and points[-1][0] < 300
    assert chapter12.loss_near(loss, 1) == loss[0]
    assert chapter12.loss_near([1.0, 2.0, 3.0] * 20, 40) == pytest.approx(2.0, abs=0.5)
