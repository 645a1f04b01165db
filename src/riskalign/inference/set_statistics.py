"""The test's statistic for one probability per row, of many label sets at once.

For labels y and a bandwidth it is the sum over rows of

    w_i (y_i - p_i) (d(p_i) - d(R_i)),    d = l_1 - l_0,    R_i = p_i + (W (y - p))_i,

with R_i clipped to a share of p_i and of 1 - p_i. What a row adds depends on its prediction, its
label, and curves as smooth as the kernel. So rows are spread onto nodes (see `smoothing.nodes`),
each label apart, and the terms are evaluated at the nodes of each bandwidth. From one label set
to the next only the masses of label 1 change.

Where a label is rare, R bends at the very place of each sample that has it: R rests on that one
sample, which is left out at its own place alone, or is clipped. Samples with such labels are few,
and are evaluated one by one.

What remains is the interpolation of terms across places where R begins to be clipped. In standard
deviations over label sets, the statistic errs by 1e-4 to 1e-3 for the squared loss, by 1e-3 to
1e-2 for the logarithmic one, and by 1e-6 to 1e-5 where nothing is clipped. All sets are treated
alike, so the size of the test is exact in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import block_diag, csr_array

from riskalign.equations.arrays import FloatArray, IntArray, LabelArray, row_dot
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import L2, RANKED, ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, on_simplex
from riskalign.smoothing.nodes import nodes_at
from riskalign.smoothing.operator import ALONE

RARE = 16.0
"""Squared standard errors of R within which a label's probability is close to 0: it is rare."""

UNITS = 3
"""Weights of a sample between which terms are interpolated if weights differ: a sample that is
left out is at most 1/16 of its sum, so that a parabola in its weight errs by 1e-6 of its term."""


def loss_difference(loss: ProperLoss, p: FloatArray) -> FloatArray:
    """The difference d = l_1 - l_0 at probabilities of any shape."""
    if loss in (L2.binary, RANKED.binary):  # (1 - p)^2 - p^2
        return 1.0 - 2.0 * p
    losses = loss(on_simplex(p.ravel()))
    difference: FloatArray = (losses[:, 1] - losses[:, 0]).reshape(p.shape)
    return difference


def terms_of(loss: ProperLoss, p: FloatArray, y: LabelArray | int, R: FloatArray) -> FloatArray:
    """<y - f, l(f) - l(R)> with f = (1 - p, p); R has the full shape and is clipped in place."""
    np.maximum(R, KEPT_SHARE * p, out=R)
    np.minimum(R, 1.0 - KEPT_SHARE * (1.0 - p), out=R)
    terms = loss_difference(loss, p) - loss_difference(loss, R)
    terms *= y - p
    return terms


class NodeStatistic:
    """The statistic of a problem of one probability; see the module.

    Masses are held on nodes that resolve the narrowest bandwidth, and carried to fewer nodes
    for each wider one. If the weights of samples differ, there are masses for each of a few
    weights ("units"), one after the other.
    """

    def __init__(self, problem: Problem, kernel: Kernel, bandwidths: Sequence[float]) -> None:
        finest = min(bandwidths)
        fine = nodes_at(kernel, finest)
        units, shares = _units(problem.units)
        shares *= problem.weights[:, None]
        nodes, weights = _stencils(fine.weights(problem.predictions))  # (n, 8)
        first = np.arange(len(units))[:, None] * len(fine)
        columns = (nodes[:, None] + first).reshape(len(nodes), -1)  # (n, 8 u)
        entries = (weights[:, None] * shares[:, :, None]).reshape(columns.shape)
        starts = np.arange(len(nodes) + 1) * columns.shape[1]
        shape = len(nodes), len(units) * len(fine)
        self._spread = csr_array((entries.ravel(), columns.ravel(), starts), shape=shape)
        self._scales = [_Scale(problem, units, self._spread, kernel, finest, h) for h in bandwidths]

    def sums(self, outcomes: LabelArray) -> FloatArray:
        """Of label sets ``(n, B)`` at every bandwidth, ``(C, B)``."""
        masses = self._spread.T @ outcomes.astype(np.float64)  # of label 1
        return np.stack([scale.sums(outcomes, masses) for scale in self._scales])


