"""Nothing is loaded that a page does not use: no script, no style sheet, no rule that styles nothing."""

import re

from . import styles

LINKED = re.compile(r'<script\b[^>]*\ssrc="[^"]*?(_static/[^"?]+)')
# The theme's second script moves the sidebars and hides things on paper: access.js and the print styles do.
NEVER = {"scripts/sphinx-book-theme.js"}
WITH_CODE = {"clipboard.min.js", "copybutton.js", "copybutton.css"}


def drop_unused_files(app, pagename, templatename, context, doctree):
    unused = NEVER if 'class="highlight"' in context.get("body", "") else NEVER | WITH_CODE
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if _name(file) not in unused]


def _name(file):
    return str(file.filename).partition("_static/")[2].partition("?")[0] or str(file.filename)


def prune_styles(out, pages):
    """`pages` are the HTML texts of the whole site in the folder `out`."""
    linked = {name for page in pages for name in LINKED.findall(page)}
    scripts = [(out / name).read_text("utf-8") for name in sorted(linked)]
    styles.prune(sorted((out / "_static").rglob("*.css")), pages, scripts)
