"""The fit of curves on top of a start, by Newton steps, and what its noise does to a loss.

With J_i the features of row i (`riskalign.equations.curves`), r = y - g and V_i the variance of a
label drawn from g_i, a step from g leads to the parameters

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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from riskalign.equations.arrays import FloatArray, row_dot
from riskalign.equations.curves import HELD, Features, Knots, Map
from riskalign.equations.debiased import Terms, errors
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed
from riskalign.equations.starts import FARTHEST, PRIOR, FittedStart, effective_parameters, tilted

SHARED = 5_000_000
"""Numbers ``(n, d, d)`` up to which label sets share the effects of their labels: more take more
time and memory than they save."""

LEAST_LEFT = 0.5
"""The smallest 1 - h by which an effect is divided, for a sample that outweighs the others."""


@dataclass(frozen=True)
class CurveStep:
    """The Newton step from a start to a start with curves.

    Attributes
    ----------
    features : J
    g : where it begins ``(n, d)``: the fitted start, or where the step before it led
    theta : the parameters of g, ``(p,)``: 0, or those that the step before it led to
    variance : F^-1, ``(p, p)``
    prior : what the prior adds to the information of each parameter
    second : whether there was a step before
    shared : whether many label sets are asked for, so that what they share is worth computing
    """

    features: Features
    g: FloatArray
    theta: FloatArray
    variance: FloatArray
    prior: float
    second: bool = False
    shared: bool = False

    @classmethod
    def first(
        cls,
        problem: Problem,
        g: FloatArray,
        knots: Knots,
        mapped: Map[Any] | None = None,
        *,
        shared: bool = False,
    ) -> CurveStep:
        """The step from a fitted start g ``(n, d)``; `mapped` is that of `Features`."""
        features = Features(problem.predictions, knots, mapped)
        return cls._of(problem, features, g, np.zeros(features.n_parameters), shared=shared)

    @classmethod
    def _of(
        cls,
        problem: Problem,
        features: Features,
        g: FloatArray,
        theta: FloatArray,
        *,
        second: bool = False,
        shared: bool = False,
    ) -> CurveStep:
        prior = PRIOR * problem.mean_weight
        information = features.information(g, problem.weights) + prior * np.eye(len(theta))
        variance = np.linalg.inv(information).astype(np.float64, copy=False)
        return cls(features, g, theta, variance, prior, second, shared)

    def next(self, problem: Problem) -> CurveStep:
        """The step from where the labels of a problem lead this one."""
        shift = self.shift(problem)
        g = self.at(problem.predictions, self.g, shift)
        return self._of(problem, self.features, g, self.theta + shift, second=True)

    @property
    def dimension(self) -> float:
        """The effective number of parameters; see `effective_parameters`."""
        return effective_parameters(self.variance, self.prior)

    def shift(self, problem: Problem) -> FloatArray:
        """F^-1 S by the labels of a problem ``(p,)``, the pull of the prior included."""
        residuals = problem.columns() - self.g
        scores = self.features.total(problem.weights[:, None] * residuals)
        found: FloatArray = self.variance @ (scores - self.prior * self.theta)
        return found

    def left_out_and_let_in(self, problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
        """R ``(n, K)`` without each row's sample, R' with it, and the share a ``(n,)`` of R.

        They are computed with the labels of a problem.
        """
        shift = self.shift(problem)

        def results(rows: slice, features: Features) -> tuple[FloatArray, ...]:
            whole = features is self.features
            own = self if whole else replace(self, features=features, g=self.g[rows])
            return own._moved_by(shift, problem.take(rows))

        parts = zip(*self.features.by_blocks(results), strict=True)
        R, within, share = (np.concatenate(each) for each in parts)
        return R, within, share

    def _moved_by(self, shift: FloatArray, problem: Problem) -> tuple[FloatArray, ...]:
        residuals, units = problem.columns() - self.g, problem.units
        let_in = self.features.logits(shift)
        u, moved = self._effects(units[:, None] * residuals)
        R, within = (completed(tilted(self.g, tilt)) for tilt in (let_in - u, let_in))
        return R, within, self._share(residuals, u, moved, units)

    def terms(self, problem: Problem) -> Terms:
        """Terms of the estimate, with the labels of a problem."""
        return Terms.of(problem, *self.left_out_and_let_in(problem))

    def errors(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """Those whose mean is the calibration error, ``(n,)``, and their optimism.

        The problem may be judged at other points than those of the features.
        """
        return errors(problem, *self.left_out_and_let_in(problem))

    def without_own(self, problem: Problem) -> FloatArray:
        """R ``(n, d)``, which does not depend on each row's own sample, for norms of R.

        The sample does not enter where a second step begins either: see
        `riskalign.equations.norms`.
        """
        residuals = problem.columns() - self.g
        let_in = self.features.logits(self.shift(problem))
        u, _ = self._effects(problem.units[:, None] * residuals)
        if self.second:
            u /= np.maximum(1 - self._leverage(residuals, u), LEAST_LEFT)[:, None]
        return tilted(self.g, let_in - u)

    def _leverage(self, residuals: FloatArray, u: FloatArray) -> FloatArray:
        """The leverage h of each row ``(n,)``, from the effect u of its residual on its logits."""
        return _ratio(row_dot(self.g, u**2) - row_dot(self.g, u) ** 2, row_dot(residuals, u))

    def _effects(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What F^-1 J' r of each row does to its logits ``(n, d)``, and its square ``(n,)``."""
        d = residuals.shape[1]
        if d > 1 and not (self.shared and d * residuals.size <= SHARED):
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

    def at(self, points: FloatArray, g: FloatArray, shift: FloatArray) -> FloatArray:
        """Where a shift leads ``(m, d)`` from g ``(m, d)`` at points ``(m,)`` or ``(m, K)``."""
        own = points is self.features.predictions
        features = self.features if own else Features(points, self.features.knots)
        return tilted(g, features.logits(shift))


def _ratio(values: FloatArray, of: FloatArray) -> FloatArray:
    """Their ratio, from 0 to 1; 0 where there is nothing to have a share of."""
    ratio = np.divide(values, of, out=np.zeros(len(of)), where=of > 0)
    return np.clip(ratio, 0.0, 1.0)


def curves_at(
    problem: Problem,
    fit: FittedStart,
    knots: Knots,
    n_steps: int,
    points: FloatArray,
    mapped: Map[Any] | None = None,
) -> FloatArray:
    """Where steps from a fitted start lead at points ``(m,)`` or ``(m, K)``, as ``(m, K)``."""
    g = fit.at(points)
    step = CurveStep.first(problem, fit.at(problem.predictions), knots, mapped)
    for n in range(n_steps):
        step = step.next(problem) if n else step
        g = step.at(points, g, step.shift(problem))
    return completed(g)
