"""Counts of cells: how many predictions of each label lie where, per one-dimensional problem.

A problem is one probability per row and whether it came true: one problem for binary and
top-label calibration, one per class for class-wise calibration. A cell of a problem is named by
its *code*, which puts problem, label and the slot of `Cells` into one integer,

    code = (2 problem + label) n_slots + slot,

and only cells that hold rows are stored, in the order of their codes. Per cell the table keeps
the number of rows and the sum of their offsets, from which the mean of its members follows.
These are integers, so neither the order of rows nor their division into batches matters.

With weights the sum of offsets is replaced by the sums of w, of w^2 and of w times offset, as
floats in the units of `riskalign.data.weights`; they are equal for any order up to rounding. A
table turns into a weighted one when the first weights come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.equations.arrays import FloatArray, LabelArray
from riskalign.data.cells import Cells, Integers, Numbers, Room
from riskalign.data.weights import exponent_of, in_units

CHUNK = 1 << 15
"""Numbers that are encoded at a time: 256 kB per array, so that all passes stay in cache."""

BLOCK = 1 << 20
"""Numbers that are counted at a time."""

COLUMNS = 32
"""Columns of a wide matrix that are counted together: 256 bytes of each row, so that reading
them costs little, and few enough for the counts of all their cells to stay in cache."""

SPARSE = 16
"""Numbers are sorted rather than counted in an array of all cells if they are this many times
fewer than the cells."""

MOST_ROWS = 1 << 43
"""Up to here no sum of 20-bit offsets leaves the range of int64; 8.8e12."""

Sums = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True)
class Atoms:
    """The cells of one problem as points with masses, ``(m,)`` each.

    Attributes
    ----------
    locations : the mean of each cell's members
    labels : 0 or 1
    slots : of `Cells`
    counts : number of rows
    totals, squares : sums of w and of w^2, in units of 2^e and 4^e with e the table's
        `exponent`; both are the counts if there are no weights
    """

    locations: FloatArray
    labels: Integers
    slots: Integers
    counts: Integers
    totals: FloatArray
    squares: FloatArray


@dataclass(frozen=True)
class Part:
    """Sums per code, as columns ``(m,)``; codes ascend.

    The columns are (counts, offsets) without weights, and (counts, totals, squares, moments)
    with weights.
    """

    codes: Integers
    sums: tuple[npt.NDArray[Any], ...]

    @classmethod
    def of_numbers(cls, codes: Integers, columns: tuple[npt.NDArray[Any], ...]) -> Part:
        """Sums of the columns' numbers that share a code, in any order."""
        order = np.argsort(codes, kind="stable")  # runs that are in order merge fast
        codes = codes[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        if len(starts):
            columns = tuple(np.add.reduceat(column[order], starts) for column in columns)
        return cls(codes[starts], columns)

    @classmethod
    def concatenated(cls, parts: Sequence[Part]) -> Part:
        """Parts one after the other."""
        codes = np.concatenate([part.codes for part in parts])
        columns = zip(*(part.sums for part in parts), strict=True)
        return cls(codes, tuple(np.concatenate(column) for column in columns))

    @classmethod
    def merged(cls, parts: Sequence[Part]) -> Part:
        """Sums of all parts."""
        held = [part for part in parts if len(part.codes)]
        if len(held) < 2:
            return held[0] if held else parts[0]
        together = cls.concatenated(held)
        return cls.of_numbers(together.codes, together.sums)

    def of_integers(self) -> Part:
        """The same sums, which are whole numbers, as int64."""
        return Part(self.codes, tuple(column.astype(np.int64) for column in self.sums))

    def weighted(self) -> Part:
        """The same rows with a weight of 1 each."""
        counts, offsets = self.sums
        ones = counts.astype(np.float64)
        return Part(self.codes, (counts, ones, ones, offsets.astype(np.float64)))

    def in_units(self, exponent: int) -> Part:
        """Weighted sums in units of 2^exponent of what they are in."""
        counts, totals, squares, moments = self.sums
        totals, moments = in_units(totals, exponent), in_units(moments, exponent)
        return Part(self.codes, (counts, totals, in_units(squares, exponent, 2), moments))


class CellCounts:
    """Counts of cells for some one-dimensional problems.

    Parameters
    ----------
    n_problems : int
    bits, n_bins : int
        Significant bits of a cell, and bins whose edges cut no cell: see `Cells`.

    Attributes
    ----------
    codes, counts : (m,) int64
    offsets : (m,) int64, sums of offsets; without weights only
    totals, squares, moments : (m,), sums of w, w^2 and w times offset; with weights only
    exponent : int
        Sums of w are in units of 2^exponent.

    Examples
    --------
    >>> import numpy as np
    >>> counts = CellCounts(n_problems=1, bits=8)
    >>> counts = counts.add(np.array([0.2, 0.2001, 0.9, 0.9]), np.array([0, 0, 1, 1]))
    >>> atoms = counts.atoms(0)
    >>> atoms.locations.round(6).tolist(), atoms.labels.tolist(), atoms.counts.tolist()
    ([0.20005, 0.9], [0, 1], [2, 2])
    """

    def __init__(self, n_problems: int, bits: int, n_bins: int = 1) -> None:
        self.n_problems = n_problems
        self.cells = Cells(bits, n_bins)
        self.n_rows = 0
        self.weighted = False
        self.exponent = 0
        none = np.empty(0, dtype=np.int64)
        self._parts = [Part(none, (none, none))]  # the first is large, the others wait

    @property
    def sums(self) -> Part:
        """Codes and sums of all cells that hold rows."""
        if len(self._parts) > 1:
            self._parts = [Part.merged(self._parts)]
        return self._parts[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        part = self.sums
        return part.codes.nbytes + sum(column.nbytes for column in part.sums)

    def atoms(self, problem: int) -> Atoms:
        """The cells of one problem as points with masses."""
        part, n_slots = self.sums, self.cells.n_slots
        first = 2 * problem * n_slots
        own = slice(*np.searchsorted(part.codes, (first, first + 2 * n_slots)))
        labels, slots = np.divmod(part.codes[own] - first, n_slots)
        counts, *rest = (column[own] for column in part.sums)
        if self.weighted:
            totals, squares, moments = rest
        else:
            totals, squares, moments = counts.astype(np.float64), counts.astype(np.float64), rest[0]
        means = np.divide(moments, totals, out=np.zeros(len(totals)), where=totals > 0)
        return Atoms(self.cells.locations(slots, means), labels, slots, counts, totals, squares)

    def bins(self, problem: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the bins of `Cells`: of w, of w p, and of w where the label is 1.

        Examples
        --------
        >>> import numpy as np
        >>> counts = CellCounts(n_problems=1, bits=8, n_bins=2)
        >>> counts = counts.add(np.array([0.25, 0.5, 0.75, 1.0]), np.array([0, 1, 1, 1]))
        >>> [sums.tolist() for sums in counts.bins(0)]
        [[2.0, 2.0], [0.75, 1.75], [1.0, 2.0]]
        """
        atoms = self.atoms(problem)
        bins = self.cells.bins(atoms.slots)
        w = atoms.totals
        mass, predicted, came = (
            np.bincount(bins, values, self.cells.n_bins)
            for values in (w, w * atoms.locations, w * atoms.labels)
        )
        return mass, predicted, came

    def merge(self, other: CellCounts) -> CellCounts:
        """Add the counts of another table in place, and return this table."""
        if (self.n_problems, self.cells) != (other.n_problems, other.cells):
            raise ValueError(
                "Counts merge if they have the same problems and cells; found "
                f"{self.n_problems} of {self.cells} and {other.n_problems} of {other.cells}."
            )
        if other.n_rows == 0:
            return self
        self._expect(other.n_rows)
        part = other.sums
        if self.weighted or other.weighted:
            self._weigh(other.exponent)
            part = part if other.weighted else part.weighted()
            part = part.in_units(self.exponent - other.exponent)
        self._wait(part, other.n_rows)
        return self

    def add(self, p: Numbers, labels: LabelArray, weights: FloatArray | None = None) -> CellCounts:
        """Add rows in place, and return the table.

        Parameters
        ----------
        p : (n,) for a single problem, or (n, n_problems)
        labels : (n,)
            0 or 1 for a single problem; for several, the number of the problem that came true.
        weights : (n,), optional
            1 for every row if left out.
        """
        n = len(labels)
        if n == 0:
            return self
        self._expect(n)
        if weights is not None:
            self._weigh(exponent_of(weights))
        if self.weighted:
            weights = in_units(np.ones(n) if weights is None else weights, self.exponent)
        matrix = p[:, None] if p.ndim == 1 else p
        dense = n * SPARSE >= 2 * self.cells.n_slots
        width = min(self.n_problems, COLUMNS if dense else max(1, BLOCK // n))
        counter = _Counter(self.cells, min(n, max(1, BLOCK // width)), width, dense)
        blocks = []
        for first in range(0, self.n_problems, width):
            true = 1 if self.n_problems == 1 else first
            block = counter.count(matrix[:, first : first + width], labels, weights, true)
            blocks.append(replace(block, codes=block.codes + 2 * first * self.cells.n_slots))
        self._wait(Part.concatenated(blocks), n)
        return self

    def _expect(self, n: int) -> None:
        if self.n_rows + n > MOST_ROWS:
            raise ValueError(
                f"Counts hold at most 2^43 = {MOST_ROWS:.2g} rows; found {self.n_rows + n:.4g}."
            )

    def _weigh(self, exponent: int) -> None:
        """Become weighted, in units of at least 2^exponent."""
        part = self.sums if self.weighted else self.sums.weighted()
        larger = max(self.exponent, exponent) if self.n_rows else exponent
        self._parts = [part.in_units(larger - self.exponent)]
        self.weighted, self.exponent = True, larger

    def _wait(self, part: Part, n: int) -> None:
        """Keep a part of n rows for later, until what waits outgrows what is merged."""
        self.n_rows += n
        self._parts.append(part)
        if sum(len(part.codes) for part in self._parts[1:]) > len(self._parts[0].codes):
            self._parts = [Part.merged(self._parts)]


class _Counter:
    """Counts blocks of columns; its memory is allocated once."""

    def __init__(self, cells: Cells, rows: int, width: int, dense: bool) -> None:
        self.cells = cells
        self.dense = dense
        self.rows = rows
        self.step = min(rows, max(1, CHUNK // width))
        self.room = Room.of((self.step, width))
        self.p = np.empty((self.step, width))
        self.of_columns = np.tile(2 * cells.n_slots * np.arange(width), (self.step, 1))
        self.codes = np.empty((rows, width), dtype=np.int64)
        self.offsets = np.empty((rows, width))  # bincount takes floats; their sums are exact

    def count(
        self, p: Numbers, labels: LabelArray, weights: FloatArray | None, true: int
    ) -> Part:
        """Sums of some columns ``(n, w)``.

        Codes count from the first of the columns, which came true where the label is `true`;
        the next one came true where it is `true` + 1, and so on.
        """
        parts: list[Part] = []
        sums: tuple[npt.NDArray[Any], ...] = ()
        size = 2 * self.cells.n_slots * p.shape[1]
        for start in range(0, len(labels), self.rows):
            rows = slice(start, start + self.rows)
            codes, offsets = self._encoded(p[rows], labels[rows], true)
            columns: tuple[FloatArray, ...] = (offsets,)
            if weights is not None:
                w = np.repeat(weights[rows], p.shape[1])
                columns = (w, w * w, w * offsets)
            if self.dense:
                counted = [np.bincount(codes, column, size) for column in (None, *columns)]
                sums = tuple(map(np.add, sums, counted)) if sums else tuple(counted)
            else:
                ones = np.ones(len(codes), dtype=np.int64)
                parts.append(Part.of_numbers(codes, (ones, *columns)))
        if self.dense:
            held = np.flatnonzero(sums[0] > 0)  # of booleans: much faster than of counts
            parts = [Part(held, tuple(column[held] for column in sums))]
        part = Part.merged(parts)
        return part if weights is not None else part.of_integers()

    def _encoded(
        self, p: Numbers, labels: LabelArray, true: int
    ) -> tuple[Integers, FloatArray]:
        """The code and the offset of every number, row by row."""
        n, width = p.shape
        n_slots = self.cells.n_slots
        codes, offsets = self.codes[:n, :width], self.offsets[:n, :width]
        for start in range(0, n, self.step):
            rows = slice(start, min(start + self.step, n))
            x = self.p[: rows.stop - start, :width]
            np.copyto(x, p[rows])  # float64, and side by side
            room = self.room.part(len(x), width)
            slots, offset = self.cells.encode(x, room)
            np.copyto(offsets[rows], offset)
            if width == 1:
                np.equal(labels[rows, None], true, out=room.mask)
                np.multiply(room.mask, n_slots, out=room.spare)
                np.add(slots, room.spare, out=codes[rows])
            else:
                np.add(slots, self.of_columns[: len(x), :width], out=codes[rows])
        if width > 1:
            came = np.flatnonzero((labels >= true) & (labels < true + width))
            codes[came, labels[came] - true] += n_slots
        return codes.ravel(), offsets.ravel()
