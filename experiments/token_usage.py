"""Which tokens of a vocabulary a text uses, what a larger one buys, and what models make of unused rows.

    python experiments/token_usage.py

`vocabularies`: the merges learned from 34 plays, 16,384 ids, are cut off at several sizes (a shorter training
stops earlier in the same list; checked at 4,096). For each: bytes per token on the 34 plays and on the 4 held
out, loss of add-one unigram frequencies on the held-out plays per token and per byte, and how many learned
tokens the 34 plays themselves never use.

`steps`: where single merges of the first 3,839 act on four short texts, for the chapter's explorer.

`trained`: a two-layer model with a tied embedding and 4,096 ids, 300 steps on the 34 plays, three seeds. The
cosines between embedding rows of the ids that these plays never use, and between rows of ids they use.

`smollm2`: the embedding of SmolLM2-135M-Instruct (tied as well). Its tokenizer came with special tokens for
code and notebooks; a row's cosine to the mean direction of eleven of them shows the rows near them. Then the
model is asked to repeat single tokens of two groups, those near and as many drawn from the rest: the rank
of the token asked for among all 49,152, for three prompts.

Needs `pip install gguf tokenizers`; three minutes on one core; writes
experiments/results/token_usage.json and prints it.
"""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from minillama import MiniLLaMAConfig, MiniLLaMAForCausalLM, assets, cross_entropy
from minillama.checkpoint import from_gguf
from minillama.data import encode_documents, get_batch, shakespeare_plays, split_by_play
from minillama.optim import AdamW, decay_groups
from minillama.tokenizer import EOS, Tokenizer
from minillama.viz.results import record

RESULT = Path(__file__).resolve().parent / "results" / "token_usage.json"
SIZES = (257, 512, 1024, 2048, 4096, 8192, 16384)
V = 4096
SENTENCES = {
    "Orsino's first line": "If music be the food of love, play on",
    "one word, four ways": "Music! music, MUSIC; unmusical",
    "a name": "MACBETH\nMacbeth shall sleep no more.",
    "Chinese and an emoji": "音乐是爱的食粮 🎵",
}
STEPS, SEEDS = 300, 3
UNTRAINED = [
    *("<file_sep>", "<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<empty_output>"),
    *("<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>", "<jupyter_script>"),
]
NEAR = 0.99
PROMPTS = (
    ("Repeat the word: ", "\n", "\n"),
    ('The string "', '" is a string. Once more, the string "', ""),
    ("", ",", ","),
)


