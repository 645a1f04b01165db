"""Exact sums over all pairs, as attention: one product per tile, one exp per pair.

Queries are the kernel's features of f_i, keys the points f_j, the bias one number a key,
values whatever is averaged. The product serves all bandwidths; no n x n array is held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average, Request, T, Values
from riskalign.smoothing.threads import ordered_map

TILE = 500_000
"""Pairs in a tile: the scores, 4 MB, stay in the last-level cache."""

POWERS = (0.5, 0.75, 1.5, 2.0)
"""Powers of a weight that cost less than an exponential."""

TILT_RANGE = 60.0
"""Spread, in nats, of a factor per centre that a float32 sum bears beside its weights."""

BIAS_CHUNK = 1_000_000
"""Entries of the keys whose log-gammas are computed at once."""


class DenseSmoother:
    """Exact kernel averages.

    Parameters
    ----------
    problems, kernel, values
        The batch, the kernel, and what is averaged.
    single : bool
        Exponentials and value sums in float32. Scores stay in float64 up to the row
        maximum, so R errs by about 2e-7 at any bandwidth (1e-6 where predictions are very
        peaked), at a third of the cost.
    """

    search_rows = 512

    def __init__(
        self, problems: Sequence[Problem], kernel: Kernel, values: Values, *, single: bool = False
    ) -> None:
        self._problems = problems
        self._kernel = kernel
        self._values = values
        self._dtype: npt.DTypeLike = np.float32 if single else np.float64

    def each(
        self,
        requests: Sequence[Request],
        function: Callable[[int, IntArray, Average], T],
        rows: IntArray | None = None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`; requests of one problem share their products."""
        for number in dict.fromkeys(problem for problem, _ in requests):
            wanted = [i for i, (problem, _) in enumerate(requests) if problem == number]
            centres = _Centres(
                self._problems[number],
                self._kernel,
                self._values(self._problems[number]),
                [requests[i][1] for i in wanted],
                self._dtype,
            )
            every = np.arange(centres.n) if rows is None else rows

            def tile(own: IntArray, centres: _Centres = centres, number: int = number) -> list[T]:
                averages = centres.averages(centres.points[own], own)
                return [function(number, own, average) for average in averages]

            tiles = centres.split(every)
            for own, results in zip(tiles, ordered_map(tile, tiles), strict=True):
                for i, result in zip(wanted, results, strict=True):
                    yield i, own, result

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`."""
        number, bandwidth = request
        problem = self._problems[number]
        values = self._values(problem)
        centres = _Centres(problem, self._kernel, values, [bandwidth], self._dtype)
        tiles = centres.split(np.arange(len(points)))
        return concatenate(ordered_map(lambda rows: centres.averages(points[rows])[0], tiles))


def exact_rows(
    problem: Problem, kernel: Kernel, values: FloatArray, bandwidth: float, rows: IntArray
) -> Average:
    """Leave-one-out averages of a few rows, in float64, on the calling thread."""
    centres = _Centres(problem, kernel, values, [bandwidth], np.float64)
    return concatenate(centres.averages(centres.points[own], own)[0] for own in centres.split(rows))


def concatenate(parts: Iterable[Average]) -> Average:
    """Averages of consecutive tiles as one."""
    means, log_densities = zip(*((part.mean, part.log_density) for part in parts), strict=True)
    return Average(np.concatenate(means), np.concatenate(log_densities))


@dataclass(frozen=True)
class _Member:
    """A bandwidth whose weights are a power of those of its family's first.

    weights = (first's weights)^power * exp(tilt), with one tilt a centre; the tilt is folded
    into the values, less its maximum.
    """

    position: int
    power: float
    values: npt.NDArray[np.floating]
    tilt: float


class _Centres:
    """Keys, biases and values of one problem at some bandwidths."""

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel,
        values: FloatArray,
        bandwidths: Sequence[float],
        dtype: npt.DTypeLike,
    ) -> None:
        self.points = problem.points  # (n, K)
        self.n = len(self.points)
        self._kernel = kernel
        self._weights = problem.weights
        self._bandwidths = bandwidths
        self._keys = np.ascontiguousarray(self.points.T)  # (K, n)
        with np.errstate(divide="ignore"):
            log_weights = np.log(problem.weights)  # a sample of weight 0 is no centre
        biases = ordered_map(self._bias, bandwidths)
        self._biases = [bias + log_weights for bias in biases]  # H x (n,)
        self._values = np.empty((self.n, values.shape[1] + 1), dtype)  # (n, d+1)
        self._values[:, :-1] = values
        self._values[:, -1] = 1.0
        self._total = problem.weights.sum()
        self._families = self._make_families()
        if len(self._families) == 1:
            self._keys = np.vstack([self._keys, self._biases[self._families[0][0].position]])
        self._buffers = threading.local()

    def _bias(self, h: float) -> FloatArray:
        step = max(1, BIAS_CHUNK // self.points.shape[1])
        parts = [
            self._kernel.key_bias(self.points[start : start + step], h)
            for start in range(0, self.n, step)
        ]
        return np.concatenate(parts)

    def _make_families(self) -> list[list[_Member]]:
        """Bandwidths that share exponentials: each family's first, then its powers.

        Scores are scale(h) <q, c> + bias, so where scales stand in a ratio r, weights are
        powers r of each other up to one factor a centre: a square root or a product instead
        of an exponential. In float64, which promises exact sums, each stands alone.
        """
        scales = np.array([self._kernel.scale(h) for h in self._bandwidths])
        alone = self._values.dtype == np.float64
        remaining = list(range(len(scales)))
        related = {i: {} if alone else self._powers_of(i, scales) for i in remaining}
        families = []
        while remaining:
            first = max(remaining, key=lambda i: len(related[i].keys() & set(remaining)))
            partners = {i: power for i, power in related[first].items() if i in remaining}
            family = [_Member(first, 1.0, self._values, 0.0)]
            for i, power in partners.items():
                tilt = self._tilt(first, i, power)
                top = float(tilt.max())
                scaled = self._values * np.exp(tilt - top).astype(self._values.dtype)[:, None]
                family.append(_Member(i, power, scaled, top))
            families.append(family)
            remaining = [i for i in remaining if i != first and i not in partners]
        return families

    def _powers_of(self, first: int, scales: FloatArray) -> dict[int, float]:
        """Which bandwidths are a power of the first that is cheap, and safe in float32."""
        related = {}
        for power in POWERS:
            for i in np.flatnonzero(np.abs(scales / scales[first] / power - 1) < 1e-9).tolist():
                tilt = self._tilt(first, i, power)
                if np.ptp(tilt[self._weights > 0]) < TILT_RANGE:
                    related[i] = power
        return related

    def _tilt(self, first: int, other: int, power: float) -> FloatArray:
        """What the other's log weights are beyond the first's times the power, ``(n,)``."""
        tilt = np.full(self.n, -np.inf)
        centres = self._weights > 0
        tilt[centres] = self._biases[other][centres] - power * self._biases[first][centres]
        return tilt

    def split(self, rows: IntArray) -> list[IntArray]:
        """Rows in tiles."""
        step = max(1, TILE // self.n)
        return [rows[start : start + step] for start in range(0, len(rows), step)]

    def _buffer(
        self, name: str, shape: tuple[int, int], dtype: npt.DTypeLike
    ) -> npt.NDArray[np.floating]:
        """A thread's own array, made once: fresh pages for each tile would cost more than it."""
        size = shape[0] * shape[1]
        flat = getattr(self._buffers, name, None)
        if flat is None or flat.size < size:
            flat = np.empty(size, dtype)
            setattr(self._buffers, name, flat)
        array: npt.NDArray[np.floating] = flat[:size].reshape(shape)
        return array

    def averages(self, x: FloatArray, own: IntArray | None = None) -> list[Average]:
        """Averages at x ``(b, K)``, one per bandwidth; sample own[i] is left out of row i."""
        shape = (len(x), self.n)
        scores = self._buffer("scores", shape, np.float64)
        weights = self._buffer("weights", shape, self._values.dtype)
        total = self._total if own is None else self._total - self._weights[own]
        fill_scores = self._scores(self._kernel.queries(x), shape)
        result: dict[int, Average] = {}
        for family in self._families:
            fill_scores(family[0].position, scores)
            if own is not None:
                scores[np.arange(len(own)), own] = -np.inf
            top = scores.max(axis=1, keepdims=True)  # (b, 1)
            np.subtract(scores, top, out=weights, casting="same_kind")
            np.exp(weights, out=weights)
            for member in family:
                powers = self._raised(weights, member.power)
                sums = (powers @ member.values).astype(np.float64, copy=False)  # (b, d+1)
                log_sum = member.power * top[:, 0] + np.log(sums[:, -1]) + member.tilt
                log_sum += self._kernel.query_bias(x, self._bandwidths[member.position])
                mean = sums[:, :-1] / sums[:, -1:]
                result[member.position] = Average(mean, log_sum - np.log(total))
        return [result[i] for i in range(len(self._bandwidths))]

    def _scores(
        self, queries: FloatArray, shape: tuple[int, int]
    ) -> Callable[[int, npt.NDArray[np.floating]], None]:
        """How to fill a tile with scale(h) <q_i, c_j> + bias_j, for any of the bandwidths.

        Several families share the product; a single one has scale and bias inside it.
        """
        if len(self._families) == 1:
            ones = np.ones((len(queries), 1))

            def fill_at_once(i: int, out: npt.NDArray[np.floating]) -> None:
                scaled = self._kernel.scale(self._bandwidths[i]) * queries
                np.matmul(np.hstack([scaled, ones]), self._keys, out=out)

            return fill_at_once
        products = self._buffer("products", shape, np.float64)
        np.matmul(queries, self._keys, out=products)

        def fill_from_products(i: int, out: npt.NDArray[np.floating]) -> None:
            np.multiply(products, self._kernel.scale(self._bandwidths[i]), out=out)
            out += self._biases[i]

        return fill_from_products

    def _raised(self, weights: npt.NDArray[np.floating], power: float) -> npt.NDArray[np.floating]:
        """Weights to one of the `POWERS`, by square roots and products."""
        if power == 1.0:
            return weights
        shape = (weights.shape[0], weights.shape[1])
        raised = self._buffer("raised", shape, weights.dtype)
        if power == 2.0:
            return np.multiply(weights, weights, out=raised)
        np.sqrt(weights, out=raised)
        if power == 1.5:
            raised *= weights
        elif power == 0.75:
            raised *= np.sqrt(raised, out=self._buffer("root", shape, weights.dtype))
        return raised
