"""The contract of every engine: kernel averages W v, each sample left out of its own.

An engine knows points, labels and weights of some problems and a kernel. What is averaged is an
argument: labels, residuals, slopes, drawn labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.problem import Problem

T = TypeVar("T")

ALONE = 0.15
"""The least total weight of the neighbours of a row, in samples at the row itself. Where it is
less, an average of residuals is shrunk towards 0 in proportion: faint and far neighbours do not
decide it, and no sum is lost to rounding."""


@dataclass(frozen=True)
class Tuning:
    """How a problem is smoothed: the bandwidth h, in coordinates f^flattening."""

    bandwidth: float
    flattening: float = 1.0


Request = tuple[int, Tuning]
"""Which problem of a group, smoothed how."""


@dataclass(frozen=True)
class Average:
    """Kernel averages at some points.

    Attributes
    ----------
    mean : (b, d)
        sum_j k_h(x; f_j) v_j / sum_j k_h(x; f_j); with labels as values, the estimate R.
    logarithm
        Computes `log_density` when it is first asked for.
    squares : (b,) or None
        The sum of the squared weights of the average, where it was asked for.
    """

    mean: FloatArray
    logarithm: Callable[[], FloatArray]
    squares: FloatArray | None = None

    @cached_property
    def log_density(self) -> FloatArray:
        """Logarithm of the (weighted) mean of k_h(x; f_j), ``(b,)``."""
        return self.logarithm()


Reader = Callable[[int, IntArray], Callable[[Average], T]]
"""Called with the number of a problem and rows of it; returns a function that reduces averages.

What depends on the rows alone is computed once for all tunings.
"""


class Smoother(Protocol):
    """A group of problems, ready to be smoothed by any tuning."""

    @property
    def search_rows(self) -> int:
        """How many rows bracket the minimum of a search before all rows refine it."""

    def each(
        self, requests: Sequence[Request], reader: Reader[T], rows: IntArray | None = None
    ) -> Iterator[tuple[int, IntArray, T]]:
        """Leave-one-out averages of the labels, tile by tile, exactly.

        Yields (request number, rows, reader(problem number, rows)(average)); the reader
        runs in worker threads, the order of what is yielded is fixed.
        """

    def at(self, request: Request, points: FloatArray) -> Average:
        """Averages of the labels at points ``(m, K)`` of the simplex; no sample is left out."""

    def averages(
        self,
        values: Mapping[int, FloatArray],
        tunings: Sequence[Tuning],
        rows: IntArray | None = None,
    ) -> Iterator[dict[int, FloatArray]]:
        """W v for every tuning: arrays ``(n, d)`` by the problem's number, from values ``(n, d)``.

        All problems have values of the same width d.
        Averages of rows that are alone are shrunk towards 0, see `ALONE`. With `rows`, averages
        of these rows alone.
        """

    def with_squares(
        self, values: Mapping[int, FloatArray], tuning: Tuning
    ) -> dict[int, tuple[FloatArray, FloatArray]]:
        """W v and s of one tuning, by the problem's number: `averages` and `squares` in one."""

    def each_with_squares(
        self, values: Mapping[int, FloatArray], tunings: Sequence[Tuning], slow: int = 0
    ) -> Iterator[tuple[Tuning, dict[int, tuple[FloatArray, FloatArray]]]]:
        """`with_squares` of several tunings, in any order.

        The last `slow` columns are smooth functions of the prediction. Where rows are many, some of
        them may stand for all in the averages of these columns.
        """

    def squares(self, numbers: Sequence[int], tuning: Tuning) -> dict[int, FloatArray]:
        """s_i = sum_j w_ij^2, ``(n,)``, by the problem's number."""

    def averages_at(
        self, values: FloatArray, request: Request, points: FloatArray
    ) -> tuple[FloatArray, Support]:
        """Averages of values ``(n, d)`` at points ``(m, K)``, and what they rest on.

        No sample is left out.
        """


@dataclass(frozen=True)
class Support:
    """What averages at some points rest on, ``(m,)`` each, computed when it is first asked for.

    Attributes
    ----------
    make : makes the three arrays
    density : the kernel density of the predictions
    effective : (sum_j w_j)^2 / sum_j w_j^2, how many samples share the average
    nearby : sum_j w_j / k_h(x; x), samples counted by how close they are
    """

    make: Callable[[], tuple[FloatArray, FloatArray, FloatArray]]

    @cached_property
    def _made(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.make()

    @property
    def density(self) -> FloatArray:
        """See the class."""
        return self._made[0]

    @property
    def effective(self) -> FloatArray:
        """See the class."""
        return self._made[1]

    @property
    def nearby(self) -> FloatArray:
        """See the class."""
        return self._made[2]


def lone_weights(problem: Problem) -> FloatArray:
    """What the neighbours of each row are compared with, ``(n,)``: the weight of its sample.

    A row without weight is as alone as one of mean weight would be in its place.
    """
    units = problem.units
    return units if (units > 0).all() else np.where(units > 0, units, problem.unit)


def shrunk(log_rest: FloatArray, log_own: FloatArray) -> FloatArray:
    """By how much an average is shrunk whose neighbours weigh `rest`, a sample there `own`."""
    return np.exp(np.minimum(log_rest - log_own - np.log(ALONE), 0.0))
