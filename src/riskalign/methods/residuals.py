"""The debiased estimate: residuals of a fitted start are smoothed, R = g + W (y - g).

The equations are in `riskalign.equations.debiased`, the weights of the candidate tunings in
`riskalign.bandwidth.tuning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riskalign.bandwidth.tuning import MOST, MOST_JOINT, WeightedTunings, candidate_tunings
from riskalign.data.limits import FEWER_PAIRS, NO_PAIRS, announce_pairs
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray, row_dot
from riskalign.equations.curves import Knots
from riskalign.equations.debiased import FitNoise, recalibrated, second_order, variance_of
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed
from riskalign.equations.starts import FittedStart, Start, moved, products, slopes_of
from riskalign.equations.terms import risk_of
from riskalign.progress import track
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother, condensed, read_at

GROUP_ROWS = 16_000
"""Rows of the problems that are smoothed together: their arrays stay in cache."""

SEARCH_ROWS = 2_048
"""Rows that weight the candidates of a problem of more than two classes, where each row is
expensive."""


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
        """The residuals y - g, ``(n, d)``."""
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
        """The start g on the simplex, ``(n, K)``."""
        return completed(self.g)

    @cached_property
    def size(self) -> FloatArray:
        """Sum w <slopes, slopes>, ``(p, p)``."""
        return products(self.problem.weights, self.slopes, self.slopes)

    def with_slopes(self) -> FloatArray:
        """What is smoothed: residuals and slopes, side by side.

        Slopes of K outcomes add up to 0: those of the last are left out.
        """
        n, d, p = self.slopes.shape
        free = max(d - 1, 1)
        return np.concatenate([self.residuals, self.slopes[:, :free].reshape(n, free * p)], axis=1)

    def split(self, averages: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Averages of residuals ``(n, d)`` and slopes ``(n, d, p)``, from those of both."""
        n, d, p = self.slopes.shape
        slopes = averages[:, d:].reshape(n, max(d - 1, 1), p)
        if d > 1:
            slopes = np.concatenate([slopes, -slopes.sum(axis=1, keepdims=True)], axis=1)
        return averages[:, :d], slopes


@dataclass(frozen=True)
class Mixture:
    """What an estimate is made of: kernels, and finer estimates with their shares.

    Attributes
    ----------
    kernels : the share of the kernels
    levels : knots of curves, and their share
    """

    kernels: float = 1.0
    levels: tuple[tuple[Knots, float], ...] = ()

    def with_level(self, knots: Knots, share: float) -> Mixture:
        """The mixture of which one more gets a share."""
        if share <= 0:
            return self
        rest = 1.0 - share
        levels = tuple((each, rest * own) for each, own in self.levels if rest > 0)
        return Mixture(rest * self.kernels, (*levels, (knots, share)))


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
    variance : that of the kernels' R, ``(n, d)``; the sample's own label does not enter
    tunings : the tunings and their weights
    started : the problem with its start
    mixture : the finer estimates that were mixed in, and their shares
    doubts : by how much the lower and the upper end of an interval are moved, because what finer
        estimates show may be chance or not
    ends : the mixtures from which these two ends come
    """

    problem: Problem
    terms: FloatArray
    risk: FloatArray
    reconstructed_risk: FloatArray
    plugin: FloatArray
    variance_removed: FloatArray
    gains: FloatArray
    conditional: FloatArray
    variance: FloatArray
    tunings: WeightedTunings
    started: Started | None = None
    mixture: Mixture = Mixture()
    doubts: tuple[float, float] = (0.0, 0.0)
    ends: tuple[Mixture, Mixture] = (Mixture(), Mixture())

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
    With `by_nodes` one-dimensional problems are condensed to nodes however few rows they have, so
    that the estimate can be read at any row; those of discrete predictions are read at the nearest.
    """
    groups = list(_groups(problems, kernel, engine, start, by_nodes))
    if engine == "exact" or not problems[0].one_dimensional:
        searched = len(candidate_tunings(kernel, problems[0].n_classes, candidates))
        _announce(groups, searched if tunings is None else 0)
    if tunings is None:
        weighted = weigh(groups, kernel, candidates, progress)
    else:
        weighted = [WeightedTunings.given(tuning) for tuning in tunings]
    estimates: list[Debiased] = []
    for started, smoother in groups:
        own = weighted[len(estimates) : len(estimates) + len(started)]
        estimates += _estimates(started, smoother, own)
    return estimates


Group = tuple[Sequence[Started], Smoother]
"""Problems that are smoothed together."""


