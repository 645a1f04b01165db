"""Calibrators of other packages, in one form: fit on probabilities and labels, return a map.

They come from scikit-learn, probmetrics (structured vector and matrix scaling, quadratic scaling),
betacal, splinecalib and venn-abers: the extra `peers` installs them. Methods for two classes are
applied to more classes one against the rest, and rows are renormalised, as their packages do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from riskalign.equations.arrays import floored_log

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]
Fitted = Callable[[Array], Array]
Fit = Callable[[Array, Labels], Fitted]

NEAREST = 1e-12
"""How near to 0 and 1 probabilities are for the packages that refuse 0 and 1."""


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its own probabilities, for scikit-learn's calibrators."""

    def fit(self, X: Array, y: Labels) -> Given:
        """Remember the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Array) -> Array:
        """Logits: the logarithm, for two classes of the odds."""
        z = floored_log(X)
        return z[:, 1] - z[:, 0] if X.shape[1] == 2 else z

    def predict(self, X: Array) -> Labels:
        """The most probable class."""
        return self.classes_[np.argmax(X, axis=1)]


def by_scikit_learn(method: str) -> Fit:
    """scikit-learn's calibrator of that name, fitted on all samples that it is given."""

    def fit(X: Array, y: Labels) -> Fitted:
        everything = [(np.arange(len(y)), np.arange(len(y)))]
        model = FrozenEstimator(Given().fit(X, y))
        calibrated = CalibratedClassifierCV(model, method=method, cv=everything, ensemble=False)
        return calibrated.fit(X, y).predict_proba

    return fit


def by_probmetrics(name: str) -> Fit:
    """The calibrator that probmetrics has under a name."""

    def fit(X: Array, y: Labels) -> Fitted:
        from probmetrics.calibrators import get_calibrator

        return get_calibrator(name).fit(X, y).predict_proba

    return fit


def one_against_rest(fit_one: Callable[[Array, Labels], Callable[[Array], Array]]) -> Fit:
    """A calibrator of one probability, applied to each class; rows are renormalised."""

    def fit(X: Array, y: Labels) -> Fitted:
        inside = np.clip(X, NEAREST, 1 - NEAREST)
        if X.shape[1] == 2:
            only = fit_one(inside[:, 1], y)
            return lambda f: _pair(only(np.clip(f[:, 1], NEAREST, 1 - NEAREST)))
        each = [fit_one(inside[:, k], (y == k).astype(np.intp)) for k in range(X.shape[1])]

        def predict(f: Array) -> Array:
            f = np.clip(f, NEAREST, 1 - NEAREST)
            R = np.stack([one(f[:, k]) for k, one in enumerate(each)], axis=1)
            sums = R.sum(axis=1, keepdims=True)
            return np.where(sums > 0, R / np.where(sums > 0, sums, 1.0), 1 / R.shape[1])

        return predict

    return fit


def _pair(p: Array) -> Array:
    return np.stack([1 - p, p], axis=1)


def _beta(p: Array, y: Labels) -> Callable[[Array], Array]:
    from betacal import BetaCalibration

    return BetaCalibration(parameters="abm").fit(p[:, None], y).predict


def _spline(p: Array, y: Labels) -> Callable[[Array], Array]:
    from splinecalib import SplineCalib

    model = SplineCalib()
    model.fit(p, y)
    return model.calibrate


def _venn_abers(p: Array, y: Labels) -> Callable[[Array], Array]:
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(_pair(p), y)
    return lambda q: model.predict_proba(_pair(q))[0][:, 1]


RIVALS: dict[str, Fit] = {
    "temperature": by_scikit_learn("temperature"),
    "Platt": by_scikit_learn("sigmoid"),
    "isotonic": by_scikit_learn("isotonic"),
    "SVS": by_probmetrics("svs"),
    "SMS": by_probmetrics("sms"),
    "quadratic": by_probmetrics("quadratic-scaling"),
    "beta": one_against_rest(_beta),
    "spline": one_against_rest(_spline),
    "Venn-Abers": one_against_rest(_venn_abers),
}
"""By the name in the tables."""

ONLY_TWO, MORE_THAN_TWO = ("quadratic",), ("SVS", "SMS")
MOST_CLASSES = {"spline": 20, "beta": 100, "Venn-Abers": 100}
"""Classes up to which a package takes less than minutes."""


def applies(name: str, n_classes: int) -> bool:
    """Whether a rival is tried on so many classes."""
    if name in ONLY_TWO:
        return n_classes == 2
    if name in MORE_THAN_TWO:
        return n_classes > 2
    return n_classes <= MOST_CLASSES.get(name, 1000)


def fitted(name: str, X: Array, y: Labels) -> Fitted:
    """A rival, fitted; warnings of other packages are not ours to show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict = RIVALS[name](X, y)

    def quietly(f: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return predict(f)

    return quietly
