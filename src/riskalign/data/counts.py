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

from dataclasses import dataclass

import numpy as np

from riskalign.data.cells import Cells, Integers, Numbers
from riskalign.data.counting import Part, count
from riskalign.data.weights import exponent_of, in_units
from riskalign.equations.arrays import FloatArray, LabelArray

MOST_ROWS = 1 << 43
"""Up to here no sum of 20-bit offsets leaves the range of int64; 8.8e12."""


ONE_SCORE = 1e-7
"""Means of labels that differ by less, relative to their distance from 0 and 1, are of one score:
offsets place predictions to within 1e-9, and means of many differ by some 1e-5."""


@dataclass(frozen=True)
class Atoms:
    """The cells of one problem as points with masses, ``(m,)`` each.

    Attributes
    ----------
    locations : the mean of each cell's members of that label
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

    @property
    def shared_locations(self) -> FloatArray:
        """The mean of each cell's members of both labels."""
        distinct, cell = np.unique(self.slots, return_inverse=True)
        mass, moment = (
            np.bincount(cell, each, len(distinct))
            for each in (self.totals, self.totals * self.locations)
        )
        means = np.divide(moment, mass, out=np.zeros(len(mass)), where=mass > 0)
        return np.clip(means, 0.0, 1.0)[cell]

    @property
    def holds_many(self) -> bool:
        """Whether most rows lie in cells of many predictions, as those of continuous scores do.

        Of a cell that holds one score both labels have the same mean. Cells of few scores also lie
        apart, without neighbours.
        """
        slots, cell = np.unique(self.slots, return_inverse=True)
        apart = np.diff(slots) > 1
        one = np.r_[True, apart] & np.r_[apart, True]
        ends = np.stack([np.full(len(slots), 2.0), np.full(len(slots), -1.0)])
        np.minimum.at(ends[0], cell, self.locations)
        np.maximum.at(ends[1], cell, self.locations)
        both = np.bincount(cell, minlength=len(slots)) > 1
        one |= both & (ends[1] - ends[0] <= ONE_SCORE * ends[0] * (1 - ends[1]))
        return bool(2 * self.counts[one[cell]].sum() < self.counts.sum())


class CellCounts:
    """Counts of cells for some one-dimensional problems.

    Parameters
    ----------
    n_problems : int
    bits, n_bins : int
        Significant bits of a cell, and bins whose edges cut no cell: see `Cells`.

    Attributes
    ----------
    n_rows : int
    weighted : bool
        Whether weights have come.
    exponent : int
        Sums of w are in units of 2^exponent.
    sums : Part
        The cells that hold rows: their codes, counts and other sums.

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
        self._n_waiting = 0

    def restore(self, part: Part, n_rows: int, weighted: bool, exponent: int) -> None:
        """Replace the content."""
        self._parts, self._n_waiting, self.n_rows = [part], 0, n_rows
        self.weighted, self.exponent = weighted, exponent

    @property
    def sums(self) -> Part:
        """Codes and sums of all cells that hold rows."""
        if len(self._parts) > 1:
            self._parts, self._n_waiting = [Part.merged(self._parts)], 0
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

        def sums(values: FloatArray) -> FloatArray:
            return np.bincount(bins, values, self.cells.n_bins).astype(np.float64)

        return sums(w), sums(w * atoms.locations), sums(w * atoms.labels)

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
        if self.weighted and weights is None:
            weights = np.ones(n)
        if weights is not None:
            self._weigh(exponent_of(weights))
            weights = in_units(weights, self.exponent)
        matrix = p[:, None] if p.ndim == 1 else p
        self._wait(count(matrix, labels, weights, self.cells), n)
        return self

    def _expect(self, n: int) -> None:
        if self.n_rows + n > MOST_ROWS:
            raise ValueError(
                f"Counts hold at most 2^43 = {MOST_ROWS:.2g} rows; found {self.n_rows + n:.4g}."
            )

    def _weigh(self, exponent: int) -> None:
        """Become weighted, in units of at least 2^exponent."""
        larger = max(self.exponent, exponent) if self.n_rows else exponent
        if self.weighted and larger == self.exponent:
            return
        part = self.sums if self.weighted else self.sums.weighted()
        self._parts = [part.in_units(larger - self.exponent)]
        self.weighted, self.exponent = True, larger

    def _wait(self, part: Part, n: int) -> None:
        """Keep a part of n rows for later, until what waits outgrows what is merged."""
        self.n_rows += n
        self._parts.append(part)
        self._n_waiting += len(part.codes)
        if self._n_waiting > len(self._parts[0].codes):
            self._parts, self._n_waiting = [Part.merged(self._parts)], 0
