"""A calibration error as `print` and notebooks draw it, with the words that reports use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from riskalign.data.notions import NOTIONS
from riskalign.display import svg
from riskalign.display.averages import CONFIDENCE
from riskalign.display.classes import class_head, class_lines
from riskalign.display.described import STATISTIC, Described, Told
from riskalign.display.notebook import framed
from riskalign.display.table import Row, columns, text_rows, wrapped
from riskalign.equations.evidence import ClassEvidence

SHOWN, NAME, WIDE = 5, 26, 100
"""Classes that `print` lists, letters of their names, and columns of the text."""


class Printed(Described):
    """How a result is shown; the base of `CalibrationResult`."""

    if TYPE_CHECKING:
        curve: Callable[[object], Any] | None

    def class_grid(self, most: int = SHOWN, name: int = 20) -> list[tuple[str, ...]]:
        """The classes with the strongest evidence, as a table whose first row is its head."""
        if self.per_class is None or self.evidence is None:
            return []
        lines = class_lines(self, self.evidence, dict(enumerate(self.per_class.tolist())))
        return [class_head(CONFIDENCE), *(line.cells(name) for line in lines[:most])]

    @property
    def title(self) -> str:
        """What was estimated, of how many rows."""
        measure = self._loss if self.norm is None else f"{self.norm} norm"
        if self.norm == STATISTIC:
            measure = "Spiegelhalter's z"
        classes = f", {len(self.classes):,} classes" if self.classes else ""
        notion = NOTIONS[self.notion].title
        return (
            f"{notion[0].upper()}{notion[1:]} calibration ({measure}): {self.n_samples:,} rows"
            f"{classes}"
        )

    def __repr__(self) -> str:
        """One line."""
        found = self.verdict()
        size = f"{found.words}, " if self.in_points else ""
        measure = self.loss if self.norm is None else f"{self.norm} norm"
        if self.norm == STATISTIC:
            measure = STATISTIC
        ends = "" if self.interval is None else f", interval=({_ends(self.interval)})"
        return (
            f"<CalibrationResult: {self.notion}, {measure}, value={self._shown:.4g}{ends}, "
            f"{size}n={self.n_samples:,}>"
        )

    @property
    def _said(self) -> str:
        """The sentence, and the note where it is not in the details, beside the method."""
        beside = self.note if self.bandwidth is not None else ""
        return f"{self.sentence()} {beside}".rstrip()

    def __str__(self) -> str:
        """A short table."""
        lines = [self.title, "", *wrapped(self._said, "  ", WIDE), ""]
        told = self.told()
        lines += text_rows(self._rows(told), WIDE)
        grid = self.class_grid(name=NAME)
        if grid:
            lines += ["", *columns(grid, left=(0, 3, 6))]
            lines += _more(len(self.classes), len(grid) - 1, self.evidence)
        return "\n".join([*lines, "", "Details", *text_rows(told.details, WIDE)])

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks."""
        told = self.told()
        rows = [*self._rows(told), *told.details]
        return framed(self.title, self._said, rows, self._picture(), self.class_grid())

    def _rows(self, told: Told) -> list[Row]:
        """The numbers, below a head that names their intervals."""
        rows = [told.gap, *told.sides, *told.averages]
        if not any(row.interval for row in rows):
            return rows
        averages = self.binary or self.overconfidence
        level = self.confidence or (CONFIDENCE if averages is None else averages.confidence)
        return [Row("", "", f"{level:.0%} CI"), *rows]

    def _picture(self) -> str:
        if self.per_class is not None and self.evidence is not None:
            worst = self.evidence.order(self.per_class)[:SHOWN]
            ends = (self.evidence.gaps, self.evidence.low, self.evidence.high)
            gaps, low, high = ((100 * each[worst]).tolist() for each in ends)
            return svg.interval_bars(gaps, low, high, marked=self._findings[worst].tolist())
        if self.curve is not None and not NOTIONS[self.notion].joint:
            curve = self.curve(np.linspace(0, 1, 61))
            return svg.reliability(curve.grid, curve.conditional, *curve.band())
        if self.norm is not None or self.risk <= 0:  # a norm is no part of the risk
            return ""
        return svg.split_bar(self.value / self.risk)


def _more(n_classes: int, shown: int, found: ClassEvidence | None) -> list[str]:
    """How many classes are not shown, and how many of all are off beyond chance."""
    assert found is not None
    off = int(found.findings.sum())
    rest = f"{n_classes - shown} more classes; " if n_classes > shown else ""
    corrected = f"corrected for {n_classes:,} classes" if n_classes > 1 else ""
    return [f"  {rest}{off} of {n_classes:,} are off by more than chance ({corrected})"]


def _ends(interval: tuple[float, float]) -> str:
    return ", ".join(f"{end:.4g}" for end in interval)
