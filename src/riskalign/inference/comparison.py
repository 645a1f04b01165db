"""Which of two models is calibrated better, on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from riskalign.data.notions import NOTIONS
from riskalign.display import numbers, svg
from riskalign.display.described import LOSSES
from riskalign.display.notebook import framed
from riskalign.display.numbers import shortened
from riskalign.display.table import Row, text_rows, wrapped
from riskalign.equations.arrays import FloatArray
from riskalign.inference.interval import paired_error, within_range
from riskalign.inference.null import Model
from riskalign.results import CalibrationResult

NAME = 30
"""Letters of a model's name that are shown."""

NONE = 1e-12
"""Differences below this are of rounding."""

FEWEST = 1.0001
"""Effective number of rows that can prove anything at all: of one row the p-value is 1."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """The outcome of `compare`.

    Attributes
    ----------
    difference : error of the first model less that of the second: negative where the first
        is calibrated better
    standard_error, interval, confidence : of the difference
    p_value : two-sided, of no difference
    values : the two errors
    n_samples : number of samples, of each model where they are not the same
    paired : whether both models predicted the same samples; of two sketches it is not known, and
        what moves both estimates alike widens the interval
    n_classes : number of classes, None where it is not known

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
    n_samples: int | tuple[int, int]
    paired: bool = True
    n_classes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        lists = {name: list(getattr(self, name)) for name in ("interval", "values", "names")}
        n = self.n_samples
        return asdict(self) | lists | {"n_samples": list(n) if isinstance(n, tuple) else n}

    def __repr__(self) -> str:
        """One line."""
        low, high = self.interval
        return (
            f"<Comparison: {self.names[0]} - {self.names[1]}, {self.notion}, {self.loss}, "
            f"difference={self.difference:.4g}, interval=({low:.4g}, {high:.4g}), "
            f"p_value={self.p_value:.3g}>"
        )

    def __str__(self) -> str:
        """A short table."""
        lines = [self.title, "", *wrapped(self.sentence, "  "), "", *text_rows(self._table)]
        note = wrapped(self.note, "  ")
        return "\n".join([*lines, "", *note] if note else lines)

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks: the difference with its interval."""
        low, high = self.interval
        picture = svg.interval_bars([self.difference], [low], [high])
        return framed(self.title, f"{self.sentence} {self.note}".rstrip(), self._table, picture)

    @property
    def title(self) -> str:
        """What was compared, on how many rows."""
        title, loss = NOTIONS[self.notion].title, LOSSES.get(self.loss, self.loss)
        n = self.n_samples
        rows = f"{n:,} rows" if isinstance(n, int) else f"{n[0]:,} and {n[1]:,} rows, unpaired"
        return f"{title[0].upper()}{title[1:]} calibration ({loss}): {rows}"

    @property
    def sentence(self) -> str:
        """Which model is calibrated better, if the data tell."""
        first, second = (shortened(name, NAME) for name in self.names)
        low, high = self.interval
        if low > 0 or high < 0:
            return f"{second if low > 0 else first} is calibrated better."
        return "The data do not tell which is calibrated better."

    @property
    def rows(self) -> list[Row]:
        """The two models and their difference.

        For the squared error the typical gaps are shown beside it, in percentage points.
        """
        shown = [
            Row(shortened(name, NAME), numbers.number(max(value, 0.0)), "", self._gap(value))
            for name, value in zip(self.names, self.values, strict=True)
        ]
        low, high = (numbers.number(end) for end in self.interval)
        difference = numbers.number(self.difference)
        sign = "" if difference.startswith("-") else "+"
        p = f"p-value {numbers.p_value(self.p_value)}"
        return [*shown, Row("difference", f"{sign}{difference}", f"{low} to {high}", p)]

    @property
    def _table(self) -> list[Row]:
        """The rows below a head."""
        return [Row("", "error", f"{self.confidence:.0%} CI"), *self.rows]

    @property
    def note(self) -> str:
        """Why the errors shown do not subtract to the difference; empty where they do."""
        below = [
            f"that of {shortened(name, NAME)} is {numbers.number(value)}"
            for name, value in zip(self.names, self.values, strict=True)
            if value < 0
        ]
        if not below:
            return ""
        return (
            "An estimate below 0 is shown as 0, but counts in the difference: "
            f"{' and '.join(below)}."
        )

    def _gap(self, value: float) -> str:
        """The typical gap of an error in words, that of one class for class-wise errors."""
        per_class = NOTIONS[self.notion].per_class
        n = self.n_classes if per_class else 1
        if self.loss != "l2" or not n:
            return ""
        root = (max(value, 0.0) / n) ** 0.5
        return f"typical gap {numbers.points(root)} pts{' per class' if per_class else ''}"


def compared(
    models: Sequence[Model],
    terms: Sequence[FloatArray],
    doubts: Sequence[tuple[float, float]],
    names: tuple[str, str],
    confidence: float,
    seed: int,
) -> Comparison:
    """The difference of two models' errors, from the terms ``(n,)`` of each at the same rows.

    `doubts` says by how much each error may be smaller and larger (`doubts_of`).
    """
    sample = models[0].sample
    weights = sample.weights / sample.weights.sum()
    first, second = (float(weights @ own) for own in terms)
    difference = first - second
    noise = paired_error(models, [1.0, -1.0], terms[0] - terms[1], seed)
    error = float(np.hypot(noise, _error_of_doubts(doubts)))
    error = max(error, _least_error(difference, 1 / float(weights @ weights)))
    reach = float(ndtri((1 + confidence) / 2)) * error
    _, above = within_range((0.0, reach + difference), models[0].problems, sample.weights)
    _, below = within_range((0.0, reach - difference), models[1].problems, sample.weights)
    return Comparison(
        difference=float(np.clip(difference, -below, above)),
        standard_error=error,
        interval=(-below, above),
        confidence=confidence,
        p_value=_p_value(difference, error),
        values=(first, second),
        names=(str(names[0]), str(names[1])),
        notion=models[0].notion.name,
        loss=models[0].loss.name,
        n_samples=len(weights),
        n_classes=len(sample.classes),
    )


def compared_apart(
    results: tuple[CalibrationResult, CalibrationResult], names: tuple[str, str]
) -> Comparison:
    """The difference of two errors of independent samples, by their intervals.

    The ends of the interval lie as far from the difference as the ends of the two intervals from
    their values, combined as standard errors are (Zou, Donner: Construction of confidence limits
    about effect measures, Statistics in Medicine 27, 2008). So they allow for all that the two
    allow for, and stay within what two errors can differ by.
    """
    first, second = results
    assert first.standard_error is not None
    assert second.standard_error is not None
    assert first.interval is not None
    assert second.interval is not None
    assert first.confidence is not None
    (low, high), (other_low, other_high) = first.interval, second.interval
    value = float(np.clip(first.value, low, high))
    other = float(np.clip(second.value, other_low, other_high))
    difference = value - other
    z = float(ndtri((1 + first.confidence) / 2))
    least = z * _least_error(difference, min(first.n_samples, second.n_samples))
    below = max(float(np.hypot(value - low, other_high - other)), least)
    above = max(float(np.hypot(high - value, other - other_low)), least)
    return Comparison(
        difference=difference,
        standard_error=float(np.hypot(first.standard_error, second.standard_error)),
        interval=(max(difference - below, -other_high), min(difference + above, high)),
        confidence=first.confidence,
        p_value=_p_value(difference, (below if difference > 0 else above) / z),
        values=(first.value, second.value),
        names=(str(names[0]), str(names[1])),
        notion=first.notion,
        loss=first.loss,
        n_samples=(first.n_samples, second.n_samples),
        paired=False,
        n_classes=len(first.classes) or None,
    )


def _error_of_doubts(doubts: Sequence[tuple[float, float]]) -> float:
    """The standard error of a difference whose terms may hold chance or not.

    Both errors may be smaller, as if nothing were believed that could be chance, or larger, as if
    all of it were. The differences of these cases and the estimated one have a range, which is
    taken for four standard errors. Models with the same doubts differ by the same in all cases.
    """
    (below_first, above_first), (below_second, above_second) = doubts
    return float(np.ptp([0.0, below_second - below_first, above_first - above_second])) / 4


def _p_value(difference: float, error: float) -> float:
    """The two-sided p-value; differences of rounding are none."""
    return 1.0 if abs(difference) < NONE else float(2 * ndtr(-abs(difference) / error))


def _least_error(difference: float, n: float) -> float:
    """The standard error of a difference on which n rows agree, whose sample variance is 0.

    Few rows that agree prove little. By a sign test their two-sided p-value is 2^(1 - n), and no
    n rows can prove more: the standard error is at least the one that leads to this p-value. Of
    rows of unequal weights n is the effective number.
    """
    return abs(difference) / -float(ndtri_exp(-max(n, FEWEST) * np.log(2)))
