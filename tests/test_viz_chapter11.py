"""The explorer of chapter 11 grows its texts as the tokenizer does."""

import itertools

import pytest

from minillama import viz
from minillama.viz import chapter11


@pytest.fixture(scope="module")
def explorer():
    return viz.token_growth()


def test_no_byte_is_lost_on_the_way():
    for name, states in chapter11.growth().items():
        text = chapter11._recorded_steps()[name]["text"]
        assert len(states[0]["boxes"]) == len(text.encode())
        numbers = [state["merge"] for state in states]
        assert numbers == sorted(set(numbers)) and numbers[0] == 0
        lengths = [len(state["boxes"]) for state in states]
        assert lengths == sorted(lengths, reverse=True) and len(set(lengths)) == len(lengths)
        for state in states:
            shown = "".join(label for label, _, _ in state["boxes"])
            if text.isascii():
                assert shown == text.replace(" ", "·").replace("\n", "↵")
        assert [sum(fresh for *_, fresh in state["boxes"]) > 0 for state in states[1:]] == [True] * (
            len(states) - 1
        )


def test_the_line_ends_as_the_chapter_has_it(explorer):
    told = explorer.alt(words="Orsino's first line", learned=3839)
    assert (
        "37 bytes in 11 tokens: If | ·music | ·be | ·the | ·f | ood | ·of | ·love | , | ·play | ·on." in told
    )
    told = explorer.alt(words="Orsino's first line", learned=0)
    assert "37 bytes in 37 tokens" in told and "No merge has acted" in told


def test_parts_of_characters_are_hexadecimal(explorer):
    told = explorer.alt(words="Chinese and an emoji", learned=0)
    assert "E9 | 9F | B3" in told and "· | F0 | 9F | 8E | B5" in told


def test_boxes_stay_in_the_picture_and_apart(explorer):
    for state in explorer.states():
        boxes = [m for m in explorer.marks(**state) if m["kind"] == "rect" and m["y"] < 100]
        for left, right in itertools.pairwise(boxes):
            assert right["y"] > left["y"] or right["x"] >= left["x"] + left["width"]
        for box in boxes:
            assert 2 <= box["x"] and box["x"] + box["width"] <= chapter11.WIDTH - 1, state
            assert box["y"] + chapter11.HEIGHT < 100, state
