"""Kernels on the simplex, in the form of attention scores.

    log k_h(x; c) = scale(h) <queries(x), c> + key_bias(c, h) + query_bias(x, h)

The product ``<queries(x), c>`` does not depend on the bandwidth, so all candidates share
it; one number per centre and one per query complete the density.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from riskalign.equations.arrays import FloatArray, floored_log, row_dot, row_sum


class Kernel(Protocol):
    """What a kernel must tell; see the module's formula."""

    def __hash__(self) -> int:
        """Kernels are frozen: nodes are made once for each."""

    @property
    def name(self) -> str:
        """The name users pass."""

    def queries(self, x: FloatArray) -> FloatArray:
        """Features of the evaluation points, ``(n, K)``, each increasing in its entry."""

    def scale(self, h: float) -> float:
        """Factor of the inner product."""

    def key_bias(self, c: FloatArray, h: float) -> FloatArray:
        """One number per centre, ``(n,)``."""

    def query_bias(self, x: FloatArray, h: float) -> FloatArray:
        """One number per evaluation point, ``(n,)``."""

    def bandwidth_range(self, n_classes: int) -> tuple[float, float]:
        """Smallest and largest bandwidth of a search."""

    def coordinate(self, p: FloatArray, h: float) -> FloatArray:
        """Position of (1 - p, p) on a line where the kernel's width is about one."""

    def log_peak(self, x: FloatArray, h: float) -> FloatArray:
        """Log k_h(x; x): what a sample adds to the sum at its own place, ``(n,)``."""


def log_kernel(kernel: Kernel, x: FloatArray, c: FloatArray, h: float) -> FloatArray:
    """Log k_h(x_i; c_i) of pairs of points ``(n, K)``, as ``(n,)``."""
    products = kernel.scale(h) * row_dot(kernel.queries(x), c)
    return products + kernel.key_bias(c, h) + kernel.query_bias(x, h)


@dataclass(frozen=True)
class Dirichlet:
    """The Dirichlet density with parameters c/h + 1, evaluated at x; Beta when K = 2."""

    name: str = "dirichlet"

    def queries(self, x: FloatArray) -> FloatArray:
        """Log x."""
        return floored_log(x)

    def scale(self, h: float) -> float:
        """1/h."""
        return 1.0 / h

    def key_bias(self, c: FloatArray, h: float) -> FloatArray:
        """lnGamma(sum_k alpha_k) - sum_k lnGamma(alpha_k), alpha = c/h + 1.

        The first term is constant when rows sum to one exactly; rows of float32 files do
        not, and at small h the difference is percents of the weight.
        """
        alpha = c / h + 1.0  # (n, K)
        bias: FloatArray = gammaln(row_sum(alpha)) - row_sum(gammaln(alpha))
        return bias

    def query_bias(self, x: FloatArray, h: float) -> FloatArray:
        """None: x enters through <log x, c> alone."""
        return np.zeros(len(x))

    def bandwidth_range(self, n_classes: int) -> tuple[float, float]:
        """The paper's: [1e-4, 0.2] for one probability, [1e-3, 1] on a larger simplex."""
        return (1e-4, 0.2) if n_classes == 2 else (1e-3, 1.0)

    def coordinate(self, p: FloatArray, h: float) -> FloatArray:
        """Arc length in units of the kernel's width.

        The Beta kernel is sqrt(h) wide in theta = 2 arcsin sqrt(p), and a factor of e
        wide in p itself (in 1 - p) once that is below h. One smooth density of arc
        length joins them, d tau / d theta = sqrt(1/h + 4/sin^2 theta); this is its
        integral, zero at p = 1/2.
        """
        cosine = 1.0 - 2.0 * p
        nearer = np.minimum(p, 1.0 - p)
        sine2 = 4.0 * nearer * (1.0 - nearer)  # sin^2 theta, accurate in both tails
        inner, tail = 1.0 / h, 4.0
        root = np.sqrt(inner * sine2 + tail)
        bulk = np.sqrt(inner) * np.arcsin(cosine * np.sqrt(inner / (inner + tail)))
        z = np.sqrt(tail) * np.abs(cosine) / root
        # artanh(z) = log((1 + z) / sqrt(1 - z^2)), with 1 - z^2 free of cancellation
        artanh = np.log((1.0 + z) * root / np.sqrt(sine2 * (inner + tail)))
        return -(bulk + np.sign(cosine) * np.sqrt(tail) * artanh)

    def log_peak(self, x: FloatArray, h: float) -> FloatArray:
        """Log k_h(x; x)."""
        return log_kernel(self, x, x, h)


@dataclass(frozen=True)
class Rbf:
    """The Gaussian density on the simplex; h is a standard deviation."""

    name: str = "rbf"

    def queries(self, x: FloatArray) -> FloatArray:
        """X itself."""
        return x

    def scale(self, h: float) -> float:
        """1/h^2."""
        return 1.0 / h**2

    def key_bias(self, c: FloatArray, h: float) -> FloatArray:
        """-|c|^2/(2 h^2) - (K-1)/2 log(2 pi h^2)."""
        normaliser = (c.shape[1] - 1) / 2 * np.log(2 * np.pi * h**2)
        return -row_dot(c, c) / (2 * h**2) - normaliser

    def query_bias(self, x: FloatArray, h: float) -> FloatArray:
        """-|x|^2/(2 h^2)."""
        return -row_dot(x, x) / (2 * h**2)

    def bandwidth_range(self, n_classes: int) -> tuple[float, float]:
        """From a fine reliability curve to wider than the simplex, whose diameter is 1.41."""
        return (0.005, 2.0)

    def coordinate(self, p: FloatArray, h: float) -> FloatArray:
        """Distance between (1 - p, p) and (1/2, 1/2) in units of h."""
        return np.sqrt(2.0) * (p - 0.5) / h

    def log_peak(self, x: FloatArray, h: float) -> FloatArray:
        """Log k_h(x; x)."""
        return log_kernel(self, x, x, h)


@dataclass(frozen=True)
class SquaredKernel:
    """k_h(x; c)^2, which is a kernel too: every term of its logarithm is doubled."""

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

    def log_peak(self, x: FloatArray, h: float) -> FloatArray:
        """Twice the base's."""
        return 2 * self.base.log_peak(x, h)


DIRICHLET = Dirichlet()
RBF = Rbf()

KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in (DIRICHLET, RBF)}
"""The kernels known by name."""
