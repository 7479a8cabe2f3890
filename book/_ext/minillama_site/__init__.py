"""What this book adds to Sphinx and its theme: formulas without scripts, checks, self-contained pages."""

import hashlib
from html import escape
from pathlib import Path

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from . import checks, facts, formulas, glossary, pages, performance, printing, text_edition, weight

LOG = logging.getLogger(__name__)
HERE = Path(__file__).parent


def setup(app):
    # A change to the extension makes Sphinx read all pages again; one to styles or scripts, write them.
    app.add_config_value("minillama_site_digest", digest(HERE), "env")
    app.add_config_value("minillama_static_digest", digest(HERE.parent.parent / "_static"), "html")
    # Jupyter Book always sets this value of an extension that the book does not load.
    app.add_config_value("comments_config", {}, "env")

    app.add_html_math_renderer("mathml", (visit_inline_math, None), (visit_display_math, None))
    app.add_node(HideCodeCellNode, override=True, html=(visit_folded_code, depart_folded_code))
    app.add_js_file("book.js", loading_method="defer")
    app.add_js_file("access.js", loading_method="defer")
    app.add_js_file("layout.js", loading_method="defer")
    app.add_css_file("access.css", priority=850)  # after book.css
    app.add_css_file("print.css", priority=900, media="print")  # after the style that it changes

    performance.setup(app)
    app.connect("config-inited", pages.configure)
    app.connect("doctree-read", checks.check_sources)
    app.connect("doctree-read", facts.depend_on_record)
    app.connect("doctree-read", glossary.read)
    app.connect("doctree-resolved", pages.keep_punctuation)
    app.connect("doctree-resolved", glossary.link_terms)
    app.connect("doctree-resolved", facts.show)
    app.connect("html-page-context", pages.complete_context, priority=900)
    app.connect("html-page-context", weight.drop_unused_files, priority=950)
    app.connect("html-page-context", weight.keep_room_for_pictures, priority=950)
    app.connect("html-page-context", printing.add_answers, priority=900)
    app.connect("build-finished", pages.finish, priority=900)
    app.connect("build-finished", text_edition.write)
    return {"parallel_read_safe": True, "parallel_write_safe": False}


def digest(folder):
    """One hash of all files in a folder, byte code aside."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def visit_inline_math(self, node):
    self.body.append(_render(node, display=False))
    raise nodes.SkipNode


def visit_display_math(self, node):
    identifier = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="formula"{identifier}>{_render(node, display=True)}')
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def _render(node, display):
    try:
        return formulas.to_mathml(node.astext(), display)
    except formulas.FormulaError as error:
        LOG.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"


def visit_folded_code(self, node):
    """myst-nb's own fold has two titles and a label that says neither; this one is named by its title."""
    title = escape(node["prompt_show"])
    self.body.append(f'<details class="folded {" ".join(node["classes"])}"><summary>{title}</summary>\n')


def depart_folded_code(self, node):
    self.body.append("</details>\n")
