"""What the recorded small model would let Shakespeare write, and what it writes itself.

    python experiments/sampling.py

The model of `small_run.py` reads the four held-out plays and writes by eight rules. Recorded: the rank of
each real token and the mass before it, hence which filter would have struck it out; loss, repetition and
cycles of what the rules write; the probability of a line that is repeated; and what a cache is worth whose
first half is dropped. About four minutes on two cores; writes experiments/results/sampling.json.
"""

import json
import math
from pathlib import Path

import torch
from torch import Tensor

from minillama import KVCache, MiniLLaMAForCausalLM, apply_rotary_emb, assets, data, generate
from minillama.checkpoint import from_pretrained
from minillama.rope import precompute_freqs_cis
from minillama.tokenizer import Tokenizer
from minillama.viz.results import record

RESULT = Path(__file__).parent / "results" / "sampling.json"
MODEL = RESULT.with_name("small_run")
EVERY, WINDOW, PAST = (
    3,
    256,
    32,
)  # every third window is read; its tokens, and those at its start that only serve as context
TOP_K = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TOP_P = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
STRETCHES = (1, 2, 4, 8, 16, 32)
EDGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)  # first rank of each bin
PROMPT = "ORSINO\nIf music be the food of love, play on"
CONTEXTS = {
    "If music be the food of love, play on": PROMPT,
    "my lord, I pray you, tell": "my lord, I pray you, tell",
    "an empty line": PROMPT + ".\n\n",
    "KING RICHARD, a speaker": PROMPT + ".\n\nKING RICHARD",
    "SIR TOBY, a speaker": PROMPT + ".\n\nSIR TOBY",
}
RULES = {
    "greedy": dict(temperature=0),
    "temperature 0.5": dict(temperature=0.5),
    "temperature 0.8": dict(temperature=0.8),
    "temperature 1": dict(),
    "temperature 1.2": dict(temperature=1.2),
    "top-k 50": dict(top_k=50),
    "top-p 0.9": dict(top_p=0.9),
    "0.8, top-p 0.95": dict(temperature=0.8, top_p=0.95),
}
PROMPTS, NEW, LONGEST_CYCLE = 64, 192, 48
LINES, REPEATS = 64, 10
CUT, KEPT, NEXT = 192, 96, 32  # tokens read, tokens kept of them, tokens then scored


def rounded(value: float, digits: int = 4) -> float:
    return round(float(value), digits)


# -- single distributions ---------------------------------------------------------------------------------


@torch.no_grad()
def study_of_contexts(model: MiniLLaMAForCausalLM, tokenizer: Tokenizer) -> list[dict]:
    """Scores after some contexts, sorted: each as hundredths of a nat below the one before."""
    out = []
    for name, prompt in CONTEXTS.items():
        ids = torch.tensor([tokenizer.encode(prompt)])
        scores, index = model.next_token_logits(ids)[0].sort(descending=True, stable=True)
        below = (100 * (scores[0] - scores).double()).round().long()  # (V,)
        tokens = [tokenizer.decode([i]).replace(" ", "␣").replace("\n", "↵") for i in index[:16].tolist()]
        steps = below.diff(prepend=below[:1]).tolist()
        out.append({"name": name, "prompt": prompt, "tokens": tokens, "steps": " ".join(map(str, steps))})
    return out


def passage(play: str) -> str:
    """Jaques' speech of the seven ages, with its speaker's name."""
    start = play.index("JAQUES\nAll the world's a stage")
    end = play.index("sans everything.", start)
    return play[start:end] + "sans everything."


def texts(model: MiniLLaMAForCausalLM, tokenizer: Tokenizer) -> dict[str, str]:
    """How each rule continues the line."""
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    out = {}
    for name, rule in RULES.items():
        drawn = generate(model, ids, 60, generator=torch.Generator().manual_seed(0), **rule)
        out[name] = tokenizer.decode(drawn[0, ids.shape[1] :].tolist())
    return out


# -- real text ---------------------------------------------------------------------------------------------


@torch.no_grad()
def real_tokens(model: MiniLLaMAForCausalLM, windows: Tensor, batch: int = 4) -> dict[str, Tensor]:
    """Of every token behind the first PAST: its rank, the mass before it, and more, each (N, T)."""
    parts = {name: [] for name in ("rank", "before", "loss", "entropy", "largest", "sizes", "masses")}
    limits = torch.tensor(TOP_P, dtype=torch.float64) - 1e-6  # as filter_logits has it
    for block in windows.split(batch):
        log_p = model(block)[0][:, PAST - 1 : -1].log_softmax(-1)  # (B, T, V)
        target = block[:, PAST:, None]
        p = log_p.exp()
        entropy = -(p * log_p).sum(-1)
        p, index = p.sort(dim=-1, descending=True, stable=True)
        mass = p.double().cumsum(-1)  # with the token itself
        before = mass - p
        place = (index == target).int().argmax(-1, keepdim=True)  # (B, T, 1)
        sizes = torch.searchsorted(before, limits.expand(*before.shape[:2], -1).contiguous())  # (B, T, P)
        parts["sizes"].append(sizes)
        parts["masses"].append(mass.gather(-1, sizes - 1))
        parts["rank"].append(place[..., 0] + 1)
        parts["before"].append(before.gather(-1, place)[..., 0])
        parts["loss"].append(-log_p.gather(-1, target)[..., 0])
        parts["entropy"].append(entropy)
        parts["largest"].append(p[..., 0])
    return {name: torch.cat(values) for name, values in parts.items()}


