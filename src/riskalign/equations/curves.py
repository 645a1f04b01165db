"""Curves on top of a start: hat functions of each probability, fitted by one Newton step.

To the logits of a fitted start g are added the features of the start (so that they are fitted
anew) and piecewise linear functions of single probabilities,

    eta_k = log g_k + a log f_k + b log(f_k + c) + d_k + u(f_k) + v_k(f_k),

where the curve u is shared by all classes and v_k is that of class k; a form has one of them, or
neither. For one probability eta are log-odds, and there is one curve. With J_i the features of
row i, r = y - g and V_i the variance of a label drawn from g_i, the parameters are

    theta = F^-1 S,    S = sum_i w_i J_i' r_i,    F = sum_i w_i J_i' V_i J_i + prior.

A sample leaves the fit by F^-1 J_i' r_i: its part in a sum, so that what is left has no part in
its own noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, softmax

from riskalign.equations.arrays import FloatArray, IntArray, floored_log
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import log_odds, on_simplex
from riskalign.equations.starts import FARTHEST, NOISE, PRIOR

OUTCOMES, OUTCOMES_EVERY = 8, 4
"""Outcomes per knot, at least, of which a class or the rest has fewer; the second where each
distinct probability is a knot. From fewer the noise of a curve is not taken out well."""

ROUNDING = 1e-6
"""Predictions that differ by less, relative to their distance from 0 and 1, count as equal: the
cells of a sketch are placed to within 1e-7."""

HELD = 20_000_000
"""Numbers up to which the columns of all classes are kept; beyond, they are made when needed."""


@dataclass(frozen=True)
class CurveForm:
    """What kind of curves.

    A class without a curve of its own has a shift.

    Attributes
    ----------
    knots : of a curve, at most; 0 for no curve
    per_class : whether each class has its own curve
    every : whether each distinct probability is a knot, in classes with outcomes enough for that
    """

    knots: int
    per_class: bool
    every: bool = False


@dataclass(frozen=True)
class Knots:
    """Where the hat functions of each class have their tops.

    Attributes
    ----------
    form : of the curves
    places : knots of each class, or of all if there is one array
    """

    form: CurveForm
    places: Sequence[FloatArray]

    @classmethod
    def of(cls, problem: Problem, g: FloatArray, form: CurveForm) -> Knots:
        """Knots between which there is about as much to learn, as many as the labels allow.

        Predictions count by the root of the variance of their labels: between equal numbers of
        rows and equal information. The expected number of the rarer outcome of a class, over
        `OUTCOMES`, limits its knots.
        """
        if not form.knots:
            return cls(form, [])
        x, w = Problem.free(problem.predictions), problem.weights
        mass = w[:, None] * np.sqrt(np.maximum(g * (1 - g), 1e-12))
        rarer = w @ np.minimum(g, 1 - g) / problem.mean_weight  # (d,)
        if form.per_class:
            columns = zip(x.T, mass.T, rarer.tolist(), strict=True)
            return cls(form, [_knots(own, by, count, form) for own, by, count in columns])
        return cls(form, [_knots(x.ravel(), mass.ravel(), float(rarer.sum()), form)])

    def of_class(self, k: int) -> FloatArray:
        """The knots of class k; none if there is no curve."""
        if not self.places:
            return np.empty(0)
        return self.places[k if self.form.per_class else 0]

    @property
    def most(self) -> int:
        """The number of knots of the class that has most."""
        return max(map(len, self.places), default=0)

    @property
    def total(self) -> int:
        """The number of knots of all classes."""
        return sum(map(len, self.places))


def _knots(x: FloatArray, mass: FloatArray, outcomes: float, form: CurveForm) -> FloatArray:
    """Quantiles of x by mass, without repetitions; the smallest and the largest x among them."""
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    distinct = apart(ordered)
    if form.every and OUTCOMES_EVERY * len(distinct) <= outcomes:
        return distinct
    count = max(min(form.knots, int(outcomes / OUTCOMES)), 1)
    if len(distinct) <= count:
        return distinct
    if count == 1:
        return ordered[:1]
    share = np.cumsum(mass[order])
    wanted = np.searchsorted(share, np.linspace(share[0], share[-1], count))
    places = ordered[np.minimum(wanted, len(x) - 1)]
    return apart(np.unique(np.r_[ordered[0], places, ordered[-1]]))


def apart(ordered: FloatArray) -> FloatArray:
    """The first of each run of numbers in order that differ by rounding alone."""
    before, after = ordered[:-1], ordered[1:]
    differ = after - before > ROUNDING * after * (1 - before)
    return ordered[np.r_[True, differ]]


def hats(x: FloatArray, knots: FloatArray) -> FloatArray:
    """The hat functions of the knots at x, ``(n, m)``: they sum to one."""
    n, m = len(x), len(knots)
    if m < 2:
        return np.ones((n, m))
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, m - 2)
    share = np.clip((x - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
    found, rows = np.zeros((n, m)), np.arange(n)
    found[rows, left] = 1.0 - share
    found[rows, left + 1] = share
    return found


@dataclass(frozen=True)
class Features:
    """The features J of predictions, class by class.

    Attributes
    ----------
    predictions : (n,) or (n, K)
    knots : of the curves
    """

    predictions: FloatArray
    knots: Knots

    @cached_property
    def n_parameters(self) -> int:
        """P."""
        return int(self._places[-1][-1]) + 1

    @cached_property
    def _places(self) -> list[IntArray]:
        """Which parameters the columns of each class belong to."""
        form = self.knots.form
        if self.predictions.ndim == 1:
            return [np.arange(1 + len(self.knots.of_class(0)))]
        n_classes = self.predictions.shape[1]
        if not form.per_class:
            curve = 2 + n_classes + np.arange(len(self.knots.of_class(0)))
            return [np.r_[0, 1, 2 + k, curve].astype(np.intp) for k in range(n_classes)]
        ends = 2 + np.cumsum([0, *(len(self.knots.of_class(k)) for k in range(n_classes))])
        return [np.r_[0, 1, ends[k] : ends[k + 1]].astype(np.intp) for k in range(n_classes)]

    def _columns(self, k: int) -> FloatArray:
        """The features of class k ``(n, q)``."""
        f, knots = self.predictions, self.knots.of_class(k)
        if f.ndim == 1:
            return np.concatenate([log_odds(f)[:, None], hats(f, knots)], axis=1)
        n_classes, own = f.shape[1], f[:, k]
        first = [floored_log(own), np.log(own + NOISE / n_classes)]
        if not self.knots.form.per_class:
            first.append(np.ones(len(own)))
        return np.concatenate([np.stack(first, axis=1), hats(own, knots)], axis=1)

    @cached_property
    def _kept(self) -> list[FloatArray]:
        return [self._columns(k) for k in range(len(self._places))]

    def columns(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Parameters and features of one class after another."""
        held = len(self.predictions) * sum(map(len, self._places)) <= HELD
        for k, places in enumerate(self._places):
            yield places, self._kept[k] if held else self._columns(k)

    def scores(self, residuals: FloatArray) -> FloatArray:
        """J' r of each row ``(n, p)``, of residuals ``(n, d)``."""
        found = np.zeros((len(residuals), self.n_parameters))
        for k, (places, columns) in enumerate(self.columns()):
            found[:, places] += residuals[:, k : k + 1] * columns
        return found

    def information(self, g: FloatArray, weights: FloatArray) -> FloatArray:
        """Sum w J' V J, ``(p, p)``."""
        p, single = self.n_parameters, g.shape[1] == 1
        found = np.zeros((p, p))
        for k, (places, columns) in enumerate(self.columns()):
            mass = weights * (g[:, 0] * (1 - g[:, 0]) if single else g[:, k])
            found[np.ix_(places, places)] += (columns * mass[:, None]).T @ columns
        if not single:
            means = np.sqrt(weights)[:, None] * self.scores(g)
            found -= means.T @ means
        return found

    def logits(self, theta: FloatArray) -> FloatArray:
        """J theta ``(n, d)``, of one theta ``(p,)`` or one per row ``(n, p)``."""
        if theta.ndim == 1:
            each = [columns @ theta[places] for places, columns in self.columns()]
        else:
            each = [
                np.einsum("nq,nq->n", columns, theta[:, places])
                for places, columns in self.columns()
            ]
        return np.stack(each, axis=1)


