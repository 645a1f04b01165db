"""Checked data: predictions and labels that passed validation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from riskalign.equations.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Sample:
    """Predictions and labels that passed validation.

    A row stands for one sample or for several equal ones.

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
