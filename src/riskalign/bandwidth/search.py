"""Three criteria for the bandwidth, and one search that minimises any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from riskalign.data.validation import one_of
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray, as_slice
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import FLATTENINGS
from riskalign.equations.terms import alignment_residual, risk_of
from riskalign.progress import track
from riskalign.smoothing import Average, Request, Smoother, Tuning, choose_smoother

Criterion = Callable[[Problem], Callable[[Average], FloatArray]]
"""From rows of a problem, and then their leave-one-out averages, to the terms to be minimised."""


def risk_alignment(power: float) -> Criterion:
    """|<R - y, l(f)>|^p: reconstructed against observed risk, sample by sample."""

    def of_rows(rows: Problem) -> Callable[[Average], FloatArray]:
        residual = alignment_residual(rows.loss, rows.points, rows.labels)

        def terms(average: Average) -> FloatArray:
            gap = residual(average.mean)
            return gap * gap if power == 2 else np.abs(gap) ** power

        return terms

    return of_rows


def likelihood(rows: Problem) -> Callable[[Average], FloatArray]:
    """Minus the leave-one-out log density."""
    return lambda average: -average.log_density


def cross_validation(rows: Problem) -> Callable[[Average], FloatArray]:
    """<y, l(R)>: the leave-one-out risk of R itself."""
    return lambda average: risk_of(rows.loss, rows.labels, average.mean)


CRITERIA: dict[str, Callable[[float], Criterion]] = {
    "risk-alignment": risk_alignment,
    "likelihood": lambda power: likelihood,
    "cross-validation": lambda power: cross_validation,
}
"""Criteria by name, made for a power (which risk alignment alone uses)."""


def paper_candidates(n_classes: int) -> FloatArray:
    """The candidate sets of the paper's experiments."""
    if n_classes == 2:
        return np.unique(np.concatenate([np.geomspace(1e-4, 1e-1, 60), np.linspace(0.1, 0.2, 10)]))
    return np.unique(
        np.concatenate(
            [
                np.geomspace(1e-3, 1e-2, 20),
                np.geomspace(1e-2, 1e-1, 40),
                np.geomspace(1e-1, 10**-0.7, 30),
                np.linspace(0.2, 1.0, 40),
            ]
        )
    )


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


@dataclass(frozen=True)
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


def align(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: str,
    power: float = 2.0,
    progress: bool | None = None,
) -> list[Curve]:
    """Bandwidth and coordinates f^tau of each problem by risk alignment, tau in `FLATTENINGS`.

    One bandwidth cannot serve the middle of the simplex and predictions that crowd its
    corners, so that risk alignment over-smooths those; in their own coordinates it does not.
    """
    smoother = choose_smoother(problems, kernel, engine)
    criterion = risk_alignment(power)
    curves = [
        Search(problems, smoother, kernel, criterion, progress, flattening=tau).continuous()
        for tau in FLATTENINGS
    ]
    return [
        min(own, key=lambda curve: float(curve.objective.min()))
        for own in zip(*curves, strict=True)
    ]


STEP = 0.01
"""Resolution of the continuous search in log h: classes that agree to a percent share a
bandwidth, and with it the kernel matrix."""

INDISTINCT = 3e-7
"""Relative difference of objectives that the fast engines do not resolve: they err by 1e-7."""

FEW, AFFORDABLE = 5, 20_000
"""Candidates, and samples, up to which exact sums decide between close objectives. Beyond,
the fast engine's order stands."""

TIED = 1e-12
"""Difference below which two objectives are equal, relative to their size and per unit of
weight: the rounding of the sums. A class without positives has nothing but rounding."""


Bandwidth = str | float | Sequence[float] | FloatArray | BandwidthSearch
"""What users pass as a bandwidth: a criterion, numbers, or the outcome of a search."""

Candidates = str | Sequence[float] | FloatArray | None
"""What users pass as candidates: a range searched continuously, "paper", or numbers."""


def positive(values: object, name: str) -> FloatArray:
    """Positive numbers, or an error that names the argument."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must hold positive numbers; found {values!r}.") from None
    if array.size == 0 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"`{name}` must be positive and finite; found {values!r}.")
    return array


def candidate_set(candidates: Candidates, kernel: Kernel, n_classes: int) -> FloatArray | None:
    """Candidates that were asked for, ascending; None for the kernel's range."""
    if candidates is None:
        return None
    if isinstance(candidates, str):
        if one_of("candidates", candidates, ["paper"]) and kernel.name != "dirichlet":
            raise ValueError(
                "`candidates='paper'` is for the Dirichlet kernel: the paper gives none for "
                f"{kernel.name!r}. Pass None for its range, or numbers."
            )
        return paper_candidates(n_classes)
    given = np.atleast_1d(positive(candidates, "candidates"))
    if given.ndim != 1:
        raise ValueError(f"`candidates` must be one-dimensional; found shape {given.shape}.")
    return np.unique(given)


