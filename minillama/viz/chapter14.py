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
_SHADES = (
    (2, 20, 0.14),
    (20, 40, 0.34),
    (40, 60, 0.54),
    (60, 80, 0.77),
    (80, 101, 1),
)  # from, below, opacity
_CELL, _BELOW = 24, 234  # the triangle


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
        # A row of the map is a few dashed lines, one a shade: 30 cells in one mark.
        for j in range(9):
            row, y = [column[j] for column in table], _TOP + _PITCH * j + 5.5
            over += sum(share > 50 for share in row)
            for low, high, opacity in ((-1, 101, 0), *_SHADES):
                cells = [low <= share < high for share in row]
                if any(cells):
                    dashes = " ".join("11 1" if there else "0 12" for there in cells)
                    color, opacity = ("blue", opacity) if opacity else ("grid", 0.5)
                    shapes.append(
                        line(
                            _LEFT,
                            y,
                            _LEFT + 30 * _PITCH,
                            y,
                            color,
                            stroke_width=11,
                            stroke_opacity=opacity,
                            stroke_dasharray=dashes,
                        )
                    )
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
            text(0, 222, "The same head on words read twice, in percent:", font_weight="bold"),
        ]
        values, at = self.percent[layer - 1][head - 1], 0
        for i in range(count):
            y = _BELOW + _CELL * i
            shapes.append(
                line(
                    0,
                    y + 11,
                    _CELL * (i + 1),
                    y + 11,
                    "grid",
                    stroke_width=22,
                    stroke_opacity=0.5,
                    stroke_dasharray="22 2",
                )
            )
            for j in range(i + 1):
                value = values[at]
                at += 1
                x = _CELL * j
                if value >= 1:
                    shapes.append(rect(x, y, _CELL - 2, _CELL - 2, "blue", fill_opacity=value / 100))
                if value >= 10:
                    ink = "paper" if value >= 55 else "ink"
                    shapes.append(
                        text(x + 11, y + 15, fixed(value, 0), ink, text_anchor="middle", font_size=10)
                    )
            shapes.append(text(_CELL * (i + 1) + 3, y + 15, self.tokens[i], font_weight="bold"))
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
