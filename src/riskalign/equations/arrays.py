"""The array types, and the one floor that every logarithm shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
LabelArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]

FLOOR = 1e-9
"""Smallest probability inside a logarithm: the published code's floor. A label that fell
where the estimate is zero costs 20.7 nats instead of infinity, and 0 log 0 is 0."""


def row_dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """<a_i, b_i>, row by row; several times faster than a sum over short rows."""
    return np.einsum("nk,nk->n", a, b)


def row_sum(a: FloatArray) -> FloatArray:
    """Sum of each row."""
    if a.shape[1] == 2:  # three times as fast
        return a[:, 0] + a[:, 1]
    return np.einsum("nk->n", a)


def floored_log(x: FloatArray) -> FloatArray:
    """Logarithm of probabilities, floored at `FLOOR`."""
    return np.log(np.maximum(x, FLOOR))


def as_slice(rows: IntArray) -> IntArray | slice:
    """Ascending rows as a slice, which copies nothing, where none is left out between them."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
