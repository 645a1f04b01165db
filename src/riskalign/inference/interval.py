"""How far chance moves a debiased estimate: labels drawn from the model, and intervals.

The variance of an estimate depends on the error theta that it estimates. Where the model is
calibrated, what remains is the noise of the smoother, a sum over pairs of rows: labels drawn
from the start g show it, the variance V_0 of the estimate in a world where g is right. Where
it is not, a label y moves its row's term by the gain l_y(f) - l_y(R), whose variance under R
grows in proportion to the error itself, <R, l(f) - l(R)>. So

    V(theta) = V_0 + c theta,    c = mean Var_R(gain) / (n mean <R, l(f) - l(R)>),

and the interval holds every theta with |value - theta| <= z sqrt(V(theta)). An estimate that
came out small by chance has a small variance too; a symmetric interval around it would stop
short of the truth, this one does not.

The noise of the smoother is a sum of squares less its mean, skewed to the right: as of nu
squares, whose mean mu is what was put back for it, V_0 = 2 mu^2 / nu and the skewness is
sqrt(8 / nu) = 2 sqrt(V_0) / mu. The lower end, where this noise decides, allows for it with the
first term of Cornish and Fisher's expansion of the quantile. Labels drawn from the start show
too by how much the estimate of a calibrated model is off on average: where that is above 0, as
by the log loss with many classes, the lower end is as much lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, softmax

from riskalign.bandwidth.coordinates import (
    Part,
    apart,
    columns_of,
    onto_simplex,
    residuals_and_slopes,
    shares_of,
    smoothed_values,
    spread,
)
from riskalign.data.sample import Problem, Sample, reduce
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray, floored_log
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import KL, ProperLoss
from riskalign.equations.starts import (
    FitNoise,
    Start,
    features,
    moved,
    n_parameters,
    prior_of,
    products,
    slopes_of,
)
from riskalign.equations.terms import risk_of
from riskalign.methods.residuals import Debiased, second_order

NULL_DRAWS = 30
"""Label sets that show the null variance: its root errs by an eighth."""

NULL_ROWS = 2_000
"""Rows that show the null variance; from m of n rows it is scaled by (m / n)^2, because
each row's weights spread over m instead of n neighbours and m instead of n rows are averaged."""

NULL_SUMS = 1e10
"""Products spent on the null variance: fewer rows are drawn for many classes."""

COLUMNS = 256
"""Columns of values that are smoothed at once."""


def draw_labels(g: FloatArray, n_draws: int, generator: np.random.Generator) -> IntArray:
    """Label sets drawn from rows of g, ``(n, B)``."""
    cumulated = np.cumsum(g, axis=1)[:, :-1]  # (n, K-1)
    uniform = generator.random((len(g), n_draws))
    labels = np.zeros(uniform.shape, dtype=np.intp)
    for column in cumulated.T:
        labels += uniform > column[:, None]
    return labels


def outcomes_of(
    sample: Sample, notion: str, loss: ProperLoss, labels: IntArray
) -> list[LabelArray]:
    """Label sets ``(n, B)`` as each problem of a notion sees them."""
    sets = [reduce(replace(sample, labels=column), notion, loss) for column in labels.T]
    return [
        np.stack([problems[k].labels for problems in sets], axis=1) for k in range(len(sets[0]))
    ]


