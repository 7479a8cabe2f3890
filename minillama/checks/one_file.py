"""Checkers of the exercises on the one-file model."""

import math

import torch

from ..rope import half_to_interleaved, interleaved_to_half
from .machinery import Attempt, checker, close, show

# -- one einsum ------------------------------------------------------------------------------------------

SCALED = "These are divided by √D. Here the bare sums of products are asked for."
SOFTMAXED = "A softmax was taken. Here the bare sums of products are asked for."
QUERIES_LAST = "Queries and keys are exchanged: t comes before s on the right side."
KEPT_ORDER = "The axes of q were kept in their order. The right side is free to name another: b, g, r, t, s."
GROUP_LAST = "g and r are exchanged on the right side: the group comes first."
FLAT_HEADS = "g and r were merged into one axis of heads; keep both."
SUMMED_HEADS = "The heads of a group were added up: r is missing on the right side."
OTHER_KEYS = "A query met the keys of every group: give q and k the *same* letter g, and they run in step."


@checker("one_file.grouped_scores", 1)
def grouped_scores(attempt: Attempt) -> None:
    """`fn(q, k)`: q (B, T, G, R, D) and k (B, S, G, D) to the bare scores (B, G, R, T, S)."""
    seeded = torch.Generator().manual_seed(0)
    mismatch = "A letter stands for two different sizes. Write the shape of each operand under its letters."
    # All sizes differ at first: no axis can pass for another.
    for b, t, s, g, r, d in [(2, 3, 5, 4, 6, 7), (1, 4, 4, 2, 2, 2), (1, 1, 9, 1, 3, 4), (3, 2, 6, 2, 1, 5)]:
        q = torch.randn(b, t, g, r, d, generator=seeded)
        k = torch.randn(b, s, g, d, generator=seeded)
        expected = (q.permute(0, 2, 3, 1, 4) @ k.permute(0, 2, 3, 1)[:, :, None]).contiguous()
        got = attempt(q=q, k=k, on_error={RuntimeError: mismatch})
        if not torch.is_tensor(got):
            attempt.fail(f"a tensor of shape {tuple(expected.shape)}", show(got), "Return a tensor.")
        got = got.detach()
        crossed = q.permute(0, 2, 3, 1, 4) @ k.sum(2).mT[:, None, None]
        wrong = [
            (expected / math.sqrt(d), SCALED),
            (expected.softmax(-1), SOFTMAXED),
            ((expected / math.sqrt(d)).softmax(-1), SOFTMAXED),
            (expected.transpose(-2, -1), QUERIES_LAST),
            (expected.permute(0, 3, 1, 2, 4), KEPT_ORDER),
            (expected.transpose(1, 2), GROUP_LAST),
            (expected.flatten(1, 2), FLAT_HEADS),
            (expected.sum(2), SUMMED_HEADS),
            (crossed, OTHER_KEYS),
        ]
        hint = "b, g and d stand in both operands; d alone is summed. The right side is b g r t s."
        if got.shape != expected.shape:
            hint = f"The shape must be (B, G, R, T, S) = {tuple(expected.shape)}."
            for value, its_hint in wrong:
                if close(got, value):
                    hint = its_hint
            attempt.fail(f"shape {tuple(expected.shape)}", f"shape {tuple(got.shape)}", hint)
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


# -- beyond the context ----------------------------------------------------------------------------------

TOO_LONG = "The model was given more tokens than its context holds: cut the text to its last context_length."
OFF_TABLE = "A position lies beyond the model's table. Number each window from 0: only differences count."
OLDEST = "The window stood still at the oldest tokens; the newest ones decide what follows."
FIRST_ROW = "The scores of the window's first token were read. The next token's stand in the last row."
SHORT_WINDOW = "The window is one token too short: it may hold context_length of them."
ONLY_NEW = "Right tokens, but the text they continue is missing: return (1, T + n_new)."
STILL = "Positions were cut off at the table's end, so different tokens share one. Number each window from 0."
ROUND = "Positions went round the table (modulo): a near token looks far. Number each window from 0."
ONE_OFF = "The number of new tokens is wrong: n_new are asked for."
WORST = "The *lowest* score was taken."


class ShortModel:
    """Stands in for a model of the one file: a small context, choices that hang on order and distance."""

    def __init__(self, context_length: int, vocab_size: int) -> None:
        self.context_length, self.vocab_size = context_length, vocab_size

    def __eq__(self, other) -> bool:
        return type(other) is ShortModel and vars(self) == vars(other)

    def __call__(self, token_ids, token_positions=None):
        """(1, T) -> logits (1, T, V)."""
        if not torch.is_tensor(token_ids) or token_ids.ndim != 2:
            raise ValueError("token_ids must be a tensor (1, T)")
        t = token_ids.shape[1]
        if t > self.context_length:
            raise ValueError(f"T = {t} exceeds max_seq_len = {self.context_length}")
        if token_positions is None:
            token_positions = torch.arange(t)
        if token_positions.min() < 0 or token_positions.max() >= self.context_length:
            raise ValueError(f"token_positions must be from 0 to {self.context_length - 1}")
        place = token_positions.reshape(-1)[-t:]
        apart = place[:, None] - place[None, :]  # (T, S)
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        mixed = ((token_ids[0] + 1) * (apart * apart + 3 * apart + 2) * seen).sum(-1)  # (T,)
        choice = (mixed * 7 + t) % self.vocab_size
        vocabulary = torch.arange(self.vocab_size)
        return -((vocabulary - choice[:, None]) % self.vocab_size).float()[None]


