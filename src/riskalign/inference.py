"""How far chance moves a debiased estimate: labels drawn from the model, and intervals.

The variance of the estimate has two parts. Where the model is miscalibrated, the terms of
the rows vary: var(terms) / n. Where it is calibrated that part vanishes to first order, and
what remains is the noise of the smoother, a sum over pairs. Labels drawn from the start g
show the second part alone: the variance of the estimate in a world where g is right, and
how much of that world's var(terms) / n is smoother's noise and not to be counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import ndtri, softmax

from riskalign.arrays import FloatArray, IntArray, floored_log, row_dot
from riskalign.decomposition import risk_of
from riskalign.kernels import Kernel
from riskalign.losses import KL
from riskalign.residual import (
    OFFSET,
    Choice,
    Valued,
    columns_of,
    onto_simplex,
    powered,
    second_order,
    spread,
    squared_weights,
    temperature_exponents,
)
from riskalign.sample import Problem, Sample
from riskalign.smoothing import choose_smoother

NULL_DRAWS = 40
"""Label sets that show the null variance: its root errs by a ninth."""

NULL_ROWS = 4_000
"""Rows that show the null variance; from m of n rows it is scaled by (m / n)^2, because
each row's weights spread over m instead of n neighbours and m instead of n rows are averaged."""

NULL_SUMS = 1e10
"""Products spent on the null variance: fewer rows are drawn for many classes."""

COLUMNS = 256
"""Columns of values that are smoothed at once."""


@dataclass(frozen=True)
class Spread:
    """Standard error and interval of a value.

    Attributes
    ----------
    standard_error : the root of both parts of the variance
    interval : value +- z standard errors, cut at 0
    confidence : the interval's level
    """

    standard_error: float
    interval: tuple[float, float]
    confidence: float


def draw_labels(g: FloatArray, n_draws: int, seed: int) -> IntArray:
    """Label sets drawn from rows of g, ``(n, B)``."""
    cumulated = np.cumsum(g, axis=1)[:, :-1]  # (n, K-1)
    uniform = np.random.default_rng(seed).random((len(g), n_draws))
    labels = np.zeros(uniform.shape, dtype=np.intp)
    for k in range(cumulated.shape[1]):
        labels += uniform > cumulated[:, k : k + 1]
    return labels


