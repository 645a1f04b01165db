"""Counting a batch: from probabilities to sums per cell.

Codes of a block of columns are counted in an array of all cells if there are enough numbers for
it, and are sorted otherwise. Blocks bound the memory that a batch takes, whatever its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.data.cells import Cells, Integers, Numbers, Room
from riskalign.data.weights import in_units
from riskalign.equations.arrays import FloatArray, LabelArray

CHUNK = 1 << 17
"""Numbers that are encoded at a time: 1 MB per array, so that passes stay in cache, and long enough
for threads to share the interpreter."""

BLOCK, PER_CELL = 1 << 20, 4
"""Numbers that are counted at a time: a few for each cell, because fresh pages cost more than the
arithmetic, up to a million."""

COLUMNS = 32
"""Columns of a wide matrix that are counted together: 256 bytes of each row, so that reading
them costs little, and few enough for the counts of all their cells to stay in cache."""

SPARSE = 16
"""Numbers are sorted rather than counted in an array of all cells if they are this many times
fewer than the cells."""


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


def count(p: Numbers, labels: LabelArray, weights: FloatArray | None, cells: Cells) -> Part:
    """Sums per code of a batch.

    Parameters
    ----------
    p : (n, P) for P problems, with n > 0
    labels : (n,)
        0 or 1 for a single problem; for several, the number of the problem that came true.
    weights : (n,), optional
    cells : Cells

    Examples
    --------
    >>> import numpy as np
    >>> p, labels = np.array([[0.25, 0.75], [0.25, 0.75]]), np.array([1, 1])
    >>> part = count(p, labels, None, Cells(bits=8))
    >>> part.codes // Cells(bits=8).n_slots, part.sums[0]  # 2 problem + label, and counts
    (array([0, 3]), array([2, 2]))
    """
    n, n_problems = p.shape
    n_slots = cells.n_slots
    size = 2 * n_slots
    dense = n * SPARSE >= size
    width = min(n_problems, COLUMNS if dense else max(1, BLOCK // n))
    block = max(CHUNK, min(BLOCK, PER_CELL * size * width)) if dense else BLOCK
    counter = _Counter(cells, n_slots, min(n, max(1, block // width)), width, dense)
    blocks = []
    for first in range(0, n_problems, width):
        true = 1 if n_problems == 1 else first
        block = counter.count(p[:, first : first + width], labels, weights, true)
        blocks.append(replace(block, codes=block.codes + first * size))
    return Part.concatenated(blocks)


class _Counter:
    """Counts blocks of columns; its memory is allocated once."""

    def __init__(self, cells: Cells, n_slots: int, rows: int, width: int, dense: bool) -> None:
        self.cells = cells
        self.n_slots = n_slots
        self.dense = dense
        self.rows = rows
        self.step = min(rows, max(1, CHUNK // width))
        self.room = Room.of((self.step, width))
        self.p = np.empty((self.step, width))
        self.of_columns = np.tile(2 * n_slots * np.arange(width), (self.step, 1))
        self.codes = np.empty((rows, width), dtype=np.int64)
        self.offsets = np.empty((rows, width))  # bincount takes floats; their sums are exact

    def count(self, p: Numbers, labels: LabelArray, weights: FloatArray | None, true: int) -> Part:
        """Sums of some columns ``(n, w)``.

        Codes count from the first of the columns, which came true where the label is `true`;
        the next one came true where it is `true` + 1, and so on.
        """
        parts: list[Part] = []
        sums: tuple[npt.NDArray[Any], ...] = ()
        size = 2 * self.n_slots * p.shape[1]
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

    def _encoded(self, p: Numbers, labels: LabelArray, true: int) -> tuple[Integers, FloatArray]:
        """The code and the offset of every number, row by row."""
        n, width = p.shape
        codes, offsets = self.codes[:n, :width], self.offsets[:n, :width]
        for start in range(0, n, self.step):
            rows = slice(start, min(start + self.step, n))
            x = p[rows]
            if x.dtype != np.float64 or not x.flags.c_contiguous:
                x = self.p[: len(x), :width]
                np.copyto(x, p[rows])
            room = self.room.part(len(x), width)
            slots, offset = self.cells.encode(x, room)
            np.copyto(offsets[rows], offset)
            if width == 1:
                np.equal(labels[rows, None], true, out=room.mask)
                np.multiply(room.mask, self.n_slots, out=room.spare)
                np.add(slots, room.spare, out=codes[rows])
            else:
                np.add(slots, self.of_columns[: len(x), :width], out=codes[rows])
        if width > 1:
            came = np.flatnonzero((labels >= true) & (labels < true + width))
            codes[came, labels[came].astype(np.intp) - true] += self.n_slots
        return codes.ravel(), offsets.ravel()
