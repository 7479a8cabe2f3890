"""Every error on the troubleshooting page is raised here, and reads as the page says."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

from minillama import KVCache, MiniLLaMAConfig, MiniLLaMAForCausalLM, cross_entropy, generate
from minillama.__main__ import main
from minillama.data import write_tokens
from minillama.optim import gradient_clip
from minillama.tokenizer import Tokenizer

PAGE = Path(__file__).resolve().parents[1] / "book" / "troubleshooting.md"
IDS = torch.tensor([[1, 232, 58, 209, 2]])
TINY = dict(d_model=16, n_layers=1, n_q_heads=2, n_kv_heads=1, head_dim=8, d_ffn=24, max_seq_len=256)


def model():
    return MiniLLaMAForCausalLM(MiniLLaMAConfig(**TINY))


def cached(rows, max_len, t):
    language_model = model()
    cache = KVCache(language_model.config, 1, max_len)
    language_model(IDS[:, :1].repeat(1, t), past_key_values=cache)
    language_model(IDS[:, :1].repeat(rows, 1), past_key_values=cache)


def clip():
    weight = torch.zeros(2, 3, requires_grad=True)
    weight.grad = torch.full((2, 3), torch.nan)
    gradient_clip([weight], 1.0)


RAISERS = {
    "No module named 'torch'": lambda: importlib.import_module("torch"),
    "No module named 'minillama'": lambda: importlib.import_module("minillama"),
    "a Tokenizer needs": lambda: Tokenizer.train(["a text"], 300),
    "must be an integer tensor": lambda: model()(IDS.float()),
    "(B, T) and not empty": lambda: model()(IDS[0]),
    "vocab_size - 1": lambda: model()(torch.tensor([[5000]])),
    "labels must have": lambda: model()(IDS, labels=IDS[:, 1:]),
    "logits must be": lambda: cross_entropy(torch.zeros(2, 5, 4096), torch.zeros(2, 4, dtype=torch.long)),
    "mat1 and mat2": lambda: torch.nn.Linear(576, 192)(torch.zeros(10, 512)),
    "n_kv_heads must divide": lambda: MiniLLaMAConfig(n_kv_heads=3),
    "T + max_new_tokens": lambda: generate(model(), IDS.repeat(1, 50), 20),
    "the cache's max_len": lambda: cached(1, 8, 8),
    "input_ids has 2 rows": lambda: cached(2, 8, 3),
    "the gradient norm": clip,
    "already holds a run": lambda: main(["train"]),
    "no directory nowhere": lambda: main(["train", "--data", "nowhere"]),
}
MESSAGES = re.findall(r"^```\n(.+)\n```$", PAGE.read_text(encoding="utf-8"), re.M)


def test_every_message_of_the_page_is_raised_here():
    for message in MESSAGES:
        assert len([key for key in RAISERS if key in message]) == 1, message
    assert len(MESSAGES) == len(set(MESSAGES)) == len(RAISERS)


@pytest.mark.parametrize("message", MESSAGES)
def test_it_reads_as_the_page_says(message, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    if "ModuleNotFoundError" in message:
        missing = re.search(r"library (\w+)|named '(\w+)'", message)
        missing = missing[1] or missing[2]
        monkeypatch.setitem(sys.modules, missing, None)
        for name in [name for name in sys.modules if name.startswith(f"{missing}.")]:
            monkeypatch.setitem(sys.modules, name, None)
    if "holds a run" in message:
        tokenizer = Tokenizer.train(["If music be the food of love, play on"], 300)
        Path("data/shakespeare").mkdir(parents=True)
        tokenizer.save(Path("data/shakespeare/tokenizer.json"))
        for name in ("train", "validation"):
            write_tokens(f"data/shakespeare/{name}.tokens", [[1, 2, 3]], tokenizer)
        Path("runs/small").mkdir(parents=True)
        Path("runs/small/last.safetensors").touch()
    raiser = next(raiser for key, raiser in RAISERS.items() if key in message)
    if message.startswith("error: "):
        assert raiser() == 2
        assert capsys.readouterr().err.strip() == message
        return
    with pytest.raises((ImportError, RuntimeError, TypeError, ValueError)) as raised:
        raiser()
    if message.startswith("ModuleNotFoundError: No module"):  # Python's own words vary with how it is missing
        assert raised.type is ModuleNotFoundError and missing in str(raised.value)
    else:
        words = str(raised.value).removeprefix("addmm: ")  # since 2.15 torch names the operation first
        assert f"{raised.type.__name__}: {words}" == message
