"""Checks on the sources, and what is done to each page and to the finished site."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

from . import fonts, formulas

LOG = logging.getLogger(__name__)
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".svg", ".gif", ".webp")
IMG_TAG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ALT_TEXT = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
GENERATED = {"search", "genindex"}


def skip():
    return nodes.SkipNode()


def configure(app, config):
    config.templates_path.append(str(Path(__file__).parent / "templates"))
    config.html_math_renderer = "mathml"


def check_pictures(app, doctree):
    """A picture without a description is a fault of the page."""
    for image in doctree.findall(nodes.image):
        _check_alt(image.get("alt"), image)
    for raw in doctree.findall(nodes.raw):
        if "html" in raw.get("format", ""):
            for tag in IMG_TAG.findall(raw.astext()):
                found = ALT_TEXT.search(tag)
                _check_alt(found and (found[1] or found[2]), raw)


def _check_alt(text, node):
    if not (text or "").strip() or text.strip().lower().endswith(PICTURE_SUFFIXES):
        LOG.warning(
            "a picture has no description (alt text): %r. A notebook's figure takes it from "
            'the cell metadata {"mystnb": {"image": {"alt": "…"}}}',
            text,
            location=node,
        )


def complete_context(app, pagename, templatename, context, doctree):
    """Titles as text: the theme would put raw TeX into the page's title and description."""
    if pagename in app.env.titles:
        context["pagetitle"] = plain_text(app.env.titles[pagename])
    if doctree is not None:
        paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
        context["page_description"] = plain_text(paragraph)[:160] if paragraph is not None else ""


def plain_text(node):
    parts = []
    for leaf in node.findall(lambda n: isinstance(n, (nodes.Text, nodes.math))):
        if isinstance(leaf, nodes.math):
            parts.append(formulas.to_text(leaf.astext()))
        elif not isinstance(leaf.parent, nodes.math):
            parts.append(leaf.astext())
    return " ".join("".join(parts).split())


def finish(app, exception):
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    _remove_stale_pages(app, out)
    texts = [path.read_text(encoding="utf-8") for path in sorted(out.rglob("*.html"))]
    fonts.write_math_font(out / "_static/fonts/math.woff2", texts)
    fonts.write_icon_fonts(out / "_static", texts)


def _remove_stale_pages(app, out):
    """An earlier build's page that is no longer in the table of contents must not be found any more."""
    wanted = {Path(app.builder.get_target_uri(name)) for name in app.env.found_docs | GENERATED}
    wanted.add(Path("index.html"))
    for path in out.rglob("*.html"):
        relative = path.relative_to(out)
        if relative not in wanted and relative.parts[0] not in ("_static", "_sources"):
            path.unlink()
