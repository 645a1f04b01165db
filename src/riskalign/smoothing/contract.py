"""What every engine gives: kernel averages of values, each row left out of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray, IntArray

T = TypeVar("T")

Request = tuple[int, float]
"""Which problem of a batch, at which bandwidth."""

Values = Callable[[Problem], FloatArray]
"""What is averaged: from a problem to one row of numbers a sample, ``(n, d)``."""


@dataclass(frozen=True)
class Average:
    """Kernel averages at some points.

    Attributes
    ----------
    mean : (b, d)
        sum_j k_h(x; f_j) v_j / sum_j k_h(x; f_j); with labels as values, the estimate R.
    logarithm
        Makes `log_density`, which few ask for.
    """

    mean: FloatArray
    logarithm: Callable[[], FloatArray]

    @cached_property
    def log_density(self) -> FloatArray:
        """Logarithm of the (weighted) mean of k_h(x; f_j), ``(b,)``."""
        return self.logarithm()


Reader = Callable[[int, IntArray], Callable[[Average], T]]
"""From a problem's number and some of its rows to what is read off their averages.

What depends on the rows alone is computed once for all bandwidths.
"""


def always(read: Callable[[Average], T]) -> Reader[T]:
    """Reads averages alike whatever their rows are."""
    return lambda number, rows: read


class Smoother(Protocol):
    """A batch of problems, ready to be smoothed at any bandwidth."""

    @property
    def search_rows(self) -> int:
        """How many rows bracket the minimum of a search before all rows refine it."""

    def each(
        self,
        requests: Sequence[Request],
        reader: Reader[T],
        rows: IntArray | None = None,
    ) -> Iterator[tuple[int, IntArray, T]]:
        """Leave-one-out averages of every request, tile by tile.

        Yields (request number, rows, reader(problem number, rows)(average)); the reader
        runs in worker threads, the order of what is yielded is fixed.
        """

    def at(self, request: Request, points: FloatArray) -> Average:
        """Averages at points ``(m, K)`` of the simplex; no sample is left out."""
