"""Starts: parametric recalibrations g(f) whose residuals are smoothed.

With phi_p(f) features of a prediction, one number per outcome, and theta_p the parameters,

    g = softmax(sum_p theta_p phi_p(f)).

For one probability this is logistic regression on the log-odds: only the difference of the two
outcomes' features counts, so that phi has one free column. The parameters minimise the log loss
plus a weak prior, by Newton's method, and a row is left out of the fit by one Newton step.

Shapes: phi and slopes are (n, d, p) with d free columns (1 or K) and p parameters; g is (n, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, softmax

from riskalign.equations.arrays import FloatArray, floored_log, row_sum
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import log_odds

NOISE = 0.2
"""c of the feature log(f + c), times K: alone it corrects for one random label in six, and
together with log f approximately for other shares."""

SHIFTED = 30
"""Outcomes up to which each has a shift: of K shifts the kernel has to smooth K^2 slopes."""

NEWTON_STEPS, HALVINGS, CONVERGED = 30, 30, 1e-6

ROUGH, MANY = 4, 8_000
"""Of so many rows on a larger simplex, one in `ROUGH` shows where Newton's method begins: it then
needs two or three steps with all of them."""

FARTHEST = 1.0
"""By how much leaving out one row may move a parameter."""

CELLS = 60_000
"""Slopes that are made at once where only their sums are needed: they stay in cache."""

PRIOR = 0.25
"""Precision, in samples, with which the first parameter is held at 1 and the others at 0: a
class without positives would be shifted without end."""


class Start(Protocol):
    """A kind of start: its features decide everything else."""

    @property
    def name(self) -> str:
        """The name users pass."""

    def features(self, predictions: FloatArray) -> FloatArray:
        """Phi ``(n, d, p)`` of predictions, ``(n,)`` or ``(n, K)``."""


@dataclass(frozen=True)
class Identity:
    """g = f: nothing is fitted."""

    name: str = "identity"

    def features(self, predictions: FloatArray) -> FloatArray:
        """No features."""
        return np.empty((len(predictions), 1 if predictions.ndim == 1 else predictions.shape[1], 0))


@dataclass(frozen=True)
class Temperature:
    """Temperature scaling: g is f to a power, renormalised."""

    name: str = "temperature"

    def features(self, predictions: FloatArray) -> FloatArray:
        """Log f; of one probability its log-odds."""
        if predictions.ndim == 1:
            return log_odds(predictions)[:, None, None]
        return floored_log(predictions)[:, :, None]


@dataclass(frozen=True)
class Logistic:
    """Platt scaling of one probability; for K classes its analogue.

    One probability, also as a pair, has a slope and a shift in log-odds. More classes have
    log f, the feature log(f + c) that lifts small probabilities as labels that are wrong at
    random do, and one shift per class.
    """

    name: str = "logistic"

    def features(self, predictions: FloatArray) -> FloatArray:
        """Log-odds and 1; or log f, log(f + c) and one indicator per class.

        A pair has log f and the indicator of the outcome 1.
        """
        n = len(predictions)
        if predictions.ndim == 1:
            return np.stack([log_odds(predictions), np.ones(n)], axis=1)[:, None, :]
        n_classes = predictions.shape[1]
        if n_classes == 2:
            return np.stack([floored_log(predictions), np.tile([0.0, 1.0], (n, 1))], axis=2)
        n_shifts = n_classes if n_classes <= SHIFTED else 0
        phi = np.zeros((n, n_classes, 2 + n_shifts))
        phi[:, :, 0] = floored_log(predictions)
        phi[:, :, 1] = np.log(predictions + NOISE / n_classes)
        shifts = np.arange(n_shifts)
        phi[:, shifts, 2 + shifts] = 1.0
        return phi


STARTS: dict[str, Start] = {start.name: start for start in (Logistic(), Temperature(), Identity())}
"""The starts known by name."""


@dataclass(frozen=True)
class FittedStart:
    """A start fitted to all rows of a problem.

    Attributes
    ----------
    start : the kind of start
    parameters : theta ``(p,)``
    information : minus the second derivative of the penalised log-likelihood, ``(p, p)``
    """

    start: Start
    parameters: FloatArray
    information: FloatArray

    @classmethod
    def of(cls, problem: Problem, start: Start) -> FittedStart:
        """The parameters that minimise the log loss of a problem, by Newton's method."""
        phi = start.features(problem.predictions)
        theta = prior_mean(phi.shape[2])
        if not len(theta):
            return cls(start, theta, np.empty((0, 0)))
        if not problem.one_dimensional and len(phi) >= MANY:
            some = problem.take(slice(None, None, ROUGH))
            if some.weights.any():
                theta = cls.of(some, start).parameters
        y, weights = problem.columns(), problem.weights
        prior = prior_precision(problem.mean_weight, len(theta))
        loss = _loss(phi, theta, y, weights, prior)
        for _ in range(NEWTON_STEPS):
            g = _link(phi @ theta)
            gradient = weights @ scores(phi, y - g) - prior @ (theta - prior_mean(len(theta)))
            step = np.linalg.solve(information(phi, g, weights) + prior, gradient)
            if np.abs(step).max() < CONVERGED:
                break
            for _ in range(HALVINGS):  # the loss is convex: some part of the step lowers it
                reached = _loss(phi, theta + step, y, weights, prior)
                if reached <= loss - float(gradient @ step) / 10:
                    break
                step = step / 2
            theta, loss = theta + step, reached
        return cls(start, theta, information(phi, _link(phi @ theta), weights) + prior)

    @property
    def is_prior(self) -> bool:
        """Whether the start is f itself."""
        return np.array_equal(self.parameters, prior_mean(len(self.parameters)))

    def at(self, predictions: FloatArray) -> FloatArray:
        """G at predictions ``(m,)`` or ``(m, K)``, as ``(m, d)``."""
        if self.is_prior:
            return predictions[:, None] if predictions.ndim == 1 else predictions
        return _link(self.start.features(predictions) @ self.parameters)

    def without_each(self, problem: Problem) -> FloatArray:
        """The start at each row, its sample left out of the fit by one Newton step, ``(n, d)``."""
        if not len(self.parameters):
            return problem.free(problem.predictions)
        phi = self.start.features(problem.predictions)
        g = _link(phi @ self.parameters)
        own = problem.units
        score = own[:, None] * scores(phi, problem.columns() - g)
        if phi.shape[1] == 1:  # one free column: the row's information has rank one
            moved = phi[:, 0] @ np.linalg.inv(self.information)  # (n, p)
            leverage = own * (g * (1 - g))[:, 0] * np.einsum("np,np->n", moved, phi[:, 0])
            shift = (score @ np.linalg.inv(self.information)) / (1 - leverage)[:, None]
        else:
            each = slopes_of(phi, g).transpose(0, 2, 1) @ phi  # (n, p, p)
            rest = self.information - own[:, None, None] * each
            shift = np.linalg.solve(rest, score[:, :, None])[:, :, 0]
        theta = self.parameters - np.clip(shift, -FARTHEST, FARTHEST)
        return _link(np.einsum("ndp,np->nd", phi, theta))


