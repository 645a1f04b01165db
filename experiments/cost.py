"""Cost against n: risk alignment, kernel ridge exactly, and kernel ridge at low rank.

Seconds are of the processor, so that other work on the machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import riskalign as ra
from experiments import ridge, style
from experiments.cells import RESULTS, Row, group, run
from experiments.synthetic import FULL, block
from riskalign.equations.arrays import FloatArray, IntArray

CLASSES = 8
SIZES = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
FEW, REPEATED = 2_000, 3
"""Up to so many samples, the least of so many times counts."""

KEYS = ("way", "n")


def _risk_alignment(notion: str) -> Callable[[IntArray, FloatArray], object]:
    return lambda y, f: ra.calibration_error(
        y, f, notion=notion, estimator="plugin", bandwidth="risk-alignment", progress=False
    )


WAYS: dict[str, tuple[Callable[[IntArray, FloatArray], object], int, str, str]] = {
    "risk alignment, class-wise": (_risk_alignment("classwise"), 16_000, "#56B4E9", "o"),
    "risk alignment, canonical": (_risk_alignment("canonical"), 16_000, "#0072B2", "s"),
    "kernel ridge, low rank": (ridge.squared_error, 16_000, "#CC79A7", "v"),
    "kernel ridge, exact": (
        lambda y, f: ra.calibration_error(y, f, notion="canonical", method=ra.KernelRidge()),
        4_000,
        "#D55E00",
        "^",
    ),
}
"""What is timed, the largest n, colour and mark."""


def cells(largest: int) -> Iterator[Row]:
    """Small sizes first."""
    for n in SIZES:
        for way, (_, most, _, _) in WAYS.items():
            if n <= min(most, largest):
                yield {"way": way, "n": float(n)}


def estimate(cell: Row) -> list[Row]:
    """Processor seconds of one estimate."""
    data, n = block(FULL.n, CLASSES, 1.0, 0.8, 0), int(cell["n"])
    estimated = WAYS[str(cell["way"])][0]
    estimated(data.y_true[:300], data.y_prob[:300])  # what is loaded once does not count
    seconds = []
    for _ in range(REPEATED if n <= FEW else 1):
        started = time.process_time()
        estimated(data.y_true[:n], data.y_prob[:n])
        seconds.append(time.process_time() - started)
    return [{"seconds": round(min(seconds), 4)}]


def exponent(rows: list[Row]) -> float:
    """Slope of log seconds against log n over the larger half of the sizes."""
    half = sorted(rows, key=lambda row: float(row["n"]))[len(rows) // 2 - 1 :]
    n, seconds = (np.log([float(row[key]) for row in half]) for key in ("n", "seconds"))
    return float(np.polyfit(n, seconds, 1)[0])


def draw(rows: list[Row], path: Path) -> None:
    """Seconds against n, both logarithmic."""
    drawn, axes = style.figure(1, 1, width=5.2, height=3.8)
    for (way,), own in group(rows, "way").items():
        _, _, colour, mark = WAYS[str(way)]
        n, seconds = ([float(row[key]) for row in own] for key in ("n", "seconds"))
        label = f"{way}: n^{exponent(own):.1f}"
        axes[0, 0].plot(n, seconds, color=colour, marker=mark, markersize=4, label=label)
    axes[0, 0].set(xscale="log", yscale="log", xlabel="samples n", ylabel="processor seconds")
    axes[0, 0].set_title(f"One estimate, K = {CLASSES}, squared error")
    axes[0, 0].legend(frameon=False, fontsize="small")
    style.save(drawn, path)


def main(folder: Path = RESULTS, largest: int = 16_000) -> None:
    """Time what is missing, then the picture."""
    draw(run(folder / "cost.csv", KEYS, cells(largest), estimate), folder / "cost.png")
