"""Exact sums for the few isolated rows of a one-dimensional problem."""

from __future__ import annotations

import numpy as np

from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex
from riskalign.smoothing.dense import exact_rows
from riskalign.smoothing.operator import Average

REACHES = (64, 1_024, 16_384)
"""Neighbours on each side whose terms are summed: first few, more for rows that need them."""

PAIRS = 250_000
"""Rows times neighbours that are held at once."""

NEGLIGIBLE = 50.0
"""Nats below a row's largest term at which a million further terms change no digit."""


class Neighbours:
    """Samples in the order of their probability, so that a row finds those near it.

    As a function of its centre a kernel's term is log-concave: once it has fallen on both
    sides of its largest value, it goes on falling. Where both ends of a window around a row
    are negligible, the window holds the whole sum; other rows are summed over all samples.
    """

    def __init__(self, problem: Problem, kernel: Kernel) -> None:
        self._problem = problem
        self._kernel = kernel
        self._values = problem.one_hot()  # (n, 2)
        self._p = problem.predictions  # (n,)
        self._order = np.argsort(np.ascontiguousarray(self._p)).astype(np.int32)
        self._sorted = self._p[self._order]
        self._total = problem.weights.sum()
        self._log_heaviest = np.log(problem.weights.max())

    def averages(self, h: float, rows: IntArray) -> Average:
        """Leave-one-out averages of rows ``(b,)``: in a window, a wider one, or over all."""
        mean = np.empty((len(rows), self._values.shape[1]))
        log_density = np.empty(len(rows))
        left = np.arange(len(rows))
        for reach in REACHES:
            if 2 * reach + 1 >= len(self._sorted):
                break
            step = max(1, PAIRS // (2 * reach + 1))
            incomplete = []
            for part in (left[start : start + step] for start in range(0, len(left), step)):
                average, complete = self._window(h, rows[part], reach)
                done = part[complete]
                mean[done], log_density[done] = (
                    average.mean[complete],
                    average.log_density[complete],
                )
                incomplete.append(part[~complete])
            left = np.concatenate(incomplete)
            if not len(left):
                return Average(mean, lambda: log_density)
        exact = exact_rows(self._problem, self._kernel, self._values, h, rows[left])
        mean[left], log_density[left] = exact.mean, exact.log_density
        return Average(mean, lambda: log_density)

    def _window(self, h: float, rows: IntArray, reach: int) -> tuple[Average, BoolArray]:
        """Averages over the nearest samples of each row, and whether these are all that matter."""
        n, width = len(self._sorted), 2 * reach + 1
        here = np.searchsorted(self._sorted, self._p[rows])
        first = np.clip(here - reach, 0, n - width)
        centres = self._order[first[:, None] + np.arange(width)]  # (b, width)
        log_kernel = self._log_kernel(h, rows, centres)
        with np.errstate(divide="ignore"):
            terms = log_kernel + np.log(self._problem.weights[centres])
            own = np.log(self._problem.weights[rows] - self._problem.units[rows])  # one left out
        terms = np.where(centres == rows[:, None], log_kernel + own[:, None], terms)
        top = terms.max(axis=1)
        # What lies beyond an end weighs at most as if all of it were the heaviest sample there.
        left = np.where(first == 0, -np.inf, log_kernel[:, 0])
        right = np.where(first + width == n, -np.inf, log_kernel[:, -1])
        beyond = np.maximum(left, right) + self._log_heaviest
        with np.errstate(invalid="ignore"):  # rows without a finite term are not complete
            weights = np.exp(terms - top[:, None])
            sums = weights.sum(axis=1)
            mean = np.einsum("bw,bwd->bd", weights, self._values[centres])
            mean /= sums[:, None]
            log_density = top + np.log(sums)
        log_density -= np.log(self._total - self._problem.units[rows])
        complete: BoolArray = np.isfinite(top) & (beyond < top - NEGLIGIBLE)
        return Average(mean, lambda: log_density), complete

    def _log_kernel(self, h: float, rows: IntArray, centres: IntArray) -> FloatArray:
        """Log of k_h(f_i; f_j) for each row and the centres of its window, ``(b, width)``."""
        x = on_simplex(self._p[rows])  # (b, 2)
        c = on_simplex(self._p[centres.ravel()])  # (b * width, 2)
        products = np.einsum("bk,bwk->bw", self._kernel.queries(x), c.reshape(*centres.shape, 2))
        log_kernel: FloatArray = self._kernel.scale(h) * products
        log_kernel += self._kernel.key_bias(c, h).reshape(centres.shape)
        log_kernel += self._kernel.query_bias(x, h)[:, None]
        return log_kernel
