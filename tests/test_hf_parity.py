"""MiniLLaMA against transformers' Llama: the same weights give the same logits, loss and gradients."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from minillama import KVCache, MiniLLaMAForCausalLM, RopeScaling, generate

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn.wq": "self_attn.q_proj",
    "attn.wk": "self_attn.k_proj",
    "attn.wv": "self_attn.v_proj",
    "attn.wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn.w_gate": "mlp.gate_proj",
    "ffn.w_up": "mlp.up_proj",
    "ffn.w_down": "mlp.down_proj",
}
SCALING = RopeScaling(
    factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
)
CASES = {
    "tied": dict(),
    "untied": dict(tie_word_embeddings=False),
    "head_dim is C / H": dict(head_dim=4),
    "multi-head": dict(n_kv_heads=6, tie_word_embeddings=False),
    "multi-query": dict(n_kv_heads=1),
    "theta": dict(rope_theta=500.0),
    "llama3 scaling": dict(rope_theta=5e5, rope_scaling=SCALING, tie_word_embeddings=False),
    "epsilon": dict(norm_eps=0.1),
}


def their_names(name):
    if not name.startswith("layers."):
        return {"token_embeddings": "model.embed_tokens", "norm": "model.norm", "lm_head": "lm_head"}[
            name.removesuffix(".weight")
        ] + ".weight"
    _, index, rest = name.removesuffix(".weight").split(".", 2)
    return f"model.layers.{index}.{LAYER_NAMES[rest]}.weight"


def their_model(model):
    config = model.config
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    if config.rope_scaling is not None:
        rope |= {"rope_type": "llama3"} | vars(config.rope_scaling)
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.d_model,
            intermediate_size=config.d_ffn,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_q_heads,
            num_key_value_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_seq_len,
            rms_norm_eps=config.norm_eps,
            tie_word_embeddings=config.tie_word_embeddings,
            rope_parameters=rope,
        )
    )
    ours = dict(model.named_parameters())
    parameters = dict(theirs.named_parameters())
    assert {their_names(name) for name in ours} == set(parameters)
    with torch.no_grad():
        for name, parameter in ours.items():
            parameters[their_names(name)].copy_(parameter)
    return theirs.eval()


@pytest.mark.parametrize("case", CASES)
def test_logits_loss_and_gradients(make_model, make_ids, case):
    model = make_model(**CASES[case])
    theirs, ids, labels = their_model(model), make_ids(3, 32), make_ids(3, 32, seed=1)
    labels[0, :20] = -100
    logits, loss, _ = model(ids, labels=labels)
    out = theirs(input_ids=ids, labels=labels)
    assert (logits - out.logits).abs().max().item() <= 1e-4
    assert loss.item() == pytest.approx(out.loss.item(), abs=1e-5)
    loss.backward()
    out.loss.backward()
    parameters = dict(theirs.named_parameters())
    for name, parameter in model.named_parameters():
        expected = parameters[their_names(name)].grad
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
@torch.no_grad()
def test_cached_steps(make_model, make_ids):
    model, ids = make_model(tie_word_embeddings=False), make_ids(2, 20)
    theirs = their_model(model)
    cache, past = KVCache(model.config, batch_size=2), None
    for start, stop in ((0, 11), (11, 12), (12, 17), (17, 20)):
        logits, *_ = model(ids[:, start:stop], past_key_values=cache)
        out = theirs(input_ids=ids[:, start:stop], past_key_values=past, use_cache=True)
        past = out.past_key_values
        assert (logits - out.logits).abs().max().item() <= 1e-4


@torch.no_grad()
def test_greedy_generation(make_model, make_ids):
    model, ids = make_model(), make_ids(2, 6)
    theirs = their_model(model)
    theirs.generation_config.eos_token_id = None
    expected = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, pad_token_id=0
    )
    assert torch.equal(generate(model, ids, 20, temperature=0), expected)


@torch.no_grad()
def test_the_books_model():
    torch.manual_seed(0)
    from minillama import MiniLLaMAConfig

    model = MiniLLaMAForCausalLM(MiniLLaMAConfig())
    for parameter in model.parameters():
        if parameter.ndim == 1:  # gains that are all 1 would let one norm stand in for another
            parameter.uniform_(0.5, 1.5)
    theirs, ids = their_model(model), torch.randint(4096, (2, 64))
    assert sum(p.numel() for p in theirs.parameters()) == 35_926_528
    assert (model(ids)[0] - theirs(input_ids=ids).logits).abs().max().item() <= 1e-4
