"""Starts whose residuals are smoothed: f itself, or f as a few parameters correct it.

With phi_p(f) features of a prediction, one number an outcome, and theta_p the parameters,

    g = softmax(sum_p theta_p phi_p(f)),

where "temperature" has the feature log f, "logistic" also those that shift outcomes (Platt's
scaling for two of them) and, for more than two, log(f + c), which lifts small probabilities as
labels that are wrong at random do. "identity" has none: g is f. The parameters minimise the log
loss of the *other* rows. What their fit adds to the noise of an estimate is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp, softmax

from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray, floored_log

STARTS = ("logistic", "temperature", "identity")
"""Starts by name."""

NOISE = 0.2
"""c of the feature log(f + c), times K: alone it undoes that one label in six is random, and
together with log f about what other shares do."""

SHIFTED = 30
"""Outcomes up to which each has a shift: of K shifts the kernel has to smooth K^2 slopes."""

NEWTON_STEPS, HALVINGS, CONVERGED = 30, 30, 1e-6

FARTHEST = 1.0
"""By how much leaving out one row may move a parameter."""

PRIOR = 0.25
"""Precision, in samples, with which the exponent is held at 1 and the others at 0 beforehand: a
class without positives would be shifted without end."""


def powered(f: FloatArray, exponent: float) -> FloatArray:
    """f^exponent, renormalised ``(n, K)``: f at the temperature 1/exponent."""
    if exponent == 1.0:
        return f
    return _softmax(exponent * floored_log(f))


def _softmax(logits: FloatArray) -> FloatArray:
    """Points of the simplex ``(n, K)``."""
    if logits.shape[1] == 2:
        odds = logits[:, 1] - logits[:, 0]
        return np.array([expit(-odds), expit(odds)]).T
    points: FloatArray = softmax(logits, axis=1)
    return points


def n_parameters(name: str, n_classes: int) -> int:
    """Parameters of a start."""
    if name == "identity":
        return 0
    if name == "temperature":
        return 1
    if n_classes == 2:
        return 2
    return 2 + n_classes if n_classes <= SHIFTED else 2


def features(points: FloatArray, n_parameters: int) -> FloatArray:
    """The features of points ``(n, K)``, as ``(n, K, p)``."""
    n, n_classes = points.shape
    phi = np.zeros((n, n_classes, n_parameters))
    if n_parameters:
        phi[:, :, 0] = floored_log(points)
    if n_parameters > 1 and n_classes == 2:
        phi[:, 1, 1] = 1.0
    elif n_parameters > 1:
        phi[:, :, 1] = np.log(points + NOISE / n_classes)
        outcomes = np.arange(n_parameters - 2)
        phi[:, outcomes, 2 + outcomes] = 1.0
    return phi


@dataclass(frozen=True)
class Start:
    """A start fitted to all rows of a problem.

    Attributes
    ----------
    parameters : theta ``(p,)``; the first is the exponent
    information : how firmly the rows hold it, minus the second derivative, ``(p, p)``
    """

    parameters: FloatArray
    information: FloatArray

    @classmethod
    def fit(cls, problem: Problem, name: str, unit: float | None = None) -> Start:
        """The parameters that minimise the log loss, by Newton's method.

        `unit` is the weight of a sample, if rows stand for more or less than one each.
        """
        p = n_parameters(name, problem.n_classes)
        theta, phi = _beforehand(p), features(problem.points, p)
        if not p:
            return cls(theta, np.empty((0, 0)))
        prior = prior_of(problem.weights, p) if unit is None else unit * PRIOR * np.eye(p)
        loss = _loss(problem, phi, theta, prior)
        for _ in range(NEWTON_STEPS):
            gradient, information = _derivatives(problem, phi, theta, prior)
            step = np.linalg.solve(information, gradient)
            if np.abs(step).max() < CONVERGED:
                break
            for _ in range(HALVINGS):  # the loss is convex: some part of the step lowers it
                reached = _loss(problem, phi, theta + step, prior)
                if reached <= loss - float(gradient @ step) / 10:
                    break
                step = step / 2
            theta, loss = theta + step, reached
        return cls(theta, _derivatives(problem, phi, theta, prior)[1])

    def at(self, points: FloatArray) -> FloatArray:
        """The start at points ``(m, K)``."""
        if np.array_equal(self.parameters, _beforehand(len(self.parameters))):
            return points
        return _softmax(features(points, len(self.parameters)) @ self.parameters)

    def slopes(self, points: FloatArray, g: FloatArray) -> FloatArray:
        """The derivatives of g at points by the parameters, ``(n, K, p)``."""
        return slopes_of(features(points, len(self.parameters)), g)

    def without_each(self, problem: Problem) -> FloatArray:
        """The start at some of the rows, each left out of the fit, ``(n, K)``: one Newton step."""
        if not len(self.parameters):
            return problem.points
        phi = features(problem.points, len(self.parameters))
        g = _softmax(phi @ self.parameters)
        weights = problem.weights
        rest = self.information - weights[:, None, None] * _information(phi, g)
        score = weights[:, None] * scores(problem, phi, g)
        shift = np.linalg.solve(rest, score[:, :, None])[:, :, 0]
        return _softmax(moved(phi, self.parameters - np.clip(shift, -FARTHEST, FARTHEST)))


def _beforehand(n_parameters: int) -> FloatArray:
    """The parameters of f itself."""
    return np.eye(n_parameters)[:1].reshape(n_parameters)


def prior_of(weights: FloatArray, n_parameters: int) -> FloatArray:
    """What holds the parameters beside rows of some weights, ``(p, p)``."""
    return PRIOR * float(weights[weights > 0].mean()) * np.eye(n_parameters)


def _loss(problem: Problem, phi: FloatArray, theta: FloatArray, prior: FloatArray) -> float:
    """Log loss of all rows, and what the prior adds."""
    logits = phi @ theta
    own = logits[np.arange(len(logits)), problem.labels]
    total = np.logaddexp(*logits.T) if logits.shape[1] == 2 else logsumexp(logits, axis=1)
    away = theta - _beforehand(len(theta))
    return float(problem.weights @ (total - own) + away @ prior @ away / 2)


def _derivatives(
    problem: Problem, phi: FloatArray, theta: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Derivative of the log-likelihood ``(p,)``, and minus the second one ``(p, p)``."""
    g = _softmax(phi @ theta)
    gradient = problem.weights @ scores(problem, phi, g)
    gradient -= prior @ (theta - _beforehand(len(theta)))
    return gradient, products(problem.weights, slopes_of(phi, g), phi) + prior


