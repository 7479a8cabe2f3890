"""The checkers of chapter 3: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import math

import pytest
import torch
from torch.nn import functional as F

from minillama import checks
from minillama.checks import swiglu

ALL = [swiglu.silu_by_hand, swiglu.gated_backward, swiglu.difference_of_squares, swiglu.width]
INPUTS = {"silu_by_hand": 7, "gated_backward": 4, "difference_of_squares": 3, "width": 6}


# -- right answers ---------------------------------------------------------------------------------------


def sigma(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def by_hand(x):
    return x * sigma(x)


def parts(a):
    valve = torch.sigmoid(a)
    return valve, a * valve, valve * (1 + a * (1 - valve))


def backward(a, b, up):
    _, value, slope = parts(a)
    return up * b * slope, up * value


def weights(scale, gate=((1, -1), (-1, 1)), up=((1, 1), (-1, -1)), down=(1, 1)):
    gate, up = (torch.tensor(rows, dtype=torch.float32) for rows in (gate, up))
    return gate, up, scale * torch.tensor([down], dtype=torch.float32)


RIGHT = [
    (swiglu.silu_by_hand, by_hand),
    (swiglu.silu_by_hand, lambda x: x / 2 * (1 + math.tanh(x / 2))),
    (swiglu.silu_by_hand, lambda x: x / (1 + math.exp(min(-x, 700)))),
    (swiglu.gated_backward, backward),
    (swiglu.gated_backward, lambda a, b, up: list(backward(a, b, up))),
    (
        swiglu.gated_backward,
        lambda a, b, up: (up * b * (torch.sigmoid(a) + F.silu(a) * torch.sigmoid(-a)), up * F.silu(a)),
    ),
    (swiglu.difference_of_squares, weights),
    (swiglu.difference_of_squares, lambda s: weights(s, ((1, 1), (-1, -1)), ((1, -1), (-1, 1)))),
    (swiglu.difference_of_squares, lambda s: weights(s, up=((1, 1), (1, 1)), down=(1, -1))),
    (swiglu.difference_of_squares, lambda s: [torch.nn.Parameter(w) for w in weights(s)]),
    (swiglu.width, lambda c, r, m: 2 * r * c // (3 * m) * m),
    (swiglu.width, lambda c, r, m: 2 * r * c // 3 // m * m),
    (swiglu.width, lambda c, r, m: max(w for w in range(0, r * c, m) if 3 * c * w <= 2 * c * r * c)),
]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED
    number, inputs = ALL.index(check) + 1, INPUTS[check.__name__]
    assert capsys.readouterr().out == f"Exercise {number}: right on all {inputs} inputs.\n"
    assert result.name == f"swiglu.{check.__name__}"


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("stub", [lambda *a: None, lambda *a: ...])
def test_a_stub_is_not_an_error(check, stub, is_not_attempted):
    is_not_attempted(check, ALL.index(check) + 1, stub)


# -- wrong answers ---------------------------------------------------------------------------------------


def wrong_backward(grad_a=None, grad_b=None):
    def answer(a, b, up):
        right = backward(a, b, up)
        valve, value, slope = parts(a)
        local = dict(a=a, b=b, up=up, valve=valve, value=value, slope=slope)
        return tuple(
            right[i] if code is None else eval(code, local) for i, code in enumerate((grad_a, grad_b))
        )

    return answer


WRONG = [
    (swiglu.silu_by_hand, sigma, "σ(x), the valve alone"),
    (swiglu.silu_by_hand, lambda x: max(0.0, x), "ReLU"),
    (swiglu.silu_by_hand, lambda x: by_hand(x) if x > -5 else 0.0, "not 0"),
    (swiglu.silu_by_hand, lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)), "That is GELU"),
    (swiglu.silu_by_hand, lambda x: x * sigma(-x), "turned round"),
    (swiglu.silu_by_hand, lambda x: sigma(x) * (1 + x * sigma(-x)), "the derivative of SiLU"),
    (swiglu.silu_by_hand, lambda x: x * math.tanh(x), "tanh"),
    (swiglu.silu_by_hand, lambda x: x * math.tanh(x / 2), "tanh"),
    (swiglu.silu_by_hand, lambda x: x / (1 + math.exp(-x)), "overflows"),
    (swiglu.silu_by_hand, lambda x: torch.tensor(by_hand(x)), "That is a tensor"),
    (swiglu.silu_by_hand, lambda x: [by_hand(x)], "Return one float"),
    (swiglu.silu_by_hand, lambda x: by_hand(x) + 1, "Divide x by 1 + exp"),
    (swiglu.gated_backward, lambda *a: backward(*a)[0], "Return the pair"),
    (swiglu.gated_backward, lambda *a: backward(*a)[::-1], "swap them"),
    (swiglu.gated_backward, wrong_backward("up * b * valve"), "σ(a) alone is not the slope"),
    (swiglu.gated_backward, wrong_backward("up * b * valve * (1 - valve)"), "σ(a) alone is not the slope"),
    (swiglu.gated_backward, wrong_backward("up * b * a * valve * (1 - valve)"), "first term"),
    (swiglu.gated_backward, wrong_backward("up * b * valve * (1 - a * (1 - valve))"), "The sign inside"),
    (swiglu.gated_backward, wrong_backward("up * b * valve * (1 + a * valve)"), "not σ(a)"),
    (swiglu.gated_backward, wrong_backward("up * b * value"), "SiLU(a) is the value"),
    (swiglu.gated_backward, wrong_backward("up * slope"), "b is missing"),
    (swiglu.gated_backward, wrong_backward("b * slope"), "grad_h is missing"),
    (swiglu.gated_backward, wrong_backward("slope"), "Only the slope"),
    (swiglu.gated_backward, wrong_backward("up + b"), "grad_a = grad_h"),
    (swiglu.gated_backward, wrong_backward(None, "value"), "grad_h is missing"),
    (swiglu.gated_backward, wrong_backward(None, "up * a"), "SiLU(a), not a"),
    (swiglu.gated_backward, wrong_backward(None, "up * valve"), "not σ(a) alone"),
    (swiglu.gated_backward, wrong_backward(None, "up * slope"), "not its slope"),
    (swiglu.gated_backward, wrong_backward(None, "up * value * b"), "does not contain it"),
    (swiglu.gated_backward, wrong_backward(None, "up + b"), "grad_b = grad_h"),
    (swiglu.difference_of_squares, lambda s: weights(s)[:2], "Return the triple"),
    (swiglu.difference_of_squares, lambda s: tuple(w.T for w in weights(s)), "(out, in)"),
    (
        swiglu.difference_of_squares,
        lambda s: weights(
            s,
            ((1, 0), (-1, 0), (0, 1), (0, -1)),
            ((1, 0), (-1, 0), (0, 1), (0, -1)),
            (1, 1, -1, -1),
        ),
        "Two units are enough",
    ),
    (swiglu.difference_of_squares, lambda s: weights(s, ((1, -1),), ((1, 1),), (1,)), "undone by a second"),
    (swiglu.difference_of_squares, lambda s: weights(s, ((1, 1),), ((1, -1),), (1,)), "undone by a second"),
    (swiglu.difference_of_squares, lambda s: weights(-s), "the wrong way round"),
    (swiglu.difference_of_squares, lambda s: weights(1), "The factor scale is missing"),
    (swiglu.difference_of_squares, lambda s: weights(s * s), "scale went in twice"),
    (
        swiglu.difference_of_squares,
        lambda s: weights(s, ((1, 0), (-1, 0)), ((0, 1), (0, -1))),
        "the example of the chapter",
    ),
    (swiglu.difference_of_squares, lambda s: weights(s, up=((1, -1), (-1, 1))), "(x₁ − x₂)²"),
    (
        swiglu.difference_of_squares,
        lambda s: weights(s, ((1, 1), (-1, -1)), ((1, 1), (-1, -1))),
        "(x₁ + x₂)²",
    ),
    (swiglu.difference_of_squares, lambda s: weights(2 * s), "Twice too large"),
    (swiglu.difference_of_squares, lambda s: weights(s / 2), "no ½ anywhere"),
    (swiglu.difference_of_squares, lambda s: weights(s, gate=((1, -1), (1, -1))), "The units cancel"),
    (
        swiglu.difference_of_squares,
        lambda s: weights(s, up=((1, 1), (1, 1))),
        "only the gate was negated",
    ),
    (swiglu.difference_of_squares, lambda s: weights(s, down=(1, 3)), "one sum is the gate's row"),
    (swiglu.width, lambda c, r, m: -(-2 * r * c // (3 * m)) * m, "Round down"),
    (swiglu.width, lambda c, r, m: round(2 * r * c / 3 / m) * m, "more than allowed"),
    (swiglu.width, lambda c, r, m: r * c // m * m, "of a classic network"),
    (swiglu.width, lambda c, r, m: 8 * c // 3 // m * m, "the ratio is another"),
    (swiglu.width, lambda c, r, m: (2 * r * c - 1) // (3 * m) * m, "One multiple too few"),
    (swiglu.width, lambda c, r, m: 2 * r * c // 3, "not a multiple"),
    (swiglu.width, lambda c, r, m: 2 * r * c / 3, "return an int"),
    (swiglu.width, lambda c, r, m: 7, "may be at most"),
]


@pytest.mark.parametrize(("check", "answer", "said"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, said):
    result = check(answer)
    assert not result and result.status == checks.WRONG
    assert said in " ".join(result.message.split()), result.message


def test_every_report_fits_its_width():
    for check, answer, _ in WRONG:
        assert all(len(line) <= 60 for line in check(answer).message.splitlines()), check(answer).message


def test_the_backward_exercise_refuses_autograd():
    def answer(a, b, up):
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        return torch.autograd.grad(F.silu(a) * b, (a, b), up)

    assert "without autograd" in swiglu.gated_backward(answer).message
