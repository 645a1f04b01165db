"""The estimate in a world where the start is right: labels drawn from it, again and again.

Labels y^b are drawn from a truth g (the fitted start), b = 1, ..., B. For each set the start is
fitted anew, to first order by one Newton step from the truth (`riskalign.equations.debiased`), the
residuals are smoothed by the same tunings, and the debiased error of g is computed. Its mean over
the label sets is the bias of the estimate for a calibrated model, its variance the noise of the
smoother. All label sets are smoothed together, as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.notions import Notion
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.curve_fit import CurveStep
from riskalign.equations.curves import Knots
from riskalign.equations.debiased import Started
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import KL, ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex
from riskalign.equations.starts import FittedStart, Start, Temperature
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

    def at(self, rows: IntArray) -> Sample:
        """The sample at some rows, each standing for one sample."""
        return one_per_row(self.sample.take(rows))

    def truth(self, rows: IntArray) -> FloatArray:
        """What labels are drawn from: the predictions of some rows at their start, ``(m, K)``.

        The start is fitted to these rows. Where each problem has one probability of many, the
        temperature of the whole is enough.
        """
        drawn = self.at(rows)
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
        drawn = self.at(rows)
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
    def sets(self) -> Started:
        """The label sets with their starts; predictions are the truth, which is judged."""
        return Started.drawn(self.problem, self.truth, self.outcomes, self.start)

    def _averages(self, tuning: Tuning) -> tuple[FloatArray, FloatArray]:
        """Averages of residuals and slopes by a tuning, and squares."""
        values = {self.number: self.sets.with_slopes()}
        return self.smoother.with_squares(values, tuning)[self.number]

    def terms(self, tuning: Tuning) -> FloatArray:
        """Terms of the debiased estimate of each label set, ``(n, B)``."""
        return self.sets.errors(*self._averages(tuning)).reshape(self.outcomes.shape)

    def conditional(self, tuning: Tuning) -> tuple[FloatArray, FloatArray]:
        """R of each label set and its variance, ``(n, B, d)`` each."""
        by_kernel = self.sets.smoothed(*self._averages(tuning))
        shape = (*self.outcomes.shape, self.sets.g.shape[1])
        return by_kernel.R[:, -shape[2] :].reshape(shape), by_kernel.variance.reshape(shape)

    def finer_terms(self, knots: Knots) -> FloatArray:
        """Terms ``(n, B)`` by curves with such knots."""
        g = Problem.free(self.truth)
        step = CurveStep.first(self.problem, g, knots, shared=True)
        judged = replace(self.problem, predictions=self.truth)
        drawn = (replace(judged, labels=labels) for labels in self.outcomes.T)
        return np.stack([step.errors(each)[0] for each in drawn], axis=1)


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
    return null, models[0].at(rows).weights


def null_estimates(model: Model, n_samples: float, seed: int = 0) -> FloatArray:
    """Estimates of each problem from label sets drawn from the model's start, ``(P, B)``."""
    rows, truth, labels = drawn_labels([model], seed)
    weights = model.at(rows).weights
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
