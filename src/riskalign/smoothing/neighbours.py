"""Exact sums for the few isolated rows of a one-dimensional problem."""

from __future__ import annotations

import numpy as np

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem, on_simplex
from riskalign.smoothing.contract import Average, Values
from riskalign.smoothing.dense import concatenate, exact_rows

REACH = 64
"""Neighbours on each side whose terms are summed first."""

ROWS = 2_000
"""Rows whose windows are held at once."""

NEGLIGIBLE = 50.0
"""Nats below a row's largest term at which a million further terms change no digit."""


class Neighbours:
    """Samples in the order of their probability, so that a row finds those near it.

    As a function of its centre a kernel's term is log-concave: once it has fallen on both
    sides of its largest value, it goes on falling. Where both ends of a window around a row
    are negligible, the window holds the whole sum; other rows are summed over all samples.
    """

    def __init__(self, problem: Problem, kernel: Kernel, values: Values) -> None:
        self._problem = problem
        self._kernel = kernel
        self._values = values
        self._p = problem.predictions  # (n,)
        self._order = np.argsort(np.ascontiguousarray(self._p)).astype(np.int32)
        self._sorted = self._p[self._order]
        self._total = problem.weights.sum()
        self._log_heaviest = np.log(problem.weights.max())

    def averages(self, h: float, rows: IntArray) -> Average:
        """Leave-one-out averages of rows ``(b,)``."""
        parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        return concatenate(self._part(h, part) for part in parts)

    def _part(self, h: float, rows: IntArray) -> Average:
        n = len(self._sorted)
        width = min(2 * REACH + 1, n)
        here = np.searchsorted(self._sorted, self._p[rows])
        first = np.clip(here - REACH, 0, n - width)
        centres = self._order[first[:, None] + np.arange(width)]  # (b, width)
        log_kernel = self._log_kernel(h, rows, centres)
        with np.errstate(divide="ignore"):
            terms = log_kernel + np.log(self._problem.weights[centres])
        terms[centres == rows[:, None]] = -np.inf  # left out
        top = terms.max(axis=1)
        # What lies beyond an end weighs at most as if all of it were the heaviest sample there.
        left = np.where(first == 0, -np.inf, log_kernel[:, 0])
        right = np.where(first + width == n, -np.inf, log_kernel[:, -1])
        beyond = np.maximum(left, right) + self._log_heaviest
        complete = np.isfinite(top) & (beyond < top - NEGLIGIBLE)
        with np.errstate(invalid="ignore"):  # rows without a finite term are not complete
            weights = np.exp(terms - top[:, None])
            sums = weights.sum(axis=1)
            near = self._values(self._problem.take(centres.ravel()))  # (b * width, d)
            mean = np.einsum("bw,bwd->bd", weights, near.reshape(*centres.shape, -1))
            mean /= sums[:, None]
            log_density = top + np.log(sums)
        log_density -= np.log(self._total - self._problem.weights[rows])
        if not complete.all():
            values = self._values(self._problem)
            exact = exact_rows(self._problem, self._kernel, values, h, rows[~complete])
            mean[~complete], log_density[~complete] = exact.mean, exact.log_density
        return Average(mean, log_density)

    def _log_kernel(self, h: float, rows: IntArray, centres: IntArray) -> FloatArray:
        """Log of k_h(f_i; f_j) for each row and the centres of its window, ``(b, width)``."""
        x = on_simplex(self._p[rows])  # (b, 2)
        c = on_simplex(self._p[centres.ravel()])  # (b * width, 2)
        products = np.einsum("bk,bwk->bw", self._kernel.queries(x), c.reshape(*centres.shape, 2))
        log_kernel: FloatArray = self._kernel.scale(h) * products
        log_kernel += self._kernel.key_bias(c, h).reshape(centres.shape)
        log_kernel += self._kernel.query_bias(x, h)[:, None]
        return log_kernel
