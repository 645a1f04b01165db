"""The estimate of E[y | f] as a curve, with the band that chance allows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from riskalign.bandwidth.coordinates import Choice
from riskalign.composition import Case
from riskalign.data.sample import on_simplex
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.starts import Start
from riskalign.methods.recalibration import Support, smoothed_at, support_at
from riskalign.smoothing import choose_smoother


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
    bandwidth : the bandwidth, one a class for class-wise curves
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


def curve_of_labels(
    case: Case, points: FloatArray, kernel: Kernel, engine: str, choices: Sequence[Choice]
) -> ReliabilityCurve:
    """Labels smoothed at points."""
    x = on_simplex(points)
    R = [
        choose_smoother([problem], kernel, engine).at((0, choice.bandwidth), x).mean
        for problem, choice in zip(case.problems, choices, strict=True)
    ]
    return _curve(case, points, kernel, engine, choices, R)


def curve_of_residuals(
    case: Case,
    points: FloatArray,
    kernel: Kernel,
    engine: str,
    start: str,
    choices: Sequence[Choice],
) -> ReliabilityCurve:
    """A start and its residuals smoothed at points."""
    x = on_simplex(points)
    R = []
    for problem, choice in zip(case.problems, choices, strict=True):
        fitted = Start.fit(problem, start)
        q = smoothed_at(problem, fitted.at(problem.points), choice, x, kernel, engine)
        R.append(shown_of(fitted.at(x), q))
    return _curve(case, points, kernel, engine, choices, R)


def shown_of(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """The start and its smoothed residuals ``(m, K)``, cut at the simplex.

    Estimates keep R away from 0, because a loss may take its logarithm. A curve takes none, and
    shows 0 and 1 where the labels say so.
    """
    R = np.maximum(start + smoothed, 0.0)
    R /= R.sum(axis=1, keepdims=True)
    return np.minimum(R, 1.0)


def _curve(
    case: Case,
    points: FloatArray,
    kernel: Kernel,
    engine: str,
    choices: Sequence[Choice],
    R: Sequence[FloatArray],
) -> ReliabilityCurve:
    """The curve of estimates ``(m, K)``, one a problem, with the samples behind them."""
    x = on_simplex(points)
    supports = [
        support_at(problem, choice, x, kernel, engine)
        for problem, choice in zip(case.problems, choices, strict=True)
    ]
    return assemble(case, points, choices, R, supports)


def assemble(
    case: Case,
    points: FloatArray,
    choices: Sequence[Choice],
    R: Sequence[FloatArray],
    supports: Sequence[Support],
) -> ReliabilityCurve:
    """The curve whose estimates ``(m, K)`` and support are known, one a problem."""

    def numbers(each: Sequence[float]) -> float | FloatArray:
        return np.array(each) if case.notion == "classwise" else each[0]

    def columns(each: Sequence[FloatArray]) -> FloatArray:
        return np.stack(each, axis=1) if case.notion == "classwise" else each[0]

    return ReliabilityCurve(
        grid=points,
        conditional=R[0] if case.notion == "canonical" else columns([own[:, 1] for own in R]),
        density=columns([support.density for support in supports]),
        effective_samples=columns([support.effective for support in supports]),
        nearby_samples=columns([support.nearby for support in supports]),
        bandwidth=numbers([choice.bandwidth for choice in choices]),
        flattening=numbers([choice.flattening for choice in choices]),
        classes=case.sample.classes,
    )
