"""Exercise checkers and self-check questions of the book."""

from . import attention, rmsnorm
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = ["NOT_ATTEMPTED", "PASSED", "WRONG", "Result", "attention", "choice", "rmsnorm"]
