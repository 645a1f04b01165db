"""What the data say of each class on its own: predicted against observed, and how sure that is.

Two departures are tested per class. The mean gap mean(f - y) says that the class's probability is
too high or too low; its p-value is the exact tail of a (scaled) Poisson count, which holds for
classes of a few rows. The slope says that the probability is too extreme or too timid; its score
test compares

    U = sum w (y - f) (z - c),    z = log-odds(f),    c = sum w^2 f (1 - f) z / sum w^2 f (1 - f),

with its variance sum w^2 f (1 - f) (z - c)^2 under calibration, and is used where the class has
enough rows for a normal approximation. Holm's method corrects for the number of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.gaps import Gap
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import log_odds

ENOUGH = 20.0
"""Samples of a class, expected and observed, from which its slope is tested."""

ROUNDING = 1e-12
"""Predictions whose spread is less than this share of their size differ by rounding only."""

BITS = 30
"""Significant bits by which classes are put in order: about nine digits."""

DOUBT = 0.05
"""The chance that any class is called miscalibrated although all are calibrated."""


@dataclass(frozen=True)
class ClassEvidence:
    """Predicted and observed frequencies of K classes, with the evidence against each.

    Attributes
    ----------
    names : of the classes
    mean_prediction, frequency : (K,)
    counts : (K,), samples of each class
    low, high : (K,), the interval of the gap mean_prediction - frequency
    p_values : (K,), of "this class is calibrated", not corrected for the number of classes
    slopes : (K,), the sign of the slope's departure where its test has a smaller p-value than that
        of the gap: -1 for probabilities that are too extreme, 1 for too timid ones, else 0
    """

    names: tuple[str, ...]
    mean_prediction: FloatArray
    frequency: FloatArray
    counts: FloatArray
    low: FloatArray
    high: FloatArray
    p_values: FloatArray
    slopes: IntArray

    @classmethod
    def of(cls, problems: Sequence[Problem], n_samples: int, confidence: float) -> ClassEvidence:
        """The evidence of one-dimensional problems of so many samples each.

        Examples
        --------
        >>> import numpy as np
        >>> from riskalign.equations.losses import L2
        >>> p, y = np.full(400, 0.3), (np.arange(400) < 60).astype(np.int8)
        >>> found = ClassEvidence.of([Problem("a", p, y, np.ones(400), L2.binary)], 400, 0.95)
        >>> found.gaps.round(2).tolist(), found.findings.tolist(), found.directions
        ([0.15], [True], ['too high'])
        """
        each = [_of_problem(problem, n_samples, confidence) for problem in problems]
        table = np.array(each)  # (K, 7)
        p, frequency, counts, low, high, p_values, slopes = table.T
        names = tuple(problem.name for problem in problems)
        slope_signs = slopes.astype(np.intp)
        return cls(names, p, frequency, counts, low, high, p_values, slope_signs)

    @property
    def gaps(self) -> FloatArray:
        """Mean prediction less frequency, ``(K,)``."""
        return self.mean_prediction - self.frequency

    @property
    def findings(self) -> BoolArray:
        """Classes that are miscalibrated beyond doubt, all classes considered (Holm)."""
        K = len(self.p_values)
        order = np.argsort(self.p_values, kind="stable")
        below = self.p_values[order] <= DOUBT / (K - np.arange(K))
        found = np.zeros(K, dtype=np.bool_)
        found[order] = np.logical_and.accumulate(below)
        return found

    @property
    def directions(self) -> list[str]:
        """How each finding errs; empty for the other classes."""
        words = []
        for found, slope, gap in zip(self.findings, self.slopes, self.gaps, strict=True):
            if not found:
                words.append("")
            elif slope:
                words.append("too extreme" if slope < 0 else "too timid")
            else:
                words.append("too high" if gap > 0 else "too low")
        return words

    def order(self, errors: FloatArray | None = None) -> IntArray:
        """Classes by evidence: findings first, the largest error first; others by p-value.

        Classes that differ by rounding only, as the two of a binary problem do, keep their order.
        """
        errors = np.abs(self.gaps) if errors is None else errors
        found = self.findings
        second = np.where(found, -errors, self.p_values)
        keys = (_rounded(-errors), _rounded(second), ~found)
        return np.lexsort(keys).astype(np.intp)


def _rounded(x: FloatArray) -> FloatArray:
    """Numbers with `BITS` significant bits, alike on every processor."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(np.ldexp(fraction, BITS)), exponent - BITS)


def _of_problem(problem: Problem, n_samples: int, confidence: float) -> tuple[float, ...]:
    gap = Gap.of(problem, n_samples)
    p, frequency = gap.mean_prediction, gap.frequency
    low, high = gap.frequency_interval(confidence)
    unit = gap.unit
    observed, expected = frequency / unit, p / unit
    above = float(gammainc(observed, expected)) if observed > 0 else 1.0
    below = float(gammaincc(observed + 1, expected)) if expected > 0 else 1.0
    p_gap, slope, p_slope = min(2 * min(above, below), 1.0), 0, 1.0
    if min(observed, expected) >= ENOUGH:
        statistic = _slope_statistic(problem)
        p_slope = 2 * float(ndtr(-abs(statistic)))
        slope = int(np.sign(statistic)) if p_slope < p_gap else 0
        p_gap = min(2 * min(p_gap, p_slope), 1.0)
    return p, frequency, frequency * n_samples, p - high, p - low, p_gap, float(slope)


def _slope_statistic(problem: Problem) -> float:
    """The standardised score of the slope; below 0 for probabilities that are too extreme."""
    f, w = problem.predictions, problem.weights
    variance = w * problem.units * f * (1 - f)
    total = variance.sum()
    if total <= 0:
        return 0.0
    z = log_odds(f)
    smallest = ROUNDING * float(variance @ z**2)
    z = z - variance @ z / total
    spread = float(variance @ z**2)
    return float((w * (problem.labels - f)) @ z) / spread**0.5 if spread > smallest else 0.0
