"""The classes of an answer by evidence: one line per class, the same in every table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from riskalign.display.numbers import percent, points, points_between, shortened
from riskalign.equations.arrays import FloatArray
from riskalign.equations.evidence import ClassEvidence


class Whole(Protocol):
    """The error of all classes, as far as their lines depend on it."""

    @property
    def value(self) -> float:
        """The error."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its interval, where there is one."""

    @property
    def per_class(self) -> FloatArray | None:
        """Its parts ``(K,)``, None where it is not about classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""

    @property
    def norm(self) -> str | None:
        """The norm that it is, None for a divergence."""

    @property
    def in_points(self) -> bool:
        """Whether the error has a typical gap in percentage points."""


@dataclass(frozen=True)
class ClassLine:
    """One class: what was predicted, what was observed, and its part of the error.

    Attributes
    ----------
    number, name, count : which class, and the samples of it
    mean_prediction, frequency : predicted and observed on average
    gap, low, high : mean_prediction less frequency, and its interval
    p_value : of "this class is calibrated", not corrected for the number of classes
    direction : how the class errs, empty unless that is more than chance
    error : its calibration error, None where it was not estimated
    share : its part of the class-wise error, from 0 on; None where the whole is not more than
        chance, because parts of next to nothing say nothing
    typical : its typical gap in points. A dash where there is none: for a loss without points, and
        where an estimate of 0 or below stands beside a class that is off by more than chance.
    """

    number: int
    name: str
    count: float
    mean_prediction: float
    frequency: float
    gap: float
    low: float
    high: float
    p_value: float
    direction: str
    error: float | None
    share: float | None
    typical: str

    def cells(self, width: int) -> tuple[str, ...]:
        """The line under the columns of `class_head`, with a name of so many letters."""
        ends = points_between(self.low, self.high, signed=True)
        return (
            shortened(self.name, width),
            percent(self.mean_prediction),
            percent(self.frequency),
            f"{points(self.gap, signed=True)} ({ends})",
            self.typical,
            "-" if self.share is None else f"{self.share:.0%}",
            self.direction,
        )


def class_head(confidence: float) -> tuple[str, ...]:
    """The columns of a table of classes."""
    gap = f"gap ({confidence:.0%} CI), points"
    return ("class", "predicted", "observed", gap, "typical", "share", "")


def class_lines(whole: Whole, found: ClassEvidence, errors: Mapping[int, float]) -> list[ClassLine]:
    """The classes by evidence: those beyond chance first.

    Parameters
    ----------
    whole : the error whose parts the classes have
    found : the evidence against each class
    errors : of classes by number; of all, or of those that were estimated
    """
    gaps, directions, in_points = found.gaps.tolist(), found.directions, whole.in_points
    least = whole.value if whole.interval is None else whole.interval[0]
    power = 0.5 if whole.norm is None else 1
    lines = []
    order = found.order(np.array([errors.get(k, -math.inf) for k in range(len(gaps))]))
    for k in order.tolist():
        error, typical, share = errors.get(k), "-", None
        if error is not None and in_points and (error > 0 or not directions[k]):
            typical = points(max(error, 0.0) ** power)
        if whole.per_class is not None and least > 0:
            share = max(float(whole.per_class[k]), 0.0) / whole.value
            share = share**2 if whole.norm == "l2" else share  # squares add up
        lines.append(
            ClassLine(
                k,
                whole.classes[k],
                float(found.counts[k]),
                float(found.mean_prediction[k]),
                float(found.frequency[k]),
                gaps[k],
                float(found.low[k]),
                float(found.high[k]),
                float(found.p_values[k]),
                directions[k],
                error,
                share,
                typical,
            )
        )
    return lines
