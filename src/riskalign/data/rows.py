"""A bounded table of distinct rows: all of them, or those with the smallest hashes.

A row is a vector of predictions, a label and a weight; equal rows are counted. While there are
at most `limit` distinct rows the table holds every one of them, and is the sample. Beyond, it
holds the rows whose hash lies below a threshold, a simple random sample of the distinct rows
(a bottom-k sketch, also called KMV or theta sketch). The threshold only falls, so a row that is
below it now was below it at all times, and its count is complete. The table is a function of
the rows alone: neither their order nor their division into batches or merged tables matters.

Rows that are exactly one-hot are kept first. Saturated networks, trees and votes give such
rows over and over, so a few distinct rows may carry half of the sample, and a sample of
distinct rows that lost one of them would miss most of the total. Their hash is divided by
2^20, which makes their probability of inclusion that many times as large, in practice 1; there
are at most K^2 of them.

References
----------
Beyer, Haas, Reinwald, Sismanis, Gemulla: On Synopses for Distinct-Value Estimation Under
Multiset Operations, SIGMOD 2007.
Cohen, Kaplan: Summarizing Data Using Bottom-k Sketches, PODC 2007 (ranks that depend on the
row, and unbiased estimates from the (k+1)-th smallest rank).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from riskalign.data import hashing
from riskalign.data.hashing import HashArray, Numbers
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, LabelArray

CHUNK = 1 << 17
"""Numbers that pass from a batch to the table at a time: 1 MB."""

PREFERENCE = 20
"""Bits by which the hash of a one-hot row is shifted down."""

SLOTS = 1 << 17
"""Slots in which known rows are looked up: about six per row at 20,000 rows."""

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

    def equal(self, index: IntArray, other: Rows, others: IntArray) -> BoolArray:
        """Whether the rows at `index` equal the other's rows at `others`, hashes aside."""
        same: BoolArray = self.labels[index] == other.labels[others]
        same &= self.weights[index] == other.weights[others]
        same &= _how_many(self.predictions[index] != other.predictions[others]) == 0
        return same

    @property
    def one_hot(self) -> BoolArray:
        """Whether each row of predictions is exactly one-hot; a single one, whether 0 or 1."""
        return is_one_hot(self.predictions)


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


def ranks(predictions: Numbers, labels: LabelArray, weights: FloatArray | None) -> HashArray:
    """Hashes by which rows are kept: those of one-hot rows are shifted down."""
    hashes = hashing.hash_rows(predictions, labels, weights)
    first = is_one_hot(predictions)
    if first.any():
        hashes >>= first.astype(np.uint64) * np.uint64(PREFERENCE)
    return hashes


def distinct(rows: Rows) -> tuple[IntArray, CountArray]:
    """Places and counts of distinct rows, by hash and, where hashes are equal, by content."""
    order = np.argsort(rows.hashes)
    hashes = rows.hashes[order]
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
    equal = rows.equal(order[repeated], rows, order[repeated + 1])
    if not equal.all():  # different rows share a hash: put equal ones side by side
        content = (rows.weights, rows.labels, *rows.predictions.T[::-1], rows.hashes)
        order = np.lexsort(content)
        equal = rows.equal(order[repeated], rows, order[repeated + 1])
    first = np.ones(len(rows), dtype=np.bool_)
    first[repeated[equal] + 1] = False
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(rows.counts[order], starts) if len(starts) else rows.counts
    return order[starts], counts


