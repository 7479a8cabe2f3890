"""What this book adds to Sphinx and its theme: formulas without scripts, checks, self-contained pages."""

import hashlib
from pathlib import Path

from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from . import fonts, formulas, pages

LOG = logging.getLogger(__name__)
HERE = Path(__file__).parent


def visit_inline_math(self, node):
    self.body.append(f'<span class="math">{_render(node, display=False)}</span>')
    raise pages.skip()


def visit_display_math(self, node):
    identifier = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="math"{identifier}>{_render(node, display=True)}')
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise pages.skip()


def _render(node, display):
    try:
        return formulas.to_mathml(node.astext(), display)
    except formulas.FormulaError as error:
        LOG.warning("formula %r: %s", node.astext(), error, location=node)
        return "<code>formula</code>"


def setup(app):
    # A change to this extension or its templates rebuilds every page.
    sources = sorted(path for path in HERE.rglob("*") if path.suffix in (".py", ".html"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    app.add_config_value("minillama_site_digest", digest, "env")
    # Jupyter Book always sets this value of an extension that the book does not load.
    app.add_config_value("comments_config", {}, "env")
    app.add_html_math_renderer("mathml", (visit_inline_math, None), (visit_display_math, None))
    app.connect("config-inited", pages.configure)
    app.connect("doctree-read", pages.check_pictures)
    app.connect("html-page-context", pages.complete_context, priority=900)
    app.connect("build-finished", pages.finish)
    return {"parallel_read_safe": True, "parallel_write_safe": False}


__all__ = ["fonts", "formulas", "pages", "setup"]
