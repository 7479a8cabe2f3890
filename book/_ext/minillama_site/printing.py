"""What only paper needs: the answers to a page's questions, which on a screen appear at a click."""

from bs4 import BeautifulSoup
from docutils import nodes


def add_answers(app, pagename, templatename, context, doctree):
    """At the end of the page, hidden except in print, so that no answer stands below its question."""
    if doctree is None:
        return
    answers = [answer for raw in doctree.findall(nodes.raw) for answer in _answers(raw.astext())]
    if answers:
        rows = "".join(f"<li>{answer}</li>\n" for answer in answers)
        context["body"] += (
            f'<section class="only-in-print" id="answers"><h2>Answers</h2>\n<ol>\n{rows}</ol>\n</section>\n'
        )


def _answers(text):
    """For each question in an output, the lines that a click on its options shows."""
    if 'class="ml-choice"' not in text:
        return
    for question in BeautifulSoup(text, "html.parser").select(".ml-choice"):
        lines = BeautifulSoup("", "html.parser")
        for option in question.select("input[data-feedback]"):
            line = lines.new_tag("p")
            line.string = option["data-feedback"]
            lines.append(line)
        yield str(lines)
