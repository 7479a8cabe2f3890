"""Optimizers, schedule, clipping and groups, against hand-computed numbers and torch's own."""

import copy
import itertools
import math

import pytest
import torch

from minillama.optim import (
    AdamW,
    NonFiniteGradient,
    SGDDecay,
    cos_lr_scheduler,
    decay_groups,
    gradient_clip,
)


def parameters(*shapes, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def copies(params):
    return [p.detach().clone().requires_grad_() for p in params]


def give_gradients(params, seed):
    generator = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)


# -- AdamW -----------------------------------------------------------------------------------------------


def test_adamw_by_hand():
    p = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    optimizer = AdamW([p], lr=0.1, weight_decay=0.1)
    seen = []
    for gradient in (0.5, -1.0):
        p.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        seen.append(p.item())
    assert seen == pytest.approx([0.89, 0.9177104], abs=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "settings", [{}, {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.3}]
)
def test_adamw_is_torchs(dtype, settings):
    ours = parameters((3, 4), (5,), dtype=dtype)
    theirs = copies(ours)
    a, b = AdamW(ours, **settings), torch.optim.AdamW(theirs, foreach=False, **settings)
    for step in range(50):
        give_gradients(ours, step)
        give_gradients(theirs, step)
        if step % 7 == 3:
            ours[1].grad = theirs[1].grad = None  # a parameter without a gradient keeps its own count
        a.step()
        b.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6 if dtype != torch.bfloat16 else 2e-2, atol=0)


def test_adamw_defaults_are_the_contracts():
    group = AdamW(parameters((2,))).param_groups[0]
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (
        1e-3,
        (0.9, 0.999),
        1e-8,
        0.01,
    )


def test_groups_have_their_own_settings():
    a, b = parameters((2, 3), (4,))
    optimizer = AdamW(
        [{"params": [a], "weight_decay": 0.5}, {"params": [b], "lr": 0.0}], lr=0.1, weight_decay=0
    )
    a.grad, b.grad = torch.zeros_like(a), torch.ones_like(b)
    before = a.detach().clone(), b.detach().clone()
    optimizer.step()
    torch.testing.assert_close(a.detach(), before[0] * (1 - 0.1 * 0.5))
    assert torch.equal(b.detach(), before[1])


def test_a_state_dict_continues_exactly():
    whole = parameters((3, 4))
    optimizer = AdamW(whole, lr=0.1)
    for step in range(3):
        give_gradients(whole, step)
        optimizer.step()
    resumed = copies(whole)
    second = AdamW(resumed, lr=0.1)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # torch would share the moments
    for step in range(3, 6):
        give_gradients(whole, step)
        give_gradients(resumed, step)
        optimizer.step()
        second.step()
    assert torch.equal(whole[0], resumed[0])
    assert optimizer.state[whole[0]]["t"] == 6


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"lr": -1e-9}, "lr"),
        ({"lr": math.nan}, "lr"),
        ({"lr": math.inf}, "lr"),
        ({"lr": "0.1"}, "lr"),
        ({"betas": (1.0, 0.9)}, "betas"),
        ({"betas": (0.9, -0.1)}, "betas"),
        ({"betas": (0.9,)}, "betas"),
        ({"eps": -1e-9}, "eps"),
        ({"weight_decay": -0.1}, "weight_decay"),
    ],
)
def test_adamw_names_a_bad_setting(settings, name):
    with pytest.raises(ValueError, match=name):
        AdamW(parameters((2,)), **settings)
    with pytest.raises(ValueError, match=name):
        AdamW([{"params": parameters((2,)), **settings}])


def test_the_bounds_themselves_are_allowed():
    AdamW(parameters((2,)), lr=0.0, betas=(0.0, 0.0), eps=0.0, weight_decay=0.0)
    SGDDecay(parameters((2,)), lr=0.0)


