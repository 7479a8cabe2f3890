"""The plain-text edition: each page as Markdown beside its HTML, `llms.txt` that lists them, `llms-full.txt`.

It is made from the sources. They are Markdown already; what is left to do is to open the folds, to say in
words what a picture or a control shows, and to lead links to the pages' other files.
"""

import html
import json
import os
import posixpath
import re
import textwrap
from pathlib import Path

from bs4 import BeautifulSoup
from docutils import nodes

from . import facts
from .pages import plain_text

OTHER_FILES = ("_sources", "_static", "_downloads")  # Markdown there is not of this edition
LARGEST_WHOLE = 1_500_000  # bytes of llms-full.txt; a larger book is offered by the page only
LONGEST_DESCRIPTION = 200
# Fenced and inline code, and formulas: nothing in them is markup.
VERBATIM = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$"
    r"|(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|\$\$.+?\$\$|(?<![\\$])\$[^$\n]+\$",
    re.MULTILINE | re.DOTALL,
)
KEPT = re.compile("\0(\\d+)\0")
COMMENT = re.compile(r"[ \t]*<!--.*?-->", re.DOTALL)
UNREAD = re.compile(r"<(style|script|template|noscript)\b.*?</\1>", re.DOTALL)
DRAWING = re.compile(r"<svg\b([^>]*)>.*?</svg>", re.DOTALL)
PICTURE = re.compile(r"<img\b([^>]*)>")
SUMMARY = re.compile(r"<summary\b[^>]*>(.*?)</summary>", re.DOTALL)
ANCHOR = re.compile(r"<a\b[^>]*\bhref=\"([^\"]*)\"[^>]*>(.*?)</a>", re.DOTALL)
BLOCK_TAG = re.compile(r"</?(div|p|section|figure|figcaption|nav|details|ul|ol|li|br|h[1-6])\b[^<>]*>")
TAG = re.compile(r"</?[a-zA-Z][\w-]*(\s[^<>]*)?/?>")
MARKDOWN_PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
LINK = re.compile(r"\]\(([^)\s]+)((?:\s+\"[^\"]*\")?)\)")
INCLUDE = re.compile(r"^```\{include\} (\S+)\n(?::.*\n)*```$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^```\{[\w-]+\}.*?^```$", re.MULTILINE | re.DOTALL)
DOWNLOAD = re.compile(r"\{download\}`([^<`]+?)\s*<[^>`]*>`")
# How the front page lists the chapters, each with what it is about.
LISTED = re.compile(r"^\d+\. \[[^\]]*\]\(([^)#]+)\) (.+)$", re.MULTILINE)
SENTENCE = re.compile(r".+?[.!?](?=\s|$)")


def write(app, exception):
    if exception or app.builder.format != "html":
        return
    out, env = Path(app.outdir), app.env
    parts = _parts(app)
    names = [name for _, names in parts for name in names]
    for name in names:
        (out / f"{name}.md").write_text(page(env, name, posixpath.dirname(name)), encoding="utf-8")
    whole = "\n---\n\n".join(page(env, name, "") for name in names)
    full = out / "llms-full.txt"
    full.unlink(missing_ok=True)
    if len(whole.encode()) <= LARGEST_WHOLE:
        full.write_text(whole, encoding="utf-8")
    titles = {name: plain_text(env.titles[name]) for name in names}
    index = _index(env, parts, titles, full.exists())
    (out / "llms.txt").write_text(index, encoding="utf-8")
    wanted = {out / f"{name}.md" for name in names}
    for path in out.rglob("*.md"):
        if path not in wanted and path.relative_to(out).parts[0] not in OTHER_FILES:
            path.unlink()


def _parts(app):
    """The table of contents as pairs (caption, names of pages); the first pair is the front page."""
    site_map = app.env.external_site_map

    def walk(name):
        yield name
        for tree in site_map[name].subtrees:
            for item in tree.items:
                if item in app.env.found_docs:
                    yield from walk(item)

    root = app.config.master_doc
    parts = [("", [root])]
    for tree in site_map[root].subtrees:
        names = [name for item in tree.items if item in app.env.found_docs for name in walk(item)]
        parts.append((tree.caption or "Chapters", names))
    return parts


def _index(env, parts, titles, has_whole):
    root = parts[0][1][0]
    listed = LISTED.findall(Path(env.doc2path(root)).read_text(encoding="utf-8"))
    said = {_page_name(link, root, env): text for link, text in listed}

    def line(name):
        return f"- [{titles[name]}]({name}.md): {said.get(name) or _opening(env, name)}"

    lines = [f"# {titles[root]}", "", f"> {_opening(env, root)}", ""]
    lines += ["Each page is Markdown, with its code, what the code printed, and formulas in TeX."]
    lines += [f"The pages with figures and controls begin at [{root}.html]({root}.html)."]
    lines += ["The whole book is one file, too: [llms-full.txt](llms-full.txt)."] if has_whole else []
    for caption, names in parts:
        lines += ["", f"## {caption or 'Start here'}", "", *map(line, names)]
    return "\n".join(lines) + "\n"


def _opening(env, name):
    """The first sentences of a page, as many as make one line."""
    paragraph = next(iter(env.get_doctree(name).findall(nodes.paragraph)), None)
    text = plain_text(paragraph) if paragraph is not None else ""
    opening = ""
    for sentence in SENTENCE.findall(text):
        if opening and len(opening) + len(sentence) > LONGEST_DESCRIPTION:
            break
        opening += sentence
    return textwrap.shorten(opening or text, LONGEST_DESCRIPTION, placeholder=" …")


