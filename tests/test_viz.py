"""Figures and explorers: numbers shown, text alternatives, limits, one display for live and still pages."""

import gzip
import itertools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import minillama
from minillama import viz
from minillama.viz import chapter01
from minillama.viz.explorer import DRAWN, END_DRAWN
from minillama.viz.marks import fixed

ROOT = Path(__file__).resolve().parents[1]
VOID = {"input", "br", "img", "hr", "meta", "link"}


@pytest.fixture(scope="module")
def loudspeakers():
    return viz.loudspeakers()


@pytest.fixture(scope="module")
def walkthrough():
    return viz.norm_walkthrough()


@pytest.fixture(params=["loudspeakers", "walkthrough"])
def explorer(request):
    return request.getfixturevalue(request.param)


class Page(HTMLParser):
    """Elements with their attributes, their ancestors and the text inside."""

    def __init__(self, html):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs, closed=False):
        element = {"tag": tag, "in": [e["tag"] for e in self._open], "text": "", **dict(attrs)}
        self.elements.append(element)
        if tag not in VOID and not closed:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, closed=True)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, tag, **attrs):
        return [e for e in self.elements if e["tag"] == tag and attrs.items() <= e.items()]


def tiny_frames(**options):
    def draw(n):
        from matplotlib.figure import Figure

        figure = Figure()
        figure.subplots().plot([0, n], [n, 0])
        return figure

    control = viz.Control("n", "Count", (1, 2, 3), 2)
    options = {"alt": lambda n: f"A line from {n} to {n}.", "title": "Tiny & small"} | options
    return viz.frames(options.pop("draw", draw), options.pop("controls", [control]), **options)


def tiny_formula(**options):
    controls = [viz.Control("n", "Count", (1, 2, 3), 2), viz.Control("m", "Model", ("a", "b"), "a")]
    options = {"marks": lambda n, m: [viz.marks.title(f"{n} {m}")], "script": "function marks() {}"} | options
    return viz.formula(options.pop("marks"), options.pop("script"), controls, title="Tiny formula", **options)


# -- imports, style, recorded results --------------------------------------------------------------------


def test_neither_viz_nor_recorded_needs_matplotlib_or_ipywidgets():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['ipywidgets'] = None; "
        "from minillama import viz; viz.norm_walkthrough().html\n"
        "try: viz.recorded('')\nexcept ValueError: print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_style_applies_only_when_asked_for():
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        viz.rc_params()
        assert mpl.rcParams["axes.spines.top"]
        viz.use_style()
        assert not mpl.rcParams["axes.spines.top"]
        assert tuple(mpl.rcParams["figure.figsize"]) == viz.FIGURE_SIZE == (5.2, 3.1)
        looks = list(mpl.rcParams["axes.prop_cycle"])
        assert (
            len({str(look["color"]) for look in looks})
            == len({str(look["linestyle"]) for look in looks})
            == 6
        )


def test_label_stands_next_to_its_point():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    note = viz.label(ax, 1, 2, "here", viz.BLUE, dx=3, dy=4)
    assert (note.xy, note.xyann, note.get_text(), note.get_color()) == ((1, 2), (3, 4), "here", viz.BLUE)


def test_record_leaves_the_old_result_when_writing_fails(tmp_path, monkeypatch):
    from pathlib import Path

    from minillama.viz.results import record, recorded

    path = tmp_path / "results" / "norms.json"
    record(path, '{"ratio": 1}')
    assert recorded("norms", folders=(path.parent,)) == {"ratio": 1}

    def broken(self, text, encoding):
        self.write_bytes(b"{")
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", broken)
    with pytest.raises(OSError, match="disk full"):
        record(path, '{"ratio": 2}')
    assert recorded("norms", folders=(path.parent,)) == {"ratio": 1}


def test_recorded_prefers_the_checkout_and_names_what_exists(tmp_path):
    from minillama.viz.results import recorded

    checkout, wheel = tmp_path / "checkout", tmp_path / "wheel"
    for folder, value in ((checkout, 1), (wheel, 2)):
        folder.mkdir()
        (folder / "norms.json").write_text(json.dumps({"ratio": value}))
    (wheel / "only_here.json").write_text("{}")
    assert recorded("norms", folders=(checkout, wheel)) == {"ratio": 1}
    assert recorded("only_here", folders=(checkout, wheel)) == {}
    with pytest.raises(
        ValueError, match=r"'\.\./norms' is not a recorded result; recorded are: norms, only_here"
    ):
        recorded("../norms", folders=(checkout, wheel))


