"""A published model in this package and in transformers: loading the same file, and writing with it.

    pip install accelerate gguf transformers
    python benchmarks/real_weights.py [--rounds 5] [--write]

Each load runs in a process of its own, imports before the clock starts; it reads the GGUF file of
SmolLM2-135M-Instruct and rebuilds the tokenizer, in float32. Time, and the largest memory of the process, are
given as transformers' over ours. Then both models, in one process and with the same weights, write 64 tokens
greedily after a prompt. Contestants alternate; a ratio is the median over rounds. `--write` puts the result
into benchmarks/results/real_weights.json.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch
from run import alternate, ratio

from minillama import assets, checkpoint, generate
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "real_weights.json"
PROMPT, NEW = "If music be the food of love, play on", 64


def load(whose: str) -> dict:
    """In a fresh process: seconds from the path to a model that has answered, and peak memory in MB."""
    path = assets.fetch("smollm2-135m-instruct")
    if whose == "minillama":
        import gguf  # noqa: F401
        import tokenizers  # noqa: F401

        start = time.perf_counter()
        model, tokenizer = checkpoint.from_gguf(path)
        logits = model(torch.tensor([tokenizer.encode(PROMPT)]))[0]
    else:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        source = dict(pretrained_model_name_or_path=path.parent, gguf_file=path.name)
        start = time.perf_counter()
        model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**source)
        logits = model(tokenizer(PROMPT, return_tensors="pt").input_ids).logits
    seconds = time.perf_counter() - start
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return {"seconds": seconds, "peak": peak, "check": logits[0, -1].argmax().item()}


def loading(rounds: int) -> dict:
    found = {"minillama": [], "transformers": []}
    for _ in range(rounds):
        for whose, rows in found.items():
            command = [sys.executable, __file__, "--load", whose]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
    ours, theirs = found.values()
    if {row["check"] for row in ours} != {row["check"] for row in theirs}:
        raise SystemExit("the two loads answer differently: the comparison would mean nothing")
    return {
        f"load, {name} of transformers over ours": statistics.median(
            b[key] / a[key] for a, b in zip(ours, theirs, strict=True)
        )
        for name, key in (("time", "seconds"), ("peak memory", "peak"))
    }


def decoding(rounds: int) -> dict:
    from transformers import LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    ours, tokenizer = checkpoint.from_gguf(assets.fetch("smollm2-135m-instruct"))
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save_pretrained(ours, folder)
        theirs = LlamaForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    settings = dict(max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0)

    def their_tokens():
        return theirs.generate(ids, attention_mask=torch.ones_like(ids), **settings)

    def our_tokens():
        return generate(ours, ids, NEW, temperature=0)

    if not torch.equal(our_tokens(), their_tokens()):
        raise SystemExit("the two models write different texts: the comparison would mean nothing")
    times = alternate({"minillama": our_tokens, "transformers": their_tokens}, rounds)
    return {"decoding, tokens per second over transformers": ratio(times, "transformers", "minillama")}


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--load", choices=("minillama", "transformers"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        print(json.dumps(load(args.load)))
        return
    ratios = {}
    for task in (loading, decoding):
        for name, value in task(args.rounds).items():
            ratios[name] = round(value, 2)
            print(f"{name:50} {value:.2f}", flush=True)
    result = {
        "machine": f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__.split("+")[0],
        "transformers": version("transformers"),
        "rounds": args.rounds,
        "ratios": ratios,
    }
    if args.write:
        record(RESULT, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
