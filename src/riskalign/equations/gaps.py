"""Mean predictions against mean outcomes: the gap mean(f - y) and the ratio of the two means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from riskalign.equations.arrays import FloatArray
from riskalign.equations.problem import Problem


@dataclass(frozen=True)
class Gap:
    """Weighted means of one probability f and of its outcome y.

    Attributes
    ----------
    mean_prediction, frequency, value : means of f, of y and of f - y
    standard_error : that of `value`, from the sample variance of f - y. The variance is at least
        that of labels drawn from the predictions, f (1 - f): a few rows that are all right vary
        too little to tell how often such rows are wrong.
    second : sums of w^2, w^2 f, w^2 y, w^2 f^2 and w^2 f y over the samples, over (sum w)^2
    n_samples : number of samples
    """

    mean_prediction: float
    frequency: float
    value: float
    standard_error: float
    second: FloatArray
    n_samples: int

    @classmethod
    def of(cls, problem: Problem, n_samples: int) -> Gap:
        """The means of a one-dimensional problem of so many samples."""
        f, y, w = problem.predictions, problem.labels.astype(np.float64), problem.weights
        total, squares = float(w.sum()), w * problem.units
        second = np.array([squares @ x for x in (np.ones_like(f), f, y, f**2, f * y)]) / total**2
        p, frequency = float(w @ f) / total, float(w @ y) / total
        m, n = p - frequency, n_samples
        w2, wf, wy, ff, fy = second
        observed = (ff - 2 * fy + wy - 2 * m * (wf - wy) + m**2 * w2) * n / max(n - 1, 1)
        error = float(np.sqrt(max(observed, wf - ff, 0.0)))
        return cls(p, frequency, m, error, second, n)

    def frequency_interval(self, confidence: float) -> tuple[float, float]:
        """The interval of the mean that labels have, given the predictions.

        It is the gamma interval of Fay and Feuer for weighted counts, which suits rare classes:
        the mean is `unit` times a count, whose interval is the exact one of a Poisson count. The
        unit is variance over mean, of the labels around predictions that were scaled to their
        frequency; or, if that is larger, of labels drawn from the predictions. A mean of labels is
        at most 1, which a count does not know.
        """
        unit, frequency = self.unit, self.frequency
        count, tail = frequency / unit, (1 - confidence) / 2
        low = unit * float(gammaincinv(count, tail)) if count > 0 else 0.0
        return low, min(unit * float(gammaincinv(count + 1, 1 - tail)), 1.0)

    @property
    def unit(self) -> float:
        """What one count of the gamma interval is worth: variance over mean of the frequency."""
        w2, f, y, ff, fy = self.second
        p, frequency, n = self.mean_prediction, self.frequency, self.n_samples
        scale = frequency / p if p > 0 else 0.0
        units = [w2] if f - ff <= 0 else [(f - ff) / p]
        if frequency > 0:
            spread = y + scale * (scale * ff - 2 * fy)  # the square of a scale may overflow
            units.append(spread / frequency * n / max(n - 1, 1))
        return float(max(units))
