"""Newton's method for the weights of a scaling, with the precisions of their prior learnt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.recalibration.evidence import NARROWEST, Evidence, precision_of
from riskalign.recalibration.forms import Features
from riskalign.recalibration.information import Information

WEAK = 0.25
"""Precision of the prior of shared weights, in samples; their prior mean is f itself."""

STEPS, FIXED_STEPS, HALVINGS = 40, 1, 20
"""Newton steps at most, those before precisions are learnt, and halvings of one step."""

BEGIN = 10.0
"""First precision of blocks, per class: wide priors would overfit in the first step."""

FEW = 200_000
"""Rows times classes from which the shared weights are first fitted to."""

STILL, SETTLED = 1e-4, 0.01
"""Gains of the log-likelihood of all rows, and steps of logarithms of precisions, from which
the fit is done."""

NEAR = 1.0
"""Gain of the log-likelihood by the last step from which the quadratic is good enough to say that
a block vanishes."""

CHUNK = 20_000
"""Rows times classes whose information is summed at once: in cache."""

INFORMED = 2e10
"""n p^2 up to which the information is summed over all rows; beyond, over every r-th row. The
gradient is always that of all rows, so that the solution is the same."""


class Newton:
    """Newton's method for the weights; each step also learns the precisions of their blocks.

    Precisions maximise the evidence of the quadratic log-likelihood that the step is made from:
    its second derivatives, which cost most, serve both.
    """

    def __init__(
        self, features: Features, labels: IntArray, weights: FloatArray, blocks: IntArray
    ) -> None:
        S, B, n_classes, n = features.shape
        self._features, self._labels, self._weights = features, labels, weights
        self._blocks = blocks
        self._members = np.arange(int(blocks.max()) + 1)[:, None] == blocks
        self._own = slice(S, S + n_classes * B)
        self._mean = np.zeros(len(blocks))
        self._mean[0] = 1.0
        self._penalties = np.full(len(self._members), BEGIN * n_classes)
        self._known: tuple[FloatArray, float, FloatArray] | None = None
        self._every = int(np.ceil(n * len(blocks) ** 2 / INFORMED))

    def run(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights ``(p,)``, precisions of the blocks, and the information ``(p, p)``."""
        theta, information, gain = self._beginning(), np.empty((0, 0)), np.inf
        for step in range(STEPS):
            score, information = self._score(theta), self._information(theta)
            slope = score + information @ (theta - self._mean)
            evidence = Evidence(information, slope, self._members, WEAK)
            change = 0.0
            if step >= FIXED_STEPS and len(self._members):
                self._penalties, best, change = evidence.best(self._penalties, gain < NEAR)
                self._forget_pairs()
            else:
                best = evidence.at(self._penalties)
            precision = self.precision()
            move = self._mean + best.weights - theta
            kept = move * best.kept
            gain = float(kept @ (information @ kept + precision * kept)) / 2
            theta = theta + self._shortened(theta, move, precision)
            if gain < STILL and change < SETTLED and step >= FIXED_STEPS:
                break
        return theta, self._penalties, information + np.diag(self.precision())

    def _beginning(self) -> FloatArray:
        """The best weights of shared features alone, by some of the rows if there are many."""
        S, _, n_classes, n = self._features.shape
        every = int(np.ceil(n * n_classes / FEW))
        start = self._mean.copy()
        rows = slice(None, None, every)
        weights = self._weights[rows]
        if (every == 1 and len(start) == S) or not weights.any():
            return start
        features = replace(self._features.take(rows), own=self._features.own[:0], crossed=None)
        few = Newton(features, self._labels[rows], weights, self._blocks[:S])
        start[:S] = few.run()[0]
        none = np.zeros(len(start))
        before = self.loss(self._mean, none)
        return start if self.loss(start, none) < before else self._mean

    @property
    def features(self) -> Features:
        """The features that have weights."""
        return self._features

    def precision(self) -> FloatArray:
        """The prior precision of each parameter, ``(p,)``."""
        return precision_of(self._members, self._penalties, WEAK)

    def _forget_pairs(self) -> None:
        """Spare the features of pairs once their blocks have vanished."""
        if self._features.crossed is None:
            return
        _, B, _, _ = self._features.shape
        if (self._penalties[B:] >= NARROWEST).all():
            self._features = replace(self._features, crossed=None)

    def _at(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The log loss of all rows and their probabilities ``(K, n)``; the last ones are kept."""
        if self._known is None or not np.array_equal(self._known[0], theta):
            eta = self._features.logits(theta)
            eta -= eta.max(axis=0)
            own = eta[self._labels, np.arange(eta.shape[1])]
            g = np.exp(eta, out=eta)
            total = g.sum(axis=0)
            loss = float(self._weights @ (np.log(total) - own))
            g /= total
            self._known = theta, loss, g
        return self._known[1:]

    def loss(self, theta: FloatArray, precision: FloatArray) -> float:
        """The penalised log loss of all rows."""
        return self._at(theta)[0] + float(precision @ (theta - self._mean) ** 2) / 2

    def _shortened(self, theta: FloatArray, move: FloatArray, precision: FloatArray) -> FloatArray:
        """A Newton step, halved until it does not raise the loss."""
        before = self.loss(theta, precision)
        for _ in range(HALVINGS):
            if self.loss(theta + move, precision) <= before * (1 + 1e-12):
                break
            move = move / 2
        return move

    def derivatives(
        self, theta: FloatArray, precision: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient ``(p,)`` and information ``(p, p)`` of the penalised log-likelihood."""
        gradient = self._score(theta) - precision * (theta - self._mean)
        return gradient, self._information(theta) + np.diag(precision)

    def _score(self, theta: FloatArray) -> FloatArray:
        """The gradient of the log-likelihood, ``(p,)``."""
        features, weights = self._features, self._weights
        S, B, K, n = features.shape
        residual = -weights * self._at(theta)[1]  # (K, n)
        residual[self._labels, np.arange(n)] += weights
        found = np.zeros(len(theta))
        found[:S] = features.shared.reshape(S, K * n) @ residual.ravel()
        for b in range(B):
            found[self._own][b::B] = np.einsum("kn,kn->k", residual, features.own[b])
        if features.crossed is not None:
            found[self._own.stop :] = (residual @ features.crossed.T).ravel()
        return found

    def _information(self, theta: FloatArray) -> FloatArray:
        """The information ``(p, p)``: that of some rows, scaled to all of them."""
        g, found = self._at(theta)[1], Information(self._features)
        _, _, K, n = self._features.shape
        step, total = max(CHUNK // K, 1) * self._every, 0.0
        for start in range(0, n, step):
            rows = slice(start, start + step, self._every)
            weights = self._weights[rows]
            found.add(self._features.take(rows), weights, g[:, rows])
            total += float(weights.sum())
        return found.matrix(len(theta)) * (self._weights.sum() / total)
