"""Figures and explorers of the book. Matplotlib and ipywidgets are imported when something is drawn."""

from . import marks
from .chapter01 import loudspeakers, norm_walkthrough
from .chapter05 import head_sharing, memories
from .controls import Control
from .formula_explorer import formula
from .frame_explorer import frames
from .results import recorded
from .style import (
    BLUE,
    FIGURE_SIZE,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    PALETTE,
    PAPER,
    PURPLE,
    SKY,
    VERMILLION,
    label,
    rc_params,
    use_style,
)

__all__ = [
    "BLUE",
    "FIGURE_SIZE",
    "GREEN",
    "GRID",
    "INK",
    "MUTED",
    "ORANGE",
    "PALETTE",
    "PAPER",
    "PURPLE",
    "SKY",
    "VERMILLION",
    "Control",
    "formula",
    "frames",
    "head_sharing",
    "label",
    "loudspeakers",
    "marks",
    "memories",
    "norm_walkthrough",
    "rc_params",
    "recorded",
    "use_style",
]
