"""How far chance moves the estimate of a norm of R - f, and by how much it is off.

Label sets b are drawn from the start g, and the norm of the predictions f is estimated from each
of them as it was from the data: T_b. In that world the norm is known, the mean of |g - f|. So the
variance of T_b is that of the estimate, what labels gain and the smoother's noise together, and
the mean of T_b less the known norm is its bias. The interval is

    [T - z se - max(bias, 0), T + z se - min(bias, 0)],    se^2 = Var_b(T_b),

cut at 0 and at the largest norm that the predictions could have: each end allows for the bias that
would put the truth beyond it.

Where finer curves have a share of the estimate, g is the mixture of the start and the curves with
the same shares, and T_b that of the estimates by kernels and by curves. The start alone would not
do: where it is close to f, all directions u of R - f are chance, and sums of |noise| vary less than
those of noise under directions that are clear. The ends are moved by what smaller and larger shares
of the curves would change, as those of a squared error are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from riskalign.data.case import Case
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.curves import CurveStep, Features, Knots
from riskalign.equations.norms import direction, norms_of, sides, variance_of_curve
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex
from riskalign.inference.null import Model, NullWorld, draw_labels, drawn_labels, one_per_row
from riskalign.methods.finer import mixed_at
from riskalign.methods.method import Outcome
from riskalign.methods.norms import doubts_of
from riskalign.methods.residuals import Debiased, Mixture
from riskalign.results import Interval, Side
from riskalign.smoothing import Tuning


@dataclass(frozen=True)
class NormChance:
    """The standard error and the bias of the estimate of a norm."""

    error: float
    bias: float

    @classmethod
    def of(cls, errors: FloatArray, scale: float) -> NormChance:
        """From T_b less the known norm ``(B,)``, of some samples; `scale` leads to all."""
        return cls(float(np.std(errors, ddof=1)) * scale, float(errors.mean()) * scale)

    def interval(
        self,
        value: float,
        confidence: float,
        most: float,
        doubts: tuple[float, float] = (0.0, 0.0),
    ) -> tuple[float, float]:
        """The interval of a norm that was estimated by `value`, cut at 0 and at `most`.

        The ends are moved by `doubts`.
        """
        reach = float(ndtri((1 + confidence) / 2)) * self.error
        low = value - doubts[0] - reach - max(self.bias, 0.0)
        high = max(value + doubts[1], 0.0) + reach - min(self.bias, 0.0)
        return min(max(low, 0.0), most), min(high, most)


@dataclass(frozen=True)
class NormChances:
    """Those of the parts of a norm that are too high and too low, and of the whole."""

    high: NormChance
    low: NormChance
    whole: NormChance

    @classmethod
    def of(cls, errors: FloatArray, scale: float) -> NormChances:
        """From the errors of the three ``(3, B)``."""
        return cls(*(NormChance.of(each, scale) for each in errors))


def norm_chances(
    model: Model, norm: str, n_samples: float, seed: int, residuals: Sequence[Debiased] = ()
) -> tuple[NormChances, list[NormChances]]:
    """Those of the sum over a model's problems, and those of each problem.

    `residuals` are the estimates of the problems, for the curves that have a share of them.
    """
    rows, truth, labels = drawn_labels([model], seed)
    if any(each.mixture.levels for each in residuals):
        truth = with_curves(model, rows, truth, residuals)
        labels = draw_labels(truth, labels.shape[1], np.random.default_rng(seed))
    weights = one_per_row(model.sample.take(rows)).weights
    share = weights / weights.sum()
    errors = np.stack(
        [
            _errors(world, tunings, _mixture_of(model, world), norm, share)
            for world, tunings in model.worlds(rows, truth, labels)
        ]
    )  # (problems, 3, B)
    scale = (len(rows) / n_samples) ** 0.5  # noise and bias both shrink with the noise of R
    return NormChances.of(errors.sum(axis=0), scale), [
        NormChances.of(each, scale) for each in errors
    ]


def _mixture_of(model: Model, world: NullWorld) -> Mixture:
    return model.mixtures[world.number] if model.mixtures else Mixture()


def with_curves(
    model: Model, rows: IntArray, truth: FloatArray, residuals: Sequence[Debiased]
) -> FloatArray:
    """The start at some rows ``(m, K)`` with the finer curves of each problem mixed in."""
    f = model.sample.take(rows).probabilities
    found = truth
    for k, each in enumerate(residuals):
        points = model.notion.truth(f, f, k)
        start = on_simplex(model.notion.truth(truth, f, k))
        found = model.notion.with_truth(found, f, k, mixed_at(each, points, start))
    total: FloatArray = found / found.sum(axis=1, keepdims=True)
    return total


def _errors(
    world: NullWorld, tunings: dict[Tuning, float], mixture: Mixture, norm: str, share: FloatArray
) -> FloatArray:
    """The estimates of a world's label sets, less what it knows: ``(3, B)``, as `NormChances`."""
    f = Problem.free(world.problem.predictions)  # (m, d)
    found = np.zeros((2, world.labels.shape[1]))
    if mixture.kernels > 0:
        found += mixture.kernels * (_by_kernels(world, tunings, norm) @ share)
    for knots, own in mixture.levels:
        found += own * (_by_curves(world, knots, norm) @ share)
    known = norms_of(norm, Problem.free(world.truth) - f) @ share  # (3,)
    return np.concatenate([found, found.sum(axis=0, keepdims=True)]) - known[:, None]


