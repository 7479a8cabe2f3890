"""What stands under a chapter's title is true: its reading time, and with what its code was last run."""

import json
import re

import nbformat
import pytest
import refresh
from book_pages import CHAPTERS as PAGES
from book_pages import ROOT
from bs4 import BeautifulSoup
from minillama_site import facts

CHAPTERS = [name for name in PAGES if (ROOT / f"{name}.ipynb").exists()]
RECORD = json.loads((ROOT / "book" / facts.RECORD).read_text("utf-8"))
PINNED = re.search(r"^torch==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]
MOST_OFF = 5  # minutes between what a chapter says and what its length says


def cells(name):
    return json.loads((ROOT / f"{name}.ipynb").read_text("utf-8"))["cells"]


def markdown(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(source, *kinds, tags=()):
    outputs = [{"output_type": "display_data", "data": {kind: "x"}} for kind in kinds]
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source, "outputs": outputs}


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_line_under_the_title(site, name):
    soup = BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser")
    (line,) = soup.select(".page-facts")
    assert line.find_previous_sibling().name == "h1"
    ran = RECORD[name.removeprefix("book/")]
    assert line.get_text() == (
        f"About {facts.reading_minutes(cells(name))} minutes to read. "
        f"Last run with PyTorch {ran['torch']} and Python {ran['python']}."
    )


def test_other_pages_have_no_such_line(site):
    for name in set(PAGES) - set(CHAPTERS):
        assert "page-facts" not in (site / f"{name}.html").read_text("utf-8"), name


def test_the_record_is_of_this_code_and_of_the_pinned_versions():
    assert set(RECORD) == {name.removeprefix("book/") for name in CHAPTERS}, "run make refresh"
    for name in CHAPTERS:
        ran = RECORD[name.removeprefix("book/")]
        notebook = nbformat.read(ROOT / f"{name}.ipynb", as_version=4)
        assert ran["code"] == refresh.code_hash(notebook), f"{name}: its code has changed; run make refresh"
        assert ran["torch"] == PINNED, f"{name}: requirements.txt pins torch {PINNED}; run make refresh"
        assert re.fullmatch(r"3\.\d+", ran["python"])


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_stated_reading_time_fits_the_length(name):
    stated, computed = facts.stated_minutes(cells(name)), facts.computed_minutes(cells(name))
    assert stated is None or abs(stated - computed) <= MOST_OFF, f"its length says {computed}"


def test_the_minutes_add_up():
    assert facts.computed_minutes([markdown("word " * 4000)]) == 20
    assert facts.computed_minutes([markdown("word " * 4000), code("x\n\n" * 150)]) == 25
    assert facts.computed_minutes([markdown("$$\nx\n$$\n" * 30)]) == 10
    assert facts.computed_minutes([markdown("$x$ " * 100)]) == 5
    assert facts.computed_minutes([code("", "image/png", "text/plain")] * 20) == 10
    assert facts.computed_minutes([code("", "text/html", "text/plain")] * 20) == 20
    unread = [
        markdown("<details><summary>Hint</summary>\n\n" + "word " * 9000 + "\n\n</details>"),
        markdown("## References\n\n" + "word " * 9000),
        code("x\n" * 9000, tags=["hide-input"]),
        code("x\n" * 9000, tags=["remove-cell"]),
    ]
    assert facts.computed_minutes([markdown("word " * 4000), *unread]) == 20


def test_what_a_chapter_says_goes_first_and_is_said_once():
    said = markdown("Reading takes about 45 minutes, running less than one.")
    assert facts.reading_minutes([said]) == 45 and facts.reading_minutes([markdown("word")]) == 5
    with pytest.raises(ValueError, match="says once"):
        facts.stated_minutes([said, said])
