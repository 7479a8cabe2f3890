"""Checkers of the exercises on training."""

import math

import torch

from .machinery import Attempt, checker, close, show

HELD_COUNTS = (
    "The shares were counted on held_out itself. Count on train only; held_out is what you are tested on."
)
NO_SIZE = "The shares do not add up to 1: V ones were added to the counts, so divide by N + V."
UNSEEN_ONLY = "The extra count went to unseen tokens only. Every token gets one."
BITS = "That is in bits. Use the natural logarithm."
SUMMED = "The losses were added up. Return their mean over the tokens of held_out."
OWN_LOSS = "That is the loss on train. Score the tokens of held_out."
SIGN = "The sign is off: the loss is minus the mean logarithm."
ENTROPY = "That is the mean over the vocabulary. Each token of held_out counts as often as it comes."
UNSEEN = "A token that train lacks must get a share above 0: count every token once more than it was seen."


@checker("training.unigram", 1)
def unigram(attempt: Attempt) -> None:
    """`fn(train, held_out, vocab_size)`: mean loss of add-one frequencies, in nats per token."""
    cases = [
        ([0, 0, 0, 1, 2, 1], [0, 1, 3, 0, 0], 5),
        ([0, 1], [1, 0], 2),
        ([2, 2, 2], [0], 3),
        ([5] * 30 + [1] * 3, [5, 5, 1, 4, 0, 5, 5], 7),
    ]
    errors = {(ValueError, "math domain error"): UNSEEN, ZeroDivisionError: UNSEEN, KeyError: UNSEEN}
    for train, held_out, size in cases:
        got = attempt(train=train, held_out=held_out, vocab_size=size, on_error=errors)
        expected = _line(train, held_out, size)
        if torch.is_tensor(got) and got.dim() == 0:
            got = got.item()
        if not isinstance(got, int | float):
            attempt.fail(show(expected), show(got), "Return one number.")
        if not math.isfinite(got):
            attempt.fail(show(expected), show(float(got)), UNSEEN)
        unseen_only = [math.log(max(train.count(t), 1) / len(train)) for t in held_out]
        wrong = [
            (_line(held_out, held_out, size), HELD_COUNTS),
            (_line(held_out, held_out, size, add=0), HELD_COUNTS),
            (-sum(unseen_only) / len(held_out), UNSEEN_ONLY),
            (_line(train, held_out, size, total=len(train)), NO_SIZE),
            (_line(train, held_out, size, total=len(train) + 1), NO_SIZE),
            (expected / math.log(2), BITS),
            (expected * len(held_out), SUMMED),
            (-expected, SIGN),
            (_line(train, train, size), OWN_LOSS),
            (_line(train, range(size), size), ENTROPY),
        ]
        hint = "p(t) = (count of t in train + 1) / (N + V); the loss is the mean of -log p over held_out."
        attempt.match(float(got), expected, close, wrong=wrong, hint=hint)


def _line(counted, scored, vocab_size, add=1, total=None) -> float:
    """Mean loss on `scored` of the add-one shares counted on `counted`."""
    total = total or len(counted) + add * vocab_size
    return -sum(math.log((counted.count(t) + add) / total) for t in scored) / len(scored)


OTHER_SAME = "The same seed and step gave two different batches: something outside (seed, step) was used."
GLOBAL = "Your draw moved torch's own random numbers. Make a torch.Generator of your own."
STEPS_SAME = "Two steps gave the same batch: the step has to enter, too."
SEEDS_SAME = "Two seeds gave the same batch: the seed has to enter, too."
COLLISION = (
    "seed {a}, step {b} draws the batch of seed {c}, step {d}: two runs would see each other's data. "
    "Mix both numbers so that different pairs stay different."
)
LOW_BITS = " A torch.Generator looks at the low 32 bits of its seed only."
NOT_RANDOM = "The starts are equally spaced or equal; draw each on its own, from 0 to n_starts - 1."
RANGE = "A start must be from 0 to n_starts - 1."
LAST = "Start n_starts - 1 never came in many draws: randint's upper end is not included."


@checker("training.starts", 2)
def starts(attempt: Attempt) -> None:
    """`fn(seed, step, batch_size, n_starts)`: int64 (batch_size,), a function of its arguments alone."""
    hint = "Turn (seed, step) into one number, give it to a generator of your own, and draw from that."

    def draw(seed, step, batch_size=8, n_starts=10**6):
        before = torch.get_rng_state()
        got = attempt(seed=seed, step=step, batch_size=batch_size, n_starts=n_starts)
        wanted = f"int64 tensor of shape ({batch_size},)"
        if not torch.is_tensor(got) or got.shape != (batch_size,) or got.dtype != torch.int64:
            attempt.fail(wanted, show(got), "Return one whole number for each row of the batch, as a tensor.")
        if got.min() < 0 or got.max() >= n_starts:
            attempt.fail(f"0 to {n_starts - 1}", show(got), RANGE)
        if not torch.equal(torch.get_rng_state(), before):
            attempt.fail("torch's random state as before", "another one", GLOBAL)
        return got

    first = draw(0, 1)
    draw(7, 3)
    torch.rand(1)
    again = draw(0, 1)
    if not torch.equal(first, again):
        attempt.fail(show(first), show(again), OTHER_SAME)
    if first.unique().numel() < 4 or first.diff().unique().numel() == 1:
        attempt.fail("8 starts drawn at random", show(first), NOT_RANDOM)
    if torch.equal(draw(0, 2), first):
        attempt.fail("another batch than for step 1", show(first), STEPS_SAME)
    if torch.equal(draw(1, 1), first):
        attempt.fail("another batch than for seed 0", show(first), SEEDS_SAME)
    pairs = [(a, b) for a in range(4) for b in range(1, 4)]
    pairs += [
        (0, 10),
        (1, 0),
        (0, 11),
        (1, 10),
        (0, 100),
        (1, 1000),
        (0, 1000),
        (1000, 0),
        (0, 2000),
        (1001, 0),
    ]
    pairs += [(0, 10**5), (10**5, 0), (2, 10**6), (1, 10**6), (1, 2**32), (3, 5), (5, 3)]
    seen = {}
    for pair in dict.fromkeys(pairs):
        key = tuple(draw(*pair).tolist())
        if key in seen:
            (c, d), (a, b) = seen[key], pair
            told = COLLISION.format(a=a, b=b, c=c, d=d) + (LOW_BITS if 2**32 in (b, d) else "")
            attempt.fail("another batch", show(list(key)), told)
        seen[key] = pair
    small = torch.cat([draw(0, step, 64, 5) for step in range(3)]).unique()
    if small.tolist() != [0, 1, 2, 3, 4]:
        attempt.fail("each of 0 to 4 among 192 draws", show(small), LAST if small[-1] == 3 else hint)


