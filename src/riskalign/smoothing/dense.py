"""Exact sums over all pairs, as attention: one product per tile, one exp per pair.

Queries are the kernel's features of f_i, keys the points f_j, the bias one number a key,
values whatever is averaged. The product serves all bandwidths; no n x n array is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.kernels import Kernel
from riskalign.smoothing.contract import Average, Reader, Request, T, Values
from riskalign.smoothing.threads import ordered_map
from riskalign.smoothing.tiles import Centres


class DenseSmoother:
    """Exact kernel averages.

    Parameters
    ----------
    problems, kernel, values
        The batch, the kernel, and what is averaged.
    single : bool
        Exponentials and value sums in float32. Scores stay in float64 up to the row
        maximum (but at bandwidths so wide that float32 serves them as well), so R errs by
        about 2e-7 at any bandwidth, by a few times 1e-6 where a handful of far-off or hundreds
        of equal samples decide it, at a third of the cost.
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
        reader: Reader[T],
        rows: IntArray | None = None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`; requests of one problem share their products."""
        for number in dict.fromkeys(problem for problem, _ in requests):
            wanted = [i for i, (problem, _) in enumerate(requests) if problem == number]
            centres = Centres(
                self._problems[number],
                self._kernel,
                self._values(self._problems[number]),
                [requests[i][1] for i in wanted],
                self._dtype,
            )
            every = np.arange(len(centres.points)) if rows is None else rows

            def block(own: IntArray, centres: Centres = centres, number: int = number) -> list[T]:
                return list(map(reader(number, own), centres.averages(centres.points[own], own)))

            blocks = centres.split(every)
            for own, results in zip(blocks, ordered_map(block, blocks), strict=True):
                for i, result in zip(wanted, results, strict=True):
                    yield i, own, result

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`."""
        number, bandwidth = request
        problem = self._problems[number]
        values = self._values(problem)
        centres = Centres(problem, self._kernel, values, [bandwidth], self._dtype)
        blocks = centres.split(np.arange(len(points)))
        return concatenate(ordered_map(lambda rows: centres.averages(points[rows])[0], blocks))


def exact_rows(
    problem: Problem, kernel: Kernel, values: FloatArray, bandwidth: float, rows: IntArray
) -> Average:
    """Leave-one-out averages of a few rows, in float64, on the calling thread."""
    centres = Centres(problem, kernel, values, [bandwidth], np.float64)
    return concatenate(centres.averages(centres.points[own], own)[0] for own in centres.split(rows))


def concatenate(parts: Iterable[Average]) -> Average:
    """Averages of consecutive blocks as one."""
    every = list(parts)
    return Average(
        np.concatenate([part.mean for part in every]),
        lambda: np.concatenate([part.log_density for part in every]),
    )
