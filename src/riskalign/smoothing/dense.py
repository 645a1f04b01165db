"""Exact sums over all pairs, as attention: one product per tile, one exp per pair.

Queries are the kernel's features of f_i, keys the points f_j, the bias one number a key,
values whatever is averaged. The product serves all bandwidths; no n x n array is held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray, IntArray
from riskalign.kernels import Kernel
from riskalign.sample import Problem
from riskalign.smoothing.contract import Average, Request, T, Values
from riskalign.smoothing.threads import ordered_map

TILE = 500_000
"""Pairs in a tile: the scores, 4 MB, stay in the last-level cache."""

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
        maximum, so R errs by about 2e-7 at any bandwidth, at a third of the cost.
    """

    search_rows = 1_000

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
        return concatenate(ordered_map(lambda rows: next(centres.averages(points[rows])), tiles))


def exact_rows(
    problem: Problem, kernel: Kernel, values: FloatArray, bandwidth: float, rows: IntArray
) -> Average:
    """Leave-one-out averages of a few rows, in float64, on the calling thread."""
    centres = _Centres(problem, kernel, values, [bandwidth], np.float64)
    return concatenate(
        next(centres.averages(centres.points[own], own)) for own in centres.split(rows)
    )


def concatenate(parts: Iterable[Average]) -> Average:
    """Averages of consecutive tiles as one."""
    means, log_densities = zip(*((part.mean, part.log_density) for part in parts), strict=True)
    return Average(np.concatenate(means), np.concatenate(log_densities))


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
        self._buffers = threading.local()

    def _bias(self, h: float) -> FloatArray:
        step = max(1, BIAS_CHUNK // self.points.shape[1])
        parts = [
            self._kernel.key_bias(self.points[start : start + step], h)
            for start in range(0, self.n, step)
        ]
        return np.concatenate(parts)

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

    def averages(self, x: FloatArray, own: IntArray | None = None) -> Iterator[Average]:
        """Averages at x ``(b, K)``, one per bandwidth; sample own[i] is left out of row i."""
        shape = (len(x), self.n)
        products = self._buffer("products", shape, np.float64)
        scores = self._buffer("scores", shape, np.float64)
        weights = self._buffer("weights", shape, self._values.dtype)
        total = self._total if own is None else self._total - self._weights[own]
        np.matmul(self._kernel.queries(x), self._keys, out=products)  # <q_i, c_j>
        for h, bias in zip(self._bandwidths, self._biases, strict=True):
            np.multiply(products, self._kernel.scale(h), out=scores)
            scores += bias
            if own is not None:
                scores[np.arange(len(own)), own] = -np.inf
            top = scores.max(axis=1, keepdims=True)  # (b, 1)
            np.subtract(scores, top, out=weights, casting="same_kind")
            np.exp(weights, out=weights)
            sums = (weights @ self._values).astype(np.float64, copy=False)  # (b, d+1)
            log_sum = top[:, 0] + np.log(sums[:, -1]) + self._kernel.query_bias(x, h)
            yield Average(sums[:, :-1] / sums[:, -1:], log_sum - np.log(total))
