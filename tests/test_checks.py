"""Exercise checkers: stubs wait, right answers pass, each wrong one meets the hint at its mistake."""

import functools
import inspect
import math
import random
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest
import torch

import minillama
from minillama import checks
from minillama.checks import rmsnorm
from minillama.checks.machinery import Attempt, checker, close, show

ROOT = Path(__file__).resolve().parents[1]


def mean_square(x, eps):
    return x.pow(2).mean(-1, keepdim=True) + eps


# -- right answers ---------------------------------------------------------------------------------------


def by_hand(values, eps):
    root = math.sqrt(sum(v * v for v in values) / len(values) + eps)
    return [v / root for v in values]


def backward(x, weight, eps, grad_out):
    root = mean_square(x, eps).sqrt()
    n, g = x / root, grad_out * weight
    return (g - n * (g * n).mean(-1, keepdim=True)) / root, (grad_out * n).reshape(-1, x.shape[-1]).sum(0)


def divide_in_single(x, weight, eps):
    wide = x.float()
    return (wide / mean_square(wide, eps).sqrt() * weight.float()).to(x.dtype)


def in_double(x, weight, eps):
    wide = x.double()
    return (wide / mean_square(wide, eps).sqrt() * weight.double()).to(x.dtype)


RIGHT = [
    (rmsnorm.by_hand, by_hand),
    (rmsnorm.by_hand, lambda v, e: [x * (sum(y**2 for y in v) / len(v) + e) ** -0.5 for x in v]),
    (rmsnorm.half_precision, minillama.rms_norm),
    (rmsnorm.half_precision, divide_in_single),
    (rmsnorm.half_precision, in_double),
    (rmsnorm.backward, backward),
    (rmsnorm.backward, lambda *a: list(backward(*a))),
    (rmsnorm.fold_gain, lambda g, w: w * g),
    (rmsnorm.fold_gain, lambda g, w: w @ torch.diag(g)),
    (rmsnorm.fold_gain, lambda g, w: torch.nn.Parameter(w * g)),
]
ALL = [rmsnorm.by_hand, rmsnorm.half_precision, rmsnorm.backward, rmsnorm.fold_gain]


@pytest.mark.parametrize(("check", "answer"), RIGHT)
def test_a_right_answer_passes(check, answer, capsys):
    result = check(answer)
    assert result and result.status == checks.PASSED
    printed = capsys.readouterr().out
    assert printed == result.message + "\n"
    inputs = {"by_hand": 6, "half_precision": 8, "backward": 5, "fold_gain": 4}[check.__name__]
    assert printed == f"Exercise {ALL.index(check) + 1}: right on all {inputs} inputs.\n"
    assert result.name == f"rmsnorm.{check.__name__}"


def unfinished(*arguments):
    raise NotImplementedError("later")


def dots(*arguments) -> list[float]: ...


def documented(*arguments):
    """What is asked for."""


def told_apart(*arguments):
    """What is asked for."""
    pass
    ...  # your code
    return None


def framed(*arguments):
    len(arguments)  # given; the rest is the reader's
    return ...


class Stubs:
    def method(self, *arguments): ...

    def __call__(self, *arguments):
        list(arguments)  # no bytecode to judge by: an object, not a function


STUBS = [
    *(lambda *a: None, lambda *a: ..., dots, documented, told_apart, framed, unfinished),
    *(Stubs().method, Stubs(), functools.partial(dots), torch.no_grad()(dots)),
]


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_not_an_error(check, stub, capsys):
    result = check(stub)
    assert not result and result.status == checks.NOT_ATTEMPTED
    assert capsys.readouterr().out == f"Exercise {ALL.index(check) + 1}: not attempted yet.\n"


def prints(*arguments):
    print(len(arguments))


def computes(*arguments):
    total = sum(len(arguments) for _ in arguments)  # noqa: F841


def assigns(*arguments):
    result = 1.0  # noqa: F841


def names(*arguments):
    arguments  # noqa: B018


