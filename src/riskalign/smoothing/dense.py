"""Exact sums over all pairs, as attention: one product per tile, one exponential per pair.

Queries are the kernel's features of f_i, keys the points f_j, the bias one number per key,
values whatever is averaged. The product serves all bandwidths; no n x n array is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from riskalign.equations.arrays import FloatArray, IntArray, floored_log, row_sum
from riskalign.equations.kernels import Kernel, SquaredKernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import tempered
from riskalign.smoothing.operator import (
    Average,
    Reader,
    Request,
    Support,
    T,
    Tuning,
    lone_weights,
    shrunk,
)
from riskalign.smoothing.threads import ordered_map
from riskalign.smoothing.tiles import Centres

OFFSET = 1.0
"""Added to values while they are summed: sums of one sign lose nothing to cancellation."""

HELD = 20_000_000
"""Averages of several bandwidths that are held at once."""

SEEN = 16
"""Rows that are compared first, where columns may be equal."""


class DenseSmoother:
    """Exact kernel averages; see `Smoother`.

    Parameters
    ----------
    problems, kernel
        The group and the kernel.
    single : bool
        Exponentials and value sums in float32. Scores stay in float64 up to the row
        maximum (but at bandwidths so wide that float32 serves them as well), so R errs by
        about 2e-7 at any bandwidth, by a few times 1e-6 where a handful of far-off or hundreds
        of equal samples decide it, at a third of the cost.
    """

    search_rows = 512

    def __init__(
        self, problems: Sequence[Problem], kernel: Kernel, *, single: bool = False
    ) -> None:
        self._problems = problems
        self._kernel = kernel
        self._dtype: npt.DTypeLike = np.float32 if single else np.float64

    def each(
        self, requests: Sequence[Request], reader: Reader[T], rows: IntArray | None = None
    ) -> Iterator[tuple[int, IntArray, T]]:
        """See `Smoother.each`; requests of one problem share their products."""
        groups = dict.fromkeys((number, tuning.flattening) for number, tuning in requests)
        for number, flattening in groups:
            wanted = [
                i
                for i, (problem, tuning) in enumerate(requests)
                if (problem, tuning.flattening) == (number, flattening)
            ]
            bandwidths = [requests[i][1].bandwidth for i in wanted]
            problem = flattened(self._problems[number], flattening)
            centres = Centres(problem, self._kernel, problem.one_hot(), bandwidths, self._dtype)
            every = np.arange(len(centres.points)) if rows is None else rows

            def block(own: IntArray, centres: Centres = centres, number: int = number) -> list[T]:
                return list(map(reader(number, own), centres.averages(centres.points[own], own)))

            blocks = centres.split(every)
            for own, results in zip(blocks, ordered_map(block, blocks), strict=True):
                for i, result in zip(wanted, results, strict=True):
                    yield i, own, result

    def at(self, request: Request, points: FloatArray) -> Average:
        """See `Smoother.at`."""
        number, tuning = request
        problem = flattened(self._problems[number], tuning.flattening)
        x = tempered(points, tuning.flattening)
        return self._at(problem, self._kernel, problem.one_hot(), tuning.bandwidth, x)

    def _at(
        self, problem: Problem, kernel: Kernel, values: FloatArray, h: float, x: FloatArray
    ) -> Average:
        centres = Centres(problem, kernel, values, [h], self._dtype)
        blocks = centres.split(np.arange(len(x)))
        return concatenate(ordered_map(lambda rows: centres.averages(x[rows])[0], blocks))

    def averages(
        self,
        values: Mapping[int, FloatArray],
        tunings: Sequence[Tuning],
        rows: IntArray | None = None,
    ) -> Iterator[dict[int, FloatArray]]:
        """See `Smoother.averages`."""
        for group in _by_flattening(tunings):
            per_problem = [
                self._left_out(self._problems[k], own, group, rows) for k, own in values.items()
            ]
            for means in zip(*per_problem, strict=True):
                yield dict(zip(values, means, strict=True))

    def _left_out(
        self, problem: Problem, values: FloatArray, tunings: Sequence[Tuning], rows: IntArray | None
    ) -> list[FloatArray]:
        """Averages of one problem at tunings of one flattening, shrunk where rows are alone."""
        located = flattened(problem, tunings[0].flattening)
        bandwidths = [tuning.bandwidth for tuning in tunings]
        every = np.arange(len(problem.labels)) if rows is None else rows
        rest = problem.weights.sum() - problem.units[every]
        some = rest > 0  # the average of a row without others is shrunk to 0
        total, known = np.log(rest[some]), every[some]
        points, log_units = located.points[known], np.log(lone_weights(problem)[known])
        found = [np.zeros((len(every), values.shape[1])) for _ in bandwidths]
        if not len(known):
            return found
        averages = self._at_own(located, self._kernel, values + OFFSET, bandwidths, known)
        for h, average, means in zip(bandwidths, averages, found, strict=True):
            log_own = log_units + self._kernel.log_peak(points, h)
            share = shrunk(average.log_density + total, log_own)[:, None]
            means[some] = (average.mean - OFFSET) * share
        return found

    def with_squares(
        self, values: Mapping[int, FloatArray], tuning: Tuning
    ) -> dict[int, tuple[FloatArray, FloatArray]]:
        """See `Smoother.with_squares`."""
        ((_, result),) = self.each_with_squares(values, [tuning])
        return result

    def each_with_squares(
        self, values: Mapping[int, FloatArray], tunings: Sequence[Tuning], slow: int = 0
    ) -> Iterator[tuple[Tuning, dict[int, tuple[FloatArray, FloatArray]]]]:
        """See `Smoother.each_with_squares`."""
        for group in _by_flattening(sorted(tunings, key=lambda tuning: tuning.flattening)):
            at_once = max(1, HELD // max(1, *(own.size for own in values.values())))
            for start in range(0, len(group), at_once):
                some = group[start : start + at_once]
                parts = [self._with_squares(k, own, some, slow) for k, own in values.items()]
                for tuning, *found in zip(some, *parts, strict=True):
                    yield tuning, dict(zip(values, found, strict=True))

    def _with_squares(
        self, number: int, values: FloatArray, tunings: Sequence[Tuning], slow: int
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Averages and squares of one problem at tunings of one flattening."""
        problem = flattened(self._problems[number], tunings[0].flattening)
        every, (columns, places) = np.arange(len(problem.labels)), distinct_columns(values)
        fast = int(places[: len(places) - slow].max(initial=-1)) + 1
        bandwidths = [tuning.bandwidth for tuning in tunings]
        averages = self._at_own(
            problem,
            self._kernel,
            columns + OFFSET,
            bandwidths,
            every,
            squares=True,
            slow=columns.shape[1] - fast if self._dtype == np.float32 else 0,
        )
        rest, log_units = problem.weights.sum() - problem.units, np.log(lone_weights(problem))
        for h, average in zip(bandwidths, averages, strict=True):
            assert average.squares is not None
            log_own = log_units + self._kernel.log_peak(problem.points, h)
            share = shrunk(average.log_density + np.log(rest), log_own)
            mean = ((average.mean - OFFSET) * share[:, None])[:, places]
            yield mean, np.minimum(average.squares * share**2, 1.0)

    def squares(self, numbers: Sequence[int], tuning: Tuning) -> dict[int, FloatArray]:
        """See `Smoother.squares`."""
        nothing = {k: np.empty((len(self._problems[k].labels), 0)) for k in numbers}
        return {k: s for k, (_, s) in self.with_squares(nothing, tuning).items()}

    def _at_own(
        self,
        problem: Problem,
        kernel: Kernel,
        values: FloatArray,
        bandwidths: Sequence[float],
        rows: IntArray,
        *,
        squares: bool = False,
        slow: int = 0,
    ) -> list[Average]:
        """Leave-one-out averages of some rows, one per bandwidth."""
        centres = Centres(
            problem, kernel, values, bandwidths, self._dtype, squares=squares, slow=slow
        )
        blocks = centres.split(rows)
        parts = list(ordered_map(lambda own: centres.averages(centres.points[own], own), blocks))
        return [concatenate(part[i] for part in parts) for i in range(len(bandwidths))]

    def averages_at(
        self, values: FloatArray, request: Request, points: FloatArray
    ) -> tuple[FloatArray, Support]:
        """See `Smoother.averages_at`."""
        number, tuning = request
        problem = flattened(self._problems[number], tuning.flattening)
        x, h = tempered(points, tuning.flattening), tuning.bandwidth
        average = self._at(problem, self._kernel, values + OFFSET, h, x)
        log_sum = average.log_density + np.log(problem.weights.sum())
        log_own = self._kernel.log_peak(x, h) + np.log(problem.unit)
        mean = (average.mean - OFFSET) * shrunk(log_sum, log_own)[:, None]

        def log_squares() -> FloatArray:
            squared, nothing = squared_masses(problem), np.empty((len(values), 0))
            found = self._at(squared, SquaredKernel(self._kernel), nothing, h, x).log_density
            return found + np.log(squared.weights.sum())

        return mean, support_of(log_sum, log_squares, log_own, problem, tuning, points, x)


