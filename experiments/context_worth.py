"""What each token of context is worth to the recorded small model, and to counting (chapter 12).

    pip install '.[text]' && python experiments/context_worth.py

The model of experiments/results/small_run/ predicts tokens of the held-out plays with exactly n tokens before
them and nothing else (n up to 8, in windows of 8; beyond, by position in windows of 256). A Kneser-Ney model
counted on the training plays (`ngram_baselines.py`) that looks at n tokens scores the same targets. In
training the network met a context of n tokens only once a window. So as a control it also reads windows of
32 tokens of which the last n are right and those before come from another place of the same plays.
About four minutes of one core; writes experiments/results/context_worth.json.
"""

import json
from pathlib import Path

import numpy as np
import torch
from ngram_baselines import KneserNey, ngrams

from minillama import assets
from minillama.checkpoint import from_pretrained
from minillama.data import encode_documents, shakespeare_plays, split_by_play
from minillama.tokenizer import Tokenizer
from minillama.viz.results import record

FOLDER = Path(__file__).resolve().parent / "results"
RESULT = FOLDER / "context_worth.json"
ORDERS = (2, 3, 4, 5)
SHORT, STRIDE = 8, 4  # windows of 8 tokens of context, a new one every 4 tokens
LONG, LONG_STRIDE = 256, 64
BINS = ((9, 16), (17, 32), (33, 64), (65, 128), (129, 256))
FOREIGN, FOREIGN_STRIDE = 32, 40


@torch.no_grad()
def losses(model, windows: np.ndarray) -> np.ndarray:
    """(windows, n): the loss of each token of (windows, n + 1) but the first."""
    out = []
    for block in torch.from_numpy(windows.astype(np.int64)).split(max(1, 4096 // windows.shape[1])):
        log_p = model(block[:, :-1])[0].log_softmax(-1)
        out.append(-log_p.gather(-1, block[:, 1:, None])[..., 0])
    return torch.cat(out).numpy()


@torch.no_grad()
def last_losses(model, windows: np.ndarray) -> np.ndarray:
    """(windows,): the loss of the last token of each."""
    out = []
    for block in torch.from_numpy(windows.astype(np.int64)).split(256):
        log_p = model.next_token_logits(block[:, :-1]).log_softmax(-1)
        out.append(-log_p.gather(-1, block[:, -1:])[:, 0])
    return torch.cat(out).numpy()


def main() -> None:
    torch.set_num_threads(1)
    plays = split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    tokenizer = Tokenizer.load(FOLDER / "small_run" / "tokenizer.json")
    seen, held_out = (
        np.concatenate(list(encode_documents((text for _, text in part), tokenizer))).astype(np.int64)
        for part in plays
    )
    model = from_pretrained(FOLDER / "small_run")
    tables = {order: KneserNey(seen, order) for order in ORDERS}

    def counted(order: int, targets: np.ndarray) -> float:
        """Mean loss of the Kneser-Ney model at these positions of the held-out text."""
        keys = ngrams(held_out, order)[targets - order + 1]
        return round(float(-np.log(tables[order].probability(keys)).mean()), 4)

    starts = np.arange(0, len(held_out) - SHORT, STRIDE)
    by_n = losses(model, held_out[starts[:, None] + np.arange(SHORT + 1)])
    short = [
        {"n": n, "network": round(float(by_n[:, n - 1].mean()), 4)}
        | ({"counting": counted(n + 1, starts + n)} if n + 1 in ORDERS else {})
        for n in range(1, SHORT + 1)
    ]
    print(short, flush=True)
    starts = np.arange(0, len(held_out) - LONG, LONG_STRIDE)
    by_n = losses(model, held_out[starts[:, None] + np.arange(LONG + 1)])
    long = []
    for first, last in BINS:
        targets = (starts[:, None] + np.arange(first, last + 1)).ravel()
        long.append(
            {
                "from": first,
                "to": last,
                "network": round(float(by_n[:, first - 1 : last].mean()), 4),
                "counting_with_4": counted(5, targets),
            }
        )
    print(long, flush=True)
    targets = np.arange(FOREIGN, len(held_out), FOREIGN_STRIDE)
    rng = np.random.default_rng(0)
    elsewhere = rng.integers(0, len(held_out) - FOREIGN - 1, len(targets))
    foreign = []
    for n in (1, 2, 3, 4):
        windows = held_out[targets[:, None] + np.arange(-FOREIGN, 1)]  # (targets, 33)
        before = held_out[elsewhere[:, None] + np.arange(FOREIGN - n)]
        alone = last_losses(model, windows[:, -n - 1 :])
        windows[:, : FOREIGN - n] = before
        mixed = last_losses(model, windows)
        foreign.append(
            {
                "n": n,
                "alone": round(float(alone.mean()), 4),
                "after_foreign_text": round(float(mixed.mean()), 4),
                "counting": counted(n + 1, targets),
            }
        )
    print(foreign, flush=True)
    result = {
        "what": "loss in nats per token on the held-out plays, by tokens of context",
        "short": short,
        "long": long,
        "foreign": foreign,
        "torch": torch.__version__.split("+")[0],
    }
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
