"""What `minillama.scratch` costs next to the core with the same weights, as ratios of times.

    python benchmarks/one_file.py [--rounds 5] [--write]

MiniLLaMA's sizes with eight key/value heads and an output head of its own, since the one file has no other
layout: both models then multiply the same matrices. A forward pass over one text of 37, 512 and 2,048 tokens,
and forward and backward over 4 × 256. Contestants alternate within a round; a ratio is the median over rounds
of time(one file) / time(core). `--write` puts the result into benchmarks/results/one_file.json.
"""

import argparse
import json
import platform
from pathlib import Path

import torch
from run import alternate, ratio

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, scratch
from minillama.rope import half_to_interleaved
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "one_file.json"
CONFIG = MiniLLaMAConfig(n_kv_heads=8, tie_word_embeddings=False)


def models() -> tuple[scratch.Transformer, MiniLLaMAForCausalLM]:
    c = CONFIG
    torch.manual_seed(0)
    core = MiniLLaMAForCausalLM(c)
    one = scratch.Transformer(
        c.vocab_size, c.max_seq_len, c.d_model, c.n_layers, c.n_q_heads, c.d_ffn, c.rope_theta
    )
    pairs = [(one.embedding.w, core.token_embeddings.weight), (one.out_linear.w, core.lm_head.weight)]
    for ours, theirs in zip(one.blocks, core.layers, strict=True):
        attn = theirs.attn
        q, k = (half_to_interleaved(w.weight.detach(), c.n_q_heads) for w in (attn.wq, attn.wk))
        pairs += [
            (ours.mult_head_atten.w_qkv.w, torch.cat((q, k, attn.wv.weight))),
            (ours.mult_head_atten.w_out.w, attn.wo.weight),
            (ours.ffe.w1.w, theirs.ffn.w_gate.weight),
            (ours.ffe.w3.w, theirs.ffn.w_up.weight),
            (ours.ffe.w2.w, theirs.ffn.w_down.weight),
        ]
    with torch.no_grad():
        for mine, other in pairs:
            mine.copy_(other)
        ids = torch.randint(c.vocab_size, (2, 37))
        for module in one.modules():
            if isinstance(module, scratch.RmsNorm):
                module.eps = c.norm_eps
        torch.testing.assert_close(one(ids), core(ids)[0], rtol=1e-4, atol=1e-4)
    return one, core


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    one, core = models()
    loss = scratch.CrossEntropyLoss()
    ratios = {}
    for tokens in (37, 512, 2048):
        ids = torch.randint(CONFIG.vocab_size, (1, tokens))
        with torch.inference_mode():
            times = alternate({"one": lambda x=ids: one(x), "core": lambda x=ids: core(x)}, args.rounds)
        ratios[f"forward, {tokens} tokens"] = round(ratio(times, "one", "core"), 1)
        print(ratios, flush=True)
    ids = torch.randint(CONFIG.vocab_size, (4, 256))

    def train_one():
        one.zero_grad()
        loss(one(ids)[:, :-1], ids[:, 1:]).backward()

    def train_core():
        core.zero_grad()
        core(ids, labels=ids)[1].backward()

    times = alternate({"one": train_one, "core": train_core}, args.rounds)
    ratios["forward and backward, 4 × 256"] = round(ratio(times, "one", "core"), 1)
    print(ratios)
    result = {
        "unit": "time of the one file / time of the core, float32, medians",
        "torch": torch.__version__.split("+")[0],
        "machine": f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "ratios": ratios,
    }
    if args.write:
        record(RESULT, json.dumps(result, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
