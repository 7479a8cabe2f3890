"""Reference lines for training: what counting alone achieves on the held-out plays.

    python experiments/ngram_baselines.py

A tokenizer of 4,096 ids is trained on 34 plays; uniform, unigram, bigram and interpolated Kneser-Ney models
are counted on the same plays and scored on the 4 held-out ones. Half a minute on one core; writes
experiments/results/ngram_baselines.json and prints it.

Interpolated Kneser-Ney (Kneser and Ney 1995; in this form Chen and Goodman 1998, TR-10-98):

    p(w | u..v) = max(c(u..v w) - D, 0) / c(u..v) + D · n(u..v) / c(u..v) · p(w | ..v)

c counts n-grams at the highest order; below, c(v w) is the number of different tokens seen before "v w".
c(u..v) is the sum of c(u..v w) over w, and n(u..v) the number of different w in it, so that what D takes
from each of them is what the shorter context may distribute. Each order has its own D = n1 / (n1 + 2 n2),
where n1 and n2 n-grams have count 1 and 2 (Ney, Essen and Kneser 1994). Below the empty context lies the
uniform distribution. A context never seen leaves everything to the shorter one.
"""

import json
import math
from pathlib import Path

import numpy as np

from minillama import assets
from minillama.data import encode_documents, shakespeare_plays, split_by_play
from minillama.tokenizer import Tokenizer
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "ngram_baselines.json"
V = 4096
ORDERS = (2, 3, 4, 5)  # V^5 = 2^60: an n-gram of up to 5 tokens is one int64, its tokens the digits in base V
CHECKED = 300  # contexts whose V probabilities are added up, for each model


def ngrams(tokens: np.ndarray, order: int) -> np.ndarray:
    """(N - order + 1,) int64: every n-gram of the text, in order, as one number."""
    n = len(tokens) - order + 1
    keys = np.zeros(n, np.int64)
    for i in range(order):
        keys = keys * V + tokens[i : i + n]
    return keys


def look_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """values[i] where keys[i] (sorted) is the wanted key, 0 where none is."""
    i = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[i] == wanted, values[i], 0)


class AddOne:
    """Every n-gram counted once more than it was seen. At order 1 the context is empty."""

    def __init__(self, tokens: np.ndarray, order: int) -> None:
        self.order = order
        self.keys, self.counts = np.unique(ngrams(tokens, order), return_counts=True)
        self.contexts, first = np.unique(self.keys // V, return_index=True)
        self.totals = np.add.reduceat(self.counts, first)

    def probability(self, keys: np.ndarray) -> np.ndarray:
        return (look_up(self.keys, self.counts, keys) + 1) / (
            look_up(self.contexts, self.totals, keys // V) + V
        )


class KneserNey:
    def __init__(self, tokens: np.ndarray, order: int) -> None:
        self.order = order
        self.levels, self.discounts = {}, {}
        keys, counts = np.unique(ngrams(tokens, order), return_counts=True)
        for k in range(order, 0, -1):
            n1, n2 = (counts == 1).sum(), (counts == 2).sum()
            self.discounts[k] = n1 / (n1 + 2 * n2)
            assert 0 < self.discounts[k] < 1
            contexts, first, types = np.unique(keys // V, return_index=True, return_counts=True)
            self.levels[k] = keys, counts, contexts, np.add.reduceat(counts, first), types
            # One order down, an n-gram counts the different tokens seen before it.
            keys, counts = np.unique(keys % V ** (k - 1), return_counts=True)

    def probability(self, keys: np.ndarray) -> np.ndarray:
        """Of the last token of each n-gram after the others."""
        p = np.full(len(keys), 1 / V)
        for k in range(1, self.order + 1):
            known, counts, contexts, totals, types = self.levels[k]
            gram, d = keys % V**k, self.discounts[k]
            total = look_up(contexts, totals, gram // V)
            kept = np.maximum(look_up(known, counts, gram) - d, 0)
            passed_on = d * look_up(contexts, types, gram // V)
            p = np.where(total > 0, (kept + passed_on * p) / np.maximum(total, 1), p)
        return p


def sums_to_one(model, held_out: np.ndarray) -> float:
    """The largest |sum of p over the vocabulary - 1|, over contexts of the held-out text and random ones."""
    rng = np.random.default_rng(0)
    read = rng.choice(ngrams(held_out, model.order), CHECKED // 2) // V
    invented = rng.integers(V ** (model.order - 1), size=CHECKED // 2)
    worst = max(
        abs(model.probability(context * V + np.arange(V)).sum() - 1)
        for context in np.concatenate([read, invented])
    )
    assert worst < 1e-9, worst
    return float(worst)


def main() -> None:
    training, validation = split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    tokenizer = Tokenizer.train((text for _, text in training), V)
    assert tokenizer.vocab_size == V
    seen, held_out = (
        np.concatenate(list(encode_documents((text for _, text in plays), tokenizer))).astype(np.int64)
        for plays in (training, validation)
    )
    # Every model is scored on the same tokens: those that have the longest context before them. The end of a
    # play is one of them, and has no bytes.
    longest = max(ORDERS)
    targets = held_out[longest - 1 :]
    n_bytes = sum(len(tokenizer.token_bytes(i)) for i in targets if i != tokenizer.eos_id)

    def losses(nats: float) -> dict:
        per_byte = nats * len(targets) / math.log(2) / n_bytes
        return {"nats_per_token": round(nats, 4), "bits_per_byte": round(per_byte, 4)}

    def score(model) -> dict:
        sums_to_one(model, held_out)
        keys = ngrams(held_out, model.order)[longest - model.order :]
        return losses(-np.log(model.probability(keys)).mean())

    result = {
        "what": "loss on the held-out plays; smoothing as in the script",
        "vocab_size": V,
        "tokenizer_sha256": tokenizer.sha256,
        "held_out": [title for title, _ in validation],
        "training_tokens": len(seen),
        "held_out_tokens": len(held_out),
        "scored_tokens": len(targets),
        "scored_bytes": n_bytes,
        "uniform": losses(math.log(V)),
        "unigram_add_one": score(AddOne(seen, 1)),
        "bigram_add_one": score(AddOne(seen, 2)),
        "kneser_ney": {},
    }
    for order in ORDERS:
        model = KneserNey(seen, order)
        discounts = [round(float(model.discounts[k]), 4) for k in range(1, order + 1)]
        result["kneser_ney"][order] = score(model) | {"discounts": discounts}
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    record(RESULT, text)


if __name__ == "__main__":
    main()
