"""Curves on top of a start: hat functions of each probability, fitted by Newton steps.

To the logits of a fitted start g are added the features of the start (so that they are fitted
anew) and piecewise linear functions of single probabilities,

    eta_k = log g_k + a log f_k + b log(f_k + c) + d_k + u(f_k) + v_k(f_k),

where the curve u is shared by all classes and v_k is that of class k; a form has one of them, or
neither. For one probability eta are log-odds, and there is one curve. With J_i the features of
row i, r = y - g and V_i the variance of a label drawn from g_i, the parameters are

    theta = F^-1 S,    S = sum_i w_i J_i' r_i,    F = sum_i w_i J_i' V_i J_i + prior.

A sample is left out of the fit by subtracting w_i F^-1 J_i' r_i, its own part of the sum, from
theta. The noise of the fit raises the loss of a sample that is left out, and lowers that of a
sample that is not. A weighted mean of the two losses is free of this noise. The weights depend on
two numbers: with u = w_i J_i F^-1 J_i' r_i, the effect of the sample on its own logits,

    h = u' V u / r' u                             its leverage,
    s = 1 - prior w_i |F^-1 J_i' r_i|^2 / r' u    the share that the prior leaves of its effect.

On average the squared residual is 1 - h^2 + h s times the variance of the label if the sample is
left out, and 1 - 2 h + h s times if it is not, so that the weight of the first must be

    a = (2 - s) / (2 - h).

A second Newton step begins at a g that was fitted to the same labels. Its residuals r are smaller
by the factor 1 - 2 h + h s, and the weight is a = (2 - s) / ((2 + h) (1 - 2 h + h s)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.special import expit, softmax

from riskalign.equations.arrays import FloatArray, IntArray, floored_log, row_dot
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import log_odds, on_simplex
from riskalign.equations.starts import FARTHEST, NOISE, PRIOR

OUTCOMES, OUTCOMES_EVERY = 8, 4
"""Outcomes per knot, at least, of which a class or the rest has fewer: on average, and at each
distinct probability that is a knot. From fewer the noise of a curve is not taken out well."""

ROUNDING = 1e-6
"""Predictions that differ by less, relative to their distance from 0 and 1, count as equal: the
cells of a sketch are placed to within 1e-7."""

LEAST_LEFT = 0.5
"""The smallest 1 - h by which an effect is divided, for a sample that outweighs the others."""

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
    every : whether each distinct probability with outcomes enough is a knot, if these are more
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
        rarer = w[:, None] * np.minimum(g, 1 - g) / problem.mean_weight  # (n, d)
        if form.per_class:
            columns = zip(x.T, mass.T, rarer.T, strict=True)
            return cls(form, [_knots(*each, form) for each in columns])
        return cls(form, [_knots(x.ravel(), mass.ravel(), rarer.ravel(), form)])

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


def _knots(x: FloatArray, mass: FloatArray, rarer: FloatArray, form: CurveForm) -> FloatArray:
    """Quantiles of x by mass, without repetitions; the smallest and the largest x among them.

    `rarer` are expected numbers of the rarer outcome, row by row.
    """
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    begins = apart(ordered)
    distinct = ordered[begins]
    count = max(min(form.knots, int(rarer.sum() / OUTCOMES)), 1)
    if len(distinct) <= count:
        return distinct
    if form.every:
        often = np.add.reduceat(rarer[order], begins) >= OUTCOMES_EVERY
        if often.sum() > count:
            often[[0, -1]] = True
            return distinct[often]
    if count == 1:
        return ordered[:1]
    share = np.cumsum(np.maximum(mass[order], 0.0))  # weights of nodes may be negative
    wanted = np.searchsorted(share, np.linspace(share[0], share[-1], count)[1:-1])
    places = np.unique(np.r_[ordered[0], ordered[np.minimum(wanted, len(x) - 1)], ordered[-1]])
    return places[apart(places)]


def apart(ordered: FloatArray) -> IntArray:
    """Where runs of numbers begin that differ by rounding alone, of numbers in order."""
    before, after = ordered[:-1], ordered[1:]
    differ = after - before > ROUNDING * after * (1 - before)
    return np.flatnonzero(np.r_[True, differ])


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


Place = tuple[slice, slice]
"""Consecutive parameters, and the columns of a class that belong to them."""


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
        return self._places[-1][-1][0].stop

    @cached_property
    def _places(self) -> list[list[Place]]:
        """Where the columns of each class stand among the parameters."""
        form = self.knots.form
        if self.predictions.ndim == 1:
            return [[_place(0, 0, 1 + len(self.knots.of_class(0)))]]
        n_classes = self.predictions.shape[1]
        sizes = [len(self.knots.of_class(k)) for k in range(n_classes)]
        both = _place(0, 0, 2)
        if not form.per_class:
            curve = _place(2 + n_classes, 3, sizes[0])
            return [[both, _place(2 + k, 2, 1), curve] for k in range(n_classes)]
        begins = 2 + np.cumsum([0, *sizes[:-1]])
        return [
            [both, _place(begin, 2, m)] for begin, m in zip(begins.tolist(), sizes, strict=True)
        ]

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

    def columns(self) -> Iterator[tuple[list[Place], FloatArray]]:
        """Places and features of one class after another."""
        width = sum(own.stop - own.start for places in self._places for _, own in places)
        held = len(self.predictions) * width <= HELD
        for k, places in enumerate(self._places):
            yield places, self._kept[k] if held else self._columns(k)

    def scores(self, residuals: FloatArray) -> FloatArray:
        """J' r of each row ``(n, p)``, of residuals ``(n, d)``."""
        found = np.zeros((len(residuals), self.n_parameters))
        for k, (places, columns) in enumerate(self.columns()):
            for to, own in places:
                found[:, to] += residuals[:, k : k + 1] * columns[:, own]
        return found

    def total(self, residuals: FloatArray) -> FloatArray:
        """The sum of J' r over all rows ``(p,)``, of weighted residuals ``(n, d)``."""
        found = np.zeros(self.n_parameters)
        for k, (places, columns) in enumerate(self.columns()):
            for to, own in places:
                found[to] += residuals[:, k] @ columns[:, own]
        return found

    def information(self, g: FloatArray, weights: FloatArray) -> FloatArray:
        """Sum w J' V J, ``(p, p)``."""
        p, single = self.n_parameters, g.shape[1] == 1
        found = np.zeros((p, p))
        for k, (places, columns) in enumerate(self.columns()):
            mass = weights * (g[:, 0] * (1 - g[:, 0]) if single else g[:, k])
            block = (columns * mass[:, None]).T @ columns
            for (to, own), (across, other) in product(places, places):
                found[to, across] += block[own, other]
        if not single:
            means = np.sqrt(weights)[:, None] * self.scores(g)
            found -= means.T @ means
        return found

    def logits(self, theta: FloatArray) -> FloatArray:
        """J theta ``(n, d)``, of one theta ``(p,)`` or one per row ``(n, p)``."""
        eta = np.zeros((len(self.predictions), len(self._places)))
        for k, (places, columns) in enumerate(self.columns()):
            for to, own in places:
                if theta.ndim == 1:
                    eta[:, k] += columns[:, own] @ theta[to]
                else:
                    eta[:, k] += np.einsum("nq,nq->n", columns[:, own], theta[:, to])
        return eta


