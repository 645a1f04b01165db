"""The numbers of a reliability diagram, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from riskalign.data.validation import one_of
from riskalign.equations.arrays import FLOOR, BoolArray, FloatArray
from riskalign.equations.kernels import DIRICHLET, KERNELS, Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex, tempered
from riskalign.estimate import reliability_curve
from riskalign.plots.canvas import GREY, SERIES, SMALL, bare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 5
"""Samples below which a place counts as empty: those within the kernel's width, and those that
share the average."""

NEAR = 0.1
"""The share of the widest bandwidth within whose width a prediction must lie: wider kernels see
across gaps."""

POINTS = 201
"""Points of a curve."""

BARS = 25
"""Bars that count predictions."""

ATOMS = 100
"""Distinct predictions up to which each is a point of the curve."""

OUTER = 1e-5
"""Where a logit axis ends at the latest; what lies beyond is counted in the last bar."""

STRIP, BARS_HEIGHT = 0.17, 0.11
"""The shares of the picture's height below the curve, and of its bars there: a line of text
fits above them."""

GID = "riskalign curve"
"""Marks the curves of an Axes, so that another one is drawn differently."""

TICKS = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1 - 1e-4, 1 - 1e-5])
"""Where a logit axis has numbers."""


@dataclass(frozen=True)
class Diagram:
    """The numbers of a diagram; NaN where the curve is not shown.

    Attributes
    ----------
    grid, conditional, low, high : (m,)
    edges, shares : of the bars, (b + 1,) and (b,)
    ends : where the axis begins and ends
    """

    grid: FloatArray
    conditional: FloatArray
    low: FloatArray
    high: FloatArray
    edges: FloatArray
    shares: FloatArray
    ends: tuple[float, float]
    scale: str
    confidence: float
    n_samples: int

    @classmethod
    def of(
        cls, problem: Problem, scale: str, confidence: float, options: dict[str, Any]
    ) -> Diagram:
        """Compute the curve, and count predictions."""
        p = problem.predictions
        if one_of("scale", scale, ("linear", "logit")) == "linear":
            ends, grid, edges = (0.0, 1.0), np.linspace(0, 1, POINTS), np.linspace(0, 1, BARS + 1)
        else:
            ends = _logit_ends(p)
            low, high = logit(ends)
            grid, edges = (
                expit(np.linspace(low, high, POINTS)),
                expit(np.linspace(low, high, BARS + 1)),
            )
        atoms = np.unique(p)
        if len(atoms) <= ATOMS:
            grid = np.union1d(grid, atoms[(atoms >= ends[0]) & (atoms <= ends[1])])
        curve = reliability_curve(
            problem.labels,
            p,
            grid=grid,
            notion="binary",
            sample_weight=problem.weights,
            progress=False,
            **options,
        )
        bands = curve.band(confidence)
        kernel = KERNELS[options.get("kernel", DIRICHLET.name)]
        h, tau = float(np.max(curve.bandwidth)), float(np.max(curve.flattening))  # one each
        within = _within_reach(problem, grid, kernel, h, tau)
        empty = np.minimum(curve.effective_samples, within) < FEW
        narrow = min(h, NEAR * kernel.bandwidth_range(2)[1])
        empty |= _within_reach(problem, grid, kernel, narrow, 1.0) == 0
        R, low, high = (np.where(empty, np.nan, v) for v in (curve.conditional, *bands))
        counts, _ = np.histogram(np.clip(p, edges[0], edges[-1]), edges, weights=problem.weights)
        shares = counts / problem.weights.sum()
        return cls(grid, R, low, high, edges, shares, ends, scale, confidence, len(p))

    @property
    def shown(self) -> BoolArray:
        """Where the curve is."""
        return np.isfinite(self.conditional)

    @property
    def heights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The curve and its band as drawn: 0 and 1 are just beyond the ends of a logit axis."""
        heights = (self.conditional, self.low, self.high)
        if self.scale == "linear":
            return heights
        R, low, high = (np.clip(v, OUTER / 10, 1 - OUTER / 10) for v in heights)
        return R, low, high

    @property
    def alone(self) -> BoolArray:
        """Points whose neighbours are not shown: no line reaches them."""
        padded = np.concatenate([[False], self.shown, [False]])
        return self.shown & ~padded[:-2] & ~padded[2:]


def _within_reach(
    problem: Problem, grid: FloatArray, kernel: Kernel, h: float, tau: float
) -> FloatArray:
    """Samples within one kernel width of each point of a grid, ``(m,)``.

    The tails of a wide kernel reach across gaps: a count tells a gap from a place that has
    predictions, the sum of weights does not.
    """

    def position(p: FloatArray) -> FloatArray:
        coordinates = tempered(on_simplex(p), tau)[:, 1]
        return kernel.coordinate(np.clip(coordinates, FLOOR, 1 - FLOOR), h)

    order = np.argsort(problem.predictions)
    placed, weights = position(problem.predictions[order]), problem.weights[order]
    below = np.concatenate([[0.0], np.cumsum(weights)])
    x = position(grid)
    inside = below[np.searchsorted(placed, x + 1, "right")] - below[np.searchsorted(placed, x - 1)]
    return inside * weights.sum() / (weights @ weights)


