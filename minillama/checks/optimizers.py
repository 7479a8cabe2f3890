"""Checkers of the exercises on optimizers."""

import math

import torch

from .machinery import Attempt, checker, close, show

COSINE = "The fall is a half cosine here. This schedule falls in a straight line."
TO_ZERO = "The line falls to 0. It should arrive at lr_min."
BELOW_FLOOR = "Behind `end` the line goes on falling. From there on the rate is lr_min."
FROM_WARMUP = "The fall began at the end of the warmup. The rate stays at lr_max until decay_start."
FROM_FLOOR = "The rise starts at lr_min. Let it start at 0: lr_max · it / warmup."
ONE_MORE = "The rise uses it + 1. Training asks for step + 1 already; use it."
NO_WARMUP = "Division by zero without a warmup: for warmup = 0 no iteration is below it. Ask `it < warmup`."
NO_DECAY_TIME = (
    "Division by zero for decay_start = end: such a run never falls gradually. Ask `it > end` first."
)
DIVIDED_BY_ZERO = "A division by zero: what are the lengths of the rise and of the fall on this input?"
BEYOND_PEAK = "The rise goes on beyond lr_max. From `warmup` to decay_start the rate is lr_max."

COUNT_FROM_ONE = (
    "A division by zero: the first step is t = 1. With t = 0 the correction 1 − β⁰ is 0. Raise t before use."
)
NO_CORRECTION = "The bias corrections are missing: divide m by 1 − β1ᵗ and v by 1 − β2ᵗ, with t = 1, 2, …"
ONLY_FIRST = "Only m was corrected. v starts at 0 as well: divide it by 1 − β2ᵗ."
ONLY_SECOND = "Only v was corrected. m starts at 0 as well: divide it by 1 − β1ᵗ."
ALWAYS_FIRST = "The corrections use t = 1 at every step. t counts the steps: 1, 2, 3, …"
IN_GRADIENT = (
    "decay · weight was added to the gradient: that is L2 regularization. Decoupled decay never enters "
    "m and v."
)
AFTER = "The decay came after the update. Here, as in PyTorch, it comes first; on paper both orders occur."
NO_RATE = "The weight was multiplied by 1 − decay. The share taken off is lr · decay."
NO_DECAY = "The decay is missing: first, weight = (1 − lr · decay) · weight."
EPS_INSIDE = "ε was added under the root. Here it is added to the root of the corrected v."
EPS_BEFORE = "ε was added to the root of v before the correction. Correct v, take the root, then add ε."
NO_EPS = "ε is missing: add it to the root of the corrected v."
NO_ROOT = "The root is missing: divide by √(corrected v) + ε."
NO_MOMENTUM = "The step uses the gradient itself. Use m, the running mean of gradients."
SWAPPED = "The betas are exchanged: β1 belongs to m, β2 to v."
ASCENT = "The sign: the step goes against the gradient."
WEIGHTS_OLD_NEW = "The old mean is weighted with β and the new value with 1 − β; yours has them exchanged."
ONE_NUMBER = "Return a list: the weight after each step."
WITH_START = "The list begins with the weight before the first step. One entry for each gradient, please."

NOT_SQUARED = "v holds squares: the large gradient enters it with size²."
NO_SHARE = "The large gradient enters v with the weight 1 − β2 only."
RESTING_ONE = (
    "The ordinary gradients are part of v: their share is 1. v = 1 + …, and a half step needs v ≤ 4, "
    "so the rest must be down to 3."
)
HALF_V = "A half step needs √v ≤ 2, that is v ≤ 4, not v ≤ 2."
ROUNDED_DOWN = "One step early: at that k the steps are still shorter than half. Round up."
ONE_LATE = "One step late. k = 0 is the step of the large gradient itself."
AS_FLOAT = "The right place; return a whole number of steps, rounded up."
NOT_NEGATIVE = "If half is never undercut, the answer is 0."

