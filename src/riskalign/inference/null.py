"""The estimate in a world where the start is right: labels drawn from it, again and again.

Labels y^b are drawn from a truth g (the fitted start), b = 1, ..., B. For each set the start would
be fitted anew, to first order by one Newton step from the truth,

    g^b_i = softmax(log g_i + phi_i sum_(j != i) push^b_j),    push^b_j = I^-1 phi_j' (y^b_j - g_j),

the residuals y^b - g^b are smoothed by the same tunings, and the debiased error of g is computed.
Its mean over the label sets is the bias of the estimate for a calibrated model, its variance the
noise of the smoother. All label sets are smoothed together, as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, softmax

from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.notions import Notion
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray, floored_log
from riskalign.equations.curves import CurveStep, Features, Knots
from riskalign.equations.debiased import FitNoise, recalibrated, second_order, variance_of
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import KL, ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed, log_odds, on_simplex
from riskalign.equations.starts import (
    FittedStart,
    Start,
    Temperature,
    information,
    prior_precision,
    products,
    slopes_of,
)
from riskalign.equations.terms import risk_of
from riskalign.methods.residuals import Mixture
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother

DRAWS, MOST_DRAWS = 30, 500
"""Label sets that show the null variance, at least and at most. Its root errs by an eighth with 30
sets, so that small samples, which cost little, have more."""

ROWS = 2_000
"""Samples that show the null variance; from m of n samples it is scaled by (m / n)^2, because
each row's weights spread over m instead of n neighbours and m instead of n rows are averaged."""

CELLS, FEWEST = 16_000, 500
"""Probabilities that show the null variance, and samples: fewer are drawn for many classes."""

REPRESENTATIVES = 2
"""Tunings of a problem that represent all in the null simulation."""

GOLDEN = (1 + 5**0.5) / 2
"""Fractions of its multiples are different numbers for all ranks of a row's probabilities, which
put predictions in order."""

FEW_PARAMETERS = 3
"""Parameters up to which sums over them are faster written out."""


@dataclass(frozen=True)
class Model:
    """A model with its debiased estimate: what its null world needs to know.

    Attributes
    ----------
    sample : rows of the model's predictions
    notion, loss, kernel, engine, start : as for the estimate
    tunings : the tunings of each problem and their weights
    mixtures : the share of the kernels and of finer estimates; kernels alone if there are none
    """

    sample: Sample
    notion: Notion
    loss: ProperLoss
    kernel: Kernel
    engine: str
    start: Start
    tunings: Sequence[WeightedTunings]
    mixtures: Sequence[Mixture] = ()

    @property
    def problems(self) -> list[Problem]:
        """The problems of all rows."""
        return self.notion.problems(self.sample, self.loss)

    def truth(self, rows: IntArray) -> FloatArray:
        """What labels are drawn from: the predictions of some rows at their start, ``(m, K)``.

        The start is fitted to these rows. Where each problem has one probability of many, the
        temperature of the whole is enough.
        """
        drawn = one_per_row(self.sample.take(rows))
        f = drawn.probabilities
        if f.shape[1] == 2:
            p = np.minimum(f[:, 1], 1.0)
            whole = Problem("all", p, drawn.labels, drawn.weights, KL)
            return on_simplex(FittedStart.of(whole, self.start).at(p)[:, 0])
        start = self.start
        if not self.notion.joint and self.start.name != "identity":
            start = Temperature()
        whole = Problem("all", f, drawn.labels, drawn.weights, KL)
        return FittedStart.of(whole, start).at(f)

    def null_terms(
        self, rows: IntArray, truth: FloatArray, labels: IntArray
    ) -> Iterator[FloatArray]:
        """Terms of each problem ``(m, B)`` at some rows, of labels from a truth ``(m, K)``."""
        for world, tunings in self.worlds(rows, truth, labels):
            mixture = self.mixtures[world.number] if self.mixtures else Mixture()
            total = np.zeros(world.outcomes.shape)
            if mixture.kernels > 0:
                for tuning, share in tunings.items():
                    total += mixture.kernels * share * world.terms(tuning)
            for knots, share in mixture.levels:
                total += share * world.finer_terms(knots)
            yield total

    def worlds(
        self, rows: IntArray, truth: FloatArray, labels: IntArray
    ) -> Iterator[tuple[NullWorld, dict[Tuning, float]]]:
        """The null simulation of each problem at some rows, and its tunings with their weights."""
        drawn = one_per_row(self.sample.take(rows))
        problems = self.notion.problems(drawn, self.loss)
        smoother = choose_smoother(problems, self.kernel, self.engine, small=TINY)
        for k, problem in enumerate(problems):
            true = self.notion.truth(truth, drawn.probabilities, k)
            outcomes = self.notion.outcomes(drawn.probabilities, labels, k)
            world = NullWorld(k, problem, true, outcomes, self.start, smoother)
            yield world, representatives(self.tunings[k])


