"""The square of a kernel, which is a kernel: its sums are sums of squared weights."""

from __future__ import annotations

from dataclasses import dataclass

from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel


@dataclass(frozen=True)
class SquaredKernel:
    """k_h(x; c)^2, for the engines: every term of its logarithm is doubled."""

    base: Kernel

    @property
    def name(self) -> str:
        """The base's name, squared."""
        return f"{self.base.name} squared"

    def queries(self, x: FloatArray) -> FloatArray:
        """The base's."""
        return self.base.queries(x)

    def scale(self, h: float) -> float:
        """Twice the base's."""
        return 2 * self.base.scale(h)

    def key_bias(self, c: FloatArray, h: float) -> FloatArray:
        """Twice the base's."""
        return 2 * self.base.key_bias(c, h)

    def query_bias(self, x: FloatArray, h: float) -> FloatArray:
        """Twice the base's."""
        return 2 * self.base.query_bias(x, h)

    def bandwidth_range(self, n_classes: int) -> tuple[float, float]:
        """The base's."""
        return self.base.bandwidth_range(n_classes)

    def coordinate(self, p: FloatArray, h: float) -> FloatArray:
        """The base's at half the bandwidth: squaring narrows the kernel."""
        return self.base.coordinate(p, h / 2)
