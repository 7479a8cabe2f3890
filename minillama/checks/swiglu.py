"""Checkers of the exercises on SwiGLU."""

import math

import torch

from .machinery import Attempt, checker, close, show

OVERFLOW = (
    "math.exp of a large number overflows. Use exp(−x) for x ≥ 0 only; below, use exp(x) / (1 + exp(x))."
)
SIGMA = "That is σ(x), the valve alone. SiLU is x · σ(x)."
RELU = "That is max(0, x), ReLU."
CUT = "Nothing is left of it: SiLU is small here, but it is not 0."
GELU = "That is GELU: its valve is the normal distribution's Φ. SiLU's is σ(x) = 1 / (1 + exp(−x))."
MIRRORED = "The valve is turned round: that is x · σ(−x). σ(x) = 1 / (1 + exp(−x)) must open as x grows."
SLOPE = "That is the derivative of SiLU. Its value is asked for."
TANH = "The valve here is tanh, which goes from −1 to 1. σ goes from 0 to 1."

SWAPPED = "The two are right: swap them. The order is (grad_a, grad_b)."
SIGMA_ONLY = (
    "σ(a) alone is not the slope: a stands outside σ as well as inside. Product rule: σ + a · σ · (1 − σ)."
)
NO_ONE = "The first term of the product rule is missing: the slope is σ + a · σ · (1 − σ)."
PLUS = "The sign inside is wrong: σ′ = σ · (1 − σ), so the slope is σ + a · σ · (1 − σ)."
VALUE = "SiLU(a) is the value; on the way back to a goes its slope, σ(a) · (1 + a · (1 − σ(a)))."
NO_B = "b is missing in grad_a: it multiplied SiLU(a) on the way forward."
NO_UP = "grad_h is missing: what arrives from above multiplies both gradients."
NOT_SILU = "grad_b is what b was multiplied by on the way forward: SiLU(a), not a."
ONLY_VALVE = "grad_b is what b was multiplied by on the way forward: SiLU(a) = a · σ(a), not σ(a) alone."
SLOPE_B = "grad_b needs the value SiLU(a), not its slope: b was multiplied by the value."


def _silu(x: float) -> float:
    return x / (1 + math.exp(-x)) if x >= 0 else x * math.exp(x) / (1 + math.exp(x))


@checker("swiglu.silu_by_hand", 1)
def silu_by_hand(attempt: Attempt) -> None:
    """`fn(x)` is SiLU of a float: plain Python, any finite x."""
    # The first input tells every wrong formula below from every other.
    for x in (1.5, -1.2785, 0.0, -6.0, 30.0, 1000.0, -1000.0):
        got = attempt(x=x, on_error={OverflowError: OVERFLOW})
        if torch.is_tensor(got):
            attempt.fail(
                show(_silu(x)), show(got), "That is a tensor. Here, use Python only: return a float."
            )
        if not isinstance(got, int | float) or isinstance(got, bool):
            attempt.fail(show(_silu(x)), show(got), "Return one float.")
        valve = _silu(x) / x if x else 0.5
        wrong = [
            (valve, SIGMA),
            (max(x, 0.0), RELU if x > 0 else CUT),
            (x * 0.5 * math.erfc(-x / math.sqrt(2)), GELU),
            (x * (1 - valve), MIRRORED),
            (valve * (1 + x * (1 - valve)), SLOPE),
            (x * math.tanh(x), TANH),
            (x * math.tanh(x / 2), TANH),
        ]
        hint = "Divide x by 1 + exp(−x); for negative x, use the form whose exponential stays small."
        attempt.match(got, _silu(x), close, wrong=wrong, hint=hint)


@checker("swiglu.gated_backward", 2, autograd=False)
def gated_backward(attempt: Attempt) -> None:
    """`fn(a, b, grad_h)` returns (grad_a, grad_b) of h = SiLU(a) · b, derived by hand, elementwise."""
    seeded = torch.Generator().manual_seed(0)
    for shape in [(4,), (2, 3), (2, 3, 5), ()]:
        a, b, up = (torch.randn(shape, generator=seeded, dtype=torch.float64) for _ in range(3))
        a = 3 * a
        got = attempt(a=a, b=b, grad_h=up)
        if not isinstance(got, tuple | list) or len(got) != 2 or not all(map(torch.is_tensor, got)):
            attempt.fail("two tensors", show(got), "Return the pair (grad_a, grad_b).")
        valve = torch.sigmoid(a)
        value, slope = a * valve, valve * (1 + a * (1 - valve))
        grad_a, grad_b = up * b * slope, up * value
        if close(got[0], grad_b) and close(got[1], grad_a) and not close(grad_a, grad_b):
            attempt.fail("(grad_a, grad_b)", "(grad_b, grad_a)", SWAPPED)
        wrong_a = [
            (up * b * valve, SIGMA_ONLY),
            (up * b * valve * (1 - valve), SIGMA_ONLY),
            (up * b * a * valve * (1 - valve), NO_ONE),
            (up * b * valve * (1 - a * (1 - valve)), PLUS),
            (up * b * valve * (1 + a * valve), "In the second term 1 − σ(a) stands, not σ(a)."),
            (up * b * value, VALUE),
            (up * slope, NO_B),
            (b * slope, NO_UP),
            (slope, "Only the slope of SiLU is here; by the chain rule b and grad_h multiply it."),
        ]
        hint = "grad_a = grad_h · b · SiLU′(a), with SiLU′ = σ(a) · (1 + a · (1 − σ(a)))."
        attempt.match(got[0], grad_a, close, wrong=wrong_a, hint=hint, what="grad_a")
        wrong_b = [
            (value, NO_UP),
            (up * a, NOT_SILU),
            (up * valve, ONLY_VALVE),
            (up * slope, SLOPE_B),
            (up * value * b, "b is a factor of h; the derivative by b does not contain it."),
        ]
        attempt.match(got[1], grad_b, close, wrong=wrong_b, hint="grad_b = grad_h · SiLU(a).", what="grad_b")


