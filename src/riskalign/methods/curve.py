"""The estimate of E[y | f] as a curve, with the band that chance allows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from riskalign.bandwidth.search import align
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.case import Case
from riskalign.data.notions import Notion
from riskalign.data.validation import ROW_SUM_TOLERANCE
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import KERNELS
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import mirrored, on_simplex
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods.kernel import KernelSmoother
from riskalign.smoothing import Support, Tuning, choose_smoother


@dataclass(frozen=True)
class ReliabilityCurve:
    """The estimate of E[y | f] at points of the user's choice.

    Attributes
    ----------
    grid : (m,) probabilities, or (m, K) points of the simplex for canonical curves
    conditional : (m,); class-wise (m, K), one column a class; canonical (m, K)
    density : the estimated density of predictions at the grid, (m,) or (m, K) class-wise
    effective_samples : how many samples share the average, (sum w)^2 / sum w^2, in the shape
        of `density`
    nearby_samples : samples counted by their weight over that of a sample at the point
        itself, in the shape of `density`: near 0 where there is no prediction
    bandwidth : the bandwidth, one per class for class-wise curves
    flattening : the power of f that the kernel saw, 1 for f itself, in the shape of `bandwidth`
    classes : names

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.calibrated(2000, 2, seed=0)
    >>> curve = ra.reliability_curve(data.y_true, data.y_prob[:, 1], estimator="debiased")
    >>> low, high = curve.band(confidence=0.95)
    >>> bool((low <= curve.conditional).all() and (curve.conditional <= high).all())
    True
    """

    grid: FloatArray
    conditional: FloatArray
    density: FloatArray
    effective_samples: FloatArray
    nearby_samples: FloatArray
    bandwidth: float | FloatArray
    flattening: float | FloatArray
    classes: tuple[str, ...]

    def band(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Pointwise interval of `conditional`: Wilson's, for N effective samples.

        With z the normal quantile, the interval is

            (R + z^2 / 2N +- z sqrt(R (1 - R) / N + z^2 / 4N^2)) / (1 + z^2 / N).

        It says how far chance moves the curve at one point. The bias of smoothing is not in
        it, which is none for the debiased curve of a calibrated model.

        Examples
        --------
        >>> import riskalign as ra
        >>> curve = ra.reliability_curve([0, 1, 1], [0.2, 0.6, 0.9], grid=[0.5], bandwidth=0.1)
        >>> low, high = curve.band(confidence=0.9)
        >>> bool(low < high)
        True
        """
        if not 0 < confidence < 1:
            raise ValueError(f"`confidence` must lie between 0 and 1; found {confidence!r}.")
        N = self.effective_samples
        if N.ndim < self.conditional.ndim:
            N = N[:, None]
        R, z = self.conditional, float(ndtri((1 + confidence) / 2))
        centre = R + z**2 / (2 * N)
        reach = z * np.sqrt(R * (1 - R) / N + z**2 / (4 * N**2))
        scale = 1 + z**2 / N
        return np.minimum((centre - reach) / scale, R), np.maximum((centre + reach) / scale, R)


def curve_of(
    case: Case, method: KernelSmoother, points: FloatArray, engine: str, progress: bool | None
) -> ReliabilityCurve:
    """R at points, of smoothed labels or of a start and its smoothed residuals."""
    if method.smooths_residuals:
        weighted = _residual_tunings(case, method, engine, progress)
    else:
        tunings, _ = method.tunings(case, engine, progress)
        weighted = [WeightedTunings.given(tuning) for tuning in tunings]
    return curve_by(case, method, weighted, points, engine)


def curve_by(
    case: Case,
    method: KernelSmoother,
    weighted: Sequence[WeightedTunings],
    points: FloatArray,
    engine: str = "auto",
) -> ReliabilityCurve:
    """R at points, by tunings that are known: the weighted mean of what they give."""
    found = [
        curve_of_problem(problem, method, own, points, engine)
        for problem, own in zip(case.problems, weighted, strict=True)
    ]
    tunings = [own.best for own in weighted]
    return assemble(case, points, tunings, [R for R, _ in found], [own for _, own in found])


