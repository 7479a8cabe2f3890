"""The whole model: structure, causality, chunks, positions, labels, dtypes and what it refuses."""

import copy
import itertools
import math
import random

import pytest
import torch
from torch.nn import functional as F

from minillama import KVCache, MiniLLaMAForCausalLM, RopeScaling, apply_rotary_emb, precompute_freqs_cis


def test_structure(make_config):
    model = MiniLLaMAForCausalLM(make_config(tie_word_embeddings=False))
    layer = {
        "attn_norm.weight": (24,),
        "attn.wq.weight": (60, 24),
        "attn.wk.weight": (20, 24),
        "attn.wv.weight": (20, 24),
        "attn.wo.weight": (24, 60),
        "ffn_norm.weight": (24,),
        "ffn.w_gate.weight": (44, 24),
        "ffn.w_up.weight": (44, 24),
        "ffn.w_down.weight": (24, 44),
    }
    expected = {"token_embeddings.weight": (61, 24), "norm.weight": (24,), "lm_head.weight": (61, 24)}
    expected |= {f"layers.{i}.{name}": shape for i in range(3) for name, shape in layer.items()}
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == expected
    # The rotary tables follow from the configuration and stay out of the checkpoint.
    assert {name: tuple(t.shape) for name, t in model.state_dict().items()} == expected
    assert all(isinstance(module, torch.nn.Linear) for module in [model.lm_head, model.layers[0].attn.wq])
    assert model.config == make_config(tie_word_embeddings=False)


def test_a_block_is_pre_norm_with_two_residuals(make_model, make_ids):
    model, seen = make_model(), {}
    for i, block in enumerate(model.layers):
        for name in ("attn_norm", "ffn_norm"):
            getattr(block, name).register_forward_hook(
                lambda _m, inputs, _out, key=(i, name): seen.update({key: inputs[0]})
            )
        for name, module in (("wo", block.attn.wo), ("w_down", block.ffn.w_down)):
            module.register_forward_hook(lambda _m, _inputs, out, key=(i, name): seen.update({key: out}))
    model.norm.register_forward_hook(lambda _m, inputs, out: seen.update(last=inputs[0], normed=out))
    ids = make_ids(2, 5)
    logits, *_ = model(ids)
    x = F.embedding(ids, model.token_embeddings.weight)
    for i in range(3):
        torch.testing.assert_close(seen[i, "attn_norm"], x)
        torch.testing.assert_close(seen[i, "ffn_norm"], x + seen[i, "wo"])
        x = x + seen[i, "wo"] + seen[i, "w_down"]
    torch.testing.assert_close(seen["last"], x)
    torch.testing.assert_close(logits, seen["normed"] @ model.lm_head.weight.T)


def test_what_comes_back(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 5)
    logits, loss, past = model(ids)
    assert logits.shape == (2, 5, 61) and loss is None and past is None
    logits, loss, past = model(ids, labels=ids)
    assert logits.shape == (2, 5, 61) and loss.shape == () and past is None


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_starts_near_the_log_of_the_vocabulary(make_config, tied):
    torch.manual_seed(0)
    config = make_config(vocab_size=997, d_model=96, d_ffn=256, n_layers=6, tie_word_embeddings=tied)
    model = MiniLLaMAForCausalLM(config)
    ids = torch.randint(997, (8, 32))
    _, loss, _ = model(ids, labels=ids)
    assert loss.item() == pytest.approx(math.log(997), abs=0.15)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            assert abs(parameter.mean().item()) < 0.2 * parameter.std().item(), name


def test_two_models_of_one_seed_are_equal(make_config):
    states = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        states.append(MiniLLaMAForCausalLM(make_config()).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["layers.0.attn.wq.weight"], states[2]["layers.0.attn.wq.weight"])


# --- causality, chunks, rows ----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("changed", [0, 1, 6, 11])
def test_no_logit_depends_on_a_later_token(make_model, make_ids, cached, changed):
    model, ids = make_model(), make_ids(2, 12)
    other = ids.clone()
    other[:, changed] = (other[:, changed] + 1) % 61
    before, after = (
        model(x, past_key_values=KVCache(model.config, batch_size=2) if cached else None)[0]
        for x in (ids, other)
    )
    torch.testing.assert_close(before[:, :changed], after[:, :changed], rtol=0, atol=1e-6)
    moved = (before - after)[:, changed:].abs().amax(dim=(0, 2))
    assert (moved > 1e-3).all()  # and every later one does


