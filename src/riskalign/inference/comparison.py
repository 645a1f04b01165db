"""Which of two models is calibrated better, on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from riskalign.equations.arrays import FloatArray
from riskalign.inference.interval import paired_error
from riskalign.inference.null import Model

ROUNDING = 1e-9
"""A standard error below this share of the difference is 0 but for rounding."""


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`.

    Attributes
    ----------
    difference : error of the first model less that of the second: negative where the first
        is calibrated better
    standard_error, interval, confidence : of the difference
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


def compared(
    models: Sequence[Model],
    terms: Sequence[FloatArray],
    names: tuple[str, str],
    confidence: float,
    seed: int,
) -> Comparison:
    """The difference of two models' errors, from the terms ``(n,)`` of each at the same rows."""
    sample = models[0].sample
    weights = sample.weights / sample.weights.sum()
    first, second = (float(weights @ own) for own in terms)
    error = paired_error(models, [1.0, -1.0], terms[0] - terms[1], seed)
    difference = first - second
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
        notion=models[0].notion.name,
        loss=models[0].loss.name,
        n_samples=len(weights),
    )


def _error_of_equal_rows(difference: float, n: int) -> float:
    """The standard error of a difference that n rows share, whose sample variance is 0.

    Few rows that agree prove little. By a sign test their two-sided p-value is 2^(1 - n): the
    standard error is the one that leads to this p-value.
    """
    return abs(difference) / -float(ndtri_exp(-n * np.log(2)))
