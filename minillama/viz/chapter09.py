"""The explorer of chapter 9: what the letters of an einsum do, one product at a time."""

from . import marks
from .controls import Control
from .explorer import as_json, read_asset
from .formula_explorer import FormulaExplorer, formula

X = ((2, 0, 1), (-1, 3, 1))  # (t, i)
W = ((1, 2, 0), (0, 1, -1), (3, -1, 1), (1, 0, 2))  # (o, i)
SIZES = {"t": 2, "o": 4, "i": 3}
EQUATIONS = tuple(f"ti,oi->{right}" for right in ("to", "ot", "t", "o", "i", "ti", "oi", ""))
LEFTS, TOP, WIDE, HIGH = (22, 140, 258), 42, 28, 24  # of the three grids; width and height of a cell


def number(n: int) -> str:
    return str(n).replace("-", "−")


def _letters_marks(equation: str, t: int, o: int, i: int) -> list[dict]:
    """The picture; einsum_letters.js is its twin."""
    rect, text = marks.rect, marks.text
    right = equation.split("->")[1]
    hand = {"t": t, "o": o, "i": i}
    shapes = []

    def grid(left, name, letters, values, chosen, touched):
        """One tensor: the cell in hand, and those that share its cell of the result."""
        rows, columns = len(values), len(values[0])
        shapes.append(text(left, 14, f"{name}[{', '.join(letters)}]", font_weight="bold"))
        down, across = (letters[0], letters[1]) if len(letters) == 2 else ("", letters)
        if across:
            shapes.append(text(left + WIDE * columns / 2, 34, f"{across} →", "muted", text_anchor="middle"))
        if down:
            middle = TOP + HIGH * rows / 2
            shapes.append(text(left - 12, middle - 2, down, "muted", text_anchor="middle"))
            shapes.append(text(left - 12, middle + 14, "↓", "muted", text_anchor="middle"))
        for r in range(rows):
            for c in range(columns):
                here, near = (r, c) == chosen, touched(r, c)
                shade = "blue" if here else "sky" if near else "grid"
                x, y = left + WIDE * c, TOP + HIGH * r
                shapes.append(rect(x + 1, y + 1, WIDE - 2, HIGH - 2, shade))
                if here:
                    shapes.append(
                        rect(x + 1, y + 1, WIDE - 2, HIGH - 2, "none", stroke="ink", stroke_width=2.5)
                    )
                ink = "paper" if here else "ink"
                content = number(values[r][c])
                shapes.append(text(x + WIDE / 2, y + 17, content, ink, text_anchor="middle"))

    def same(**place) -> bool:
        """Whether letters at these values end in the cell in hand."""
        return all(letter not in right or value == hand[letter] for letter, value in place.items())

    sums = {}
    for a in range(2):
        for b in range(4):
            for c in range(3):
                at = {"t": a, "o": b, "i": c}
                key = tuple(at[letter] for letter in right)
                sums[key] = sums.get(key, 0) + X[a][c] * W[b][c]
    if len(right) == 2:
        result = [[sums[r, c] for c in range(SIZES[right[1]])] for r in range(SIZES[right[0]])]
        chosen = (hand[right[0]], hand[right[1]])
    elif len(right) == 1:
        result, chosen = [[sums[(c,)] for c in range(SIZES[right])]], (0, hand[right])
    else:
        result, chosen = [[sums[()]]], (0, 0)
    grid(LEFTS[0], "x", "ti", X, (t, i), lambda r, c: same(t=r, i=c))
    grid(LEFTS[1], "w", "oi", W, (o, i), lambda r, c: same(o=r, i=c))
    grid(LEFTS[2], "y", right, result, chosen, lambda r, c: False)

    first, second = X[t][i], W[o][i]
    shown = f"({number(second)})" if second < 0 else number(second)
    product = f"x[{t}, {i}] · w[{o}, {i}] = {number(first)} · {shown} = {number(first * second)}"
    cell = f"y[{', '.join(str(hand[letter]) for letter in right)}]"
    total = sums[tuple(hand[letter] for letter in right)]
    count = 24
    for letter in right:
        count = count // SIZES[letter]
    gone = ", ".join(letter for letter in "toi" if letter not in right)
    goal = f"goes into {cell}, the sum of {count} such products: {number(total)}"
    rule = f"Not on the right, hence summed: {gone}"
    shapes += [text(4, 168, product, font_weight="bold"), text(4, 190, goal), text(4, 212, rule, "muted")]
    return [marks.title(f"{equation}. {product}; it {goal}. {rule}."), *shapes]


def einsum_letters() -> FormulaExplorer:
    """Two small matrices, eight right-hand sides: every choice of letters is a product with a place to go."""
    return formula(
        _letters_marks,
        f"const X = {as_json(X)}, W = {as_json(W)};\n{read_asset('einsum_letters.js')}",
        [
            Control("equation", "Equation", EQUATIONS, EQUATIONS[0]),
            Control("t", "Letter t", range(2), 0),
            Control("o", "Letter o", range(4), 2),
            Control("i", "Letter i", range(3), 0),
        ],
        title="What the letters of an einsum do",
        size=(380, 222),
        name="einsum-letters",
    )