def _slide(model, token_ids, n_new, *, first=False, row=-1, less=0, place=None, worst=False):
    ids, context = token_ids, model.context_length
    for _ in range(n_new):
        size = context - less
        window = ids[:, :size] if first else ids[:, -size:]
        at = None
        if place is not None:
            begin = ids.shape[1] - window.shape[1]
            at = place(torch.arange(begin, begin + window.shape[1]), context)
        scores = model(window, at)[:, row]
        ids = torch.cat((ids, (scores.argmin(-1) if worst else scores.argmax(-1))[:, None]), 1)
    return ids


@checker("one_file.slide", 2)
def slide(attempt: Attempt) -> None:
    """`fn(model, token_ids, n_new, context_length)` appends n_new greedy tokens to token_ids (1, T)."""
    for context, vocab, tokens, n_new in [
        (5, 50, [3, 1, 4, 1, 5, 9, 2], 9),
        (6, 40, [7, 8], 12),
        (4, 30, [2, 9, 4, 4], 1),
        (3, 20, [1, 2, 3, 4, 5, 6], 0),
        (2, 60, [5], 10),
    ]:
        model, ids = ShortModel(context, vocab), torch.tensor([tokens])
        got = attempt(
            model=model,
            token_ids=ids,
            n_new=n_new,
            context_length=context,
            on_error={(ValueError, "exceeds"): TOO_LONG, (ValueError, "token_positions"): OFF_TABLE},
        )
        expected = _slide(model, ids, n_new)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of token ids, (1, T + n_new).")
        wrong = [
            (expected[:, len(tokens) :], ONLY_NEW),
            (_slide(model, ids, n_new, first=True), OLDEST),
            (_slide(model, ids, n_new, row=0), FIRST_ROW),
            (_slide(model, ids, n_new, worst=True), WORST),
            (_slide(model, ids, n_new, place=lambda at, c: at.clamp(max=c - 1)), STILL),
            (_slide(model, ids, n_new, place=lambda at, c: at % c), ROUND),
            (_slide(model, ids, n_new + 1), ONE_OFF),
        ]
        if context > 1:
            wrong.append((_slide(model, ids, n_new, less=1), SHORT_WINDOW))
        if n_new:
            wrong.append((expected[:, :-1], ONE_OFF))
        hint = "In turn: the last context_length tokens, the scores of the last one, argmax, torch.cat."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


# -- the way back ----------------------------------------------------------------------------------------

SWAPPED_GATE = "w1 is the gate, w3 the content (up), w2 the way down: w_gate and w_up are exchanged."
DOWN = "w2 is the way back to d_model: it belongs to w_down."
LEFT_PAIRS = "the rows still stand in interleaved pairs: interleaved_to_half, head by head."
INVERSE_PAIRS = "regrouped the wrong way round: these rows come interleaved and must become halves."
ONE_HEAD = "regrouped as if all rows were one head; tell the function how many heads there are."
TURNED_VALUES = "values are never rotated: their rows stay as they are."
ORDER = "the fused matrix holds the rows of q, then k, then v."
TRANSPOSED = "both programs keep (out, in): nothing is transposed."
SWAPPED_NORMS = "rms_norm1 stands before attention, rms_norm2 before the feed-forward network."


