"""The full model's training scaled down by twenty: what happens when parameters outnumber tokens 25 to 1.

    python experiments/overfitting.py

The full configuration has 25 parameters for each training token and reads every token 11.5 times. Here are
the same two ratios at a twentieth of the size: 1.8 million parameters, the first 71,012 tokens of the plays,
819,200 tokens read. As a control, the same model, settings and number of steps on all the plays, of which it
reads little more than half. Both are scored on the same held-out windows, and on windows of the small text.
About nine minutes of one core; writes experiments/results/overfitting.json.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, accounting, assets
from minillama.__main__ import SIZES
from minillama.data import encode_documents, shakespeare_plays, split_by_play
from minillama.tokenizer import Tokenizer
from minillama.train import TrainingSettings, evaluate, train
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "overfitting.json"
SCALE, V, T, BATCH, EVERY, WINDOWS = 20, 4096, 128, 8, 50, 16  # WINDOWS: batches of 8 windows per look
CONFIG = MiniLLaMAConfig(
    vocab_size=V, d_model=160, n_layers=4, n_q_heads=4, n_kv_heads=1, head_dim=40, d_ffn=460, max_seq_len=T
)


def main() -> None:
    torch.set_num_threads(1)
    plays = split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    tokenizer = Tokenizer.train((text for _, text in plays[0]), V)
    seen, held_out = (
        np.concatenate(list(encode_documents((text for _, text in part), tokenizer))).astype(np.uint16)
        for part in plays
    )
    full = MiniLLaMAConfig(**SIZES["full"][0])
    given = TrainingSettings(**SIZES["full"][1])
    reads = given.steps * given.batch_size * given.seq_len
    few = seen[: len(seen) // SCALE]
    settings = TrainingSettings(
        steps=reads // SCALE // (BATCH * T),
        batch_size=BATCH,
        seq_len=T,
        lr=3e-3,
        lr_min=3e-4,
        warmup=given.warmup * reads // SCALE // (BATCH * T) // given.steps,
        eval_every=10**6,
        save_every=10**6,
    )
    counts = {name: accounting.count_parameters(c)["total"] for name, c in (("full", full), ("here", CONFIG))}
    result = {
        "what": "loss in nats per token",
        "full": {"parameters": counts["full"], "tokens": len(seen), "tokens_read": reads},
        "here": {
            "parameters": counts["here"],
            "tokens": len(few),
            "tokens_read": settings.steps * BATCH * T,
            "steps": settings.steps,
        },
        "runs": {},
    }
    for name, tokens in (("a twentieth of the plays", few), ("all the plays", seen)):
        torch.manual_seed(0)
        model = MiniLLaMAForCausalLM(CONFIG)
        rows = []

        def look(line: dict, model=model, rows=rows, name=name) -> None:
            if line["step"] % EVERY and line["step"] != 1:
                return
            row = {
                "step": line["step"],
                "seen": round(evaluate(model, few, BATCH, T, WINDOWS), 3),
                "held_out": round(evaluate(model, held_out, BATCH, T, WINDOWS), 3),
            }
            rows.append(row)
            print(name, row, flush=True)

        with tempfile.TemporaryDirectory() as run:
            train(model, tokens, held_out[: 2 * T], run, settings, on_step=look)
        result["runs"][name] = rows
    result["torch"] = torch.__version__.split("+")[0]
    record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
