"""The row sample of a sketch on any device: `riskalign.data.rows` as one tensor of fixed size.

A table is an int64 tensor ``(2, limit + 1, 3 + width)``: one-hot rows, and other rows. A row is
its hash without the first bit, its count, its label and the bits of its predictions as float64.
Rows come in the order of their hashes, unused places have the hash `NONE`, and the last place
holds in place of a hash the threshold: the smallest hash that was ever dropped. Rows of equal hash
are taken as equal.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from riskalign.data.distinct import HALF, WHOLE, Rows
from riskalign.data.hashing import _OF_LABEL, _ROUNDS, LABEL_BITS, multipliers
from riskalign.data.rows import RowTable
from riskalign.torch.counts import bits_of

NONE = (1 << 63) - 1
HASH, COUNT, LABEL, FIRST = 0, 1, 2, 3
"""Columns of a table."""


def empty(width: int, limit: int) -> Tensor:
    """A table without rows."""
    table = torch.zeros(2, limit + 1, FIRST + width, dtype=torch.int64)
    table[..., HASH] = NONE
    return table


def signed(number: int) -> int:
    """A 64-bit number as the int64 with the same bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


ROUNDS = tuple((int(shift), signed(int(factor))) for shift, factor in _ROUNDS)
OF_LABEL = signed(int(_OF_LABEL))


def _shifted(x: Tensor, by: int) -> Tensor:
    """Bits of int64 numbers, moved right, with zeros from the left."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def hashes(bits: Tensor, labels: Tensor, of_columns: Tensor) -> Tensor:
    """Hashes ``(n,)`` of rows without weights, as `riskalign.data.hashing.hash_rows`.

    Parameters
    ----------
    bits : (n, d), of the predictions as float64
    labels : (n,)
    of_columns : (d,), multipliers
    """
    sums = ((bits ^ _shifted(bits, 32)) * of_columns).sum(1)
    for shift, factor in ROUNDS:
        sums = (sums ^ _shifted(sums, shift)) * factor
    sums = sums ^ _shifted(sums, 31)
    of_label = _shifted(labels * OF_LABEL, 64 - LABEL_BITS)
    return (sums & ~((1 << LABEL_BITS) - 1)) | of_label


def multipliers_of(width: int) -> Tensor:
    """Multipliers of the columns ``(width,)`` as int64."""
    return torch.from_numpy(multipliers(width).view(np.int64).copy())


def added(table: Tensor, p: Tensor, labels: Tensor, valid: Tensor, of_columns: Tensor) -> Tensor:
    """The table with rows ``(n, d)`` added that are valid."""
    bits = bits_of(p)
    key = hashes(bits, labels, of_columns) & NONE
    if p.shape[1] == 1:
        one_hot = ((p == 0) | (p == 1))[:, 0]
    else:
        one_hot = (p == 1).any(1) & ((p != 0).sum(1) == 1)
    kinds = torch.stack([one_hot & valid, ~one_hot & valid])  # (2, n)
    columns = torch.cat([torch.ones_like(labels)[:, None], labels[:, None], bits], 1)
    new = torch.cat(
        [torch.where(kinds, key, NONE)[..., None], columns.expand(2, -1, -1)], 2
    )  # (2, n, 3 + d)
    return _settled(torch.cat([table[:, :-1], new], 1), table[:, -1, HASH], table.shape[1] - 1)


def merged(tables: Tensor) -> Tensor:
    """One table from several, ``(W, 2, limit + 1, 3 + d)``: the reduction over processes."""
    rows = tables[:, :, :-1].transpose(0, 1).flatten(1, 2)
    return _settled(rows, tables[:, :, -1, HASH].amin(0), tables.shape[2] - 1)


def _settled(rows: Tensor, thresholds: Tensor, limit: int) -> Tensor:
    """The table of some rows ``(2, m, 3 + d)`` and thresholds ``(2,)``.

    Equal rows are counted together. All shapes are known in advance, so that nothing waits for
    the device.
    """
    key, order = rows[..., HASH].sort(1)
    new = torch.ones_like(key)
    new[:, 1:] = key[:, 1:] != key[:, :-1]
    place = new.cumsum(1) - 1  # number of each hash among the distinct ones
    size = max(limit + 1, key.shape[1])
    blank = key.new_zeros(2, size)
    counts = rows[..., COUNT].gather(1, order) * (key != NONE)
    counts = blank.scatter_add(1, place, counts)[:, :limit]
    distinct = torch.full_like(blank, NONE).scatter(1, place, key)
    source = blank.scatter(1, place, order)[:, :limit]  # equal rows: any of them
    dropped = distinct[:, limit]
    # Rows that differ in their label alone stay or go together.
    dropped = torch.where(dropped == NONE, NONE, dropped & ~((1 << LABEL_BITS) - 1))
    thresholds = torch.minimum(thresholds, dropped)
    kept = distinct[:, :limit] < thresholds[:, None]
    table = rows.new_zeros(2, limit + 1, rows.shape[2])
    chosen = rows.gather(1, source[..., None].expand(-1, -1, rows.shape[2]))
    table[:, :limit] = torch.where(kept[..., None], chosen, 0)
    table[:, :limit, HASH] = torch.where(kept, distinct[:, :limit], NONE)
    table[:, :limit, COUNT] = torch.where(kept, counts, 0)
    table[:, limit, HASH] = thresholds
    return table


def as_row_table(table: Tensor, n_rows: int) -> RowTable:
    """The same rows in the form of the numpy core."""
    limit, width = table.shape[1] - 1, table.shape[2] - FIRST
    found = table.cpu().numpy()
    if limit == 0:
        empty_table = RowTable(width, 0)
        some = np.zeros(min(n_rows, 1), dtype=np.int64)
        return empty_table.add(np.zeros((len(some), width)), some)
    used = found[:, :-1, HASH] != NONE
    first = np.array([[0], [HALF]], dtype=np.uint64)  # of one-hot and of other rows
    keys = (found[:, :-1, HASH].view(np.uint64) | first)[used]
    rows = found[:, :-1][used]
    limits = found[:, -1, HASH].tolist()
    thresholds = tuple(
        end if threshold == NONE else end - HALF + threshold
        for threshold, end in zip(limits, (HALF, WHOLE), strict=True)
    )
    columns = Rows(
        keys,
        np.ascontiguousarray(rows[:, FIRST:]).view(np.float64),
        rows[:, LABEL].copy(),
        np.ones(len(rows)),
        np.ones(len(rows)),
        rows[:, COUNT].copy(),
    )
    return RowTable.restored(columns, limit, (thresholds[0], thresholds[1]))
