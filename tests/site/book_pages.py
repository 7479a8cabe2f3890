"""Where the book is and which pages it has."""

from pathlib import Path

import build

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = build.pages(ROOT)  # the table of contents, as `book/intro`
PAGES = ["index", *CHAPTERS, "search"]  # every page a reader can open