def support_of(
    log_sum: FloatArray,
    log_squares: Callable[[], FloatArray],
    log_own: FloatArray,
    problem: Problem,
    tuning: Tuning,
    points: FloatArray,
    x: FloatArray,
) -> Support:
    """What averages rest on, from logarithms of sums of weights and of their squares.

    `points` are those asked for, `x` the same in the kernel's coordinates.
    """

    def make() -> tuple[FloatArray, FloatArray, FloatArray]:
        # The flattened simplex is stretched by a factor, and with it the density.
        stretch = (x.shape[1] - 1) * np.log(tuning.flattening)
        stretch = stretch + row_sum(floored_log(x)) - row_sum(floored_log(points))
        return (
            np.exp(log_sum + stretch) / problem.weights.sum(),
            np.exp(2 * log_sum - log_squares()),
            np.exp(log_sum - log_own),
        )

    return Support(make)


def flattened(problem: Problem, flattening: float) -> Problem:
    """The problem in coordinates f^flattening."""
    if flattening == 1.0:
        return problem
    return replace(problem, predictions=tempered(problem.predictions, flattening))


def squared_masses(problem: Problem) -> Problem:
    """The problem whose weights are sums of squared weights."""
    return replace(
        problem, weights=problem.weights * problem.units, sample_weights=problem.units**2
    )


