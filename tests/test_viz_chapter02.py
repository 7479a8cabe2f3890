"""The explorers of chapter 2: what they say is what the package computes, and nothing leaves the frame."""

import itertools
import math
import re

import pytest
import torch

import minillama
from minillama import viz
from minillama.viz import chapter02


@pytest.fixture(scope="module")
def clock():
    return viz.rope_clock()


@pytest.fixture(scope="module")
def waves():
    return viz.rope_wavelengths()


def heard(explorer, **moved):
    return explorer.alt(**(explorer.start | moved))


def test_the_clock_starts_with_positions_1_and_4(clock):
    assert heard(clock) == (
        "Query at position 4, turned by 120°; key at position 1, turned by 30°; 30° per token. "
        "Distance 3, angle apart 90°, score 0.000."
    )


def test_a_common_shift_changes_the_hands_and_nothing_else(clock):
    shift = next(control for control in clock.controls if control.key == "shift")
    assert 10 in shift.values
    ends = {heard(clock, shift=value).partition("Distance")[2] for value in shift.values}
    starts = {heard(clock, shift=value).partition("Distance")[0] for value in shift.values}
    assert len(ends) == 1 and len(starts) == len(shift.values)
    assert heard(clock, shift=10).startswith("Query at position 14, turned by 420°; key at position 11")


@pytest.mark.parametrize("theta", [1, 30, 57.3, 90])
@pytest.mark.parametrize("words", [-90, 0, 45])
def test_the_score_is_the_packages(clock, theta, words):
    radians = math.radians(theta)
    for m, n in ((4, 1), (20, 0), (0, 20), (7, 7)):
        own = math.radians(words)
        q = torch.tensor([math.cos(own), math.sin(own)], dtype=torch.float64).view(1, 1, 1, 2)
        k = torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 1, 2)
        angles = [torch.full((1, 2), position * radians, dtype=torch.float64) for position in (m, n)]
        q, k = (minillama.apply_rotary_emb(x, a.cos(), a.sin()) for x, a in zip((q, k), angles, strict=True))
        said = float(
            re.search(r"score (.*)\.$", heard(clock, m=m, n=n, theta=theta, words=words))[1].replace("−", "-")
        )
        assert said == pytest.approx((q * k).sum().item(), abs=6e-4)


def test_the_hands_own_angle_moves_the_peak(clock):
    scores = [chapter02.score(m, 0, 30, -90) for m in range(12)]
    assert scores.index(max(scores)) == 3


def test_nothing_leaves_the_clocks_frame(clock):
    ends = [(control.values[0], control.values[-1]) for control in clock.controls]
    for values in itertools.product(*ends):
        for mark in clock.marks(**dict(zip(clock.start, values, strict=True))):
            points = mark.get("points") or [
                (mark[x], mark[y])
                for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy"))
                if x in mark
            ]
            assert all(0 <= x <= 380 and 0 <= y <= 342 for x, y in points), mark


def test_the_wavelengths_are_the_packages(waves):
    for base, head_dim in itertools.product((100, 10_000, 500_000), (16, 64, 128)):
        expected = 2 * math.pi / minillama.rope.inverse_frequencies(head_dim, base)
        assert chapter02.wavelengths_of(base, head_dim) == pytest.approx(expected.tolist(), rel=1e-12)


def test_eleven_planes_never_complete_a_turn_in_2048_tokens(waves):
    alt = heard(waves)
    assert "from 6 to 47,117 tokens" in alt and "slowest makes 15.6°" in alt
    assert "21 planes complete a turn and 11 do not" in alt
    assert len([m for m in waves.marks(**waves.start) if m["kind"] == "circle"]) == 22  # one is the key
    assert "makes 2.8 turns" in heard(waves, context=131_072)
    assert "8 planes complete a turn and 0 do not" in heard(waves, context=1_048_576, head_dim=16)


def test_every_wavelength_fits_the_axis(waves):
    for state in itertools.product(*(control.values for control in waves.controls)):
        for mark in waves.marks(**dict(zip(waves.start, state, strict=True))):
            if mark["kind"] == "circle" and mark["cx"] > 50:
                assert 30 <= mark["cy"] <= 262
            if mark["kind"] == "rect" and mark["x"] > 50:
                assert 30 <= mark["y"] <= 262
