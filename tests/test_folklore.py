"""The page of popular claims says what the chapters say: a link has its section, a number is there."""

import difflib
import re

import pytest
from book_sections import BOOK, CHAPTERS, sections

PAGE = (BOOK / "folklore.md").read_text(encoding="utf-8")
TOP, *TOPICS = re.split(r"^## .+\n", PAGE, flags=re.M)
ENTRIES = [paragraph for topic in TOPICS for paragraph in topic.strip().split("\n\n")]
LINK = r"\[\d+ · [^\n]+?\]\([\w.]+#[^\s)]+\)"
FORM = re.compile(
    rf"\*\*“(.+?)”\*\* \*((?:True|False|Not settled|Not tested)\b[^*]*\.)\* (.+) \(({LINK}(?:, {LINK})*)\)"
)
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?")


def parts(entry):
    """Claim, verdict, finding, and the (name, file, anchor) of each link."""
    found = FORM.fullmatch(entry)
    assert found, (
        f"an entry must read **“Claim.”** *Verdict.* Finding. ([N · Section](chapter.ipynb#anchor)):\n{entry}"
    )
    links = re.findall(r"\[(\d+ · .+?)\]\(([\w.]+)#([^\s)]+)\)", found[4])
    return found[1], found[2], found[3], links


def linked(links, finding):
    """The sections behind the links; if one was renamed, the message says what it may be now."""
    chosen = []
    for name, file, anchor in links:
        there = [each for each in sections() if each.file == file]
        found = [each for each in there if (each.name, each.slug) == (name, anchor)]
        if not found:
            holding = [each for each in there if numbers(finding) <= numbers(each.text)]
            alike = difflib.get_close_matches(name, [each.name for each in there], 1)
            offered = [each for each in there if each in holding or each.name in alike]
            links_offered = " or ".join(f"[{each.name}]({file}#{each.slug})" for each in offered)
            pytest.fail(
                f"no section [{name}]({file}#{anchor}); perhaps {links_offered or 'none of the chapter'}"
            )
        chosen += found
    return chosen


def numbers(text):
    """All numbers of a text: 2,048 and 2048 are the same, and so are 3.0, 3 and three."""
    text = re.sub(r"(?<=\d)e[-−+]?0*(?=\d)", " ", text)  # 1e-06: a 1 and a 6
    found = {number.replace(",", "") for number in NUMBER.findall(text)}
    found = {
        number.rstrip("0").rstrip(".") if "." in number else number.lstrip("0") or "0" for number in found
    }
    spelled = re.findall(r"[a-z]+", text.lower())
    return found | {str(WORDS.index(word)) for word in spelled if word in WORDS and word != "one"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[3:40])
def test_what_an_entry_says_stands_in_the_section_that_it_links(entry):
    _, verdict, finding, links = parts(entry)
    text = "\n".join(section.text for section in linked(links, finding))
    missing = numbers(f"{verdict} {finding}") - numbers(text)
    assert not missing, f"{sorted(missing)} not found in {[name for name, *_ in links]}"


def test_no_claim_comes_twice():
    claims = [parts(entry)[0] for entry in ENTRIES]
    assert len(claims) == len(set(claims))


def test_every_chapter_is_represented():
    files = [file for entry in ENTRIES for _, file, _ in parts(entry)[3]]
    assert {path.name: files.count(path.name) for path in CHAPTERS if files.count(path.name) < 3} == {}
    assert set(files) == {path.name for path in CHAPTERS}


def test_the_opening_counts_the_verdicts():
    verdicts = [parts(entry)[1] for entry in ENTRIES]
    kinds = {
        "hold as they stand": [v for v in verdicts if re.match(r"True(\.|, and)", v)],
        "hold under a condition": [v for v in verdicts if re.match(r"True(?!\.|, and)", v)],
        "did not hold": [v for v in verdicts if v.startswith("False")],
        "are not settled here": [v for v in verdicts if v.startswith("Not")],
    }
    assert f"Of the {len(verdicts)}, " in TOP
    for words, those in kinds.items():
        assert f"{len(those)} {words}" in TOP, f"{len(those)} {words}"


def test_numbers_are_read_as_a_reader_reads_them():
    assert numbers("1.9e-05, 2,048 of 3.0 at 0.50; Q4_1, fp16, two; 7e+00") == {
        *("1.9", "5", "2048", "3", "0.5", "2", "7", "0"),
    }
