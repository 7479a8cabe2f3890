"""The training loop: batches that depend on the step alone, exact resume, one device or many.

`python -m minillama train` is this module with a face. Every step draws its whole batch from (seed, step);
each rank takes its rows. So a resumed run, and a run on several devices, sees the data of an uninterrupted
run on one.
"""

import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .checkpoint import load_training, read_training, save_pretrained, save_training
from .data import get_batch
from .loss import cross_entropy
from .model import MiniLLaMAForCausalLM
from .optim import AdamW, NonFiniteGradient, cos_lr_scheduler, decay_groups, gradient_clip

CHECKPOINT, LOG = "last.safetensors", "log.jsonl"
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}
MOST_SKIPPED = 10  # steps in succession without a finite gradient, then training gives up


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train; the sizes of the model are in its own configuration.

    Attributes:
        steps: optimizer steps in all.
        batch_size: sequences per step, over all ranks and micro-batches together.
        seq_len: tokens per sequence.
        micro_batches: parts in which a rank computes its share of a step, to save memory.
        lr, lr_min, warmup: peak rate, final rate, steps up to the peak; see `cos_lr_scheduler`.
        weight_decay, beta1, beta2: of `AdamW`.
        max_norm: of all gradients together; see `gradient_clip`.
        precision: "float32", or "bfloat16" for autocast (weights and optimizer state stay float32).
        compile: pass the model through `torch.compile`.
        seed: of the batches.
        eval_every, eval_batches: steps between two looks at the validation data, and batches per look.
        save_every: steps between two checkpoints.

    Raises:
        ValueError: a value out of range, named.
    """

    steps: int = 2000
    batch_size: int = 16
    seq_len: int = 256
    micro_batches: int = 1
    lr: float = 1e-3
    lr_min: float = 1e-4
    warmup: int = 100
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    max_norm: float = 1.0
    precision: str = "float32"
    compile: bool = False
    seed: int = 0
    eval_every: int = 100
    eval_batches: int = 8
    save_every: int = 200

    def __post_init__(self) -> None:
        lowest = {"warmup": 0, "seed": 0}
        for field in fields(self):
            value, name = getattr(self, field.name), field.name
            if field.type is int and (type(value) is not int or value < lowest.get(name, 1)):
                raise ValueError(f"{name} must be an integer >= {lowest.get(name, 1)}, got {value!r}")
            if field.type is float:
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                    raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
            if field.type is bool and type(value) is not bool:
                raise ValueError(f"{name} must be True or False, got {value!r}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.max_norm == 0:
            raise ValueError("max_norm must be > 0, got 0")
        for name in ("beta1", "beta2"):
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} must be below 1, got {getattr(self, name)!r}")
        if self.lr_min > self.lr:
            raise ValueError(f"lr_min must be <= lr = {self.lr}, got {self.lr_min}")
        if self.warmup > self.steps:
            raise ValueError(f"warmup must be <= steps = {self.steps}, got {self.warmup}")


# -- one step --------------------------------------------------------------------------------------------


def step_batch(tokens, settings: TrainingSettings, step: int) -> tuple[Tensor, Tensor]:
    """(x, y), each (batch_size, seq_len): the same for a step whenever and wherever it is asked for."""
    # Mixed, because torch's generator looks at 32 bits of its seed only.
    mixed = np.random.SeedSequence([settings.seed, step]).generate_state(1)[0]
    generator = torch.Generator().manual_seed(int(mixed))
    return get_batch(tokens, settings.batch_size, settings.seq_len, generator)


def accumulate(
    model, x: Tensor, y: Tensor, settings: TrainingSettings, rank: int = 0, world: int = 1
) -> float:
    """Gradients of the mean loss over all valid targets of (x, y); returns this rank's part of that loss.

    Each micro-batch counts by its valid targets, so unequal ones (padding, -100) do not shift the mean.
    Data-parallel wrappers average over the ranks, hence the factor `world`.
    """
    valid = (y != -100).sum().item()
    if not valid:
        raise ValueError("y has no valid target: every one is -100")
    device = next(model.parameters()).device
    x, y = x[rank::world].to(device), y[rank::world].to(device)
    dtype, parts = PRECISIONS[settings.precision], settings.micro_batches
    micro_batches = list(zip(x.chunk(parts), y.chunk(parts), strict=True))
    total = 0.0
    for i, (xs, ys) in enumerate(micro_batches, start=1):
        share = (ys != -100).sum().item() / valid
        last = i == len(micro_batches)
        with _sync(model, last), torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            loss = cross_entropy(model(xs)[0], ys) * share
            (loss * world).backward()
        total += loss.item()
    return total


@torch.no_grad()
def evaluate(model, tokens, batch_size: int, seq_len: int, max_batches: int | None = None) -> float:
    """Mean loss in nats per token over consecutive windows of `tokens`, or over `max_batches` of them.

    Fewer than all are spread evenly over the text.
    Each window starts without a past, and a remainder shorter than a window is left out. The model's mode
    is restored.

    Raises:
        ValueError: `tokens` shorter than one window and its target.
    """
    every = windows = (len(tokens) - 1) // seq_len
    if windows < 1:
        raise ValueError(f"tokens must hold more than seq_len = {seq_len} tokens, got {len(tokens)}")
    if max_batches is not None:
        windows = min(windows, max_batches * batch_size)
    device, training = next(model.parameters()).device, model.training
    total, first = 0.0, 0
    model.eval()
    try:
        while first < windows:
            rows = [i * every // windows for i in range(first, min(first + batch_size, windows))]
            block = np.stack([np.asarray(tokens[i * seq_len : (i + 1) * seq_len + 1]) for i in rows])
            block = torch.from_numpy(block.astype(np.int64)).to(device)  # (B, T + 1)
            total += cross_entropy(model(block[:, :-1])[0], block[:, 1:]).item() * len(rows)
            first += batch_size
    finally:
        model.train(training)
    return total / windows


# -- several devices -------------------------------------------------------------------------------------


def join(device: str | None = None) -> tuple[int, int, torch.device]:
    """(rank, world, device) of this process; joins the others when `torchrun` started it."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available() if device is None else torch.device(device).type == "cuda"
    if world > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
    if not cuda:
        return int(os.environ.get("RANK", "0")), world, torch.device(device or "cpu")
    local = (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if world > 1 else torch.device("cuda")
    )
    torch.cuda.set_device(local)
    return int(os.environ.get("RANK", "0")), world, local


