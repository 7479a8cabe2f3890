"""The whole book as one PDF: printed once, then read back."""

import re
import unicodedata

import pdf
import pytest
from book_pages import CHAPTERS, ROOT
from bs4 import BeautifulSoup
from pypdf import PdfReader

PAGES_OF_A_CHAPTER = range(8, 61)
A4 = (595, 842)
NUMBERED = re.compile(r"\d+ · ")
RAW_TEX = re.compile(r"\$[^$\n]+\$|\\[a-zA-Z]{2,}|(?<!\w)[_^]\{")
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
STATES = """() => [...document.querySelectorAll(".ml-control")].map((control) =>
  control.querySelector(".ml-label").textContent
  + control.querySelector(".ml-value, option[selected]").textContent)"""


@pytest.fixture(scope="module")
def book(browser, site_url):
    """The assembled book in the browser, as wide as the paper between its margins."""
    context = browser.new_context(viewport={"width": 589, "height": 900})  # 210 mm less two times 27
    page = context.new_page()
    page.emulate_media(media="print")
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
def texts(printed):
    return [page.extract_text() for page in printed.pages]


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


def test_the_book_has_a_plausible_number_of_a4_pages(printed, outline):
    starts = [(title, page) for level, title, page in outline if level == 0]
    ends = [page for _, page in starts[1:]] + [len(printed.pages) + 1]
    for (title, start), end in zip(starts, ends, strict=True):
        if NUMBERED.match(title):
            assert end - start in PAGES_OF_A_CHAPTER, title
    assert {(round(page.mediabox.width), round(page.mediabox.height)) for page in printed.pages} == {A4}


def test_the_bookmarks_are_the_table_of_contents(outline, articles):
    top = [letters(title) for level, title, _ in outline if level == 0]
    assert top == ["Contents", *(letters(title_of(article)) for article in articles)]
    sections = [letters(title) for level, title, _ in outline if level == 1]
    expected = [letters(h2.get_text()) for article in articles for h2 in article.select("h2")]
    assert sections == expected and len(expected) > 200


def test_every_chapter_begins_a_page_that_names_it(outline, texts):
    for level, title, page in outline[1:]:
        if level == 0:
            assert letters(texts[page - 1]).startswith(letters(f"{title}{page}{title}")), title
            assert letters(title) not in letters(texts[page - 2])


def test_the_numbers_in_the_contents_are_the_pages(outline, texts):
    (_, _, first), (_, _, intro) = [entry for entry in outline if entry[0] == 0][:2]
    contents = letters("".join(texts[first - 1 : intro - 1]))
    entries = [entry for entry in outline[1:] if entry[0] == 0 or entry[1] not in ("References", "Answers")]
    assert len([entry for entry in entries if entry[0] < 2]) > 200
    at = 0
    for level, title, page in entries:
        if level < 2:
            at = contents.find(letters(f"{title}{page}"), at)
            assert at >= 0, (title, page)


def test_every_page_bears_its_number(texts):
    for number, text in enumerate(texts[1:], 2):
        assert re.search(rf"(?<!\d){number}(?!\d)", text), number
        assert len(letters(text)) > 60, f"page {number} is nearly empty"


def test_no_formula_is_left_as_tex(printed):
    found = []
    for number, page in enumerate(printed.pages, 1):
        parts = []

        def prose(text, _matrix, _place, font, _size, parts=parts):
            if "Mono" not in str((font or {}).get("/BaseFont")):
                parts.append(text)

        page.extract_text(visitor_text=prose)
        found += [(number, match[0]) for match in RAW_TEX.finditer("".join(parts))]
    assert found == []


def test_the_text_is_all_there(texts, articles, outline):
    whole = letters("".join(texts))
    for article in articles:
        assert letters(article.p.get_text())[:60] in whole
        assert letters(article.select("p")[-1].get_text())[-30:] in whole


def test_answers_stand_behind_their_chapter_and_not_below_the_questions(articles, outline, texts):
    behind = iter(page for _, title, page in outline if title == "Answers")
    asked = 0
    for article in articles:
        questions = article.select(".ml-choice")
        first = next(behind) if questions else None
        for answer in article.select(".ml-choice [data-feedback]"):
            words = letters(answer["data-feedback"])[:40]
            pages = [number for number, text in enumerate(texts, 1) if words in letters(text)]
            assert pages and min(pages) >= first, answer["data-feedback"]
        asked += len(questions)
    assert asked > 20 and next(behind, None) is None


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


def test_explorers_show_their_values_as_text(book, texts):
    whole = letters("".join(texts))
    states = book.evaluate(STATES)
    assert len(states) > 50
    assert [state for state in states if letters(state) not in whole] == []
    titles = book.locator(".ml-explorer .ml-title").all_text_contents()
    assert len(titles) > 20 and all(letters(title) in whole for title in titles)
    assert book.locator("main :is(input, button, summary, .headerlink):visible").count() == 0


def test_it_says_what_it_is(printed):
    facts = pdf.facts(ROOT)
    assert printed.metadata.title == facts["title"]
    assert printed.trailer["/Root"]["/Lang"] == facts["language"]
    assert printed.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_nothing_is_wider_than_the_paper(book):
    assert book.evaluate(OUTSIDE) == []


def test_no_name_is_given_twice(book):
    assert book.evaluate(DOUBLE_IDS) == []


@pytest.mark.parametrize(("paper", "size"), [("A4", A4), ("Letter", (612, 792))])
def test_the_paper_is_a_choice(page, tmp_path, paper, size):
    page.set_content(pdf.shell([], paper))
    path = tmp_path / "cover.pdf"
    page.pdf(path=path, prefer_css_page_size=True)
    box = PdfReader(path).pages[0].mediabox
    assert (round(box.width), round(box.height)) == size


def test_an_unknown_paper_is_refused():
    with pytest.raises(ValueError, match="'A5'; it must be one of A4, Letter"):
        pdf.shell([], "A5")
