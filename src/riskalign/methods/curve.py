"""The estimate of E[y | f] as a curve, with the band that chance allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.case import Case
from riskalign.data.notions import Notion
from riskalign.data.validation import ROW_SUM_TOLERANCE
from riskalign.display import svg
from riskalign.display.notebook import framed
from riskalign.display.table import Row
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import KERNELS, Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed, mirrored, on_simplex
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods.band import (
    JointSpread,
    KernelMatrices,
    Spread,
    inhabited,
    samples_nearby,
    spread_of,
)
from riskalign.methods.finer import mixed_at
from riskalign.methods.kernel import KernelSmoother
from riskalign.methods.residuals import Debiased, Started
from riskalign.smoothing import Smoother, Support, choose_smoother, condensed
from riskalign.smoothing.operator import ALONE

STEP = 10
"""A notebook lists every tenth point of a curve."""

COUNTS = ("effective_samples", "nearby_samples", "local_samples")
"""Numbers of samples that a curve knows at each point."""


MOST_POINTS = 1_000_000
"""Points of a grid that is given by their number."""


@dataclass(frozen=True, repr=False)
class ReliabilityCurve:
    """The estimate of E[y | f] at points of the user's choice.

    Attributes
    ----------
    grid : (m,) probabilities, or (m, K) points of the simplex for canonical curves
    conditional : (m,); class-wise (m, K), one column per class; canonical (m, K). NaN where no
        prediction lies near the point: `local_samples` is 0 there. At 0 and 1, of which
        predictions come near without being there, the curve stays where enough of them end.
    density : the estimated density of predictions at the grid, (m,) or (m, K) class-wise
    effective_samples : how many samples share the average, (sum w)^2 / sum w^2, in the shape
        of `density`
    nearby_samples : samples counted by their weight over that of a sample at the point
        itself, in the shape of `density`: near 0 where there is no prediction
    local_samples : samples within a short distance of the point, in the shape of `density`:
        within 0.07 of 1/2, and less far near 0 and 1 and for narrow kernels. There is no band
        where they are fewer than 30.
    bandwidth : the bandwidth, one per class for class-wise curves
    flattening : the power of f that the kernel saw, 1 for f itself, in the shape of `bandwidth`
    classes : names

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.calibrated(2000, 2, seed=0)
    >>> curve = ra.reliability_curve(data.y_true, data.y_prob[:, 1], estimator="debiased")
    >>> low, high = curve.band(confidence=0.95)
    >>> shown = low == low  # the band is NaN where too few rows are near
    >>> bool((low <= curve.conditional)[shown].all())
    True
    """

    grid: FloatArray
    conditional: FloatArray
    density: FloatArray
    effective_samples: FloatArray
    nearby_samples: FloatArray
    local_samples: FloatArray
    bandwidth: float | FloatArray
    flattening: float | FloatArray
    classes: tuple[str, ...]
    spreads: Sequence[Callable[[], Spread | JointSpread]] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """One line."""
        h = np.ravel(self.bandwidth)
        table = self.conditional.reshape(len(self.grid), -1)
        known = int(np.isfinite(table).any(axis=1).sum())
        low, high = f"{h.min():.3g}", f"{h.max():.3g}"
        return (
            f"<ReliabilityCurve: {len(self.grid)} points, {known} with predictions near, "
            f"{len(h)} curve{'s' if len(h) > 1 else ''}, bandwidth "
            f"{low if low == high else f'{low} to {high}'}>"
        )

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks: the first class of several."""
        if self.grid.ndim == 2:
            known = np.isfinite(self.conditional).all(axis=1)
            share = svg.split_bar(float(known.mean()))
            return framed("Reliability curve of whole vectors", repr(self)[1:-1], [], share)
        low, high = (self if self.conditional.ndim == 1 else self.of_class(0)).band()
        columns = (self.grid, self._first, low, high)
        rows = [
            Row(f"{p:.2f}", f"{R:.3f}", f"{a:.3f} to {b:.3f}" if np.isfinite(a) else "")
            for p, R, a, b in zip(*(column[::STEP] for column in columns), strict=True)
            if np.isfinite(R)
        ]
        picture = svg.reliability(self.grid, self._first, low, high)
        return framed("Reliability curve: predicted, observed, 95% band", "", rows, picture)

    @property
    def _first(self) -> FloatArray:
        return self.conditional if self.conditional.ndim == 1 else self.conditional[:, 0]

    def band(
        self, confidence: float = 0.95, kind: str = "pointwise"
    ) -> tuple[FloatArray, FloatArray]:
        """An interval of `conditional` at every point of the grid.

        It allows for the noise of the whole fit, of the start and of the smoothed residuals,
        and for the bias of smoothing as far as the data show it; see
        `riskalign.methods.band`. It is NaN where fewer than 30 samples lie near a point:
        so few do not tell how far off the curve may be.

        Parameters
        ----------
        confidence : float
            How often the band holds E[y | f].
        kind : {"pointwise", "simultaneous"}
            At each point of the grid, or at all of its points at once (of class-wise curves:
            for each class). Canonical curves have pointwise bands only, from
            `effective_samples` alone.

        Returns
        -------
        low, high : arrays in the shape of `conditional`

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.calibrated(2000, 2, seed=0)
        >>> curve = ra.reliability_curve(data.y_true, data.y_prob[:, 1], grid=[0.2, 0.5])
        >>> low, high = curve.band()
        >>> lowest, highest = curve.band(kind="simultaneous")
        >>> bool((lowest < low).all() and (high < highest).all())
        True
        """
        found = [spread.band(confidence, kind) for spread in self._spreads]
        if self.conditional.ndim == 1 or self.grid.ndim == 2:
            return found[0]
        low, high = (np.stack(ends, axis=1) for ends in zip(*found, strict=True))
        return low, high

    @cached_property
    def _spreads(self) -> list[Spread | JointSpread]:
        return [spread() for spread in self.spreads]

    def of_class(self, k: int) -> ReliabilityCurve:
        """The curve of one class of a class-wise curve, by its column.

        Its band is computed without those of the other classes.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(500, 3, seed=0)
        >>> curve = ra.reliability_curve(data.y_true, data.y_prob, grid=[0.2, 0.5, 0.8])
        >>> curve.of_class(2).conditional.shape
        (3,)
        """
        if self.grid.ndim == 2 or self.conditional.ndim == 1:
            raise ValueError("`of_class` is for class-wise curves; this one is of one problem.")
        of_grid = ("conditional", "density", *COUNTS)
        own: dict[str, Any] = {name: getattr(self, name)[:, k] for name in of_grid}
        for name in ("bandwidth", "flattening"):
            own[name] = float(np.ravel(getattr(self, name))[k])
        return replace(self, **own, spreads=[self.spreads[k]])


