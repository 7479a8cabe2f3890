"""How much of a validation loss is where the text was cut: whole plays held out, or parts of every play.

    python experiments/held_out_plays.py

What a split reports: three ways to hold out about a ninth of Shakespeare's plays (four whole plays; the last
part of every play; windows of 64 tokens at random), each scored with interpolated Kneser-Ney models of the
rest, and the share of held-out 8-grams that occur in the training part.

What knowing the rest of a play is worth: the same held-out windows of the four plays are scored twice, by a
model of the other 34 plays, and by one that has also read the rest of the four, while as many tokens of the
34 were taken away: equal targets, equal amounts of training text. Five seeds draw the windows. The gap is
split between tokens of lines that are all capitals (names of speakers, headings) and the others.

The tokenizer is that of the book, learned from the 34 plays. A minute and a half on one core; writes
experiments/results/held_out_plays.json and prints it.
"""

import json
from pathlib import Path

import numpy as np
from ngram_baselines import KneserNey, V, ngrams

from minillama import assets
from minillama.data import shakespeare_plays, split_by_play
from minillama.tokenizer import Tokenizer
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "held_out_plays.json"
ORDERS = {"bigram": 2, "trigram": 3}
WINDOW, SEEDS = 64, 5


def capitals(text: str, ids: list[int], tokenizer: Tokenizer) -> np.ndarray:
    """(N,) bool: which tokens of a play, its end included, lie in a line that is all capitals."""
    lengths = [len(tokenizer.token_bytes(i)) for i in ids[:-1]]
    last = np.cumsum(lengths) - 1  # the byte where each token ends
    marks = np.concatenate(
        [np.full(len(line.encode()), line.isupper()) for line in text.splitlines(keepends=True)]
    )
    assert len(marks) == last[-1] + 1
    return np.append(marks[last], False)


def losses(training: list, pieces: list, order: int) -> list[np.ndarray]:
    """-ln p of each token that has `order - 1` tokens of its own piece before it."""
    model = KneserNey(np.concatenate(training), order)
    return [-np.log(model.probability(ngrams(piece, order))) for piece in pieces if len(piece) >= order]


def repeated(training: list, pieces: list, n: int = 8) -> float:
    """Share of the pieces' n-grams that occur in the training text."""

    def grams(tokens: np.ndarray) -> np.ndarray:
        rows = np.lib.stride_tricks.sliding_window_view(tokens.astype(np.uint16), n)
        return np.ascontiguousarray(rows).view(np.dtype((np.void, 2 * n))).ravel()

    known = np.unique(np.concatenate([grams(t) for t in training if len(t) >= n]))
    wanted = np.concatenate([grams(p) for p in pieces if len(p) >= n])
    return float(np.isin(wanted, known).mean())


def windows(tokens: np.ndarray) -> list[np.ndarray]:
    return [tokens[i : i + WINDOW] for i in range(0, len(tokens) - WINDOW + 1, WINDOW)]


def main() -> None:
    plays = shakespeare_plays(assets.fetch("shakespeare"))
    training, validation = split_by_play(plays)
    tokenizer = Tokenizer.train((text for _, text in training), V)
    ids = {title: [*tokenizer.encode(text), tokenizer.eos_id] for title, text in plays}
    shout = {title: capitals(text, ids[title], tokenizer) for title, text in plays}
    ids = {title: np.array(of) for title, of in ids.items()}
    held = [title for title, _ in validation]
    total = sum(map(len, ids.values()))
    share = sum(len(ids[title]) for title in held) / total

    rng = np.random.default_rng(0)
    cuts = {title: round(len(of) * (1 - share)) for title, of in ids.items()}
    pieces = windows(np.concatenate(list(ids.values())))
    drawn = rng.permutation(len(pieces)) < share * len(pieces)
    splits = {
        "four whole plays": (
            [of for title, of in ids.items() if title not in held],
            [ids[title] for title in held],
        ),
        "the end of every play": (
            [of[: cuts[title]] for title, of in ids.items()],
            [of[cuts[title] :] for title, of in ids.items()],
        ),
        "windows at random": (
            [piece for piece, out in zip(pieces, drawn, strict=True) if not out],
            [piece for piece, out in zip(pieces, drawn, strict=True) if out],
        ),
    }
    reported = {}
    for name, (seen, unseen) in splits.items():
        reported[name] = {
            "training_tokens": sum(map(len, seen)),
            "held_out_tokens": sum(map(len, unseen)),
            "repeated_8_grams": round(repeated(seen, unseen), 4),
            **{
                model: round(float(np.concatenate(losses(seen, unseen, order)).mean()), 3)
                for model, order in ORDERS.items()
            },
        }

    others = windows(np.concatenate([of for title, of in ids.items() if title not in held]))
    all_windows = [(title, k) for title in held for k in range(len(ids[title]) // WINDOW)]
    paired = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(all_windows))
        targets = [all_windows[i] for i in order[: len(order) // 10]]
        rest = [all_windows[i] for i in order[len(order) // 10 :]]

        def cut(places, of=ids):
            return [of[title][k * WINDOW : (k + 1) * WINDOW] for title, k in places]

        kept = [others[i] for i in rng.permutation(len(others))]
        row = {"seed": seed, "tokens": len(targets) * WINDOW}
        for model, n in ORDERS.items():
            loud = np.concatenate([marks[n - 1 :] for marks in cut(targets, shout)])
            row["share_of_capitals"] = round(float(loud.mean()), 3)
            for name, seen in (
                ("other plays", kept),
                ("the rest of the play, too", kept[: len(kept) - len(rest)] + cut(rest)),
            ):
                nats = np.concatenate(losses(seen, cut(targets), n))
                row.setdefault(model, {})[name] = {
                    "all": round(float(nats.mean()), 3),
                    "capitals": round(float(nats[loud].mean()), 3),
                    "speech": round(float(nats[~loud].mean()), 3),
                }
        paired.append(row)

    result = {
        "what": "nats per token of Kneser-Ney models; details in the script",
        "tokenizer_sha256": tokenizer.sha256,
        "held_out": held,
        "window": WINDOW,
        "reported": reported,
        "paired": paired,
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    record(RESULT, text)


if __name__ == "__main__":
    main()