@checker("one_file.to_core", 3)
def to_core(attempt: Attempt) -> None:
    """`fn(block, num_heads)`: the tensors of a block of the one file, as the core names and orders them."""
    seeded = torch.Generator().manual_seed(0)

    def noise(*shape):
        return torch.randn(shape, generator=seeded)

    names = (
        *("attn_norm.weight", "attn.wq.weight", "attn.wk.weight", "attn.wv.weight", "attn.wo.weight"),
        *("ffn_norm.weight", "ffn.w_gate.weight", "ffn.w_up.weight", "ffn.w_down.weight"),
    )
    # The square feed-forward network of the first block lets every exchange pass unseen but for its values.
    for c, heads, f in [(12, 2, 12), (8, 1, 5), (12, 3, 7)]:
        block = {
            "rms_norm1.g": noise(c),
            "mult_head_atten.w_qkv.w": noise(3 * c, c),
            "mult_head_atten.w_out.w": noise(c, c),
            "rms_norm2.g": noise(c),
            "ffe.w1.w": noise(f, c),
            "ffe.w2.w": noise(c, f),
            "ffe.w3.w": noise(f, c),
        }
        got = attempt(block=StateDict(block), num_heads=heads)
        q, k, v = block["mult_head_atten.w_qkv.w"].chunk(3)
        first, out, second, w1, w2, w3 = (block[key] for key in block if "qkv" not in key)
        regrouped = {"attn.wq.weight": q, "attn.wk.weight": k}
        half = {name: interleaved_to_half(w, heads) for name, w in regrouped.items()}
        values = first, *half.values(), v, out, second, w1, w3, w2
        expected = dict(zip(names, values, strict=True))
        if not isinstance(got, dict):
            attempt.fail(f"a dict of {len(names)} tensors", show(got), "Return a dict, as state_dict does.")
        missing = [name for name in names if name not in got]
        if missing:
            attempt.fail(f"a tensor called {missing[0]}", "none", f"The nine names are {', '.join(names)}.")
        extra = [name for name in got if name not in expected]
        if extra:
            attempt.fail("nine names", f"{extra[0]} as well", "load_state_dict would refuse a name it lacks.")
        wrong = {
            "attn_norm.weight": [(second, SWAPPED_NORMS)],
            "ffn_norm.weight": [(first, SWAPPED_NORMS)],
            "attn.wv.weight": [
                (interleaved_to_half(v, heads), TURNED_VALUES),
                (half_to_interleaved(v, heads), TURNED_VALUES),
                (q, ORDER),
                (k, ORDER),
            ],
            "attn.wo.weight": [(out.T, TRANSPOSED)],
            "ffn.w_gate.weight": [(w3, SWAPPED_GATE), (w2, DOWN), (w1.T, TRANSPOSED)],
            "ffn.w_up.weight": [(w1, SWAPPED_GATE), (w2, DOWN), (w3.T, TRANSPOSED)],
            "ffn.w_down.weight": [(w3, DOWN), (w1, DOWN), (w2.T, TRANSPOSED)],
        }
        for name, w in regrouped.items():
            others = [each for each in (q, k, v) if each is not w]
            wrong[name] = [
                (w, LEFT_PAIRS),
                (half_to_interleaved(w, heads), INVERSE_PAIRS),
                (interleaved_to_half(w, 1), ONE_HEAD),
                *((each, ORDER) for each in others),
                *((interleaved_to_half(each, heads), ORDER) for each in others),
            ]
        for name in names:
            value = got[name]
            if not torch.is_tensor(value):
                attempt.fail(f"{name}: a tensor", show(value), "Each name holds a tensor.")
            hint = f"{name}: compare with the table of names above."
            found = [(each, f"{name}: {its}") for each, its in wrong[name]]
            attempt.match(value.detach(), expected[name], close, wrong=found, hint=hint, what=name)


class StateDict(dict):
    """A dict of tensors that can be compared, for the machinery asks whether the input was changed."""

    def __eq__(self, other) -> bool:
        return self.keys() == other.keys() and all(torch.equal(self[key], other[key]) for key in self)

    __hash__ = None


# -- two orders of decay ---------------------------------------------------------------------------------

SAME = "With the same two numbers the orders differ: the chapter's step from p = 1 ends at 0.891 and at 0.89."
ONLY_RATE = (
    "The rate is right. The decay is multiplied by it, and would shrink too: divide it by the same factor."
)
ONLY_DECAY = "The decay is right, the rate is not: compare what multiplies the step u in both."
UPSIDE_DOWN = "The factor stands upside down: decaying after the update makes the update *smaller*."


@checker("one_file.other_order", 4)
def other_order(attempt: Attempt) -> None:
    """`fn(lr, weight_decay)`: the pair with which decay *before* the update does what decay after it does."""
    for lr, decay in [(0.2, 0.5), (0.1, 0.1), (1e-3, 0.01), (0.02, 0.0), (0.25, 2.0)]:
        got = attempt(lr=lr, weight_decay=decay)
        factor = 1 - lr * decay
        expected = (lr * factor, decay / factor)
        if not isinstance(got, tuple | list) or len(got) != 2:
            attempt.fail(show(expected), show(got), "Return two numbers: the rate and the decay.")
        got = tuple(got)
        wrong = [
            ((lr, decay), SAME),
            ((lr * factor, decay), ONLY_RATE),
            ((lr, decay / factor), ONLY_DECAY),
            ((lr / factor, decay * factor), UPSIDE_DOWN),
            ((lr / factor, decay), UPSIDE_DOWN),
            ((decay / factor, lr * factor), "The two numbers are right: exchange them."),
        ]
        hint = "Write both orders as a · p − b · u, and make the a's and the b's equal."
        attempt.match(got, expected, _very_close, wrong=wrong, hint=hint)


def _very_close(a, b) -> bool:
    return close(list(a), list(b), 1e-9)
