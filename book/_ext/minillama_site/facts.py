"""What stands under a chapter's title: how long it takes to read, and with what its code was last run."""

import json
import re
from pathlib import Path

from docutils import nodes

# `tools/refresh.py` writes it when it has executed a notebook: the versions that the kernel had.
RECORD = "executed.json"
# Silent readers of non-fiction manage about 240 words a minute (Brysbaert 2019, a review of 190 studies);
# explanations go slower. The rest was chosen so that the sum meets the chapters' authors' own estimates.
WORDS_A_MINUTE = 200
SECONDS = {"formula": 3, "displayed formula": 20, "line of code": 2, "figure": 30, "question or explorer": 60}
ROUND_TO = 5
STATED = re.compile(r"\bReading takes about (\d+) minutes\b")
UNREAD = re.compile(r"<details>.*?</details>|^## References.*|^```.*?^```", re.DOTALL | re.MULTILINE)
DISPLAYED, INLINE = re.compile(r"\$\$.+?\$\$", re.DOTALL), re.compile(r"\$[^$\n]+\$")
LINK_TARGET, WORD = re.compile(r"\]\([^)]*\)"), re.compile(r"\w[\w'’.,-]*")


def depend_on_record(app, doctree):
    record = _record(app.env)
    if _is_chapter(app.env, app.env.docname) and record.exists():
        app.env.note_dependency(str(record))


def show(app, doctree, docname):
    if not _is_chapter(app.env, docname):
        return
    line = f'<p class="page-facts">{" ".join(sentences(app.env, docname))}</p>\n'
    title = next(iter(doctree.findall(nodes.title)))
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", line, format="html"))


def sentences(env, docname):
    """The facts of a chapter; none for a page without code."""
    if not _is_chapter(env, docname):
        return []
    cells = json.loads(Path(env.doc2path(docname)).read_text(encoding="utf-8"))["cells"]
    said = [f"About {reading_minutes(cells)} minutes to read."]
    record = _record(env)
    ran = json.loads(record.read_text("utf-8")).get(Path(docname).name) if record.exists() else None
    if ran:
        said.append(f"Last run with PyTorch {ran['torch']} and Python {ran['python']}.")
    return said


def _is_chapter(env, docname):
    return str(env.doc2path(docname)).endswith(".ipynb")


def _record(env):
    return Path(env.doc2path(env.config.master_doc)).with_name(RECORD)


def reading_minutes(cells):
    """What the chapter itself says, so that nobody sees two numbers; computed where it says nothing."""
    return stated_minutes(cells) or computed_minutes(cells)


def stated_minutes(cells):
    found = [int(number) for cell in cells for number in STATED.findall("".join(cell["source"]))]
    if len(found) > 1:
        raise ValueError(f"a chapter says once how long reading takes; this one says {found}")
    return found[0] if found else None


def computed_minutes(cells):
    """Folds, references and folded code are left out: they are looked up, or belong to the exercises."""
    words, seconds = 0, 0
    for cell in cells:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            source = UNREAD.sub("", source)
            for kind, pattern in (("displayed formula", DISPLAYED), ("formula", INLINE)):
                source, count = pattern.subn(" ", source)
                seconds += count * SECONDS[kind]
            words += len(WORD.findall(LINK_TARGET.sub("]", source)))
        elif cell["cell_type"] == "code" and "remove-cell" not in tags:
            if "hide-input" not in tags:
                seconds += sum(bool(line.strip()) for line in source.splitlines()) * SECONDS["line of code"]
            shown = {kind for output in cell["outputs"] for kind in output.get("data", {})}
            seconds += SECONDS["figure"] * ("image/png" in shown)
            seconds += SECONDS["question or explorer"] * ("text/html" in shown)
    exact = words / WORDS_A_MINUTE + seconds / 60
    return max(ROUND_TO, ROUND_TO * round(exact / ROUND_TO))
