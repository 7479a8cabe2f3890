"""Checkers of the exercises on RMSNorm."""

import math

import torch

from .machinery import Attempt, checker, close, show

LAYER_NORM = "The mean was subtracted first: that is LayerNorm. RMSNorm divides and leaves the mean alone."
EPS_OUTSIDE = "ε was added after the square root. It belongs under the root, next to the mean of squares."
NO_EPS = "ε is missing: add it to the mean of squares, under the root."
NO_ROOT = "The square root is missing: divide by √(mean of squares + ε)."
SUM = "The squares were added up but not averaged: divide their sum by the number of values."
LENGTH = "This divides by the length of the vector (L2 norm). Divide the sum by the number of values first."
ONE_LESS = "The sum of squares was divided by n − 1. Nothing is estimated here: divide by n."
ABSOLUTE = "This divides by the mean of |x|. RMS is the root of the mean of squares."
MULTIPLIED = "The values were multiplied by the RMS; divide by it."
TWICE = "The result was rounded twice, before the gain and after it. Apply the gain in float32, cast once."
NARROW = "Only the squares were taken in float32. Divide and apply the gain in float32 too, then cast."
WHOLE = "The mean was taken over the whole tensor. Each vector has its own: mean(-1, keepdim=True)."
KEEPDIM = "mean(-1) drops the last axis, so the shapes do not fit. Keep it: mean(-1, keepdim=True)."
NO_GAIN = "The gain is missing: multiply by weight at the end."


def _by_hand(values, eps, *, mean=0.0, count=None):
    square = sum((v - mean) ** 2 for v in values) / (count or len(values))
    return [(v - mean) / math.sqrt(square + eps) for v in values]


@checker("rmsnorm.by_hand", 1)
def by_hand(attempt: Attempt) -> None:
    """`fn(values, eps)` normalizes a list of floats: plain Python, no tensors, no gain."""
    # The first input tells every wrong formula below from every other.
    cases = [
        ([1.0, -2.0, 3.0, 6.0], 0.5),
        ([2.0, -2.0, 2.0, -2.0], 1e-6),
        ([0.0, 0.0, 0.0], 1e-6),
        ([-5.0], 1e-6),
        ([1e-4, -3e-4, 2e-4, 0.0, 1e-4], 1e-6),
        ([1e4, 3e4], 1e-5),
    ]
    zero = "An input of zeros needs ε under the root; without it 0 is divided by 0."
    for values, eps in cases:
        got = attempt(values=values, eps=eps, on_error={} if any(values) else {ZeroDivisionError: zero})
        total = sum(v * v for v in values)
        square = total / len(values)
        root = math.sqrt(square + eps)
        expected = _by_hand(values, eps)
        if not isinstance(got, list) or not all(isinstance(v, int | float) for v in got):
            plain = "Return a plain list with one float for each value."
            if torch.is_tensor(got):
                plain = "That is a tensor. Here, use Python only: return a plain list of floats."
            attempt.fail(show(expected), show(got), plain)
        bare, length = math.sqrt(square) or 1.0, math.sqrt(total) or 1.0
        absolute = sum(map(abs, values)) / len(values) or 1.0
        wrong = [
            (_by_hand(values, eps, mean=sum(values) / len(values)), LAYER_NORM),
            ([v / (math.sqrt(square) + eps) for v in values], EPS_OUTSIDE),
            ([v / bare for v in values], NO_EPS),
            (_by_hand(values, eps, count=1), SUM),
            ([v / (square + eps) for v in values], NO_ROOT),
            ([v * root for v in values], MULTIPLIED),
            ([v / length for v in values], LENGTH),
            ([v / (length + eps) for v in values], LENGTH),
            (_by_hand(values, eps, count=len(values) - 1), ONE_LESS),
            ([v / absolute for v in values], ABSOLUTE),
            ([v / (absolute + eps) for v in values], ABSOLUTE),
        ]
        hint = "Square each value, take the mean, add ε, take the root; then divide each value by that root."
        if len(got) != len(values):
            hint = "The result must hold one number for each value."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)


