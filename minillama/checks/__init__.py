"""Exercise checkers and self-check questions of the book."""

from . import gqa, rmsnorm
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = ["NOT_ATTEMPTED", "PASSED", "WRONG", "Result", "choice", "gqa", "rmsnorm"]
