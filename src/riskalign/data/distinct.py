"""Rows with counts: which are equal, which are one-hot, and their canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from riskalign.data import hashing
from riskalign.data.cells import Numbers
from riskalign.data.hashing import HashArray
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, LabelArray

HALF, WHOLE = 1 << 63, 1 << 64
"""Hashes of one-hot rows lie below 2^63, those of other rows between 2^63 and 2^64."""

CountArray = npt.NDArray[np.int64]

Kinds = tuple[bool, bool]
"""Something that holds or not of one-hot rows, and of other rows."""


@dataclass(frozen=True)
class Rows:
    """Rows with their hashes and counts, ``(m,)`` each but the predictions ``(m, d)``.

    A row stands for some samples of equal predictions and label.

    Attributes
    ----------
    hashes, predictions, labels
    weights : mean weight of the samples
    units : sum w^2 / sum w over the samples, which is their weight where all have the same
    counts : number of samples
    """

    hashes: HashArray
    predictions: FloatArray
    labels: CountArray
    weights: FloatArray
    units: FloatArray
    counts: CountArray

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, index: IntArray | BoolArray | slice) -> Rows:
        """Some of the rows."""
        return Rows(*(column[index] for column in vars(self).values()))

    def equal(self, index: IntArray, other: Rows) -> BoolArray:
        """Whether the rows at `index` have the predictions and labels of the other rows."""
        same: BoolArray = self.labels.take(index) == other.labels
        if self.predictions.shape[1] == 1:
            same &= self.predictions[:, 0].take(index) == other.predictions[:, 0]
        else:
            same &= _how_many(self.predictions.take(index, axis=0) != other.predictions) == 0
        return same

    def weigh_as(self, index: IntArray, other: Rows) -> BoolArray:
        """Whether samples of the rows at `index` weigh what those of the other rows weigh."""
        same: BoolArray = self.weights.take(index) == other.weights
        same &= self.units.take(index) == other.units
        return same

    @property
    def one_hot(self) -> BoolArray:
        """Whether each row is exactly one-hot, see `is_one_hot`."""
        mask: BoolArray = self.hashes < np.uint64(HALF)
        return mask


@dataclass(frozen=True)
class Kept:
    """What is kept of distinct rows: all of them, or a sample.

    Attributes
    ----------
    rows : Rows, in canonical order
    limit, merged, inclusion, complete : see `riskalign.data.rows.RowTable`
    """

    rows: Rows
    limit: int
    merged: Kinds = (False, False)
    inclusion: FloatArray | float = 1.0
    complete: bool = True


def _concatenated(parts: Sequence[Rows]) -> Rows:
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


def row_hashes(predictions: Numbers, labels: LabelArray) -> HashArray:
    """Hashes of 63 bits after a first bit, which is 0 for one-hot rows and 1 for others."""
    hashes = hashing.hash_rows(predictions, labels)
    hashes |= np.uint64(HALF)
    one_hot = is_one_hot(predictions)
    if one_hot.any():
        hashes ^= one_hot.astype(np.uint64) * np.uint64(HALF)
    return hashes


def are_of(kinds: Kinds, hashes: HashArray) -> BoolArray:
    """Whether rows of these hashes are of a kind for which something holds."""
    if kinds[0] == kinds[1]:
        return np.full(len(hashes), kinds[0])
    mask: BoolArray = (hashes < np.uint64(HALF)) == kinds[0]
    return mask


def in_order(rows: Rows, merged: Kinds) -> tuple[IntArray, IntArray, IntArray]:
    """The canonical order of rows, and where in it those begin that become one.

    It is that of their hashes and, where hashes are equal, of content, at last of weights.

    Returns
    -------
    order, starts
    mixed
        Places in the order of rows that weigh something else than the row before, with which they
        become one.
    """
    order = np.argsort(rows.hashes)
    hashes = rows.hashes[order]
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
    before, after = order[repeated], rows.take(order[repeated + 1])
    together = are_of(merged, after.hashes)
    equal, alike = rows.equal(before, after), rows.weigh_as(before, after)
    if not (equal & (alike | together)).all():
        by_weight = (rows.units, rows.weights)
        if equal.all():
            order = np.lexsort((*by_weight, rows.hashes))
        else:  # different rows share a hash: put equal ones side by side
            content = (rows.labels, *rows.predictions.T[::-1])
            order = np.lexsort((*by_weight, *content, rows.hashes))
        before, after = order[repeated], rows.take(order[repeated + 1])
        equal, alike = rows.equal(before, after), rows.weigh_as(before, after)
    joined = equal & (alike | together)  # hashes are in one order
    first = np.ones(len(rows), dtype=np.bool_)
    first[repeated[joined] + 1] = False
    return order, np.flatnonzero(first), repeated[joined & ~alike] + 1


def distinct_rows(
    predictions: Numbers, labels: LabelArray, weights: FloatArray | None = None
) -> Rows:
    """The distinct rows of a sample in canonical order; rows of weight 0 are left out.

    Parameters
    ----------
    predictions : (n, d)
    labels : (n,), integers
    weights : (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> rows = distinct_rows(np.array([[0.2], [0.7], [0.2]]), np.array([0, 1, 0]))
    >>> sorted(zip(rows.predictions[:, 0].tolist(), rows.counts.tolist()))
    [(0.2, 2), (0.7, 1)]
    """
    if weights is not None and not weights.all():
        used = np.flatnonzero(weights)
        predictions, labels, weights = predictions[used], labels[used], weights[used]
    hashes = row_hashes(predictions, labels)
    return distinct([single_rows(hashes, predictions, labels, weights)])


def regrouped(rows: Rows, predictions: FloatArray, labels: CountArray, merged: Kinds) -> Rows:
    """The distinct rows, in canonical order, if each of these stands for another row."""
    hashes = row_hashes(predictions, labels)
    return distinct([replace(rows, hashes=hashes, predictions=predictions, labels=labels)], merged)


def distinct(parts: Sequence[Rows], merged: Kinds = (False, False)) -> Rows:
    """The distinct rows of all parts in canonical order, with the counts of those that become one.

    Parameters
    ----------
    parts : sequence of Rows, not empty
    merged : two truths
        Whether one-hot rows, and whether other rows, of equal predictions and label become one
        whatever they weigh; otherwise those of equal weight do.
    """
    rows = parts[0] if len(parts) == 1 else _concatenated(parts)
    order, starts, mixed = in_order(rows, merged)
    if len(starts) == len(rows):
        return rows.take(order)
    counts = np.add.reduceat(rows.counts[order], starts)
    found = replace(rows.take(order[starts]), counts=counts)
    if not len(mixed):
        return found
    numbers = np.zeros(len(rows), dtype=np.intp)
    numbers[starts[1:]] = 1
    numbers = np.cumsum(numbers)  # of the new row to which each row belongs
    some = np.unique(numbers[mixed])
    chosen = np.zeros(len(starts), dtype=np.bool_)
    chosen[some] = True
    members = np.flatnonzero(chosen[numbers])
    firsts = np.searchsorted(numbers[members], some)
    weights, units = _pooled(rows.take(order[members]), firsts, counts[some])
    new_weights, new_units = found.weights.copy(), found.units.copy()
    new_weights[some], new_units[some] = weights, units
    return replace(found, weights=new_weights, units=new_units)


def _pooled(rows: Rows, firsts: IntArray, counts: CountArray) -> tuple[FloatArray, FloatArray]:
    """Mean weight and sum w^2 / sum w of groups of rows, which begin at the given places.

    Each group has a unit of its own, a power of two, so that squares stay within range.
    """
    largest = np.maximum.reduceat(rows.units, firsts)
    exponents = np.frexp(largest)[1]
    own = np.repeat(exponents, np.diff(firsts, append=len(rows)))
    totals = np.ldexp(rows.weights, -own) * rows.counts
    squares = totals * np.ldexp(rows.units, -own)
    total, square = np.add.reduceat(totals, firsts), np.add.reduceat(squares, firsts)
    units = np.minimum(np.ldexp(square / total, exponents), largest)
    return np.ldexp(total / counts, exponents), units


def single_rows(
    hashes: HashArray, predictions: Numbers, labels: LabelArray, weights: FloatArray | None
) -> Rows:
    """Rows that occur once each; -0.0 becomes 0.0."""
    weights = np.broadcast_to(1.0, len(labels)) if weights is None else weights + 0.0
    return Rows(
        hashes,
        np.add(predictions, 0.0, dtype=np.float64),
        labels.astype(np.int64),
        weights,
        weights,
        np.broadcast_to(np.int64(1), len(labels)),
    )
