"""Weighted sums of values over centres: a product, or for labels one sum a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray

Floats = npt.NDArray[np.floating[Any]]

Sums = Callable[[Floats], tuple[FloatArray, FloatArray]]
"""From weights ``(b, n)`` to the sums of the values ``(b, d)`` and of the weights ``(b,)``."""


def of_columns(values: FloatArray, dtype: npt.DTypeLike) -> Sums:
    """Sums of any values ``(n, d)``."""
    columns = np.empty((len(values), values.shape[1] + 1), dtype)  # (n, d+1)
    columns[:, :-1] = values
    columns[:, -1] = 1.0

    def sums(weights: Floats) -> tuple[FloatArray, FloatArray]:
        both = (weights @ columns).astype(np.float64, copy=False)
        return both[:, :-1], both[:, -1]

    return sums


def of_labels(labels: IntArray, n_classes: int) -> Sums:
    """Sums of one-hot rows whose labels ascend: consecutive centres of a class are added up.

    An addition a pair instead of one multiplication for each class.
    """
    present, starts = np.unique(labels, return_index=True)

    def sums(weights: Floats) -> tuple[FloatArray, FloatArray]:
        of_class = np.zeros((len(weights), n_classes))
        of_class[:, present] = np.add.reduceat(weights, starts, axis=1)
        return of_class, of_class.sum(axis=1)

    return sums


def labels_in(values: FloatArray) -> IntArray | None:
    """The labels whose one-hot rows the values ``(n, d)`` are, None if they are none."""
    if values.shape[1] == 0 or np.count_nonzero(values) != len(values):
        return None
    labels = values.argmax(axis=1)
    return labels if (values[np.arange(len(values)), labels] == 1.0).all() else None
