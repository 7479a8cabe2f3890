"""Checkers of the exercises on generation."""

import math
from itertools import accumulate

import torch
from torch import nn

from ..config import MiniLLaMAConfig
from ..model import MiniLLaMAForCausalLM
from .machinery import Attempt, checker, close, show

TIMES = "The scores were multiplied by the temperature; divide them by it."
DIVIDED_LATE = "The probabilities were divided. Divide the scores, before the exponential."
NO_TEMPERATURE = "These are the probabilities at temperature 1: the temperature has had no effect."
NOT_NORMALIZED = "These do not add up to 1: divide each exponential by the sum of all."
NO_EXP = "The scores themselves were divided by their sum. Take exponentials first."
BASE_TWO = "This is 2 to the power of each score. The base is e: math.exp."
HOT_ZERO = "At temperature 0 the largest score gets 1 and all others 0; treat it before you divide."
BOTH_ZERO = "Of equal scores, temperature 0 takes the first."
OVERFLOW = "math.exp overflows beyond 709. Subtract the largest score from all first; nothing else changes."
DIRECTION = "The list is in another order. Probability i belongs to score i: do not sort."


def softmax(scores, temperature=1.0, base=math.e):
    top = max(scores)
    e = [base ** ((s - top) / temperature) for s in scores]
    return [v / sum(e) for v in e]


@checker("generation.probabilities", 1)
def probabilities(attempt: Attempt) -> None:
    """`fn(scores, temperature)` gives a probability for each score: plain Python, temperature 0 included."""
    # The first input tells every wrong formula below from every other.
    cases = [
        ([2.0, -1.0, 0.5, 1.5], 0.5),
        ([2.0, -1.0, 0.5, 1.5], 2.0),
        ([0.0, 0.0], 1.0),
        ([1.0, 3.0, 2.0], 0),
        ([1.0, 3.0, 2.0, 3.0], 0),
        ([30.0, 29.0, 10.0], 0.01),
        ([-5.0], 0.7),
    ]
    for scores, temperature in cases:
        hints = {ZeroDivisionError: HOT_ZERO if temperature == 0 else OVERFLOW, OverflowError: OVERFLOW}
        got = attempt(scores=scores, temperature=temperature, on_error=hints)
        best = scores.index(max(scores))
        expected = [float(i == best) for i in range(len(scores))]
        if temperature:
            expected = softmax(scores, temperature)
        if not isinstance(got, list) or not all(isinstance(v, int | float) for v in got):
            plain = "Return a plain list with one float for each score."
            if torch.is_tensor(got):
                plain = "That is a tensor. Here, use Python only: return a plain list of floats."
            attempt.fail(show(expected), show(got), plain)
        wrong = [(softmax(scores), NO_TEMPERATURE), (sorted(expected, reverse=True), DIRECTION)]
        if temperature:
            plain = [math.exp(min(s / temperature, 709)) for s in scores]
            late = [p / temperature for p in softmax(scores)]
            wrong += [
                (softmax(scores, 1 / temperature), TIMES),
                (late, DIVIDED_LATE),
                ([p / sum(late) for p in late], DIVIDED_LATE),
                (plain, NOT_NORMALIZED),
                ([s / temperature for s in scores], "These are the scores, divided; the softmax is missing."),
                (softmax(scores, temperature, 2.0), BASE_TWO),
            ]
            if sum(scores):
                wrong.append(([s / sum(scores) for s in scores], NO_EXP))
        elif max(scores) in scores[best + 1 :]:
            ties = [s == max(scores) for s in scores]
            last = len(scores) - 1 - scores[::-1].index(max(scores))
            wrong += [
                ([float(t) for t in ties], BOTH_ZERO),
                ([t / sum(ties) for t in ties], BOTH_ZERO),
                ([float(i == last) for i in range(len(scores))], BOTH_ZERO),
            ]
        hint = "Divide each score by the temperature, take exponentials, divide them by their sum."
        if temperature == 0:
            hint = HOT_ZERO
        if len(got) != len(scores):
            hint = "The result must hold one number for each score."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


MIN_P_OF_ONE = "The threshold was m itself. It is relative: m times the largest probability of the row."
MIN_P_RAW = "The threshold was m times the largest logit. Compare probabilities, or add log m to the logit."
MIN_P_WHOLE = "One maximum was taken for the whole tensor. Each row has its own: max or amax over dim=-1."
MIN_P_STRICT = "A token that is exactly at the threshold stays: drop only what is below it."
MIN_P_SHAPES = "amax(-1) drops the last axis, so the shapes do not fit. Keep it: amax(-1, keepdim=True)."
INVERTED = "The wrong half was kept: drop what is below the threshold."
ZEROED = "The dropped tokens were set to 0, which is a logit like any other. Use -inf."
CHANGED = "What stays must stay as it is: return logits, not probabilities."