class RowTable:
    """The distinct rows with the smallest hashes, at most `limit` of them.

    Parameters
    ----------
    width : int
        Number of predictions d of a row.
    limit : int
        The most rows to keep; with 0 no row is kept and none is hashed.

    Attributes
    ----------
    rows : Rows
        The kept rows in canonical order.
    threshold : int or None
        The smallest hash that was ever dropped, None if no row was: all kept rows lie below
        it. It is the (limit + 1)-th smallest hash of all distinct rows, whatever their order.

    Examples
    --------
    >>> import numpy as np
    >>> table = RowTable(width=1, limit=10)
    >>> p, y = np.array([[0.2], [0.7], [0.2]]), np.array([0, 1, 0])
    >>> table = table.add(p, y).add(p, y)
    >>> len(table.rows), sorted(table.rows.counts.tolist()), table.complete
    (2, [2, 4], True)
    """

    def __init__(self, width: int, limit: int) -> None:
        self.width = width
        self.limit = limit
        self.threshold: int | None = None
        self._rows = _as_rows(
            np.empty(0, np.uint64), np.empty((0, width)), np.empty(0, np.int64), None
        )
        self._waiting: list[Rows] = []  # below the threshold and not yet among `_rows`
        self._slots: IntArray | None = None

    @classmethod
    def restored(cls, rows: Rows, limit: int, threshold: int | None) -> RowTable:
        """The table with the given rows, in canonical order, and threshold."""
        table = cls(rows.predictions.shape[1], limit)
        table._rows, table.threshold = rows, threshold
        return table

    @property
    def rows(self) -> Rows:
        """The kept rows in canonical order."""
        self._settle()
        return self._rows

    @property
    def complete(self) -> bool:
        """Whether no row was ever dropped: then the table is the sample."""
        self._settle()
        return self.threshold is None

    @property
    def inclusion(self) -> FloatArray:
        """Probability ``(m,)`` with which each kept row is in the table, given the others.

        The sum of f / inclusion over the kept rows estimates the sum of f over all distinct
        rows without bias; take f as count times a term to estimate a sum over the sample.

        Examples
        --------
        >>> import numpy as np
        >>> p = np.linspace(0.001, 0.999, 5000)[:, None]
        >>> table = RowTable(width=1, limit=1000).add(p, np.zeros(5000, int))
        >>> len(table.rows), bool(4500 < (1 / table.inclusion).sum() < 5500)
        (1000, True)
        """
        rows = self.rows
        if self.threshold is None:
            return np.ones(len(rows))
        share = self.threshold / 2.0**64
        return np.where(rows.one_hot, min(1.0, share * 2.0**PREFERENCE), share)

    @property
    def n_distinct(self) -> float:
        """Number of distinct rows: exact while `complete`, else estimated; NaN if `limit` is 0."""
        inclusion = self.inclusion
        if self.limit == 0 and self.threshold is not None:
            return np.nan
        return float((1 / inclusion).sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(column.nbytes for column in vars(self.rows).values())

    def add(
        self, predictions: Numbers, labels: LabelArray, weights: FloatArray | None = None
    ) -> RowTable:
        """Add rows in place, and return the table.

        Parameters
        ----------
        predictions : (n, d), float32 or float64
        labels : (n,), integers
        weights : (n,), optional
            1 for every row if left out.
        """
        if self.limit == 0:
            self.threshold = 0 if len(labels) else self.threshold
            return self
        for p, y, w in self._chunks(predictions, labels, weights):
            hashes = ranks(p, y, w)
            if self.threshold is None:
                self._add(_as_rows(hashes, p, y, w))
                continue
            below = np.flatnonzero(hashes < np.uint64(self.threshold))
            if len(below):
                w = None if w is None else w[below]
                self._add(_as_rows(hashes[below], p[below], y[below], w))
        return self

    def merge(self, other: RowTable) -> RowTable:
        """Add the rows of another table in place, and return this table."""
        if (self.width, self.limit) != (other.width, other.limit):
            raise ValueError(
                "Tables merge if they have the same width and limit; found "
                f"{(self.width, self.limit)} and {(other.width, other.limit)}."
            )
        self._waiting.append(other.rows)
        both = [t for t in (self.threshold, other.threshold) if t is not None]
        self.threshold = min(both, default=None)
        self._settle()
        return self

    def find(
        self, predictions: Numbers, labels: LabelArray, weights: FloatArray | None = None
    ) -> IntArray:
        """Places ``(n,)`` of the given rows among `rows`, -1 for rows that are not kept."""
        self._settle()
        places = [
            self._places(_as_rows(ranks(p, y, w), p, y, w))
            for p, y, w in self._chunks(predictions, labels, weights)
        ]
        return np.concatenate([np.empty(0, np.intp), *places])

    def _chunks(
        self, predictions: Numbers, labels: LabelArray, weights: FloatArray | None
    ) -> Iterator[tuple[Numbers, LabelArray, FloatArray | None]]:
        step = max(1, CHUNK // max(self.width, 1))
        for start in range(0, len(labels), step):
            part = slice(start, start + step)
            yield predictions[part], labels[part], None if weights is None else weights[part]

    def _add(self, rows: Rows) -> None:
        """Count rows that are known, and let the others wait until there are many."""
        if len(self._rows):
            places = self._places(rows)
            known = places >= 0
            if known.any():
                more = np.bincount(places[known], rows.counts[known], len(self._rows))
                self._rows = replace(self._rows, counts=self._rows.counts + more.astype(np.int64))
                rows = rows.take(~known)
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= self.limit:
            self._settle()

    def _settle(self) -> None:
        """Put the rows that wait into the table."""
        if not self._waiting:
            return
        rows = concatenate([self._rows, *self._waiting])
        places, counts = distinct(rows)
        if len(places) > self.limit:
            last = int(rows.hashes[places[self.limit]])
            self.threshold = last if self.threshold is None else min(last, self.threshold)
        if self.threshold is not None:
            kept = np.searchsorted(rows.hashes[places], np.uint64(self.threshold))
            places, counts = places[:kept], counts[:kept]
        self._rows = replace(rows.take(places), counts=counts)
        self._waiting, self._slots = [], None

    def _places(self, rows: Rows) -> IntArray:
        """Places of the rows among the settled ones, -1 for unknown rows.

        A row is looked up in a table of slots by the last bits of its hash. Where another row
        took the slot, it is searched by its whole hash.
        """
        known = self._rows
        if self._slots is None:
            self._slots = np.full(SLOTS, -1, dtype=np.intp)
            self._slots[known.hashes & np.uint64(SLOTS - 1)] = np.arange(len(known))
        places: IntArray = self._slots[rows.hashes & np.uint64(SLOTS - 1)]
        taken = np.flatnonzero(places >= 0)
        other = taken[~known.equal(places[taken], rows, taken)]
        places[other] = -1
        at = np.searchsorted(known.hashes, rows.hashes[other])
        while len(other):  # once, unless different rows share a hash
            at_end = at == len(known)
            same_hash = known.hashes[np.where(at_end, 0, at)] == rows.hashes[other]
            other, at = other[same_hash & ~at_end], at[same_hash & ~at_end]
            equal = known.equal(at, rows, other)
            places[other[equal]] = at[equal]
            other, at = other[~equal], at[~equal] + 1
        return places


def _as_rows(
    hashes: HashArray, predictions: Numbers, labels: LabelArray, weights: FloatArray | None
) -> Rows:
    """Rows that occur once each; -0.0 becomes 0.0."""
    return Rows(
        hashes,
        np.add(predictions, 0.0, dtype=np.float64),
        labels.astype(np.int64),
        np.ones(len(labels)) if weights is None else weights + 0.0,
        np.ones(len(labels), dtype=np.int64),
    )
