"""One search for the bandwidth of smoothed labels, which minimises any criterion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from riskalign.bandwidth.criteria import CRITERIA, Criterion
from riskalign.bandwidth.minimum import curve_over, lattice_of, refined
from riskalign.bandwidth.result import BandwidthSearch, Curve
from riskalign.data.limits import FEWER_PAIRS, NO_PAIRS, announce_pairs
from riskalign.data.validation import one_of
from riskalign.equations.arrays import FloatArray, IntArray, as_slice
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.progress import track
from riskalign.smoothing import Average, Request, Smoother, Tuning, choose_smoother

MOST_CANDIDATES, SMALLEST = 10_000, 1e-100
"""Bandwidths that may be given at once, and the smallest."""


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


INDISTINCT = 3e-7
"""Relative difference of objectives that the fast engines do not resolve: they err by 1e-7."""

FEW, AFFORDABLE = 5, 20_000
"""Candidates, and samples, up to which exact sums decide between close objectives. Beyond,
the fast engine's order stands."""


PASSES = 14
"""A search of the kernel's range takes about as many averages over all rows."""


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
    if array.size == 0 or not (np.isfinite(array).all() and (array >= SMALLEST).all()):
        raise ValueError(
            f"`{name}` must be positive and finite, at least {SMALLEST}; found {values!r}."
        )
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
    if len(given) > MOST_CANDIDATES:
        raise ValueError(
            f"`candidates` may hold at most {MOST_CANDIDATES:,} bandwidths, because each is a pass "
            f"over the data; found {len(given):,}. Pass fewer, or None for a search."
        )
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
    announce_averages(problems, engine, PASSES if given is None else len(given))
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


def announce_averages(problems: Sequence[Problem], engine: str, passes: int) -> None:
    """Announce averages of labels over all pairs of rows if they will take minutes."""
    joint = not problems[0].one_dimensional
    if engine == "exact" or joint:
        averages = passes * len(problems)
        n_rows = max(len(problem.labels) for problem in problems)
        cure = FEWER_PAIRS if joint else NO_PAIRS
        announce_pairs(n_rows, averages, averages * problems[0].n_classes, cure)


@dataclass(frozen=True)
class Search:
    """Minimises a criterion over bandwidths, for all problems of a smoother at once.

    `exact`, where given, is a smoother in float64 that decides between candidates which the
    fast one cannot tell apart.
    """

    problems: Sequence[Problem]
    smoother: Smoother
    kernel: Kernel
    criterion: Criterion
    progress: bool | None = None
    exact: Smoother | None = None

    def over(self, candidates: FloatArray) -> list[Curve]:
        """The exact minimum over candidates ``(H,)``."""
        requests = [(k, Tuning(h)) for k in range(len(self.problems)) for h in candidates.tolist()]
        totals = self._totals(requests).reshape(len(self.problems), len(candidates))
        for k, problem in enumerate(self.problems):
            lowest = totals[k].min()
            close = np.flatnonzero(totals[k] <= lowest + INDISTINCT * abs(lowest))
            if (
                self.exact is not None
                and 1 < len(close) <= FEW
                and len(problem.labels) <= AFFORDABLE
            ):
                wanted = [(k, Tuning(h)) for h in candidates[close].tolist()]
                totals[k, close] = replace(self, smoother=self.exact)._totals(wanted)
        return list(map(curve_over, self.problems, [candidates] * len(totals), totals))

    def continuous(self) -> list[Curve]:
        """The minimum over the kernel's range: bracket on some rows, refine on all."""
        low, high = self.kernel.bandwidth_range(self.problems[0].n_classes)
        lattice = lattice_of(low, high)
        octaves = np.union1d(np.arange(0, len(lattice), 2), [len(lattice) - 1])
        rows = self._some_rows()
        every = range(len(self.problems))
        requests = [(k, Tuning(h)) for k in every for h in lattice[octaves].tolist()]
        bracket = np.full((len(self.problems), len(lattice)), np.nan)
        bracket[:, octaves] = self._totals(requests, rows).reshape(len(self.problems), -1)
        return refined(self.problems, lattice, bracket, rows is None, self._totals)

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
