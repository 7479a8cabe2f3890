"""Explorer of chapter 14: the 270 heads of SmolLM2 on one map, and each of them on a text that repeats."""

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula
from .results import recorded

fixed, line, rect, text = marks.fixed, marks.line, marks.rect, marks.text

LOOKS = {
    "the first token": "first",
    "the token before": "before",
    "itself": "itself",
    "what came next last time": "after_last_time",
}
_LEFT, _TOP, _PITCH = 18, 24, 12  # the map
_SHADES = ((10, 30, 0.2), (30, 50, 0.5), (50, 100, 1))  # over, up to, opacity
_CELL, _BELOW = 24, 234  # the triangle
SHOWN = 15  # percent


class _Map:
    def __init__(self):
        study = recorded("smollm2_faults")["heads"]
        self.tokens = [token.strip() for token in study["text"]["tokens"]]
        self.shares = study["percent"]
        self.percent = study["text"]["percent"]

    def marks(self, look: str, layer: int, head: int) -> list[dict]:
        """The picture; head_map.js is its twin."""
        table, count = self.shares[LOOKS[look]], len(self.tokens)
        shapes, over = [text(0, 13, f"Weight on {look}, 270 heads", font_weight="bold")], 0
        shapes.append(rect(_LEFT, _TOP, 30 * _PITCH - 1, 9 * _PITCH - 1, "grid", fill_opacity=0.5))
        # A row of the map is a dashed line for each shade: few marks, whatever the number of heads.
        for j in range(9):
            row, y = [column[j] for column in table], _TOP + _PITCH * j + 5.5
            over += sum(share > 50 for share in row)
            for low, high, opacity in _SHADES:
                cells = [low < share <= high for share in row]
                if any(cells):
                    dashes = " ".join("11 1" if there else "0 12" for there in cells)
                    style = dict(stroke_width=11, stroke_opacity=opacity, stroke_dasharray=dashes)
                    shapes.append(line(_LEFT, y, _LEFT + 30 * _PITCH, y, "blue", **style))
        x, y = _LEFT + _PITCH * (layer - 1), _TOP + _PITCH * (head - 1)
        shapes.append(
            rect(x - 1, y - 1, 13, 13, "ink", fill_opacity=0, stroke="vermillion", stroke_width=2.5)
        )
        for number in (1, 10, 20, 30):
            at = _LEFT + _PITCH * (number - 1) + 5.5
            shapes.append(text(at, 146, fixed(number, 0), "muted", text_anchor="middle", font_size=11))
        shapes += [
            text(320, 160, "layer", "muted", text_anchor="middle", font_size=11),
            text(13, 34, "1", "muted", text_anchor="end", font_size=11),
            text(13, 130, "9", "muted", text_anchor="end", font_size=11),
            text(_LEFT, 160, "head: top to bottom", "muted", font_size=11),
        ]
        own = fixed(table[layer - 1][head - 1], 1)
        summary = f"{over} of 270 heads put more than half there."
        shapes += [
            text(0, 180, summary),
            text(0, 198, f"Layer {layer}, head {head}: {own} %."),
            text(0, 222, f"The same head on words read twice, from {SHOWN} % up:", font_weight="bold"),
        ]
        values, at = self.percent[layer - 1][head - 1], 0
        corners = [(_CELL * ((k + 1) // 2), _BELOW + _CELL * (k // 2)) for k in range(1, 2 * count + 1)]
        shapes.append(
            marks.polyline(
                [(0, _BELOW), *corners, (0, _BELOW + _CELL * count), (0, _BELOW)], "muted", stroke_width=0.5
            )
        )
        for i in range(count):
            y = _BELOW + _CELL * i
            for j in range(i + 1):
                value = values[at]
                at += 1
                if value >= SHOWN:
                    x, ink = _CELL * j + 1, "paper" if value >= 55 else "ink"
                    shapes += [
                        rect(x, y + 1, _CELL - 2, _CELL - 2, "blue", fill_opacity=value / 100),
                        text(x + 11, y + 16, fixed(value, 0), ink, text_anchor="middle", font_size=10),
                    ]
            shapes.append(text(_CELL * (i + 1) + 4, y + 16, self.tokens[i], font_weight="bold"))
        described = (
            f"Weight on {look}: a map of 30 layers by 9 heads. {summary} "
            f"Layer {layer}, head {head} puts {own} % there; below, its weights on a text of {count} tokens "
            "in which the second half repeats the first."
        )
        return [marks.title(described), *shapes]


def head_map() -> FormulaExplorer:
    """All heads of SmolLM2-135M by what they look at, and one of them in full."""
    heads = _Map()
    data = as_json(
        {
            "tokens": heads.tokens,
            "looks": LOOKS,
            "shares": heads.shares,
            "percent": heads.percent,
        }
    )
    return formula(
        heads.marks,
        read_asset("head_map.js").replace("DATA", data),
        [
            Control("look", "Target", tuple(LOOKS), "the first token"),
            Control("layer", "Layer", range(1, 31), 19),
            Control("head", "Head", range(1, 10), 7),
        ],
        title="What the heads of SmolLM2 look at",
        size=(380, 524),
        name="head-map",
    )
