"""The glossary and its links: each term from its first use in a chapter, nothing twice, nothing wrong."""

import re
from types import SimpleNamespace
from urllib.parse import urldefrag

import pytest
from book_pages import CHAPTERS as PAGES
from book_pages import ROOT
from bs4 import BeautifulSoup, NavigableString
from docutils import nodes
from minillama_site import glossary
from test_build import notebook, run_build, small_book  # noqa: F401

CHAPTERS = [name for name in PAGES if glossary.chapter_number(name)]
# What the links leave alone: titles and what works as one, code, formulas, tables, the map, folds, outputs.
NOT_PROSE = (
    "h1, h2, h3, h4, strong, code, pre, math, table, blockquote, details, .cell, .page-facts, #references"
)
LEFT_SIDE, RIGHT_SIDE = r"(?<![\w-])", r"(?![\w-])"


@pytest.fixture(scope="module")
def soups(site):
    return {name: BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser") for name in PAGES}


@pytest.fixture(scope="module")
def entries():
    """Read from the source by other means than the build's."""
    found = []
    text = (ROOT / "book/glossary.md").read_text("utf-8")
    for names, rest in re.findall(r"^\*\*(.+?)\.\*\* (.+)$", text, re.MULTILINE):
        comment = re.search(r"<!--(.*)-->", rest)
        told = dict(re.findall(r"(\w+): *([^;]+)", comment[1])) if comment else {}
        listed = {key: [each.strip() for each in value.split(",")] for key, value in told.items()}
        forms = listed.get("as") or names.split(", ") + listed.get("also", [])
        chapters = [int(number) for number in re.findall(r"\[(\d+)\]\(", rest)]
        names = names.split(", ")
        found.append(SimpleNamespace(names=names, forms=forms, chapters=chapters, told=told, text=rest))
    return found


def links(soup):
    return soup.select("a.term")


def anchor_of(link):
    return urldefrag(link["href"]).fragment


def test_entries_are_in_order_and_complete(entries):
    first = [re.sub(r"[^a-z0-9]", "", entry.names[0].lower()) for entry in entries]
    assert first == sorted(first) and len(set(first)) == len(first) > 60
    for entry in entries:
        assert entry.chapters, f"{entry.names}: where is it built or measured?"
        assert entry.chapters == sorted(set(entry.chapters))


def test_each_entry_is_linked_or_says_why_not(entries, soups):
    linked = {anchor_of(link) for name in CHAPTERS for link in links(soups[name])}
    for entry in entries:
        reason = entry.told.get("never", "")
        assert (glossary.anchor(entry.names[0]) in linked) != bool(reason), entry.names


def test_no_page_links_an_entry_twice_and_each_link_finds_it(soups):
    anchors = {tag["id"] for tag in soups["book/glossary"].find_all(id=True)}
    for name in PAGES:
        there = [anchor_of(link) for link in links(soups[name])]
        assert len(there) == len(set(there)), name
        assert set(there) <= anchors and bool(there) == (name in CHAPTERS), name
        for link in links(soups[name]):
            assert urldefrag(link["href"]).url == "glossary.html"
            assert link.get_text().strip() and len(link["title"]) > 10


def test_each_name_has_an_anchor(entries, soups):
    for entry in entries:
        for name in entry.names:
            place = soups["book/glossary"].find(id=glossary.anchor(name))
            assert place and "p" in (place.name, place.parent.name), name


def test_links_stand_at_the_first_use(entries, soups):
    """In the page as built, no form of a linked entry stands in the prose before its link."""
    everyone = [form for entry in entries if "never" not in entry.told for form in entry.forms]
    for name in CHAPTERS:
        pieces = running_prose(soups[name])
        for at, (_, link) in enumerate(pieces):
            if link is None:
                continue
            (entry,) = [e for e in entries if glossary.anchor(e.names[0]) == anchor_of(link)]
            assert re.fullmatch(either(entry.forms), link.get_text()), (name, link)
            before = "".join("\0" if piece[1] is not None else piece[0] for piece in pieces[:at])
            longer = [form for form in everyone if any(part in form and part != form for part in entry.forms)]
            if longer:
                before = re.sub(either(longer), "\0", before)
            assert not (found := re.search(either(entry.forms), before)), (
                name,
                link,
                before[found.start() - 60 :][:120],
            )


def either(forms):
    return (
        LEFT_SIDE
        + "(?:"
        + "|".join(map(glossary.pattern, sorted(forms, key=len, reverse=True)))
        + ")"
        + RIGHT_SIDE
    )


def running_prose(soup):
    """The chapter's prose as pairs (text, glossary link or None)."""
    pieces = []
    article = soup.select_one("article")
    outside = {id(tag) for tag in article.select(NOT_PROSE)}
    for text in article.find_all(string=True):
        if type(text) is not NavigableString or any(id(tag) in outside for tag in text.parents):
            pieces.append(("\n", None))
            continue
        link = text.find_parent("a")
        if link is None:
            pieces.append((str(text), None))
        elif "term" in link.get("class", []):
            pieces.append((str(text), link))
        else:
            pieces.append(("\0", None))
    return pieces


def test_links_stand_in_running_prose_only(soups):
    for name in CHAPTERS:
        for link in links(soups[name]):
            assert not link.find_parent(
                ["h1", "h2", "h3", "table", "code", "details", "blockquote", "figure"]
            ), link
            assert link.find_parent(["p", "li"])


def test_restricted_entries_stay_in_their_chapters(entries, soups):
    restricted = {glossary.anchor(entry.names[0]): entry for entry in entries if "in" in entry.told}
    assert restricted
    for name in CHAPTERS:
        for link in links(soups[name]):
            entry = restricted.get(anchor_of(link))
            assert not entry or str(glossary.chapter_number(name)) in entry.told["in"].split(), (name, link)


def test_the_chapters_that_an_entry_names_use_the_term(entries, soups):
    texts = {glossary.chapter_number(name): soups[name].article.get_text() for name in CHAPTERS}
    for entry in entries:
        for number in entry.chapters:
            forms = [*entry.names, *entry.forms]
            assert re.search(either(forms), texts[number]), f"{entry.names}: not in chapter {number}"


# ---- The parts ----


def paragraph(bold, text, comment=""):
    made = nodes.paragraph("", "", nodes.strong("", bold), nodes.Text(text))
    if comment:
        made += nodes.raw("", comment, format="html")
    return made


def test_an_entry_tells_its_forms():
    entry = glossary._entry(paragraph("FSDP, DDP.", " Two ways."))
    assert entry.names == entry.forms == ["FSDP", "DDP"] and entry.definition == "Two ways."
    entry = glossary._entry(paragraph("Level.", " Root.", "<!-- as: level, RMS; in: 1 3 -->"))
    assert entry.forms == ["level", "RMS"] and entry.chapters == {1, 3}
    entry = glossary._entry(paragraph("Tied weights.", " One.", "<!-- also: tied -->"))
    assert entry.forms == ["Tied weights", "tied"]
    assert glossary._entry(paragraph("Nat.", " A unit.", "<!-- never: why -->")).never == "why"


@pytest.mark.parametrize(
    ("bold", "comment"),
    [("Level", ""), ("Level.", "<!-- level -->"), ("Level.", "<!-- only: 1 -->"), ("Level.", "<!-- in: -->")],
)
def test_an_entry_that_cannot_be_read_is_refused(bold, comment):
    with pytest.raises(ValueError, match=r"must be one of|full stop"):
        glossary._entry(paragraph(bold, " Root.", comment))


@pytest.mark.parametrize(
    ("form", "found", "not_found"),
    [
        ("query", ["query", "Queries"], ["querys"]),
        ("batch", ["batches", "Batch"], ["batchs"]),
        ("RoPE", ["RoPE"], ["rope", "ROPE"]),
        ("SiLU", ["SiLU"], ["silu"]),
        ("KV cache", ["KV cache", "KV\ncaches"], ["kv cache"]),
        ("Token", ["token", "tokens"], ["tokenized"]),
    ],
)
def test_forms_and_their_plurals(form, found, not_found):
    for text in found:
        assert re.fullmatch(glossary.pattern(form), text), text
    for text in not_found:
        assert not re.fullmatch(glossary.pattern(form), text), text


# ---- A small book ----


def test_a_change_to_the_glossary_or_the_record_reaches_the_chapters(small_book):  # noqa: F811
    (small_book / "_toc.yml").write_text(
        "format: jb-book\nroot: book/intro\nchapters:\n- file: book/01_figure\n- file: book/glossary\n"
    )
    (small_book / "book/intro.md").write_text("# A small book\n\nIts [chapter](01_figure.ipynb).\n")
    chapter = notebook("A point").replace("The figure of $x^2$", "A figure\\n\\nTwo tokens, and an `item`.")
    (small_book / "book/01_figure.ipynb").write_text(chapter)
    entries = small_book / "book/glossary.md"
    entries.write_text("# Glossary\n\n**Token.** A word. <!-- as: token -->\n")
    record = small_book / "book/executed.json"
    record.write_text('{"01_figure": {"torch": "2.1.0", "python": "3.12"}}')
    assert run_build(small_book) == (0, "")
    page = small_book / "_build/html/book/01_figure.html"
    shown = BeautifulSoup(page.read_text(), "html.parser")
    (link,) = links(shown)
    assert (link.get_text(), link["href"], link["title"]) == (
        "tokens",
        "glossary.html#term-token",
        "Token: A word.",
    )
    assert "PyTorch 2.1.0 and Python 3.12." in shown.select_one(".page-facts").get_text()
    assert (
        "<!--"
        not in BeautifulSoup((page.parent / "glossary.html").read_text(), "html.parser").article.decode()
    )

    entries.write_text("# Glossary\n\n**Point.** No size.\n\n**Two.** A number. <!-- in: 1 -->\n")
    record.write_text('{"01_figure": {"torch": "2.2.0", "python": "3.12"}}')
    assert run_build(small_book) == (0, "")
    shown = BeautifulSoup(page.read_text(), "html.parser")
    assert [link["title"] for link in links(shown)] == ["Two: A number."]
    assert "PyTorch 2.2.0" in shown.select_one(".page-facts").get_text()

    entries.write_text("# Glossary\n\n**Point.** No size.\n\n**Dot.** The same. <!-- as: point -->\n")
    code, said = run_build(small_book)
    assert code == 1 and "'point' belongs to the entry 'Point', too" in said
