"""Whether a gap is small or large, and whether it is more than chance.

A typical gap |R - f| is the root mean square difference between predicted and true probabilities.
Its size is judged in percentage points, its significance by its interval; a verdict needs both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GRADES = ("good", "fair", "poor", "bad")
UNCLEAR = "unclear"

FACTOR = 1.25
"""Probabilities of one class that are too high or too low on average by more than this factor, at
the near end of its interval, are at best poor: a rare class has no large gap in points."""


@dataclass(frozen=True)
class Thresholds:
    """Sizes of a typical gap, in percentage points, below which it is good, fair and poor.

    Examples
    --------
    >>> Thresholds().grade(0.008), Thresholds(0.5, 2, 5).grade(0.06)
    ('good', 'bad')
    >>> str(Thresholds())
    'good < 1, fair < 3, poor < 10 points, else bad'
    """

    good: float = 1.0
    fair: float = 3.0
    poor: float = 10.0

    def __post_init__(self) -> None:
        values = (self.good, self.fair, self.poor)
        if not 0 < self.good < self.fair < self.poor < math.inf:
            found = ",".join(f"{x:g}" for x in values)
            raise ValueError(
                "Thresholds must be three percentage points in rising order, such as 1,3,10; "
                f"found {found}."
            )

    def grade(self, gap: float) -> str:
        """The grade of a gap, which is a difference of probabilities."""
        limits = (self.good, self.fair, self.poor)
        return GRADES[sum(100 * gap >= limit for limit in limits)]

    def __str__(self) -> str:
        return f"good < {self.good:g}, fair < {self.fair:g}, poor < {self.poor:g} points, else bad"


DEFAULT = Thresholds()


@dataclass(frozen=True)
class Verdict:
    """A typical gap with its grade.

    Attributes
    ----------
    grade : "good", "fair", "poor", "bad"; "unclear" where a gap of 0 and a poor one are both
        compatible with the data
    gap : the typical gap as a difference of probabilities, at least 0
    interval : of the gap, None where there is none
    significant : whether the interval excludes 0, None where there is none
    ends : the grades of the interval's ends, None where there is none
    """

    grade: str
    gap: float
    interval: tuple[float, float] | None
    significant: bool | None
    ends: tuple[str, str] | None = None

    @property
    def rank(self) -> int:
        """How serious the grade is, from 0; unclear counts as fair."""
        return 1 if self.grade == UNCLEAR else GRADES.index(self.grade)

    @property
    def words(self) -> str:
        """The grade; where the interval has several, the range of them, such as "poor to bad"."""
        if self.ends is None or self.grade == UNCLEAR or self.ends[0] == self.ends[1]:
            return self.grade
        return " to ".join(self.ends)

    def at_least(self, grade: str) -> Verdict:
        """The same verdict, with grades that are at best another one."""
        if self.rank >= GRADES.index(grade):
            return self
        ends = None
        if self.ends is not None:
            low, high = (max(end, grade, key=GRADES.index) for end in self.ends)
            ends = low, high
        return Verdict(grade, self.gap, self.interval, self.significant, ends)


def judge(
    gap: float, interval: tuple[float, float] | None, thresholds: Thresholds = DEFAULT
) -> Verdict:
    """The verdict on a typical gap.

    The grade is that of the estimate. If the interval reaches from 0 to a poor gap, the data do not
    tell, and the grade is "unclear".

    Examples
    --------
    >>> judge(0.008, (0.0, 0.018)).grade, judge(0.0, (0.0, 0.38)).grade
    ('good', 'unclear')
    >>> judge(0.03, (0.027, 0.034)).grade, judge(0.03, None).grade
    ('poor', 'poor')
    >>> judge(0.12, (0.04, 0.2)).words
    'poor to bad'
    """
    if interval is None:
        return Verdict(thresholds.grade(gap), gap, None, None)
    low, high = interval
    grade = thresholds.grade(gap)
    if low <= 0 and thresholds.grade(high) in ("poor", "bad"):
        grade = UNCLEAR
    ends = thresholds.grade(low), thresholds.grade(high)
    return Verdict(grade, gap, interval, low > 0, ends)
