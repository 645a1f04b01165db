"""How much of the noise of a fitted start remains when its residuals are smoothed.

A fitted theta errs by some delta, and g by slopes delta. The kernel sees and smooths away a part,
slopes O delta with O the overlap of the slopes and their averages, but the noise of the averages
contains the same part, so that all of it remains in R. With V the variance of theta, the part of it
that is not counted as noise of the averages already is V - O V O'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.starts import times

TINIEST = 1e-290
"""Sums of squared slopes below this one are 0."""

UNSEEN = 1e-10
"""Directions of the parameters whose slopes have less than this share of the largest do not move g,
such as one shift for all classes. What their slopes show is rounding, and is not divided by itself.
"""


@dataclass(frozen=True)
class FitNoise:
    """The noise of a fitted start: what is the same for all kernels.

    In the coordinates root' theta the parameters are independent, with variance 1.

    Attributes
    ----------
    root : of the information, root root' = V^-1, ``(p, p)``
    inverse : inverse' root = 1, ``(p, p)``
    sizes : the inverse of sum w <slopes, slopes> over `unit`, ``(p, p)``
    unit : the largest entry of that sum; infinite where it counts as 0
    """

    root: FloatArray
    inverse: FloatArray
    sizes: FloatArray
    unit: float

    @classmethod
    def of(cls, information: FloatArray, size: FloatArray) -> FitNoise:
        """From the information of all rows and sum w <slopes, slopes>, ``(p, p)`` each."""
        values, vectors = np.linalg.eigh(information)  # positive: the prior is in it
        roots = np.sqrt(values)
        # Slopes of predictions near 0 are tiny: their squares may have no inverse that is a number.
        largest = float(np.abs(size).max(initial=0.0))
        unit = largest if largest > TINIEST else np.inf
        return cls(vectors * roots, vectors / roots, _pseudo_inverse(size / unit), unit)

    @property
    def variance(self) -> FloatArray:
        """V, the inverse of the information, ``(p, p)``."""
        return self.inverse @ self.inverse.T

    def left(self, seen: FloatArray) -> FloatArray:
        """The share (V - O V O') V^-1 that remains, from sum w <slopes, W slopes>; ``(p, p)``."""
        overlap = self.sizes @ (seen / self.unit)
        axes, shares, _ = np.linalg.svd(self.root.T @ overlap @ self.inverse)
        kept = 1.0 - np.minimum(shares, 1.0) ** 2
        return self.inverse @ (axes * kept) @ axes.T @ self.root.T

    def variance_of_fit(self, slopes: FloatArray, left: FloatArray, unit: float) -> FloatArray:
        """The part of the variance of R that the fit adds to that of the averages, ``(n, d)``.

        For samples of the mean weight `unit`, the information is `unit` times too large.
        """
        remaining = unit * left @ self.variance  # V - O V O'
        return np.maximum(np.einsum("ndp,ndp->nd", times(slopes, remaining), slopes), 0.0)


def _pseudo_inverse(size: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix in the directions that are seen."""
    values, vectors = np.linalg.eigh(size)
    seen = np.abs(values) > UNSEEN * np.abs(values).max(initial=0.0)
    found: FloatArray = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    return found
