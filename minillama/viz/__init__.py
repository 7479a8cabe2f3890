"""Figures and explorers of the book. Matplotlib and ipywidgets are imported when something is drawn."""

from . import marks
from .chapter01 import loudspeakers, norm_walkthrough
from .chapter02 import rope_clock, rope_wavelengths
from .chapter03 import gated_unit, slopes
from .chapter04 import softmax_hill, softmax_rows, trained_heads
from .chapter05 import head_sharing, memories
from .chapter06 import residual_streams
from .chapter07 import model_bill
from .chapter08 import next_token
from .chapter09 import einsum_letters
from .chapter10 import schedule, valley
from .chapter11 import token_growth
from .chapter12 import training_run
from .chapter13 import sampling_filters
from .chapter14 import head_map
from .controls import Control
from .formula_explorer import formula
from .frame_explorer import frames
from .results import recorded, recorded_folder
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
    "einsum_letters",
    "formula",
    "frames",
    "gated_unit",
    "head_map",
    "head_sharing",
    "label",
    "loudspeakers",
    "marks",
    "memories",
    "model_bill",
    "next_token",
    "norm_walkthrough",
    "rc_params",
    "recorded",
    "recorded_folder",
    "residual_streams",
    "rope_clock",
    "rope_wavelengths",
    "sampling_filters",
    "schedule",
    "slopes",
    "softmax_hill",
    "softmax_rows",
    "token_growth",
    "trained_heads",
    "training_run",
    "use_style",
    "valley",
]
