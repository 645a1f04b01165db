"""Cumulative differences: no bins, no kernel, only sums of y - f in the order of f."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.problem import Problem
from riskalign.methods.method import CLASSICAL, ByProblem, Estimate, Scope, observed_risk


def cumulative_differences(problem: Problem) -> FloatArray:
    """C_0 = 0 and C_k = mean of (y - f) 1{f <= k-th distinct prediction}, ``(m + 1,)``."""
    p, place = np.unique(problem.predictions, return_inverse=True)
    share = problem.weights / problem.weights.sum()
    each = np.bincount(place, share * (problem.labels - problem.predictions), len(p))
    return np.concatenate([[0.0], np.cumsum(each)])


@dataclass(frozen=True)
class Kuiper(ByProblem):
    """The range of the cumulative differences between labels and predictions (ECCE-R).

    With the samples in the order of their predictions, C_k is 1/n times the sum of y - f over the
    first k, and the error is max C_k - min C_k, both with C_0 = 0. It is the largest
    |sum of y - f| / n over any interval of predictions. There is nothing to choose, but the
    error of a calibrated model is of the order 1/sqrt(n). For binary and top-label errors; it has
    no R.

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu: Metrics of calibration for probabilistic
    predictions, JMLR 23(351), 2022.

    Examples
    --------
    >>> import riskalign as ra
    >>> y, p = [0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8]
    >>> round(ra.calibration_error(y, p, method=ra.Kuiper()).value, 6)
    0.125
    """

    norm: ClassVar[str] = "kuiper"
    scope: ClassVar[Scope] = CLASSICAL

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return "max over intervals of |sum of y - f| / n"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        for problem in problems:
            yield Estimate(float(np.ptp(cumulative_differences(problem))), observed_risk(problem))
