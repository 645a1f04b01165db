"""Points of the probability simplex: one probability as a pair, powers of f, estimates kept on it.

A problem that is made from one probability has one *free column*: residuals, slopes and averages
of the outcome 1 alone, because those of the outcome 0 mirror them. Other problems have K.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

from riskalign.equations.arrays import FLOOR, FloatArray, floored_log, row_sum

FLATTENINGS = (1.0, 0.5, 0.25)
"""Powers tau of f among which the kernel's coordinates are chosen: E[y | f] is the same in any
invertible coordinates of f, and predictions that crowd the corners need the flatter ones."""

KEPT_SHARE = 0.1
"""R_k is at least this share of g_k, its start."""

LOG_ODDS_END = float(np.log((1 - FLOOR) / FLOOR))
"""Log-odds of the mirror image of the logarithm's floor."""


def on_simplex(predictions: FloatArray) -> FloatArray:
    """One probability ``(n,)`` as the pair (1 - p, p); a matrix as it is."""
    if predictions.ndim == 1:
        return np.array([1.0 - predictions, predictions]).T
    return predictions


def completed(columns: FloatArray) -> FloatArray:
    """The free column ``(n, 1)`` of points as the pair (1 - p, p); K columns as they are."""
    return on_simplex(columns[:, 0]) if columns.shape[1] == 1 else columns


def mirrored(columns: FloatArray) -> FloatArray:
    """The free column ``(n, 1)`` of a difference as the pair (-x, x); K columns as they are."""
    if columns.shape[1] == 1:
        return np.array([-columns[:, 0], columns[:, 0]]).T
    return columns


def log_odds(p: FloatArray) -> FloatArray:
    """log(p / (1 - p)), accurate in both tails, at least that of the floor in size."""
    nearer = np.maximum(np.minimum(p, 1.0 - p), FLOOR)
    tail = np.log(nearer / (1.0 - nearer))  # at most 0
    return np.where(p > 0.5, -tail, tail)


def tempered(f: FloatArray, exponent: float) -> FloatArray:
    """f^exponent, renormalised: f at the temperature 1/exponent; ``(n,)`` or ``(n, K)``."""
    if exponent == 1.0:
        return f
    if f.ndim == 1:
        return expit(exponent * (floored_log(f) - floored_log(1.0 - f)))
    if f.shape[1] == 2:
        odds = exponent * (floored_log(f[:, 1]) - floored_log(f[:, 0]))
        return np.array([expit(-odds), expit(odds)]).T
    points: FloatArray = softmax(exponent * floored_log(f), axis=1)
    return points


def onto_simplex(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """R = start + smoothed residuals ``(n, K)``; no entry falls below a share of its start."""
    R = start + smoothed
    np.maximum(R, KEPT_SHARE * start, out=R)
    R /= row_sum(R)[:, None]
    return R
