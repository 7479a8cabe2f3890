"""Explorers and questions on the built pages, with no kernel behind them: everything answers, each way."""

import functools
import inspect
import itertools
import json
import math
import random
import re

import build
import pytest

from conftest import ROOT
from minillama import viz
from minillama.viz.formula_explorer import FormulaExplorer

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
CHAPTERS = [name for name in build.pages(ROOT) if (ROOT / f"{name}.ipynb").exists()]
every_chapter = pytest.mark.parametrize("name", CHAPTERS)
SMALLEST_TARGET = 24  # CSS pixels, the least that a finger is owed


def declared(name: str, kind: str) -> list[str]:
    """Names of the explorers or questions in the notebook's saved outputs."""
    notebook = json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    html = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    return [found for each in html for found in re.findall(rf'class="{kind}" data-name="([^"]+)"', each)]


@pytest.fixture
def phone(browser):
    context = browser.new_context(**PHONE)
    yield context.new_page()
    context.close()


@pytest.fixture
def complaints():
    return []


def visit(page, url, complaints):
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(url, wait_until="load")
    return page.locator(".ml-explorer").all()


class Seen:
    """What one explorer shows now."""

    def __init__(self, explorer):
        svg = explorer.locator(".ml-picture svg")
        self.picture, self.alt = svg.inner_html(), svg.get_attribute("aria-label")

    def differs(self, other) -> bool:
        return self.picture != other.picture and self.alt != other.alt


def controls(explorer) -> list:
    return explorer.locator(".ml-control input, .ml-control select").all()


def test_the_book_has_explorers_of_both_kinds(page, site_url, complaints):
    kinds = set()
    for name in CHAPTERS:
        for explorer in visit(page, f"{site_url}{name}.html", complaints):
            kinds.add("frames" if explorer.locator(".ml-frames").count() else "formula")
    assert kinds == {"frames", "formula"}


@every_chapter
def test_the_page_shows_what_the_notebook_declares(page, site_url, name, complaints):
    shown = [e.get_attribute("data-name") for e in visit(page, f"{site_url}{name}.html", complaints)]
    assert shown == declared(name, "ml-explorer")
    assert len(set(shown)) == len(shown), "an explorer stands twice on the page"
    questions = [q.get_attribute("data-name") for q in page.locator(".ml-choice").all()]
    assert questions == declared(name, "ml-choice")
    assert not complaints


@every_chapter
def test_every_control_moves_its_picture_by_keyboard(page, site_url, name, complaints):
    for explorer in visit(page, f"{site_url}{name}.html", complaints):
        start = Seen(explorer)
        for control in controls(explorer):
            before, at = Seen(explorer), control.input_value()
            control.focus()
            last = control.get_attribute("max")
            page.keyboard.press("ArrowLeft" if at == last else "ArrowRight")
            if control.input_value() == at:
                page.keyboard.press("ArrowUp")  # the last entry of a menu
            assert control.input_value() != at
            assert Seen(explorer).differs(before), f"{explorer.get_attribute('data-name')}: nothing moved"
            if control.get_attribute("type") == "range":
                value = control.locator("xpath=following-sibling::*[1]")
                assert value.text_content() == control.get_attribute("aria-valuetext")
                page.keyboard.press("Home")
                low = Seen(explorer)
                page.keyboard.press("End")
                assert Seen(explorer).differs(low)
        explorer.get_by_role("button", name="Reset").focus()
        page.keyboard.press("Enter")
        assert Seen(explorer).picture == start.picture and Seen(explorer).alt == start.alt
    assert not complaints


@every_chapter
def test_every_control_moves_its_picture_by_mouse(page, site_url, name, complaints):
    for explorer in visit(page, f"{site_url}{name}.html", complaints):
        start = Seen(explorer)
        for control in controls(explorer):
            before = Seen(explorer)
            drag(page, control) if control.get_attribute("type") == "range" else pick_another(control)
            assert Seen(explorer).differs(before)
        explorer.get_by_role("button", name="Reset").click()
        assert Seen(explorer).picture == start.picture
    assert not complaints


def drag(page, slider):
    slider.scroll_into_view_if_needed()
    box, high = slider.bounding_box(), int(slider.get_attribute("max"))
    share = int(slider.input_value()) / high
    y, left, width = box["y"] + box["height"] / 2, box["x"] + 8, box["width"] - 16
    page.mouse.move(left + share * width, y)
    page.mouse.down()
    page.mouse.move(left + (0.1 if share > 0.5 else 0.9) * width, y, steps=5)
    page.mouse.up()


def pick_another(menu):
    values = menu.locator("option").evaluate_all("options => options.map((option) => option.value)")
    menu.select_option(next(value for value in values if value != menu.input_value()))


