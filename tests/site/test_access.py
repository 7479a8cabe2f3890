"""Reading by keyboard, with large letters, without motion, in the system's own colors."""

import contextlib
import json

import pytest
from book_pages import CHAPTERS, PAGES
from playwright.sync_api import TimeoutError
from test_pages import WIDEST, violations

READ = [name for name in PAGES if name != "index"]  # which only sends its reader on
every_page = pytest.mark.parametrize("name", READ)
SAMPLE = [CHAPTERS[0], "book/04_attention", "search"]  # front page; explorers of both kinds; no text
DESK, PHONE = {"width": 1280, "height": 844}, {"width": 390, "height": 844}

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
OPEN_FOLDS = f"""() => {{
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  return ({TWO_FRAMES})();  // what scrolls is found when the fold has opened
}}"""
FOCUSABLE = """[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")].filter(
  (element) => element.tabIndex >= 0 && !element.disabled && !element.closest("dialog:not([open])")
    && element.checkVisibility({ visibilityProperty: true }))"""
# After a first key each thing that takes the focus must show that it has it, and not behind the header.
UNSEEN = f"""() => {{
  const header = document.querySelector(".bd-header-article");
  const fault = (element) => {{
    element.focus();
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (document.activeElement !== element) return "takes no focus";
    if (!element.checkVisibility({{ opacityProperty: true }}) || box.width < 1) return "unseen";
    if (box.bottom < 0 || box.top > innerHeight) return "not scrolled to";
    if (element.closest("article") && box.bottom <= header.getBoundingClientRect().bottom) return "covered";
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return "no mark";
    return null;
  }};
  return {FOCUSABLE}.map((element) => [fault(element), element.outerHTML.slice(0, 120)])
    .filter(([found]) => found);
}}"""
ORDER = f"""() => {{
  const group = (element) => element.type === "radio" ? element.name : element;
  const stops = {FOCUSABLE}.filter((element, place, all) =>
    all.findIndex((other) => group(other) === group(element)) === place);
  stops.forEach((element, place) => {{ element.dataset.stop = place; }});
  return [stops.length, stops.filter((element) => element.tabIndex > 0).length];
}}"""
STOP = """() => document.activeElement === document.body ? null
  : Number(document.activeElement.dataset.stop ?? -1)"""
BEYOND = f"""() => [...({WIDEST})(),
  ...(document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [])]"""
MOVING = """() => {
  const moves = (style) => /[1-9]/.test(style.transitionDuration) || style.animationName !== "none"
    || style.scrollBehavior === "smooth";
  return [...document.querySelectorAll("*")].flatMap((element) => ["", "::before", "::after"]
    .filter((part) => moves(getComputedStyle(element, part)))
    .map((part) => element.outerHTML.slice(0, 100) + part));
}"""
SCROLLING = """() => [...document.querySelectorAll("article *")].filter((element) =>
  /auto|scroll/.test(getComputedStyle(element).overflowX) && element.scrollWidth > element.clientWidth + 1
).map((element) => [element.tabIndex, element.role, element.ariaLabel, element.outerHTML.slice(0, 100)])"""
# Of a picture: the lightness of its paper, how many of its letters are dark, whether it is turned over.
PAPER = """(picture) => {
  const light = (color) => Math.max(...color.match(/[\\d.]+/g).slice(0, 3).map(Number));
  const texts = [...picture.querySelectorAll("svg text")].filter(({ textContent }) => textContent.trim());
  const { backgroundColor, filter } = getComputedStyle(picture);
  const legible = texts.filter((text) => light(getComputedStyle(text).fill) < 240);
  return [light(backgroundColor), legible.length, filter];
}"""

# Where everything in sight stands before and right after a change of colors, and how much waits meanwhile.
COLORS_CHANGE = """() => {
  const places = () => seen.map((element) => element.getBoundingClientRect().top);
  const seen = [...document.querySelectorAll(".bd-article *")].filter((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight && bottom > top;
  });
  const before = places();
  document.querySelector(".article-header-buttons .theme-switch-button").click();
  return [document.querySelectorAll(".waiting").length, before, places()];
}"""


@pytest.fixture
def open_page(browser, site_url):
    contexts = []

    def go(name, viewport=DESK, reduced_motion="reduce", **settings):
        contexts.append(browser.new_context(viewport=viewport, reduced_motion=reduced_motion, **settings))
        page = contexts[-1].new_page()
        page.goto(f"{site_url}{name}.html")
        page.evaluate("document.fonts.ready")
        return page

    yield go
    for context in contexts:
        context.close()


# -- the keyboard ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@every_page
def test_everything_shows_that_it_has_the_focus(open_page, name, viewport):
    page = open_page(name, viewport)
    page.evaluate(OPEN_FOLDS)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to main content"
    assert page.evaluate(UNSEEN) == []


@pytest.mark.parametrize("name", SAMPLE)
def test_tab_goes_through_the_page_in_its_order_and_out_of_it(open_page, name):
    page = open_page(name)
    page.evaluate(TWO_FRAMES)
    page.evaluate("document.activeElement.blur()")
    count, ahead = page.evaluate(ORDER)
    assert count > 10 and ahead == 0
    page.evaluate("scrollTo(0, 0)")
    stops = []
    while len(stops) <= count:
        page.keyboard.press("Tab")
        stops.append(page.evaluate(STOP))
        if stops[-1] is None:
            break
    assert stops == [*range(count), None]


@pytest.mark.parametrize("name", SAMPLE)
def test_the_first_link_skips_to_the_text(open_page, name):
    page = open_page(name)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main-content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#main-content').contains(document.activeElement)")


