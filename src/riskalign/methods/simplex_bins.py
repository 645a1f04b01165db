"""Joint bins of the simplex: a cell for every vector of bin numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskalign.data.notions import JOINT
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.problem import Problem
from riskalign.methods.binning import ROUNDING, checked_bins, sum_by
from riskalign.methods.method import CHUNK, ByProblem, Estimate, Scope, plug_in, spelled

LARGEST = 2**62
"""Codes of cells stay below this, well within 64 bits."""


def cells(points: FloatArray, n_bins: int) -> IntArray:
    """Numbers of the cells that points ``(n, K)`` fall into, from 0 on, in O(n) memory."""
    edges = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    code, span = np.zeros(len(points), dtype=np.int64), 1  # codes lie below the span
    for column in points.T:
        if span * n_bins > LARGEST:
            seen, code = np.unique(code, return_inverse=True)
            span = len(seen)
        code = code * n_bins + np.searchsorted(edges, column)
        span *= n_bins
    return np.unique(code, return_inverse=True)[1]


def leave_one_out(problem: Problem, cell: IntArray) -> FloatArray:
    """Label means ``(n, K)`` of the other samples in each one's cell; NaN without others."""
    w, n_classes = problem.weights, problem.n_classes
    n_cells = cell.max() + 1
    mass = sum_by(cell, w, n_cells)[cell]
    companions = sum_by(cell, (w > 0).astype(np.float64), n_cells)[cell] - (w > 0)
    shared = np.flatnonzero((companions > 0) & (mass - w > ROUNDING * mass))
    wanted = np.zeros(n_cells, dtype=bool)
    wanted[cell[shared]] = True
    row: IntArray = np.cumsum(wanted, dtype=np.intp) - 1  # sums of shared cells alone
    inside = wanted[cell]
    places = row[cell[inside]] * n_classes + problem.labels[inside]
    sums = sum_by(places, w[inside], int(row[-1] + 1) * n_classes)
    sums = sums.reshape(-1, n_classes)
    R = np.full((len(w), n_classes), np.nan)
    for start in range(0, len(shared), CHUNK):
        rows = shared[start : start + CHUNK]
        others = sums[row[cell[rows]]]  # (b, K)
        others[np.arange(len(rows)), problem.labels[rows]] -= w[rows]
        others = np.maximum(others, 0.0)  # unequal weights may leave -1e-17 instead of 0
        R[rows] = others / others.sum(axis=1, keepdims=True)
    return R


@dataclass(frozen=True, repr=False)
class SimplexBins(ByProblem):
    """A grid of the simplex, each class's probability cut into bins of equal width.

    R_i is the label mean of the other samples in sample i's cell; samples alone in their
    cell have none and are left out. The error is the mean of <R, l(f) - l(R)> over the rest.
    For canonical errors. Cells multiply with the number of classes: soon all are lonely.

    Parameters
    ----------
    n_bins : int
        Bins per class.

    References
    ----------
    Popordanoska, Sayer, Blaschko: A Consistent and Differentiable Lp Canonical Calibration
    Error Estimator, NeurIPS 2022.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> result = ra.calibration_error(
    ...     data.y_true, data.y_prob, notion="canonical", method=ra.SimplexBins(15)
    ... )
    >>> result.note
    'R is the label mean of the others in the cell; 48 of 500 samples have none'
    """

    n_bins: int

    norm: ClassVar[None] = None
    scope: ClassVar[Scope] = Scope(JOINT)
    __repr__: ClassVar = spelled

    def __post_init__(self) -> None:
        checked_bins(self.n_bins)

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return f"mean {divergence}"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        return map(self._estimate, problems)

    def _estimate(self, problem: Problem) -> Estimate:
        R = leave_one_out(problem, cells(problem.points, self.n_bins))
        lonely = np.isnan(R[:, 0])
        if not problem.weights[~lonely].any():
            raise ValueError(
                f"`method={self!r}` finds no two samples in one cell (n = {len(R):,}, "
                f"K = {problem.n_classes}): there is nothing to estimate R from. Use fewer bins, "
                "or a method for many classes such as ra.KernelSmoother()."
            )
        others = "R is the label mean of the others in the cell"
        return plug_in(
            problem, R, f"{others}; {np.count_nonzero(lonely):,} of {len(R):,} samples have none"
        )
