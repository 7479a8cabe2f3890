"""The glossary's entries get anchors, and each chapter links an entry from its first use in running prose.

An entry is a paragraph that begins with its names in bold: `**FSDP, DDP.** Two ways to …`. A chapter is
searched for these names and their plurals. A comment at the entry's end, which no reader sees, changes that:

    <!-- also: tied, tying -->          further forms        <!-- as: query -->     these forms only
    <!-- in: 1 3 6 -->                  only these chapters   <!-- never: reason --> no links
    <!-- as: level; in: 1 3 -->         both
"""

import posixpath
import re
from dataclasses import dataclass, field

from docutils import nodes
from sphinx.util import logging

from .pages import plain_text

LOG = logging.getLogger(__name__)
PREFIX = "term-"
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
CLAUSES = ("also", "as", "in", "never")
CHAPTER = re.compile(r"(?:^|/)(\d\d)_[^/]*$")
# Not running prose: titles and what works as one, code, formulas, tables, the map in a block quote.
PASSED_OVER = (
    nodes.title,
    nodes.strong,
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.table,
    nodes.block_quote,
    nodes.raw,
)
FOLD = re.compile(r"<(/?)details\b")


@dataclass
class Entry:
    names: list
    definition: str = ""
    forms: list = field(default_factory=list)
    chapters: set = field(default_factory=set)  # empty: all
    never: str = ""

    @property
    def anchor(self):
        return anchor(self.names[0])


def anchor(name):
    return PREFIX + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def page(env):
    return posixpath.join(posixpath.dirname(env.config.master_doc), "glossary")


def chapter_number(docname):
    found = CHAPTER.search(docname)
    return int(found[1]) if found else None


def read(app, doctree):
    """Anchors for the entries; each is kept beside its paragraph, and its comment taken out."""
    env = app.env
    if chapter_number(env.docname) and page(env) in env.found_docs:
        env.note_dependency(env.doc2path(page(env)))
    if env.docname != page(env):
        return
    taken = {}
    for paragraph in doctree.findall(nodes.paragraph):
        paragraph[:] = [child for child in paragraph if child.astext()]  # the parser puts an empty text first
        if not isinstance(paragraph[0], nodes.strong):
            continue
        try:
            entry = _entry(paragraph)
            for name in entry.names:
                if anchor(name) in taken:
                    raise ValueError(f"the name {name!r} has an entry already")
            for form in [] if entry.never else entry.forms:
                if form.lower() in taken:
                    raise ValueError(f"{form!r} belongs to the entry {taken[form.lower()]!r}, too")
        except ValueError as error:
            LOG.warning("glossary: %s", error, location=paragraph)
            continue
        taken |= dict.fromkeys([*map(anchor, entry.names), *map(str.lower, entry.forms)], entry.names[0])
        paragraph["ids"] += [anchor(name) for name in entry.names]
        paragraph["entry"] = entry


def _entry(paragraph):
    bold = paragraph[0].astext()
    if not bold.endswith("."):
        raise ValueError(
            f"an entry begins with its names and a full stop in bold, as **Token.**; got {bold!r}"
        )
    entry = Entry([name.strip() for name in bold[:-1].split(",")])
    told = {}
    for raw in list(paragraph.findall(nodes.raw)):
        for clause in COMMENT.fullmatch(raw.astext())[1].split(";"):
            key, _, value = (part.strip() for part in clause.partition(":"))
            if key not in CLAUSES or not value:
                raise ValueError(
                    f"{clause.strip()!r} must be one of {', '.join(CLAUSES)}, a colon and a value"
                )
            told[key] = value
        raw.parent.remove(raw)
    listed = {key: [form.strip() for form in told.get(key, "").split(",") if form.strip()] for key in CLAUSES}
    entry.forms = listed["as"] or [*entry.names, *listed["also"]]
    entry.chapters = {int(number) for number in told.get("in", "").split()}
    entry.never = told.get("never", "")
    said = nodes.inline("", "", *(n.deepcopy() for n in paragraph[1:] if not isinstance(n, nodes.reference)))
    entry.definition = plain_text(said).rstrip(" ,")
    return entry


def entries(env):
    doctree = env.get_doctree(page(env))
    return [node["entry"] for node in doctree.findall(nodes.paragraph) if "entry" in node]


def spellings(form):
    """The form and its plural."""
    if re.search(r"[^aeiou]y$", form):
        return [form, f"{form[:-1]}ies"]
    return [form, f"{form}{'es' if re.search(r'(s|x|ch|sh)$', form) else 's'}"]


def pattern(form):
    """Names with capitals inside (RoPE, GQA) are looked for as they are, others in any case."""
    words = "|".join(re.escape(each).replace("\\ ", "\\s+") for each in spellings(form))
    return f"(?:{words})" if re.search(r"\w[A-Z]", form) else f"(?i:{words})"


def link_terms(app, doctree, docname):
    number = chapter_number(docname)
    if not number or page(app.env) not in app.env.found_docs:
        return
    here = [e for e in entries(app.env) if not e.never and (not e.chapters or number in e.chapters)]
    # The longest form first: “attention sink” is not a use of “attention”, even when it is linked already.
    forms = sorted(((form, entry) for entry in here for form in entry.forms), key=lambda pair: -len(pair[0]))
    search = re.compile(
        r"(?<![\w-])(?:"
        + "|".join(f"(?P<f{i}>{pattern(form)})" for i, (form, _) in enumerate(forms))
        + r")(?![\w-])"
    )
    address = app.builder.get_relative_uri(docname, page(app.env))
    linked = set()
    for text in list(_running_prose(doctree)):
        pieces, at = [], 0
        for match in search.finditer(text):
            entry = forms[int(match.lastgroup[1:])][1]
            if entry.anchor in linked:
                continue
            linked.add(entry.anchor)
            title = f"{', '.join(entry.names)}: {entry.definition}"
            link = nodes.reference("", match[0], refuri=f"{address}#{entry.anchor}", reftitle=title)
            link["internal"], link["classes"] = True, ["term"]
            pieces += [nodes.Text(text[at : match.start()]), link]
            at = match.end()
        if pieces:
            place = text.parent.index(text)
            text.parent[place : place + 1] = [*pieces, nodes.Text(text[at:])]


def _running_prose(doctree):
    """The texts of paragraphs and lists outside folds, code cells and the references."""
    folds = 0
    for node in doctree.findall(lambda n: isinstance(n, nodes.raw | nodes.Text)):
        if isinstance(node, nodes.raw):
            folds += sum(1 if not closing else -1 for closing in FOLD.findall(node.astext()))
        elif not folds and not any(map(_passed_over, _ancestors(node))):
            yield node


def _ancestors(node):
    while node.parent is not None:
        node = node.parent
        yield node


def _passed_over(node):
    if isinstance(node, nodes.section):
        return node[0].astext() == "References"
    return isinstance(node, PASSED_OVER) or "cell" in node.get("classes", [])
