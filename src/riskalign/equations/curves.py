"""Curves on top of a start: their forms, knots and features, hat functions of each probability.

To the logits of a fitted start g are added the features of the start (so that they are fitted
anew) and piecewise linear functions of single probabilities,

    eta_k = log g_k + a log f_k + b log(f_k + c) + d_k + u(f_k) + v_k(f_k),

where the curve u is shared by all classes and v_k is that of class k; a form has one of them, or
neither. For one probability eta are log-odds, and there is one curve. The parameters are found in
`riskalign.equations.curve_fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any, TypeVar

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray, floored_log
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import log_odds
from riskalign.equations.starts import NOISE

OUTCOMES, OUTCOMES_EVERY = 8, 4
"""Outcomes per knot, at least, of which a class or the rest has fewer: on average, and at each
distinct probability that is a knot. From fewer the noise of a curve is not taken out well."""

ROUNDING = 1e-6
"""Predictions that differ by less, relative to their distance from 0 and 1, count as equal: the
cells of a sketch are placed to within 1e-7."""

HELD = 20_000_000
"""Numbers up to which the columns of all classes are kept; beyond, they are made when needed."""

BLOCK = 2_500
"""Rows of a block, about: each core takes one at a time."""

T = TypeVar("T")
Map = Callable[[Callable[[Any], T], Sequence[Any]], Iterable[T]]
"""A function like `map`, which may use several cores."""


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
            return cls(form, [_knots(problem, *each, form) for each in columns])
        return cls(form, [_knots(problem, x.ravel(), mass.ravel(), rarer.ravel(), form)])

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


def _knots(
    problem: Problem, x: FloatArray, mass: FloatArray, rarer: FloatArray, form: CurveForm
) -> FloatArray:
    """Quantiles of x by mass, without repetitions; the smallest and the largest x among them.

    `rarer` are expected numbers of the rarer outcome, row by row. Where each class has its own
    curve, x are predictions of the problem's rows.
    """
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    begins = apart(ordered)
    distinct = ordered[begins]
    count = max(min(form.knots, int(rarer.sum() / OUTCOMES)), 1)
    if len(distinct) <= count:
        return distinct
    if form.every:
        often = _effective(problem, rarer, order, begins) >= OUTCOMES_EVERY
        if often.sum() > count:
            often[[0, -1]] = True
            return distinct[often]
    if count == 1:
        return ordered[:1]
    share = np.cumsum(np.maximum(mass[order], 0.0))  # weights of nodes may be negative
    wanted = np.searchsorted(share, np.linspace(share[0], share[-1], count)[1:-1])
    places = np.unique(np.r_[ordered[0], ordered[np.minimum(wanted, len(x) - 1)], ordered[-1]])
    return places[apart(places)]


def _effective(
    problem: Problem, rarer: FloatArray, order: IntArray, begins: IntArray
) -> FloatArray:
    """Expected numbers of the rarer outcome among equal predictions, were all weights equal.

    One heavy sample shows a single outcome, however much it weighs: the share of the rarer outcome
    is multiplied by the effective number of samples, (sum w)^2 / sum w^2.
    """
    weights = problem.weights
    columns = (rarer * problem.mean_weight, weights, weights * problem.units)
    rare, total, squares = (np.add.reduceat(each[order], begins) for each in columns)
    return np.divide(rare * total, squares, out=np.zeros(len(begins)), where=squares > 0)


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
    mapped : what computes blocks of rows; None for all rows at once
    keep : whether columns may be kept
    """

    predictions: FloatArray
    knots: Knots
    mapped: Map[Any] | None = None
    keep: bool = True

    @cached_property
    def blocks(self) -> list[tuple[slice, Features]]:
        """Blocks of rows, with their features; none if all rows are computed at once."""
        n = len(self.predictions)
        if self.mapped is None or n <= BLOCK:
            return []
        size = -(-n // -(-n // BLOCK))
        slices = [slice(start, start + size) for start in range(0, n, size)]
        f, knots, keep = self.predictions, self.knots, self._held
        return [(rows, Features(f[rows], knots, keep=keep)) for rows in slices]

    def by_blocks(self, function: Callable[[slice, Features], T]) -> Iterator[T]:
        """Results of a function of the rows and the features of each block."""
        if self.mapped is None or not self.blocks:
            yield function(slice(None), self)
        else:
            yield from self.mapped(lambda block: function(*block), self.blocks)

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

    @property
    def _held(self) -> bool:
        width = sum(own.stop - own.start for places in self._places for _, own in places)
        return self.keep and len(self.predictions) * width <= HELD

    @cached_property
    def _kept(self) -> list[FloatArray]:
        return [self._columns(k) for k in range(len(self._places))]

    def columns(self) -> Iterator[tuple[list[Place], FloatArray]]:
        """Places and features of one class after another."""
        for k, places in enumerate(self._places):
            yield places, self._kept[k] if self._held else self._columns(k)

    def scores(self, residuals: FloatArray) -> FloatArray:
        """J' r of each row ``(n, p)``, of residuals ``(n, d)``."""
        found = np.zeros((len(residuals), self.n_parameters))
        for k, (places, columns) in enumerate(self.columns()):
            for to, own in places:
                found[:, to] += residuals[:, k : k + 1] * columns[:, own]
        return found

    def total(self, residuals: FloatArray) -> FloatArray:
        """The sum of J' r over all rows ``(p,)``, of weighted residuals ``(n, d)``."""
        parts = self.by_blocks(lambda rows, own: own._total(residuals[rows]))
        return reduce(np.add, parts)

    def _total(self, residuals: FloatArray) -> FloatArray:
        found = np.zeros(self.n_parameters)
        for k, (places, columns) in enumerate(self.columns()):
            for to, own in places:
                found[to] += residuals[:, k] @ columns[:, own]
        return found

    def information(self, g: FloatArray, weights: FloatArray) -> FloatArray:
        """Sum w J' V J, ``(p, p)``."""
        parts = self.by_blocks(lambda rows, own: own._information(g[rows], weights[rows]))
        return reduce(np.add, parts)

    def _information(self, g: FloatArray, weights: FloatArray) -> FloatArray:
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
        one = theta.ndim == 1
        parts = list(self.by_blocks(lambda rows, own: own._logits(theta if one else theta[rows])))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _logits(self, theta: FloatArray) -> FloatArray:
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