def curve_of(
    case: Case, method: KernelSmoother, points: FloatArray, engine: str, progress: bool | None
) -> ReliabilityCurve:
    """R at points, of smoothed labels or of a start and its smoothed residuals."""
    if method.smooths_residuals and method.chooses_by_risk:
        estimates = method.outcome(case, engine, progress).residuals
        assert estimates is not None
        weighted = [each.tunings for each in estimates]
        return curve_by(case, method, weighted, points, engine, estimates)
    tunings, _ = method.tunings(case, engine, progress)
    weighted = [WeightedTunings.given(tuning) for tuning in tunings]
    return curve_by(case, method, weighted, points, engine)


def curve_by(
    case: Case,
    method: KernelSmoother,
    weighted: Sequence[WeightedTunings],
    points: FloatArray,
    engine: str = "auto",
    known: Sequence[Debiased | None] | None = None,
) -> ReliabilityCurve:
    """R at points, by tunings that are known: the weighted mean of what they give.

    The estimates whose curves they are may be known too.
    """
    matrices = KernelMatrices(KERNELS[method.kernel], points)
    known = known or [None] * len(case.problems)
    found = [
        _part(_Fitted(problem, method, own, engine, estimate), matrices)
        for problem, own, estimate in zip(case.problems, weighted, known, strict=True)
    ]
    gathered, number = case.notion.gathered, case.notion.number
    return ReliabilityCurve(
        grid=points,
        conditional=gathered([part.conditional for part in found]),
        density=gathered([part.support.density for part in found]),
        effective_samples=gathered([part.support.effective for part in found]),
        nearby_samples=gathered([part.support.nearby for part in found]),
        local_samples=gathered([part.local for part in found]),
        bandwidth=number([own.best.bandwidth for own in weighted]),
        flattening=number([own.best.flattening for own in weighted]),
        classes=case.sample.classes,
        spreads=[part.spread for part in found],
    )


@dataclass(frozen=True)
class _Part:
    """The curve of one problem: NaN where `local` is 0."""

    conditional: FloatArray  # (m,), or (m, K) of a joint problem
    support: Support
    local: FloatArray  # (m,)
    spread: Callable[[], Spread | JointSpread]


def _part(fitted: _Fitted, matrices: KernelMatrices) -> _Part:
    problem, points = fitted.problem, matrices.points
    if not problem.one_dimensional:
        R, support = fitted.at(points)
        local = np.where(support.nearby < ALONE, 0.0, support.nearby)
        R = np.where(local[:, None] > 0, R, np.nan)
        return _Part(R, support, local, partial(JointSpread, R, support.effective))
    h = fitted.weighted.best.bandwidth
    local = samples_nearby(problem, points, h)
    points = inhabited(problem, points, h)
    R, support = fitted.at(points)
    R = np.where(local > 0, R[:, 1], np.nan)
    return _Part(R, support, local, partial(fitted.spread, matrices.moved(points), local))