def survivors(allowed: Tensor) -> dict[str, float]:
    """Share of stretches of each length whose tokens are all allowed."""
    out = {}
    for length in STRETCHES:
        whole = allowed[:, : allowed.shape[1] // length * length].unflatten(1, (-1, length)).all(-1)
        out[str(length)] = rounded(whole.double().mean())
    return out


def study_of_real_text(seen: dict[str, Tensor]) -> dict:
    rank, before = seen["rank"], seen["before"]
    in_k = {k: rank <= k for k in TOP_K}
    in_p = {p: (before < p - 1e-6) | (rank == 1) for p in TOP_P}
    ends = (*EDGES[1:], 10**9)
    largest = seen["largest"]
    return {
        "tokens": rank.numel(),
        "loss": rounded(seen["loss"].mean()),
        "entropy": rounded(seen["entropy"].mean()),
        "rank_edges": EDGES,
        "rank_shares": [
            rounded(((rank >= a) & (rank < b)).double().mean()) for a, b in zip(EDGES, ends, strict=True)
        ],
        "mean_largest": rounded(largest.mean()),
        "largest_at_least": {str(p): rounded((largest >= p).double().mean()) for p in TOP_P},
        "struck_out_by_top_k": {str(k): rounded((~v).double().mean()) for k, v in in_k.items()},
        "struck_out_by_top_p": {str(p): rounded((~v).double().mean()) for p, v in in_p.items()},
        "mass_outside_top_p": {
            str(p): rounded(1 - seen["masses"][..., i].mean()) for i, p in enumerate(TOP_P)
        },
        "size_of_top_p": {
            str(p): {
                "median": int(seen["sizes"][..., i].flatten().median()),
                "least": int(seen["sizes"][..., i].min()),
                "most": int(seen["sizes"][..., i].max()),
            }
            for i, p in enumerate(TOP_P)
        },
        "stretches": STRETCHES,
        "survive_top_k": {str(k): survivors(v) for k, v in in_k.items()},
        "survive_top_p": {str(p): survivors(v) for p, v in in_p.items()},
    }


# -- written text ------------------------------------------------------------------------------------------


def cycle(tokens: list[int]) -> tuple[int, int] | None:
    """(start, period) of the cycle in which the text ends: the last three rounds or more are equal."""
    n = len(tokens)
    for period in range(1, min(LONGEST_CYCLE, n // 3) + 1):
        start = n - period
        while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
            start -= 1
        if n - start >= 3 * period:
            return start, period
    return None


def repeated(tokens: list[int], n: int = 4) -> float:
    """Share of n-grams that occurred before in the same text."""
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return 1 - len(set(grams)) / len(grams)


@torch.no_grad()
def study_of_written_text(
    model: MiniLLaMAForCausalLM, windows: Tensor, new: int = NEW, rules: tuple = tuple(RULES)
) -> dict:
    texts = {"Shakespeare": windows[:, : PAST + new]}
    for name in rules:
        generator = torch.Generator().manual_seed(0)
        texts[name] = generate(model, windows[:, :PAST], new, generator=generator, **RULES[name])
        print(name, flush=True)
    out = {}
    for name, ids in texts.items():
        log_p = torch.cat([model(part)[0][:, PAST - 1 : -1].log_softmax(-1) for part in ids.split(4)])
        written = ids[:, PAST:]
        surprise = -log_p.gather(-1, written[..., None])[..., 0]  # (B, new)
        rows = written.tolist()
        cycles = [cycle(row) for row in rows]
        starts = [found[0] for found in cycles if found]
        periods = [found[1] for found in cycles if found]
        out[name] = {
            "surprise": rounded(surprise.mean()),
            "repeated_4_grams": rounded(sum(map(repeated, rows)) / len(rows)),
            "different_tokens": rounded(sum(len(set(row)) for row in rows) / len(rows), 1),
            "in_a_cycle": rounded(len(starts) / len(rows)),
            "cycle_starts": sorted(starts),
            "periods": sorted(periods),
        }
    return out


# -- a line that is repeated -------------------------------------------------------------------------------


@torch.no_grad()
def study_of_repetition(model: MiniLLaMAForCausalLM, tokenizer: Tokenizer, play: str, lines: int) -> dict:
    """Loss of held-out lines of 35 to 60 characters, each written ten times in succession, by round."""
    found = [line for line in play.split("\n") if 35 <= len(line) <= 60]
    chosen = found[:: len(found) // lines][:lines]
    rounds = []
    for line in chosen:
        once = tokenizer.encode(line + "\n")
        ids = torch.tensor([tokenizer.encode("\n") + once * REPEATS])
        log_p = model(ids)[0][0, :-1].log_softmax(-1)
        loss = -log_p.gather(-1, ids[0, 1:, None])[:, 0]
        rounds.append(loss.view(REPEATS, len(once)).mean(-1))
    rounds = torch.stack(rounds)  # (lines, REPEATS)
    return {
        "lines": len(chosen),
        "loss_by_round": [rounded(value) for value in rounds.mean(0)],
        "likelier_in_round_two": rounded((rounds[:, 1] < rounds[:, 0]).double().mean()),
        "likelier_in_round_ten": rounded((rounds[:, -1] < rounds[:, 0]).double().mean()),
    }


# -- a cache without its first half ------------------------------------------------------------------------


def shortened(model: MiniLLaMAForCausalLM, cache: KVCache, turned: bool, first: int = 0) -> KVCache:
    """A cache of KEPT rows: the `first` ones and the last; the last, if `turned`, moved up to the others."""
    config = model.config
    out = KVCache(config, cache.batch_size, KEPT + NEXT)
    cos, sin = precompute_freqs_cis(config.head_dim, CUT, config.rope_theta)
    by = CUT - KEPT if turned else 0
    cos, sin = cos[by].expand(KEPT - first, -1), -sin[by].expand(KEPT - first, -1)
    for layer, (k, v) in enumerate(zip(cache.k, cache.v, strict=True)):
        last = k[:, :, CUT - KEPT + first : CUT]  # (B, G, KEPT - first, D)
        last = apply_rotary_emb(last.transpose(1, 2), cos, sin).transpose(1, 2)
        values = torch.cat([v[:, :, :first], v[:, :, CUT - KEPT + first : CUT]], 2)
        out.append(layer, torch.cat([k[:, :, :first], last], 2), values)
    out.advance(KEPT)
    return out


@torch.no_grad()
def study_of_sliding(model: MiniLLaMAForCausalLM, windows: Tensor, batch: int = 32) -> dict:
    names = ("whole", "read anew", "turned back", "not turned", "first four kept", "nothing")
    loss, divergence = {name: 0.0 for name in names}, {name: 0.0 for name in names}
    for block in windows.split(batch):
        read, follow = block[:, :CUT], block[:, CUT : CUT + NEXT]
        cache, fresh, none = (KVCache(model.config, len(block), CUT + NEXT) for _ in range(3))
        model(read, past_key_values=cache)
        model(read[:, CUT - KEPT :], past_key_values=fresh)
        caches = (
            cache,
            fresh,
            shortened(model, cache, turned=True),
            shortened(model, cache, turned=False),
            shortened(model, cache, turned=True, first=4),
            none,
        )
        log_p = {}
        for name, each in zip(names, caches, strict=True):
            log_p[name] = model(follow, past_key_values=each)[0][:, :-1].log_softmax(-1)
        share, anew = len(block) / len(windows), log_p["read anew"]
        for name, q in log_p.items():
            loss[name] -= share * q.gather(-1, follow[:, 1:, None]).mean().item()
            divergence[name] += share * (anew.exp() * (anew - q)).sum(-1).mean().item()
    return {
        "windows": len(windows),
        "read": CUT,
        "kept": KEPT,
        "scored": NEXT - 1,
        "loss": {name: rounded(value) for name, value in loss.items()},
        "divergence": {name: rounded(value) for name, value in divergence.items()},
    }


def main() -> None:
    model, tokenizer = from_pretrained(MODEL).eval(), Tokenizer.load(MODEL / "tokenizer.json")
    plays = data.split_by_play(data.shakespeare_plays(assets.fetch("shakespeare")))[1]
    documents = [torch.tensor(tokenizer.encode(text)) for _, text in plays]
    windows = torch.cat([ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW) for ids in documents])
    some = windows[:: len(windows) // PROMPTS][:PROMPTS]
    result = {
        "plays": [name for name, _ in plays],
        "window": WINDOW,
        "past": PAST,
        "prompts": len(some),
        "new": NEW,
        "contexts": study_of_contexts(model, tokenizer),
        "passage": passage(dict(plays)["As You Like It"]),
        "texts": texts(model, tokenizer),
        "real": study_of_real_text(real_tokens(model, windows[::EVERY])),
        "written": study_of_written_text(model, some),
        "repeated": study_of_repetition(model, tokenizer, plays[0][1], LINES),
        "sliding": study_of_sliding(model, some),
    }
    assert math.isfinite(result["real"]["loss"])
    record(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(result, indent=1)[:6000])


if __name__ == "__main__":
    main()
