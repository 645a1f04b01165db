"""For scikit-learn: a calibrator, and a scorer for cross-validation and grid search.

Nothing else in the package needs scikit-learn; `riskalign.KernelCalibrator` and
`riskalign.calibration_scorer` import this module when they are first used.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.simplex import on_simplex
from riskalign.estimate import calibration_error
from riskalign.methods.recalibration import Recalibration

NOTIONS = ("classwise", "canonical")
"""What a calibrator smooths over: each probability alone, or the whole vector."""


class KernelCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Mend probabilities: a temperature, then what it misses by kernel smoothing.

    With f the predicted probabilities, g = f^a renormalised at the power a that fits best,
    and e = y - g its residuals, the calibrated probabilities are

        R(f) = g(f) + s sum_j w_j(f) e_j,

    kept on the simplex. Bandwidth and coordinates of the kernel weights w_j are found by
    risk alignment; s in [0, 1] is the share of the smoothed residuals that lowers the squared
    error of samples left out, and classes of fewer than 20 samples keep g: with few samples
    a class, only the temperature remains.

    It learns from probabilities, not from features. To put it behind a classifier, let
    scikit-learn make probabilities for samples the classifier has not seen:
    ``StackingClassifier([("model", classifier)], KernelCalibrator(), cv=5)``, or with
    ``cv="prefit"`` for a classifier fitted on other data.

    Parameters
    ----------
    notion : {"classwise", "canonical"}
        Smooth over each class's own probability, or over the whole vector, which can mend
        more and needs more samples: an option for up to about ten classes.
    start : {"temperature", "identity"}
        The start g: f at the temperature that fits, or f itself.
    bandwidth : float or sequence of K floats, optional
        Bandwidth of the Dirichlet kernel instead of the risk-aligned one.
    classes : sequence, optional
        Labels in the order of the columns. Needed where `y` lacks some of them and they are
        not the numbers 0 to K-1.

    Attributes
    ----------
    classes_ : (K,) array
        Labels in the order of the columns.
    bandwidth_, flattening_ : (K,) arrays, or (1,) for two classes and the canonical notion
        The kernel's bandwidths, and the powers of f that are its coordinates; NaN for
        classes of fewer than 20 samples, which keep their start.
    temperature_ : float
        1/a; above 1 for predictions that claim too much.
    shrinkage_ : float
        s.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(4000, 3, t2=0.5, seed=0)
    >>> calibrator = ra.KernelCalibrator().fit(data.y_prob[:2000], data.y_true[:2000])
    >>> mended = calibrator.predict_proba(data.y_prob[2000:])
    >>> def error(y_prob):
    ...     result = ra.calibration_error(data.y_true[2000:], y_prob, estimator="debiased")
    ...     return result.value
    >>> error(mended) < 0.05 * error(data.y_prob[2000:])
    True
    """

    def __init__(
        self,
        *,
        notion: str = "classwise",
        start: str = "temperature",
        bandwidth: float | Sequence[float] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.notion = notion
        self.start = start
        self.bandwidth = bandwidth
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelCalibrator:
        """Learn the map from probabilities to calibrated ones.

        Parameters
        ----------
        X : array-like of shape (n, K), (n, 1) or (n,)
            Probabilities of each class, or of the second of two.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights.
        """
        one_of("notion", self.notion, NOTIONS)
        one_of("start", self.start, ("temperature", "identity"))
        X, y = validate_data(self, _column(X), y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
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
        sample = Sample(probabilities[kept], labels[kept], weights[kept], names)
        notion = "binary" if n_classes == 2 else self.notion
        self.map_ = Recalibration.fit(sample, notion, self.start, self._bandwidths(notion))
        tunings = self.map_.tunings
        chosen = [(np.nan, np.nan) if c is None else (c.bandwidth, c.flattening) for c in tunings]
        self.bandwidth_, self.flattening_ = np.array(chosen).T
        self.temperature_ = 1 / self.map_.exponent
        self.shrinkage_ = self.map_.shrinkage
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities ``(n, K)`` of predicted ones."""
        check_is_fitted(self)
        return self.map_(
            _probabilities(validate_data(self, _column(X), dtype=np.float64, reset=False))
        )

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of the largest calibrated probability."""
        largest = np.argmax(self.predict_proba(X), axis=1)
        chosen: npt.NDArray[Any] = self.classes_[largest]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _bandwidths(self, notion: str) -> FloatArray | None:
        if self.bandwidth is None:
            return None
        given = np.asarray(self.bandwidth, dtype=np.float64)
        n_problems = len(self.classes_) if notion == "classwise" else 1
        if given.shape not in ((), (n_problems,)) or not (np.isfinite(given) & (given > 0)).all():
            raise ValueError(
                f"`bandwidth` must be a positive number or {n_problems} of them; found "
                f"{self.bandwidth!r}."
            )
        return given


def _column(X: Any) -> Any:
    """One probability a row as a column."""
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


class CalibrationScorer:
    """Minus the calibration error of an estimator's `predict_proba`; see `calibration_scorer`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score on some data: greater is better, 0 is best."""
        y_prob = estimator.predict_proba(X)
        options = {"progress": False, "classes": list(estimator.classes_), **self.options}
        if y_prob.shape[1] == 2:
            options = {"notion": "binary", **options}
        return -calibration_error(y, y_prob, sample_weight=sample_weight, **options).value

    def __repr__(self) -> str:
        """The call that makes it."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"calibration_scorer({options})"


def calibration_scorer(**options: Any) -> CalibrationScorer:
    """A scorer for `cross_val_score` and grid search: minus the calibration error.

    A model that always answers with the class frequencies is calibrated and knows nothing:
    search with the risk (``scoring="neg_log_loss"``, ``"neg_brier_score"``), and look at this
    score beside it.

    Parameters
    ----------
    **options
        Passed to `calibration_error`, such as `notion`, `loss` or `estimator`. The notion is
        "binary" for two classes and "classwise" for more, unless given.

    Returns
    -------
    callable
        Called as ``scorer(estimator, X, y)``; the estimator has `predict_proba`.

    Examples
    --------
    >>> import riskalign as ra
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> scorer = ra.calibration_scorer(loss="l2", estimator="debiased")
    >>> scores = cross_val_score(GaussianNB(), *load_iris(return_X_y=True), scoring=scorer)
    >>> scores.shape
    (5,)
    """
    return CalibrationScorer(options)
