"""Exercise checkers and self-check questions of the book."""

from . import attention, data, gqa, residuals, rmsnorm, rope, swiglu, training
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = [
    "NOT_ATTEMPTED",
    "PASSED",
    "WRONG",
    "Result",
    "attention",
    "choice",
    "data",
    "gqa",
    "residuals",
    "rmsnorm",
    "rope",
    "swiglu",
    "training",
]
