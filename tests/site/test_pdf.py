"""The whole book as one PDF: printed once, then read back."""

import re
import unicodedata
from functools import cache

import pdf
import pytest
from book_pages import CHAPTERS, ROOT
from bs4 import BeautifulSoup
from pypdf import PdfReader
from test_pages import UNRENDERED

PAGES_OF_A_CHAPTER = range(8, 61)
A4 = (595, 842)
NUMBERED = re.compile(r"\d+ · ")
MOST_BYTES = 20_000_000
EVERY = 17  # of all pages, one in so many is read for its number
OUTSIDE = """() => [...document.querySelectorAll("body *")]
  .map((element) => [element, element.getBoundingClientRect()])
  .filter(([, box]) => box.width > 1 && box.right > innerWidth + 1)
  .map(([element]) => element.outerHTML.slice(0, 200))"""
DOUBLE_IDS = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return ids.filter((id, i) => ids.indexOf(id) !== i);
}"""
ALTS = """() => [...document.querySelectorAll("main img, main .ml-picture svg")]
  .map((picture) => picture.alt ?? picture.getAttribute("aria-label"))"""


@pytest.fixture(scope="module")
def book(browser, site_url):
    """The assembled book in the browser, as wide as the paper between its margins."""
    context = browser.new_context(viewport={"width": 589, "height": 900})  # 210 mm less two times 27
    page = context.new_page()
    pdf.assemble(page, site_url)
    yield page
    context.close()


@pytest.fixture(scope="module")
def printed(book, tmp_path_factory):
    path = tmp_path_factory.mktemp("pdf") / "minillama.pdf"
    count = pdf.print_to(book, path)
    assert [file.name for file in path.parent.iterdir()] == ["minillama.pdf"]
    reader = PdfReader(path)
    assert len(reader.pages) == count
    return reader


@pytest.fixture(scope="module")
def text(printed):
    """The letters and digits on a page, counted from 1. Reading takes long: each is read at most once."""
    return cache(lambda number: letters(printed.pages[number - 1].extract_text()))


@pytest.fixture(scope="module")
def extents(outline, articles, printed):
    """For each page of the table of contents its article, and its first and its last page in print."""
    starts = [page for level, _, page in outline if level == 0][1:]
    ends = [*(page - 1 for page in starts[1:]), len(printed.pages)]
    return list(zip(articles, starts, ends, strict=True))


@pytest.fixture(scope="module")
def articles(site):
    """Each page's article as the site has it, in the order of the table of contents."""
    soups = (
        BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser") for name in CHAPTERS
    )
    return [soup.select_one("article.bd-article") for soup in soups]


@pytest.fixture(scope="module")
def outline(printed):
    """The bookmarks as (level, title, page)."""

    def walk(entries, level):
        for entry in entries:
            if isinstance(entry, list):
                yield from walk(entry, level + 1)
            else:
                yield level, entry.title, printed.get_destination_page_number(entry) + 1

    return list(walk(printed.outline, 0))


def letters(text):
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", text))


def title_of(article):
    return article.h1.get_text().removesuffix("#")


def test_the_book_has_a_plausible_number_of_a4_pages(printed, extents):
    for article, first, last in extents:
        if NUMBERED.match(title_of(article)):
            assert last - first in PAGES_OF_A_CHAPTER, title_of(article)
    assert {(round(page.mediabox.width), round(page.mediabox.height)) for page in printed.pages} == {A4}


def test_the_bookmarks_are_the_table_of_contents(outline, articles):
    top = [letters(title) for level, title, _ in outline if level == 0]
    assert top == ["Contents", *(letters(title_of(article)) for article in articles)]
    sections = [letters(title) for level, title, _ in outline if level == 1]
    expected = [letters(h2.get_text()) for article in articles for h2 in article.select("h2")]
    assert sections == expected and len(expected) > 200


def test_every_chapter_begins_a_page_that_names_it(extents, text):
    for article, first, last in extents:
        title = letters(title_of(article))
        assert text(first).startswith(f"{first}{title}") and text(first).count(title) > 1, title
        assert text(last).startswith(f"{last}{title}"), title


def test_the_numbers_in_the_contents_are_the_pages(outline, extents, text):
    first, after = outline[0][2], extents[0][1]
    contents = "".join(text(number) for number in range(first, after))
    entries = [
        letters(f"{title}{page}")
        for level, title, page in outline[1:]
        if level < 2 and title not in ("References", "Answers")
    ]
    assert len(entries) > 200
    at = 0
    for entry in entries:
        at = contents.find(entry, at)
        assert at >= 0, entry


def test_every_page_bears_its_number_and_none_is_nearly_empty(printed, text):
    for number in range(2, len(printed.pages) + 1, EVERY):
        assert str(number) in text(number)[:100]
        assert len(text(number)) > 100


