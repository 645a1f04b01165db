"""How far chance moves a debiased estimate: labels drawn from the model, and intervals.

The variance of an estimate depends on the error theta that it estimates. Where the model is
calibrated, what remains is the noise of the smoother, a sum over pairs of rows: labels drawn
from the start g show it, the variance V_0 of the estimate in a world where g is right. Where
it is not, a label y moves its row's term by the gain l_y(f) - l_y(R), whose variance under R
grows in proportion to the error itself, <R, l(f) - l(R)>. So

    V(theta) = V_0 + c theta,    c = mean Var_R(gain) / (n mean <R, l(f) - l(R)>),

and the interval holds every theta with |value - theta| <= z sqrt(V(theta)). An estimate that
came out small by chance has a small variance too; a symmetric interval around it would stop
short of the truth, this one does not. If the error is smaller than its estimate, R is closer to f
than it seems. At R_t = f + t (R - f), whose error is about t^2 times as large, c is another: for a
rare class with probabilities that are too high it is larger, in proportion to R_t for squared
errors. It is computed at t = 1/2 and t = 1, and taken to be linear in between and below,

    c(theta) = c (1 - b (1 - t)),    t = sqrt(theta / value) for theta < value, else 1.

The noise of the smoother is a sum of squares less its mean, skewed to the right: as of nu
squares, whose mean mu is what was removed for it, V_0 = 2 mu^2 / nu and the skewness is
sqrt(8 / nu) = 2 sqrt(V_0) / mu. The lower end, where this noise decides, allows for it with the
first term of Cornish and Fisher's expansion of the quantile. Labels drawn from the start show
too by how much the estimate of a calibrated model is off on average: where that is above 0, as
by the log loss with many classes, the lower end is as much lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from riskalign.equations.arrays import FloatArray, row_dot
from riskalign.equations.problem import Problem
from riskalign.inference.null import (
    ROWS,
    Model,
    null_estimates,
    null_sample,
    one_per_row,
    systematic_rows,
)
from riskalign.methods.residuals import Debiased
from riskalign.results import Interval


@dataclass(frozen=True)
class Chance:
    """The variance of an estimate if the error is theta: V_0 + c theta; and its skewness.

    Attributes
    ----------
    noise : V_0
    rate : c at the estimate
    removed : mu, on average what the noise had taken; infinite where it is symmetric
    bias : the mean of estimates in the world where g is right
    doubts : by how much the lower and the upper end of an interval are moved, because what finer
        estimates show may be chance or not
    bend : b, by how much c falls towards an error of 0; negative where it rises
    """

    noise: float
    rate: float
    removed: float = np.inf
    bias: float = 0.0
    doubts: tuple[float, float] = (0.0, 0.0)
    bend: float = 0.0

    @classmethod
    def of(cls, model: Model, estimates: Sequence[Debiased], n_samples: float, seed: int) -> Chance:
        """The variance model of the sum of the estimates of a model's problems."""
        gains = mean_variance_of_gain(model, estimates)
        return cls._of(estimates, gains, null_estimates(model, n_samples, seed).sum(axis=0))

    @classmethod
    def of_all(
        cls, model: Model, estimates: Sequence[Debiased], n_samples: float, seed: int
    ) -> tuple[Chance, list[Chance]]:
        """The variance models of the sum of a model's estimates, and of each of them."""
        null = null_estimates(model, n_samples, seed)  # (P, B)
        total = cls._of(estimates, mean_variance_of_gain(model, estimates), null.sum(axis=0))
        pairs = zip(estimates, null, strict=True)
        return total, [cls._of([one], one.mean(variance_of_gain(one)), own) for one, own in pairs]

    @classmethod
    def _of(cls, estimates: Sequence[Debiased], gains: float, null: FloatArray) -> Chance:
        """From the mean variance of a label's gain, and estimates ``(B,)`` of the null world."""
        plugin = sum(each.mean(each.plugin) for each in estimates)
        removed = sum(each.mean(each.variance_removed) for each in estimates)
        gains = max(gains, 0.0)  # nodes may have weights below 0, and so may means of squares
        rate = gains / estimates[0].effective_samples / plugin if plugin > 0 else 0.0
        noise, bias = float(np.var(null, ddof=1)), float(null.mean())
        return cls(noise, rate, removed, bias, doubts_of(estimates), bend_of(estimates))

    def standard_error(self, value: float) -> float:
        """The standard error of an estimate, at its own value."""
        return float(np.sqrt(self.noise + self.rate * max(value, 0.0)))

    def interval(self, value: float, confidence: float) -> tuple[float, float]:
        """Every theta >= 0 with (value - theta)^2 <= z^2 V(theta); below, also skewness and bias.

        A negative value counts as 0: an estimate far below what is possible is no proof of 0.
        """
        z2 = float(ndtri((1 + confidence) / 2)) ** 2
        unbiased = max(value - max(self.bias, 0.0) - self.doubts[0], 0.0)
        _, high = self._symmetric(max(value + self.doubts[1], 0.0), z2)
        stretch = max(z2 - 1.0, 0.0) / 6 * self.skewness * self.noise**1.5

        def excess(theta: float) -> float:
            t = min((theta / value) ** 0.5, 1.0)
            variance = self.noise + self.rate * (1 - self.bend * (1 - t)) * theta
            skewed = stretch / variance if stretch > 0 else 0.0
            return unbiased - theta - float(np.sqrt(z2 * variance)) - skewed

        if unbiased <= 0 or excess(0.0) <= 0:
            return 0.0, high
        return float(brentq(excess, 0.0, unbiased, xtol=1e-12 * unbiased)), high

    def _symmetric(self, value: float, z2: float) -> tuple[float, float]:
        """Where (value - theta)^2 = z^2 V(theta), at least 0."""
        middle = value + z2 * self.rate / 2
        reach = (middle**2 - value**2 + z2 * self.noise) ** 0.5
        return max(middle - reach, 0.0), middle + reach

    @property
    def skewness(self) -> float:
        """Of the smoother's noise; at most that of one square."""
        return min(2 * self.noise**0.5 / self.removed, 8**0.5) if self.removed > 0 else 8**0.5


