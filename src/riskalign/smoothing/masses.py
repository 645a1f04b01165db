"""The state of a one-dimensional estimate: masses on nodes, which add and merge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel
from riskalign.smoothing.nodes import Nodes, nodes_at, transfer

LEVEL, LEVELS = 2.0, 9
"""Ratio of the bandwidths that neighbouring levels of nodes resolve, and how many there are
above the finest: the nodes of the last are so few that wider kernels take them too."""


NEGLIGIBLE = 60.0
"""Nats below a row's largest term at which a kernel is zero: 1e6 samples there add 1e-20."""

BLOCK = 32
"""Rows of the kernel matrix whose band is found together."""


@dataclass(frozen=True)
class MassTable:
    """Values of samples gathered on nodes, for any number of columns.

    A table says all that a kernel average needs to know of its samples at bandwidths from
    `resolution` up: 1,400 rows stand for any number of them. Tables of disjoint samples
    merge by addition.

    Examples
    --------
    >>> import numpy as np
    >>> from riskalign.equations.kernels import DIRICHLET
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
        if level == self.resolution:
            return _kernel_product(self.kernel, level, bandwidth, self.mass)
        to_fine = transfer(self.kernel, self.resolution, level)
        carried = to_fine.T @ self.mass
        result: FloatArray = to_fine @ _kernel_product(self.kernel, level, bandwidth, carried)
        return result

    def _level(self, bandwidth: float) -> float:
        """The coarsest nodes that still resolve the bandwidth."""
        steps = int(np.floor(np.log(bandwidth / self.resolution) / np.log(LEVEL) + 1e-9))
        return self.resolution * LEVEL ** min(max(steps, 0), LEVELS)


def _kernel_product(
    kernel: Kernel, resolution: float, bandwidth: float, mass: FloatArray
) -> FloatArray:
    """sum_b k_h(x_a; x_b) mass_b over the nodes, ``(M, C)``.

    The kernel matrix depends on the bandwidth alone, so all columns share it. It is a band:
    a kernel is log-concave in its centre, and the centres that matter move up with x, so
    those of the first and of the last row of a block bound those of the block.
    """
    points = nodes_at(kernel, resolution).points
    queries = kernel.scale(bandwidth) * kernel.queries(points)
    key_bias = kernel.key_bias(points, bandwidth)
    query_bias = kernel.query_bias(points, bandwidth)
    starts = np.arange(0, len(points), BLOCK)
    ends = np.minimum(starts + BLOCK, len(points))
    edges = np.stack([starts, ends - 1], axis=1).ravel()
    scores = queries[edges] @ points.T + key_bias
    matters = scores > scores.max(axis=1, keepdims=True) - NEGLIGIBLE
    first = matters.argmax(axis=1)[::2]
    last = len(points) - matters[:, ::-1].argmax(axis=1)[1::2]
    result = np.empty_like(mass)
    for rows, band in zip(map(slice, starts, ends), map(slice, first, last), strict=True):
        block = queries[rows] @ points[band].T
        block += key_bias[band]
        block += query_bias[rows, None]
        np.matmul(np.exp(block, out=block), mass[band], out=result[rows])
    return result


def own_kernel(kernel: Kernel, resolution: float, bandwidth: float) -> FloatArray:
    """k_h(x_a; x_a) at the nodes, ``(M,)``: what a sample adds to its own sum."""
    points = nodes_at(kernel, resolution).points
    products = np.sum(kernel.queries(points) * points, axis=1)
    return np.exp(
        kernel.scale(bandwidth) * products
        + kernel.key_bias(points, bandwidth)
        + kernel.query_bias(points, bandwidth)
    )
