"""The explorer of chapter 11: a text whose bytes grow together, merge by merge."""

import functools

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula
from .results import recorded

LEARNED = (0, 1, 2, 5, 10, 20, 30, 50, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 2500, 3000, 3839)
CELL, PAD, GAP, WIDTH = 9, 6, 3, 380  # pixels: a letter, the margins of a box, between boxes, the picture
ROW, TOP, HEIGHT = 30, 30, 24  # from row to row, the first one, a box
BAR = 372 / 40  # pixels a token in the bars below


@functools.cache
def growth() -> dict[str, list[dict]]:
    """For each recorded text, its states: the number of the merge that led to it, and the tokens then."""
    return {name: _states(each["text"], each["merges"]) for name, each in _recorded_steps().items()}


def _recorded_steps() -> dict:
    return recorded("token_usage")["steps"]


def _states(text: str, merges: list) -> list[dict]:
    tokens = [bytes([byte]) for byte in text.encode()]
    states = [{"merge": 0, "made": "", "boxes": [_box(token, False) for token in tokens]}]
    for number in sorted({number for number, _ in merges}):
        fresh = []
        for place in [place for each, place in merges if each == number]:
            left, right = tokens[place : place + 2]
            tokens[place : place + 2] = [left + right]
            fresh.append(place)
        made = " + ".join(_box(part, False)[0] for part in (left, right))
        boxes = [_box(token, i in fresh) for i, token in enumerate(tokens)]
        states.append({"merge": number, "made": f"{made} = {_box(left + right, False)[0]}", "boxes": boxes})
    return states


def _box(token: bytes, fresh: bool) -> list:
    """[what stands in the box, its width in letters, whether the last merge made it]."""
    try:
        words = token.decode().replace(" ", "·").replace("\n", "↵")
    except UnicodeDecodeError:
        words = token.hex().upper()  # part of a character
    cells = sum(1 if ord(character) < 0x2E80 else 2 for character in words)
    return [words, cells, fresh]


def _growth_marks(words: str, learned: int) -> list[dict]:
    """The picture; token_growth.js is its twin."""
    rect, text = marks.rect, marks.text
    states = growth()[words]
    state = states[0]
    for each in states:
        if each["merge"] <= learned:
            state = each
    boxes, n_bytes = state["boxes"], len(states[0]["boxes"])
    head = f"{learned:,} merges learned: {learned + 257:,} ids"
    shapes = [text(4, 16, head, font_weight="bold")]
    x, y = 4, TOP
    for label, cells, fresh in boxes:
        wide = cells * CELL + PAD
        if x + wide > WIDTH - 2:
            x, y = 4, y + ROW
        stroke = {"stroke": "ink", "stroke_width": 2.5} if fresh else {"stroke": "muted", "stroke_width": 1}
        shapes += [
            rect(x, y, wide, HEIGHT, "orange" if fresh else "paper", **stroke),
            text(
                x + wide / 2,
                y + 17,
                label,
                text_anchor="middle",
                font_family="monospace",
                font_size=14,
                textLength=cells * CELL,
                lengthAdjust="spacingAndGlyphs",
            ),
        ]
        x += wide + GAP
    count = len(boxes)
    ratio = marks.fixed(n_bytes / count, 2)
    if state["merge"] == 0:
        latest = "No merge has acted on this text yet."
    else:
        latest = f"latest that acted: no. {state['merge']:,}, {state['made']}"
    shapes += [
        text(4, 114, latest),
        rect(4, 126, n_bytes * BAR, 14, "grid"),
        rect(4, 126, count * BAR, 14, "blue"),
        text(4, 158, f"{n_bytes} bytes in {count} tokens: {ratio} bytes a token", font_weight="bold"),
    ]
    told = " | ".join(label for label, _, _ in boxes)
    return [marks.title(f"{head}. {n_bytes} bytes in {count} tokens: {told}. {latest}"), *shapes]


def token_growth() -> FormulaExplorer:
    """How four short texts grow together from bytes, as more and more merges are known."""
    return formula(
        _growth_marks,
        f"const TEXTS = {as_json(growth())};\n{read_asset('token_growth.js')}",
        [
            Control("words", "Text", tuple(_recorded_steps()), "Orsino's first line"),
            Control("learned", "Merges learned", LEARNED, 200),
        ],
        title="Bytes grow together",
        size=(WIDTH, 166),
        name="token-growth",
    )
