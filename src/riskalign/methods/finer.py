"""What the weighted kernels miss: estimates with finer curves, where the data show that they do.

The weights of kernels favour an R that predicts well. An *error* can be seen much earlier than it
pays to correct it: p parameters that raise the log-likelihood by L make R worse unless L > p / 2 or
so, while L is significant as soon as it is above p / 2 by a few times sqrt(p / 2). So the
estimate is repeated with finer curves and without a kernel, on a ladder of *levels*: one shift per
class (where the start has none), curves shared by all classes, one curve per class, and curves with
a knot at each distinct prediction where these are few. Each falls short of the truth on average by
what it misses, and its noise is taken out as that of kernels is. A level replaces what came before
by the share omega,

    value  <-  value + omega(z) (level - value),

where z is the normal score of the difference under chance alone, and omega rises smoothly from 0
to 1 (`BELIEVED`; Lepski's method with a smooth threshold). If nothing is missed, the difference is
a chi-square variable less its mean, in units of what the noise of one parameter adds to an
estimate; its degrees of freedom are the number of additional parameters. What a level shows below
that threshold may be chance or not, and so may be what it shows just above. The ends of an interval
allow for it: the same ladder with a lower threshold (`FEARED`) and with a higher one (`SURE`) gives
a larger and a smaller value, and the differences are the *doubts*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from riskalign.equations.arrays import FloatArray, LabelArray, row_dot
from riskalign.equations.curves import (
    CurveForm,
    CurveStep,
    Features,
    Knots,
    effective_parameters,
)
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed
from riskalign.equations.starts import PRIOR, SHIFTED
from riskalign.equations.terms import risk_of
from riskalign.methods.residuals import Debiased, Started
from riskalign.smoothing.threads import ordered_map

T = TypeVar("T")

KNOTS = (12, 24)
"""Knots of curves: 24 can follow some six waves."""

FEWEST_KNOTS = 4
"""Knots of the finest curve of a class, from which curves per class are worth a level."""

SAMPLES_PER_PARAMETER = 4
"""Samples per parameter of a level, at least."""

STEPS, GAINED = 2, 0.5
"""Newton steps to a level that shows something after the first, and by how much the second may
raise its normal score. A single step errs where the curve is far from the start: it takes a tenth
to a quarter from the error of `datasets.ties`. A level whose score is lower by `GAINED` than the
first one that moves an end of the interval has no second step."""

BLOCK = 2_500
"""Rows that a thread takes at once."""

MOST_PARAMETERS = 1_200
"""Of a level: each costs a column of scores, and all together a matrix that is inverted."""

BELIEVED = (1.5, 2.5)
"""Normal scores at which a level has no share of the estimate, and all of it."""

FEARED, SURE = (1.0, 2.0), (2.5, 3.5)
"""The same for the upper end of an interval, which allows for what is not believed yet, and for the
lower end, which does not build on what chance may have brought."""


@dataclass(frozen=True)
class LevelEstimate:
    """The estimate of one problem by a level, row by row.

    Attributes
    ----------
    R : (n, K), each row's sample left out
    let_in : (n, K), R with each row's sample: where the Newton step leads
    left_out : (n,), <y, l(R)>
    refinement : (n,), the same without the noise of R
    within : (n,), <y, l(R)> of R with each row's sample
    dimension : effective number of parameters
    knots : of the curves
    parameters : theta of the curves, as far as the Newton steps led
    """

    R: FloatArray
    let_in: FloatArray
    left_out: FloatArray
    refinement: FloatArray
    within: FloatArray
    dimension: float
    knots: Knots
    parameters: FloatArray

    @classmethod
    def of(cls, problem: Problem, g: FloatArray, knots: Knots, n_steps: int = 1) -> LevelEstimate:
        """The estimate by a fitted start g ``(n, d)`` with curves."""
        level = cls._by_one_step(problem, g, knots, None)
        for _ in range(n_steps - 1):
            level = level.with_another_step(problem)
        return level

    def with_another_step(self, problem: Problem) -> LevelEstimate:
        """The estimate after one more Newton step."""
        reached = self.let_in[:, -problem.columns().shape[1] :]
        return self._by_one_step(problem, reached, self.knots, self.parameters)

    @classmethod
    def _by_one_step(
        cls, problem: Problem, g: FloatArray, knots: Knots, parameters: FloatArray | None
    ) -> LevelEstimate:
        blocks = _Block.split(problem, g, knots)
        step, total = newton_step(problem, blocks, parameters)

        def results(block: _Block) -> tuple[FloatArray, ...]:
            own = replace(step, features=block.features, g=block.g)
            R, let_in, a = own.left_out_and_let_in(total, block.residuals, block.units)
            left_out, within = (risk_of(problem.loss, block.labels, each) for each in (R, let_in))
            return R, let_in, left_out, a * left_out + (1 - a) * within, within

        rows = zip(*_mapped(results, blocks), strict=True)
        moved = step.variance @ total
        reached = moved if parameters is None else parameters + moved
        return cls(*map(np.concatenate, rows), step.dimension, knots, reached)


@dataclass(frozen=True)
class _Block:
    """Some rows of a problem, where a Newton step begins at g ``(m, d)``."""

    features: Features
    g: FloatArray
    labels: LabelArray
    residuals: FloatArray
    weights: FloatArray
    units: FloatArray

    @classmethod
    def split(cls, problem: Problem, g: FloatArray, knots: Knots) -> list[_Block]:
        """All rows, in blocks of one size."""
        n = len(g)
        columns, f, size = problem.columns(), problem.predictions, -(-n // -(-n // BLOCK))
        slices = [slice(start, start + size) for start in range(0, n, size)]
        return [
            cls(
                Features(f[rows], knots),
                g[rows],
                problem.labels[rows],
                columns[rows] - g[rows],
                problem.weights[rows],
                problem.units[rows],
            )
            for rows in slices
        ]


def _mapped(function: Callable[[_Block], T], blocks: Sequence[_Block]) -> list[T]:
    """Results of all blocks, on all cores."""
    return list(ordered_map(function, blocks)) if len(blocks) > 1 else [function(blocks[0])]


def newton_step(
    problem: Problem, blocks: Sequence[_Block], parameters: FloatArray | None
) -> tuple[CurveStep, FloatArray]:
    """A Newton step and its scores ``(p,)``; there are no parameters if it is the first."""

    def sums(block: _Block) -> tuple[FloatArray, FloatArray]:
        scores = block.features.total(block.weights[:, None] * block.residuals)
        return block.features.information(block.g, block.weights), scores

    parts = zip(*_mapped(sums, blocks), strict=True)
    information, scores = (np.add.reduce(each) for each in parts)
    first, unit = blocks[0], problem.mean_weight
    step = CurveStep.by_information(
        first.features, first.g, information, unit, second=parameters is not None
    )
    return step, scores if parameters is None else scores - PRIOR * unit * parameters


def mixed_at(estimate: Debiased, points: FloatArray, by_kernels: FloatArray) -> FloatArray:
    """R ``(m, K)`` at points, given that of the kernels alone; no row is left out."""
    R = estimate.mixture.kernels * by_kernels
    for knots, share in estimate.mixture.levels:
        assert estimate.started is not None
        problem, fit = estimate.started.problem, estimate.started.fit
        at_rows, g, parameters = fit.at(problem.predictions), fit.at(points), None
        for _ in range(STEPS):
            blocks = _Block.split(problem, at_rows, knots)
            step, total = newton_step(problem, blocks, parameters)
            at_rows, g = step.at(problem.predictions, at_rows, total), step.at(points, g, total)
            moved = step.variance @ total
            parameters = moved if parameters is None else parameters + moved
        R += share * completed(g)
    return R


def levels(problems: Sequence[Problem], g: Sequence[FloatArray]) -> list[list[Knots]]:
    """The ladder, from coarse to fine: the knots of each problem, by its fitted start g.

    Levels for which there are too few samples are left out, and those that are no finer.
    """
    ladder: list[list[Knots]] = []
    for form in _forms(problems):
        pairs = zip(problems, g, strict=True)
        knots = [_knots(problem, own, form) for problem, own in pairs]
        coarser = [each for each in ladder if each[0].form.per_class == form.per_class]
        most = max((sum(each.total for each in level) for level in coarser), default=0)
        fine = max(each.most for each in knots) >= FEWEST_KNOTS or not form.knots
        news = sum(each.total for each in knots) > most or not form.knots
        if fine and news and all(map(_fits, problems, knots)):
            ladder.append(knots)
    return ladder


def _forms(problems: Sequence[Problem]) -> list[CurveForm]:
    """The kinds of curves that are tried."""
    n_classes = problems[0].n_classes
    own = [CurveForm(knots, per_class=True) for knots in KNOTS]
    if any(map(_single, problems)):
        own.append(CurveForm(KNOTS[-1], per_class=True, every=True))
    if n_classes == 2:
        return own
    shared = [CurveForm(knots, per_class=False) for knots in KNOTS]
    shifts = [CurveForm(0, per_class=False)] if n_classes > SHIFTED else []
    return [*shifts, *shared, *own]


def _single(problem: Problem) -> bool:
    """Whether rows are single predictions, and neither nodes nor cells of many."""
    return problem.nodes is None and not problem.rounded


def _knots(problem: Problem, g: FloatArray, form: CurveForm) -> Knots:
    """Knots of one problem; at distinct predictions only where that is possible."""
    knots = Knots.of(problem, g, form)
    if form.every and not (_single(problem) and _fits(problem, knots)):
        return Knots.of(problem, g, replace(form, every=False))
    return knots


def _fits(problem: Problem, knots: Knots) -> bool:
    """Whether a problem has samples enough for the parameters of its curves."""
    shifts = 0 if knots.form.per_class else problem.n_classes
    most = 2 + shifts + knots.total
    return most <= min(problem.n_samples / SAMPLES_PER_PARAMETER, MOST_PARAMETERS)


def finer(estimates: Sequence[Debiased]) -> list[Debiased]:
    """The estimates of a model's problems, with levels mixed in as the data ask for them."""
    known = [each.started for each in estimates if each.started is not None]
    current = list(estimates)
    if len(known) < len(current) or not known[0].fit.parameters.size:
        return current
    problems = [each.problem for each in known]
    g = [each.fit.at(each.problem.predictions) for each in known]
    before = sum(_dimension(each) for each in known)
    ends = {gate: np.array([each.mean(each.terms) for each in current]) for gate in (SURE, FEARED)}
    for knots in levels(problems, g):
        believed = sum(each.mean(each.terms) for each in current)
        found = [LevelEstimate.of(*part) for part in zip(problems, g, knots, strict=True)]
        for further in range(STEPS):
            if further:
                pairs = zip(problems, found, strict=True)
                found = [level.with_another_step(problem) for problem, level in pairs]
            pairs = list(zip(current, found, strict=True))
            values = np.array([one.mean(one.risk - level.refinement) for one, level in pairs])
            added = sum(one.mean(level.refinement - level.within) for one, level in pairs)
            chance = Chances(added, sum(each.dimension for each in found), before)
            above = float(values.sum()) - believed
            if above <= 0 or chance.score(above) < FEARED[0] - GAINED:
                break
        share = chance.share(above, BELIEVED)
        if share > 0:
            current = [_mixed(one, level, share) for one, level in pairs]
        for gate, own in ends.items():
            ends[gate] = own + chance.share(float((values - own).sum()), gate) * (values - own)
    values = np.array([each.mean(each.terms) for each in current])
    below, above = _positive(values - ends[SURE]), _positive(ends[FEARED] - values)
    each = zip(current, below, above, strict=True)
    return [replace(one, doubts=(low, high)) for one, low, high in each]