@dataclass(frozen=True)
class NullWorld:
    """A model's smoothers, and the true probabilities from which labels are drawn.

    Attributes
    ----------
    problems : the model's, whose kernels see its own predictions
    truths : (n, K) each, what the labels of each problem are drawn from
    choices : bandwidth and coordinates of each problem
    start : whether a temperature is fitted to each label set
    """

    problems: Sequence[Problem]
    truths: Sequence[FloatArray]
    choices: Sequence[Choice]
    kernel: Kernel
    engine: str
    start: str

    def terms(self, outcomes: Sequence[IntArray]) -> FloatArray:
        """Terms of the debiased estimate for label sets, summed over problems, ``(n, B)``.

        `outcomes` holds the labels ``(n, B)`` of each problem.
        """
        total = np.zeros(outcomes[0].shape)
        for problem, g, choice, labels in zip(
            self.problems, self.truths, self.choices, outcomes, strict=True
        ):
            located = Valued.of(problem, choice.flattening, np.empty((len(g), 0)))
            (s,) = squared_weights([located], [(0, choice.bandwidth)], self.kernel, self.engine)
            step = max(1, COLUMNS // (1 if problem.predictions.ndim == 1 else problem.n_classes))
            edges = [*range(0, labels.shape[1], step), labels.shape[1]]
            for a, b in pairwise(edges):
                total[:, a:b] += self._of_problem(problem, located, g, choice, labels[:, a:b], s)
        return total

    def _of_problem(
        self,
        problem: Problem,
        located: Valued,
        g: FloatArray,
        choice: Choice,
        labels: IntArray,
        s: FloatArray,
    ) -> FloatArray:
        """Terms of one problem, ``(n, B)``: smooth all label sets together."""
        sets = [replace(problem, labels=column) for column in labels.T]
        starts = [self._start(drawn, g) for drawn in sets]
        residuals = [
            columns_of(drawn, drawn.one_hot() - start)
            for drawn, start in zip(sets, starts, strict=True)
        ]
        values = np.concatenate(residuals, axis=1) + OFFSET  # (n, B d)
        smoothed = self._smooth(replace(located, values=values), choice.bandwidth)
        width = residuals[0].shape[1]
        terms = np.empty(labels.shape)
        for b, (drawn, start) in enumerate(zip(sets, starts, strict=True)):
            q = spread(drawn, smoothed[:, b * width : (b + 1) * width])
            R = onto_simplex(start, q)
            refinement = second_order(drawn.loss, drawn.labels, drawn.one_hot(), R, s)
            terms[:, b] = risk_of(drawn.loss, drawn.labels, g) - refinement
        return terms

    def _start(self, drawn: Problem, g: FloatArray) -> FloatArray:
        """The start that would be fitted to the labels, each row left out: one Newton step."""
        if self.start == "identity":
            return g
        z = floored_log(drawn.points)
        centred = z - row_dot(g, z)[:, None]
        score = drawn.weights * row_dot(drawn.one_hot(), centred)
        information = drawn.weights @ row_dot(g, centred**2)
        if information <= 0:
            return g
        tilt = (score.sum() - score) / information
        return softmax(floored_log(g) + tilt[:, None] * z, axis=1)

    def _smooth(self, located: Valued, bandwidth: float) -> FloatArray:
        smoother = choose_smoother([located], self.kernel, self.engine, _values)
        result = np.empty_like(located.values)
        request = [(0, bandwidth)]
        for _, rows, mean in smoother.each(request, lambda k, rows, average: average.mean):
            result[rows] = mean - OFFSET
        return result


def _values(problem: Problem) -> FloatArray:
    assert isinstance(problem, Valued)
    return problem.values


def standard_error(terms: FloatArray, weights: FloatArray, null: FloatArray, scale: float) -> float:
    """The root of both parts of the variance of a weighted mean of terms.

    Parameters
    ----------
    terms : (n,), of the data
    weights : (n,), sum to one
    null : (m, B), terms of label sets drawn from the model
    scale : (m / n)^2
    """
    share = np.full(len(null), 1 / len(null))
    contained = float(np.mean([_variance(column, share) for column in null.T]))
    noise = float(np.var(null.mean(axis=0), ddof=1))
    own = max(_variance(terms, weights) - contained * scale, 0.0)
    return float(np.sqrt(own + noise * scale))


def _variance(terms: FloatArray, weights: FloatArray) -> float:
    """Variance of the weighted mean of independent terms."""
    deviation = terms - weights @ terms
    return float(weights**2 @ deviation**2) * len(terms) / max(len(terms) - 1, 1)


def around(value: float, error: float, confidence: float) -> Spread:
    """The interval of an error that cannot be negative."""
    reach = float(ndtri((1 + confidence) / 2)) * error
    return Spread(error, (max(value - reach, 0.0), max(value + reach, 0.0)), confidence)


def null_rows(n: int, n_columns: int) -> IntArray:
    """Rows that show the null variance."""
    m = int(min(n, NULL_ROWS, max(200.0, (NULL_SUMS / (NULL_DRAWS * n_columns)) ** 0.5)))
    if m == n:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, m, replace=False))


def fitted(sample: Sample, start: str) -> FloatArray:
    """The whole predictions at their start, from which label sets are drawn, ``(n, K)``."""
    if start == "identity":
        return sample.probabilities
    whole = Problem("all", sample.probabilities, sample.labels, sample.weights, KL)
    return powered(sample.probabilities, float(np.median(temperature_exponents(whole))))
