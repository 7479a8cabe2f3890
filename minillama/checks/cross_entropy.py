"""Checkers of the exercises on the loss: units, targets, gradient, and a vocabulary in pieces."""

import math

import torch

from .machinery import Attempt, checker, close, show

# 1
UNWEIGHTED = (
    "The documents' own values were averaged. A long document counts for more: add up first, divide last."
)
IN_NATS = "Right, in nats. A bit is ln 2 nats: divide by it."
TIMES_LN2 = "You multiplied by ln 2. A number of bits is larger than the number of nats."
PER_TOKEN = "These are bits per token. Divide by the bytes of the text."
NO_TOKENS = "A mean loss was divided by bytes. What the text costs is the mean loss times its tokens."
WRONG_LOG = "You divided by log10 or log2 of something else: 1 bit is ln 2 = 0.693 nats."
UPSIDE_DOWN = "These are bytes per bit: turn the fraction over."

# 2
UNSHIFTED = "These are the tokens themselves: a model scored against them learns to copy. Move them by one."
WRONG_WAY = "They moved to the right: each position is now asked for the token before it. Move them left."
TWICE = "They moved by two. Each position is asked for the token that follows it, no other."
ROLLED = "roll brings the first token round to the end. The last position has no target: −100."
PADS = "Padding is among the targets. Behind the end of a text every target is −100."
LAST_LOST = "The last token of each text is not a target any more. A text of n tokens has n − 1 targets."
FIRST_PAD = (
    "The last token of a text is asked for the padding behind it. A text of n tokens has n − 1 targets."
)
STILL_ASKED = (
    "The last token of a text is asked for what roll put behind it: padding, or the text's own first token. "
    "A text of n tokens has n − 1 targets."
)
ZEROS = "Positions without a target hold 0, which is a token. They must hold −100."
BY_NUMBER = "A token is not padding because of its number: use lengths."
SHORTER = "One column is missing. Keep the shape (B, T), and put −100 where there is no target."

# 3
SUMMED = "That is the gradient of the sum. The loss is a mean: divide by the number of targets that count."
ALL_ROWS = "You divided by the number of rows. Only those whose target is not −100 count."
SIGN = "The sign is wrong: probability minus one-hot, not the other way round."
NOT_ZEROED = "A row whose target is −100 is not scored: its gradient is 0."
NO_ONE_HOT = "These are the probabilities. At the target, 1 must be subtracted."
ONLY_TARGET = "Only the target's column has a gradient here. Every other score gets its probability."
WRAPPED = "The target −100 was used as an index, or clamped to one, and its row counted. Leave such rows out."
NAN = "0/0: when no target counts, the gradient is 0 everywhere."
INDEX_ERROR = "A target of −100 is no column. Set such targets to 0 first, and their rows to 0 afterwards."

# 4
OVERFLOW = (
    "Something overflowed, or all of it became 0. "
    "Keep the largest score so far, and take exponentials of differences to it."
)
LAST_CHUNK = "Only the last chunk was summed up. Carry the sum along from chunk to chunk."
FIRST_CHUNK = "Only the first chunk was summed up. Go through all of them."
OWN_CHUNK = "The sum runs over the target's own chunk. It must run over the whole vocabulary."
NOT_RESCALED = (
    "When a larger maximum turns up, the sum so far belongs to the old one: multiply it by exp(old − new)."
)
LSE_ONLY = "That is ln Σ eᶻ. The loss subtracts the target's score."
SIGN_4 = "That is ln p. The loss is −ln p."
SUMMED_LOGS = "The chunks' logarithms were added. Sums add up, their logarithms do not."
LARGEST = "The target was compared with the largest score. All scores are in the sum."
LOCAL_INDEX = "target counts over all chunks. Subtract the lengths of the chunks before its own."


@checker("cross_entropy.corpus", 1)
def corpus(attempt: Attempt) -> None:
    """`fn(documents)`, a list of (mean loss in nats, tokens, bytes), returns bits per byte of all."""
    cases = [
        [(2.0, 100, 300)],
        [(8.3178, 10, 37), (1.4862, 37, 37)],
        [(4.0, 1000, 3000), (2.0, 10, 60)],
        [(5.0, 7, 20), (3.0, 40, 100), (4.5, 3, 30)],
    ]
    for documents in cases:
        got = attempt(documents=documents, on_error={ZeroDivisionError: "No document here is empty."})
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        nats = sum(loss * tokens for loss, tokens, _ in documents)
        tokens, size = (sum(d[i] for d in documents) for i in (1, 2))
        expected = nats / math.log(2) / size
        if not isinstance(got, int | float):
            attempt.fail(show(expected), show(got), "Return one number.")
        own = [loss * n / math.log(2) / b for loss, n, b in documents]
        mean_loss = sum(d[0] for d in documents) / len(documents)
        wrong = [
            (nats / size, IN_NATS),
            (nats * math.log(2) / size, TIMES_LN2),
            (nats / math.log(2) / tokens, PER_TOKEN),
            (sum(own) / len(own), UNWEIGHTED),
            (sum(own), UNWEIGHTED),
            (sum(x * math.log(2) for x in own) / len(own), UNWEIGHTED),
            (mean_loss * tokens / math.log(2) / size, UNWEIGHTED),
            (sum(x * d[1] for x, d in zip(own, documents, strict=True)) / tokens, UNWEIGHTED),
            (mean_loss / math.log(2) / size, NO_TOKENS),
            (sum(d[0] for d in documents) / math.log(2) / size, NO_TOKENS),
            (size * math.log(2) / nats, UPSIDE_DOWN),
            (nats / math.log(10) / size, WRONG_LOG),
        ]
        hint = "All nats of all documents, divided by ln 2 and by all bytes."
        attempt.match(float(got), expected, close, wrong=wrong, hint=hint)


