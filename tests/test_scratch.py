"""The one-file model against the core, values and gradients, and the differences that are meant."""

import ast
import copy
import math
from pathlib import Path

import pytest
import torch

import minillama
from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, optim, scratch

SOURCE = Path(scratch.__file__).read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)


def leaf(*shape):
    return torch.randn(shape).requires_grad_()


def same(ours, theirs, *leaves):
    """Equal values, and equal gradients of one random projection with respect to `leaves`."""
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    if leaves:
        weight = torch.randn(ours.shape)
        grads = (torch.autograd.grad((out * weight).sum(), leaves) for out in (ours, theirs))
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


# -- the file --------------------------------------------------------------------------------------------


def test_one_file_of_elementary_operations():
    assert len(SOURCE.splitlines()) <= 300
    imports = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in imports}
    assert names == {"math", "torch"} and all(not getattr(n, "level", 0) for n in imports)
    for banned in ("functional", "F.", "nn.Linear", "nn.Embedding", "torch.softmax", "log_softmax", "@ "):
        assert banned not in SOURCE.replace("@torch", ""), banned


# -- layers ----------------------------------------------------------------------------------------------


def test_linear():
    layer, x = scratch.Linear(5, 7), leaf(2, 3, 5)
    assert layer.w.shape == (7, 5)
    same(layer(x), torch.nn.functional.linear(x, layer.w), x, layer.w)


@pytest.mark.parametrize(
    ("make", "std"),
    [
        (lambda: scratch.Linear(300, 500), math.sqrt(2 / 800)),
        (lambda: scratch.Embedding(500, 300), 1 / math.sqrt(300)),
    ],
)
def test_initial_weights_are_a_truncated_normal(make, std):
    w = make().w.detach()
    cut = 0.98658  # standard deviation of a normal cut at three sigma
    assert w.std().item() == pytest.approx(std * cut, rel=0.01) and abs(w.mean().item()) < std / 100
    assert 2.9 * std < w.abs().max().item() <= 3 * std


def test_one_seed_draws_the_same_weights_in_every_torch():
    """torch.nn.init.trunc_normal_ does not: since 2.13 it draws another way."""
    torch.manual_seed(0)
    w = torch.empty(400)
    scratch.truncated_normal_(w, std=2.0)
    torch.manual_seed(0)
    normal, again = 2 * torch.randn(400), 2 * torch.randn(400)
    beyond = normal.abs() > 6
    assert beyond.any() and torch.equal(w, torch.where(beyond, again, normal))


def test_embedding():
    table, ids = scratch.Embedding(11, 4), torch.tensor([[3, 0, 10], [3, 3, 1]])
    same(table(ids), torch.nn.functional.embedding(ids, table.w), table.w)
    for bad in (-1, 11):
        with pytest.raises(ValueError, match="token_ids must be from 0 to 10"):
            table(torch.tensor([[bad]]))


@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_rms_norm(eps):
    norm, x = scratch.RmsNorm(6, eps), leaf(2, 3, 6)
    norm.g.data.uniform_(0.5, 1.5)
    same(norm(x), minillama.rms_norm(x, norm.g, eps), x, norm.g)
    assert scratch.RmsNorm(6).eps == 1e-5
    half = torch.full((1, 6), 300.0, dtype=torch.float16)
    assert norm(half).dtype == torch.float16 and norm(half).isfinite().all()


def test_silu_and_swiglu():
    x = leaf(2, 3, 5)
    same(scratch.SiLu()(x), minillama.silu(x), x)
    config = MiniLLaMAConfig(
        vocab_size=9, d_model=5, n_layers=1, n_q_heads=2, n_kv_heads=1, head_dim=4, d_ffn=7
    )
    theirs, ours = minillama.SwiGLUFeedForward(config), scratch.SwiGlu(5, 7)
    ours.w1.w, ours.w3.w, ours.w2.w = theirs.w_gate.weight, theirs.w_up.weight, theirs.w_down.weight
    same(ours(x), theirs(x), x, ours.w1.w, ours.w2.w, ours.w3.w)
    assert scratch.FFN is scratch.SwiGlu


