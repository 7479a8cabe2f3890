"""filter_logits by hand and generate against the plainest loop one can write."""

import math

import pytest
import torch

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, filter_logits, generate
from minillama.generation import stream


def logits_of(*probabilities):
    return torch.tensor(probabilities).log()


def kept(logits):
    return logits.isfinite().nonzero().flatten().tolist()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# --- filter_logits --------------------------------------------------------------------------------


def test_nothing_asked_nothing_changed():
    logits = torch.randn(2, 3, 7, generator=generator())
    before = logits.clone()
    assert torch.equal(filter_logits(logits), before)
    filter_logits(logits, temperature=0.5, top_k=2, top_p=0.5)
    assert torch.equal(logits, before)  # a pure function


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
def test_temperature_divides(temperature):
    logits = torch.randn(5, generator=generator())
    torch.testing.assert_close(filter_logits(logits, temperature=temperature), logits / temperature)


def test_top_k_keeps_the_largest_as_they_are():
    out = filter_logits(torch.tensor([[1.0, 4.0, 2.0, 3.0], [9.0, 0.0, -1.0, 8.0]]), top_k=2)
    inf = math.inf
    assert out.tolist() == [[-inf, 4.0, -inf, 3.0], [9.0, -inf, -inf, 8.0]]
    assert kept(filter_logits(torch.tensor([1.0, 4.0, 2.0]), top_k=1)) == [1]


# CASES 28: k of the vocabulary's size or beyond has no effect.
@pytest.mark.parametrize("top_k", [4, 5, 100])
def test_top_k_beyond_the_vocabulary(top_k):
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0])
    assert torch.equal(filter_logits(logits, top_k=top_k), logits)


def test_top_k_with_ties_drops_nothing_better_than_what_it_keeps():
    logits = torch.tensor([1.0, 2.0, 2.0, 2.0, 3.0])
    out = filter_logits(logits, top_k=3)
    chosen = kept(out)
    assert 4 in chosen and 0 not in chosen and len(chosen) >= 3
    assert len(kept(filter_logits(torch.zeros(6), top_k=2))) >= 2


@pytest.mark.parametrize(
    "top_p, expected",
    [
        (1e-9, [1]),
        (0.3, [1]),
        (0.49, [1]),
        (0.51, [1, 3]),
        (0.74, [1, 3]),
        (0.76, [0, 1, 3]),
        (0.99, [0, 1, 2, 3]),
    ],
)
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p, expected):
    logits = logits_of(0.15, 0.5, 0.1, 0.25)
    out = filter_logits(logits, top_p=top_p)
    assert kept(out) == expected
    torch.testing.assert_close(out[expected], logits[expected])


@pytest.mark.parametrize("top_p, count", [(0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 4), (1.0, 4)])
def test_top_p_on_the_boundary_itself(top_p, count):
    # Four equal logits: the masses 0.25, 0.5, 0.75 and 1 are exact in floating point.
    assert len(kept(filter_logits(torch.zeros(4), top_p=top_p))) == count
    assert len(kept(filter_logits(torch.zeros(2, 3, 4), top_p=top_p)[1, 2])) == count


def test_top_p_one_keeps_everything():
    logits = torch.randn(3, 50, generator=generator())
    assert torch.equal(filter_logits(logits, top_p=1.0), logits)


def test_rows_are_filtered_one_by_one():
    logits = torch.randn(2, 3, 9, generator=generator()) * 3
    together = filter_logits(logits, temperature=0.7, top_k=5, top_p=0.8)
    assert together.shape == logits.shape
    for i in range(2):
        for j in range(3):
            alone = filter_logits(logits[i, j], temperature=0.7, top_k=5, top_p=0.8)
            torch.testing.assert_close(together[i, j], alone)


def test_temperature_comes_before_top_p():
    # At 0.5 the probabilities .6 .3 .1 become .78 .20 .02: the first alone reaches 0.7.
    logits = logits_of(0.6, 0.3, 0.1)
    assert kept(filter_logits(logits, top_p=0.7)) == [0, 1]
    assert kept(filter_logits(logits, temperature=0.5, top_p=0.7)) == [0]


def test_top_k_comes_before_top_p():
    # Of the best two, renormalized to .57 and .43, the first alone reaches 0.55.
    logits = logits_of(0.4, 0.3, 0.2, 0.1)
    assert kept(filter_logits(logits, top_p=0.55)) == [0, 1]
    assert kept(filter_logits(logits, top_k=2, top_p=0.55)) == [0]


