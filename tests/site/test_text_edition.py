"""The plain-text edition: all of each page, nothing but Markdown, and links that lead on within it."""

import json
import posixpath
import re
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from book_pages import CHAPTERS as PAGES
from book_pages import ROOT
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from minillama_site import text_edition

NOTEBOOKS = [name for name in PAGES if (ROOT / f"{name}.ipynb").exists()]
every_page = pytest.mark.parametrize("name", PAGES)
every_notebook = pytest.mark.parametrize("name", NOTEBOOKS)
MOST_BYTES = 150_000  # of a page
PARSER = MarkdownIt("commonmark").enable("table")


@pytest.fixture(scope="module")
def texts(site):
    return {name: (site / f"{name}.md").read_text("utf-8") for name in PAGES}


def cells(name):
    return json.loads((ROOT / f"{name}.ipynb").read_text("utf-8"))["cells"]


def tokens(text):
    """What a reader of Markdown sees, formulas apart: their signs are not markup."""
    return PARSER.parse(re.sub(r"\$\$.+?\$\$|(?<![\\$`])\$[^$\n]+\$", "formula", text, flags=re.DOTALL))


def inline(text):
    return [child for token in tokens(text) for child in token.children or ()]


@every_page
def test_a_page_is_markdown_and_nothing_else(texts, name):
    text = texts[name]
    assert text.startswith("# ") and text.endswith("\n") and len(text.encode()) < MOST_BYTES
    assert "<div" not in text and "base64" not in text and "\0" not in text
    html = [token.content for token in [*tokens(text), *inline(text)] if token.type.startswith("html")]
    assert html == []
    prose = text_edition.VERBATIM.sub("", text)
    assert not re.search(
        r"^(```\{|:::|<!--)|\{\w+\}`|</?(details|summary|svg|span|style|script)\b", prose, re.MULTILINE
    )


@every_page
def test_fences_are_balanced(texts, name):
    fence = None
    for line in texts[name].splitlines():
        found = re.match(r"(`{3,}|~{3,})(.*)$", line)
        if fence is None and found:
            fence = found[1]
            assert re.fullmatch(r"[\w+-]*", found[2].strip()), line
        elif found and found[1].startswith(fence):
            assert not found[2].strip(), f"a fence opens inside a fence: {line}"
            fence = None
    assert fence is None


@every_page
def test_every_link_resolves(site, texts, name):
    links = [token.attrs["href"] for token in inline(texts[name]) if token.type == "link_open"]
    assert links
    check_links(site, links, folder=posixpath.dirname(name), own=f"{posixpath.basename(name)}.md")


def check_links(site, links, folder, own=None):
    for link in map(unquote, links):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        path = path or own
        target = site / folder / path
        assert target.is_file(), link
        if fragment and path.endswith(".md"):
            assert fragment in slugs(target.read_text("utf-8")), link