@checker("generation.min_p", 2)
def min_p(attempt: Attempt) -> None:
    """`fn(logits, m)` hides, by -inf, each token whose probability is below m times its row's largest."""
    seeded = torch.Generator().manual_seed(0)
    quarters = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625], dtype=torch.float64).log()
    cases = [
        (torch.tensor([[2.0, 1.0, 0.5, 0.0, -3.0], [0.1, 0.0, -0.2, -2.0, -4.0]], dtype=torch.float64), 0.1),
        (4 * torch.randn(2, 3, 9, generator=seeded, dtype=torch.float64), 0.05),
        (torch.randn(7, generator=seeded, dtype=torch.float64) - 20, 0.3),
        (quarters - 1e-9 * torch.arange(5), 0.2),
        (torch.zeros(1, 4, dtype=torch.float64), 1.0),
    ]
    for logits, m in cases:
        shapes = {(RuntimeError, "must match the size"): MIN_P_SHAPES}
        got = attempt(logits=logits, m=m, on_error=shapes if logits.dim() > 1 else {})
        top = logits.amax(-1, keepdim=True)
        dropped = logits < top + math.log(m) - 1e-12
        expected = logits.masked_fill(dropped, -math.inf)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of the shape of logits.")
        p = logits.softmax(-1)
        hidden = -math.inf
        wrong = [
            (logits.masked_fill(logits <= top + math.log(m) + 1e-12, hidden), MIN_P_STRICT),
            (logits.masked_fill(p < m, hidden), MIN_P_OF_ONE),
            (logits.masked_fill(logits < m * top, hidden), MIN_P_RAW),
            (logits.masked_fill(p < m * p.max(), hidden), MIN_P_WHOLE),
            (logits.masked_fill(logits < logits.max() + math.log(m), hidden), MIN_P_WHOLE),
            (logits.masked_fill(~dropped, hidden), INVERTED),
            (logits.masked_fill(dropped, 0.0), ZEROED),
            (p.masked_fill(dropped, 0.0), CHANGED),
            (p.masked_fill(dropped, hidden), CHANGED),
            (expected.softmax(-1), CHANGED),
            (~dropped, "Return the logits, with -inf where a token is dropped, rather than a mask."),
            (logits, "Nothing was dropped."),
        ]
        hint = "A token stays if its probability is at least m times the largest of its row."
        attempt.match(got, expected, _same, wrong=wrong, hint=hint)


def _same(a, b) -> bool:
    """Equal up to rounding, -inf in the same places."""
    if a.shape != b.shape:
        return False
    a, b = a.double(), b.double()
    finite = a.isfinite()
    return torch.equal(finite, b.isfinite()) and torch.allclose(a[finite], b[finite], 1e-6, 1e-6)


class Model(MiniLLaMAForCausalLM):
    """A model of two layers that counts the tokens it reads. It is passed on as it is, never copied."""

    def __init__(self, config: MiniLLaMAConfig):
        super().__init__(config)
        self.read = 0
        self.token_embeddings.register_forward_hook(self._count)

    def _count(self, module: nn.Module, inputs, output) -> None:
        self.read += inputs[0].shape[-1]

    def __deepcopy__(self, memo):
        return self


ONLY_NEW = "These are the new tokens alone. Return the prompt, too: (B, T + n)."
ONE_FEWER = "The last token is missing: n tokens must follow the prompt."
ONE_MORE = "One token too many: the loop ran n + 1 times."
FIRST_ROW = "The scores of the first position were used; those of the last one, [:, -1], say what follows."
NO_CACHE = "The tokens are right, but the model read {read} tokens where {least} would do: use a KVCache."
TWICE = (
    "The tokens went into the cache a second time. With a cache, give the model only what it has not read: "
    "the prompt once, then one token at a time."
)
SAME_ROW = "Each row has its own likeliest token: argmax over the last axis, dim=-1."
NO_COLUMN = "argmax(-1) drops an axis. What is appended and read next is a column (B, 1): keepdim=True."
WRONG_BATCH = "The cache must have room for every row: KVCache(model.config, batch_size)."


