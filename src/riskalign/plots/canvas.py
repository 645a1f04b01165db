"""What all pictures share: an Axes to draw on, colours, and short numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("ink", (0, (5, 1, 1, 1, 1, 1))),
    ("#E69F00", (0, (8, 2))),
)
"""Colours (Okabe and Ito's, told apart by the colour-blind) and dashes, which tell curves
apart in print. "ink" is the colour of text, see `ink`."""

BLUE, ORANGE = SERIES[0][0], SERIES[1][0]
GREY = "0.5"
"""Readable on white and on black."""

SMALL = 8
"""Points of notes inside a picture."""


GID = "riskalign curve"
"""Marks the curves of an Axes, so that another one is drawn differently."""


def n_diagrams(ax: Axes) -> int:
    """Number of reliability diagrams that an Axes has."""
    return sum(line.get_gid() == GID for line in ax.lines)


def axes_for(ax: Axes | None, width: float = 5.0, height: float = 5.0) -> Axes:
    """The Axes given, or that of a new figure of some inches."""
    if ax is not None:
        return ax
    _, ax = pyplot().subplots(figsize=(width, height), layout="constrained")
    return ax


def pyplot() -> Any:
    """Matplotlib's pyplot, which makes figures that notebooks show."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise ImportError("Pictures need matplotlib: pip install 'riskalign[plots]'.") from None
    return plt


def ink() -> Any:
    """The colour of text in matplotlib's current style: black, or white in a dark one."""
    import matplotlib as mpl

    return mpl.rcParams["text.color"]


def grid_of_axes(n: int) -> npt.NDArray[Any]:
    """Axes of a new figure, up to four in a row."""
    plt = pyplot()
    n_columns = min(n, 4)
    n_rows = -(-n // n_columns)
    size = (0.6 + 2.2 * n_columns, 0.5 + 2.6 * n_rows)
    _, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    for unused in axes.flat[n:]:
        unused.remove()
    return axes.ravel()[:n]


def bare(ax: Axes, *sides: str) -> None:
    """Take away lines around the picture that carry nothing."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


def legend_above(ax: Axes) -> None:
    """A legend where nothing is drawn for sure."""
    ax.legend(frameon=False, fontsize=SMALL, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def number(value: float) -> str:
    """A number with three significant digits."""
    return f"{value:.3g}"