def parallelize(model: MiniLLaMAForCausalLM, world: int, sharded: bool):
    """The model for `world` ranks: a copy on each (DDP), or weights, gradients, state in shards (FSDP2)."""
    if world == 1:
        return model
    if not sharded:
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (world,))
    for block in model.layers:  # gathered one at a time while it computes
        fully_shard(block, mesh=mesh)
    # Also after a forward pass without a backward pass: the optimizer knows the shards only.
    return fully_shard(model, mesh=mesh, reshard_after_forward=True)


def _sync(model, last: bool):
    """Ranks exchange gradients in the last micro-batch of a step only."""
    if hasattr(model, "set_requires_gradient_sync"):  # FSDP2
        model.set_requires_gradient_sync(last)
    elif hasattr(model, "no_sync") and not last:  # DDP
        return model.no_sync()
    return contextlib.nullcontext()


def _added_up(values: list[float], device: torch.device, world: int) -> list[float]:
    if world == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(tensor)
    return tensor.tolist()


# -- a run -----------------------------------------------------------------------------------------------


def train(
    model: MiniLLaMAForCausalLM,
    train_tokens,
    val_tokens,
    run: str | os.PathLike,
    settings: TrainingSettings,
    *,
    resume: bool = False,
    sharded: bool = False,
    on_step: Callable[[dict], None] | None = None,
) -> bool:
    """Train `model` and leave `run` with the checkpoint, the log, and the model in Hugging Face's layout.

    Ctrl-C or SIGTERM ends the present step, saves and returns. Batches depend on the step alone and the
    checkpoint holds all other state, so a resumed run repeats the losses of an uninterrupted one.

    Args:
        model: on its device; updated in place.
        train_tokens, val_tokens: as `get_batch` takes them.
        run: directory, made if missing.
        settings: when resuming they may differ from the saved ones only in where to stop and what to report.
        resume: continue from the checkpoint in `run`; without it, a checkpoint there is an error.
        sharded: with several ranks, FSDP2 instead of DDP.
        on_step: called on rank 0 after each step with what the log gets.

    Returns:
        True when all steps are done, False when stopped before.

    Raises:
        FileExistsError: `run` holds a checkpoint and `resume` is False.
        FileNotFoundError: `resume`, and there is none.
        ValueError: settings that differ from the saved ones, a batch that cannot be split evenly.
        NonFiniteGradient: ten steps in succession without a finite gradient.
    """
    run = Path(run)
    rank, world, _ = join(next(model.parameters()).device.type)
    device = next(model.parameters()).device
    pieces = world * settings.micro_batches
    if settings.batch_size % pieces:
        raise ValueError(
            f"batch_size must be divisible by ranks * micro_batches = {world} * {settings.micro_batches}, "
            f"got {settings.batch_size}"
        )
    checkpoint = run / CHECKPOINT
    if not resume and checkpoint.exists():
        raise FileExistsError(f"{run} already holds a run: resume it, or choose another directory")
    run.mkdir(parents=True, exist_ok=True)
    model.train()
    wrapped = parallelize(model, world, sharded)
    optimizer = AdamW(decay_groups(model, settings.weight_decay), betas=(settings.beta1, settings.beta2))
    first = 0
    if resume:
        _check_same(read_training(checkpoint)["extra"], settings)
        first = load_training(checkpoint, wrapped, optimizer)
    log = _open_log(run / LOG, first) if rank == 0 else None
    computed = torch.compile(wrapped) if settings.compile else wrapped

    def save(step):
        save_training(checkpoint, wrapped, optimizer, step, extra=asdict(settings))

    def look(batches):
        return evaluate(computed, val_tokens, settings.batch_size, settings.seq_len, batches)  # on every rank

    skipped, step, stop = 0, first, 0.0
    try:
        with _signals() as asked:
            for step in range(first + 1, settings.steps + 1):
                start = time.perf_counter()
                lr = cos_lr_scheduler(step, settings.lr, settings.lr_min, settings.warmup, settings.steps)
                for group in optimizer.param_groups:
                    group["lr"] = lr
                x, y = step_batch(train_tokens, settings, step)
                loss = accumulate(computed, x, y, settings, rank, world)
                norm = None
                try:
                    norm = gradient_clip(wrapped.parameters(), settings.max_norm).item()
                    optimizer.step()
                    skipped = 0
                except NonFiniteGradient:
                    skipped += 1
                    if skipped == MOST_SKIPPED:
                        raise
                optimizer.zero_grad()
                loss, stop = _added_up([loss, float(bool(asked))], device, world)
                record = {"step": step, "loss": _finite(loss), "lr": lr, "norm": norm}
                record["tokens_per_s"] = round(x.numel() / (time.perf_counter() - start))
                done = step == settings.steps
                if step % settings.eval_every == 0 or done:
                    record["val_loss"] = _finite(look(None if done else settings.eval_batches))
                if step % settings.save_every == 0 or done or stop:
                    save(step)
                if rank == 0:
                    log.write(json.dumps(record) + "\n")
                    log.flush()
                    if on_step:
                        on_step(record)
                if stop:
                    break
    finally:
        if log:
            log.close()
    save_pretrained(wrapped, run)
    return step == settings.steps


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


