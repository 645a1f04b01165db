"""Errors side by side: of classes, and of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from riskalign.data.notions import NOTIONS
from riskalign.display.described import LOSSES
from riskalign.display.numbers import points
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.plots.canvas import (
    BLUE,
    GREY,
    ORANGE,
    SMALL,
    axes_for,
    bare,
    ink,
    legend_above,
    number,
)
from riskalign.results import CalibrationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 32
"""Letters of a name that are written."""

STYLES: dict[int, tuple[str, dict[str, Any]]] = {
    1: ("probability too high", {"facecolor": ORANGE, "edgecolor": ORANGE}),
    -1: ("probability too low", {"facecolor": "none", "edgecolor": BLUE, "hatch": "////"}),
    0: ("no clear direction", {"facecolor": GREY, "edgecolor": GREY, "alpha": 0.6}),
}
"""How bars look by the sign of f - y where that is more than chance: told apart in print."""


def class_bars(result: CalibrationResult, *, largest: int = 15, ax: Axes | None = None) -> Axes:
    """Draw the share of each class in a class-wise calibration error.

    The largest are bars. A bar is orange where the class's probability is too high on average by
    more than chance, corrected for the number of classes, hatched blue where it is too low, and
    grey elsewhere. With more classes, the rest are shown as ticks in one row, with their median.

    Parameters
    ----------
    result : CalibrationResult
        Of notion "classwise".
    largest : int
        Classes that have a bar of their own.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.class_bias(500, 4, seed=0)
    >>> result = ra.calibration_error(data.y_true, data.y_prob, estimator="debiased")
    >>> ax = ra.plots.class_bars(result)
    >>> ax.get_yticklabels()[0].get_text() == str(result.per_class.argmax())
    True
    """
    if result.per_class is None:
        raise ValueError(
            f"`result` must be of a class-wise error; found notion={result.notion!r}, which has no "
            "errors of classes. Pass notion='classwise' to calibration_error."
        )
    errors = result.per_class
    order = np.argsort(-errors, kind="stable")
    top, rest = order[:largest], order[largest:]
    ax = axes_for(ax, 6.0, 1.0 + 0.27 * (len(top) + 1.6 * bool(len(rest))))
    signs = _signs(result)
    for sign, (text, style) in STYLES.items():
        rows = np.flatnonzero(signs[top] == sign)
        if len(rows):
            ax.barh(
                rows,
                errors[top[rows]],
                height=0.7,
                label=text if result.evidence is not None else None,
                **style,
            )
    positions, names = list(map(float, range(len(top)))), [_short(result.classes[k]) for k in top]
    if len(rest):
        positions.append(len(top) + 0.4)
        names.append(f"{len(rest):,} others")
        _draw_rest(ax, errors[rest], positions[-1], float(errors.sum()))
    ax.set_yticks(positions, names)
    ax.set_ylim(positions[-1] + 0.9, -0.7)
    ax.tick_params(axis="y", length=0)
    ax.axvline(0, color=ink(), lw=0.8)
    ax.set_xlabel(f"calibration error ({_measure(result)}); of all classes {number(result.value)}")
    if ax.get_legend_handles_labels()[0]:
        legend_above(ax)
    bare(ax, "top", "right", "left")
    return ax


def _signs(result: CalibrationResult) -> IntArray:
    """1 where a class's probability is too high beyond chance, -1 where too low, else 0, (K,).

    The findings are those of the table of classes, corrected for the number of classes.
    """
    found = result.evidence
    if found is None:
        return np.zeros(len(result.classes), dtype=np.intp)
    sides = {"too high": 1, "too low": -1}
    return np.array([sides.get(word, 0) for word in found.directions], dtype=np.intp)


def _draw_rest(ax: Axes, errors: FloatArray, row: float, total: float) -> None:
    """Classes without a bar: a tick each, their median, and what they add up to."""
    faint = max(0.08, min(0.6, 60 / len(errors)))
    ax.plot(errors, np.full(len(errors), row), "|", color=ink(), alpha=faint, ms=11, mew=1)
    ax.plot([float(np.median(errors))], [row], "D", color=ink(), ms=5, label="median of the others")
    ax.annotate(
        f"sum {number(float(errors.sum()))}, {errors.sum() / total:.0%} of all",
        (float(errors.max()), row),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        color=GREY,
    )


def model_comparison(results: Mapping[str, CalibrationResult], *, ax: Axes | None = None) -> Axes:
    """Draw calibration errors of models, with their intervals where they have one.

    Parameters
    ----------
    results : mapping of names to CalibrationResult
        Of the same notion and loss; with `confidence=` they have intervals.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import riskalign as ra
    >>> models = {"sharp": 0.5, "sober": 0.9}
    >>> data = {name: ra.datasets.temperature(500, 3, t2=t2) for name, t2 in models.items()}
    >>> results = {
    ...     name: ra.calibration_error(d.y_true, d.y_prob, estimator="debiased", confidence=0.95)
    ...     for name, d in data.items()
    ... }
    >>> [label.get_text() for label in ra.plots.model_comparison(results).get_yticklabels()]
    ['sharp', 'sober']
    """
    kinds = {(result.notion, result.loss, result.norm) for result in results.values()}
    if len(kinds) != 1:
        found = "; ".join(" ".join(filter(None, kind)) for kind in sorted(kinds, key=str))
        raise ValueError(
            "`results` must hold errors of one kind: the same notion, loss and norm; found "
            f"{found or 'none'}."
        )
    ((notion, _, _),) = kinds
    ax = axes_for(ax, 6.5, 1.1 + 0.4 * len(results))
    for row, result in enumerate(results.values()):
        if result.interval is not None:
            ax.plot(result.interval, [row, row], color=BLUE, lw=2.5, solid_capstyle="butt")
        ax.plot([result.value], [row], "o", color=BLUE, ms=7)
        _note(ax, row, result)
    ax.set_yticks(range(len(results)), [_short(name) for name in results])
    ax.set_ylim(len(results) - 0.4, -0.6)
    lowest = min(0.0, *(result.value for result in results.values()))
    ax.set_xlim(left=lowest - 0.03 * (ax.get_xlim()[1] - lowest))
    ax.axvline(0, color=ink(), lw=0.8, zorder=0)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=5)
    ax.grid(axis="x", color=GREY, alpha=0.25, lw=0.8)
    ax.set_axisbelow(True)
    levels = {result.confidence for result in results.values()} - {None}
    band = f", {levels.pop():.0%} intervals" if len(levels) == 1 else ""
    ax.set_xlabel(f"{NOTIONS[notion].title} calibration error ({_measure(result)}){band}")
    bare(ax, "top", "right", "left")
    return ax


def _note(ax: Axes, row: int, result: CalibrationResult) -> None:
    """The numbers, to the right of the picture."""
    text = number(result.value)
    if result.interval is not None:
        text += " ({} to {})".format(*map(number, result.interval))
    beside = f"risk {number(result.risk)}"
    if result.in_points and result.norm is None:
        per = " per class" if result.per_class is not None else ""
        beside = f"typical gap {points(result.gap)} pts{per}, {beside}"
    ax.annotate(
        f"{text}\n{beside}",
        (1.02, row),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=SMALL,
        annotation_clip=False,
    )


def _measure(result: CalibrationResult) -> str:
    """The loss or the norm in words."""
    return LOSSES.get(result.loss, result.loss) if result.norm is None else f"{result.norm} norm"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."
