"""Calibration over time: one sketch per day or per version of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskalign.compose import compose
from riskalign.data.notions import NOTIONS, named_notion
from riskalign.data.state import SketchState
from riskalign.data.validation import OutweighedError, is_whole
from riskalign.display import numbers
from riskalign.display.described import LOSSES
from riskalign.display.frames import data_frame
from riskalign.display.notebook import framed
from riskalign.inference.alarm import Alarm, raise_alarm
from riskalign.inference.comparison import Comparison, compared_apart
from riskalign.inference.interval import Chance, within_range
from riskalign.methods import KernelSmoother
from riskalign.options import check_confidence
from riskalign.pipeline import check_rows, model_of
from riskalign.results import CalibrationResult, Interval
from riskalign.sketches import periods
from riskalign.sketches.periods import name_of, order_of, spelled
from riskalign.sketches.sketch import CalibrationSketch
from riskalign.smoothing.threads import one_blas_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 2
"""Rows of a period that has an error."""


NO_ROWS = (
    "`{}` needs intervals, and these need some rows of the sketches, which were made with "
    "exact_limit=0, the default of CalibrationError for PyTorch. Make them with exact_limit=5000, "
    "for example."
)
"""Said where errors of sketches without rows are compared or watched."""

SHOWN = 20
"""Periods that a notebook shows."""


class CalibrationHistory:
    """Sketches of consecutive periods, such as days, or versions of a model.

    Periods are ordered by name, numbers in names by their value: "2026-01-09" comes before
    "2026-01-10", and "v9" before "v10". All sketches have the same notion, classes and settings, so
    that periods merge into longer ones.

    Examples
    --------
    >>> import riskalign as ra
    >>> history = ra.CalibrationHistory()
    >>> for day in range(1, 5):
    ...     data = ra.datasets.temperature(800, 2, seed=day)
    ...     sketch = ra.CalibrationSketch().update(data.y_true, data.y_prob[:, 1])
    ...     history = history.append(f"2026-01-{day:02}", sketch)
    >>> history.periods[0], len(history), history["2026-01-02"].n_samples
    ('2026-01-01', 4, 800)
    >>> history.windows(2).periods
    ['2026-01-01 to 2026-01-02', '2026-01-03 to 2026-01-04']
    >>> history.alarm().raised
    False
    """

    def __init__(self) -> None:
        self._sketches: dict[str, CalibrationSketch] = {}
        self._places: dict[str, list[tuple[int, str]]] = {}
        self._known: dict[tuple[Any, ...], tuple[CalibrationResult, Chance | None]] = {}

    @property
    def periods(self) -> list[str]:
        """Names of the periods, in order."""
        return list(self._sketches)

    def __len__(self) -> int:
        """Number of periods."""
        return len(self._sketches)

    def __iter__(self) -> Iterator[str]:
        """Names of the periods, in order."""
        return iter(self.periods)

    def __contains__(self, period: object) -> bool:
        """Whether there is a period of this name or date."""
        return isinstance(period, str | date | int) and spelled(period) in self._sketches

    def __getitem__(self, period: str | date | int) -> CalibrationSketch:
        """A copy of a period's sketch."""
        return self._sketches[self._known_name(period)].copy()

    def __repr__(self) -> str:
        """One line."""
        rows = sum(sketch.n_samples for sketch in self._sketches.values())
        return f"CalibrationHistory({len(self)} periods, {self._shown()}, n_samples={rows:,})"

    def _repr_html_(self) -> str:
        """The last periods with their plain scores, for notebooks; `frame` has the errors."""
        lines = [["period", "rows", "accuracy", "mean confidence", "ECE (15 bins)"]]
        for name, sketch in list(self._sketches.items())[-SHOWN:]:
            shown = [""] * 3
            if sketch.n_samples:
                known = sketch.scores
                shown = [numbers.percent(known[key]) for key in ("accuracy", "confidence")]
                shown.append(f"{numbers.points(known['ece'])} pts")
            lines.append([name, numbers.count(sketch.n_samples), *shown])
        before = len(self) - (len(lines) - 1)
        lead = f"The last {len(lines) - 1} of {len(self)} periods." if before else ""
        return framed(f"Calibration history, {len(self)} periods", lead, [], grid=lines)

    def append(
        self, period: str | date | int, sketch: CalibrationSketch, *, replace: bool = False
    ) -> CalibrationHistory:
        """Add a period's sketch, of which a copy is kept, and return the history.

        Parameters
        ----------
        period : str, date or int
            Its name; dates are written as 2026-01-31.
        sketch : CalibrationSketch
        replace : bool
            Whether the sketch of a period that is there already is replaced. By default this
            is an error: rows that came later are merged with `history[period].merge(sketch)`.
        """
        if not isinstance(sketch, CalibrationSketch):
            raise TypeError(f"`sketch` must be a CalibrationSketch; found {type(sketch).__name__}.")
        return self._add(name_of(period), sketch, replace=replace)

    def _add(
        self,
        name: str,
        sketch: CalibrationSketch,
        *,
        replace: bool = False,
        place: list[tuple[int, str]] | None = None,
    ) -> CalibrationHistory:
        """Add a sketch; `place` orders a window, whose name begins with that of a period."""
        if name in self._sketches and not replace:
            raise ValueError(
                f"The history has a period {name!r} already. Pass `replace=True` to replace it."
            )
        for other in self._sketches.values():  # the first is enough
            SketchState(other._state.settings).merge(sketch._state)
            break
        added = self._sketches | {name: sketch.copy()}
        self._places[name] = order_of(name) if place is None else place
        self._sketches = {each: added[each] for each in sorted(added, key=self._places.__getitem__)}
        self._known = {}
        return self

    def window(self, first: str | date | int, last: str | date | int) -> CalibrationSketch:
        """The merged sketch of all periods from the first to the last."""
        names = (spelled(period) for period in (first, last))
        low, high = (self._places.get(name) or order_of(name_of(name)) for name in names)
        chosen = [period for period in self.periods if low <= self._places[period] <= high]
        if not chosen:
            raise ValueError(
                f"No period lies from {first!r} to {last!r}; there are {self._shown()}."
            )
        return self._merged(chosen)

    def windows(self, size: int) -> CalibrationHistory:
        """A history of windows of so many consecutive periods each; an incomplete last is left out.

        Windows are in the order of their periods. Seven days make a week.
        """
        if not is_whole(size) or size < 1:
            raise ValueError(f"`size` must be a number of periods; found {size!r}.")
        if size == 1:
            return self
        names, result = self.periods, CalibrationHistory()
        for i in range(0, len(names) - size + 1, size):
            part = names[i : i + size]
            name = f"{part[0]} to {part[-1]}"
            result._add(name, self._merged(part), place=self._places[part[0]])
        return result

    def grouped(self, key: Callable[[str], str]) -> CalibrationHistory:
        """A history of periods merged by a function of their names.

        Examples
        --------
        >>> import riskalign as ra
        >>> sketch = ra.CalibrationSketch().update([0, 1], [0.2, 0.7])
        >>> history = ra.CalibrationHistory()
        >>> for day in ("2026-01-30", "2026-01-31", "2026-02-01"):
        ...     history = history.append(day, sketch)
        >>> history.grouped(lambda day: day[:7]).periods  # months
        ['2026-01', '2026-02']
        """
        parts: dict[str, list[str]] = {}
        for period in self.periods:
            parts.setdefault(key(period), []).append(period)
        result = CalibrationHistory()
        for name, part in parts.items():
            result.append(name, self._merged(part))
        return result

    def result(
        self,
        period: str | date | int,
        *,
        notion: str | None = None,
        loss: str = "l2",
        confidence: float = 0.95,
    ) -> CalibrationResult:
        """The calibration error of a period; parameters as for `calibration_error`.

        Class-wise sketches without rows (made with exact_limit=0) have an error without interval.
        """
        return self._estimate(period, notion, loss, confidence)[0]

    def to_columns(
        self, *, notion: str | None = None, loss: str = "l2", confidence: float = 0.95
    ) -> dict[str, list[Any]]:
        """What `frame` shows, as columns."""
        known = [self._estimate_if_any(name, notion, loss, confidence) for name in self.periods]
        results = [None if each is None else each[0] for each in known]
        gaps = [None if result is None else result.overconfidence for result in results]
        ends = [(result and result.interval) or (np.nan, np.nan) for result in results]
        return {
            "period": self.periods,
            "n": [self._sketches[name].n_samples for name in self.periods],
            "value": [np.nan if result is None else result.value for result in results],
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "overconfidence": [np.nan if gap is None else gap.gap for gap in gaps],
            "overconfidence_low": [np.nan if gap is None else gap.gap_interval[0] for gap in gaps],
            "overconfidence_high": [np.nan if gap is None else gap.gap_interval[1] for gap in gaps],
        }

    def frame(self, library: str = "pandas", **options: Any) -> Any:
        """A data frame with a row per period: error, interval, n, over-confidence.

        A period has no error if it has less than two rows, or if one row outweighs all others by a
        factor of 1e12: its numbers are NaN. Ends of intervals are NaN where class-wise sketches
        hold no rows (made with exact_limit=0).

        Parameters
        ----------
        library : {"pandas", "polars"}
        **options
            `notion`, `loss` and `confidence`, as for `calibration_error`.
        """
        return data_frame(partial(self.to_columns, **options), library, "frame")

    def alarm(
        self,
        *,
        reference: int = 1,
        window: int = 1,
        alpha: float = 0.05,
        tolerance: float = 0.0,
        notion: str | None = None,
        loss: str = "l2",
    ) -> Alarm:
        """Test whether the error has grown since the first periods.

        The test may be asked after every period: the probability that it *ever* raises a false
        alarm is at most `alpha`; see `riskalign.inference.alarm` for how. Windows without an error
        (see `frame`) are left out.

        Parameters
        ----------
        reference : int
            Number of first periods that make the reference window. The larger it is, the
            closer the test comes to its error.
        window : int
            Periods after the reference that are tested together, a week for example.
        alpha : float
            The probability that a false alarm is ever raised.
        tolerance : float
            How much the error may grow before it matters.
        notion, loss
            As for `calibration_error`.

        Returns
        -------
        Alarm
        """
        if not is_whole(reference) or not 1 <= reference <= max(len(self), 1):
            raise ValueError(
                f"`reference` must be a number of periods, 1 to {len(self)}; found {reference!r}."
            )
        if not isinstance(alpha, Real) or not 0 < alpha < 0.5:
            raise ValueError(f"`alpha` must lie between 0 and 0.5; found {alpha!r}.")
        if not isinstance(tolerance, Real) or not (tolerance >= 0 and np.isfinite(tolerance)):
            raise ValueError(f"`tolerance` must be finite and not negative; found {tolerance!r}.")
        if not len(self):
            raise ValueError("The history is empty: append a period's sketch first.")
        names = self.periods
        first, later = CalibrationHistory(), CalibrationHistory()
        first.append("reference", self._merged(names[:reference]))
        if not first._is_enough("reference"):
            raise ValueError(
                f"The first periods, up to {names[reference - 1]!r}, have less than {FEWEST} rows. "
                "Choose a larger `reference`."
            )
        for name in names[reference:]:
            later._add(name, self._sketches[name], place=self._places[name])
        later = later.windows(window)
        known = first._known_chance("alarm", "reference", notion, loss, 1 - alpha)
        windows = [
            (name, *later._known_chance("alarm", name, notion, loss, 1 - alpha))
            for name in later.periods
            if later._estimate_if_any(name, notion, loss, 1 - alpha) is not None
        ]
        return raise_alarm(known, windows, alpha=alpha, tolerance=tolerance)

    def compare(
        self,
        first: str | date | int,
        second: str | date | int,
        *,
        notion: str | None = None,
        loss: str = "l2",
        confidence: float = 0.95,
    ) -> Comparison:
        """Compare the errors of two periods, which hold different rows.

        The standard error is that of a difference of independent estimates, and the interval
        and the p-value come from the normal approximation. To watch every new period, use `alarm`.

        Examples
        --------
        >>> import riskalign as ra
        >>> history = ra.CalibrationHistory()
        >>> for name, t2 in (("old", 0.5), ("new", 0.9)):
        ...     data = ra.datasets.temperature(2000, 2, t2=t2, seed=0)
        ...     sketch = ra.CalibrationSketch().update(data.y_true, data.y_prob[:, 1])
        ...     history = history.append(name, sketch)
        >>> history.compare("old", "new").difference > 0
        True
        """
        names = (self._known_name(first), self._known_name(second))
        for name in names:
            self._known_chance("compare", name, notion, loss, confidence)
        one, other = (self._estimate(name, notion, loss, confidence)[0] for name in names)
        return compared_apart((one, other), names)

    def plot(self, *, alarm: Alarm | None = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the error of every period with its interval as a band.

        Squared errors are drawn as typical gaps, their roots in percentage points, as
        `riskalign history` prints them; other losses in their own unit.

        Parameters
        ----------
        alarm : Alarm, optional
            What `alarm` found for the same notion and loss, to be marked.
        ax : matplotlib Axes, optional
        **options
            `notion`, `loss` and `confidence`, as for `calibration_error`.
        """
        from riskalign.plots.history import error_over_time

        if not len(self):
            raise ValueError("The history is empty: append a period's sketch first.")
        columns, level = self.to_columns(**options), options.get("confidence", 0.95)
        loss, interval, n_parts = str(options.get("loss", "l2")), f"{level:.0%} interval", None
        words = f"calibration error\n({LOSSES.get(loss, loss)}), {interval}"
        if loss == "l2":
            known = self[self.periods[0]]
            notion = named_notion(options.get("notion")) or NOTIONS[known.notion]
            n_parts = notion.n_problems(len(known.classes))
            per = " per class" if notion.per_class else ""
            words = f"typical gap{per}\n(percentage points), {interval}"
        return error_over_time(columns, words, n_parts, alarm=alarm, ax=ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the history as one Parquet file, or as a folder of .sketch files.

        It is written whole or not at all: files have other names until all of them are written.
        In a folder, files whose content is the same are left alone, so that saving after `append`
        writes one file. A folder that holds sketches of other periods is refused: they would be
        loaded with this history.
        """
        periods.save(self._sketches, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CalibrationHistory:
        """The history that `save` stored, or the sketches of a folder, named by their files.

        Raises
        ------
        riskalign.data.format.SketchFormatError
            If a sketch is cut short, changed, or something else.
        """
        history = cls()
        for period, sketch in periods.load(Path(path)):
            history.append(period, sketch)
        return history

    def _merged(self, names: list[str]) -> CalibrationSketch:
        merged = self._sketches[names[0]].copy()
        for name in names[1:]:
            merged.merge(self._sketches[name])
        return merged

    def _estimate(
        self, period: str | date | int, notion: str | None, loss: str, confidence: float
    ) -> tuple[CalibrationResult, Chance | None]:
        check_confidence(confidence, KernelSmoother())
        name = self._known_name(period)
        key = (name, notion, loss, confidence)
        if key not in self._known:
            if not self._is_enough(name):
                raise ValueError(
                    f"The period {name!r} has {self._sketches[name].n_samples} rows; an error "
                    f"needs {FEWEST} or more."
                )
            try:
                self._known[key] = estimate(self[name], notion, loss, confidence)
            except OutweighedError as error:
                raise OutweighedError(f"The period {name!r} has no error: {error}") from None
        return self._known[key]

    def _estimate_if_any(
        self, name: str, notion: str | None, loss: str, confidence: float
    ) -> tuple[CalibrationResult, Chance | None] | None:
        """The error of a period, None where it has none."""
        if not self._is_enough(name):
            return None
        try:
            return self._estimate(name, notion, loss, confidence)
        except OutweighedError:
            return None

    def _known_chance(
        self, asked: str, period: str, notion: str | None, loss: str, confidence: float
    ) -> tuple[float, Chance]:
        """The error of a period, and how far chance moves it, which `asked` needs."""
        result, chance = self._estimate(period, notion, loss, confidence)
        if chance is None:
            raise ValueError(NO_ROWS.format(asked))
        return result.value, chance

    def _is_enough(self, name: str) -> bool:
        """Whether a period has the rows for an error."""
        return self._sketches[name].n_samples >= FEWEST

    def _known_name(self, period: str | date | int) -> str:
        name = spelled(period)
        if name not in self._sketches:
            raise KeyError(f"There is no period {name!r}; there are {self._shown()}.")
        return name

    def _shown(self) -> str:
        names = self.periods
        return "none" if not names else f"{names[0]!r} to {names[-1]!r}"


def estimate(
    sketch: CalibrationSketch, notion: str | None, loss: str, confidence: float
) -> tuple[CalibrationResult, Chance | None]:
    """The default error of a sketch with its interval, and how far chance moves it.

    Of a class-wise sketch without rows neither is known, the error alone is.
    """
    case, method = sketch.case(loss, notion), KernelSmoother()
    with one_blas_thread:
        outcome = method.outcome(case, "auto", False)
        if not len(case.sample.labels):
            return compose(case, method, outcome, confidence=confidence).without_rows(), None
        check_rows(case)
        assert outcome.residuals is not None  # the default method is debiased
        model = model_of(case, method, outcome, "auto")
        chance = Chance.of(model, outcome.residuals, case.n_drawn, seed=0)
        value = float(np.sum([each.value for each in outcome.estimates]))
        ends = chance.interval(value, confidence)
        ends = within_range(ends, model.problems, model.sample.weights)
        interval = Interval(chance.standard_error(value), ends, confidence)
        return compose(case, method, outcome, interval, None).without_rows(), chance
