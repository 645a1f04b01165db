"""Kernel averages of one-dimensional problems in O(n): spread, multiply, interpolate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from riskalign.data.sample import Problem
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, as_slice
from riskalign.equations.kernels import Kernel
from riskalign.smoothing.contract import Average, Reader, Request, T, Values
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.masses import MassTable, own_kernel
from riskalign.smoothing.neighbours import Neighbours
from riskalign.smoothing.nodes import nodes_at
from riskalign.smoothing.threads import ordered_map

CHUNK = 60_000
"""Rows handled at once: operations long enough for threads to share the interpreter."""

KEPT = 400_000
"""Rows times problems whose interpolation weights are kept between calls, 40 MB."""

BATCH = 64
"""Problems whose sums at all requested bandwidths are held at once."""

THREADED = 50_000
"""Rows of a problem from which threads pay: shorter operations wait for the interpreter."""

ISOLATED = 0.15
"""A row whose own term outweighs the rest by more than 1/ISOLATED is summed exactly: what
remains after its removal is too small a part of what was interpolated."""


def without_own(
    weights: csr_array,
    sums: FloatArray,
    columns: FloatArray,
    mean_weight: float,
    *,
    adds_up: bool = False,
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Sums at rows without each row's own term, and which rows are isolated.

    Parameters
    ----------
    sums : kernel sums of the columns and, last, the own kernel at the nodes, (c+1, M)
    columns : what the rows themselves add, (c, b)
    adds_up : whether the columns add up to the samples' weights; otherwise these are the
        last column

    Returns
    -------
    Sums of the values (d, b), of the weights (b,), and what is isolated (b,).
    """
    *interpolated, own_kernel = (weights @ column for column in sums)  # (b,) each
    own = own_kernel * columns
    rest: FloatArray = np.array(interpolated)
    rest -= own
    own *= ISOLATED
    isolated: BoolArray = np.logical_or.reduce(np.abs(rest) < np.abs(own))
    total: FloatArray = rest.sum(axis=0) if adds_up else rest[-1]
    # A light sample is as isolated as one of mean weight would be in its place.
    own_kernel *= ISOLATED * mean_weight
    isolated |= total < own_kernel
    return (rest if adds_up else rest[:-1]), total, isolated


