"""The debiased estimate: residuals of a fitted start are smoothed, R = g + W (y - g).

The equations are in `riskalign.equations.debiased`, the weights of the candidate tunings in
`riskalign.bandwidth.tuning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from riskalign.bandwidth.tuning import MOST, MOST_JOINT, WeightedTunings, candidate_tunings
from riskalign.data.limits import FEWER_PAIRS, NO_PAIRS, announce_pairs
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.curves import Knots
from riskalign.equations.debiased import Smoothed, Started, Terms, left_out_risk
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.starts import FittedStart, Start
from riskalign.progress import track
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother, condensed, read_at

GROUP_ROWS = 16_000
"""Rows of the problems that are smoothed together: their arrays stay in cache."""

SEARCH_ROWS = 2_048
"""Rows that weight the candidates of a problem of more than two classes, where each row is
expensive."""


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
class Debiased(Terms):
    """The debiased estimate of one problem: its terms row by row, and what they were made of.

    Attributes
    ----------
    problem : the rows: those of the sample, or nodes
    variance : that of the kernels' R, ``(n, d)``; the sample's own label does not enter
    tunings : the tunings and their weights
    fit : the start
    mixture : the finer estimates that were mixed in, and their shares
    doubts : by how much the lower and the upper end of an interval are moved, because what finer
        estimates show may be chance or not
    ends : the mixtures from which these two ends come
    """

    problem: Problem
    variance: FloatArray
    tunings: WeightedTunings
    fit: FittedStart
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
        one = None
        if problem is not None:
            one = condensed(problem, kernel, engine, always=by_nodes, n_problems=len(problems))
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
    columns = d + max(d - 1, 1) * first.slopes.shape[2]
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
        each = left_out_risk(self.loss, self.labels, self.truth, smoothed)
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
    found: dict[tuple[int, Tuning], Smoothed] = {}
    for some, tunings in together.items():
        values = {k: started[k].with_slopes() for k in some}
        n_slopes = values[some[0]].shape[1] - started[some[0]].g.shape[1]
        for tuning, smoothed in smoother.each_with_squares(values, tunings, n_slopes):
            for k, (averages, squares) in smoothed.items():
                found[k, tuning] = started[k].smoothed(averages, squares)
    for k, each in enumerate(weighted):
        yield _averaged(started[k], each, [found.pop((k, tuning)) for tuning in each.tunings])


def _averaged(started: Started, weighted: WeightedTunings, parts: Sequence[Smoothed]) -> Debiased:
    """Terms and variances of all tunings, averaged by the weights that each row gives them."""
    assert started.fit is not None
    each, variances = zip(*map(started.terms, parts), strict=True)
    own_losses = started.problem.units * np.stack([terms.left_out for terms in each])  # (C, n)
    weights = weighted.own_weights(own_losses)
    # The averages vary together: their standard deviations are averaged.
    deviations = zip(weights, map(np.sqrt, variances), strict=True)
    deviation = sum(own[:, None] * deviation for own, deviation in deviations)
    return Debiased(
        **vars(Terms.averaged(each, weights)),
        problem=started.problem,
        variance=deviation**2,
        tunings=weighted,
        fit=started.fit,
    )
