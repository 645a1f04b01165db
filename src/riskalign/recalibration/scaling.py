r"""Parametric recalibration: temperature, vector and matrix scaling, with penalties learnt.

With z = log f, centred per class, and features phi(f_k) of single probabilities, the logits are

    eta_k = sum_s c_s phi_s(f_k) + sum_b v_kb phi_b(f_k) + sum_l M_kl z_l,

and R = softmax(eta). The weights c are shared by all classes; v and M are one number per class and
per pair of classes. They have a normal prior with mean 0 and one precision per *block*: one for
each feature of v, one for the diagonal and one for the rest of M. Precisions maximise the Laplace
approximation of the marginal likelihood (MacKay, 1992; Wood & Fasiolo, 2017): with gamma the
effective number of parameters of a block,

    lambda <- gamma / |theta|^2,    gamma = p - lambda tr(H^{-1}),

and are learnt anew at every Newton step (`riskalign.recalibration.evidence`). A block without
evidence gets an ever larger precision and vanishes, so that the number of classes needs no limit by
hand.

References
----------
Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks, ICML 2017 (temperature,
vector and matrix scaling).
Berta, Holzmueller, Jordan, Bach: Structured Matrix Scaling for Multi-Class Calibration, 2026.
MacKay: The Evidence Framework Applied to Classification Networks, 1992.
Wood, Fasiolo: A Generalized Fellner-Schall Method for Smoothing Parameter Optimization, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from riskalign.data.limits import announce_scaling
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray, floored_log
from riskalign.recalibration.forms import Features, Form, blocks_of
from riskalign.recalibration.leverages import Leverages
from riskalign.recalibration.newton import INFORMED, Newton
from riskalign.smoothing.threads import one_blas_thread

CHUNK = 4_000_000
"""Numbers held at a time when probabilities are recalibrated."""

LEFT_OUT_CHUNK = 100_000
"""Entries of matrices per pair of classes held at a time when rows are left out: in cache."""

MOST_LEFT_OUT = 30
"""Classes up to which rows are left out of the fit: each takes a K x K system."""

USUAL_STEPS, FEW_STEPS = 15, 8
"""Newton steps, about, where precisions are learnt, and where none are."""


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling: a map from predictions to R.

    Attributes
    ----------
    form : what it is made of
    theta : (p,), c, then v class by class, then M row by row
    centre : (K,), the mean of log f in the sample
    penalties : precision of each block
    """

    form: Form
    theta: FloatArray
    centre: FloatArray
    penalties: FloatArray

    @classmethod
    def fit(cls, sample: Sample, form: Form) -> Scaling:
        """Learn weights and precisions."""
        return Fit.of(sample, form).scaling

    def __call__(self, f: FloatArray) -> FloatArray:
        """R at predictions ``(m, K)``."""
        rows = max(CHUNK // f.shape[1], 1)
        R = np.empty_like(f, dtype=np.float64)
        for start in range(0, len(f), rows):
            part = slice(start, start + rows)
            eta = Features.of(self.form, f[part], self.centre).logits(self.theta)
            R[part] = by_softmax(eta).T
        return R

    @property
    def slope(self) -> float:
        """The shared weight of log f: one over the temperature, where nothing else is fitted."""
        return float(self.theta[0])


@dataclass(frozen=True)
class Fit:
    """A scaling with what was used to fit it.

    Attributes
    ----------
    scaling : the result
    features : those of the sample
    labels, weights : (n,)
    information : (p, p), minus the second derivative of the penalised log-likelihood
    """

    scaling: Scaling
    features: Features
    labels: IntArray
    weights: FloatArray
    information: FloatArray

    @classmethod
    def of(cls, sample: Sample, form: Form) -> Fit:
        """Learn weights and precisions from a sample."""
        f, weights = sample.probabilities, sample.weights / sample.weights.mean()
        n, n_classes = f.shape
        form = form.for_sample(n, n_classes)
        centre = weights @ floored_log(f) / weights.sum()
        announce_fits(sample, form)
        features = Features.of(form, f, centre)
        newton = Newton(features, sample.labels, weights, blocks_of(form, n_classes))
        with one_blas_thread:  # for small matrices, several threads cost more than they save
            theta, penalties, information = newton.run()
        scaling = Scaling(form, theta, centre, penalties)
        return cls(scaling, newton.features, sample.labels, weights, information)

    def logits(self) -> FloatArray:
        """Eta of the sample's rows, ``(n, K)``."""
        return np.ascontiguousarray(self.features.logits(self.scaling.theta).T)

    def left_out_logits(self) -> FloatArray:
        """Eta ``(n, K)``, each row left out of the fit by one Newton step.

        With J the features of a row ``(K, p)``, H the information of all rows, Z = J H^{-1} J',
        V = diag(g) - g g' and w the row's weight, leaving it out moves its logits by

            -w Z (I - w V Z)^{-1} (y - g).
        """
        S, B, K, n = self.features.shape
        used = len(self.information) if self.features.crossed is not None else S + K * B
        rows = max(LEFT_OUT_CHUNK // K**2, 1)
        left = np.empty((n, K))
        with one_blas_thread:
            factor = cho_factor(self.information[:used, :used])
            inverse: FloatArray = cho_solve(factor, np.eye(used))
            leverages = Leverages(inverse, self.features)
            for start in range(0, n, rows):
                part = slice(start, start + rows)
                left[part] = self._left_out(part, leverages)
        return left

    def _left_out(self, rows: slice, leverages: Leverages) -> FloatArray:
        """Logits of some rows, left out."""
        features = self.features.take(rows)
        eta = features.logits(self.scaling.theta)
        g = by_softmax(eta.copy())
        residual = -g
        residual[self.labels[rows], np.arange(g.shape[1])] += 1.0
        Z = leverages(features)  # (K, K, b)
        Z *= self.weights[rows]
        VZ = g[:, None] * (Z - np.einsum("ln,lkn->kn", g, Z))
        K = len(g)
        system = np.eye(K) - VZ.transpose(2, 0, 1)
        solved = np.linalg.solve(system, residual.T[:, :, None])[:, :, 0]
        return (eta - np.einsum("kln,ln->kn", Z, solved.T)).T


def announce_fits(sample: Sample, form: Form, times: int = 1) -> None:
    """Announce the fits of a form to samples of this size if they will take minutes."""
    n, n_classes = sample.probabilities.shape
    form = form.for_sample(n, n_classes)
    n_weights = len(blocks_of(form, n_classes))
    n_features = n * n_classes * (len(form.shared) + len(form.own) + form.crossed)
    n_entries = min(n * n_weights**2, INFORMED)
    n_steps = USUAL_STEPS if form.own else FEW_STEPS
    announce_scaling((n, n_classes), n_steps, n_features, n_entries, n_weights, times)


def by_softmax(eta: FloatArray) -> FloatArray:
    """Probabilities ``(K, n)`` of logits ``(K, n)``, in their place."""
    eta -= eta.max(axis=0)
    np.exp(eta, out=eta)
    eta /= eta.sum(axis=0)
    return eta
