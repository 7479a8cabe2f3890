"""The front page tells the same numbers as the package."""

import re
from pathlib import Path

from minillama import MiniLLaMAConfig, accounting

INTRO = Path(__file__).resolve().parents[1] / "book" / "intro.md"


def test_the_ledger_is_the_models():
    text = INTRO.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| \**([\d,]+)\** \| ([\d.]+)\s% \|$", text, re.M)
    parts = accounting.count_parameters(MiniLLaMAConfig())
    total = parts["total"]
    counted = [parts[name] for name in ("token_embeddings", "attention", "feed_forward", "norms", "total")]
    assert [int(number.replace(",", "")) for _, number, _ in rows] == counted
    assert [float(share) for _, _, share in rows] == [round(100 * n / total, 2) for n in counted]


def test_every_finished_chapter_is_linked_in_table_and_diagram():
    text = INTRO.read_text(encoding="utf-8")
    for chapter in INTRO.parent.glob("[0-9][0-9]_*.ipynb"):
        assert f"({chapter.name})" in text, f"the table does not link {chapter.name}"
        assert f'href="{chapter.stem}.html"' in text, f"the diagram does not link {chapter.stem}"
