"""Where an objective is lowest: over given candidates, or over a range by a parabola."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riskalign.bandwidth.result import Curve
from riskalign.equations.arrays import BoolArray, FloatArray
from riskalign.equations.problem import Problem
from riskalign.smoothing import Request, Tuning

STEP = 0.01
"""Resolution of the continuous search in log h: classes that agree to a percent share a
bandwidth, and with it the kernel matrix."""

TIED = 1e-12
"""Difference below which two objectives are equal, relative to their size and per unit of
weight: the rounding of the sums. A class without positives has nothing but rounding."""


def lattice_of(low: float, high: float) -> FloatArray:
    """Bandwidths that bracket the minimum: powers of two and 3/2 of them, and the range's end.

    In such ratios the weights of one bandwidth are cheap powers of another's.
    """
    octaves = np.arange(np.ceil(np.log2(high / low)))
    inner = low * np.sort(np.concatenate([2**octaves, 3 / 2 * 2**octaves]))
    return np.append(inner[inner < high / 1.1], high)


def _lowest(objective: FloatArray, weight: float) -> BoolArray:
    """Which objectives are the lowest, up to the rounding of sums over some weight."""
    lowest = objective.min()
    return objective <= lowest + TIED * (abs(lowest) + weight)


def _best(objective: FloatArray, weight: float) -> int:
    """Index of the minimum; among equals the last, the largest bandwidth."""
    return int(np.flatnonzero(_lowest(objective, weight))[-1])


def refined(
    problems: Sequence[Problem],
    lattice: FloatArray,
    brackets: FloatArray,
    on_all_rows: bool,
    totals: Callable[[Sequence[Request]], FloatArray],
) -> list[Curve]:
    """The minimum of each problem over a lattice, and the curve around it.

    Parameters
    ----------
    problems, lattice : P problems, and bandwidths ``(H,)``
    brackets : (P, H), objectives at some of the bandwidths, over all rows or some of them
    on_all_rows : whether they are over all rows
    totals : gives the objectives of requests over all rows
    """
    minima = [
        _Minimum(problem, lattice, bracket, on_all_rows)
        for problem, bracket in zip(problems, brackets, strict=True)
    ]
    while wanted := [(k, Tuning(h)) for k, of in enumerate(minima) for h in of.next_bandwidths()]:
        for (k, tuning), total in zip(wanted, totals(wanted).tolist(), strict=True):
            minima[k].add(tuning.bandwidth, total)
    return [minimum.curve() for minimum in minima]


class _Minimum:
    """Where the continuous search of one problem stands."""

    def __init__(
        self, problem: Problem, lattice: FloatArray, bracket: FloatArray, on_all_rows: bool
    ) -> None:
        self._name = problem.name
        self._weight = float(problem.weights.sum())
        self._lattice = lattice
        self._bracket = bracket  # objective over some rows; NaN where it was not evaluated
        known = bracket if on_all_rows else np.full_like(bracket, np.nan)
        self._known = known.copy()  # objective over all rows

    def next_bandwidths(self) -> list[float]:
        """The bracket's minimum and its neighbours, then outwards until the minimum is inside."""
        seen = not np.isnan(self._known).all()
        best = self._best(self._known if seen else self._bracket)
        around = np.arange(max(best - 1, 0), min(best + 2, len(self._lattice)))
        missing: list[float] = self._lattice[around[np.isnan(self._known[around])]].tolist()
        return missing

    def _best(self, objective: FloatArray) -> int:
        """Where on the lattice the objective is lowest, as far as it is known."""
        known = np.flatnonzero(~np.isnan(objective))
        return int(known[_best(objective[known], self._weight)])

    def add(self, h: float, objective: float) -> None:
        """Note the objective over all rows at a bandwidth of the lattice."""
        self._known[np.searchsorted(self._lattice, h)] = objective

    def curve(self) -> Curve:
        """The curve through lattice points and the vertex of the parabola at its minimum.

        Points seen on some rows alone are aligned with those seen on all.
        """
        anchor, best = self._best(self._bracket), self._best(self._known)
        aligned = self._bracket + (self._known[anchor] - self._bracket[anchor])
        objective = np.where(np.isnan(self._known), aligned, self._known)
        evaluated = ~np.isnan(objective)
        candidates, objective = self._lattice[evaluated], objective[evaluated]
        flat = _flat(self._known[~np.isnan(self._known)], self._weight)
        if flat or best in (0, len(self._lattice) - 1):
            return Curve(self._name, candidates, objective, float(self._lattice[best]), not flat)
        vertex, lowest = _vertex(np.log(self._lattice), self._known, best)
        rounded = np.exp(STEP * np.round(vertex / STEP))
        value = float(np.clip(rounded, self._lattice[best - 1], self._lattice[best + 1]))
        if value not in candidates:
            place = int(np.searchsorted(candidates, value))
            candidates = np.insert(candidates, place, value)
            objective = np.insert(objective, place, lowest)
        return Curve(self._name, candidates, objective, value, False)


def _vertex(x: FloatArray, y: FloatArray, best: int) -> tuple[float, float]:
    """The lowest point of the parabola through a minimum and its two neighbours."""
    (x0, x1, x2), (y0, y1, y2) = x[best - 1 : best + 2], y[best - 1 : best + 2]
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = (right - left) / (x2 - x0)
    if bend <= 0:  # three equal points
        return float(x1), float(y1)
    vertex = (x0 + x1) / 2 - left / (2 * bend)
    return float(vertex), float(y1 - bend * (vertex - x1) ** 2)


def _flat(objective: FloatArray, weight: float) -> bool:
    return bool(_lowest(objective, weight).all())


def curve_over(problem: Problem, candidates: FloatArray, objective: FloatArray) -> Curve:
    """The curve over candidates ``(H,)`` whose objectives are known."""
    weight = float(problem.weights.sum())
    best = _best(objective, weight)
    at_edge = best in (0, len(candidates) - 1) and not _flat(objective, weight)
    return Curve(problem.name, candidates, objective, float(candidates[best]), at_edge)
