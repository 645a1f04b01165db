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

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riskalign.equations.arrays import FloatArray, row_dot
from riskalign.equations.curves import Features, Knots
from riskalign.equations.debiased import Terms, errors
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed
from riskalign.equations.starts import FARTHEST, PRIOR, FittedStart, effective_parameters, tilted


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
    """

    features: Features
    g: FloatArray
    theta: FloatArray
    variance: FloatArray
    prior: float
    second: bool = False

    @classmethod
    def first(cls, problem: Problem, g: FloatArray, knots: Knots) -> CurveStep:
        """The step from a fitted start g ``(n, d)`` of a problem."""
        features = Features(problem.predictions, knots)
        return cls._of(problem, features, g, np.zeros(features.n_parameters))

    @classmethod
    def _of(
        cls,
        problem: Problem,
        features: Features,
        g: FloatArray,
        theta: FloatArray,
        *,
        second: bool = False,
    ) -> CurveStep:
        prior = PRIOR * problem.mean_weight
        information = features.information(g, problem.weights) + prior * np.eye(len(theta))
        variance = np.linalg.inv(information).astype(np.float64, copy=False)
        return cls(features, g, theta, variance, prior, second)

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

        They are what the labels of a problem lead to.
        """
        residuals, units = problem.columns() - self.g, problem.units
        let_in = self.features.logits(self.shift(problem))
        u, moved = self._effects(units[:, None] * residuals)
        R, within = (completed(tilted(self.g, tilt)) for tilt in (let_in - u, let_in))
        return R, within, self._share(residuals, u, moved, units)

    def terms(self, problem: Problem) -> Terms:
        """Terms of what the labels of a problem lead to."""
        return Terms.of(problem, *self.left_out_and_let_in(problem))

    def errors(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """Those whose mean is the calibration error, ``(n,)``, and their optimism.

        The problem may be judged at other points than those of the features.
        """
        return errors(problem, *self.left_out_and_let_in(problem))

    def _effects(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What F^-1 J' r of each row does to its logits ``(n, d)``, and its square ``(n,)``."""
        if residuals.shape[1] == 1:
            effect, squared, farthest = self._of_one
            if np.all(np.abs(residuals[:, 0]) * farthest <= FARTHEST):
                return residuals * effect, residuals[:, 0] ** 2 * squared
        moved = np.clip(self.features.scores(residuals) @ self.variance, -FARTHEST, FARTHEST)
        return self.features.logits(moved), row_dot(moved, moved)

    @cached_property
    def _of_one(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Effects ``(n, 1)`` of a residual of 1, for one probability, which label sets share.

        With them the square of F^-1 J' and its largest entry, ``(n,)`` each.
        """
        moved = self.features.scores(np.ones((len(self.g), 1))) @ self.variance
        return self.features.logits(moved), row_dot(moved, moved), np.abs(moved).max(axis=1)

    def _share(
        self, residuals: FloatArray, u: FloatArray, moved: FloatArray, units: FloatArray
    ) -> FloatArray:
        """The weight a of the sample that is left out, ``(n,)``; `moved` is a square."""
        along = row_dot(residuals, u)

        def over(values: FloatArray, below: FloatArray) -> FloatArray:
            ratio = np.divide(values, below, out=np.zeros(len(below)), where=below > 0)
            return np.clip(ratio, 0.0, 1.0)

        h = over(row_dot(self.g, u**2) - row_dot(self.g, u) ** 2, along)
        taken = over(self.prior * moved, units * along)  # 1 - s
        if not self.second:
            return np.minimum((1 + taken) / (2 - h), 1.0)
        return np.minimum((1 + taken) / ((2 + h) * (1 - h - h * taken)), 1.0)

    def at(self, points: FloatArray, g: FloatArray, shift: FloatArray) -> FloatArray:
        """Where a shift leads ``(m, d)`` from g ``(m, d)`` at points ``(m,)`` or ``(m, K)``."""
        own = points is self.features.predictions
        features = self.features if own else Features(points, self.features.knots)
        return tilted(g, features.logits(shift))


def curves_at(
    problem: Problem, fit: FittedStart, knots: Knots, n_steps: int, points: FloatArray
) -> FloatArray:
    """Where steps from a fitted start lead at points ``(m,)`` or ``(m, K)``, as ``(m, K)``."""
    g = fit.at(points)
    step = CurveStep.first(problem, fit.at(problem.predictions), knots)
    for n in range(n_steps):
        step = step.next(problem) if n else step
        g = step.at(points, g, step.shift(problem))
    return completed(g)
