"""Norms of R - f of a debiased estimate: of its kernels, and of its finer curves with their shares.

A finer curve that sees what the kernels miss of a squared error sees it of a norm as well. Its
share is decided by the evidence of the squared error, with higher thresholds
(`riskalign.methods.finer`). The estimates are mixed, and not their R: each of them is 0 on average
for a calibrated model, and so is their mean. The ends of an interval have shares of their own here
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.curves import Knots
from riskalign.equations.norms import direction, sides, variance_of_curve
from riskalign.equations.problem import Problem
from riskalign.methods.finer import STEPS
from riskalign.methods.level import newton_steps
from riskalign.methods.residuals import Debiased, Mixture


@dataclass(frozen=True)
class NormEstimate:
    """The parts of a norm of one problem that are too high and too low, ``(2,)`` each.

    Attributes
    ----------
    value : the estimate
    sure, feared : what it would be with the shares that the lower and the upper end of an interval
        give to finer curves
    """

    value: FloatArray
    sure: FloatArray
    feared: FloatArray


def norm_estimates(
    kernels: Sequence[Debiased], mixed: Sequence[Debiased], norm: str
) -> list[NormEstimate]:
    """The norms of estimates by kernels and of the same with finer curves mixed in."""
    return [_norm_estimate(*pair, norm) for pair in zip(kernels, mixed, strict=True)]


def _norm_estimate(kernels: Debiased, mixed: Debiased, norm: str) -> NormEstimate:
    mixtures = (mixed.mixture, *mixed.ends)
    levels = {id(knots): knots for each in mixtures for knots, _ in each.levels}
    known = {key: sides_of_level(mixed, knots, norm) for key, knots in levels.items()}
    of_kernels = norm_sides(kernels, norm)

    def mean(mixture: Mixture) -> FloatArray:
        total = mixture.kernels * of_kernels
        for knots, share in mixture.levels:
            total = total + share * known[id(knots)]
        return total

    return NormEstimate(*map(mean, mixtures))


def norm_sides(each: Debiased, norm: str) -> FloatArray:
    """The parts of a norm by kernels that are too high and too low, ``(2,)``."""
    R = each.conditional[:, -each.variance.shape[1] :]
    return _sides(each.problem, norm, R, each.variance)


def sides_of_level(each: Debiased, knots: Knots, norm: str) -> FloatArray:
    """The parts of a norm by a finer curve ``(2,)``, of a problem with a fitted start."""
    assert each.started is not None
    problem, fit = each.started.problem, each.started.fit
    steps = newton_steps(problem, fit.at(problem.predictions), knots, STEPS)
    variance = variance_of_curve(steps[0][0], problem.unit)
    step, total = steps[-1]
    R = step.without_own(total, problem.columns() - step.g, problem.units)
    return _sides(problem, norm, R, variance)


def _sides(problem: Problem, norm: str, R: FloatArray, variance: FloatArray) -> FloatArray:
    """The weighted mean of both sides' terms, ``(2,)``, of R and its variance ``(n, d)``."""
    f = Problem.free(problem.predictions)
    found = sides(direction(norm, R - f, variance), problem.columns() - f)
    parts: FloatArray = found @ problem.weights / problem.weights.sum()
    return parts


def doubts_of(estimates: Sequence[NormEstimate]) -> list[tuple[float, float]]:
    """By how much lower and upper ends are moved: those of both sides, and of the whole.

    What finer curves show may be chance or not, see `riskalign.methods.finer`.
    """
    value, sure, feared = (
        np.sum([getattr(each, name) for each in estimates], axis=0)
        for name in ("value", "sure", "feared")
    )
    gaps = np.array([value - sure, feared - value])  # (ends, sides)
    moves = np.maximum(np.column_stack([gaps, gaps.sum(axis=1)]), 0.0)
    return [(below, above) for below, above in moves.T.tolist()]
