"""Means: what was predicted on average against what came true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtri

from riskalign.display import help, numbers
from riskalign.display.table import Row
from riskalign.equations.arrays import FloatArray

CONFIDENCE = 0.95
"""The confidence of intervals that are printed where none was asked for."""

DIRECTIONS = {0: "no clear direction", 1: "over-confident", -1: "under-confident"}
"""Words for the sign of a gap, where its interval excludes 0."""

SIDES = {0: "no clear direction", 1: "too high", -1: "too low"}
"""The same for the probability of one class."""


@dataclass(frozen=True)
class Overconfidence:
    """Signed differences, positive where the model is over-confident.

    Attributes
    ----------
    per_class : (K,), mean of f - R; for binary and top-label errors the one probability's
    top_label : the same for the class each row ranks first; mean of f - y where a sketch holds a
        part of the rows
    gap : mean of f - y as observed, for binary errors of the one probability, for others of the
        class each row ranks first: mean confidence less accuracy
    gap_error : the standard error of `gap`
    confidence : level of `gap_interval`
    """

    per_class: FloatArray
    top_label: float
    gap: float
    gap_error: float
    confidence: float = CONFIDENCE

    @property
    def gap_interval(self) -> tuple[float, float]:
        """The interval of the gap, by the normal approximation, between -1 and 1."""
        reach = float(ndtri((1 + self.confidence) / 2)) * self.gap_error
        return max(self.gap - reach, -1.0), min(self.gap + reach, 1.0)

    @property
    def sign(self) -> int:
        """The sign of the gap where its interval excludes 0, else 0."""
        low, high = self.gap_interval
        return int(low > 0) - int(high < 0)

    def row(self, *, one_class: bool) -> Row:
        """The gap with its interval and direction; `one_class` says whose probability it is."""
        name = "predicted - observed" if one_class else "confidence - accuracy"
        value = f"{numbers.points(self.gap, signed=True)} pts"
        ends = f"{numbers.points_between(*self.gap_interval, signed=True)} pts"
        words = SIDES if one_class else DIRECTIONS
        return Row(name, value, ends, words[self.sign], help.DIRECTION)


@dataclass(frozen=True)
class BinarySummary:
    """One probability on average, and its logistic recalibration.

    The recalibration is log-odds(R) = intercept + slope log-odds(f): a calibrated model has slope
    1 and intercept 0, and a slope below 1 says that predictions are too extreme.

    Attributes
    ----------
    mean_prediction, frequency : the means of f and of y
    ratio, ratio_interval : mean_prediction / frequency; infinite where the class never occurs,
        NaN where it is never predicted either
    slope, slope_interval, intercept, intercept_interval : of the logistic recalibration
    confidence : level of the intervals
    """

    mean_prediction: float
    frequency: float
    ratio: float
    ratio_interval: tuple[float, float]
    slope: float
    slope_interval: tuple[float, float]
    intercept: float
    intercept_interval: tuple[float, float]
    confidence: float

    @property
    def sign(self) -> int:
        """1 where the probability is too high, -1 where it is too low, 0 where that is not clear.

        It is clear if the interval of the ratio excludes 1.
        """
        low, high = self.ratio_interval
        return int(low > 1) - int(high < 1)

    @property
    def direction(self) -> str:
        """The sign in words, with the factor: "1.7 times too high"."""
        value, least, _ = self.factor()
        if self.sign == 0 or least == "inf":
            return SIDES[self.sign]
        times = f"at least {least}" if value == "inf" else value
        return f"{times} times {SIDES[self.sign]}"

    @property
    def shape(self) -> str:
        """Whether predictions are too extreme or too timid; empty if the slope may be 1."""
        low, high = self.slope_interval
        return "too extreme" if high < 1 else "too timid" if low > 1 else ""

    def main_fault(self, error: float, factor: float) -> str:
        """What is wrong: the mean prediction, or the slope.

        It is the slope if it is off, the mean is wrong by less than a factor, and this makes up
        less than half of a squared error.
        """
        near = 1 / factor < self.ratio < factor
        if self.shape and near and 2 * (self.mean_prediction - self.frequency) ** 2 < error:
            return self.shape
        return self.direction if self.sign and "times" in self.direction else ""

    @property
    def factor_interval(self) -> tuple[float, float]:
        """By which factor the mean is wrong, too high or too low; its lower end is 1 or more."""
        low, high = self.ratio_interval
        inverse = 1 / high if high > 0 else math.inf, 1 / low if low > 0 else math.inf
        return max(low, inverse[0], 1.0), max(high, inverse[1])

    def factor(self) -> tuple[str, str, str]:
        """The ratio and the ends of its interval, inverted where the probability is too low.

        They have as many decimals as tell the near end from 1, and the ratio and the ends from
        each other, and none where they are large.
        """
        value, (low, high) = self.ratio, self.ratio_interval
        if self.sign < 0:
            value, low, high = (1 / x if x > 0 else math.inf for x in (value, high, low))
        if self.sign and low >= 100:
            return f"{value:,.0f}", f"{low:,.0f}", f"{high:,.0f}"
        ends = (low - 1, high - low, value - low, high - value)
        width = min(filter(math.isfinite, ends), default=1.0)
        digits = 2 if self.sign == 0 else next((d for d in (1, 2, 3) if width >= 10**-d), 4)
        return f"{value:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"

    def rows(self, classes: Sequence[str]) -> list[Row]:
        """Predicted against observed, and the recalibration."""
        subject = f"of class {numbers.shortened(classes[-1], 30)}" if classes else ""
        digits = numbers.digits_from_one(*self.ratio_interval) if self.sign else 2
        known = not math.isnan(self.ratio)  # the class was predicted, or occurred
        return [
            Row("mean predicted", numbers.percent(self.mean_prediction), "", subject),
            Row("observed", numbers.percent(self.frequency)),
            Row(
                "predicted / observed",
                numbers.ratio(self.ratio, digits),
                numbers.ratio_between(*self.ratio_interval, digits) if known else "",
                self.direction,
                help.RATIO,
            ),
            Row(
                "calibration slope",
                numbers.ratio(self.slope),
                numbers.ratio_between(*self.slope_interval),
                "1 is ideal",
                help.SLOPE,
            ),
            Row(
                "calibration intercept",
                numbers.ratio(self.intercept),
                numbers.ratio_between(*self.intercept_interval),
                "0 is ideal",
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types, None where they are not finite."""
        return {
            name: [finite(x) for x in value] if isinstance(value, tuple) else finite(value)
            for name, value in vars(self).items()
        }


def finite(x: float) -> float | None:
    """A number for JSON: None where it is not finite."""
    return x if math.isfinite(x) else None