# CASES 3: a prefill with a cache, and a second chunk after it, keep their masks.
@torch.no_grad()
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_a_chunk_cannot_see_its_own_future(make_model, make_ids, prefix):
    model, ids = make_model(), make_ids(1, 12)
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 7) % 61
    outs = []
    for x in (ids, other):
        cache = KVCache(model.config)
        if prefix:
            model(x[:, :prefix], past_key_values=cache)
        outs.append(model(x[:, prefix:], past_key_values=cache)[0])
    torch.testing.assert_close(outs[0][:, :-1], outs[1][:, :-1], rtol=0, atol=1e-6)
    assert (outs[0][:, -1] - outs[1][:, -1]).abs().max() > 1e-3


def random_splits(length, count, seed):
    chooser = random.Random(seed)
    for _ in range(count):
        cuts = sorted(chooser.sample(range(1, length), chooser.randrange(1, length)))
        yield [0, *cuts, length]


@torch.no_grad()
@pytest.mark.parametrize(
    "heads", [dict(), dict(n_kv_heads=6), dict(n_kv_heads=1), dict(tie_word_embeddings=False)]
)
def test_any_split_into_chunks_equals_one_pass(make_model, make_ids, heads):
    model, ids = make_model(**heads), make_ids(2, 32)
    expected, *_ = model(ids)
    everything_at_once, one_by_one = [0, 32], list(range(33))
    for bounds in (everything_at_once, one_by_one, [0, 31, 32], [0, 1, 32], *random_splits(32, 8, seed=0)):
        cache = KVCache(model.config, batch_size=2)
        chunks = [
            model(ids[:, a:b], past_key_values=cache, start_pos=random.Random(a).choice([None, a]))[0]
            for a, b in itertools.pairwise(bounds)
        ]
        assert (torch.cat(chunks, 1) - expected).abs().max().item() <= 1e-5, bounds


@torch.no_grad()
def test_rows_of_a_batch_do_not_touch(make_model, make_ids):
    model, ids = make_model(), make_ids(5, 9)
    together, *_ = model(ids)
    for row in range(5):
        torch.testing.assert_close(together[row : row + 1], model(ids[row : row + 1])[0], rtol=0, atol=1e-5)


@torch.no_grad()
def test_training_and_evaluation_mode_agree(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 9)
    assert torch.equal(model.train()(ids)[0], model.eval()(ids)[0])


# --- positions ------------------------------------------------------------------------------------


