"""A tile of pairs: scores by one product, weights by one exponential, sums of values.

With q the kernel's features of a query and c a centre,

    score = scale(h) <q, c> + bias_c,    weight = exp(score).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average
from riskalign.smoothing.families import SMALLEST, Bandwidth, Chain, Family, Step, make_families
from riskalign.smoothing.sums import Floats, labels_in, of_columns, of_labels
from riskalign.smoothing.threads import n_threads, ordered_map

TILE = 1_000_000
"""Pairs in a tile: its scores stay in the last-level cache."""

MILD = 5.0
"""Largest scale, 1/h, at which scores are small enough for products in float32: where a few
far-off samples decide it, R errs by less than 1e-6 with ten classes, by 1e-5 with hundreds."""

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
            self._sums = of_labels(labels[order], values.shape[1], self._dtype)
        self._bandwidths = list(self._prepared(bandwidths, np.log(problem.weights[order])))
        self._families = make_families(self._bandwidths)
        self._factors = {
            step.position: step.factors(self._dtype)
            for family in self._families
            for step in family.steps
        }
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
            keys = np.vstack([keys, self._families[0].bias])
        precisions = {family.bias.dtype for family in self._families}
        return {each: np.ascontiguousarray(keys, each) for each in precisions}

    def split(self, rows: IntArray) -> list[IntArray]:
        """Rows in tiles of one size, as many for each core."""
        if not len(rows):
            return []
        tiles = -(-len(rows) * len(self.points) // TILE)
        if tiles > 1:
            tiles += -tiles % n_threads()
        return np.array_split(rows, min(tiles, len(rows)))

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
        products: dict[np.dtype[Any], Floats] = {}
        total, masked = self._total, None
        if own is not None:
            total = self._total - self._samples[own]
            rows = np.flatnonzero(self._place[own] >= 0)
            masked = rows, self._place[own[rows]]
        result: dict[int, Average] = {}
        least = float(queries.min())
        for family in self._families:
            scores = self._scores(family, queries, products)
            if masked is not None:
                scores[masked] = -np.inf
            lowest = family.scale * least + family.least_bias
            logs, top = self._relative_to_top(scores, self._is_safe(family, lowest))
            if top is not None:
                lowest -= float(top.max())
            scratch = self._buffer("scratch", shape, self._dtype)
            for step, weights in self._weights(family, logs, lowest):
                sums, of_weights = self._sums(weights, self._factors[step.position], scratch)
                mean_weight = of_weights / total
                sums /= of_weights[:, None]
                shift = step.offset if top is None else step.offset + step.power * top
                logarithm = partial(self._log_density, x, step.position, mean_weight, shift)
                result[step.position] = Average(sums, logarithm)
        return [result[i] for i in range(len(self._bandwidths))]

    def _log_density(
        self, x: FloatArray, position: int, mean_weight: FloatArray, shift: float | FloatArray
    ) -> FloatArray:
        bandwidth = self._bandwidths[position]
        query_bias = self._kernel.query_bias(x, bandwidth.h)
        return np.log(mean_weight) + shift + bandwidth.shift + query_bias

    def _scores(
        self, family: Family, queries: FloatArray, products: dict[np.dtype[Any], Floats]
    ) -> Floats:
        """The scores of a tile; `products` holds those that several families share.

        A single family has scale and bias inside its product.
        """
        precision, shape = family.bias.dtype, (len(queries), len(self._centres))
        if len(self._families) == 1:
            extended = np.hstack([family.scale * queries, np.ones((len(queries), 1))])
            return self._product(extended, precision, "scores", shape)
        if precision not in products:
            products[precision] = self._product(queries, precision, "products", shape)
        scores = self._buffer("scores", shape, precision)
        np.multiply(products[precision], family.scale, out=scores)
        scores += family.bias
        return scores

    def _product(
        self, queries: FloatArray, precision: np.dtype[Any], name: str, shape: tuple[int, int]
    ) -> Floats:
        out = self._buffer(name, shape, precision)
        return np.matmul(queries.astype(precision, copy=False), self._keys[precision], out=out)

    def _is_safe(self, family: Family, lowest: float) -> bool:
        """Whether no weight can be subnormal, whatever the row's largest may be."""
        if family.bias.dtype != self._dtype:
            return False
        bound = min(step.power * lowest + step.least_tilt for step in family.steps)
        return bound >= SMALLEST[self._dtype.itemsize]

    def _relative_to_top(self, scores: Floats, safe: bool) -> tuple[Floats, FloatArray | None]:
        """Scores less their row's largest, and that ``(b,)``; safe scores as they are."""
        if safe:
            return scores, None
        top = scores.max(axis=1)
        logs = self._buffer("scores", (scores.shape[0], scores.shape[1]), self._dtype)
        np.subtract(scores, top[:, None], out=logs, casting="same_kind")
        return logs, top.astype(np.float64, copy=False)

    def _weights(
        self, family: Family, logs: Floats, lowest: float
    ) -> Iterator[tuple[Step, Floats]]:
        """Weights of every bandwidth of a family, but for their factors.

        No score in `logs` is below `lowest`, but those of left-out samples. Each array is
        overwritten by the next.
        """
        shape = (logs.shape[0], logs.shape[1])
        for chain in family.chains:
            last = chain is family.chains[-1]
            base = logs if last else self._buffer("base", shape, self._dtype)
            scores = logs if chain.power == 1.0 else np.multiply(logs, chain.power, out=base)
            smallest = SMALLEST[self._dtype.itemsize] / chain.members[-1][0]
            if chain.power * lowest < smallest:
                scores = np.maximum(scores, smallest, out=base)
            np.exp(scores, out=base)
            yield from self._powers(chain, base)

    def _powers(self, chain: Chain, base: Floats) -> Iterator[tuple[Step, Floats]]:
        """Powers of the base, each the one before times itself or the base."""
        raised = self._buffer("raised", (base.shape[0], base.shape[1]), base.dtype)
        weights, power = base, 1
        for wanted, step in chain.members:
            while power < wanted:
                doubled = wanted >= 2 * power
                weights = np.multiply(weights, weights if doubled else base, out=raised)
                power = 2 * power if doubled else power + 1
            yield step, weights
