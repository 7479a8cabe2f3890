"""Build the site into _build/html, warnings being errors. Does nothing when no source has changed.

python tools/build.py [--root FOLDER]
"""

import argparse
import contextlib
import hashlib
import io
import os
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
# What the pages are made of besides book/; the last three are for the page on performance.
SOURCES = (
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/**/*.json",
    "benchmarks/*.md",
    "minillama/viz/*.py",
)


def build(root):
    """True when there was something to build. Exits with a message when the build fails."""
    out = root / "_build" / "html"
    mark = root / "_build" / "built"
    wanted = fingerprint(root)
    if mark.is_file() and mark.read_text() == wanted and (out / "index.html").is_file():
        return False
    mark.unlink(missing_ok=True)
    if not jupyter_book(root):
        # Sphinx warns about a page only when it reads it: after a failure all pages must be read again.
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)
        sys.exit("The book was not built: each warning above is an error.")
    missing = [name for name in pages(root) if not (out / f"{name}.html").is_file()]
    if missing:
        sys.exit(f"The build reported success but left out: {', '.join(missing)}")
    mark.write_text(wanted)
    return True


def fingerprint(root):
    """One hash of everything a page is made of."""
    sources = [path for pattern in SOURCES for path in sorted(root.glob(pattern))]
    for path in sorted((root / "book").rglob("*")):
        if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts):
            sources.append(path)
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def pages(root):
    """The pages that the table of contents names, in its order, as `book/intro`."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return pages_in(toc)


def pages_in(part):
    """The pages that a part of the table of contents names, in its order."""
    found = []
    for key, value in part.items():
        if key in ("root", "file"):
            found.append(os.path.splitext(value)[0] if value.endswith((".md", ".ipynb")) else value)
        elif isinstance(value, list):
            found += [page for item in value for page in pages_in(item)]
    return found


def jupyter_book(root):
    sys.path.insert(0, str(ROOT))  # plots are drawn by the package of this checkout
    from jupyter_book.cli.main import main as command

    arguments = ["build", str(root), "--warningiserror", "--keep-going", "-q"]
    with contextlib.redirect_stdout(io.StringIO()):  # its banners; warnings go to stderr
        try:
            command(arguments, standalone_mode=False)
        except SystemExit as end:
            return end.code in (0, None)
        except Exception as error:
            print(error, file=sys.stderr)
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT)
    root = parser.parse_args().root.resolve()
    build(root)


if __name__ == "__main__":
    main()
