"""The page of references and the lists in the chapters hold the same papers, told the same way."""

import re
import unicodedata

import pytest
from book_sections import BOOK, CHAPTERS, chapter_text

PAGE = (BOOK / "references.md").read_text(encoding="utf-8")
LISTED = re.compile(r"- (?P<authors>.+?)\. \*(?P<title>.+?)\*(?P<rest>.*)")
ENTRY = re.compile(r"\*\*(?P<key>.+) (?P<year>\d{4})\.\*\* (?P<authors>.+?)\. \*(?P<title>.+?)\*(?P<rest>.*)")
YEAR = re.compile(r"\b(?:1[89]|20)\d\d\b")
WEB = re.compile(r"\]\((https?://[^)\s]+)\)")
ARXIV = re.compile(r"\[arXiv:([\d.]+)\]\(https://arxiv\.org/abs/\1\)")
SHORT = re.compile(r"([^;]+?),? (\d{4}), \[arXiv:([\d.]+)\]")
CITATION = re.compile(r"([^\W\d_][\w-]+)(?:’s|'s)?( et al\.)?,? \(?((?:1[89]|20)\d\d)\b")


def words_of_key(entry):
    return re.findall(r"[\w-]+", entry["key"])


def page_entries():
    found = {}
    for paragraph in PAGE.split("## Formats")[0].split("\n\n"):
        if paragraph.startswith("**"):
            match = ENTRY.fullmatch(paragraph.strip())
            assert match, f"an entry must read **Key year.** Authors. *Title*. …: {paragraph[:80]}"
            assert match["title"] not in found, f"{match['title']} comes twice"
            labels, links = paragraph.count("[arXiv"), len(ARXIV.findall(paragraph))
            assert labels == links, f"number and address of arXiv differ: {paragraph[:80]}"
            found[match["title"]] = match
    return found


ENTRIES = page_entries()
BY_ARXIV = {ARXIV.search(entry[0])[1]: entry for entry in ENTRIES.values() if "[arXiv:" in entry[0]}


def chapters_named(entry):
    return set(re.findall(r"\[\d+\]\(([\w.]+\.ipynb)\)", entry["rest"]))


def listed(path):
    """The lines of a chapter's list: those with a title, and those that sum up several papers."""
    lines = [
        line for line in chapter_text(path).split("## References")[1].split("\n") if line.startswith("- ")
    ]
    full = [LISTED.match(line) for line in lines]
    return [match for match in full if match], [
        line for line, match in zip(lines, full, strict=True) if not match
    ]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.name)
def test_what_a_chapter_lists_is_on_the_page(path):
    full, short = listed(path)
    assert full
    for match in full:
        entry = ENTRIES.get(match["title"])
        assert entry, f"“{match['title']}” is not on the page under this title"
        assert (entry["authors"], entry["year"]) == (match["authors"], YEAR.search(match["rest"])[0])
        assert set(WEB.findall(match["rest"])) <= set(WEB.findall(entry["rest"])), match["title"]
        assert path.name in chapters_named(entry), f"{entry['key']} {entry['year']} does not name {path.name}"
    for line in short:
        papers = SHORT.findall(line)
        assert len(papers) == line.count("[arXiv:"), line
        for who, year, number in papers:
            entry = BY_ARXIV[number]
            assert entry["year"] == year and path.name in chapters_named(entry), (who, year)
            assert "et al." not in who or who.endswith(entry["key"]), (who, year)


@pytest.mark.parametrize("title", ENTRIES)
def test_the_chapters_that_an_entry_names_do_list_it(title):
    entry = ENTRIES[title]
    arxiv = re.findall(r"\[arXiv:[\d.]+\]", entry["rest"])
    citing = {
        path.name
        for path in CHAPTERS
        if any(match["title"] == title for match in listed(path)[0])
        or any(label in line for label in arxiv for line in listed(path)[1])
    }
    assert chapters_named(entry) == citing
    assert set(words_of_key(entry)) <= {*re.findall(r"[\w-]+", entry["authors"]), "et", "al", "and"}
    for number, name in re.findall(r"\[(\d+)\]\(([\w.]+\.ipynb)\)", entry["rest"]):
        assert int(number) == int(name[:2])


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.name)
def test_every_address_in_a_chapter_is_on_the_page(path):
    assert set(WEB.findall(chapter_text(path))) <= set(WEB.findall(PAGE))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.name)
def test_what_the_text_cites_is_in_the_chapters_list(path):
    """A name and a year, as in “Ainslie et al. (2023)”, “Press and Wolf 2017” or “Shazeer 2020”."""
    text = chapter_text(path).split("## References")[0]
    for name, others, year in CITATION.findall(text):
        if not others and not any(name in words_of_key(entry) for entry in ENTRIES.values()):
            continue  # “October 2024” is no citation
        fitting = [
            entry
            for entry in ENTRIES.values()
            if year == entry["year"] and path.name in chapters_named(entry) and name in words_of_key(entry)
        ]
        assert fitting, f"{name}{others} {year} is cited in the text and not in the list of {path.name}"


def test_the_page_is_sorted():
    def plain(text):
        return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()

    keys = [plain(f"{entry['key']} {entry['year']}") for entry in ENTRIES.values()]
    assert keys == sorted(keys)
    for section in re.split(r"^## ", PAGE, flags=re.M)[1:-1]:
        first, last = re.match(r"(\w) to (\w)\n", section).groups()
        letters = [plain(name)[0] for name in re.findall(r"^\*\*(.+?)\.\*\*", section, re.M)]
        assert letters and all(first.lower() <= letter <= last.lower() for letter in letters), section[:6]