def _groups(
    problems: Sequence[Problem], kernel: Kernel, engine: str, start: Start, by_nodes: bool
) -> Iterator[Group]:
    """Consecutive problems by rows or nodes, as many as are smoothed together."""
    group: list[Started] = []
    n_rows = 0
    for problem in [*problems, None]:
        one = None if problem is None else condensed(problem, kernel, engine, always=by_nodes)
        n_rows += 0 if one is None else len(one.labels)
        if group and (one is None or n_rows > GROUP_ROWS):
            rows = [each.problem for each in group]
            yield group, choose_smoother(rows, kernel, engine, small=TINY)
            group, n_rows = [], 0 if one is None else len(one.labels)
        if one is not None:
            group.append(Started.of(one, start))


def _announce(groups: Sequence[Group], n_candidates: int) -> None:
    """Announce smoothing over all pairs of rows if it will take minutes."""
    every = [each for started, _ in groups for each in started]
    first = every[0]
    n = max(len(each.problem.labels) for each in every)
    joint, n_classes, d = (
        not first.problem.one_dimensional,
        first.problem.n_classes,
        first.g.shape[1],
    )
    rows = min(n, SEARCH_ROWS) if joint else n
    searched, evaluated = n_candidates * rows / n, 1
    if n_candidates:
        evaluated = min(n_candidates, MOST_JOINT if joint else MOST)
    columns = d + max(d - 1, 1) * len(first.fit.parameters)
    products = searched * (n_classes + d) + evaluated * (n_classes + columns)
    cure = FEWER_PAIRS if joint else NO_PAIRS
    announce_pairs(n, len(every) * (searched + evaluated), len(every) * products, cure)


def weigh(
    groups: Sequence[Group],
    kernel: Kernel,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
) -> list[WeightedTunings]:
    """The candidates of each problem of all groups, weighted by their leave-one-out risk."""
    every = [each for started, _ in groups for each in started]
    tunings = candidate_tunings(kernel, every[0].problem.n_classes, candidates)
    found = (each for group in groups for each in _search(group, tunings))
    n_steps = len(groups) * len(tunings)
    steps = iter(track(((1, each) for each in found), n_steps, "bandwidth", progress))
    by_group = [np.stack([next(steps) for _ in tunings], axis=1) for _ in groups]
    losses = np.concatenate(by_group)  # (problems, candidates)
    problems, starts = [each.problem for each in every], [each.g for each in every]
    return WeightedTunings.of_classes(problems, starts, tunings, losses)


def _search(group: Group, tunings: Sequence[Tuning]) -> Iterator[FloatArray]:
    """The losses of the problems of a group ``(k,)``, for one candidate after another."""
    started, smoother = group
    rows = _search_rows(started[0].problem)
    stacked = _Rows.of(started, rows)
    values = {k: each.residuals for k, each in enumerate(started)}
    for smoothed in smoother.averages(values, tunings, rows):
        yield stacked.left_out_losses(np.concatenate(list(smoothed.values())))


@dataclass(frozen=True)
class _Rows:
    """Rows of several problems, one after another: what the losses of candidates need.

    Attributes
    ----------
    loss : of all of them
    labels, weights : (N,), the weights scaled up from some rows to all
    truth : (N, K), the start
    begins : (k,), the first row of each problem
    """

    loss: ProperLoss
    labels: LabelArray
    weights: FloatArray
    truth: FloatArray
    begins: IntArray

    @classmethod
    def of(cls, started: Sequence[Started], rows: IntArray | None) -> _Rows:
        some = slice(None) if rows is None else rows
        problems = [each.problem for each in started]
        weights = [problem.weights[some] for problem in problems]
        if rows is not None:
            pairs = zip(weights, problems, strict=True)
            weights = [own * (each.weights.sum() / own.sum()) for own, each in pairs]
        return cls(
            problems[0].loss,
            np.concatenate([problem.labels[some] for problem in problems]),
            np.concatenate(weights),
            np.concatenate([each.truth.T[:, some] for each in started], axis=1).T,
            np.cumsum([0, *(len(own) for own in weights[:-1])]),
        )

    def left_out_losses(self, smoothed: FloatArray) -> FloatArray:
        """sum_i w_i <y_i, l(R_i)> of each problem, ``(k,)``, from smoothed residuals ``(N, d)``."""
        R = recalibrated(self.truth, smoothed)
        each = risk_of(self.loss, self.labels, R)
        each *= self.weights
        return np.add.reduceat(each, self.begins)


def _search_rows(problem: Problem) -> IntArray | None:
    """Rows that weigh the candidates: all, or evenly many of a larger simplex."""
    n = len(problem.labels)
    if problem.one_dimensional or n <= SEARCH_ROWS:
        return None
    return np.unique(np.linspace(0, n - 1, SEARCH_ROWS).astype(np.intp))


