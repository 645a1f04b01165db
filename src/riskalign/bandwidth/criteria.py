"""Three criteria for the bandwidth of smoothed labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.problem import Problem
from riskalign.equations.terms import alignment_residual, risk_of
from riskalign.smoothing import Average

Criterion = Callable[[Problem], Callable[[Average], FloatArray]]
"""From rows of a problem, and then their leave-one-out averages, to the terms to be minimised."""


def risk_alignment(power: float) -> Criterion:
    """|<R - y, l(f)>|^p: reconstructed against observed risk, sample by sample."""

    def of_rows(rows: Problem) -> Callable[[Average], FloatArray]:
        residual = alignment_residual(rows.loss, rows.points, rows.labels)

        def terms(average: Average) -> FloatArray:
            gap = residual(average.mean)
            return gap * gap if power == 2 else np.abs(gap) ** power

        return terms

    return of_rows


def likelihood(rows: Problem) -> Callable[[Average], FloatArray]:
    """Minus the leave-one-out log density."""
    return lambda average: -average.log_density


def cross_validation(rows: Problem) -> Callable[[Average], FloatArray]:
    """<y, l(R)>: the leave-one-out risk of R itself."""
    return lambda average: risk_of(rows.loss, rows.labels, average.mean)


CRITERIA: dict[str, Callable[[float], Criterion]] = {
    "risk-alignment": risk_alignment,
    "likelihood": lambda power: likelihood,
    "cross-validation": lambda power: cross_validation,
}
"""Criteria by name, made for a power (which risk alignment alone uses)."""
