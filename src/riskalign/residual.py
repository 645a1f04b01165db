"""The debiased estimate: residuals are smoothed, and what their noise adds is taken out.

With g a start (f itself, or f at the temperature that fits), e = y - g its residuals and
w_ij the kernel's weights without the row itself,

    R_i = g_i + sum_j w_ij e_j,    s_i = sum_j w_ij^2.

Smoothing bias touches only what g misses of E[y | f], and is zero for a calibrated model.
The variational error <y, l(f) - l(R)> falls short of the truth by E D(E[y | f], R): the
square of the bias of R, and its variance. The second is known: a label let into its own
average with weight s_i gains twice what R's noise costs it when it is left out. So

    terms_i = <y_i, l(f_i)> - 1/2 <y_i, l(R_i) + l(R_i + s_i (y_i - R_i))>

has an expectation below the true error by the *squared* smoothing bias alone. A fitted
temperature is noise of R too: a label is let into its fit along with the average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from riskalign.arrays import FloatArray, IntArray, floored_log, row_dot
from riskalign.bandwidth import Curve
from riskalign.decomposition import risk_of
from riskalign.kernels import Kernel
from riskalign.progress import track
from riskalign.sample import Problem
from riskalign.smoothing import Average, Engine, Request, choose_smoother
from riskalign.smoothing.squared import SquaredKernel

FLATTENINGS = (1.0, 0.5, 0.25)
"""Powers of f among which the kernel's coordinates are chosen: one bandwidth cannot serve
both the middle of the simplex and predictions that crowd its corners."""

KEPT_SHARE = 0.1
"""The share of its start below which smoothing cannot press a probability."""

SEARCH_ROWS = 4_096
"""Rows that decide on bandwidth and coordinates. Candidates differ by parts of the error
itself, so a few hundred rows, enough for risk alignment, would choose among them by chance."""

CLOSE = 0.5
"""Standard errors by which a risk may exceed the least and count as equal. With 0 the error
of a calibrated model comes out too large, with 1 that of a wavy one too small."""

BATCH = 64
"""Problems whose residuals and coordinates are held at once."""

OFFSET = 1.0
"""Added to residuals while they are summed: sums of one sign lose nothing to cancellation."""


@dataclass(frozen=True)
class Choice:
    """How the residuals of a problem are smoothed: h, in coordinates f^flattening."""

    bandwidth: float
    flattening: float = 1.0
    curve: Curve | None = None


@dataclass(frozen=True)
class Debiased:
    """The debiased estimate of one problem.

    Attributes
    ----------
    terms : (n,), whose mean is the calibration error
    risk : (n,), <y, l(f)>
    reconstructed_risk : (n,), <R, l(f)>
    conditional : R, in the form of the problem's predictions
    choice : bandwidth and coordinates
    """

    terms: FloatArray
    risk: FloatArray
    reconstructed_risk: FloatArray
    conditional: FloatArray
    choice: Choice


@dataclass(frozen=True)
class Valued(Problem):
    """A problem in the kernel's coordinates that carries what is averaged, ``(n, d)``."""

    values: FloatArray

    def take(self, rows: IntArray | slice) -> Valued:
        """The problem of some rows."""
        return replace(
            self,
            predictions=self.predictions[rows],
            labels=self.labels[rows],
            weights=self.weights[rows],
            values=self.values[rows],
        )

    @classmethod
    def of(cls, problem: Problem, flattening: float, values: FloatArray) -> Valued:
        """A problem with values, its predictions flattened."""
        coordinates = problem.predictions
        if flattening != 1.0:
            coordinates = like(problem, powered(problem.points, flattening))
        return cls(problem.name, coordinates, problem.labels, problem.weights, problem.loss, values)


def powered(f: FloatArray, exponent: float | FloatArray) -> FloatArray:
    """f^exponent, renormalised ``(n, K)``: f at the temperature 1/exponent."""
    rows = exponent[:, None] if isinstance(exponent, np.ndarray) else exponent
    return softmax(rows * floored_log(f), axis=1)


def like(problem: Problem, points: FloatArray) -> FloatArray:
    """Points ``(n, K)`` in the form of the problem's predictions."""
    return points[:, 1] if problem.predictions.ndim == 1 else points


def spread(problem: Problem, columns: FloatArray) -> FloatArray:
    """Residuals ``(n, 1)`` of one probability as the pair ``(n, 2)``; others as they are."""
    return np.concatenate([-columns, columns], axis=1) if _is_single(problem) else columns


def _is_single(problem: Problem) -> bool:
    return problem.predictions.ndim == 1


def columns_of(problem: Problem, residuals: FloatArray) -> FloatArray:
    """What needs smoothing of residuals ``(n, K)``: one column of two that mirror."""
    return residuals[:, 1:] if _is_single(problem) else residuals