@checker("generation.greedy", 3)
def greedy(attempt: Attempt) -> None:
    """`fn(model, ids, n)` appends the n likeliest tokens to ids (B, T), one by one, with a KVCache."""
    config = MiniLLaMAConfig(
        vocab_size=31,
        d_model=16,
        n_layers=2,
        n_q_heads=2,
        n_kv_heads=1,
        head_dim=8,
        d_ffn=24,
        max_seq_len=32,
    )
    torch.manual_seed(3)
    model = Model(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.6)
    seeded = torch.Generator().manual_seed(1)
    for batch, t, n in [(1, 4, 6), (3, 5, 8), (2, 1, 5), (1, 3, 1), (1, 12, 20)]:
        ids = torch.randint(31, (batch, t), generator=seeded)
        model.read = 0
        hints = {
            (ValueError, "exceeds"): TWICE,
            (ValueError, "batch_size"): WRONG_BATCH,
            (RuntimeError, "does not require grad"): "No gradient is needed here.",
            (RuntimeError, "number of dimensions"): NO_COLUMN,
        }
        got = attempt(model=model, ids=ids, n=n, on_error=hints)
        read = model.read
        expected = _continued(model, ids, n)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of token ids, (B, T + n).")
        new = expected[:, t:]
        wrong = [
            (new, ONLY_NEW),
            (expected[:, :-1], ONE_FEWER),
            (_continued(model, ids, n + 1), ONE_MORE) if t + n < 32 else (new, ONLY_NEW),
            (_continued(model, ids, n, place=0), FIRST_ROW),
            (_twice(model, ids, n), TWICE),
            (ids, "The prompt came back unchanged."),
        ]
        hint = "Take the argmax of the last position's scores, append it, give the model that token alone."
        if got.shape != expected.shape:
            hint = f"The shape must be (B, T + n) = {tuple(expected.shape)}."
        attempt.match(got, expected, _equal, wrong=wrong, hint=hint)
        least = t + n - 1
        if read > least + 1:  # reading the last token as well does no harm
            hint = NO_CACHE.format(read=read, least=least)
            attempt.fail(f"at most {least + 1} tokens read a row", f"{read} read", hint)


@torch.no_grad()
def _continued(model, ids, n, place=-1):
    for _ in range(n):
        ids = torch.cat([ids, model(ids)[0][:, place].argmax(-1, keepdim=True)], dim=1)
    return ids


@torch.no_grad()
def _twice(model, ids, n):
    """The whole text enters the cache at every step, as far as it has room."""
    from ..cache import KVCache

    cache = KVCache(model.config, len(ids))
    for _ in range(n):
        if cache.length + ids.shape[1] > cache.max_len:
            return ids
        ids = torch.cat([ids, model(ids, past_key_values=cache)[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


def _equal(a, b) -> bool:
    return a.shape == b.shape and torch.equal(a.double(), b.double())


THROUGH = (
    "The stop word came in two pieces and went through. Look for it in all that is held, the new piece added."
)
PART = "The beginning of the stop word was put out. Hold back what may become the stop word."
ITSELF = "The stop word itself is not put out, only what stands before it."
BEHIND = "Text from behind the stop word was put out. End there, whatever is still to come."
HELD = "The text ended while something was held back. It was no stop word after all: put it out."
EMPTY = "An empty string was put out. When nothing can be said yet, put out nothing."
LATE = "The text is right, but it came later than it could: hold back only what may begin the stop word."
FINER = "The text is right, but cut finer: put out what a piece completes as one string."


@checker("generation.stop_at", 4)
def stop_at(attempt: Attempt) -> None:
    """`fn(pieces, stop)` puts out each piece as early as it can, and ends before the first `stop`."""
    cases = [
        (["I am a", " man.", "E", "ND and", " more"], "END"),
        (["GEN", "ERAL", " END"], "END"),
        (["KING\n", "\nI am"], "\n\n"),
        (["play", " on"], "END"),
        (["wait E", "N"], "END"),
        (["aa", "ab", "a"], "aab"),
        (["ENDEND"], "END"),
        ([], "END"),
    ]
    for pieces, stop in cases:
        got = attempt(pieces=pieces, stop=stop)
        expected = _stopped(pieces, stop)
        if not isinstance(got, list) or not all(isinstance(each, str) for each in got):
            attempt.fail(show(expected), show(got), "Return a list of strings.")
        if got == expected:
            continue
        whole, right, said = "".join(pieces), "".join(expected), "".join(got)
        hint = "Hold back the longest end of the text that is a beginning of the stop word, no more."
        if said == right:
            hint = EMPTY if "" in got else FINER if _ends(expected) <= _ends(got) else LATE
        elif stop in said:
            hint = ITSELF if said == right + stop else THROUGH
        elif said == right + whole[len(right) + len(stop) :] != right:
            hint = BEHIND
        elif whole.startswith(said) and len(said) < len(right):
            hint = HELD
        elif said.startswith(right) and stop.startswith(said[len(right) :]):
            hint = PART
        attempt.fail(show(expected), show(got), hint)


def _ends(texts: list[str]) -> set[int]:
    return set(accumulate(map(len, texts)))


def _stopped(pieces: list[str], stop: str) -> list[str]:
    held, out = "", []
    for piece in pieces:
        held += piece
        if stop in held:
            out.append(held[: held.index(stop)])
            held = ""
            break
        keep = next(k for k in range(len(stop) - 1, -1, -1) if held.endswith(stop[:k]))
        out.append(held[: len(held) - keep])
        held = held[len(held) - keep :]
    return [text for text in [*out, held] if text]
