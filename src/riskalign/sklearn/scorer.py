"""A scorer for cross-validation and grid search: minus the calibration error."""

from __future__ import annotations

from typing import Any

from riskalign.estimate import calibration_error


class CalibrationScorer:
    """Minus the calibration error of an estimator's `predict_proba`; see `calibration_scorer`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score on some data: greater is better, 0 is best."""
        y_prob = estimator.predict_proba(X)
        options = {"progress": False, "classes": list(estimator.classes_), **self.options}
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
