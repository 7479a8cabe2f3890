"""Checkers of the exercises on data: bits per byte, windows, half characters, the fewest tokens."""

import math

import torch

from .machinery import Attempt, checker, close, show

NATS = "That is nats per byte. A bit is ln 2 nats: divide by math.log(2)."
TIMES = "Multiplied by ln 2: a loss counts more bits than nats, since a bit is the smaller unit. Divide."
PER_TOKEN = "That is bits per token. Spread them over the bytes: times n_tokens, divided by n_bytes."
UPSIDE = "The ratio stands upside down: all tokens together cost nats · n_tokens; divide that by n_bytes."
ROUNDED = "Nearly, but rounded. Return the number as it comes out."

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
BYTES = "That is the number of bytes. Longer pieces save tokens."
LIST = "That seems to be the tokens themselves: return how many there are."


@checker("data.bits_per_byte", 1)
def bits_per_byte(attempt: Attempt) -> None:
    """`fn(nats_per_token, n_tokens, n_bytes)` is the same loss in bits per byte of text."""
    for nats, n_tokens, n_bytes in [(4.0, 100, 340), (5.5, 37, 37), (1.25, 2_000, 9_001), (0.0, 7, 20)]:
        got = attempt(nats_per_token=nats, n_tokens=n_tokens, n_bytes=n_bytes)
        bits, ratio = nats / math.log(2), n_tokens / n_bytes
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, int | float) or isinstance(got, bool):
            attempt.fail(show(bits * ratio), show(got), "Return one number.")
        wrong = [
            (nats * ratio, NATS),
            (bits, PER_TOKEN),
            (bits / ratio, UPSIDE),
            (nats / ratio, UPSIDE),
            (nats * math.log(2) * ratio, TIMES),
            (round(bits * ratio, 2), ROUNDED),
            (round(bits * ratio, 3), ROUNDED),
        ]
        hint = "All tokens together cost nats_per_token · n_tokens nats. In bits? And for each byte?"
        attempt.match(got, bits * ratio, lambda a, b: close(a, b, 1e-6), wrong=wrong, hint=hint)


def _visits(n: int, starts: int, length: int, shift: int = 0) -> list[int]:
    counts = [0] * n
    for start in range(starts):
        for i in range(start + shift, min(start + shift + length, n)):
            counts[i] += 1
    return counts


@checker("data.visits", 2)
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


@checker("data.hold_back", 3)
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


def _fewest(data, pieces) -> int:
    best = [0]
    for end in range(1, len(data) + 1):
        best.append(1 + min(best[start] for start in range(end) if data[start:end] in pieces))
    return best[-1]


@checker("data.fewest", 4)
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
            (len(data), BYTES),
        ]
        hint = "For each end, try every piece that ends there: one more than the fewest for the rest."
        if got < expected:
            hint = "So few cannot do: each piece used must be in the set, and every byte belongs to one."
        attempt.match(got, expected, lambda a, b: a == b, wrong=wrong, hint=hint)
