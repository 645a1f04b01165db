"""The statistic of many label sets at once: sums over rows become sums over nodes.

The statistic of labels y at a bandwidth is the sum over rows of

    w_i (y_i - p_i) (d(p_i) - d(R_i)),    d = l_1 - l_0,    R_i = p_i + (W (y - p))_i,

with R_i clipped to a share of p_i and of 1 - p_i. What a row adds is a function of its prediction
and label along curves that are as smooth as the kernel, so that rows which share their
neighbourhood with others are spread onto nodes (see `nodes`) and the function is evaluated there,
once for each label. From one label set to the next only the masses of label 1 change.
Rows with few neighbours, where the curves bend faster than the kernel, are evaluated one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.losses import L2, RANKED, ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, on_simplex
from riskalign.smoothing.nodes import Nodes, nodes_at
from riskalign.smoothing.operator import ALONE

CROWD = 8.0


def loss_difference(loss: ProperLoss, p: FloatArray) -> FloatArray:
    """d = l_1 - l_0 at probabilities of any shape."""
    if loss in (L2.binary, RANKED.binary):  # (1 - p)^2 - p^2
        return 1.0 - 2.0 * p
    losses = loss(on_simplex(p.ravel()))
    difference: FloatArray = (losses[:, 1] - losses[:, 0]).reshape(p.shape)
    return difference


@dataclass(frozen=True)
class Places:
    """Where terms are evaluated, nodes or rows: what does not depend on the labels, ``(m, 1)``.

    R = base + sums / rest - share y
    """

    p: FloatArray
    base: FloatArray
    rest: FloatArray
    share: FloatArray
    loss: ProperLoss

    @classmethod
    def of(cls, p, total, predicted, own, loss):
        rest = np.maximum(total - own, ALONE * own)
        base = p + (own * p - predicted) / rest
        columns = (p, base, rest, own / rest)
        return cls(*(column[:, None] for column in columns), loss)

    def take(self, i):
        return Places(self.p[i], self.base[i], self.rest[i], self.share[i], self.loss)

    def terms(self, sums, y):
        R = sums / self.rest
        R += self.base - self.share * y
        np.clip(R, KEPT_SHARE * self.p, 1.0 - KEPT_SHARE * (1.0 - self.p), out=R)
        gain = loss_difference(self.loss, self.p) - loss_difference(self.loss, R)
        gain *= y - self.p
        return gain


@lru_cache(maxsize=16)
def kernel_matrix(kernel: Kernel, bandwidth: float):
    """k_h(x_a; x_b) of the nodes ``(M, M)``"""
    points = nodes_at(kernel, bandwidth).points
    scores = kernel.scale(bandwidth) * kernel.queries(points) @ points.T
    scores += kernel.key_bias(points, bandwidth)
    scores += kernel.query_bias(points, bandwidth)[:, None]
    return np.exp(scores), np.exp(kernel.log_peak(points, bandwidth))


class Scale:
    def __init__(self, problem, spread, fine, kernel, bandwidth, crowd):
        nodes = nodes_at(kernel, bandwidth)
        transfer = nodes.weights_at(fine.log_odds, fine.probabilities)
        self.to_coarse = csr_array(transfer.T)
        self.kernel, peak = kernel_matrix(kernel, bandwidth)
        p, u = problem.predictions, problem.units
        w = problem.weights
        all_rows = spread.T @ np.stack([np.ones_like(p), p, p * (1 - p)], 1)
        self.all = all_rows[:, :1]
        sums = np.column_stack([self.kernel @ (self.to_coarse @ all_rows), peak])
        at_rows = spread @ (transfer @ sums) / w[:, None]
        own = at_rows[:, 3] * u
        rest = at_rows[:, 0] - own
        self.at_nodes = Places.of(nodes.probabilities, sums[:, 0], sums[:, 1], peak * u[0], problem.loss)
        self.direct = []
        v = np.maximum(at_rows[:, 2] / at_rows[:, 0], p * (1 - p))
        for y, share in ((0, 1 - p), (1, p)):
            rows = np.flatnonzero(rest * share**2 < crowd * own * v)
            weights = nodes.weights(p[rows])
            at = weights @ sums
            places = Places.of(p[rows], at[:, 0], at[:, 1], at[:, 3] * u[rows], problem.loss)
            fine_w = spread[rows]
            self.direct.append((rows, w[rows], places, stencils(weights), stencils(fine_w)))

    def sums(self, y, masses):
        at_nodes = self.kernel @ (self.to_coarse @ masses)
        result = np.zeros(y.shape[1])
        n_sets = y.shape[1]
        for label, pooled in ((0, self.all - masses), (1, masses)):
            rows, w, places, (idx, val), (fidx, fval) = self.direct[label]
            if len(rows):
                place, sets = np.divmod(np.flatnonzero(y[rows] == label), n_sets)
                at = np.einsum("rs,rs->r", val[place], at_nodes[idx[place], sets[:, None]])
                terms = w[place] * places.take(place).terms(at[:, None], float(label))[:, 0]
                result += np.bincount(sets, terms, n_sets)
                flat = fidx[place] * n_sets + sets[:, None]
                pooled = pooled - np.bincount(flat.ravel(), fval[place].ravel(), pooled.size).reshape(pooled.shape)
            result += np.einsum("ab,ab->b", self.to_coarse @ pooled, self.at_nodes.terms(at_nodes, float(label)))
        return result

def stencils(m):
    return m.indices.reshape(-1, 8), m.data.reshape(-1, 8)

class NodeStatistics:
    def __init__(self, problem, kernel, bandwidths, crowd=CROWD):
        fine = nodes_at(kernel, min(bandwidths))
        self.spread = fine.weights(problem.predictions)
        self.spread.data *= np.repeat(problem.weights, 8)
        self.w = problem.weights
        self.scales = [Scale(problem, self.spread, fine, kernel, h, crowd) for h in bandwidths]

    def sums(self, outcomes):
        y = outcomes.astype(float)
        masses = self.spread.T @ y
        return np.stack([scale.sums(y, masses) for scale in self.scales])