def _estimates(
    started: Sequence[Started], smoother: Smoother, weighted: Sequence[WeightedTunings]
) -> Iterator[Debiased]:
    """The estimates of a group: every tuning for the problems that give it weight."""
    wanting: dict[Tuning, list[int]] = {}
    for k, each in enumerate(weighted):
        for tuning in each.tunings:
            wanting.setdefault(tuning, []).append(k)
    together: dict[tuple[int, ...], list[Tuning]] = {}
    for tuning, numbers in wanting.items():
        together.setdefault(tuple(numbers), []).append(tuning)
    found: dict[tuple[int, Tuning], Terms] = {}
    for some, tunings in together.items():
        values = {k: started[k].with_slopes() for k in some}
        slow = values[some[0]].shape[1] - started[some[0]].g.shape[1]
        for tuning, smoothed in smoother.each_with_squares(values, tunings, slow):
            noises = fit_noises([(started[k], smoothed[k][0]) for k in some])
            for k, noise in zip(some, noises, strict=True):
                found[k, tuning] = terms_of(started[k], *smoothed[k], noise)
    for k, each in enumerate(weighted):
        parts = [found.pop((k, tuning)) for tuning in each.tunings]
        fresh = replace(started[k])  # without the arrays that it has cached
        yield replace(_averaged(started[k].problem, each, parts), started=fresh)


@dataclass(frozen=True)
class Terms:
    """R by one tuning, and what follows from it, row by row."""

    R: FloatArray  # (n, K)
    left_out: FloatArray  # <y, l(R)>
    refinement: FloatArray  # the same without the noise of R
    variance: FloatArray  # of R, (n, d)


def fit_noises(smoothed: Sequence[tuple[Started, FloatArray]]) -> list[FitNoise | None]:
    """How labels move the starts of problems, from averages of residuals and slopes."""
    seen = []
    for started, averages in smoothed:
        if not started.slopes.shape[2]:
            return [None] * len(smoothed)
        _, slopes = started.split(averages)
        seen.append(products(started.problem.weights, started.slopes, slopes))
    information = np.stack([started.fit.information for started, _ in smoothed])
    noise = FitNoise.of(information, np.stack([each.size for each, _ in smoothed]), np.stack(seen))
    return [noise[k] for k in range(len(smoothed))]


def terms_of(
    started: Started, smoothed: FloatArray, s: FloatArray, noise: FitNoise | None
) -> Terms:
    """R and its refinement, from averages of residuals and slopes."""
    problem, shift = started.problem, None
    q, slopes = started.split(smoothed)
    if noise is not None:
        push = noise.pushes(problem, started.phi, started.residuals)
        shift = noise.own_shift(started.slopes, push)
        q = q + moved(slopes, push)  # it leaves neighbours' starts too
    R = recalibrated(started.truth, q)
    left_out, refinement = second_order(problem, R, s, shift)
    variance = variance_of(problem, R[:, -q.shape[1] :], s, noise, started.slopes)
    return Terms(R, left_out, refinement, variance)


def _averaged(problem: Problem, weighted: WeightedTunings, parts: Sequence[Terms]) -> Debiased:
    """The terms of all tunings, averaged by the weights that each row gives them."""
    own_losses = problem.units * np.stack([part.left_out for part in parts])  # (C, n)
    weights = weighted.own_weights(own_losses)
    loss_f = problem.loss(problem.points)  # (n, K)
    risk = risk_of(problem.loss, problem.labels, problem.points)
    totals = {name: np.zeros(len(risk)) for name in ("refinement", "left_out", "plugin")}
    R, gains = np.zeros_like(loss_f), np.zeros_like(loss_f)
    deviation = np.zeros_like(parts[0].variance)
    for own, part in zip(weights, parts, strict=True):
        gain = loss_f - problem.loss(part.R)
        totals["refinement"] += own * part.refinement
        totals["left_out"] += own * part.left_out
        totals["plugin"] += own * row_dot(part.R, gain)
        R += own[:, None] * part.R
        gains += own[:, None] * gain
        deviation += own[:, None] * np.sqrt(part.variance)  # the averages vary together
    return Debiased(
        problem=problem,
        terms=risk - totals["refinement"],
        risk=risk,
        reconstructed_risk=row_dot(R, loss_f),
        plugin=totals["plugin"],
        variance_removed=totals["left_out"] - totals["refinement"],
        gains=gains,
        conditional=R,
        variance=deviation**2,
        tunings=weighted,
    )
