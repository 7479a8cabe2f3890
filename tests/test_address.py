"""The book's public address stands in _config.yml; everything that repeats it says the same."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import address
import pytest

ROOT = Path(__file__).resolve().parents[1]

NEW = "https://github.com/some-body/llama.fork"
CELL_LINE = re.compile(r'^ADDRESS, VERSION = "([^"]*)", "([^"]*)"$', re.MULTILINE)


@pytest.fixture
def copy(tmp_path):
    """The files that may carry the address, without the environment and what was built."""
    leave = shutil.ignore_patterns(".*", "_build", "__pycache__", "tests", "minillama", "results")
    shutil.copytree(ROOT, tmp_path / "copy", ignore=leave)
    return tmp_path / "copy"


def first_cells(root):
    for path in sorted((root / "book").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = next(cell for cell in cells if cell["cell_type"] == "code")
        yield path.name, "".join(code["source"])


def test_the_configured_address_is_one():
    assert address.checked(address.current()) == address.current()


def test_every_notebook_installs_from_the_configured_address():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name, source in first_cells(ROOT):
        assert CELL_LINE.findall(source) == [(address.current(), version)], name


def test_no_file_carries_another_repository_of_this_book():
    """Whatever stands before the book's own name must be the configured owner."""
    host, owner, name = re.fullmatch(r"https://([^/]+)/([^/]+)/([^/]+)", address.current()).groups()
    link = re.compile(rf"{re.escape(host)}[/:]([\w.-]+)/{re.escape(name)}(?![\w-])")
    for path in address.text_files(ROOT):
        assert set(link.findall(path.read_text(encoding="utf-8"))) <= {owner}, path


def test_setting_it_changes_every_place_and_the_way_back_restores_all(copy):
    before = {path: path.read_bytes() for path in address.text_files(copy)}
    old = address.current(copy)
    badge = copy / "BADGE.md"
    slug = "/".join(old.split("/")[-2:])
    badge.write_text(
        f"[clone]({old}.git) [colab](https://colab.research.google.com/github/{slug}/blob/main/book/x.ipynb) "
        f"[site](https://{slug.split('/')[0]}.github.io/{slug.split('/')[1]}/) [other]({old}-tools)\n"
    )
    changed = address.set_address(NEW, copy)
    assert changed[-1] == copy / "_config.yml" and {badge, copy / "CITATION.cff"} <= set(changed)
    assert address.current(copy) == NEW
    for path in address.text_files(copy):
        assert not re.search(re.escape(old) + r"(?![\w-])", path.read_text(encoding="utf-8")), path
    for name, source in first_cells(copy):
        assert CELL_LINE.findall(source)[0][0] == NEW, name
    assert badge.read_text() == (
        f"[clone]({NEW}.git) [colab](https://colab.research.google.com/github/some-body/llama.fork/blob/main/"
        f"book/x.ipynb) [site](https://some-body.github.io/llama.fork/) [other]({old}-tools)\n"
    )
    assert address.set_address(NEW, copy) == []
    badge.unlink()
    address.set_address(old, copy)
    assert {path: path.read_bytes() for path in address.text_files(copy)} == before


def test_a_run_that_was_broken_off_is_finished_by_the_next(copy, monkeypatch):
    (copy / "A.md").write_text(f"{address.current(copy)}\n")
    write, written = address.replace, []

    def fail_at_the_second(path, text):
        if written:
            raise OSError("disk full")
        write(path, text)
        written.append(path)

    monkeypatch.setattr(address, "replace", fail_at_the_second)
    with pytest.raises(OSError, match="disk full"):
        address.set_address(NEW, copy)
    monkeypatch.undo()
    assert address.current(copy) != NEW
    address.set_address(NEW, copy)
    assert address.current(copy) == NEW and (copy / "A.md").read_text() == f"{NEW}\n"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "github.com/a/b",
        "http://github.com/a/b",
        "https://github.com/a",
        "https://github.com/a/b/tree/main",
        "https://localhost/a/b",
        'https://github.com/a/b"',
    ],
)
def test_what_is_no_repository_is_refused(copy, url):
    with pytest.raises(ValueError, match="https://host/owner/name"):
        address.set_address(url, copy)


@pytest.mark.parametrize("url", [f"{NEW}/", f"{NEW}.git", f" {NEW}\n"])
def test_common_spellings_are_accepted(url):
    assert address.checked(url) == NEW
