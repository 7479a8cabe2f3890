"""The explorer of chapter 7: what it prints is what `accounting` counts."""

import itertools
import random

import pytest

from minillama import MiniLLaMAConfig, accounting, viz
from minillama.viz import chapter07
from minillama.viz.chapter05 import BYTES, amount


@pytest.fixture(scope="module")
def bill():
    return viz.model_bill()


def states(explorer, n=300):
    draw = random.Random(7)
    for _ in range(n):
        yield {control.key: draw.choice(control.values) for control in explorer.controls}
    for name, tokens in itertools.product(chapter07.NAMES, (1, 8192)):
        yield explorer.start | {"preset": name, "tokens": tokens}


def words(explorer, state) -> list[str]:
    return [mark["content"] for mark in explorer.marks(**state) if mark["kind"] == "text"]


def test_it_starts_as_the_books_model(bill):
    assert chapter07.sizes_of(bill.start) == MiniLLaMAConfig()
    shown = words(bill, bill.start)
    assert {"35,926,528", "97.0 M", "137.0 MiB", "24.0 MiB", "548.2 MiB"} <= set(shown)
    assert "Scores outgrow feed-forward beyond 4,223 tokens." in shown


def test_every_state_is_accounted_for(bill):
    for state in states(bill):
        config, tokens = chapter07.sizes_of(state), state["tokens"]
        size = BYTES[state["precision"]]
        parts, shown = accounting.count_parameters(config), words(bill, state)
        flops = accounting.flops_per_token(config, tokens)
        assert f"{parts['total']:,}" in shown
        assert chapter07.count_text(flops) in shown
        assert amount(parts["total"] * size) in shown
        assert amount(accounting.kv_cache_bytes(config, 1, tokens, size)) in shown
        assert amount(int(accounting.training_bytes(config)["total"])) in shown


def test_a_single_layer_is_no_layers(bill):
    shown = words(bill, bill.start | {"layers": 1})
    assert any(text.startswith("1 layer, C 512") for text in shown)


def test_bars_are_filled_and_stay_in_the_picture(bill):
    for state in states(bill, 60):
        bars = [mark for mark in bill.marks(**state) if mark["kind"] == "rect" and mark["height"] == 16]
        parts = accounting.count_parameters(chapter07.sizes_of(state))
        kept, spent = sum(m["width"] for m in bars[:3]), sum(m["width"] for m in bars[3:])
        assert kept == pytest.approx(chapter07.WIDE * (1 - parts["norms"] / parts["total"]))
        assert spent == pytest.approx(chapter07.WIDE)


def test_the_crossing_is_where_it_is_said_to_be(bill):
    for state in states(bill, 60):
        config = chapter07.sizes_of(state)
        said = next(text for text in words(bill, state) if text.startswith("Scores outgrow"))
        ffn = 2 * accounting.count_parameters(config)["feed_forward"]

        def scores(n, config=config):
            return 2 * config.n_layers * config.n_q_heads * config.head_dim * (n + 1)

        if "start" in said:
            assert scores(1) > ffn
        else:
            last = int(said.split("beyond ")[1].split()[0].replace(",", ""))
            assert scores(last) <= ffn < scores(last + 1)


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (24_576, "24.6 K"),
        (97_005_568, "97.0 M"),
        (9_999_999, "10.00 M"),
        (1.5e9, "1.50 G"),
        (3.1e11, "310.0 G"),
    ],
)
def test_counts_are_short(n, text):
    assert chapter07.count_text(n) == text
