"""A tile of pairs: scores by one product, weights by one exponential, sums of values.

With q the kernel's features of a query and c a centre,

    score = scale(h) <q, c> + bias_c,    weight = exp(score).

Scores of two bandwidths differ by a factor and by one number a centre, their tilt. So one
product serves all: the scores of the narrowest, less their row's largest, are small for the
pairs that matter, and those of the others are made of them in float32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average
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

TILTS = 40.0
"""Largest spread of a tilt, in nats: the largest weight of a row remains above e-17."""

PRODUCTS, PRODUCT_TILTS = (1.5, 2.0), 15.0
"""Powers of a weight that cost less than an exponential, and the largest spread of their tilt."""

BIAS_CHUNK = 1_000_000
"""Entries of the keys whose log-gammas are computed at once."""


@dataclass(frozen=True)
class _Bandwidth:
    """What the scores of a bandwidth are made of.

    Attributes
    ----------
    bias : (n,), less the shift, in the precision of the scores
    shift : keeps scores below zero
    """

    h: float
    scale: float
    bias: Floats
    shift: float


@dataclass(frozen=True)
class _Member:
    """A bandwidth whose scores are made of those of its family's first.

    score = power * (the first's score) + tilt + shift; the tilt is one number a centre, at
    least `least` and at most 0. `factors`, where given, are exp(tilt), for weights by products.
    """

    position: int
    power: float
    tilt: Floats
    factors: Floats | None
    shift: float

    @property
    def least(self) -> float:
        """The smallest tilt."""
        return float(self.tilt.min())


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
        self._families = self._make_families()
        self._keys = self._make_keys()
        self._buffers = threading.local()

    def _prepared(
        self, bandwidths: Sequence[float], log_weights: FloatArray
    ) -> Iterator[_Bandwidth]:
        largest = max(0.0, float(self._kernel.queries(self.points).max()))
        for h, bias in zip(bandwidths, ordered_map(self._bias, bandwidths), strict=True):
            scale = self._kernel.scale(h)
            bias += log_weights
            shift = float(bias.max()) + scale * largest
            precision = self._dtype if scale <= MILD else np.float64
            yield _Bandwidth(h, scale, (bias - shift).astype(precision, copy=False), shift)

    def _bias(self, h: float) -> FloatArray:
        step = max(1, BIAS_CHUNK // self._centres.shape[1])
        parts = [
            self._kernel.key_bias(self._centres[start : start + step], h)
            for start in range(0, len(self._centres), step)
        ]
        return np.concatenate(parts)

    def _make_families(self) -> list[list[_Member]]:
        """Bandwidths that share a product: the first of each family, and those made of it.

        Where all are cheap powers of the widest, that is the first. Otherwise the narrowest
        is, whose scores are exact where it matters, with those that have a small tilt to it.
        """
        narrow_first = sorted(range(len(self._bandwidths)), key=lambda i: self._bandwidths[i].h)
        widest = narrow_first[-1]
        powers = [self._relative(widest, i, PRODUCT_TILTS) for i in narrow_first[:-1]]
        family = [member for member in powers if member is not None and member.factors is not None]
        if len(family) == len(powers):
            return [[self._first(widest), *family]]
        families, remaining = [], narrow_first
        while remaining:
            first, *others = remaining
            related = [self._relative(first, i, TILTS) for i in others]
            family = [member for member in related if member is not None]
            families.append([self._first(first), *family])
            taken = {member.position for member in family}
            remaining = [i for i in others if i not in taken]
        return families

    def _first(self, position: int) -> _Member:
        none = np.zeros(1, self._dtype)
        return _Member(position, 1.0, none, None, self._bandwidths[position].shift)

    def _relative(self, first: int, position: int, limit: float) -> _Member | None:
        """A bandwidth in the family of the first, None if its tilt is too large."""
        reference, own = self._bandwidths[first], self._bandwidths[position]
        power = own.scale / reference.scale
        tilt = own.bias - power * reference.bias.astype(np.float64)
        top = float(tilt.max())
        if np.ptp(tilt) > limit:
            return None
        tilt = (tilt - top).astype(self._dtype)
        product = next((each for each in PRODUCTS if abs(power / each - 1) < 1e-9), None)
        factors = None if product is None else np.exp(tilt)
        return _Member(position, product or power, tilt, factors, own.shift + top)

    def _make_keys(self) -> dict[np.dtype[Any], Floats]:
        """Centres as columns ``(K, n)``, a single family's bias below them, by precision."""
        keys = self._centres.T
        if len(self._families) == 1:
            keys = np.vstack([keys, self._bandwidths[self._families[0][0].position].bias])
        firsts = {self._bandwidths[family[0].position].bias.dtype for family in self._families}
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
        for family in self._families:
            first = self._bandwidths[family[0].position]
            scores = scores_at(first)
            if masked is not None:
                scores[masked] = -np.inf
            lowest = first.scale * float(queries.min()) + float(first.bias.min())
            logs, top = self._relative_to_top(scores, self._is_safe(family, lowest))
            every = self._weights(family, logs, clip=top is not None)
            for member, weights in zip(family, every, strict=True):
                sums, of_weights = self._sums(weights)
                mean_weight = of_weights / total
                sums /= of_weights[:, None]
                logarithm = partial(self._log_density, x, member, mean_weight, top)
                result[member.position] = Average(sums, logarithm)
        return [result[i] for i in range(len(self._bandwidths))]

    def _log_density(
        self, x: FloatArray, member: _Member, mean_weight: FloatArray, top: FloatArray | None
    ) -> FloatArray:
        log_density: FloatArray = np.log(mean_weight)
        if top is not None:
            log_density += member.power * top
        query_bias = self._kernel.query_bias(x, self._bandwidths[member.position].h)
        return log_density + member.shift + query_bias

    def _scores(
        self, queries: FloatArray, shape: tuple[int, int]
    ) -> Callable[[_Bandwidth], Floats]:
        """How to make the scores of a tile at any of the bandwidths.

        Several families share the product; a single one has scale and bias inside it.
        """

        def at_once(bandwidth: _Bandwidth) -> Floats:
            extended = np.hstack([bandwidth.scale * queries, np.ones((len(queries), 1))])
            return self._product(extended, bandwidth.bias.dtype, "scores", shape)

        @lru_cache(maxsize=2)
        def shared(precision: np.dtype[Any]) -> Floats:
            return self._product(queries, precision, "products", shape)

        def from_shared(bandwidth: _Bandwidth) -> Floats:
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

    def _is_safe(self, family: Sequence[_Member], lowest: float) -> bool:
        """Whether no weight can be subnormal, whatever the row's largest may be."""
        smallest = min(member.power * lowest + member.least for member in family)
        precision = self._bandwidths[family[0].position].bias.dtype
        return precision == self._dtype and smallest >= SMALLEST[self._dtype.itemsize]

    def _relative_to_top(self, scores: Floats, safe: bool) -> tuple[Floats, FloatArray | None]:
        """Scores less their row's largest, and that ``(b,)``; safe scores as they are."""
        if safe:
            return scores, None
        top = scores.max(axis=1)
        logs = self._buffer("scores", (scores.shape[0], scores.shape[1]), self._dtype)
        np.subtract(scores, top[:, None], out=logs, casting="same_kind")
        return logs, top.astype(np.float64, copy=False)

    def _weights(self, family: Sequence[_Member], logs: Floats, *, clip: bool) -> Iterator[Floats]:
        """Weights of every member of a family; each array is overwritten by the next."""
        shape = (logs.shape[0], logs.shape[1])

        def exponentials(of: Floats, out: Floats, smallest: float) -> Floats:
            if clip:
                of = np.clip(of, smallest, 0.0, out=out)
            return np.exp(of, out=out)

        smallest = SMALLEST[self._dtype.itemsize]
        by_products = all(member.factors is not None for member in family[1:])
        own = logs if by_products else self._buffer("weights", shape, self._dtype)
        yield exponentials(logs, own, smallest / PRODUCTS[-1] if len(family) > 1 else smallest)
        for member in family[1:]:
            other = self._buffer("others", shape, self._dtype)
            if member.factors is None:
                np.multiply(logs, member.power, out=other)
                other += member.tilt
                yield exponentials(other, other, smallest)
                continue
            factor = own if member.power == 2.0 else np.sqrt(own, out=other)
            np.multiply(own, factor, out=other)
            other *= member.factors
            yield other