def distinct_columns(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Columns without copies of earlier ones, and where each of the given is among them.

    Many slopes of a start are equal: by how much the shift of class j moves the probability of
    class k, and the shift of class k that of class j.

    Examples
    --------
    >>> import numpy as np
    >>> columns, places = distinct_columns(np.array([[1.0, 2.0, 1.0], [3.0, 4.0, 3.0]]))
    >>> columns.shape, places.tolist()
    ((2, 2), [0, 1, 0])
    """
    some = np.ascontiguousarray(values[:: max(len(values) // SEEN, 1)].T)
    kept: list[int] = []
    places = np.empty(values.shape[1], dtype=np.intp)
    first: dict[bytes, int] = {}  # among those kept, by what some rows hold
    for column, seen in enumerate(some):
        place = first.get(seen.tobytes())
        if place is None or not np.array_equal(values[:, column], values[:, kept[place]]):
            place = len(kept)
            kept.append(column)
            first.setdefault(seen.tobytes(), place)
        places[column] = place
    return values if len(kept) == len(places) else values[:, kept], places


def _by_flattening(tunings: Sequence[Tuning]) -> Iterator[list[Tuning]]:
    """Consecutive tunings of one flattening."""
    for _, group in groupby(tunings, key=lambda tuning: tuning.flattening):
        yield list(group)


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
        _joined([part.squares for part in every]),
    )


def _joined(parts: Sequence[FloatArray | None]) -> FloatArray | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None