def _by_kernels(world: NullWorld, tunings: dict[Tuning, float], norm: str) -> FloatArray:
    """The sides of the terms of each label set, by kernels, ``(2, B, m)``."""
    f = Problem.free(world.problem.predictions)[:, None]  # (m, 1, d)
    R, deviation = np.zeros_like(world.labels), np.zeros_like(world.labels)
    for tuning, weight in tunings.items():
        each, variance = world.conditional(tuning)
        R += weight * each
        deviation += weight * np.sqrt(variance)
    return sides(direction(norm, R - f, deviation**2), world.labels - f).swapaxes(1, 2)


def _by_curves(world: NullWorld, knots: Knots, norm: str) -> FloatArray:
    """The sides of the terms of each label set, by a Newton step to curves, ``(2, B, m)``."""
    problem, g = world.problem, Problem.free(world.truth)
    f, weights = Problem.free(problem.predictions), problem.weights
    features = Features(problem.predictions, knots)
    step = CurveStep.of(features, g, weights, problem.mean_weight)
    variance = variance_of_curve(step, problem.unit)
    found = np.empty((2, world.labels.shape[1], len(f)))
    for b in range(found.shape[1]):
        labels = world.labels[:, b]
        total = features.total(weights[:, None] * (labels - g))
        R = step.without_own(total, labels - g, problem.units)
        found[:, b] = sides(direction(norm, R - f, variance), labels - f)
    return found


def norm_interval(
    case: Case, model: Model, norm: str, outcome: Outcome, confidence: float, seed: int
) -> Interval:
    """The interval of a mean norm, of its sides where it has them, and of each class."""
    assert outcome.residuals is not None
    assert outcome.norms is not None
    total, own = norm_chances(model, norm, case.n_drawn, seed, outcome.residuals)
    most = [largest(norm, problem) for problem in case.problems]
    values = [estimate.value for estimate in outcome.estimates]
    *of_sides, of_whole = doubts_of(outcome.norms)
    found = Interval(
        total.whole.error,
        total.whole.interval(float(np.sum(values)), confidence, sum(most), of_whole),
        confidence,
    )
    if case.notion.per_class:
        each_class = zip(own, values, most, outcome.norms, strict=True)
        found = replace(
            found,
            per_class_standard_error=np.array([each.whole.error for each in own]),
            per_class_interval=np.array(
                [
                    chances.whole.interval(value, confidence, largest_own, doubts_of([each])[-1])
                    for chances, value, largest_own, each in each_class
                ]
            ),
        )
    if norm != "l1" or case.notion.joint:
        return found
    parts = np.sum([each.value for each in outcome.norms], axis=0).tolist()
    high, low = (
        Side(value, chance.error, chance.interval(value, confidence, sum(most), doubts))
        for value, chance, doubts in zip(parts, (total.high, total.low), of_sides, strict=True)
    )
    return replace(found, too_high=high, too_low=low)


def largest(norm: str, problem: Problem) -> float:
    """The norm of a problem if every label is the least likely one: no R is farther from f."""
    f = Problem.free(problem.predictions)
    farthest = np.eye(f.shape[1])[f.argmin(axis=1)] - f  # from 1, for one probability
    if f.shape[1] == 1:
        farthest = np.maximum(f, 1 - f)
    return float(problem.weights @ norms_of(norm, farthest)[2] / problem.weights.sum())


def of_root(square: Interval, value: float, values: FloatArray) -> Interval:
    """The interval of a root, from that of its square: it holds the truth exactly as often.

    `value` and `values` ``(P,)`` are the squares. The standard error is that of the square over
    twice the root, which is taken as at least the root of that error.
    """
    ends = square.interval
    found = replace(
        square,
        standard_error=_of_root(square.standard_error, value),
        interval=(ends[0] ** 0.5, ends[1] ** 0.5),
    )
    if square.per_class_standard_error is None or square.per_class_interval is None:
        return found
    pairs = zip(square.per_class_standard_error.tolist(), values.tolist(), strict=True)
    return replace(
        found,
        per_class_standard_error=np.array([_of_root(error, x) for error, x in pairs]),
        per_class_interval=np.sqrt(square.per_class_interval),
    )


def _of_root(error: float, square: float) -> float:
    largest = max(square, error)
    return error / (2 * largest**0.5) if largest > 0 else 0.0


def bound_of_norm(norm: str, n_columns: int, square: float) -> float:
    """The largest norm that a mean square allows, by the inequality of Cauchy and Schwarz.

    `n_columns` absolute values are added up per row.
    """
    factor = n_columns if norm == "l1" else 1
    return float((factor * max(square, 0.0)) ** 0.5)
