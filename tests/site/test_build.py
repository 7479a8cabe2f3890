"""The build: what must fail does fail, again and again; what was built holds together, without a browser."""

import html
import json
import re
import shutil
import subprocess
import sys
from urllib.parse import unquote, urljoin, urlsplit

import build
import pytest
from book_pages import CHAPTERS, PAGES, ROOT
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from minillama_site.fonts import MATH_ELEMENT, TAG

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
# Each line is a fault, and what the build says about it.
FAULTS = {
    r"A formula $\rms(x)$ with a command that does not exist.": r"Undefined control sequence: \rms",
    r"A formula $\cancel{x}$ that browsers do not draw.": r"\cancel",
    "A [link](nowhere.md) to a page that does not exist.": "nowhere.md",
    "A [link](#no-such-heading) to a heading that does not exist.": "no-such-heading",
    '<img src="data:image/png;base64,AAAA">': "no description",
    "```{benchmark} nowhere\n```": "no recorded benchmark 'nowhere'; recorded are: none",
    "<details>\n<summary>Is $x$ even?</summary>\n\nYes.\n\n</details>": "formula in <summary>",
}


def notebook(alt):
    metadata = {"mystnb": {"image": {"alt": alt}}} if alt else {}
    output = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"image/png": PIXEL, "text/plain": "<Figure>"},
    }
    cell = {"cell_type": "code", "execution_count": 1, "id": "a", "metadata": metadata, "source": "plot()"}
    title = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": "# The figure of $x^2$"}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [title, cell | {"outputs": [output]}]
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    )


