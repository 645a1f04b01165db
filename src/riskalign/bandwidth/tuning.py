"""Which bandwidth and coordinates smooth the residuals: candidates are weighted, not picked.

A candidate c is a tuning (h, tau). With L_c the sum of the leave-one-out losses <y, l(R_c)> over
all samples, its weight is that of a tempered posterior,

    omega_c  ~  h_c exp(-lambda L_c).

The factor h_c prefers the wider of kernels that fit alike. lambda brings the loss to 0.7 times
the scale of a log-likelihood (0.7 for the log loss): at the whole scale, chance decides more often
among the candidates, at half of it rough miscalibration is missed. The weights that a row's own
term gets leave the row's own loss out again,

    omega_ci  ~  h_c exp(-lambda (L_c - gamma l_ci)),

because a row that has a part in choosing its own smoother would carry the luck of that choice into
the error. For squared errors, the covariance of weights and terms is removed by
gamma = (2 - rho)^2 / 2, where rho is the share of smoothed noise that smoothing it again keeps:
rho = sqrt(2/3) for a Gaussian kernel on a line, which gives gamma = 0.7; on a simplex of more
dimensions rho is smaller and gamma about 1.

The classes of one model tend to need similar kernels, and a class with few samples has little to
say about its own. So K problems k of one sample are pooled in part: with
D_kc = lambda_k (L_kc - min_c L_kc), the losses of the other classes count too, at the share a and
up to a limit b,

    lambda_k L_kc  ->  (D_kc + a sum_(j != k) min(D_jc, b)) / (1 + a / (K - 1)).

Many classes that each ask a little for the same kernel are heard together; no class alone decides
for the others, and one whose own losses ask for another kernel gets it. One label decides the
losses of all classes: residuals of two classes have a correlation of about -1 / (K - 1), so that
the products of residuals which make up the losses say the same again at the rate 1 / (K - 1) for
all others together. The denominator counts it once. For the two mirrored problems of two classes
nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from riskalign.bandwidth.result import Curve
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import FLATTENINGS, completed, tempered
from riskalign.equations.terms import moments_of_gain
from riskalign.smoothing import Tuning

OWN_SHARE = 0.75
"""gamma: by how much a row's own loss is left out of its weights, between 0.7 on a line and 1."""

TEMPERING = 0.7
"""The scale of the losses in the weights, relative to that of a log-likelihood."""

POOLED = 0.5
"""a: the share at which the losses of a model's other classes count."""

HEARD = 6.0
"""b: by how much, as a logarithm of odds, another class can speak against a candidate."""

KEPT = 0.95
"""Share of the weight of all candidates that those which are evaluated must hold."""

MOST, MOST_JOINT = 6, 4
"""Candidates that are evaluated at most: of one probability, and on a larger simplex, where each
costs a pass over all pairs of rows."""

BENT = 1.05
"""The power of g whose loss shows the scale of a loss, lambda."""


def candidate_tunings(
    kernel: Kernel, n_classes: int, bandwidths: FloatArray | None = None
) -> list[Tuning]:
    """Every flattening with every bandwidth; by default octaves, because risks are flat in h."""
    if bandwidths is None:
        low, high = kernel.bandwidth_range(n_classes)
        bandwidths = high / 2.0 ** np.arange(np.floor(np.log2(high / low)) + 1)[::-1]
    return [Tuning(h, tau) for tau in FLATTENINGS for h in bandwidths.tolist()]


def likelihood_scale(problem: Problem, g: FloatArray) -> float:
    """lambda: what brings a loss near the scale of a log-likelihood, for samples of weight 1.

    A small change of g costs D on average if g is right, with a variance V per sample. Of a
    log-likelihood V = 2 D, so lambda is 2 D / V, times `TEMPERING`.
    """
    truth = completed(g)
    mean, variance = moments_of_gain(problem.loss, tempered(truth, BENT), truth)
    cost, noise = float(problem.weights @ mean), float(problem.weights @ variance)
    return TEMPERING * 2 * cost / noise if cost > 0 and noise > 0 else 0.0


