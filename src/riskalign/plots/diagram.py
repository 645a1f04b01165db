"""How a reliability diagram is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from riskalign.equations.arrays import BoolArray, FloatArray
from riskalign.methods.band import FEWEST
from riskalign.plots.canvas import GID, GREY, SERIES, SMALL, bare, ink, n_diagrams
from riskalign.plots.display import FEW, OUTER, Dots, ReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP, BARS_HEIGHT = 0.17, 0.11
"""The strip below the curve, and the bars in it, as shares of the picture's height. A line of
text fits above the bars."""

TICKS = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1 - 1e-4, 1 - 1e-5])
"""Where a logit axis has numbers."""

SLIVER = 3
"""A band is drawn over this many consecutive points of a curve, or more."""

FEWER = f"fewer than {FEWEST:.0f} rows nearby"
FAINT: dict[str, Any] = {"lw": 1.6, "alpha": 0.75, "ls": (0, (1, 1.4))}
"""How a curve looks where few rows inform it, and in words."""


def draw(
    ax: Axes,
    display: ReliabilityDisplay,
    name: str | None,
    *,
    small: bool = False,
    keywords: dict[str, Any] | None = None,
) -> Any:
    """Draw a display, beside those that the Axes already has; its curve."""
    number = n_diagrams(ax)
    style = _style(number, name, keywords or {})
    if display.atoms is None:
        line = _curve(ax, display, style)
    else:
        line = _dots(ax, display, display.atoms, style, size=5.5, gid=GID)
    color = line.get_color()
    if display.bins is not None:
        label = display.bins.label if number == 0 else None
        pale = {"color": color, "alpha": 0.55, "lw": 1.0, "label": label, "mfc": "none"}
        _dots(ax, display, display.bins, pale, size=4.5)
    if number == 0:
        diagonal = ax.axline((0.5, 0.5), (0.6, 0.6), color=GREY, lw=1, ls=(0, (4, 3)), zorder=1)
        diagonal.set_label("perfect calibration")
    if display.atoms is None and not np.isfinite(display.conditional).any():
        text = f"fewer than {FEW} rows\nnear any place"
        ax.text(0.7, 0.4, text, transform=ax.transAxes, ha="center", color=GREY, fontsize=SMALL)
    _frame(ax, display, number, small)
    for artist in (*ax.lines, *ax.collections):
        above_the_strip(artist, ax)
    _strip(ax, display, number, small, color)
    if not small:
        _legend(ax)
    return line


def _style(number: int, name: str | None, keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords of the line; those of the user replace ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    color, dashes = SERIES[number % len(SERIES)]
    label = name or ("estimate" if number == 0 else f"estimate {number + 1}")
    color = ink() if color == "ink" else color
    ours = {"color": color, "linestyle": dashes, "linewidth": 1.8, "label": label}
    given = normalize_kwargs({k: v for k, v in keywords.items() if v is not None}, Line2D)
    return ours | given


def _curve(ax: Axes, display: ReliabilityDisplay, style: dict[str, Any]) -> Any:
    """The curve where enough rows inform it, the rest faintly, and its band."""
    first = n_diagrams(ax) == 0
    g, R = display.grid, display.drawn(display.conditional)
    informed = display.informed & np.isfinite(R)
    (line,) = ax.plot(g, np.where(informed, R, np.nan), gid=GID, **style)
    if (~informed & np.isfinite(R)).any():
        # a faint part begins where the other ends
        joined = ~informed | ~np.r_[True, informed[:-1]] | ~np.r_[informed[1:], True]
        label = FEWER if first else None
        if not informed.any():  # no other part stands for it in the legend
            label = f"{line.get_label()}: {FEWER}"
            line.set_label("_nothing")
        ax.plot(g, np.where(joined, R, np.nan), color=line.get_color(), label=label, **FAINT)
    if display.low is None or display.high is None:
        return line
    wide = without_slivers(np.isfinite(display.low))
    if wide.any():
        low, high = (np.where(wide, display.drawn(v), np.nan) for v in (display.low, display.high))
        label = f"{display.confidence:.0%} band, {display.band}" if first else None
        ax.fill_between(g, low, high, color=line.get_color(), alpha=0.2, lw=0, label=label)
    return line


def without_slivers(known: BoolArray) -> BoolArray:
    """Points of a band but those in runs too short to be seen as one.

    Examples
    --------
    >>> without_slivers(np.array([1, 1, 0, 1, 1, 1], dtype=bool)).astype(int).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    ends = np.flatnonzero(np.diff(np.r_[False, known, False].astype(int)))
    kept = np.zeros_like(known)
    for first, last in ends.reshape(-1, 2).tolist():
        kept[first:last] = last - first >= SLIVER
    return kept


def _dots(
    ax: Axes,
    display: ReliabilityDisplay,
    dots: Dots,
    style: dict[str, Any],
    size: float,
    gid: str | None = None,
) -> Any:
    """Groups of rows as dots, with their intervals."""
    low, R, high = (display.drawn(v) for v in (dots.low, dots.observed, dots.high))
    x = display.drawn(dots.predicted)
    style = {"marker": "o", "markersize": size, **style, "linestyle": "none"}
    (line,) = ax.plot(x, R, gid=gid, zorder=3, **style)
    if gid is None or display.band is not None:
        alpha = style.get("alpha", 0.8)
        first = gid is not None and n_diagrams(ax) == 1
        label = f"{display.confidence:.0%} interval, {display.band}" if first else ""
        ax.vlines(x, low, high, color=line.get_color(), lw=1.2, alpha=alpha, zorder=2, label=label)
    return line


