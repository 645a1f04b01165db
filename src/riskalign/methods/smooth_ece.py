"""Smooth ECE: residuals smoothed on the unit interval, at the scale of the error itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from riskalign.equations.arrays import FloatArray
from riskalign.equations.problem import Problem
from riskalign.methods.binning import sum_by
from riskalign.methods.method import CLASSICAL, ByProblem, Estimate, Scope, observed_risk

NODES = 2**16
"""Nodes of the interval; spreading residuals on them moves the error by about 1e-5 of it."""


class SmoothedResiduals:
    """Residuals f - y of one problem, ready to be smoothed with any bandwidth.

    The Gaussian reflected at 0 and 1 is the heat kernel of the interval: it multiplies the
    k-th cosine coefficient by exp(-(pi k sigma)^2 / 2).
    """

    def __init__(self, problem: Problem) -> None:
        p = np.clip(problem.predictions, 0.0, 1.0)
        mass = problem.weights * (p - problem.labels) / problem.weights.sum()
        place = p * NODES - 0.5  # node j lies at (j + 1/2) / NODES
        below = np.floor(place).astype(np.intp)
        share = place - below
        # beyond the first and the last node the reflected node is that node itself
        spread = sum_by(np.maximum(below, 0), mass * (1 - share), NODES)
        spread += sum_by(np.minimum(below + 1, NODES - 1), mass * share, NODES)
        self._coefficients: FloatArray = dct(spread)
        self._frequencies = np.pi * np.arange(NODES)

    def error(self, sigma: float) -> float:
        """The integral of |mean of K_sigma(t, f) (f - y)| over t in [0, 1]."""
        damped = self._coefficients * np.exp(-((self._frequencies * sigma) ** 2) / 2)
        return float(np.abs(idct(damped)).sum())

    def fixed_point(self) -> float:
        """The sigma that equals the error at sigma: the error falls as sigma grows."""

        def excess(sigma: float) -> float:
            return self.error(sigma) - sigma

        if excess(0.0) <= 0:
            return 0.0
        return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-10))


@dataclass(frozen=True)
class SmoothECE(ByProblem):
    """The smooth expected calibration error of Błasiok and Nakkiran; it has no R.

    smECE_sigma is the integral over [0, 1] of |mean of K_sigma(t, f) (f - y)|, with the
    Gaussian kernel reflected at 0 and 1; the error is the one sigma with smECE_sigma = sigma.
    For binary and top-label errors, on the scale of the l1 norm. Weighted samples give
    weighted means.

    References
    ----------
    Błasiok, Nakkiran: Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing,
    ICLR 2024.

    Examples
    --------
    >>> import riskalign as ra
    >>> y, p = [0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8]
    >>> round(ra.calibration_error(y, p, method=ra.SmoothECE()).value, 3)
    0.177
    """

    norm: ClassVar[str] = "l1"
    scope: ClassVar[Scope] = CLASSICAL

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return "sigma = integral of |smoothed f - y|"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        for problem in problems:
            value = SmoothedResiduals(problem).fixed_point()
            yield Estimate(value, observed_risk(problem))
