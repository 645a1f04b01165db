"""A calibration error in words: its verdict, its sentence, its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from riskalign.data.notions import NOTIONS
from riskalign.display import help, numbers
from riskalign.display.averages import CONFIDENCE, BinarySummary, Overconfidence
from riskalign.display.judgement import DEFAULT, FACTOR, Thresholds, Verdict, judge, unseen_gap
from riskalign.display.table import Row
from riskalign.equations.arrays import BoolArray, FloatArray
from riskalign.equations.evidence import ClassEvidence

LOSSES = {"l2": "squared error", "kl": "log loss", "ranked": "ranked probability score"}
"""Losses in a sentence."""

GAP = "typical gap"
"""What the root of a squared error is called; norms of the difference are errors themselves."""

GAPS = {"l1": "mean gap", "max": "largest gap", "euclidean": "mean distance"}
"""What the norms of a difference are called in a sentence, where not by that name."""

STATISTIC = "spiegelhalter"
"""The one value that is not the size of an error."""


class Searched(Protocol):
    """How a bandwidth was found, as far as it is described here."""

    @property
    def criterion(self) -> str:
        """The criterion's name."""

    @property
    def at_edge(self) -> Any:
        """Whether the choice is at the edge of the candidates, one per class."""


class Sided(Protocol):
    """A part of an error, as far as it is described here."""

    @property
    def value(self) -> float:
        """The part."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its interval, where there is one."""


@dataclass(frozen=True)
class Told:
    """What is said of one error, whatever draws it.

    Attributes
    ----------
    verdict : how large the typical gap is, and whether it is more than chance
    in_points : whether there is a typical gap in percentage points
    gap : the typical gap; for losses without points, the error
    sides : its parts by probabilities that are too high and too low
    averages : predicted against observed on average
    details : what the error was computed from
    shown_off : whether averages, the slope or single classes are off by more than chance, which
        may be known where the interval of the error reaches 0
    """

    verdict: Verdict
    in_points: bool
    gap: Row
    sides: list[Row]
    averages: list[Row]
    details: list[Row]
    shown_off: bool


