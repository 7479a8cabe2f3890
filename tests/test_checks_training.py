"""Checkers of chapter 12: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from minillama import checks
from minillama.checks import training

ALL = [training.unigram, training.starts, training.factors, training.ring]


# -- answers -----------------------------------------------------------------------------------------------


def line(train, held_out, vocab_size, add=1, size=None, log=math.log, mean=True, sign=-1):
    counts, total = Counter(train), len(train) + (vocab_size if size is None else size)
    nats = sum(log((counts[t] + add) / total) for t in held_out)
    return sign * nats / (len(held_out) if mean else 1)


def by_bincount(train, held_out, vocab_size):
    counts = torch.bincount(torch.tensor(train), minlength=vocab_size).double() + 1
    return -(counts / counts.sum()).log()[torch.tensor(held_out)].mean()  # a 0-d tensor


def by_numpy(train, held_out, vocab_size, add=1):
    counts = np.bincount(train, minlength=vocab_size) + add
    with np.errstate(divide="ignore"):
        return -np.log(counts / counts.sum())[held_out].mean()


def drawn(number, batch_size, n_starts, low=0):
    generator = torch.Generator().manual_seed(int(number))
    return torch.randint(low, n_starts, (batch_size,), generator=generator)


def mixed(seed, step, batch_size, n_starts, **more):
    return drawn(np.random.SeedSequence([seed, step]).generate_state(1)[0], batch_size, n_starts, **more)


def by_words(seed, step, batch_size, n_starts):
    return drawn(hash((seed, step)) % 2**32, batch_size, n_starts)


def by_numpy_generator(seed, step, batch_size, n_starts):
    return torch.from_numpy(np.random.default_rng([seed, step]).integers(0, n_starts, batch_size))


def from_global(seed, step, batch_size, n_starts):
    torch.manual_seed(seed * 1009 + step)
    return torch.randint(n_starts, (batch_size,))


def remembered():
    generator = torch.Generator().manual_seed(0)
    return lambda seed, step, batch_size, n_starts: torch.randint(
        n_starts, (batch_size,), generator=generator
    )


def shares(valid):
    return [len(valid) * n / sum(valid) for n in valid]


def schedule(world, add=lambda r, k, w: (r - k) % w, spread=lambda r, k, w: (r + 1 - k) % w):
    first = [[add(r, k, world) for r in range(world)] for k in range(world - 1)]
    return first + [[spread(r, k, world) for r in range(world)] for k in range(world - 1)]


RIGHT = [
    (training.unigram, line),
    (training.unigram, by_bincount),
    (training.unigram, by_numpy),
    (training.starts, mixed),
    (training.starts, by_words),
    (training.starts, by_numpy_generator),
    (training.factors, shares),
    (training.factors, lambda valid: torch.tensor(valid) * len(valid) / sum(valid)),
    (training.factors, lambda valid: tuple(n / (sum(valid) / len(valid)) for n in valid)),
    (training.ring, schedule),
    # another start: rank r begins with piece r + 2
    (
        training.ring,
        lambda world: schedule(world, lambda r, k, w: (r + 2 - k) % w, lambda r, k, w: (r + 3 - k) % w),
    ),
    (training.ring, lambda world: tuple(tuple(row) for row in schedule(world))),
]

WRONG = [
    (training.unigram, lambda t, h, v: line(h, h, v), training.HELD_COUNTS),
    (training.unigram, lambda t, h, v: line(h, h, v, 0, 0), training.HELD_COUNTS),
    (training.unigram, lambda t, h, v: line(t, h, v, 0, 0), training.UNSEEN),
    (training.unigram, lambda t, h, v: by_numpy(t, h, v, add=0), training.UNSEEN),
    (training.unigram, lambda t, h, v: -sum(math.log(max(t.count(x), 1) / len(t)) for x in h) / len(h),
     training.UNSEEN_ONLY),
    (training.unigram, lambda t, h, v: line(t, h, v, size=0), training.NO_SIZE),
    (training.unigram, lambda t, h, v: line(t, h, v, size=1), training.NO_SIZE),
    (training.unigram, lambda t, h, v: line(t, h, v, log=math.log2), training.BITS),
    (training.unigram, lambda t, h, v: line(t, h, v, mean=False), training.SUMMED),
    (training.unigram, lambda t, h, v: line(t, h, v, sign=1), training.SIGN),
    (training.unigram, lambda t, h, v: line(t, t, v), training.OWN_LOSS),
    (training.unigram, lambda t, h, v: line(t, list(range(v)), v), training.ENTROPY),
    (training.unigram, lambda t, h, v: [1.0], "Return one number"),
    (training.starts, lambda s, k, b, n: drawn(s + k, b, n), "draws the batch of seed"),
    (training.starts, lambda s, k, b, n: drawn(1000 * s + k, b, n), "draws the batch of seed"),
    (training.starts, lambda s, k, b, n: drawn(10**5 * s + k, b, n), "draws the batch of seed"),
    (training.starts, lambda s, k, b, n: drawn(int(f"{s}{k}"), b, n), "draws the batch of seed"),
    (training.starts, lambda s, k, b, n: drawn(s, b, n), training.STEPS_SAME),
    (training.starts, lambda s, k, b, n: drawn(k, b, n), training.SEEDS_SAME),
    (training.starts, from_global, training.GLOBAL),
    (training.starts, remembered(), training.OTHER_SAME),
    (training.starts, lambda s, k, b, n: (s + k + torch.arange(b)) % n, training.NOT_RANDOM),
    (training.starts, lambda s, k, b, n: mixed(s, k, b, n + 3 * n), training.RANGE),
    (training.starts, lambda s, k, b, n: mixed(s, k, b, n - 1), training.LAST),
    (training.starts, lambda s, k, b, n: drawn(s * 10**9 + k, b, n), training.LOW_BITS),
    (training.starts, lambda s, k, b, n: mixed(s, k, b, n).tolist(), "as a tensor"),
    (training.factors, lambda v: [1.0] * len(v), training.MEANS),
    (training.factors, lambda v: [1 / len(v)] * len(v), training.MEANS),
    (training.factors, lambda v: [n / sum(v) for n in v], training.NO_WORLD),
    (training.factors, lambda v: v[:], training.COUNTS),
    (training.factors, lambda v: [sum(v) / n for n in v if n], training.INVERSE),
    (training.factors, lambda v: [1 / (sum(v) / n / len(v)) for n in v], "do not divide by its own number"),
    (training.factors, lambda v: [n / max(v) for n in v], "Solve for the factor"),
    (training.factors, lambda v: shares(v)[:-1] or [1.0, 1.0], "one number for each rank"),
    (training.factors, lambda v: 1.0, "a list"),
    (training.ring, lambda w: schedule(w)[: w - 1], training.ROUNDS),
    (training.ring, lambda w: [[r + k for r in range(w)] for k in range(2 * (w - 1))], training.CHUNK),
    (training.ring, lambda w: [[0] * (w + 1)] * (2 * (w - 1)), "one piece for each rank"),
    (training.ring, lambda w: [[k % w] * w for k in range(2 * (w - 1))], training.SAME_PIECE),
    (training.ring, lambda w: schedule(w, lambda r, k, w: (r + k) % w), training.MISSING),
    (training.ring, lambda w: schedule(w, lambda r, k, w: r), training.TWICE),
    (training.ring, lambda w: schedule(w, spread=lambda r, k, w: (r - k) % w), training.STALE),
]  # fmt: skip


@pytest.mark.parametrize("check", ALL)
def test_a_stub_is_not_attempted(check, capsys):
    assert check(lambda *_: None).status == checks.NOT_ATTEMPTED
    assert "not attempted yet" in capsys.readouterr().out


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_right_answers_pass(check, answer, capsys):
    assert check(answer), capsys.readouterr().out


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG
    told = " ".join(result.message.split())
    for part in hint.replace("{", "\0").replace("}", "\0").split("\0")[::2]:
        assert " ".join(part.split()) in told, told
    assert all(len(row) <= 60 for row in result.message.splitlines())