def returns_in_a_branch(*arguments):
    if not arguments:
        return 1.0


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize(
    "answer", [prints, computes, assigns, names, returns_in_a_branch, torch.no_grad()(computes)]
)
def test_an_answer_without_a_return_is_an_attempt(check, answer, capsys):
    result = check(answer)
    assert not result and result.status == checks.WRONG
    said = f"Exercise {ALL.index(check) + 1}: your function returned nothing:\nis there a return?\n"
    assert capsys.readouterr().out.endswith(said)


def test_only_the_first_call_can_find_a_stub():
    """Torch raises NotImplementedError, too: for an operation that does not know a dtype."""

    def not_in_half(x, weight, eps):
        if x.dtype == torch.float16:
            raise NotImplementedError("not implemented for 'Half'")
        return in_double(x, weight, eps)

    result = rmsnorm.half_precision(not_in_half)
    assert (
        result.status == checks.WRONG and "NotImplementedError: not implemented for 'Half'" in result.message
    )
    halfway = rmsnorm.half_precision(lambda x, w, e: in_double(x, w, e) if x.dim() > 1 else ...)
    assert "came:     Ellipsis" in halfway.message


# -- wrong answers ---------------------------------------------------------------------------------------


def layer_norm_by_hand(values, eps):
    mean = sum(values) / len(values)
    return by_hand([v - mean for v in values], eps)


def in_half(x, weight, eps):
    return x * torch.rsqrt(mean_square(x, eps)) * weight.to(x.dtype)


def squares_in_half(x, weight, eps):
    return (x.float() / mean_square(x, eps).float().sqrt() * weight.float()).to(x.dtype)


def narrow(x, weight, eps, invert=False, wide_gain=False):
    root = mean_square(x.float(), eps).sqrt()
    normal = x * (1 / root).to(x.dtype) if invert else x / root.to(x.dtype)
    return (normal * weight.float()).to(x.dtype) if wide_gain else normal * weight.to(x.dtype)


def over_all(x, weight, eps):
    return in_double(x, weight, eps) * (
        mean_square(x.double(), eps) / (x.double().square().mean() + eps)
    ).sqrt().to(x.dtype)


def without_keepdim(x, weight, eps):
    return (x.float() / (x.float().pow(2).mean(-1) + eps).sqrt() * weight.float()).to(x.dtype)


def length(v):
    return math.sqrt(sum(y * y for y in v))


def cast_first(x, weight, eps):
    return (x.float() * torch.rsqrt(mean_square(x.float(), eps))).to(x.dtype)


def terms(x, weight, eps, grad_out):
    root = mean_square(x, eps).sqrt()
    n, g = x / root, grad_out * weight
    return root, n, g, (g * n).mean(-1, keepdim=True), backward(x, weight, eps, grad_out)


def wrong_backward(grad_x=None, grad_weight=None):
    def answer(x, weight, eps, grad_out):
        root, n, g, pull, right = terms(x, weight, eps, grad_out)
        local = dict(x=x, w=weight, up=grad_out, root=root, n=n, g=g, pull=pull, right=right, torch=torch)
        return tuple(
            right[i] if code is None else eval(code, local) for i, code in enumerate((grad_x, grad_weight))
        )

    return answer


def mean_of(values):
    return sum(values) / len(values)