def _normalized(x, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _lost_axis(x) -> dict:
    """Hints for the error that x meets when its mean has lost the last axis."""
    if x.dim() == 1:
        return {}
    return {(RuntimeError, f"size of tensor {which} ({x.shape[-2]})"): KEEPDIM for which in "ab"}


def _rounding_error(got, exact):
    """Largest distance from the exact result, in units of the last place of got's dtype."""
    limits = torch.finfo(got.dtype)
    exponent = exact.abs().clamp(min=limits.smallest_normal).log2().floor()
    off = (got.double() - exact).abs() / (limits.eps * 2**exponent)
    return off.nan_to_num(nan=math.inf).max().item()


@checker("rmsnorm.half_precision", 2)
def half_precision(attempt: Attempt) -> None:
    """`fn(x, weight, eps)` is right, and of x's dtype, for half-precision x of any magnitude."""
    half, brain, single = torch.float16, torch.bfloat16, torch.float32
    seeded = torch.Generator().manual_seed(0)

    def noise(*shape, scale=1.0):
        return scale * torch.randn(*shape, generator=seeded)

    gain = 0.5 + 1.5 * torch.rand(64, generator=seeded)
    # In float32 and with a large ε first: there a wrong formula is seen apart from rounding.
    cases = [
        (noise(2, 8), torch.linspace(0.5, 2, 8), 0.5),
        (torch.full((4,), 300.0, dtype=half), torch.ones(4, dtype=half), 1e-6),
        (torch.tensor([1e-4, -2e-4, 1e-4, 3e-4], dtype=half), torch.ones(4, dtype=half), 1e-8),
        (noise(2, 8).to(brain), torch.linspace(0.5, 2, 8), 1e-6),
        (noise(32, 64, scale=20).to(half), gain.to(half), 1e-6),
        (noise(4, 8, 64, scale=1e3).to(brain), gain.to(brain), 1e-6),
        (noise(3, 64, scale=1e-3).to(half), gain, 1e-6),
        (noise(3, 64), gain, 1e-6),
    ]
    for x, weight, eps in cases:
        got = attempt(x=x, weight=weight, eps=eps, on_error=_lost_axis(x))
        exact = _normalized(x.double(), eps) * weight.double()
        expected = exact.to(x.dtype)
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor.")
        if got.shape != x.shape:
            attempt.fail(
                f"shape {tuple(x.shape)}", f"shape {tuple(got.shape)}", "The shape of x must be kept."
            )
        if got.dtype != x.dtype:
            wanted, came = (str(t).removeprefix("torch.") for t in (x.dtype, got.dtype))
            cause = "A float32 factor turned the result into float32. " if came == "float32" else ""
            attempt.fail(f"dtype {wanted}", f"dtype {came}", f"{cause}Cast back to x.dtype as the last step.")
        wide = x.float()
        squares = x.square().mean(-1, keepdim=True)
        root = (wide.square().mean(-1, keepdim=True) + eps).sqrt()
        narrow = [x / root.to(x.dtype), x * root.reciprocal().to(x.dtype)]
        wrong = [
            # First: squares in half have failed before these two could be taken for one another.
            *((normal * weight.to(x.dtype), NARROW) for normal in narrow),
            *(((normal * weight.float()).to(x.dtype), NARROW) for normal in narrow),
            (
                x / (squares + eps).sqrt() * weight.to(x.dtype),
                "The squares were taken in half precision: 300² overflows float16, 0.0001² underflows to 0. "
                "Convert x to float32 first.",
            ),
            ((_normalized(wide, eps).to(x.dtype) * weight).to(x.dtype), TWICE),
            (_normalized(wide, eps).to(x.dtype) * weight.to(x.dtype), TWICE),
            (_normalized(wide, eps).to(x.dtype), NO_GAIN),
            ((_normalized(wide - wide.mean(-1, keepdim=True), eps) * weight.float()).to(x.dtype), LAYER_NORM),
            ((_normalized(wide, 0.0) * weight.float()).to(x.dtype), NO_EPS),
            ((wide / (wide.square().mean() + eps).sqrt() * weight.float()).to(x.dtype), WHOLE),
        ]
        allowed = 0.51 if x.dtype != single else 8.0  # one rounding, and the error of float32 underneath
        if _rounding_error(got, exact) > allowed:
            hint = "Compute in float32 from the first square to the gain; cast to x.dtype once, at the end."
            same = _mostly_equal if close(got, expected, 1e-2) else _roughly_equal
            attempt.explain(got, expected, same, wrong=wrong, hint=hint)


def _mostly_equal(a, b) -> bool:
    """For answers a rounding away from the right one: the same bits, but for a stray entry."""
    return a.shape == b.shape and (a == b).double().mean().item() > 0.95


def _roughly_equal(a, b) -> bool:
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), 1e-2, 1e-2, equal_nan=True)


