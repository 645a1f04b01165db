"""Spiegelhalter's z: the Brier score against what it would be if the predictions were right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from riskalign.equations.problem import Problem
from riskalign.methods.method import CLASSICAL, ByProblem, Estimate, Scope, observed_risk


def spiegelhalter_z(problem: Problem) -> float:
    """Sum of (y - f)(1 - 2f) over its standard deviation if labels were drawn from f.

    A weighted sample counts with its weight in the sum and with its square in the variance. The
    statistic is infinite where something came true that had the probability 0.
    """
    f, y, w = problem.predictions, problem.labels.astype(np.float64), problem.weights
    excess = float(w @ ((y - f) * (1 - 2 * f)))
    variance = float((w * problem.units) @ ((1 - 2 * f) ** 2 * f * (1 - f)))
    if variance > 0:
        return excess / math.sqrt(variance)
    return math.copysign(math.inf, excess) if excess else 0.0


@dataclass(frozen=True)
class Spiegelhalter(ByProblem):
    """Spiegelhalter's z, a test statistic rather than a size of error.

    It is the Brier score less its expectation under the predictions, over its standard deviation:
    z = sum (y - f)(1 - 2f) / sqrt(sum (1 - 2f)^2 f (1 - f)). Of a calibrated model it is
    approximately standard normal, and the note of the result has the two-sided p-value. Above 0 the
    predictions are too extreme, below 0 too timid; errors that leave the Brier score as expected
    are not seen. It grows with the number of samples, like every test statistic. For binary and
    top-label errors; it has no R.

    References
    ----------
    Spiegelhalter: Probabilistic prediction in patient management and clinical trials, Statistics in
    Medicine 5(5), 1986.

    Examples
    --------
    >>> import riskalign as ra
    >>> y, p = [0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8]
    >>> result = ra.calibration_error(y, p, method=ra.Spiegelhalter())
    >>> round(result.value, 3), result.note
    (-0.968, 'two-sided p-value 0.33')
    """

    norm: ClassVar[str] = "spiegelhalter"
    scope: ClassVar[Scope] = CLASSICAL

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return "z = sum of (y - f)(1 - 2f) over its standard deviation"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        for problem in problems:
            z = spiegelhalter_z(problem)
            note = f"two-sided p-value {2 * float(ndtr(-abs(z))):.2g}"
            yield Estimate(z, observed_risk(problem), note=note)