def one_per_row(sample: Sample) -> Sample:
    """The sample with each row standing for one sample."""
    if sample.sample_weights is None:
        return sample
    return replace(sample, weights=sample.sample_weights, sample_weights=None)


def representatives(weighted: WeightedTunings) -> dict[Tuning, float]:
    """A few tunings that stand for all, and their weights.

    In the order of bandwidths they lie in the middle of equal shares of the weight.
    """
    order = sorted(range(len(weighted.tunings)), key=lambda c: weighted.tunings[c].bandwidth)
    ends = np.cumsum(weighted.weights[order])
    middles = (np.arange(REPRESENTATIVES) + 0.5) / REPRESENTATIVES * ends[-1]
    chosen = [weighted.tunings[order[i]] for i in np.searchsorted(ends, middles)]
    return {tuning: chosen.count(tuning) / REPRESENTATIVES for tuning in dict.fromkeys(chosen)}


@dataclass(frozen=True)
class NullWorld:
    """One problem of a model in the world where labels are drawn from a truth.

    Attributes
    ----------
    number : of the problem in the smoother's group
    problem : its points are the model's own predictions
    truth : the probabilities of the labels, in the form of the predictions
    outcomes : label sets, ``(n, B)``
    start : its parameters are fitted to each label set
    smoother : of the group
    """

    number: int
    problem: Problem
    truth: FloatArray
    outcomes: LabelArray
    start: Start
    smoother: Smoother

    @cached_property
    def _g(self) -> FloatArray:
        return Problem.free(self.truth)  # (n, d)

    @cached_property
    def _phi(self) -> FloatArray:
        return self.start.features(self.problem.predictions)  # (n, d, p)

    @cached_property
    def _slopes(self) -> FloatArray:
        return slopes_of(self._phi, self._g)  # (n, d, p)

    @cached_property
    def labels(self) -> FloatArray:
        """The label sets in free columns, ``(n, B, d)``."""
        d = self._g.shape[1]
        y = self.outcomes[:, :, None]
        return y.astype(np.float64) if d == 1 else (y == np.arange(d)).astype(np.float64)

    @cached_property
    def _information(self) -> FloatArray:
        p = self._phi.shape[2]
        fisher = information(self._phi, self._g, self.problem.weights)
        return fisher + prior_precision(self.problem.mean_weight, p)

    @cached_property
    def _pushes(self) -> FloatArray:
        """By how much each label moves the parameters, ``(n, B, p)``."""
        variance = np.linalg.pinv(self._information, hermitian=True)
        moving = (self.problem.units[:, None, None] * self._phi) @ variance  # (n, d, p)
        return _contracted(self.labels - self._g[:, None], moving)

    @cached_property
    def _started(self) -> FloatArray:
        """The start fitted to each label set, each row left out, ``(n, B, d)``."""
        if not self._phi.shape[2]:
            return np.broadcast_to(self._g[:, None], self.labels.shape)
        return _tilted(self.truth, _applied(self._phi, self._pushes.sum(axis=0) - self._pushes))

    @cached_property
    def _columns(self) -> FloatArray:
        """What is smoothed: slopes, and the residuals of all label sets, ``(n, d p + B d)``."""
        n, d, p = self._phi.shape
        residuals = (self.labels - self._started).reshape(n, -1)
        return np.concatenate([self._slopes.reshape(n, d * p), residuals], axis=1)

    def terms(self, tuning: Tuning) -> FloatArray:
        """Terms of the debiased estimate of each label set, ``(n, B)``."""
        q, s, noise = self._averages(tuning)
        shift = None
        if noise is not None:
            pushed = _applied(self._slopes @ noise.left, self._pushes)
            shift = pushed.reshape(-1, self._g.shape[1])
        return self._errors(q, s, shift)

    def conditional(self, tuning: Tuning) -> tuple[FloatArray, FloatArray]:
        """R of each label set and its variance, ``(n, B, d)`` each."""
        q, s, noise = self._averages(tuning)
        R = self._recalibrated(q)[:, -q.shape[2] :].reshape(q.shape)
        return R, variance_of(self.problem, R, s, noise, self._slopes)

    def _averages(self, tuning: Tuning) -> tuple[FloatArray, FloatArray, FitNoise | None]:
        """Smoothed residuals ``(n, B, d)``, squares ``(n,)``, and how labels move the start."""
        k, (n, d, p) = self.number, self._phi.shape
        smoothed, s = self.smoother.with_squares({k: self._columns}, tuning)[k]
        q = smoothed[:, d * p :].reshape(self.labels.shape)
        if not p:
            return q, s, None
        slopes = smoothed[:, : d * p].reshape(n, d, p)
        weights = self.problem.weights
        size = products(weights, self._slopes, self._slopes)
        noise = FitNoise.of(self._information, size, products(weights, self._slopes, slopes))
        return q + _applied(slopes, self._pushes), s, noise

    def finer_terms(self, knots: Knots) -> FloatArray:
        """Terms ``(n, B)`` by curves with such knots."""
        features = Features(self.problem.predictions, knots)
        unit = self.problem.mean_weight
        step = CurveStep.of(features, self._g, self.problem.weights, unit, shared=True)
        found = np.empty(self.outcomes.shape)
        for b, labels in enumerate(self.outcomes.T):
            residuals = self.labels[:, b] - self._g
            total = features.total(self.problem.weights[:, None] * residuals)
            *pair, a = step.left_out_and_let_in(total, residuals, self.problem.units)
            points = (on_simplex(self.truth), *pair)
            risk, left_out, within = (risk_of(self.problem.loss, labels, each) for each in points)
            found[:, b] = risk - a * left_out - (1 - a) * within
        return found

    def _errors(self, q: FloatArray, s: FloatArray, shift: FloatArray | None) -> FloatArray:
        """<y, l(g)> less the refinement of R = start + q, rows of all sets one after another."""
        n_sets = self.outcomes.shape[1]
        drawn = replace(
            self.problem,
            predictions=np.repeat(self.truth, n_sets, axis=0),
            labels=self.outcomes.ravel(),
            weights=np.repeat(self.problem.weights, n_sets),
            sample_weights=None,
        )
        _, refinement = second_order(drawn, self._recalibrated(q), np.repeat(s, n_sets), shift)
        risk = risk_of(drawn.loss, drawn.labels, drawn.points)
        return (risk - refinement).reshape(self.outcomes.shape)

    def _recalibrated(self, q: FloatArray) -> FloatArray:
        """R = start + q, rows of all label sets one after another, ``(n B, K)``."""
        d = q.shape[2]
        return recalibrated(completed(self._started.reshape(-1, d)), q.reshape(-1, d))