def _place(to: int, own: int, size: int) -> Place:
    return slice(to, to + size), slice(own, own + size)


@dataclass(frozen=True)
class CurveStep:
    """The Newton step from a start to a start with curves.

    Attributes
    ----------
    features : J
    g : where it begins ``(n, d)``: the fitted start, or where the step before it led
    variance : F^-1, ``(p, p)``
    prior : what the prior adds to the information of each parameter
    second : whether there was a step before
    shared : whether many label sets are asked for, so that what they share is worth computing
    """

    features: Features
    g: FloatArray
    variance: FloatArray
    prior: float
    second: bool = False
    shared: bool = False

    @classmethod
    def of(
        cls,
        features: Features,
        g: FloatArray,
        weights: FloatArray,
        unit: float,
        *,
        second: bool = False,
        shared: bool = False,
    ) -> CurveStep:
        """From where it begins at the rows, their weights, and the mean weight of a sample."""
        information = features.information(g, weights)
        return cls.by_information(features, g, information, unit, second=second, shared=shared)

    @classmethod
    def by_information(
        cls,
        features: Features,
        g: FloatArray,
        information: FloatArray,
        unit: float,
        *,
        second: bool = False,
        shared: bool = False,
    ) -> CurveStep:
        """From the information of all rows, ``(p, p)``, without the prior."""
        prior = PRIOR * unit
        variance = np.linalg.inv(information + prior * np.eye(len(information)))
        return cls(features, g, variance.astype(np.float64, copy=False), prior, second, shared)

    @property
    def dimension(self) -> float:
        """The effective number of parameters; see `effective_parameters`."""
        return effective_parameters(self.variance, self.prior)

    def left_out_and_let_in(
        self, total: FloatArray, residuals: FloatArray, units: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """R ``(n, K)`` without each row's sample, with it, and the weight ``(n,)`` of the first.

        `total` is S, ``(p,)``; residuals ``(n, d)`` and weights ``(n,)`` are those of one sample
        of each row.
        """
        let_in = self.features.logits(self.variance @ total)
        u, moved = self._effects(units[:, None] * residuals)
        left_out = tilted(self.g, let_in - u)
        return left_out, tilted(self.g, let_in), self._share(residuals, u, moved, units)

    def without_own(
        self, total: FloatArray, residuals: FloatArray, units: FloatArray
    ) -> FloatArray:
        """R ``(n, d)`` in which each row's own sample has no part, for norms of R.

        Nor has it a part in where a second step begins; see `riskalign.equations.norms`.
        """
        let_in = self.features.logits(self.variance @ total)
        u, _ = self._effects(units[:, None] * residuals)
        if self.second:
            u /= np.maximum(1 - self._leverage(residuals, u), LEAST_LEFT)[:, None]
        return tilted(self.g, let_in - u)[:, -self.g.shape[1] :]

    def _leverage(self, residuals: FloatArray, u: FloatArray) -> FloatArray:
        """The leverage h of each row ``(n,)``, from the effect u of its residual on its logits."""
        return _ratio(row_dot(self.g, u**2) - row_dot(self.g, u) ** 2, row_dot(residuals, u))

    def _effects(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What F^-1 J' r of each row does to its logits ``(n, d)``, and its square ``(n,)``."""
        if not self.shared and residuals.shape[1] > 1:
            return self._own_effects(self.features, residuals)
        effects, squares, farthest = self._of_units
        u = np.einsum("nk,nkl->nl", residuals, effects)
        moved = np.einsum("nk,nkl,nl->n", residuals, squares, residuals)
        far = np.flatnonzero(row_dot(np.abs(residuals), farthest) > FARTHEST)
        if len(far):
            features = Features(self.features.predictions[far], self.features.knots)
            u[far], moved[far] = self._own_effects(features, residuals[far])
        return u, moved

    def _own_effects(
        self, features: Features, residuals: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The same, of some rows by their features; no parameter moves farther than `FARTHEST`."""
        moved = np.clip(features.scores(residuals) @ self.variance, -FARTHEST, FARTHEST)
        return features.logits(moved), row_dot(moved, moved)

    @cached_property
    def _of_units(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What all label sets share: effects and products of residuals of 1, ``(n, d, d)``.

        With them the farthest that such a residual moves a parameter, ``(n, d)``.
        """
        n, d = self.g.shape
        effects, squares, farthest = np.zeros((n, d, d)), np.empty((n, d, d)), np.empty((n, d))
        size = max(1, HELD // (d * self.features.n_parameters))
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            moved = np.zeros((rows.stop - start, d, self.features.n_parameters))
            for k, (places, columns) in enumerate(self.features.columns()):
                for to, own in places:
                    moved[:, k] += columns[rows, own] @ self.variance[to]
            for k, (places, columns) in enumerate(self.features.columns()):
                for to, own in places:
                    effects[rows, :, k] += (moved[:, :, to] @ columns[rows, own, None])[:, :, 0]
            squares[rows] = moved @ moved.transpose(0, 2, 1)
            farthest[rows] = np.abs(moved).max(axis=2)
        return effects, squares, farthest

    def _share(
        self, residuals: FloatArray, u: FloatArray, moved: FloatArray, units: FloatArray
    ) -> FloatArray:
        """The weight a of the sample that is left out, ``(n,)``; `moved` is a square."""
        h = self._leverage(residuals, u)
        taken = _ratio(self.prior * moved, units * row_dot(residuals, u))  # 1 - s
        if not self.second:
            return np.minimum((1 + taken) / (2 - h), 1.0)
        return np.minimum((1 + taken) / ((2 + h) * (1 - h - h * taken)), 1.0)

    def at(self, points: FloatArray, g: FloatArray, total: FloatArray) -> FloatArray:
        """Where the step leads ``(m, d)`` from g ``(m, d)`` at points ``(m,)`` or ``(m, K)``."""
        own = points is self.features.predictions
        features = self.features if own else Features(points, self.features.knots)
        return tilted(g, features.logits(self.variance @ total))[:, -g.shape[1] :]


def _ratio(values: FloatArray, of: FloatArray) -> FloatArray:
    """Their ratio, from 0 to 1; 0 where there is nothing to have a share of."""
    ratio = np.divide(values, of, out=np.zeros(len(of)), where=of > 0)
    return np.clip(ratio, 0.0, 1.0)


def effective_parameters(variance: FloatArray, prior: float) -> float:
    """tr(1 - (prior F^-1)^2): noise of p free parameters lowers a loss in proportion to this."""
    return len(variance) - prior**2 * float(np.sum(variance**2))


def tilted(g: FloatArray, tilt: FloatArray) -> FloatArray:
    """A start with its logits moved by ``(n, d)``, on the simplex."""
    if g.shape[1] == 1:
        return on_simplex(expit(log_odds(g[:, 0]) + tilt[:, 0]))
    points: FloatArray = softmax(floored_log(g) + tilt, axis=1)
    return points
