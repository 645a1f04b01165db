"""Cells of the unit interval: a probability rounded to a few significant bits.

With q = min(p, 1 - p) the distance of p to the nearer end, a cell holds all p on one side of
1/2 whose q agree in their first `bits` significant bits. Cells are therefore narrow where
probabilities are near 0 or 1: their width is between 2^-bits and 2^(1 - bits) of q. No
logarithm is needed, because the bits of a float, read as an integer, already are the exponent
followed by the mantissa; HDR histograms use the same layout.

The slots of one side are numbered by q::

    0                     p is exactly 0 (or 1 on the upper side)
    1                     0 < q < 2^-30, below the floor 1e-9 of every logarithm; placed at 2^-31
    2, 3, ...             the cells of [2^-30, 1/2), 2^(bits - 1) of them per factor of two
    n_sided / 2 - 1       p is exactly 1/2 (lower side only)

and those of the upper side, p > 1/2, follow those of the lower, `n_sided` in all. If the cells
are asked to respect equal-width bins, each cell that an edge k / n_bins cuts is split: its p
above the edge go to slot n_sided + k - 1. Sums over bins are then exact. The next 20 bits
are returned as an integer, the *offset*; with the mean offset of its members a cell is placed
at the mean of its members, to a relative 2^-(bits + 19). Slots and offsets of a float32 number
are those of its float64 value, and can be found from its own bits: 1 - p is exact for
p >= 1/2 in either precision (Sterbenz).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.equations.arrays import BoolArray, FloatArray

OFFSET_BITS = 20
"""Bits of an offset: with `bits` they are more than the 24 of a float32 number."""

LEAST_EXPONENT = -30
FIRST = 2.0**LEAST_EXPONENT
"""Where cells begin: 9.3e-10."""

MANTISSA = 52
"""Stored bits of a float64's mantissa."""

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Room:
    """Memory that `Cells.encode` works in: fresh memory would cost more than the arithmetic."""

    q: FloatArray
    slots: Integers
    offsets: Integers
    spare: Integers
    mask: BoolArray

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Room:
        """The memory for probabilities of the given shape."""
        slots, offsets, spare = (np.empty(shape, dtype=np.int64) for _ in range(3))
        return cls(np.empty(shape), slots, offsets, spare, np.empty(shape, dtype=np.bool_))

    def part(self, n: int, width: int) -> Room:
        """The first rows and columns of the same memory."""
        return Room(*(array[:n, :width] for array in vars(self).values()))


