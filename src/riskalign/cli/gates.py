"""Gates for continuous integration, which say whether a model may pass."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass

from riskalign.data.notions import NOTIONS
from riskalign.display.numbers import number, points
from riskalign.inference.comparison import Comparison
from riskalign.report.exchange import Check
from riskalign.report.screen import Screen
from riskalign.report.words import Answer, tell

LIMIT = re.compile(r"([-+0-9.eE]+)\s*(pts|pt|points|%|raw|x)?")
RAW, TIMES = "raw", "x"
"""The units of limits in the units of the loss, such as squared differences, and of factors."""


@dataclass(frozen=True)
class Limit:
    """What an error may not be above.

    Attributes
    ----------
    value : a difference of probabilities if `in_points`, a factor if `is_factor`, otherwise in
        the units of the loss
    in_points : whether it was given in percentage points
    is_factor : whether it is one by which a mean probability may be wrong
    """

    value: float
    in_points: bool
    is_factor: bool = False

    @classmethod
    def parse(cls, text: str) -> Limit:
        """A limit such as "3pts", "1.25x", or "0.01raw" in the units of the loss.

        Examples
        --------
        >>> for text in ("3pts", "1.25x", "0.01raw"):
        ...     print(Limit.parse(text).value, Limit.parse(text))
        0.03 3pts
        1.25 1.25x
        0.01 0.01raw
        """
        match = LIMIT.fullmatch(text.strip())
        try:
            value = float(match[1]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or not math.isfinite(value):
            raise ValueError(f"{text!r} is no limit. Write 3pts for percentage points")
        if match[2] is None:
            raise ValueError(
                f"{text!r} has no unit. Write {value:g}pts for percentage points, or "
                f"{value:g}{RAW} for the units of the loss"
            )
        in_points, is_factor = match[2] not in (RAW, TIMES), match[2] == TIMES
        return cls(value / 100 if in_points else value, in_points, is_factor)

    def added(self, error: float, n_classes: int) -> float:
        """By how much a squared error of so many classes grows if typical gaps do by the limit."""
        gap = (error / n_classes) ** 0.5
        return n_classes * (gap + self.value) ** 2 - error

    def __str__(self) -> str:
        if self.in_points:
            return f"{100 * self.value:g}pts"
        return f"{self.value:g}{TIMES if self.is_factor else RAW}"


def limit_of(text: str) -> Limit:
    """The limit of an option."""
    try:
        return Limit.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_gates(limit: Limit | None, metric: str, upper: bool) -> None:
    """Refuse options that do not go together, before anything is computed."""
    if limit is None:
        for option, given in (("--upper", upper), ("--metric ece", metric == "ece")):
            if given:
                raise ValueError(f"{option} needs --fail-above, such as --fail-above 3pts.")
    elif limit.in_points and not 0 <= limit.value <= 1:
        raise ValueError(
            f"--fail-above {limit}: a gap between probabilities has 0 to 100 points, so that a "
            "limit is not negative and at most 100pts."
        )
    elif limit.is_factor and (limit.value < 1 or metric == "ece"):
        raise ValueError(
            f"--fail-above {limit}: a factor is at least 1, because it counts too high and too low "
            "alike, and it is about the mean probability, not about the ECE."
        )
    if metric == "ece" and upper:
        raise ValueError(
            "--upper compares the end of an interval, and the ECE has none. Leave out --upper, or "
            "--metric ece to compare typical gaps."
        )


def check_limit(screen: Screen, limit: Limit, metric: str, upper: bool) -> list[Check]:
    """Whether errors are above a limit: every answer's, or the ECE.

    By default the lower end of the interval is compared, so that a model fails if it is above the
    limit by more than chance. With `upper` it is the upper end: a model passes only if it is shown
    to be below.
    """
    option = f"--fail-above {limit}{' --upper' if upper else ''}"
    if metric == "ece":
        assert screen.scores is not None
        ece = screen.scores.ece
        return [_checked("ECE", option, ece > limit.value, f"ECE {points(ece)} points")]
    if limit.is_factor:
        return [_check_factor(tell(screen).answers[-1], limit, option, upper)]
    checks = []
    answers = tell(screen).answers
    for said in answers if limit.in_points else answers[-1:]:
        answer = said.result
        if limit.in_points and not said.told.in_points:
            raise ValueError(
                f"--fail-above {limit} is in percentage points, which --loss {answer.loss} does "
                f"not have. Give the limit in the units of the loss, such as 0.01{RAW}."
            )
        interval = answer.gap_interval if limit.in_points else answer.interval
        value = answer.gap if limit.in_points else answer.value
        what = "typical gap" if limit.in_points else "calibration error"
        if interval is None and upper:
            raise ValueError(
                "--upper compares the end of an interval, and there is none here: bins, estimators "
                "other than the debiased one and sketches without rows give an error alone. Leave "
                "out --upper, or what takes the interval away."
            )
        if interval is not None:
            value = interval[1] if upper else interval[0]
            end = "upper" if upper else "lower"
            what = f"{end} {answer.confidence:.0%} limit of the {what}"
        shown = f"{points(value)} points" if limit.in_points else number(value)
        found = f"{said.about}: {what} {shown}"
        checks.append(_checked(said.question, option, value > limit.value, found))
    return checks


def _check_factor(answer: Answer, limit: Limit, option: str, upper: bool) -> Check:
    """Whether the mean probability of one class is wrong by more than a factor."""
    binary = answer.result.binary
    if binary is None:
        raise ValueError(
            f"--fail-above {limit} is about the mean probability of one class, and there are "
            "several here. Give the limit in percentage points, such as 3pts."
        )
    low, high = binary.factor_interval
    value, end = (high, "upper") if upper else (low, "lower")
    found = f"{answer.about}: {end} {binary.confidence:.0%} limit of the factor {value:.3g}"
    return _checked("Is the mean probability right?", option, value > limit.value, found)


def _checked(name: str, option: str, failed: bool, found: str) -> Check:
    return Check(name, failed, f"{option} {'failed' if failed else 'passed'}, {found}")


def check_baseline(comparison: Comparison, n_classes: int) -> Check:
    """Whether a model is calibrated worse than a baseline by more than chance."""
    low, high = comparison.interval
    failed, name = low > 0, comparison.names[1]
    told = "the calibration error is larger" if failed else "not shown to be worse"
    ends = f"{comparison.confidence:.0%} CI {number(low)} to {number(high)}"
    difference = f"difference {number(comparison.difference)}, {ends}"
    if comparison.loss == "l2":
        K = n_classes if NOTIONS[comparison.notion].per_class else 1
        own, other = (points((max(value, 0.0) / K) ** 0.5) for value in comparison.values)
        per = " per class" if K > 1 else ""
        difference = (
            f"typical gap {own} points{per}, that of the other {other}; squared errors: "
            f"{difference}"
        )
    found = f"{told} ({difference})"
    return _checked(f"not worse than {name}", f"--worse-than {name}", failed, found)