def slugs(text):
    titles = [title.lower() for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    titles = [
        re.sub(r"\$[^$]+\$", "", title) for title in titles
    ]  # as on the page, where formulas do not count
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@every_page
def test_links_to_pages_lead_to_their_text(texts, name):
    pages = [
        link for link in re.findall(r"\]\(([^)]+)\)", texts[name]) if re.search(r"\.(ipynb|html)\b", link)
    ]
    own = {f"{posixpath.basename(name)}.html"}
    assert {link for link in pages if not link.startswith("http")} <= own


@every_notebook
def test_all_of_a_notebook_is_there(texts, name):
    """Code, what it printed, questions with every option and its explanation, folds, pictures in words."""
    text = texts[name]
    for cell in cells(name):
        source, tags = "".join(cell["source"]).strip(), cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            for summary in re.findall(r"<summary>(.*?)</summary>", source):
                assert f"**{summary}**" in text
            for displayed in re.findall(r"\$\$.+?\$\$", source, re.DOTALL):
                assert displayed in text
            continue
        if "remove-cell" in tags:
            assert source not in text
            continue
        assert (f"```python\n{source}\n```" in text) != ("question" in tags), cell["id"]
        for output in cell["outputs"]:
            check_output(text, cell, output, f"{posixpath.basename(name)}.html")


def check_output(text, cell, output, page):
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if output["output_type"] == "stream":
        assert f"Output:\n\n```text\n{''.join(output['text']).rstrip()}\n```" in text
    elif "image/png" in data:
        assert f"\nFigure: {' '.join(cell['metadata']['mystnb']['image']['alt'].split())}\n" in text
    elif "ml-choice" in data.get("text/html", ""):
        shown = BeautifulSoup(data["text/html"], "html.parser")
        options = shown.select("input")
        assert options and all(f"\n- {option['data-feedback']}\n" in text for option in options)
        (right,) = [o["value"] for o in options if o["data-feedback"][1:].startswith(": Right.")]
        assert f"**Answer: {right}.**\n\n- A: " in text
        assert data["text/plain"].splitlines()[0] in text.replace("`", "") or "`" in data["text/plain"]
    elif "ml-explorer" in data.get("text/html", ""):
        line = next(
            line
            for line in text.splitlines()
            if line.startswith("Explorer") and " ".join(data["text/plain"].split()) in line
        )
        assert f"[the page]({page})" in line and "Controls: " in line
    else:
        assert data.get("text/markdown", data["text/plain"]).strip() in text


@every_page
def test_the_page_leads_to_its_text(site, name):
    soup = BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser")
    (link,) = [tag for tag in soup.select(".book-link") if tag.get_text().strip() == "Text"]
    (alternate,) = soup.select('link[rel="alternate"][type="text/markdown"]')
    assert link["href"] == alternate["href"] == f"{posixpath.basename(name)}.md"


def test_no_other_markdown_is_left_in_the_site(site):
    found = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.md")}
    assert {name for name in found if not name.startswith(("_sources/", "_static/", "_downloads/"))} == set(
        PAGES
    )


def test_the_index_lists_every_page(site):
    text = (site / "llms.txt").read_text("utf-8")
    title, summary, *_ = [block for block in text.split("\n\n") if block]
    assert title.startswith("# ") and summary.startswith("> ")
    lines = re.findall(r"^- \[(.+)\]\((.+)\.md\): (.+)$", text, re.MULTILINE)
    assert [name for _, name, _ in lines] == PAGES
    assert all(title and len(said) > 20 for title, _, said in lines) and "\\" not in text and "$" not in text
    check_links(site, re.findall(r"\]\(([^)]+)\)", text), folder="")
    front = (ROOT / f"{PAGES[0]}.md").read_text("utf-8")
    for _, name, said in lines:
        assert name not in NOTEBOOKS or f"({posixpath.basename(name)}.ipynb) {said}\n" in front, name


def test_the_whole_book_in_one_file(site, texts):
    whole = (site / "llms-full.txt").read_text("utf-8")
    assert len(whole.encode()) <= text_edition.LARGEST_WHOLE
    at = [f"\n{whole}".index(f"\n{texts[name].splitlines()[0]}\n") for name in PAGES]
    assert at == sorted(at)
    for name in NOTEBOOKS:
        for cell in cells(name):
            if cell["cell_type"] == "code" and not {"remove-cell", "question"} & set(
                cell["metadata"].get("tags", [])
            ):
                assert "".join(cell["source"]).strip() in whole
    links = [token.attrs["href"] for token in inline(whole) if token.type == "link_open"]
    check_links(site, links, folder="")


# ---- The parts ----


def test_html_becomes_markdown():
    before = (
        "<details><summary>Hint</summary>\n\nUse `<div>` and $a<b$.\n\n</details>\n<!-- unseen -->\n"
        '<svg viewBox="0" aria-label="A &amp; B"><style>x</style><text>t</text></svg>\n'
        '<p class="x">See <a class="y" href="02_rope.html"><b>the</b>\nclock</a>.</p> '
        '<img src="a.png" alt="A dot">'
    )
    assert text_edition._prose(before) == (
        "**Hint**\n\nUse `<div>` and $a<b$.\n\nFigure: A & B\n\n"
        "See [the clock](02_rope.html).\n\nFigure: A dot"
    )


def test_code_keeps_its_blank_lines_and_its_fences():
    assert text_edition._prose("```\na\n\n\n\n<b>\n```") == "```\na\n\n\n\n<b>\n```"
    assert text_edition._fenced("```\nx\n```", "text") == "````text\n```\nx\n```\n````"


def test_an_included_file_brings_its_links_along(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "CHANGELOG.md").write_text(
        "# Log\n\n[a](book/intro.md) [b](LICENSE) [c](#d) [e](https://x.org/f)\n"
    )
    page = "```{include} ../CHANGELOG.md\n:relative-docs: book\n```\n"
    match = text_edition.INCLUDE.search(page)
    assert match[0] == page.strip()
    said = text_edition._included(tmp_path / "book" / match[1], tmp_path / "book")
    assert said == "# Log\n\n[a](intro.md) [b](../LICENSE) [c](#d) [e](https://x.org/f)\n"


def test_links_are_led_within_the_edition():
    pages = {"book/intro", "book/02_rope"}
    env = SimpleNamespace(found_docs=pages)
    text = (
        "[a](02_rope.ipynb#planes) [b](intro.md) [c](#here) [d](https://x.org/a.md) [e](../README.md)"
        " `[f](intro.md)` [g](02_rope.html) [h](intro.html)"
    )
    assert text_edition._lead_links(text, "book/intro", "book", env) == (
        "[a](02_rope.md#planes) [b](intro.md) [c](#here) [d](https://x.org/a.md) [e](../README.md)"
        " `[f](intro.md)` [g](02_rope.md) [h](intro.html)"
    )
    assert text_edition._lead_links(text, "book/intro", "", env).startswith(
        "[a](book/02_rope.md#planes) [b](book/intro.md) [c](book/intro.md#here)"
    )