def _contracted(residuals: FloatArray, phi: FloatArray) -> FloatArray:
    """<residuals, phi> over outcomes: ``(n, B, d)`` and ``(n, d, p)`` to ``(n, B, p)``."""
    if phi.shape[1] == 1:
        return residuals * phi
    return residuals @ phi


def _applied(slopes: FloatArray, pushes: FloatArray) -> FloatArray:
    """What parameters that move do to g: ``(n, d, p)`` and ``(n, B, p)`` to ``(n, B, d)``."""
    if slopes.shape[2] <= FEW_PARAMETERS:
        total = slopes[:, None, :, 0] * pushes[:, :, 0, None]
        for i in range(1, slopes.shape[2]):
            total += slopes[:, None, :, i] * pushes[:, :, i, None]
        return total
    return pushes @ slopes.transpose(0, 2, 1)


def _tilted(truth: FloatArray, tilt: FloatArray) -> FloatArray:
    """The truth with its log-odds (its logarithms) moved by ``(n, B, d)``."""
    if truth.ndim == 1:
        return expit(log_odds(truth)[:, None, None] + tilt)
    points: FloatArray = softmax(floored_log(truth)[:, None] + tilt, axis=2)
    return points


def draw_labels(g: FloatArray, n_draws: int, generator: np.random.Generator) -> IntArray:
    """Label sets drawn from rows of g, ``(n, B)``.

    A uniform number picks the rank of a class among the probabilities of its row, the largest
    first, so that the order of the columns does not matter.
    """
    classes = np.argsort(-g, axis=1, kind="stable")  # (n, K)
    cumulated = np.cumsum(np.take_along_axis(g, classes, axis=1), axis=1)[:, :-1]
    uniform = generator.random((len(g), n_draws))
    ranks = np.zeros(uniform.shape, dtype=np.intp)
    for column in cumulated.T:
        ranks += uniform > column[:, None]
    return np.take_along_axis(classes, ranks, axis=1)