@checker("rmsnorm.backward", 3, autograd=False)
def backward(attempt: Attempt) -> None:
    """`fn(x, weight, eps, grad_out)` returns (grad_x, grad_weight), derived by hand, for x (..., C)."""
    seeded = torch.Generator().manual_seed(0)
    for shape, eps in [((3, 4), 0.1), ((5,), 1e-6), ((2, 3, 6), 1e-6), ((2, 1, 2, 3), 1e-5), ((4, 1), 0.5)]:
        x, grad_out = (torch.randn(shape, generator=seeded, dtype=torch.float64) for _ in range(2))
        weight = 0.5 + torch.rand(shape[-1], generator=seeded, dtype=torch.float64)
        got = attempt(x=x, weight=weight, eps=eps, grad_out=grad_out, on_error=_lost_axis(x))
        if not isinstance(got, tuple | list) or len(got) != 2 or not all(map(torch.is_tensor, got)):
            attempt.fail("two tensors", show(got), "Return the pair (grad_x, grad_weight).")

        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        with torch.enable_grad():
            out = _normalized(leaves[0], eps) * leaves[1]
            expected_x, expected_weight = torch.autograd.grad(out, leaves, grad_out)

        size, over = shape[-1], tuple(range(len(shape) - 1))
        root = (x.square().mean(-1, keepdim=True) + eps).sqrt()
        normal = x / root
        g = grad_out * weight  # the gradient at the normalized values
        pull = (g * normal).mean(-1, keepdim=True)
        unsummed = grad_out * normal

        if (
            close(got[0], expected_weight)
            and close(got[1], expected_x)
            and not close(expected_x, expected_weight)
        ):
            attempt.fail("(grad_x, grad_weight)", "(grad_weight, grad_x)", "The two are right: swap them.")
        wrong_x = [
            (g / root, "x also moves the RMS: the second term, through the root, is missing."),
            (
                (g + normal * pull) / root,
                "The second term has the wrong sign: the RMS stands below the line.",
            ),
            ((g - normal * pull * size) / root, "The second term needs the mean over C, not the sum."),
            (g - normal * pull, "Divide the whole of grad_x by the root: it stands under x as well."),
            (
                (g - normal * (grad_out * normal).mean(-1, keepdim=True)) / root,
                "weight is missing in the second term: there, too, grad_out arrives multiplied by it.",
            ),
            (
                (grad_out - normal * (grad_out * normal).mean(-1, keepdim=True)) / root,
                "grad_out must be multiplied by weight before it goes on to x.",
            ),
        ]
        hint_x = "grad_x = (g − n · mean(g · n)) / root, with g = grad_out · weight and n = x / root."
        attempt.match(got[0], expected_x, close, wrong=wrong_x, hint=hint_x, what="grad_x")
        wrong_weight = [
            (unsummed, "weight is shared by all rows: add its gradient up over the leading dimensions."),
            (
                unsummed.sum(-1),
                "grad_weight was summed over C; sum over the leading dimensions and keep C."
                if over
                else "x may have no leading dimension; reshape to (-1, C) before summing.",
            ),
            (
                expected_weight / max(1, x.numel() // size),
                "Add up over the leading dimensions; do not average.",
            ),
            ((grad_out * x).sum(over), "weight multiplies the normalized values: use x / root there, not x."),
            (g.mul(normal).sum(over), "The derivative by weight does not contain weight."),
            (
                grad_out.sum(over),
                "weight multiplies the normalized values; they are missing in its gradient.",
            ),
        ]
        hint_weight = "grad_weight = grad_out · (x / root), summed over every dimension but the last."
        attempt.match(
            got[1], expected_weight, close, wrong=wrong_weight, hint=hint_weight, what="grad_weight"
        )


@checker("rmsnorm.fold_gain", 4)
def fold_gain(attempt: Attempt) -> None:
    """`fn(norm_weight, linear_weight)` returns the linear weight that makes the gain unnecessary."""
    seeded = torch.Generator().manual_seed(0)
    broadcast = "norm_weight has one entry for each input of the projection: each scales one column."
    for rows, columns in [(3, 3), (5, 2), (1, 4), (6, 1)]:
        gain = 0.5 + torch.rand(columns, generator=seeded)
        matrix = torch.randn(rows, columns, generator=seeded)
        got = attempt(norm_weight=gain, linear_weight=matrix, on_error={RuntimeError: broadcast})
        expected = matrix * gain
        if not torch.is_tensor(got):
            attempt.fail(show(expected), show(got), "Return a tensor of the shape of linear_weight.")
        got = got.detach()
        wrong = [
            (matrix, "This is the old weight: the gain has yet to go into it."),
            (
                matrix * gain[:, None] if rows == columns else matrix,
                "The rows were scaled, which belong to outputs. The gain acts on inputs: scale the columns.",
            ),
            (matrix / gain, "The gain was divided out. It was applied before: multiply it in."),
            (expected.T, "The right numbers, transposed: linear_weight is (out, in)."),
        ]
        if got.shape == matrix.shape:
            hint = "(n · g) @ Wᵀ = n @ W′ᵀ must hold for every n: which entries of W does g[i] meet?"
        else:
            hint = f"The result must have the shape of linear_weight, {tuple(matrix.shape)}."
        attempt.match(got, expected, close, wrong=wrong, hint=hint)
