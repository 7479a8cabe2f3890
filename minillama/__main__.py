"""The command line: `python -m minillama prepare`, then `train`, then `generate`."""

import argparse
import os
import shutil
import sys
import time
from dataclasses import fields
from pathlib import Path

import torch

from . import assets, data
from .checkpoint import WEIGHTS, from_gguf, from_pretrained
from .config import MiniLLaMAConfig
from .generation import stream
from .model import MiniLLaMAForCausalLM
from .tokenizer import Tokenizer
from .train import CHECKPOINT, ProgressBar, TrainingSettings, join, train

TOKENIZER, TRAIN, VALIDATION = "tokenizer.json", "train.tokens", "validation.tokens"
SHAKESPEARE = Path("data/shakespeare")

# Small: recognizable Shakespeare on two CPU cores in a few minutes. Full: the model of the book.
SIZES = {
    "small": (
        dict(d_model=192, n_layers=4, n_q_heads=6, n_kv_heads=2, head_dim=32, d_ffn=512, max_seq_len=256),
        dict(steps=1800, batch_size=4, seq_len=256, lr=3e-3, lr_min=1e-4, warmup=60, eval_batches=16),
    ),
    "full": ({}, dict(steps=2000, batch_size=16, seq_len=512, lr=6e-4, lr_min=6e-5, warmup=200)),
}
HELP = {  # of the training settings
    "steps": "optimizer steps in all",
    "batch_size": "sequences per step, all devices together",
    "seq_len": "tokens per sequence",
    "micro_batches": "parts in which a step is computed, to save memory",
    "lr": "peak learning rate",
    "lr_min": "learning rate at the end",
    "warmup": "steps up to the peak",
    "weight_decay": "of AdamW, on matrices",
    "beta1": "of AdamW, for the mean of the gradient",
    "beta2": "of AdamW, for the mean of its square",
    "max_norm": "of all gradients together",
    "precision": "float32, or bfloat16 for autocast",
    "compile": "pass the model through torch.compile",
    "seed": "of the weights and the batches",
    "eval_every": "steps between two looks at the validation text",
    "eval_batches": "batches per look; the last one reads all of it",
    "save_every": "steps between two checkpoints",
}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m minillama", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="prepare | train | generate")

    prepare = commands.add_parser(
        "prepare",
        help="a text becomes tokens",
        description="Train a tokenizer on a text and write the tokens for training and validation. "
        "Without --text: Shakespeare's plays, four of them for validation (2 MB, downloaded once).",
    )
    prepare.add_argument("--out", type=Path, default=SHAKESPEARE, help="default: %(default)s")
    prepare.add_argument("--text", type=Path, nargs="+", help="UTF-8 files; the last tenth of each validates")
    prepare.add_argument("--vocab-size", type=int, default=4096, help="default: %(default)s")
    prepare.set_defaults(run_command=run_prepare)

    training = commands.add_parser(
        "train",
        help="tokens become a model",
        description="Train a model. Ctrl-C ends the present step and saves; --resume continues exactly. "
        "On several devices: torchrun --nproc-per-node=N -m minillama train ...",
    )
    training.add_argument(
        "--data", type=Path, default=SHAKESPEARE, help="default: %(default)s, prepared now if it is missing"
    )
    training.add_argument("--run", type=Path, default=Path("runs/small"), help="default: %(default)s")
    training.add_argument("--size", choices=SIZES, default="small", help="of the model; default: %(default)s")
    training.add_argument("--resume", action="store_true", help="continue from the checkpoint in --run")
    training.add_argument("--sharded", action="store_true", help="several devices: FSDP2 instead of DDP")
    training.add_argument("--device", help="cpu or cuda; default: cuda if there is one")
    for field in fields(TrainingSettings):
        flag = "--" + field.name.replace("_", "-")
        defaults = ", ".join(
            f"{settings.get(field.name, field.default)} ({size})" for size, (_, settings) in SIZES.items()
        )
        kind = {"action": "store_true"} if field.type is bool else {"type": field.type}
        training.add_argument(
            flag, **kind, default=None, dest=field.name, help=f"{HELP[field.name]}; default: {defaults}"
        )
    training.set_defaults(run_command=run_train)

    writing = commands.add_parser(
        "generate",
        help="a model writes",
        description="Continue a text, printed as it is drawn.",
    )
    writing.add_argument(
        "--model", type=Path, default=Path("runs/small"), help="a run, or a .gguf file; default: %(default)s"
    )
    writing.add_argument("--prompt", default="\n", help="the text to continue; default: an empty line")
    writing.add_argument("--tokens", type=int, default=200, help="how many to draw; default: %(default)s")
    writing.add_argument(
        "--temperature", type=float, default=0.8, help="0: the likeliest; default: %(default)s"
    )
    writing.add_argument("--top-k", type=int, help="draw from the k likeliest tokens")
    writing.add_argument("--top-p", type=float, help="draw from the likeliest tokens that make up this share")
    writing.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    writing.set_defaults(run_command=run_generate)
    return top


