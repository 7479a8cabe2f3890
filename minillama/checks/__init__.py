"""Exercise checkers and self-check questions of the book."""

from . import residuals, rmsnorm, rope
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = ["NOT_ATTEMPTED", "PASSED", "WRONG", "Result", "choice", "residuals", "rmsnorm", "rope"]
