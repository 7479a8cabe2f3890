"""Checkers of chapter 10: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math

import pytest
import torch

from minillama import checks
from minillama.checks import optimizers
from minillama.optim import AdamW

INPUTS = {
    optimizers.warmup_stable_decay: 19,
    optimizers.adamw: 5,
    optimizers.recovery: 5,
    optimizers.longest_step: 6,
}
NUMBER = {check: number for number, check in enumerate(INPUTS, 1)}


def wsd(it, lr_max, lr_min, warmup, decay_start, end):
    if it < warmup:
        return lr_max * it / warmup
    if it < decay_start:
        return lr_max
    if it > end:
        return lr_min
    return lr_max + (lr_min - lr_max) * (it - decay_start) / max(1, end - decay_start)


def by_minimum(it, lr_max, lr_min, warmup, decay_start, end):
    if it < warmup:
        return lr_max * it / warmup
    share = min(1, max(0, it - decay_start) / max(1, end - decay_start))
    return lr_max * (1 - share) + lr_min * share


def adamw(weight, gradients, lr, beta1, beta2, eps, decay, fault=""):
    return optimizers._adamw(weight, gradients, lr, beta1, beta2, eps, decay, fault=fault)


def by_the_package(weight, gradients, lr, beta1, beta2, eps, decay):
    p = torch.tensor([weight], dtype=torch.float64, requires_grad=True)
    optimizer = AdamW([p], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay)
    seen = []
    for g in gradients:
        p.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        seen.append(p.item())
    return seen


def recovery(size, beta2):
    rest = (1 - beta2) * (size**2 - 1)
    return max(0, math.ceil(math.log(3 / rest) / math.log(beta2)))


def by_simulation(size, beta2):
    v, k = beta2 + (1 - beta2) * size**2, 0
    while math.sqrt(v) > 2:
        v, k = beta2 * v + 1 - beta2, k + 1
    return k


def longest_step(beta1, beta2):
    return (1 - beta1) / math.sqrt((1 - beta2) * (1 - beta1**2 / beta2))


def by_series(beta1, beta2):
    ratios = (((1 - beta1) * beta1**k) ** 2 / ((1 - beta2) * beta2**k) for k in range(1000))
    return math.sqrt(sum(ratios))


RIGHT = [
    (optimizers.warmup_stable_decay, wsd),
    (optimizers.warmup_stable_decay, by_minimum),
    (optimizers.warmup_stable_decay, lambda *a: torch.tensor(wsd(*a), dtype=torch.float64)),
    (optimizers.adamw, adamw),
    (optimizers.adamw, by_the_package),
    (optimizers.adamw, lambda *a: tuple(adamw(*a))),
    (optimizers.recovery, recovery),
    (optimizers.recovery, by_simulation),
    (optimizers.recovery, lambda *a: float(recovery(*a))),
    (optimizers.longest_step, longest_step),
    (optimizers.longest_step, by_series),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED, result.message
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: right on all {INPUTS[check]} inputs.\n"
    assert result.name == f"optimizers.{check.__name__}"


@pytest.mark.parametrize("check", INPUTS)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, capsys):
    assert check(stub).status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {NUMBER[check]}: not attempted yet.\n"


def wsd_with(fault):
    def answer(it, lr_max, lr_min, warmup, decay_start, end):
        share = (it - decay_start) / (end - decay_start) if end > decay_start else 0.0
        if it < warmup:
            rise = {"from floor": lr_min + (lr_max - lr_min) * it / warmup}
            return rise.get(fault, lr_max * (it + (fault == "one more")) / warmup)
        if fault == "climbs" and it <= decay_start and warmup:
            return lr_max * it / warmup
        if fault == "early" and it < end:
            return lr_max - (lr_max - lr_min) * (it - warmup) / (end - warmup)
        if it <= decay_start:
            return lr_max
        if fault == "no floor":
            return lr_max - (lr_max - lr_min) * share
        if fault == "to zero":
            return max(0.0, lr_max * (1 - share)) if it < end else 0.0
        if it >= end:
            return lr_min
        if fault == "cosine":
            return lr_min + (lr_max - lr_min) * (1 + math.cos(math.pi * share)) / 2
        return lr_max - (lr_max - lr_min) * share

    return answer


def always_divides(it, lr_max, lr_min, warmup, decay_start, end):
    rise = lr_max * it / warmup
    return rise if it < warmup else wsd(it, lr_max, lr_min, warmup, decay_start, end)


def divides_late(it, lr_max, lr_min, warmup, decay_start, end):
    share = (it - decay_start) / (end - decay_start)
    return wsd(it, lr_max, lr_min, warmup, decay_start, end) + 0 * share


def counts_from_zero(weight, gradients, lr, beta1, beta2, eps, decay):
    return [0.1 / (1 - beta1**t) for t, _ in enumerate(gradients)]


def steps(start, limit, beta2):
    return max(0, math.ceil(math.log(limit / start) / math.log(beta2)))


WRONG = [
    (optimizers.warmup_stable_decay, wsd_with("cosine"), "a half cosine here"),
    (optimizers.warmup_stable_decay, wsd_with("early"), "stays at lr_max until decay_start"),
    (optimizers.warmup_stable_decay, wsd_with("to zero"), "It should arrive at lr_min"),
    (optimizers.warmup_stable_decay, wsd_with("no floor"), "goes on falling"),
    (optimizers.warmup_stable_decay, wsd_with("from floor"), "The rise starts at lr_min"),
    (optimizers.warmup_stable_decay, wsd_with("one more"), "uses it + 1"),
    (optimizers.warmup_stable_decay, wsd_with("climbs"), "beyond lr_max"),
    (optimizers.warmup_stable_decay, always_divides, "Ask `it < warmup`"),
    (optimizers.warmup_stable_decay, divides_late, "Ask `it > end` first"),
    (optimizers.warmup_stable_decay, lambda it, *a: 1 / (it - 16), "A division by zero"),
    (optimizers.warmup_stable_decay, lambda *a: 0.3, "Rise: lr_max"),
    (optimizers.warmup_stable_decay, lambda *a: [wsd(*a)], "Return one number"),
    *(
        (optimizers.adamw, lambda *a, fault=fault: adamw(*a, fault=fault), hint[:40])
        for fault, hint in optimizers.FAULTS.items()
    ),
    (optimizers.adamw, counts_from_zero, "the first step is t = 1"),
    (optimizers.adamw, lambda *a: adamw(*a)[-1], "Return a list"),
    (optimizers.adamw, lambda *a: [a[0], *adamw(*a)], "before the first step"),
    (optimizers.adamw, lambda *a: adamw(*a)[:1], "One entry for each gradient"),
    (optimizers.adamw, lambda *a: [str(x) for x in adamw(*a)], "plain list of floats"),
    (optimizers.adamw, lambda *a: [2 * x for x in adamw(*a)], "Decay the weight; update m and v"),
    (optimizers.recovery, lambda s, b: steps((1 - b) * s, 3, b) if (1 - b) * s > 3 else 0, "holds squares"),
    (optimizers.recovery, lambda s, b: steps(s**2, 3, b), "with the weight 1 − β2 only"),
    (optimizers.recovery, lambda s, b: steps((1 - b) * s**2, 4, b), "their share is 1"),
    (optimizers.recovery, lambda s, b: steps((1 - b) * (s**2 - 1), 1, b), "needs √v ≤ 2"),
    (optimizers.recovery, lambda s, b: max(0, recovery(s, b) - 1), "One step early"),
    (optimizers.recovery, lambda s, b: recovery(s, b) + 1, "One step late"),
    (
        optimizers.recovery,
        lambda s, b: max(0.0, math.log(3 / ((1 - b) * (s**2 - 1))) / math.log(b)),
        "return a whole number",
    ),
    (
        optimizers.recovery,
        lambda s, b: math.ceil(math.log(3 / ((1 - b) * (s**2 - 1))) / math.log(b)),
        "the answer is 0",
    ),
    (optimizers.recovery, lambda s, b: 17, "When is √v ≤ 2"),
    (optimizers.recovery, lambda s, b: "17", "Return one number"),
    (optimizers.longest_step, lambda a, b: (1 - a) / math.sqrt(1 - b), "one gradient after many zeros"),
    (optimizers.longest_step, lambda a, b: max(1, (1 - a) / math.sqrt(1 - b)), "Sequences between"),
    (optimizers.longest_step, lambda a, b: longest_step(a, b) ** 2, "square of the bound"),
    (optimizers.longest_step, lambda a, b: (1 - a**2 / b) ** -0.5, "in front is missing"),
    (optimizers.longest_step, lambda a, b: 1 / longest_step(a, b), "Upside down"),
    (optimizers.longest_step, lambda a, b: (1 - a) / math.sqrt((1 - b) * (1 - a / b)), "compare squares"),
    (optimizers.longest_step, lambda a, b: 3.0, "Sum the geometric series"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG, result.message
    printed = " ".join(capsys.readouterr().out.split())
    assert " ".join(hint.split()) in printed, printed
    assert f"Exercise {NUMBER[check]}: wrong for" in printed
