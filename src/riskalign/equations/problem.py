"""A problem: points on a simplex with labels, and the loss that judges them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.losses import ProperLoss
from riskalign.equations.simplex import on_simplex


@dataclass(frozen=True)
class Problem:
    """Points on a simplex with labels, and the loss that judges them.

    A row stands for one sample or for several equal ones. A sample is left out of its own
    average, and not the whole row.

    Attributes
    ----------
    name : what the problem is about
    predictions : one probability ``(n,)``, or points of the simplex ``(n, K)``
    labels : (n,), column numbers
    weights : (n,), total weight of the samples of each row
    loss : the loss, in its binary form for one probability
    sample_weights : (n,), weight of one sample of each row; by default that of the row
    known_mean_weight : mean weight of the samples, where the rows do not tell it (nodes)
    nodes : (n,), the node that each row is, where rows are nodes
    rounded : whether rows are cells of predictions that are not equal
    """

    name: str
    predictions: FloatArray
    labels: LabelArray
    weights: FloatArray
    loss: ProperLoss
    sample_weights: FloatArray | None = None
    known_mean_weight: float | None = None
    nodes: IntArray | None = None
    rounded: bool = False

    @property
    def n_classes(self) -> int:
        """Number of outcomes K."""
        return 2 if self.predictions.ndim == 1 else self.predictions.shape[1]

    @property
    def one_dimensional(self) -> bool:
        """Whether the problem is made from one probability."""
        return self.predictions.ndim == 1

    @property
    def points(self) -> FloatArray:
        """Points on the simplex, ``(n, K)``."""
        return on_simplex(self.predictions)

    @property
    def units(self) -> FloatArray:
        """Weight of one sample of each row, ``(n,)``, which is left out of its own average."""
        return self.weights if self.sample_weights is None else self.sample_weights

    @cached_property
    def unit(self) -> float:
        """Mean weight of a sample, each counted by its weight: sum w^2 / sum w."""
        return float(self.weights @ self.units / self.weights.sum())

    @cached_property
    def mean_weight(self) -> float:
        """Mean weight of the samples that have one."""
        if self.known_mean_weight is not None:
            return self.known_mean_weight
        return float(self.weights[self.units > 0].sum() / self.n_samples)

    @cached_property
    def n_samples(self) -> float:
        """The number of samples that have weight."""
        used = self.units > 0
        return float((self.weights[used] / self.units[used]).sum())

    def take(self, rows: IntArray | slice) -> Problem:
        """The problem of some rows; a column of a wide table is copied, once for all readers."""
        sample_weights = self.sample_weights
        return replace(
            self,
            predictions=np.ascontiguousarray(self.predictions[rows]),
            labels=self.labels[rows],
            weights=self.weights[rows],
            sample_weights=None if sample_weights is None else sample_weights[rows],
            nodes=None if self.nodes is None else self.nodes[rows],
        )

    def one_hot(self) -> FloatArray:
        """Labels as rows of the identity, ``(n, K)``."""
        if self.one_dimensional:
            return on_simplex(self.labels.astype(np.float64))
        y = np.zeros((len(self.labels), self.n_classes))
        y[np.arange(len(y)), self.labels] = 1.0
        return y

    def columns(self) -> FloatArray:
        """Labels in free columns, ``(n, d)``: of one probability the outcome 1 alone."""
        return self.labels[:, None].astype(np.float64) if self.one_dimensional else self.one_hot()

    @staticmethod
    def free(predictions: FloatArray) -> FloatArray:
        """Predictions in free columns, ``(n, d)``."""
        return predictions[:, None] if predictions.ndim == 1 else predictions
