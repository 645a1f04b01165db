r"""Parametric recalibration: temperature, vector and matrix scaling, with penalties learnt.

With z = log f, centred per class, and features phi(f_k) of single probabilities, the logits are

    eta_k = sum_s c_s phi_s(f_k) + sum_b v_kb phi_b(f_k) + sum_l M_kl z_l,

and R = softmax(eta). The weights c are shared by all classes; v and M are one number per class and
per pair of classes. They have a normal prior with mean 0 and one precision per *block*: one for
each feature of v, one for the diagonal and one for the rest of M. Precisions maximise the Laplace
approximation of the marginal likelihood (MacKay, 1992; Wood & Fasiolo, 2017): with gamma the
effective number of parameters of a block,

    lambda <- gamma / |theta|^2,    gamma = p - lambda tr(H^{-1}),

between Newton steps. A block without evidence gets an ever larger precision and vanishes, so that
the number of classes needs no limit by hand.

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
from scipy.special import softmax

from riskalign.data.limits import announce_scaling
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray, floored_log
from riskalign.recalibration.forms import Features, Form, blocks_of, parts_of
from riskalign.recalibration.newton import INFORMED, STEPS, Newton
from riskalign.smoothing.threads import one_blas_thread

CHUNK = 4_000_000
"""Numbers held at a time when rows are left out."""

MOST_LEFT_OUT = 30
"""Classes up to which rows are left out of the fit: each takes a K x K system."""

FEW_STEPS = 8
"""Newton steps, about, where no precisions are learnt."""


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
            R[part] = softmax(eta, axis=1)
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
        return cls(scaling, features, sample.labels, weights, information)

    def logits(self) -> FloatArray:
        """Eta of the sample's rows, ``(n, K)``."""
        return self.features.logits(self.scaling.theta)

    def left_out_logits(self) -> FloatArray:
        """Eta ``(n, K)``, each row left out of the fit by one Newton step.

        With J the features of a row ``(K, p)``, H the information of all rows, Z = J H^{-1} J',
        V = diag(g) - g g' and w the row's weight, leaving it out moves its logits by

            -w Z (I - w V Z)^{-1} (y - g).
        """
        with one_blas_thread:
            return self._left_out(self.logits())

    def _left_out(self, eta: FloatArray) -> FloatArray:
        n, K = eta.shape
        inverse: FloatArray = cho_solve(cho_factor(self.information), np.eye(len(self.information)))
        rows = max(CHUNK // (K * max(len(inverse), K)), 1)
        left: FloatArray = np.empty_like(eta)
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            Z = _leverages(self.features.take(part), inverse) * self.weights[part, None, None]
            g = softmax(eta[part], axis=1)
            residual = -g
            residual[np.arange(len(g)), self.labels[part]] += 1.0
            VZ = g[:, :, None] * (Z - np.einsum("nl,nlk->nk", g, Z)[:, None, :])
            solved = np.linalg.solve(np.eye(K) - VZ, residual[:, :, None])
            left[part] = eta[part] - (Z @ solved)[:, :, 0]
        return left


def announce_fits(sample: Sample, form: Form, times: int = 1) -> None:
    """Announce the fits of a form to samples of this size if they will take minutes."""
    n, n_classes = sample.probabilities.shape
    form = form.for_sample(n, n_classes)
    n_weights = len(blocks_of(form, n_classes))
    n_features = n * n_classes * (len(form.shared) + len(form.own) + form.crossed)
    n_entries = min(n * n_weights**2, INFORMED)
    n_steps = STEPS if form.own else FEW_STEPS
    announce_scaling((n, n_classes), n_steps, n_features, n_entries, n_weights, times)


def _leverages(features: Features, inverse: FloatArray) -> FloatArray:
    """J H^{-1} J' of each row, ``(n, K, K)``."""
    K, n, S = features.shared.shape
    columns = [parts_of(*features.of_class(k)) for k in range(K)]
    Z = np.empty((n, K, K))
    for k in range(K):
        pushed = features.shared[k] @ inverse[:S]  # (n, p), J_k H^{-1}
        for places, own in columns[k]:
            pushed += own @ inverse[places]
        for m in range(k, K):
            entry = np.einsum("ns,ns->n", pushed[:, :S], features.shared[m])
            for places, own in columns[m]:
                entry += np.einsum("np,np->n", pushed[:, places], own)
            Z[:, k, m] = Z[:, m, k] = entry
    return Z