def prior_mean(n_parameters: int) -> FloatArray:
    """The parameters of f itself."""
    return np.eye(n_parameters)[:1].reshape(n_parameters)


def prior_precision(unit: float, n_parameters: int) -> FloatArray:
    """The precision of the prior, ``(p, p)``, where a sample weighs `unit` on average."""
    return PRIOR * unit * np.eye(n_parameters)


def _link(eta: FloatArray) -> FloatArray:
    """From linear predictors ``(n, d)`` to probabilities ``(n, d)``."""
    if eta.shape[1] == 1:
        return expit(eta)
    points: FloatArray = softmax(eta, axis=1)
    return points


def _loss(
    phi: FloatArray, theta: FloatArray, y: FloatArray, weights: FloatArray, prior: FloatArray
) -> float:
    """Log loss of all rows, and the penalty of the prior."""
    eta = phi @ theta  # (n, d)
    if eta.shape[1] == 1:
        total = np.logaddexp(0.0, eta[:, 0])
    else:
        top = eta.max(axis=1)
        total = top + np.log(row_sum(np.exp(eta - top[:, None])))
    away = theta - prior_mean(len(theta))
    own = np.einsum("nd,nd->n", y, eta)
    return float(weights @ (total - own) + away @ prior @ away / 2)


def scores(phi: FloatArray, residuals: FloatArray) -> FloatArray:
    """<y - g, phi>: the derivative of each row's log-likelihood by the parameters, ``(n, p)``."""
    return np.einsum("nd,ndp->np", residuals, phi)


def slopes_of(phi: FloatArray, g: FloatArray) -> FloatArray:
    """The derivatives of g by the parameters, ``(n, d, p)``."""
    if g.shape[1] == 1:
        return (g * (1 - g))[:, :, None] * phi
    mean = np.einsum("nd,ndp->np", g, phi)
    slopes: FloatArray = g[:, :, None] * (phi - mean[:, None, :])
    return slopes


def information(phi: FloatArray, g: FloatArray, weights: FloatArray) -> FloatArray:
    """Minus the second derivative of the log-likelihood of all rows, ``(p, p)``."""
    n, d, p = phi.shape
    found: FloatArray = np.zeros((p, p))
    size = max(1, CELLS // (d * p))
    for start in range(0, n, size):
        some = slice(start, start + size)
        found += products(weights[some], slopes_of(phi[some], g[some]), phi[some])
    return found


def products(weights: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """sum_n w_n <a_p, b_q> of arrays ``(n, d, p)``, as ``(p, p)``."""
    n, d, p = a.shape
    weighted = (weights[:, None, None] * a).reshape(n * d, p)
    result: FloatArray = weighted.T @ b.reshape(n * d, p)
    return result


def moved(slopes: FloatArray, push: FloatArray) -> FloatArray:
    """By how much parameters that move by ``(n, p)`` move g, ``(n, d)``."""
    return np.einsum("ndp,np->nd", slopes, push)
