"""A training run saved and continued: exactly, or not at all."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from minillama import checkpoint, optim
from minillama.checkpoint import load_training, read_training, save_training


def ours(model):
    return optim.AdamW(optim.decay_groups(model, 0.1), lr=1e-2)


def torchs(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def train(model, optimizer, steps, generator=None):
    losses = []
    for _ in range(steps):
        ids = torch.randint(model.config.vocab_size, (2, 7), generator=generator)
        loss = model(ids, labels=ids)[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.fixture
def run(make_model, tmp_path):
    """A model after three steps, its optimizer, and the checkpoint written then."""
    torch.manual_seed(5)
    model = make_model()
    optimizer = ours(model)
    train(model, optimizer, 3)
    path = tmp_path / "run" / "last.safetensors"
    save_training(path, model, optimizer, 3, extra={"seed": 5})
    return model, optimizer, path


@pytest.mark.parametrize("make_optimizer", [ours, torchs, lambda m: optim.SGDDecay(m.parameters(), lr=1e-2)])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_a_resumed_run_equals_an_uninterrupted_one(make_model, tmp_path, make_optimizer, tied, private):
    torch.manual_seed(5)
    generator = torch.Generator().manual_seed(6) if private else None
    model = make_model(tie_word_embeddings=tied)
    optimizer = make_optimizer(model)
    train(model, optimizer, 3, generator)
    path = tmp_path / "last.safetensors"
    save_training(path, model, optimizer, 3, generator=generator)
    wanted = train(model, optimizer, 4, generator)

    torch.manual_seed(99)
    other_generator = torch.Generator().manual_seed(98) if private else None
    other = make_model(seed=1, tie_word_embeddings=tied)
    other_optimizer = make_optimizer(other)
    train(other, other_optimizer, 1)  # whatever it has learned is forgotten
    assert load_training(path, other, other_optimizer, generator=other_generator) == 3
    assert train(other, other_optimizer, 4, other_generator) == wanted
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_settings_of_the_groups_come_back(run):
    model, _, path = run
    other = ours(model)
    for group in other.param_groups:
        group["lr"] = 7.0
    load_training(path, model, other)
    assert [g["lr"] for g in other.param_groups] == [1e-2, 1e-2]
    assert [g["weight_decay"] for g in other.param_groups] == [0.1, 0.0]
    assert other.param_groups[0]["betas"] == (0.9, 0.999)


def test_what_is_told_without_tensors(run):
    model, _, path = run
    told = read_training(path)
    assert (told["step"], told["extra"], told["config"]) == (3, {"seed": 5}, model.config)


def test_wrapped_models_save_and_load_alike(run, make_model):
    model, optimizer, path = run
    wrapped = torch.nn.DataParallel(make_model(seed=2))
    assert load_training(path, wrapped, ours(wrapped.module)) == 3
    assert torch.equal(wrapped.module.norm.weight, model.norm.weight)
    save_training(path, torch.compile(model), optimizer, 4)
    assert read_training(path)["step"] == 4
    with safe_open(path, "pt") as file:
        assert not [name for name in file.keys() if "module" in name or "_orig_mod" in name]


def test_a_tied_head_is_stored_once(run):
    with safe_open(run[2], "pt") as file:
        names = list(file.keys())
    assert "model.token_embeddings.weight" in names and "model.lm_head.weight" not in names


# -- nothing is lost -------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_previous_checkpoint(run, monkeypatch):
    model, optimizer, path = run
    before = path.read_bytes()

    def full(tensors, file, metadata):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        save_training(path, model, optimizer, 4)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_killed_at_any_moment_the_last_checkpoint_loads(run, make_model):
    """A process that saves without pause is killed by SIGKILL, several times."""
    model, _, path = run
    code = textwrap.dedent(f"""
        import torch
        from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, optim
        from minillama.checkpoint import load_training, save_training
        model = MiniLLaMAForCausalLM(MiniLLaMAConfig(**{vars(model.config)!r}))
        optimizer = optim.AdamW(optim.decay_groups(model, 0.1))
        step = load_training({str(path)!r}, model, optimizer)
        print("ready", flush=True)
        while True:
            step += 1
            save_training({str(path)!r}, model, optimizer, step)
            print(step, flush=True)
    """)
    reached = 3
    for saves in (1, 2, 4):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(1 + saves):
            line = process.stdout.readline()
        process.kill()
        process.wait()
        assert line.strip() == str(reached + saves)
        other = make_model(seed=1)
        step = load_training(path, other, ours(other))
        assert step >= reached + saves and torch.equal(other.norm.weight, model.norm.weight)
        reached = step


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.999])
def test_a_truncated_file_is_named_and_changes_nothing(run, share):
    model, optimizer, path = run
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    before = {name: p.clone() for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match=r"last\.safetensors cannot be read"):
        load_training(path, model, optimizer)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def rewrite(path, change_fields=None, change_tensors=None):
    with safe_open(path, "pt") as file:
        fields = json.loads(file.metadata()["training"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    if change_fields:
        change_fields(fields)
    if change_tensors:
        change_tensors(tensors)
    save_file(tensors, path, metadata={"training": json.dumps(fields)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("model.norm.weight"), "lacks the tensor 'model.norm.weight'"),
        (lambda t: t.update({"model.more": torch.ones(1)}), r"unexpected tensors \['model.more'\]"),
        (
            lambda t: t.update({"model.norm.weight": torch.ones(3)}),
            "is .3,. torch.float32, the model's is .24,.",
        ),
        (lambda t: t.update({"model.norm.weight": torch.ones(24).double()}), "torch.float64, the model's"),
        (lambda t: t.update({"optimizer.norm.weight.m": torch.ones(3)}), "'optimizer.norm.weight.m' is"),
        (lambda t: t.update({"optimizer.other.m": torch.ones(3)}), "unexpected tensors"),
        (lambda t: t.pop("random.torch"), "lacks .'random.torch'"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named_and_nothing_is_changed(run, change, message):
    model, optimizer, path = run
    rewrite(path, change_tensors=change)
    train(model, optimizer, 1)
    before = {name: p.clone() for name, p in model.named_parameters()}
    moments = optimizer.state[model.norm.weight]["m"].clone()
    randoms = torch.get_rng_state()
    with pytest.raises(ValueError, match=message):
        load_training(path, model, optimizer)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert torch.equal(optimizer.state[model.norm.weight]["m"], moments)
    assert torch.equal(torch.get_rng_state(), randoms)


def test_another_configuration_is_named(run, make_model):
    other = make_model(d_ffn=48, rope_theta=5e5)
    with pytest.raises(ValueError, match="d_ffn, rope_theta differ"):
        load_training(run[2], other, ours(other))


def test_other_groups_are_refused(run):
    model, _, path = run
    with pytest.raises(ValueError, match="other parameter groups"):
        load_training(path, model, torchs(model))


def test_a_foreign_optimizer_is_refused(run, make_model):
    model, _, path = run
    with pytest.raises(ValueError, match="no parameter of model"):
        save_training(path, model, ours(make_model()), 4)


def test_what_is_no_training_checkpoint_is_named(run, tmp_path):
    model, optimizer, path = run
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_training(tmp_path / "none", model, optimizer)
    checkpoint.save_pretrained(model, tmp_path)
    with pytest.raises(ValueError, match="no training checkpoint"):
        load_training(tmp_path / "model.safetensors", model, optimizer)
    rewrite(path, change_fields=lambda f: f.update(format="minillama-training-9"))
    with pytest.raises(ValueError, match="no training checkpoint"):
        read_training(path)


@pytest.mark.parametrize("step", [-1, 1.0, True, None])
def test_a_bad_step_is_named(run, step):
    model, optimizer, path = run
    with pytest.raises(ValueError, match="step"):
        save_training(path, model, optimizer, step)


@pytest.mark.parametrize("extra", [{"x": torch.ones(1)}, {"x": float("nan")}, {1, 2}])
def test_extra_must_be_json(run, extra):
    model, optimizer, path = run
    before = path.read_bytes()
    with pytest.raises(ValueError, match="extra"):
        save_training(path, model, optimizer, 4, extra=extra)
    assert path.read_bytes() == before


def test_a_generator_that_was_not_saved_is_missed(run):
    model, optimizer, path = run
    with pytest.raises(ValueError, match=r"random\.generator"):
        load_training(path, model, optimizer, generator=torch.Generator())
