"""The reference lines of the training chapter: Kneser-Ney against its definition; the recorded numbers."""

import importlib.util
import random
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from minillama.viz.results import recorded

SCRIPT = Path(__file__).resolve().parents[1] / "experiments" / "ngram_baselines.py"
V = 7


@pytest.fixture
def baselines(monkeypatch):
    spec = importlib.util.spec_from_file_location("ngram_baselines", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "V", V)
    return module


def by_definition(text, order):
    """p(last token | the others) of an n-gram, with a dictionary for every count of the formula."""
    counts = {order: Counter(tuple(text[i : i + order]) for i in range(len(text) - order + 1))}
    for k in range(order - 1, 0, -1):
        before = defaultdict(set)
        for token, *rest in counts[k + 1]:
            before[tuple(rest)].add(token)
        counts[k] = Counter({gram: len(tokens) for gram, tokens in before.items()})
    n1, n2 = ({k: list(c.values()).count(n) for k, c in counts.items()} for n in (1, 2))

    def p(gram):
        if not gram:
            return 1 / V
        k, shorter = len(gram), p(gram[1:])
        after = {seen[-1]: count for seen, count in counts[k].items() if seen[:-1] == gram[:-1]}
        if not after:
            return shorter
        d, total = n1[k] / (n1[k] + 2 * n2[k]), sum(after.values())
        return max(after.get(gram[-1], 0) - d, 0) / total + d * len(after) / total * shorter

    return p


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kneser_ney_is_its_definition(baselines, order):
    # A text in which some n-grams of every order have count 1 and some 2: each discount is within (0, 1).
    rng = random.Random(0)
    text = [min(int(rng.expovariate(0.5)), V - 1) for _ in range(60)]
    model, p = baselines.KneserNey(np.array(text), order), by_definition(text, order)
    grams = [tuple(rng.randrange(V) for _ in range(order)) for _ in range(300)]
    keys = np.array([sum(token * V**i for i, token in enumerate(reversed(gram))) for gram in grams])
    assert np.allclose(model.probability(keys), [p(gram) for gram in grams], rtol=1e-12, atol=0)
    assert baselines.sums_to_one(model, np.array(text)) < 1e-12


def test_add_one_by_hand(baselines):
    text = np.array([0, 1, 0, 1, 2])
    assert np.allclose(
        baselines.AddOne(text, 1).probability(np.array([0, 1, 2, 3])), np.array([3, 3, 2, 1]) / 12
    )
    after_0, after_2 = np.arange(V), 2 * V + np.arange(V)
    model = baselines.AddOne(text, 2)
    assert np.allclose(model.probability(after_0), np.array([1, 3, 1, 1, 1, 1, 1]) / 9)
    assert np.allclose(model.probability(after_2), 1 / V)  # 2 was never followed by anything
    assert baselines.sums_to_one(model, text) < 1e-12


def test_the_recorded_lines_are_in_order():
    result = recorded("ngram_baselines")
    lines = [result["uniform"], result["unigram_add_one"], result["bigram_add_one"]]
    lines += [result["kneser_ney"][order] for order in "23"]
    losses = [line["nats_per_token"] for line in lines]
    assert losses == sorted(losses, reverse=True) and losses[0] == round(np.log(4096), 4)
    for line in lines:  # both units say the same
        bits = line["nats_per_token"] / np.log(2) * result["scored_tokens"] / result["scored_bytes"]
        assert abs(bits - line["bits_per_byte"]) < 1e-4
