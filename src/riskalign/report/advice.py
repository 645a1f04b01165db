"""Advice: what recalibration would gain, and whether it is worth it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from riskalign.display.numbers import number, points
from riskalign.recalibration.gains import Gain

ENOUGH = 100
"""Rows from which recalibration is tried: maps learnt from fewer gain by luck."""

WORTH, VISIBLE = 0.005, 0.01
"""A recalibration is worth it if it saves this share of the log loss, or if the log loss does not
rise and the typical gap falls by so much and to less than half."""

TIE = 0.002
"""Within this share of the lowest log loss, or a standard error, the simpler method is taken ..."""

REST = 0.1
"""... if it leaves no more than this share of the calibration error beyond what others leave."""


@dataclass(frozen=True)
class Advice:
    """What each way of recalibrating would gain.

    Attributes
    ----------
    notion : whose calibration error is compared
    n_classes : over which a class-wise error is averaged, otherwise 1
    gains : from the simplest method to the most flexible; none where rows are too few to try any
    in_points : whether errors have a typical gap in percentage points
    n_samples : all rows, of which some were looked at
    level_off : whether one probability is too high or too low on average by more than chance
    """

    notion: str
    n_classes: int
    gains: tuple[Gain, ...]
    in_points: bool
    n_samples: int
    level_off: bool = False

    @property
    def chosen(self) -> Gain | None:
        """The method to take; None if no method is worth it.

        A temperature turns predictions about 1/2 and has no term for their level. Where that is
        off, the simplest method is Platt scaling, if it does as well.
        """
        worth = [gain for gain in self.gains if self._is_worth_it(gain)]
        if not worth:
            return None
        before = worth[0].log_loss_before
        lowest = min(gain.log_loss_after for gain in worth)
        tied = [
            gain
            for gain in worth
            if gain.log_loss_after <= lowest + max(TIE * before, gain.log_loss_doubt)
        ]
        if self.level_off and any(gain.method == "platt" for gain in tied):
            tied = [gain for gain in tied if gain.method != "temperature"]
        least = min(max(gain.error_after, 0.0) for gain in tied)
        most = least + REST * max(tied[0].error_before, 0.0)
        return next(gain for gain in tied if gain.error_after <= most)

    def _is_worth_it(self, gain: Gain) -> bool:
        saved = gain.log_loss_before - gain.log_loss_after
        if saved >= WORTH * gain.log_loss_before:
            return True
        before, after = self.gap(gain.error_before), self.gap(gain.error_after)
        return self.in_points and saved > 0 and after < before / 2 and before - after >= VISIBLE

    def size(self, error: float) -> str:
        """An error as people read it: its typical gap, or itself."""
        if not self.in_points:
            return number(max(error, 0.0))
        return f"{points(self.gap(error))} pts"

    def gap(self, error: float) -> float:
        """The typical gap of an error."""
        return float((max(error, 0.0) / self.n_classes) ** 0.5)

    @property
    def sentence(self) -> str:
        """The advice in a sentence."""
        if not self.gains:
            return (
                f"Too few rows ({self.n_samples:,}) to try recalibration, which takes at least "
                f"{ENOUGH}."
            )
        chosen = self.chosen
        if chosen is None:
            halves = ""
            if self.in_points:
                halves = (
                    ", and none lowers the typical gap by more than half and at least "
                    f"{100 * VISIBLE:g} point without raising the log loss"
                )
            return (
                "Recalibration would gain next to nothing: no method lowers the log loss by "
                f"{WORTH:.1%}{halves}."
            )
        fall = _fall(chosen)
        falls = f"the log loss falls by {fall}"
        if chosen.error_after < chosen.error_before and chosen.error_before > 0:
            name = "typical gap" if self.in_points else "calibration error"
            before, after = self.size(chosen.error_before), self.size(chosen.error_after)
            falls = f"the {name} falls from {before} to about {after}, the log loss by {fall}"
        the = "the " if "calibrator" in chosen.description else ""
        how = f"{the}{chosen.description}"
        doubt = " The gain may be chance." if chosen.change_interval[1] >= 0 else ""
        return f"Recalibrate with {how}: {falls}, cross-fitted on {self.rows}.{doubt}"

    @property
    def rows(self) -> str:
        """How many rows were looked at, in words."""
        n = self.gains[0].n if self.gains else 0
        if n < self.n_samples:
            return f"{n:,} of the {self.n_samples:,} rows"
        return f"all {n:,} rows"

    def command(self, source: Sequence[str]) -> str:
        """The command that recalibrates a file; empty if none is advised, or there is no file.

        Parameters
        ----------
        source : the path of the file, and the options with which it is read; with "--save" the
            calibrator is stored, because the file is not rewritten
        """
        if self.chosen is None or not source:
            return ""
        path, *reading = source
        file = Path(path)
        words = ["riskalign", "calibrate", _operand(path)]
        if "--save" not in reading:
            output = file.with_name(f"{file.stem}-calibrated{file.suffix}")
            words += ["-o", _operand(str(output))]
        return shlex.join([*words, "--method", self.chosen.method, *reading])

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        return {
            "sentence": self.sentence,
            "notion": self.notion,
            "chosen": None if self.chosen is None else self.chosen.method,
            "gains": [asdict(gain) for gain in self.gains],
        }


def _fall(gain: Gain) -> str:
    """By how much the log loss falls, with the interval of that."""
    low, high = gain.change_interval
    ends = f" (95% CI {-high:.1%} to {-low:.1%})" if low < high else ""
    return f"{-gain.change:.1%}{ends}"


def _operand(path: str) -> str:
    """A path that no command takes for an option."""
    return f"./{path}" if path.startswith("-") else path
