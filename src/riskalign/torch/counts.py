"""Cells of probabilities on any device: `riskalign.data.cells` in integer arithmetic on tensors.

Numbers are handled by the bits that they have as a float64, read as an integer. Those of a
float32 are found by integer arithmetic, so that no device needs to know float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from riskalign.data.cells import FIRST, MANTISSA, OFFSET_BITS, Cells

_FIRST = int(np.float64(FIRST).view(np.int64))
_SMALLEST = 149
"""The smallest positive float32 is 2^-149."""


def bits_of(x: Tensor) -> Tensor:
    """The bits of numbers as float64, read as int64; numbers are float32 or float64, from 0 up.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([0.0, 1e-45, 0.3, 1.0])
    >>> torch.equal(bits_of(x), x.double().view(torch.int64))
    True
    """
    if x.dtype == torch.float64:
        return (x + 0.0).view(torch.int64)  # -0.0 + 0.0 is 0.0
    bits = (x + 0.0).view(torch.int32).long()
    small = bits < 1 << 23  # zero, and numbers without an implicit leading bit
    whole = torch.where(small, bits, 0).to(torch.float32).view(torch.int32).long()
    exponent = torch.where(small, 1023 - 127 - _SMALLEST, 1023 - 127)
    wide = (torch.where(small, whole, bits) << 29) + (exponent << MANTISSA)
    return torch.where(bits == 0, 0, wide)


@dataclass(frozen=True)
class CellTables:
    """What a device must know of some `Cells`.

    Attributes
    ----------
    cells : Cells
    edges : (n_sided,), float64
        The edge between bins that cuts each slot, infinite for most.
    parts : (n_sided,)
        The slot of the part above the edge.
    """

    cells: Cells
    edges: Tensor
    parts: Tensor

    @classmethod
    def of(cls, cells: Cells) -> CellTables:
        """The tables of some cells, on the CPU."""
        slots, edge_of_slot = cells._cut
        parts = np.zeros(cells.n_sided, dtype=np.int64)
        parts[slots] = cells.n_sided + np.arange(cells.n_bins - 1)
        return cls(cells, torch.from_numpy(edge_of_slot), torch.from_numpy(parts))

    def edges_for(self, dtype: torch.dtype) -> Tensor:
        """Edges that divide numbers of a type as they do in float64."""
        if dtype == torch.float64:
            return self.edges
        near = self.edges.numpy().astype(np.float32)
        down = np.nextafter(near, np.float32(-np.inf))
        return torch.from_numpy(np.where(near > self.edges.numpy(), down, near))


def encode(
    p: Tensor, cells: Cells, edges: Tensor | None, parts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Slots and offsets of probabilities from 0 to 1, as `Cells.encode`.

    Parameters
    ----------
    p : any shape, float32 or float64
    cells : Cells
    edges, parts : (n_sided,) each
        Of `CellTables`; None if there is one bin.

    Examples
    --------
    >>> import torch
    >>> from riskalign.data.cells import Cells
    >>> slots, _ = encode(torch.tensor([0.0, 0.3, 0.3001, 0.5, 1.0]), Cells(8), None, None)
    >>> slots.tolist()
    [0, 3611, 3611, 3714, 3715]
    """
    shift = MANTISSA - (cells.bits - 1)
    q = torch.minimum(p, 1 - p)
    bits = bits_of(q)
    inside = bits >= _FIRST
    offsets = torch.where(inside, (bits >> (shift - OFFSET_BITS)) & ((1 << OFFSET_BITS) - 1), 0)
    slots = (bits >> shift) - ((_FIRST >> shift) - 2)
    slots = torch.where(inside, slots, (bits > 0).long())
    slots = slots + (p > 0.5) * (cells.n_sided // 2)
    if edges is not None and parts is not None:
        slots = torch.where(p > edges[slots], parts[slots], slots)
    return slots, offsets


def counted(table: Tensor, codes: Tensor, offsets: Tensor, valid: Tensor) -> Tensor:
    """A table ``(2, size)`` of counts and sums of offsets, with numbers added that are valid.

    Parameters
    ----------
    codes, offsets, valid : the same shape
        Codes of numbers that are not valid must lie within the table.
    """
    both = torch.stack([valid.long(), torch.where(valid, offsets, 0)]).reshape(2, -1)
    return table.index_add(1, codes.reshape(-1), both)
