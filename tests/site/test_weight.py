"""What a page loads, it uses; and what was cut from the style sheets styles nothing."""

import re
from importlib.metadata import files

import pytest
from book_pages import CHAPTERS, PAGES, ROOT
from minillama_site import styles

every_page = pytest.mark.parametrize("name", PAGES)
# What a file is for, as a selector: it is loaded on the pages that have such an element, and on no other.
USES = {
    r"(index|search|book/[\w-]+)\.html": "html",
    r"_static/styles/(theme|pydata-sphinx-theme|sphinx-book-theme)\.css|_static/basic\.css": "html",
    r"_static/(book|access|layout|print)\.(css|js)": "main",
    r"_static/mystnb\.\w+\.css": ".cell",
    r"_static/(pygments|copybutton)\.css|_static/(clipboard\.min|copybutton)\.js": ".highlight",
    r"_static/scripts/pydata-sphinx-theme\.js": ".theme-switch-button",
    r"_static/(documentation_options|doctools|sphinx_highlight)\.js": "#searchbox, #search-results",
    r"_static/(searchtools|language_data)\.js|searchindex\.js": "#search-results",
    r"_static/fonts/text(-bold)?\.woff2": "p",
    r"_static/fonts/text-italic\.woff2": "em, i, cite, dfn, .c1, .quote",
    r"_static/fonts/math\.woff2": "math",
    r"_static/vendor/fontawesome/webfonts/fa-solid-900\.woff2": ".fas, .fa-solid",
    r"_static/vendor/fontawesome/webfonts/fa-brands-400\.woff2": ".fab, .fa-brands",
    r"_static/favicon\.svg": "link[rel=icon]",
    r"_images/\w+\.png": "main img",
}
SHEETS = {  # distribution, file
    "pydata-sphinx-theme": "static/styles/pydata-sphinx-theme.css",
    "sphinx-book-theme": "static/styles/sphinx-book-theme.css",
    "sphinx-copybutton": "copybutton.css",
    "myst-nb": "mystnb.css",
}
# Selectors of rules that style something on the page, in any state and whatever the screen.
LOST = r"""(originals) => {
  const alternatives = (text) => text.split(/,(?![^(]*\))/).map((each) => each.replace(/\s+/g, " ").trim());
  const inRules = (rules) => [...rules].flatMap((rule) =>
    rule.selectorText ? [rule] : rule.cssRules ? inRules(rule.cssRules)
      : rule.styleSheet ? inRules(rule.styleSheet.cssRules) : []);
  const sheets = [...document.styleSheets];
  const loaded = sheets.flatMap((sheet) => inRules(sheet.cssRules));
  const kept = new Set(loaded.flatMap((rule) => alternatives(rule.selectorText)));
  const read = new Set(loaded.flatMap((rule) => rule.cssText.match(/(?<=var\()--[-\w]+/g) ?? []));
  const matters = (rule) => [...rule.style].some((name) => !name.startsWith("--") || read.has(name));
  const stateless = (selector) => selector.replace(/::?[-\w]+(?:\([^()]*\))?/g, (part, at) =>
    /^:(not|is|where|has|nth|first|last|only|root|empty)/.test(part) ? part
      : /[\w\])*-]/.test(selector[at - 1]) ? "" : "*");
  const onPage = Object.keys(originals).filter((name) => sheets.some(({ href }) => href?.includes(name)));
  const lost = onPage.flatMap((name) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(originals[name]);
    return inRules(sheet.cssRules).filter(matters).flatMap((rule) => alternatives(rule.selectorText))
      .filter((selector) => !kept.has(selector) && document.querySelector(stateless(selector)));
  });
  return [onPage, lost];
}"""