WRONG = [
    (rmsnorm.by_hand, layer_norm_by_hand, "The mean was subtracted first: that is LayerNorm."),
    (
        rmsnorm.by_hand,
        lambda v, e: [x / (math.sqrt(mean_of([y * y for y in v])) + e) for x in v],
        "ε was added after the square root.",
    ),
    (rmsnorm.by_hand, lambda v, e: [x / math.sqrt(sum(y * y for y in v) + e) for x in v], "not averaged"),
    (rmsnorm.by_hand, lambda v, e: [x / (mean_of([y * y for y in v]) + e) for x in v], "root is missing"),
    (
        rmsnorm.by_hand,
        lambda v, e: [x * math.sqrt(mean_of([y * y for y in v]) + e) for x in v],
        "divide by it",
    ),
    (rmsnorm.by_hand, lambda v, e: by_hand(v, 0), "ε is missing"),
    (rmsnorm.by_hand, lambda v, e: by_hand(v, e if any(v) else 0), "An input of zeros needs ε"),
    (rmsnorm.by_hand, lambda v, e: by_hand(v, e)[:-1], "one number for each value"),
    (rmsnorm.by_hand, lambda v, e: torch.tensor(by_hand(v, e)), "That is a tensor"),
    (rmsnorm.by_hand, lambda v, e: tuple(by_hand(v, e)), "Return a plain list"),
    (rmsnorm.by_hand, lambda v, e: [str(x) for x in by_hand(v, e)], "Return a plain list"),
    (rmsnorm.by_hand, lambda v, e: [x / length(v) for x in v], "L2 norm"),
    (rmsnorm.by_hand, lambda v, e: [x / (length(v) + e) for x in v], "L2 norm"),
    (rmsnorm.by_hand, lambda v, e: [x / max(length(v), e) for x in v], "L2 norm"),
    (
        rmsnorm.by_hand,
        lambda v, e: [x / math.sqrt(sum(y * y for y in v) / (len(v) - 1) + e) for x in v],
        "divided by n − 1",
    ),
    (rmsnorm.by_hand, lambda v, e: [x / mean_of([abs(y) for y in v]) for x in v], "mean of |x|"),
    (rmsnorm.by_hand, lambda v, e: [x / (mean_of([abs(y) for y in v]) + e) for x in v], "mean of |x|"),
    (rmsnorm.by_hand, lambda v, e: [x / mean_of(v) for x in v], "Square each value, take the mean"),
    (rmsnorm.by_hand, lambda v, e: [x / max(v) for x in v], "Square each value, take the mean"),
    (rmsnorm.by_hand, lambda v, e: by_hand(v, e) if len(v) == 4 else None, "ends without returning anything"),
    (rmsnorm.half_precision, in_half, "squares were taken in half precision"),
    (rmsnorm.half_precision, squares_in_half, "squares were taken in half precision"),
    *(
        (rmsnorm.half_precision, functools.partial(narrow, **how), "Only the squares were taken in float32")
        for how in ({}, {"invert": True}, {"wide_gain": True}, {"invert": True, "wide_gain": True})
    ),
    (rmsnorm.half_precision, over_all, "taken over the whole tensor"),
    (rmsnorm.half_precision, without_keepdim, "Keep it: mean(-1, keepdim=True)"),
    (
        rmsnorm.half_precision,
        lambda x, w, e: torch.rsqrt(x.pow(2).mean(-1) + e) * x * w,
        "Keep it: mean(-1, keepdim=True)",
    ),
    (rmsnorm.half_precision, lambda x, w, e: in_double(x, w[:-1], e), "Your function raised this error"),
    (rmsnorm.half_precision, lambda x, w, e: x.view(-1, 5), "Your function raised this error"),
    (rmsnorm.half_precision, lambda x, w, e: in_double(x, w, e).double(), "Cast back to x.dtype"),
    (
        rmsnorm.half_precision,
        lambda x, w, e: minillama.rms_norm(x.float(), w, e),
        "turned the result into float32. Cast back to x.dtype",
    ),
    (rmsnorm.half_precision, lambda x, w, e: cast_first(x, w, e) * w, "Cast back to x.dtype"),
    (rmsnorm.half_precision, lambda x, w, e: cast_first(x, w, e) * w.to(x.dtype), "rounded twice"),
    (rmsnorm.half_precision, lambda x, w, e: (cast_first(x, w, e) * w).to(x.dtype), "rounded twice"),
    (rmsnorm.half_precision, cast_first, "The gain is missing"),
    (rmsnorm.half_precision, lambda x, w, e: in_double(x, w, 0.0), "ε is missing"),
    (rmsnorm.half_precision, lambda x, w, e: in_double(x - x.mean(-1, keepdim=True), w, e), "LayerNorm"),
    (rmsnorm.half_precision, lambda x, w, e: in_double(x, w.to(x.dtype), e), "Compute in float32 from the"),
    (rmsnorm.half_precision, lambda x, w, e: in_double(x, w, e).sum(-1), "The shape of x must be kept"),
    (rmsnorm.half_precision, lambda x, w, e: 1.0, "Return a tensor"),
    (rmsnorm.backward, wrong_backward("g / root"), "the second term, through the root, is missing"),
    (rmsnorm.backward, wrong_backward("(g + n * pull) / root"), "wrong sign"),
    (rmsnorm.backward, wrong_backward("(g - n * pull * x.shape[-1]) / root"), "mean over C, not the sum"),
    (rmsnorm.backward, wrong_backward("g - n * pull"), "Divide the whole of grad_x by the root"),
    (
        rmsnorm.backward,
        wrong_backward("(g - n * (up * n).mean(-1, keepdim=True)) / root"),
        "weight is missing in the second term",
    ),
    (
        rmsnorm.backward,
        wrong_backward("(up - n * (up * n).mean(-1, keepdim=True)) / root"),
        "multiplied by weight before it goes on",
    ),
    (rmsnorm.backward, wrong_backward("up"), "grad_x = (g − n · mean(g · n)) / root"),
    (rmsnorm.backward, wrong_backward(None, "up * n"), "add its gradient up over the leading dimensions"),
    (rmsnorm.backward, wrong_backward(None, "(up * n).sum(-1)"), "keep C"),
    (rmsnorm.backward, wrong_backward(None, "(up * n).mean(0)"), "do not average"),
    (rmsnorm.backward, wrong_backward(None, "(up * x).sum(0)"), "use x / root there"),
    (rmsnorm.backward, wrong_backward(None, "(g * n).sum(0)"), "does not contain weight"),
    (rmsnorm.backward, wrong_backward(None, "up.sum(0)"), "they are missing in its gradient"),
    (rmsnorm.backward, wrong_backward(None, "(up * n).sum(0)"), "x may have no leading dimension; reshape"),
    (
        rmsnorm.backward,
        wrong_backward(None, "(up * n).sum(tuple(range(x.dim() - 1)))"),
        "x may have no leading dimension; reshape",
    ),
    (
        rmsnorm.backward,
        wrong_backward("(g - n * (g * n).mean(-1)) / root"),
        "Keep it: mean(-1, keepdim=True)",
    ),
    (rmsnorm.backward, wrong_backward(None, "w"), "summed over every dimension but the last"),
    (rmsnorm.backward, lambda *a: backward(*a)[::-1], "swap them"),
    (rmsnorm.backward, lambda *a: backward(*a)[0], "Return the pair"),
    (rmsnorm.fold_gain, lambda g, w: w, "the gain has yet to go into it"),
    (rmsnorm.fold_gain, lambda g, w: w * g[:, None], "scale the columns"),
    (rmsnorm.fold_gain, lambda g, w: (w.T * g[: len(w)]).T, "scale the columns"),
    (rmsnorm.fold_gain, lambda g, w: w / g, "The gain was divided out"),
    (rmsnorm.fold_gain, lambda g, w: (w * g).T, "transposed"),
    (rmsnorm.fold_gain, lambda g, w: w.mul_(g), "changed its input linear_weight"),
    (rmsnorm.fold_gain, lambda g, w: w * g.sum(), "which entries of W does g[i] meet"),
    (rmsnorm.fold_gain, lambda g, w: w[0] * g, "must have the shape of linear_weight"),
    (rmsnorm.fold_gain, lambda g, w: 3, "Return a tensor"),
]


