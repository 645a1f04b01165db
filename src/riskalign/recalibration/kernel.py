"""Recalibration: a structured scaling, then its smoothed residuals, each as far as it pays.

With g a scaling of the predictions (`riskalign.recalibration.scaling`) and q its smoothed residuals
(`riskalign.recalibration.smoothed`),

    R(f) = g(f) + s q(f),    kept on the simplex.

The logits of g are (1 - w) times those of temperature scaling plus w times those of matrix scaling;
w in [0, 1] minimises the log loss of rows left out of both fits. q is the best of several
bandwidths by the log loss of rows left out. Its share s is 0 unless it lowers that loss by two
standard errors, and 1 from three standard errors on: the best of many candidates lowers it by one
or two by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from riskalign.data.hashing import hash_rows
from riskalign.data.notions import CANONICAL, CLASSWISE
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray, floored_log
from riskalign.equations.simplex import onto_simplex
from riskalign.recalibration.forms import MATRIX, TEMPERATURE, VECTOR, Form, blocks_of
from riskalign.recalibration.scaling import MOST_LEFT_OUT, Fit, Scaling, by_softmax
from riskalign.recalibration.smoothed import (
    ClasswiseSmoothing,
    JointSmoothing,
    Residuals,
    Smoothing,
)
from riskalign.smoothing import Tuning

FORMS: dict[str, Form] = {form.name: form for form in (MATRIX, VECTOR, TEMPERATURE)}
"""The starts that are fitted; "identity" is f itself."""

FEWEST_ERRORS, ENOUGH_ERRORS = 2.0, 3.0
"""Standard errors by which smoothing must lower the loss to be used at all, and in full."""

CLOSE = 1e-4
"""How near the weight of a scaling's logits is to the best one."""

MOST_NUMBERS = 30_000_000
"""Rows times parameters that are fitted to; of larger samples, the rows with the smallest hash."""

SMOOTHINGS: dict[str, Callable[[Sample, FloatArray], Smoothing]] = {
    CLASSWISE.name: ClasswiseSmoothing,
    CANONICAL.name: JointSmoothing,
}
"""What residuals are smoothed over, by name."""


@dataclass(frozen=True)
class Start:
    """A scaling g of the predictions, and its logits when each row is left out.

    Attributes
    ----------
    scaling : g
    share : w, the weight of the form's logits against those of temperature scaling
    left_out : (n, K), logits of the sample's rows
    """

    scaling: Scaling
    share: float
    left_out: FloatArray

    @classmethod
    def of(cls, sample: Sample, start: str) -> Start:
        """Fit a start by its name."""
        f = sample.probabilities
        if start == "identity":
            none = np.zeros(f.shape[1])
            scaling = Scaling(TEMPERATURE, np.ones(1), none, np.empty(0))
            return cls(scaling, 1.0, floored_log(f))
        if f.shape[1] > MOST_LEFT_OUT:
            fit = Fit.of(sample, FORMS[start])
            return cls(fit.scaling, 1.0, fit.logits())
        simple = Fit.of(sample, TEMPERATURE)
        other = simple.left_out_logits()
        if start == "temperature":
            return cls(simple.scaling, 1.0, other)
        fit = Fit.of(sample, FORMS[start])
        own = fit.left_out_logits()
        share = _best_share(sample, other, own)
        theta = share * fit.scaling.theta
        theta[0] += (1 - share) * simple.scaling.slope
        return cls(replace(fit.scaling, theta=theta), share, (1 - share) * other + share * own)