LONE = (
    "That is the step for one gradient after many zeros. It is not the largest: let the gradients before it "
    "be small instead of 0, growing towards now."
)
LONE_OR_ONE = "The larger of a lone gradient and a constant one. Sequences between the two do better."
NO_SQUARE = "Cauchy and Schwarz compare squares: the ratio in the series is β1²/β2."
NOT_ROOTED = "That is the square of the bound. Take its root."
BARE = (
    "The factor (1 − β1)/√(1 − β2) in front is missing: the newest gradient enters m with the weight 1 − β1, "
    "its square v with 1 − β2."
)
INVERTED = "Upside down: m stands above the line, √v below it."


def _wsd(it, lr_max, lr_min, warmup, decay_start, end):
    if it < warmup:
        return lr_max * it / warmup
    if it <= decay_start:
        return lr_max
    if it >= end:
        return lr_min
    return lr_max - (lr_max - lr_min) * (it - decay_start) / (end - decay_start)


@checker("optimizers.warmup_stable_decay", 1)
def warmup_stable_decay(attempt: Attempt) -> None:
    """`fn(it, lr_max, lr_min, warmup, decay_start, end)`: a rise, a plateau, a straight fall, a floor."""
    cases = [
        (16, 1.0, 0.2, 4, 12, 20),
        (15, 2.0, 0.5, 4, 12, 20),
        *((it, 1.0, 0.2, 4, 12, 20) for it in (0, 1, 3, 4, 8, 12, 20, 21, 500)),
        *((it, 0.5, 0.1, 0, 3, 6) for it in (0, 1, 5)),
        *((it, 1.0, 0.1, 2, 7, 7) for it in (1, 5, 9)),
        (3, 1.0, 0.0, 5, 5, 10),
        (7, 1.0, 0.0, 5, 5, 10),
    ]
    for it, lr_max, lr_min, warmup, decay_start, end in cases:
        zero = DIVIDED_BY_ZERO
        if warmup == 0:
            zero = NO_WARMUP
        elif decay_start == end:
            zero = NO_DECAY_TIME
        got = attempt(
            it=it,
            lr_max=lr_max,
            lr_min=lr_min,
            warmup=warmup,
            decay_start=decay_start,
            end=end,
            on_error={ZeroDivisionError: zero},
        )
        expected = _wsd(it, lr_max, lr_min, warmup, decay_start, end)
        got = _number(attempt, got, expected)
        fall = (it - decay_start) / max(1, end - decay_start)
        rise = it / max(1, warmup)
        wrong = []
        if decay_start < it < end:
            late = (it - warmup) / (end - warmup)
            wrong = [
                (lr_min + (lr_max - lr_min) * (1 + math.cos(math.pi * fall)) / 2, COSINE),
                (lr_max - (lr_max - lr_min) * late, FROM_WARMUP),
                (lr_max * (1 - fall), TO_ZERO),
            ]
        elif it >= end:
            wrong = [(lr_max - (lr_max - lr_min) * fall, BELOW_FLOOR), (lr_max * (1 - fall), BELOW_FLOOR)]
            wrong.append((0.0, TO_ZERO))
        elif it < warmup:
            wrong = [
                (lr_min + (lr_max - lr_min) * rise, FROM_FLOOR),
                (lr_max * (it + 1) / warmup, ONE_MORE),
            ]
        else:
            late = (it - warmup) / max(1, end - warmup)
            wrong = [(lr_max * rise, BEYOND_PEAK), (lr_max - (lr_max - lr_min) * late, FROM_WARMUP)]
        hint = "Rise: lr_max · it / warmup. Then lr_max. Then a line from lr_max at decay_start to lr_min."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


def _number(attempt, got, expected) -> float:
    if torch.is_tensor(got) and got.numel() == 1:
        got = got.item()
    if not isinstance(got, int | float) or isinstance(got, bool):
        attempt.fail(show(expected), show(got), "Return one number.")
    return float(got)


