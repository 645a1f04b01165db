"""Kernel averages of one-dimensional problems in O(n): spread, multiply, interpolate.

Samples are spread onto nodes, kernel sums are computed at the nodes, and are interpolated at the
rows, where each sample's own term is taken out:

    (W v)_i = (sum_j k_ij w_j v_j - k_ii u_i v_i) / (sum_j k_ij w_j - k_ii u_i),

with w_j the weight of row j and u_i that of the one sample which is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from riskalign.equations.arrays import FloatArray, IntArray, as_slice
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import tempered
from riskalign.smoothing.dense import DenseSmoother, flattened, support_of
from riskalign.smoothing.kernel_sums import kernel_sums, nodes_of, own_kernel, resolution_of
from riskalign.smoothing.neighbours import Neighbours
from riskalign.smoothing.operator import (
    ALONE,
    Average,
    Reader,
    Request,
    Support,
    T,
    Tuning,
    lone_weights,
)
from riskalign.smoothing.threads import ordered_map

CHUNK = 60_000
"""Rows handled at once: operations long enough for threads to share the interpreter."""

KEPT = 400_000
"""Rows times problems whose interpolation weights are kept between calls, 40 MB."""

GROUP = 64
"""Problems whose sums at all requested bandwidths are held at once."""

FAINT = 1e-9
"""Samples below which a sum is the rounding of none."""

THREADED = 50_000
"""Rows of a problem from which threads pay: shorter operations wait for the interpreter."""


def quadrature(problem: Problem, kernel: Kernel) -> Problem:
    """The problem with its samples spread onto the kernel's nodes, one row per node and label.

    Sums over samples of smooth functions of prediction and label are sums over these rows. A
    row's weight may be slightly negative.
    """
    nodes = nodes_of(kernel)
    own = problem.labels == 1
    masses = np.zeros((2, len(nodes), 2))  # labels, nodes, (weights, squared weights)
    for start in range(0, len(own), CHUNK):
        rows = slice(start, start + CHUNK)
        spread = nodes.weights(problem.predictions[rows]).T
        w, squares = problem.weights[rows], problem.weights[rows] * problem.units[rows]
        of_label = own[rows]
        columns = np.stack([w * ~of_label, squares * ~of_label, w * of_label, squares * of_label])
        masses += (spread @ columns.T).reshape(len(nodes), 2, 2).transpose(1, 0, 2)
    weights, squares = masses.reshape(-1, 2).T
    units = np.full_like(weights, problem.unit)
    low, high = problem.units[problem.units > 0].min(), problem.units.max()
    if low < high:  # the mean weight of a sample near each node
        known = weights > ALONE * low
        units[known] = np.clip(squares[known] / weights[known], low, high)
    labels = np.repeat(np.array([0, 1], dtype=np.int8), len(nodes))
    return replace(
        problem,
        predictions=nodes.twice,
        labels=labels,
        weights=weights,
        sample_weights=units,
        known_mean_weight=problem.mean_weight,
    )


def read_at(
    known: Problem, values: FloatArray, problem: Problem, rows: IntArray, kernel: Kernel
) -> FloatArray:
    """Values ``(n, c)`` of the rows that a problem was condensed to, at rows of the problem.

    Those of nodes are interpolated between the nodes of a row's own label.
    """
    nodes = nodes_of(kernel)
    if known.predictions is not nodes.twice:
        return values[rows]
    found = np.empty((len(rows), values.shape[1]))
    labels, p = problem.labels[rows], problem.predictions[rows]
    for y, of_label in enumerate(np.split(values, 2)):
        own = np.flatnonzero(labels == y)
        found[own] = nodes.weights(p[own]) @ of_label
    return found


class GridSmoother:
    """Kernel averages through masses on nodes; the contract of `Smoother`.

    All problems share the node-to-node kernel matrix of a tuning, as one product.
    """

    def __init__(self, problems: Sequence[Problem], kernel: Kernel) -> None:
        self._problems = problems
        self._kernel = kernel
        self._nodes = nodes_of(kernel)
        self.search_rows = max(5_000, len(problems[0].labels) // 20)
        self._workers = None if len(problems[0].labels) >= THREADED else 1
        self._kept: dict[int, csr_array] = {}
        self._masses: dict[int, FloatArray] = {}
        self._keeps = sum(len(problem.labels) for problem in problems) <= KEPT
        # Of large groups, rows come problem by problem: few need to be in order at once.
        self._neighbours = lru_cache(maxsize=len(problems) if self._keeps else 4)(self._in_order)
        self._totals = [float(problem.weights.sum()) for problem in problems]

    def _in_order(self, number: int, flattening: float) -> Neighbours:
        return Neighbours(flattened(self._problems[number], flattening), self._kernel)

    def _is_quadrature(self, number: int) -> bool:
        return self._problems[number].predictions is self._nodes.twice

    def _interpolation(self, number: int, rows: IntArray | slice) -> csr_array:
        """Interpolation weights of some rows; those of small groups are kept."""
        if not self._keeps:
            return self._nodes.weights(self._problems[number].predictions[rows])
        if number not in self._kept:
            self._kept[number] = self._nodes.weights(self._problems[number].predictions)
        kept = self._kept[number]
        return kept if isinstance(rows, slice) and rows == slice(None) else kept[rows]

    def _spread(self, number: int, columns: FloatArray) -> FloatArray:
        """Masses of columns ``(n, c)``, weights included, on the nodes, ``(M, c)``."""
        if self._is_quadrature(number):
            return columns[: len(self._nodes)] + columns[len(self._nodes) :]
        masses = np.zeros((len(self._nodes), columns.shape[1]))
        for start in range(0, len(columns), CHUNK):
            rows = slice(start, start + CHUNK) if len(columns) > CHUNK else slice(None)
            masses += self._interpolation(number, rows).T @ columns[rows]
        return masses

    def _at_rows(self, number: int, sums: FloatArray) -> FloatArray:
        """Sums ``(M, c)`` at the problem's rows, ``(n, c)``."""
        if self._is_quadrature(number):
            return np.concatenate([sums, sums])
        n = len(self._problems[number].labels)
        if n <= CHUNK:
            found: FloatArray = self._interpolation(number, slice(None)) @ sums
            return found
        starts = range(0, n, CHUNK)
        return np.concatenate(
            [self._interpolation(number, slice(a, a + CHUNK)) @ sums for a in starts]
        )

    # Averages of labels, exact for isolated rows.

    def each(
        self, requests: Sequence[Request], reader: Reader[T], rows: IntArray | None = None
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`; requests of one tuning share its kernel matrix."""
        resolved = [tuning.bandwidth >= resolution_of(self._kernel) for _, tuning in requests]
        coarse = [i for i, well in enumerate(resolved) if well]
        fine = [i for i, well in enumerate(resolved) if not well]
        if fine:  # narrower than the nodes resolve
            dense = DenseSmoother(self._problems, self._kernel)
            for i, own, result in dense.each([requests[i] for i in fine], reader, rows):
                yield fine[i], own, result
        numbers = list(dict.fromkeys(requests[i][0] for i in coarse))
        for start in range(0, len(numbers), GROUP):
            group = set(numbers[start : start + GROUP])
            wanted = {i: requests[i] for i in coarse if requests[i][0] in group}
            yield from self._each_of_group(wanted, reader, rows)

    def _each_of_group(
        self, wanted: dict[int, Request], reader: Reader[T], rows: IntArray | None
    ) -> Iterator[tuple[int, IntArray, T]]:
        sums = self._label_sums(wanted)
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
            whole = len(own) == len(self._problems[number].labels)
            weights = self._interpolation(number, slice(None) if whole else as_slice(own))
            read = reader(number, own)
            return [
                read(self._labels_left_out(wanted[i], own, weights @ sums[i]))
                for i in by_problem[number]
            ]

        chunks = ordered_map(chunk, tasks, self._workers)
        for (number, own), results in zip(tasks, chunks, strict=True):
            for i, result in zip(by_problem[number], results, strict=True):
                yield i, own, result

    def _label_masses(self, number: int) -> FloatArray:
        """Weights of label 0 and of label 1 on the nodes, ``(M, 2)``, computed once."""
        if number not in self._masses:
            problem = self._problems[number]
            weighted = problem.weights[:, None] * problem.one_hot()
            self._masses[number] = self._spread(number, weighted)
        return self._masses[number]

    def _label_sums(self, wanted: dict[int, Request]) -> dict[int, FloatArray]:
        """Per request: kernel sums of labels 0 and 1 at the nodes, and the own term, (M, 3)."""
        by_tuning: dict[Tuning, list[int]] = {}
        for i, (_, tuning) in wanted.items():
            by_tuning.setdefault(tuning, []).append(i)

        def of_tuning(tuning: Tuning) -> list[FloatArray]:
            masses = [self._label_masses(wanted[i][0]) for i in by_tuning[tuning]]
            at_nodes = kernel_sums(self._kernel, tuning, np.concatenate(masses, axis=1))
            own = own_kernel(self._kernel, tuning)[:, None]
            parts = np.split(at_nodes, len(masses), axis=1)
            return [np.concatenate([part, own], axis=1) for part in parts]

        tunings = list(by_tuning)
        result: dict[int, FloatArray] = {}
        sums = ordered_map(of_tuning, tunings, self._workers)
        for tuning, parts in zip(tunings, sums, strict=True):
            result.update(zip(by_tuning[tuning], parts, strict=True))
        return result

    def _labels_left_out(self, request: Request, rows: IntArray, sums: FloatArray) -> Average:
        """Interpolated sums ``(b, 3)`` without each sample's own term; isolated rows exactly."""
        number, tuning = request
        problem = self._problems[number]
        some = as_slice(rows)
        own = sums[:, 2] * problem.units[some]
        rest = sums[:, :2]
        rest[np.arange(len(rest)), problem.labels[some]] -= own
        total = rest[:, 0] + rest[:, 1]
        # What remains after a sample's removal must not be too small a part of it, for its own
        # label either; a light sample is as isolated as one of mean weight would be in its place.
        kept = rest[np.arange(len(rest)), problem.labels[some]]
        least = ALONE * sums[:, 2] * problem.unit
        isolated = (np.abs(kept) < ALONE * own) | (total < np.maximum(least, ALONE * own))
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated rows are replaced
            mean = rest / total[:, None]
        exact = None
        if isolated.any():
            near = self._neighbours(number, tuning.flattening)
            exact = near.averages(tuning.bandwidth, rows[isolated])
            mean[isolated] = exact.mean
        # Averages stay within the range of labels, which interpolation may leave by 1e-9.
        np.clip(mean, 0.0, 1.0, out=mean)
        others = self._totals[number] - problem.units[some]

        def log_density() -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore"):
                result: FloatArray = np.log(total / others)
            if exact is not None:
                result[isolated] = exact.log_density
            return result

        return Average(mean, log_density)

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`; points far from all samples, and narrow kernels, exactly."""
        number, tuning = request
        dense = DenseSmoother(self._problems, self._kernel)
        if tuning.bandwidth < resolution_of(self._kernel):
            return dense.at(request, points)
        problem = self._problems[number]
        weights = self._nodes.weights(points[:, 1])
        sums = weights @ self._label_sums({0: request})[0]
        total = sums[:, 0] + sums[:, 1]
        isolated = total < ALONE * sums[:, 2] * problem.unit
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated points are replaced
            mean = sums[:, :2] / total[:, None]
            log_density = np.log(total / self._totals[number])
        if isolated.any():
            exact = dense.at(request, points[isolated])
            mean[isolated], log_density[isolated] = exact.mean, exact.log_density
        return Average(np.clip(mean, 0.0, 1.0), lambda: log_density)

    # Averages of any values, shrunk where rows are alone.

    def averages(
        self,
        values: Mapping[int, FloatArray],
        tunings: Sequence[Tuning],
        rows: IntArray | None = None,
    ) -> Iterator[dict[int, FloatArray]]:
        """See `Smoother.averages`."""
        masses = {}
        for k, own in values.items():
            columns = np.column_stack([own, np.ones(len(own))])
            columns *= self._problems[k].weights[:, None]
            masses[k] = self._spread(k, columns)
        joined = np.concatenate(list(masses.values()), axis=1)
        ends = np.cumsum([mass.shape[1] for mass in masses.values()])[:-1]

        def of_tuning(tuning: Tuning) -> dict[int, FloatArray]:
            if tuning.bandwidth < resolution_of(self._kernel):
                return next(DenseSmoother(self._problems, self._kernel).averages(values, [tuning]))
            sums = np.split(kernel_sums(self._kernel, tuning, joined), ends, axis=1)
            peak = own_kernel(self._kernel, tuning)
            found = {}
            for (k, own), at_nodes in zip(values.items(), sums, strict=True):
                left_out, least = self._own_terms(k, peak)
                at_rows = self._at_rows(k, at_nodes)
                mean = at_rows[:, :-1] - left_out[:, None] * own
                mean /= np.maximum(at_rows[:, -1] - left_out, least)[:, None]
                found[k] = mean
            return found

        for found in map(of_tuning, tunings):  # threads would wait for the interpreter
            yield found if rows is None else {k: own[rows] for k, own in found.items()}

    def _own_terms(self, number: int, peak: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each sample adds to the sum at its own place, ``(n,)``, and what others must."""
        at_rows = self._at_rows(number, peak[:, None])[:, 0]
        problem = self._problems[number]
        return at_rows * problem.units, ALONE * at_rows * lone_weights(problem)

    def with_squares(
        self, values: Mapping[int, FloatArray], tuning: Tuning
    ) -> dict[int, tuple[FloatArray, FloatArray]]:
        """See `Smoother.with_squares`."""
        if tuning.bandwidth < resolution_of(self._kernel):
            return DenseSmoother(self._problems, self._kernel).with_squares(values, tuning)
        masses, squared = [], []
        for k, own in values.items():
            weights, units = self._problems[k].weights, self._problems[k].units
            every = np.column_stack([own, np.ones(len(own)), units])
            every *= weights[:, None]
            spread = self._spread(k, every)
            masses.append(spread[:, :-1])
            squared.append(spread[:, -1])
        ends = np.cumsum([mass.shape[1] for mass in masses])[:-1]
        joined = np.concatenate(masses, axis=1)
        sums = np.split(kernel_sums(self._kernel, tuning, joined), ends, axis=1)
        of_squares = kernel_sums(self._kernel, tuning, np.stack(squared, axis=1), squared=True)
        peak = own_kernel(self._kernel, tuning)

        def left_out(i: int) -> tuple[FloatArray, FloatArray]:
            k, own = numbers[i], values[numbers[i]]
            at_rows = self._at_rows(k, np.column_stack([sums[i], of_squares[:, i], peak]))
            own_term = at_rows[:, -1] * self._problems[k].units
            least = ALONE * at_rows[:, -1] * lone_weights(self._problems[k])
            rest = np.maximum(at_rows[:, -3] - own_term, least)
            mean = (at_rows[:, :-3] - own_term[:, None] * own) / rest[:, None]
            return mean, np.clip((at_rows[:, -2] - own_term**2) / rest**2, 0.0, 1.0)

        numbers = list(values)
        return {k: left_out(i) for i, k in enumerate(numbers)}

    def squares(self, numbers: Sequence[int], tuning: Tuning) -> dict[int, FloatArray]:
        """See `Smoother.squares`."""
        nothing = {k: np.empty((len(self._problems[k].labels), 0)) for k in numbers}
        return {k: s for k, (_, s) in self.with_squares(nothing, tuning).items()}

    def averages_at(
        self, values: FloatArray, request: Request, points: FloatArray
    ) -> tuple[FloatArray, Support]:
        """See `Smoother.averages_at`."""
        number, tuning = request
        if tuning.bandwidth < resolution_of(self._kernel):
            dense = DenseSmoother(self._problems, self._kernel)
            return dense.averages_at(values, request, points)
        problem = self._problems[number]
        weighted = problem.weights[:, None] * np.column_stack([values, np.ones(len(values))])
        squared = (problem.weights * problem.units)[:, None]
        sums = kernel_sums(self._kernel, tuning, self._spread(number, weighted))
        of_squares = kernel_sums(self._kernel, tuning, self._spread(number, squared), squared=True)
        at_points = self._nodes.weights(points[:, 1]) @ np.column_stack([sums, of_squares])
        x = tempered(points, tuning.flattening)
        log_own = self._kernel.log_peak(x, tuning.bandwidth) + np.log(problem.unit)
        faint = FAINT * np.exp(log_own)  # far from all samples sums are rounding
        total = np.maximum(at_points[:, -2], faint)
        rest = np.maximum(at_points[:, -2], ALONE * np.exp(log_own))
        log_squares = np.log(np.maximum(at_points[:, -1], faint**2))
        support = support_of(np.log(total), log_squares, log_own, problem, tuning, points, x)
        return at_points[:, :-2] / rest[:, None], support
