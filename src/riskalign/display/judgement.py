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


def unseen_gap(n: int, risk: float, confidence: float, *, whole_rows: bool = False) -> float:
    """The root mean square of R - f that rows could hide in which nothing unexpected happened.

    An event that occurs with probability q per row is missing from n rows with probability
    (1 - q)^n. This is 1 - confidence for q = 1 - (1 - confidence)^(1/n), about 3/n for 95%: the
    rule of three. So labels that came true could have had the probability 1 - q each. Such an R is
    sqrt(m) q away from the labels, where m = 1, or m = 2 coordinates of a whole vector, and these
    are sqrt(risk) away from f: by the triangle inequality R - f is at least sqrt(m) q - sqrt(risk).

    This is 0 where a label came true that had a probability below 1/2 (the squared errors then add
    up to 1/4 or more): noise can be seen, and intervals allow for it. Otherwise, and if the result
    is above 0, the labels are no less probable under f than 1 - confidence, so that a gap of 0 is
    compatible with them, too.

    Parameters
    ----------
    n : number of rows
    risk : mean squared error of the predictions
    confidence : level at which a gap is hidden
    whole_rows : whether the risk is that of whole vectors of probabilities

    Examples
    --------
    >>> round(unseen_gap(4, 0.0, 0.95), 3), round(unseen_gap(300, 0.0, 0.95), 3)
    (0.527, 0.01)
    >>> unseen_gap(4, 0.2, 0.95)
    0.0
    """
    if n * risk >= 0.25:
        return 0.0
    q = 1 - (1 - confidence) ** (1 / n)
    return max(math.sqrt(2 if whole_rows else 1) * q - math.sqrt(risk), 0.0)


def judge(
    gap: float,
    interval: tuple[float, float] | None,
    thresholds: Thresholds = DEFAULT,
    unseen: float = 0.0,
) -> Verdict:
    """The verdict on a typical gap.

    The grade is that of the estimate. If the interval reaches from 0 to a poor gap, or there is
    none and a poor gap may be `unseen`, the data do not tell, and the grade is "unclear".

    Examples
    --------
    >>> judge(0.008, (0.0, 0.018)).grade, judge(0.0, (0.0, 0.38)).grade
    ('good', 'unclear')
    >>> judge(0.03, (0.027, 0.034)).grade, judge(0.03, None).grade
    ('poor', 'poor')
    >>> judge(0.12, (0.04, 0.2)).words, judge(0.0, None, unseen=0.5).words
    ('poor to bad', 'unclear')
    """
    grade = thresholds.grade(gap)
    if interval is None:
        hidden = thresholds.grade(unseen) in ("poor", "bad")
        return Verdict(UNCLEAR if hidden else grade, gap, None, None)
    low, high = interval
    if low <= 0 and thresholds.grade(high) in ("poor", "bad"):
        grade = UNCLEAR
    ends = thresholds.grade(low), thresholds.grade(high)
    return Verdict(grade, gap, interval, low > 0, ends)
