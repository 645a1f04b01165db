"""RBF against Dirichlet kernels as the number of classes grows: canonical errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments import style
from experiments.cells import RESULTS, Row, group, load, run
from experiments.estimators import DIVERGENCES, RISK_ALIGNMENT, rows_of
from experiments.synthetic import FULL, block
from experiments.tables import save

SETTING = (1.0, 0.8)
CLASSES = (2, 4, 8, 16, 32, 64)
SAMPLES = 3_000
KEYS = ("n_classes", "kernel", "subset")
COLUMNS = ("divergence", "n_classes", "kernel", "mae_x100", "se_x100", "truth_x100", "n", "subsets")
LOOK = {"dirichlet": ("#0072B2", "o"), "rbf": ("#D55E00", "s")}


def cells(subsets: int) -> Iterator[Row]:
    """Every subset, number of classes and kernel."""
    for subset in range(subsets):
        for classes in CLASSES:
            for kernel in LOOK:
                yield dict(zip(KEYS, (float(classes), kernel, float(subset)), strict=True))


def estimate(cell: Row) -> list[Row]:
    """The plug-in error at the risk-aligned bandwidth; the truth is of the same block."""
    data = block(FULL.n, int(cell["n_classes"]), *SETTING, int(cell["subset"]))
    y, f = data.y_true[:SAMPLES], data.y_prob[:SAMPLES]
    rows = rows_of(RISK_ALIGNMENT, "canonical", y, f, kernel=str(cell["kernel"]))
    return [
        {**row, "truth": data.truth("canonical", str(row["divergence"])), "n": SAMPLES}
        for row in rows
    ]


def aggregate(raw: list[Row]) -> list[Row]:
    """Mean absolute errors x 100 with standard errors."""
    rows = []
    for cell, own in group(raw, "divergence", "n_classes", "kernel").items():
        gaps = 100 * np.array([abs(float(row["value"]) - float(row["truth"])) for row in own])
        error = gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else np.nan
        true = 100 * np.mean([float(row["truth"]) for row in own])
        numbers = (float(f"{v:.4g}") for v in (gaps.mean(), error, true))
        found = (*cell, *numbers, int(own[0]["n"]), len(own))
        rows.append(dict(zip(COLUMNS, found, strict=True)))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Errors against K, with the error of the answer 0."""
    drawn, axes = style.figure(1, 2, width=4.6, height=3.3)
    for ax, divergence in zip(axes[0], DIVERGENCES, strict=True):
        own = [row for row in rows if row["divergence"] == divergence]
        for (kernel,), points in group(own, "kernel").items():
            colour, mark = LOOK[str(kernel)]
            K, mae, error, true = (
                np.array([float(row[key]) for row in points])
                for key in ("n_classes", "mae_x100", "se_x100", "truth_x100")
            )
            ax.errorbar(K, mae, error, color=colour, marker=mark, capsize=2, label=str(kernel))
        ax.plot(K, true, color="black", linestyle="--", label="always zero")
        ax.set_xscale("log", base=2)
        ax.set_xticks(K, [f"{k:.0f}" for k in K])
        ax.set(yscale="log", xlabel="classes K", ylabel="mean absolute error x 100")
        ax.set_title(style.LABELS["canonical", divergence])
    drawn.suptitle(f"Kernels under risk alignment, n = {SAMPLES:,}")
    style.legend_below(drawn, axes)
    style.save(drawn, path)


def main(folder: Path = RESULTS, subsets: int = 5) -> None:
    """Compute what is missing, then numbers and picture."""
    rows = aggregate(run(folder / "kernels_raw.csv", KEYS, cells(subsets), estimate))
    save(folder / "kernels.csv", COLUMNS, rows)
    draw(load(folder / "kernels.csv"), folder / "kernels.png")
