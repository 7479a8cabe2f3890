"""The explorer of chapter 6 shows what was recorded."""

import pytest

from minillama import viz
from minillama.viz import chapter06


@pytest.fixture(scope="module")
def explorer():
    return viz.residual_streams()


@pytest.fixture(scope="module")
def rows():
    return viz.recorded("residuals_and_tying")["streams"]


def test_every_state_is_drawn_and_told(explorer, rows):
    states = list(explorer.states())
    assert len(states) == len(rows) and len({explorer.alt(**state) for state in states}) == len(states)
    for state in states:
        marks = explorer.marks(**state)
        assert sum(mark["kind"] == "polyline" for mark in marks) == 3


def test_the_readings_are_the_recorded_ones(explorer, rows):
    row = next(r for r in rows if (r["depth"], r["init"], r["arrangement"]) == (48, "xavier", "none"))
    told = explorer.alt(quantity="likeness", weights="Xavier’s", depth=48)
    assert f"no residual from {row['likeness'][0]:.2f} to {row['likeness'][-1]:.2f}" in told
    told = explorer.alt(quantity="gradient", weights="Xavier’s", depth=48)
    assert f"no residual from {chapter06._short(10 ** row['log10_gradient'][0])} to" in told


def test_points_stay_inside_the_plot(explorer):
    for state in explorer.states():
        for mark in explorer.marks(**state):
            if mark["kind"] == "polyline":
                assert all(chapter06.TOP <= y <= chapter06.BOTTOM for _, y in mark["points"])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0196, "0.020"), (0.57, "0.57"), (8.39, "8.4"), (529.0, "529"), (2.95e8, "3.0·10⁸")],
)
def test_readings_are_short(value, text):
    assert chapter06._short(value) == text
