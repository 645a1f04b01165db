"""Weighted sums of values over centres: a product, or for labels one sum a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray

Floats = npt.NDArray[np.floating[Any]]

LARGE = 100
"""Samples a class from which a product a class is worth its call."""

Pair = tuple[FloatArray, FloatArray]

Sums = Callable[[Floats, Floats | None, Floats], Pair]
"""From weights ``(b, n)`` to the sums of the values ``(b, d)`` and of the weights ``(b,)``.

Weights are first multiplied by factors, one a centre ``(n,)``, if there are any: in a scratch
array ``(b, n)``, or on the way.
"""


def of_columns(values: FloatArray, dtype: npt.DTypeLike) -> Sums:
    """Sums of any values ``(n, d)``."""
    columns = np.empty((len(values), values.shape[1] + 1), dtype)  # (n, d+1)
    columns[:, :-1] = values
    columns[:, -1] = 1.0

    def sums(weights: Floats, factors: Floats | None, scratch: Floats) -> Pair:
        both = (_times(weights, factors, scratch) @ columns).astype(np.float64, copy=False)
        return both[:, :-1], both[:, -1]

    return sums


def of_labels(labels: IntArray, n_classes: int, dtype: npt.DTypeLike) -> Sums:
    """Sums of one-hot rows whose labels ascend: consecutive centres of a class are added up.

    An addition a pair instead of one multiplication for each class. Those of large classes are
    products of a matrix and a vector, twice as fast.
    """
    present, starts = np.unique(labels, return_index=True)
    ends = np.append(starts[1:], len(labels))
    large = len(labels) >= LARGE * len(present)
    members = [slice(*each) for each in zip(starts.tolist(), ends.tolist(), strict=True)]
    ones = np.ones(len(labels), dtype)

    def sums(weights: Floats, factors: Floats | None, scratch: Floats) -> Pair:
        of_class = np.zeros((len(weights), n_classes))
        if large:
            columns = ones if factors is None else factors
            for k, own in zip(present, members, strict=True):
                of_class[:, k] = weights[:, own] @ columns[own]
        else:
            each = _times(weights, factors, scratch)
            of_class[:, present] = np.add.reduceat(each, starts, axis=1)
        return of_class, of_class.sum(axis=1)

    return sums


def _times(weights: Floats, factors: Floats | None, scratch: Floats) -> Floats:
    return weights if factors is None else np.multiply(weights, factors, out=scratch)


def labels_in(values: FloatArray) -> IntArray | None:
    """The labels whose one-hot rows the values ``(n, d)`` are, None if they are none."""
    if values.shape[1] == 0 or np.count_nonzero(values) != len(values):
        return None
    labels = values.argmax(axis=1)
    return labels if (values[np.arange(len(values)), labels] == 1.0).all() else None