# -- rotation --------------------------------------------------------------------------------------------


def test_rope_is_the_interleaved_rotation():
    rope, x = scratch.RoPE(1e4, 6, 20), leaf(2, 3, 5, 6)  # (B, H, T, D)
    cos, sin = minillama.precompute_freqs_cis(6, 20, 1e4)
    positions = torch.tensor([4, 0, 19, 7, 7])
    theirs = minillama.apply_rotary_emb_interleaved(x.transpose(1, 2), cos[positions], sin[positions])
    same(rope(x, positions), theirs.transpose(1, 2), x)
    three = x[:, 0]  # (B, T, D)
    same(rope(three, positions), rope(x, positions)[:, 0], x)


def test_rope_by_hand():
    rope, x = scratch.RoPE(1e4, 4, 2), torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    wanted = torch.tensor([[-1.142640, 1.922076, 2.959851, 4.029800]])
    torch.testing.assert_close(rope(x, torch.tensor([1])), wanted, rtol=0, atol=1e-6)


def test_rows_may_have_their_own_positions():
    rope, x = scratch.RoPE(1e4, 6, 20), torch.randn(2, 3, 5, 6)
    positions = torch.randint(20, (2, 5))
    both = rope(x, positions)
    for row in range(2):
        torch.testing.assert_close(both[row], rope(x[row], positions[row]))


@pytest.mark.parametrize("bad", [-1, 20])
def test_a_position_outside_the_table_is_named(bad):
    with pytest.raises(ValueError, match="token_positions must be from 0 to 19"):
        scratch.RoPE(1e4, 6, 20)(torch.randn(1, 6), torch.tensor([bad]))
    with pytest.raises(ValueError, match="even"):
        scratch.RoPE(1e4, 5, 20)


# -- attention -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax(dim):
    x = leaf(3, 4, 5)
    same(scratch.Softmax(dim)(x), minillama.softmax(x, dim), x)
    assert scratch.Softmax(-1)(torch.tensor([1e4, 1e4])).tolist() == [0.5, 0.5]


def test_attention_hides_where_its_mask_is_true():
    q, k, v = leaf(2, 3, 5), leaf(2, 7, 5), leaf(2, 7, 4)
    hidden = torch.rand(3, 7) < 0.4
    hidden[:, 2] = False
    ours = scratch.ScaledDotProductAttention()(q, k, v, hidden)
    same(ours, minillama.scaled_dot_product_attention(q, k, v, ~hidden), q, k, v)
    same(
        scratch.ScaledDotProductAttention()(q, k, v),
        minillama.scaled_dot_product_attention(q, k, v),
        q,
        k,
        v,
    )


def test_a_row_hidden_throughout_averages_here_and_is_zero_there():
    q, k, v = torch.randn(1, 4), torch.randn(3, 4), torch.randn(3, 2)
    hidden = torch.ones(1, 3, dtype=torch.bool)
    torch.testing.assert_close(scratch.ScaledDotProductAttention()(q, k, v, hidden)[0], v.mean(0))
    assert not minillama.scaled_dot_product_attention(q, k, v, ~hidden).any()


def test_multi_head_attention_is_causal_and_equals_the_fused_kernel():
    layer, x = scratch.MultiHeadAttention(6, 3, 8), leaf(2, 5, 6)
    q, k, v = (
        torch.nn.functional.linear(x, w).unflatten(-1, (3, 2)).transpose(1, 2) for w in layer.w_qkv.w.chunk(3)
    )
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    theirs = torch.nn.functional.linear(mixed.transpose(1, 2).flatten(-2), layer.w_out.w)
    same(layer(x), theirs, x, layer.w_qkv.w, layer.w_out.w)
    changed = x.detach().clone()
    changed[:, 3:] += 1
    same(layer(changed)[:, :3], layer(x)[:, :3])
    assert (layer(changed)[:, 3:] - layer(x)[:, 3:]).abs().amax(-1).min() > 1e-4