class Described:
    """What a result says to people, whatever draws it."""

    if TYPE_CHECKING:
        value: float
        risk: float
        refinement: float | None
        reconstructed_risk: float | None
        bandwidth: float | FloatArray | None
        per_class: FloatArray | None
        overconfidence: Overconfidence | None
        notion: str
        loss: str
        estimator: str | None
        kernel: str | None
        definition: str
        classes: tuple[str, ...]
        n_samples: int
        method: str
        norm: str | None
        note: str
        interval: tuple[float, float] | None
        confidence: float | None
        too_high: Sided | None
        too_low: Sided | None
        binary: BinarySummary | None
        evidence: ClassEvidence | None

    @property
    def _one_class(self) -> bool:
        """Whether the probability is that of one and the same class."""
        return NOTIONS[self.notion].is_one_class

    @property
    def in_points(self) -> bool:
        """Whether the error has a typical gap in percentage points."""
        return (self.loss == "l2" or self.norm is not None) and self.norm != STATISTIC

    @property
    def gap(self) -> float:
        """The typical gap as a difference of probabilities, at least 0."""
        return self._typical(self.value)

    @property
    def gap_interval(self) -> tuple[float, float] | None:
        """The interval of the typical gap, None where there is none.

        Its ends are those of `interval`. Rows in which nothing unexpected happened have no noise
        that an interval could show: there it reaches from 0 to the gap that they could hide.
        """
        if self.interval is None or not self.in_points:
            return None
        low, high = (self._typical(end) for end in self.interval)
        return (low, high) if self._unseen <= high else (0.0, self._unseen)

    @property
    def _unseen(self) -> float:
        """The typical gap that the rows could hide because nothing unexpected happened in them."""
        if self.loss != "l2":
            return 0.0
        whole = NOTIONS[self.notion].whole_rows
        level = self.confidence or CONFIDENCE
        hidden = unseen_gap(self.n_samples, self.risk, level, whole_rows=whole)
        return hidden if self.per_class is None else hidden / len(self.per_class) ** 0.5

    @property
    def _shown(self) -> float:
        """The error as people see it: an estimate below 0 is shown as 0, as its interval is."""
        return self.value if self.norm == STATISTIC else max(self.value, 0.0)

    def _typical(self, error: float) -> float:
        """The typical gap of one probability, from an error in the units of `value`."""
        n = 1 if self.per_class is None else len(self.per_class)
        if self.norm is None:
            return float(np.sqrt(max(error, 0.0) / n))
        return max(error, 0.0) / (n**0.5 if self.norm == "l2" else n)

    def verdict(self, thresholds: Thresholds = DEFAULT) -> Verdict:
        """How large the typical gap is, and whether it is more than chance.

        For losses without a typical gap in points, only whether the error is more than chance:
        "good" or "unclear" if not, "poor" if so.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(2000, 3, t2=0.4, seed=0)
        >>> result = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95)
        >>> result.verdict().grade, result.verdict().significant
        ('bad', True)
        """
        return self._judged(thresholds)[0]

    def _judged(self, thresholds: Thresholds) -> tuple[Verdict, Verdict]:
        """The verdict, and the same by the size of the gap alone, without the ratio of means."""
        if not self.in_points:
            significant = None if self.interval is None else self.interval[0] > 0
            grade = {None: "unclear", False: "good", True: "poor"}[significant]
            found = Verdict(grade, max(self.value, 0.0), self.interval, significant)
            return found, found
        by_size = judge(self.gap, self.gap_interval, thresholds, self._unseen)
        if self.binary is not None and self.binary.sign:
            low, high = self.binary.ratio_interval
            if low > FACTOR or high < 1 / FACTOR:
                return by_size.at_least("poor"), by_size
        return by_size, by_size

    def told(self, thresholds: Thresholds = DEFAULT) -> Told:
        """Everything that is said of the error but its sentence, which depends on the subject."""
        return Told(
            self.verdict(thresholds),
            self.in_points,
            self.gap_row(thresholds),
            self.side_rows(),
            self.average_rows(),
            self.detail_rows(),
            self._is_shown_off,
        )

    def sentence(
        self,
        thresholds: Thresholds = DEFAULT,
        subject: str = "the model",
        *,
        many: bool = False,
        tested: bool = False,
    ) -> str:
        """The verdict as a sentence about a subject, which may be a plural.

        `tested`: a test finds miscalibration, which is not denied where the interval reaches 0.
        """
        found, by_size = self._judged(thresholds)
        size, ends = self._size(found)
        if self.norm == STATISTIC:
            size = f"statistic is {size} ({self.note})"
        elif self.in_points:
            between = "probabilities" if self.norm == "euclidean" else "probability"
            size = f"{self._gap} between predicted and true {between} is {size} points{self._per}"
        else:
            size = f"{NOTIONS[self.notion].title} calibration error ({self._loss}) is {size}"
        if found.interval is None:
            return f"The {size}."
        ends = f" ({self.confidence:.0%} CI {ends})"
        verb = "are" if many else "is"
        if found.significant:
            off = "miscalibrated"
            if self.in_points and by_size.grade == "good":
                off = "off by little, though by more than chance"
                if found.grade != "good":  # a small difference, but a large factor
                    off = "miscalibrated, although by little in percentage points"
            return f"{subject[0].upper()}{subject[1:]} {verb} {off}: the {size}{ends}."
        if self.per_class is not None and self._findings.any():
            return f"How far off {subject} {verb} as a whole is uncertain: the {size}{ends}."
        if self.binary is not None and self.binary.shape:
            between = numbers.ratio_between(*self.binary.slope_interval)
            slope = f"slope {self.binary.slope:.2f}, {self.binary.confidence:.0%} CI {between}"
            return (
                f"{subject[0].upper()}{subject[1:]} {verb} {self.binary.shape} ({slope}), but the "
                f"data do not tell how far off: the {size}{ends}."
            )
        if tested:
            name = self._gap if self.in_points else "calibration error"
            return f"The interval of the {name} reaches 0: the {size}{ends}."
        none = f"We found no evidence that {subject} {verb} miscalibrated"
        if self._is_shown_off:
            none = f"Beyond the averages, we found no evidence that {subject} {verb} miscalibrated"
        if found.grade == "unclear":
            high = f"{numbers.points(found.interval[1])} points{self._per}"
            return (
                f"{none}; with {self.n_samples:,} rows, {self._gap}s below {high} cannot be ruled "
                "out."
            )
        return f"{none}: the {size}{ends}."

    @property
    def _is_shown_off(self) -> bool:
        """Whether averages, the slope or single classes are off by more than chance."""
        if self.per_class is not None:
            return bool(self._findings.any())
        sloped = self.binary is not None and bool(self.binary.shape)
        averages = self.binary or self.overconfidence
        return sloped or (averages is not None and averages.sign != 0)

    @property
    def _findings(self) -> BoolArray:
        """Classes that are off by more than chance, corrected for their number."""
        if self.evidence is None:
            return np.zeros(len(self.classes), dtype=np.bool_)
        return self.evidence.findings

    @property
    def _gap(self) -> str:
        return GAP if self.norm is None else GAPS.get(self.norm, GAP)

    @property
    def _per(self) -> str:
        return " per class" if self.per_class is not None else ""

    def _size(self, found: Verdict) -> tuple[str, str]:
        """The error and its interval as people read them: in points where it has any."""
        ends = found.interval
        if self.in_points:
            return numbers.points(found.gap), "" if ends is None else numbers.points_between(*ends)
        value = self.value if self.norm == STATISTIC else found.gap
        between = "" if ends is None else " to ".join(map(numbers.number, ends))
        return numbers.number(value), between

    @property
    def _loss(self) -> str:
        return LOSSES.get(self.loss, self.loss)

    # ---- rows ------------------------------------------------------------------------

    def gap_row(self, thresholds: Thresholds = DEFAULT) -> Row:
        """The typical gap with its interval and grade; for other losses the error itself."""
        found, by_size = self._judged(thresholds)
        value, between = self._size(found)
        if self.norm == STATISTIC:
            return Row("z", value, "", self.note, self.definition)
        if not self.in_points:
            words = {None: "", False: "the interval reaches 0", True: "more than chance"}
            name = f"{NOTIONS[self.notion].title} calibration error"
            return Row(name, value, between, words[found.significant], self.definition)
        name, meaning = NOTIONS[self.notion].gap, help.TYPICAL
        if self.norm is not None:
            name, meaning = name.replace(GAP, "calibration error"), self.definition
        size = f"{found.grade} by the factor" if found is not by_size else found.words
        return Row(name, f"{value} pts", f"{between} pts" if between else "", size, meaning)

    def side_rows(self) -> list[Row]:
        """The parts of the error by probabilities that are too high and too low."""
        rows = []
        for name, side in (("too high", self.too_high), ("too low", self.too_low)):
            if side is None:
                continue
            ends, between = side.interval, ""
            if ends is not None:
                between = f"{numbers.points_between(*map(self._typical, ends))} pts"
            value = f"{numbers.points(self._typical(side.value))} pts"
            rows.append(Row(f"of which {name}", value, between, "", help.SIDE))
        return rows

    def average_rows(self) -> list[Row]:
        """Predicted against observed on average."""
        if self.binary is not None:
            return self.binary.rows(self.classes)
        if self.overconfidence is None:
            return []
        return [self.overconfidence.row(one_class=self._one_class)]

    def detail_rows(self) -> list[Row]:
        """What the error was computed from, in the units of the loss."""
        between = ""
        if self.interval is not None:
            between = "{:.6f} to {:.6f}".format(*self.interval)
        value = f"{self._shown:.6f}"
        name = "z" if self.norm == STATISTIC else "calibration error"
        rows = [Row(name, value, between, self.definition, help.INTERVAL)]
        if self.norm is None:
            if self.refinement is not None:  # the error and it add up to the risk
                left = f"{self.refinement + self.value - self._shown:.6f}"
                meaning = "remains after perfect recalibration"
                rows.append(Row("refinement", left, "", meaning, help.REFINEMENT))
            rows.append(
                Row("risk", f"{self.risk:.6f}", "", f"mean {self._loss}, observed", help.RISK)
            )
            if self.reconstructed_risk is not None and self.estimator != "debiased":
                rebuilt = f"{self.reconstructed_risk:.6f}"
                rows.append(Row("reconstructed risk", rebuilt, "", "mean <R, l(f)>"))
        if self.bandwidth is not None:
            rows.append(Row("smoothing", "", "", self.smoothing))
        else:
            note = f"; {self.note}" if self.note else ""
            rows.append(Row("method", "", "", f"{self.method}{note}"))
        return rows

    @property
    def smoothing(self) -> str:
        """The bandwidth, or the range of bandwidths, and how it was found."""
        h = np.atleast_1d(np.asarray(self.bandwidth, dtype=np.float64))
        search: Searched | None = getattr(self, "search", None)
        origin = "given" if search is None else search.criterion
        low, high = f"{h.min():.3g}", f"{h.max():.3g}"
        value = low if low == high else f"{low} to {high}"
        text = f"bandwidth {value}{' for all classes' if len(h) > 1 and low == high else ''}"
        text += f"{', one per class' if low != high else ''} ({origin})"
        edges = 0 if search is None else int(np.count_nonzero(search.at_edge))
        if not edges:
            return text
        some = f" for {edges} of {len(h)} classes" if len(h) > 1 else ""
        if self.estimator == "debiased":
            return f"{text}, as wide as allowed{some}: narrower smoothing shows no further pattern"
        return f"{text}, at the edge of the range that was searched{some}"
