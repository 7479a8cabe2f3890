"""Pictures as plain data: a list of marks, written as SVG here and, from the same data, in formula.js.

A mark is a dict: its `kind`, and SVG attributes under their own names. Colors are names of the palette.
"""

import math
from decimal import ROUND_HALF_UP, Decimal
from html import escape

from .style import PALETTE

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_KINDS = {"line", "polyline", "circle", "rect", "text"}


def fixed(value: float, digits: int) -> str:
    """`value` with `digits` decimals, digit for digit as in formula.js: halves away from zero, no "−0"."""
    if not math.isfinite(value):
        raise ValueError(f"value {value!r} must be finite")
    text = format(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP), "f")
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def line(x1, y1, x2, y2, stroke="ink", **attributes):
    return {"kind": "line", "x1": x1, "y1": y1, "x2": x2, "y2": y2, "stroke": stroke, **_svg(attributes)}


def polyline(points, stroke="ink", **attributes):
    points = [[x, y] for x, y in points]
    return {"kind": "polyline", "points": points, "stroke": stroke, "fill": "none", **_svg(attributes)}


def circle(cx, cy, r, fill="ink", **attributes):
    return {"kind": "circle", "cx": cx, "cy": cy, "r": r, "fill": fill, **_svg(attributes)}


def rect(x, y, width, height, fill="ink", **attributes):
    return {
        "kind": "rect",
        "x": x,
        "y": y,
        "width": width,
        "height": height,
        "fill": fill,
        **_svg(attributes),
    }


def text(x, y, content, fill="ink", **attributes):
    return {"kind": "text", "x": x, "y": y, "content": content, "fill": fill, **_svg(attributes)}


def title(content):
    """The text alternative of the whole picture, as it stands; exactly one per picture."""
    return {"kind": "title", "content": content}


def _svg(attributes: dict) -> dict:
    return {key.replace("_", "-"): value for key, value in attributes.items()}


def _number(value: float) -> str:
    return format(round(value, 2) + 0.0, "g") if abs(value) < 1e5 else str(round(value))


def _attribute(kind: str, key: str, value) -> str:
    if key == "points":
        value = " ".join(f"{_point(kind, x)},{_point(kind, y)}" for x, y in value)
    elif isinstance(value, int | float):
        value = _point(kind, value)
    elif key in ("fill", "stroke") and value != "none":
        if value not in PALETTE:
            raise ValueError(f"{key} {value!r} of mark {kind} must be one of {', '.join(PALETTE)} or none")
        value = PALETTE[value]
    return f' {key}="{escape(str(value))}"'


def _point(kind: str, value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"mark {kind} has a coordinate {value!r}; all must be finite")
    return _number(value)


def alt_text(marks: list[dict]) -> str:
    titles = [mark["content"] for mark in marks if mark["kind"] == "title"]
    if len(titles) != 1 or not titles[0].strip():
        raise ValueError(f"marks must hold exactly one non-empty title, found {titles!r}")
    return titles[0]


def to_svg(marks: list[dict]) -> str:
    """The inside of an <svg> element."""
    parts = []
    for mark in marks:
        kind = mark["kind"]
        if kind == "title":
            continue
        if kind not in _KINDS:
            raise ValueError(f"kind {kind!r} must be one of {', '.join(sorted(_KINDS))} or title")
        inside = "".join(_attribute(kind, k, v) for k, v in mark.items() if k not in ("kind", "content"))
        parts.append(f"<{kind}{inside}>{escape(mark.get('content', ''), quote=False)}</{kind}>")
    return "".join(parts)
