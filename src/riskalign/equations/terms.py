"""From f, y and an estimate R of E[y | f] to the terms of the risk, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from riskalign.equations.arrays import FloatArray, LabelArray, row_dot
from riskalign.equations.losses import ProperLoss


@dataclass(frozen=True)
class Terms:
    """Per-row terms, each ``(n,)``; `plugin + refinement == reconstructed_risk`."""

    risk: FloatArray
    refinement: FloatArray
    reconstructed_risk: FloatArray
    plugin: FloatArray
    variational: FloatArray

    @property
    def cross(self) -> FloatArray:
        """Mean of plug-in and variational: their second-order variance terms cancel."""
        return (self.plugin + self.variational) / 2


ESTIMATORS = ("plugin", "variational", "cross")
"""The terms that estimate the calibration error."""


def of_label(losses: FloatArray, labels: LabelArray) -> FloatArray:
    """<y, losses>; a flat index is found twice as fast as a pair of them, two outcomes faster."""
    n, n_classes = losses.shape
    if n_classes == 2:
        return np.where(labels, losses[:, 1], losses[:, 0])
    if losses.flags.f_contiguous:
        return losses.T.ravel().take(np.multiply(labels, n, dtype=np.intp) + np.arange(n))
    return losses.ravel().take(np.arange(0, losses.size, n_classes) + labels)


def decompose(loss: ProperLoss, f: FloatArray, labels: LabelArray, R: FloatArray) -> Terms:
    """Terms of the risk for predictions f ``(n, K)`` and an estimate R ``(n, K)``."""
    loss_f, loss_R = loss(f), loss(R)  # (n, K)
    gain = loss_f - loss_R
    return Terms(
        risk=of_label(loss_f, labels),  # <y, l(f)>
        refinement=row_dot(R, loss_R),  # <R, l(R)>
        reconstructed_risk=row_dot(R, loss_f),  # <R, l(f)>
        plugin=row_dot(R, gain),  # <R, l(f) - l(R)>
        variational=of_label(gain, labels),  # <y, l(f) - l(R)>
    )


def alignment_residual(
    loss: ProperLoss, f: FloatArray, labels: LabelArray
) -> Callable[[FloatArray], FloatArray]:
    """From R to <R - y, l(f)>: reconstructed minus observed risk, row by row."""
    loss_f = loss(f)
    observed = of_label(loss_f, labels)
    return lambda R: row_dot(R, loss_f) - observed


def risk_of(loss: ProperLoss, labels: LabelArray, R: FloatArray) -> FloatArray:
    """<y, l(R)>: the risk that the estimate itself would suffer."""
    return of_label(loss(R), labels)


def moments(R: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of what a label drawn from R is worth, ``(n,)`` each; values ``(n, K)``."""
    mean = row_dot(R, values)
    return mean, row_dot(R, (values - mean[:, None]) ** 2)


def moments_of_gain(
    loss: ProperLoss, f: FloatArray, R: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the gain l_y(f) - l_y(R) of a label y drawn from R, ``(n,)`` each.

    The mean is the divergence of R from f, the calibration error if R is E[y | f].
    """
    return moments(R, loss(f) - loss(R))