@dataclass(frozen=True)
class NullWorld:
    """A model's smoothers, and the true probabilities from which labels are drawn.

    Attributes
    ----------
    problems : the model's, whose kernels see its own predictions
    truths : (n, K) each, what the labels of each problem are drawn from
    parts : bandwidth and coordinates of each problem, by rows
    start : its parameters are fitted to each label set
    """

    problems: Sequence[Problem]
    truths: Sequence[FloatArray]
    parts: Sequence[Part]
    kernel: Kernel
    engine: str
    start: str

    @cached_property
    def _shares(self) -> list[FloatArray]:
        return shares_of(self.problems, self.parts, self.kernel, self.engine)

    def terms(self, outcomes: Sequence[LabelArray]) -> FloatArray:
        """Terms of the debiased estimate for label sets, summed over problems, ``(n, B)``.

        `outcomes` holds the labels ``(n, B)`` of each problem.
        """
        total = np.zeros(outcomes[0].shape)
        for k, labels in enumerate(outcomes):
            width = 1 if self.problems[k].predictions.ndim == 1 else self.problems[k].n_classes
            step = max(1, COLUMNS // width)
            for first in range(0, labels.shape[1], step):
                sets = slice(first, first + step)
                total[:, sets] += self._of_problem(k, labels[:, sets])
        return total

    def _of_problem(self, k: int, labels: LabelArray) -> FloatArray:
        """Terms of one problem, ``(n, B)``: all label sets are smoothed together."""
        g = self.truths[k]
        sets = [replace(self.problems[k], labels=column) for column in labels.T]
        starts = [self._start(k, drawn) for drawn in sets]
        residuals = [
            columns_of(drawn, drawn.one_hot() - start)
            for drawn, start in zip(sets, starts, strict=True)
        ]
        smoothed = self._smooth(k, np.concatenate(residuals, axis=1))  # (n, B d)
        parts = np.split(smoothed, len(sets), axis=1)
        terms = np.empty(labels.shape)
        for b, (drawn, start, part) in enumerate(zip(sets, starts, parts, strict=True)):
            q = spread(drawn, part)
            shift: FloatArray | float = 0.0
            if self.start != "identity":
                slopes, smoothed_slopes, noise = self._slopes[k]
                push = noise.pushes(drawn, g)
                shift = noise.own_shift(slopes, push)
                q = q + moved(smoothed_slopes, push)
            R = onto_simplex(start, q)
            refinement = second_order(drawn, R, self._shares[k], shift)
            terms[:, b] = risk_of(drawn.loss, drawn.labels, g) - refinement
        return terms

    @cached_property
    def _slopes(self) -> list[tuple[FloatArray, FloatArray, FitNoise]]:
        """Slopes of the start, their averages and what follows, the same for all label sets."""
        found = []
        for k, (problem, g) in enumerate(zip(self.problems, self.truths, strict=True)):
            p = n_parameters(self.start, problem.n_classes)
            phi = features(problem.points, p)
            slopes = slopes_of(phi, g)
            values = residuals_and_slopes(problem, g, slopes)
            smoothed = apart(problem, self._smooth(k, values))[1]
            information = products(problem.weights, slopes, phi)
            information += prior_of(problem.weights, p)
            noise = FitNoise.of(information, problem.weights, slopes, smoothed)
            found.append((slopes, smoothed, noise))
        return found

    def _start(self, k: int, drawn: Problem) -> FloatArray:
        """The start that would be fitted to the labels, each row left out: one Newton step."""
        g = self.truths[k]
        if self.start == "identity":
            return g
        slopes, _, noise = self._slopes[k]
        push = noise.pushes(drawn, g)
        tilt = moved(features(drawn.points, slopes.shape[2]), push.sum(axis=0) - push)
        return softmax(floored_log(g) + tilt, axis=1)

    def _smooth(self, k: int, residuals: FloatArray) -> FloatArray:
        own = [Part(part.rows, [part.choices[k]]) for part in self.parts]
        return smoothed_values([self.problems[k]], [residuals], own, self.kernel, self.engine)[0]


@dataclass(frozen=True)
class Fit:
    """A model with its debiased estimates: what intervals and comparisons start from."""

    sample: Sample
    notion: str
    loss: ProperLoss
    problems: Sequence[Problem]
    estimates: Sequence[Debiased]
    parts: Sequence[Part]
    kernel: Kernel
    engine: str
    start: str

    @property
    def terms(self) -> FloatArray:
        """Terms summed over problems, ``(n,)``."""
        total: FloatArray = np.sum([each.terms for each in self.estimates], axis=0)
        return total

    @property
    def fitted(self) -> FloatArray:
        """The whole predictions at their start, ``(n, K)``.

        Where each problem has one probability of many, the temperature of the whole is enough.
        """
        sample, start = self.sample, self.start
        if self.problems[0].n_classes < len(sample.classes) and start == "logistic":
            start = "temperature"
        whole = Problem("all", sample.probabilities, sample.labels, sample.weights, KL)
        return Start.fit(whole, start).at(whole.points)

    def null_terms(self, truth: FloatArray, labels: IntArray, rows: IntArray) -> FloatArray:
        """Terms of label sets drawn from a truth ``(m, K)`` at some rows, ``(m, B)``."""
        part = replace(
            self.sample,
            probabilities=truth,
            labels=self.sample.labels[rows],
            weights=self.sample.weights[rows],
        )
        world = NullWorld(
            [problem.take(rows) for problem in self.problems],
            [problem.points for problem in reduce(part, self.notion, self.loss)],
            [part.among(rows) for part in self.parts],
            self.kernel,
            self.engine,
            self.start,
        )
        return world.terms(outcomes_of(part, self.notion, self.loss, labels))


@dataclass(frozen=True)
class Chance:
    """The variance of an estimate if the error is theta: V_0 + c theta; and its skewness.

    Attributes
    ----------
    noise : V_0
    rate : c
    put_back : mu, on average what the noise had taken; infinite where it is symmetric
    bias : the mean of estimates in the world where g is right
    """

    noise: float
    rate: float
    put_back: float = np.inf
    bias: float = 0.0

    @classmethod
    def of(cls, fit: Fit) -> Chance:
        """From the estimates of a model."""
        share = fit.sample.weights / fit.sample.weights.sum()
        plugin = float(sum(share @ each.plugin for each in fit.estimates))
        variance = float(share**2 @ variance_of_gain(fit.estimates))
        bias, noise = null_moments([fit], [1.0], len(share))
        put_back = float(sum(share @ each.put_back for each in fit.estimates))
        return cls(noise, variance / plugin if plugin > 0 else 0.0, put_back, bias)

    def standard_error(self, value: float) -> float:
        """Of an estimate, at its own value."""
        return float(np.sqrt(self.noise + self.rate * max(value, 0.0)))

    def interval(self, value: float, confidence: float) -> tuple[float, float]:
        """Every theta >= 0 with (value - theta)^2 <= z^2 V(theta); below, also skewness and bias.

        A negative value counts as 0: an estimate far below what is possible is no proof of 0.
        """
        z2 = float(ndtri((1 + confidence) / 2)) ** 2
        unbiased = max(value - max(self.bias, 0.0), 0.0)
        low, _ = self._symmetric(unbiased, z2)
        _, high = self._symmetric(max(value, 0.0), z2)
        stretch = max(z2 - 1.0, 0.0) / 6 * self._skewness * self.noise**1.5

        def excess(theta: float) -> float:
            variance = self.noise + self.rate * theta
            return unbiased - theta - float(np.sqrt(z2 * variance)) - stretch / variance

        if low > 0 and stretch > 0:
            if excess(0.0) <= 0:
                low = 0.0
            elif excess(low) < 0:  # not so where rounding swallows the stretch: low stays
                low = float(brentq(excess, 0.0, low))
        return low, high

    def _symmetric(self, value: float, z2: float) -> tuple[float, float]:
        """Where (value - theta)^2 = z^2 V(theta), at least 0."""
        middle = value + z2 * self.rate / 2
        reach = (middle**2 - value**2 + z2 * self.noise) ** 0.5
        return max(middle - reach, 0.0), middle + reach

    @property
    def _skewness(self) -> float:
        """Of the smoother's noise; at most that of one square."""
        return min(2 * self.noise**0.5 / self.put_back, 8**0.5) if self.put_back > 0 else 8**0.5


def variance_of_gain(estimates: Sequence[Debiased]) -> FloatArray:
    """Variance of what a label drawn from R gains, summed over problems, ``(n,)``.

    Class-wise problems share their label: class k gains by its own gain if it is drawn.
    """
    moments = np.zeros((3, len(estimates[0].gains)))
    for each in estimates:
        R, gain = each.conditional, each.gains
        powers = np.array([R, R * gain, R * gain**2])
        moments += powers if R.ndim == 1 else powers.sum(axis=2)
    mass, first, second = moments
    mass = np.maximum(mass, 1.0)  # the probability 1 - R of a single problem gains nothing
    variance: FloatArray = second / mass - (first / mass) ** 2
    return np.maximum(variance, 0.0)


def paired_error(fits: Sequence[Fit], signs: Sequence[float]) -> float:
    """Standard error of a signed sum of estimates of models on the same samples."""
    weights = fits[0].sample.weights
    terms: FloatArray = np.sum(
        [sign * fit.terms for fit, sign in zip(fits, signs, strict=True)], axis=0
    )
    _, noise = null_moments(fits, signs, len(terms))
    return float(np.sqrt(_variance(terms, weights) + noise))


def null_moments(fits: Sequence[Fit], signs: Sequence[float], n: int) -> tuple[float, float]:
    """Mean and variance of estimates from n samples if the models' starts were right.

    Labels are drawn from the mean of the starts, so that models that err together in the
    data err together in the null world.
    """
    weights = fits[0].sample.weights
    m, n_classes = fits[0].sample.probabilities.shape
    single = fits[0].problems[0].predictions.ndim == 1
    rows = _null_rows(m, len(fits[0].problems) if single else n_classes)
    truth: FloatArray = np.mean([fit.fitted[rows] for fit in fits], axis=0)
    labels = draw_labels(truth, NULL_DRAWS, np.random.default_rng(0))
    null: FloatArray = np.sum(
        [sign * fit.null_terms(truth, labels, rows) for fit, sign in zip(fits, signs, strict=True)],
        axis=0,
    )
    each = weights[rows] @ null / weights[rows].sum()  # (B,)
    scale = len(rows) / n
    return float(each.mean()) * scale, float(np.var(each, ddof=1)) * scale**2


def _variance(terms: FloatArray, weights: FloatArray) -> float:
    """Variance of the weighted mean of independent terms."""
    share = weights / weights.sum()
    deviation = terms - share @ terms
    return float(share**2 @ deviation**2) * len(terms) / max(len(terms) - 1, 1)


def _null_rows(n: int, n_columns: int) -> IntArray:
    """Rows that show the null variance."""
    affordable = (NULL_SUMS / (NULL_DRAWS * n_columns)) ** 0.5
    m = int(min(n, NULL_ROWS, max(200.0, affordable)))
    if m == n:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, m, replace=False))
