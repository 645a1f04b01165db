"""The test's statistic, of many label sets at once.

For labels y and a bandwidth it is a sum over rows; for one probability p per row that of

    w_i (y_i - p_i) (d(p_i) - d(R_i)),    d = l_1 - l_0,    R_i = p_i + (W (y - p))_i,

with R_i clipped to a share of p_i and of 1 - p_i. What a row adds depends on its prediction, its
label, and curves as smooth as the kernel. So rows are spread onto nodes (see `smoothing.nodes`),
each label apart, and the terms are evaluated at the nodes of each bandwidth. From one label set
to the next only the masses of label 1 change.

Around a sample that few others of its label share, R bends at its very place: there it rests on
the sample itself, which is left out at its own place alone, and there it is clipped. Such samples
are rare, and are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import block_diag, csr_array

from riskalign.equations.arrays import FloatArray, IntArray, LabelArray, row_dot
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import L2, RANKED, ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, on_simplex, onto_simplex
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother
from riskalign.smoothing.grid import GridSmoother
from riskalign.smoothing.nodes import Nodes, nodes_at
from riskalign.smoothing.operator import ALONE

RARE = 16.0
"""Neighbours of its own label up to which a sample is evaluated by itself."""

UNITS = 3
"""Weights of a sample between which terms are interpolated, if weights differ: what is left out
is at most 1/16 of a sum, so that a parabola in the weight errs by 1e-6 of the term."""


class Statistic(Protocol):
    """The statistic of one problem."""

    def sums(self, outcomes: LabelArray) -> FloatArray:
        """Of label sets ``(n, B)`` at every bandwidth, ``(C, B)``."""


class Statistics:
    """The statistics of all problems.

    Attributes
    ----------
    workers : threads that may ask for sums at once; None for one on each core
    """

    def __init__(
        self, problems: Sequence[Problem], kernel: Kernel, engine: str, bandwidths: Sequence[float]
    ) -> None:
        self.problems = problems
        self._kernel, self._bandwidths = kernel, bandwidths
        self._smoother = choose_smoother(problems, kernel, engine, small=TINY)
        self._on_nodes = isinstance(self._smoother, GridSmoother)
        self.workers = None if self._on_nodes else 1

    def of(self, k: int) -> Statistic:
        """The statistic of problem k."""
        if self._on_nodes:
            return NodeStatistic(self.problems[k], self._kernel, self._bandwidths)
        tunings = [Tuning(h) for h in self._bandwidths]
        return RowStatistic(k, self.problems[k], self._smoother, tunings)


def loss_difference(loss: ProperLoss, p: FloatArray) -> FloatArray:
    """D = l_1 - l_0 at probabilities of any shape."""
    if loss in (L2.binary, RANKED.binary):  # (1 - p)^2 - p^2
        return 1.0 - 2.0 * p
    losses = loss(on_simplex(p.ravel()))
    difference: FloatArray = (losses[:, 1] - losses[:, 0]).reshape(p.shape)
    return difference


def terms_of(
    loss: ProperLoss, p: FloatArray, y: LabelArray | FloatArray | float, R: FloatArray
) -> FloatArray:
    """<y - f, l(f) - l(R)> with f = (1 - p, p); R, broadcast with p, is clipped in place."""
    np.maximum(R, KEPT_SHARE * p, out=R)
    np.minimum(R, 1.0 - KEPT_SHARE * (1.0 - p), out=R)
    terms = loss_difference(loss, p) - loss_difference(loss, R)
    terms *= y - p
    return terms


@dataclass(frozen=True)
class RowStatistic:
    """The statistic of any problem, row by row.

    Attributes
    ----------
    number : of the problem in the smoother's group
    """

    number: int
    problem: Problem
    smoother: Smoother
    tunings: Sequence[Tuning]

    def sums(self, outcomes: LabelArray) -> FloatArray:
        """See `Statistic`."""
        residuals = self._residuals(outcomes)
        averages = self.smoother.averages({self.number: residuals}, self.tunings)
        return np.stack([self._sums(outcomes, residuals, each[self.number]) for each in averages])

    def _residuals(self, outcomes: LabelArray) -> FloatArray:
        """Y - f of all sets, ``(n, B d)``."""
        f = self.problem.predictions
        if self.problem.one_dimensional:
            return outcomes - f[:, None]
        y = outcomes[:, :, None] == np.arange(f.shape[1])  # (n, B, K)
        return (y - f[:, None]).reshape(len(f), -1)

    def _sums(
        self, outcomes: LabelArray, residuals: FloatArray, smoothed: FloatArray
    ) -> FloatArray:
        loss, f = self.problem.loss, self.problem.predictions
        if self.problem.one_dimensional:
            terms = terms_of(loss, f[:, None], outcomes, f[:, None] + smoothed)
        else:
            start = np.repeat(f, outcomes.shape[1], axis=0)  # (n B, K)
            R = onto_simplex(start, smoothed.reshape(start.shape))
            gains = loss(start) - loss(R)
            terms = row_dot(residuals.reshape(start.shape), gains).reshape(outcomes.shape)
        sums: FloatArray = self.problem.weights @ terms
        return sums


class NodeStatistic:
    """The statistic of a problem of one probability, on nodes; see the module."""

    def __init__(self, problem: Problem, kernel: Kernel, bandwidths: Sequence[float]) -> None:
        fine = nodes_at(kernel, min(bandwidths))
        units, shares = _units(problem.units)
        # Rows on the nodes of each unit, one unit after the other; weights included.
        columns, weights = _stencils(fine.weights(problem.predictions))
        shares *= problem.weights[:, None]
        size = np.arange(len(units), dtype=columns.dtype)[:, None] * len(fine)
        spread = (shares[:, :, None] * weights[:, None]).reshape(len(columns), -1)
        places = (columns[:, None] + size).reshape(len(columns), -1)
        self._spread = _as_matrix(places, spread, len(units) * len(fine))
        self._scales = [_Scale(problem, units, self._spread, fine, kernel, h) for h in bandwidths]

    def sums(self, outcomes: LabelArray) -> FloatArray:
        """See `Statistic`."""
        masses = self._spread.T @ outcomes.astype(np.float64)  # of label 1
        return np.stack([scale.sums(outcomes, masses) for scale in self._scales])


@dataclass(frozen=True)
class _Places:
    """What does not depend on the labels, at nodes or rows, ``(..., m, 1)`` each.

    R = level + sums slope - own y, with `sums` the kernel sums of label 1.
    """

    loss: ProperLoss
    p: FloatArray
    level: FloatArray
    slope: FloatArray
    own: FloatArray

    @classmethod
    def of(cls, loss: ProperLoss, p: FloatArray, sums: FloatArray, units: FloatArray) -> _Places:
        """From `sums` ``(m, 3)``: of weights, of weighted p, and what a unit adds to its own."""
        total, predicted, peak = sums.T
        left_out = peak * units
        rest = np.maximum(total - left_out, ALONE * left_out)
        columns = (p, p + (left_out * p - predicted) / rest, 1 / rest, left_out / rest)
        return cls(loss, *(np.broadcast_to(each, rest.shape)[..., None] for each in columns))

    def take(self, rows: IntArray) -> _Places:
        """Some of the rows, one for each label that is evaluated there."""
        columns = (self.p, self.level, self.slope, self.own)
        return _Places(self.loss, *(each[rows] for each in columns))

    def terms(self, sums: FloatArray, y: float) -> FloatArray:
        """What a sample of unit weight and label y adds."""
        R = sums * self.slope
        R += self.level - self.own * y
        return terms_of(self.loss, self.p, y, R)


class _Rare:
    """Rows whose samples of one label are evaluated one by one.

    Parameters
    ----------
    y : the label
    rows : numbers of the rows
    places : the rows
    near : their interpolation from the nodes of the bandwidth
    spread : how they are spread onto the nodes that hold masses
    """

    def __init__(
        self, y: int, rows: IntArray, places: _Places, near: csr_array, spread: csr_array
    ) -> None:
        self._y, self._rows, self._places = y, rows, places
        self._near = _stencils(near)
        self._spread = _stencils(spread)
        self._n_masses = spread.shape[1]
        self._weights = self._spread[1].sum(axis=1)

    def sums(
        self, outcomes: LabelArray, at_nodes: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """What the samples add to each set, ``(B,)``, and their masses on the nodes; if any."""
        n_sets = outcomes.shape[1]
        row, sets = np.divmod(np.flatnonzero(outcomes[self._rows] == self._y), n_sets)
        if not len(row):
            return None
        nodes, weights = (each[row] for each in self._near)
        at_rows = row_dot(weights, at_nodes.ravel()[nodes * n_sets + sets[:, None]])
        terms = self._places.take(row).terms(at_rows[:, None], self._y)[:, 0]
        nodes, weights = (each[row] for each in self._spread)
        masses = np.bincount(
            (nodes * n_sets + sets[:, None]).ravel(), weights.ravel(), self._n_masses * n_sets
        )
        return (
            np.bincount(sets, self._weights[row] * terms, n_sets),
            masses.reshape(self._n_masses, n_sets),
        )


class _Scale:
    """The statistic at one bandwidth, from masses on finer nodes."""

    def __init__(
        self,
        problem: Problem,
        units: FloatArray,
        spread: csr_array,
        fine: Nodes,
        kernel: Kernel,
        bandwidth: float,
    ) -> None:
        nodes, p = nodes_at(kernel, bandwidth), problem.predictions
        transfer = nodes.weights_at(fine.log_odds, fine.probabilities)
        self._carry = csr_array(block_diag([transfer.T] * len(units), format="csr"))
        self._kernel, peak = kernel_matrix(kernel, bandwidth)
        self._shape = (len(units), len(nodes))
        fixed = self._carry @ (spread.T @ np.stack([np.ones_like(p), p, p * (1 - p)], axis=1))
        self._all = fixed[:, :1]
        sums = self._kernel @ fixed.reshape(*self._shape, 3).sum(axis=0)
        total, predicted, variance = sums.T
        sums = np.stack([total, predicted, peak, variance], axis=1)
        self._at_nodes = _Places.of(problem.loss, nodes.probabilities, sums[:, :3], units[:, None])
        near = nodes.weights(p)
        at_rows = near @ sums
        self._rare = []
        for y in (0, 1):
            rows = _rare_rows(p if y else 1 - p, at_rows, problem.units.max())
            places = _Places.of(problem.loss, p[rows], at_rows[rows, :3], problem.units[rows])
            self._rare.append(_Rare(y, rows, places, near[rows], spread[rows]))

    def sums(self, outcomes: LabelArray, masses: FloatArray) -> FloatArray:
        """Of label sets ``(n, B)`` whose label 1 has masses on the finer nodes, ``(B,)``."""
        ones = self._carry @ masses
        n_sets = masses.shape[1]
        at_nodes = self._kernel @ ones.reshape(*self._shape, n_sets).sum(axis=0)
        result = np.zeros(n_sets)
        for y, own in ((0, self._all - ones), (1, ones)):
            rare = self._rare[y].sums(outcomes, at_nodes)
            if rare is not None:
                result += rare[0]
                own = own - self._carry @ rare[1]
            terms = self._at_nodes.terms(at_nodes, y).reshape(own.shape)
            result += np.einsum("ab,ab->b", own, terms)
        return result


def _rare_rows(p: FloatArray, sums: FloatArray, unit: float) -> IntArray:
    """Rows where a label of probability p is rare among the neighbours; see `RARE`."""
    total, _, peak, variance = sums.T
    own = peak * unit
    return np.flatnonzero(
        (total - own) * total * p**2 < RARE * own * np.maximum(variance, p * total)
    )


@lru_cache(maxsize=32)
def kernel_matrix(kernel: Kernel, bandwidth: float) -> tuple[FloatArray, FloatArray]:
    """k_h(x_a; x_b) of a bandwidth's own nodes, ``(M, M)``, and its diagonal."""
    points = nodes_at(kernel, bandwidth).points
    scores = (kernel.scale(bandwidth) * kernel.queries(points)) @ points.T
    scores += kernel.key_bias(points, bandwidth)
    scores += kernel.query_bias(points, bandwidth)[:, None]
    return np.exp(scores), np.exp(kernel.log_peak(points, bandwidth))


def _units(units: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights of a sample ``(u,)`` that stand for all, and each row's share of them ``(n, u)``."""
    low, high = units.min(), units.max()
    if low == high:
        return np.array([low]), np.ones((len(units), 1))
    chosen = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(UNITS) + 0.5) / UNITS)
    shares = np.ones((len(units), UNITS))
    for a, b in np.argwhere(~np.eye(UNITS, dtype=bool)):
        shares[:, a] *= (units - chosen[b]) / (chosen[a] - chosen[b])
    return chosen, shares


def _stencils(weights: csr_array) -> tuple[npt.NDArray[np.integer[Any]], FloatArray]:
    """Columns and entries of a matrix with equally many in each row, ``(n, s)`` each."""
    shape = weights.shape[0], weights.nnz // max(weights.shape[0], 1)
    return weights.indices.reshape(shape), weights.data.reshape(shape)


def _as_matrix(columns: IntArray, entries: FloatArray, width: int) -> csr_array:
    """The reverse."""
    starts = np.arange(len(columns) + 1) * columns.shape[1]
    return csr_array((entries.ravel(), columns.ravel(), starts), shape=(len(columns), width))
