"""The small model on Shakespeare's plays: the recorded run of chapters 12 and 13.

    python experiments/small_run.py

It is `python -m minillama prepare` and `train` with the defaults, watched: at some steps the model also
writes a sample. About six minutes on two cores; writes experiments/results/small_run.json (losses, gradient
norms, rates, samples) and experiments/results/small_run/ (the model in bfloat16, and its tokenizer).
"""

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, generate
from minillama.__main__ import SIZES, TOKENIZER, TRAIN, VALIDATION, main
from minillama.checkpoint import from_pretrained, save_pretrained
from minillama.data import open_tokens
from minillama.tokenizer import Tokenizer
from minillama.train import ProgressBar, TrainingSettings, evaluate, train
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "small_run.json"
MODEL = RESULT.with_suffix("")
PROMPT = "ORSINO\nIf music be the food of love, play on"
SAMPLED = (1, 10, 50, 100, 200, 400)  # and the last step
SAMPLE = dict(max_new_tokens=80, temperature=0.8, top_p=0.95)


def sample(model, tokenizer) -> str:
    """The prompt continued, always with the same random numbers; what was drawn, without the prompt."""
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    drawn = generate(model, ids, **SAMPLE, generator=torch.Generator().manual_seed(0))
    return tokenizer.decode(drawn[0, ids.shape[1] :].tolist())


def study(folder: Path) -> None:
    if main(["prepare", "--out", str(folder / "data")]):
        raise SystemExit("prepare failed")
    tokenizer = Tokenizer.load(folder / "data" / TOKENIZER)
    tokens = [open_tokens(folder / "data" / name, tokenizer) for name in (TRAIN, VALIDATION)]
    sizes, given = SIZES["small"]
    settings = TrainingSettings(**given)
    torch.manual_seed(settings.seed)
    model = MiniLLaMAForCausalLM(MiniLLaMAConfig(vocab_size=tokenizer.vocab_size, **sizes))
    bar, steps, samples = ProgressBar(settings.steps, every=20), [], {0: sample(model, tokenizer)}

    def watch(line: dict) -> None:
        bar(line)
        steps.append(line)
        if line["step"] in (*SAMPLED, settings.steps):
            samples[line["step"]] = sample(model, tokenizer)

    if not train(model, *tokens, folder / "run", settings, on_step=watch):
        raise SystemExit("stopped: nothing is recorded")
    save_pretrained(model.bfloat16(), folder / "model")
    rounded = from_pretrained(folder / "model")
    result = {
        "sizes": sizes | {"vocab_size": tokenizer.vocab_size},
        "parameters": sum(p.numel() for p in model.parameters()),
        "settings": asdict(settings),
        "tokens": {"train": len(tokens[0]), "validation": len(tokens[1])},
        "loss": [round(line["loss"], 4) for line in steps],
        "norm": [round(line["norm"], 4) for line in steps],
        "lr": [round(line["lr"], 7) for line in steps],
        "validation": {str(line["step"]): round(line["val_loss"], 4) for line in steps if "val_loss" in line},
        "validation_of_bfloat16_weights": round(
            evaluate(rounded, tokens[1], settings.batch_size, settings.seq_len), 4
        ),
        "prompt": PROMPT,
        "samples": {str(step): text for step, text in samples.items()},
    }
    MODEL.mkdir(exist_ok=True)
    for path in (*(folder / "model").iterdir(), folder / "data" / TOKENIZER):
        shutil.copyfile(path, MODEL / path.name)
    record(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"validation {result['validation'][str(settings.steps)]}\n{PROMPT}{samples[settings.steps]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        study(Path(folder))
