"""Self-check questions that answer at once, on a page without a kernel as in a notebook."""

import hashlib
import re
from html import escape
from importlib.resources import files


class Choice:
    """A multiple-choice question; shows itself as HTML, or as plain text."""

    def __init__(self, question: str, options, answer: str):
        if not isinstance(question, str) or not question.strip():
            raise ValueError(f"question {question!r} must be a non-empty string")
        self.question = question
        self.options = [tuple(option) for option in options]
        if not 2 <= len(self.options) <= 6:
            raise ValueError(f"options are {len(self.options)}; a question takes 2 to 6")
        for option in self.options:
            if len(option) != 2 or not all(isinstance(part, str) and part.strip() for part in option):
                raise ValueError(f"option {option!r} must be a pair (text, feedback), both non-empty strings")
        self.letters = "ABCDEF"[: len(self.options)]
        if not isinstance(answer, str) or len(answer) != 1 or answer not in self.letters:
            raise ValueError(f"answer {answer!r} must be one of {', '.join(self.letters)}")
        self.answer = answer
        # From the words, not from chance: the saved notebook must not change from run to run.
        self.name = "choice-" + hashlib.sha256(question.encode()).hexdigest()[:8]

    @property
    def html(self) -> str:
        rows = []
        for letter, (text, feedback) in zip(self.letters, self.options, strict=True):
            verdict = "Right." if letter == self.answer else "No."
            answer = escape(f"{letter}: {verdict} {feedback}")
            rows.append(
                f'<label><input type="radio" name="{self.name}" value="{letter}" autocomplete="off" '
                f'data-feedback="{answer}"><span>{letter}. {_inline(text)}</span></label>'
            )
        style, script = (
            files(__package__).joinpath(f"question.{kind}").read_text("utf-8") for kind in ("css", "js")
        )
        return "\n".join(
            [
                f'<fieldset class="ml-choice" data-name="{self.name}">',
                f"<style>\n{style}</style>",
                f"<legend>{_inline(self.question)}</legend>",
                *rows,
                '<p class="ml-feedback" role="status"></p>',
                f"<script>\n{script.replace('NAME', self.name)}</script>",
                "</fieldset>",
            ]
        )

    def __repr__(self) -> str:
        rows = [f"{letter}. {text}" for letter, (text, _) in zip(self.letters, self.options, strict=True)]
        return "\n".join([self.question, *rows])

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": repr(self), "text/html": self.html}


def choice(question: str, options, answer: str) -> Choice:
    """A question with immediate feedback. `options` are pairs (text, feedback); `answer` is the right letter.

    Texts are plain; a part between backticks is set as code.
    """
    return Choice(question, options, answer)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
