"""How far the logits of a row move with its own residual: J H^{-1} J'."""

from __future__ import annotations

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.recalibration.forms import Features, Pairs


class Leverages:
    """J V J' of rows, with J their features ``(K, p)`` and V a symmetric matrix ``(p, p)``.

    Sums over pairs of weights are taken as far as possible before rows are looked at: entries of
    V that belong to the same product of two features, for the same two classes, are added first.
    """

    def __init__(self, V: FloatArray, features: Features) -> None:
        S, B, K, _ = features.shape
        end = S + K * B
        self._classes = Pairs.of(K)
        self._shared = V[:S, :S]
        self._shared_own = V[:S, S:end].reshape(S, K, B)
        self._own = V[S:end, S:end].reshape(K, B, K, B)
        if features.crossed is None:
            return
        self._shared_pairs = V[:S, end:].reshape(S * K, K)
        self._own_pairs = V[S:end, end:].reshape(K, B, K, K)
        pairs = V[end:, end:].reshape(K, K, K, K)
        first, second = self._classes.first, self._classes.second
        one, other = first[:, None], second[:, None]
        products = pairs[one, first, other, second]
        products += pairs[one, second, other, first]
        products[:, first == second] /= 2
        self._pairs = products

    def __call__(self, features: Features) -> FloatArray:
        """J V J' of some rows, ``(K, K, n)``."""
        S, _, K, n = features.shape
        one, other, z = self._classes.first, self._classes.second, features.crossed
        Z = np.zeros((len(one), n)) if z is None else self._pairs @ (z[one] * z[other])
        # What a shared feature meets in other classes; half of what it meets in shared features,
        # because both orders of two classes are added.
        met = np.einsum("st,tkn->skn", self._shared / 2, features.shared)
        met += np.einsum("skb,bkn->skn", self._shared_own, features.own)
        if z is not None:
            met += (self._shared_pairs @ z).reshape(S, K, n)
        for feature, its in zip(features.shared, met, strict=True):
            Z += feature[one] * its[other]
            Z += feature[other] * its[one]
        for b, feature in enumerate(features.own):
            for c, its in enumerate(features.own):
                Z += self._own[one, b, other, c][:, None] * feature[one] * its[other]
            if z is not None:
                Z += feature[one] * (self._own_pairs[one, b, other] @ z)
                Z += feature[other] * (self._own_pairs[other, b, one] @ z)
        return Z[self._classes.number]