@pytest.fixture
def small_book(tmp_path):
    """A book of two pages with this book's settings; spaces in its path, as on many a disk."""
    root = tmp_path / "a small book"
    (root / "book").mkdir(parents=True)
    for name in ("_ext", "_static"):
        shutil.copytree(
            ROOT / "book" / name, root / "book" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    (root / "_config.yml").write_text(config.replace("https://github.com/", "https://git.example.org/"))
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n- file: book/figure\n")
    (root / "book/intro.md").write_text("# A small book\n\nIts [chapter](figure.ipynb); $x_1$, and ($y$).\n")
    (root / "book/figure.ipynb").write_text(notebook("A point"))
    return root


def run_build(root):
    command = [sys.executable, str(ROOT / "tools/build.py"), "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_a_sound_book_builds_and_only_when_changed(small_book):
    assert run_build(small_book) == (0, "")
    out = small_book / "_build/html"
    page = out / "book/figure.html"
    before = page.stat().st_mtime_ns
    assert run_build(small_book) == (0, "") and page.stat().st_mtime_ns == before
    intro = (out / "book/intro.html").read_text()
    tied = [tag.get_text() for tag in BeautifulSoup(intro, "html.parser").select(".tied")]
    assert tied == ["x1,", "(y)."]
    assert "colab" not in page.read_text().lower()  # it opens notebooks from GitHub only
    title = BeautifulSoup(page.read_text(), "html.parser").title.get_text()
    assert title == "The figure of x2 — MiniLLaMA"

    # A change to the style sheet alone arrives, too.
    (small_book / "book/_static/book.css").write_text("p { color: teal }\n")
    assert run_build(small_book) == (0, "")
    assert (out / "_static/book.css").read_text() == "p { color: teal }\n"

    # A page taken out of the contents disappears; the other one stays.
    (small_book / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
    (small_book / "book/intro.md").write_text("# A small book\n\nAlone.\n")
    assert run_build(small_book) == (0, "")
    assert not page.exists() and (out / "book/intro.html").exists()


def test_each_fault_fails_the_build_and_fails_it_again(small_book):
    (small_book / "book/intro.md").write_text("# Faults\n\n" + "\n\n".join(FAULTS) + "\n")
    (small_book / "book/figure.ipynb").write_text(notebook(None))
    for _ in range(2):
        code, said = run_build(small_book)
        assert code == 1
        assert {reason for reason in FAULTS.values() if reason not in said} == set()
        assert re.search(r"figure\.ipynb.*no description", said)
        assert "was not built" in said


def test_one_warning_is_enough(small_book):
    (small_book / "book/intro.md").write_text("# One fault\n\nA [link](nowhere.md).\n")
    assert run_build(small_book)[0] == 1
    (small_book / "book/intro.md").write_text("# No fault\n\nA [link](figure.ipynb).\n")
    assert run_build(small_book) == (0, "")


def test_a_new_measurement_reaches_its_page(small_book):
    page = "# Times\n\n```{benchmark} clock\n```\n"
    (small_book / "book/intro.md").write_text(page + "\nSee [](figure.ipynb).\n")
    (small_book / "benchmarks/results").mkdir(parents=True)
    result = {"unit": "times", "machine": "an abacus", "threads": 1, "torch": "9.9", "rounds": 7}
    for ratio in (1.25, 2.75):
        recorded = result | {"ratios": {"one hand": ratio, "two hands": 0.5}}
        (small_book / "benchmarks/results/clock.json").write_text(json.dumps(recorded))
        assert run_build(small_book) == (0, "")
        soup = BeautifulSoup((small_book / "_build/html/book/intro.html").read_text(), "html.parser")
        assert [cell.get_text() for cell in soup.select("td")] == ["one hand", str(ratio), "two hands", "0.5"]
        assert soup.select_one("figure svg")["aria-label"] == f"Bars, times. one hand {ratio}, two hands 0.5."
        text = " ".join(soup.article.get_text().split())
        assert "Measured on: an abacus, 1 thread; torch 9.9; 7 rounds." in text
        assert "python benchmarks/clock.py --rounds 7 --write" in text


@pytest.mark.parametrize("source", ["benchmarks/results/a.json", "benchmarks/NOTES.md", "minillama/viz/a.py"])
def test_what_lies_outside_the_book_and_makes_a_page_is_noticed(tmp_path, source):
    before = build.fingerprint(tmp_path)
    (tmp_path / source).parent.mkdir(parents=True)
    (tmp_path / source).write_text("1")
    assert build.fingerprint(tmp_path) != before


@pytest.mark.parametrize("toc", ["format: jb-book\nroot: book/nowhere\n", "format: jb-book\n", "no: toc\n"])
def test_a_broken_table_of_contents_fails(small_book, toc):
    (small_book / "_toc.yml").write_text(toc)
    code, said = run_build(small_book)
    assert code != 0 and said.strip()


# ---- The built site ----


@pytest.fixture(scope="module")
def soups(site):
    return {name: BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser") for name in PAGES}


def test_every_entry_of_the_contents_has_its_page(site, soups):
    assert len(CHAPTERS) == len(set(CHAPTERS)) >= 1
    for name in CHAPTERS:
        assert (ROOT / f"{name}.md").exists() != (ROOT / f"{name}.ipynb").exists()
        assert len(soups[name].article.get_text()) > 500
    written = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert written == {f"{name}.html" for name in PAGES}


def test_every_notebook_is_in_the_contents():
    assert {f"book/{path.stem}" for path in (ROOT / "book").glob("*.ipynb")} <= set(CHAPTERS)


def test_every_link_and_anchor_leads_somewhere(site, soups):
    anchors = {name: {tag["id"] for tag in soup.find_all(id=True)} for name, soup in soups.items()}
    for name, soup in soups.items():
        for tag in soup.find_all("a", href=True):
            target = urljoin(f"http://site/{name}.html", tag["href"])
            if urlsplit(target).netloc != "site":
                continue
            path, fragment = unquote(urlsplit(target).path)[1:], unquote(urlsplit(target).fragment)
            assert (site / path).is_file(), f"{name}: {tag['href']}"
            if fragment and path.endswith(".html"):
                assert fragment in anchors[path.removesuffix(".html")], f"{name}: {tag['href']}"


def test_identifiers_are_unique(soups):
    for name, soup in soups.items():
        found = [tag["id"] for tag in soup.find_all(id=True)]
        assert len(found) == len(set(found)), (name, sorted(i for i in set(found) if found.count(i) > 1))


def test_no_page_names_a_foreign_host_to_load_from(site, soups):
    for name, soup in soups.items():
        for tag in soup.find_all(True):
            for attribute in ("src", "srcset", "poster", "data"):
                assert "//" not in tag.get(attribute, "").removeprefix("data:"), (name, tag)
            if tag.name == "link" and tag.get("rel") != ["canonical"]:
                assert not tag["href"].startswith(("http", "//")), (name, tag)
            assert "url(http" not in tag.get("style", ""), (name, tag)
        for script in soup.find_all("script", src=False):
            text = script.get_text()
            assert not re.search(r"https?://(?!www\.w3\.org/)", text), (name, text[:200])
            assert "THEBE" not in text and "require" not in text


def test_the_sites_own_files_load_nothing_from_elsewhere(site, soups):
    used = {tag["src"] for soup in soups.values() for tag in soup.find_all("script", src=True)}
    names = {source.split("?")[0].split("/")[-1] for source in used}
    assert not {"fontawesome.js", "sphinx-thebe.js", "togglebutton.js", "tex-mml-chtml.js"} & names
    for sheet in site.rglob("*.css"):
        text = sheet.read_text("utf-8")
        assert not re.search(r"""(url\(|@import\s+)["']?(https?:)?//""", text), sheet
    hosts = re.compile(r"(unpkg\.com|jsdelivr\.net|cdnjs\.|googleapis\.com|gstatic\.com|polyfill\.io)")
    for script in site.rglob("*.js"):
        if script.name in names:
            assert not hosts.search(script.read_text("utf-8")), script


def test_the_math_font_has_every_character_of_every_formula(site):
    known = set(map(chr, TTFont(site / "_static/fonts/math.woff2").getBestCmap()))
    invisible = set("\u2061\u2062\u2063\u2064\u200b\n ")
    for path in site.rglob("*.html"):
        for math in MATH_ELEMENT.findall(path.read_text("utf-8")):
            missing = set(html.unescape(TAG.sub("", math))) - known - invisible
            assert not missing, (path.name, missing, math[:300])


def test_the_math_font_can_stretch(site):
    font = TTFont(site / "_static/fonts/math.woff2")
    stretching = font["MATH"].table.MathVariants.VertGlyphCoverage.glyphs
    names = font.getBestCmap()
    assert {names[ord(character)] for character in "()[]{}|√"} <= set(stretching)


def test_root_signs_of_all_heights_are_as_wide_as_the_small_one(site):
    """Or Chromium leaves a gap behind every root that is not the tallest."""
    font = TTFont(site / "_static/fonts/math.woff2")
    variants = font["MATH"].table.MathVariants
    sign = font.getBestCmap()[ord("√")]
    heights = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(sign)]
    names = [record.VariantGlyph for record in heights.MathGlyphVariantRecord]
    assert len(names) >= 3 and {font["hmtx"][name][0] for name in names} == {font["hmtx"][sign][0]}


def test_fonts_are_small_and_keep_their_notices(site):
    fonts = sorted(site.rglob("*.woff2"))
    assert sum(font.stat().st_size for font in fonts) < 250_000
    for font in (site / "_static/fonts").glob("*.woff2"):
        assert TTFont(font)["name"].getDebugName(0), f"{font.name} has lost its copyright notice"


def test_pictures_have_real_descriptions(soups):
    for name, soup in soups.items():
        for image in soup.find_all("img"):
            alt = image.get("alt", "").strip()
            assert alt and not re.search(r"\.(png|jpe?g|svg)$", alt), (name, image)


def test_a_chapter_links_to_its_notebook_and_to_colab(soups):
    from address import current

    for name in CHAPTERS:
        if not (ROOT / f"{name}.ipynb").exists():
            continue
        links = {tag.get_text().strip(): tag["href"] for tag in soups[name].select(".book-link")}
        slug = current().removeprefix("https://github.com/")
        if slug != current():
            assert links["Colab"] == f"https://colab.research.google.com/github/{slug}/blob/main/{name}.ipynb"
        assert links["Notebook"].endswith(f"_sources/{name}.ipynb") and links["Source"] == current()


def test_every_page_has_one_title_one_heading_and_can_be_zoomed(soups):
    for name, soup in soups.items():
        assert len(soup.find_all("title")) == 1 and len(soup.find_all("h1")) == 1, name
        assert soup.html["lang"] == "en"
        for meta in soup.find_all("meta", attrs={"name": "viewport"}):
            assert not re.search("user-scalable|maximum-scale", meta["content"]), name


def test_the_contents_are_read_from_any_form_of_table(tmp_path):
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/a\nparts:\n- caption: P\n  chapters:\n"
        "  - file: book/b.ipynb\n    sections:\n    - file: book/c.md\n- chapters:\n  - file: book/d\n"
    )
    assert build.pages(tmp_path) == ["book/a", "book/b", "book/c", "book/d"]
