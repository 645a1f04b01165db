"""Leave-one-out averages of many columns at one bandwidth, prepared once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel
from riskalign.smoothing.masses import MassTable, own_kernel

ISOLATED = 0.02
"""A row whose own term outweighs the rest by more than 1/ISOLATED has no neighbours."""


@dataclass(frozen=True)
class LinearSmoother:
    """q = W v for a one-dimensional problem, W without its diagonal, for any columns v.

    W is the same for all columns, as a test of drawn labels needs it. A row without
    neighbours has an average of 0.
    """

    table: MassTable
    bandwidth: float
    interpolation: csr_array
    weights: FloatArray
    own: FloatArray
    density: FloatArray

    @classmethod
    def of(cls, problem: Problem, kernel: Kernel, bandwidth: float) -> LinearSmoother:
        """Prepare a problem at a bandwidth."""
        resolution = min(kernel.bandwidth_range(2)[0], bandwidth)
        table = MassTable.empty(kernel, resolution, 1)
        interpolation = table.nodes.weights(problem.predictions)
        own = (interpolation @ own_kernel(kernel, resolution, bandwidth)) * problem.weights
        mass = interpolation.T @ problem.weights[:, None]
        total = interpolation @ MassTable(kernel, resolution, mass).sums(bandwidth)
        rest = total[:, 0] - own
        density = np.where(rest > ISOLATED * own, rest, np.inf)
        return cls(table, bandwidth, interpolation, problem.weights, own, density)

    def averages(self, values: FloatArray) -> FloatArray:
        """Averages of columns ``(n, B)``."""
        mass = self.interpolation.T @ (self.weights[:, None] * values)
        table = MassTable(self.table.kernel, self.table.resolution, mass)
        result: FloatArray = self.interpolation @ table.sums(self.bandwidth)
        result -= self.own[:, None] * values
        result /= self.density[:, None]
        return result
