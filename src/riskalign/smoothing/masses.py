"""The state of a one-dimensional estimate: masses on nodes, which add and merge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskalign.arrays import FloatArray
from riskalign.kernels import Kernel
from riskalign.smoothing.nodes import Nodes, nodes_at, transfer

LEVEL = 2.0
"""Ratio of the bandwidths that neighbouring levels of nodes resolve."""


@dataclass(frozen=True)
class MassTable:
    """Values of samples gathered on nodes, for any number of columns.

    A table says all that a kernel average needs to know of its samples at bandwidths from
    `resolution` up: 1,400 rows stand for any number of them. Tables of disjoint samples
    merge by addition.

    Examples
    --------
    >>> import numpy as np
    >>> from riskalign.kernels import DIRICHLET
    >>> p, y = np.array([0.1, 0.4, 0.8]), np.array([0.0, 1.0, 1.0])
    >>> values = np.stack([y, np.ones(3)], axis=1)
    >>> whole = MassTable.empty(DIRICHLET, 1e-3, 2).add(p, values)
    >>> first = MassTable.empty(DIRICHLET, 1e-3, 2).add(p[:2], values[:2])
    >>> rest = MassTable.empty(DIRICHLET, 1e-3, 2).add(p[2:], values[2:])
    >>> bool(np.allclose(first.merge(rest).mass, whole.mass))
    True
    >>> bool(np.allclose(whole.mass.sum(axis=0), [2, 3]))
    True
    """

    kernel: Kernel
    resolution: float
    mass: FloatArray

    @classmethod
    def empty(cls, kernel: Kernel, resolution: float, n_columns: int) -> MassTable:
        """A table of no samples."""
        return cls(kernel, resolution, np.zeros((len(nodes_at(kernel, resolution)), n_columns)))

    @property
    def nodes(self) -> Nodes:
        """The nodes that carry the masses."""
        return nodes_at(self.kernel, self.resolution)

    def add(self, p: FloatArray, values: FloatArray) -> MassTable:
        """The table with samples at p ``(n,)`` and their values ``(n, C)`` added."""
        return replace(self, mass=self.mass + self.nodes.weights(p).T @ values)

    def merge(self, other: MassTable) -> MassTable:
        """The table of both sets of samples."""
        if (other.kernel, other.resolution) != (self.kernel, self.resolution):
            raise ValueError(
                f"Tables merge when kernel and resolution agree; found {self.kernel.name} at "
                f"{self.resolution:g} and {other.kernel.name} at {other.resolution:g}."
            )
        return replace(self, mass=self.mass + other.mass)

    def sums(self, bandwidth: float) -> FloatArray:
        """sum_j k_h(x; f_j) v_j with x at every node, ``(M, C)``."""
        level = self._level(bandwidth)
        kernel_matrix = node_kernel(self.kernel, level, bandwidth)
        if level == self.resolution:
            result: FloatArray = kernel_matrix @ self.mass
            return result
        to_fine = transfer(self.kernel, self.resolution, level)
        result = to_fine @ (kernel_matrix @ (to_fine.T @ self.mass))
        return result

    def _level(self, bandwidth: float) -> float:
        """The coarsest nodes that still resolve the bandwidth."""
        steps = int(np.floor(np.log(bandwidth / self.resolution) / np.log(LEVEL) + 1e-9))
        return self.resolution * LEVEL ** max(steps, 0)


def node_kernel(kernel: Kernel, resolution: float, bandwidth: float) -> FloatArray:
    """k_h(x_a; x_b) between the nodes, ``(M, M)``; it depends on the bandwidth alone."""
    points = nodes_at(kernel, resolution).points
    scores = kernel.scale(bandwidth) * (kernel.queries(points) @ points.T)
    scores += kernel.key_bias(points, bandwidth)
    scores += kernel.query_bias(points, bandwidth)[:, None]
    return np.exp(scores, out=scores)


def own_kernel(kernel: Kernel, resolution: float, bandwidth: float) -> FloatArray:
    """k_h(x_a; x_a) at the nodes, ``(M,)``: what a sample adds to its own sum."""
    points = nodes_at(kernel, resolution).points
    products = np.sum(kernel.queries(points) * points, axis=1)
    return np.exp(
        kernel.scale(bandwidth) * products
        + kernel.key_bias(points, bandwidth)
        + kernel.query_bias(points, bandwidth)
    )