def test_what_was_hidden_stays_hidden():
    out = filter_logits(torch.tensor([0.0, -math.inf, 1.0]), temperature=0.5, top_k=3, top_p=0.999)
    assert out.tolist() == [0.0, -math.inf, 2.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_filters_in_half_precision(dtype):
    out = filter_logits(torch.tensor([5.0, 0.0, -5.0], dtype=dtype), top_k=2, top_p=0.9)
    assert kept(out) == [0]


BAD_SETTINGS = [
    *(("temperature", value) for value in (-1.0, -1e-9, math.nan, math.inf)),
    *(("top_k", value) for value in (0, -1, 2.5)),
    *(("top_p", value) for value in (0.0, -0.1, 1.0001, 2, math.nan)),
]


@pytest.mark.parametrize("name, value", BAD_SETTINGS)
def test_bad_settings_are_named(make_model, make_ids, name, value):
    for temperature in (dict(), dict(temperature=0)):
        calls = [lambda: filter_logits(torch.zeros(4), **{name: value})]
        calls.append(lambda t=temperature: generate(make_model(), make_ids(1, 3), 2, **(t | {name: value})))
        for call in calls:
            with pytest.raises(ValueError) as error:
                call()
            assert name in str(error.value) and str(value) in str(error.value)


def test_temperature_zero_leaves_the_largest():
    assert kept(filter_logits(torch.tensor([0.0, 3.0, 2.0]), temperature=0)) == [1]
    assert kept(filter_logits(torch.tensor([0.0, 3.0, 2.0]), temperature=0, top_k=2, top_p=0.99)) == [1]


# --- generate -------------------------------------------------------------------------------------


@torch.no_grad()
def plainest_loop(model, ids, count):
    for _ in range(count):
        ids = torch.cat([ids, model(ids)[0][:, -1:].argmax(-1)], dim=1)
    return ids


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    "settings",
    [dict(temperature=0), dict(temperature=0.0), dict(temperature=1e-30), dict(top_k=1), dict(top_p=1e-9)],
)
def test_greedy_equals_the_plainest_loop(make_model, make_ids, use_cache, settings):
    model, ids = make_model(), make_ids(3, 5)
    out = generate(model, ids, 27, use_cache=use_cache, **settings)  # 5 + 27 = max_seq_len
    assert torch.equal(out, plainest_loop(model, ids, 27))
    assert out.dtype == ids.dtype and out.shape == (3, 32)


def test_temperature_zero_ignores_the_filters(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 5)
    out = generate(model, ids, 9, temperature=0, top_k=3, top_p=0.5)
    assert torch.equal(out, plainest_loop(model, ids, 9))


@pytest.mark.parametrize(
    "settings",
    [
        dict(),
        dict(temperature=0.7),
        dict(top_k=5),
        dict(top_p=0.8),
        dict(temperature=2.0, top_k=9, top_p=0.9),
    ],
)
def test_the_cache_changes_nothing(make_model, make_ids, settings):
    model, ids = make_model(), make_ids(3, 4)
    for seed in range(3):
        with_cache, without = (
            generate(model, ids, 20, generator=generator(seed), use_cache=use, **settings)
            for use in (True, False)
        )
        assert torch.equal(with_cache, without)


def test_the_cache_saves_work(make_model, make_ids):
    model, lengths = make_model(), []
    model.token_embeddings.register_forward_hook(lambda _m, inputs, _out: lengths.append(inputs[0].shape[1]))
    generate(model, make_ids(1, 5), 6, temperature=0)
    assert lengths[0] == 5 and set(lengths[1:]) == {1} and len(lengths) <= 7
    lengths.clear()
    generate(model, make_ids(1, 5), 6, temperature=0, use_cache=False)
    assert lengths[:6] == [5, 6, 7, 8, 9, 10]


