"""A calibrator of probabilities as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from riskalign.data.sample import Sample
from riskalign.data.validation import ROW_SUM_TOLERANCE, one_of
from riskalign.data.weights import exponent_of, in_units
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.simplex import on_simplex
from riskalign.recalibration.fitted import FittedCalibrator, load_calibrator
from riskalign.recalibration.kernel import FORMS, SMOOTHINGS, Recalibration


class KernelCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Recalibrate probabilities: matrix scaling, then what it misses by kernel smoothing.

    With f the predicted probabilities, g a scaling of their logarithms and e = y - g its
    residuals, the recalibrated probabilities are

        R(f) = g(f) + s sum_j w_j(f) e_j,

    kept on the simplex. The scaling has one weight per pair of classes, shrunk towards
    temperature scaling as far as the data ask for it. The bandwidth of the kernel weights w_j has
    the lowest log loss of samples left out of their own average, and s in [0, 1] is 0 unless
    smoothing lowers that loss by more than chance does.

    It learns from probabilities, not from features. To put it behind a classifier, see
    `KernelCalibratedClassifierCV`.

    Parameters
    ----------
    notion : {"classwise", "canonical"}
        Smooth over each class's own probability, or over the whole vector, which can correct
        more and needs more samples and time: an option for up to about ten classes.
    start : {"matrix", "vector", "temperature", "identity"}
        The scaling g: one weight per pair of classes, one per class, one for all, or none.
    bandwidth : float, optional
        Bandwidth of the Dirichlet kernel, instead of the best of several.
    classes : sequence, optional
        Labels in the order of the columns. Needed where `y` lacks some of them and they are
        not the numbers 0 to K-1.

    Attributes
    ----------
    classes_ : (K,) array
        Labels in the order of the columns.
    share_ : float
        Weight of the scaling's logits in [0, 1]; those of temperature scaling have the rest.
    bandwidth_, flattening_ : float
        The kernel's bandwidth, and the power of f that is its coordinate; NaN where nothing was
        smoothed, because all classes are rare or there are too many.
    shrinkage_ : float
        s.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(4000, 3, t2=0.5, seed=0)
    >>> calibrator = ra.KernelCalibrator().fit(data.y_prob[:2000], data.y_true[:2000])
    >>> recalibrated = calibrator.predict_proba(data.y_prob[2000:])
    >>> def error(y_prob):
    ...     result = ra.calibration_error(data.y_true[2000:], y_prob, estimator="debiased")
    ...     return result.value
    >>> error(recalibrated) < 0.05 * error(data.y_prob[2000:])
    True
    """

    def __init__(
        self,
        *,
        notion: str = "classwise",
        start: str = "matrix",
        bandwidth: float | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.notion = notion
        self.start = start
        self.bandwidth = bandwidth
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelCalibrator:
        """Learn the map from probabilities to recalibrated ones.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Probabilities of each class, or of the second of two.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights.
        """
        one_of("notion", self.notion, SMOOTHINGS)
        one_of("start", self.start, (*FORMS, "identity"))
        X, y = validate_data(self, _column(X), y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(np.concatenate([y, y]))  # it doubts labels that are rare
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weights > 0
        if np.count_nonzero(kept) < 2:
            raise ValueError(
                "At least two samples need a nonzero weight; `sample_weight` has "
                f"{np.count_nonzero(kept)}."
            )
        probabilities = _probabilities(X)
        n_classes = probabilities.shape[1]
        self.classes_, labels = _numbered(column_or_1d(y), n_classes, self.classes)
        names = tuple(str(label) for label in self.classes_)
        weights = in_units(weights[kept], exponent_of(weights))
        sample = Sample(probabilities[kept], labels[kept], weights, names)
        self._set(Recalibration.fit(sample, self.notion, self.start, self._checked_bandwidth()))
        return self

    def _set(self, found: Recalibration) -> None:
        tuning = found.tuning
        self.map_ = found
        self.bandwidth_ = np.nan if tuning is None else tuning.bandwidth
        self.flattening_ = np.nan if tuning is None else tuning.flattening
        self.share_, self.shrinkage_ = found.share, found.shrinkage

    def predict_proba(self, X: Any) -> FloatArray:
        """Recalibrated probabilities ``(n, K)`` of predicted ones."""
        check_is_fitted(self)
        return self.map_(
            _probabilities(validate_data(self, _column(X), dtype=np.float64, reset=False))
        )

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of the largest recalibrated probability."""
        largest = np.argmax(self.predict_proba(X), axis=1)
        chosen: npt.NDArray[Any] = self.classes_[largest]
        return chosen

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted map to a .json or .npz file; see `FittedCalibrator.save`."""
        check_is_fitted(self)
        classes = tuple(self.classes_.tolist())
        FittedCalibrator("kernel", classes, self.map_).save(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> KernelCalibrator:
        """Read what `save` has written."""
        stored = load_calibrator(path)
        if not isinstance(stored.map, Recalibration):
            raise ValueError(  # noqa: TRY004
                f"{path} holds a {stored.method} calibrator; read it with `load_calibrator`."
            )
        found = cls()
        found.classes_ = np.array(stored.classes)
        found.n_features_in_ = len(stored.classes)
        found._set(stored.map)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _checked_bandwidth(self) -> float | None:
        if self.bandwidth is None:
            return None
        given = np.asarray(self.bandwidth, dtype=np.float64)
        if given.shape != () or not (np.isfinite(given) and given > 0):
            raise ValueError(f"`bandwidth` must be a positive number; found {self.bandwidth!r}.")
        return float(given)


def _column(X: Any) -> Any:
    """One probability per row as a column."""
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    return np.reshape(X, (-1, 1)) if getattr(X, "ndim", None) == 1 else X


def _probabilities(X: FloatArray) -> FloatArray:
    """Points of the simplex ``(n, K)``, or an error that says what else was found."""
    low, high = float(X.min()), float(X.max())
    if low < 0 or high > 1 + ROW_SUM_TOLERANCE:
        found = "Negative values in data: " if low < 0 else ""  # scikit-learn's words
        raise ValueError(
            f"{found}`X` must hold probabilities in [0, 1]; it has {low:.4g} to {high:.4g}. "
            "Pass what `predict_proba` returns; of logits, the softmax."
        )
    if X.shape[1] == 1:
        return on_simplex(np.minimum(X[:, 0], 1.0))
    sums = X.sum(axis=1)
    off = np.abs(sums - 1) > ROW_SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise ValueError(
            f"`X` must have rows that sum to 1 (tolerance {ROW_SUM_TOLERANCE:g}); row {row} sums "
            f"to {sums[row]:.4g}. Pass what `predict_proba` returns."
        )
    return X


def _numbered(
    y: npt.NDArray[Any], n_classes: int, classes: Sequence[Any] | None
) -> tuple[npt.NDArray[Any], IntArray]:
    """The labels in the order of the columns, and each row's column."""
    found = np.unique(y)
    if classes is not None:
        known = np.asarray(classes)
        if len(known) != n_classes or len(set(known.tolist())) != n_classes:
            raise ValueError(
                f"`classes` must name each of the {n_classes} columns of `X` once; found "
                f"{classes!r}."
            )
    else:
        known = found if len(found) == n_classes else np.arange(n_classes)
    column = {label: k for k, label in enumerate(known.tolist())}
    try:
        return known, np.array([column[label] for label in y.tolist()], dtype=np.intp)
    except KeyError as error:
        raise ValueError(
            f"`y` holds {error.args[0]!r}, which is none of the {n_classes} classes that the "
            f"columns of `X` stand for, {known.tolist()[:10]!r}. Pass `classes=` with the labels "
            "in the order of the columns."
        ) from None