@dataclass(frozen=True)
class _Places:
    """Nodes or rows where terms are evaluated: what no label changes, ``(..., m, 1)`` each.

    There R = level + slope s - own y, with s the kernel sum of label 1.
    """

    loss: ProperLoss
    p: FloatArray
    level: FloatArray
    slope: FloatArray
    own: FloatArray

    @classmethod
    def of(cls, loss: ProperLoss, p: FloatArray, sums: FloatArray, units: FloatArray) -> _Places:
        """Places p ``(m,)`` of samples of some weights.

        `sums` ``(m, 4)`` are those of 1, p and p (1 - p), and what a unit adds to its own.
        """
        left_out = sums[:, 3] * units
        rest = np.maximum(sums[:, 0] - left_out, ALONE * left_out)
        level = p + (left_out * p - sums[:, 1]) / rest
        columns = (np.broadcast_to(p, rest.shape), level, 1.0 / rest, left_out / rest)
        return cls(loss, *(column[..., None] for column in columns))

    def take(self, rows: IntArray) -> _Places:
        """Some of the rows, perhaps several times."""
        return _Places(self.loss, self.p[rows], self.level[rows], self.slope[rows], self.own[rows])

    def terms(self, sums: FloatArray, y: int) -> FloatArray:
        """What a sample of label y adds, from kernel sums ``(m, B)`` of label 1."""
        R = sums * self.slope
        R += self.level - self.own * y
        return terms_of(self.loss, self.p, y, R)


class _Scale:
    """The statistic at one bandwidth."""

    def __init__(
        self,
        problem: Problem,
        units: FloatArray,
        spread: csr_array,
        kernel: Kernel,
        resolution: float,
        bandwidth: float,
    ) -> None:
        nodes, p = nodes_at(kernel, bandwidth), problem.predictions
        self._carry = _carry(kernel, resolution, bandwidth, len(units))
        self._kernel, peak = _kernel_matrix(kernel, bandwidth)
        self._shape = len(units), len(nodes)
        fixed = self._carry @ (spread.T @ np.stack([np.ones_like(p), p, p * (1 - p)], axis=1))
        self._all = fixed[:, :1]
        sums = np.column_stack([self._kernel_sums(fixed), peak])
        self._places = _Places.of(problem.loss, nodes.probabilities, sums, units[:, None])
        interpolation = nodes.weights(p)
        at_rows = interpolation @ sums
        self._rare = []
        for y in (0, 1):
            rows = _rare_rows(p if y else 1 - p, at_rows, problem.units.max())
            places = _Places.of(problem.loss, p[rows], at_rows[rows], problem.units[rows])
            weights = problem.weights[rows]
            self._rare.append(_Rare(y, rows, weights, places, interpolation[rows], spread[rows]))

    def _kernel_sums(self, masses: FloatArray) -> FloatArray:
        """At the nodes ``(M, c)``, of masses ``(u M, c)`` of all units."""
        sums: FloatArray = self._kernel @ masses.reshape(*self._shape, -1).sum(axis=0)
        return sums

    def sums(self, outcomes: LabelArray, masses: FloatArray) -> FloatArray:
        """Of label sets ``(n, B)``, whose label 1 has masses on the finer nodes, ``(B,)``."""
        ones = self._carry @ masses
        at_nodes = self._kernel_sums(ones)
        result = np.zeros(outcomes.shape[1])
        for y, own in ((0, self._all - ones), (1, ones)):
            if found := self._rare[y].sums(outcomes, at_nodes):
                result += found[0]
                own = own - self._carry @ found[1]
            terms = self._places.terms(at_nodes, y)
            result += np.einsum("ab,ab->b", own, terms.reshape(own.shape))
        return result