@checker("swiglu.difference_of_squares", 3)
def difference_of_squares(attempt: Attempt) -> None:
    """`fn(scale)` returns (w_gate, w_up, w_down) of two units that compute scale · (x₁² − x₂²)."""
    seeded = torch.Generator().manual_seed(0)
    x = torch.cat(
        [torch.tensor([[3.0, 2.0], [1.0, 0.0], [0.0, 1.0]]), 2 * torch.randn(5, 2, generator=seeded)]
    )
    x = x.double()
    for scale in (1.0, -0.5, 3.0):
        got = attempt(scale=scale)
        if not isinstance(got, tuple | list) or len(got) != 3 or not all(map(torch.is_tensor, got)):
            attempt.fail("three tensors", show(got), "Return the triple (w_gate, w_up, w_down).")
        shapes = [tuple(w.shape) for w in got]
        units = shapes[0][0] if shapes[0] else 0
        fits = shapes == [(units, 2), (units, 2), (1, units)]
        if not fits or units > 2:
            hint = (
                "nn.Linear holds its weight as (out, in): two units read two inputs, one output reads both."
            )
            if fits:
                hint = "Two units are enough. Which product of two sums is x₁² − x₂²?"
            attempt.fail("shapes (2, 2), (2, 2), (1, 2)", ", ".join(map(str, shapes)), hint)
        gate, up, down = (w.detach().double() for w in got)
        a, b = x @ gate.T, x @ up.T  # (8, units)
        out = (torch.nn.functional.silu(a) * b @ down.T)[:, 0]
        one, two = x[:, 0], x[:, 1]
        wanted = scale * (one**2 - two**2)
        half = torch.nn.functional.silu(one - two) * (one + two)
        other_half = torch.nn.functional.silu(one + two) * (one - two)
        one_only = "One unit gives SiLU(a) · b. The valve's share is undone by a second one, with −a and −b."
        wrong = [
            (scale * half, one_only),
            (scale * other_half, one_only),
            (-wanted, "The sign is the wrong way round: with these weights x₂² − x₁² comes out."),
            (one**2 - two**2, "The factor scale is missing. One place is enough: w_down."),
            (wanted * scale, "scale went in twice: put it into one of the three matrices only."),
            (scale * (one**2 + two**2), "This is x₁² + x₂²."),
            (
                scale * one * two,
                "This is x₁ · x₂, the example of the chapter. Which two sums must be multiplied?",
            ),
            (scale * (one - two) ** 2, "This is (x₁ − x₂)²: gate and content read the same sum."),
            (scale * (one + two) ** 2, "This is (x₁ + x₂)²: gate and content read the same sum."),
            (2 * wanted, "Twice too large: each of the two units already carries its part."),
            (wanted / 2, "Half of it: SiLU(a) · b + SiLU(−a) · (−b) is a · b, with no ½ anywhere."),
            (0 * wanted, "The units cancel: in the second one the content was negated and the gate was not."),
            (
                scale * (half + torch.nn.functional.silu(two - one) * (one + two)),
                "In the second unit only the gate was negated. Its content must be, too.",
            ),
        ]
        hint = "x₁² − x₂² = (x₁ − x₂)(x₁ + x₂): one sum is the gate's row, the other the content's."
        attempt.match(out, wanted, close, wrong=wrong, hint=hint, what="output")


@checker("swiglu.width", 4)
def width(attempt: Attempt) -> None:
    """`fn(d_model, ratio, multiple_of)` is the widest gated network for a classic one's parameters."""
    cases = [(512, 4, 128), (4096, 4, 256), (576, 4, 64), (384, 6, 100), (577, 3, 2), (100, 5, 1)]
    for d_model, ratio, multiple in cases:
        got = attempt(d_model=d_model, ratio=ratio, multiple_of=multiple)
        most = 2 * ratio * d_model // 3
        wanted = most // multiple * multiple
        if not isinstance(got, int) or isinstance(got, bool):
            attempt.fail(str(wanted), show(got), "A width is a whole number: return an int.")
        wrong = [
            (-(-2 * ratio * d_model // (3 * multiple)) * multiple, "That is more than allowed. Round down."),
            (
                ratio * d_model // multiple * multiple,
                "That is the width of a classic network. A gated one has three matrices, not two.",
            ),
            (8 * d_model // 3 // multiple * multiple, "Right for the ratio 4. Here the ratio is another."),
            (wanted - multiple, "One multiple too few: spending exactly as much is allowed."),
            (most, "Within the budget, and not a multiple of multiple_of."),
        ]
        hint = "3 · d_model · width may be at most 2 · d_model · (ratio · d_model)."
        attempt.match(got, wanted, lambda a, b: a == b, wrong=wrong, hint=hint)
