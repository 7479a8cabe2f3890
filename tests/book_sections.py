"""The chapters section by section, as a reader sees them: for tests of the pages that are made from them."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BOOK = Path(__file__).resolve().parents[1] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9][0-9]_*.ipynb"))
HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.M)
FENCED = re.compile(r"(?ms)^(`{3,}).*?^\1")


@dataclass(frozen=True)
class Section:
    chapter: int
    file: str
    heading: str
    slug: str
    text: str  # prose, printed outputs and descriptions of pictures; no code

    @property
    def name(self) -> str:
        return f"{self.chapter} · {self.heading}"


def slug(heading: str) -> str:
    """The anchor that the site gives a heading: were the rule another, the build would miss its target."""
    plain = re.sub(r"\$[^$]*\$|[`*]", "", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower().replace(" ", "-"))


def shown(cell: dict) -> str:
    """What a reader sees of a cell, its code aside."""
    if cell["cell_type"] == "markdown":
        return "".join(cell["source"])
    parts = [cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")]
    for output in cell["outputs"]:
        parts += ["".join(output.get("text", "")), "".join(output.get("data", {}).get("text/plain", ""))]
    # A comment or a printed line may begin with a hash and is no heading.
    return re.sub(r"(?m)^#", " #", "\n".join(parts))


@cache
def chapter_text(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(
        FENCED.sub("", shown(cell)) if cell["cell_type"] == "markdown" else shown(cell) for cell in cells
    )


@cache
def sections() -> tuple[Section, ...]:
    """Every section below a chapter's title; a section includes its subsections."""
    found = []
    for path in CHAPTERS:
        text = chapter_text(path)
        headings = list(HEADING.finditer(text))
        for i, each in enumerate(headings[1:], 1):
            level = len(each[1])
            ends = [h.start() for h in headings[i + 1 :] if len(h[1]) <= level]
            body = text[each.start() : ends[0] if ends else len(text)]
            found.append(Section(int(path.name[:2]), path.name, each[2], slug(each[2]), body))
    return tuple(found)