def ordering(samples: Sequence[Sample]) -> IntArray:
    """An order of rows by their predictions, whatever the order of rows and of classes, ``(n,)``.

    Several samples are those of models for the same rows.
    """
    steps = np.modf(GOLDEN * np.arange(1, samples[0].probabilities.shape[1] + 1))[0]
    keys = (np.sort(sample.probabilities, axis=1) @ steps for sample in samples)
    order: IntArray = np.argsort(np.sum(list(keys), axis=0), kind="stable")
    return order


def null_sample(
    models: Sequence[Model], signs: Sequence[float], seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Terms of a signed sum of estimates if the models' starts were right, and their weights.

    Labels are drawn from the mean of the starts, so that models that err together in the data
    err together in the null world. Returns terms ``(m, B)`` at some rows and weights ``(m,)``.
    """
    rows, truth, labels = drawn_labels(models, seed)
    null = np.zeros(labels.shape)
    for model, sign in zip(models, signs, strict=True):
        terms = np.zeros(labels.shape)  # of one model: those of its copy are the same to the bit
        for each in model.null_terms(rows, truth, labels):
            terms += each
        null += sign * terms
    return null, one_per_row(models[0].sample.take(rows)).weights


def null_estimates(model: Model, n_samples: float, seed: int = 0) -> FloatArray:
    """Estimates of each problem from label sets drawn from the model's start, ``(P, B)``."""
    rows, truth, labels = drawn_labels([model], seed)
    weights = one_per_row(model.sample.take(rows)).weights
    share = weights / weights.sum() * (len(rows) / n_samples)
    return np.stack([share @ terms for terms in model.null_terms(rows, truth, labels)])


def drawn_labels(models: Sequence[Model], seed: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Some rows, the mean of the starts there ``(m, K)``, and labels drawn from it ``(m, B)``."""
    samples = [model.sample for model in models]
    affordable = CELLS // samples[0].probabilities.shape[1]
    rows = systematic_rows(samples, min(ROWS, max(FEWEST, affordable)))
    truth: FloatArray = np.mean([model.truth(rows) for model in models], axis=0)
    n_draws = min(max(DRAWS, DRAWS * CELLS // truth.size), MOST_DRAWS)
    return rows, truth, draw_labels(truth, n_draws, np.random.default_rng(seed))


def systematic_rows(samples: Sequence[Sample], m: int) -> IntArray:
    """Rows of m samples, evenly spaced among all; a row of many equal samples comes often.

    The samples are those of models for the same rows. Rows are taken in an order of their
    predictions, so that predictions that differ by rounding alone get the same labels drawn.
    """
    first = samples[0]
    counts = first.multiplicities
    order = ordering(samples)
    ends = np.cumsum(counts[order])
    m = int(min(m, ends[-1]))
    places = (np.arange(m) + 0.5) * (ends[-1] / m)
    return order[np.searchsorted(ends, places, side="right")].astype(np.intp)