@dataclass(frozen=True)
class _Rare:
    """Rows where a label is rare, and is evaluated where it occurs.

    Attributes
    ----------
    y : the label
    rows, weights, places : the rows, their weights, and what is known there
    interpolation : of the rows from the nodes of the bandwidth
    spread : of the rows onto the nodes that hold masses, weights included
    """

    y: int
    rows: IntArray
    weights: FloatArray
    places: _Places
    interpolation: csr_array
    spread: csr_array

    def sums(
        self, outcomes: LabelArray, at_nodes: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """What the label's samples add to each set ``(B,)``, and their masses; None without any."""
        n_sets = outcomes.shape[1]
        row, sets = np.divmod(np.flatnonzero(outcomes[self.rows] == self.y), n_sets)
        if not len(row):
            return None

        def stencils(matrix: csr_array) -> tuple[IntArray, FloatArray]:
            nodes, weights = _stencils(matrix)
            return nodes[row] * n_sets + sets[:, None], weights[row]

        entries, weights = stencils(self.interpolation)
        at_rows = row_dot(weights, at_nodes.ravel()[entries])
        terms = self.places.take(row).terms(at_rows[:, None], self.y)[:, 0]
        sums = _added(sets, self.weights[row] * terms, n_sets)
        shape = self.spread.shape[1], n_sets
        entries, weights = stencils(self.spread)
        masses = _added(entries.ravel(), weights.ravel(), shape[0] * n_sets)
        return sums, masses.reshape(shape)


def _added(places: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Values added up at their places, ``(size,)``."""
    return np.bincount(places, values, size).astype(np.float64, copy=False)


def _rare_rows(p: FloatArray, sums: FloatArray, unit: float) -> IntArray:
    """Rows where a label of probability p is rare: p^2 < RARE v / m.

    There the average of residuals is that of m samples, whose variance v is the mean of
    p (1 - p) nearby, or that of the label itself; `sums` as for `_Places.of`.
    """
    total, _, variance, peak = sums.T
    own = peak * unit
    squared_error = own * np.maximum(variance, p * total)
    return np.flatnonzero(p**2 * (total - own) * total < RARE * squared_error)


@lru_cache(maxsize=32)
def _carry(kernel: Kernel, resolution: float, bandwidth: float, n_units: int) -> csr_array:
    """From masses on the nodes of a resolution to those of a bandwidth, for each unit."""
    fine = nodes_at(kernel, resolution)
    transfer = nodes_at(kernel, bandwidth).weights_at(fine.log_odds, fine.probabilities)
    return csr_array(block_diag([transfer.T] * n_units, format="csr"))


@lru_cache(maxsize=32)
def _kernel_matrix(kernel: Kernel, bandwidth: float) -> tuple[FloatArray, FloatArray]:
    """k_h(x_a; x_b) of a bandwidth's own nodes, ``(M, M)``, and its diagonal."""
    points = nodes_at(kernel, bandwidth).points
    scores = (kernel.scale(bandwidth) * kernel.queries(points)) @ points.T
    scores += kernel.key_bias(points, bandwidth)
    scores += kernel.query_bias(points, bandwidth)[:, None]
    return np.exp(scores), np.exp(kernel.log_peak(points, bandwidth))


def _units(units: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights ``(u,)`` that stand for those of all samples, and each row's shares ``(n, u)``.

    A function of the weight is interpolated by the polynomial through its values at these.
    """
    low, high = units.min(), units.max()
    if low == high:
        return np.array([low]), np.ones((len(units), 1))
    places = np.cos(np.pi * (np.arange(UNITS) + 0.5) / UNITS)
    chosen = (low + high) / 2 + (high - low) / 2 * places
    shares = np.ones((len(units), UNITS))
    for a, b in np.argwhere(~np.eye(UNITS, dtype=np.bool_)):
        shares[:, a] *= (units - chosen[b]) / (chosen[a] - chosen[b])
    return chosen, shares


def _stencils(matrix: csr_array) -> tuple[IntArray, FloatArray]:
    """Columns and entries of a matrix with equally many in every row, ``(n, s)`` each."""
    shape = matrix.shape[0], matrix.nnz // max(matrix.shape[0], 1)
    return matrix.indices.reshape(shape), matrix.data.reshape(shape)
