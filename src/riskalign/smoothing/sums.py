"""Weighted sums of values over centres: a product, or for labels one sum per class."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from riskalign.equations.arrays import FloatArray, IntArray

Floats = npt.NDArray[np.floating[Any]]

PARTS = np.arange(8, 257)
"""Sizes of the parts to which classes are filled up."""

PART = 2.0
"""The overhead of one part, in units of the cost of one centre."""

VECTOR, ADDED = 16, 5
"""Columns for which a product is as fast as the machine allows, and how many columns of zeros are
added to reach a multiple of them: eleven columns cost more than sixteen."""

FILLED = 0.1
"""Share of the centres up to which classes are filled up; beyond, single sums are as fast."""


class Sums(Protocol):
    """How weights ``(b, m)`` become sums, a few rows at a time."""

    def room(self, n_rows: int) -> Floats:
        """The memory where the sums of some rows are put."""

    def times(self, factors: Floats) -> Sums:
        """The same for weights that lack factors of the centres ``(m,)``."""

    def put(self, weights: Floats, scratch: Floats, room: Floats, rows: slice) -> None:
        """Sums of weights; the scratch array ``(b, m)`` may be overwritten."""

    def read(self, room: Floats) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Sums of values ``(n, d)``, of weights ``(n,)``, and of squared weights if asked for."""


class ColumnSums:
    """Sums of any values ``(m, d)``, and with `shares` ``(m,)`` of the squared weights too.

    A centre's squared weight counts by its share: 1 for one sample, 1/c for c equal samples.
    Values that vary slowly, `slow` ``(k, e)``, are those of the first k centres, which stand for
    all: their sums come last, brought to the sum of all weights.
    """

    def __init__(
        self,
        values: FloatArray,
        dtype: npt.DTypeLike,
        shares: FloatArray | None = None,
        slow: FloatArray | None = None,
    ) -> None:
        self._d, self._e = values.shape[1], 0 if slow is None else slow.shape[1]
        self._columns = _with_ones(values, dtype)
        self._slow = None if slow is None else _with_ones(slow, dtype)
        self._shares = None if shares is None else shares.astype(dtype)
        self._whole = shares is not None and bool((shares == 1).all())

    def times(self, factors: Floats) -> ColumnSums:
        """See `Sums`."""
        result = copy(self)
        result._columns = factors[:, None] * self._columns
        if self._slow is not None:
            result._slow = factors[: len(self._slow), None] * self._slow
        if self._shares is not None:
            result._shares, result._whole = factors**2 * self._shares, False
        return result

    def room(self, n_rows: int) -> Floats:
        """See `Sums`: sums of values and of ones, then those of slow ones, then of squares."""
        slow = 0 if self._slow is None else self._slow.shape[1]
        squares = 0 if self._shares is None else 1
        return np.empty((n_rows, self._columns.shape[1] + slow + squares), self._columns.dtype)

    def put(self, weights: Floats, scratch: Floats, room: Floats, rows: slice) -> None:
        """See `Sums`."""
        end = self._columns.shape[1]
        np.matmul(weights, self._columns, out=room[rows, :end])
        if self._slow is not None:
            k, e = self._slow.shape
            np.matmul(weights[:, :k], self._slow, out=room[rows, end : end + e])
        if self._whole:
            room[rows, -1] = (weights[:, None] @ weights[:, :, None])[:, 0, 0]
        elif self._shares is not None:
            np.multiply(weights, weights, out=scratch)
            room[rows, -1] = scratch @ self._shares

    def read(self, room: Floats) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """See `Sums`."""
        found = room.astype(np.float64, copy=False)
        sums, of_weights = found[:, : self._d], found[:, self._d]
        if self._slow is not None:
            first, width = self._columns.shape[1], self._e + 1
            some = found[:, first : first + width]
            totals = self._slow[:, :width].sum(axis=0, dtype=np.float64)
            some = np.where(some[:, -1:] > 0, some, totals)  # totals where no such centre is seen
            means = some[:, :-1] / some[:, -1:]
            sums = np.concatenate([sums, means * of_weights[:, None]], axis=1)
        return sums, of_weights, None if self._shares is None else found[:, -1]