def _shifted(ids, lengths, by=1, fill=-100, keep=None):
    """Targets `by` places to the left; `keep(n)` says how many of a text of n tokens stay (n − by)."""
    out = torch.full_like(ids, fill)
    for row, n in enumerate(lengths.tolist()):
        count = max(0, n - by if keep is None else keep(n))
        out[row, :count] = ids[row, by : by + count]
    return out


@checker("cross_entropy.targets", 2)
def targets(attempt: Attempt) -> None:
    """`fn(ids, lengths)`, (B, T) padded at the end and (B,), returns the targets (B, T)."""
    cases = [
        # The padding id is a token in other texts, and even inside its own: only lengths tell.
        ([[5, 6, 7, 8], [9, 4, 0, 0]], [4, 2]),
        ([[1, 2, 3]], [3]),
        ([[3, 0, 2, 0, 0, 0], [0, 0, 5, 1, 7, 0], [4, 0, 0, 0, 0, 0]], [4, 6, 1]),
        ([[7, 7, 7, 7, 7], [7, 2, 2, 7, 7]], [2, 5]),
        ([[8]], [1]),
    ]
    for rows, sizes in cases:
        ids, lengths = torch.tensor(rows), torch.tensor(sizes)
        got = attempt(ids=ids, lengths=lengths)
        b, t = ids.shape
        expected = _shifted(ids, lengths)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor.")
        if got.shape != ids.shape:
            hint = SHORTER if got.shape == (b, t - 1) else f"The result must have the shape of ids, {(b, t)}."
            attempt.fail(show(expected), show(got), hint)
        if got.is_floating_point() or got.dtype == torch.bool:
            attempt.fail(show(expected), show(got), "Targets are integers: keep the dtype of ids.")
        unmasked = torch.cat([ids[:, 1:], torch.full((b, 1), -100)], 1)
        right = torch.cat([torch.full((b, 1), -100), ids[:, :-1]], 1)
        inside = torch.arange(t) < lengths[:, None]
        rolled = ids.roll(-1, 1)
        wrong = [
            (ids, UNSHIFTED),
            (torch.where(inside, ids, -100), UNSHIFTED),
            (torch.where(torch.arange(t) < lengths[:, None] - 1, ids, -100), UNSHIFTED),
            (unmasked, PADS),
            (torch.where(inside, unmasked, -100), FIRST_PAD),
            (torch.where(inside, rolled, -100), STILL_ASKED),
            (torch.where(inside, ids, -100).roll(-1, 1), ROLLED),
            (rolled, ROLLED),
            (ids.flatten().roll(-1).view(b, t), ROLLED),
            (right, WRONG_WAY),
            (torch.where(inside, right, -100), WRONG_WAY),
            (ids.roll(1, 1), WRONG_WAY),
            (_shifted(ids, lengths, by=2), TWICE),
            (_shifted(ids, lengths, fill=0), ZEROS),
            (torch.cat([torch.where(inside, ids, -100)[:, 1:], torch.zeros_like(ids[:, :1])], 1), ZEROS),
            (_shifted(ids, lengths, keep=lambda n: n - 2), LAST_LOST),
            (
                torch.where(unmasked == 0, -100, unmasked),
                BY_NUMBER,
            ),
            (
                torch.where(expected == 0, -100, expected),
                BY_NUMBER,
            ),
        ]
        hint = "Position t of a text of n tokens is asked for token t + 1 if t < n − 1, else −100."
        attempt.match(got, expected, torch.equal, wrong=wrong, hint=hint)