def test_a_recorded_folder_is_found_like_a_result(tmp_path):
    from minillama.viz.results import recorded_folder

    checkout, wheel = tmp_path / "checkout", tmp_path / "wheel"
    for folder in (checkout / "run", wheel / "run", wheel / "older"):
        folder.mkdir(parents=True)
    (checkout / "norms.json").write_text("{}", encoding="utf-8")
    assert recorded_folder("run", folders=(checkout, wheel)) == checkout / "run"
    assert recorded_folder("older", folders=(checkout, wheel)) == wheel / "older"
    with pytest.raises(ValueError, match="'norms' is not a recorded folder; recorded are: older, run"):
        recorded_folder("norms", folders=(checkout, wheel))


# -- numbers, controls, marks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1.2**12, 3, "8.916"),
        (-1, 3, "−1.000"),
        (0.0625, 3, "0.063"),
        (-0.0625, 3, "−0.063"),
        (2.5, 0, "3"),
        (-2.5, 0, "−3"),
        (1.005, 2, "1.00"),
        (-0.0, 1, "0.0"),
        (-0.0004, 3, "0.000"),
        (4, 0, "4"),
        (12345.6789, 3, "12345.679"),
    ],
)
def test_fixed_rounds_as_javascript_does_and_knows_no_minus_zero(value, digits, text):
    assert fixed(value, digits) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_fixed_refuses_what_is_not_a_number(value):
    with pytest.raises(ValueError, match=f"{value}"):
        fixed(value, 3)


def test_steps_hit_their_values_exactly():
    control = viz.Control.steps("x", "x", -4, 4, 0.1, 2, digits=1)
    assert len(control.values) == 81
    assert control.values[control.start] == 2 and control.values[43] == 0.3
    assert control.texts[40] == "0.0" and control.texts[0] == "−4.0"
    assert str(control.values[40]) == "0.0"  # not -0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("not a name", "L", (1, 2), 1), "key 'not a name'"),
        (("x", " ", (1, 2), 1), "label ' ' of control x"),
        (("x", "L", (1,), 1), r"values \(1,\) of control x must be two or more"),
        (("x", "L", (1, "a"), 1), "numbers or strings"),
        (("x", "L", (True, False), True), "numbers or strings"),
        (("x", "L", (1, float("inf")), 1), "must be finite"),
        (("x", "L", (1.1, 1.2), 1.1), "must differ as shown"),
        (("x", "L", (1, 2), 3), "default 3 of control x must be one of"),
    ],
)
def test_controls_refuse_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        viz.Control(*arguments)


def test_steps_must_fit_the_range():
    with pytest.raises(ValueError, match=r"step 0\.3 of control x must divide the way from 0 to 1"):
        viz.Control.steps("x", "x", 0, 1, 0.3, 0)


def test_marks_become_svg_with_palette_colors_and_escaped_text():
    marks = viz.marks
    svg = marks.to_svg(
        [
            marks.title("a picture"),
            marks.line(0, 1, 2.345, -0.001, "blue", stroke_dasharray="2 3"),
            marks.polyline([(0, 0), (1, 2)], "green"),
            marks.circle(1, 1, 3, "none", stroke="muted"),
            marks.text(1, 2, "a < b & c", text_anchor="end"),
        ]
    )
    assert svg == (
        '<line x1="0" y1="1" x2="2.35" y2="0" stroke="#0072B2" stroke-dasharray="2 3"></line>'
        '<polyline points="0,0 1,2" stroke="#009E73" fill="none"></polyline>'
        '<circle cx="1" cy="1" r="3" fill="none" stroke="#57606a"></circle>'
        '<text x="1" y="2" fill="#1f2328" text-anchor="end">a &lt; b &amp; c</text>'
    )
    assert marks.alt_text([marks.title("a picture")]) == "a picture"


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ([viz.marks.line(0, 0, 1, 1, "pink")], "stroke 'pink' of mark line must be one of"),
        ([viz.marks.rect(0, 0, float("nan"), 1)], "mark rect has a coordinate nan"),
        ([viz.marks.polyline([(0, float("inf"))])], "mark polyline has a coordinate inf"),
        ([{"kind": "script", "content": "x"}], "kind 'script' must be one of"),
    ],
)
def test_marks_refuse_what_cannot_be_drawn(marks, message):
    with pytest.raises(ValueError, match=message):
        viz.marks.to_svg(marks)


