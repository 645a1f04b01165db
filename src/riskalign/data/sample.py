"""Checked data, and its reduction by a notion of calibration to simplex problems.

After `reduce` the numerics see points on a simplex with labels, never the notion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.losses import ProperLoss


@dataclass(frozen=True)
class Sample:
    """Predictions and labels that passed validation.

    Attributes
    ----------
    probabilities : (n, K)
    labels : (n,), column numbers
    weights : (n,)
    classes : K names
    """

    probabilities: FloatArray
    labels: IntArray
    weights: FloatArray
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Points on a simplex with labels, and the loss that judges them.

    A problem made from one probability keeps it as ``(n,)``; `points` gives the
    simplex form.
    """

    name: str
    predictions: FloatArray
    labels: LabelArray
    weights: FloatArray
    loss: ProperLoss

    @property
    def n_classes(self) -> int:
        """Number of outcomes K."""
        return 2 if self.predictions.ndim == 1 else self.predictions.shape[1]

    @property
    def points(self) -> FloatArray:
        """Points on the simplex, ``(n, K)``."""
        return on_simplex(self.predictions)

    def take(self, rows: IntArray | slice) -> Problem:
        """The problem of some rows; a column of a wide table is copied, once for all readers."""
        return replace(
            self,
            predictions=np.ascontiguousarray(self.predictions[rows]),
            labels=self.labels[rows],
            weights=self.weights[rows],
        )

    def one_hot(self) -> FloatArray:
        """Labels as rows of the identity, ``(n, K)``."""
        y = np.zeros((len(self.labels), self.n_classes))
        y[np.arange(len(y)), self.labels] = 1.0
        return y


def on_simplex(predictions: FloatArray) -> FloatArray:
    """One probability ``(n,)`` as the pair (1 - p, p); a matrix as it is."""
    if predictions.ndim == 1:
        return np.array([1.0 - predictions, predictions]).T
    return predictions


def _alone(p: FloatArray) -> FloatArray:
    """A probability without its row: above one by rounding it has no complement, and is one."""
    return np.minimum(p, 1.0) if (p > 1.0).any() else p


def _binary(sample: Sample, loss: ProperLoss) -> list[Problem]:
    p, name = _alone(sample.probabilities[:, 1]), sample.classes[1]
    return [Problem(name, p, sample.labels, sample.weights, loss.binary)]


def _top_label(sample: Sample, loss: ProperLoss) -> list[Problem]:
    top = np.argmax(sample.probabilities, axis=1)
    p = _alone(np.take_along_axis(sample.probabilities, top[:, None], axis=1)[:, 0])
    right = (top == sample.labels).astype(np.int8)
    return [Problem("top label", p, right, sample.weights, loss.binary)]


def _classwise(sample: Sample, loss: ProperLoss) -> list[Problem]:
    return [
        Problem(
            name,
            _alone(sample.probabilities[:, k]),
            (sample.labels == k).astype(np.int8),  # K arrays of n: a byte each
            sample.weights,
            loss.binary,
        )
        for k, name in enumerate(sample.classes)
    ]


def _canonical(sample: Sample, loss: ProperLoss) -> list[Problem]:
    return [Problem("all classes", sample.probabilities, sample.labels, sample.weights, loss)]


NOTIONS: dict[str, Callable[[Sample, ProperLoss], list[Problem]]] = {
    "binary": _binary,
    "top-label": _top_label,
    "classwise": _classwise,
    "canonical": _canonical,
}
"""Reductions by name."""


def reduce(sample: Sample, notion: str, loss: ProperLoss) -> list[Problem]:
    """The problems that a notion of calibration makes of the sample."""
    return NOTIONS[notion](sample, loss)
