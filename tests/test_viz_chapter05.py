"""The explorers of chapter 5 show the bytes that the package counts, and caches really take."""

import re

import pytest
import torch

from minillama import KVCache, MiniLLaMAConfig, accounting, viz
from minillama.viz import chapter05

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "8 bits": torch.float8_e5m2}


@pytest.fixture(scope="module")
def sharing():
    return viz.head_sharing()


@pytest.fixture(scope="module")
def memories():
    return viz.memories()


def words(explorer, state) -> list[str]:
    return [mark["content"] for mark in explorer.marks(**state) if mark["kind"] == "text"]


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        (512, "512 bytes"),
        (1024, "1.0 KiB"),
        (12_288, "12.0 KiB"),
        (2**20 - 1, "1024.0 KiB"),
        (25_165_824, "24.0 MiB"),
        (5 * 2**28, "1.25 GiB"),
        (3 * 2**40, "3.00 TiB"),
        (2**52, "4096.0 TiB"),
    ],
)
def test_amounts(n, shown):
    assert chapter05.amount(n) == shown


def test_shared_heads_cost_what_a_cache_of_that_size_takes(sharing):
    for state in sharing.states():
        config = MiniLLaMAConfig(n_kv_heads=state["kv_heads"])
        cache = KVCache(config, state["batch"], state["context"], DTYPES[state["precision"]], "meta")
        size = chapter05.BYTES[state["precision"]]
        shown = words(sharing, state)
        assert chapter05.amount(cache.nbytes) in shown, state
        assert chapter05.amount(accounting.kv_cache_bytes(config, 1, 1, size)) in shown
        assert chapter05.amount(accounting.count_parameters(chapter05.MINI)["total"] * size) in shown


def test_every_query_head_has_its_line_to_its_key_value_head(sharing):
    state = sharing.start | {"kv_heads": 2}
    lines = [mark for mark in sharing.marks(**state) if mark["kind"] == "line"]
    assert len(lines) == 8 and len({mark["x2"] for mark in lines}) == 2
    assert [mark["x2"] for mark in lines] == sorted(mark["x2"] for mark in lines)  # in place, not in turns
    names = {g: words(sharing, sharing.start | {"kv_heads": g}) for g in (1, 2, 8)}
    assert any(text.startswith("MQA") for text in names[1])
    assert "GQA: 2 key/value heads, 4 query heads to each" in names[2]
    assert any(text.startswith("MHA") for text in names[8])
    assert "25.0 % of what 8 key/value heads would keep" in names[2]


def test_bars_stay_in_the_picture(sharing):
    for state in sharing.states():
        for mark in sharing.marks(**state):
            if mark["kind"] == "rect":
                assert 0 <= mark["x"] and mark["x"] + mark["width"] <= 380.001, state


def test_published_models_as_their_papers_have_them():
    per_token = {row["name"]: 2 * row["per_head"] * row["kv_heads"] for row in chapter05.memory_rows()}
    assert per_token["Llama 2 7B"] == 512 * 1024 and per_token["Llama 2 70B"] == 320 * 1024
    assert per_token["Llama 3 8B"] == 128 * 1024 and per_token["MiniLLaMA"] == 6 * 1024
    weights = {row["name"]: row["weights"] for row in chapter05.memory_rows()}
    assert weights["SmolLM2 135M"] == 134_515_008 and weights["MiniLLaMA"] == 35_926_528
    assert weights["Llama 3 8B"] == 8_030_261_248


def test_memories_say_which_cache_outweighs_its_model(memories):
    assert "0 of 10 caches outweigh their model." in memories.alt(**memories.start)
    state = {"context": 131072, "heads": "as published", "precision": "bfloat16"}
    assert "Llama 3.2 1B 4.00 GiB," in memories.alt(**state)
    shown = words(memories, state)
    assert "4.00 GiB" in shown and "512.0 MiB*" in shown  # Mistral's window, beyond its context
    own = memories.alt(**state | {"heads": "one for each query head"})
    assert "Llama 3.2 1B 16.00 GiB" in own and "Llama 2 7B 64.00 GiB beyond its context" in own


def test_all_dots_lie_on_the_axis(memories):
    for state in memories.states():
        for mark in memories.marks(**state):
            if mark["kind"] == "circle" and mark["cx"] > 50:
                assert chapter05.FROM <= mark["cx"] <= chapter05.TO, state
    assert len(re.findall("beyond", memories.alt(**memories.start))) == 1
