"""Starts whose residuals are smoothed: f itself, or f at the temperature that fits.

A temperature start is f^t, renormalised, with the exponent t that minimises the log loss of
the *other* rows. What its fit adds to the noise of an estimate is known in closed form.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from riskalign.arrays import FloatArray, floored_log, row_dot
from riskalign.sample import Problem

NEWTON_STEPS = 30
STEEPEST = 20.0
"""Largest exponent of the temperature start: beyond it predictions are zeros and ones."""


def powered(f: FloatArray, exponent: float | FloatArray) -> FloatArray:
    """f^exponent, renormalised ``(n, K)``: f at the temperature 1/exponent."""
    rows = exponent[:, None] if isinstance(exponent, np.ndarray) else exponent
    return softmax(rows * floored_log(f), axis=1)


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
