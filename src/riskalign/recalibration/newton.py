"""Newton's method for the weights of a scaling, with the precisions of their prior learnt."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.recalibration.forms import Features

WEAK = 0.25
"""Precision of the prior of shared weights, in samples; their prior mean is f itself."""

NARROWEST, WIDEST = 1e7, 1e-2
"""Largest and smallest precision of a block: no weight at all, and no prior at all."""

STEPS, FIXED_STEPS, HALVINGS = 40, 2, 20
"""Newton steps at most, those before precisions are learnt, and halvings of one step."""

STILL, SETTLED = 1e-4, 0.05
"""Steps of parameters, and of logarithms of precisions, below which the fit is done."""

RELAXED = 1.5
"""Fixed-point steps of precisions are lengthened by this factor: they are known to be short."""

DROPPED = 0.1
"""Effective number of parameters below which a block vanishes."""

INFORMED = 2e10
"""n p^2 up to which the information is summed over all rows; beyond, over every r-th row. The
gradient is always that of all rows, so that the solution is the same."""


class Newton:
    """Newton's method for the weights, and fixed-point steps for the precisions of their blocks."""

    def __init__(
        self, features: Features, labels: IntArray, weights: FloatArray, blocks: IntArray
    ) -> None:
        self._features, self._labels, self._weights = features, labels, weights
        self._blocks = blocks
        self._members = [blocks == block for block in range(int(blocks.max()) + 1)]
        self._mean = np.zeros(len(blocks))
        self._mean[0] = 1.0
        n_classes = features.shared.shape[0]
        self._penalties = np.full(len(self._members), float(n_classes))
        self._known: tuple[FloatArray, float, FloatArray] | None = None
        self._every = int(np.ceil(len(labels) * len(blocks) ** 2 / INFORMED))

    def run(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights ``(p,)``, precisions of the blocks, and the information ``(p, p)``."""
        theta, information = self._mean.copy(), np.empty((0, 0))
        for step in range(STEPS):
            precision = self.precision()
            gradient, information = self.derivatives(theta, precision)
            factor = cho_factor(information)
            move = self._shortened(theta, cho_solve(factor, gradient), precision)
            theta = theta + move
            change = 0.0
            if step >= FIXED_STEPS and self._members:
                inverse = cho_solve(factor, np.eye(len(theta)))
                change = self._learn(theta, np.diag(inverse))
            if np.abs(move).max() < STILL and change < SETTLED and step > FIXED_STEPS:
                break
        return theta, self._penalties, information

    def precision(self) -> FloatArray:
        """The prior precision of each parameter, ``(p,)``."""
        if not self._members:
            return np.full(len(self._blocks), WEAK)
        return np.where(self._blocks < 0, WEAK, self._penalties[np.maximum(self._blocks, 0)])

    def _at(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The log loss of all rows and their probabilities ``(n, K)``; the last ones are kept."""
        if self._known is None or not np.array_equal(self._known[0], theta):
            eta = self._features.logits(theta)
            own = eta[np.arange(len(eta)), self._labels]
            largest = eta.max(axis=1)
            eta -= largest[:, None]
            g = np.exp(eta, out=eta)
            total = g.sum(axis=1)
            loss = float(self._weights @ (largest + np.log(total) - own))
            g /= total[:, None]
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
        """Gradient ``(p,)`` and information ``(p, p)`` of the penalised log-likelihood.

        With J_ik the features of class k in row i, and w_i the weights,

            information = sum_i w_i (sum_k g_ik J_ik J_ik' - m_i m_i'),  m_i = sum_k g_ik J_ik.
        """
        _, g = self._at(theta)
        residual = -(self._weights[:, None] * g).T  # (K, n)
        residual[self._labels, np.arange(len(g))] += self._weights
        features = self._features
        parts = [
            residual.ravel() @ features.shared.reshape(residual.size, -1),
            (residual[:, None] @ features.own).ravel(),
        ]
        if features.crossed is not None:
            parts.append((residual @ features.crossed).ravel())
        gradient = np.concatenate(parts) - precision * (theta - self._mean)
        some = slice(None, None, self._every)
        return gradient, self._information(some, g[some]) + np.diag(precision)

    def _information(self, rows: slice, g: FloatArray) -> FloatArray:
        """The information of some rows, scaled to all of them, without the prior."""
        features, weights = self._features.take(rows), self._weights[rows]
        weights = weights * (self._weights.sum() / weights.sum())
        shared, own, crossed = features.shared, features.own, features.crossed
        (K, n, S), B, p = shared.shape, own.shape[2], len(self._blocks)
        end = S + K * B  # of the weights of single classes
        mean, found = np.empty((n, p)), np.zeros((p, p))
        pushed = np.ascontiguousarray(g.T)[:, :, None] * shared  # (K, n, S)
        mean[:, :S] = pushed.sum(axis=0)
        pushed *= weights[:, None]
        found[:S, :S] = shared.reshape(K * n, S).T @ pushed.reshape(K * n, S)
        pushed = np.ascontiguousarray(g.T)[:, :, None] * own  # (K, n, B)
        mean[:, S:end].reshape(n, K, B)[...] = pushed.transpose(1, 0, 2)
        pushed = (weights[:, None] * pushed).transpose(0, 2, 1)  # (K, B, n)
        found[S:end, :S] = (pushed @ shared).reshape(K * B, S)
        of_classes = np.zeros((K, B, K, B))
        of_classes[np.arange(K), :, np.arange(K)] = pushed @ own
        found[S:end, S:end] = of_classes.reshape(K * B, K * B)
        if crossed is not None:
            mean[:, end:] = (g[:, :, None] * crossed[:, None]).reshape(n, K * K)
            for k in range(K):
                places = slice(end + k * K, end + (k + 1) * K)
                of_pairs = (weights * g[:, k])[:, None] * crossed
                found[places, places] = of_pairs.T @ crossed
                found[places, :S] = of_pairs.T @ shared[k]
                found[places, S + k * B : S + (k + 1) * B] = of_pairs.T @ own[k]
        found[:S, S:] = found[S:, :S].T
        found[S:end, end:] = found[end:, S:end].T
        mean *= np.sqrt(weights)[:, None]
        found -= mean.T @ mean
        return found

    def _learn(self, theta: FloatArray, variances: FloatArray) -> float:
        """Set the precisions of the blocks; by how much logarithms of those that matter moved."""
        changes = []
        for block, members in enumerate(self._members):
            before = float(self._penalties[block])
            if before == NARROWEST:
                continue
            effective = members.sum() - before * variances[members].sum()
            size = float(((theta - self._mean)[members] ** 2).sum())
            if effective < DROPPED:
                self._penalties[block] = NARROWEST
                changes.append(1.0)
                continue
            factor = (effective / max(size, 1e-300) / before) ** RELAXED
            self._penalties[block] = np.clip(before * factor, WIDEST, NARROWEST)
            changes.append(abs(float(np.log(self._penalties[block] / before))))
        return max(changes, default=0.0)
