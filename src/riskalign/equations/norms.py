"""Norms of R - f: mean |R - f| of absolute values or lengths, without what the noise of R adds.

The mean of a norm |R - f| over an estimate R is too large, because noise has a length too. Let u be
the direction of R - f: its sign for one probability, a unit vector for a whole prediction. Then
|R - f| = <u, R - f>, and because the label y_i does not enter its own R_i,

    terms_i = <u_i, y_i - f_i>

has the expectation <u_i, E[y | f_i] - f_i>: 0 for a calibrated model whatever u_i is, and the norm
where u_i is right. Where R - f is within its noise, the sign is a coin toss that all neighbours
share. The direction is therefore shortened where it is not clear, u = (R - f) / rho, with

    rho^2 = (x + sqrt(x^2 + 4 c^2)) / 2,    x = |R - f|^2 - sum_k v_k,    c^2 = sum_k v_k^2.

v_k is the variance of R_k, so that x is an unbiased estimate of the squared length, and c is the
size of its noise: rho is the length where that is clear and about sqrt(c) where it is not. What is
left is a bias downwards, by a third of a standard deviation of R where the error is about as large
as that standard deviation. No estimate of an absolute value is free of bias (Cai and Low, Annals of
Statistics 39(2), 2011).

R may be that of kernels or that of a finer curve (`riskalign.equations.curves`). The parameters of
a curve are theta = F^-1 sum_j w_j J_j' r_j. If the labels are drawn from the start g, their
covariance is C = unit (F^-1 - prior F^-2), so that with S_i = V_i J_i, the slopes of R at row i,

    v_ik = [S_i C S_i']_k = g_k^2 (J_ik - m_i) C (J_ik - m_i)',    m_i = sum_k g_k J_ik.

A curve has the features of the start, so that the noise of the fitted start is part of v. In a
first Newton step, leaving w_i J_i' r_i out of the sum frees R_i of the label y_i. A second step
begins at a g in which y_i has a part already: R counts it by its leverage h, and r_i only by 1 - h,
so that h - h (1 - h) = h^2 of it would remain. The effect u of r_i on the logits is therefore taken
away 1 / (1 - h) times.
"""

from __future__ import annotations

import numpy as np

from riskalign.equations.arrays import FloatArray, row_dot
from riskalign.equations.curves import CurveStep

MEANS = ("l1", "euclidean")
"""Norms that are means over samples of a norm of R - f: of absolute values, and of lengths."""

SMALLEST = 1e-300
"""A squared length that is counted as 0."""


def direction(norm: str, gap: FloatArray, variance: FloatArray) -> FloatArray:
    """U, the direction of R - f where it is clear, ``(..., d)`` as `gap` and `variance` are.

    For "l1" every column has a sign of its own; for "euclidean" the columns are one vector.
    """
    squares, noise, spread = gap**2, variance, variance**2
    if norm == "euclidean":
        squares, noise, spread = (
            each.sum(axis=-1, keepdims=True) for each in (squares, noise, spread)
        )
    x = squares - noise
    rho2 = (x + np.sqrt(x * x + 4 * spread)) / 2
    clear: FloatArray = np.where(rho2 > SMALLEST, gap / np.sqrt(np.maximum(rho2, SMALLEST)), 0.0)
    return clear


def variance_of_curve(step: CurveStep, unit: float) -> FloatArray:
    """The variance v of a curve's R ``(n, d)`` if labels are drawn from where the step begins.

    `unit` is the mean weight of a sample, each counted by its weight.
    """
    g, features, inverse = step.g, step.features, step.variance
    C = unit * (inverse - step.prior * inverse @ inverse)
    m = features.scores(g)  # (n, p)
    through = m @ C
    cross, of_mean = features.logits(through), row_dot(through, m)
    v = np.empty_like(g)
    for k, (places, columns) in enumerate(features.columns()):
        into = np.concatenate([np.arange(to.start, to.stop) for to, _ in places])
        own = row_dot(columns @ C[np.ix_(into, into)], columns)
        v[:, k] = g[:, k] ** 2 * (own - 2 * cross[:, k] + of_mean)
    return np.maximum(v, 0.0)


def sides(u: FloatArray, residual: FloatArray) -> FloatArray:
    """The terms of probabilities that are too high and too low, ``(2, ...)``.

    Their sum is <u, y - f>; `u` and `residual` y - f are ``(..., d)``.
    """
    high = (np.minimum(u, 0.0) * residual).sum(axis=-1)
    low = (np.maximum(u, 0.0) * residual).sum(axis=-1)
    return np.stack([high, low])


def norms_of(norm: str, gap: FloatArray) -> FloatArray:
    """The parts of |R - f| that are too high and too low, and the whole, for gaps R - f ``(n, d)``.

    The parts are of absolute values whatever the norm; ``(3, n)``.
    """
    high, low = np.maximum(-gap, 0.0).sum(axis=1), np.maximum(gap, 0.0).sum(axis=1)
    whole = high + low if norm == "l1" else np.sqrt(np.sum(gap**2, axis=1))
    return np.stack([high, low, whole])
