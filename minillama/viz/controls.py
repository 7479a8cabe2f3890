"""What a reader can move: a named list of values."""

import math
from dataclasses import dataclass

from .marks import fixed


@dataclass(frozen=True)
class Control:
    """One slider (numbers) or menu (words).

    `key` is the keyword under which the drawing function receives the value; `label` is what the reader sees;
    `digits` is the number of decimals shown; `unit` follows the number as it stands ("×", " layers").
    """

    key: str
    label: str
    values: tuple
    default: object
    unit: str = ""
    digits: int = 0

    def __post_init__(self):
        object.__setattr__(self, "values", tuple(self.values))
        if not isinstance(self.key, str) or not self.key.isidentifier():
            raise ValueError(f"key {self.key!r} must be a Python identifier")
        if not isinstance(self.label, str) or not self.label.strip():
            raise ValueError(f"label {self.label!r} of control {self.key} must be a non-empty string")
        words = [isinstance(value, str) for value in self.values]
        numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in self.values]
        if len(self.values) < 2 or not (all(words) or all(numbers)):
            raise ValueError(
                f"values {self.values!r} of control {self.key} must be two or more, numbers or strings"
            )
        if all(numbers) and not all(math.isfinite(value) for value in self.values):
            raise ValueError(f"values {self.values!r} of control {self.key} must be finite")
        if len(set(self.texts)) != len(self.values):
            raise ValueError(
                f"values {self.values!r} of control {self.key} must differ as shown: {self.texts}"
            )
        if self.default not in self.values:
            raise ValueError(f"default {self.default!r} of control {self.key} must be one of {self.values!r}")

    @classmethod
    def steps(cls, key, label, start, stop, step, default, unit="", digits=0):
        """A slider from `start` to `stop` inclusive, in equal steps."""
        count = round((stop - start) / step)
        if count < 1 or abs(start + count * step - stop) > 1e-9:
            raise ValueError(f"step {step!r} of control {key} must divide the way from {start!r} to {stop!r}")
        values = [round(start + i * step, 10) + 0.0 for i in range(count + 1)]  # + 0.0 turns -0.0 into 0.0
        return cls(key, label, values, default, unit, digits)

    @property
    def is_menu(self) -> bool:
        return isinstance(self.values[0], str)

    @property
    def start(self) -> int:
        """Position of the default."""
        return self.values.index(self.default)

    @property
    def texts(self) -> list[str]:
        """Each value as the reader sees it."""
        return [v if isinstance(v, str) else fixed(v, self.digits) + self.unit for v in self.values]