def onto_simplex(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """The start and its smoothed residuals ``(n, K)``; no entry below a share of its start."""
    R = np.maximum(start + smoothed, KEPT_SHARE * start)
    R /= R.sum(axis=1, keepdims=True)
    return R


def second_order(
    problem: Problem, R: FloatArray, s: FloatArray, shift: FloatArray | float
) -> FloatArray:
    """1/2 <y, l(R) + l(R + s (y - R) + shift)>: refinement without R's noise, row by row.

    `shift` is what a row's label would do to its own start.
    """
    let_in = R + s[:, None] * (problem.one_hot() - R) + shift
    np.maximum(let_in, KEPT_SHARE * R, out=let_in)
    left_out = risk_of(problem.loss, problem.labels, R)
    return (left_out + risk_of(problem.loss, problem.labels, let_in)) / 2


def slope_of(problem: Problem, g: FloatArray) -> FloatArray:
    """The derivative of a temperature start g by its exponent, ``(n, K)``."""
    z = floored_log(problem.points)
    return g * (z - row_dot(g, z)[:, None])


def information_of(problem: Problem, slope: FloatArray) -> float:
    """How firmly all rows together hold the fitted exponent."""
    return float(problem.weights @ row_dot(slope, floored_log(problem.points)))


def pushes(problem: Problem, g: FloatArray, information: float) -> FloatArray:
    """By how much each row's label moves the fitted exponent, ``(n,)``."""
    if information <= 0:
        return np.zeros(len(g))
    z = floored_log(problem.points)
    return problem.weights * row_dot(problem.one_hot() - g, z) / information


def overlap_of(slope: FloatArray, smoothed_slope: FloatArray, weights: FloatArray) -> float:
    """The part of a wrong exponent that the kernel can see, and smoothing residuals undoes."""
    size = float(weights @ row_dot(slope, slope))
    overlap = float(weights @ row_dot(slope, smoothed_slope)) / size if size > 0 else 0.0
    return min(max(overlap, 0.0), 1.0)


def own_shift(slope: FloatArray, push: FloatArray, overlap: float) -> FloatArray:
    """What letting a label into the fit of the temperature does to its own R, ``(n, K)``.

    Of the variance of g, the share 1 - overlap^2 remains in R.
    """
    return (1.0 - overlap**2) * slope * push[:, None]


NEWTON_STEPS = 30
STEEPEST = 20.0
"""Largest exponent of the temperature start: beyond it predictions are zeros and ones."""


def temperature_exponents(problem: Problem) -> FloatArray:
    """For each row, the exponent that minimises the log loss of all *other* rows, ``(n,)``.

    Newton's method for all rows, then one step that takes each row out.
    """
    return without_each(problem, *fit_temperature(problem))


def fit_temperature(problem: Problem) -> tuple[float, float]:
    """The exponent that minimises the log loss, and minus the second derivative there."""
    z, y, w = floored_log(problem.points), problem.one_hot(), problem.weights
    exponent = 1.0
    for _ in range(NEWTON_STEPS):
        score, information = _score(z, y, powered(problem.points, exponent))
        total = float(w @ information)
        if total <= 0:
            return exponent, 0.0
        step = float(np.clip(w @ score / total, -exponent / 2, exponent))
        exponent = min(exponent + step, STEEPEST)
        if abs(step) < 1e-8 or exponent == STEEPEST:
            break
    _, information = _score(z, y, powered(problem.points, exponent))
    return exponent, float(w @ information)


def without_each(problem: Problem, exponent: float, information: float) -> FloatArray:
    """The exponent that a fit to all rows would give without each row, ``(n,)``."""
    w = problem.weights
    f = problem.points
    score, own = _score(floored_log(f), problem.one_hot(), powered(f, exponent))
    rest = information - w * own
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(rest > 0, w * score / rest, 0.0)
    return np.clip(exponent - shift, exponent / 2, 2 * exponent)


def _score(z: FloatArray, y: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Derivative of the log-likelihood of softmax(exponent z), and minus the second one."""
    mean = row_dot(g, z)
    return row_dot(y, z) - mean, row_dot(g, (z - mean[:, None]) ** 2)


STARTS: dict[str, Callable[[Problem], FloatArray]] = {
    "identity": lambda problem: np.ones(len(problem.labels)),
    "temperature": temperature_exponents,
}
"""Starts by name: the exponents of f, one a row."""


def started(problem: Problem, start: str) -> FloatArray:
    """The start g at each row, ``(n, K)``."""
    if start == "identity":
        return problem.points
    return powered(problem.points, STARTS[start](problem))


def debiased(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: Engine,
    start: str,
    choices: Sequence[Choice] | None = None,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
) -> Iterator[Debiased]:
    """The debiased estimate of every problem.

    Without choices, bandwidth and coordinates are the widest whose R has a leave-one-out
    risk within half a standard error of the least (the largest lower bound <y, l(f) - l(R)>).
    """
    for first in range(0, len(problems), BATCH):
        batch = problems[first : first + BATCH]
        starts = [started(problem, start) for problem in batch]
        if choices is None:
            chosen = choose(batch, starts, kernel, engine, candidates, progress)
        else:
            chosen = list(choices[first : first + BATCH])
        slopes = [slope_of(p, g) for p, g in zip(batch, starts, strict=True)]
        if start == "identity":
            slopes = [np.empty((len(g), 0)) for g in starts]
        yield from _estimates(batch, starts, slopes, chosen, kernel, engine)


def with_residuals(problem: Problem, start: FloatArray, flattening: float) -> Valued:
    """The problem that carries y - start, in coordinates f^flattening."""
    residuals = columns_of(problem, problem.one_hot() - start)
    return Valued.of(problem, flattening, residuals + OFFSET)


def values_of(problem: Problem) -> FloatArray:
    """What a valued problem carries."""
    assert isinstance(problem, Valued)
    return problem.values


def _left_out_risk(rows: Problem, average: Average) -> FloatArray:
    """<y, l(R)>; the start is read off the residuals."""
    y = rows.one_hot()
    start = y - spread(rows, values_of(rows) - OFFSET)
    R = onto_simplex(start, spread(rows, average.mean - OFFSET))
    return risk_of(rows.loss, rows.labels, R)


def choose(
    batch: Sequence[Problem],
    starts: Sequence[FloatArray],
    kernel: Kernel,
    engine: Engine,
    candidates: FloatArray | None,
    progress: bool | None,
) -> list[Choice]:
    """Bandwidth and flattening of each problem, by the leave-one-out risk of R.

    Risks are flat in h: octaves resolve them.
    """
    valued = [
        with_residuals(problem, start, flattening)
        for flattening in FLATTENINGS
        for problem, start in zip(batch, starts, strict=True)
    ]
    if candidates is None:
        low, high = kernel.bandwidth_range(valued[0].n_classes)
        candidates = high / 2.0 ** np.arange(np.floor(np.log2(high / low)) + 1)[::-1]
    risks, weights = _risks(valued, candidates, kernel, engine, progress)
    by_problem = risks.reshape(len(FLATTENINGS), len(batch), len(candidates), -1)
    return [
        _widest(problem.name, candidates, by_problem[:, k], weights)
        for k, problem in enumerate(batch)
    ]


def _risks(
    valued: Sequence[Valued],
    candidates: FloatArray,
    kernel: Kernel,
    engine: Engine,
    progress: bool | None,
) -> tuple[FloatArray, FloatArray]:
    """Leave-one-out risks of some rows, ``(problems, H, rows)``, and the rows' weights."""
    n = len(valued[0].labels)
    rows = np.arange(n)
    if n > SEARCH_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(n, SEARCH_ROWS, replace=False))
    requests = [(k, h) for k in range(len(valued)) for h in candidates.tolist()]
    risks = np.empty((len(requests), len(rows)))
    place = np.empty(n, dtype=np.intp)
    place[rows] = np.arange(len(rows))
    smoother = choose_smoother(valued, kernel, engine, values_of)
    tiles = smoother.each(
        requests,
        lambda k, own, average: _left_out_risk(valued[k].take(own), average),
        None if len(rows) == n else rows,
    )
    steps = ((len(own), (i, own, risk)) for i, own, risk in tiles)
    for i, own, risk in track(steps, len(rows) * len(requests), "bandwidth", progress):
        risks[i, place[own]] = risk
    return risks.reshape(len(valued), len(candidates), -1), valued[0].weights[rows]


def _widest(name: str, candidates: FloatArray, risks: FloatArray, weights: FloatArray) -> Choice:
    """The widest bandwidth whose risk is within half a standard error of the least.

    The least of many noisy risks is too small by chance, and with it the error of a
    calibrated model too large; a wide kernel has little noise to choose from.

    Parameters
    ----------
    risks : (flattenings, H, rows)
    """
    share = (weights / weights.sum()).astype(np.float64)
    means = risks @ share  # (flattenings, H)
    least = np.unravel_index(np.argmin(means), means.shape)
    excess = risks - risks[least]  # the same rows: their difference is far less noisy
    gap = means - means[least]
    error = np.sqrt(((excess - gap[..., None]) ** 2) @ share**2)
    close = gap <= CLOSE * error
    widest = int(np.flatnonzero(close.any(axis=0))[-1])
    power = int(np.argmin(np.where(close[:, widest], means[:, widest], np.inf)))
    total = float(weights.sum())
    at_edge = len(candidates) > 1 and widest in (0, len(candidates) - 1)
    flattening, h = FLATTENINGS[power], float(candidates[widest])
    curve = Curve(name, candidates, means[power] * total, h, at_edge, flattening)
    return Choice(h, flattening, curve)


def _estimates(
    batch: Sequence[Problem],
    starts: Sequence[FloatArray],
    slopes: Sequence[FloatArray],
    choices: Sequence[Choice],
    kernel: Kernel,
    engine: Engine,
) -> Iterator[Debiased]:
    """Terms of each problem at its choice."""
    valued = [
        with_slopes(problem, start, slope, choice.flattening)
        for problem, start, slope, choice in zip(batch, starts, slopes, choices, strict=True)
    ]
    requests = [(k, choice.bandwidth) for k, choice in enumerate(choices)]
    shares = squared_weights(valued, requests, kernel, engine)
    smoothed = [np.empty_like(problem.values) for problem in valued]
    smoother = choose_smoother(valued, kernel, engine, values_of)
    for k, rows, mean in smoother.each(requests, lambda k, rows, average: average.mean):
        smoothed[k][rows] = mean - OFFSET
    for k, (problem, start, slope) in enumerate(zip(batch, starts, slopes, strict=True)):
        fit = TemperatureFit.of(problem, slope, smoothed[k]) if slope.size else None
        yield combine(problem, start, slope, smoothed[k], shares[k], choices[k], fit)


def with_slopes(
    problem: Problem, start: FloatArray, slope: FloatArray, flattening: float
) -> Valued:
    """The problem that carries y - start and the start's slope (none for a fixed start)."""
    carrier = with_residuals(problem, start, flattening)
    extra = columns_of(problem, slope) + OFFSET
    return replace(carrier, values=np.concatenate([carrier.values, extra], axis=1))


@dataclass(frozen=True)
class TemperatureFit:
    """What all samples together say of the fitted temperature; see the functions' own words."""

    information: float
    overlap: float

    @classmethod
    def of(cls, problem: Problem, slope: FloatArray, smoothed: FloatArray) -> TemperatureFit:
        """From averages ``(n, d)`` of residuals and slopes."""
        smoothed_slope = spread(problem, smoothed[:, smoothed.shape[1] // 2 :])
        overlap = overlap_of(slope, smoothed_slope, problem.weights)
        return cls(information_of(problem, slope), overlap)


def combine(
    problem: Problem,
    start: FloatArray,
    slope: FloatArray,
    smoothed: FloatArray,
    s: FloatArray,
    choice: Choice,
    fit: TemperatureFit | None,
) -> Debiased:
    """The estimate of some rows, from averages ``(n, d)`` of residuals and of slopes."""
    width = columns_of(problem, start).shape[1]
    q = spread(problem, smoothed[:, :width])
    shift: FloatArray | float = 0.0
    if fit is not None:
        push = pushes(problem, start, fit.information)
        shift = own_shift(slope, push, fit.overlap)
        # The row leaves its neighbours' starts too.
        q += spread(problem, smoothed[:, width:]) * push[:, None]
    R = onto_simplex(start, q)
    loss_f = problem.loss(problem.points)  # (n, K)
    risk = loss_f[np.arange(len(R)), problem.labels]
    terms = risk - second_order(problem, R, s, shift)
    return Debiased(terms, risk, row_dot(R, loss_f), like(problem, R), choice)


def squared_weights(
    problems: Sequence[Problem], requests: Sequence[Request], kernel: Kernel, engine: Engine
) -> list[FloatArray]:
    """s_i = sum_j w_ij^2 of every request, ``(n,)`` each: one over the effective neighbours."""

    def log_sums(power: int, kernel: Kernel) -> list[FloatArray]:
        raised = [replace(problem, weights=problem.weights**power) for problem in problems]
        smoother = choose_smoother(raised, kernel, engine, _nothing)
        result = [np.empty(len(problems[k].labels)) for k, _ in requests]
        densities = smoother.each(requests, lambda k, rows, average: average.log_density)
        for i, rows, log_density in densities:
            weights = raised[requests[i][0]].weights
            result[i][rows] = log_density + np.log(weights.sum() - weights[rows])
        return result

    pairs = zip(log_sums(2, SquaredKernel(kernel)), log_sums(1, kernel), strict=True)
    return [np.minimum(np.exp(of_squares - 2 * of_sums), 1.0) for of_squares, of_sums in pairs]


def _nothing(problem: Problem) -> FloatArray:
    """No values: densities alone are wanted."""
    return np.empty((len(problem.labels), 0))