def _adamw(weight, gradients, lr, beta1, beta2, eps, decay, *, fault=""):
    """AdamW on one number, right or with one fault."""
    if fault == "swapped":
        beta1, beta2 = beta2, beta1
    m = v = 0.0
    seen = []
    for t, g in enumerate(gradients, 1):
        if fault == "l2":
            g = g + decay * weight
        shrink = {"l2": 1.0, "none": 1.0, "after": 1.0, "rate": 1 - decay}.get(fault, 1 - lr * decay)
        if fault == "exchanged":
            m, v = (1 - beta1) * m + beta1 * g, (1 - beta2) * v + beta2 * g * g
        else:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        at = 1 if fault == "first" else t
        by1 = 1.0 if fault in ("uncorrected", "only v") else 1 - beta1**at
        by2 = 1.0 if fault in ("uncorrected", "only m") else 1 - beta2**at
        top = g if fault == "no m" else m / by1
        root = math.sqrt(v / by2) + eps
        if fault == "inside":
            root = math.sqrt(v / by2 + eps)
        elif fault == "before":
            root = (math.sqrt(v) + eps) / math.sqrt(by2)
        elif fault == "no eps":
            root = math.sqrt(v / by2)
        elif fault == "no root":
            root = v / by2 + eps
        step = lr * top / root * (-1 if fault == "ascent" else 1)
        weight = shrink * weight - step
        if fault == "after":
            weight = weight * (1 - lr * decay)
        seen.append(weight)
    return seen


FAULTS = {
    "l2": IN_GRADIENT,
    "after": AFTER,
    "rate": NO_RATE,
    "none": NO_DECAY,
    "uncorrected": NO_CORRECTION,
    "only m": ONLY_FIRST,
    "only v": ONLY_SECOND,
    "first": ALWAYS_FIRST,
    "inside": EPS_INSIDE,
    "before": EPS_BEFORE,
    "no eps": NO_EPS,
    "no root": NO_ROOT,
    "no m": NO_MOMENTUM,
    "swapped": SWAPPED,
    "ascent": ASCENT,
    "exchanged": WEIGHTS_OLD_NEW,
}


@checker("optimizers.adamw", 2)
def adamw(attempt: Attempt) -> None:
    """`fn(weight, gradients, lr, beta1, beta2, eps, decay)`: the weight after each step, plain Python."""
    cases = [
        (2.0, [0.5, -1.0, 3.0], 0.1, 0.8, 0.95, 0.3, 0.5),  # tells every fault below from every other
        (1.0, [0.5, -1.0], 0.1, 0.9, 0.999, 1e-8, 0.1),
        (-0.3, [1e-6], 0.01, 0.9, 0.999, 1e-8, 0.0),
        (1.0, [0.0, 0.0, 0.0], 0.1, 0.9, 0.95, 1e-8, 0.5),
        (0.5, [1.0, -2.0, 0.5, 4.0, -1.0, 0.1], 0.05, 0.9, 0.95, 1e-5, 0.1),
    ]
    for weight, gradients, lr, beta1, beta2, eps, decay in cases:
        got = attempt(
            weight=weight,
            gradients=gradients,
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            decay=decay,
            on_error={ZeroDivisionError: COUNT_FROM_ONE},
        )
        settings = (weight, gradients, lr, beta1, beta2, eps, decay)
        expected = _adamw(*settings)
        if isinstance(got, int | float):
            attempt.fail(show(expected), show(got), ONE_NUMBER)
        if torch.is_tensor(got):
            got = got.tolist()
        if not isinstance(got, list | tuple) or not all(isinstance(each, int | float) for each in got):
            attempt.fail(show(expected), show(got), "Return a plain list of floats: each step's weight.")
        if len(got) == len(gradients) + 1 and close(list(got[1:]), expected):
            attempt.fail(show(expected), show(got), WITH_START)
        if len(got) != len(gradients):
            attempt.fail(show(expected), show(got), "One entry for each gradient: the weight after it.")
        wrong = []
        for fault, its_hint in FAULTS.items():
            try:
                wrong.append((_adamw(*settings, fault=fault), its_hint))
            except (ZeroDivisionError, ValueError):
                continue  # this fault does not survive this input
        hint = "Decay the weight; update m and v; correct both; step against m over √v + ε."
        attempt.match(list(got), expected, _equal_lists, wrong=wrong, hint=hint)