def search_bandwidth(
    problems: Sequence[Problem],
    kernel: Kernel,
    criterion: str,
    *,
    per_class: bool,
    candidates: Candidates = None,
    power: float = 2,
    engine: str = "auto",
    progress: bool | None = None,
) -> BandwidthSearch:
    """The bandwidths of smoothed labels that minimise a criterion."""
    if not isinstance(power, Real) or not power > 0:
        raise ValueError(f"`power` must be a positive number; found {power!r}.")
    given = candidate_set(candidates, kernel, problems[0].n_classes)
    search = Search(
        problems,
        choose_smoother(problems, kernel, engine),
        kernel,
        CRITERIA[criterion](float(power)),
        progress,
        None if engine == "exact" else choose_smoother(problems, kernel, "exact"),
    )
    curves = search.continuous() if given is None else search.over(given)
    return BandwidthSearch(criterion, tuple(curves), per_class)


@dataclass(frozen=True)
class Search:
    """Minimises a criterion over bandwidths, for all problems of a smoother at once.

    `exact`, where given, is a smoother in float64 that decides between candidates which the
    fast one cannot tell apart. The kernel sees f^flattening, the criterion f itself.
    """

    problems: Sequence[Problem]
    smoother: Smoother
    kernel: Kernel
    criterion: Criterion
    progress: bool | None = None
    exact: Smoother | None = None
    flattening: float = 1.0

    def over(self, candidates: FloatArray) -> list[Curve]:
        """The exact minimum over candidates ``(H,)``."""
        requests = [
            (k, self._at(h)) for k in range(len(self.problems)) for h in candidates.tolist()
        ]
        totals = self._totals(requests).reshape(len(self.problems), len(candidates))
        for k, problem in enumerate(self.problems):
            lowest = totals[k].min()
            close = np.flatnonzero(totals[k] <= lowest + INDISTINCT * abs(lowest))
            if (
                self.exact is not None
                and 1 < len(close) <= FEW
                and len(problem.labels) <= AFFORDABLE
            ):
                wanted = [(k, self._at(h)) for h in candidates[close].tolist()]
                totals[k, close] = replace(self, smoother=self.exact)._totals(wanted)
        curves = map(_curve, self.problems, [candidates] * len(totals), totals)
        return [replace(curve, flattening=self.flattening) for curve in curves]

    def continuous(self) -> list[Curve]:
        """The minimum over the kernel's range: bracket on some rows, refine on all."""
        low, high = self.kernel.bandwidth_range(self.problems[0].n_classes)
        lattice = _lattice(low, high)
        octaves = np.union1d(np.arange(0, len(lattice), 2), [len(lattice) - 1])
        rows = self._some_rows()
        numbers = range(len(self.problems))
        requests = [(k, self._at(h)) for k in numbers for h in lattice[octaves].tolist()]
        bracket = np.full((len(self.problems), len(lattice)), np.nan)
        bracket[:, octaves] = self._totals(requests, rows).reshape(len(self.problems), -1)
        minima = [
            _Minimum(problem, lattice, objective, rows is None)
            for problem, objective in zip(self.problems, bracket, strict=True)
        ]
        while wanted := [(k, self._at(h)) for k in numbers for h in minima[k].next_bandwidths()]:
            for (k, tuning), total in zip(wanted, self._totals(wanted).tolist(), strict=True):
                minima[k].add(tuning.bandwidth, total)
        return [replace(minimum.curve(), flattening=self.flattening) for minimum in minima]

    def _at(self, h: float) -> Tuning:
        return Tuning(h, self.flattening)

    def _some_rows(self) -> IntArray | None:
        n = len(self.problems[0].labels)
        if n <= self.smoother.search_rows:
            return None
        chosen = np.random.default_rng(0).choice(n, self.smoother.search_rows, replace=False)
        return np.sort(chosen)

    def _totals(self, requests: Sequence[Request], rows: IntArray | None = None) -> FloatArray:
        """The objective of every request, summed over rows (scaled up from some of them)."""

        def summed(number: int, rows: IntArray) -> Callable[[Average], float]:
            part = self.problems[number].take(as_slice(rows))
            terms = self.criterion(part)
            return lambda average: float(part.weights @ terms(average))

        totals = np.zeros(len(requests))
        seen = len(self.problems[0].labels) if rows is None else len(rows)
        weights = self.problems[0].weights
        share = 1.0 if rows is None else float(weights[rows].sum() / weights.sum())
        tiles = self.smoother.each(requests, summed, rows)
        steps = ((len(tile), (i, total)) for i, tile, total in tiles)
        for i, total in track(steps, seen * len(requests), "bandwidth", self.progress):
            totals[i] += total
        return totals / share


def _lattice(low: float, high: float) -> FloatArray:
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


def _curve(problem: Problem, candidates: FloatArray, objective: FloatArray) -> Curve:
    weight = float(problem.weights.sum())
    best = _best(objective, weight)
    at_edge = best in (0, len(candidates) - 1) and not _flat(objective, weight)
    return Curve(problem.name, candidates, objective, float(candidates[best]), at_edge)
