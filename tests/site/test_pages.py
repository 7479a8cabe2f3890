"""Every page as a reader meets it: light and dark, on a desk and on a phone, with nothing from elsewhere."""

import json
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from book_pages import CHAPTERS, PAGES

MOST_BYTES = 800_000  # transferred, compressed, on a first visit
MOST_SHIFT = 0.01  # as Chromium adds it up; 0.1 is what is called good
THEMES = ("light", "dark")
WIDTHS = (1280, 390)
every_view = pytest.mark.parametrize(
    ("name", "theme", "width"),
    [(name, theme, width) for name in PAGES for theme in THEMES for width in WIDTHS],
)
every_page = pytest.mark.parametrize("name", PAGES)
every_chapter = pytest.mark.parametrize("name", CHAPTERS)

WATCH_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
# Text a reader sees that was meant as a formula; code may contain anything.
UNRENDERED = r"""() => {
  const found = [...document.querySelectorAll("merror")].map((error) => error.textContent);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("code, pre, kbd, script, style, noscript, template, textarea")) continue;
    const match = text.data.match(/\$[^$\n]+\$|\$\$|\\[()[\]]|\\[a-zA-Z]{2,}|(?<!\w)[_^]\{/);
    if (match) found.push(text.data.trim());
  }
  return found;
}"""
FLAT_FORMULAS = """() => [...document.querySelectorAll("main math")]
  .filter((math) => { const box = math.getBoundingClientRect(); return box.width < 2 || box.height < 2; })
  .map((math) => math.textContent)"""
