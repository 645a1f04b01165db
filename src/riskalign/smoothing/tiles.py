"""A tile of pairs: scores by one product, weights by one exponential, sums of values.

With q the kernel's features of a query and c a centre,

    score = scale(h) <q, c> + bias_c,    weight = exp(score).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average
from riskalign.smoothing.families import POWERS, Bandwidth, Head, make_families
from riskalign.smoothing.sums import Floats, labels_in, of_columns, of_labels
from riskalign.smoothing.threads import ordered_map

TILE = 500_000
"""Pairs in a tile: its scores stay in the last-level cache."""

SMALLEST = {4: -85.0, 8: -700.0}
"""Scores, by bytes of a float, below which a weight counts as that small, e-37 of the row's
largest: the exponentials beyond are subnormal, and ten times slower."""

MILD = 5.0
"""Largest scale, 1/h, at which scores are small enough for products in float32: R still errs by
less than 1e-6 where a few far-off samples decide it."""

BIAS_CHUNK = 1_000_000
"""Entries of the keys whose log-gammas are computed at once."""


class Centres:
    """The centres of one problem at some bandwidths, ready for tiles of queries."""

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel,
        values: FloatArray,
        bandwidths: Sequence[float],
        dtype: npt.DTypeLike,
    ) -> None:
        self.points = problem.points  # (n, K)
        self._kernel = kernel
        self._dtype = np.dtype(dtype)
        self._samples = problem.weights
        self._total = problem.weights.sum()
        labels = labels_in(values)
        order = np.arange(len(values)) if labels is None else np.argsort(labels, kind="stable")
        order = order[problem.weights[order] > 0]  # a sample of weight 0 is no centre
        self._place = np.full(len(values), -1)  # of each sample among the centres
        self._place[order] = np.arange(len(order))
        self._centres = self.points[order]
        if labels is None:
            self._sums = of_columns(values[order], self._dtype)
        else:
            self._sums = of_labels(labels[order], values.shape[1])
        self._bandwidths = list(self._prepared(bandwidths, np.log(problem.weights[order])))
        self._families = make_families(self._bandwidths, self._dtype)
        self._keys = self._make_keys()
        self._buffers = threading.local()

    def _prepared(
        self, bandwidths: Sequence[float], log_weights: FloatArray
    ) -> Iterator[Bandwidth]:
        largest = max(0.0, float(self._kernel.queries(self.points).max()))
        for h, bias in zip(bandwidths, ordered_map(self._bias, bandwidths), strict=True):
            scale = self._kernel.scale(h)
            bias += log_weights
            shift = float(bias.max()) + scale * largest
            precision = self._dtype if scale <= MILD else np.float64
            yield Bandwidth(h, scale, (bias - shift).astype(precision, copy=False), shift)

    def _bias(self, h: float) -> FloatArray:
        step = max(1, BIAS_CHUNK // self._centres.shape[1])
        parts = [
            self._kernel.key_bias(self._centres[start : start + step], h)
            for start in range(0, len(self._centres), step)
        ]
        return np.concatenate(parts)

    def _make_keys(self) -> dict[np.dtype[Any], Floats]:
        """Centres as columns ``(K, n)``, a single family's bias below them, by precision."""
        keys = self._centres.T
        if len(self._families) == 1:
            keys = np.vstack([keys, self._bandwidths[self._families[0][0].step.position].bias])
        firsts = {self._bandwidths[heads[0].step.position].bias.dtype for heads in self._families}
        return {each: np.ascontiguousarray(keys, each) for each in firsts}

    def split(self, rows: IntArray) -> list[IntArray]:
        """Rows in tiles."""
        step = max(1, TILE // len(self.points))
        return [rows[start : start + step] for start in range(0, len(rows), step)]

    def _buffer(self, name: str, shape: tuple[int, int], dtype: npt.DTypeLike) -> Floats:
        """A thread's own array, made once: fresh pages for each tile would cost more than it."""
        made: dict[Any, Floats] = self._buffers.__dict__  # of this thread
        key, size = (name, dtype), shape[0] * shape[1]
        if key not in made or made[key].size < size:
            made[key] = np.empty(size, dtype)
        return made[key][:size].reshape(shape)

    def averages(self, x: FloatArray, own: IntArray | None = None) -> list[Average]:
        """Averages at x ``(b, K)``, one per bandwidth; sample own[i] is left out of row i."""
        shape = (len(x), len(self._centres))
        queries = self._kernel.queries(x)
        scores_at = self._scores(queries, shape)
        total, masked = self._total, None
        if own is not None:
            total = self._total - self._samples[own]
            rows = np.flatnonzero(self._place[own] >= 0)
            masked = rows, self._place[own[rows]]
        result: dict[int, Average] = {}
        for heads in self._families:
            first = self._bandwidths[heads[0].step.position]
            scores = scores_at(first)
            if masked is not None:
                scores[masked] = -np.inf
            lowest = first.scale * float(queries.min()) + float(first.bias.min())
            logs, top = self._relative_to_top(scores, self._is_safe(heads, lowest))
            if top is not None:
                lowest -= float(top.max())
            for position, power, offset, weights in self._weights(heads, logs, lowest):
                sums, of_weights = self._sums(weights)
                mean_weight = of_weights / total
                sums /= of_weights[:, None]
                shift = offset if top is None else offset + power * top
                logarithm = partial(self._log_density, x, position, mean_weight, shift)
                result[position] = Average(sums, logarithm)
        return [result[i] for i in range(len(self._bandwidths))]

    def _log_density(
        self, x: FloatArray, position: int, mean_weight: FloatArray, shift: float | FloatArray
    ) -> FloatArray:
        bandwidth = self._bandwidths[position]
        query_bias = self._kernel.query_bias(x, bandwidth.h)
        return np.log(mean_weight) + shift + bandwidth.shift + query_bias

    def _scores(self, queries: FloatArray, shape: tuple[int, int]) -> Callable[[Bandwidth], Floats]:
        """How to make the scores of a tile at any of the bandwidths.

        Several families share the product; a single one has scale and bias inside it.
        """

        def at_once(bandwidth: Bandwidth) -> Floats:
            extended = np.hstack([bandwidth.scale * queries, np.ones((len(queries), 1))])
            return self._product(extended, bandwidth.bias.dtype, "scores", shape)

        @lru_cache(maxsize=2)
        def shared(precision: np.dtype[Any]) -> Floats:
            return self._product(queries, precision, "products", shape)

        def from_shared(bandwidth: Bandwidth) -> Floats:
            precision = bandwidth.bias.dtype
            scores = self._buffer("scores", shape, precision)
            np.multiply(shared(precision), bandwidth.scale, out=scores)
            scores += bandwidth.bias
            return scores

        return at_once if len(self._families) == 1 else from_shared

    def _product(
        self, queries: FloatArray, precision: np.dtype[Any], name: str, shape: tuple[int, int]
    ) -> Floats:
        out = self._buffer(name, shape, precision)
        return np.matmul(queries.astype(precision, copy=False), self._keys[precision], out=out)

    def _is_safe(self, heads: Sequence[Head], lowest: float) -> bool:
        """Whether no weight can be subnormal, whatever the row's largest may be."""
        if self._bandwidths[heads[0].step.position].bias.dtype != self._dtype:
            return False
        bounds = [head.step.lowest(lowest) for head in heads]
        for head, bound in zip(heads, bounds.copy(), strict=True):
            bounds += [step.lowest(bound) for step in head.powers]
        return min(bounds) >= SMALLEST[self._dtype.itemsize]

    def _relative_to_top(self, scores: Floats, safe: bool) -> tuple[Floats, FloatArray | None]:
        """Scores less their row's largest, and that ``(b,)``; safe scores as they are."""
        if safe:
            return scores, None
        top = scores.max(axis=1)
        logs = self._buffer("scores", (scores.shape[0], scores.shape[1]), self._dtype)
        np.subtract(scores, top[:, None], out=logs, casting="same_kind")
        return logs, top.astype(np.float64, copy=False)

    def _weights(
        self, heads: Sequence[Head], logs: Floats, lowest: float
    ) -> Iterator[tuple[int, float, float, Floats]]:
        """Weights of every bandwidth of a family; each array is overwritten by the next.

        No score in `logs` is below `lowest`, but those of left-out samples.

        Yields (position, power of the first's weights, offset of the scores, weights).
        """
        shape = (logs.shape[0], logs.shape[1])
        for number, head in enumerate(heads):
            step, last = head.step, number == len(heads) - 1
            weights = logs if last else self._buffer("weights", shape, self._dtype)
            scores = logs
            if step.power != 1.0:
                scores = np.multiply(logs, step.power, out=weights)
                scores += step.tilt
            smallest = SMALLEST[self._dtype.itemsize] / (POWERS[-1] if head.powers else 1.0)
            if step.lowest(lowest) < smallest:
                scores = np.clip(scores, smallest, 0.0, out=weights)
            np.exp(scores, out=weights)
            yield step.position, step.power, step.offset, weights
            for other in head.powers:
                raised = self._buffer("raised", shape, self._dtype)
                factor = weights if other.power == 2.0 else np.sqrt(weights, out=raised)
                np.multiply(weights, factor, out=raised)
                raised *= other.factors
                offset = other.power * step.offset + other.offset
                yield other.position, other.power * step.power, offset, raised