_MAY_DIFFER = {"steps", "micro_batches", "compile", "eval_every", "eval_batches", "save_every"}


def _check_same(saved: dict, settings: TrainingSettings) -> None:
    now = asdict(settings)
    differing = [name for name in now if name not in _MAY_DIFFER and saved.get(name) != now[name]]
    if differing:
        told = ", ".join(f"{name} (saved {saved.get(name)!r}, now {now[name]!r})" for name in differing)
        raise ValueError(f"a resumed run must keep its settings; these differ: {told}")


def _open_log(path: Path, first: int):
    """The log, cut back to the steps that the checkpoint holds."""
    kept = []
    if first and path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # a line cut off when the process was killed
                if json.loads(line)["step"] <= first:
                    kept.append(line + "\n")
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text("".join(kept), encoding="utf-8")
    os.replace(unfinished, path)
    return open(path, "a", encoding="utf-8")


@contextlib.contextmanager
def _signals():
    """A list that is no longer empty once Ctrl-C or SIGTERM has come; a second Ctrl-C interrupts at once."""
    asked = []

    def note(number, _frame):
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread, where signals arrive
        before = {}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ProgressBar:
    """Prints loss, speed and time left: one moving line on a terminal, otherwise a line now and then."""

    def __init__(self, steps: int, every: int, stream=None) -> None:
        self.steps, self.every = steps, every
        self.stream = sys.stderr if stream is None else stream
        self.moving, self.speed, self.shown = self.stream.isatty(), None, 0.0
        self.last = time.perf_counter()

    def __call__(self, record: dict) -> None:
        now = time.perf_counter()
        took, self.last = now - self.last, now
        self.speed = took if self.speed is None else 0.9 * self.speed + 0.1 * took
        step, val = record["step"], record.get("val_loss")
        ends = step == self.steps or val is not None
        if not ends and (now - self.shown < 0.2 if self.moving else step % self.every):
            return
        self.shown = now
        left = round(self.speed * (self.steps - step))
        filled = 20 * step // self.steps
        loss = "not finite" if record["loss"] is None else f"{record['loss']:.3f}"
        line = (
            f"[{'#' * filled}{'.' * (20 - filled)}] {step}/{self.steps}  loss {loss}  "
            f"{record['tokens_per_s']:,} tokens/s  {left // 60}:{left % 60:02d} left"
        )
        if val is not None:
            line += f"  validation {val:.3f}"
        if self.moving:
            self.stream.write(f"\r{line:<100}" + ("\n" if ends else ""))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()
