"""Checkers of chapter 8: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math

import pytest
import torch
from torch.nn import functional as F

from minillama import checks
from minillama.checks import cross_entropy as loss

INPUTS = {loss.corpus: 4, loss.targets: 5, loss.gradient: 5, loss.in_chunks: 7}
NUMBER = {check: number for number, check in enumerate(INPUTS, 1)}


# -- right answers ---------------------------------------------------------------------------------------


def flat(chunks):
    return [z for chunk in chunks for z in chunk]


def corpus(documents):
    return sum(x * n for x, n, _ in documents) / math.log(2) / sum(b for *_, b in documents)


def weighted_by_bytes(documents):
    size = sum(b for *_, b in documents)
    return sum(x * n / b / math.log(2) * b / size for x, n, b in documents)


def targets(ids, lengths):
    out = torch.full_like(ids, -100)
    for row, n in enumerate(lengths):
        out[row, : n - 1] = ids[row, 1:n]
    return out


def by_rolling(ids, lengths):
    inside = torch.arange(ids.shape[1]) < (lengths - 1)[:, None]
    return torch.where(inside, ids.roll(-1, 1), -100)


def gradient(logits, targets):
    valid = targets != -100
    y = F.one_hot(targets.clamp(min=0), logits.shape[1])
    return (logits.softmax(-1) - y) * valid[:, None] / max(1, valid.sum())


def in_place(logits, targets):
    grad, rows = logits.softmax(-1), (targets != -100).nonzero()[:, 0]
    grad[rows, targets[rows]] -= 1
    grad[targets == -100] = 0
    return grad / max(1, len(rows))


def in_chunks(chunks, target):
    top, total, score, start = -math.inf, 0.0, None, 0
    for chunk in chunks:
        for i, z in enumerate(chunk):
            if z > top:
                top, total = z, total * math.exp(top - z)
            total += math.exp(z - top)
            score = z if start + i == target else score
        start += len(chunk)
    return math.log(total) + top - score


def as_one(chunks, target):
    z = torch.tensor(flat(chunks), dtype=torch.float64)
    return z.logsumexp(0) - z[target]


def merged(chunks, target):
    lse = torch.stack([torch.tensor(c).logsumexp(0) for c in chunks]).logsumexp(0)
    return lse.item() - flat(chunks)[target]


RIGHT = [
    (loss.corpus, corpus),
    (loss.corpus, weighted_by_bytes),
    (loss.corpus, lambda d: torch.tensor(corpus(d), dtype=torch.float64)),
    (loss.targets, targets),
    (loss.targets, by_rolling),
    (loss.targets, lambda ids, lengths: targets(ids, lengths).int()),
    (loss.gradient, gradient),
    (loss.gradient, in_place),
    (loss.in_chunks, in_chunks),
    (loss.in_chunks, as_one),
    (loss.in_chunks, merged),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: right on all {INPUTS[check]} inputs.\n"
    assert result.name == f"cross_entropy.{check.__name__}"


@pytest.mark.parametrize("check", INPUTS)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, capsys):
    assert check(stub).status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: not attempted yet.\n"


# -- wrong answers ---------------------------------------------------------------------------------------


def own(documents):
    return [x * n / math.log(2) / b for x, n, b in documents]


def sizes(documents):
    return sum(b for *_, b in documents)


def nats(documents):
    return sum(x * n for x, n, _ in documents)


def all_tokens(documents):
    return sum(n for _, n, _ in documents)


def padded(ids, value=-100):
    return F.pad(ids[:, 1:], (0, 1), value=value)


def inside(ids, lengths, less=0):
    return torch.arange(ids.shape[1]) < (lengths - less)[:, None]


def y_of(logits, targets):
    return F.one_hot(targets.clamp(min=0), logits.shape[1])


def valid_of(targets):
    return (targets != -100)[:, None]


def count_of(targets):
    return max(1, int((targets != -100).sum()))


def by_autograd(logits, targets):
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(leaf, targets), leaf)[0]


def undefined(logits, targets):
    return gradient(logits, targets) * count_of(targets) / (targets != -100).sum()


def indexed(logits, targets):
    grad = logits.softmax(-1)
    grad[torch.arange(len(targets)), targets] -= 1
    return grad / len(targets)


def lse(numbers):
    return torch.tensor(numbers, dtype=torch.float64).logsumexp(0).item()


def score(chunks, target):
    return flat(chunks)[target]


def chunk_of(chunks, target):
    for chunk in chunks:
        if target < len(chunk):
            return chunk
        target -= len(chunk)


def unscaled(chunks, target):
    top, total = -math.inf, 0.0
    for chunk in chunks:
        top = max(top, *chunk)
        total += sum(math.exp(z - top) for z in chunk)
    return math.log(total) + top - score(chunks, target)


def naive(chunks, target):
    return math.log(sum(math.exp(z) for c in chunks for z in c)) - score(chunks, target)


def naive_tensors(chunks, target):
    return torch.tensor(flat(chunks)).exp().sum().log() - score(chunks, target)


WRONG = [
    (loss.corpus, lambda d: nats(d) / sizes(d), "Right, in nats"),
    (loss.corpus, lambda d: nats(d) * math.log(2) / sizes(d), "You multiplied by ln 2"),
    (loss.corpus, lambda d: nats(d) / math.log(2) / all_tokens(d), "bits per token"),
    (loss.corpus, lambda d: sum(own(d)) / len(d), "own values were averaged"),
    (
        loss.corpus,
        lambda d: sum(x[0] for x in d) / len(d) / math.log(2) * all_tokens(d) / sizes(d),
        "own values",
    ),
    (loss.corpus, lambda d: sum(x[0] for x in d) / len(d) / math.log(2) / sizes(d), "times its tokens"),
    (loss.corpus, lambda d: sizes(d) * math.log(2) / nats(d), "turn the fraction over"),
    (loss.corpus, lambda d: nats(d) / math.log(10) / sizes(d), "1 bit is ln 2"),
    (loss.corpus, lambda d: own(d), "Return one number"),
    (loss.corpus, lambda d: 3.0, "All nats of all documents"),
    (loss.targets, lambda ids, n: ids.clone(), "learns to copy"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n), ids, -100), "learns to copy"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n, 1), ids, -100), "learns to copy"),
    (loss.targets, lambda ids, n: padded(ids), "Padding is among the targets"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n), padded(ids), -100), "asked for the padding"),
    (loss.targets, lambda ids, n: ids.roll(-1, 1), "roll brings the first token round"),
    (loss.targets, lambda ids, n: ids.flatten().roll(-1).view_as(ids), "roll brings"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n), ids.roll(-1, 1), -100), "what roll put behind"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n), ids, -100).roll(-1, 1), "roll brings"),
    (loss.targets, lambda ids, n: ids.roll(1, 1), "They moved to the right"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n, 2), padded(padded(ids)), -100), "moved by two"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n, 2), padded(ids), -100), "a target any more"),
    (loss.targets, lambda ids, n: torch.where(inside(ids, n, 1), padded(ids), 0), "hold 0, which is a token"),
    (loss.targets, lambda ids, n: padded(torch.where(inside(ids, n), ids, -100), 0), "hold 0, which"),
    (loss.targets, lambda ids, n: torch.where(padded(ids) == 0, -100, padded(ids)), "because of its number"),
    (loss.targets, lambda ids, n: targets(ids, n)[:, :-1], "One column is missing"),
    (loss.targets, lambda ids, n: targets(ids, n).flatten(), "must have the shape of ids"),
    (loss.targets, lambda ids, n: targets(ids, n).float(), "Targets are integers"),
    (loss.targets, lambda ids, n: targets(ids, n).tolist(), "Return a tensor"),
    (loss.targets, lambda ids, n: torch.full_like(ids, -100), "Position t of a text"),
    (loss.gradient, by_autograd, "without autograd"),
    (loss.gradient, lambda z, w: gradient(z, w) * count_of(w), "gradient of the sum"),
    (loss.gradient, lambda z, w: gradient(z, w) * count_of(w) / len(w), "number of rows"),
    (loss.gradient, lambda z, w: -gradient(z, w), "sign is wrong"),
    (loss.gradient, lambda z, w: z.softmax(-1) * valid_of(w) / count_of(w), "1 must be subtracted"),
    (loss.gradient, lambda z, w: gradient(z, w) * y_of(z, w), "Only the target's column"),
    (loss.gradient, lambda z, w: (z.softmax(-1) - y_of(z, w)) / count_of(w), "used as an index, or clamped"),
    (loss.gradient, lambda z, w: (z.softmax(-1) - y_of(z, w)) / len(w), "used as an index, or clamped"),
    (
        loss.gradient,
        lambda z, w: (z.softmax(-1) - y_of(z, w) * valid_of(w)) / count_of(w),
        "its gradient is 0",
    ),
    (
        loss.gradient,
        lambda z, w: (z - y_of(z, w)) * valid_of(w) / count_of(w),
        "Scores are not probabilities",
    ),
    (loss.gradient, undefined, "0/0"),
    (loss.gradient, indexed, "−100 is no column"),
    (loss.gradient, lambda z, w: (z.softmax(-1) - F.one_hot(w, z.shape[1])) / len(w), "−100 is no column"),
    (loss.gradient, lambda z, w: gradient(z, w).sum(0), "The gradient has the shape of logits"),
    (loss.gradient, lambda z, w: 7 * gradient(z, w), "(softmax(logits) − one-hot)"),
    (loss.in_chunks, naive, "Something overflowed"),
    (loss.in_chunks, naive_tensors, "Something overflowed"),
    (loss.in_chunks, lambda c, w: score(c, w) - lse(flat(c)), "That is ln p"),
    (loss.in_chunks, lambda c, w: lse(flat(c)), "subtracts the target's score"),
    (loss.in_chunks, lambda c, w: lse(chunk_of(c, w)) - score(c, w), "the target's own chunk"),
    (loss.in_chunks, lambda c, w: lse(c[0]) - score(c, w), "Only the first chunk"),
    (loss.in_chunks, lambda c, w: lse(c[-1]) - score(c, w), "own chunk"),
    (loss.in_chunks, unscaled, "multiply it by exp(old − new)"),
    (loss.in_chunks, lambda c, w: sum(map(lse, c)) - score(c, w), "chunks' logarithms were added"),
    (loss.in_chunks, lambda c, w: max(flat(c)) - score(c, w), "compared with the largest"),
    (loss.in_chunks, lambda c, w: lse(flat(c)) - c[0][w], "counts over all chunks"),
    (loss.in_chunks, lambda c, w: [1.0], "Return one number"),
    (loss.in_chunks, lambda c, w: 0.5, "Keep the largest score and the sum"),
]


@pytest.mark.parametrize(("check", "answer", "words"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, words):
    result = check(answer)
    assert result.status == checks.WRONG
    assert words in " ".join(result.message.split()), result.message