@every_page
def test_every_file_that_is_loaded_is_used(page, site_url, name):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{site_url}{name}.html")
    if name == "index":
        page.wait_for_url(f"**/{CHAPTERS[0]}.html")
    page.evaluate("document.fonts.ready")
    page.wait_for_load_state("networkidle")
    loaded = {url.removeprefix(site_url).partition("?")[0].partition("#")[0] for url in requests}
    assert len(loaded) > 10
    for path in loaded:
        uses = [selector for pattern, selector in USES.items() if re.fullmatch(pattern, path)]
        assert uses, f"{path} is loaded, and nothing here says what for"
        assert page.locator(uses[0]).count(), f"{path} is for {uses[0]!r}, which this page does not have"


@pytest.mark.parametrize("name", [CHAPTERS[0], CHAPTERS[1], CHAPTERS[-1], "search"])
def test_no_rule_that_styles_something_was_cut(page, site_url, name):
    originals = {path.stem: path.read_text("utf-8") for path in (ROOT / "book/_static").glob("*.css")}
    for package, end in SHEETS.items():
        found = [file for file in files(package) if str(file).endswith(end)]
        assert len(found) == 1, (package, found)
        originals[found[0].stem] = found[0].locate().read_text("utf-8")
    page.goto(f"{site_url}{name}.html")
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        on_page, lost = page.evaluate(LOST, originals)
        assert {"pydata-sphinx-theme", "sphinx-book-theme", "book"} <= set(on_page)
        assert lost == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_picture_has_its_room_before_it_comes(page, site_url, width):
    """Its width follows the screen, its height the width: whoever reads on a slow line sees no jump."""
    waiting = []
    page.set_viewport_size({"width": width, "height": 844})
    page.route("**/_images/*", lambda route: waiting.append(route))
    page.goto(f"{site_url}book/04_attention.html", wait_until="domcontentloaded")
    sizes = "[...document.images].map(({ width, height }) => [width, height])"
    before = page.evaluate(sizes)
    assert len(before) == len(waiting) > 5 and min(min(size) for size in before) > 100
    for route in waiting:
        route.continue_()
    page.wait_for_load_state("load")
    for (_, height), (_, kept) in zip(page.evaluate(sizes), before, strict=True):
        assert abs(height - kept) <= 1  # rounded: the attributes are whole pixels


PRUNED = {
    # A sheet, and what stays of it with `<p class="here" id="place">` on the page and `late` in a script.
    ".here{a:b}.gone{a:b}": ".here{a:b}",
    "p,.gone,q{a:b}": "p{a:b}",
    "p.gone{a:b}p.late:hover::after{a:b}#place p{a:b}#gone p{a:b}": "p.late:hover::after{a:b}\n#place p{a:b}",
    "p:not(.gone){a:b}[data-gone]{a:b}": "p:not(.gone){a:b}\n[data-gone]{a:b}",
    "@media print{.gone{a:b}.here{a:b}}@media print{.gone{a:b}}": "@media print {\n.here{a:b}\n}",
    "p{--x:1;--y:var(--x);--gone:2;c:var(--y)}": "p{--x:1;--y:var(--x);c:var(--y);}",
    "p{--x:var(--z);--z:1}": "",
    "@keyframes a{to{b:c}}@keyframes gone{}p{animation:1s a}": "@keyframes a{to{b:c}}\np{animation:1s a}",
    "/*! a license */p{a:b}/* a remark */": "/*! a license */\np{a:b}",
    "@import url(x.css);@font-face{a:b}": "@import url(x.css);\n@font-face{a:b}",
}


@pytest.mark.parametrize("sheet", PRUNED)
def test_a_sheet_is_cut_to_the_rules_in_use(tmp_path, sheet):
    path = tmp_path / "sheet.css"
    path.write_text(sheet)
    page = '<p class="here" id="place">gone</p><script type="application/json">{"gone": 1}</script>'
    for _ in range(2):  # cutting what was cut changes nothing
        styles.prune([path], [page], ["element.classList.add('late')"])
        assert path.read_text().strip() == PRUNED[sheet]


def test_a_sheet_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "sheet.css").write_text("p{a:b} q")
    with pytest.raises(ValueError, match="cannot be read"):
        styles.prune([tmp_path / "sheet.css"], ["<p>"], [])
