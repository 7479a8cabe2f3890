"""What is done to each page and to the finished site."""

import html
import re
from pathlib import Path

from docutils import nodes

from . import fonts, formulas, weight

COLAB = "https://colab.research.google.com"
GENERATED = {"search", "genindex"}
OPENING = re.compile(r"[(\[“‘]+$")
CLOSING = re.compile(r"^[.,;:!?)\]”’%-]+")
THEME_OPTIONS = {
    "navbar_persistent": [],
    "use_fullscreen_button": False,
    "use_download_button": False,
    "back_to_top_button": False,
    "primary_sidebar_end": [],
    "show_toc_level": 2,
    "toc_title": "On this page",
    "search_bar_text": "Search this book",
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
}
FRONT_PAGE = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={target}">
<link rel="canonical" href="{target}">
<link rel="icon" href="data:,">
</head>
<body><main><h1>{title}</h1><p><a href="{target}">Read the book</a></p></main></body>
</html>
"""


def configure(app, config):
    config.templates_path.insert(0, str(Path(__file__).parent / "templates"))  # before the theme's own
    config.html_math_renderer = "mathml"
    options = config.html_theme_options = {**THEME_OPTIONS, **config.html_theme_options}
    if not any(host in options.get("repository_url", "") for host in ("github", "gitlab", "bitbucket")):
        options["repository_provider"] = "gitlab"  # the theme insists on one that it knows


def keep_punctuation(app, doctree, docname):
    """A browser may break the line between a formula and the comma behind it: tie them together."""
    for math in list(doctree.findall(nodes.math)):
        parent, place = math.parent, math.parent.index(math)
        before = parent[place - 1] if place else None
        after = parent[place + 1] if place + 1 < len(parent) else None
        opening = OPENING.search(before) if isinstance(before, nodes.Text) else None
        closing = CLOSING.search(after) if isinstance(after, nodes.Text) else None
        if not (opening or closing):
            continue
        tied = nodes.inline(classes=["tied"])
        parent[place] = tied
        if opening:
            parent[place - 1] = nodes.Text(before[: opening.start()])
            tied += nodes.Text(opening[0])
        tied += math
        if closing:
            parent[place + 1] = nodes.Text(after[closing.end() :])
            tied += nodes.Text(closing[0])


def complete_context(app, pagename, templatename, context, doctree):
    """Titles as text (the theme would put raw TeX there), and the links that a chapter offers."""
    if pagename in app.env.titles:
        context["pagetitle"] = context["title_text"] = plain_text(app.env.titles[pagename])
    if doctree is not None:
        paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
        context["page_description"] = plain_text(paragraph)[:160] if paragraph is not None else ""
    context["book_links"] = _links(app, pagename, context)


def _links(app, pagename, context):
    options = app.config.html_theme_options
    address = options.get("repository_url", "")
    on_github = address.startswith("https://github.com/")
    links = []
    if pagename in app.env.found_docs and str(app.env.doc2path(pagename)).endswith(".ipynb"):
        if on_github:
            branch = options.get("repository_branch", "main")
            path = f"{address.removeprefix('https://github.com/')}/blob/{branch}/{pagename}.ipynb"
            url, tip = f"{COLAB}/github/{path}", "Run this chapter in Google Colab"
            links.append({"url": url, "text": "Colab", "tip": tip, "icon": "fas fa-play"})
        source = f"{context['pathto']('_sources', 1)}/{context['sourcename']}"
        tip = "Download this chapter as a notebook"
        links.append({"url": source, "text": "Notebook", "tip": tip, "icon": "fas fa-download", "file": True})
    if pagename in app.env.found_docs:
        text = pagename.rpartition("/")[2] + ".md"
        tip = "This page as plain text (Markdown)"
        links.append({"url": text, "text": "Text", "tip": tip, "icon": "fas fa-align-left"})
        context["text_edition"] = text
    if address:
        icon = "fab fa-github" if on_github else "fas fa-code"
        links.append({"url": address, "text": "Source", "tip": "The book's repository", "icon": icon})
    return links


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
    root = app.config.master_doc
    title = html.escape(app.config.html_title)
    front = FRONT_PAGE.format(
        language=app.config.language, title=title, target=app.builder.get_target_uri(root)
    )
    (out / "index.html").write_text(front, encoding="utf-8")
    _remove_stale_pages(app, out)
    texts = [path.read_text(encoding="utf-8") for path in _pages(out)]
    weight.prune_styles(out, texts)
    weight.cut_theme_script(out)
    fonts.write(out / "_static", texts, cache=out.parent / ".fonts")


def _pages(out):
    return sorted(path for path in out.rglob("*.html") if path.relative_to(out).parts[0] != "_static")


def _remove_stale_pages(app, out):
    """A page of an earlier build that is no longer in the table of contents must not be found any more."""
    wanted = {out / app.builder.get_target_uri(name) for name in app.env.found_docs | GENERATED}
    for path in _pages(out):
        if path not in wanted and path.name != "index.html":
            path.unlink()
    for leftover in (out / "_static").glob("*webpack-macros.html"):
        leftover.unlink()
