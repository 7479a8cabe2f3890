"""The counting in experiments/sampling.py, on texts small enough to count by hand."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import sampling


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        ([5, 6, 1, 2, 3, 1, 2, 3, 1, 2, 3], (2, 3)),
        ([5, 6, 1, 2, 3, 1, 2, 3, 1], None),  # not yet three rounds
        ([5, 6, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2], (2, 3)),  # cut off within a round
        ([9, 9, 9], (0, 1)),
        ([1, 2, 1, 2], None),  # two rounds are not three
        ([1, 2, 3, 4, 5, 6], None),
        ([7, 7, 7, 8], None),  # it did not end there
    ],
)
def test_a_cycle_is_three_equal_rounds_at_the_end(tokens, found):
    assert sampling.cycle(tokens) == found


def test_repeated_4_grams():
    assert sampling.repeated([1, 2, 3, 4, 5]) == 0
    assert sampling.repeated([1] * 6) == pytest.approx(2 / 3)
    assert sampling.repeated([1, 2, 3, 4, 1, 2, 3, 4]) == pytest.approx(1 / 5)


def test_survivors_are_whole_stretches():
    allowed = torch.ones(1, 64, dtype=torch.bool)
    allowed[0, 5] = False
    shares = sampling.survivors(allowed)
    assert shares == {"1": 0.9844, "2": 0.9688, "4": 0.9375, "8": 0.875, "16": 0.75, "32": 0.5}
