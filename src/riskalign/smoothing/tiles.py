"""A tile of pairs: scores by one product, weights by one exponential, sums of values.

With q the kernel's features of a query and c a centre,

    score = scale(h) <q, c> + bias_c,    weight = exp(score).
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

POWERS = (0.5, 0.75)
"""Powers of a weight that cost less than an exponential, and are never subnormal."""

TILT_RANGE = 15.0
"""Spread, in nats, of a factor per centre that the root of the smallest weight, e-18, bears."""

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
    """A bandwidth whose weights are a power of those of its family's first.

    weight = (the first's weight)^power * factor * exp(shift), with one factor a centre.
    """

    position: int
    power: float
    factors: Floats | None
    shift: float


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
        """Bandwidths that share exponentials: the narrowest of a family, then its powers.

        Where scales stand in a ratio r, weights are powers r of each other up to one factor
        a centre: square roots instead of an exponential. In float64, which promises exact
        sums, each stands alone.
        """
        remaining = sorted(range(len(self._bandwidths)), key=lambda i: self._bandwidths[i].h)
        families = []
        while remaining:
            first, *others = remaining
            family = [_Member(first, 1.0, None, self._bandwidths[first].shift)]
            if self._dtype == np.float32:
                family += [member for i in others if (member := self._relative(first, i))]
            taken = {member.position for member in family}
            remaining = [i for i in others if i not in taken]
            families.append(family)
        return families

    def _relative(self, first: int, position: int) -> _Member | None:
        """A bandwidth in the family of the first, if that is cheap, and safe in float32."""
        narrow, wide = self._bandwidths[first], self._bandwidths[position]
        for power in POWERS:
            if abs(wide.scale / narrow.scale / power - 1) < 1e-9:
                tilt = wide.bias - power * narrow.bias.astype(np.float64)
                if np.ptp(tilt) < TILT_RANGE:
                    top = float(tilt.max())
                    factors = np.exp(tilt - top).astype(self._dtype)
                    return _Member(position, power, factors, wide.shift + top)
        return None

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
            lowest = first.scale * float(queries.min()) + float(first.bias.min())
            if masked is not None:
                scores[masked] = -np.inf
            weights, top = self._exponentials(scores, lowest)
            root = None if len(family) == 1 else self._root(weights, "root")
            for member in family:
                sums, of_weights = self._sums(self._of_member(member, weights, root))
                mean_weight = of_weights / total
                sums /= of_weights[:, None]
                logarithm = partial(self._log_density, x, member, mean_weight, top)
                result[member.position] = Average(sums, logarithm)
        return [result[i] for i in range(len(self._bandwidths))]

    def _log_density(
        self, x: FloatArray, member: _Member, mean_weight: FloatArray, top: FloatArray
    ) -> FloatArray:
        query_bias = self._kernel.query_bias(x, self._bandwidths[member.position].h)
        return np.log(mean_weight) + member.power * top + member.shift + query_bias

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

    def _exponentials(self, scores: Floats, lowest: float) -> tuple[Floats, FloatArray]:
        """Weights relative to exp(top), and top ``(b,)``: 0 where no score is too low for that."""
        weights = scores
        if scores.dtype != self._dtype:
            shape = (scores.shape[0], scores.shape[1])
            weights = self._buffer("weights", shape, self._dtype)
        smallest = SMALLEST[self._dtype.itemsize]
        if lowest >= smallest:
            np.exp(scores, out=weights, dtype=self._dtype, casting="same_kind")
            return weights, np.zeros(len(scores))
        top = scores.max(axis=1)
        np.subtract(scores, top[:, None], out=weights, casting="same_kind")
        np.clip(weights, smallest, 0.0, out=weights)
        np.exp(weights, out=weights)
        return weights, top.astype(np.float64, copy=False)

    def _root(self, weights: Floats, name: str) -> Floats:
        out = self._buffer(name, (weights.shape[0], weights.shape[1]), weights.dtype)
        return np.sqrt(weights, out=out)

    def _of_member(self, member: _Member, weights: Floats, root: Floats | None) -> Floats:
        """The weights of a member, from those of its family's first and their square root."""
        if member.factors is None or root is None:
            return weights
        if member.power == 0.5:
            out = self._buffer("raised", (root.shape[0], root.shape[1]), root.dtype)
            return np.multiply(root, member.factors, out=out)
        raised = self._root(root, "raised")
        raised *= root
        raised *= member.factors
        return raised