@every_chapter
def test_every_slider_moves_under_a_finger_that_finds_it(phone, site_url, name, complaints):
    for explorer in visit(phone, f"{site_url}{name}.html", complaints):
        for control in [*controls(explorer), explorer.locator(".ml-reset")]:
            control.scroll_into_view_if_needed()
            box = control.bounding_box()
            assert box["height"] >= SMALLEST_TARGET and box["width"] >= SMALLEST_TARGET
            assert 0 <= box["x"] and box["x"] + box["width"] <= PHONE["viewport"]["width"]
        for control in explorer.locator("input[type=range]").all():
            control.scroll_into_view_if_needed()
            before, box = Seen(explorer), control.bounding_box()
            share = int(control.input_value()) / int(control.get_attribute("max"))
            x = box["x"] + box["width"] * (0.15 if share > 0.5 else 0.85)
            phone.touchscreen.tap(x, box["y"] + box["height"] / 2)
            assert Seen(explorer).differs(before)
        before = Seen(explorer)
        explorer.locator(".ml-reset").tap()
        assert Seen(explorer).differs(before)
    assert not complaints


@every_chapter
def test_a_screen_reader_is_told_what_there_is_and_what_changed(page, site_url, name, complaints):
    for explorer in visit(page, f"{site_url}{name}.html", complaints):
        names = explorer.locator(".ml-label").all_text_contents()
        assert len(names) == len(controls(explorer)) and len(set(names)) == len(names)
        for label, control in zip(names, controls(explorer), strict=True):
            role = "slider" if control.get_attribute("type") == "range" else "combobox"
            found = explorer.get_by_role(role, name=label, exact=True)
            assert found.count() == 1 and found.bounding_box() == control.bounding_box()
        assert len(Seen(explorer).alt) >= 20
        assert explorer.get_by_role("img").count() == 1
        live = explorer.locator("[aria-live]")
        assert live.text_content() == ""
        controls(explorer)[0].focus()
        page.keyboard.press("Home")
        page.keyboard.press("End")
        alt = Seen(explorer).alt
        page.wait_for_function(
            "([element, text]) => element.textContent === text", arg=[live.element_handle(), alt]
        )


@every_chapter
def test_without_script_and_on_paper_there_is_a_still_picture(browser, site_url, name, complaints):
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    for explorer in visit(plain, f"{site_url}{name}.html", complaints):
        assert explorer.locator(".ml-picture svg").is_visible()
        assert not explorer.locator(".ml-controls").is_visible()
    for question in plain.locator(".ml-choice").all():
        assert question.locator("legend").is_visible()
    context.close()
    context = browser.new_context()
    printed = context.new_page()
    visit(printed, f"{site_url}{name}.html", complaints)
    printed.emulate_media(media="print")
    for explorer in printed.locator(".ml-explorer").all():
        assert explorer.locator(".ml-picture svg").is_visible()
        assert explorer.locator(".ml-control").first.is_visible()  # on paper the values, and nothing to move
        assert not any(each.is_visible() for each in explorer.locator("input, button").all())
    context.close()


@every_chapter
def test_pictures_turn_dark_with_the_page(page, site_url, name, complaints):
    explorers = visit(page, f"{site_url}{name}.html", complaints)
    for theme, filtered in (("light", False), ("dark", True)):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        for explorer in explorers:
            style = explorer.locator(".ml-picture").evaluate("element => getComputedStyle(element).filter")
            assert (style != "none") == filtered, f"{theme}: {style}"
            around = explorer.evaluate("element => getComputedStyle(element.parentElement).backgroundColor")
            assert around in ("rgba(0, 0, 0, 0)", "transparent") or not filtered, (
                f"{theme}: {around} around it"
            )


@every_chapter
def test_questions_answer_at_once_by_mouse_and_by_key(page, site_url, name, complaints):
    visit(page, f"{site_url}{name}.html", complaints)
    for question in page.locator(".ml-choice").all():
        feedback, radios = question.get_by_role("status"), question.get_by_role("radio").all()
        assert feedback.text_content() == ""
        said = []
        for radio in radios:
            radio.click()
            said.append(feedback.text_content())
        letters = "ABCDEF"[: len(radios)]
        assert [text[:2] for text in said] == [f"{letter}:" for letter in letters]
        assert sum("Right." in text for text in said) == 1 and sum("No." in text for text in said) >= 1
        radios[-1].focus()
        page.keyboard.press("ArrowUp")
        assert feedback.text_content() == said[-2] and radios[-2].is_checked()
    assert not complaints


# -- formula explorers: JavaScript and Python draw the same ----------------------------------------------


READ_BOTH = """(svg, ours) => {
  const here = document.createElementNS(svg.namespaceURI, "svg");
  here.innerHTML = ours;
  const attributes = (child) => [...child.attributes].map(({ name, value }) => [name, value]);
  return [svg, here].map((each) => [...each.children].map((child) =>
    [child.tagName, child.textContent, ...attributes(child)]));
}"""