def page(env, name, folder):
    """One page as Markdown; its links are relative to `folder`."""
    source = Path(env.doc2path(name))
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join(filter(None, (_cell(cell, name) for cell in cells)))
    else:
        text = INCLUDE.sub(lambda match: _included(source.parent / match[1], source.parent), text)
        made = _made(env, name)
        text = DIRECTIVE.sub(lambda match: next(made), FRONT_MATTER.sub("", text))
        text = _prose(DOWNLOAD.sub(r"`\1`", text))
    title, _, rest = text.lstrip().partition("\n")
    return _lead_links(f"{title}\n\n{_about(env, name)}\n\n{rest.strip()}\n", name, folder, env)


def _included(path, folder):
    """The text of another file, its links as seen from `folder`."""

    def move(match):
        if re.match(r"[a-z]+:|#", match[1]):
            return match[0]
        return f"]({os.path.relpath(path.parent / match[1], folder)}{match[2]})"

    return LINK.sub(move, path.resolve().read_text(encoding="utf-8"))


def _made(env, name):
    """What the page's directives came to: each leaves its Markdown on the first node that it makes."""
    for node in env.get_doctree(name).findall(nodes.Element):
        if "markdown" in node:
            yield node["markdown"]


def _about(env, name):
    about = f"Text edition of [the page]({posixpath.basename(name)}.html)."
    return f"*{' '.join([about, *facts.sentences(env, name)])}*"


def _cell(cell, name):
    source, tags = "".join(cell["source"]).strip(), cell["metadata"].get("tags", [])
    if "remove-cell" in tags:
        return ""
    if cell["cell_type"] != "code":
        return _prose(source)
    parts = [] if "question" in tags else [_fenced(source, "python")]  # the question itself says all
    alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
    return "\n\n".join([*parts, *(_output(output, alt, name) for output in cell["outputs"])])


def _output(output, alt, name):
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items() if kind != "image/png"}
    if "image/png" in output.get("data", {}):
        return f"Figure: {' '.join(alt.split())}"
    if "text/markdown" in data:
        return _prose(data["text/markdown"])
    if "text/html" in data:
        shown = BeautifulSoup(data["text/html"], "html.parser")
        if shown.select_one(".ml-choice"):
            return _question(shown)
        return _explorer(shown, data["text/plain"], name)
    text = "".join(output["text"]) if output["output_type"] == "stream" else data["text/plain"]
    return f"Output:\n\n{_fenced(text.rstrip(), 'text')}"


def _question(shown):
    for code in shown.select("code"):
        code.replace_with(f"`{code.get_text()}`")
    question, options = shown.legend.get_text(), shown.select("label")
    feedback = [option.input["data-feedback"] for option in options]
    (right,) = [each for each in feedback if each[1:].startswith(": Right.")]
    lines = [f"**Question.** {question}", "", *(f"- {option.span.get_text()}" for option in options)]
    lines += ["", f"**Answer: {right[0]}.**", "", *(f"- {each}" for each in feedback)]
    return "\n".join(lines)


def _explorer(shown, description, name):
    title = shown.select_one(".ml-title").get_text()
    controls = [label.get_text().strip() for label in shown.select(".ml-label")]
    return (
        f"Explorer “{title}”: {' '.join(description.split())} "
        f"Controls: {', '.join(controls)}. It moves on [the page]({posixpath.basename(name)}.html)."
    )


def _fenced(text, language):
    longest = max((len(run) for run in re.findall(r"^`{3,}", text, re.MULTILINE)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _prose(text):
    """Markdown without HTML: folds opened, pictures in words."""
    verbatim = []

    def keep(match):
        verbatim.append(match[0])
        return f"\0{len(verbatim) - 1}\0"

    text = VERBATIM.sub(keep, text)
    text = UNREAD.sub("", COMMENT.sub("", text))
    for picture, attribute in ((DRAWING, "aria-label"), (PICTURE, "alt")):
        text = picture.sub(lambda match, wanted=attribute: _in_words(match[1], wanted), text)
    text = MARKDOWN_PICTURE.sub(r"Figure: \1", text)
    text = SUMMARY.sub(lambda match: f"\n\n**{match[1].strip()}**\n\n", text)
    text = ANCHOR.sub(lambda match: f"[{' '.join(TAG.sub('', match[2]).split())}]({match[1]})", text)
    text = TAG.sub("", BLOCK_TAG.sub("\n", text))
    text = re.sub(r"[ \t]*\n([ \t]*\n)+", "\n\n", text).strip()
    return KEPT.sub(lambda match: verbatim[int(match[1])], text)


def _in_words(attributes, wanted):
    found = re.search(rf'\b{wanted}="([^"]*)"', attributes)
    return f"\n\nFigure: {html.unescape(found[1])}\n\n" if found and found[1].strip() else ""


def _lead_links(text, name, folder, env):
    """Links to pages of the book lead to their Markdown; links to anything else of the site stay."""

    def lead(match):
        target, anchor = match[1], match[2]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path, mark, fragment = target.partition("#")
        linked = _page_name(path, name, env) if path else name
        if path.endswith(".html") and linked == name:
            path = f"{linked}.html"  # an explorer's link to where it moves
        elif linked:
            path = f"{linked}.md"
        else:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if path == f"{name}.md" and mark and folder:
            path = ""
        return f"]({posixpath.relpath(path, folder or '.') if path else ''}{mark}{fragment}{anchor})"

    parts, at = [], 0
    for match in VERBATIM.finditer(text):
        parts += [LINK.sub(lead, text[at : match.start()]), match[0]]
        at = match.end()
    return "".join(parts) + LINK.sub(lead, text[at:])


def _page_name(path, name, env):
    """The page that a link from page `name` leads to, or None."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    stem, suffix = posixpath.splitext(joined)
    found = stem if suffix in (".ipynb", ".md", ".html") else joined
    return found if found in env.found_docs else None
