"""Exercise checkers and self-check questions of the book."""

from . import (
    assembly,
    attention,
    cross_entropy,
    data,
    generation,
    gqa,
    one_file,
    optimizers,
    residuals,
    rmsnorm,
    rope,
    swiglu,
    training,
    weights,
)
from .machinery import NOT_ATTEMPTED, PASSED, WRONG, Result
from .question import choice

__all__ = [
    "NOT_ATTEMPTED",
    "PASSED",
    "WRONG",
    "Result",
    "assembly",
    "attention",
    "choice",
    "cross_entropy",
    "data",
    "generation",
    "gqa",
    "one_file",
    "optimizers",
    "residuals",
    "rmsnorm",
    "rope",
    "swiglu",
    "training",
    "weights",
]
