"""A criterion against the bandwidth, with its minimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from riskalign.bandwidth.result import BandwidthSearch, Curve
from riskalign.equations.arrays import FloatArray
from riskalign.plots.canvas import (
    BLUE,
    GREY,
    ORANGE,
    SERIES,
    axes_for,
    bare,
    ink,
    legend_above,
    number,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bandwidth_curve(search: BandwidthSearch, *, ax: Axes | None = None) -> Axes:
    """Draw a criterion against the bandwidth, with the choice marked.

    One curve is drawn as it is. Class-wise searches have one per class, each scaled from its
    minimum, 0, to its maximum, 1: up to six as curves, more as their median and the band of
    the middle 80%, with the choices as a rug.

    Parameters
    ----------
    search : BandwidthSearch
        From `select_bandwidth`, or a result's `search`.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(300, 3, seed=0)
    >>> search = ra.select_bandwidth(data.y_true, data.y_prob, notion="canonical")
    >>> ra.plots.bandwidth_curve(search).get_xlabel()
    'bandwidth h'
    """
    ax = axes_for(ax, 5.5, 3.8)
    curves = search.curves
    if len(curves) == 1:
        _draw_one(ax, curves[0])
        ax.set_ylabel(f"{search.criterion}: objective")
    else:
        if len(curves) <= len(SERIES):
            _draw_each(ax, curves)
        else:
            _draw_spread(ax, curves)
        ax.set_ylabel(f"{search.criterion}: objective,\nfrom its minimum (0) to its maximum (1)")
        ax.set_ylim(-0.04, 1.04)
    ax.set_xscale("log")
    ax.set_xlabel("bandwidth h")
    bare(ax)
    return ax


def _draw_one(ax: Axes, curve: Curve) -> None:
    ax.plot(curve.candidates, curve.objective, color=BLUE, marker=".", markersize=4, lw=1.5)
    reached = float(np.interp(curve.value, curve.candidates, curve.objective))
    edge = ", the edge of its range" if curve.at_edge else ""
    coordinates = "" if curve.flattening == 1 else f"\nkernel sees f^{number(curve.flattening)}"
    ax.axvline(curve.value, color=ORANGE, lw=1, ls="--", zorder=0)
    ax.plot(
        [curve.value],
        [reached],
        "o",
        color=ORANGE,
        label=f"h = {number(curve.value)}{edge}{coordinates}",
    )
    ax.legend(frameon=False, loc="upper center")


def _scaled(curve: Curve) -> FloatArray:
    """The objective from 0 to 1; 0 throughout if it is flat."""
    span = float(np.ptp(curve.objective))
    return (curve.objective - curve.objective.min()) / (span if span > 0 else 1.0)


def _draw_each(ax: Axes, curves: tuple[Curve, ...]) -> None:
    for curve, (color, dashes) in zip(curves, SERIES, strict=False):
        color = ink() if color == "ink" else color
        label = f"class {curve.name}: h = {number(curve.value)}" + (
            " (edge)" if curve.at_edge else ""
        )
        ax.plot(curve.candidates, _scaled(curve), color=color, ls=dashes, lw=1.5, label=label)
        ax.plot([curve.value], [0.0], "o", color=color, clip_on=False)
    legend_above(ax)


def _draw_spread(ax: Axes, curves: tuple[Curve, ...]) -> None:
    low = max(curve.candidates[0] for curve in curves)
    high = min(curve.candidates[-1] for curve in curves)
    h = np.geomspace(low, high, 200)
    scaled = np.array([np.interp(np.log(h), np.log(c.candidates), _scaled(c)) for c in curves])
    low_band, median, high_band = np.quantile(scaled, [0.1, 0.5, 0.9], axis=0)
    ax.fill_between(h, low_band, high_band, color=BLUE, alpha=0.2, lw=0, label="middle 80%")
    ax.plot(h, median, color=BLUE, lw=1.5, label=f"median of {len(curves):,} classes")
    chosen = np.array([curve.value for curve in curves])
    edges = sum(curve.at_edge for curve in curves)
    ax.plot(
        chosen,
        np.zeros(len(chosen)),
        "|",
        color=ORANGE,
        markersize=14,
        alpha=max(0.15, min(1.0, 30 / len(chosen))),
        clip_on=False,
    )
    label = f"choices, median {number(float(np.median(chosen)))}"
    ax.plot([], [], "|", color=ORANGE, markersize=14, label=label)
    if edges:
        ax.plot([], [], " ", label=f"{edges:,} at the edge of the range", color=GREY)
    legend_above(ax)
