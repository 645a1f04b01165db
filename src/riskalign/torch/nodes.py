r"""Kernel sums of one-dimensional problems at nodes: O(n) for n rows, where all pairs cost O(n^2).

The Beta kernel is smooth in v = asinh(log-odds), both of the row and of the key. Keys are spread
onto nodes that are evenly spaced in v, the kernel is applied between nodes, and the sums are read
off between them, by the same polynomials of degree seven,

.. math::

    \sum_j k_h(x_i; c_j) v_j \approx
    \sum_a \ell_a(x_i) \sum_b k_h(x_a; x_b) \sum_j \ell_b(c_j) v_j .

A cell is the gap between two nodes, and its polynomials use the four nodes on either side. A point
is known by its cell and its place s in it, from -1/2 to 1/2. To spread is the transpose of to read,
so the gradient needs nothing else, and nothing of the size n x n is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from riskalign.equations.arrays import FLOOR

POINTS = 8
"""Nodes that a polynomial uses."""

DENSITY = 6.0
"""Nodes per width of the kernel, where it is narrowest: the kernel is then off by at most 1e-4 of
its peak, and by a hundredth of that for most pairs."""

END = math.asinh(-math.log(FLOOR))
"""The largest |v| of a point: probabilities are floored."""

GAIN = 4
"""Pairs of rows and keys per pair of nodes from which nodes are faster than all pairs."""

BLOCK = 1 << 20
"""Numbers of kernel matrices that are held at a time: 4 MB in float32."""


def count(h: float) -> int:
    """The number of nodes for bandwidths from h up.

    Examples
    --------
    >>> count(0.05), count(0.001)
    (118, 718)
    """
    return 2 * math.ceil(DENSITY * END * math.sqrt(0.25 / h + 1)) + POINTS


def worthwhile(n_rows: int, n_keys: int, n_nodes: int) -> bool:
    """Whether sums at nodes are faster than those of all pairs."""
    return n_rows * n_keys > GAIN * n_nodes**2


@torch.compiler.disable  # the compiler cannot trace the gradient; the rest of the loss it can
def kernel_sums(
    log_odds: Tensor, values: Tensor, h: Tensor | float, n_nodes: int, rows: slice
) -> tuple[Tensor, Tensor]:
    """Sums over all keys at some of them, the rows, each row's own part included.

    Parameters
    ----------
    log_odds : (P, m), of the keys, floored
    values : (P, c, m)
    h : float or (P, 1)
        Bandwidth; no gradient flows through it.
    n_nodes : int
        Of `count`, for the narrowest bandwidth.
    rows : slice
        Which keys are rows.

    Returns
    -------
    sums (P, c, n), and the peaks of the kernel (P, n): what a key weighs at its own place

    Examples
    --------
    >>> import torch
    >>> log_odds, h = torch.tensor([[-1.0, 0.5, 0.5]]), 0.1
    >>> sums, peaks = kernel_sums(log_odds, torch.ones(1, 2, 3), h, count(h), slice(1, 3))
    >>> bool(sums[0, 0, 0] > 2 * peaks[0, 0])  # the other two rows, of which one is the same
    True
    """
    n_cells = n_nodes - POINTS + 1
    gap = 2 * END / (n_cells - 1)
    place = torch.asinh(log_odds) / gap + n_cells / 2
    cell = place.detach().floor().clamp(0, n_cells - 1)
    first = n_cells * torch.arange(len(cell), device=cell.device)
    v = torch.arange(n_nodes, dtype=place.dtype, device=place.device) - (n_nodes - 1) / 2
    if isinstance(h, Tensor) and h.numel() == 1:
        h = h.reshape(1, 1)
    operator = _Operator(torch.sinh(v * gap), _lagrange(place), h, len(cell))
    flat = cell.long() + first[:, None]
    sums = _Sums.apply(place - cell - 0.5, values, flat, operator, rows)
    return sums[:, :-1], sums[:, -1]


def log_kernel(log_odds: Tensor, p: Tensor, h: Tensor | float) -> Tensor:
    """The logarithm of the density of the Beta kernel with centre p, at given log-odds."""
    whole = torch.lgamma(1 / h + 2) if isinstance(h, Tensor) else math.lgamma(1 / h + 2)
    shape = torch.lgamma(p / h + 1) + torch.lgamma((1 - p) / h + 1) - whole
    return (p * log_odds - softplus(log_odds, threshold=50)) / h - shape


@dataclass(frozen=True)
class _Operator:
    """The kernel between nodes with given log-odds ``(nodes,)``, and the polynomials ``(8, 8)``."""

    log_odds: Tensor
    lagrange: Tensor
    h: Tensor | float
    n_problems: int

    def peaks(self) -> Tensor:
        """k_h(x_a; x_a), ``(P, nodes)``."""
        found = log_kernel(self.log_odds, torch.sigmoid(self.log_odds), self.h).exp()
        return found.expand(self.n_problems, -1)

    def apply(self, columns: Tensor, transposed: bool) -> Tensor:
        """Sums over keys of columns ``(P, c, nodes)``; transposed: over rows."""
        x, c = self.log_odds[:, None], torch.sigmoid(self.log_odds)  # kernels are (x, c)
        if not isinstance(self.h, Tensor) or len(self.h) == 1:
            kernel = log_kernel(x, c, self.h).exp()
            return columns @ (kernel if transposed else kernel.mT)
        out = torch.empty_like(columns)
        depth = max(1, BLOCK // len(x) ** 2)
        for start in range(0, self.n_problems, depth):
            part = slice(start, start + depth)
            kernels = log_kernel(x, c, self.h[part, :, None]).exp()
            out[part] = columns[part] @ (kernels if transposed else kernels.mT)
        return out


class _Sums(torch.autograd.Function):
    """From places and values to sums, and to peaks in the last column."""

    @staticmethod
    def forward(
        ctx: Any, s: Tensor, values: Tensor, cell: Tensor, operator: _Operator, rows: slice
    ) -> Tensor:
        powers = _powers(s)  # (8, P, m)
        sums = operator.apply(_spread(values, powers, cell, operator), transposed=False)
        tables = torch.cat([sums, operator.peaks()[:, None]], 1)
        found, slopes = _read(tables, powers[..., rows], cell[:, rows], operator)
        ctx.operator, ctx.rows = operator, rows
        ctx.save_for_backward(powers, values, cell, slopes)
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_found: Tensor) -> Any:
        powers, values, cell, slopes = ctx.saved_tensors
        operator, rows = ctx.operator, ctx.rows
        by_sums = _spread(by_found[:, :-1], powers[..., rows], cell[:, rows], operator)
        by_masses = operator.apply(by_sums, transposed=True)
        by_values, of_keys = _read(by_masses, powers, cell, operator)
        by_s = (of_keys * values).sum(1)
        by_s[:, rows] += (by_found * slopes).sum(1)
        return by_s, by_values, None, None, None


def _powers(s: Tensor) -> Tensor:
    """s^0 to s^7, first."""
    squared = s * s
    fourth = squared * squared
    cubed = squared * s
    return torch.stack(
        [
            torch.ones_like(s),
            s,
            squared,
            cubed,
            fourth,
            fourth * s,
            fourth * squared,
            fourth * cubed,
        ]
    )


def _spread(values: Tensor, powers: Tensor, cell: Tensor, operator: _Operator) -> Tensor:
    """Masses ``(P, c, nodes)`` of values ``(P, c, m)``."""
    (n_problems, n_values, _), n_nodes = values.shape, len(operator.log_odds)
    n_cells = n_nodes - POINTS + 1
    moments = values.transpose(0, 1)[:, None] * powers  # (c, 8, P, m)
    sums = moments.new_zeros(n_values * POINTS, n_problems * n_cells)
    sums.index_add_(1, cell.flatten(), moments.flatten(2).flatten(0, 1))
    shares = torch.matmul(
        operator.lagrange.T, sums.unflatten(0, (n_values, POINTS))
    )  # (c, 8, P cells)
    shares = shares.unflatten(2, (n_problems, n_cells)).permute(1, 2, 0, 3)  # (8, P, c, cells)
    masses = values.new_zeros(n_problems, n_values, n_nodes)
    for a in range(POINTS):
        masses[..., a : a + n_cells] += shares[a]
    return masses


def _read(
    tables: Tensor, powers: Tensor, cell: Tensor, operator: _Operator
) -> tuple[Tensor, Tensor]:
    """Tables ``(P, c, nodes)`` at points, and their derivatives by s, ``(P, c, n)`` each."""
    windows = tables.unfold(2, POINTS, 1).permute(1, 3, 0, 2)  # (c, 8, P, cells)
    of_cells = torch.matmul(operator.lagrange, windows.flatten(2))  # (c, 8, P cells)
    found = of_cells.flatten(0, 1).index_select(1, cell.flatten())
    found = found.unflatten(0, (-1, POINTS)).unflatten(2, cell.shape)  # (c, 8, P, n)
    steps = torch.arange(1, POINTS, dtype=tables.dtype, device=tables.device)[:, None, None]
    slopes = (found[:, 1:] * (steps * powers[:-1])).sum(1)
    return (found * powers).sum(1).transpose(0, 1), slopes.transpose(0, 1)


def _lagrange(like: Tensor) -> Tensor:
    """Coefficients ``(8, 8)``: column a is the polynomial that is 1 at node a of the cell."""
    kind = like.dtype, like.device
    if kind not in _TABLES:  # copied once to every device
        nodes = np.arange(POINTS) - (POINTS - 1) / 2
        _TABLES[kind] = torch.from_numpy(np.linalg.inv(np.vander(nodes, increasing=True))).to(like)
    return _TABLES[kind]


_TABLES: dict[tuple[torch.dtype, torch.device], Tensor] = {}
