"""Errors of consecutive periods, with their intervals and an alarm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.inference.alarm import Alarm
from riskalign.plots.canvas import BLUE, GREY, ORANGE, SMALL, axes_for, bare, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = 12
"""Periods that are named below the axis at most."""


def error_over_time(
    columns: Mapping[str, Sequence[Any]],
    words: str,
    n_parts: int | None = None,
    *,
    alarm: Alarm | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw errors of periods as points and a band.

    Parameters
    ----------
    columns : `period`, `value`, `low` and `high`, as `CalibrationHistory.to_columns` gives them
    words : what is drawn, in which unit, and the level of the intervals
    n_parts : int, optional
        Draw squared errors that are sums of so many as their typical gaps, in percentage points.
        Default: errors are drawn as they are.
    alarm : Alarm, optional
        The limit that the alarm tests against and, if it is raised, where.
    ax : matplotlib Axes, optional
    """

    def drawn(errors: Sequence[float]) -> FloatArray:
        found = np.asarray(errors, dtype=np.float64)
        return found if n_parts is None else 100 * np.sqrt(np.maximum(found, 0.0) / n_parts)

    ax = axes_for(ax, 7.0, 3.4)
    names = [str(name) for name in columns["period"]]
    x = np.arange(len(names))
    value, low, high = (drawn(columns[key]) for key in ("value", "low", "high"))
    ax.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0)
    if len(names) == 1:  # a band of one period has no width
        ax.vlines(x, low, high, color=BLUE, alpha=0.4)
    ax.plot(x, value, color=BLUE, marker="o", markersize=3.5, linewidth=1.2)
    ax.axhline(0, color=GREY, linewidth=0.8)
    if alarm is not None:
        _draw_alarm(ax, alarm, float(drawn([alarm.limit])[0]), names)
    step = -(-len(names) // LABELS)
    ax.set_xticks(x[::step], names[::step], rotation=30, ha="right", fontsize=SMALL)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel(words)
    bare(ax)
    return ax


def _draw_alarm(ax: Axes, alarm: Alarm, limit: float, names: Sequence[str]) -> None:
    label = "upper end of the reference's interval"
    ax.axhline(limit, color=ORANGE, linewidth=1, linestyle="--", label=label)
    legend_above(ax)
    at = _last(alarm.at)
    if at in names:
        ax.axvline(names.index(at), color=ORANGE, linewidth=1.2)
        ax.annotate(
            "alarm ",
            (names.index(at), 0.98),
            xycoords=("data", "axes fraction"),
            ha="right",
            va="top",
            color=ORANGE,
            fontsize=SMALL,
        )


def _last(window: str | None) -> str | None:
    """The last period of a window."""
    return None if window is None else window.split(" to ")[-1]