def queries_and_keys(model, monkeypatch, *args, **kwargs):
    """What the first layer hands to PyTorch's fused attention: (before rotation, after rotation)."""
    plain, rotated = {}, []
    attention = model.layers[0].attn
    handles = [
        getattr(attention, name).register_forward_hook(
            lambda _m, _i, out, name=name: plain.update({name: out})
        )
        for name in ("wq", "wk")
    ]
    fused = F.scaled_dot_product_attention

    def spy(q, k, *rest, **options):
        rotated.append((q, k))
        return fused(q, k, *rest, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    model(*args, **kwargs)
    monkeypatch.undo()
    for handle in handles:
        handle.remove()
    assert rotated, "the model does not use torch's fused attention"
    return plain["wq"], plain["wk"], *rotated[0]


@torch.no_grad()
@pytest.mark.parametrize("start_pos", [None, 0, 1, 25])
def test_start_pos_offsets_the_positions(make_model, make_ids, monkeypatch, start_pos):
    model, offset = make_model(), start_pos or 0
    plain_q, _, q, _ = queries_and_keys(model, monkeypatch, make_ids(2, 7), start_pos=start_pos)
    cos, sin = (table[offset:] for table in precompute_freqs_cis(10, offset + 7))
    expected = apply_rotary_emb(plain_q.view(2, 7, 6, 10), cos, sin).transpose(1, 2)
    torch.testing.assert_close(q, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_only_distances_matter(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 7)
    torch.testing.assert_close(model(ids)[0], model(ids, start_pos=20)[0], rtol=0, atol=1e-4)


@torch.no_grad()
def test_theta_and_scaling_reach_the_tables(make_config, make_model, make_ids):
    scaling = RopeScaling(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
    )
    ids, outs = make_ids(1, 20), []
    for options in (dict(), dict(rope_theta=100.0), dict(rope_scaling=scaling)):
        outs.append(make_model(**options)(ids)[0])
    assert (outs[0] - outs[1]).abs().max() > 1e-2 and (outs[0] - outs[2]).abs().max() > 1e-2


@torch.no_grad()
def test_a_start_that_contradicts_the_cache_is_refused(make_model, make_ids):
    model, cache = make_model(), None
    cache = KVCache(model.config)
    model(make_ids(1, 5), past_key_values=cache)
    for start_pos in (0, 4, 6):
        with pytest.raises(ValueError) as error:
            model(make_ids(1, 2), past_key_values=cache, start_pos=start_pos)
        assert (
            "start_pos" in str(error.value) and str(start_pos) in str(error.value) and "5" in str(error.value)
        )
    assert cache.length == 5
    model(make_ids(1, 2), past_key_values=cache, start_pos=5)
    assert cache.length == 7


@pytest.mark.parametrize("start_pos", [-1, 1.0, True, "0", torch.tensor([0, 1])])
def test_a_bad_start_is_named(make_model, make_ids, start_pos):
    with pytest.raises((TypeError, ValueError), match="start_pos"):
        make_model()(make_ids(2, 3), start_pos=start_pos)


@torch.no_grad()
def test_the_length_bound(make_model, make_ids):
    model = make_model()
    assert model(make_ids(1, 32))[0].shape == (1, 32, 61)
    assert model(make_ids(1, 2), start_pos=30)[0].shape == (1, 2, 61)
    for length, start_pos, total in ((33, None, 33), (3, 30, 33), (1, 32, 33)):
        with pytest.raises(ValueError) as error:
            model(make_ids(1, length), start_pos=start_pos)
        message = str(error.value)
        assert "32" in message and (
            str(total) in message or (str(length) in message and str(start_pos) in message)
        )


@torch.no_grad()
def test_the_length_bound_with_a_cache(make_model, make_ids):
    model = make_model()
    cache = KVCache(model.config)
    model(make_ids(1, 30), past_key_values=cache)
    with pytest.raises(ValueError, match="32"):
        model(make_ids(1, 3), past_key_values=cache)
    model(make_ids(1, 2), past_key_values=cache)
    assert cache.length == 32


# --- input ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids, said",
    [
        ([[1, 2, 3]], "list"),
        (torch.tensor([[1.0, 2.0]]), "float32"),
        (torch.tensor([[True, False]]), "bool"),
        (torch.tensor([1, 2, 3]), r"\(3,\)|1"),
        (torch.tensor(3), r"\(\)|0"),
        (torch.zeros(2, 3, 1, dtype=torch.long), r"\(2, 3, 1\)|3"),
        (torch.zeros(1, 0, dtype=torch.long), r"\(1, 0\)|empty"),
        (torch.zeros(0, 3, dtype=torch.long), r"\(0, 3\)|empty"),
        (torch.tensor([[1, -1]]), "-1"),
        (torch.tensor([[1, 61]]), "61"),
        (torch.tensor([[1, 70000]]), "70000"),
    ],
)
def test_bad_ids_are_named(make_model, ids, said):
    with pytest.raises((TypeError, ValueError), match="input_ids") as error:
        make_model()(ids)
    error.match(said)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16])
def test_any_integer_type_works_or_is_refused(make_model, make_ids, dtype):
    model, ids = make_model(), make_ids(2, 5)
    try:
        logits, *_ = model(ids.to(dtype))
    except (TypeError, ValueError) as error:
        assert dtype != torch.int32 and "input_ids" in str(error) and str(dtype) in str(error)
    else:
        assert torch.equal(logits, model(ids)[0])


@torch.no_grad()
def test_the_first_and_the_last_id_are_good(make_model):
    assert make_model()(torch.tensor([[0, 60]]))[0].isfinite().all()


