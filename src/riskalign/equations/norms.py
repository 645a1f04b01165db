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
"""

from __future__ import annotations

import numpy as np

from riskalign.equations.arrays import FloatArray

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
