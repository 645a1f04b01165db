"""Rows with counts: which are equal, which are one-hot, and their canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riskalign.data import hashing
from riskalign.data.cells import Numbers
from riskalign.data.hashing import HashArray
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, LabelArray

HALF, WHOLE = 1 << 63, 1 << 64
"""Hashes of one-hot rows lie below 2^63, those of other rows between 2^63 and 2^64."""

CountArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows with their hashes and counts, ``(m,)`` each but the predictions ``(m, d)``."""

    hashes: HashArray
    predictions: FloatArray
    labels: CountArray
    weights: FloatArray
    counts: CountArray

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, index: IntArray | BoolArray | slice) -> Rows:
        """Some of the rows."""
        return Rows(*(column[index] for column in vars(self).values()))

    def equal(self, index: IntArray, other: Rows) -> BoolArray:
        """Whether the rows at `index` equal all of the other rows one by one, hashes aside."""
        same: BoolArray = self.labels.take(index) == other.labels
        same &= self.weights.take(index) == other.weights
        if self.predictions.shape[1] == 1:
            same &= self.predictions[:, 0].take(index) == other.predictions[:, 0]
        else:
            same &= _how_many(self.predictions.take(index, axis=0) != other.predictions) == 0
        return same

    @property
    def one_hot(self) -> BoolArray:
        """Whether each row is exactly one-hot, see `is_one_hot`."""
        mask: BoolArray = self.hashes < np.uint64(HALF)
        return mask


def concatenate(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Rows(*(np.concatenate(column) for column in columns))


def is_one_hot(predictions: Numbers) -> BoolArray:
    """Whether each row ``(n, d)`` is exactly one-hot; of one column, whether it is 0 or 1."""
    if predictions.shape[1] == 1:
        p = predictions[:, 0]
        either: BoolArray = (p == 0) | (p == 1)
        return either
    found = np.zeros(len(predictions), dtype=np.bool_)
    ones = np.flatnonzero(predictions == 1) // predictions.shape[1]
    found[ones] = _how_many(predictions[ones] != 0) == 1
    return found


def _how_many(mask: BoolArray) -> FloatArray:
    """How many entries of each row are true; several times faster than a sum of short rows."""
    return mask @ np.ones(mask.shape[1])


def row_hashes(predictions: Numbers, labels: LabelArray, weights: FloatArray | None) -> HashArray:
    """Hashes of 63 bits after a first bit, which is 0 for one-hot rows and 1 for others."""
    hashes = hashing.hash_rows(predictions, labels, weights)
    hashes |= np.uint64(HALF)
    one_hot = is_one_hot(predictions)
    if one_hot.any():
        hashes ^= one_hot.astype(np.uint64) * np.uint64(HALF)
    return hashes


def distinct(rows: Rows) -> tuple[IntArray, CountArray]:
    """Places and counts of distinct rows, by hash and, where hashes are equal, by content."""
    order = np.argsort(rows.hashes)
    hashes = rows.hashes[order]
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
    equal = rows.equal(order[repeated], rows.take(order[repeated + 1]))
    if not equal.all():  # different rows share a hash: put equal ones side by side
        content = (rows.weights, rows.labels, *rows.predictions.T[::-1], rows.hashes)
        order = np.lexsort(content)
        equal = rows.equal(order[repeated], rows.take(order[repeated + 1]))
    first = np.ones(len(rows), dtype=np.bool_)
    first[repeated[equal] + 1] = False
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(rows.counts[order], starts) if len(starts) else rows.counts
    return order[starts], counts


def single_rows(
    hashes: HashArray, predictions: Numbers, labels: LabelArray, weights: FloatArray | None
) -> Rows:
    """Rows that occur once each; -0.0 becomes 0.0."""
    return Rows(
        hashes,
        np.add(predictions, 0.0, dtype=np.float64),
        labels.astype(np.int64),
        np.broadcast_to(1.0, len(labels)) if weights is None else weights + 0.0,
        np.broadcast_to(np.int64(1), len(labels)),
    )
