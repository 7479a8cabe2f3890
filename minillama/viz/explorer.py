"""What both kinds of explorer share: one display that is live with a kernel and moves by itself without one.

The display carries a widget view (a running front end takes it), self-contained HTML (a built page takes it)
and plain text. The HTML never depends on the widget library: saved notebooks are the same everywhere.
"""

import itertools
import json
import re
from html import escape
from importlib.resources import files

from .controls import Control
from .marks import FONT

DRAWN, END_DRAWN = (
    "<!--ml-drawn-->",
    "<!--/ml-drawn-->",
)  # what matplotlib drew; its bytes vary with its version


def read_asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def as_json(value) -> str:
    """JSON that may stand inside a <script> element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


class Explorer:
    """Base class: a title, controls, and for every state a picture and its text alternative."""

    drawn_by_matplotlib = False

    def __init__(self, title: str, controls, *, name: str | None, view_box: tuple[float, float]):
        if not isinstance(title, str) or not title.strip():
            raise ValueError(f"title {title!r} must be a non-empty string")
        self.title = title
        self.controls = tuple(controls)
        if not self.controls or not all(isinstance(control, Control) for control in self.controls):
            raise ValueError(f"controls {controls!r} must be one or more viz.Control")
        keys = [control.key for control in self.controls]
        if len(set(keys)) != len(keys):
            raise ValueError(f"controls have the keys {keys}; each key may be used once")
        # The same name in every run: nothing random may enter a saved notebook.
        self.name = name or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(f"name {self.name!r} must be lower-case letters, digits and single hyphens")
        self.view_box = view_box
        self._widget = None

    # -- what the two kinds fill in --------------------------------------------------------------------------

    def picture(self, **state) -> str:
        """The inside of the <svg> for one state."""
        raise NotImplementedError

    def alt(self, **state) -> str:
        """What the picture shows in this state, in words."""
        raise NotImplementedError

    def _spec(self) -> dict:
        return {}

    def _payload(self) -> str:
        return ""

    def _script(self) -> str:
        raise NotImplementedError

    # -- the state -------------------------------------------------------------------------------------------

    @property
    def start(self) -> dict:
        return {control.key: control.default for control in self.controls}

    def states(self):
        """Every state, the last control varying fastest."""
        keys = [control.key for control in self.controls]
        for values in itertools.product(*(control.values for control in self.controls)):
            yield dict(zip(keys, values, strict=True))

    def svg(self, **state) -> str:
        width, height = self.view_box
        return (
            f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(self.alt(**state))}" '
            f'font-family="{escape(FONT)}" font-size="13" stroke-linejoin="round" '
            f'xmlns="http://www.w3.org/2000/svg">{self.picture(**state)}</svg>'
        )

    # -- without a kernel ------------------------------------------------------------------------------------

    @property
    def html(self) -> str:
        title, svg = escape(self.title), self.svg(**self.start)
        if self.drawn_by_matplotlib:
            svg = f"{DRAWN}{svg}{END_DRAWN}"
        spec = {
            "controls": [
                {"key": c.key, "values": c.values, "texts": c.texts, "start": c.start} for c in self.controls
            ],
            **self._spec(),
        }
        return "\n".join(
            [
                f'<div class="ml-explorer" data-name="{self.name}" role="group" aria-label="{title}">',
                f"<style>\n{read_asset('explorer.css')}</style>",
                f'<p class="ml-title">{title}</p>',
                f'<div class="ml-picture">{svg}</div>',
                _controls_html(self.controls),
                '<button type="button" class="ml-reset">Reset</button>',
                "</div>",
                '<p class="ml-live" aria-live="polite"></p>',
                f'<script type="application/json" class="ml-spec">{as_json(spec)}</script>',
                self._payload() + "<script>(() => {",
                read_asset("explorer.js") + self._script(),
                "})();</script>",
                "</div>",
            ]
        )

    # -- with a kernel ---------------------------------------------------------------------------------------

    def widget(self):
        """The explorer as ipywidgets: controls and one picture, replaced as they move."""
        if self._widget is None:
            self._widget = self._build_widget()
        return self._widget

    def _build_widget(self):
        import ipywidgets as widgets

        def framed(**state):
            return (
                f'<div class="ml-picture" style="max-width:540px;background:#fff">{self.svg(**state)}</div>'
            )

        picture = widgets.HTML(framed(**self.start))
        inputs = []
        for control in self.controls:
            kind = widgets.Dropdown if control.is_menu else widgets.SelectionSlider
            options = list(zip(control.texts, control.values, strict=True))
            inputs.append(
                kind(
                    options=options,
                    value=control.default,
                    description=control.label,
                    style={"description_width": "9em"},
                    layout=widgets.Layout(width="100%", max_width="540px"),
                )
            )

        def moved(_):
            picture.value = framed(**{c.key: i.value for c, i in zip(self.controls, inputs, strict=True)})

        for each in inputs:
            each.observe(moved, names="value")
        heading = widgets.HTML(f"<b>{escape(self.title)}</b>")
        return widgets.VBox([heading, picture, *inputs])

    def _repr_mimebundle_(self, include=None, exclude=None):
        bundle = {"text/plain": self.alt(**self.start), "text/html": self.html}
        if _has_kernel():
            # Written out, because only ipywidgets 8 hands over its own bundle.
            view = {"version_major": 2, "version_minor": 0, "model_id": self.widget().model_id}
            bundle["application/vnd.jupyter.widget-view+json"] = view
        return bundle


def _has_kernel() -> bool:
    try:
        import ipywidgets  # noqa: F401
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def _controls_html(controls) -> str:
    """Native inputs, each inside its label. Widths come from the longest texts: nothing jumps on a move."""
    label = max(len(control.label) for control in controls)
    value = max((len(t) for c in controls if not c.is_menu for t in c.texts), default=0)
    columns = " ml-two-columns" if len(controls) > 2 and label <= 10 else ""
    return "\n".join(
        [
            f'<div class="ml-controls{columns}" style="--ml-label:{label}ch;--ml-value:{value}ch" hidden>',
            *(_control_html(control) for control in controls),
        ]
    )


def _control_html(control: Control) -> str:
    label = f'<label class="ml-control"><span class="ml-label">{escape(control.label)}</span>'
    if control.is_menu:
        options = "".join(
            f'<option value="{i}"{" selected" if i == control.start else ""}>{escape(text)}</option>'
            for i, text in enumerate(control.texts)
        )
        return f'{label}<select autocomplete="off">{options}</select></label>'
    text, last = escape(control.texts[control.start]), len(control.values) - 1
    return (
        f'{label}<input type="range" min="0" max="{last}" step="1" value="{control.start}" '
        f'autocomplete="off" aria-valuetext="{text}">'
        f'<span class="ml-value" aria-hidden="true">{text}</span></label>'
    )
