"""One look for every figure: palette, sizes, quiet axes. Nothing changes until `use_style()` is called."""

# Okabe-Ito hues, told apart by color-blind readers; a second cue (marker, dash, label) always goes with them.
PALETTE = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "ink": "#1f2328",
    "muted": "#57606a",
    "grid": "#d8dee4",
    "paper": "#ffffff",
}
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK, MUTED, GRID, PAPER = PALETTE.values()
FIGURE_SIZE = (5.2, 3.1)
DPI = 96  # one CSS pixel per dot; notebooks draw at twice this, so that phones show it sharp

_RC = {
    "figure.figsize": FIGURE_SIZE,
    "figure.dpi": DPI,
    "savefig.dpi": "figure",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same letters on every machine
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "legend.fontsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
}


def _cycle():
    from matplotlib import cycler

    colors = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY]
    return cycler(color=colors) + cycler(linestyle=["-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1))])


def rc_params() -> dict:
    """The settings, for `matplotlib.rc_context(rc_params())`."""
    return {**_RC, "axes.prop_cycle": _cycle()}


def use_style() -> None:
    """Give all figures drawn from now on the look of the book."""
    import matplotlib as mpl

    mpl.rcParams.update(rc_params())
    try:
        from IPython import get_ipython
        from matplotlib_inline.config import InlineBackend
    except ImportError:
        return
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    inline = InlineBackend.instance(parent=shell)
    inline.rc = {}
    # Exactly the size asked for, without the version stamp that would change the bytes.
    inline.print_figure_kwargs = {"bbox_inches": None, "metadata": {"Software": None}}
    inline.figure_formats = {"retina"}


def label(ax, x, y, text, color=INK, *, dx=6, dy=0, ha="left", va="center", **kwargs):
    """Write `text` at the data point (x, y), `dx`, `dy` points away: a direct label instead of a legend."""
    return ax.annotate(
        text,
        (x, y),
        xytext=(dx, dy),
        textcoords="offset points",
        color=color,
        ha=ha,
        va=va,
        annotation_clip=False,
        **kwargs,
    )
