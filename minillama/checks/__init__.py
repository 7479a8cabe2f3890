"""Exercise checkers and self-check questions of the book."""

from . import rmsnorm, rope
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = ["NOT_ATTEMPTED", "PASSED", "WRONG", "Result", "choice", "rmsnorm", "rope"]
