"""A bounded table of distinct rows: all of them, or those with the smallest hashes.

A row is a vector of predictions, a label and a weight; equal rows are counted, and those without
weight are left out. There are two kinds of rows: those that are exactly one-hot, and the others.
While there are at most `limit` distinct rows of a kind, the table holds every one of them. Beyond,
rows of equal predictions and label become one, whatever they weigh, with their count, their mean
weight and sum w^2 / sum w. If there are still more than `limit`, the table holds those whose hash
lies below a threshold, a simple random sample of them (a bottom-k sketch, also called KMV or theta
sketch). The hash does not look at weights, so their scale does not matter. The threshold only
falls, so a row that is below it now was below it at all times, and its count is complete. The table
is a function of the rows alone: neither their order nor their division into batches or merged
tables matters, except for rounding of mean weights. A part that has too many distinct rows shows
that the whole has, and two parts that have not hold all that is needed to find out.

One-hot rows are a kind of their own because saturated networks, trees and votes give them over
and over. There are at most K^2 of them that differ in more than their weight, and they may carry
half of the sample; a sample of distinct rows that left one of them out would miss much of the
total.

References
----------
Beyer, Haas, Reinwald, Sismanis, Gemulla: On Synopses for Distinct-Value Estimation Under
Multiset Operations, SIGMOD 2007.
Cohen, Kaplan: Summarizing Data Using Bottom-k Sketches, PODC 2007 (ranks that depend on the
row, and unbiased estimates from the (k+1)-th smallest rank).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from riskalign.data.cells import Numbers
from riskalign.data.distinct import (
    HALF,
    WHOLE,
    Kept,
    Kinds,
    Rows,
    are_of,
    distinct,
    row_hashes,
    single_rows,
)
from riskalign.data.hashing import LABEL_BITS, OF_ROW, HashArray, hash_weights
from riskalign.data.weights import by_magnitude, in_units
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, LabelArray

CHUNK = 1 << 17
"""Numbers that pass from a batch to the table at a time: 1 MB."""

SLOTS = 1 << 17
"""Slots in which known rows are looked up: about six per row at 20,000 rows."""

SLOT_SHIFT = np.uint64(LABEL_BITS)
"""Slots are found by bits that do not depend on the label alone."""


class RowTable:
    """The distinct rows with the smallest hashes, at most `limit` of each kind.

    Parameters
    ----------
    width : int
        Number of predictions d of a row.
    limit : int
        The most one-hot rows to keep, and the most other rows; with 0 no row is kept and none
        is hashed.

    Attributes
    ----------
    rows : Rows
        The kept rows in canonical order.
    thresholds : two integers
        The smallest hashes of a one-hot row and of another row that were ever dropped; 2^63
        and 2^64 if none was. All kept rows of a kind lie below its threshold, which is the
        (limit + 1)-th smallest hash of the kind's distinct rows, whatever their order.
    merged : two truths
        Whether one-hot rows, and whether other rows, that differ in their weight alone are one.

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
        self._thresholds = (HALF, WHOLE)
        self._merged = (False, False)
        self._weighted = False  # whether there may be weights other than 1
        self._rows = single_rows(
            np.empty(0, np.uint64), np.empty((0, width)), np.empty(0, np.int64), None
        )
        self._waiting: list[Rows] = []  # below the thresholds and not yet among `_rows`
        self._n_waiting = 0
        self._index: tuple[IntArray, HashArray, IntArray] | None = None  # see `_indexed`

    @classmethod
    def restored(
        cls,
        rows: Rows,
        limit: int,
        thresholds: tuple[int, int],
        merged: Kinds | None = None,
    ) -> RowTable:
        """The table with the given rows, in canonical order, and thresholds.

        Without weights, rows are `merged` where some were dropped.
        """
        table = cls(rows.predictions.shape[1], limit)
        table._rows, table._thresholds = rows, thresholds
        table._weighted = merged is not None
        table._merged = merged or (thresholds[0] < HALF, thresholds[1] < WHOLE)
        return table

    @property
    def rows(self) -> Rows:
        """The kept rows in canonical order."""
        self._settle()
        return self._rows

    @property
    def thresholds(self) -> tuple[int, int]:
        """The smallest hashes that were dropped of one-hot and of other rows."""
        self._settle()
        return self._thresholds

    @property
    def merged(self) -> Kinds:
        """Whether one-hot rows, and other rows, that differ in their weight alone are one."""
        self._settle()
        return self._merged

    @property
    def complete(self) -> bool:
        """Whether no row was ever dropped: then the table is the sample, unless it is `merged`."""
        return self.thresholds == (HALF, WHOLE)

    @property
    def inclusion(self) -> FloatArray:
        """Probability ``(m,)`` with which each kept row is in the table, given the others.

        It is the share of its kind's hashes that lie below the threshold. The sum of
        f / inclusion over the kept rows estimates the sum of f over all distinct rows without
        bias; take f as count times a term to estimate a sum over the sample.

        Examples
        --------
        >>> import numpy as np
        >>> p = np.linspace(0.001, 0.999, 5000)[:, None]
        >>> table = RowTable(width=1, limit=1000).add(p, np.zeros(5000, int))
        >>> len(table.rows), bool(4500 < (1 / table.inclusion).sum() < 5500)
        (1000, True)
        """
        one_hot, other = self.thresholds
        shares = one_hot / HALF, (other - HALF) / HALF
        return np.where(self.rows.one_hot, *shares)

    def kept(self) -> Kept:
        """The rows and of what they are a sample, as they are now."""
        self._settle()
        inclusion = 1.0 if self.complete else self.inclusion
        return Kept(self._rows, self.limit, self._merged, inclusion, self.complete)

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
            if len(labels) if weights is None else (weights > 0).any():
                self._merged, self._thresholds = (True, True), (0, HALF)
            return self
        self._weigh(weights is not None)
        for p, y, w in self._chunks(predictions, labels, weights):
            if w is not None and not w.all():
                used = np.flatnonzero(w)
                p, y, w = p[used], y[used], w[used]
            hashes = row_hashes(p, y)
            if self._thresholds == (HALF, WHOLE):
                self._add(single_rows(hashes, p, y, w))
                continue
            below = np.flatnonzero(self._below(hashes))
            if len(below):
                w = None if w is None else w[below]
                self._add(single_rows(hashes[below], p[below], y[below], w))
        return self

    def merge(self, other: RowTable) -> RowTable:
        """Add the rows of another table in place, and return this table."""
        if (self.width, self.limit) != (other.width, other.limit):
            raise ValueError(
                "Tables merge if they have the same width and limit; found "
                f"{(self.width, self.limit)} and {(other.width, other.limit)}."
            )
        rows = other.rows  # first: it settles, also if both are the same table
        self._waiting.append(rows)
        self._weigh(other._weighted)
        self.follow(other)
        self._settle()
        return self

    def follow(self, other: RowTable) -> None:
        """Drop from now on what another table drops, into which this one will be merged.

        Another thread may be filling the other table: its thresholds only fall, after its rows
        became `merged`.
        """
        mine, others = self._thresholds, other._thresholds
        self._thresholds = (min(mine[0], others[0]), min(mine[1], others[1]))
        self._merged = (self._merged[0] or other._merged[0], self._merged[1] or other._merged[1])
        self._index = None

    def find(
        self, predictions: Numbers, labels: LabelArray, weights: FloatArray | None = None
    ) -> IntArray:
        """Places ``(n,)`` of the given rows among `rows`, -1 for rows that are not kept."""
        self._settle()
        self._weigh(weights is not None)
        places = [
            self._places(single_rows(row_hashes(p, y), p, y, w))
            for p, y, w in self._chunks(predictions, labels, weights)
        ]
        found = np.concatenate([np.empty(0, np.intp), *places])
        if weights is not None:
            found[weights == 0] = -1
        return found

    def _weigh(self, weighted: bool) -> None:
        """Expect weights other than 1 from now on, if there are any."""
        if weighted and not self._weighted:
            self._weighted, self._index = True, None

    def _chunks(
        self, predictions: Numbers, labels: LabelArray, weights: FloatArray | None
    ) -> Iterator[tuple[Numbers, LabelArray, FloatArray | None]]:
        step = max(1, CHUNK // max(self.width, 1))
        for start in range(0, len(labels), step):
            part = slice(start, start + step)
            yield predictions[part], labels[part], None if weights is None else weights[part]

    def _add(self, rows: Rows) -> None:
        """Count rows that are known, and let the others wait until there are many."""
        places = self._places(rows)
        if self._weighted and len(self._rows):
            other = np.flatnonzero((places >= 0) & ~self._rows.weigh_as(places, rows))
            if len(other):
                self._pool(places[other], rows.weights[other])
                kept = np.ones(len(rows), dtype=np.bool_)
                kept[other] = False
                places, rows = places[kept], rows.take(kept)
        new = np.flatnonzero(places < 0)
        if len(new) < len(rows):
            found = places if len(new) == 0 else places[places >= 0]
            counts = self._rows.counts + np.bincount(found, minlength=len(self._rows))
            self._rows = replace(self._rows, counts=counts)
            rows = rows.take(new)
        if len(rows):
            self._waiting.append(rows)
            self._n_waiting += len(rows)
        if self._n_waiting >= self.limit:
            self._settle()

    def _pool(self, places: IntArray, weights: FloatArray) -> None:
        """Let one row wait for all samples of each settled row that were found to weigh others."""
        for some, exponent in by_magnitude(weights):
            at, w = places[some], in_units(weights[some], exponent)
            counts, total, squares = (
                np.bincount(at, each, len(self._rows)) for each in (None, w, w * w)
            )
            found = np.flatnonzero(counts)
            mean, units = total[found] / counts[found], squares[found] / total[found]
            self._waiting.append(
                replace(
                    self._rows.take(found),
                    weights=in_units(mean, -exponent),
                    units=in_units(units, -exponent),
                    counts=counts[found],
                )
            )
            self._n_waiting += len(found)

    def _settle(self) -> None:
        """Put the rows that wait into the table."""
        if not self._waiting:
            return
        rows = distinct([self._rows, *self._waiting], self._merged)
        n_one_hot = int(np.searchsorted(rows.hashes, np.uint64(HALF)))
        many = n_one_hot > self.limit, len(rows) - n_one_hot > self.limit
        merged = self._merged[0] or many[0], self._merged[1] or many[1]
        if merged != self._merged:
            self._merged = merged
            if self._weighted:
                rows = distinct([rows], merged)
                n_one_hot = int(np.searchsorted(rows.hashes, np.uint64(HALF)))
        self._thresholds = (
            self._lowered(self._thresholds[0], rows.hashes[:n_one_hot]),
            self._lowered(self._thresholds[1], rows.hashes[n_one_hot:]),
        )
        self._rows = rows.take(self._below(rows.hashes))
        self._waiting, self._n_waiting, self._index = [], 0, None

    def _lowered(self, threshold: int, hashes: HashArray) -> int:
        """The threshold of a kind whose distinct rows have these hashes, in order."""
        if len(hashes) <= self.limit:
            return threshold
        # Rows that differ in their label alone stay or go together.
        return min(threshold, int(hashes[self.limit] & OF_ROW))

    def _below(self, hashes: HashArray) -> BoolArray:
        """Whether each row lies below the threshold of its kind."""
        one_hot, other = self._thresholds
        below: BoolArray = hashes <= np.uint64(other - 1)
        if one_hot < HALF:
            below &= (hashes < np.uint64(one_hot)) | (hashes >= np.uint64(HALF))
        return below

    def _places(self, rows: Rows) -> IntArray:
        """Places of the rows among the settled ones, -1 for unknown rows.

        A row is looked up in a table of slots by the last bits of its key. Where another row
        took the slot, it is searched by its whole key.
        """
        known = self._rows
        if not len(known):
            return np.full(len(rows), -1, dtype=np.intp)
        if self._index is None:
            self._index = self._indexed()
        slots, known_keys, order = self._index
        keys = self._keys(rows)
        places: IntArray = slots.take((keys >> SLOT_SHIFT & np.uint64(SLOTS - 1)).view(np.int64))
        same = self._same(places, rows)  # -1 is some row, too
        same &= places >= 0
        if same.all():
            return places
        other = np.flatnonzero(~same & (places >= 0))
        places[~same] = -1
        at = np.searchsorted(known_keys, keys[other])
        while len(other):  # once, unless different rows share a key
            inside = at < len(known)
            inside[inside] = known_keys[at[inside]] == keys[other[inside]]
            other, at = other[inside], at[inside]
            same = self._same(order[at], rows.take(other))
            places[other[same]] = order[at[same]]
            other, at = other[~same], at[~same] + 1
        return places

    def _indexed(self) -> tuple[IntArray, HashArray, IntArray]:
        """Slots by which settled rows are found, their keys in order, and that order."""
        keys = self._keys(self._rows)
        order = np.argsort(keys) if self._weighted else np.arange(len(keys))  # of rows: by hash
        slots = np.full(SLOTS, -1, dtype=np.intp)
        slots[keys >> SLOT_SHIFT & np.uint64(SLOTS - 1)] = np.arange(len(keys))
        return slots, keys[order], order

    def _keys(self, rows: Rows) -> HashArray:
        """Hashes of the rows, and of their weights where these tell rows apart."""
        if not self._weighted or self._merged == (True, True):
            return rows.hashes
        keys = hash_weights(rows.hashes, rows.weights)
        return np.where(are_of(self._merged, rows.hashes), rows.hashes, keys)

    def _same(self, places: IntArray, rows: Rows) -> BoolArray:
        """Whether the settled rows at `places` are those into which the given ones are counted."""
        same = self._rows.equal(places, rows)
        if self._weighted and self._merged != (True, True):
            alike = self._rows.weigh_as(places, rows)
            same &= alike | are_of(self._merged, rows.hashes)
        return same
