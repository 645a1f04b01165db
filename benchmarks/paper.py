"""What sketches cost on paper: one update, and the state, by classes and rows.

    python -m benchmarks.paper        (writes benchmarks/PAPER.md)

Measures `update` in CPU seconds of one thread, the state in memory and its bytes on rows of a
softmax of normal logits, and works out what 1e9 and 1e12 rows take: rows times the measured time,
and the most that the state can ever be (every cell of every class filled). Nothing else grows with
the number of rows.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy.special import softmax

import riskalign as ra
from benchmarks.run import machine

CASES = (
    (2, "binary", 4_000_000),
    (1_000, "top-label", 20_000),
    (1_000, "classwise", 20_000),
    (1_000, "canonical", 20_000),
    (50_000, "top-label", 400),
    (50_000, "classwise", 400),
    (50_000, "canonical", 400),
)
"""Classes, notion, and rows that are measured."""

BATCH = 8_000_000
"""Numbers that an update takes at a time."""

PER_CELL = 24
"""Bytes of a cell: its code, its count and the sum of its offsets."""


def rows_of(
    n: int, n_classes: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions."""
    if n_classes == 2:
        p = generator.beta(0.5, 0.5, n)
        return (generator.random(n) < p).astype(np.int8), p
    p = softmax(2 * generator.standard_normal((n, n_classes)), axis=1)
    return p.argmax(axis=1), p


def largest_state(sketch: ra.CalibrationSketch) -> int:
    """Bytes of a state whose cells and rows are all filled."""
    state, settings = sketch._state, sketch._state.settings
    row = 8 * settings.width + 32  # hash, label, weight and count beside the predictions
    cells = 0 if state.counts is None else 2 * settings.n_problems * state.counts.cells.n_slots
    top = 0 if state.top is None else 2 * state.top.cells.n_slots
    return 2 * settings.limit * row + PER_CELL * (cells + top)


def measured(n_classes: int, notion: str, n: int) -> tuple[float, ra.CalibrationSketch]:
    """CPU seconds per row, and the sketch."""
    generator = np.random.default_rng(0)
    classes = None if n_classes == 2 else n_classes
    sketch = ra.CalibrationSketch(notion=notion, classes=classes)
    step = max(1, BATCH // n_classes)
    seconds = 0.0
    for start in range(0, n, step):
        y, p = rows_of(min(step, n - start), n_classes, generator)
        before = time.process_time()
        sketch.update(y, p)
        seconds += time.process_time() - before
    return seconds / n, sketch


def bytes_in_words(size: float) -> str:
    """A size with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def time_in_words(seconds: float) -> str:
    """A time with its unit."""
    for unit, length in (("s", 1), ("min", 60), ("h", 3600), ("days", 86400)):
        if seconds < 100 * length or unit == "days":
            return f"{seconds / length:.3g} {unit}"
    raise AssertionError


def main() -> None:
    """Measure, and write the table."""
    head = [
        "# What a sketch costs",
        "",
        f"`python -m benchmarks.paper` on: {machine()}.",
        "",
        "CPU time of one thread; divide it by the cores of a cluster. The state is that of the",
        "rows measured, and the most it can ever be.",
        "",
        "| classes | notion | rows measured | update, per row | state | as bytes | largest state "
        "| 1e9 rows | 1e12 rows |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines = []
    for n_classes, notion, n in CASES:
        seconds, sketch = measured(n_classes, notion, n)
        lines.append(
            f"| {n_classes:,} | {notion} | {n:,} | {1e6 * seconds:.3g} µs | "
            f"{bytes_in_words(sketch.nbytes)} | {bytes_in_words(len(sketch.to_bytes()))} | "
            f"{bytes_in_words(largest_state(sketch))} | {time_in_words(1e9 * seconds)} | "
            f"{time_in_words(1e12 * seconds)} |"
        )
        print(lines[-1], flush=True)
    (Path(__file__).parent / "PAPER.md").write_text("\n".join(head + lines) + "\n")


if __name__ == "__main__":
    main()
