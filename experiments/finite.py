"""The finite-sample figures: mean and 95% interval of every estimate against n, for each K."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from experiments import style
from experiments.cells import RESULTS, Row, group, load, run
from experiments.estimators import DIVERGENCES, METHODS, rows_of
from experiments.synthetic import CLASSES, FULL, NOTIONS, block, factor
from experiments.tables import save

SETTING = (1.0, 0.8)
SIZES = (300, 1_000, 3_000, 10_000)
"""Sizes beside the table's own, whose estimates are used again."""

SHOWN = {
    "classwise": ("equal-width-15", "equal-mass-15", "kde-likelihood", "kde-risk-alignment"),
    "canonical": ("equal-width-10", "krr", "kde-likelihood", "kde-risk-alignment"),
}
RAW = "finite_raw.csv"
KEYS = ("n", "n_classes", "notion", "method", "subset")
COLUMNS = (
    *("notion", "divergence", "n_classes", "method", "n", "subsets"),
    *("mean_x100", "low_x100", "high_x100", "truth_x100", "factor"),
)


def cells(sizes: Iterable[int], subsets: int, methods: Iterable[str] | None) -> Iterator[Row]:
    """Small before large: pictures are whole early."""
    chosen = None if methods is None else set(methods)
    for n in sizes:
        for subset in range(subsets):
            for notion in NOTIONS:
                for classes in CLASSES:
                    for method in (*SHOWN[notion], "debiased"):
                        if chosen is None or method in chosen:
                            values = (float(n), float(classes), notion, method, float(subset))
                            yield dict(zip(KEYS, values, strict=True))


def estimate(cell: Row) -> list[Row]:
    """The estimates of one method on the first n samples of one subset."""
    data = block(FULL.n, int(cell["n_classes"]), *SETTING, int(cell["subset"]))
    n = int(cell["n"])
    rows = rows_of(str(cell["method"]), str(cell["notion"]), data.y_true[:n], data.y_prob[:n])
    return rows


def interval(values: np.ndarray) -> tuple[float, float]:
    """Student's 95% interval of the mean; no width for one value."""
    if len(values) < 2:
        return float(values.mean()), float(values.mean())
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean() - half), float(values.mean() + half)


def aggregate(raw: list[Row], truths: list[Row]) -> list[Row]:
    """Means and intervals x 100, a row a point of the pictures."""
    true = {
        (row["notion"], row["divergence"], row["n_classes"]): float(row["value"])
        for row in truths
        if (row["t1"], row["t2"]) == SETTING and row["truth"] == "joint"
    }
    rows = []
    for cell, own in group(raw, "notion", "divergence", "n_classes", "method", "n").items():
        notion, divergence, classes, method, n = cell
        scale = 100 * factor(notion, divergence)
        values = scale * np.array([row["value"] for row in own], float)
        values = values[np.isfinite(values)]
        if len(values) == 0:
            continue
        numbers = (values.mean(), *interval(values), scale * true[notion, divergence, classes])
        shown = [float(f"{number:.5g}") for number in numbers]
        counts = (int(classes), method, int(n), len(values))
        found = (notion, divergence, *counts, *shown, scale // 100)
        rows.append(dict(zip(COLUMNS, found, strict=True)))
    return sorted(rows, key=lambda row: (*(row[key] for key in COLUMNS[:4]), row["n"]))


def draw(rows: list[Row], notion: str, divergence: str, path: Path) -> None:
    """One panel a number of classes."""
    own = [row for row in rows if (row["notion"], row["divergence"]) == (notion, divergence)]
    if not own:
        return
    drawn, axes = style.figure(1, len(CLASSES))
    for ax, classes in zip(axes[0], CLASSES, strict=True):
        _panel(ax, [row for row in own if row["n_classes"] == classes])
        ax.set_title(f"K = {classes}")
        ax.set_xlabel("samples n")
    unit = "2 x " if factor(notion, divergence) == 2 else ""
    axes[0, 0].set_ylabel(f"{unit}calibration error x 100")
    drawn.suptitle(f"Estimates against n: {style.LABELS[notion, divergence]}")
    style.legend_below(drawn, axes)
    style.save(drawn, path)


def _panel(ax: Any, rows: list[Row]) -> None:
    for (method,), own in group(rows, "method").items():
        name, colour, mark = style.LOOK[str(method)]
        n, mean, low, high = (
            np.array([float(row[key]) for row in own])
            for key in ("n", "mean_x100", "low_x100", "high_x100")
        )
        ax.plot(n, mean, color=colour, marker=mark, markersize=4, label=name)
        ax.fill_between(n, low, high, color=colour, alpha=0.2, linewidth=0)
    if rows:
        ax.axhline(float(rows[0]["truth_x100"]), color="black", linestyle="--", label="truth")
    ax.set_xscale("log")
    keys = ("mean_x100", "truth_x100")
    style.error_scale(ax, [float(row[key]) for row in rows for key in keys])


def main(folder: Path = RESULTS, subsets: int = 10, methods: Iterable[str] | None = None) -> None:
    """Compute what is missing, then the numbers and the four pictures."""
    raw = run(folder / RAW, KEYS, cells(SIZES, subsets, methods), estimate)
    report(folder, raw)


def report(folder: Path, raw: list[Row]) -> None:
    """Numbers and pictures, with the table's own estimates at its n."""
    known = {method for own in METHODS.values() for method in own} & set(style.LOOK)
    table = [
        row
        for row in load(FULL.raw)
        if (row["t1"], row["t2"]) == SETTING
        and row["method"] in known
        and row["method"] in (*SHOWN[str(row["notion"])], "debiased")
    ]
    rows = aggregate([*raw, *table], load(FULL.truths))
    save(folder / "finite.csv", COLUMNS, rows)
    for notion in NOTIONS:
        for divergence in DIVERGENCES:
            draw(rows, notion, divergence, folder / f"finite_{notion}_{divergence}.png")
