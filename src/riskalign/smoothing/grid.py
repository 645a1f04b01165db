"""Kernel averages of one-dimensional problems in O(n): spread, multiply, interpolate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from riskalign.arrays import BoolArray, FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average, Request, T, Values
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.masses import MassTable, own_kernel
from riskalign.smoothing.neighbours import Neighbours
from riskalign.smoothing.threads import ordered_map

CHUNK = 60_000
"""Rows handled at once: operations long enough for threads to share the interpreter."""

KEPT = 400_000
"""Rows times problems whose interpolation weights are kept between calls, 40 MB."""

BATCH = 64
"""Problems whose sums at all requested bandwidths are held at once."""

ISOLATED = 0.15
"""A row whose own term outweighs the rest by more than 1/ISOLATED is summed exactly: what
remains after its removal is too small a part of what was interpolated."""


def without_own(
    weights: csr_array, sums: FloatArray, columns: FloatArray, mean_weight: float
) -> tuple[FloatArray, BoolArray]:
    """Sums at rows without each row's own term, (d+1, b), and which rows are isolated.

    `sums` holds kernel sums and the own kernel at the nodes, (d+2, M), `columns` what the
    rows themselves add, (d+1, b).
    """
    interpolated = [weights @ column for column in sums]  # d+2 of (b,)
    own = interpolated[-1] * columns
    rest: FloatArray = np.array(interpolated[:-1]) - own
    isolated: BoolArray = np.logical_or.reduce(np.abs(rest) < ISOLATED * np.abs(own))
    # A light sample is as isolated as one of mean weight would be in its place.
    isolated |= rest[-1] < ISOLATED * mean_weight * interpolated[-1]
    return rest, isolated


class GridSmoother:
    """Kernel averages through masses on nodes; the contract of `DenseSmoother`.

    All problems share the node-to-node kernel matrix of a bandwidth, as one product.
    """

    search_rows = 5_000

    def __init__(self, problems: Sequence[Problem], kernel: Kernel, values: Values) -> None:
        self._problems = problems
        self._kernel = kernel
        self._values = values
        self._resolution = kernel.bandwidth_range(2)[0]
        self._tables: list[MassTable] = []
        self._ranges: list[tuple[FloatArray, FloatArray]] = []
        self._spread()
        # Rows come problem by problem: few need to be in order at the same time.
        self._neighbours = lru_cache(maxsize=4)(self._in_order)
        self._kept: dict[tuple[int, int, int], csr_array] = {}
        self._totals = [float(problem.weights.sum()) for problem in problems]
        self._keeps = sum(len(problem.labels) for problem in problems) <= KEPT

    def _spread(self) -> None:
        """Masses of every problem, and the range of what is averaged."""
        tasks = [
            (number, start)
            for number, problem in enumerate(self._problems)
            for start in range(0, len(problem.labels), CHUNK)
        ]

        def chunk(task: tuple[int, int]) -> tuple[MassTable, FloatArray]:
            number, start = task
            rows = np.arange(start, min(start + CHUNK, len(self._problems[number].labels)))
            columns, values = self._columns(number, rows)
            table = MassTable.empty(self._kernel, self._resolution, len(columns))
            extremes = np.array([values.min(axis=0), values.max(axis=0)])  # (2, d)
            return table.add(self._positions(number, rows), columns.T), extremes

        for (number, _), (table, (low, high)) in zip(tasks, ordered_map(chunk, tasks), strict=True):
            if number == len(self._tables):
                self._tables.append(table)
                self._ranges.append((low, high))
                continue
            self._tables[number] = self._tables[number].merge(table)
            known = self._ranges[number]
            self._ranges[number] = (np.minimum(known[0], low), np.maximum(known[1], high))

    def _in_order(self, number: int) -> Neighbours:
        return Neighbours(self._problems[number], self._kernel, self._values)

    def _columns(self, number: int, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Weighted values and, last, the weights, (d+1, b); and the values themselves, (b, d)."""
        part = self._problems[number].take(rows)
        values = self._values(part)
        return np.concatenate([values.T, np.ones((1, len(rows)))]) * part.weights, values

    def each(
        self,
        requests: Sequence[Request],
        function: Callable[[int, IntArray, Average], T],
        rows: IntArray | None = None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`; requests at one bandwidth share its kernel matrix."""
        coarse = [i for i, (_, h) in enumerate(requests) if h >= self._resolution]
        fine = [i for i, (_, h) in enumerate(requests) if h < self._resolution]
        if fine:  # narrower than the nodes resolve
            dense = DenseSmoother(self._problems, self._kernel, self._values)
            for i, own, result in dense.each([requests[i] for i in fine], function, rows):
                yield fine[i], own, result
        numbers = list(dict.fromkeys(requests[i][0] for i in coarse))
        for start in range(0, len(numbers), BATCH):
            batch = set(numbers[start : start + BATCH])
            wanted = {i: requests[i] for i in coarse if requests[i][0] in batch}
            yield from self._each_of_batch(wanted, function, rows)

    def _each_of_batch(
        self,
        wanted: dict[int, Request],
        function: Callable[[int, IntArray, Average], T],
        rows: IntArray | None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        sums = self._node_sums(wanted)
        by_problem: dict[int, list[int]] = {}
        for i, (number, _) in wanted.items():
            by_problem.setdefault(number, []).append(i)
        tasks = []
        for number in by_problem:
            every = np.arange(len(self._problems[number].labels)) if rows is None else rows
            tasks += [(number, every[a : a + CHUNK]) for a in range(0, len(every), CHUNK)]

        def chunk(task: tuple[int, IntArray]) -> list[T]:
            number, own = task
            weights, (columns, _) = self._interpolation(number, own), self._columns(number, own)
            results = []
            for i in by_problem[number]:
                average = self._leave_out(wanted[i], own, columns, weights, sums[i])
                results.append(function(number, own, average))
            return results

        for (number, own), results in zip(tasks, ordered_map(chunk, tasks), strict=True):
            for i, result in zip(by_problem[number], results, strict=True):
                yield i, own, result

    def _interpolation(self, number: int, rows: IntArray) -> csr_array:
        """Interpolation weights of some rows; those of all rows are kept for small batches."""
        key = (number, int(rows[0]), len(rows))
        consecutive = len(rows) == rows[-1] - rows[0] + 1
        if consecutive and key in self._kept:
            return self._kept[key]
        made = self._tables[number].nodes.weights(self._positions(number, rows))
        if consecutive and self._keeps:
            self._kept[key] = made
        return made

    def _positions(self, number: int, rows: IntArray) -> FloatArray:
        return self._problems[number].predictions[rows]

    def _node_sums(self, wanted: dict[int, Request]) -> dict[int, FloatArray]:
        """Per request: kernel sums of the columns at the nodes, and the own term, (d+2, M)."""
        by_bandwidth: dict[float, list[int]] = {}
        for i, (_, h) in wanted.items():
            by_bandwidth.setdefault(h, []).append(i)
        width = self._tables[0].mass.shape[1]

        def bandwidth_sums(h: float) -> list[FloatArray]:
            numbers = [wanted[i][0] for i in by_bandwidth[h]]
            masses = np.concatenate([self._tables[number].mass for number in numbers], axis=1)
            sums = MassTable(self._kernel, self._resolution, masses).sums(h)
            own = own_kernel(self._kernel, self._resolution, h)
            parts = sums.T.reshape(len(numbers), width, -1)
            return [np.concatenate([part, own[None]]) for part in parts]

        bandwidths = list(by_bandwidth)
        result: dict[int, FloatArray] = {}
        for h, parts in zip(bandwidths, ordered_map(bandwidth_sums, bandwidths), strict=True):
            result.update(zip(by_bandwidth[h], parts, strict=True))
        return result

    def _leave_out(
        self,
        request: Request,
        rows: IntArray,
        columns: FloatArray,
        weights: csr_array,
        sums: FloatArray,
    ) -> Average:
        """Interpolated sums without each row's own term; isolated rows exactly."""
        number, h = request
        rest, isolated = without_own(weights, sums, columns, self._mean_weight(number))
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated rows are replaced
            mean = (rest[:-1] / rest[-1]).T  # (b, d)
            others = self._totals[number] - self._problems[number].weights[rows]
            log_density = np.log(rest[-1] / others)
        if isolated.any():
            exact = self._neighbours(number).averages(h, rows[isolated])
            mean[isolated], log_density[isolated] = exact.mean, exact.log_density
        return Average(self._within(number, mean), log_density)

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`; points far from all samples, and narrow kernels, exactly."""
        number, h = request
        dense = DenseSmoother(self._problems, self._kernel, self._values)
        if h < self._resolution:
            return dense.at(request, points)
        weights = self._tables[number].nodes.weights(points[:, 1])
        *sums, own = (weights @ column for column in self._node_sums({0: request})[0])
        isolated = sums[-1] < ISOLATED * self._mean_weight(number) * own
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated points are replaced
            mean = (np.array(sums[:-1]) / sums[-1]).T
            log_density = np.log(sums[-1]) - np.log(self._totals[number])
        if isolated.any():
            exact = dense.at(request, points[isolated])
            mean[isolated], log_density[isolated] = exact.mean, exact.log_density
        return Average(self._within(number, mean), log_density)

    def _mean_weight(self, number: int) -> float:
        return self._totals[number] / len(self._problems[number].labels)

    def _within(self, number: int, mean: FloatArray) -> FloatArray:
        """Averages kept within the range of their values, which interpolation may leave by 1e-9."""
        return np.clip(mean, *self._ranges[number], out=mean)