def curve_of_problem(
    problem: Problem,
    method: KernelSmoother,
    weighted: WeightedTunings,
    points: FloatArray,
    engine: str,
) -> tuple[FloatArray, Support]:
    """R of one problem at points, ``(m,)`` or ``(m, K)``, as ``(m, K)``, and its support.

    The support is that of the tuning of the largest weight.
    """
    x = on_simplex(points)
    smoother = choose_smoother([problem], KERNELS[method.kernel], engine)
    if not method.smooths_residuals:
        nothing = np.empty((len(problem.labels), 0))
        _, support = smoother.averages_at(nothing, (0, weighted.best), x)
        return smoother.at((0, weighted.best), x).mean, support
    fit = FittedStart.of(problem, STARTS[method.start])
    residuals = problem.columns() - fit.at(problem.predictions)
    g = fit.at(points)
    start = on_simplex(g[:, 0]) if g.shape[1] == 1 else g
    R, best = np.zeros_like(start), None
    for tuning, weight in zip(weighted.tunings, weighted.weights, strict=True):
        q, support = smoother.averages_at(residuals, (0, tuning), x)
        R += weight * shown_of(start, mirrored(q))
        best = support if tuning == weighted.best else best
    assert best is not None
    return np.minimum(R, 1.0), best


def _residual_tunings(
    case: Case, method: KernelSmoother, engine: str, progress: bool | None
) -> list[WeightedTunings]:
    """How the residuals of a curve are smoothed: as asked for, or by risk alignment."""
    kernel = KERNELS[method.kernel]
    if method.bandwidth is None and method.candidates is None:
        curves = align(case.problems, kernel, engine, method.power, progress)
        tunings = [Tuning(curve.value, curve.flattening) for curve in curves]
        return [WeightedTunings.given(tuning) for tuning in tunings]
    if not method.chooses_by_risk:
        tunings, _ = method.tunings(case, engine, progress)
        return [WeightedTunings.given(tuning) for tuning in tunings]
    outcome = method.outcome(case, engine, progress)
    assert outcome.residuals is not None
    return [each.tunings for each in outcome.residuals]


def shown_of(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """The start and its smoothed residuals ``(m, K)``, cut at the simplex.

    Estimates keep R away from 0, because a loss may take its logarithm. A curve takes none, and
    shows 0 and 1 where the labels say so.
    """
    R = np.maximum(start + smoothed, 0.0)
    R /= R.sum(axis=1, keepdims=True)
    return np.minimum(R, 1.0)


def assemble(
    case: Case,
    points: FloatArray,
    tunings: Sequence[Tuning],
    R: Sequence[FloatArray],
    supports: Sequence[Support],
) -> ReliabilityCurve:
    """The curve whose estimates ``(m, K)`` and support are known, one per problem."""
    gathered, number = case.notion.gathered, case.notion.number
    return ReliabilityCurve(
        grid=points,
        conditional=gathered([own if case.notion.joint else own[:, 1] for own in R]),
        density=gathered([support.density for support in supports]),
        effective_samples=gathered([support.effective for support in supports]),
        nearby_samples=gathered([support.nearby for support in supports]),
        bandwidth=number([tuning.bandwidth for tuning in tunings]),
        flattening=number([tuning.flattening for tuning in tunings]),
        classes=case.sample.classes,
    )


def grid_points(grid: object, notion: Notion, n_classes: int) -> FloatArray:
    """Points at which a curve is asked for: (m,) probabilities, or (m, K) on the simplex."""
    if isinstance(grid, (int, np.integer)):
        if grid < 2:
            raise ValueError(f"`grid` must have at least two points; found {grid}.")
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