@checker("cross_entropy.gradient", 3, autograd=False)
def gradient(attempt: Attempt) -> None:
    """`fn(logits, targets)`, (N, V) and (N,), returns the gradient of the mean loss by the logits."""
    seeded = torch.Generator().manual_seed(0)
    for wanted, vocab_size in [
        ([2, 0, 3], 4),
        ([1, -100, 1, 0], 3),
        ([4], 5),
        ([-100, 0, -100], 2),
        ([-100, -100], 3),
    ]:
        labels = torch.tensor(wanted)
        logits = 2 * torch.randn(len(wanted), vocab_size, generator=seeded, dtype=torch.float64)
        got = attempt(
            logits=logits,
            targets=labels,
            on_error={
                (IndexError, ""): INDEX_ERROR,
                (RuntimeError, "index"): INDEX_ERROR,
                (RuntimeError, "Class values"): INDEX_ERROR,
            },
        )
        valid = labels != -100
        count = max(1, int(valid.sum()))
        p = logits.softmax(-1)
        y = torch.nn.functional.one_hot(labels.clamp(min=0), vocab_size).to(p.dtype)
        mask = valid[:, None].to(p.dtype)
        expected = ((p - y) / count).where(valid[:, None], 0.0)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return one tensor of the shape of logits.")
        if got.shape == expected.shape and got.isnan().any():
            attempt.fail(show(expected), show(got), NAN)
        n = len(wanted)
        wrong = [
            ((p - y) * mask, SUMMED),
            ((p - y) * mask / n, ALL_ROWS),
            ((y - p) * mask / count, SIGN),
            ((y - p) / n, SIGN),
            (p * mask / count, NO_ONE_HOT),
            (p / n, NO_ONE_HOT),
            ((p - y) * y * mask / count, ONLY_TARGET),
            (-y * mask / count, ONLY_TARGET),
            ((p - y) / count, WRAPPED),
            ((p - y) / n, WRAPPED),
            ((p - y), WRAPPED if not valid.all() else SUMMED),
            ((p - y * mask) / count, NOT_ZEROED),
            ((p - y * mask) / n, NOT_ZEROED),
            (
                (logits - y) * mask / count,
                "Scores are not probabilities: take the softmax of each row first.",
            ),
        ]
        hint = "(softmax(logits) − one-hot) / number of targets that count; rows with −100 are 0."
        if got.shape != expected.shape:
            hint = f"The gradient has the shape of logits, {tuple(expected.shape)}."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


@checker("cross_entropy.in_chunks", 4)
def in_chunks(attempt: Attempt) -> None:
    """`fn(chunks, target)`: the loss of token `target`, its scores given as a list of lists."""
    seeded = torch.Generator().manual_seed(0)
    for sizes, scale, shifts, target in [
        ((3, 2), 1.0, (0, 0), 3),
        ((4,), 1.0, (0,), 1),
        ((2, 3, 2), 1.0, (0, 4, -2), 0),
        ((5, 5, 5, 1), 3.0, (0, -1, 2, 0), 15),
        ((3, 3), 1.0, (800, 803), 4),
        ((3, 3), 1.0, (-900, -903), 1),
        ((2, 2, 2), 1.0, (1000, -1000, 0), 0),
    ]:
        chunks = [
            (scale * torch.randn(n, generator=seeded, dtype=torch.float64) + by).tolist()
            for n, by in zip(sizes, shifts, strict=True)
        ]
        whole = torch.tensor([z for chunk in chunks for z in chunk], dtype=torch.float64)
        got = attempt(
            chunks=chunks,
            target=target,
            on_error={
                IndexError: LOCAL_INDEX,
                OverflowError: OVERFLOW,
                (ValueError, "math domain error"): OVERFLOW,
                (ValueError, "expected a positive input"): OVERFLOW,
            },
        )
        z = whole[target].item()
        lse = whole.logsumexp(0).item()
        expected = lse - z
        if torch.is_tensor(got) and got.numel() == 1:
            got = got.item()
        if not isinstance(got, int | float):
            attempt.fail(show(expected), show(got), "Return one number.")
        if not math.isfinite(got):
            attempt.fail(show(expected), show(float(got)), OVERFLOW)
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        own = max(i for i, start in enumerate(starts) if start <= target)
        each = [torch.tensor(chunk, dtype=torch.float64).logsumexp(0).item() for chunk in chunks]
        top, stale = -math.inf, 0.0
        for chunk in chunks:
            top = max(top, *chunk)
            stale += sum(math.exp(z - top) for z in chunk)
        wrong = [
            (-expected, SIGN_4),
            (lse, LSE_ONLY),
            (each[own] - z, OWN_CHUNK),
            (each[-1] - z, LAST_CHUNK),
            (each[0] - z, FIRST_CHUNK),
            (math.log(stale) + top - z, NOT_RESCALED),
            (sum(each) - z, SUMMED_LOGS),
            (whole.max().item() - z, LARGEST),
            (lse - chunks[0][min(target, sizes[0] - 1)], LOCAL_INDEX),
        ]
        hint = "Keep the largest score and the sum of exp(score − largest): loss = ln sum + largest − score."
        attempt.match(float(got), expected, lambda a, b: close(a, b, 1e-4), wrong=wrong, hint=hint)