@pytest.mark.parametrize("make", [AdamW, SGDDecay])
def test_a_closure_is_evaluated_with_gradients(make):
    (p,) = parameters((3,))
    optimizer = make([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    first, second = optimizer.step(closure), optimizer.step(closure)
    assert second < first and optimizer.step() is None


# -- SGDDecay --------------------------------------------------------------------------------------------


def test_sgd_decay_by_hand():
    p, q = (torch.tensor([2.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
    optimizer = SGDDecay([p, q], lr=0.3)
    seen = []
    for t in range(3):
        p.grad = torch.tensor([4.0], dtype=torch.float64)
        q.grad = torch.tensor([4.0], dtype=torch.float64) if t != 1 else None
        optimizer.step()
        seen.append(p.item())
    wanted = [2 - 1.2, 2 - 1.2 - 1.2 / math.sqrt(2), 2 - 1.2 - 1.2 / math.sqrt(2) - 1.2 / math.sqrt(3)]
    assert seen == pytest.approx(wanted)
    assert q.item() == pytest.approx(wanted[1])  # its second step, not the third


@pytest.mark.parametrize("lr", [-0.1, math.nan, math.inf, None])
def test_sgd_decay_names_a_bad_rate(lr):
    with pytest.raises(ValueError, match="lr"):
        SGDDecay(parameters((2,)), lr=lr)


# -- the schedule ----------------------------------------------------------------------------------------


def test_the_schedule_by_hand():
    rates = [cos_lr_scheduler(it, 1.0, 0.1, 4, 12) for it in (0, 1, 3, 4, 8, 12, 13, 10**6)]
    assert rates == pytest.approx([0, 0.25, 0.75, 1.0, 0.55, 0.1, 0.1, 0.1])
    quarter = cos_lr_scheduler(6, 1.0, 0.1, 4, 12)
    assert quarter == pytest.approx(0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2)


def test_the_schedule_rises_then_falls_without_a_jump():
    rates = [cos_lr_scheduler(it, 3.0, 0.5, 10, 60) for it in range(80)]
    assert rates[:11] == sorted(rates[:11]) and rates[10:] == sorted(rates[10:], reverse=True)
    assert max(abs(a - b) for a, b in itertools.pairwise(rates)) == pytest.approx(0.3)


@pytest.mark.parametrize(("warmup", "end"), [(0, 0), (0, 5), (5, 5)])
def test_no_warmup_and_no_decay_divide_by_nothing(warmup, end):
    rates = [cos_lr_scheduler(it, 1.0, 0.2, warmup, end) for it in range(8)]
    assert all(0 <= rate <= 1 for rate in rates) and rates[warmup] == 1.0 and rates[6] == 0.2
    assert rates[1] > 0  # training asks for step + 1: its first step moves the weights


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-1, 1.0, 0.1, 2, 5), "it"),
        ((0.5, 1.0, 0.1, 2, 5), "it"),
        ((True, 1.0, 0.1, 2, 5), "it"),
        ((0, -1.0, 0.1, 2, 5), "lr_max"),
        ((0, 1.0, -0.1, 2, 5), "lr_min"),
        ((0, 1.0, 1.1, 2, 5), "lr_min"),
        ((0, math.inf, 0.1, 2, 5), "lr_max"),
        ((0, 1.0, 0.1, -2, 5), "warmup_iters"),
        ((0, 1.0, 0.1, 6, 5), "cos_cycle_iters"),
    ],
)
def test_the_schedule_names_a_bad_argument(arguments, name):
    with pytest.raises(ValueError, match=name):
        cos_lr_scheduler(*arguments)


# -- clipping --------------------------------------------------------------------------------------------


def with_gradients(*values):
    params = [torch.zeros(len(v), requires_grad=True) for v in values]
    for p, v in zip(params, values, strict=True):
        p.grad = torch.tensor(v)
    return params


def test_clipping_by_hand():
    a, b = with_gradients([3.0, 0.0], [0.0, 4.0, 0.0])
    norm = gradient_clip([a, b], 1.0)
    assert norm.ndim == 0 and norm.item() == 5.0
    torch.testing.assert_close(a.grad, torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(b.grad, torch.tensor([0.0, 0.8, 0.0]))


@pytest.mark.parametrize(("max_norm", "clipped"), [(4.9, True), (5.0, False), (math.inf, False)])
def test_a_small_enough_gradient_is_left_alone(max_norm, clipped):
    params = with_gradients([3.0], [4.0])
    assert gradient_clip(params, max_norm).item() == 5.0
    assert (params[0].grad.item() != 3.0) is clipped
    assert gradient_clip(params, 100.0).item() == pytest.approx(min(max_norm, 5.0))


def test_clipping_is_torchs():
    ours = parameters((3, 4), (5,), (2, 3, 2))
    give_gradients(ours, 1)
    theirs = copies(ours)
    give_gradients(theirs, 1)
    norm = gradient_clip(iter(ours), 0.7)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(theirs, 0.7))
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_a_shared_parameter_counts_once():
    a, b = with_gradients([3.0], [4.0])
    assert gradient_clip([a, b, a], 1.0).item() == 5.0
    torch.testing.assert_close(a.grad, torch.tensor([0.6]))


def test_one_tensor_none_and_nothing():
    (a,) = with_gradients([3.0, 4.0])
    assert gradient_clip(a, 10.0).item() == 5.0
    assert gradient_clip([torch.zeros(2, requires_grad=True)], 1.0).item() == 0
    assert gradient_clip([], 1.0).item() == 0


def test_half_precision_is_squared_in_float32():
    p = torch.zeros(4, dtype=torch.float16, requires_grad=True)
    p.grad = torch.full((4,), 300.0, dtype=torch.float16)
    assert gradient_clip([p], 1.0).item() == 600.0
    torch.testing.assert_close(p.grad, torch.full((4,), 0.5, dtype=torch.float16))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_non_finite_norm_changes_nothing(bad):
    a, b = with_gradients([3.0, 4.0], [1.0, bad, 2.0])
    with pytest.raises(NonFiniteGradient, match=r"norm is (nan|inf) \(in gradients of shape \(3,\)"):
        gradient_clip([a, b], 1.0)
    assert a.grad.tolist() == [3.0, 4.0] and b.grad[0] == 1.0 and b.grad[2] == 2.0
    assert a.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("max_norm", [0, -1.0, math.nan, "1", True])
def test_a_bad_limit_is_named(max_norm):
    with pytest.raises(ValueError, match="max_norm"):
        gradient_clip(with_gradients([1.0]), max_norm)


# -- decay groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_matrices_decay_and_norms_and_embeddings_do_not(make_model, tied):
    model = make_model(tie_word_embeddings=tied)
    decayed, kept = decay_groups(model, 0.1)
    names = {id(p): name for name, p in model.named_parameters()}
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
    in_decayed, in_kept = ({names[id(p)] for p in group["params"]} for group in (decayed, kept))
    assert not in_decayed & in_kept and in_decayed | in_kept == set(names.values())
    assert len(decayed["params"]) + len(kept["params"]) == len(names)
    assert all("norm" in name or name == "token_embeddings.weight" for name in in_kept)
    assert ("lm_head.weight" in in_decayed) is not tied
    assert not any("norm" in name for name in in_decayed)
    AdamW([decayed, kept])  # torch refuses a parameter that stands in two groups


def test_frozen_parameters_are_in_no_group(make_model):
    model = make_model()
    model.layers[0].requires_grad_(False)
    counted = sum(len(group["params"]) for group in decay_groups(model, 0.0))
    assert counted == sum(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("decay", [-0.1, math.nan, None])
def test_a_bad_decay_is_named(make_model, decay):
    with pytest.raises(ValueError, match="weight_decay"):
        decay_groups(make_model(), decay)


def test_training_lowers_the_loss(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 7)
    optimizer = AdamW(decay_groups(model, 0.1), lr=1e-2)
    losses = []
    for step in range(20):
        for group in optimizer.param_groups:
            group["lr"] = cos_lr_scheduler(step + 1, 1e-2, 1e-3, 3, 20)
        loss = model(ids, labels=ids)[1]
        loss.backward()
        gradient_clip(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
