"""Exercise checkers and self-check questions of the book."""

from . import attention, generation, gqa, residuals, rmsnorm, rope, swiglu
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = [
    "NOT_ATTEMPTED",
    "PASSED",
    "WRONG",
    "Result",
    "attention",
    "choice",
    "generation",
    "gqa",
    "residuals",
    "rmsnorm",
    "rope",
    "swiglu",
]