def test_reproducible_and_only_from_its_generator(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 4)
    first, again, other = (generate(model, ids, 12, generator=generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    generate(model, ids, 3, generator=generator())
    generate(model, ids, 3, temperature=0)
    assert torch.equal(torch.get_rng_state(), state)
    first = generate(model, ids, 12)
    torch.manual_seed(0)
    assert torch.equal(first, generate(model, ids, 12))


def test_top_k_beyond_the_vocabulary_changes_no_sample(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 4)
    expected = generate(model, ids, 12, generator=generator())
    assert torch.equal(generate(model, ids, 12, top_k=100, generator=generator()), expected)


@pytest.mark.parametrize(
    "settings",
    [dict(temperature=1.0), dict(temperature=0.5), dict(temperature=2.0, top_k=4), dict(top_p=0.6)],
)
def test_frequencies_are_the_probabilities(make_model, settings):
    model, count = make_model(vocab_size=7), 20_000
    ids = torch.tensor([[3, 1, 4]])
    with torch.no_grad():
        probabilities = filter_logits(model(ids)[0][0, -1] / 4, **settings).softmax(-1)
        model.norm.weight.div_(4)  # softer logits, so that every word gets its share
    samples = generate(model, ids.expand(count, 3), 1, generator=generator(), **settings)[:, 3]
    frequencies = torch.bincount(samples, minlength=7) / count
    margin = 5 * (probabilities * (1 - probabilities) / count).sqrt()
    assert ((frequencies - probabilities).abs() <= margin + 1e-6).all()


def test_the_filters_hold_at_every_step(make_model, make_ids):
    model = make_model()
    out = generate(model, make_ids(4, 3), 20, top_k=2, generator=generator())
    with torch.no_grad():
        logits, *_ = model(out)
    rank = (logits[:, 2:-1] > logits[:, 2:-1].gather(2, out[:, 3:, None])).sum(-1)
    assert rank.max().item() == 1


# --- the end-of-text token ------------------------------------------------------------------------


@pytest.fixture
def counting_model():
    """A model that answers n with n + 1: only the residual stream is left, and the head is shifted by one."""
    config = MiniLLaMAConfig(
        vocab_size=12,
        d_model=12,
        n_layers=1,
        n_q_heads=2,
        n_kv_heads=1,
        head_dim=4,
        d_ffn=5,
        max_seq_len=16,
        tie_word_embeddings=False,
    )
    model = MiniLLaMAForCausalLM(config)
    with torch.no_grad():
        model.layers[0].attn.wo.weight.zero_()
        model.layers[0].ffn.w_down.weight.zero_()
        model.token_embeddings.weight.copy_(torch.eye(12))
        model.lm_head.weight.copy_(torch.eye(12).roll(1, dims=0) * 100)
    return model


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_rows_stop_at_the_end_token(counting_model, use_cache, temperature):
    def run(rows, count, eos_id):
        options = dict(temperature=temperature, use_cache=use_cache, generator=generator())
        return generate(counting_model, torch.tensor(rows), count, eos_id=eos_id, **options).tolist()

    assert run([[3], [5]], 10, 7) == [[3, 4, 5, 6, 7], [5, 6, 7, 7, 7]]
    assert run([[5]], 10, 7) == [[5, 6, 7]]
    assert run([[3], [5]], 3, 7) == [[3, 4, 5, 6], [5, 6, 7, 7]]  # cut off before the first row is done
    assert run([[3]], 3, 11) == [[3, 4, 5, 6]]
    assert run([[3], [9]], 5, None) == [[3, 4, 5, 6, 7, 8], [9, 10, 11, 0, 1, 2]]
    assert run([[10]], 5, 0) == [[10, 11, 0]]  # zero is a token like any other
    assert run([[7, 3]], 10, 7) == [[7, 3, 4, 5, 6, 7]]  # an end token inside the prompt ends nothing


# --- bounds, modes, dtypes ------------------------------------------------------------------------


@pytest.mark.parametrize("use_cache", [True, False])
def test_the_length_bound(make_model, make_ids, use_cache):
    model = make_model()
    assert generate(model, make_ids(1, 30), 2, temperature=0, use_cache=use_cache).shape == (1, 32)
    with pytest.raises(ValueError) as error:
        generate(model, make_ids(1, 30), 3, temperature=0, use_cache=use_cache)
    assert "32" in str(error.value) and ("33" in str(error.value) or "30" in str(error.value))


def test_no_new_tokens(make_model, make_ids):
    ids = make_ids(2, 5)
    assert torch.equal(generate(make_model(), ids, 0), ids)
    with pytest.raises(ValueError, match=r"33|max_seq_len"):
        generate(make_model(), make_ids(1, 33), 0)


@pytest.mark.parametrize("count", [-1, 1.5, True, None])
def test_a_bad_count_is_named(make_model, make_ids, count):
    with pytest.raises((TypeError, ValueError), match="max_new_tokens"):
        generate(make_model(), make_ids(1, 3), count)


@pytest.mark.parametrize("eos_id", [-1, 61, 1.0])
def test_an_end_token_outside_the_vocabulary_is_named(make_model, make_ids, eos_id):
    with pytest.raises((TypeError, ValueError), match="eos_id"):
        generate(make_model(), make_ids(1, 3), 2, eos_id=eos_id)


# CASES 24, in memory: ids wider than the prompt's type must not wrap around.
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_a_prompt_of_a_narrow_type(make_model, make_ids, dtype):
    model, ids = make_model(vocab_size=300), make_ids(2, 4, vocab_size=100)
    expected = generate(model, ids, 20, temperature=0)
    assert expected.max() > 255
    try:
        out = generate(model, ids.to(dtype), 20, temperature=0)
    except (TypeError, ValueError) as error:
        assert dtype != torch.int32 and "input_ids" in str(error)
    else:
        assert torch.equal(out.long(), expected)


# CASES 8: unequal prompts are refused, not padded.
@pytest.mark.parametrize(
    "ids",
    [
        [[1, 2], [3]],
        [[1, 2]],
        torch.tensor([1, 2]),
        torch.zeros(1, 0, dtype=torch.long),
        torch.tensor([[61]]),
    ],
)
def test_bad_prompts_are_named(make_model, ids):
    for count in (0, 2):
        with pytest.raises((TypeError, ValueError), match="input_ids"):
            generate(make_model(), ids, count)


# CASES 7: the mode the model was in comes back, whatever happens.
@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored(make_model, make_ids, training):
    model, during = make_model().train(training), []
    model.layers[1].register_forward_hook(lambda module, _i, _o: during.append(module.training))
    generate(model, make_ids(1, 3), 2)
    assert during and not any(during)  # evaluated in evaluation mode
    assert all(module.training is training for module in model.modules())
    with pytest.raises(ValueError):
        generate(model, make_ids(1, 3), 2, top_k=0)
    assert all(module.training is training for module in model.modules())

    def fail(*_):
        raise RuntimeError("interrupted")

    model.layers[2].register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="interrupted"):
        generate(model, make_ids(1, 3), 2)
    assert all(module.training is training for module in model.modules())


def test_a_frozen_part_keeps_its_own_mode(make_model, make_ids):
    model = make_model().train()
    model.layers[0].eval()
    before = [module.training for module in model.modules()]
    generate(model, make_ids(1, 3), 2)
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize("use_cache", [True, False])
def test_no_gradient_is_kept(make_model, make_ids, use_cache):
    model, ids, graphs = make_model(), make_ids(1, 3), []
    model.layers[1].ffn.register_forward_hook(lambda _m, _i, out: graphs.append(out.requires_grad))
    out = generate(model, ids, 4, use_cache=use_cache)
    assert graphs and not any(graphs) and not out.requires_grad and torch.is_grad_enabled()
    model(out, labels=out)[1].backward()  # the model can be trained on what it wrote
    assert all(p.grad is not None for p in model.parameters())


def test_a_compiled_step_is_traced_whole_and_once_for_all_positions(make_model, make_ids):
    model, ids, graphs = make_model(), make_ids(1, 7), []
    wanted = generate(model, ids, 20, temperature=0)

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    model.next_token_logits = torch.compile(
        model.next_token_logits, dynamic=True, fullgraph=True, backend=backend
    )
    assert torch.equal(generate(model, ids, 20, temperature=0), wanted)
    assert torch.equal(generate(model, ids[:, :5], 2, temperature=0)[:, :5], ids[:, :5])
    assert len(graphs) == 2  # the prompt, and a step at any position


def test_a_stream_gives_the_same_tokens_one_step_at_a_time(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 3)
    wanted = generate(model, ids, 6, top_k=9, generator=generator())
    for end, new in enumerate(stream(model, ids, 6, top_k=9, generator=generator()), start=3):
        assert new.shape == (2,) and torch.equal(new, wanted[:, end])
        assert not torch.is_inference_mode_enabled()  # the caller's code runs as it was
    assert end == 8


def test_a_stream_that_is_closed_restores_the_mode(make_model, make_ids):
    model = make_model().train()
    steps = stream(model, make_ids(1, 3), 6)
    next(steps)
    assert not model.training
    steps.close()
    assert model.training


def test_a_stream_checks_before_the_first_step(make_model, make_ids):
    with pytest.raises(ValueError, match="max_new_tokens"):
        stream(make_model(), make_ids(1, 3), -1)


def test_the_prompt_is_left_alone(make_model, make_ids):
    ids = make_ids(2, 4)
    before = ids.clone()
    out = generate(make_model(), ids, 5)
    assert torch.equal(ids, before) and torch.equal(out[:, :4], before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_cache_fits_the_models_dtype(make_model, make_ids, dtype):
    model, ids = make_model().to(dtype), make_ids(2, 4)
    out = generate(model, ids, 10, top_k=5, generator=generator())
    assert out.shape == (2, 14) and out.min() >= 0 and out.max() < 61
    assert generate(model, ids, 10, temperature=0).shape == (2, 14)
