"""Checked data: predictions and labels that passed validation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray

WHOLE = 1e-9
"""A number of samples that differs from a whole number by less than this share is that number."""


@dataclass(frozen=True)
class Sample:
    """Predictions and labels that passed validation.

    A row stands for one sample or for several of equal predictions and label. Those of unequal
    weight w are taken as (sum w)^2 / sum w^2 samples of the weight sum w^2 / sum w.

    Attributes
    ----------
    probabilities : (n, K)
    labels : (n,), column numbers
    weights : (n,), total weight of the samples of each row
    classes : K names
    sample_weights : (n,), weight of one sample of each row; by default that of the row
    """

    probabilities: FloatArray
    labels: IntArray
    weights: FloatArray
    classes: tuple[str, ...]
    sample_weights: FloatArray | None = None

    @property
    def multiplicities(self) -> FloatArray:
        """How many samples each row stands for, ``(n,)``: (sum w)^2 / sum w^2.

        It is a whole number where they have equal weight.
        """
        if self.sample_weights is None:
            return np.ones(len(self.labels))
        used = self.sample_weights > 0  # of others not even the square is known
        none = np.zeros(len(self.labels))
        found = np.divide(self.weights, self.sample_weights, out=none, where=used)
        whole = np.round(found)
        return np.where(np.abs(found - whole) <= WHOLE * whole, whole, found)

    def take(self, rows: IntArray | slice) -> Sample:
        """Some of the rows."""
        units = self.sample_weights
        return replace(
            self,
            probabilities=self.probabilities[rows],
            labels=self.labels[rows],
            weights=self.weights[rows],
            sample_weights=None if units is None else units[rows],
        )
