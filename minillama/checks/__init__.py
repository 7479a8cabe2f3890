"""Exercise checkers and self-check questions of the book."""

from . import attention, gqa, one_file, residuals, rmsnorm, rope, swiglu
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = [
    "NOT_ATTEMPTED",
    "PASSED",
    "WRONG",
    "Result",
    "attention",
    "choice",
    "gqa",
    "one_file",
    "residuals",
    "rmsnorm",
    "rope",
    "swiglu",
]