def above_the_strip(artist: Any, ax: Axes) -> None:
    """Keep a curve out of the strip below the diagram."""
    from matplotlib.transforms import Bbox, TransformedBbox

    box = Bbox.from_extents(-0.02, STRIP - 0.015, 1.02, 1.02)
    artist.set_clip_box(TransformedBbox(box, ax.transAxes))


def _frame(ax: Axes, display: ReliabilityDisplay, number: int, small: bool) -> None:
    """Limits and ticks; the strip for the predictions lies below the curve's own range."""
    bare(ax)
    ax.set_box_aspect(1 / (1 - STRIP))
    if display.scale == "linear":
        ticks = np.linspace(0, 1, 3 if small else 6)
        labels = [f"{tick:g}" for tick in ticks.round(2)]
        across = up = (0.0, 1.0)
        reach = 1 / (1 - STRIP) - 1
        ax.set_xlim(-0.01, 1.01)
        ax.set_ylim(-0.01 - 1.02 * reach, 1.01)
    else:
        across = _joined(display.ends, ax.spines["bottom"].get_bounds() if number else None)
        up = _joined(across, _reach(display))
        up = _joined(up, ax.spines["left"].get_bounds() if number else None)
        low, high = logit(up)
        ax.set_xscale("logit")
        ax.set_yscale("logit")
        ax.set_xlim(*across)
        ax.set_ylim(float(expit(low - (high - low) * (1 / (1 - STRIP) - 1))), up[1])
        crowded = np.count_nonzero((across[0] <= TICKS) & (across[1] >= TICKS)) > 7
        ticks = TICKS[3:-3:2] if small else TICKS[1::2] if crowded else TICKS
        labels = [f"{tick:.5f}".rstrip("0") for tick in ticks]
        ax.minorticks_off()
    for axis, (low, high) in ((ax.xaxis, across), (ax.yaxis, up)):
        inside = (ticks >= low) & (ticks <= high)
        axis.set_ticks(ticks[inside], [t for t, kept in zip(labels, inside, strict=True) if kept])
    ax.spines["bottom"].set_bounds(*across)
    ax.spines["left"].set_bounds(*up)


def _reach(display: ReliabilityDisplay) -> FloatArray:
    """The lowest and the highest number that is drawn, within the ends of a logit axis."""
    parts = [np.array([0.5]), display.conditional]
    parts += [end for end in (display.low, display.high) if end is not None]
    parts += [
        end for dots in (display.atoms, display.bins) if dots for end in (dots.low, dots.high)
    ]
    every = np.concatenate(parts)
    return np.clip([np.nanmin(every), np.nanmax(every)], OUTER, 1 - OUTER)


def _joined(a: tuple[float, float], b: Any) -> tuple[float, float]:
    """The range that holds both."""
    return a if b is None else (min(a[0], float(b[0])), max(a[1], float(b[1])))


def _strip(ax: Axes, display: ReliabilityDisplay, number: int, small: bool, color: Any) -> None:
    """Where predictions lie: bars as high as the strip, the first model's filled."""
    tallest = display.shares.max()
    ax.stairs(
        display.shares / tallest * BARS_HEIGHT,
        display.edges,
        transform=ax.get_xaxis_transform(),
        fill=number == 0,
        color=color,
        alpha=0.45 if number == 0 else 0.9,
        zorder=2,
    )
    if small:
        return
    if number == 0:
        text = f"{display.n_samples:,} predictions, {tallest:.0%} in the tallest bar"
        ax.text(0.5, BARS_HEIGHT + 0.01, text, transform=ax.transAxes, ha="center")
        ax.texts[-1].set(fontsize=SMALL, color=GREY, gid=GID)
    else:  # of several models, no number of one
        for note in ax.texts:
            if note.get_gid() == GID:
                note.set_text("predictions of each model")


def legend_of_all(axes: Sequence[Axes]) -> None:
    """One legend below the diagrams of a figure: each kind of mark once."""
    found: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    figure = axes[0].get_figure()
    assert figure is not None
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=min(len(found), 2 * len(axes), 4),
        frameon=False,
        fontsize=SMALL + 1,
    )


def _legend(ax: Axes) -> None:
    """The legend, in the upper left corner unless a curve is there."""
    to_axes = ax.transData + ax.transAxes.inverted()
    from matplotlib.collections import LineCollection

    drawn = [line.get_xydata() for line in ax.lines if line.get_gid() == GID]
    for bars in ax.collections:  # of dots
        drawn += bars.get_segments() if isinstance(bars, LineCollection) else []
    points = to_axes.transform(np.concatenate(drawn))
    taken = ((points[:, 0] < 0.5) & (points[:, 1] > 0.75)).any()
    place: dict[str, Any] = {"loc": "upper left"}
    if taken:
        place = {"loc": "lower right", "bbox_to_anchor": (1.0, STRIP)}
    handles, labels = ax.get_legend_handles_labels()
    # Curves first, then what the first of them brought with it.
    order = sorted(range(len(handles)), key=lambda i: handles[i].get_gid() != GID)
    ax.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        frameon=False,
        fontsize=SMALL + 1,
        **place,
    )