@dataclass(frozen=True)
class Cells:
    """Cells of the unit interval that keep some significant bits.

    Parameters
    ----------
    bits : int, from 4 to 16
    n_bins : int, optional
        Bins of equal width, (lower, upper], whose edges cut no cell.

    Examples
    --------
    >>> import numpy as np
    >>> cells = Cells(bits=8)
    >>> slots, offsets = cells.encode(np.array([0.0, 0.3, 0.3001, 0.5, 1.0]))
    >>> slots.tolist(), cells.n_slots
    ([0, 3611, 3611, 3714, 3715], 7430)
    >>> cells.locations(slots, offsets).round(6).tolist()
    [0.0, 0.3, 0.3001, 0.5, 1.0]
    """

    bits: int
    n_bins: int = 1

    def __post_init__(self) -> None:
        if not 4 <= self.bits <= 16:
            raise ValueError(f"`bits` must lie between 4 and 16; found {self.bits}.")
        if not 1 <= self.n_bins <= 2 ** (self.bits - 1):
            raise ValueError(f"`n_bins` must lie between 1 and 2^(bits - 1); found {self.n_bins}.")

    @property
    def _per_octave(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def _one_side(self) -> int:
        octaves = -1 - LEAST_EXPONENT  # from 2^-30 up to 1/2, which is a cell of its own
        return 2 + octaves * self._per_octave + 1

    @property
    def n_sided(self) -> int:
        """Number of slots of both sides, before cells are split."""
        return 2 * self._one_side

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return self.n_sided + self.n_bins - 1

    @functools.cached_property
    def edges(self) -> FloatArray:
        """Edges between bins, ``(n_bins - 1,)``."""
        return np.linspace(0.0, 1.0, self.n_bins + 1)[1:-1]

    @functools.cached_property
    def _cut(self) -> tuple[Integers, FloatArray]:
        """The slots that edges cut, and per slot of both sides its edge, infinite for most."""
        slots, _ = Cells(self.bits).encode(self.edges)
        edge_of_slot = np.full(self.n_sided, np.inf)
        edge_of_slot[slots] = self.edges
        return slots, edge_of_slot

    def encode(self, p: Numbers, room: Room | None = None) -> tuple[Integers, Integers]:
        """Slots and offsets of probabilities.

        Parameters
        ----------
        p : any shape
            A p above 1 by rounding is taken as 1.
        room : Room, optional
            Arrays of the shape of `p` to work in; the result lies in them.
        """
        room = Room.of(p.shape) if room is None else room
        q, slots, offsets, spare, mask = vars(room).values()
        shift = MANTISSA - (self.bits - 1)
        np.subtract(1.0, p, out=q, dtype=np.float64)
        np.minimum(p, q, out=q)
        np.right_shift(q.view(np.int64), shift - OFFSET_BITS, out=offsets)
        np.right_shift(offsets, OFFSET_BITS, out=slots)
        slots -= (_pattern(FIRST) >> shift) - 2
        offsets &= (1 << OFFSET_BITS) - 1
        if np.less(q, FIRST, out=mask).any():
            positive = mask & (q > 0)
            np.logical_not(mask, out=mask)
            offsets *= mask
            slots *= mask
            slots += positive
        np.greater(p, 0.5, out=mask)
        slots += np.multiply(mask, self._one_side, out=spare)
        if self.n_bins > 1:
            edges = np.take(self._cut[1], slots, out=spare.view(np.float64), mode="clip")
            above = np.flatnonzero(np.greater(p, edges, out=mask))
            slots.flat[above] = self.n_sided + np.searchsorted(self.edges, edges.flat[above])
        return slots, offsets

    def locations(self, slots: Integers, mean_offsets: FloatArray) -> FloatArray:
        """Probabilities at the slots' mean offsets."""
        upper, slot = np.divmod(self._whole(slots), self._one_side)
        octave, step = np.divmod(slot - 2, self._per_octave)
        significand = self._per_octave + step + mean_offsets / (1 << OFFSET_BITS)
        q = np.ldexp(significand, octave + (LEAST_EXPONENT - (self.bits - 1)))
        q = np.where(slot >= 2, q, np.where(slot == 1, FIRST / 2, 0.0))
        return np.where(upper == 1, 1 - q, q)

    def bins(self, slots: Integers) -> Integers:
        """The bin of each slot, from 0 to n_bins - 1.

        Examples
        --------
        >>> import numpy as np
        >>> cells = Cells(bits=8, n_bins=10)
        >>> slots, _ = cells.encode(np.array([0.0, 0.3, 0.3001, 0.5, 1.0]))
        >>> cells.bins(slots).tolist()
        [0, 2, 3, 4, 9]
        """
        return self._bin_of_slot[slots]

    @functools.cached_property
    def _bin_of_slot(self) -> Integers:
        middle = np.full(self.n_slots, 1 << (OFFSET_BITS - 1))  # a member of a cell, or nearly
        bins = np.searchsorted(self.edges, self.locations(np.arange(self.n_slots), middle))
        bins[self._cut[0]] = np.arange(self.n_bins - 1)
        bins[self.n_sided :] = np.arange(1, self.n_bins)
        return bins

    def _whole(self, slots: Integers) -> Integers:
        """Slots before cells were split."""
        split = slots >= self.n_sided
        whole = slots.copy()
        whole[split] = self._cut[0][slots[split] - self.n_sided]
        return whole


def _pattern(value: float) -> int:
    """The bits of a float64, read as an integer."""
    return int(np.float64(value).view(np.int64))
