"""Nodes on [0, 1], dense where the kernel is narrow, and polynomials between them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from riskalign.data.sample import on_simplex
from riskalign.equations.arrays import FLOOR, FloatArray
from riskalign.equations.kernels import Kernel

SPACING = 0.22
"""Distance of neighbouring nodes in units of the kernel's width."""

STENCIL = 8
"""Nodes that share a sample: polynomials of degree seven."""

HALVINGS = 60
"""Bisection steps that find a node: more than the bits of a float64."""


class Nodes:
    """Nodes that resolve a kernel at bandwidths from `resolution` up.

    The first and the last node are 0 and 1 themselves; between them nodes are evenly spaced
    in the kernel's coordinate, from the floor of the logarithm to its mirror image.
    """

    def __init__(self, kernel: Kernel, resolution: float) -> None:
        self.kernel = kernel
        self.resolution = resolution
        end = abs(self._position(np.array([FLOOR]))[0])
        self._half = max(int(np.ceil(end / SPACING)), STENCIL)  # intervals on each side of 1/2
        self._end = end
        inner = self._lower_half()
        left = np.concatenate([[0.0], inner, [0.5]])
        self.points = np.concatenate(  # (M, 2), accurate in both tails
            [on_simplex(left), on_simplex(left[:-1])[::-1, ::-1]]
        )

    def _position(self, p: FloatArray) -> FloatArray:
        return self.kernel.coordinate(p, self.resolution)

    def _lower_half(self) -> FloatArray:
        """Nodes below 1/2, by bisection of the coordinate in log p."""
        target = (np.arange(self._half) / self._half - 1) * self._end
        low = np.full(self._half, np.log(FLOOR))
        high = np.full(self._half, np.log(0.5))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._position(np.exp(middle)) < target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        p: FloatArray = np.exp(high)
        p[0] = FLOOR
        return p

    def __len__(self) -> int:
        """Number of nodes M."""
        return len(self.points)

    def weights(self, p: FloatArray) -> csr_array:
        """Interpolation weights ``(n, M)``: row i holds the local polynomial's at p_i."""
        inside = np.clip(p, FLOOR, 1 - FLOOR)
        u = (self._position(inside) / self._end + 1) * self._half  # 0 .. 2 half
        first = np.clip(
            np.floor(u).astype(np.int32) - (STENCIL // 2 - 1), 0, 2 * self._half + 1 - STENCIL
        )
        offset = u - first - (STENCIL - 1) / 2
        weights = np.ascontiguousarray(_lagrange(offset).T)  # (n, m)
        columns = first[:, None] + np.arange(1, STENCIL + 1, dtype=np.int32)
        # Below the floor (above its mirror image) the kernel is linear in its centre and
        # constant in its query: a straight line to the end node is exact to rounding.
        for end, neighbour, outside, distance in (
            (0, 1, p < FLOOR, p),
            (len(self) - 1, len(self) - 2, p > 1 - FLOOR, 1 - p),
        ):
            if outside.any():
                share = np.clip(distance[outside] / FLOOR, 0.0, 1.0)
                weights[outside] = 0.0
                weights[outside, 0], weights[outside, 1] = 1 - share, share
                columns[outside, 0], columns[outside, 1] = end, neighbour
        starts = np.arange(len(p) + 1, dtype=np.int32) * STENCIL
        return csr_array((weights.ravel(), columns.ravel(), starts), shape=(len(p), len(self)))


def _lagrange(offset: FloatArray) -> FloatArray:
    """Weights ``(m, n)`` of the polynomial through unit-spaced nodes, at offsets from their middle.

    The weight of node a is the product of (offset - x_b) / (x_a - x_b) over the other nodes b:
    a product of those before a and one of those after it.
    """
    nodes = np.arange(STENCIL) - (STENCIL - 1) / 2
    weights = np.ones((STENCIL, len(offset)))
    before, after = np.ones_like(offset), np.ones_like(offset)
    for a in range(1, STENCIL):
        before *= offset - nodes[a - 1]
        weights[a] *= before
        after *= offset - nodes[-a]
        weights[-a - 1] *= after
    differences = nodes[:, None] - nodes
    np.fill_diagonal(differences, 1.0)
    weights /= differences.prod(axis=1)[:, None]
    return weights


@lru_cache(maxsize=32)
def nodes_at(kernel: Kernel, resolution: float) -> Nodes:
    """The nodes of a kernel at a resolution; a process makes each once."""
    return Nodes(kernel, resolution)


@lru_cache(maxsize=32)
def transfer(kernel: Kernel, fine: float, coarse: float) -> csr_array:
    """Interpolation from coarse nodes to fine ones; its transpose carries masses back."""
    return nodes_at(kernel, coarse).weights(nodes_at(kernel, fine).points[:, 1])