def _with_ones(values: FloatArray, dtype: npt.DTypeLike) -> Floats:
    """Values ``(m, d)``, a column of ones, and columns of zeros that make products faster."""
    m, d = values.shape
    missing = -(d + 1) % VECTOR
    columns = np.zeros((m, d + 1 + (missing if missing <= ADDED else 0)), dtype)
    columns[:, :d] = values
    columns[:, d] = 1.0
    return columns


class LabelSums:
    """Sums of one-hot rows whose labels ``(m,)`` ascend: those of a class are added up.

    That is one addition per pair, instead of one multiplication per pair and class. Where `part`
    consecutive centres share a label, they are products of weights and factors, all in one call:
    threads that call often wait for each other.
    """

    def __init__(self, labels: IntArray, n_classes: int, part: int, dtype: npt.DTypeLike) -> None:
        self._present, self._starts = np.unique(labels[::part], return_index=True)
        self._n_classes = n_classes
        self._part = part
        self._ones = np.ones(len(labels), dtype)
        self._factors: Floats | None = None

    def times(self, factors: Floats) -> LabelSums:
        """See `Sums`."""
        result = copy(self)
        result._factors = factors
        return result

    def room(self, n_rows: int) -> Floats:
        """See `Sums`; one row per part, or per class."""
        rows = len(self._ones) // self._part if self._part > 1 else len(self._present)
        return np.empty((rows, n_rows), self._ones.dtype)

    def put(self, weights: Floats, scratch: Floats, room: Floats, rows: slice) -> None:
        """See `Sums`."""
        factors = self._factors
        if self._part > 1:
            columns = self._ones if factors is None else factors
            parts = weights.reshape(len(weights), -1, self._part).transpose(1, 0, 2)
            np.matmul(parts, columns.reshape(-1, self._part, 1), out=room[:, rows, None])
        else:
            each = weights if factors is None else np.multiply(weights, factors, out=scratch)
            np.add.reduceat(each, self._starts, axis=1, out=room[:, rows].T)

    def read(self, room: Floats) -> tuple[FloatArray, FloatArray, None]:
        """See `Sums`."""
        room = room.astype(np.float64, copy=False)
        of_class = np.zeros((self._n_classes, room.shape[1]))
        if self._part > 1:
            ends = [*self._starts[1:], len(room)]
            for k, start, end in zip(self._present, self._starts, ends, strict=True):
                np.add.reduce(room[start:end], axis=0, out=of_class[k])
        else:
            of_class[self._present] = room
        return of_class.T, of_class.sum(axis=0), None


@dataclass(frozen=True)
class Order:
    """Samples as centres.

    Attributes
    ----------
    samples : (m,), the sample at each place; where its class was filled up, once more
    places : (n,), where samples come first, in that order
    part : so many consecutive places hold one class
    """

    samples: IntArray
    places: IntArray
    part: int = 1

    @property
    def filling(self) -> IntArray:
        """Places whose sample came before."""
        return np.delete(np.arange(len(self.samples)), self.places)


def by_class(labels: IntArray, samples: IntArray) -> Order:
    """Some samples in the order of their labels ``(n,)``, large classes filled up to parts."""
    order = samples[np.argsort(labels[samples], kind="stable")]
    counts = np.bincount(labels[samples])
    counts = counts[counts > 0]
    added = (-counts[:, None] % PARTS).sum(axis=0)
    best = int((added + PART * len(order) / PARTS).argmin())
    if added[best] > FILLED * len(order):
        return Order(order, np.arange(len(order)))
    part = int(PARTS[best])
    copies = np.ones_like(order)
    copies[np.cumsum(counts) - 1] += -counts % part
    return Order(np.repeat(order, copies), np.cumsum(copies) - copies, part)


def spaced(samples: IntArray, some: int) -> tuple[IntArray, IntArray]:
    """About so many samples, evenly among all, and the others; all of them if they are few."""
    step = max(len(samples) // some, 1)
    others = np.arange(len(samples)) % step > 0
    return samples[::step], samples[others]


def labels_in(values: FloatArray) -> IntArray | None:
    """The labels whose one-hot rows the values ``(n, d)`` are, None if they are none."""
    if values.shape[1] == 0 or np.count_nonzero(values) != len(values):
        return None
    labels = values.argmax(axis=1)
    return labels if (values[np.arange(len(values)), labels] == 1.0).all() else None