@functools.cache
def formulas() -> dict:
    """Every formula explorer that `minillama.viz` offers, by name."""
    makers = [getattr(viz, name) for name in viz.__all__]
    signatures = [(make, inspect.signature(make)) for make in makers if inspect.isfunction(make)]
    made = [make() for make, s in signatures if s.return_annotation is FormulaExplorer and not s.parameters]
    return {explorer.name: explorer for explorer in made}


def grid(explorer) -> list[dict]:
    """Extremes and starting values combined, every place of every control, and draws by a fixed seed.

    In some draws all controls of one range agree: equal inputs are often a special case.
    """
    ranges, draw = [c.values for c in explorer.controls], random.Random(0)
    zeros = [0 if 0 in c.values else c.default for c in explorer.controls]
    sweeps = [{**explorer.start, c.key: v}.values() for c in explorer.controls for v in c.values]
    drawn = [[draw.choice(values) for values in ranges] for _ in range(200)]
    for _ in range(100):
        agreed = {values: draw.choice(values) for values in ranges}
        drawn.append([agreed[values] for values in ranges])
    keys = [c.key for c in explorer.controls]
    return [dict(zip(keys, values, strict=True)) for values in [zeros, *sweeps, *corners(explorer), *drawn]]


def corners(explorer, most: int = 300) -> list[tuple]:
    """Lowest, starting and highest value of every control in all combinations, or a fixed draw of them."""
    every = list(
        itertools.product(*(sorted({c.values[0], c.default, c.values[-1]}) for c in explorer.controls))
    )
    return every if len(every) <= most else random.Random(0).sample(every, most)


def same(ours, theirs) -> bool:
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict)
            and ours.keys() == theirs.keys()
            and all(same(ours[k], theirs[k]) for k in ours)
        )
    if isinstance(ours, list | tuple):
        return isinstance(theirs, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, int | float):
        return isinstance(theirs, int | float) and math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-6)
    return ours == theirs


@every_chapter
def test_javascript_and_python_draw_the_same(page, site_url, name, complaints):
    visit(page, f"{site_url}{name}.html", complaints)
    known = formulas()
    for root in page.locator(".ml-explorer:not(:has(.ml-frames))").all():
        explorer = known[root.get_attribute("data-name")]
        states = grid(explorer)
        values = [list(state.values()) for state in states]
        theirs = root.evaluate("(root, all) => all.map((values) => root.marks(values))", values)
        for state, marks in zip(states, theirs, strict=True):
            ours = explorer.marks(**state)
            assert len(ours) == len(marks), state
            for ours_mark, their_mark in zip(ours, marks, strict=True):
                assert same(ours_mark, their_mark), f"{state}: {ours_mark} here, {their_mark} on the page"
        assert not complaints


@every_chapter
def test_javascript_writes_the_marks_as_python_does(page, site_url, name, complaints):
    """The two serializers, on the picture the page starts with: same elements, same attributes, same text."""
    known = formulas()
    visit(page, f"{site_url}{name}.html", complaints)
    for root in page.locator(".ml-explorer:not(:has(.ml-frames))").all():
        explorer = known[root.get_attribute("data-name")]
        svg = root.locator(".ml-picture svg")
        theirs, ours = svg.evaluate(READ_BOTH, explorer.picture(**explorer.start))
        assert theirs == ours


# -- nothing runs into anything --------------------------------------------------------------------------


COLLISIONS = """([root, states]) => {
  const svg = root.querySelector(".ml-picture svg");
  const inputs = [...root.querySelectorAll(".ml-control input, .ml-control select")];
  const found = new Set();
  for (const state of states) {
    inputs.forEach((input, i) => { input.value = state[i]; });
    inputs[0].dispatchEvent(new Event("input", { bubbles: true }));
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(
      (text) => [text.textContent, text.getBoundingClientRect()]);
    texts.forEach(([words, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) found.add(`${words} leaves the picture`);
      for (const [other, its] of texts.slice(i + 1)) {
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const up = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (across > -1 && up > 2) found.add(`${words} | ${other}`);  // letters do not fill their line
      }
    });
  }
  return [...found];
}"""


@every_chapter
def test_no_words_collide_on_a_phone(phone, site_url, name, complaints):
    """In every frame, and at all corners of a formula: where numbers are longest."""
    for root in visit(phone, f"{site_url}{name}.html", complaints):
        if root.locator(".ml-frames").count():
            lengths = [
                int(control.get_attribute("max") or control.locator("option").count() - 1) + 1
                for control in controls(root)
            ]
            states = list(itertools.product(*map(range, lengths)))
        else:
            explorer = formulas()[root.get_attribute("data-name")]
            states = [
                [c.values.index(value) for c, value in zip(explorer.controls, corner, strict=True)]
                for corner in corners(explorer)
            ]
        assert phone.evaluate(COLLISIONS, [root.element_handle(), states]) == []
        root.locator(".ml-reset").click()
    assert not complaints
