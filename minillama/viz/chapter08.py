"""Explorer of chapter 8: four scores for the next word, the loss of the one that came, and its gradient."""

import math

from . import marks
from .controls import Control
from .explorer import read_asset
from .formula_explorer import FormulaExplorer, formula

WORDS = ("love", "life", "gold", "war")  # after "If music be the food of"

fixed, line, text = marks.fixed, marks.line, marks.text


def _snap(value: float) -> float:
    """On a grid of 10⁻⁹: the last bit of exp and log may differ between Python and JavaScript."""
    return math.floor(value * 1e9 + 0.5) / 1e9


def next_word(scores, came: int) -> dict:
    """Softmax of four scores, the loss when word `came` came, its gradient and the gradient's length."""
    top = max(scores)
    e = [_snap(math.exp(s - top)) for s in scores]
    total = e[0] + e[1] + e[2] + e[3]
    p = [value / total for value in e]
    loss = _snap(math.log(total)) + top - scores[came]
    gradient = [value - (1 if i == came else 0) for i, value in enumerate(p)]
    square = 0.0
    for value in gradient:
        square += value * value
    return {"p": p, "loss": loss, "gradient": gradient, "length": math.sqrt(square)}


def _next_token_marks(s1: float, s2: float, s3: float, s4: float, came: str) -> list[dict]:
    """The picture; next_token.js is its twin."""
    scores = [s1, s2, s3, s4]
    right = WORDS.index(came)
    r = next_word(scores, right)
    small = {"font_size": 12}
    shapes = [
        text(0, 14, "Score z", font_weight="bold"),
        text(84, 14, "Probability p", font_weight="bold"),
        text(205, 14, "Gradient p − y", font_weight="bold"),
        line(285, 26, 285, 146, "muted"),
    ]
    for i, word in enumerate(WORDS):
        y = 32 + 30 * i
        p, g = r["p"][i], r["gradient"][i]
        bold = {"font_weight": "bold"} if i == right else {}
        color = "blue" if i == right else "vermillion"
        shapes += [
            text(0, y + 15, word, **bold),
            text(77, y + 15, fixed(scores[i], 1), "muted", text_anchor="end", **small),
            marks.rect(84, y, 52 * p, 20, color),
            text(176, y + 15, fixed(p, 3), text_anchor="end", **small),
            marks.rect(285 + 48 * min(g, 0.0), y, 48 * abs(g), 20, color),
            text(380, y + 15, fixed(g, 3), text_anchor="end", **small),
        ]
    guess = 1.386294361
    if abs(r["loss"] - guess) < 0.0005:
        verdict = "as good as guessing"
    else:
        verdict = f"{'better' if r['loss'] < guess else 'worse'} than guessing"
    shapes += [
        text(0, 172, f"ln Σ eᶻ = {fixed(r['loss'] + scores[right], 3)}", "muted", **small),
        text(140, 172, f"z of “{came}” = {fixed(scores[right], 1)}", "muted", **small),
        text(0, 196, f"Loss {fixed(r['loss'], 3)}", font_weight="bold"),
        text(140, 196, f"{verdict} (ln 4 = {fixed(guess, 3)})", **small),
        text(0, 220, f"‖p − y‖ = {fixed(r['length'], 3)}", font_weight="bold"),
        text(140, 220, f"the gradient's length, below √2 = {fixed(math.sqrt(2), 3)}", **small),
    ]
    words = ", ".join(f"{word} {fixed(p, 3)}" for word, p in zip(WORDS, r["p"], strict=True))
    pulls = ", ".join(fixed(g, 3) for g in r["gradient"])
    described = (
        f"Scores {', '.join(fixed(s, 1) for s in scores)} give the probabilities {words}. "
        f"The next word was {came}: loss {fixed(r['loss'], 3)}, {verdict}. "
        f"Gradient {pulls}, of length {fixed(r['length'], 3)}."
    )
    return [marks.title(described), *shapes]


def next_token() -> FormulaExplorer:
    """Four scores and the word that came: probabilities, loss, gradient."""
    sliders = [
        Control.steps(f"s{i}", f"Score of “{word}”", -10, 10, 0.5, value, digits=1)
        for i, (word, value) in enumerate(zip(WORDS, (2, 1, 0, -1), strict=True), 1)
    ]
    return formula(
        _next_token_marks,
        read_asset("next_token.js"),
        [*sliders, Control("came", "Next word", WORDS, "life")],
        title="“If music be the food of …”",
        size=(380, 230),
        name="next-token",
    )
