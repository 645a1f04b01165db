"""Which of two models is calibrated better, on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from riskalign.data.validation import as_sample
from riskalign.debiasing import DEBIASED
from riskalign.equations.losses import ProperLoss
from riskalign.estimate import fit_debiased
from riskalign.inference.interval import paired_error
from riskalign.methods.method import KernelSmoother
from riskalign.options import check_confidence, default_notion, make_case

ROUNDING = 1e-9
"""A standard error below this share of the difference is 0 but for rounding."""


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`.

    Attributes
    ----------
    difference : error of the first model less that of the second: negative where the first
        is calibrated better
    standard_error, interval, confidence : of the difference. Where it is the same in all n rows,
        their variance would be 0; the standard error is then that with the p-value of a sign
        test, 2^(1 - n).
    p_value : two-sided, of no difference
    values : the two errors

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, t2=0.3, seed=0)
    >>> comparison = ra.compare(data.y_true, data.y_prob, data.conditional)
    >>> comparison.difference > 0, comparison.to_dict()["names"]
    (True, ['A', 'B'])
    """

    difference: float
    standard_error: float
    interval: tuple[float, float]
    confidence: float
    p_value: float
    values: tuple[float, float]
    names: tuple[str, str]
    notion: str
    loss: str
    n_samples: int

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        lists = {name: list(getattr(self, name)) for name in ("interval", "values", "names")}
        return asdict(self) | lists

    def __str__(self) -> str:
        """A short table."""
        first, second = self.names
        width = max(len(first), len(second), len("difference"))
        low, high = self.interval
        return "\n".join(
            [
                f"{self.notion} calibration error, {self.loss} loss, n = {self.n_samples:,}",
                f"  {first:<{width}}  {self.values[0]:.6f}",
                f"  {second:<{width}}  {self.values[1]:.6f}",
                f"  {'difference':<{width}}  {self.difference:+.6f}, "
                f"{self.confidence:.0%} interval {low:+.6f} to {high:+.6f}, p = {self.p_value:.3g}",
            ]
        )


def compare(
    y_true: object,
    prob_a: object,
    prob_b: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    names: tuple[str, str] = ("A", "B"),
    confidence: float = 0.95,
    start: str = "logistic",
    kernel: str = "dirichlet",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    progress: bool | None = None,
) -> Comparison:
    """Compare the calibration errors of two models on the same samples.

    The difference of two debiased errors, with the interval of paired data: what moves both
    estimates alike does not widen it.

    Parameters
    ----------
    prob_a, prob_b : array-like of shape (n,) or (n, K)
        Predictions of the two models for the same samples.
    names : pair of str
        The models' names.
    confidence : float
        Level of the interval.
    others
        As for `calibration_error`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(2000, 3, t2=0.6, seed=0)
    >>> diff = ra.compare(data.y_true, data.y_prob, data.conditional, names=("model", "truth"))
    >>> diff.interval[0] > 0, diff.p_value < 0.001
    (True, True)
    """
    method = KernelSmoother(kernel=kernel, estimator=DEBIASED, start=start)
    check_confidence(confidence, method)
    cases = []
    for probabilities in (prob_a, prob_b):
        sample = as_sample(
            y_true,
            probabilities,
            sample_weight=sample_weight,
            from_logits=from_logits,
            normalize=normalize,
            ignore_index=ignore_index,
            classes=classes,
        )
        cases.append(make_case(sample, default_notion(notion, probabilities), loss))
    if cases[0].sample.probabilities.shape != cases[1].sample.probabilities.shape:
        shapes = " and ".join(str(case.sample.probabilities.shape) for case in cases)
        raise ValueError(f"`prob_a` and `prob_b` must have one shape; found {shapes}.")
    fits = [fit_debiased(case, method, engine, progress)[0] for case in cases]
    weights = cases[0].sample.weights / cases[0].sample.weights.sum()
    first, second = (float(weights @ fit.terms) for fit in fits)
    difference = first - second
    error = paired_error(fits, [1.0, -1.0])
    if error <= ROUNDING * abs(difference):
        error = _error_of_equal_rows(difference, int(np.count_nonzero(weights)))
    reach = float(ndtri((1 + confidence) / 2)) * error
    return Comparison(
        difference=difference,
        standard_error=error,
        interval=(difference - reach, difference + reach),
        confidence=confidence,
        p_value=1.0 if difference == 0 else float(2 * ndtr(-abs(difference) / error)),
        values=(first, second),
        names=(str(names[0]), str(names[1])),
        notion=cases[0].notion,
        loss=cases[0].loss.name,
        n_samples=len(weights),
    )


def _error_of_equal_rows(difference: float, n: int) -> float:
    """The standard error of a difference that n rows share, whose sample variance is 0.

    Few rows that agree prove little. By a sign test their two-sided p-value is 2^(1 - n): the
    standard error is the one that leads to this p-value.
    """
    return abs(difference) / -float(ndtri_exp(-n * np.log(2)))
