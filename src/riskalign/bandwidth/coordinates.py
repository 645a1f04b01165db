"""Where a kernel sees the predictions, and what it averages there.

E[y | f] is the same in any invertible coordinates of f, so that the kernel may see flattened
predictions, f^tau renormalised: one bandwidth cannot serve both the middle of the simplex and
predictions that crowd its corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riskalign.bandwidth.search import Curve
from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray, IntArray, row_sum
from riskalign.equations.kernels import Kernel
from riskalign.equations.starts import powered
from riskalign.smoothing import Engine, Request, always, choose_smoother
from riskalign.smoothing.squared import SquaredKernel

FLATTENINGS = (1.0, 0.5, 0.25)
"""Powers of f among which the kernel's coordinates are chosen."""

KEPT_SHARE = 0.1
"""The share of its start below which smoothing cannot press a probability."""

OFFSET = 1.0
"""Added to residuals while they are summed: sums of one sign lose nothing to cancellation."""


@dataclass(frozen=True)
class Choice:
    """How the residuals of a problem are smoothed: h, in coordinates f^flattening."""

    bandwidth: float
    flattening: float = 1.0
    curve: Curve | None = None


@dataclass(frozen=True)
class Part:
    """Rows (None for all) that are smoothed alike, over all rows: one choice a problem."""

    rows: IntArray | None
    choices: Sequence[Choice]

    def among(self, rows: IntArray) -> Part:
        """The part's rows counted among some rows of all."""
        if self.rows is None:
            return self
        return Part(np.flatnonzero(np.isin(rows, self.rows)), self.choices)


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


def values_of(problem: Problem) -> FloatArray:
    """What a valued problem carries."""
    assert isinstance(problem, Valued)
    return problem.values


def like(problem: Problem, points: FloatArray) -> FloatArray:
    """Points ``(n, K)`` in the form of the problem's predictions."""
    return points[:, 1] if is_single(problem) else points


def is_single(problem: Problem) -> bool:
    """Whether the problem is made from one probability."""
    return problem.predictions.ndim == 1


def spread(problem: Problem, columns: FloatArray) -> FloatArray:
    """Residuals ``(n, 1)`` of one probability as the pair ``(n, 2)``; others as they are."""
    return np.concatenate([-columns, columns], axis=1) if is_single(problem) else columns


def columns_of(problem: Problem, residuals: FloatArray) -> FloatArray:
    """What needs smoothing of residuals ``(n, K)``: one column of two that mirror."""
    return residuals[:, 1:] if is_single(problem) else residuals


def onto_simplex(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """The start and its smoothed residuals ``(n, K)``; no entry below a share of its start."""
    R = np.maximum(start + smoothed, KEPT_SHARE * start)
    R /= row_sum(R)[:, None]
    return R


def with_residuals(problem: Problem, start: FloatArray, flattening: float) -> Valued:
    """The problem that carries y - start, in coordinates f^flattening."""
    residuals = columns_of(problem, problem.one_hot() - start)
    return Valued.of(problem, flattening, residuals + OFFSET)


def residuals_and_slopes(problem: Problem, start: FloatArray, slopes: FloatArray) -> FloatArray:
    """What is smoothed: y - start, and the slopes ``(n, K, p)`` of the start, ``(n, d + d p)``."""
    every = [problem.one_hot() - start, *np.moveaxis(slopes, 2, 0)]
    return np.concatenate([columns_of(problem, each) for each in every], axis=1)


def apart(problem: Problem, smoothed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Averages of residuals ``(n, K)`` and of slopes ``(n, K, p)``."""
    width = 1 if is_single(problem) else problem.n_classes
    every = [
        spread(problem, smoothed[:, first : first + width])
        for first in range(0, smoothed.shape[1], width)
    ]
    return every[0], np.stack(every[1:], axis=2) if every[1:] else np.empty((*every[0].shape, 0))


def smoothed_values(
    problems: Sequence[Problem],
    values: Sequence[FloatArray],
    parts: Sequence[Part],
    kernel: Kernel,
    engine: Engine,
) -> list[FloatArray]:
    """Averages of values ``(n, d)``, one array a problem, each row left out of its own."""
    result = [np.empty_like(each) for each in values]
    for part in parts:
        located = [
            Valued.of(problem, choice.flattening, each + OFFSET)
            for problem, choice, each in zip(problems, part.choices, values, strict=True)
        ]
        smoother = choose_smoother(located, kernel, engine, values_of)
        requests = [(k, choice.bandwidth) for k, choice in enumerate(part.choices)]
        tiles = smoother.each(requests, always(lambda average: average.mean), part.rows)
        for k, rows, mean in tiles:
            result[k][rows] = mean - OFFSET
    return result


def shares_of(
    problems: Sequence[Problem], parts: Sequence[Part], kernel: Kernel, engine: Engine
) -> list[FloatArray]:
    """s_i = sum_j w_ij^2 of every problem, ``(n,)`` each."""
    result = [np.empty(len(problem.labels)) for problem in problems]
    for part in parts:
        located = [
            Valued.of(problem, choice.flattening, _nothing(problem))
            for problem, choice in zip(problems, part.choices, strict=True)
        ]
        requests = [(k, choice.bandwidth) for k, choice in enumerate(part.choices)]
        shares = squared_weights(located, requests, kernel, engine, part.rows)
        for own, share in zip(result, shares, strict=True):
            rows = slice(None) if part.rows is None else part.rows
            own[rows] = share
    return result


def squared_weights(
    problems: Sequence[Problem],
    requests: Sequence[Request],
    kernel: Kernel,
    engine: Engine,
    rows: IntArray | None = None,
) -> list[FloatArray]:
    """s_i = sum_j w_ij^2 of every request at some rows: one over the effective neighbours."""
    n = len(problems[0].labels)
    wanted = np.arange(n) if rows is None else rows
    place = np.empty(n, dtype=np.intp)
    place[wanted] = np.arange(len(wanted))

    def log_sums(power: int, kernel: Kernel) -> list[FloatArray]:
        raised = [replace(problem, weights=problem.weights**power) for problem in problems]
        smoother = choose_smoother(raised, kernel, engine, _nothing)
        result = [np.empty(len(wanted)) for _ in requests]
        densities = smoother.each(requests, always(lambda average: average.log_density), rows)
        for i, own, log_density in densities:
            weights = raised[requests[i][0]].weights
            result[i][place[own]] = log_density + np.log(weights.sum() - weights[own])
        return result

    pairs = zip(log_sums(2, SquaredKernel(kernel)), log_sums(1, kernel), strict=True)
    return [np.minimum(np.exp(of_squares - 2 * of_sums), 1.0) for of_squares, of_sums in pairs]


def _nothing(problem: Problem) -> FloatArray:
    """No values: densities alone are wanted."""
    return np.empty((len(problem.labels), 0))
