"""Kernel averages over samples that are no longer there: their masses were gathered in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from riskalign.data.sample import Problem, on_simplex
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.kernels import Kernel
from riskalign.smoothing.contract import Average, Reader, Request, T, Values
from riskalign.smoothing.grid import CHUNK, without_own
from riskalign.smoothing.masses import MassTable, own_kernel
from riskalign.smoothing.nodes import Nodes, nodes_at
from riskalign.smoothing.squared import SquaredKernel
from riskalign.smoothing.threads import ordered_map

FAINT = 1e-9
"""Samples below which a mass is the rounding of one taken out, or of none."""

ROUGH_ROWS = 500
"""Isolated rows whose sums over all nodes are held at once."""


@dataclass(frozen=True)
class Gathered:
    """Samples of one problem as masses on nodes, one column a label.

    Attributes
    ----------
    smooth : (M, 2), spread by polynomials: sums at any bandwidth the nodes resolve
    rough : (M, 2), spread over two nodes: none is negative, so that sums of far and faint
        neighbours keep their sign
    n : number of samples
    """

    kernel: Kernel
    smooth: FloatArray
    rough: FloatArray
    n: int

    @classmethod
    def empty(cls, kernel: Kernel) -> Gathered:
        """No samples."""
        shape = (len(_nodes(kernel)), 2)
        return cls(kernel, np.zeros(shape), np.zeros(shape), 0)

    def add(self, p: FloatArray, labels: LabelArray) -> Gathered:
        """The masses with samples at p ``(b,)``, of labels 0 and 1, added."""
        nodes = _nodes(self.kernel)
        of_label = np.stack([labels == 0, labels == 1], axis=1).astype(np.float64)
        smooth = self.smooth + nodes.weights(p).T @ of_label
        return Gathered(self.kernel, smooth, self.rough + _hats(nodes, p, labels), self.n + len(p))

    @property
    def points(self) -> FloatArray:
        """The nodes, ``(M, 2)``."""
        return _nodes(self.kernel).points


def _nodes(kernel: Kernel) -> Nodes:
    return nodes_at(kernel, kernel.bandwidth_range(2)[0])


def _between(nodes: Nodes, p: FloatArray) -> tuple[IntArray, FloatArray]:
    """The node left of each p, and the share of the way to the next."""
    x = nodes.points[:, 1]
    left = np.clip(np.searchsorted(x, p, side="right") - 1, 0, len(x) - 2)
    return left, np.clip((p - x[left]) / (x[left + 1] - x[left]), 0.0, 1.0)


def _hats(nodes: Nodes, p: FloatArray, labels: LabelArray) -> FloatArray:
    """Masses by straight lines between neighbouring nodes, ``(M, 2)``."""
    x = nodes.points[:, 1]
    left, share = _between(nodes, p)
    masses = np.zeros((len(x), 2))
    for y in (0, 1):
        rows = labels == y
        masses[:, y] += np.bincount(left[rows], 1 - share[rows], len(x))
        masses[:, y] += np.bincount(left[rows] + 1, share[rows], len(x))
    return masses


class GatheredSmoother:
    """The contract of `Smoother` for some rows, over all gathered samples.

    Parameters
    ----------
    held : the rows at hand, each of which is among the gathered samples
    gathered : all samples, one entry a problem
    values : what is averaged, of the rows at hand
    at_nodes : the same at the nodes, for label 0 and label 1, ``(M, d)`` each
    squared : whether weights are squared
    """

    search_rows = 5_000

    def __init__(
        self,
        held: Sequence[Problem],
        gathered: Sequence[Gathered],
        values: Values,
        at_nodes: Sequence[tuple[FloatArray, FloatArray]],
        *,
        squared: bool = False,
    ) -> None:
        self._held = held
        self._gathered = gathered
        self._values = values
        self._at_nodes = at_nodes
        kernel = gathered[0].kernel
        resolution = kernel.bandwidth_range(2)[0]
        # Nodes that resolve a kernel resolve its square from twice that bandwidth up.
        self._kernel = SquaredKernel(kernel) if squared else kernel
        self._resolution = 2 * resolution if squared else resolution
        self._faint = FAINT**2 if squared else FAINT
        self._sums: dict[Request, FloatArray] = {}

    def holding(self, held: Sequence[Problem]) -> GatheredSmoother:
        """The same samples with other rows at hand."""
        squared = isinstance(self._kernel, SquaredKernel)
        other = GatheredSmoother(
            held, self._gathered, self._values, self._at_nodes, squared=squared
        )
        other._sums = self._sums
        return other

    def each(
        self,
        requests: Sequence[Request],
        reader: Reader[T],
        rows: IntArray | None = None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`."""
        self._prepare(requests)
        tasks = []
        for i, (number, _) in enumerate(requests):
            every = np.arange(len(self._held[number].labels)) if rows is None else rows
            tasks += [(i, every[a : a + CHUNK]) for a in range(0, len(every), CHUNK)]

        def chunk(task: tuple[int, IntArray]) -> T:
            i, own = task
            return reader(requests[i][0], own)(self._leave_out(requests[i], own))

        for (i, own), result in zip(tasks, ordered_map(chunk, tasks), strict=True):
            yield i, own, result

    def _masses(self, number: int, *, rough: bool) -> FloatArray:
        """Values and, last, ones, spread over the nodes, ``(M, d+1)``."""
        gathered = self._gathered[number]
        of_label = gathered.rough if rough else gathered.smooth
        parts = [
            of_label[:, y, None] * np.column_stack([values, np.ones(len(values))])
            for y, values in enumerate(self._at_nodes[number])
        ]
        return parts[0] + parts[1]

    def _prepare(self, requests: Sequence[Request]) -> None:
        """Kernel sums and the own kernel at the nodes, (d+2, M), of requests not seen before."""
        by_bandwidth: dict[float, list[int]] = {}
        for number, h in dict.fromkeys(requests):
            if (number, h) not in self._sums:
                by_bandwidth.setdefault(h, []).append(number)

        def sums(h: float) -> list[FloatArray]:
            masses = [self._masses(number, rough=False) for number in by_bandwidth[h]]
            table = MassTable(self._kernel, self._resolution, np.concatenate(masses, axis=1))
            own = own_kernel(self._kernel, self._resolution, h)
            parts = np.split(table.sums(h).T, len(masses))
            return [np.concatenate([part, own[None]]) for part in parts]

        bandwidths = list(by_bandwidth)
        for h, parts in zip(bandwidths, ordered_map(sums, bandwidths), strict=True):
            for number, part in zip(by_bandwidth[h], parts, strict=True):
                self._sums[number, h] = part

    def _leave_out(self, request: Request, rows: IntArray) -> Average:
        """Interpolated sums without each row's own term; isolated rows from rough masses."""
        number, h = request
        held, n = self._held[number].take(rows), self._gathered[number].n
        values = self._values(held)
        columns = np.concatenate([values.T, np.ones((1, len(rows)))])
        weights = nodes_at(self._kernel, self._resolution).weights(held.predictions)
        sums, total, isolated = without_own(weights, self._sums[request], columns, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # isolated rows are replaced
            mean, log_sum = (sums / total).T, np.log(total)
        if isolated.any():
            alone = np.flatnonzero(isolated)
            masses = self._masses(number, rough=True)
            for first in range(0, len(alone), ROUGH_ROWS):
                some = alone[first : first + ROUGH_ROWS]
                mean[some], log_sum[some] = self._rough(h, held.take(some), values[some], masses)
        return Average(mean, lambda: log_sum - np.log(n - 1))

    def _rough(
        self, h: float, rows: Problem, values: FloatArray, masses: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Averages and logarithms of sums over the nodes' rough masses, each row's own left out."""
        nodes = nodes_at(self._kernel, self._resolution)
        x, kernel = nodes.points, self._kernel
        queries = on_simplex(rows.predictions)
        scores = kernel.scale(h) * kernel.queries(queries) @ x.T + kernel.key_bias(x, h)
        count = np.tile(masses[:, -1], (len(values), 1))  # (b, M)
        left, share = _between(nodes, rows.predictions)
        every = np.arange(len(values))
        count[every, left] -= 1 - share
        count[every, left + 1] -= share
        count[count < FAINT] = 0.0  # what is left of a row's own mass is rounding
        with np.errstate(divide="ignore"):
            scores += np.log(count)
        top = scores.max(axis=1, keepdims=True)
        terms = np.exp(scores - top)
        total = terms.sum(axis=1)
        # A node's value is the mean of its samples', the row's own taken out.
        with np.errstate(divide="ignore", invalid="ignore"):
            per_node = np.tile(masses[:, :-1], (len(values), 1, 1))  # (b, M, d)
            per_node[every, left] -= (1 - share)[:, None] * values
            per_node[every, left + 1] -= share[:, None] * values
            averages = np.where(count[:, :, None] > 0, per_node / count[:, :, None], 0.0)
        mean = np.einsum("bm,bmd->bd", terms, averages) / total[:, None]
        return mean, top[:, 0] + np.log(total) + kernel.query_bias(queries, h)

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`."""
        number, _ = request
        self._prepare([request])
        weights = nodes_at(self._kernel, self._resolution).weights(points[:, 1])
        *sums, total, own = (weights @ column for column in self._sums[request])
        # Far from all samples sums are rounding: as if a faint sample lay at the point.
        total = np.maximum(total, self._faint * own)
        mean = (np.reshape(sums, (-1, len(points))) / total).T  # (m, d), of no value too
        return Average(mean, lambda: np.log(total) - np.log(self._gathered[number].n))
