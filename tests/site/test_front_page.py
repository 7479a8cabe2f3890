"""The first screen: a way in at once, the diagram beside it on a desk and below it on a phone."""

import pytest
from book_pages import CHAPTERS

BOXES = """() => Object.fromEntries(
  Object.entries({ title: "h1", begin: ".start a", diagram: ".ml-model" }).map(([name, selector]) => {
    const box = document.querySelector(`.bd-article ${selector}`).getBoundingClientRect();
    return [name, { top: box.top, bottom: box.bottom, left: box.left, right: box.right }];
  })
)"""
# What a reader sees of the focused part: an outline that is drawn, on the link or on its frame.
OUTLINE = """() => {
  const style = getComputedStyle(document.activeElement);
  return [style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


@pytest.fixture
def front(page, site_url):
    def opened(width, height):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{site_url}{CHAPTERS[0]}.html")
        page.evaluate("document.fonts.ready")
        return page.evaluate(BOXES)

    return opened


def test_on_a_desk_words_and_diagram_are_side_by_side_on_the_first_screen(front):
    boxes = front(1280, 720)
    assert boxes["begin"]["bottom"] <= 720 and boxes["diagram"]["bottom"] <= 720
    assert boxes["title"]["right"] <= boxes["diagram"]["left"]
    assert abs(boxes["title"]["top"] - boxes["diagram"]["top"]) < 40


def test_on_a_phone_the_way_in_comes_before_the_diagram(front):
    boxes = front(390, 844)
    assert boxes["title"]["bottom"] <= boxes["begin"]["top"]
    assert boxes["begin"]["bottom"] <= boxes["diagram"]["top"] < 844
    assert boxes["diagram"]["right"] <= 390


def test_the_way_in_leads_to_chapter_1(page, front):
    front(1280, 720)
    page.locator(".start a").first.click()
    page.wait_for_url(f"**/{CHAPTERS[1]}.html")


def test_keyboard_focus_shows_on_every_link_of_the_first_screen(page, front):
    front(1280, 720)
    page.locator(".start a").first.focus()
    links = page.locator(":is(.start, .ml-model) a").count()
    assert links > 18
    for _ in range(links - 1):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches(':is(.start, .ml-model) a')")
        style, width = page.evaluate(OUTLINE)
        assert style == "solid" and width >= 2


def test_nothing_toggles_a_sidebar_that_is_not_there(page, front):
    front(390, 844)
    assert page.locator(".secondary-toggle").count() == page.locator(".bd-sidebar-secondary").count() == 0