def _logit_ends(p: FloatArray) -> tuple[float, float]:
    """Where a logit axis begins and ends: around nearly all predictions, and around 1/2."""
    inside = np.clip(p, OUTER, 1 - OUTER)
    low, high = np.quantile(inside, [0.001, 0.999])
    return min(float(low), 0.4), max(float(high), 0.6)


def draw(ax: Axes, diagram: Diagram, name: str | None, *, small: bool = False) -> None:
    """Draw a diagram, beside those that the Axes already has."""
    number = sum(line.get_gid() == GID for line in ax.lines)
    color, dashes = SERIES[number % len(SERIES)]
    g, (R, low, high) = diagram.grid, diagram.heights
    label = name or ("estimate" if number == 0 else f"estimate {number + 1}")
    artists: list[Any] = ax.plot(g, R, color=color, ls=dashes, lw=1.8, label=label, gid=GID)
    band = None if number else f"{diagram.confidence:.0%} band, pointwise"
    artists.append(ax.fill_between(g, low, high, color=color, alpha=0.22, lw=0, label=band))
    if number == 0:
        diagonal = ax.axline((0.5, 0.5), (0.6, 0.6), color=GREY, lw=1, zorder=1)
        diagonal.set_label("perfect calibration")
        artists.append(diagonal)
    alone = diagram.alone
    if alone.any():
        reach = [R[alone] - low[alone], high[alone] - R[alone]]
        ax.errorbar(g[alone], R[alone], reach, fmt="o", color=color, ms=4, lw=1.2)
    if not diagram.shown.any():
        text = f"fewer than {FEW} samples\nnear any place"
        ax.text(0.7, 0.4, text, transform=ax.transAxes, ha="center", color=GREY, fontsize=SMALL)
    _frame(ax, diagram, number, small)
    for artist in artists:
        above_the_strip(artist, ax)
    _strip(ax, diagram, number, small)
    if not small:
        _legend(ax)


def above_the_strip(artist: Any, ax: Axes) -> None:
    """Keep a curve out of the strip, where it would say nothing."""
    from matplotlib.transforms import Bbox, TransformedBbox

    artist.set_clip_box(TransformedBbox(Bbox.from_extents(0.0, STRIP, 1.0, 1.0), ax.transAxes))


def _frame(ax: Axes, diagram: Diagram, number: int, small: bool) -> None:
    """Limits and ticks; the strip for the predictions lies below the curve's own range."""
    bare(ax)
    ax.set_box_aspect(1 / (1 - STRIP))
    if diagram.scale == "linear":
        ticks = np.linspace(0, 1, 3 if small else 6)
        labels = [f"{tick:g}" for tick in ticks.round(2)]
        across = up = (0.0, 1.0)
        reach = 1 / (1 - STRIP) - 1
        ax.set_xlim(-0.01, 1.01)
        ax.set_ylim(-0.01 - 1.02 * reach, 1.01)
    else:
        across = _joined(diagram.ends, ax.spines["bottom"].get_bounds() if number else None)
        curve = (np.nanmin(diagram.low, initial=0.5), np.nanmax(diagram.high, initial=0.5))
        up = _joined(across, np.clip(curve, OUTER, 1 - OUTER))
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


def _joined(a: tuple[float, float], b: Any) -> tuple[float, float]:
    """The range that holds both."""
    return a if b is None else (min(a[0], float(b[0])), max(a[1], float(b[1])))


def _strip(ax: Axes, diagram: Diagram, number: int, small: bool) -> None:
    """Where predictions lie: bars as high as the strip, the first model's filled."""
    color, dashes = SERIES[number % len(SERIES)]
    tallest = diagram.shares.max()
    ax.stairs(
        diagram.shares / tallest * BARS_HEIGHT,
        diagram.edges,
        transform=ax.get_xaxis_transform(),
        fill=number == 0,
        color=color,
        ls="-" if number == 0 else dashes,
        alpha=0.45 if number == 0 else 1.0,
        zorder=2,
    )
    if number == 0 and not small:
        text = f"{diagram.n_samples:,} predictions, {tallest:.0%} in the tallest bar"
        ax.text(0.5, BARS_HEIGHT + 0.01, text, transform=ax.transAxes, ha="center")
        ax.texts[-1].set(fontsize=SMALL, color=GREY)


def _legend(ax: Axes) -> None:
    """The legend, in the upper left corner unless a curve is there."""
    to_axes = ax.transData + ax.transAxes.inverted()
    curves = [line.get_xydata() for line in ax.lines if line.get_gid() == GID]
    points = to_axes.transform(np.concatenate(curves))
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
