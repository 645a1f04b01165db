"""The outcome of a search for the bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskalign.display import svg
from riskalign.display.notebook import framed
from riskalign.display.numbers import shortened
from riskalign.display.table import Row, text_rows
from riskalign.equations.arrays import BoolArray, FloatArray


@dataclass(frozen=True)
class Curve:
    """A criterion against the bandwidth, for one problem.

    Attributes
    ----------
    name : what the problem is about
    candidates : (H,), ascending
    objective : (H,), the sum over samples that is minimised
    value : the bandwidth chosen
    at_edge : whether the choice is the first or the last candidate
    flattening : the power of f that the kernel saw, 1 for f itself
    """

    name: str
    candidates: FloatArray
    objective: FloatArray
    value: float
    at_edge: bool
    flattening: float = 1.0


LISTED = 10
"""Problems that are listed when a search is printed."""


@dataclass(frozen=True, repr=False)
class BandwidthSearch:
    """The outcome of a search: the bandwidth, and the whole curve it was read from.

    A continuous search brackets the minimum on a lattice and takes the vertex of the parabola
    through the lowest points; the objective listed for it is the parabola's.

    `value`, `candidates`, `objective` and `at_edge` hold one entry per class for class-wise
    errors, and the entry itself otherwise. The objective is the sum over samples that was
    minimised (for the likelihood: minus the log-likelihood). Equal objectives are decided
    for the larger bandwidth, the smoother estimate.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> search = ra.select_bandwidth(data.y_true, data.y_prob, notion="canonical")
    >>> 0.001 <= search.value <= 1, search.at_edge
    (True, False)
    """

    criterion: str
    curves: tuple[Curve, ...]
    classwise: bool

    @property
    def values(self) -> FloatArray:
        """The bandwidths chosen, one per problem."""
        return np.array([curve.value for curve in self.curves])

    @property
    def flattenings(self) -> list[float]:
        """The powers of f that the kernel saw, one per problem."""
        return [curve.flattening for curve in self.curves]

    @property
    def value(self) -> float | FloatArray:
        """The bandwidth chosen."""
        return self.values if self.classwise else self.curves[0].value

    @property
    def candidates(self) -> FloatArray | tuple[FloatArray, ...]:
        """The bandwidths at which the objective was evaluated."""
        each = tuple(curve.candidates for curve in self.curves)
        return each if self.classwise else each[0]

    @property
    def objective(self) -> FloatArray | tuple[FloatArray, ...]:
        """The objective at the candidates."""
        each = tuple(curve.objective for curve in self.curves)
        return each if self.classwise else each[0]

    @property
    def at_edge(self) -> bool | BoolArray:
        """Whether the choice lies on the edge of the candidates."""
        each = np.array([curve.at_edge for curve in self.curves])
        return each if self.classwise else bool(each[0])

    def __repr__(self) -> str:
        """One line."""
        n = f"{len(self.curves)} classes" if self.classwise else "1 problem"
        return f"<BandwidthSearch: {self.criterion}, {n}, bandwidth {self._range}>"

    def __str__(self) -> str:
        """A short table."""
        return "\n".join([self._title, *text_rows(self._rows)])

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks: the criterion of the first problem."""
        first = self.curves[0]
        picture = svg.criterion(first.candidates, first.objective, first.value)
        return framed(self._title, "", self._rows, picture)

    @property
    def _title(self) -> str:
        return f"Bandwidth by {self.criterion}"

    @property
    def _range(self) -> str:
        low, high = f"{self.values.min():.3g}", f"{self.values.max():.3g}"
        return low if low == high else f"{low} to {high}"

    @property
    def _rows(self) -> list[Row]:
        rows = [
            Row(
                shortened(curve.name, 30),
                f"{curve.value:.3g}",
                "",
                f"of {len(curve.candidates)} tried"
                + (", at the edge of the range that was searched" if curve.at_edge else ""),
            )
            for curve in self.curves[:LISTED]
        ]
        rest = len(self.curves) - LISTED
        return [*rows, Row(f"{rest} more", "")] if rest > 0 else rows