def test_no_formula_is_left_as_tex(book):
    assert book.evaluate(UNRENDERED) == []


def test_the_text_is_all_there(extents, text):
    for article, first, last in extents:
        assert letters(article.p.get_text())[:60] in text(first)
        end = text(last - 1) + text(last)
        assert letters(article.select("p:not(.ml-live, .ml-feedback)")[-1].get_text())[-30:] in end


def test_code_is_joined_into_few_pieces_and_loses_nothing(book, articles, printed):
    expected = [block.get_text() for article in articles for block in article.select("pre")]
    assert book.locator("main pre").all_text_contents() == expected
    assert printed.stream.getbuffer().nbytes < MOST_BYTES


def test_code_has_its_colors(book):
    colors = """() => new Set([...document.querySelectorAll("main .cell_input span")]
      .map((token) => getComputedStyle(token).color)).size"""
    assert book.evaluate(colors) >= 4


def test_answers_stand_behind_their_chapter_and_not_below_the_questions(book, outline, extents, text):
    behind = iter(page for _, title, page in outline if title == "Answers")
    asked = 0
    for article, _, last in extents:
        answers = article.select(".ml-choice [data-feedback]")
        if answers:
            ending = "".join(text(number) for number in range(next(behind), last + 1))
            assert [a for a in answers if letters(a["data-feedback"])[:40] not in ending] == []
        asked += len(answers)
    assert asked > 60 and next(behind, None) is None
    assert book.locator(".ml-choice").count() > 20
    assert book.locator(":is(.ml-feedback, .tag_question .cell_input):visible").count() == 0


def test_internal_links_arrive_and_the_others_leave(printed):
    inside, outside = 0, 0
    for page in printed.pages:
        for link in page.get("/Annots", ()):
            link = link.get_object()
            if "/Dest" in link:
                assert link["/Dest"] in printed.named_destinations
                inside += 1
            else:
                address = link["/A"]["/URI"]
                assert address.startswith("https://") and "127.0.0.1" not in address
                outside += 1
    assert inside > 400 and outside > 80


def test_every_font_is_embedded(printed):
    seen = {}
    for page in printed.pages:
        for font in page["/Resources"].get("/Font", {}).values():
            font = font.get_object()
            for part in font.get("/DescendantFonts", [font]):
                descriptor = part.get_object().get("/FontDescriptor", {}).get_object()
                drawn = font["/Subtype"] == "/Type3"  # holds its own outlines
                seen[font["/BaseFont"] if not drawn else "drawn"] = drawn or any(
                    f"/FontFile{kind}" in descriptor for kind in ("", "2", "3")
                )
    assert len(seen) >= 4 and all(seen.values()), seen


def test_pictures_are_there_and_say_what_they_show(printed, book):
    expected = book.evaluate(ALTS)
    assert len(expected) > 60 and all(expected)
    said = set()
    pending = [printed.trailer["/Root"]["/StructTreeRoot"]["/K"]]
    while pending:
        part = pending.pop().get_object()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            if "/Alt" in part:
                said.add(letters(str(part["/Alt"])))
            if "/K" in part:
                pending.append(part["/K"])
    assert {alt for alt in expected if letters(alt) not in said} == set()


def test_explorers_show_their_values_and_nothing_to_click(book):
    shown = book.locator(".ml-control :is(.ml-label, .ml-value, select):visible").count()
    assert shown == 2 * book.locator(".ml-control").count() > 100
    assert book.locator("main :is(input, button, .folded > summary, .headerlink):visible").count() == 0


def test_it_says_what_it_is(printed):
    facts = pdf.facts(ROOT)
    assert (printed.metadata.title, printed.metadata.author) == (facts["title"], facts["author"])
    assert printed.trailer["/Root"]["/Lang"] == facts["language"]
    assert printed.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_nothing_is_wider_than_the_paper(book):
    assert book.evaluate(OUTSIDE) == []


def test_no_name_is_given_twice(book):
    assert book.evaluate(DOUBLE_IDS) == []


@pytest.mark.parametrize(("paper", "size"), [("A4", A4), ("Letter", (612, 792))])
def test_the_paper_is_a_choice(page, tmp_path, paper, size):
    page.set_content(pdf.shell(paper))
    path = tmp_path / "cover.pdf"
    page.pdf(path=path, prefer_css_page_size=True)
    box = PdfReader(path).pages[0].mediabox
    assert (round(box.width), round(box.height)) == size


def test_an_unknown_paper_is_refused():
    with pytest.raises(ValueError, match="'A5'; it must be one of A4, Letter"):
        pdf.shell("A5")