def cut_off(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """The tokenizer as it was when it had `size` ids."""
    fields = tokenizer._fields["model"]
    vocab = sorted(fields["vocab"], key=fields["vocab"].get)[:size]
    return Tokenizer(vocab, fields["merges"][: size - 257], special_tokens=[EOS])


def vocabularies(training: list[str], held_out: list[str], largest: Tokenizer) -> list[dict]:
    rows = []
    n_bytes = [sum(len(text.encode()) for text in texts) for texts in (training, held_out)]
    for size in SIZES:
        tokenizer = cut_off(largest, size)
        seen, unseen = (
            np.concatenate([tokenizer.encode(text) for text in texts]) for texts in (training, held_out)
        )
        counts = np.bincount(seen, minlength=size)
        nats = -np.log((counts[unseen] + 1) / (len(seen) + size)).mean()
        rows.append(
            {
                "vocab_size": size,
                "bytes_per_token_training": round(n_bytes[0] / len(seen), 3),
                "bytes_per_token_held_out": round(n_bytes[1] / len(unseen), 3),
                "unigram_nats_per_token": round(float(nats), 3),
                "unigram_bits_per_byte": round(float(nats) / math.log(2) * len(unseen) / n_bytes[1], 3),
                "learned": size - 257,
                "learned_never_used": int((counts[257:] == 0).sum()),
                "learned_used_at_most_10_times": int((counts[257:] <= 10).sum()),
            }
        )
    return rows


def steps(tokenizer: Tokenizer, text: str) -> dict:
    """The merges that act on a text, in the order learned: [number of the merge, place of its left part]."""
    model = tokenizer._fields["model"]
    rank = {tuple(pair): k for k, pair in enumerate(model["merges"], 1)}
    acts, done = [], []
    pieces = tokenizer._library.pre_tokenizer.pre_tokenize_str(text)
    parts = [list(piece) for piece, _ in pieces]
    while True:
        found = [(rank[pair], i) for i, part in enumerate(parts) for pair in pairwise(part) if pair in rank]
        if not found:
            break
        lowest = min(found)[0]
        pair = tuple(model["merges"][lowest - 1])
        before = 0
        for p in parts:
            j = 0
            while j < len(p):
                if tuple(p[j : j + 2]) == pair:
                    acts.append([lowest, before + j])
                    p[j : j + 2] = ["".join(pair)]
                j += 1
            before += len(p)
        done.append(lowest)
    assert done == sorted(done)
    assert [model["vocab"][token] for p in parts for token in p] == tokenizer.encode(text)
    return {"text": text, "merges": acts}


def direction(rows: torch.Tensor) -> torch.Tensor:
    return F.normalize(F.normalize(rows, dim=1).mean(0), dim=0)


def mean_cosine(rows: torch.Tensor) -> float:
    """Between two different rows, on average over all pairs."""
    n = len(rows)
    total = F.normalize(rows.double(), dim=1).sum(0).pow(2).sum().item()
    return (total - n) / (n * (n - 1))


def train(tokens: np.ndarray, never: np.ndarray, seed: int) -> dict:
    config = MiniLLaMAConfig(
        vocab_size=V,
        d_model=96,
        n_layers=2,
        n_q_heads=4,
        n_kv_heads=2,
        head_dim=24,
        d_ffn=256,
        max_seq_len=128,
    )
    torch.manual_seed(seed)
    model = MiniLLaMAForCausalLM(config)
    optimizer = AdamW(decay_groups(model, 0.1), lr=3e-3, betas=(0.9, 0.95))
    generator = torch.Generator().manual_seed(seed)
    used = np.flatnonzero(np.bincount(tokens, minlength=V))
    sample = used[np.random.default_rng(seed).permutation(len(used))[: len(never)]]
    row = {"seed": seed}

    def look(name: str) -> None:
        table = model.token_embeddings.weight.detach()
        row[name] = {
            "never_used": round(mean_cosine(table[never]), 3),
            "used": round(mean_cosine(table[sample]), 3),
        }

    look("before")
    for _ in range(STEPS):
        x, y = get_batch(tokens, 8, 128, generator=generator)
        loss = cross_entropy(model(x)[0], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    row["last_loss"] = round(loss.item(), 1)
    look("after")
    table = model.token_embeddings.weight.detach()
    near = F.normalize(table, dim=1) @ direction(table[never])
    ranked = near.argsort(descending=True)[: len(never)].numpy()
    row["never_used_among_the_nearest"] = int(np.isin(ranked, never).sum())
    return row


def smollm2() -> dict:
    model, tokenizer = from_gguf(assets.fetch("smollm2-135m-instruct"))
    table = model.token_embeddings.weight.detach()
    untrained = [tokenizer.special_ids[name] for name in UNTRAINED]
    cosine = F.normalize(table, dim=1) @ direction(table[untrained])
    special = set(tokenizer.special_ids.values())
    near = [i for i in cosine.argsort(descending=True).tolist() if cosine[i] > NEAR and i not in special]
    stages = [
        i for i in cosine.argsort(descending=True).tolist() if 0.85 < cosine[i] <= NEAR and i not in special
    ]
    rng = np.random.default_rng(0)
    others = [int(i) for i in rng.permutation(tokenizer.vocab_size) if cosine[i] < 0.7 and i not in special]
    spoken = [i for i in others if tokenizer.token_bytes(i).strip().isalnum()][: len(near)]

    @torch.no_grad()
    def ranks(ids: list[int]) -> list[list[int]]:
        found = []
        for i in ids:
            row = []
            for before, between, more in PROMPTS:
                prompt = [*tokenizer.encode(before), i, *tokenizer.encode(between)]
                if more:
                    prompt += [i, *tokenizer.encode(more)]
                logits = model(torch.tensor([prompt]))[0][0, -1]
                row.append(int((logits > logits[i]).sum()) + 1)
            found.append(row)
        return found

    def shown(ids: list[int]) -> list[list]:
        return [
            [tokenizer.token_bytes(i).decode("utf-8", "replace"), round(cosine[i].item(), 3)] for i in ids
        ]

    words = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]

    def longer(i: int) -> str | None:
        """The shortest other token that begins like this one."""
        found = [word for word in words if word.startswith(words[i]) and word != words[i]]
        return min(found, key=lambda word: (len(word), word)).decode("utf-8", "replace") if found else None

    return {
        "vocab_size": tokenizer.vocab_size,
        "untrained": UNTRAINED,
        "smallest_cosine_of_the_untrained": round(cosine[untrained].min().item(), 4),
        "median_cosine": round(cosine.median().item(), 3),
        "histogram": [int(n) for n in np.histogram(cosine.numpy(), bins=50, range=(0, 1.0001))[0]],
        "near": shown(near),
        "next": [[*row, longer(i)] for row, i in zip(shown(stages), stages, strict=True)],
        "ranks_near": ranks(near),
        "spoken": [tokenizer.token_bytes(i).decode() for i in spoken],
        "ranks_spoken": ranks(spoken),
    }


def main() -> None:
    torch.set_num_threads(1)
    training, held_out = (
        [text for _, text in plays] for plays in split_by_play(shakespeare_plays(assets.fetch("shakespeare")))
    )
    largest = Tokenizer.train(training, max(SIZES))
    tokenizer = Tokenizer.train(training, V)
    assert cut_off(largest, V).sha256 == tokenizer.sha256
    tokens = np.concatenate(list(encode_documents(training, tokenizer))).astype(np.uint16)
    never = np.flatnonzero(np.bincount(tokens, minlength=V) == 0)
    result = {
        "what": "see the script",
        "tokenizer_sha256": tokenizer.sha256,
        "vocabularies": vocabularies(training, held_out, largest),
        "steps": {name: steps(tokenizer, text) for name, text in SENTENCES.items()},
        "trained": [train(tokens, never, seed) for seed in range(SEEDS)],
        "smollm2": smollm2(),
    }
    text = json.dumps(result, ensure_ascii=False) + "\n"
    print(text, end="")
    record(RESULT, text)


if __name__ == "__main__":
    main()
