"""What all exercise checkers share: run the reader's function on chosen inputs and report in plain words."""

import copy
import dis
import functools
import inspect
import random
import sys
import textwrap
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch.autograd import Variable, forward_ad

PASSED, WRONG, NOT_ATTEMPTED = "passed", "wrong", "not attempted"
WIDTH = 60  # characters; an output does not wrap on a phone, it scrolls
UNEXPECTED_ERROR = "Your function raised this error; call it on this input by itself to see where."
NOTHING = "your function returned nothing:\nis there a return?"
BY_HAND = "by hand, please: this one is without autograd."
NOTHING_HERE = "For this input your function ends without returning anything."


@dataclass(frozen=True)
class Result:
    """A verdict: true when passed. Its message has been printed already, so a notebook shows nothing more."""

    name: str
    status: str
    message: str

    def __bool__(self) -> bool:
        return self.status == PASSED

    def _ipython_display_(self) -> None:
        pass


class _NotAttempted(Exception):
    pass


class _Wrong(Exception):
    pass


class Attempt:
    """The reader's function under test. Remembers the input in hand for the report."""

    def __init__(self, fn, exercise: str, autograd: bool = True):
        self._fn = fn
        self._exercise = exercise
        self._autograd = autograd
        self._arguments = {}
        self.calls = 0

    def __call__(self, *, on_error: dict | None = None, **arguments):
        """Call the function with `arguments` by position.

        `on_error` maps exception types, or pairs of a type and a part of its message, to hints.
        """
        self._arguments = arguments
        self.calls += 1
        given = copy.deepcopy(list(arguments.values()))
        got = error = None
        with nullcontext() if self._autograd else _autograd_refused() as refused:
            try:
                got = self._fn(*given)
            except Exception as raised:
                error = raised
        if refused:
            raise _Wrong(f"{self._exercise}: {BY_HAND}")
        if self.calls == 1:
            if got is ... or isinstance(error, NotImplementedError):
                raise _NotAttempted
            if got is None and error is None:
                raise _NotAttempted if _is_stub(self._fn) else _Wrong(f"{self._exercise}: {NOTHING}")
        if error is not None:
            self.fail("a result", f"{type(error).__name__}: {error}", _hint_for(error, on_error or {}))
        if got is None or got is ...:
            self.fail("a result", repr(got), NOTHING_HERE)
        for (key, before), after in zip(arguments.items(), given, strict=True):
            if not _unchanged(before, after):
                self.fail(
                    f"{key} left as it was",
                    f"{key} = {show(after)}",
                    f"Your function changed its input {key}. Make a new one; the caller still needs the old.",
                )
        return got

    def match(self, got, expected, same, **explanation) -> None:
        """Fail, with what `explain` finds, unless `same(got, expected)`."""
        if not same(got, expected):
            self.explain(got, expected, same, **explanation)

    def explain(self, got, expected, same, *, wrong=(), hint: str, what: str = ""):
        """Fail. `wrong` holds pairs (value, hint): the first value that `got` equals gives the hint."""
        for value, its_hint in wrong:
            if not same(expected, value) and same(got, value):
                hint = its_hint
                break
        self.fail(*_contrast(expected, got, what), hint)

    def fail(self, expected: str, came: str, hint: str):
        shown = [f"{key} = {show(value)}" for key, value in self._arguments.items()]
        head = f"{self._exercise}: wrong for {', '.join(shown)}"
        if len(head) > WIDTH:
            head = "\n".join([f"{self._exercise}: wrong for", *(_wrapped("  ", each, 4) for each in shown)])
        rows = ("expected: ", expected), ("came:     ", came), ("hint:     ", hint)
        raise _Wrong("\n".join([head, *(_wrapped(label, text, len(label)) for label, text in rows)]))


def checker(name: str, exercise: int, *, autograd: bool = True):
    """Make of `check(attempt)` what readers call: it runs their function, prints the verdict, returns it.

    `exercise` is its number in the chapter; without `autograd` a function that calls it is turned down.
    """

    def decorate(check):
        @functools.wraps(check)
        def run(fn) -> Result:
            if not callable(fn):
                raise TypeError(f"fn {fn!r} must be a function; pass its name without parentheses")
            title = f"Exercise {exercise}"
            attempt = Attempt(fn, title, autograd)
            with _own_random_state():
                try:
                    check(attempt)
                    verdict = PASSED, f"{title}: right on all {attempt.calls} inputs."
                except _NotAttempted:
                    verdict = NOT_ATTEMPTED, f"{title}: not attempted yet."
                except _Wrong as wrong:
                    verdict = WRONG, str(wrong)
            print(verdict[1])
            return Result(name, *verdict)

        return run

    return decorate


