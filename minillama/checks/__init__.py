"""Exercise checkers and self-check questions of the book."""

from . import attention, gqa, optimizers, residuals, rmsnorm, rope, swiglu
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
    "optimizers",
    "residuals",
    "rmsnorm",
    "rope",
    "swiglu",
]
