"""Checkers of the exercises on data: windows, half characters, the fewest tokens."""

from .machinery import Attempt, checker, show

ONE_MORE = "One start too many: a window needs its T inputs and one token more, for the last target."
ONE_LESS = "One start too few: the last window ends with the last token of the text, as a target."
TARGETS = "These are the visits as a target. The inputs are the window without its last token."
BOTH = "These are the windows' T + 1 tokens. The last of them is a target only; count the inputs."
STARTS = "That is how often each place is a start. A window from there visits T tokens."

COMPLETE = "The last character is complete: nothing has to wait."
MISSING = "That many bytes are still to come. Wanted is how many of those that are here have to wait."
FIRST = "Something has to wait here: the byte that starts an unfinished character, and its followers."
FOLLOWERS = "Only following bytes were counted. The byte that starts the character has to wait, too."
EVERYTHING = "All of it waits here. Only the bytes of the last, unfinished character have to."
CHARACTERS = "That is the number of complete characters; wanted is the number of bytes that wait."

GREEDY = "That takes the longest piece first, from the left. A shorter one may lead to fewer in all."
GREEDY_RIGHT = "That takes the longest piece first, from the right. A shorter one may lead to fewer in all."
ANYWHERE = "That places the longest piece first, wherever it fits. It may tear apart two that would do."
BYTES = "That is the number of bytes. Longer pieces save tokens."
LIST = "That seems to be the tokens themselves: return how many there are."


def _visits(n: int, starts: int, length: int, shift: int = 0) -> list[int]:
    counts = [0] * n
    for start in range(starts):
        for i in range(start + shift, min(start + shift + length, n)):
            counts[i] += 1
    return counts


@checker("data.visits", 1)
def visits(attempt: Attempt) -> None:
    """`fn(n_tokens, seq_len)` lists, for each token, how many of the windows have it among their inputs."""
    for n, t in [(10, 4), (5, 4), (9, 1), (12, 3), (2, 1), (7, 5)]:
        got = attempt(n_tokens=n, seq_len=t)
        expected = _visits(n, n - t, t)
        if hasattr(got, "tolist"):
            got = got.tolist()
        if not isinstance(got, list | tuple) or len(got) != n:
            attempt.fail(show(expected, 12), show(got, 12), "Return a list with one count for each token.")
        got = list(got)
        wrong = [
            (_visits(n, n - t + 1, t), ONE_MORE),
            (_visits(n, n - t - 1, t), ONE_LESS),
            (_visits(n, n - t, t, 1), TARGETS),
            (_visits(n, n - t, t + 1), BOTH),
            (_visits(n, n - t, 1), STARTS),
        ]
        if got != expected:
            hint = "Which starts are there? Which T tokens does a window from start s give to the model?"
            for value, its_hint in wrong:
                if got == value != expected:
                    hint = its_hint
                    break
            attempt.fail(show(expected, 12), show(got, 12), hint)


@checker("data.hold_back", 2)
def hold_back(attempt: Attempt) -> None:
    """`fn(data)` is how many bytes at the end of `data` begin a character that is not complete yet."""
    texts = ["love, é", "音乐", "🎵", "a🎵", "", "food", "né", "ß🎵音"]
    cases = [(text.encode()[:keep], text) for text in texts for keep in _ends(text)]
    for data, text in cases:
        got = attempt(data=data)
        decoded = data.decode(errors="ignore")
        expected = len(data) - len(decoded.encode())
        if isinstance(got, bool) or not isinstance(got, int):
            attempt.fail(str(expected), show(got), "Return a number of bytes.")
        if got == expected:
            continue
        hint = "Look at the last four bytes at most: which of them starts a character, and how long is that?"
        last = len(text[len(decoded) - (expected == 0) :][:1].encode())
        followers = sum(1 for byte in data[len(data) - expected :] if byte & 0xC0 == 0x80)
        if expected == 0:
            hint = COMPLETE
        elif got == 0:
            hint = FIRST
        elif got == followers:
            hint = FOLLOWERS
        elif got == last - expected:
            hint = MISSING
        elif got == len(data):
            hint = EVERYTHING
        elif got == len(decoded):
            hint = CHARACTERS
        attempt.fail(str(expected), str(got), hint)


def _ends(text: str) -> list[int]:
    """The whole text, then every place inside its last character, the first byte before the others."""
    whole, last = len(text.encode()), len(text[-1:].encode())
    return [whole, *(whole - k for k in range(last - 1, 0, -1))]


def _greedy(data, pieces) -> int:
    count = i = 0
    while i < len(data):
        i += max(k for k in range(1, len(data) - i + 1) if data[i : i + k] in pieces)
        count += 1
    return count


def _longest_anywhere(data, pieces) -> int:
    parts, count = [data], 0
    for piece in sorted(pieces, key=lambda each: (-len(each), each)):
        cut = [part.split(piece) for part in parts]
        count += sum(len(each) - 1 for each in cut)
        parts = [part for each in cut for part in each if part]
    return count


def _fewest(data, pieces) -> int:
    best = [0]
    for end in range(1, len(data) + 1):
        best.append(1 + min(best[start] for start in range(end) if data[start:end] in pieces))
    return best[-1]


@checker("data.fewest", 3)
def fewest(attempt: Attempt) -> None:
    """`fn(data, pieces)` is the least number of `pieces` whose concatenation is `data`."""
    letters = [bytes([i]) for i in range(97, 123)]
    cases = [
        (
            b"abcdefg",
            {*letters, b"ab", b"abc", b"cdefg", b"fg"},
        ),  # right 2; from the left 4; from the right 2
        (b"abcde", {*letters, b"abc", b"cde", b"bcde", b"ab", b"de"}),
        (b"abcdef", {*letters, b"abcd", b"ef", b"def"}),  # 2; longest first from the right: 4
        (b"abcdefg", {*letters, b"bcdef", b"abc", b"defg"}),  # 2; longest first, anywhere: 3
        (b"xyzxy", {*letters, b"xyz", b"zxy", b"xy", b"yzxy"}),
        (b"abab", {*letters, b"abab"}),
        (b"q", set(letters)),
        (b"", set(letters)),
        (b"ab" * 30, {*letters, b"ab", b"ba", b"aba"}),
    ]
    slow = "There are too many ways to try them all. Build up: the fewest for each beginning of the text."
    for data, pieces in cases:
        got = attempt(data=data, pieces=pieces, on_error={RecursionError: slow})
        expected = _fewest(data, pieces)
        if isinstance(got, list | tuple):
            attempt.fail(str(expected), show(list(got)), LIST)
        if isinstance(got, bool) or not isinstance(got, int):
            attempt.fail(str(expected), show(got), "Return a whole number.")
        reversed_pieces = {piece[::-1] for piece in pieces}
        wrong = [
            (_greedy(data, pieces), GREEDY),
            (_greedy(data[::-1], reversed_pieces), GREEDY_RIGHT),
            (_longest_anywhere(data, pieces), ANYWHERE),
            (len(data), BYTES),
        ]
        hint = "For each end, try every piece that ends there: one more than the fewest for the rest."
        if got < expected:
            hint = "So few cannot do: each piece used must be in the set, and every byte belongs to one."
        attempt.match(got, expected, lambda a, b: a == b, wrong=wrong, hint=hint)