class GridSmoother:
    """Kernel averages through masses on nodes; the contract of `DenseSmoother`.

    All problems share the node-to-node kernel matrix of a bandwidth, as one product.
    """

    def __init__(self, problems: Sequence[Problem], kernel: Kernel, values: Values) -> None:
        self._problems = problems
        self._kernel = kernel
        self._values = values
        self.search_rows = max(5_000, len(problems[0].labels) // 20)
        self._workers = None if len(problems[0].labels) >= THREADED else 1
        self._adds_up = values is Problem.one_hot
        self._resolution = kernel.bandwidth_range(2)[0]
        self._nodes = nodes_at(kernel, self._resolution)
        self._kept: dict[int, csr_array] = {}
        self._keeps = sum(len(problem.labels) for problem in problems) <= KEPT
        self._tables: list[MassTable] = []
        self._ranges: list[tuple[FloatArray, FloatArray]] = []
        self._spread()
        # Of large batches, rows come problem by problem: few need to be in order at once.
        self._neighbours = lru_cache(maxsize=len(problems) if self._keeps else 4)(self._in_order)
        self._totals = [float(problem.weights.sum()) for problem in problems]

    def _spread(self) -> None:
        """Masses of every problem, and the range of what is averaged."""
        tasks = [
            (number, start)
            for number, problem in enumerate(self._problems)
            for start in range(0, len(problem.labels), CHUNK)
        ]

        def chunk(task: tuple[int, int]) -> tuple[MassTable, FloatArray]:
            number, start = task
            part = self._problems[number].take(slice(start, start + CHUNK))
            columns = self._columns(part)
            weights = self._nodes.weights(part.predictions)
            if self._keeps and len(part.labels) == len(self._problems[number].labels):
                self._kept[number] = weights
            table = MassTable(self._kernel, self._resolution, weights.T @ columns.T)
            return table, self._extremes(part)

        for (number, _), (table, (low, high)) in zip(
            tasks, ordered_map(chunk, tasks, self._workers), strict=True
        ):
            if number == len(self._tables):
                self._tables.append(table)
                self._ranges.append((low, high))
                continue
            self._tables[number] = self._tables[number].merge(table)
            known = self._ranges[number]
            self._ranges[number] = (np.minimum(known[0], low), np.maximum(known[1], high))

    def _in_order(self, number: int) -> Neighbours:
        return Neighbours(self._problems[number], self._kernel, self._values)

    def _columns(self, part: Problem) -> FloatArray:
        """What samples add to the sums: their weighted values and, last, their weights, (d+1, b).

        The weighted values of labels add up to the weights, which are left out, (d, b).
        """
        if self._adds_up:
            positive = part.labels * part.weights
            return np.array([part.weights - positive, positive])
        values = self._values(part)
        return np.concatenate([values.T, np.ones((1, len(values)))]) * part.weights

    def _extremes(self, part: Problem) -> FloatArray:
        """The least and the largest of what is averaged, (2, d)."""
        if self._adds_up:
            return np.array([[0.0, 0.0], [1.0, 1.0]])
        values = self._values(part)
        return np.array([values.min(axis=0), values.max(axis=0)])

    def each(
        self,
        requests: Sequence[Request],
        reader: Reader[T],
        rows: IntArray | None = None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`; requests at one bandwidth share its kernel matrix."""
        coarse = [i for i, (_, h) in enumerate(requests) if h >= self._resolution]
        fine = [i for i, (_, h) in enumerate(requests) if h < self._resolution]
        if fine:  # narrower than the nodes resolve
            dense = DenseSmoother(self._problems, self._kernel, self._values)
            for i, own, result in dense.each([requests[i] for i in fine], reader, rows):
                yield fine[i], own, result
        numbers = list(dict.fromkeys(requests[i][0] for i in coarse))
        for start in range(0, len(numbers), BATCH):
            batch = set(numbers[start : start + BATCH])
            wanted = {i: requests[i] for i in coarse if requests[i][0] in batch}
            yield from self._each_of_batch(wanted, reader, rows)

    def _each_of_batch(
        self,
        wanted: dict[int, Request],
        reader: Reader[T],
        rows: IntArray | None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        sums = self._node_sums(wanted)
        by_problem: dict[int, list[int]] = {}
        for i, (number, _) in wanted.items():
            by_problem.setdefault(number, []).append(i)
        every = np.arange(max(len(problem.labels) for problem in self._problems))
        tasks = []
        for number in by_problem:
            own = every[: len(self._problems[number].labels)] if rows is None else rows
            tasks += [(number, own[a : a + CHUNK]) for a in range(0, len(own), CHUNK)]

        def chunk(task: tuple[int, IntArray]) -> list[T]:
            number, own = task
            weights = self._interpolation(number, own)
            columns = self._columns(self._problems[number].take(as_slice(own)))
            read = reader(number, own)
            return [
                read(self._leave_out(wanted[i], own, columns, weights, sums[i]))
                for i in by_problem[number]
            ]

        chunks = ordered_map(chunk, tasks, self._workers)
        for (number, own), results in zip(tasks, chunks, strict=True):
            for i, result in zip(by_problem[number], results, strict=True):
                yield i, own, result

    def _interpolation(self, number: int, rows: IntArray) -> csr_array:
        """Interpolation weights of some rows; those of small batches are kept."""
        if number not in self._kept:
            part = self._problems[number].take(as_slice(rows))
            return self._nodes.weights(part.predictions)
        kept = self._kept[number]
        return kept if len(rows) == kept.shape[0] else kept[rows]

    def _node_sums(self, wanted: dict[int, Request]) -> dict[int, FloatArray]:
        """Per request: kernel sums of the columns at the nodes, and the own term, (d+2, M)."""
        by_bandwidth: dict[float, list[int]] = {}
        for i, (_, h) in wanted.items():
            by_bandwidth.setdefault(h, []).append(i)
        width = self._tables[0].mass.shape[1]

        def bandwidth_sums(h: float) -> list[FloatArray]:
            numbers = [wanted[i][0] for i in by_bandwidth[h]]
            masses = np.concatenate([self._tables[number].mass for number in numbers], axis=1)
            at_nodes = MassTable(self._kernel, self._resolution, masses).sums(h)
            own = own_kernel(self._kernel, self._resolution, h)
            parts = at_nodes.T.reshape(len(numbers), width, -1)
            return [np.concatenate([part, own[None]]) for part in parts]

        bandwidths = list(by_bandwidth)
        result: dict[int, FloatArray] = {}
        sums = ordered_map(bandwidth_sums, bandwidths, self._workers)
        for h, parts in zip(bandwidths, sums, strict=True):
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
        others = self._totals[number] - self._problems[number].weights[as_slice(rows)]
        return self._average(
            number,
            without_own(weights, sums, columns, self._mean_weight(number), adds_up=self._adds_up),
            others,
            lambda isolated: self._neighbours(number).averages(h, rows[isolated]),
        )

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`; points far from all samples, and narrow kernels, exactly."""
        number, h = request
        dense = DenseSmoother(self._problems, self._kernel, self._values)
        if h < self._resolution:
            return dense.at(request, points)
        weights = self._nodes.weights(points[:, 1])
        sums = self._node_sums({0: request})[0]
        nothing = np.zeros((len(sums) - 1, len(points)))
        return self._average(
            number,
            without_own(weights, sums, nothing, self._mean_weight(number), adds_up=self._adds_up),
            self._totals[number],
            lambda isolated: dense.at(request, points[isolated]),
        )

    def _average(
        self,
        number: int,
        interpolated: tuple[FloatArray, FloatArray, BoolArray],
        mass: float | FloatArray,
        exactly: Callable[[BoolArray], Average],
    ) -> Average:
        """Averages from what `without_own` gives; isolated rows are replaced by exact ones."""
        values, total, isolated = interpolated
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated rows are replaced
            mean = np.divide(values, total, out=values).T  # (b, d)
        exact = exactly(isolated) if isolated.any() else None
        if exact is not None:
            mean[isolated] = exact.mean
        # Averages stay within the range of their values, which interpolation may leave by 1e-9.
        np.clip(mean, *self._ranges[number], out=mean)

        def log_density() -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore"):
                result: FloatArray = np.log(total / mass)
            if exact is not None:
                result[isolated] = exact.log_density
            return result

        return Average(mean, log_density)

    def _mean_weight(self, number: int) -> float:
        return self._totals[number] / len(self._problems[number].labels)