@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_drawers_open_and_close_by_keyboard_and_give_the_focus_back(open_page, side):
    page = open_page("book/04_attention", PHONE)
    button, drawer = page.locator(f".{side}-toggle"), page.locator(f"#pst-{side}-sidebar-modal")
    inside = "element => element.contains(document.activeElement) || document.activeElement === document.body"
    for leave in ("Escape", "close"):
        button.focus()
        page.keyboard.press("Enter")
        assert drawer.is_visible() and drawer.evaluate(inside)
        assert page.get_by_role("dialog", name=button.get_attribute("aria-label")).count() == 1
        for _ in range(30):
            page.keyboard.press("Tab")
            assert drawer.evaluate(inside), "the focus left an open drawer"
        if leave == "close":
            drawer.get_by_role("button", name="Close").focus()
            page.keyboard.press("Enter")
        else:
            page.keyboard.press("Escape")
        assert not drawer.is_visible()
        assert button.evaluate("button => button === document.activeElement")


def test_a_place_chosen_in_the_drawer_is_shown(open_page):
    page = open_page("book/04_attention", PHONE)
    page.locator(".secondary-toggle").click()
    link = page.locator("#pst-secondary-sidebar-modal a").nth(3)
    target = link.get_attribute("href")
    link.click()
    assert not page.locator("#pst-secondary-sidebar-modal").is_visible()
    header = page.locator(".bd-header-article").bounding_box()
    heading = page.locator(f"{target} > :is(h2, h3)").bounding_box()
    assert header["y"] + header["height"] <= heading["y"] < PHONE["height"] / 2


def test_the_search_box_gives_the_focus_back_and_the_results_are_announced(open_page):
    page = open_page("book/04_attention", PHONE)
    button = page.locator(".article-header-buttons .search-button")
    button.focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("dialog", name="Search").get_by_role("searchbox")
    assert box.evaluate("box => box === document.activeElement")
    page.keyboard.press("Escape")
    assert button.evaluate("button => button === document.activeElement")
    page.keyboard.press("Control+k")
    page.keyboard.type("attention")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=attention")
    page.locator("#search-results li").first.wait_for()
    page.get_by_role("status").filter(has_text="found").wait_for()


def test_on_a_wide_screen_the_contents_can_be_put_away(open_page):
    page = open_page("book/04_attention")
    button, contents = page.locator(".primary-toggle"), page.locator("#pst-primary-sidebar")
    for shown in (False, True):
        button.focus()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-expanded") == json.dumps(shown)
        assert contents.is_visible() == shown
        assert button.evaluate("button => button === document.activeElement")


def test_the_color_button_says_which_colors_are_chosen(open_page):
    page = open_page("book/04_attention")
    button = page.locator(".article-header-buttons .theme-switch-button")
    names = []
    for _ in range(3):
        names.append(button.get_attribute("aria-label"))
        button.focus()
        page.keyboard.press("Enter")
        assert button.evaluate("button => button === document.activeElement")
    assert names == ["Colors: as the system", "Colors: dark", "Colors: light"]
    page.wait_for_function("!document.querySelector('.waiting')")  # what was out of sight is back


@pytest.mark.parametrize("far", [0.2, 0.5, 0.8, 1])
@pytest.mark.parametrize("name", ["book/intro", "book/03_swiglu", "book/10_optimizers", "book/notation"])
def test_new_colors_move_nothing_in_sight(open_page, name, far):
    page = open_page(name)
    page.add_style_tag(content="html { overflow-anchor: none; scroll-behavior: auto; }")
    page.evaluate("(far) => scrollTo(0, far * document.documentElement.scrollHeight)", far)
    waiting, before, after = page.evaluate(COLORS_CHANGE)
    assert waiting > 0 and len(before) > 3
    assert after == pytest.approx(before, abs=0.5)


# -- axe, in what lies over the page ---------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["book/notation", "search"])
def test_no_violation_in_drawers_search_box_and_results(open_page, name, theme):
    page = open_page(name, PHONE, color_scheme=theme)
    if name == "search":
        page.goto(f"{page.url}?q=attention")
        page.locator("#search-results li").first.wait_for()
        assert violations(page) == []
        return
    for button in (".primary-toggle", ".secondary-toggle", ".article-header-buttons .search-button"):
        page.locator(button).click()
        assert page.locator("dialog[open]").count() == 1
        assert violations(page) == [], button
        page.keyboard.press("Escape")


# -- large letters, no motion, the system's colors -------------------------------------------------------


@every_page
def test_nothing_is_lost_on_a_narrow_screen_or_with_letters_twice_as_large(open_page, name):
    page = open_page(name, {"width": 320, "height": 600})
    page.evaluate(OPEN_FOLDS)
    for tab, role, label, html in page.evaluate(SCROLLING):
        assert tab == 0 and role == "group" and label.endswith("scrolls sideways"), html
    assert page.evaluate(BEYOND) == []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        with contextlib.suppress(TimeoutError):  # layout.js waits until the window rests
            page.wait_for_function(f"({BEYOND})().length === 0", timeout=5000)
        assert page.evaluate(BEYOND) == [], f"200 % at {width}"


@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_moves_for_those_who_asked_for_no_motion(open_page, name):
    page = open_page(name)
    assert page.evaluate(MOVING) == []
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_stay_legible_in_the_systems_own_colors(open_page, theme):
    page = open_page("book/04_attention", forced_colors="active", color_scheme=theme)
    pictures = page.locator(".ml-picture").all()
    assert pictures
    for picture in pictures:
        paper, letters, turned = picture.evaluate(PAPER)
        assert (paper, turned) == (255, "none") and letters
    for image in page.locator("div.cell_output img").all():
        assert image.evaluate("image => getComputedStyle(image).filter") == "none"
