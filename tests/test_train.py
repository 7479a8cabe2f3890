"""The training loop: the right mean, exact resume, several processes equal to one, and its command line."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import minillama.train as training
from minillama import MiniLLaMAForCausalLM, checkpoint, cross_entropy
from minillama.__main__ import main
from minillama.optim import NonFiniteGradient
from minillama.train import ProgressBar, TrainingSettings, accumulate, evaluate, step_batch, train

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = TrainingSettings(
    steps=8,
    batch_size=4,
    seq_len=9,
    lr=1e-2,
    lr_min=1e-3,
    warmup=2,
    eval_every=3,
    eval_batches=2,
    save_every=3,
)


@pytest.fixture
def tokens():
    """Ids with a pattern to learn, and others for validation."""
    generator = np.random.default_rng(0)
    ids = np.cumsum(generator.integers(1, 4, 1200)) % 61
    return ids[:1000].astype(np.uint16), ids[1000:].astype(np.uint16)


def losses(run):
    return [json.loads(line)["loss"] for line in (run / "log.jsonl").read_text().splitlines()]


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("steps", 1.5),
        ("batch_size", True),
        ("seq_len", -1),
        ("micro_batches", 0),
        ("lr", math.nan),
        ("lr", -1.0),
        ("lr_min", 1.0),
        ("warmup", -1),
        ("warmup", 9),
        ("beta1", 1.0),
        ("beta2", -0.1),
        ("max_norm", 0.0),
        ("precision", "float16"),
        ("compile", "yes"),
        ("seed", -1),
        ("save_every", 0),
    ],
)
def test_a_bad_setting_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        replace(SETTINGS, **{name: value})


def test_the_bounds_are_allowed():
    replace(SETTINGS, warmup=8, lr_min=1e-2, weight_decay=0.0, beta1=0.0, seed=0)
    replace(SETTINGS, warmup=0, max_norm=math.nextafter(0, 1))


# -- one step --------------------------------------------------------------------------------------------


def test_a_batch_depends_on_seed_and_step_alone(tokens):
    x, y = step_batch(tokens[0], SETTINGS, 5)
    again, _ = step_batch(tokens[0], SETTINGS, 5)
    assert x.shape == y.shape == (4, 9) and torch.equal(x, again) and torch.equal(x[:, 1:], y[:, :-1])
    for other in (step_batch(tokens[0], SETTINGS, 6), step_batch(tokens[0], replace(SETTINGS, seed=1), 5)):
        assert not torch.equal(x, other[0])
    assert not torch.equal(x[0::2], x[1::2])  # the rows of two ranks


def gradients(model, *arguments):
    model.zero_grad()
    loss = accumulate(model, *arguments)
    return loss, [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_unequal_micro_batches_count_by_their_targets(make_model, make_ids, micro_batches):
    model, x = make_model(), make_ids(4, 9)
    y = make_ids(4, 9, seed=1)
    y[0, 1:] = -100
    y[1, 5:] = -100
    y[3] = -100
    loss = cross_entropy(model(x)[0], y)
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    found, grads = gradients(model, x, y, replace(SETTINGS, micro_batches=micro_batches))
    assert found == pytest.approx(loss.item(), rel=1e-6)
    for a, b in zip(grads, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_mean_by_hand():
    """2.0 over one target and 1.0 over three: 1.25, not the mean of means, 1.5."""

    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):  # two classes; the target is 0, its loss is 2 in row 0 and 1 in row 1
            loss = torch.where(x == 0, 2.0, 1.0) + self.weight
            logits = torch.stack((-loss, torch.log1p(-torch.exp(-loss))), -1)  # p(0) = exp(-loss)
            return logits, None

    y = torch.tensor([[0, -100, -100], [0, 0, 0]])
    x = torch.tensor([[0, 0, 0], [1, 1, 1]])
    assert accumulate(Fixed(), x, y, replace(SETTINGS, micro_batches=2)) == pytest.approx(1.25)


def test_the_ranks_parts_make_up_the_whole(make_model, make_ids):
    model, x, y = make_model(), make_ids(4, 9), make_ids(4, 9, seed=1)
    y[1, 3:] = -100
    loss, whole = gradients(model, x, y, SETTINGS)
    parts = [gradients(model, x, y, SETTINGS, rank, 2) for rank in range(2)]
    assert sum(part for part, _ in parts) == pytest.approx(loss, rel=1e-6)
    for i, grad in enumerate(whole):
        torch.testing.assert_close((parts[0][1][i] + parts[1][1][i]) / 2, grad, rtol=1e-4, atol=1e-6)


def test_no_valid_target_is_an_error(make_model, make_ids):
    with pytest.raises(ValueError, match="no valid target"):
        accumulate(make_model(), make_ids(4, 9), torch.full((4, 9), -100), SETTINGS)


@pytest.mark.parametrize("kind", [np.asarray, lambda a: torch.from_numpy(a.astype(np.int64))])
@pytest.mark.parametrize("training_mode", [True, False])
def test_evaluation_reads_every_window_once(make_model, tokens, kind, training_mode):
    model, val = make_model(), tokens[1][:50]
    model.train(training_mode)
    windows = torch.from_numpy(val.astype(np.int64)).unfold(0, 10, 9)  # (5, 10)
    each = torch.stack([cross_entropy(model(w[None, :-1])[0], w[None, 1:]) for w in windows]).detach()
    assert len(each) == 5
    assert evaluate(model, kind(val), 2, 9) == pytest.approx(each.mean().item(), rel=1e-5)
    assert evaluate(model, kind(val), 2, 9, max_batches=1) == pytest.approx(
        each[[0, len(each) // 2]].mean().item(), rel=1e-5
    )
    assert model.training is training_mode


@pytest.mark.parametrize(("count", "works"), [(9, False), (10, True)])
def test_evaluation_needs_one_window(make_model, tokens, count, works):
    if works:
        assert math.isfinite(evaluate(make_model(), tokens[1][:count], 2, 9))
    else:
        with pytest.raises(ValueError, match="more than seq_len = 9"):
            evaluate(make_model(), tokens[1][:count], 2, 9)


# -- a run -----------------------------------------------------------------------------------------------


def test_a_run_learns_and_leaves_a_model(make_model, tokens, tmp_path):
    model, seen = make_model(), []
    before = evaluate(model, tokens[1], 2, 9)
    assert train(model, *tokens, tmp_path / "run", replace(SETTINGS, steps=60), on_step=seen.append)
    records = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert records == seen and [r["step"] for r in records] == list(range(1, 61))
    assert records[-1]["val_loss"] < before - 1
    assert [r["step"] for r in records if "val_loss" in r] == list(range(3, 61, 3))
    assert records[0]["lr"] == pytest.approx(5e-3) and records[1]["lr"] == pytest.approx(1e-2)
    assert records[-1]["lr"] == pytest.approx(1e-3) and all(r["norm"] > 0 for r in records)
    loaded = checkpoint.from_pretrained(tmp_path / "run")
    assert evaluate(loaded, tokens[1], 2, 9) == pytest.approx(records[-1]["val_loss"], rel=1e-5)


def test_one_batch_can_be_learned_by_heart(make_model, tokens, tmp_path):
    settings = replace(SETTINGS, steps=150, batch_size=1, eval_every=150, save_every=150)
    train(make_model(), tokens[0][:10], tokens[1], tmp_path, settings)
    assert losses(tmp_path)[-1] < 0.05


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_stopped_and_resumed_equals_uninterrupted(make_model, tokens, tmp_path, micro_batches):
    settings = replace(SETTINGS, micro_batches=micro_batches)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    one, other = make_model(), make_model()
    assert train(one, *tokens, whole, settings)

    def interrupt(record):
        if record["step"] == 4:
            os.kill(os.getpid(), signal.SIGINT)  # seen at the end of step 5

    before = signal.getsignal(signal.SIGINT)
    assert not train(other, *tokens, parts, settings, on_step=interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert (
        losses(parts) == losses(whole)[:5]
        and checkpoint.read_training(parts / "last.safetensors")["step"] == 5
    )
    resumed = make_model(seed=3)  # whatever it starts from
    assert train(resumed, *tokens, parts, settings, resume=True)
    assert losses(parts) == losses(whole)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), resumed.parameters(), strict=True))


SCRIPT = """
import sys, torch
from pathlib import Path
sys.path.insert(0, {tests!r})
import numpy as np
from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM
from minillama.train import TrainingSettings, join, train
torch.set_num_threads(1)
rank, world, device = join("cpu")
torch.manual_seed(7)
model = MiniLLaMAForCausalLM(MiniLLaMAConfig(**{sizes!r}))
settings = TrainingSettings(**{settings!r})
tokens = np.load({tokens!r}), np.load({validation!r})
train(model, *tokens, {run!r}, settings, resume={resume}, sharded={sharded})
if world > 1:
    torch.distributed.destroy_process_group()
