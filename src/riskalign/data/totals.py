"""Sums of log loss and Brier score that do not depend on the order of rows.

Sums of floats depend on their order. So each row's loss is rounded to a multiple of
2^-38 = 4e-12, and the multiples are added up as integers of any size; the losses themselves are
computed by operations that IEEE 754 rounds alike on every machine. With weights the sums are
floats, in the units of `riskalign.data.weights`, and equal for any order up to rounding.
"""

from __future__ import annotations

import numpy as np

from riskalign.data.cells import Numbers
from riskalign.data.logs import log_loss
from riskalign.data.weights import exponent_of, in_units
from riskalign.equations.arrays import FloatArray, LabelArray

CHUNK = 1 << 16
"""Numbers that are summed at a time: 512 kB, so that all passes stay in cache."""

UNIT = 38
"""Losses are rounded to multiples of 2^-38. Sums of 2^16 log losses stay below 2^59."""


class Totals:
    """Sums of the losses of predictions for several classes.

    Attributes
    ----------
    n_rows : int
    exact : two Python integers
        Sums of log loss and of Brier score in units of 2^-38, while there are no weights.
    weighted : bool
        Whether weights have come.
    sums : (3,)
        Sums of w, of w times log loss and of w times Brier score, in units of 2^exponent, if
        weights have come.
    exponent : int

    Examples
    --------
    >>> import numpy as np
    >>> totals = Totals().add(np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([1, 0]))
    >>> totals.n_rows, [round(mean, 6) for mean in totals.means()]
    (2, [0.458145, 0.29])
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self.exact = (0, 0)
        self.weighted = False
        self.sums = np.zeros(3)
        self.exponent = 0

    def restore(
        self, exact: tuple[int, int], sums: FloatArray, n_rows: int, weighted: bool, exponent: int
    ) -> None:
        """Replace the content."""
        self.exact, self.sums, self.n_rows = exact, sums, n_rows
        self.weighted, self.exponent = weighted, exponent

    def add(self, p: Numbers, labels: LabelArray, weights: FloatArray | None = None) -> Totals:
        """Add rows in place, and return the totals.

        Parameters
        ----------
        p : (n, K)
        labels : (n,), integers
        weights : (n,), optional
            1 for every row if left out.
        """
        if self.weighted and weights is None:
            weights = np.ones(len(labels))
        if weights is not None and len(labels):
            self._weigh(exponent_of(weights))
        step = max(1, CHUNK // p.shape[1])
        squares = np.empty((min(step, len(labels)), p.shape[1]))
        for start in range(0, len(labels), step):
            rows = slice(start, start + step)
            losses = _losses(p[rows], labels[rows], squares)
            if weights is not None:
                w = in_units(weights[rows], self.exponent)
                log, brier = (float(w @ each) * 2.0**-UNIT for each in losses)
                self.sums = self.sums + np.array([w.sum(), log, brier])
            else:
                first, second = (int(each.astype(np.int64).sum()) for each in losses)
                self.exact = (self.exact[0] + first, self.exact[1] + second)
        self.n_rows += len(labels)
        return self

    def merge(self, other: Totals) -> Totals:
        """Add the sums of other rows in place, and return the totals."""
        if other.n_rows == 0:
            return self
        if self.weighted or other.weighted:
            self._weigh(other.exponent)
            self.sums = self.sums + in_units(other._floats(), self.exponent - other.exponent)
        else:
            self.exact = (self.exact[0] + other.exact[0], self.exact[1] + other.exact[1])
        self.n_rows += other.n_rows
        return self

    def _floats(self) -> FloatArray:
        """The sums with weights; with weights of 1 while there are none."""
        if self.weighted:
            return self.sums
        log, brier = self.exact
        return np.array([float(self.n_rows), log * 2.0**-UNIT, brier * 2.0**-UNIT])

    def means(self) -> tuple[float, float]:
        """Means of -log of the label's probability, floored at 1e-9, and of sum_k (p_k - y_k)^2.

        They are NaN without rows.
        """
        total, log, brier = self._floats().tolist()
        return (log / total, brier / total) if total > 0 else (np.nan, np.nan)

    def _weigh(self, exponent: int) -> None:
        """Become weighted, in units of at least 2^exponent."""
        larger = max(self.exponent, exponent) if self.n_rows else exponent
        self.sums = in_units(self._floats(), larger - self.exponent)
        self.exact, self.weighted, self.exponent = (0, 0), True, larger


def _losses(p: Numbers, labels: LabelArray, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log loss and Brier score ``(n,)`` of rows ``(n, K)`` in units of 2^-38, whole numbers."""
    true = p[np.arange(len(p)), labels].astype(np.float64)
    # sum_k (p_k - y_k)^2 = sum_k p_k^2 - 2 p_y + 1, of squares that are whole numbers below
    # 2^53: their sum is the same in any order.
    squares = np.multiply(p, 2.0 ** (UNIT // 2), out=squares[: len(p)], dtype=np.float64)
    squares *= squares
    np.rint(squares, out=squares)
    brier = np.einsum("nk->n", squares)
    brier += np.rint((1 - 2 * true) * 2.0**UNIT)
    log = log_loss(np.minimum(true, 1.0))
    log *= 2.0**UNIT
    return np.rint(log, out=log), brier
