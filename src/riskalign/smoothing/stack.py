"""Averages of residuals at the rows of several one-dimensional problems, one after another.

Sums of all problems stand side by side at the nodes, so that one product with the kernel's matrix
and one interpolation serve them together,

    sums = K P' (w v),    (W v)_i = ((P sums)_i - k_ii u_i v_i) / ((P K P' w)_i - k_ii u_i),

with P the interpolation from nodes to rows, w_j the weight of row j and u_i that of the one sample
which is left out. Only the nodes between the smallest and the largest prediction have a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.smoothing.kernel_sums import kernel_sums, nodes_of, own_kernel
from riskalign.smoothing.nodes import Nodes
from riskalign.smoothing.operator import ALONE, Tuning, lone_weights

CHUNK = 60_000
"""Rows whose interpolation weights are made at once."""

SPAN = 64
"""Spans of nodes begin and end at multiples of it: many problems share one."""


class Stack:
    """The rows of some problems, ready to be smoothed by any tuning that nodes resolve.

    `keep` holds the interpolation weights of all rows, about 100 bytes per row.
    """

    def __init__(self, problems: Sequence[Problem], kernel: Kernel, *, keep: bool) -> None:
        self._problems = problems
        self._kernel = kernel
        self._nodes = nodes_of(kernel)
        self._span = _span_of(problems, self._nodes)
        self._weights = np.concatenate([problem.weights for problem in problems])
        self._units = np.concatenate([problem.units for problem in problems])
        self._least = ALONE * np.concatenate([lone_weights(problem) for problem in problems])
        self._ends = np.cumsum([len(problem.labels) for problem in problems])
        self._kept = [self._joined(self._pieces())] if keep else None

    def split(self, rows: FloatArray) -> list[FloatArray]:
        """What belongs to each problem, of an array of all rows."""
        return np.split(rows, self._ends[:-1])

    def averages(self, values: FloatArray, tunings: Iterable[Tuning]) -> Iterator[FloatArray]:
        """W v ``(N, d)`` for every tuning, shrunk where rows are alone."""
        masses = self._spread(self._with_ones(values))
        for tuning in tunings:
            sums = kernel_sums(self._kernel, tuning, masses, span=self._span)
            mean, _ = self._left_out(values, self._at_rows(sums), self._own(tuning))
            yield mean

    def with_squares(self, values: FloatArray, tuning: Tuning) -> tuple[FloatArray, FloatArray]:
        """W v ``(N, d)`` and s ``(N,)`` of one tuning."""
        masses = self._spread(self._with_ones(values))
        squared = self._spread((self._weights * self._units)[:, None])
        sums = kernel_sums(self._kernel, tuning, masses, span=self._span)
        of_squares = kernel_sums(self._kernel, tuning, squared, span=self._span, squared=True)
        own = self._own(tuning)
        mean, rest = self._left_out(values, self._at_rows(sums), own)
        s = (self._at_rows(of_squares)[:, 0] - (own * self._units) ** 2) / rest**2
        return mean, np.clip(s, 0.0, 1.0)

    def _with_ones(self, values: FloatArray) -> FloatArray:
        """Values and 1 times the weights, ``(N, d + 1)``."""
        n, d = values.shape
        columns = np.empty((n, d + 1))
        np.multiply(values, self._weights[:, None], out=columns[:, :d])
        columns[:, d] = self._weights
        return columns

    def _own(self, tuning: Tuning) -> FloatArray:
        """k_ii, ``(N,)``: what a sample of weight 1 adds to the sum at its own place."""
        peak = own_kernel(self._kernel, tuning)[slice(*self._span)]
        return self._at_rows(np.repeat(peak[:, None], len(self._problems), axis=1))[:, 0]

    def _left_out(
        self, values: FloatArray, at_rows: FloatArray, own: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Averages without each row's own sample, and the sum of the weights that remain."""
        left_out = own * self._units
        rest = np.maximum(at_rows[:, -1] - left_out, own * self._least)
        mean = at_rows[:, :-1] - left_out[:, None] * values
        mean /= rest[:, None]
        return mean, rest

    def _spread(self, columns: FloatArray) -> FloatArray:
        """Masses of columns ``(N, c)`` on the nodes of each problem, ``(S, C c)``."""
        size = self._span[1] - self._span[0]
        masses = np.zeros((size * len(self._problems), columns.shape[1]))
        for rows, interpolation in self._blocks():
            masses += interpolation.T @ columns[rows]
        return masses.reshape(size, -1)

    def _at_rows(self, sums: FloatArray) -> FloatArray:
        """Sums ``(S, C c)`` at the rows of each problem, ``(N, c)``."""
        size, n_problems = self._span[1] - self._span[0], len(self._problems)
        sums = sums.reshape(size * n_problems, -1)
        parts = [interpolation @ sums for _, interpolation in self._blocks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _blocks(self) -> Iterable[tuple[slice, csr_array]]:
        """Some rows, and their interpolation from the nodes of all problems, ``(b, S C)``."""
        if self._kept is not None:
            return self._kept
        return (self._joined([piece]) for piece in self._pieces())

    def _pieces(self) -> Iterator[tuple[int, int, csr_array]]:
        """Interpolation ``(b, M)`` of the rows of one problem: first row, problem, matrix."""
        first = 0
        for number, problem in enumerate(self._problems):
            n = len(problem.labels)
            for start in range(0, n, CHUNK):
                rows = slice(start, start + CHUNK)
                if problem.nodes is None:
                    matrix = self._nodes.weights(problem.predictions[rows])
                else:
                    matrix = _selection(problem.nodes[rows], len(self._nodes))
                yield first + start, number, matrix
            first += n

    def _joined(self, pieces: Iterable[tuple[int, int, csr_array]]) -> tuple[slice, csr_array]:
        """Consecutive pieces as one matrix, whose columns are nodes times problems."""
        every = list(pieces)
        begin, size, n_problems = every[0][0], self._span[1] - self._span[0], len(self._problems)
        columns = [(matrix.indices - self._span[0]) * n_problems + k for _, k, matrix in every]
        counts = np.concatenate([np.diff(matrix.indptr) for _, _, matrix in every])
        ends = np.concatenate([[0], np.cumsum(counts)])
        weights = np.concatenate([matrix.data for _, _, matrix in every])
        shape = (len(counts), size * n_problems)
        joined = csr_array((weights, np.concatenate(columns), ends), shape=shape)
        return slice(begin, begin + len(counts)), joined


def _selection(nodes: IntArray, n_nodes: int) -> csr_array:
    """The interpolation of rows that are nodes themselves."""
    n = len(nodes)
    return csr_array((np.ones(n), nodes, np.arange(n + 1)), shape=(n, n_nodes))


def _span_of(problems: Sequence[Problem], nodes: Nodes) -> tuple[int, int]:
    """The nodes [a, b) that some row of some problem needs."""
    low, high = len(nodes), 0
    for problem in problems:
        needed = problem.nodes
        if needed is None:
            p = problem.predictions
            needed = nodes.weights(np.array([p.min(), p.max()])).indices
        low, high = min(low, int(needed.min())), max(high, int(needed.max()) + 1)
    return low // SPAN * SPAN, min(-(-high // SPAN) * SPAN, len(nodes))
