"""The plays of `ngram_baselines.py` once more, counted by bytes instead of tokens.

    python experiments/loss_per_byte.py

The same 34 plays are counted and the same bytes of the 4 held-out plays are scored, so that losses per byte
can be compared with losses per token: both models give a probability to the same text. Uniform, unigram and
bigram with one added to every count, and interpolated Kneser-Ney of orders 3, 5 and 7. The end of a play is
no byte and not predicted here. Half a minute on one core; writes experiments/results/loss_per_byte.json.
"""

import json
import math
from pathlib import Path

import ngram_baselines as counting
import numpy as np

from minillama import assets
from minillama.data import shakespeare_plays, split_by_play
from minillama.viz.results import record, recorded

RESULT = Path(__file__).resolve().parent / "results" / "loss_per_byte.json"
V = 256
ORDERS = (3, 5, 7)  # 256^7 = 2^56: an n-gram of up to 7 bytes is one int64
counting.V = V  # its models count in this base


def main() -> None:
    training, validation = split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    seen, held_out = (
        np.frombuffer("".join(text for _, text in plays).encode(), np.uint8).astype(np.int64)
        for plays in (training, validation)
    )
    by_tokens = recorded("ngram_baselines")
    assert [title for title, _ in validation] == by_tokens["held_out"]
    n_bytes = by_tokens[
        "scored_bytes"
    ]  # the last ones: the token models start a few bytes into the first play

    def losses(nats: float) -> dict:
        return {"nats_per_byte": round(nats, 4), "bits_per_byte": round(nats / math.log(2), 4)}

    def score(model) -> dict:
        counting.sums_to_one(model, held_out)
        return losses(-np.log(model.probability(counting.ngrams(held_out, model.order)[-n_bytes:])).mean())

    result = {
        "what": "loss on the held-out plays, by bytes; models as in ngram_baselines.py",
        "training_bytes": len(seen),
        "held_out_bytes": len(held_out),
        "scored_bytes": n_bytes,
        "uniform": losses(math.log(V)),
        "unigram_add_one": score(counting.AddOne(seen, 1)),
        "bigram_add_one": score(counting.AddOne(seen, 2)),
        "kneser_ney": {order: score(counting.KneserNey(seen, order)) for order in ORDERS},
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    record(RESULT, text)


if __name__ == "__main__":
    main()
