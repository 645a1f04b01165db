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

from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, LabelArray, as_slice
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import tempered
from riskalign.smoothing.dense import DenseSmoother, flattened, support_of
from riskalign.smoothing.kernel_sums import kernel_sums, nodes_of, own_kernel, resolution_of
from riskalign.smoothing.neighbours import Neighbours
from riskalign.smoothing.nodes import STENCIL
from riskalign.smoothing.operator import (
    ALONE,
    Average,
    Reader,
    Request,
    Support,
    T,
    Tuning,
)
from riskalign.smoothing.stack import Stack
from riskalign.smoothing.threads import ordered_map

CHUNK = 60_000
"""Rows handled at once: operations long enough for threads to share the interpreter."""

KEPT = 400_000
"""Rows times problems whose interpolation weights are kept between calls, 40 MB."""

GROUP = 64
"""Problems whose sums at all requested bandwidths are held at once."""

FAINT = 1e-9
"""Samples below which a sum is the rounding of none."""

STACKS = 32
"""Sets of problems whose interpolation weights are kept."""

FEW_POINTS = 5_000
"""Points whose interpolation weights are kept for the curves of other problems."""

THREADED = 50_000
"""Rows of a problem from which threads pay: shorter operations wait for the interpreter."""


def quadrature(problem: Problem, kernel: Kernel) -> Problem:
    """The problem with its samples spread onto the kernel's nodes, one row per node and label.

    Sums over samples of smooth functions of prediction and label are sums over these rows. A
    row's weight may be slightly negative. Nodes of a label that no sample reaches are left out.
    """
    nodes, units = nodes_of(kernel), problem.units
    low, high = units[units > 0].min(), units.max()
    summed = [problem.weights] if low == high else [problem.weights, problem.weights * units]
    masses = np.zeros((len(summed), 2 * len(nodes)))  # of label 0, then of label 1
    firsts = np.zeros((2, len(nodes)), dtype=bool)
    for rows, weights, numbers in nodes.stencils(problem.predictions):
        numbers += np.where(problem.labels[rows], np.int32(len(nodes)), np.int32(0))
        firsts.ravel()[numbers[0]] = True
        for total, each in zip(masses, summed, strict=True):
            for share, place in zip(weights, numbers, strict=True):
                total += np.bincount(place, share * each[rows], len(total))
    labels, places = np.nonzero(_reached(firsts))
    weights = masses.reshape(-1, *firsts.shape)[0, labels, places]
    of_nodes = np.full_like(weights, problem.unit)
    if low < high:  # the mean weight of a sample near each node
        known = weights > ALONE * low
        squares = masses[1].reshape(firsts.shape)[labels, places]
        of_nodes[known] = np.clip(squares[known] / weights[known], low, high)
    return replace(
        problem,
        predictions=nodes.probabilities[places],
        labels=labels.astype(np.int8),
        weights=weights,
        sample_weights=of_nodes,
        known_mean_weight=problem.mean_weight,
        nodes=places,
    )


def _reached(firsts: BoolArray) -> BoolArray:
    """Nodes that a sample is spread onto, from the first of each, and one more on either side.

    Rows of rounded cells may need the neighbours.
    """
    reached = firsts.copy()
    reached[:, :-1] |= firsts[:, 1:]
    for step in range(1, STENCIL + 1):
        reached[:, step:] |= firsts[:, :-step]
    return reached


def _same_rows(one: Problem, other: Problem) -> bool:
    """Whether two problems have the same rows."""
    if one is other:
        return True
    return all(
        np.array_equal(mine, its)
        for mine, its in ((one.labels, other.labels), (one.predictions, other.predictions))
    )


def _nearest(known: Problem, p: FloatArray, labels: LabelArray) -> IntArray:
    """The row of a problem that has the same label and the nearest prediction."""
    found = np.empty(len(p), dtype=np.intp)
    for y in (0, 1):
        own, of_label = labels == y, np.flatnonzero(known.labels == y)
        order = of_label[np.argsort(known.predictions[of_label], kind="stable")]
        places = known.predictions[order]
        right = np.minimum(np.searchsorted(places, p[own]), len(places) - 1)
        left = np.maximum(right - 1, 0)
        nearer = p[own] - places[left] < places[right] - p[own]
        found[own] = order[np.where(nearer, left, right)]
    return found


