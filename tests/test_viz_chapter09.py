"""The explorer of chapter 9 shows what `torch.einsum` computes."""

import pytest
import torch

from minillama import viz
from minillama.viz import chapter09

X, W = torch.tensor(chapter09.X), torch.tensor(chapter09.W)


@pytest.fixture(scope="module")
def letters():
    return viz.einsum_letters()


def texts(explorer, state) -> list[str]:
    return [mark["content"] for mark in explorer.marks(**state) if mark["kind"] == "text"]


def test_every_cell_holds_the_sum_that_einsum_gives(letters):
    for state in letters.states():
        right = state["equation"].split("->")[1]
        y = torch.einsum(state["equation"], X, W)
        shown = texts(letters, state)
        here = y[tuple(state[letter] for letter in right)].item()
        assert shown[-2].endswith(f": {chapter09.number(here)}"), state
        assert f"the sum of {24 // y.numel()} such products" in shown[-2]
        start = next(i for i, words in enumerate(shown) if words.startswith("y["))
        cells = [words for words in shown[start + 1 : -3] if words.lstrip("−").isdigit()]
        assert cells == [chapter09.number(n) for n in y.flatten().tolist()]


def test_the_cells_that_share_a_sum_are_marked(letters):
    """Dark the product in hand, light the others of its sum: together one row of x and one of w."""
    state = {"equation": "ti,oi->to", "t": 1, "o": 3, "i": 2}
    shades = [mark["fill"] for mark in letters.marks(**state) if mark["kind"] == "rect"]
    assert shades.count("blue") == 3 and shades.count("sky") == 4
    everything = letters.marks(**state | {"equation": "ti,oi->"})
    shades = [mark["fill"] for mark in everything if mark["kind"] == "rect"]
    assert shades.count("blue") == 3 and shades.count("sky") == 2 * 3 + 4 * 3 - 2


def test_the_letter_that_is_missing_is_the_one_that_is_summed(letters):
    for equation in chapter09.EQUATIONS:
        rule = texts(letters, letters.start | {"equation": equation})[-1]
        gone = rule.split(": ")[1].split(", ")
        assert sorted([*gone, *equation.split("->")[1]]) == ["i", "o", "t"]
