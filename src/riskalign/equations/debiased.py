"""The debiased estimate: a second-order correction removes what the noise of R adds to a risk.

With g a start, e = y - g its residuals and w_ij the kernel's weights without the row itself,

    R_i = g_i + sum_j w_ij e_j,    s_i = sum_j w_ij^2.

The variational error <y, l(f) - l(R)> falls short of the truth by E D(E[y | f], R): the squared
bias of R and its variance. The variance is known: adding y_i to its own average with the weight
s_i lowers its loss by twice what the noise of R adds to it when it is left out. So

    terms_i = <y_i, l(f_i)> - 1/2 <y_i, l(R_i) + l(R_i + s_i (y_i - R_i) + shift_i)>

has an expectation below the true error by the squared smoothing bias alone. The fitted
parameters of a start are noise of R too; `shift_i` lets the label into their fit. It leaves the
starts of its neighbours as well: to first order, label i moves the parameters by

    push_i = u_i I^-1 phi_i' (y_i - g_i)

with u_i the weight of one sample and I the information, and R_i = g_i + (W e)_i + (W slopes)_i
push_i.

All of this holds for B label sets of the same n predictions at once. They are n B rows, those of
one prediction next to each other; the slopes are those of the n predictions, smoothed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from riskalign.equations.arrays import FloatArray, LabelArray, row_dot
from riskalign.equations.fit_noise import FitNoise
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, completed, mirrored, onto_simplex
from riskalign.equations.starts import (
    FittedStart,
    Start,
    information,
    moved,
    prior_precision,
    products,
    scores,
    slopes_of,
    tilted,
    times,
)
from riskalign.equations.terms import of_label, risk_of


def without_noise(
    risk: FloatArray, left_out: FloatArray, let_in: FloatArray, share: FloatArray | float
) -> FloatArray:
    """<y, l(f)> - a <y, l(R)> - (1 - a) <y, l(R')>, with a the share of what is left out."""
    found: FloatArray = risk - share * left_out - (1 - share) * let_in
    return found


def errors(
    problem: Problem, R: FloatArray, let_in: FloatArray, share: FloatArray | float = 0.5
) -> tuple[FloatArray, FloatArray]:
    """Terms of an estimate R without each row's sample, and R' with it; ``(n, K)`` each.

    With them their optimism, what the noise of R would have added to terms of R' alone; ``(n,)``
    each. For kernels a is 1/2.
    """
    points = (problem.points, R, let_in)
    risk, left_out, within = (risk_of(problem.loss, problem.labels, each) for each in points)
    terms = without_noise(risk, left_out, within, share)
    return terms, risk - within - terms


@dataclass(frozen=True)
class Terms:
    """What an estimate R says row by row, or several R averaged.

    Attributes
    ----------
    terms : (n,), whose weighted mean is the calibration error
    risk : (n,), <y, l(f)>
    left_out : (n,), <y, l(R)>
    variance_removed : (n,), what the noise of R had taken from the terms
    reconstructed_risk : (n,), <R, l(f)>
    plugin : (n,), <R, l(f) - l(R)>
    gains : l(f) - l(R), ``(n, K)``
    conditional : R, ``(n, K)``
    """

    terms: FloatArray
    risk: FloatArray
    left_out: FloatArray
    variance_removed: FloatArray
    reconstructed_risk: FloatArray
    plugin: FloatArray
    gains: FloatArray
    conditional: FloatArray

    @classmethod
    def of(
        cls, problem: Problem, R: FloatArray, let_in: FloatArray, share: FloatArray | float = 0.5
    ) -> Terms:
        """Terms of R and R', see `errors`."""
        loss_f, loss_R = problem.loss(problem.points), problem.loss(R)  # (n, K)
        risk, left_out = of_label(loss_f, problem.labels), of_label(loss_R, problem.labels)
        within = risk_of(problem.loss, problem.labels, let_in)
        terms = without_noise(risk, left_out, within, share)
        gains = loss_f - loss_R
        return cls(
            terms=terms,
            risk=risk,
            left_out=left_out,
            variance_removed=terms - (risk - left_out),
            reconstructed_risk=row_dot(R, loss_f),
            plugin=row_dot(R, gains),
            gains=gains,
            conditional=R,
        )

    @classmethod
    def averaged(cls, parts: Sequence[Terms], weights: FloatArray) -> Terms:
        """Terms averaged by weights ``(C,)``, or by those of each row ``(C, n)``."""
        totals = {}
        for name in (each.name for each in fields(cls)):
            total = np.zeros_like(getattr(parts[0], name))
            for own, part in zip(weights, parts, strict=True):
                total += (own * getattr(part, name).T).T
            totals[name] = total
        return cls(**{**totals, "risk": parts[0].risk})


@dataclass(frozen=True)
class Started:
    """A problem with a start fitted to its labels, each sample left out of its own fit.

    Attributes
    ----------
    problem : rows of the sample, or nodes; or n B rows of B label sets
    g : the start at each row without its own sample, ``(n B, d)``
    slopes : the derivatives of g by the parameters, ``(n, d, p)``
    noise : of the fit
    pushes : by how much each sample's label moves the parameters, ``(n B, p)``
    fit : the start, fitted to all rows; None for labels that are drawn
    """

    problem: Problem
    g: FloatArray
    slopes: FloatArray
    noise: FitNoise
    pushes: FloatArray
    fit: FittedStart | None = None

    @classmethod
    def of(cls, problem: Problem, start: Start) -> Started:
        """Fit a start to a problem."""
        fit = FittedStart.of(problem, start)
        g, phi = fit.without_each(problem), start.features(problem.predictions)
        slopes = slopes_of(phi, g)
        noise = FitNoise.of(fit.information, products(problem.weights, slopes, slopes))
        pushes = _pushes(problem, phi, noise, problem.columns() - g)
        return cls(problem, g, slopes, noise, pushes, fit)

    @classmethod
    def drawn(
        cls, problem: Problem, truth: FloatArray, labels: LabelArray, start: Start
    ) -> Started:
        """Label sets ``(n, B)`` drawn from a truth g, ``(n,)`` or ``(n, K)``, which is judged.

        To each of them a start is fitted by one Newton step from the truth,
        g^b_i = softmax(log g_i + phi_i sum_(j != i) push^b_j).
        """
        n, n_sets = labels.shape
        places = np.repeat(np.arange(n), n_sets)
        rows = replace(problem.take(places), predictions=truth[places], labels=labels.ravel())
        g, phi = Problem.free(truth), start.features(problem.predictions)
        slopes = slopes_of(phi, g)
        fisher = information(phi, g, problem.weights)
        fisher += prior_precision(problem.mean_weight, len(fisher))
        noise = FitNoise.of(fisher, products(problem.weights, slopes, slopes))
        pushes = _pushes(problem, phi, noise, rows.columns() - g[places])
        sets = pushes.reshape(n, n_sets, pushes.shape[1])
        others = (sets.sum(axis=0) - sets).reshape(pushes.shape)
        started = tilted(g, moved(phi, others)) if others.size else g[places]
        return cls(rows, started, slopes, noise, pushes)

    @cached_property
    def residuals(self) -> FloatArray:
        """The residuals y - g, ``(n B, d)``."""
        return self.problem.columns() - self.g

    @cached_property
    def truth(self) -> FloatArray:
        """The start g on the simplex, ``(n B, K)``."""
        return completed(self.g)

    def with_slopes(self) -> FloatArray:
        """What is smoothed: residuals of all label sets and slopes, side by side.

        Slopes of K outcomes add up to 0: those of the last are left out.
        """
        n, d, p = self.slopes.shape
        slopes = self.slopes[:, : max(d - 1, 1)].reshape(n, max(d - 1, 1) * p)
        return np.concatenate([self.residuals.reshape(n, -1), slopes], axis=1)

    def _split(self, averages: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Averages of residuals ``(n B, d)`` and slopes ``(n, d, p)``, from those of both."""
        n, d, p = self.slopes.shape
        n_residuals = self.g.size // n
        slopes = averages[:, n_residuals:].reshape(n, max(d - 1, 1), p)
        if d > 1:
            slopes = np.concatenate([slopes, -slopes.sum(axis=1, keepdims=True)], axis=1)
        return averages[:, :n_residuals].reshape(-1, d), slopes

    def smoothed(self, averages: FloatArray, s: FloatArray) -> Smoothed:
        """R = g + W e and R', from averages of `with_slopes` and squares ``(n,)``."""
        n, problem = len(self.slopes), self.problem
        n_sets = len(self.g) // n
        q, slopes = self._split(averages)
        left = self.noise.left(products(problem.weights[::n_sets], self.slopes, slopes))
        R = recalibrated(self.truth, q + moved(slopes, self.pushes))
        s = np.repeat(s, n_sets)
        own = let_in(problem, R, s, moved(times(self.slopes, left), self.pushes))
        of_fit = self.noise.variance_of_fit(self.slopes, left, problem.unit)
        return Smoothed(R, own, s, of_fit)

    def terms(self, by_kernel: Smoothed) -> tuple[Terms, FloatArray]:
        """Terms of the estimate by a kernel, and the variance of R, ``(n B, d)``."""
        return Terms.of(self.problem, by_kernel.R, by_kernel.let_in), by_kernel.variance

    def errors(self, averages: FloatArray, s: FloatArray) -> FloatArray:
        """The terms alone, ``(n B,)``."""
        by_kernel = self.smoothed(averages, s)
        return errors(self.problem, by_kernel.R, by_kernel.let_in)[0]


@dataclass(frozen=True)
class Smoothed:
    """The estimate of E[y | f] by one kernel.

    Attributes
    ----------
    R : without each row's sample, ``(n B, K)``
    let_in : R', with it
    s : squares, ``(n B,)``
    of_fit : the variance that the fit adds to that of the averages, ``(n, d)``
    """

    R: FloatArray
    let_in: FloatArray
    s: FloatArray
    of_fit: FloatArray

    @property
    def variance(self) -> FloatArray:
        """The variance of R: of averages of labels, and of the fit, ``(n B, d)``."""
        n, d = self.of_fit.shape
        free = self.R[:, -d:]
        return self.s[:, None] * free * (1 - free) + np.repeat(self.of_fit, len(free) // n, axis=0)


def _pushes(
    problem: Problem, phi: FloatArray, noise: FitNoise, residuals: FloatArray
) -> FloatArray:
    """push_i = u_i I^-1 phi_i' (y_i - g_i), ``(n B, p)``, from residuals ``(n B, d)``."""
    return scores(times(problem.units[:, None, None] * phi, noise.variance), residuals)


def recalibrated(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """R = g + W e on the simplex, from g ``(n, K)`` and the averages W e in free columns."""
    return onto_simplex(start, mirrored(smoothed))


def left_out_risk(
    loss: ProperLoss, labels: LabelArray, start: FloatArray, smoothed: FloatArray
) -> FloatArray:
    """<y, l(R)> of R = g + W e ``(n,)``, as `recalibrated`: the leave-one-out loss of a kernel."""
    return risk_of(loss, labels, recalibrated(start, smoothed))


def let_in(problem: Problem, R: FloatArray, s: FloatArray, shift: FloatArray) -> FloatArray:
    """R' = R + s (y - R) + shift ``(n, K)``: R with each row's sample in its own average and fit.

    `s` is ``(n,)``; the shift is in free columns.
    """
    found = R + s[:, None] * (problem.one_hot() - R) + mirrored(shift)
    # The shift is linear in the label. Where one sample outweighs the others it has no bound.
    return np.clip(found, KEPT_SHARE * R, 1.0, out=found)