def _equal_lists(a, b) -> bool:
    return close([float(x) for x in a], [float(x) for x in b], 1e-7)


def _recovery(size: float, beta2: float) -> int:
    k, rest = 0, (1 - beta2) * (size * size - 1)
    while 1 + rest > 4 * (1 + 1e-12):
        k, rest = k + 1, rest * beta2
    return k


def _steps(start: float, limit: float, beta2: float) -> int:
    """Smallest k >= 0 with start · β2^k <= limit."""
    return max(0, math.ceil(math.log(limit / start) / math.log(beta2))) if start > limit else 0


@checker("optimizers.recovery", 3)
def recovery(attempt: Attempt) -> None:
    """`fn(size, beta2)`: steps after one gradient of `size` among ones until steps are half as long again."""
    for size, beta2 in [(100.0, 0.999), (1000.0, 0.999), (100.0, 0.95), (10.0, 0.999), (30.0, 0.99)]:
        got = attempt(size=size, beta2=beta2)
        expected = _recovery(size, beta2)
        got = _number(attempt, got, expected)
        share, square = 1 - beta2, size * size - 1
        if expected == 0 and got < 0:
            attempt.fail(show(expected), show(got), NOT_NEGATIVE)
        exact = math.log(3 / (share * square)) / math.log(beta2)
        wrong = [
            (_steps(share * size, 3, beta2), NOT_SQUARED),
            (_steps(share * (size - 1), 3, beta2), NOT_SQUARED),
            (_steps(square, 3, beta2), NO_SHARE),
            (_steps(size * size, 3, beta2), NO_SHARE),
            (_steps(share * size * size, 4, beta2), RESTING_ONE),
            (_steps(share * square, 1, beta2), HALF_V),
            (_steps(share * size * size, 2, beta2), HALF_V),
            (expected - 1, ROUNDED_DOWN),
            (expected + 1, ONE_LATE),
        ]
        if expected > 0 and got != expected and abs(got - exact) < 1e-3:
            attempt.fail(show(expected), show(got), AS_FLOAT)
        hint = "v = 1 + (1 − β2)(size² − 1) β2ᵏ, k steps after the large one. When is √v ≤ 2?"
        attempt.match(got, float(expected), lambda a, b: a == b, wrong=wrong, hint=hint)


@checker("optimizers.longest_step", 4)
def longest_step(attempt: Attempt) -> None:
    """`fn(beta1, beta2)`: the least upper bound of |m| / √v, all gradients allowed, β1² < β2."""
    for beta1, beta2 in [(0.9, 0.95), (0.9, 0.999), (0.95, 0.99), (0.0, 0.999), (0.5, 0.5), (0.9, 0.9)]:
        got = attempt(beta1=beta1, beta2=beta2)
        lone = (1 - beta1) / math.sqrt(1 - beta2)
        expected = lone / math.sqrt(1 - beta1**2 / beta2)
        got = _number(attempt, got, expected)
        wrong = [
            (lone, LONE),
            (max(1.0, lone), LONE_OR_ONE),
            (expected**2, NOT_ROOTED),
            (1 / math.sqrt(1 - beta1**2 / beta2), BARE),
            (1 / expected, INVERTED),
        ]
        if beta1 < beta2:
            wrong.append((lone / math.sqrt(1 - beta1 / beta2), NO_SQUARE))
        hint = (
            "m = Σ aₖ gₖ and v = Σ bₖ gₖ². Cauchy and Schwarz: (Σ aₖ gₖ)² ≤ Σ aₖ²/bₖ · Σ bₖ gₖ². "
            "Sum the geometric series."
        )
        attempt.match(got, expected, close, wrong=wrong, hint=hint)
