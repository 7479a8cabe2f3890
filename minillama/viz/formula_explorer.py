"""Explorers with many or fine controls: a Python function and its JavaScript twin compute the same marks."""

import re

from .explorer import Explorer
from .marks import alt_text, to_svg
from .style import PALETTE


class FormulaExplorer(Explorer):
    def __init__(self, marks, script, controls, *, title, size, name):
        super().__init__(title, controls, name=name, view_box=size)
        if "</script" in script.lower():
            raise ValueError("script must not contain </script: it would end the element that holds it")
        if not re.search(r"^function marks\(", script, re.MULTILINE):
            raise ValueError(f"script must define `function marks(values, draw)`, got {script[:80]!r}…")
        self.marks = marks
        self.script = script

    def picture(self, **state) -> str:
        return to_svg(self.marks(**state))

    def alt(self, **state) -> str:
        return alt_text(self.marks(**state))

    def _spec(self) -> dict:
        return {"palette": PALETTE}

    def _script(self) -> str:
        from .explorer import read_asset

        return f'{read_asset("formula.js")}{self.script}\nstart("{self.name}", formula);'


def formula(marks, script: str, controls, *, title: str, size=(420, 280), name: str | None = None):
    """An explorer computed where it is shown.

    `marks(**values)` returns a list of `viz.marks`, with one `title` that says what the picture shows;
    `script` is JavaScript with `function marks(values, draw)` that returns the same list (where digits are
    printed, use only + − × ÷ and square roots, in the same order: then both round alike). `size` is the view
    box; about 380 wide keeps 13-pixel letters legible on a phone.
    """
    return FormulaExplorer(marks, script, controls, title=title, size=size, name=name)
