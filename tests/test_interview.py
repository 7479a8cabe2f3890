"""Each answer on the interview page leads to the sections that settle it, and has its numbers from them."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[1] / "book"
PAGE = (BOOK / "interview.md").read_text(encoding="utf-8")
FOLD = re.compile(
    r"<details>\n<summary>(?P<question>[^\n]+)</summary>\n\n(?P<answer>.+?)\n\n</details>", re.DOTALL
)
LINK = re.compile(r"\[(?P<chapter>\d+) · (?P<heading>.+)\]\((?P<file>\d\d_\w+\.ipynb)#(?P<anchor>\S+)\)")
HEADING = re.compile(r"^(#{1,4}) (.+)$", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
FOLDS = list(FOLD.finditer(PAGE))


def numbers(text):
    """The numbers of a text by their value: 0.80 is 0.8, and 35,926,528 has no commas."""
    return {Decimal(found.replace(",", "")) for found in NUMBER.findall(text.replace("{,}", ","))}


def text_of(cell):
    """What a reader sees of a cell, except code."""
    if cell["cell_type"] == "markdown":
        return "".join(cell["source"])
    shown = [cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")]
    for output in cell["outputs"]:
        shown += [*output.get("text", []), *output.get("data", {}).get("text/plain", [])]
    return "".join(shown)


def sections(name):
    """The sections of a chapter, each with those below it: heading to text."""
    cells = json.loads((BOOK / name).read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join(map(text_of, cells))
    heads = list(HEADING.finditer(text))
    found = {}
    for place, head in enumerate(heads):
        below = (other.start() for other in heads[place + 1 :] if len(other[1]) <= len(head[1]))
        found[head[2]] = text[head.start() : next(below, len(text))]
    return found


def anchor(heading):
    """As MyST makes it: lower case, no punctuation, no formulas, a hyphen for each space."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\$.*?\$", "", heading).lower().replace(" ", "-"))


CHAPTERS = {path.name: sections(path.name) for path in sorted(BOOK.glob("[0-9][0-9]_*.ipynb"))}


def test_the_page_is_made_of_questions():
    assert PAGE.count("<details") == PAGE.count("</details>") == len(FOLDS) > 0
    questions = [fold["question"] for fold in FOLDS]
    assert len(set(questions)) == len(questions)
    assert [question for question in questions if "?" not in question and not question.endswith(".")] == []


def test_every_chapter_answers_one():
    assert {link["file"] for link in LINK.finditer(PAGE)} == set(CHAPTERS)


@pytest.mark.parametrize("fold", FOLDS, ids=lambda fold: fold["question"][:40])
def test_an_answer_is_what_its_sections_say(fold):
    links = list(LINK.finditer(fold["answer"]))
    assert links, "an answer ends with a link like [1 · Heading](01_rmsnorm.ipynb#heading)"
    settled = set()
    for link in links:
        assert int(link["chapter"]) == int(link["file"][:2]), link[0]
        assert link["heading"] in CHAPTERS[link["file"]], f"{link['file']} has no heading {link['heading']!r}"
        assert link["anchor"] == anchor(link["heading"]), link[0]
        settled |= numbers(CHAPTERS[link["file"]][link["heading"]])
    said = {number for number in numbers(LINK.sub("", fold["answer"])) if number >= 10 or number % 1}
    missing = ", ".join(map(str, sorted(said - settled)))
    assert not missing, f"not in the linked sections: {missing}"
