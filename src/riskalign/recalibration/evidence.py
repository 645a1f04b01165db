"""Precisions of priors, by the evidence of a quadratic log-likelihood.

With the log-likelihood b'd - d'Ad/2 of weights d, whose block k has the prior N(0, 1/lambda_k),
the logarithm of the marginal likelihood is, up to a constant,

    L = b'd/2 - log|A + Lambda|/2 + log|Lambda|/2    at d = V b, V = (A + Lambda)^{-1}.

With gamma_k = p_k - lambda_k tr(V_kk) the effective number of weights of a block of p_k weights,
its derivatives in r_k = log lambda_k are

    dL/dr_k = (gamma_k - lambda_k |d_k|^2) / 2,
    d2L/dr_k dr_l = lambda_k lambda_l (d_k' V_kl d_l + |V_kl|^2 / 2)
                    - [k = l] lambda_k (|d_k|^2 + tr V_kk) / 2.

L is maximised by Newton steps in r, and where it is not concave by the fixed-point steps
lambda <- gamma / |d|^2 (MacKay, 1992), both halved until L does not fall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from riskalign.equations.arrays import BoolArray, FloatArray

NARROWEST, WIDEST = 1e7, 1e-2
"""Largest and smallest precision of a block: no weight at all, and no prior at all."""

HIGHEST = 1e5
"""Largest precision of a block that may not vanish yet."""

DROPPED = 0.1
"""Effective number of weights below which a block vanishes."""

ROUNDS, HALVINGS = 4, 6
"""Steps of precisions at most, and halvings of one."""

SETTLED = 0.1
"""Steps of logarithms of precisions below which they are known: the next would be its square."""

ROUNDING = 1e-9
"""By how much L may fall, relative to its size."""

LONGEST, FAR = 3.0, 0.8
"""The longest step, and the Newton step from which that is taken upwards: where a block vanishes,
L approaches its limit as 1/lambda, and Newton steps are 1 for ever."""


@dataclass(frozen=True)
class Optimum:
    """Weights at given precisions.

    Attributes
    ----------
    value : L
    weights : (p,), d; 0 in blocks that have vanished
    kept : (p,), which weights have not
    factor : the lower Cholesky factor of A + Lambda, of the weights that are kept
    """

    value: float
    weights: FloatArray
    kept: BoolArray
    factor: FloatArray


@dataclass(frozen=True)
class Evidence:
    """A quadratic log-likelihood and the blocks of its weights.

    Attributes
    ----------
    information : (p, p), A
    slope : (p,), b
    members : (blocks, p), which weights belong to a block; the others have the precision `weak`
    weak : that precision
    """

    information: FloatArray
    slope: FloatArray
    members: BoolArray
    weak: float

    def at(self, penalties: FloatArray) -> Optimum:
        """The weights that are best for given precisions of the blocks."""
        precision = precision_of(self.members, penalties, self.weak)
        gone: BoolArray = np.any(self.members[penalties >= NARROWEST], axis=0)
        kept: BoolArray = ~gone
        some = slice(None) if kept.all() else np.flatnonzero(kept)
        system = self.information[some][:, some].copy()
        system.flat[:: len(system) + 1] += precision[some]
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        weights = np.zeros(len(kept))
        weights[some] = cho_solve(factor, self.slope[some], check_finite=False)
        value = self.slope @ weights / 2 - np.log(np.diag(factor[0])).sum()
        value += np.log(precision[some]).sum() / 2
        return Optimum(float(value), weights, kept, factor[0])

    def best(self, penalties: FloatArray, vanish: bool) -> tuple[FloatArray, Optimum, float]:
        """Precisions from given ones, the weights, and how far the logarithms moved.

        Blocks vanish only where this is allowed: what has vanished does not return.
        """
        begin, found = penalties, self.at(penalties)
        highest = NARROWEST if vanish else np.maximum(penalties, HIGHEST)
        for _ in range(ROUNDS):
            step, dropped = self._step(penalties, found)
            if vanish and dropped.any():
                penalties = np.where(dropped, NARROWEST, penalties)
                found = self.at(penalties)
                continue
            moved, new = self._shortened(penalties, step, found, highest)
            change = np.abs(np.log(moved / penalties)).max()
            penalties, found = moved, new
            if change < SETTLED:
                break
        return penalties, found, float(np.abs(np.log(penalties / begin)).max())

    def _shortened(
        self, penalties: FloatArray, step: FloatArray, found: Optimum, highest: FloatArray | float
    ) -> tuple[FloatArray, Optimum]:
        """Precisions after a step, halved until L does not fall, and the weights there."""
        for _ in range(HALVINGS):
            moved = np.clip(penalties * np.exp(step), WIDEST, highest)
            new = self.at(moved)
            if new.value >= found.value - ROUNDING * abs(found.value):
                return moved, new
            step = step / 2
        return penalties, found

    def _step(self, penalties: FloatArray, at: Optimum) -> tuple[FloatArray, BoolArray]:
        """A step of log lambda ``(blocks,)``, and which blocks vanish instead."""
        step, dropped = np.zeros(len(penalties)), np.zeros(len(penalties), dtype=bool)
        alive = np.flatnonzero(penalties < NARROWEST)
        if not len(alive):
            return step, dropped
        precisions = penalties[alive]
        members = self.members[alive][:, at.kept].astype(np.float64)
        inverse, _ = dpotri(at.factor, lower=1)
        inverse = np.tril(inverse)
        inverse += np.tril(inverse, -1).T
        weights = members * at.weights[at.kept]
        sizes, traces = (weights**2).sum(axis=1), members @ np.diag(inverse)
        effective = members.sum(axis=1) - precisions * traces
        gradient = (effective - precisions * sizes) / 2
        dropped[alive] = effective < DROPPED
        curvature = weights @ inverse @ weights.T + members @ inverse**2 @ members.T / 2
        curvature *= np.outer(precisions, precisions)
        curvature -= np.diag(precisions * (sizes + traces) / 2)
        if np.linalg.eigvalsh(curvature)[-1] < 0:
            own = np.linalg.solve(-curvature, gradient)
        else:
            own = np.log(np.maximum(effective, 1e-300) / (precisions * np.maximum(sizes, 1e-300)))
        own = np.where(own > FAR, LONGEST, own)
        step[alive] = np.clip(own, -LONGEST, LONGEST)
        return step, dropped


def precision_of(members: BoolArray, penalties: FloatArray, weak: float) -> FloatArray:
    """The precision of each weight, ``(p,)``: that of its block, or `weak`."""
    return np.where(members.any(axis=0), penalties @ members, weak)