"""


@pytest.fixture
def script(make_config, tokens, tmp_path):
    """A function that writes a training script and returns its path."""
    np.save(tmp_path / "train.npy", tokens[0])
    np.save(tmp_path / "validation.npy", tokens[1])

    def write(run, settings, *, resume=False, sharded=False):
        path = tmp_path / f"{run}-{resume}-{sharded}.py"
        text = SCRIPT.format(
            tests=str(ROOT),
            sizes=vars(make_config()),
            settings=asdict(settings),
            tokens=str(tmp_path / "train.npy"),
            validation=str(tmp_path / "validation.npy"),
            run=str(tmp_path / run),
            resume=resume,
            sharded=sharded,
        )
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def test_killed_at_any_moment_and_resumed_equals_uninterrupted(make_config, tokens, tmp_path, script):
    settings = replace(SETTINGS, steps=40, save_every=1, eval_every=40)
    torch.manual_seed(7)
    train(MiniLLaMAForCausalLM(make_config()), *tokens, tmp_path / "whole", settings)
    log = tmp_path / "killed" / "log.jsonl"
    for reached in (3, 11, 25):
        resume = reached > 3
        process = subprocess.Popen(
            [sys.executable, script("killed", settings, resume=resume)], env=environment()
        )
        while process.poll() is None and (not log.exists() or log.read_text().count("\n") < reached):
            pass
        process.kill()
        assert process.wait() in (-signal.SIGKILL, 0)
    model = MiniLLaMAForCausalLM(make_config())
    assert train(model, *tokens, tmp_path / "killed", settings, resume=True)
    assert losses(tmp_path / "killed") == pytest.approx(losses(tmp_path / "whole"), abs=1e-6)


def test_nothing_is_overwritten_and_nothing_invented(make_model, tokens, tmp_path):
    train(make_model(), *tokens, tmp_path, SETTINGS)
    before = (tmp_path / "last.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match="already holds a run"):
        train(make_model(), *tokens, tmp_path, SETTINGS)
    assert (tmp_path / "last.safetensors").read_bytes() == before and len(losses(tmp_path)) == 8
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        train(make_model(), *tokens, tmp_path / "none", SETTINGS, resume=True)


def test_a_resumed_run_keeps_its_settings(make_model, tokens, tmp_path):
    train(make_model(), *tokens, tmp_path, SETTINGS)
    with pytest.raises(ValueError, match=r"lr \(saved 0.01, now 0.02\)"):
        train(make_model(), *tokens, tmp_path, replace(SETTINGS, lr=0.02), resume=True)
    assert train(make_model(), *tokens, tmp_path, replace(SETTINGS, steps=10), resume=True)
    assert len(losses(tmp_path)) == 10


def test_a_batch_that_cannot_be_split_is_named(make_model, tokens, tmp_path):
    with pytest.raises(
        ValueError, match=r"batch_size must be divisible by ranks \* micro_batches = 1 \* 3, got 4"
    ):
        train(make_model(), *tokens, tmp_path, replace(SETTINGS, micro_batches=3))


def test_another_error_in_a_step_is_no_skipped_step(make_model, tokens, tmp_path, monkeypatch):
    def broken(self, closure=None):
        raise RuntimeError("the gradient norm of this test")

    monkeypatch.setattr(training.AdamW, "step", broken)
    with pytest.raises(RuntimeError, match="of this test"):
        train(make_model(), *tokens, tmp_path, SETTINGS)


@pytest.mark.parametrize(("bad", "gives_up"), [({3}, False), (set(range(2, 30)), True)])
def test_a_step_without_a_finite_gradient_is_skipped(
    make_model, tokens, tmp_path, monkeypatch, bad, gives_up
):
    model, settings, weights = make_model(), replace(SETTINGS, steps=15, eval_every=15), []

    def spoiled(computed, x, y, *arguments):
        loss = accumulate(computed, x, y, *arguments)
        weights.append(model.norm.weight.detach().clone())
        if len(weights) in bad:
            model.norm.weight.grad[0] = math.nan
        return loss

    monkeypatch.setattr(training, "accumulate", spoiled)
    if gives_up:
        with pytest.raises(NonFiniteGradient, match="gradient norm is nan"):
            train(model, *tokens, tmp_path, settings)
        assert len(weights) == 11 and torch.equal(weights[1], model.norm.weight)  # ten in succession
        return
    assert train(model, *tokens, tmp_path, settings)
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [r["step"] for r in records if r["norm"] is None] == [3]
    assert torch.equal(weights[2], weights[3]) and not torch.equal(weights[3], weights[4])


def test_bfloat16_autocast_keeps_weights_and_state_in_float32(make_model, tokens, tmp_path):
    model = make_model()
    train(model, *tokens, tmp_path, replace(SETTINGS, precision="bfloat16", steps=40))
    assert losses(tmp_path)[-1] < losses(tmp_path)[0] - 0.5
    assert {p.dtype for p in model.parameters()} == {torch.float32}


# -- several processes -----------------------------------------------------------------------------------


def torchrun(path, processes=2):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    result = subprocess.run([*command, path], env=environment(), capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize("sharded", [False, True], ids=["ddp", "fsdp2"])
def test_two_processes_equal_one(make_config, tokens, tmp_path, script, sharded):
    settings = replace(SETTINGS, max_norm=0.05)  # always clipped: the norm must be the global one
    torch.manual_seed(7)
    whole = MiniLLaMAForCausalLM(make_config())
    train(whole, *tokens, tmp_path / "one", settings)
    torchrun(script("two", settings, sharded=sharded))
    records = [
        [json.loads(line) for line in (tmp_path / run / "log.jsonl").read_text().splitlines()]
        for run in ("one", "two")
    ]
    assert len(records[1]) == settings.steps
    for a, b in zip(*records, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-4)
        assert a["norm"] == pytest.approx(b["norm"], rel=1e-3)
        assert a.get("val_loss") == pytest.approx(b.get("val_loss"), abs=1e-4)
    # One process reads what two have written, and goes on; and the other way round.
    loaded = checkpoint.from_pretrained(tmp_path / "two")
    for a, b in zip(whole.parameters(), loaded.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    longer = replace(settings, steps=11)
    assert train(loaded, *tokens, tmp_path / "two", longer, resume=True)
    torchrun(script("one", longer, resume=True, sharded=sharded))
    assert losses(tmp_path / "one") == pytest.approx(losses(tmp_path / "two"), abs=1e-4)


SHARDS = """
import torch
from torch.distributed.fsdp import fully_shard
from minillama.optim import gradient_clip
from minillama.train import join
torch.set_num_threads(1)
rank, world, _ = join("cpu")
layer = torch.nn.Linear(1, 2, bias=False)  # two rows, one on each rank
fully_shard(layer, mesh=torch.distributed.init_device_mesh("cpu", (world,)))
(layer(torch.ones(1, 1)) * torch.tensor([3.0, 4.0])).sum().backward()
gradient = layer.weight.grad.to_local()
assert gradient.tolist() == [[3.0 + rank]]
norm = gradient_clip(layer.parameters(), 1.0)
assert norm.item() == 5.0, f"rank {rank} finds {norm}"
torch.testing.assert_close(gradient, torch.tensor([[(3.0 + rank) / 5]]))
torch.distributed.destroy_process_group()
"""


def test_both_ranks_find_the_norm_of_the_whole_gradient(tmp_path):
    path = tmp_path / "shards.py"  # 3 on rank 0, 4 on rank 1: 5 on both
    path.write_text(SHARDS)
    torchrun(str(path))


# -- the command line ------------------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(
        "If music be the food of love, play on; give me excess of it. 愛 🎭\n" * 200, encoding="utf-8"
    )
    return path


def test_prepare_train_resume_generate(tmp_path, text, capsys):
    prepared, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["prepare", "--text", str(text), "--out", prepared, "--vocab-size", "300"]) == 0
    assert main(["prepare", "--text", str(text), "--out", prepared]) == 2
    assert "already holds tokens" in capsys.readouterr().err
    flags = [
        "train",
        "--data",
        prepared,
        "--run",
        run,
        "--batch-size",
        "2",
        "--seq-len",
        "16",
        "--warmup",
        "1",
    ]
    assert main([*flags, "--steps", "3"]) == 0
    captured = capsys.readouterr()
    assert "parameters" in captured.out and "[####################] 3/3  loss" in captured.err
    assert "tokens/s" in captured.err and "left" in captured.err
    assert main([*flags, "--steps", "3"]) == 2
    assert "add --resume" in capsys.readouterr().err
    assert main([*flags, "--steps", "5", "--resume"]) == 0
    assert len(losses(Path(run))) == 5
    capsys.readouterr()
    write = ["generate", "--model", run, "--prompt", "If music", "--tokens", "12", "--temperature", "1"]
    assert main(write) == 0
    first = capsys.readouterr().out
    assert first.startswith("If music") and main(write) == 0 and capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--data", "nowhere"], "prepare` first"),
        (["generate", "--model", "nowhere"], "train` first"),
        (["prepare", "--text", "nowhere.txt"], "nowhere.txt"),
        (["prepare", "--text", "text.txt", "--vocab-size", "100"], "vocab_size"),
    ],
)
def test_errors_are_one_line(tmp_path, text, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1


def test_train_prepares_shakespeare_when_nothing_is_there(tmp_path, monkeypatch, capsys):
    plays = [(f"PLAY {i}", f"ACT {i}. If music be the food of love, play on.\n" * 40) for i in range(8)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("minillama.assets.fetch", lambda name: name)
    monkeypatch.setattr("minillama.data.shakespeare_plays", lambda folder: plays)
    assert main(["train", "--steps", "2", "--warmup", "1", "--batch-size", "2", "--seq-len", "16"]) == 0
    assert "data/shakespeare/train.tokens" in capsys.readouterr().out.replace("\\", "/")
    assert len(losses(tmp_path / "runs" / "small")) == 2
    monkeypatch.setenv("RANK", "0")  # several processes must not prepare at the same time
    monkeypatch.chdir(tmp_path / "runs")
    assert main(["train"]) == 2 and "prepare` first" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["prepare"], ["train"], ["generate"]])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0 and "usage: python -m minillama" in capsys.readouterr().out


def test_the_progress_bar_moves_on_a_terminal_only():
    class Screen(list):
        def isatty(self):
            return True

        write, flush = list.append, lambda self: None

    screen = Screen()
    bar = ProgressBar(100, every=10, stream=screen)
    record = {"step": 50, "loss": 1.5, "tokens_per_s": 1234}
    bar(record)
    assert screen[0].startswith("\r[##########..........] 50/100  loss 1.500  1,234 tokens/s")
    bar(record | {"step": 100, "loss": None, "val_loss": 2.0})
    assert "loss not finite" in screen[1] and "validation 2.000" in screen[1] and screen[1].endswith("\n")