WIDEST = """() => {
  const beyond = [...document.querySelectorAll("article *, .bd-header-article *")].filter((element) => {
    for (let up = element.parentElement; up; up = up.parentElement) {
      if (up !== document.body && getComputedStyle(up).overflowX !== "visible") return false;
    }
    const box = element.getBoundingClientRect();
    return box.width > 2 && box.right > innerWidth + 1;
  });
  return beyond.slice(0, 3).map((element) => element.outerHTML.slice(0, 200));
}"""
PICTURES = """() => [...document.images].map((image) => ({
  alt: image.alt.trim(), source: image.currentSrc.slice(0, 80),
  drawn: image.complete && image.naturalWidth > 0,
  stretched: (image.width / image.height) / (image.naturalWidth / image.naturalHeight),
}))"""
# Every explorer at one end of its controls, every question answered, one after the other rightly or wrongly.
MOVE_AND_ANSWER = """() => {
  for (const control of document.querySelectorAll(".ml-control input, .ml-control select")) {
    const last = Number(control.max ?? control.options.length - 1);
    control.value = Number(control.value) === last ? 0 : last;
    control.dispatchEvent(new Event("input", { bubbles: true }));
  }
  [...document.querySelectorAll(".ml-choice")].forEach((question, place) => {
    const options = question.querySelectorAll("input");
    options[place % options.length].click();
  });
}"""
# More than axe checks unless asked. Preloading would fetch the style sheets once more, from wrong addresses.
MORE_RULES = ["target-size", "focus-order-semantics", "p-as-heading", "table-fake-caption", "td-has-header"]
# A formula or a table that scrolls must take the focus, and for that this rule knows no roles but landmarks'.
EXCUSED = ("focus-order-semantics", ', scrolls sideways">')
AXE = {
    "preload": False,
    "resultTypes": ["violations"],
    "selectors": False,
    "rules": {name: {"enabled": True} for name in MORE_RULES},
}
# A page of code has thousands of colored tokens: each kind is checked once, in folds and outside.
ONE_TOKEN_OF_EACH_KIND = """() => {
  const seen = new Set();
  for (const token of [...document.querySelectorAll(".highlight span[class]")]) {
    const kind = token.className + Boolean(token.closest("details"));
    if (seen.has(kind)) token.replaceWith(...token.childNodes);
    seen.add(kind);
  }
  document.body.normalize();
}"""
# A formula of one color likewise: its first letter stands for all.
ONE_LETTER_OF_EACH_FORMULA = """() => {
  for (const math of document.querySelectorAll("math:not(:has(a, [class], [style], [mathcolor]))")) {
    math.replaceChildren(math.querySelector(":not(:has(*))"));
  }
}"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length"
FONTS = "[...document.fonts].map((font) => [font.family + font.style + font.weight, font.status])"


@dataclass
class View:
    """What was seen and heard while a page was opened once."""

    url: str = ""
    title: str = ""
    heading: str = ""
    background: str = ""
    complaints: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    bytes: int = 0
    late: int = 0
    shifted: float = 0.0
    overflow: int = 0
    beyond: list = field(default_factory=list)
    unrendered: list = field(default_factory=list)
    flat: list = field(default_factory=list)
    pictures: list = field(default_factory=list)
    fonts: dict = field(default_factory=dict)
    violations: list = field(default_factory=list)


@pytest.fixture(scope="module")
def view(browser, site_url):
    """Opens each page in each theme and width once; the tests below ask about what was noted then."""
    seen = {}

    def look(name, theme, width):
        if (name, theme, width) not in seen:
            seen[name, theme, width] = open_page(browser, f"{site_url}{name}.html", theme, width)
        return seen[name, theme, width]

    return look


def open_page(browser, url, theme, width):
    view = View()
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.add_init_script(WATCH_SHIFTS)
    page.on("console", lambda said: view.complaints.append((said.type, said.text, said.location["url"])))
    page.on("pageerror", lambda error: view.complaints.append(("exception", str(error), "")))
    page.on("request", lambda request: view.requests.append(request.url))
    page.on("requestfailed", lambda request: view.failures.append(request.url))
    page.on("response", lambda got: got.status >= 400 and view.failures.append(f"{got.status} {got.url}"))
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    sizes = []
    network.on("Network.loadingFinished", lambda done: sizes.append(done["encodedDataLength"]))
    sends_on = url.endswith("/index.html")
    if theme == "dark" and not sends_on:  # a slow line: each width is seen with the book's face and without
        view.late = open_with_late_fonts(page, url)
    else:
        page.goto(url)
    if sends_on:
        page.wait_for_url(f"**/{CHAPTERS[0]}.html")
    page.evaluate("document.fonts.ready")
    page.wait_for_load_state("networkidle")
    view.bytes = sum(sizes)
    view.shifted = page.evaluate("window.shifted")
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    view.url, view.title = page.url, page.title()
    view.heading = page.evaluate("document.querySelector('h1').firstChild.parentElement.innerText")
    view.background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    view.overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    view.beyond = page.evaluate(WIDEST)
    view.unrendered = page.evaluate(UNRENDERED)
    view.flat = page.evaluate(FLAT_FORMULAS)
    view.pictures = page.evaluate(PICTURES)
    view.fonts = dict(page.evaluate(FONTS))
    page.evaluate(ONE_TOKEN_OF_EACH_KIND)
    page.evaluate(ONE_LETTER_OF_EACH_FORMULA)
    page.evaluate(MOVE_AND_ANSWER)
    view.violations = violations(page)
    context.close()
    return view


def open_with_late_fonts(page, url):
    """They come when the page has been painted without them; returns how many."""
    held = []
    page.route("**/*.woff2", lambda route: held.append(route))
    page.goto(url, wait_until="commit")
    page.wait_for_function(PAINTED)
    page.route("**/*.woff2", lambda route: route.continue_())  # asked first from now on
    for route in held:
        route.continue_()
    page.wait_for_load_state()
    return len(held)


def violations(page):
    found = Axe().run(page, options=AXE).response["violations"]
    faults = []
    for fault in found:
        where = [
            node["html"][:200]
            for node in fault["nodes"]
            if not (fault["id"] == EXCUSED[0] and EXCUSED[1] in node["html"])
        ]
        if where:
            faults.append({"rule": fault["id"], "impact": fault["impact"], "where": where})
    return faults


@every_view
def test_nothing_goes_wrong(view, name, theme, width):
    seen = view(name, theme, width)
    assert [said for said in seen.complaints if said[0] in ("error", "warning", "exception")] == []
    assert seen.failures == []


@every_view
def test_nobody_else_is_asked(view, site_url, name, theme, width):
    foreign = [
        url for url in view(name, theme, width).requests if not url.startswith((site_url, "data:", "blob:"))
    ]
    assert foreign == []


@every_view
def test_every_formula_is_drawn(view, name, theme, width):
    seen = view(name, theme, width)
    assert seen.unrendered == [] and seen.flat == []


@every_view
def test_the_page_does_not_scroll_sideways(view, name, theme, width):
    seen = view(name, theme, width)
    assert seen.overflow <= 0 and seen.beyond == []


@every_view
def test_accessibility(view, name, theme, width):
    assert view(name, theme, width).violations == [], json.dumps(
        view(name, theme, width).violations, indent=1
    )


@every_view
def test_the_theme_follows_the_system(view, name, theme, width):
    red, green, blue = (int(part) for part in view(name, theme, width).background[4:-1].split(",")[:3])
    assert (min(red, green, blue) > 230) if theme == "light" else (max(red, green, blue) < 50)


@every_view
def test_pictures_keep_their_proportions(view, name, theme, width):
    for picture in view(name, theme, width).pictures:
        assert picture["drawn"] and picture["stretched"] == pytest.approx(1, abs=0.02), picture


@every_page
def test_pictures_say_what_they_show(view, name):
    for picture in view(name, "light", 1280).pictures:
        assert picture["alt"] and not picture["alt"].lower().endswith((".png", ".jpg", ".jpeg", ".svg")), (
            picture
        )


@every_page
def test_fonts_come_with_the_site(view, name):
    fonts = view(name, "light", 1280).fonts
    assert fonts["Booknormal400"] == "loaded" and "error" not in fonts.values()


@every_view
def test_text_does_not_jump(view, name, theme, width):
    seen = view(name, theme, width)
    assert seen.late >= 2 or theme == "light" or name == "index"
    assert seen.shifted < MOST_SHIFT


@every_page
def test_a_first_visit_is_light(view, name):
    seen = view(name, "light", 1280)
    assert 20_000 < seen.bytes <= MOST_BYTES


@every_chapter
def test_titles(view, name):
    seen = view(name, "light", 1280)
    book = "MiniLLaMA"
    if name == CHAPTERS[0]:
        assert seen.title == book
    else:
        assert seen.title.endswith(f" — {book}") and len(seen.title) > len(book) + 5
    assert not set("$\\#{}") & set(seen.title)


def test_the_front_page_leads_to_the_book(view):
    assert view("index", "light", 1280).url.endswith(f"{CHAPTERS[0]}.html")


@every_chapter
def test_the_color_scheme_is_switched_by_keyboard_and_kept(page, site_url, name):
    page.emulate_media(color_scheme="light")
    page.goto(f"{site_url}{name}.html")
    page.locator(".article-header-buttons .theme-switch-button").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@every_chapter
def test_folds_open_by_keyboard_and_have_names(page, site_url, name):
    page.goto(f"{site_url}{name}.html")
    folds = page.locator("main details")
    for fold in folds.all():
        summary = fold.locator("> summary")
        assert summary.inner_text().strip()
        if fold.locator("xpath=ancestor::details").count():
            continue
        summary.focus()
        before = fold.evaluate("fold => fold.open")
        page.keyboard.press("Enter")
        assert fold.evaluate("fold => fold.open") != before


@every_chapter
def test_a_page_is_readable_without_scripts(browser, site_url, name):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{site_url}{name}.html")
    assert page.locator("main h1").is_visible() and page.locator("main p").first.is_visible()
    context.close()


@every_chapter
def test_print_shows_the_text_and_nothing_to_click(page, site_url, name):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{site_url}{name}.html")
    page.emulate_media(media="print")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator("main h1").is_visible()
    for hidden in (".bd-sidebar-primary", ".bd-header-article", ".prev-next-footer"):
        assert not page.locator(hidden).first.is_visible(), hidden
    assert page.locator("main details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_search_finds_the_front_page(page, site_url):
    page.goto(f"{site_url}search.html?q=MiniLLaMA")
    page.locator(f"#search-results a[href^='{CHAPTERS[0]}.html']").first.wait_for()