@pytest.mark.parametrize(("check", "answer", "hint"), WRONG)
def test_a_wrong_answer_meets_its_hint(check, answer, hint, capsys):
    result = check(answer)
    assert result.status == checks.WRONG and not result
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0].startswith(f"Exercise {ALL.index(check) + 1}: wrong for")
    labels = [line[:10] for line in lines if not line.startswith(" ")]
    assert labels[1:] == ["expected: ", "came:     ", "hint:     "]
    assert hint in " ".join(printed.partition("hint:")[2].split())
    assert max(map(len, lines)) <= 60, "it would scroll on a phone"
    again = check(answer).message
    assert again == result.message, "the report differs from run to run"


def test_every_checker_knows_two_mistakes_at_least():
    for check in ALL:
        hints = {hint for each, _, hint in WRONG if each is check}
        assert len(hints) >= 2, check.__name__


def test_an_error_of_the_reader_is_reported_without_a_traceback(capsys):
    result = rmsnorm.by_hand(lambda values, eps: values["x"])
    assert result.status == checks.WRONG
    assert capsys.readouterr().out == (
        "Exercise 1: wrong for values = [1, -2, 3, 6], eps = 0.5\n"
        "expected: a result\n"
        "came:     TypeError: list indices must be integers or\n"
        "          slices, not str\n"
        "hint:     Your function raised this error; call it on this\n"
        "          input by itself to see where.\n"
    )