def _best_share(sample: Sample, simple: FloatArray, rich: FloatArray) -> float:
    """W in [0, 1] that minimises the log loss of the logits (1 - w) simple + w rich.

    The loss is convex in w. Newton steps that leave the bracket of the minimum halve it instead.
    """
    base, change = np.ascontiguousarray(simple.T), np.ascontiguousarray((rich - simple).T)
    own = change[sample.labels, np.arange(len(simple))]

    def slopes(w: float) -> tuple[float, float]:
        """The first and the second derivative of the loss."""
        g = by_softmax(base + w * change)
        mean = np.einsum("kn,kn->n", g, change)
        square = np.einsum("kn,kn->n", g, change**2)
        return float(sample.weights @ (mean - own)), float(sample.weights @ (square - mean**2))

    low, high = 0.0, 1.0
    if slopes(high)[0] <= 0:
        return high
    slope, curvature = slopes(low)
    if slope >= 0:
        return low
    w = low
    while high - low > CLOSE:
        step = -slope / max(curvature, 1e-300)
        w = w + step if low < w + step < high else (low + high) / 2
        if abs(step) < CLOSE:
            break
        slope, curvature = slopes(w)
        low, high = (w, high) if slope < 0 else (low, w)
    return w


@dataclass(frozen=True)
class Recalibration:
    """A map from predictions to R, learnt from a sample.

    Attributes
    ----------
    scaling : g
    share : w, the weight of the form's logits against those of temperature scaling
    residuals : q; None where nothing is smoothed
    tuning : how residuals are smoothed, None where they are not
    shrinkage : s
    """

    scaling: Scaling
    share: float = 1.0
    residuals: Residuals | None = None
    tuning: Tuning | None = None
    shrinkage: float = 0.0

    @classmethod
    def fit(
        cls,
        sample: Sample,
        notion: str = "classwise",
        start: str = "matrix",
        bandwidth: float | None = None,
    ) -> Recalibration:
        """Learn the map; several bandwidths are tried unless one is given."""
        sample = _enough(sample, start)
        begin = Start.of(sample, start)
        plain = cls(begin.scaling, begin.share)
        g: FloatArray = softmax(begin.left_out, axis=1)
        residuals = -g
        residuals[np.arange(len(g)), sample.labels] += 1.0
        two = g.shape[1] == 2
        smoothing = SMOOTHINGS[CLASSWISE.name if two else notion](sample, residuals)
        tunings = smoothing.tunings if bandwidth is None else [Tuning(bandwidth)]
        found = _best_tuning(sample, g, smoothing, tunings)
        if found is None:
            return plain
        tuning, z = found
        s = float(np.clip((z - FEWEST_ERRORS) / (ENOUGH_ERRORS - FEWEST_ERRORS), 0.0, 1.0))
        if s == 0.0:
            return replace(plain, tuning=tuning)
        return replace(plain, residuals=smoothing.fixed(tuning), tuning=tuning, shrinkage=s)

    def __call__(self, f: FloatArray) -> FloatArray:
        """R at predictions ``(m, K)``."""
        g = self.scaling(f)
        if self.residuals is None:
            return g
        return onto_simplex(g, self.shrinkage * self.residuals(f))


def _best_tuning(
    sample: Sample, g: FloatArray, smoothing: Smoothing, tunings: Sequence[Tuning]
) -> tuple[Tuning, float] | None:
    """The tuning of the lowest log loss of rows left out, and its gain in standard errors."""
    rows = np.arange(len(g))
    before = floored_log(g[rows, sample.labels])
    weights, best = sample.weights / sample.weights.sum(), None
    for tuning, q in zip(tunings, smoothing.left_out(tunings), strict=False):
        gains = floored_log(onto_simplex(g, q)[rows, sample.labels]) - before
        mean = float(weights @ gains)
        error = float(np.sqrt(weights**2 @ (gains - mean) ** 2))
        if best is None or mean > best[0]:
            best = (mean, tuning, mean / error if error > 0 else 0.0)
    return None if best is None else (best[1], best[2])


def _enough(sample: Sample, start: str) -> Sample:
    """The sample, or as many rows of it as are worth fitting to."""
    n, n_classes = sample.probabilities.shape
    form = FORMS.get(start, TEMPERATURE).for_sample(n, n_classes)
    most = MOST_NUMBERS // (len(blocks_of(form, n_classes)) + n_classes * len(form.shared))
    if n <= most:
        return sample
    return sample.take(np.sort(order_of_content(sample)[:most]))


def order_of_content(sample: Sample) -> IntArray:
    """The rows in an order that does not depend on how they came: equal ones by their weight."""
    return np.lexsort((sample.weights, hash_rows(sample.probabilities, sample.labels)))
