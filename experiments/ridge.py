"""Kernel ridge regression at the paper's n: features of low rank, what they leave out checked.

The exact estimate costs n^3. Its penalty lambda = rho m^0.75 hides small eigenvalues of the
kernel matrix, so features that leave out a part of norm far below lambda give the same
estimate: the part left out is measured, and compared with the penalty that was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.methods.ridge import PENALTIES, Fit, kernel, pair_risk, parts_of

FORM = "residual"
FOLDS = 5
LEFT_OUT = (1e-3, 1e-4, 1e-5)
"""Mean of k(x, x) = 1 that the features may leave out: the first that is small enough."""

SMALL = 0.1
"""Norm of the part left out, relative to lambda, below which the estimate is taken."""

MOST = 2_000
"""Most features."""

CHECKED = 2_000
"""Samples on which the norm of the part left out is measured, against exact kernel values."""


@dataclass(frozen=True)
class RidgeEstimate:
    """The squared error, the penalty chosen, and how exact the features are.

    `residual` is the largest eigenvalue of the part of the kernel matrix that the features
    leave out, relative to lambda.
    """

    value: float
    penalty: float
    rank: int
    residual: float


def features(x: FloatArray, left_out: float, most: int = MOST) -> FloatArray:
    """Features ``(n, r)`` by Cholesky's decomposition with pivots."""
    left = np.ones(len(x))  # what the features do not yet explain of k(x, x)
    rows = np.empty((min(most, len(x)), len(x)))
    for r in range(len(rows)):
        if left.mean() <= left_out:
            return rows[:r].T
        pivot = int(np.argmax(left))
        explained = rows[:r, pivot] @ rows[:r]
        rows[r] = (kernel(x, x[[pivot]])[:, 0] - explained) / np.sqrt(left[pivot])
        left = np.maximum(left - rows[r] ** 2, 0.0)
    return rows.T


def largest_left_out(x: FloatArray, phi: FloatArray) -> float:
    """Largest eigenvalue of what the features leave out of the kernel matrix, per sample."""
    rows = slice(0, CHECKED)  # samples come in random order
    rest = kernel(x[rows], x[rows]) - phi[rows] @ phi[rows].T
    size = len(rest)
    return float(eigvalsh(rest, subset_by_index=[size - 1, size - 1])[0]) / size


def squared_error(y: IntArray, f: FloatArray) -> RidgeEstimate:
    """The canonical squared error of predictions ``(n, K)``, as `riskalign.KernelRidge`.

    More features are taken until what is left out is small beside the penalty.
    """
    for left_out in LEFT_OUT:
        phi = features(f, left_out)
        estimate = _estimate(y, f, phi)
        if estimate.residual <= SMALL or phi.shape[1] >= min(MOST, len(y)):
            break
    return estimate


def _estimate(y: IntArray, f: FloatArray, phi: FloatArray) -> RidgeEstimate:
    d = f - np.eye(f.shape[1])[y]
    problem = Problem("all classes", f, y, np.ones(len(y)), L2)
    parts = parts_of(problem, FOLDS, seed=0)
    fits = [Fit.leaving_out(fold, parts, f, d, phi) for fold in range(FOLDS)]
    penalties = PENALTIES[FORM].tolist()
    risks = [
        [pair_risk(d[parts == k], *fit.factors(FORM, rho, fit.held)) for rho in penalties]
        for k, fit in enumerate(fits)
    ]
    rho = penalties[int(np.argmin(np.mean(risks, axis=0)))]
    at_test = [fit.factors(FORM, rho, fit.test) for fit in fits]
    value = float(np.mean([np.sum(left * right, axis=1).mean() for left, right in at_test]))
    m = fits[0].m
    residual = max(largest_left_out(f, phi), 0.0) * m / (rho * m**0.75)
    return RidgeEstimate(value, rho, phi.shape[1], residual)
