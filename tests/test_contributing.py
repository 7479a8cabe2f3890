"""What the pages for contributors and citing readers repeat from elsewhere is the same there."""

import re
import tomllib
from pathlib import Path

import address
import build
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BIBTEX = dict(re.findall(r"^  (\w+) += \{(.+)\},?$", CONTRIBUTING, re.MULTILINE))
FOLDERS = r"book|tests|tools|experiments|benchmarks|minillama|\.github"
INCLUDED = {"book/contributing.md": "CONTRIBUTING.md", "book/changelog.md": "CHANGELOG.md"}


def test_the_citation_is_of_this_project_and_version():
    assert CITATION["cff-version"] == "1.2.0" and CITATION["message"] and CITATION["type"] == "software"
    assert [author["name"] for author in CITATION["authors"]] == [each["name"] for each in PROJECT["authors"]]
    assert CITATION["version"] == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["repository-code"] == address.current()


def test_bibtex_says_what_the_citation_file_says():
    plain = {key: value.replace("{", "").replace("}", "") for key, value in BIBTEX.items()}
    year = re.search(r"\(c\) (\d{4})", (ROOT / "LICENSE").read_text(encoding="utf-8"))[1]
    assert plain == {
        "author": CITATION["authors"][0]["name"],
        "title": CITATION["title"],
        "year": year,
        "version": CITATION["version"],
        "url": CITATION["repository-code"],
    }


def test_every_command_and_path_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"\bmake (\w+)", CONTRIBUTING))
    assert targets and all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    paths = set(re.findall(rf"(?<![\w/-])(?:{FOLDERS})/[\w./]*\w/?", CONTRIBUTING))
    assert paths and [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_every_tag_of_the_notebooks_is_explained():
    import nbformat

    used = {
        tag
        for path in (ROOT / "book").glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        for tag in cell.metadata.get("tags", [])
    }
    assert used - {"remove-cell"} <= set(re.findall(r"`([\w-]+)`", CONTRIBUTING))


@pytest.mark.parametrize(("page", "source"), INCLUDED.items())
def test_a_page_is_its_root_file(page, source, tmp_path):
    """The page includes the file and says nothing itself; a change of the file builds the site anew."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.fullmatch(rf"```\{{include\}} \.\./{re.escape(source)}\n(:[\w-]+: \w+\n)*```\n", text)
    (tmp_path / source).write_text("# Before\n", encoding="utf-8")
    before = build.fingerprint(tmp_path)
    (tmp_path / source).write_text("# After\n", encoding="utf-8")
    assert build.fingerprint(tmp_path) != before