# -- without autograd ------------------------------------------------------------------------------------


def forward(x, weight, eps):
    return x / mean_square(x, eps).sqrt() * weight


imported_earlier = torch.autograd.grad


def by_grad(grad):
    def answer(x, weight, eps, grad_out):
        leaves = x.requires_grad_(), weight.requires_grad_()
        return grad(forward(*leaves, eps), leaves, grad_out)

    return answer


def by_backward(x, weight, eps, grad_out):
    x.requires_grad_(), weight.requires_grad_()
    forward(x, weight, eps).backward(grad_out)
    return x.grad, weight.grad


def by_scalar_backward(x, weight, eps, grad_out):
    x, weight = (t.clone().requires_grad_() for t in (x, weight))
    with torch.enable_grad():
        out = (forward(x, weight, eps) * grad_out).sum()
    torch.autograd.backward(out)
    return x.grad, weight.grad


def by_func(x, weight, eps, grad_out):
    return torch.func.vjp(lambda x, w: forward(x, w, eps), x, weight)[1](grad_out)


def by_func_grad(x, weight, eps, grad_out):
    return torch.func.grad(lambda x, w: (forward(x, w, eps) * grad_out).sum(), (0, 1))(x, weight)


def by_forward_mode(x, weight, eps, grad_out):
    return torch.func.jacfwd(lambda x, w: (forward(x, w, eps) * grad_out).sum(), (0, 1))(x, weight)


def by_functional(x, weight, eps, grad_out):
    return torch.autograd.functional.vjp(lambda x, w: forward(x, w, eps), (x, weight), grad_out)[1]


def hidden(x, weight, eps, grad_out):
    try:
        by_backward(x.clone(), weight.clone(), eps, grad_out)
    except Exception:
        pass
    return backward(x, weight, eps, grad_out)


AUTOGRAD = [
    *(by_grad(torch.autograd.grad), by_grad(imported_earlier), by_backward, by_scalar_backward),
    *(by_func, by_func_grad, by_forward_mode, by_functional),
]


@pytest.mark.parametrize("answer", [*AUTOGRAD, hidden])
def test_the_exercise_by_hand_refuses_autograd(answer, capsys):
    result = rmsnorm.backward(answer)
    assert result.status == checks.WRONG
    assert capsys.readouterr().out == "Exercise 3: by hand, please: this one is without autograd.\n"


@pytest.mark.parametrize("answer", AUTOGRAD)
def test_autograd_works_again_after_the_check(answer):
    torch.manual_seed(0)
    inputs = torch.randn(3, 4).double(), torch.rand(4).double(), 0.1, torch.randn(3, 4).double()
    rmsnorm.backward(answer)
    got = answer(*(t.clone() if torch.is_tensor(t) else t for t in inputs))
    assert close(list(got), list(backward(*inputs)))