# CASES 8: no attention mask, so a padded batch cannot be passed off as a plain one.
def test_there_is_no_padding(make_model, make_ids):
    with pytest.raises(TypeError):
        make_model()(make_ids(2, 3), attention_mask=torch.ones(2, 3))


# --- labels ---------------------------------------------------------------------------------------


def test_labels_are_shifted_inside_row_by_row(make_model, make_ids):
    model, ids, labels = make_model(), make_ids(3, 8), make_ids(3, 8, seed=1)
    labels[0, 2:] = -100  # unequal numbers per row: the mean is over targets, not over rows
    logits, loss, _ = model(ids, labels=labels)
    wanted, got = labels[:, 1:].reshape(-1), logits[:, :-1].reshape(-1, 61)
    torch.testing.assert_close(loss, F.cross_entropy(got, wanted))
    by_hand = [
        -logits[b, t].log_softmax(-1)[labels[b, t + 1]]
        for b in range(3)
        for t in range(7)
        if labels[b, t + 1] != -100
    ]
    torch.testing.assert_close(loss, torch.stack(by_hand).mean())
    first_only = labels.clone()
    first_only[:, 0] = -100  # nothing predicts the first token
    torch.testing.assert_close(model(ids, labels=first_only)[1], loss)


@pytest.mark.parametrize("length, label", [(1, 5), (1, -100), (4, -100)])
def test_without_a_valid_label_the_loss_is_a_differentiable_zero(make_model, make_ids, length, label):
    model = make_model()
    _, loss, _ = model(make_ids(2, length), labels=torch.full((2, length), label))
    assert loss.item() == 0.0 and loss.requires_grad and loss.shape == ()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.equal(parameter.grad, torch.zeros_like(parameter)), name


@pytest.mark.parametrize(
    "labels",
    [
        torch.zeros(2, 4, dtype=torch.long),  # shifted by the caller
        torch.zeros(3, 5, dtype=torch.long),
        torch.zeros(10, dtype=torch.long),
        torch.zeros(2, 5),
        torch.full((2, 5), 61),
        torch.full((2, 5), -1),
        [[0] * 5] * 2,
    ],
)
def test_bad_labels_are_refused(make_model, make_ids, labels):
    with pytest.raises((TypeError, ValueError)):
        make_model()(make_ids(2, 5), labels=labels)


