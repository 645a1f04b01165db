"""Pictures of real predictions: every method against n, a panel a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments import style
from experiments.cells import RESULTS, Row, group, load

COLUMNS = 5
LABELS = {**style.LABELS, ("binary", "l2"): "one probability, squared error"}
LABELS["binary", "kl"] = "one probability, KL"


def draw(rows: list[Row], title: str, path: Path) -> None:
    """Means and 95% intervals against n, with the proxy truth."""
    panels = group(rows, "dataset", "model")
    height = -(-len(panels) // COLUMNS)
    drawn, axes = style.figure(height, min(COLUMNS, len(panels)), width=2.7, height=2.3)
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    for ax, ((dataset, model), own) in zip(axes.flat, panels.items(), strict=False):
        _panel(ax, own)
        ax.set_title(f"{dataset}\n{str(model)[:28]}", fontsize="small")
    for ax in axes[:, 0]:
        ax.set_ylabel("error x 100")
    drawn.suptitle(f"Estimates against n: {title}")
    style.legend_below(drawn, axes)
    style.save(drawn, path)


def _panel(ax: Any, rows: list[Row]) -> None:
    for (method,), own in group(rows, "method").items():
        if method not in style.LOOK:
            continue
        name, colour, mark = style.LOOK[str(method)]
        points = sorted(own, key=lambda row: float(row["n"]))
        n, mean, low, high = (
            np.array([float(row[key]) for row in points])
            for key in ("n", "mean_x100", "low_x100", "high_x100")
        )
        ax.plot(n, mean, color=colour, marker=mark, markersize=3, label=name)
        ax.fill_between(n, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.axhline(float(rows[0]["truth_x100"]), color="black", linestyle="--", label="proxy truth")
    ax.set_xscale("log")
    shown = [row for row in rows if row["method"] in style.LOOK]
    keys = ("mean_x100", "truth_x100")
    style.error_scale(ax, [float(row[key]) for row in shown for key in keys])
    ax.set_xlabel("n", fontsize="small")


def _is_drawn(row: Row) -> bool:
    """One kind of bins a picture: for canonical errors ten a class."""
    return (row["notion"], row["method"]) != ("canonical", "equal-width-15")


def main(folder: Path = RESULTS) -> None:
    """One picture a notion and divergence."""
    points = [row for row in load(folder / "real_finite.csv") if _is_drawn(row)]
    for (notion, divergence), rows in group(points, "notion", "divergence").items():
        title = LABELS[str(notion), str(divergence)]
        draw(rows, title, folder / f"real_{notion}_{divergence}.png")