def run_prepare(args) -> int:
    if (args.out / TRAIN).exists():
        raise FileExistsError(f"{args.out} already holds tokens: choose another --out, or delete it")
    if args.text:
        texts = [path.read_text(encoding="utf-8") for path in args.text]
        cuts = [len(text) - len(text) // 10 for text in texts]
        training = [text[:cut] for text, cut in zip(texts, cuts, strict=True)]
        validation = [text[cut:] for text, cut in zip(texts, cuts, strict=True)]
    else:
        split = data.split_by_play(data.shakespeare_plays(assets.fetch("shakespeare")))
        training, validation = ([text for _, text in plays] for plays in split)
    print(f"learning {args.vocab_size:,} tokens from {sum(map(len, training)):,} characters …", flush=True)
    tokenizer = Tokenizer.train(training, args.vocab_size)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(args.out / TOKENIZER)
    # The training tokens come last: where they are, the rest is too.
    for name, texts in ((VALIDATION, validation), (TRAIN, training)):
        count = data.write_tokens(args.out / name, data.encode_documents(texts, tokenizer), tokenizer)
        print(f"{args.out / name}: {count:,} tokens")
    return 0


def run_train(args) -> int:
    sizes, defaults = SIZES[args.size]
    given = {f.name: getattr(args, f.name) for f in fields(TrainingSettings)}
    settings = TrainingSettings(
        **defaults | {name: value for name, value in given.items() if value is not None}
    )
    if args.data == SHAKESPEARE and not (args.data / TRAIN).exists() and "RANK" not in os.environ:
        run_prepare(parser().parse_args(["prepare"]))
    if not args.data.is_dir():
        raise FileNotFoundError(f"no directory {args.data}: run `python -m minillama prepare` first")
    tokenizer = Tokenizer.load(args.data / TOKENIZER)
    tokens = [data.open_tokens(args.data / name, tokenizer) for name in (TRAIN, VALIDATION)]
    if not args.resume and (args.run / CHECKPOINT).exists():
        raise FileExistsError(f"{args.run} already holds a run: add --resume, or choose another --run")
    rank, world, device = join(args.device)
    torch.manual_seed(settings.seed)
    config = MiniLLaMAConfig(vocab_size=tokenizer.vocab_size, **sizes)
    model = MiniLLaMAForCausalLM(config).to(device)
    if rank == 0:
        args.run.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(args.data / TOKENIZER, args.run / TOKENIZER)
        parameters = sum(p.numel() for p in model.parameters())
        devices = f"{world} x {device.type}" if world > 1 else device.type
        per_step = settings.batch_size * settings.seq_len
        print(
            f"{parameters:,} parameters, {per_step:,} tokens per step, {settings.steps:,} steps on {devices}"
        )
    start = time.perf_counter()
    bar = ProgressBar(settings.steps, every=20)
    done = train(model, *tokens, args.run, settings, resume=args.resume, sharded=args.sharded, on_step=bar)
    if rank == 0:
        took = f"{time.perf_counter() - start:.0f} s"
        print(f"{'done' if done else 'stopped; --resume continues'} after {took}: {args.run}")
    if world > 1:
        torch.distributed.destroy_process_group()
    return 0 if done else 130  # as a shell reports Ctrl-C


def run_generate(args) -> int:
    if args.model.suffix == ".gguf":
        model, tokenizer = from_gguf(args.model)
    else:
        if not (args.model / WEIGHTS).is_file():
            raise FileNotFoundError(
                f"no trained model in {args.model}: run `python -m minillama train` first"
            )
        model, tokenizer = from_pretrained(args.model), Tokenizer.load(args.model / TOKENIZER)
    ids = tokenizer.encode(args.prompt)
    if not ids:
        raise ValueError("prompt must not be empty")
    start, count = time.perf_counter(), 0
    new = stream(
        model,
        torch.tensor([ids]),
        args.tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        eos_id=tokenizer.eos_id,
        generator=torch.Generator().manual_seed(args.seed),
    )

    def drawn():
        nonlocal count
        for token in new:
            count += 1
            if token.item() != tokenizer.eos_id:
                yield token.item()

    sys.stdout.write(args.prompt)
    for piece in tokenizer.stream(drawn()):
        sys.stdout.write(piece)
        sys.stdout.flush()
    took = time.perf_counter() - start
    sys.stdout.write("\n")
    print(f"{count} tokens in {took:.1f} s, {count / took:.0f} per second", file=sys.stderr)
    return 0


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        return args.run_command(args)
    except (ValueError, FileNotFoundError, FileExistsError, RuntimeError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