def test_attention_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="num_heads must divide d_model = 6, got 4"):
        scratch.MultiHeadAttention(6, 4, 8)
    with pytest.raises(ValueError, match="T = 9 exceeds max_seq_len = 8"):
        scratch.MultiHeadAttention(6, 3, 8)(torch.randn(1, 9, 6))


def test_only_distances_count():
    layer, x = scratch.MultiHeadAttentionWithRoPE(12, 3, 30, 1e4), torch.randn(2, 5, 12)
    default = layer(x)
    same(layer(x, torch.arange(5)), default)
    same(layer(x, torch.arange(5) + 25), default)
    same(layer(x, torch.stack((torch.arange(5), torch.arange(5) + 11))), default)
    assert (layer(x, 2 * torch.arange(5)) - default).abs().max() > 1e-3


# -- the model -------------------------------------------------------------------------------------------

SIZES = dict(vocab_size=37, context_length=16, d_model=24, num_layers=3, num_heads=4, d_ff=20, rope_theta=1e4)


def twins():
    """The one-file model, and the core with its weights: renamed, and the pairs of q and k regrouped."""
    ours = scratch.Transformer(**SIZES)
    for name, p in ours.named_parameters():
        if name.endswith(".g"):
            p.data.uniform_(0.5, 1.5)
    config = MiniLLaMAConfig(
        vocab_size=37,
        max_seq_len=16,
        d_model=24,
        n_layers=3,
        n_q_heads=4,
        n_kv_heads=4,
        head_dim=6,
        d_ffn=20,
        norm_eps=1e-5,
        tie_word_embeddings=False,
    )
    theirs = MiniLLaMAForCausalLM(config)
    theirs.load_state_dict(renamed({name: p.detach() for name, p in ours.named_parameters()}))
    return ours, theirs


def renamed(tensors):
    """Weights, or gradients, of the one-file model under the core's names."""
    state = {
        "token_embeddings.weight": tensors["embedding.w"],
        "norm.weight": tensors["rms_norm.g"],
        "lm_head.weight": tensors["out_linear.w"],
    }
    for i in range(SIZES["num_layers"]):
        here, there = f"blocks.{i}.", f"layers.{i}."
        q, k, v = tensors[here + "mult_head_atten.w_qkv.w"].chunk(3)
        heads = SIZES["num_heads"]
        state |= {
            there + "attn_norm.weight": tensors[here + "rms_norm1.g"],
            there + "attn.wq.weight": minillama.interleaved_to_half(q, heads),
            there + "attn.wk.weight": minillama.interleaved_to_half(k, heads),
            there + "attn.wv.weight": v,
            there + "attn.wo.weight": tensors[here + "mult_head_atten.w_out.w"],
            there + "ffn_norm.weight": tensors[here + "rms_norm2.g"],
            there + "ffn.w_gate.weight": tensors[here + "ffe.w1.w"],
            there + "ffn.w_up.weight": tensors[here + "ffe.w3.w"],
            there + "ffn.w_down.weight": tensors[here + "ffe.w2.w"],
        }
    return state


def test_both_are_one_model():
    ours, theirs = twins()
    ids = torch.randint(37, (2, 11))
    logits = ours(ids)
    same(logits, theirs(ids)[0])
    loss = scratch.CrossEntropyLoss()(logits[:, :-1], ids[:, 1:])
    their_loss = theirs(ids, labels=ids)[1]
    same(loss, their_loss)
    loss.backward()
    their_loss.backward()
    ours_grads = renamed({name: p.grad for name, p in ours.named_parameters()})
    theirs_grads = {name: p.grad for name, p in theirs.named_parameters()}
    assert ours_grads.keys() == theirs_grads.keys()
    for name, grad in ours_grads.items():
        torch.testing.assert_close(grad, theirs_grads[name], rtol=1e-5, atol=1e-5, msg=name)
        assert grad.abs().max() > 1e-4, name  # a gradient of nothing would agree as well