MEANS = "That is the mean of means: a rank with few targets would count as much as one with many."
NO_WORLD = "The average over the ranks divides by their number once more: multiply by it beforehand."
COUNTS = "The number of targets itself is no factor: the gradients are means already. Take shares."
INVERSE = "Upside down: a rank with more targets must weigh more."


@checker("training.factors", 3)
def factors(attempt: Attempt) -> None:
    """`fn(valid)`: what each rank multiplies its mean loss by, before gradients are averaged over ranks."""
    for valid in ([1, 3], [5, 5, 5], [4, 0, 2, 10], [7]):
        total, world = sum(valid), len(valid)
        empty = "A rank may have no target at all: do not divide by its own number."
        got = attempt(valid=valid, on_error={ZeroDivisionError: empty})
        expected = [n * world / total for n in valid]
        if torch.is_tensor(got) and got.dim() == 1:
            got = got.tolist()
        if not isinstance(got, list | tuple) or not all(isinstance(f, int | float) for f in got):
            attempt.fail(show(expected), show(got), "Return a list with one number for each rank.")
        wrong = [
            ([1.0] * world, MEANS),
            ([1 / world] * world, MEANS),
            ([n / total for n in valid], NO_WORLD),
            ([n / total / world for n in valid], NO_WORLD),
            ([float(n) for n in valid], COUNTS),
            ([float(n * world) for n in valid], COUNTS),
            ([total / (n * world) if n else 0.0 for n in valid], INVERSE),
            ([total / n if n else 0.0 for n in valid], INVERSE),
        ]
        hint = (
            "The average over ranks of factor × mean must be the mean over all targets. Solve for the factor."
        )
        if len(got) != world:
            hint = "Return one number for each rank."
        attempt.match([float(f) for f in got], expected, close, wrong=wrong, hint=hint)


ROUNDS = "There are 2 · (world − 1) rounds: as many to add up as to pass the sums on."
CHUNK = "Each entry is the number of a piece, from 0 to world − 1."
TWICE = "In the first half a piece was added that had been passed on before: it counts twice."
MISSING = "In the first half some numbers never met. What a rank sends must be what it has just added to."
STALE = "The second half spread a piece that was not complete. Start with the piece each rank has finished."
SAME_PIECE = "In a round all ranks send the same piece. Let each start with another one."


@checker("training.ring", 4)
def ring(attempt: Attempt) -> None:
    """`fn(world)`: rounds of pieces; entry r of a round is the piece that rank r sends to rank r + 1."""
    for world in (3, 2, 4, 7, 1):
        schedule = attempt(world=world)
        wanted = f"{2 * (world - 1)} rounds of {world} pieces"
        if not isinstance(schedule, list | tuple) or len(schedule) != 2 * (world - 1):
            came = f"{len(schedule)} rounds" if isinstance(schedule, list | tuple) else show(schedule)
            attempt.fail(wanted, came, ROUNDS)
        for each in schedule:
            if not isinstance(each, list | tuple) or len(each) != world:
                attempt.fail(wanted, f"a round {show(each)}", "A round names one piece for each rank.")
            if not all(type(piece) is int and 0 <= piece < world for piece in each):
                attempt.fail(wanted, f"a round {show(each)}", CHUNK)
        # held[r][c]: how often rank r's piece c contains the number of each rank
        held = [[[int(i == r) for i in range(world)] for _ in range(world)] for r in range(world)]
        for number, each in enumerate(schedule):
            sent = [(r, piece, held[r][piece][:]) for r, piece in enumerate(each)]
            for r, piece, content in sent:
                target = held[(r + 1) % world]
                if number < world - 1:
                    target[piece] = [a + b for a, b in zip(target[piece], content, strict=True)]
                else:
                    target[piece] = content
            if number == world - 2:
                half = [row[:] for row in held]
        whole = [1] * world
        if all(content == whole for rank in held for content in rank):
            continue
        complete = [content == whole for rank in half for content in rank]
        if len(set(schedule[0])) == 1:
            hint = SAME_PIECE
        elif any(max(content) > 1 for rank in half for content in rank):
            hint = TWICE
        elif sum(complete) < world:
            hint = MISSING
        else:
            hint = STALE
        bad = sum(content != whole for rank in held for content in rank)
        attempt.fail(
            "every piece on every rank the sum over all ranks", f"{bad} of {world**2} pieces are not", hint
        )