def scores(problem: Problem, phi: FloatArray, g: FloatArray) -> FloatArray:
    """<y - g, phi>: what each label says of the parameters, ``(n, p)``."""
    own: FloatArray = phi[np.arange(len(g)), problem.labels]
    return own - np.einsum("nk,nkp->np", g, phi)


def slopes_of(phi: FloatArray, g: FloatArray) -> FloatArray:
    """The derivatives of a start g by its parameters, ``(n, K, p)``."""
    mean = np.einsum("nk,nkp->np", g, phi)
    slopes: FloatArray = g[:, :, None] * (phi - mean[:, None, :])
    return slopes


def _information(phi: FloatArray, g: FloatArray) -> FloatArray:
    """What each row adds to the information, ``(n, p, p)``."""
    each: FloatArray = slopes_of(phi, g).transpose(0, 2, 1) @ phi
    return each


def started(problem: Problem, name: str) -> FloatArray:
    """The start g at each row, left out of its fit, ``(n, K)``."""
    return Start.fit(problem, name).without_each(problem)


@dataclass(frozen=True)
class FitNoise:
    """How the labels of a problem move its start, and how much of that remains in R.

    A fitted theta errs by some delta, and g by slopes delta. The kernel sees and smooths away
    a part, slopes overlap delta; but the noise of the averages holds that very part again, so
    that all of it remains. Its variance less what is counted as noise of the averages is the
    share `left`.

    Attributes
    ----------
    information : ``(p, p)``
    left : ``(p, p)``
    """

    information: FloatArray
    left: FloatArray

    @classmethod
    def of(
        cls, information: FloatArray, weights: FloatArray, slopes: FloatArray, smoothed: FloatArray
    ) -> FitNoise:
        """From the information of all rows, slopes ``(n, K, p)`` of some and their averages."""
        return cls(information, _left(weights, slopes, smoothed, information))

    def pushes(self, problem: Problem, g: FloatArray) -> FloatArray:
        """By how much each row's label moves the parameters, ``(n, p)``."""
        phi = features(problem.points, len(self.information))
        score = problem.weights[:, None] * scores(problem, phi, g)
        return score @ np.linalg.pinv(self.information, hermitian=True)

    def own_shift(self, slopes: FloatArray, push: FloatArray) -> FloatArray:
        """What letting a label into the fit does to its own R, ``(n, K)``."""
        return moved(slopes, push @ self.left.T)


def products(weights: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """sum_n w_n <a_p, b_q> of arrays ``(n, K, p)``, as ``(p, p)``."""
    n, n_classes, p = a.shape
    weighted = (weights[:, None, None] * a).reshape(n * n_classes, p)
    result: FloatArray = weighted.T @ b.reshape(n * n_classes, p)
    return result


def moved(slopes: FloatArray, push: FloatArray) -> FloatArray:
    """By how much parameters that move by ``(n, p)`` move g, ``(n, K)``."""
    return np.einsum("nkp,np->nk", slopes, push)


def _left(
    weights: FloatArray, slopes: FloatArray, smoothed: FloatArray, information: FloatArray
) -> FloatArray:
    """1 - overlap^2, for matrices: (V - O V O') V^-1, with V the variance of the parameters."""
    size, seen = products(weights, slopes, slopes), products(weights, slopes, smoothed)
    overlap = np.linalg.pinv(size, hermitian=True) @ seen
    values, vectors = np.linalg.eigh(information)
    # in coordinates in which the parameters are independent, with variance 1
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    inverse = np.linalg.pinv(root)
    axes, shares, _ = np.linalg.svd(root.T @ overlap @ inverse.T)
    return inverse.T @ (axes * (1.0 - np.minimum(shares, 1.0) ** 2)) @ axes.T @ root.T
