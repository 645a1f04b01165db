"""Kernel averages of one-dimensional problems in O(n): spread, multiply, interpolate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average, Request, T, Values
from riskalign.smoothing.dense import DenseSmoother, exact_rows
from riskalign.smoothing.masses import MassTable, own_kernel
from riskalign.smoothing.threads import ordered_map

CHUNK = 20_000
"""Rows handled at once: their weights, 1.4 MB, stay in cache."""

BATCH = 64
"""Problems whose sums at all requested bandwidths are held at once."""

ISOLATED = 0.02
"""A row whose own term outweighs the rest by more than 1/ISOLATED is summed exactly: what
remains after its removal is too small a part of what was interpolated."""


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
        self._tables = self._spread()

    def _spread(self) -> list[MassTable]:
        tasks = [
            (number, start)
            for number, problem in enumerate(self._problems)
            for start in range(0, len(problem.labels), CHUNK)
        ]

        def chunk(task: tuple[int, int]) -> MassTable:
            number, start = task
            rows = np.arange(start, min(start + CHUNK, len(self._problems[number].labels)))
            p, columns = self._columns(number, rows)
            return MassTable.empty(self._kernel, self._resolution, columns.shape[1]).add(p, columns)

        tables: dict[int, MassTable] = {}
        for (number, _), table in zip(tasks, ordered_map(chunk, tasks), strict=True):
            tables[number] = tables[number].merge(table) if number in tables else table
        return [tables[number] for number in range(len(self._problems))]

    def _columns(self, number: int, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Positions (b,) and weighted values with a column of ones, (b, d+1)."""
        part = self._problems[number].take(rows)
        ones = np.ones((len(rows), 1))
        values = np.concatenate([self._values(part), ones], axis=1)
        return part.points[:, 1], values * part.weights[:, None]

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
            p, columns = self._columns(number, own)
            weights = self._tables[number].nodes.weights(p)
            results = []
            for i in by_problem[number]:
                interpolated = weights @ sums[i]  # (b, d+2)
                average = self._leave_out(number, wanted[i][1], own, interpolated, columns)
                results.append(function(number, own, average))
            return results

        for (number, own), results in zip(tasks, ordered_map(chunk, tasks), strict=True):
            for i, result in zip(by_problem[number], results, strict=True):
                yield i, own, result

    def _node_sums(self, wanted: dict[int, Request]) -> dict[int, FloatArray]:
        """Per request: kernel sums of the columns at the nodes, and the own term, (M, d+2)."""
        by_bandwidth: dict[float, list[int]] = {}
        for i, (_, h) in wanted.items():
            by_bandwidth.setdefault(h, []).append(i)
        shape = self._tables[0].mass.shape

        def bandwidth_sums(h: float) -> list[FloatArray]:
            numbers = [wanted[i][0] for i in by_bandwidth[h]]
            masses = np.concatenate([self._tables[number].mass for number in numbers], axis=1)
            sums = MassTable(self._kernel, self._resolution, masses).sums(h)
            sums = sums.reshape(shape[0], len(numbers), shape[1])
            own = own_kernel(self._kernel, self._resolution, h)[:, None]
            return [np.concatenate([sums[:, j], own], axis=1) for j in range(len(numbers))]

        bandwidths = list(by_bandwidth)
        result: dict[int, FloatArray] = {}
        for h, parts in zip(bandwidths, ordered_map(bandwidth_sums, bandwidths), strict=True):
            result.update(zip(by_bandwidth[h], parts, strict=True))
        return result

    def _leave_out(
        self, number: int, h: float, rows: IntArray, sums: FloatArray, columns: FloatArray
    ) -> Average:
        own = sums[:, -1:] * columns  # (b, d+1)
        rest = sums[:, :-1] - own
        isolated = np.any(np.abs(rest) < ISOLATED * np.abs(own), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated rows are replaced
            mean = rest[:, :-1] / rest[:, -1:]
            log_sum = np.log(rest[:, -1])
        problem = self._problems[number]
        log_density = log_sum - np.log(problem.weights.sum() - problem.weights[rows])
        if isolated.any():
            values = self._values(problem)
            exact = exact_rows(problem, self._kernel, values, h, rows[isolated])
            mean[isolated], log_density[isolated] = exact.mean, exact.log_density
        return Average(mean, log_density)

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`."""
        return DenseSmoother(self._problems, self._kernel, self._values).at(request, points)
