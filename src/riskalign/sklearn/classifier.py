"""A classifier with the kernel calibrator behind it, fitted by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from riskalign.equations.arrays import FloatArray
from riskalign.sklearn.calibrator import KernelCalibrator

PREFIT = "prefit"


class KernelCalibratedClassifierCV(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are recalibrated by `KernelCalibrator`.

    The calibrator learns from out-of-fold probabilities: each sample's are predicted by a copy of
    the classifier that was fitted on the other folds. Then the classifier is fitted on all
    samples. This is what scikit-learn's `CalibratedClassifierCV` does with ``ensemble=False``.

    Parameters
    ----------
    estimator : classifier with `predict_proba`, optional
        Default: `LogisticRegression`.
    cv : int, cross-validation generator, iterable or "prefit"
        Folds, as scikit-learn takes them. With "prefit" the estimator is fitted already, on other
        samples, and the calibrator learns from all samples that are given; an estimator wrapped in
        `sklearn.frozen.FrozenEstimator` is treated alike.
    notion, start, bandwidth
        As for `KernelCalibrator`.

    Attributes
    ----------
    classes_ : (K,) array
        Labels in the order of the columns.
    estimator_ : classifier
        The fitted classifier.
    calibrator_ : KernelCalibrator
        The fitted calibrator.

    Examples
    --------
    >>> import riskalign as ra
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ra.KernelCalibratedClassifierCV(GaussianNB(), cv=5).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cv: Any = 5,
        notion: str = "classwise",
        start: str = "matrix",
        bandwidth: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.notion = notion
        self.start = start
        self.bandwidth = bandwidth

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelCalibratedClassifierCV:
        """Fit the classifier and its calibrator.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the calibrator, and of the classifier if it takes any.
        """
        if y is None:
            raise ValueError(
                "KernelCalibratedClassifierCV requires y to be passed, but the target y is None."
            )
        X, y = indexable(X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        if self._is_fitted():
            self.estimator_ = self.estimator
            probabilities = self.estimator_.predict_proba(X)
        else:
            probabilities = self._out_of_fold(X, y, sample_weight)
        self.classes_ = self.estimator_.classes_
        self.calibrator_ = KernelCalibrator(
            notion=self.notion, start=self.start, bandwidth=self.bandwidth, classes=self.classes_
        ).fit(probabilities, y, sample_weight=sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _is_fitted(self) -> bool:
        """Whether the estimator is used as it is."""
        frozen = type(self.estimator).__name__ == "FrozenEstimator"
        return frozen or (isinstance(self.cv, str) and self.cv == PREFIT)

    def _out_of_fold(self, X: Any, y: npt.NDArray[Any], weights: FloatArray | None) -> FloatArray:
        """Probabilities of the folds left out, ``(n, K)``; the estimator is fitted on all rows."""
        model = LogisticRegression() if self.estimator is None else self.estimator
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"`estimator` must have `predict_proba`; {type(model).__name__} has none."
            )
        weighted = weights is not None and has_fit_parameter(model, "sample_weight")
        params = {"sample_weight": weights} if weighted else {}
        self.estimator_ = clone(model).fit(X, y, **params)
        folds = check_cv(self.cv, y, classifier=True)
        found: FloatArray = cross_val_predict(
            clone(model), X, y, cv=folds, method="predict_proba", params=params
        )
        return found

    def predict_proba(self, X: Any) -> FloatArray:
        """Recalibrated probabilities ``(n, K)``."""
        check_is_fitted(self)
        found: FloatArray = self.calibrator_.predict_proba(self.estimator_.predict_proba(X))
        return found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of the largest recalibrated probability."""
        check_is_fitted(self)
        chosen: npt.NDArray[Any] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = LogisticRegression() if self.estimator is None else self.estimator
        tags.input_tags.sparse = get_tags(inner).input_tags.sparse
        return tags