@pytest.mark.parametrize("titles", [[], ["a", "b"], [" "]])
def test_a_picture_has_exactly_one_text_alternative(titles):
    with pytest.raises(ValueError, match="exactly one non-empty title"):
        viz.marks.alt_text([viz.marks.title(title) for title in titles])


# -- the display -----------------------------------------------------------------------------------------


def test_html_is_the_same_in_every_run_and_needs_nothing_from_elsewhere(explorer):
    again = getattr(viz, explorer.name.replace("-", "_"))()
    assert again.html == explorer.html
    assert set(re.findall(r"https?://[^\"'\s]+", explorer.html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b0x[0-9a-f]+", explorer.html)


def test_html_is_a_labelled_still_picture_with_native_controls(explorer):
    page = Page(explorer.html)
    (root,) = page.all("div", **{"class": "ml-explorer"})
    assert root["role"] == "group" and root["aria-label"] == explorer.title
    (svg,) = page.all("svg")
    assert svg["role"] == "img" and svg["aria-label"] == explorer.alt(**explorer.start)
    (box,) = [e for e in page.all("div") if "ml-controls" in e["class"].split()]
    assert "hidden" in box, "without the script the controls would be dead"
    sliders = page.all("input")
    assert len(sliders) == len(explorer.controls)
    labels = [e for e in page.all("span") if e["class"] == "ml-label"]
    values = [e for e in page.all("span") if e["class"] == "ml-value"]
    for slider, label, value, control in zip(sliders, labels, values, explorer.controls, strict=True):
        assert slider["type"] == "range" and "label" in slider["in"]
        assert label["text"] == control.label and "label" in label["in"]
        assert slider["aria-valuetext"] == value["text"] == control.texts[control.start]
        assert int(slider["max"]) == len(control.values) - 1
    (live,) = [e for e in page.elements if "aria-live" in e]
    assert live["aria-live"] == "polite" and live["text"] == ""
    assert "@media print { .ml-explorer .ml-controls { display: none; } }" in explorer.html


def test_words_get_a_menu():
    page = Page(tiny_formula().html)
    assert [e["text"] for e in page.all("option")] == ["a", "b"]
    assert "label" in page.all("select")[0]["in"]


def test_two_explorers_on_one_page_share_no_id(loudspeakers):
    ids = [[e["id"] for e in Page(x.html).elements if "id" in e] for x in (loudspeakers, tiny_frames())]
    assert all(ids) and all(len(set(each)) == len(each) for each in ids)
    assert not set(ids[0]) & set(ids[1])
    assert all(each.startswith("loudspeakers-") for each in ids[0])


def test_nothing_an_author_writes_can_leave_its_element():
    nasty = '</script><b>"&'
    explorer = tiny_frames(title=nasty, name="nasty", alt=nasty)
    page = Page(explorer.html)
    assert not page.all("b")
    assert page.all("p", **{"class": "ml-title"})[0]["text"] == nasty
    (spec,) = page.all("script", **{"class": "ml-spec"})
    assert json.loads(spec["text"])["alts"] == [nasty] * 3


def test_without_a_kernel_there_is_html_and_text_only(explorer):
    bundle = explorer._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"] == explorer.alt(**explorer.start)


LIVE = """
from minillama import viz
explorers = viz.loudspeakers(), viz.norm_walkthrough()
display(*explorers)
#---
for which, at, value in ((0, 0, 1.3), (0, 1, 24), (1, 5, -2), (1, 4, 4.0), (1, 0, -4.0)):
    explorer = explorers[which]
    picture = explorer.widget().children[1]
    controls = explorer.widget().children[2:]
    before = picture.value
    controls[at].value = value
    state = {c.key: w.value for c, w in zip(explorer.controls, controls, strict=True)}
    assert picture.value != before and picture.value.count("<svg") == 1
    assert explorer.svg(**state) in picture.value, state
    assert controls[at].description == explorer.controls[at].label
#---
import matplotlib.pyplot as plt
def draw(n):
    figure, ax = plt.subplots()
    ax.plot([0, n])
    return figure
viz.frames(draw, [viz.Control("n", "n", (1, 2), 1)], alt="A line.", title="Drawn with pyplot")
"""


def test_with_a_kernel_one_display_carries_the_live_view_too(loudspeakers, walkthrough, monkeypatch):
    """Moves print nothing and add no second picture: the outputs of a live run say so."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    cells = [nbformat.v4.new_code_cell(source) for source in LIVE.split("#---")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3").execute()
    shown, moved, drawn = (cell.outputs for cell in notebook.cells)
    view = "application/vnd.jupyter.widget-view+json"
    assert [set(output.data) for output in shown] == [{view, "text/html", "text/plain"}] * 2
    assert [output.data["text/html"] for output in shown] == [loudspeakers.html, walkthrough.html]
    assert moved == []
    assert len(drawn) == 1 and "image/png" not in drawn[0].data


def test_live_explorers_use_only_what_ipywidgets_7_7_has():
    """Colab ships ipywidgets 7.7.1; these classes are in it and in 8."""
    used = set(re.findall(r"widgets\.(\w+)", Path(chapter01.__file__).with_name("explorer.py").read_text()))
    assert used == {"Dropdown", "HTML", "Layout", "SelectionSlider", "VBox"}


# -- frames ----------------------------------------------------------------------------------------------


def test_every_frame_can_be_put_together_again(loudspeakers):
    text = re.search(r'<script type="application/json" class="ml-frames">(.*?)</script>', loudspeakers.html)[
        1
    ]
    table = json.loads(text)
    states = list(loudspeakers.states())
    assert len(table["runs"]) == len(states) == 56
    pictures = set()
    for state, runs in zip(states, table["runs"], strict=True):
        pairs = zip(runs[::2], runs[1::2], strict=True)
        lines = itertools.chain.from_iterable(table["lines"][first : first + count] for first, count in pairs)
        picture = "\n".join(lines)
        assert picture == loudspeakers.picture(**state)
        pictures.add(picture)
    assert len(pictures) == len(states), "two states look alike"


def test_drawn_bytes_stand_between_markers_and_nothing_else_does(loudspeakers):
    drawn = re.findall(f"(?s){DRAWN}(.*?){END_DRAWN}", loudspeakers.html)
    assert [part[:5] for part in drawn] == ["<svg ", "<scri"]
    pattern = re.search(r"^regex: (.*)$", (ROOT / "tests" / "nbval_sanitize.cfg").read_text(), re.MULTILINE)[
        1
    ]
    compared = re.sub(pattern, "", loudspeakers.html)
    assert "<path" not in compared and "climbs from 1 to 8.916" in compared


def test_frames_are_small_clean_and_closed(loudspeakers):
    assert len(gzip.compress(loudspeakers.html.encode())) < 20_000
    for unwanted in ("<style", "<!--", "xlink", "<metadata"):
        assert unwanted not in loudspeakers.picture(**loudspeakers.start)


def test_two_decimals_in_coordinates_but_every_digit_in_text():
    def draw(n):
        from matplotlib.figure import Figure

        figure = Figure()
        figure.text(0.12345, 0.5, f"0.{n}234567")
        return figure

    picture = tiny_frames(draw=draw).picture(n=1)
    assert ">0.1234567<" in picture
    assert not re.search(r'="[^"]*\d\.\d{3}', picture)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"controls": [viz.Control(k, k, (1, 2), 1) for k in "abc"]},
            ValueError,
            "controls are 3.*at most 2",
        ),
        (
            {"controls": [viz.Control("n", "n", range(61), 1)]},
            ValueError,
            "61 states; frames take at most 60",
        ),
        ({"controls": []}, ValueError, "must be one or more viz.Control"),
        ({"controls": [viz.Control("n", "n", (1, 2), 1)] * 2}, ValueError, "each key may be used once"),
        ({"draw": lambda n: "no figure"}, TypeError, "draw must return a matplotlib Figure"),
        ({"alt": None}, TypeError, "alt None must be a string or a function"),
        ({"alt": lambda n: ""}, ValueError, r"alt is empty for the state \{'n': 1\}"),
        ({"title": ""}, ValueError, "title ''"),
        ({"name": "Not Good"}, ValueError, "name 'Not Good' must be lower-case"),
    ],
)
def test_frames_refuse_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        tiny_frames(**options)


def test_frames_refuse_a_payload_that_would_weigh_on_the_page():
    def draw(n):
        from matplotlib.figure import Figure

        figure = Figure()
        noise = torch.rand(40_000, generator=torch.Generator().manual_seed(n)).tolist()
        figure.subplots().scatter(noise[::2], noise[1::2])
        return figure

    with pytest.raises(ValueError, match=r"weigh \d+ bytes gzipped; at most 150000"):
        tiny_frames(draw=draw)


def test_a_state_that_was_not_drawn_is_refused(loudspeakers):
    with pytest.raises(ValueError, match="was not drawn"):
        loudspeakers.picture(gain=1.21, depth=12)


# -- formula ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("const marks = 1", "must define `function marks"),
        ("function marks() {} // </script>", "must not contain"),
    ],
)
def test_formula_refuses_bad_scripts(script, message):
    with pytest.raises(ValueError, match=message):
        tiny_formula(script=script)


# -- chapter 1 -------------------------------------------------------------------------------------------


def test_twelve_loudspeakers(loudspeakers):
    assert chapter01.levels(1.2, 12)[-1] == pytest.approx(8.9161, abs=1e-4)
    assert chapter01.levels(0.8, 12)[-1] == pytest.approx(0.068719, abs=1e-6)
    assert chapter01.levels(1.2, 3, controlled=True) == [1, 1.2, 1.2, 1.2]
    assert ">8.916<" in loudspeakers.picture(gain=1.2, depth=12)
    assert ">0.06872<" in loudspeakers.picture(gain=0.8, depth=12)
    assert "24 layers" in loudspeakers.alt(gain=1.3, depth=24)
    assert "stays at 1." in loudspeakers.alt(gain=1, depth=1) and "1 layer," in loudspeakers.alt(
        gain=1, depth=1
    )
    assert "falls from 1 to 0.06872" in loudspeakers.alt(gain=0.8, depth=12)


def test_the_chain_reaches_a_thousandth_and_is_heard_at_many_depths(loudspeakers):
    gain, depth = (set(control.values) for control in loudspeakers.controls)
    assert {0.75, 0.8, 1, 1.2} <= gain and {1, 12, 24} <= depth and len(depth) >= 7
    assert ">0.001003<" in loudspeakers.picture(gain=0.75, depth=24)
    assert loudspeakers.start == {"gain": 1.2, "depth": 12}


def test_all_levels_fit_the_axis(loudspeakers):
    for state in loudspeakers.states():
        assert all(chapter01.LOWEST < level < chapter01.HIGHEST for level in chapter01.levels(**state))


@pytest.mark.parametrize("x", [(2, -2, 2, -2), (3, 3, 3, 3), (4, 0, 0, 0), (0.1, -0.3, 1.7, 4), (0, 0, 0, 0)])
@pytest.mark.parametrize("offset", [0, 1.5, -4])
@pytest.mark.parametrize("alpha", [-2, 0.1, 1, 10])
def test_the_walkthrough_computes_both_norms(x, offset, alpha):
    n = chapter01.norms(*x, offset, alpha)
    tensor = alpha * (torch.tensor(x, dtype=torch.float64) + offset)
    one = torch.ones(4, dtype=torch.float64)
    layer = torch.nn.functional.layer_norm(tensor, (4,), eps=1e-6)
    assert n["x"] == pytest.approx(tensor.tolist())
    assert n["layer_norm"] == pytest.approx(layer.tolist(), abs=1e-9)
    assert n["rms_norm"] == pytest.approx(minillama.rms_norm(tensor, one, 1e-6).tolist(), abs=1e-6)
    assert n["mean"] == pytest.approx(tensor.mean().item()) and n["rms"] ** 2 == pytest.approx(
        tensor.square().mean().item()
    )


def heard(walkthrough, *x, **moved):
    """The text alternative for four values, the other sliders at their start unless moved."""
    state = walkthrough.start | dict(zip(("x1", "x2", "x3", "x4"), x, strict=True)) | moved
    return walkthrough.alt(**state)


def gives(norm, alt):
    return re.search(f"{norm} gives (.*?)[;.] ", alt)[1]


def test_the_walkthrough_says_when_the_norms_agree(walkthrough):
    assert list(walkthrough.start.values()) == [2, -2, 2, -2, 0, 1]
    assert walkthrough.alt(**walkthrough.start).endswith("Mean 0.000: both norms give the same.")
    apart = heard(walkthrough, 3, -1, 3, -1)
    assert gives("RMSNorm", apart) == "1.342, −0.447, 1.342, −0.447"
    assert gives("LayerNorm", apart) == "1.000, −1.000, 1.000, −1.000"
    assert apart.endswith("Mean 1.000: the norms differ by up to 0.553.")
    assert heard(walkthrough, 0, 0, 0, 0).endswith("All four are 0: ε keeps both outputs at 0.")


def test_four_equal_values_leave_layer_norm_nothing(walkthrough):
    for x, offset, alpha, left in (
        (3, 0, 1, "1.000"),
        (3, 0, -2, "−1.000"),
        (-4, 3.5, 5, "−1.000"),
        (0.3, 0.5, 10, "1.000"),  # 0.3 + 0.5 is no exact number, and equal four times all the same
        (0.1, 0, 0.1, "0.995"),  # ε bites
    ):
        alt = heard(walkthrough, x, x, x, x, offset=offset, alpha=alpha)
        assert alt.endswith(f"All equal: LayerNorm gives 0, RMSNorm {left}."), alt
        assert set(gives("LayerNorm", alt).split(", ")) == {"0.000"}
    assert heard(walkthrough, 2, 2, 2, 2, offset=-2).endswith("All four are 0: ε keeps both outputs at 0.")
    assert "All" not in heard(walkthrough, 4, 4, 4, 3.9)


def test_layer_norm_ignores_a_common_offset_and_rms_norm_does_not(walkthrough):
    offset = next(control for control in walkthrough.controls if control.key == "offset")
    assert offset.values == tuple(i / 2 for i in range(-8, 9))
    alts = [heard(walkthrough, 2, -2, 2, -2, offset=value) for value in offset.values]
    assert len({gives("LayerNorm", alt) for alt in alts}) == 1
    assert len({gives("RMSNorm", alt) for alt in alts}) == len(offset.values)
    assert alts[10].startswith("Input α(x + offset): 3.000, −1.000, 3.000, −1.000; mean 1.000, RMS 2.236.")


def test_of_the_scale_only_the_sign_is_seen(walkthrough):
    scale = next(control for control in walkthrough.controls if control.key == "alpha")
    assert {-2, -1, 0.1, 1, 10} <= set(scale.values) and list(scale.values) == sorted(scale.values)
    for norm in ("RMSNorm", "LayerNorm"):
        seen = {alpha: gives(norm, heard(walkthrough, 3, -1, 2, -2, alpha=alpha)) for alpha in scale.values}
        positive = {text for alpha, text in seen.items() if alpha >= 0.5}
        negative = {text for alpha, text in seen.items() if alpha < 0}
        assert len(positive) == len(negative) == 1
        turned = [text.lstrip("−") if text[0] == "−" else f"−{text}" for text in positive.pop().split(", ")]
        assert turned == negative.pop().split(", ")


def test_the_walkthrough_names_its_epsilon(walkthrough):
    assert "ε = 10⁻⁶" in walkthrough.title and chapter01.EPS == 1e-6


def test_numbers_from_ten_on_are_short(walkthrough):
    loud = dict(zip(walkthrough.start, (4, 4, 4, -4, 4, 10), strict=True))
    shown = [mark["content"] for mark in walkthrough.marks(**loud) if mark["kind"] == "text"]
    assert shown.count("80.0") == 3 and "60.0" in shown and "80.000" in walkthrough.alt(**loud)
    assert [chapter01._short(v) for v in (9.9994, 9.9996, -10, 0)] == ["9.999", "10.0", "−10.0", "0.000"]


def test_the_walkthrough_stays_in_its_frame(walkthrough):
    """Bars may not leave their panel, whatever the sliders say."""
    extremes = [(c.values[0], c.values[-1]) for c in walkthrough.controls]
    for values in itertools.product(*extremes):
        for mark in walkthrough.marks(**dict(zip(walkthrough.start, values, strict=True))):
            if mark["kind"] == "rect":
                low, high = (25, 148) if mark["fill"] == "sky" else (218, 342)
                assert low <= mark["y"] and mark["y"] + mark["height"] <= high, (values, mark)