def _positive(parts: FloatArray) -> list[float]:
    """The parts of a sum, or zeros if it is not positive."""
    return parts.tolist() if parts.sum() > 0 else [0.0] * len(parts)


def _dimension(started: Started) -> float:
    """The effective number of parameters of a start."""
    variance: FloatArray = np.linalg.inv(started.fit.information).astype(np.float64, copy=False)
    return effective_parameters(variance, PRIOR * started.problem.mean_weight)


@dataclass(frozen=True)
class Chances:
    """By how much chance lets a level be above what came before.

    Attributes
    ----------
    added : what its noise would add to the estimate, on average
    dimension : its effective number of parameters
    before : that of the start
    """

    added: float
    dimension: float
    before: float

    def score(self, above: float) -> float:
        """z, of a level that is above by so much; -inf if it has no additional parameters."""
        more = self.dimension - self.before
        if more < 1 or self.added <= 0:
            return -np.inf
        return normal_score(above / (self.added / self.dimension), more)

    def share(self, above: float, ends: tuple[float, float]) -> float:
        """omega, of a level that is above by so much; from 0 to 1 between two normal scores."""
        score = self.score(above)
        t = min(max((score - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)
        return t * t * (3 - 2 * t)


def normal_score(excess: float, degrees: float) -> float:
    """The normal score of a chi-square variable less its mean (Wilson and Hilferty, 1931)."""
    root = max(1.0 + excess / degrees, 0.0) ** (1 / 3)
    spread = 2 / (9 * degrees)
    return (root - (1 - spread)) / spread**0.5


def _mixed(one: Debiased, level: LevelEstimate, share: float) -> Debiased:
    """Mix a level into an estimate with the given share."""
    problem = one.problem
    loss_f = problem.loss(problem.points)
    gain = loss_f - problem.loss(level.R)
    rest = 1.0 - share
    return replace(
        one,
        terms=rest * one.terms + share * (one.risk - level.refinement),
        reconstructed_risk=rest * one.reconstructed_risk + share * row_dot(level.R, loss_f),
        plugin=rest * one.plugin + share * row_dot(level.R, gain),
        variance_removed=rest * one.variance_removed + share * (level.left_out - level.refinement),
        gains=rest * one.gains + share * gain,
        conditional=rest * one.conditional + share * level.R,
        mixture=one.mixture.with_level(level.knots, share),
    )
