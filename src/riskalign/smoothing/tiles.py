"""Tiles of pairs: scores by one product, weights by one exponential, sums of values.

With q the kernel's features of a query and c a centre,

    score = scale(h) <q, c> + bias_c,    weight = exp(score).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.smoothing.families import SMALLEST, Bandwidth, Chain, Family, Step, make_families
from riskalign.smoothing.operator import Average
from riskalign.smoothing.sums import (
    ColumnSums,
    Floats,
    LabelSums,
    Order,
    Sums,
    by_class,
    labels_in,
    spaced,
)
from riskalign.smoothing.threads import n_threads, ordered_map

TILE = 600_000
"""Pairs in a tile: its scores stay in cache."""

BLOCK = 10_000_000
"""Pairs of the rows that a thread takes at once, at up to `FEW` bandwidths: what it does with a
tile is little more than products and exponentials, because threads that call often wait for
each other."""

FEW = 4
"""Bandwidths whose sums of a block take little memory; with more, blocks are smaller."""

MILD = 5.0
"""Largest scale, 1/h, at which scores are small enough for products in float32: where a few
far-off samples decide it, R errs by up to 4e-6 with ten classes, by 3e-5 with hundreds."""

SOME = 1_250
"""Centres that stand for all, about, in averages of slopes: single averages may be those of farther
centres, but the error hardly depends on them (`experiments/results/slopes.md`)."""

BIAS_CHUNK = 50_000
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
        *,
        squares: bool = False,
        slow: int = 0,
    ) -> None:
        self.points = problem.points  # (n, K)
        self._squares = squares
        self._kernel = kernel
        self._dtype = np.dtype(dtype)
        self._samples = problem.weights
        self._units = problem.units
        self._values = values
        self._total = problem.weights.sum()
        order = self._arrange(values, slow)
        self._place = np.full(len(values), -1)  # of each sample among the centres
        self._place[order.samples[order.places]] = order.places
        self._centres = self.points[order.samples]
        sums = self._centres.sum(axis=1)  # rows may sum to a little less or more than one
        self._least_sum = min(float(sums.min(initial=1.0)), 1.0)
        self._largest_sum = max(float(sums.max(initial=1.0)), 1.0)
        log_weights = np.log(self._samples[order.samples])
        self._bandwidths = list(self._make_bandwidths(bandwidths, log_weights))
        families = make_families(self._bandwidths, squared=squares)
        self._families = [family.silencing(order.filling) for family in families]
        factors = {
            step.position: step.factors(self._dtype)
            for family in self._families
            for step in family.steps
        }
        self._tilted = {
            i: self._sums if own is None else self._sums.times(own) for i, own in factors.items()
        }
        self._keys = self._make_keys()
        self._buffers = threading.local()

    def _arrange(self, values: FloatArray, slow: int) -> Order:
        """The order of the centres, in which values are summed; the last `slow` vary slowly."""
        samples = np.flatnonzero(self._samples > 0)  # a sample of weight 0 is no centre
        labels = None if self._squares else labels_in(values)
        self._sums: Sums
        if labels is None:
            some, rest = spaced(samples, SOME) if slow else (samples, samples[:0])
            if len(rest):
                samples = np.concatenate([some, rest])
            fast = values.shape[1] - slow if len(rest) else values.shape[1]
            shares = self._units[samples] / self._samples[samples] if self._squares else None
            slowly = values[some, fast:] if len(rest) else None
            self._sums = ColumnSums(values[samples, :fast], self._dtype, shares, slowly)
            return Order(samples, np.arange(len(samples)))
        order = by_class(labels, samples)
        ascending = labels[order.samples]
        self._sums = LabelSums(ascending, values.shape[1], order.part, self._dtype)
        return order

    def _make_bandwidths(
        self, bandwidths: Sequence[float], log_weights: FloatArray
    ) -> Iterator[Bandwidth]:
        largest = max(0.0, float(self._kernel.queries(self.points.max(axis=0)[None]).max()))
        largest *= self._largest_sum
        for h, bias in zip(bandwidths, self._biases(bandwidths), strict=True):
            scale = self._kernel.scale(h)
            bias += log_weights
            shift = float(bias.max()) + scale * largest
            precision = self._dtype if scale <= MILD else np.float64
            yield Bandwidth(h, scale, (bias - shift).astype(precision, copy=False), shift)

    def _biases(self, bandwidths: Sequence[float]) -> FloatArray:
        """The kernel's bias of every centre, one row per bandwidth."""
        step = max(1, BIAS_CHUNK // self._centres.shape[1])
        tasks = [(h, a) for h in bandwidths for a in range(0, len(self._centres), step)]

        def chunk(task: tuple[float, int]) -> FloatArray:
            h, start = task
            return self._kernel.key_bias(self._centres[start : start + step], h)

        few = len(bandwidths) * self._centres.size <= BIAS_CHUNK  # threads cost more
        parts = list(ordered_map(chunk, tasks, workers=1 if few else None))
        return np.concatenate(parts).reshape(len(bandwidths), -1)

    def _make_keys(self) -> dict[np.dtype[Any], Floats]:
        """Centres as columns ``(K, n)``, a single family's bias below them, by precision."""
        keys = self._centres.T
        if len(self._families) == 1:
            keys = np.vstack([keys, self._families[0].bias])
        precisions = {family.bias.dtype for family in self._families}
        return {each: np.ascontiguousarray(keys, each) for each in precisions}

    def split(self, rows: IntArray) -> list[IntArray]:
        """Rows in blocks of one size, as many for each core."""
        if not len(rows):
            return []
        pairs = len(rows) * len(self.points)
        blocks = -(-pairs // max(TILE, BLOCK * FEW // max(FEW, len(self._bandwidths))))
        if pairs > TILE:
            blocks += -blocks % n_threads()
        return np.array_split(rows, min(blocks, len(rows)))

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Floats:
        """A thread's own array, made once: fresh pages for each tile would cost more than it."""
        made: dict[Any, Floats] = self._buffers.__dict__  # of this thread
        key, size = (name, dtype), math.prod(shape)
        if key not in made or made[key].size < size:
            made[key] = np.empty(size, dtype)
        return made[key][:size].reshape(shape)

    def averages(self, x: FloatArray, own: IntArray | None = None) -> list[Average]:
        """Averages at x ``(b, K)``, one per bandwidth; sample own[i] is left out of row i."""
        total: float | FloatArray = self._total
        left_out = np.full(len(x), -1)
        if own is not None:
            total = self._total - self._units[own]
            left_out = self._place[own]
        queries = self._kernel.queries(x)
        least = float(queries.min())  # of a product with a centre, after its sum
        least *= self._least_sum if least > 0 else self._largest_sum
        lowest = [family.scale * least + family.least_bias for family in self._families]
        prepared = self._by_precision(queries)
        rooms = [self._sums.room(len(x)) for _ in self._bandwidths]
        tops = [np.zeros(len(x)) for _ in self._families]
        size = max(1, TILE // len(self._centres))
        for start in range(0, len(x), size):
            tile = slice(start, min(start + size, len(x)))
            leaving = np.flatnonzero(left_out[tile] >= 0)
            masked = leaving, left_out[tile][leaving]
            products: dict[np.dtype[Any], Floats] = {}
            for family, least, top in zip(self._families, lowest, tops, strict=True):
                scores = self._scores(family, prepared, tile, products)
                scores[masked] = -np.inf
                logs, least = self._relative_to_top(family, scores, least, top[tile])
                scratch = self._buffer("scratch", logs.shape, self._dtype)
                for step, weights in self._weights(family, logs, least):
                    sums = self._tilted[step.position]
                    sums.put(weights, scratch, rooms[step.position], tile)
        averages = self._read(x, total, tops, rooms)
        if own is not None and (self._samples[own] > self._units[own]).any():
            every = zip(self._bandwidths, averages, strict=True)
            return [self._with_copies(x, own, total, each.h, average) for each, average in every]
        return averages

    def _with_copies(
        self, x: FloatArray, own: IntArray, total: float | FloatArray, h: float, others: Average
    ) -> Average:
        """Averages with the equal samples that remain at a row's own place when one leaves it."""
        with np.errstate(divide="ignore"):
            copies = np.log(np.maximum(self._samples[own] - self._units[own], 0.0)) - np.log(total)
            copies += self._kernel.log_peak(x, h)
            rest = others.log_density  # -inf where there is no other row
        share = expit(copies - rest)[:, None]
        mean = np.where(share == 1.0, 0.0, others.mean)
        mean += share * (self._values[own] - mean)
        squares = others.squares
        if squares is not None:
            known = np.where(share[:, 0] == 1.0, 0.0, squares)
            each = self._units[own] / np.maximum(self._samples[own] - self._units[own], 1e-300)
            squares = known * (1 - share[:, 0]) ** 2 + share[:, 0] ** 2 * np.minimum(each, 1.0)
        return Average(mean, lambda: np.logaddexp(rest, copies), squares)

    def _read(
        self,
        x: FloatArray,
        total: float | FloatArray,
        tops: Sequence[FloatArray],
        rooms: Sequence[Floats],
    ) -> list[Average]:
        """Averages from the sums of a block and what its scores were taken relative to."""
        result: dict[int, Average] = {}
        for family, top in zip(self._families, tops, strict=True):
            for chain in family.chains:
                for power, step in chain.members:
                    sums, of_weights, squares = self._sums.read(rooms[step.position])
                    with np.errstate(invalid="ignore"):  # a lone row has no others
                        sums /= of_weights[:, None]
                        if squares is not None:
                            squares = squares / of_weights**2
                    shift = step.offset + step.power * top - power * chain.doublings * np.log(2)
                    shift -= np.log(total)
                    density = partial(self._log_density, x, step.position, of_weights, shift)
                    result[step.position] = Average(sums, density, squares)
        return [result[i] for i in range(len(self._bandwidths))]

    def _log_density(
        self, x: FloatArray, position: int, weight: FloatArray, shift: FloatArray
    ) -> FloatArray:
        bandwidth = self._bandwidths[position]
        query_bias = self._kernel.query_bias(x, bandwidth.h)
        return np.log(weight) + shift + bandwidth.shift + query_bias

    def _by_precision(self, queries: FloatArray) -> dict[np.dtype[Any], Floats]:
        """Queries by precision; a single family has scale and bias inside its product."""
        if len(self._families) == 1:
            scale = self._families[0].scale
            queries = np.hstack([scale * queries, np.ones((len(queries), 1))])
        return {each: queries.astype(each, copy=False) for each in self._keys}

    def _scores(
        self,
        family: Family,
        prepared: dict[np.dtype[Any], Floats],
        tile: slice,
        products: dict[np.dtype[Any], Floats],
    ) -> Floats:
        """The scores of a tile; `products` holds those that several families share."""
        precision, shape = family.bias.dtype, (tile.stop - tile.start, len(self._centres))
        scores = self._buffer("scores", shape, precision)
        if len(self._families) == 1:
            return np.matmul(prepared[precision][tile], self._keys[precision], out=scores)
        if precision not in products:
            product = self._buffer("products", shape, precision)
            np.matmul(prepared[precision][tile], self._keys[precision], out=product)
            products[precision] = product
        np.multiply(products[precision], family.scale, out=scores)
        scores += family.bias
        return scores

    def _relative_to_top(
        self, family: Family, scores: Floats, lowest: float, top: FloatArray
    ) -> tuple[Floats, float]:
        """Scores less their row's largest, which goes into `top`, and a bound for the lowest.

        Where no weight can be subnormal, whatever the largest may be, scores stay as they are.
        """
        if family.bias.dtype == self._dtype:
            bound = min(step.power * lowest + step.least_tilt for step in family.steps)
            if self._squares:  # those of weights must not vanish either
                bound *= 2
            if bound >= SMALLEST[self._dtype.itemsize]:
                return scores, lowest
        largest = scores.max(axis=1)
        top[:] = largest
        if len(self._centres) == 1:  # a lone row has no others: its scores stay -inf
            largest = np.where(np.isneginf(largest), 0.0, largest)
        logs = self._buffer("scores", scores.shape, self._dtype)
        np.subtract(scores, largest[:, None], out=logs, casting="same_kind")
        return logs, lowest - float(largest.max())

    def _weights(
        self, family: Family, logs: Floats, lowest: float
    ) -> Iterator[tuple[Step, Floats]]:
        """Weights of every bandwidth of a family, without their factors.

        No score in `logs` is below `lowest`, but those of left-out samples and silent centres.
        Each array is overwritten by the next.
        """
        for chain in family.chains:
            last = chain is family.chains[-1]
            base = logs if last else self._buffer("base", logs.shape, self._dtype)
            scores = logs if chain.power == 1.0 else np.multiply(logs, chain.power, out=base)
            smallest = chain.smallest(self._dtype)
            if chain.power * lowest < smallest:
                scores = np.clip(scores, smallest, np.inf, out=base)  # faster than a maximum
            np.exp(scores, out=base)
            if chain.doublings:
                base *= 2.0**chain.doublings
            yield from self._powers(chain, base)

    def _powers(self, chain: Chain, base: Floats) -> Iterator[tuple[Step, Floats]]:
        """Powers of the base, each the one before times itself or the base."""
        raised = self._buffer("raised", base.shape, base.dtype)
        weights, power = base, 1
        for wanted, step in chain.members:
            while power < wanted:
                doubled = wanted >= 2 * power
                weights = np.multiply(weights, weights if doubled else base, out=raised)
                power = 2 * power if doubled else power + 1
            yield step, weights
