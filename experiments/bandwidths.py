"""The bandwidth figure: what likelihood and risk alignment choose, and what comes of it.

Class-wise, squared error, K = 4, on the subsets of the synthetic table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import riskalign as ra
from experiments import style
from experiments.cells import RESULTS, Row, group, load, run
from experiments.finite import interval
from experiments.synthetic import FULL, block, pool
from experiments.tables import save

SETTING = (1.0, 0.8)
CLASSES = 4
SIZES = (300, 600, 1_200, 2_500, 5_000, 10_000, 20_000)
CRITERIA = {"likelihood": "kde-likelihood", "risk-alignment": "kde-risk-alignment"}
KEYS = ("n", "criterion", "subset")
CURVE_COLUMNS = ("criterion", "class", "f", "R", "truth")
CURVE_SAMPLES = 5_000
GRID = np.linspace(0.005, 0.995, 199)


def cells(sizes: Sequence[int], subsets: int) -> Iterator[Row]:
    """Every size, criterion and subset."""
    for n in sizes:
        for criterion in CRITERIA:
            for subset in range(subsets):
                yield dict(zip(KEYS, (float(n), criterion, float(subset)), strict=True))


def estimate(cell: Row) -> list[Row]:
    """The bandwidth (geometric mean over classes) and the error."""
    data = block(FULL.n, CLASSES, *SETTING, int(cell["subset"]))
    n = int(cell["n"])
    result = ra.calibration_error(
        data.y_true[:n], data.y_prob[:n], notion="classwise", loss="l2", estimator="plugin",
        bandwidth=str(cell["criterion"]), progress=False,
    )  # fmt: skip
    h = float(np.exp(np.log(result.bandwidth).mean()))
    return [{"bandwidth": h, "value": result.value}]


def curves() -> list[Row]:
    """R against f under both bandwidths, every class, with the truth E[y_k | f_k]."""
    data = block(FULL.n, CLASSES, *SETTING, 0)
    true = conditional_truth()
    rows = []
    for criterion in CRITERIA:
        curve = ra.reliability_curve(
            data.y_true[:CURVE_SAMPLES], data.y_prob[:CURVE_SAMPLES], grid=GRID,
            notion="classwise", estimator="plugin", bandwidth=criterion, progress=False,
        )  # fmt: skip
        for k in range(CLASSES):
            for f, R, t in zip(GRID, curve.conditional[:, k], true, strict=True):
                values = (criterion, k, *(round(float(v), 6) for v in (f, R, t)))
                rows.append(dict(zip(CURVE_COLUMNS, values, strict=True)))
    return rows


def conditional_truth() -> np.ndarray:
    """E[y_k | f_k] on the grid, the same for every class: means over the pool's near points."""
    data = pool(FULL.n, CLASSES, *SETTING)
    f, R = data.y_prob.ravel(), data.conditional.ravel()
    order = np.argsort(f)
    f, R = f[order], R[order]
    sums = np.concatenate([[0.0], np.cumsum(R - f)])
    low = np.clip(np.searchsorted(f, GRID) - 1_000, 0, len(f) - 2_000)
    return GRID + (sums[low + 2_000] - sums[low]) / 2_000


def draw(points: list[Row], shown: list[Row], truth: float, path: Path) -> None:
    """Bandwidth and error against n, and the curves of every class under both bandwidths."""
    drawn, axes = style.figure(2, 2, width=4.6, height=3.3)
    for criterion, method in CRITERIA.items():
        own = [row for row in points if row["criterion"] == criterion]
        _against_n(axes[0, 0], own, "bandwidth", 1.0, method)
        _against_n(axes[0, 1], own, "value", 100.0, method)
    axes[0, 0].set(yscale="log", title="Selected bandwidth h (mean of classes)", ylabel="h")
    axes[0, 1].axhline(100 * truth, color="black", linestyle="--", label="truth")
    axes[0, 1].set(yscale="log", title="Class-wise squared error", ylabel="error x 100")
    for ax, criterion in zip(axes[1], CRITERIA, strict=True):
        _curves(ax, [row for row in shown if row["criterion"] == criterion], criterion)
    style.legend_below(drawn, axes)
    style.save(drawn, path)


def _against_n(ax: Any, rows: list[Row], key: str, scale: float, method: str) -> None:
    name, colour, mark = style.LOOK[method]
    by_size = group(rows, "n")
    values = [scale * np.array([float(row[key]) for row in own]) for own in by_size.values()]
    n = [float(size[0]) for size in by_size]
    low, high = zip(*(interval(each) for each in values), strict=True)
    ax.plot(n, [v.mean() for v in values], color=colour, marker=mark, markersize=4, label=name)
    ax.fill_between(n, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(xscale="log", xlabel="samples n")


def _curves(ax: Any, rows: list[Row], criterion: str) -> None:
    colours = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
    for (k,), own in group(rows, "class").items():
        f, R, truth = (np.array([float(row[key]) for row in own]) for key in ("f", "R", "truth"))
        ax.plot(f, R, color=colours[int(k)], linewidth=1, label=f"R of class {int(k) + 1}")
    ax.plot(f, truth, color="black", linestyle="--", linewidth=1.5, label="truth")
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    title = f"R against f, h by {criterion.replace('-', ' ')} (n = {CURVE_SAMPLES:,})"
    ax.set(xlabel="prediction f", ylabel="R", title=title, xlim=(0, 1), ylim=(0, 1))


def main(folder: Path = RESULTS, subsets: int = 10) -> None:
    """Compute what is missing, then the picture."""
    points = run(folder / "bandwidth.csv", KEYS, cells(SIZES, subsets), estimate)
    path = folder / "reliability.csv"
    if not path.exists():
        save(path, CURVE_COLUMNS, curves())
    truth = pool(FULL.n, CLASSES, *SETTING).truth("classwise", "l2", given="marginal")
    draw(points, load(path), truth, folder / "bandwidth.png")