@dataclass(frozen=True)
class CurveStep:
    """The Newton step from a start to a start with curves.

    Attributes
    ----------
    features : J
    g : the fitted start ``(n, d)``
    variance : F^-1, ``(p, p)``
    dimension : the effective number of parameters: what the prior leaves free
    """

    features: Features
    g: FloatArray
    variance: FloatArray
    dimension: float

    @classmethod
    def of(cls, features: Features, g: FloatArray, weights: FloatArray, unit: float) -> CurveStep:
        """From the start at the rows, their weights, and the mean weight of a sample."""
        prior = PRIOR * unit
        information = features.information(g, weights)
        variance = np.linalg.inv(information + prior * np.eye(len(information)))
        dimension = len(variance) - prior * float(np.trace(variance))
        return cls(features, g, variance.astype(np.float64, copy=False), dimension)

    def left_out_and_let_in(
        self, total: FloatArray, own: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """R ``(n, K)`` without each row's sample, and with it.

        `total` is S, ``(p,)``; `own` is what the sample of each row adds to it, ``(n, p)``.
        """
        let_in = self.features.logits(self.variance @ total)
        moved = np.clip(own @ self.variance, -FARTHEST, FARTHEST)
        left_out = tilted(self.g, let_in - self.features.logits(moved))
        return left_out, tilted(self.g, let_in)

    def at(self, points: FloatArray, g: FloatArray, total: FloatArray) -> FloatArray:
        """R ``(m, K)`` at points ``(m,)`` or ``(m, K)`` where the start is g ``(m, d)``."""
        features = Features(points, self.features.knots)
        return tilted(g, features.logits(self.variance @ total))


def tilted(g: FloatArray, tilt: FloatArray) -> FloatArray:
    """A start with its logits moved by ``(n, d)``, on the simplex."""
    if g.shape[1] == 1:
        return on_simplex(expit(log_odds(g[:, 0]) + tilt[:, 0]))
    points: FloatArray = softmax(floored_log(g) + tilt, axis=1)
    return points