def interval_of_mean(
    model: Model, estimates: Sequence[Debiased], n_samples: float, confidence: float, seed: int
) -> Interval:
    """The interval of the summed mean divergences of a model's problems, per class of each too."""
    values = [each.mean(each.terms) for each in estimates]
    value, problems, weights = float(np.sum(values)), model.problems, model.sample.weights
    if not model.notion.per_class:
        chance = Chance.of(model, estimates, n_samples, seed)
        ends = within_range(chance.interval(value, confidence), problems, weights)
        return Interval(chance.standard_error(value), ends, confidence)
    chance, own = Chance.of_all(model, estimates, n_samples, seed)
    parts = list(zip(own, values, problems, strict=True))
    return Interval(
        chance.standard_error(value),
        within_range(chance.interval(value, confidence), problems, weights),
        confidence,
        per_class_standard_error=np.array([each.standard_error(error) for each, error, _ in parts]),
        per_class_interval=np.array(
            [
                within_range(each.interval(error, confidence), [problem], weights)
                for each, error, problem in parts
            ]
        ),
    )


def doubts_of(estimates: Sequence[Debiased]) -> tuple[float, float]:
    """How much smaller and how much larger an error may be: finer estimates may be chance."""
    below, above = (max(sum(each.doubts[end] for each in estimates), 0.0) for end in (0, 1))
    return below, above


def bend_of(estimates: Sequence[Debiased]) -> float:
    """By how much the variance of gains over the error falls where R is closer to f; at most 1."""
    near, there = (_variance_over_error(estimates, t) for t in (0.5, 1.0))
    return min(2 * (1 - near / there), 1.0) if there > 0 else 0.0


def _variance_over_error(estimates: Sequence[Debiased], t: float) -> float:
    """Mean variance of a label's gain over the error, if E[y | f] were f + t (R - f)."""
    variance = error = 0.0
    for each in estimates:
        f, loss = each.problem.points, each.problem.loss
        R = f + t * (each.conditional - f)
        gains = loss(f) - loss(R)
        mean = row_dot(R, gains)
        error += each.mean(mean)
        variance += each.mean(row_dot(R, (gains - mean[:, None]) ** 2))
    return variance / error if error > 0 else 0.0


