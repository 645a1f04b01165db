"""The debiased estimate: residuals of a fitted start are smoothed, R = g + W (y - g).

The equations are in `riskalign.equations.debiased`, the weights of the candidate tunings in
`riskalign.bandwidth.tuning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riskalign.bandwidth.tuning import WeightedTunings, candidate_tunings
from riskalign.equations.arrays import FloatArray, IntArray, row_dot
from riskalign.equations.debiased import FitNoise, second_order
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import mirrored, on_simplex, onto_simplex
from riskalign.equations.starts import FittedStart, Start, moved, slopes_of
from riskalign.equations.terms import risk_of
from riskalign.progress import track
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother, condensed, read_at
from riskalign.smoothing.grid import THREADED
from riskalign.smoothing.threads import ordered_map

GROUP_ROWS, GROUP = 400_000, 64
"""Rows of problems that are smoothed together, and problems: what they need stays in memory."""

SEARCH_ROWS = 2_048
"""Rows that weigh the candidates of a problem on a larger simplex, whose rows are dear."""


@dataclass(frozen=True)
class Started:
    """A problem with a start fitted to it, each sample left out of its own fit.

    Attributes
    ----------
    problem : rows of the sample, or nodes
    fit : the start, fitted to all rows
    g : (n, d), the start at each row without its own sample
    """

    problem: Problem
    fit: FittedStart
    g: FloatArray

    @classmethod
    def of(cls, problem: Problem, start: Start) -> Started:
        """Fit a start to a problem."""
        fit = FittedStart.of(problem, start)
        return cls(problem, fit, fit.without_each(problem))

    @cached_property
    def residuals(self) -> FloatArray:
        """Y - g, ``(n, d)``."""
        return self.problem.columns() - self.g

    @cached_property
    def phi(self) -> FloatArray:
        """The features of the start, ``(n, d, p)``."""
        return self.fit.start.features(self.problem.predictions)

    @cached_property
    def slopes(self) -> FloatArray:
        """The derivatives of g by the parameters, ``(n, d, p)``."""
        return slopes_of(self.phi, self.g)

    @cached_property
    def truth(self) -> FloatArray:
        """G on the simplex, ``(n, K)``."""
        return on_simplex(self.g[:, 0]) if self.problem.one_dimensional else self.g

    def estimate(self, smoothed: FloatArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        """R on the simplex ``(n, K)``, from smoothed residuals ``(n, d)`` of some rows."""
        return onto_simplex(self.truth[rows], mirrored(smoothed))

    def with_slopes(self) -> FloatArray:
        """What is smoothed: residuals and slopes, side by side, ``(n, d + d p)``."""
        n, d, p = self.slopes.shape
        return np.concatenate([self.residuals, self.slopes.reshape(n, d * p)], axis=1)


@dataclass(frozen=True)
class Debiased:
    """The debiased estimate of one problem, row by row.

    Attributes
    ----------
    problem : the rows: those of the sample, or nodes
    terms : (n,), whose weighted mean is the calibration error
    risk : (n,), <y, l(f)>
    reconstructed_risk : (n,), <R, l(f)>
    plugin : (n,), <R, l(f) - l(R)>
    variance_removed : (n,), what the noise of R had taken from the terms
    gains : l(f) - l(R), ``(n, K)``
    conditional : R, ``(n, K)``
    tunings : the tunings and their weights
    """

    problem: Problem
    terms: FloatArray
    risk: FloatArray
    reconstructed_risk: FloatArray
    plugin: FloatArray
    variance_removed: FloatArray
    gains: FloatArray
    conditional: FloatArray
    tunings: WeightedTunings

    @property
    def effective_samples(self) -> float:
        """(sum w)^2 / sum w^2 over all samples."""
        return float(self.problem.weights.sum() / self.problem.unit)

    def mean(self, rows: FloatArray) -> float:
        """The weighted mean of numbers ``(n,)`` of the rows."""
        return float(self.problem.weights @ rows / self.problem.weights.sum())

    def at_rows(
        self, problem: Problem, rows: IntArray, kernel: Kernel
    ) -> tuple[FloatArray, FloatArray]:
        """R and gains ``(m, K)`` at rows of the problem that was estimated."""
        both = np.concatenate([self.conditional, self.gains], axis=1)
        R, gains = np.split(read_at(self.problem, both, problem, rows, kernel), 2, axis=1)
        return R, gains


def debiased(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: str,
    start: Start,
    tunings: Sequence[Tuning] | None = None,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
    *,
    by_nodes: bool = False,
) -> list[Debiased]:
    """The debiased estimate of every problem.

    Tunings are given, one per problem, or candidates are weighted by their leave-one-out risk.
    With `by_nodes` one-dimensional problems are condensed to nodes however few rows they have,
    so that the estimate can be read at any row.
    """
    estimates: list[Debiased] = []
    step = max(1, min(GROUP, GROUP_ROWS // max(len(problem.labels) for problem in problems)))
    for first in range(0, len(problems), step):
        part = problems[first : first + step]
        group = _condensed(part, kernel, engine, by_nodes)
        started = [Started.of(each, start) for each in group]
        smoother = choose_smoother(group, kernel, engine, small=TINY)
        if tunings is None:
            weighted = weigh(started, smoother, kernel, candidates, progress)
        else:
            weighted = [WeightedTunings.given(each) for each in tunings[first : first + step]]
        estimates += _estimates(started, smoother, weighted)
    return estimates


def _condensed(
    problems: Sequence[Problem], kernel: Kernel, engine: str, by_nodes: bool
) -> list[Problem]:
    def one(problem: Problem) -> Problem:
        return condensed(problem, kernel, engine, always=by_nodes)

    workers = None if len(problems[0].labels) >= THREADED else 1
    return list(ordered_map(one, problems, workers))


def weigh(
    started: Sequence[Started],
    smoother: Smoother,
    kernel: Kernel,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
) -> list[WeightedTunings]:
    """The candidates of each problem, weighted by their leave-one-out risk."""
    n_classes = started[0].problem.n_classes
    tunings = candidate_tunings(kernel, n_classes, candidates)
    rows = _search_rows(started[0].problem)
    losses = np.empty((len(started), len(tunings)))
    averages = smoother.averages({k: s.residuals for k, s in enumerate(started)}, tunings, rows)
    for c, smoothed in enumerate(
        track(((1, each) for each in averages), len(tunings), "bandwidth", progress)
    ):
        for k, each in enumerate(started):
            losses[k, c] = _left_out_loss(each, smoothed[k], rows)
    return [
        WeightedTunings.of(each.problem, each.g, tunings, losses[k])
        for k, each in enumerate(started)
    ]


def _search_rows(problem: Problem) -> IntArray | None:
    """Rows that weigh the candidates: all, or evenly many of a larger simplex."""
    n = len(problem.labels)
    if problem.one_dimensional or n <= SEARCH_ROWS:
        return None
    return np.unique(np.linspace(0, n - 1, SEARCH_ROWS).astype(np.intp))


def _left_out_loss(started: Started, smoothed: FloatArray, rows: IntArray | None) -> float:
    """sum_i w_i <y_i, l(R_i)>, scaled up from some rows."""
    problem = started.problem
    if rows is None:
        R = started.estimate(smoothed)
        return float(problem.weights @ risk_of(problem.loss, problem.labels, R))
    R, weights = started.estimate(smoothed, rows), problem.weights[rows]
    total = float(weights @ risk_of(problem.loss, problem.labels[rows], R))
    return total * float(problem.weights.sum() / weights.sum())


def _estimates(
    started: Sequence[Started], smoother: Smoother, weighted: Sequence[WeightedTunings]
) -> Iterator[Debiased]:
    """The estimates of a group: every tuning for the problems that give it weight."""
    wanting: dict[Tuning, list[int]] = {}
    for k, each in enumerate(weighted):
        for tuning in each.tunings:
            wanting.setdefault(tuning, []).append(k)
    found: dict[tuple[int, Tuning], Terms] = {}
    for tuning, numbers in wanting.items():
        values = {k: started[k].with_slopes() for k in numbers}
        smoothed = smoother.with_squares(values, tuning)
        found.update({(k, tuning): terms_of(started[k], *smoothed[k]) for k in numbers})
    for k, each in enumerate(weighted):
        parts = [found.pop((k, tuning)) for tuning in each.tunings]
        yield _averaged(started[k].problem, each, parts)


@dataclass(frozen=True)
class Terms:
    """R by one tuning, and what follows from it, row by row."""

    R: FloatArray  # (n, K)
    left_out: FloatArray  # <y, l(R)>
    refinement: FloatArray  # the same without the noise of R


def terms_of(started: Started, smoothed: FloatArray, s: FloatArray) -> Terms:
    """R and its refinement, from averages ``(n, d + d p)`` of residuals and slopes."""
    problem = started.problem
    n, d, p = started.slopes.shape
    q, shift = smoothed[:, :d], None
    if p:
        smoothed_slopes = smoothed[:, d:].reshape(n, d, p)
        noise = FitNoise.of(
            started.fit.information, problem.weights, started.slopes, smoothed_slopes
        )
        push = noise.pushes(problem, started.phi, started.residuals)
        shift = noise.own_shift(started.slopes, push)
        q = q + moved(smoothed_slopes, push)  # the sample leaves its neighbours' starts too
    R = started.estimate(q)
    left_out, refinement = second_order(problem, R, s, shift)
    return Terms(R, left_out, refinement)


def _averaged(problem: Problem, weighted: WeightedTunings, parts: Sequence[Terms]) -> Debiased:
    """The terms of all tunings, averaged by the weights that each row gives them."""
    own_losses = problem.units * np.stack([part.left_out for part in parts])  # (C, n)
    weights = weighted.own_weights(own_losses)
    loss_f = problem.loss(problem.points)  # (n, K)
    risk = risk_of(problem.loss, problem.labels, problem.points)
    totals = {name: np.zeros(len(risk)) for name in ("refinement", "left_out", "plugin")}
    R, gains = np.zeros_like(loss_f), np.zeros_like(loss_f)
    for own, part in zip(weights, parts, strict=True):
        gain = loss_f - problem.loss(part.R)
        totals["refinement"] += own * part.refinement
        totals["left_out"] += own * part.left_out
        totals["plugin"] += own * row_dot(part.R, gain)
        R += own[:, None] * part.R
        gains += own[:, None] * gain
    return Debiased(
        problem=problem,
        terms=risk - totals["refinement"],
        risk=risk,
        reconstructed_risk=row_dot(R, loss_f),
        plugin=totals["plugin"],
        variance_removed=totals["left_out"] - totals["refinement"],
        gains=gains,
        conditional=R,
        tunings=weighted,
    )