def test_gradients_reach_every_parameter(make_model, make_ids):
    for tied in (True, False):
        model, ids = make_model(tie_word_embeddings=tied), make_ids(4, 12)
        model(ids, labels=ids)[1].backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_a_few_steps_learn(make_config, make_ids):
    torch.manual_seed(0)
    model, ids = MiniLLaMAForCausalLM(make_config()), make_ids(2, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        _, loss, _ = model(ids, labels=ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


# --- tied and untied ------------------------------------------------------------------------------


# CASES 12: tied means one tensor, through whatever is done to the model.
def test_tied_weights_are_one_tensor(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 6)

    def tied(model):
        return model.lm_head.weight is model.token_embeddings.weight

    assert tied(model) and "lm_head.weight" not in dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(ids, labels=ids)[1].backward()
    before = model.lm_head.weight.detach().clone()
    optimizer.step()
    assert tied(model) and not torch.equal(model.lm_head.weight, before)
    assert tied(copy.deepcopy(model))
    assert tied(copy.deepcopy(model).to(torch.bfloat16))
    other = make_model(seed=1)
    other.load_state_dict(model.state_dict())
    assert tied(other) and torch.equal(other(ids)[0], model(ids)[0])


# CASES 13: untied means two.
def test_untied_weights_are_two_tensors(make_model):
    model = make_model(tie_word_embeddings=False)
    embedding = model.token_embeddings.weight.detach().clone()
    with torch.no_grad():
        model.lm_head.weight.add_(1.0)
    assert torch.equal(model.token_embeddings.weight, embedding)
    assert not torch.equal(model.token_embeddings.weight, model.lm_head.weight)


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
def test_copies_and_state_dicts(make_model, make_ids, tied):
    model, ids = make_model(tie_word_embeddings=tied), make_ids(2, 6)
    expected, *_ = model(ids)
    other = make_model(seed=1, tie_word_embeddings=tied)
    assert not torch.allclose(other(ids)[0], expected)
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other(ids)[0], expected)
    twin = copy.deepcopy(model)
    model.layers[0].attn.wq.weight.zero_()
    assert torch.equal(twin(ids)[0], expected)


# --- dtypes ---------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_casting_the_model_there_and_back_keeps_the_phases(make_model, make_config, make_ids, dtype):
    model = make_model(max_seq_len=300).to(dtype).float()
    fresh = MiniLLaMAForCausalLM(make_config(max_seq_len=300))
    fresh.load_state_dict(model.state_dict())
    ids = make_ids(1, 12)
    assert torch.equal(model(ids, start_pos=280)[0], fresh(ids, start_pos=280)[0])


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_phases_stay_float32_in_a_half_precision_model(make_model, make_ids, monkeypatch, dtype):
    model = make_model(max_seq_len=300).to(dtype)
    ids = make_ids(1, 1).expand(1, 40)  # one token all along, so that only its position varies
    plain_q, plain_k, q, k = queries_and_keys(model, monkeypatch, ids, start_pos=250)
    cos, sin = (table[250:290] for table in precompute_freqs_cis(10, 300))
    assert plain_q.dtype == q.dtype == k.dtype == dtype
    rounded_once = apply_rotary_emb(plain_q.view(1, 40, 6, 10).float(), cos, sin).to(dtype)
    assert torch.equal(q.transpose(1, 2), rounded_once)
    rounded_once = apply_rotary_emb(plain_k.view(1, 40, 2, 10).float(), cos, sin).to(dtype)
    assert torch.equal(k.transpose(1, 2)[:, :, :: k.shape[1] // 2], rounded_once)
    assert not torch.equal(q[:, :, 6], q[:, :, 7])  # positions 256 and 257, one number in bfloat16


@torch.no_grad()
@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 0.15), (torch.float64, 1e-4)])
def test_other_precisions_give_about_the_same(make_model, make_ids, dtype, tolerance):
    model, ids = make_model(), make_ids(2, 12)
    expected, *_ = model(ids)
    model = model.to(dtype)
    cache = KVCache(model.config, batch_size=2, dtype=dtype)
    logits, loss, _ = model(ids, labels=ids)
    chunks = [model(ids[:, a : a + 4], past_key_values=cache)[0] for a in (0, 4, 8)]
    scale = expected.std()
    assert loss.isfinite() and (logits - expected).abs().max() / scale < 5 * tolerance
    assert (logits - expected).pow(2).mean().sqrt() / scale < tolerance
    assert (torch.cat(chunks, 1) - expected).pow(2).mean().sqrt() / scale < tolerance


def test_half_precision_trains(make_model, make_ids):
    model, ids = make_model().to(torch.bfloat16), make_ids(2, 6)
    model(ids, labels=ids)[1].backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


# CASES 12: the ways of filling a model that was built without memory must not part the two.
@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_built_without_memory(make_model, make_config, make_ids, tied):
    model, ids = make_model(tie_word_embeddings=tied), make_ids(2, 6)
    with torch.device("meta"):
        empty = MiniLLaMAForCausalLM(make_config(tie_word_embeddings=tied))
    assert all(p.is_meta for p in empty.parameters())
    empty.to_empty(device="cpu")
    empty.load_state_dict(model.state_dict())
    assert torch.equal(empty(ids)[0], model(ids)[0])
    assert (empty.lm_head.weight is empty.token_embeddings.weight) is tied


@pytest.mark.parametrize("tied", [True, False])
def test_weights_that_are_assigned_instead_of_copied(make_model, make_ids, tied):
    model, other = make_model(tie_word_embeddings=tied), make_model(seed=1, tie_word_embeddings=tied)
    other.load_state_dict({name: t.clone() for name, t in model.state_dict().items()}, assign=True)
    assert torch.equal(other(make_ids(2, 6))[0], model(make_ids(2, 6))[0])
    assert (other.lm_head.weight is other.token_embeddings.weight) is tied
