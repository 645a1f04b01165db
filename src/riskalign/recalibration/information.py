"""Second derivatives of the log-likelihood of a scaling, summed over rows."""

from __future__ import annotations

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.recalibration.forms import Features, Pairs


class Information:
    """The information of rows that are added one part after another.

    With J_ik the features of class k in row i, and w_i the weights,

        information = sum_i w_i (sum_k g_ik J_ik J_ik' - m_i m_i'),  m_i = sum_k g_ik J_ik.

    Two weights of single classes k and l meet in V_kl = w (g_k [k = l] - g_k g_l) times their
    features. Weights M_km and M_lj of pairs of classes meet in V_kl z_m z_j, which is the same for
    the other orders of k and l, and of m and j: it is summed for pairs alone.
    """

    def __init__(self, features: Features) -> None:
        S, B, K, _ = features.shape
        self._pairs = Pairs.of(K)
        self._crossed = features.crossed is not None
        P = len(self._pairs.first)
        self._shared = np.zeros((S, S))
        self._own_shared = np.zeros((B, K, S))
        self._own = np.zeros((B, K, B, K))
        if self._crossed:
            self._crossed_shared = np.zeros((S, K, K))
            self._own_crossed = np.zeros((B, K, K, K))  # k, m and l of v_k and M_lm
            self._products = np.zeros((P, P))

    def add(self, features: Features, weights: FloatArray, g: FloatArray) -> None:
        """Add rows with weights ``(n,)`` and probabilities g ``(K, n)``."""
        S, B, K, n = features.shape
        wg, root = weights * g, np.sqrt(weights) * g
        centred = np.empty((S, K, n))  # shared features less their means over classes
        for s, feature in enumerate(features.shared):
            np.subtract(feature, np.einsum("kn,kn->n", g, feature), out=centred[s])
        pushed = wg * centred
        self._shared += pushed.reshape(S, K * n) @ centred.reshape(S, K * n).T
        if B:
            means = root * features.own
            flat = means.reshape(B * K, n)
            self._own -= (flat @ flat.T).reshape(B, K, B, K)
        for b, feature in enumerate(features.own):
            of_feature = wg * feature
            for s in range(S):
                self._own_shared[b, :, s] += np.einsum("kn,kn->k", pushed[s], feature)
            for c, other in enumerate(features.own):
                same = np.einsum("kn,kn->k", of_feature, other)
                self._own[b, np.arange(K), c, np.arange(K)] += same
            if features.crossed is not None:
                self._add_own_crossed(b, features.crossed, of_feature, root, means[b])
        if features.crossed is not None:
            self._add_crossed(features.crossed, wg, g, pushed)

    def _add_own_crossed(
        self, b: int, z: FloatArray, of_feature: FloatArray, root: FloatArray, mean: FloatArray
    ) -> None:
        found, every = self._own_crossed[b], np.arange(len(z))
        found[every, :, every] += of_feature @ z.T
        for m, row in enumerate(z):
            found[:, m] -= mean @ (root * row).T

    def _add_crossed(
        self, z: FloatArray, wg: FloatArray, g: FloatArray, pushed: FloatArray
    ) -> None:
        for s, shared in enumerate(pushed):
            self._crossed_shared[s] += shared @ z.T
        first, second = self._pairs.first, self._pairs.second
        covariances = wg[first] * g[second]
        np.negative(covariances, out=covariances)
        covariances[first == second] += wg
        self._products += covariances @ (z[first] * z[second]).T

    def matrix(self, size: int) -> FloatArray:
        """The sum ``(p, p)``; zero for weights of pairs that the features lack."""
        S, B, K = len(self._shared), *self._own.shape[:2]
        end = S + K * B
        found = np.zeros((size, size))
        found[:S, :S] = self._shared
        found[S:end, :S] = self._own_shared.transpose(1, 0, 2).reshape(K * B, S)
        found[S:end, S:end] = self._own.transpose(1, 0, 3, 2).reshape(K * B, K * B)
        if self._crossed:
            found[end:, :S] = self._crossed_shared.reshape(S, K * K).T
            own = self._own_crossed.transpose(3, 2, 1, 0)  # l, m, k, b
            found[end:, S:end] = own.reshape(K * K, K * B)
            number = self._pairs.number
            pairs = self._products[number[:, None, :, None], number[None, :, None, :]]
            found[end:, end:] = pairs.reshape(K * K, K * K)
            found[S:end, end:] = found[end:, S:end].T
        found[:S, S:] = found[S:, :S].T
        return found
