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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.curve_fit import CurveStep, curves_at
from riskalign.equations.curves import CurveForm, Knots, Map
from riskalign.equations.debiased import Terms
from riskalign.equations.problem import Problem
from riskalign.equations.starts import SHIFTED
from riskalign.methods.residuals import Debiased, Mixture
from riskalign.smoothing.threads import ordered_map

KNOTS = (12, 24)
"""Knots of curves: 24 can follow some six waves."""

FEWEST_KNOTS = 4
"""Knots of the finest curve of a class, from which curves per class are worth a level."""

SAMPLES_PER_PARAMETER = 4
"""Samples per parameter of a level, at least."""

STEPS = 2
"""Newton steps to a level that shows anything after the first. A single one errs where the curve
is far from the start: it takes a tenth to a quarter from the error of `datasets.ties`."""

MOST_PARAMETERS = 1_200
"""Of a level: each costs a column of scores, and all together a matrix that is inverted."""

BELIEVED = (1.5, 2.5)
"""Normal scores at which a level has no share of the estimate, and all of it."""

OF_NORMS = (2.0, 3.0)
"""The same for mean norms. What chance lets a level show of a square, a norm shows by its root."""

FEARED, SURE = (1.0, 2.0), (2.5, 3.5)
"""The same for the upper end of an interval, which allows for what is not believed yet, and for the
lower end, which does not build on what chance may have brought."""


def mixed_at(estimate: Debiased, points: FloatArray, by_kernels: FloatArray) -> FloatArray:
    """R ``(m, K)`` at points, given that of the kernels alone; no row is left out."""
    R = estimate.mixture.kernels * by_kernels
    for knots, share in estimate.mixture.levels:
        problem, fit = estimate.problem, estimate.fit
        R += share * curves_at(problem, fit, knots, STEPS, points, _map_of(problem))
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


def finer(estimates: Sequence[Debiased], gate: tuple[float, float] | None = None) -> list[Debiased]:
    """The estimates of a model's problems, with levels mixed in as the data ask for them.

    `gate` has the normal scores at which a level has no share and all of it, by default `BELIEVED`.
    """
    current, problems = list(estimates), [each.problem for each in estimates]
    fits = [each.fit for each in estimates]
    if not len(fits[0].parameters):
        return current
    g = [fit.at(each.predictions) for fit, each in zip(fits, problems, strict=True)]
    starts = zip(fits, problems, strict=True)
    before = sum(fit.dimension(problem.mean_weight) for fit, problem in starts)
    values = np.array([each.mean(each.terms) for each in current])
    ends = dict.fromkeys((SURE, FEARED), values)
    mixtures = {end: [Mixture()] * len(current) for end in ends}
    for knots in levels(problems, g):
        steps = list(map(CurveStep.first, problems, g, knots, map(_map_of, problems)))
        for n in range(STEPS):
            steps = list(map(CurveStep.next, steps, problems)) if n else steps
            terms, optimism = zip(*map(CurveStep.errors, steps, problems), strict=True)
            level = np.array(list(map(Debiased.mean, current, terms)))
            if level.sum() <= values.sum():
                break
        added = sum(map(Debiased.mean, current, optimism))
        chance = Chances(added, sum(step.dimension for step in steps), before)
        share = chance.share(float(level.sum() - values.sum()), gate or BELIEVED)
        if share > 0:
            current = [_mixed(*each, share) for each in zip(current, steps, strict=True)]
            values = np.array([each.mean(each.terms) for each in current])
        for end, own in ends.items():
            omega = chance.share(float((level - own).sum()), end)
            ends[end] = own + omega * (level - own)
            rungs = zip(mixtures[end], knots, strict=True)
            mixtures[end] = [each.with_level(places, omega) for each, places in rungs]
    below, above = _positive(values - ends[SURE]), _positive(ends[FEARED] - values)
    doubts = zip(below, above, strict=True)
    each = zip(current, doubts, zip(*mixtures.values(), strict=True), strict=True)
    return [replace(one, doubts=doubt, ends=mixed) for one, doubt, mixed in each]


def _map_of(problem: Problem) -> Map[Any] | None:
    """What computes blocks of rows: all cores, for whole vectors."""
    return None if problem.one_dimensional else ordered_map


def _positive(parts: FloatArray) -> list[float]:
    """The parts of a sum, or zeros if it is not positive."""
    return parts.tolist() if parts.sum() > 0 else [0.0] * len(parts)


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

    def share(self, above: float, ends: tuple[float, float]) -> float:
        """omega, of a level that is above by so much; from 0 to 1 between two normal scores."""
        more = self.dimension - self.before
        if more < 1 or self.added <= 0:
            return 0.0
        score = normal_score(above / (self.added / self.dimension), more)
        t = min(max((score - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)
        return t * t * (3 - 2 * t)


def normal_score(excess: float, degrees: float) -> float:
    """The normal score of a chi-square variable less its mean (Wilson and Hilferty, 1931)."""
    root = max(1.0 + excess / degrees, 0.0) ** (1 / 3)
    spread = 2 / (9 * degrees)
    return (root - (1 - spread)) / spread**0.5


def _mixed(one: Debiased, step: CurveStep, share: float) -> Debiased:
    """Mix a level into an estimate with the given share."""
    both = Terms.averaged([one, step.terms(one.problem)], np.array([1.0 - share, share]))
    return replace(one, **vars(both), mixture=one.mixture.with_level(step.features.knots, share))
