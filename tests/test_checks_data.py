"""Checkers of chapter 11: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import numpy as np
import pytest
import torch

from minillama import checks
from minillama.checks import data

INPUTS = {data.visits: 6, data.hold_back: 20, data.fewest: 9}
NUMBER = {check: number for number, check in enumerate(INPUTS, 1)}


def visits(n, t):
    return [max(0, min(i, n - t - 1) - max(0, i - t + 1) + 1) for i in range(n)]


def by_walking(n, t, starts=0, length=0, shift=0):
    counts = [0] * n
    for start in range(n - t + starts):
        for i in range(start + shift, min(n, start + shift + t + length)):
            counts[i] += 1
    return counts


def by_numpy(n, t):
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(n - 1), t)
    return np.bincount(windows.ravel(), minlength=n)


def hold_back(text):
    for there in range(1, min(4, len(text)) + 1):
        byte = text[-there]
        if 0x80 <= byte < 0xC0:
            continue
        wanted = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
        return there if there < wanted else 0
    return 0


def by_decoding(text):
    for k in range(4):
        try:
            text[: len(text) - k].decode()
            return k
        except UnicodeDecodeError:
            pass


def fewest(text, pieces):
    best = [0]
    for end in range(1, len(text) + 1):
        best.append(1 + min(best[k] for k in range(end) if text[k:end] in pieces))
    return best[-1]


def forwards(text, pieces):
    best = [0] + [len(text)] * len(text)
    for k in range(len(text)):
        for piece in pieces:
            if text.startswith(piece, k):
                best[k + len(piece)] = min(best[k + len(piece)], best[k] + 1)
    return best[len(text)]


RIGHT = [
    (data.visits, visits),
    (data.visits, by_walking),
    (data.visits, by_numpy),
    (data.visits, lambda n, t: torch.tensor(visits(n, t))),
    (data.hold_back, hold_back),
    (data.hold_back, by_decoding),
    (data.fewest, fewest),
    (data.fewest, forwards),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: right on all {INPUTS[check]} inputs.\n"
    assert result.name == f"data.{check.__name__}"


@pytest.mark.parametrize("check", INPUTS)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, capsys):
    assert check(stub).status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: not attempted yet.\n"


def followers(text):
    count = 0
    while hold_back(text) and 0x80 <= text[len(text) - 1 - count] < 0xC0:
        count += 1
    return count


def missing(text):
    k = hold_back(text)
    return 0 if k == 0 else {0xC: 2, 0xD: 2, 0xE: 3, 0xF: 4}[text[-k] >> 4] - k


def last_character(text):
    return len(text[max(i for i in range(len(text)) if not 0x80 <= text[i] < 0xC0) :]) if text else 0


def greedy(text, pieces):
    count = 0
    while text:
        text = text[max(k for k in range(1, len(text) + 1) if text[:k] in pieces) :]
        count += 1
    return count


def greedy_right(text, pieces):
    return greedy(text[::-1], {piece[::-1] for piece in pieces})


def longest_anywhere(text, pieces):
    count = 0
    for piece in sorted(pieces, key=len, reverse=True):
        count += text.count(piece)
        text = text.replace(piece, b"\0")
    return count


def recursive(text, pieces):
    if not text:
        return 0
    return 1 + min(recursive(text[k:], pieces) for k in range(1, len(text) + 1) if text[:k] in pieces)


def lowest(text, pieces):
    return 0 if not text else 1


WRONG = [
    (data.visits, lambda n, t: by_walking(n, t, starts=1), data.ONE_MORE),
    (data.visits, lambda n, t: by_walking(n, t, starts=-1), data.ONE_LESS),
    (data.visits, lambda n, t: by_walking(n, t, shift=1), data.TARGETS),
    (data.visits, lambda n, t: by_walking(n, t, length=1), data.BOTH),
    (data.visits, lambda n, t: [int(i < n - t) for i in range(n)], data.STARTS),
    (data.visits, lambda n, t: [t] * n, "Which starts are there?"),
    (data.visits, lambda n, t: visits(n, t)[:-1], "Return a list with one count for each token."),
    (data.hold_back, last_character, data.COMPLETE),
    (data.hold_back, missing, data.MISSING),
    (data.hold_back, lambda text: max(followers(text), min(1, hold_back(text))), data.FOLLOWERS),
    (data.hold_back, lambda text: len(text) if hold_back(text) else 0, data.EVERYTHING),
    (
        data.hold_back,
        lambda text: hold_back(text) and len(text.decode(errors="ignore")),
        data.CHARACTERS,
    ),
    (data.hold_back, lambda text: 0, data.FIRST),
    (data.hold_back, lambda text: 4 if hold_back(text) else 0, "Look at the last four bytes"),
    (data.hold_back, lambda text: bool(hold_back(text)), "Return a number of bytes."),
    (data.fewest, greedy, data.GREEDY),
    (data.fewest, greedy_right, data.GREEDY_RIGHT),
    (data.fewest, longest_anywhere, data.ANYWHERE),
    (data.fewest, lambda text, pieces: len(text), data.BYTES),
    (data.fewest, lambda text, pieces: [text], data.LIST),
    (data.fewest, lowest, "So few cannot do"),
    (data.fewest, lambda text, pieces: 2 + len(text), "For each end, try every piece"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG
    assert " ".join(hint.split()) in " ".join(result.message.split()), result.message
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
