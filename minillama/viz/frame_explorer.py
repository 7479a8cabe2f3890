"""Explorers drawn beforehand: one Python function, at most two controls, every state kept as SVG."""

import gzip
import io
import re
import sys
from html import escape
from xml.etree import ElementTree

from .explorer import DRAWN, END_DRAWN, Explorer, as_json, read_asset
from .style import rc_params

MAX_CONTROLS, MAX_STATES, MAX_BYTES = 2, 60, 150_000
# A little smaller than a still figure: the same letters, larger on a phone. Fixed margins instead of a layout
# engine: the axes stand still from frame to frame, and a frame is drawn in a third of the time.
_SETTINGS = {
    "figure.figsize": (4.2, 3.1),
    "figure.constrained_layout.use": False,
    "figure.subplot.left": 0.15,
    "figure.subplot.right": 0.98,
    "figure.subplot.bottom": 0.15,
    "figure.subplot.top": 0.98,
    "svg.fonttype": "none",
}


class FrameExplorer(Explorer):
    drawn_by_matplotlib = True

    def __init__(self, draw, controls, *, alt, title, name):
        super().__init__(title, controls, name=name, view_box=(0, 0))
        if len(self.controls) > MAX_CONTROLS:
            raise ValueError(f"controls are {len(self.controls)}; frames take at most {MAX_CONTROLS}")
        count = sum(1 for _ in self.states())
        if count > MAX_STATES:
            raise ValueError(f"controls give {count} states; frames take at most {MAX_STATES}")
        if not callable(alt) and not isinstance(alt, str):
            raise TypeError(f"alt {alt!r} must be a string or a function of the state")
        self._alt = alt if callable(alt) else lambda **state: alt
        self._frames = {}
        for state in self.states():
            self._frames[_key(state)], self.view_box = draw_svg(draw, state, self.name)
            if not str(self.alt(**state)).strip():
                raise ValueError(f"alt is empty for the state {state}")
        self._table = as_json(_pack(list(self._frames.values())))
        size = len(gzip.compress(self._table.encode()))
        if size > MAX_BYTES:
            raise ValueError(
                f"frames of {self.name!r} weigh {size} bytes gzipped; at most {MAX_BYTES} are allowed"
            )

    def picture(self, **state) -> str:
        if _key(state) not in self._frames:
            raise ValueError(f"state {state} was not drawn; values must be those of the controls")
        return "\n".join(self._frames[_key(state)])

    def alt(self, **state) -> str:
        return self._alt(**state)

    def _spec(self) -> dict:
        return {"alts": [self.alt(**state) for state in self.states()]}

    def _payload(self) -> str:
        return f'{DRAWN}<script type="application/json" class="ml-frames">{self._table}</script>{END_DRAWN}\n'

    def _script(self) -> str:
        return f'{read_asset("frames.js")}start("{self.name}", frames);'


def frames(draw, controls, *, alt, title: str, name: str | None = None) -> FrameExplorer:
    """An explorer whose every state is drawn now.

    `draw(**state)` returns a matplotlib Figure; `alt` is a string or a function of the state that says what
    the picture shows. At most two controls, 60 states and 150 KB gzipped.
    """
    return FrameExplorer(draw, controls, alt=alt, title=title, name=name)


def _key(state: dict) -> tuple:
    return tuple(sorted(state.items()))


def draw_svg(draw, state: dict, name: str) -> tuple[list[str], tuple[float, float]]:
    """The inside of the SVG that `draw(**state)` gives, and its size; `name` makes its identifiers unique."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(rc_params() | _SETTINGS | {"svg.hashsalt": name}):
        figure = draw(**state)
        if not isinstance(figure, Figure):
            raise TypeError(f"draw must return a matplotlib Figure, returned {figure!r} for {state}")
        out = io.StringIO()
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)  # or the notebook would show it a second time
    return _clean(out.getvalue(), name)


def _clean(svg: str, name: str) -> tuple[list[str], tuple[float, float]]:
    """The inside of matplotlib's SVG as lines, made fit to stand in a page next to others."""
    root = ElementTree.fromstring(svg)
    width, height = map(float, root.get("viewBox").split()[2:])
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    lines = []

    def write(element) -> None:
        tag = element.tag.rpartition("}")[2]
        if tag in ("metadata", "style"):  # a style element would reach the whole page
            return
        if tag == "defs":
            inside = "".join(_tag(child, name, used) for child in element if "style" not in child.tag)
            if inside:
                lines.append(f"<defs>{inside}</defs>")
        elif tag == "g":
            opening = _open(element, name, used)
            lines.extend([opening] if opening != "<g>" else [])
            for child in element:
                write(child)
            lines.extend(["</g>"] if opening != "<g>" else [])
        else:
            lines.append(_tag(element, name, used))

    for child in root:
        write(child)
    return lines, (width, height)


def _open(element, name: str, used: set) -> str:
    parts = [element.tag.rpartition("}")[2]]
    for key, value in element.attrib.items():
        key = key.rpartition("}")[2]  # href instead of xlink:href
        if key == "id":
            if value not in used:
                continue
            value = f"{name}-{value}"
        elif value.startswith("rotate(-0 "):
            continue
        else:
            value = value.replace("url(#", f"url(#{name}-")
            value = f"#{name}-{value[1:]}" if key == "href" else value
            value = re.sub(r" ?font-family: [^;]*;", "", value)  # the page's own letters
            # Two decimals are enough on a screen; the text between the tags keeps its digits.
            value = re.sub(r"-?\d+\.\d{3,}(?:e-?\d+)?", lambda m: f"{round(float(m[0]), 2) + 0.0:g}", value)
        parts.append(f'{key}="{escape(" ".join(value.split()))}"')
    return f"<{' '.join(parts)}>"


def _tag(element, name: str, used: set) -> str:
    inside = escape(element.text or "", quote=False).strip()
    for child in element:
        inside += _tag(child, name, used) + escape(child.tail or "", quote=False).strip()
    opening = _open(element, name, used)
    return f"{opening}{inside}</{element.tag.rpartition('}')[2]}>" if inside else f"{opening[:-1]}/>"


def _pack(all_frames: list[list[str]]) -> dict:
    """Each line once, and per frame the runs (first, count) of the table that make it up."""
    table, runs = {}, []
    for lines in all_frames:
        run = []
        for each in lines:
            index = table.setdefault(each, len(table))
            if run and run[-2] + run[-1] == index:
                run[-1] += 1
            else:
                run += [index, 1]
        runs.append(run)
    return {"lines": list(table), "runs": runs}