def close(a, b, tolerance: float = 1e-5) -> bool:
    """Equal shapes and, entry by entry, equal values within `tolerance`, absolute and relative."""
    if torch.is_tensor(a) and torch.is_tensor(b):
        return a.shape == b.shape and torch.allclose(a.double(), b.double(), tolerance, tolerance)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if _is_number(a) and _is_number(b):
        return abs(a - b) <= tolerance * max(1.0, abs(b))
    return False


def show(value, limit: int = 6) -> str:
    """A value as it stands in a report: four digits, long ones cut, the same on every machine."""
    if torch.is_tensor(value):
        kind = str(value.dtype).removeprefix("torch.")
        flat = show(value.detach().flatten().tolist(), limit)
        return (
            f"{kind} tensor of shape {tuple(value.shape)}: {flat}" if value.dim() != 1 else f"{kind} {flat}"
        )
    if isinstance(value, list | tuple):
        inside = [show(each, limit) for each in value[:limit]] + ["…"] * (len(value) > limit)
        return f"[{', '.join(inside)}]" if isinstance(value, list) else f"({', '.join(inside)})"
    if isinstance(value, float):
        return format(value, ".4g")
    if isinstance(value, set) and all(isinstance(each, bytes) for each in value):
        longest = sorted(value, key=lambda each: (-len(each), each))
        return "{" + ", ".join([show(each) for each in longest[:limit]] + ["…"] * (len(value) > limit)) + "}"
    if isinstance(value, bytes):
        return repr(value[:12]) + "…" * (len(value) > 12)
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes: {value[:16].hex(' ')}{' …' if len(value) > 16 else ''}"
    if isinstance(value, int | torch.dtype):
        return str(value)
    return f"something of type {type(value).__name__}"


def _contrast(expected, got, what: str) -> tuple[str, str]:
    """Expected and got side by side; of two long tensors only the entry that is furthest off."""
    label = f"{what} " if what else ""
    if torch.is_tensor(expected) and torch.is_tensor(got) and expected.shape == got.shape and got.numel() > 6:
        theirs, ours = got.detach().double(), expected.double()
        off = (theirs - ours).abs().nan_to_num(nan=torch.inf)
        off = off.masked_fill(theirs == ours, 0)  # inf - inf is nan
        at = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
        # Neighbors in half precision differ in the fourth digit: show enough of them.
        return tuple(f"{label}at {list(at)}: {each[at].item():.7g}" for each in (expected, got))
    return f"{label}{show(expected)}", f"{label}{show(got)}"


def _wrapped(label: str, text: str, indent: int) -> str:
    """`label` and `text` in lines of WIDTH; a number is never broken at its minus sign."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _hint_for(error: Exception, hints: dict) -> str:
    for key, hint in hints.items():
        kind, words = key if isinstance(key, tuple) else (key, "")
        if isinstance(error, kind) and words in str(error):
            return hint
    return UNEXPECTED_ERROR


def _is_stub(fn) -> bool:
    """Whether the body does nothing; also true where there is no bytecode to judge by."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return code is None or _steps(code) == _steps((lambda: None).__code__)


def _steps(code) -> list:
    """What the body does. Bytecode differs between versions of Python: compare within one run only."""
    return [(step.opname, step.argval) for step in dis.get_instructions(code) if step.opname != "NOP"]


@contextmanager
def _autograd_refused():
    """Inside, every backward pass and every forward-mode derivative raises. Yields the list of refusals.

    All of torch's ways to a backward pass end in one engine, names imported earlier included.
    """
    refusals = []

    def refuse(*_, **__):
        refusals.append("autograd")
        raise RuntimeError("this exercise is without autograd")

    class Engine:
        run_backward = staticmethod(refuse)

    engine, make_dual = Variable._execution_engine, forward_ad.make_dual
    Variable._execution_engine, forward_ad.make_dual = Engine(), refuse
    try:
        yield refusals
    finally:
        Variable._execution_engine, forward_ad.make_dual = engine, make_dual


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unchanged(before, after) -> bool:
    if torch.is_tensor(before):
        same = before.shape == after.shape and before.dtype == after.dtype
        return same and torch.equal(before.nan_to_num(), after.nan_to_num())
    return before == after


@contextmanager
def _own_random_state():
    """Each check draws the same numbers, and the reader's own go on as if none had run."""
    numpy = sys.modules.get("numpy")
    saved = random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy else None
    random.seed(0)
    torch.random.default_generator.manual_seed(0)
    if numpy:
        numpy.random.seed(0)
    try:
        yield
    finally:
        random.setstate(saved[0])
        torch.set_rng_state(saved[1])
        if numpy:
            numpy.random.set_state(saved[2])