def test_autograd_is_refused_nowhere_else():
    def taught(values, eps):
        x = torch.tensor(values, requires_grad=True)
        x.sum().backward()
        return by_hand(values, eps)

    assert rmsnorm.by_hand(taught)


def test_leaves_that_are_never_differentiated_are_no_autograd():
    def answer(x, weight, eps, grad_out):
        return backward(x.requires_grad_(), weight.requires_grad_(), eps, grad_out)

    assert rmsnorm.backward(answer)


def test_an_interrupt_is_not_swallowed():
    def slow(values, eps):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rmsnorm.by_hand(slow)


def test_what_is_not_a_function_is_refused():
    with pytest.raises(TypeError, match=r"fn \[1\.0\] must be a function; pass its name without parentheses"):
        rmsnorm.by_hand([1.0])


# -- what a check leaves behind --------------------------------------------------------------------------


def test_the_readers_random_numbers_go_on_as_if_no_check_had_run():
    def draw():
        return random.random(), torch.rand(1).item(), numpy.random.rand()

    def gambler(values, eps):
        draw()
        torch.manual_seed(1)
        return by_hand(values, eps)

    random.seed(5), torch.manual_seed(5), numpy.random.seed(5)
    expected = [draw(), draw()]
    random.seed(5), torch.manual_seed(5), numpy.random.seed(5)
    first = draw()
    assert rmsnorm.by_hand(gambler)
    assert [first, draw()] == expected


def test_what_a_check_draws_does_not_depend_on_what_was_drawn_before():
    drawn = []

    def gambler(values, eps):
        drawn.append((random.random(), torch.rand(1).item(), numpy.random.rand()))
        return by_hand(values, eps)

    for seed in (1, 2):
        random.seed(seed), torch.manual_seed(seed), numpy.random.seed(seed)
        assert rmsnorm.by_hand(gambler)
    half = len(drawn) // 2
    assert half > 0 and drawn[:half] == drawn[half:]


def test_a_verdict_is_shown_once():
    """Printed by the check, the result itself stays silent in a notebook."""
    from IPython.core.formatters import DisplayFormatter

    result = rmsnorm.by_hand(by_hand)
    assert DisplayFormatter().format(result) == ({}, {})


def test_checks_load_neither_matplotlib_nor_ipywidgets():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['ipywidgets'] = None; "
        "from minillama import checks; checks.choice('Q', [('a', 'b'), ('c', 'd')], 'A').html; print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


# -- machinery -------------------------------------------------------------------------------------------


def test_a_checker_that_changes_nothing_sees_changes_of_any_kind():
    @checker("demo", 1)
    def demo(attempt: Attempt):
        attempt(numbers=[1, 2], x=torch.tensor([1.0, math.nan]))

    assert demo(lambda numbers, x: 1)
    assert "changed its input numbers" in demo(lambda numbers, x: numbers.append(3) or 1).message
    assert "changed its input x" in demo(lambda numbers, x: x.zero_()).message


def test_close_compares_shape_and_value():
    assert close([1.0, 2], (1.0, 2.0)) and close(torch.ones(2), torch.ones(2).double())
    assert not close([1.0], [1.0, 1.0]) and not close(torch.ones(1), torch.ones(2))
    assert not close([1.0], [1.1]) and not close([1.0], ["1"]) and not close(1.0, math.nan)
    assert not close(torch.ones(1), [1.0])


def test_show_is_short_and_plain():
    assert show([1.0, 2.5, 1 / 3]) == "[1, 2.5, 0.3333]"
    assert show(list(range(9))) == "[0, 1, 2, 3, 4, 5, …]"
    assert show(torch.ones(2, dtype=torch.float16)) == "float16 [1, 1]"
    assert show(torch.zeros(2, 1)) == "float32 tensor of shape (2, 1): [0, 0]"
    assert show((1, None)) == "(1, something of type NoneType)"
    assert show("1.0") == "'1.0'"
    assert show(object()) == "something of type object"
    assert show("é".encode()) == r"b'\xc3\xa9'" and show(b"a" * 13) == "b'aaaaaaaaaaaa'…"
    assert show({b"a", b"ab"}) == "{b'ab', b'a'}" and show({1}) == "something of type set"