def curve_of_problem(
    problem: Problem,
    method: KernelSmoother,
    weighted: WeightedTunings,
    points: FloatArray,
    engine: str,
    known: Debiased | None = None,
) -> tuple[FloatArray, Support]:
    """R of one problem at points, ``(m,)`` or ``(m, K)``, as ``(m, K)``, and its support."""
    return _Fitted(problem, method, weighted, engine, known).at(points)


@dataclass(frozen=True)
class _Fitted:
    """The curve of one problem: what does not depend on its points is computed once."""

    problem: Problem
    method: KernelSmoother
    weighted: WeightedTunings
    engine: str
    estimate: Debiased | None = None  # whose curve it is

    @property
    def started(self) -> Started | None:
        return None if self.estimate is None else self.estimate.started

    @property
    def kernel(self) -> Kernel:
        return KERNELS[self.method.kernel]

    @cached_property
    def rows(self) -> Problem:
        """The rows that are smoothed; those of a curve of residuals may be nodes."""
        if not self.method.smooths_residuals:
            return self.problem
        if self.started is not None:
            return self.started.problem
        return condensed(self.problem, self.kernel, self.engine)

    @cached_property
    def smoother(self) -> Smoother:
        return choose_smoother([self.rows], self.kernel, self.engine)

    @cached_property
    def fit(self) -> FittedStart:
        if self.started is not None:
            return self.started.fit
        return FittedStart.of(self.rows, STARTS[self.method.start])

    @cached_property
    def residuals(self) -> FloatArray:
        return self.rows.columns() - self.fit.at(self.rows.predictions)

    def at(self, points: FloatArray) -> tuple[FloatArray, Support]:
        """See `curve_of_problem`; the support is that of the tuning of the largest weight."""
        x, weighted = on_simplex(points), self.weighted
        if not self.method.smooths_residuals:
            nothing = np.empty((len(self.rows.labels), 0))
            _, support = self.smoother.averages_at(nothing, (0, weighted.best), x)
            return self.smoother.at((0, weighted.best), x).mean, support
        g = self.fit.at(points)
        start = completed(g)
        R, best = np.zeros_like(start), None
        for tuning, weight in zip(weighted.tunings, weighted.weights, strict=True):
            q, support = self.smoother.averages_at(self.residuals, (0, tuning), x)
            R += weight * shown_of(start, mirrored(q))
            best = support if tuning == weighted.best else best
        assert best is not None
        if self.estimate is not None:
            R = mixed_at(self.estimate, points, R)
        return np.minimum(R, 1.0), best

    def spread(self, matrices: KernelMatrices, local: FloatArray) -> Spread:
        """How far the curve of one probability may be from the truth; see `spread_of`."""
        fit = self.fit if self.method.smooths_residuals else None

        def estimate(p: FloatArray) -> FloatArray:
            return self.at(p)[0][:, 1]

        return spread_of(self.problem, fit, self.weighted, estimate, matrices, local)


def shown_of(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """The start and its smoothed residuals ``(m, K)``, cut at the simplex.

    Estimates keep R away from 0, because a loss may take its logarithm. A curve takes none, and
    shows 0 and 1 where the labels say so.
    """
    R = np.maximum(start + smoothed, 0.0)
    R /= R.sum(axis=1, keepdims=True)
    return np.minimum(R, 1.0)


def grid_points(grid: object, notion: Notion, n_classes: int) -> FloatArray:
    """Points at which a curve is asked for: (m,) probabilities, or (m, K) on the simplex."""
    if isinstance(grid, (int, np.integer)):
        if not 2 <= grid <= MOST_POINTS:
            raise ValueError(f"`grid` must have from 2 to {MOST_POINTS:,} points; found {grid:,}.")
        if not notion.joint:
            return np.linspace(0.0, 1.0, int(grid))
        raise ValueError(
            f"`grid` must hold points (m, {n_classes}) of the simplex for a canonical curve; "
            "a number of points is for one probability."
        )
    points = np.asarray(grid, dtype=np.float64)
    expected = 2 if notion.joint else 1
    if points.ndim != expected or (expected == 2 and points.shape[1] != n_classes):
        shape = f"(m, {n_classes})" if expected == 2 else "(m,)"
        raise ValueError(f"`grid` must have shape {shape}; found {points.shape}.")
    if points.size == 0 or not ((points >= 0) & (points <= 1)).all():
        raise ValueError("`grid` must hold probabilities in [0, 1].")
    if expected == 2 and (np.abs(points.sum(axis=1) - 1) > ROW_SUM_TOLERANCE).any():
        raise ValueError("`grid` must hold points of the simplex: rows sum to 1. Rescale them.")
    return points