@dataclass(frozen=True)
class WeightedTunings:
    """The candidates of one problem that are evaluated, and what decides their weights.

    Attributes
    ----------
    tunings : the candidates
    evidence : (C,), log h_c - lambda L_c, up to a constant
    scale : lambda over the mean weight of a sample
    curve : the losses of all bandwidths in the coordinates of the best candidate
    """

    tunings: Sequence[Tuning]
    evidence: FloatArray
    scale: float
    curve: Curve | None = None

    @classmethod
    def given(cls, tuning: Tuning) -> WeightedTunings:
        """One tuning, given by the user."""
        return cls([tuning], np.zeros(1), 0.0)

    @classmethod
    def of_classes(
        cls,
        problems: Sequence[Problem],
        starts: Sequence[FloatArray],
        tunings: Sequence[Tuning],
        losses: FloatArray,
    ) -> list[WeightedTunings]:
        """The candidates of the classes of one model, pooled in part, from losses ``(K, C)``."""
        scales = [
            likelihood_scale(problem, g) / problem.unit
            for problem, g in zip(problems, starts, strict=True)
        ]
        prior = np.log([tuning.bandwidth for tuning in tunings])
        # Without the least loss: where a scale is large, differences alone keep their digits.
        excess = losses - losses.min(axis=1, keepdims=True)
        evidence = prior - pooled(np.array(scales)[:, None] * excess)  # (K, C)
        return [
            cls._of(problem, tunings, evidence[k], scales[k], losses[k])
            for k, problem in enumerate(problems)
        ]

    @classmethod
    def _of(
        cls,
        problem: Problem,
        tunings: Sequence[Tuning],
        evidence: FloatArray,
        scale: float,
        losses: FloatArray,
    ) -> WeightedTunings:
        order = np.argsort(-evidence, kind="stable")
        share = np.cumsum(softmax(evidence[order]))
        most = MOST if problem.one_dimensional else MOST_JOINT
        kept = order[: min(int(np.searchsorted(share, KEPT)) + 1, most)]
        best = tunings[order[0]]
        curve = _curve(problem.name, best, tunings, losses)
        return cls([tunings[c] for c in kept], evidence[kept], scale, curve)

    @property
    def weights(self) -> FloatArray:
        """omega_c, ``(C,)``."""
        shares: FloatArray = softmax(self.evidence)
        return shares

    @property
    def best(self) -> Tuning:
        """The candidate of the largest weight."""
        return self.tunings[int(np.argmax(self.evidence))]

    def own_weights(self, losses: FloatArray) -> FloatArray:
        """omega_ci, ``(C, n)``, from what a sample of each row adds to the losses, ``(C, n)``."""
        excess = losses - losses.min(axis=0)
        weights: FloatArray = softmax(
            self.evidence[:, None] + OWN_SHARE * self.scale * excess, axis=0
        )
        return weights


def pooled(scaled: FloatArray) -> FloatArray:
    """The losses of each class lambda_k L_kc ``(K, C)``, those of the others added in part."""
    n_classes = len(scaled)
    own = scaled - scaled.min(axis=1, keepdims=True)
    if n_classes < 3:
        return own
    heard = np.minimum(own, HEARD)
    others = heard.sum(axis=0) - heard
    together: FloatArray = (own + POOLED * others) / (1 + POOLED / (n_classes - 1))
    return together


def _curve(name: str, best: Tuning, tunings: Sequence[Tuning], losses: FloatArray) -> Curve:
    """The losses of the bandwidths in the coordinates of the best candidate."""
    same = [c for c, tuning in enumerate(tunings) if tuning.flattening == best.flattening]
    bandwidths = np.array([tunings[c].bandwidth for c in same])
    at_edge = len(same) > 1 and best.bandwidth in (bandwidths[0], bandwidths[-1])
    return Curve(name, bandwidths, losses[same], best.bandwidth, at_edge, best.flattening)
