"""The null row that every table shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from riskalign.equations.problem import Problem
from riskalign.methods.method import ByProblem, Estimate, Scope, plug_in


@dataclass(frozen=True)
class AlwaysZero(ByProblem):
    """The model is right: R = f, and every calibration error is zero.

    An estimator whose error exceeds this one's is worse than no estimator at all.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> ra.calibration_error(data.y_true, data.y_prob, method=ra.AlwaysZero()).value
    0.0
    """

    norm: ClassVar[None] = None
    scope: ClassVar[Scope] = Scope()

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return "zero, whatever the data"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        for problem in problems:
            yield plug_in(problem, problem.predictions.copy(), "R = f")
