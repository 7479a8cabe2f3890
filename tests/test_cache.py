"""KVCache: what it holds, its bounds, and that no old key shows through after reuse or failure."""

import pytest
import torch

from minillama import KVCache, MiniLLaMAConfig, accounting


def tensors(value):
    """Every tensor that an object holds, however it is nested."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, KVCache):
        for name in (*vars(value), *getattr(value, "__slots__", ())):
            yield from tensors(getattr(value, name))


def held_bytes(cache):
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors(cache)}
    return sum(storages.values())


# CASES 6: the cache holds key/value heads only.
@pytest.mark.parametrize("dtype, size", [(torch.float32, 4), (torch.bfloat16, 2), (torch.float64, 8)])
def test_size_and_dtype(make_config, dtype, size):
    config = make_config()
    cache = KVCache(config, batch_size=5, max_len=7, dtype=dtype)
    expected = 2 * 3 * 5 * 7 * 2 * 10 * size  # keys and values, layers, batch, length, kv heads, head_dim
    assert cache.nbytes == expected == held_bytes(cache)
    assert cache.nbytes == accounting.kv_cache_bytes(config, 5, 7, size)
    assert {t.dtype for t in tensors(cache)} == {dtype}
    assert cache.length == 0


def test_defaults(make_config):
    config = make_config()
    cache = KVCache(config)
    assert cache.nbytes == accounting.kv_cache_bytes(config, 1, config.max_seq_len, 4)
    assert {(t.dtype, t.device.type) for t in tensors(cache)} == {(torch.float32, "cpu")}


def test_device():
    llama3_8b = dict(vocab_size=128256, d_model=4096, n_layers=32, n_q_heads=32, n_kv_heads=8, head_dim=128)
    config = MiniLLaMAConfig(**llama3_8b, d_ffn=14336, max_seq_len=8192, rope_theta=5e5)
    cache = KVCache(config, dtype=torch.bfloat16, device="meta")
    assert cache.nbytes == 2**30  # one gibibyte, none of it allocated
    assert {t.device.type for t in tensors(cache)} == {"meta"}


@pytest.mark.parametrize("name", ["batch_size", "max_len"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_bad_sizes_are_named(make_config, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        KVCache(make_config(), **{name: value})


def test_a_dtype_that_cannot_hold_keys_is_refused(make_config):
    with pytest.raises((TypeError, ValueError), match="int64"):
        KVCache(make_config(), dtype=torch.int64)


def test_a_forward_pass_appends_in_place(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 9)
    cache = KVCache(model.config, batch_size=2)
    places = [t.data_ptr() for t in tensors(cache)]
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        *_, returned = model(ids[:, start:stop], past_key_values=cache)
        assert returned is cache and cache.length == stop
    cache.reset()
    assert cache.length == 0
    assert [t.data_ptr() for t in tensors(cache)] == places  # preallocated: nothing ever moves
    assert not any(t.requires_grad for t in tensors(cache))


@torch.no_grad()
def test_filled_to_the_brim_and_not_beyond(make_model, make_ids):
    model, ids = make_model(), make_ids(1, 8)
    expected, *_ = model(ids)
    cache = KVCache(model.config, max_len=7)
    first, *_ = model(ids[:, :5], past_key_values=cache)
    held = [t.clone() for t in tensors(cache)]
    with pytest.raises(ValueError) as error:
        model(ids[:, 5:], past_key_values=cache)
    assert "8" in str(error.value) and "7" in str(error.value)
    assert cache.length == 5
    assert all(torch.equal(a, b) for a, b in zip(held, tensors(cache), strict=True))
    rest, *_ = model(ids[:, 5:7], past_key_values=cache)
    torch.testing.assert_close(torch.cat([first, rest], 1), expected[:, :7], rtol=0, atol=1e-5)
    with pytest.raises(ValueError):
        model(ids[:, 7:], past_key_values=cache)


@torch.no_grad()
def test_a_pass_that_fails_halfway_leaves_the_cache_as_it_was(make_model, make_ids):
    model, ids = make_model(), make_ids(1, 8)
    expected, *_ = model(ids)
    cache = KVCache(model.config)
    model(ids[:, :5], past_key_values=cache)

    def fail(*_):
        raise RuntimeError("interrupted")

    handle = model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="interrupted"):
        model(ids[:, :2], past_key_values=cache)
    handle.remove()
    assert cache.length == 5
    rest, *_ = model(ids[:, 5:], past_key_values=cache)
    torch.testing.assert_close(rest, expected[:, 5:], rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("keep", [0, 1, 4, 9])
def test_truncation_forgets(make_model, make_ids, keep):
    model, ids, other = make_model(), make_ids(2, 9), make_ids(2, 20, seed=1)
    cache = KVCache(model.config, batch_size=2)
    model(ids, past_key_values=cache)
    cache.truncate(keep)
    assert cache.length == keep
    mixed = torch.cat([ids[:, :keep], other], 1)
    out, *_ = model(other, past_key_values=cache)
    torch.testing.assert_close(out, model(mixed)[0][:, keep:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [-1, 6, 32, 2.0, True, None])
def test_truncation_has_bounds(make_model, make_ids, length):
    model = make_model()
    cache = KVCache(model.config)
    with torch.no_grad():
        model(make_ids(1, 5), past_key_values=cache)
    with pytest.raises((TypeError, ValueError)) as error:
        cache.truncate(length)
    assert "length" in str(error.value) and str(length) in str(error.value)
    assert cache.length == 5


# CASES 4: a second request sees nothing of the first.
@torch.no_grad()
def test_the_same_cache_for_one_request_after_another(make_model, make_ids):
    model = make_model()
    cache = KVCache(model.config)

    def greedy(prompt, cache):
        tokens, chunk = prompt, prompt
        for _ in range(6):
            logits, *_ = model(chunk, past_key_values=cache)
            chunk = logits[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, chunk], 1)
        return tokens

    prompt = make_ids(1, 12)
    for request in (prompt, prompt, prompt[:, 3:7], make_ids(1, 5, seed=3)):
        cache.reset()
        assert torch.equal(greedy(request, cache), greedy(request, KVCache(model.config)))


@torch.no_grad()
def test_a_cache_of_another_batch_size_is_refused(make_model, make_ids):
    model = make_model()
    cache = KVCache(model.config, batch_size=5)
    for batch in (1, 3, 6):
        with pytest.raises(ValueError) as error:
            model(make_ids(batch, 4), past_key_values=cache)
        assert str(batch) in str(error.value) and "5" in str(error.value)
        assert cache.length == 0


@torch.no_grad()
@pytest.mark.parametrize("model_dtype, cache_dtype", [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_a_cache_of_another_dtype_is_refused(make_model, make_ids, model_dtype, cache_dtype):
    model = make_model().to(getattr(torch, model_dtype))
    with pytest.raises(ValueError) as error:
        model(make_ids(1, 4), past_key_values=KVCache(model.config, dtype=getattr(torch, cache_dtype)))
    assert model_dtype in str(error.value) and cache_dtype in str(error.value)
    model(make_ids(1, 4), past_key_values=KVCache(model.config, dtype=getattr(torch, model_dtype)))


@torch.no_grad()
@pytest.mark.parametrize("other", [dict(n_layers=2), dict(n_layers=4), dict(n_kv_heads=6), dict(head_dim=8)])
def test_a_cache_made_for_another_model_is_refused(make_model, make_config, make_ids, other):
    with pytest.raises(ValueError):
        make_model()(make_ids(1, 4), past_key_values=KVCache(make_config(**other)))


def test_something_else_in_the_caches_place_is_refused(make_model, make_ids):
    with pytest.raises((TypeError, ValueError), match="past_key_values"):
        make_model()(make_ids(1, 4), past_key_values=[(torch.zeros(1), torch.zeros(1))])


def test_gradients_through_a_cached_pass_are_right_or_refused(make_model, make_ids):
    """Keys and values that lost their history would train wq alone, without a word."""
    model, ids = make_model(), make_ids(2, 6)
    model(ids, labels=ids)[1].backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    try:
        model(ids, labels=ids, past_key_values=KVCache(model.config, batch_size=2))[1].backward()
    except (RuntimeError, ValueError):
        return
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-5, msg=name)
