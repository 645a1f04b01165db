"""A conservative upper bound of a calibration error: what finer scales than the estimate's allow.

The interval of an estimate allows for chance. It does not allow for swings of E[y | f] that the
weighted kernels are too wide to follow: what they miss is missing from the estimate. No interval
can be short for smooth models and hold for rough ones as well (Low, 1997), so that the two are
kept apart. For the bound, the error is estimated once more by the narrowest kernel whose averages
rest on `NEIGHBOURS` samples each (in the mean over samples, sum_j w_ij^2 is at most
1 / NEIGHBOURS). That estimate misses less and varies more; the bound is the upper end of its
interval, or of the ordinary one if that is larger.

Swings within the reach of so few samples are not bounded. On a simplex of several classes 20
neighbours are far apart, so that a canonical error is bounded in another way: by the upper end of
its interval, and the bound of the class-wise error added to it. Of the squared error and of the
log loss, the divergence between two vectors is at most the sum over classes of those between
pairs (1 - p, p): what swings with the probability of each class is in that sum, what varies with
all of them smoothly is in the interval, and rough joint swings are in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from riskalign.bandwidth.tuning import WeightedTunings, candidate_tunings
from riskalign.data.case import Case
from riskalign.data.notions import CLASSWISE
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import KL, L2
from riskalign.equations.problem import Problem
from riskalign.inference.interval import Chance, within_range
from riskalign.inference.null import Model
from riskalign.methods.residuals import debiased
from riskalign.smoothing import TINY, Tuning, choose_smoother, condensed

NEIGHBOURS = 20
"""Samples on which the averages of the narrowest kernel rest."""

FAINT = 1e-6
"""Sum of weights below which a row has no neighbour."""


def upper_bound(
    case: Case, model: Model, interval: tuple[float, float], confidence: float, seed: int
) -> float:
    """The bound of a case whose interval is known."""
    if case.notion.joint and len(case.sample.classes) > 2 and case.loss in (L2, KL):
        each = CLASSWISE
        tunings = [model.tunings[0]] * len(case.sample.classes)
        problems = each.problems(case.sample, case.loss)
        classwise = replace(case, notion=each, problems=problems, complete=True)
        by_class = replace(model, notion=each, tunings=tunings, mixtures=())
        bound = interval[1] + _fine_end(classwise, by_class, confidence, seed)
    else:
        bound = max(interval[1], _fine_end(case, model, confidence, seed))
    return within_range((0.0, bound), model.problems, model.sample.weights)[1]


def _fine_end(case: Case, model: Model, confidence: float, seed: int) -> float:
    """The upper end of the interval of the estimate by the narrowest kernels."""
    fine = fine_tunings(case.problems, model)
    estimates = debiased(
        case.problems, model.kernel, model.engine, model.start, fine, by_nodes=not case.complete
    )
    given = [WeightedTunings.given(tuning) for tuning in fine]
    kernels = replace(model, tunings=given, mixtures=())
    chance = Chance.of(kernels, estimates, case.n_drawn, seed)
    value = sum(each.mean(each.terms) for each in estimates)
    return chance.interval(value, confidence)[1]


def fine_tunings(problems: Sequence[Problem], model: Model) -> list[Tuning]:
    """The narrowest tuning of each problem, in the coordinates of the one with most weight."""
    return [
        _finest(problem, weighted.best.flattening, model.kernel, model.engine)
        for problem, weighted in zip(problems, model.tunings, strict=True)
    ]


def _finest(problem: Problem, flattening: float, kernel: Kernel, engine: str) -> Tuning:
    """The narrowest candidate down to which there are so many neighbours; at least the widest."""
    rows = condensed(problem, kernel, engine)
    smoother = choose_smoother([rows], kernel, engine, small=TINY)
    candidates = [
        each
        for each in reversed(candidate_tunings(kernel, problem.n_classes))
        if each.flattening == flattening
    ]
    finest = candidates[0]
    for tuning in candidates:
        # Averages of rows that are alone are shrunk: the squares of their weights, too.
        share, s = smoother.with_squares({0: np.ones((len(rows.labels), 1))}, tuning)[0]
        alone = share[:, 0] < FAINT
        each = np.where(alone, 1.0, s / np.where(alone, 1.0, share[:, 0]) ** 2)
        if float(np.average(each, weights=rows.weights)) > 1 / NEIGHBOURS:
            break
        finest = tuning
    return finest
