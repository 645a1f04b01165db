"""Bands around a curve: how far chance and smoothing may have moved it.

To first order an estimate is linear in the labels. With w_j(x) the kernel's weights at x, grad g
the derivatives of the start by its parameters, I the information and phi the features of the start,

    R(x) - E R(x)  =  sum_j a_j(x) (y_j - E y_j),
    a_j(x)         =  w_j(x) + (grad g(x) - sum_i w_i(x) grad g(f_i)) I^-1 phi(f_j),

which holds the noise of the smoothed residuals, of the fitted start, and their covariance. The
variance is sum_j a_j^2 v_j with v_j = R_j (1 - R_j).

Smoothing also has a bias, which no variance shows: a bandwidth that predicts well leaves a bias of
the size of the noise. The band therefore has the variance of an undersmoothed curve, whose
bandwidths are `UNDERSMOOTHING` times smaller, so that little bias is left beside its noise. The
difference of the two curves estimates the bias of the first: half of it moves the centre of the
band, and the square of the other half is added to the variance. The band is extended where needed
to hold the curve.

As in Wilson's interval, the variance depends on the value theta that is tested: the band holds
every theta with (R - theta)^2 <= z^2 (c + s theta (1 - theta)). The part of the variance that
neighbours of equal variance cause is s R (1 - R); c is the excess of those with a larger variance,
which theta does not change. With equal weights and no start, c = 0 and s = 1/N: Wilson's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.validation import one_of
from riskalign.equations.arrays import FLOOR, BoolArray, FloatArray
from riskalign.equations.kernels import DIRICHLET, Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, on_simplex, tempered
from riskalign.equations.starts import FittedStart, slopes_of
from riskalign.smoothing import Tuning
from riskalign.smoothing.grid import quadrature
from riskalign.smoothing.kernel_sums import nodes_of, resolution_of
from riskalign.smoothing.operator import ALONE

KINDS = ("pointwise", "simultaneous")
"""Kinds of bands: for each point alone, or for the whole curve at once."""

UNDERSMOOTHING = 16.0
"""By what the bandwidths of the curve are divided for its band: `experiments/band.py` measures
coverage."""

FEWEST = 30.0
"""Samples within the window of a point below which it has no band."""

WINDOW = 0.02
"""Bandwidth whose width is the window within which samples count as near a point: +-0.07 at 1/2,
and a factor of about e once a probability is below it."""

END = 0.005
"""Half a step of a curve's default grid: what lies within it of exactly 0 or 1 is near them, which
are infinitely far in log-odds."""

ROUNDING = 1e-9
"""Numbers of samples that differ by less, relative to the larger one, are the same."""

DRAWS, SEED = 4_000, 0
"""Simulated curves behind a simultaneous band, and their seed."""

CHUNK, KEPT = 20_000, 24
"""Rows whose weights at all points are held at once, and matrices of nodes that are kept."""


def samples_nearby(problem: Problem, points: FloatArray, bandwidth: float) -> FloatArray:
    """How many samples lie within the window of each point, ``(m,)``.

    Samples of unequal weight count by their effective number, (sum w)^2 / sum w^2. A kernel that
    is narrower than the window makes it narrower.
    """
    h = min(bandwidth, WINDOW)

    def position(p: FloatArray) -> FloatArray:
        return DIRICHLET.coordinate(np.clip(p, FLOOR, 1 - FLOOR), h)

    order = np.argsort(problem.predictions)
    placed = position(problem.predictions[order])
    weights, units = problem.weights[order], problem.units[order]
    below = np.zeros((2, len(order) + 1))
    np.cumsum([weights, weights * units], axis=1, out=below[:, 1:])
    x = position(points)
    first, last = np.searchsorted(placed, x - 1), np.searchsorted(placed, x + 1, "right")
    p = problem.predictions[order]
    last = np.where(points == 0, np.searchsorted(p, END, "right"), last)
    first = np.where(points == 1, np.searchsorted(p, 1 - END), first)
    total, squares = below[:, last] - below[:, first]
    return np.where(last > first, total**2 / np.maximum(squares, np.finfo(float).tiny), 0.0)


def inhabited(problem: Problem, points: FloatArray, bandwidth: float) -> FloatArray:
    """The points ``(m,)``, with 0 and 1 replaced where predictions are near but none is there.

    In their place stands the outermost prediction within `END` that has `FEWEST` samples near it,
    or the one that has most: kernels see 0 and 1 far from all data in log-odds, and the very last
    predictions are too sparse for more than a wide band.
    """
    found = points.copy()
    p = problem.predictions[problem.weights > 0]
    for end in (0.0, 1.0):
        at, distance = points == end, np.abs(p - end)
        within = distance <= END
        if at.any() and within.any() and distance.min() > 0:
            candidates = np.unique(p[within])[:: 1 if end == 0 else -1]
            near = np.minimum(samples_nearby(problem, candidates, bandwidth), FEWEST)
            found[at] = candidates[np.argmax(near >= near.max() * (1 - ROUNDING))]
    return found


@dataclass(frozen=True)
class Spread:
    """How far the curve of one problem may be from the truth.

    Attributes
    ----------
    curve : (m,), the curve
    undersmoothed : (m,), the same by narrower kernels
    constant, share : (m,), c and s of the variance c + s theta (1 - theta)
    covariance : (m, m), of the undersmoothed curve at its points
    shown : (m,), which points have a band
    """

    curve: FloatArray
    undersmoothed: FloatArray
    constant: FloatArray
    share: FloatArray
    covariance: FloatArray
    shown: BoolArray

    def band(self, confidence: float, kind: str) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends ``(m,)``, NaN where there is no band."""
        z = self.critical_value(confidence, kind)
        bias = (self.curve - self.undersmoothed) / 2
        low, high = wilson(self.curve - bias, self.constant + bias**2, self.share, z)
        low, high = np.minimum(low, self.curve), np.maximum(high, self.curve)
        return np.where(self.shown, low, np.nan), np.where(self.shown, high, np.nan)

    def critical_value(self, confidence: float, kind: str) -> float:
        """The quantile z: of one deviate, or of the largest of all that are shown."""
        z = critical(confidence, kind)
        if kind == "pointwise" or not self.shown.any():
            return z
        return float(np.quantile(self._largest, confidence))

    @cached_property
    def _largest(self) -> FloatArray:
        """The largest of the standardised deviates of simulated curves, ``(DRAWS,)``."""
        some = np.ix_(self.shown, self.shown)
        deviation = np.sqrt(np.maximum(np.diag(self.covariance[some]), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(self.covariance[some] / np.outer(deviation, deviation))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = np.random.default_rng(SEED).standard_normal((DRAWS, len(values)))
        largest: FloatArray = np.abs(draws @ root.T).max(axis=1)
        return largest


@dataclass(frozen=True)
class JointSpread:
    """How far the curve of a joint problem may be from the truth, by its effective samples alone.

    Attributes
    ----------
    curve : (m, K), the curve
    effective : (m,), samples that share the average
    """

    curve: FloatArray
    effective: FloatArray

    def band(self, confidence: float, kind: str) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends ``(m, K)``, NaN where there is no band."""
        if kind == "simultaneous":
            raise ValueError(
                "`kind='simultaneous'` is for curves of one probability (binary, top-label, "
                "class-wise); canonical curves have pointwise bands."
            )
        share = np.where(self.effective >= FEWEST, 1 / self.effective, np.nan)[:, None]
        low, high = wilson(self.curve, np.zeros(1), share, critical(confidence, kind))
        return np.minimum(low, self.curve), np.maximum(high, self.curve)


def critical(confidence: float, kind: str) -> float:
    """The normal quantile of a pointwise band; refuses what is no confidence and no kind."""
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1; found {confidence!r}.")
    one_of("kind", kind, KINDS)
    return float(ndtri((1 + confidence) / 2))


def wilson(
    R: FloatArray, constant: FloatArray, share: FloatArray, z: float
) -> tuple[FloatArray, FloatArray]:
    """Every theta with (R - theta)^2 <= z^2 (c + s theta (1 - theta)), cut at 0 and 1."""
    scale = 1 + z**2 * share
    centre = (R + z**2 * share / 2) / scale
    reach = np.sqrt(np.maximum(centre**2 - (R**2 - z**2 * constant) / scale, 0.0))
    return np.clip(centre - reach, 0.0, 1.0), np.clip(centre + reach, 0.0, 1.0)


@dataclass(frozen=True)
class Places:
    """Where the samples of a problem lie: nodes, or its rows.

    Attributes
    ----------
    p : (N,), probabilities
    weights, squares, positives : (N,), sums of w, of w^2 and of w y over the samples
    span : the nodes, from the first to the last that a sample reaches; None for rows
    """

    p: FloatArray
    weights: FloatArray
    squares: FloatArray
    positives: FloatArray
    span: slice | None = None

    @classmethod
    def of(cls, problem: Problem, kernel: Kernel, narrowest: float) -> Places:
        """The rows, or nodes if these are fewer and resolve the narrowest kernel."""
        if narrowest < resolution_of(kernel) or _few(problem, kernel):
            w = problem.weights
            return cls(problem.predictions, w, w * problem.units, w * problem.labels)
        reached = quadrature(problem, kernel)
        assert reached.nodes is not None
        span = slice(int(reached.nodes.min()), int(reached.nodes.max()) + 1)
        masses = np.zeros((3, span.stop - span.start))
        w = reached.weights
        for mass, each in zip(masses, (w, w * reached.units, w * reached.labels), strict=True):
            np.add.at(mass, reached.nodes - span.start, each)
        weights, squares, positives = masses
        return cls(nodes_of(kernel).probabilities[span], weights, squares, positives, span)

    def chunks(self) -> Iterator[slice]:
        """Some places at a time."""
        return (slice(a, a + CHUNK) for a in range(0, len(self.p), CHUNK))


def _few(problem: Problem, kernel: Kernel) -> bool:
    """Whether there are no more rows than nodes."""
    return len(problem.labels) <= len(nodes_of(kernel))


def narrowed(weighted: WeightedTunings, kernel: Kernel) -> list[tuple[Tuning, float]]:
    """The tunings of the undersmoothed curve, with their weights.

    None is made narrower than what nodes resolve, unless it was so already.
    """
    finest = resolution_of(kernel)
    return [
        (
            Tuning(
                max(tuning.bandwidth / UNDERSMOOTHING, min(tuning.bandwidth, finest)),
                tuning.flattening,
            ),
            weight,
        )
        for tuning, weight in zip(weighted.tunings, weighted.weights.tolist(), strict=True)
    ]


def spread_of(
    problem: Problem,
    fit: FittedStart | None,
    weighted: WeightedTunings,
    estimate: Callable[[FloatArray], FloatArray],
    matrices: KernelMatrices,
    local: FloatArray,
) -> Spread:
    """The spread of a curve of one probability.

    Parameters
    ----------
    fit : the start whose residuals are smoothed, None if labels are
    weighted : the tunings of the curve
    estimate : the curve: from probabilities ``(m,)`` to R ``(m,)``
    matrices : the kernel, and the points ``(m,)`` where the band is wanted
    local : samples near each point ``(m,)``, which tell where there is a band
    """
    kernel, points = matrices.kernel, matrices.points
    tunings = narrowed(weighted, kernel)
    places = Places.of(problem, kernel, min(tuning.bandwidth for tuning, _ in tunings))
    curve = estimate(points)
    centre, slopes, totals = _undersmoothed(places, matrices, fit, tunings, curve)
    variance = _uncertainty(estimate(places.p), fit, places.p)
    own = _uncertainty(curve, fit, points)[:, None]
    m = len(points)
    constant, share, covariance = np.zeros(m), np.zeros(m), np.zeros((m, m))
    for some in places.chunks():
        a = np.zeros((m, len(places.p[some])))
        for (tuning, weight), total in zip(tunings, totals, strict=True):
            a += (weight / total)[:, None] * matrices.of(tuning, places, some)
        if fit is not None and len(fit.parameters):
            phi = fit.start.features(places.p[some])[:, 0]  # (N, p)
            a += slopes @ np.linalg.solve(fit.information, phi.T)
        v, squares = variance[some], places.squares[some]
        covariance += (a * (v * squares)) @ a.T
        a *= a
        every = a @ (v * squares)
        a *= np.minimum(v, own)
        alike = a @ squares
        share += alike / own[:, 0]
        constant += every - alike
    constant, share = np.maximum(constant, 0), np.maximum(share, 0)
    return Spread(curve, centre, constant, share, covariance, local >= FEWEST)


def _undersmoothed(
    places: Places,
    matrices: KernelMatrices,
    fit: FittedStart | None,
    tunings: Sequence[tuple[Tuning, float]],
    curve: FloatArray,
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """The curve of narrower tunings ``(m,)``, how parameters move it ``(m, p)``, and totals.

    A total is the sum of a tuning's kernel over the samples, ``(m,)``. Where it is next to
    nothing, averages of residuals are shrunk towards 0, and those of labels towards the curve.
    """
    kernel, points = matrices.kernel, matrices.points
    m, g = len(points), np.zeros(len(points))
    at_places, slopes = np.zeros(len(places.p)), np.empty((m, 0))
    columns = [places.weights, places.positives]
    if fit is not None:
        g, at_places = fit.at(points)[:, 0], fit.at(places.p)[:, 0]
        columns[1] = places.positives - places.weights * at_places
        slopes = slopes_of(fit.start.features(points), g[:, None])[:, 0]
        own = slopes_of(fit.start.features(places.p), at_places[:, None])[:, 0]
        columns += list((places.weights[:, None] * own).T)
    values = np.column_stack(columns)
    centre, totals = np.zeros(m), []
    shift = np.zeros_like(slopes)
    unit = places.squares.sum() / places.weights.sum()
    for tuning, weight in tunings:
        sums = np.zeros((m, values.shape[1]))
        for some in places.chunks():
            sums += matrices.of(tuning, places, some) @ values[some]
        x = tempered(on_simplex(points), tuning.flattening)
        least = ALONE * unit * np.exp(kernel.log_peak(x, tuning.bandwidth))
        total = np.maximum(sums[:, 0], least)
        means = sums / total[:, None]
        rest = curve * (1 - means[:, 0]) if fit is None else g
        centre += weight * np.clip(rest + means[:, 1], 0.0, 1.0)
        shift += weight * means[:, 2:]
        totals.append(total)
    return centre, slopes - shift, totals


def _uncertainty(R: FloatArray, fit: FittedStart | None, p: FloatArray) -> FloatArray:
    """R (1 - R), with R kept away from 0 and 1 by a share of the start (of f without one)."""
    g = p if fit is None else fit.at(p)[:, 0]
    g = np.clip(g, FLOOR, 1 - FLOOR)
    kept = np.clip(R, KEPT_SHARE * g, 1 - KEPT_SHARE * (1 - g))
    return kept * (1 - kept)


class KernelMatrices:
    """k_h(x; c) of the points of a curve and the places of samples, for all problems of a curve.

    Nodes are the same for every problem: their matrices are kept.
    """

    def __init__(self, kernel: Kernel, points: FloatArray) -> None:
        self.kernel = kernel
        self.points = points
        self._kept: dict[Tuning, FloatArray] = {}

    def moved(self, points: FloatArray) -> KernelMatrices:
        """Those of other points, most of which are the same."""
        return self if np.array_equal(points, self.points) else MovedMatrices(self, points)

    def of(self, tuning: Tuning, places: Places, some: slice) -> FloatArray:
        """The matrix ``(m, N)`` of some places."""
        if places.span is None:
            return kernel_matrix(self.kernel, tuning, self.points, places.p[some])
        if tuning not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            p = nodes_of(self.kernel).probabilities
            self._kept[tuning] = kernel_matrix(self.kernel, tuning, self.points, p)
        return self._kept[tuning][:, places.span][:, some]


class MovedMatrices(KernelMatrices):
    """The matrices of points of which few are not those of the matrices that are kept."""

    def __init__(self, known: KernelMatrices, points: FloatArray) -> None:
        super().__init__(known.kernel, points)
        self._known, self._other = known, points != known.points

    def of(self, tuning: Tuning, places: Places, some: slice) -> FloatArray:
        """The matrix ``(m, N)`` of some places."""
        if places.span is None:
            return super().of(tuning, places, some)
        found = self._known.of(tuning, places, some).copy()
        own = self.points[self._other]
        found[self._other] = kernel_matrix(self.kernel, tuning, own, places.p[some])
        return found


def kernel_matrix(
    kernel: Kernel, tuning: Tuning, points: FloatArray, centres: FloatArray
) -> FloatArray:
    """k_h(x; c) of all points and centres, ``(m, N)``."""
    x, c = (tempered(on_simplex(p), tuning.flattening) for p in (points, centres))
    h = tuning.bandwidth
    scores = kernel.scale(h) * (kernel.queries(x) @ c.T)
    scores += kernel.key_bias(c, h)
    scores += kernel.query_bias(x, h)[:, None]
    return np.exp(scores, out=scores)
