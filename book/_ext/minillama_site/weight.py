"""Nothing is loaded that a page does not use: no script, no style sheet, no rule that styles nothing.

And what is still on its way has its room: nothing jumps when it comes.
"""

import re

from . import styles

LINKED = re.compile(r'<script\b[^>]*\ssrc="[^"]*?(_static/[^"?]+)')
# The theme's second script moves the sidebars and hides things on paper: access.js and the print styles do.
NEVER = {"scripts/sphinx-book-theme.js"}
# Only where the page holds: code, a notebook's cells.
ONLY_WITH = {
    'class="highlight"': {"clipboard.min.js", "copybutton.js", "copybutton.css", "pygments.css"},
    'class="cell ': {"mystnb"},
}
THEME_SCRIPT = "_static/scripts/pydata-sphinx-theme.js"
# After every move of an explorer it looks for what scrolls on the whole page; layout.js looks when needed.
CUT = "/* cut: see weight.py */0"
SEARCH_FOR_SCROLLING = re.compile(
    r'"complete"===document\.readyState\?(\w+)\(\):window\.addEventListener\("load",\1\)'
)


# How Sphinx gives a picture its size. Only attributes keep its proportions at any width of the screen.
SIZE = re.compile(r'(<img\b[^>]*) style="width: (\d+)px; height: (\d+)px;"')


def keep_room_for_pictures(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = SIZE.sub(r'\1 width="\2" height="\3"', context["body"])


def drop_unused_files(app, pagename, templatename, context, doctree):
    body = context.get("body", "")
    unused = NEVER.union(*(names for content, names in ONLY_WITH.items() if content not in body))
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if _name(file) not in unused]


def _name(file):
    """As in ONLY_WITH: `mystnb.<hash>.css` changes its name with the version."""
    name = str(file.filename).removeprefix("_static/").partition("?")[0]
    return "mystnb" if name.startswith("mystnb.") else name


def prune_styles(out, pages):
    """`pages` are the HTML texts of the whole site in the folder `out`."""
    linked = {name for page in pages for name in LINKED.findall(page)}
    scripts = [(out / name).read_text("utf-8") for name in sorted(linked)]
    styles.prune(sorted((out / "_static").rglob("*.css")), pages, scripts)


def cut_theme_script(out):
    script = out / THEME_SCRIPT
    text = script.read_text("utf-8")
    cut, count = SEARCH_FOR_SCROLLING.subn(CUT, text)
    if not count and CUT not in text:
        raise RuntimeError(f"{script.name} no longer contains the code that weight.py cuts")
    script.write_text(cut, encoding="utf-8")
