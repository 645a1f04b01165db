"""Gates for continuous integration, which say whether a model may pass."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from riskalign.display.numbers import number, points
from riskalign.inference.comparison import Comparison
from riskalign.report import words
from riskalign.report.screen import Screen

LIMIT = re.compile(r"([-+0-9.eE]+)\s*(pts|pt|points|%)?")


@dataclass(frozen=True)
class Limit:
    """What an error may not be above.

    Attributes
    ----------
    value : a difference of probabilities if `in_points`, otherwise in the units of the loss
    in_points : whether it was given in percentage points
    """

    value: float
    in_points: bool

    @classmethod
    def parse(cls, text: str) -> Limit:
        """A limit such as "3pts", or a number in the units of the loss.

        Examples
        --------
        >>> Limit.parse("3pts"), Limit.parse("0.01")
        (Limit(value=0.03, in_points=True), Limit(value=0.01, in_points=False))
        """
        match = LIMIT.fullmatch(text.strip())
        if match is None:
            raise ValueError
        value, in_points = float(match[1]), match[2] is not None
        if not math.isfinite(value):
            raise ValueError
        return cls(value / 100 if in_points else value, in_points)

    def __str__(self) -> str:
        return f"{100 * self.value:g}pts" if self.in_points else f"{self.value:g}"


@dataclass(frozen=True)
class Check:
    """One comparison of a gate.

    Attributes
    ----------
    name : what is compared
    failed : whether the model may not pass
    message : what was found
    """

    name: str
    failed: bool
    message: str


def check_limit(screen: Screen, limit: Limit, metric: str, upper: bool) -> list[Check]:
    """Whether errors are above a limit: every answer's, or the ECE.

    By default the lower end of the interval is compared, so that a model fails if it is above the
    limit beyond doubt. With `upper` it is the upper end: a model passes only if it is shown to be
    below.
    """
    option = f"--fail-above {limit}{' --upper' if upper else ''}"
    if metric == "ece":
        assert screen.scores is not None
        ece = screen.scores.ece
        return [_checked("ECE", option, ece > limit.value, f"ECE {points(ece)} points")]
    checks = []
    answers = screen.answers if limit.in_points else screen.answers[-1:]
    for answer in answers:
        if limit.in_points and not answer.in_points:
            raise ValueError(
                f"--fail-above {limit} is in percentage points, which --loss {answer.loss} does "
                "not have. Give the limit as a number in the units of the loss."
            )
        interval = answer.gap_interval if limit.in_points else answer.interval
        value = answer.gap if limit.in_points else answer.value
        what = "typical gap" if limit.in_points else "calibration error"
        if interval is not None:
            value = interval[1] if upper else interval[0]
            end = "upper" if upper else "lower"
            what = f"{end} {answer.confidence:.0%} limit of the {what}"
        shown = f"{points(value)} points" if limit.in_points else number(value)
        found = f"{words.about(screen, answer)}: {what} {shown}"
        checks.append(_checked(words.question(screen, answer), option, value > limit.value, found))
    return checks


def _checked(name: str, option: str, failed: bool, found: str) -> Check:
    return Check(name, failed, f"{option} {'failed' if failed else 'passed'}, {found}")


def check_baseline(comparison: Comparison) -> Check:
    """Whether a model is calibrated worse than a baseline beyond doubt."""
    low, high = comparison.interval
    failed, name = low > 0, comparison.names[1]
    told = "the calibration error is larger" if failed else "not shown to be worse"
    ends = f"{comparison.confidence:.0%} CI {number(low)} to {number(high)}"
    found = f"{told} (difference {number(comparison.difference)}, {ends})"
    return _checked(f"not worse than {name}", f"--worse-than {name}", failed, found)