def test_long_tensors_are_compared_at_their_worst_entry(capsys):
    @checker("demo", 1)
    def demo(attempt: Attempt):
        got = attempt(n=3)
        attempt.match(got, torch.zeros(3, 4), close, hint="none", what="grid")

    def answer(n):
        grid = torch.zeros(3, 4)
        grid[1, 2] = math.nan
        return grid

    demo(answer)
    assert "expected: grid at [1, 2]: 0\ncame:     grid at [1, 2]: nan" in capsys.readouterr().out


def test_infinities_that_agree_are_no_difference(capsys):
    """inf - inf is nan; the entry that is shown must be one that differs."""
    expected = torch.tensor([-math.inf, math.inf, 1.0, 2.0, 3.0, 4.0, -math.inf])

    @checker("infinite", 1)
    def check(attempt):
        attempt.match(attempt(x=1.0), expected, torch.equal, hint="Look there.")

    def finite(x):
        got = expected.clone()
        got[3] = 2.5
        return got

    def one_infinity_less(x):
        got = expected.clone()
        got[6] = 0.0
        return got

    for answer, place, should, came in ((finite, 3, "2", "2.5"), (one_infinity_less, 6, "-inf", "0")):
        check(answer)
        out = capsys.readouterr().out
        assert f"expected: at [{place}]: {should}\n" in out
        assert f"came:     at [{place}]: {came}\n" in out


# -- questions -------------------------------------------------------------------------------------------


def question(**changes):
    arguments = {
        "question": "What does `softmax` <do>?",
        "options": [
            ('It sorts & "ranks".', "Sorting keeps the values."),
            ("It normalizes.", "The sum is 1."),
        ],
        "answer": "B",
    }
    return checks.choice(**(arguments | changes))


class Choices(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.inputs, self.text, self.open = [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "input":
            assert "label" in self.open and "fieldset" in self.open
            self.inputs.append(dict(attrs))
        else:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += data


def test_a_question_is_radio_buttons_that_keep_their_feedback_to_themselves():
    page = Choices(question().html)
    assert [each["type"] for each in page.inputs] == ["radio", "radio"]
    assert len({each["name"] for each in page.inputs}) == 1
    assert [each["data-feedback"] for each in page.inputs] == [
        "A: No. Sorting keeps the values.",
        "B: Right. The sum is 1.",
    ]
    assert page.text.split("\n") == [
        *("", "", "What does softmax <do>?", 'A. It sorts & "ranks".', "B. It normalizes.", "", "", ""),
    ], "readable without a script, with no answer given away"
    assert "<code>softmax</code> &lt;do&gt;" in question().html


def test_a_question_is_the_same_in_every_run_and_has_its_own_name():
    assert question().html == question().html
    assert question().name != question(question="Another?").name
    assert repr(question()) == 'What does `softmax` <do>?\nA. It sorts & "ranks".\nB. It normalizes.'
    assert question()._repr_mimebundle_() == {"text/plain": repr(question()), "text/html": question().html}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": " "}, "question ' ' must be"),
        ({"options": [("a", "b")]}, "options are 1; a question takes 2 to 6"),
        ({"options": [("a", "b")] * 7}, "options are 7"),
        ({"options": [("a", "b"), ("c", "")]}, r"option \('c', ''\) must be a pair"),
        ({"options": [("a", "b"), ("c",)]}, r"option \('c',\) must be a pair"),
        ({"answer": "C"}, "answer 'C' must be one of A, B"),
        ({"answer": "AB"}, "answer 'AB'"),
        ({"answer": 1}, "answer 1 must be"),
    ],
)
def test_a_question_refuses_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        question(**changes)


def test_checkers_keep_their_documentation():
    for check in ALL:
        assert inspect.getdoc(check).startswith("`fn("), check.__name__