def within_range(
    ends: tuple[float, float], problems: Sequence[Problem], weights: FloatArray
) -> tuple[float, float]:
    """The ends of an interval, at most the largest error that the predictions could have.

    Errors are convex in R, and largest where all labels of a row are alike. Of the problems of
    several classes one comes true, and the others do not.
    """
    low, high = ends
    loss, n_classes = problems[0].loss, problems[0].n_classes
    corners = np.diag(loss(np.eye(n_classes)))
    even = loss(np.full((1, n_classes), 1 / n_classes))
    if high <= (even - corners).max():  # no prediction has a smaller range than probabilities 1/K
        return ends
    without, rise = np.zeros(len(weights)), np.full(len(weights), -np.inf)
    for problem in problems:
        errors = loss(problem.points) - corners  # (n, K), where all labels are k
        without += errors[:, 0]
        rise = np.maximum(rise, (errors - errors[:, :1]).max(axis=1))
    most = float(weights @ (without + rise) / weights.sum())
    return min(low, most), min(high, most)


def variance_of_gain(estimate: Debiased) -> FloatArray:
    """The variance of the gain of a label drawn from R, ``(n,)``."""
    R, gains = estimate.conditional, estimate.gains
    return row_dot(R, (gains - row_dot(R, gains)[:, None]) ** 2)


def mean_variance_of_gain(model: Model, estimates: Sequence[Debiased]) -> float:
    """Mean variance of what a label drawn from R gains, all problems together.

    Class-wise problems share their label: class k gains by its own gain if it is drawn. Some
    rows show how much smaller or larger the variance of the sum is than the sum of variances,
    which all rows show: a few rows of large predictions may hold most of it.
    """
    apart = sum(each.mean(variance_of_gain(each)) for each in estimates)
    if len(estimates) == 1:
        return apart
    rows = systematic_rows([model.sample], ROWS)
    weights = one_per_row(model.sample.take(rows)).weights
    moments, alone = np.zeros((3, len(rows))), np.zeros(len(rows))
    problems = model.notion.problems(model.sample, model.loss)
    for problem, each in zip(problems, estimates, strict=True):
        R, gain = each.at_rows(problem, rows, model.kernel)
        R, gain = R[:, 1], gain[:, 1] - gain[:, 0]  # outcome 0 is counted by the other classes
        moments += np.array([R, R * gain, R * gain**2])
        alone += R * (1 - R) * gain**2
    mass, first, second = moments
    mass = np.maximum(mass, 1.0)  # what the classes leave of 1 gains nothing
    together = np.maximum(second / mass - (first / mass) ** 2, 0.0)
    seen = float(weights @ alone)
    return apart * float(weights @ together) / seen if seen > 0 else 0.0


def paired_error(
    models: Sequence[Model], signs: Sequence[float], terms: FloatArray, seed: int
) -> float:
    """Standard error of a signed sum of estimates of models on the same samples.

    `terms` holds the signed sum row by row, ``(n,)``. With V the variance of a mean of
    independent terms, V(terms) has two parts: what labels gain, and the smoothers' noise. A row's
    noise is its own residual times its neighbours' mean, and because neighbours are shared, the
    noise of the mean is another than V counts. Label sets b drawn from the starts show what V
    counts as noise, N, and what the noise is worth, V_0:

        V_gains(terms) = max(V(terms) - N, 0),    N = mean_b V(terms_b),
        V_0 = Var_b(d_b),                         d_b = mean of terms_b.

    By chance V_gains is large where the difference is, so that V_gains + V_0 would reject too
    rarely. The label sets show this as well: c is the variance of d_b over its own error, and

        error^2 = V_gains(terms) + c V_0,    c = Var_b(d_b / sqrt(V_gains(terms_b) + V_0)).
    """
    null, weights = null_sample(models, signs, seed)
    means = weights @ null / weights.sum()  # (B,)
    counted = np.array([_variance(each, weights) for each in null.T])
    noise, expected = float(np.var(means, ddof=1)), float(counted.mean())
    if noise > 0:
        each = means - means.mean()
        errors = np.sqrt(np.maximum(counted - expected, 0.0) + noise)
        noise *= float(np.sum((each / errors) ** 2)) / (len(each) - 1)
    scale = (len(null) / len(terms)) ** 2
    gains = _variance(terms, models[0].sample.weights) - scale * expected
    return float(np.sqrt(max(gains, 0.0) + scale * noise))


def _variance(terms: FloatArray, weights: FloatArray) -> float:
    """Variance of the weighted mean of independent terms."""
    share = weights / weights.sum()
    deviation = terms - share @ terms
    return float(share**2 @ deviation**2) * len(terms) / max(len(terms) - 1, 1)