def read_at(
    known: Problem, values: FloatArray, problem: Problem, rows: IntArray, kernel: Kernel
) -> FloatArray:
    """Values ``(n, c)`` of the rows that a problem was condensed to, at rows of the problem.

    Those of nodes are interpolated between the nodes of a row's own label; those of a few cells
    are of the nearest cell of its label.
    """
    if known.nodes is None and _same_rows(known, problem):
        return values[rows]
    if known.nodes is None:
        return values[_nearest(known, problem.predictions[rows], problem.labels[rows])]
    nodes = nodes_of(kernel)
    at_nodes = np.zeros((2, len(nodes), values.shape[1]))
    at_nodes[known.labels, known.nodes] = values
    found = np.empty((len(rows), values.shape[1]))
    labels, p = problem.labels[rows], problem.predictions[rows]
    for y in (0, 1):
        own = np.flatnonzero(labels == y)
        found[own] = nodes.weights(p[own]) @ at_nodes[y]
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
        self._stacks: dict[tuple[int, ...], Stack] = {}
        self._keeps = sum(len(problem.labels) for problem in problems) <= KEPT
        # Of large groups, rows come problem by problem: few need to be in order at once.
        self._neighbours = lru_cache(maxsize=len(problems) if self._keeps else 4)(self._in_order)
        self._totals = [float(problem.weights.sum()) for problem in problems]

    def _in_order(self, number: int, flattening: float) -> Neighbours:
        return Neighbours(flattened(self._problems[number], flattening), self._kernel)

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
        problem = self._problems[number]
        masses = np.zeros((len(self._nodes), columns.shape[1]))
        if problem.nodes is not None:
            for y in (0, 1):  # a node is a row of each label at most
                own = problem.labels == y
                masses[problem.nodes[own]] += columns[own]
            return masses
        for start in range(0, len(columns), CHUNK):
            rows = slice(start, start + CHUNK) if len(columns) > CHUNK else slice(None)
            masses += self._interpolation(number, rows).T @ columns[rows]
        return masses

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

    def _stack(self, numbers: tuple[int, ...]) -> Stack:
        if numbers not in self._stacks:
            if len(self._stacks) >= STACKS:
                self._stacks.pop(next(iter(self._stacks)))
            problems = [self._problems[k] for k in numbers]
            self._stacks[numbers] = Stack(problems, self._kernel, keep=self._keeps)
        return self._stacks[numbers]

    def averages(
        self,
        values: Mapping[int, FloatArray],
        tunings: Sequence[Tuning],
        rows: IntArray | None = None,
    ) -> Iterator[dict[int, FloatArray]]:
        """See `Smoother.averages`."""
        stack, joined = self._stack(tuple(values)), np.concatenate(list(values.values()))
        resolved = [t for t in tunings if t.bandwidth >= resolution_of(self._kernel)]
        by_nodes = stack.averages(joined, resolved)
        for tuning in tunings:
            if tuning.bandwidth < resolution_of(self._kernel):
                dense = DenseSmoother(self._problems, self._kernel)
                found = next(dense.averages(values, [tuning]))
            else:
                found = dict(zip(values, stack.split(next(by_nodes)), strict=True))
            yield found if rows is None else {k: own[rows] for k, own in found.items()}

    def with_squares(
        self, values: Mapping[int, FloatArray], tuning: Tuning
    ) -> dict[int, tuple[FloatArray, FloatArray]]:
        """See `Smoother.with_squares`."""
        if tuning.bandwidth < resolution_of(self._kernel):
            return DenseSmoother(self._problems, self._kernel).with_squares(values, tuning)
        stack = self._stack(tuple(values))
        means, squares = stack.with_squares(np.concatenate(list(values.values())), tuning)
        both = zip(stack.split(means), stack.split(squares), strict=True)
        return dict(zip(values, both, strict=True))

    def each_with_squares(
        self, values: Mapping[int, FloatArray], tunings: Sequence[Tuning], slow: int = 0
    ) -> Iterator[tuple[Tuning, dict[int, tuple[FloatArray, FloatArray]]]]:
        """See `Smoother.each_with_squares`; nodes are few, and none is left out."""
        for tuning in tunings:
            yield tuning, self.with_squares(values, tuning)

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
        to_points = weights_at(self._kernel, points[:, 1])
        at_points = to_points @ kernel_sums(self._kernel, tuning, self._spread(number, weighted))
        x = tempered(points, tuning.flattening)
        log_own = self._kernel.log_peak(x, tuning.bandwidth) + np.log(problem.unit)
        faint = FAINT * np.exp(log_own)  # far from all samples sums are rounding
        total = np.maximum(at_points[:, -1], faint)
        rest = np.maximum(at_points[:, -1], ALONE * np.exp(log_own))

        def log_squares() -> FloatArray:
            masses = self._spread(number, (problem.weights * problem.units)[:, None])
            sums = to_points @ kernel_sums(self._kernel, tuning, masses, squared=True)
            found: FloatArray = np.log(np.maximum(sums[:, 0], faint**2))
            return found

        support = support_of(np.log(total), log_squares, log_own, problem, tuning, points, x)
        return at_points[:, :-1] / rest[:, None], support


def weights_at(kernel: Kernel, p: FloatArray) -> csr_array:
    """Interpolation weights at probabilities p ``(m,)``; those of a few points are kept.

    The curves of many problems are asked for at the same points.
    """
    if len(p) > FEW_POINTS:
        return nodes_of(kernel).weights(p)
    return _kept_weights(kernel, np.asarray(p, dtype=np.float64).tobytes())


@lru_cache(maxsize=8)
def _kept_weights(kernel: Kernel, p: bytes) -> csr_array:
    return nodes_of(kernel).weights(np.frombuffer(p))
