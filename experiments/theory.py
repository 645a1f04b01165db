"""Section 5.2 by Monte Carlo: variance moves calibration and refinement, not their sum.

Predictions are fixed; labels are drawn again and again, R is smoothed at many bandwidths.
Biases are of the means over samples, against the mean of Var(R_i).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import riskalign as ra
from experiments import style
from experiments.cells import RESULTS, Row, group, load
from experiments.tables import save
from riskalign.equations.losses import LOSSES
from riskalign.equations.simplex import on_simplex
from riskalign.equations.terms import decompose

SAMPLES = 500
DRAWS = 300
BANDWIDTHS = np.geomspace(2e-4, 0.2, 13)
PARTS = ("calibration", "refinement", "risk")
COLUMNS = ("loss", "bandwidth", "variance", "smoothing", *PARTS, "se_calibration", "se_risk")


def study(loss: str, draws: int = DRAWS, bandwidths: np.ndarray = BANDWIDTHS) -> list[Row]:
    """Mean variance of R, and biases x 100, at every bandwidth."""
    data = ra.datasets.temperature(SAMPLES, 2, t2=0.6, seed=3)
    f, R = data.y_prob[:, 1], data.conditional[:, 1]
    labels = (np.random.default_rng(4).random((draws, SAMPLES)) < R).astype(int)
    points, true = on_simplex(f), on_simplex(R)
    exact = decompose(LOSSES[loss].binary, points, labels[0], true)
    oracle = np.array(
        [exact.plugin.mean(), exact.refinement.mean(), exact.reconstructed_risk.mean()]
    )
    return [_row(loss, float(h), f, R, labels, oracle) for h in bandwidths]


def _row(
    loss: str, h: float, f: np.ndarray, R: np.ndarray, labels: np.ndarray, oracle: np.ndarray
) -> Row:
    parts, smoothed = [], []
    for y in labels:
        result = ra.calibration_error(
            y,
            f,
            notion="binary",
            loss=loss,
            estimator="plugin",
            bandwidth=h,
            engine="exact",
            progress=False,
        )
        parts.append((result.value, result.refinement, result.reconstructed_risk))
        smoothed.append(result.conditional)
    gaps = 100 * (np.array(parts) - oracle)
    errors = gaps.std(axis=0, ddof=1) / len(labels) ** 0.5
    biases = dict(zip(PARTS, gaps.mean(axis=0).tolist(), strict=True))
    every = np.array(smoothed)
    return {
        "loss": loss,
        "bandwidth": h,
        "variance": 100 * float(every.var(axis=0, ddof=1).mean()),
        "smoothing": 100 * float(np.abs(every.mean(axis=0) - R).mean()),
        **biases,
        "se_calibration": float(errors[0]),
        "se_risk": float(errors[2]),
    }


def draw(rows: list[Row], path: Path) -> None:
    """Biases against the variance of R, a panel a loss."""
    drawn, axes = style.figure(1, 2, width=4.6, height=3.4)
    colours = dict(zip(PARTS, ("#D55E00", "#0072B2", "#009E73"), strict=True))
    marks = dict(zip(PARTS, "osD", strict=True))
    titles = {"l2": "squared error", "kl": "KL"}
    for ax, ((loss,), own) in zip(axes[0], group(rows, "loss").items(), strict=True):
        variance = [float(row["variance"]) for row in own]
        for part in PARTS:
            ax.plot(
                variance, [float(row[part]) for row in own], color=colours[part],
                marker=marks[part], markersize=4, label=f"bias of {part}",
            )  # fmt: skip
        if loss == "l2":  # the paper's formula has slope one; for KL it holds for small variances
            ends = np.array([0.0, max(variance)])
            ax.plot(ends, ends, color="black", linestyle=":", linewidth=1, label="± Var(R)")
            ax.plot(ends, -ends, color="black", linestyle=":", linewidth=1)
        ax.axhline(0, color="grey", linewidth=0.8)
        ax.set(xlabel="mean Var(R) x 100", ylabel="bias x 100", title=titles[str(loss)])
    drawn.suptitle("Smaller bandwidths to the right: the sum does not feel the variance")
    style.legend_below(drawn, axes)
    style.save(drawn, path)


def main(folder: Path = RESULTS, draws: int = DRAWS) -> None:
    """Numbers and picture; a table that is there is not made again."""
    path = folder / "theory.csv"
    if not path.exists():
        save(path, COLUMNS, [row for loss in ("l2", "kl") for row in study(loss, draws)])
    draw(load(path), folder / "theory.png")