def test_skipping_the_regrouping_would_be_seen():
    ours, theirs = twins()
    state = theirs.state_dict()
    name = "layers.0.attn.wq.weight"
    state[name] = minillama.half_to_interleaved(state[name], 4)
    theirs.load_state_dict(state)
    ids = torch.randint(37, (2, 11))
    assert (ours(ids) - theirs(ids)[0]).abs().max() > 1e-3


def test_the_context_is_a_bound():
    model = scratch.Transformer(**SIZES)
    assert model(torch.randint(37, (1, 16))).shape == (1, 16, 37)
    with pytest.raises(ValueError, match="T = 17 exceeds max_seq_len = 16"):
        model(torch.randint(37, (1, 17)))


def test_nothing_but_weights_is_in_the_state_dict():
    model = scratch.Transformer(**SIZES)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


# -- loss and training -----------------------------------------------------------------------------------


def test_cross_entropy():
    logits, targets = leaf(2, 3, 7), torch.randint(7, (2, 3))
    same(scratch.CrossEntropyLoss()(logits, targets), minillama.cross_entropy(logits, targets), logits)
    far = torch.tensor([[1e4, 0.0]])
    assert scratch.CrossEntropyLoss()(far, torch.tensor([1])).item() == 1e4
    for bad in (-100, 7):
        with pytest.raises(ValueError, match="targets must be from 0 to 6"):
            scratch.CrossEntropyLoss()(logits, torch.full((2, 3), bad))


def steps(make, count=5, **settings):
    p = torch.nn.Parameter(torch.linspace(-1, 1, 6).reshape(2, 3).clone())
    optimizer, generator = make([p], **settings), torch.Generator().manual_seed(1)
    for _ in range(count):
        p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return p.detach()


def test_optimizers():
    same(steps(scratch.SGDDecay, lr=0.3), steps(optim.SGDDecay, lr=0.3))
    same(steps(scratch.AdamW, lr=0.1, weight_decay=0.0), steps(optim.AdamW, lr=0.1, weight_decay=0.0))


def test_the_two_orders_of_decay():
    seen = []
    for make in (scratch.AdamW, optim.AdamW):
        p = torch.nn.Parameter(torch.tensor([1.0]))
        optimizer = make([p], lr=0.1, weight_decay=0.1)
        p.grad = torch.tensor([0.5])
        optimizer.step()
        seen.append(p.item())
    assert seen == pytest.approx([0.891, 0.89], abs=1e-6)


def test_the_schedule():
    for warmup, end in ((0, 0), (3, 3), (4, 12)):
        for it in range(15):
            arguments = (it, 1.0, 0.1, warmup, end)
            assert scratch.cos_lr_scheduler(*arguments) == optim.cos_lr_scheduler(*arguments)


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping(max_norm):
    ours = [torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(4))]
    for p in ours:
        p.grad = torch.randn(p.shape)
    theirs = copy.deepcopy(ours)
    for p, q in zip(ours, theirs, strict=True):
        q.grad = p.grad.clone()
    ours.append(ours[0])  # shared: counts once
    same(scratch.gradient_clip(ours, max_norm), optim.gradient_clip(theirs, max_norm))
    for p, q in zip(ours, theirs, strict=False):
        same(p.grad, q.grad)
    ours[1].grad[0] = math.nan
    before = ours[0].grad.clone()
    with pytest.raises(RuntimeError, match="nan"):
        scratch.gradient_clip(ours, max_norm)
    assert torch.equal(ours[0].grad, before)
