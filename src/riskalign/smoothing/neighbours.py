"""Exact sums for the few isolated rows of a one-dimensional problem."""

from __future__ import annotations

import numpy as np

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem, on_simplex, one_probability
from riskalign.smoothing.contract import Average, Values
from riskalign.smoothing.dense import exact_rows

REACH = 64
"""Neighbours on each side whose terms are summed first."""

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
        p = one_probability(problem.predictions)
        self._order = np.argsort(np.ascontiguousarray(p)).astype(np.int32)
        self._sorted = p[self._order]
        self._total = problem.weights.sum()

    def averages(self, h: float, rows: IntArray) -> Average:
        """Leave-one-out averages of rows ``(b,)``."""
        n = len(self._sorted)
        width = min(2 * REACH + 1, n)
        here = np.searchsorted(self._sorted, one_probability(self._problem.predictions)[rows])
        first = np.clip(here - REACH, 0, n - width)
        centres = self._order[first[:, None] + np.arange(width)]  # (b, width)
        terms = self._log_terms(h, rows, centres)
        top = terms.max(axis=1)
        # One of two neighbouring terms may be the row itself, left out: take the larger.
        left = np.where(first == 0, -np.inf, terms[:, :2].max(axis=1))
        right = np.where(first + width == n, -np.inf, terms[:, -2:].max(axis=1))
        complete = np.isfinite(top) & (np.maximum(left, right) < top - NEGLIGIBLE)
        with np.errstate(invalid="ignore"):  # rows without a finite term are not complete
            weights = np.exp(terms - top[:, None])
            sums = weights.sum(axis=1)
            near = self._values(self._problem.take(centres.ravel()))  # (b * width, d)
            mean = np.einsum("bw,bwd->bd", weights, near.reshape(*centres.shape, -1))
            mean /= sums[:, None]
            log_density = top + np.log(sums)
        log_density -= np.log(self._total - self._problem.weights[rows])
        if not complete.all():
            wide = rows[~complete]
            values = self._values(self._problem)
            exact = exact_rows(self._problem, self._kernel, values, h, wide)
            mean[~complete], log_density[~complete] = exact.mean, exact.log_density
        return Average(mean, log_density)

    def _log_terms(self, h: float, rows: IntArray, centres: IntArray) -> FloatArray:
        """Log of w_j k_h(f_i; f_j) for each row and its window; the row itself is left out."""
        p = one_probability(self._problem.predictions)
        x = on_simplex(p[rows])  # (b, 2)
        c = on_simplex(p[centres.ravel()])  # (b * width, 2)
        products = np.einsum("bk,bwk->bw", self._kernel.queries(x), c.reshape(*centres.shape, 2))
        terms = self._kernel.scale(h) * products
        terms += self._kernel.key_bias(c, h).reshape(centres.shape)
        terms += self._kernel.query_bias(x, h)[:, None]
        with np.errstate(divide="ignore"):
            terms += np.log(self._problem.weights[centres])
        terms[centres == rows[:, None]] = -np.inf
        return terms
