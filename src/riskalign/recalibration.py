"""R at points of one's choice: a start, and residuals smoothed around each point.

With e = y - g the residuals of a start g and w_j(x) the kernel's weights, none left out,

    R(x) = g(x) + sum_j w_j(x) e_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riskalign.arrays import FloatArray, floored_log, row_dot, row_sum
from riskalign.bandwidth import Search, risk_alignment
from riskalign.kernels import Kernel
from riskalign.residual import (
    BATCH,
    FLATTENINGS,
    OFFSET,
    STARTS,
    Choice,
    choose,
    like,
    powered,
    spread,
    values_of,
    with_residuals,
)
from riskalign.sample import Problem
from riskalign.smoothing import choose_smoother
from riskalign.smoothing.squared import SquaredKernel


def exponent_of(problem: Problem, start: str) -> float:
    """The power of f that a start is, one for all points."""
    return float(np.median(STARTS[start](problem)))


def started_at(points: FloatArray, exponent: float) -> FloatArray:
    """The start at points ``(m, K)``."""
    return points if exponent == 1.0 else powered(points, exponent)


def align(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: str,
    power: float = 2.0,
    progress: bool | None = None,
) -> list[Choice]:
    """Bandwidth and coordinates f^tau by risk alignment, tau among `FLATTENINGS`.

    One bandwidth cannot serve the middle of the simplex and predictions that crowd its
    corners, so that risk alignment over-smooths those; in their own coordinates it does not.
    """
    choices = []
    for first in range(0, len(problems), BATCH):
        batch = problems[first : first + BATCH]
        located = [
            replace(problem, predictions=like(problem, started_at(problem.points, tau)))
            for tau in FLATTENINGS
            for problem in batch
        ]
        smoother = choose_smoother(located, kernel, engine)
        # The smoother sees the coordinates, the criterion the predictions themselves.
        search = Search(
            list(batch) * len(FLATTENINGS), smoother, kernel, risk_alignment(power), progress
        )
        curves = search.continuous()
        for k in range(len(batch)):
            own = zip(FLATTENINGS, curves[k :: len(batch)], strict=True)
            tau, curve = min(own, key=lambda pair: float(pair[1].objective.min()))
            choices.append(Choice(curve.value, tau, replace(curve, flattening=tau)))
    return choices


def choose_by_risk(
    problems: Sequence[Problem],
    starts: Sequence[FloatArray],
    kernel: Kernel,
    engine: str,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
) -> list[Choice]:
    """Bandwidth and coordinates by the leave-one-out risk of R."""
    choices = []
    for first in range(0, len(problems), BATCH):
        some = slice(first, first + BATCH)
        choices += choose(problems[some], starts[some], kernel, engine, candidates, progress)
    return choices


def smoothed_at(
    problem: Problem,
    start: FloatArray,
    choice: Choice,
    points: FloatArray,
    kernel: Kernel,
    engine: str,
) -> FloatArray:
    """Residuals y - start ``(n, K)``, smoothed at points of the simplex, ``(m, K)`` each."""
    located = with_residuals(problem, start, choice.flattening)
    smoother = choose_smoother([located], kernel, engine, values_of)
    average = smoother.at((0, choice.bandwidth), started_at(points, choice.flattening))
    return spread(problem, average.mean - OFFSET)


@dataclass(frozen=True)
class Support:
    """What averages at some points rest on, ``(m,)`` each.

    Attributes
    ----------
    density : the kernel density of the predictions
    effective : (sum_j w_j)^2 / sum_j w_j^2, how many samples share the average
    nearby : sum_j w_j / k_h(x; x), samples counted by how close they are
    """

    density: FloatArray
    effective: FloatArray
    nearby: FloatArray


def support_at(
    problem: Problem, choice: Choice, points: FloatArray, kernel: Kernel, engine: str
) -> Support:
    """The samples behind an average at points ``(m, K)``."""
    h, flattening = choice.bandwidth, choice.flattening
    x = started_at(points, flattening)
    located = with_residuals(problem, problem.points, flattening)

    def log_sum(power: int, kernel: Kernel) -> FloatArray:
        raised = replace(located, weights=problem.weights**power)
        smoother = choose_smoother([raised], kernel, engine, values_of)
        return smoother.at((0, h), x).log_density + np.log(raised.weights.sum())

    of_weights, of_squares = log_sum(1, kernel), log_sum(2, SquaredKernel(kernel))
    peak = kernel.scale(h) * row_dot(kernel.queries(x), x)
    peak += kernel.key_bias(x, h) + kernel.query_bias(x, h)
    # The flattened simplex is stretched by a factor, and with it the density.
    stretch = (x.shape[1] - 1) * np.log(flattening)
    stretch += row_sum(floored_log(x)) - row_sum(floored_log(points))
    return Support(
        np.exp(of_weights + stretch) / problem.weights.sum(),
        np.exp(2 * of_weights - of_squares),
        np.exp(of_weights - peak) / problem.weights.mean(),
    )
