"""How much the default value varies when the predictions change by 1e-4 of themselves.

Run: python -m experiments.stability [--seeds 1] [--report]

Every probability is multiplied by 1 + 1e-4 z with a standard normal z, and the rows are made to
sum to one again; the labels stay. Every row of results/stability.csv is one data set, notion and
loss: the standard deviation of the value over 20 such changes and its farthest change, beside the
standard error of the value. The families are those on which rules were chosen and those that were
held out. results/stability.md is made from the table. To reach: a standard deviation of at most 0.1
standard errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.datasets import FAMILIES, HELD_OUT

PATH = RESULTS / "stability.csv"
KEYS = ("family", "classes", "seed", "notion", "samples")
EVERY = FAMILIES | HELD_OUT
SETTINGS = (
    ("classwise", 2, 2_000),
    ("classwise", 4, 2_000),
    ("classwise", 10, 2_000),
    ("binary", 2, 2_000),
    ("top-label", 4, 2_000),
    ("classwise", 4, 5_000),
)
"""Notions with numbers of classes and of samples."""

LOSSES = ("l2", "kl")
CHANGES, SIZE = 20, 1e-4
FIRST_SEED = 60_000
TO_REACH = 0.1


def cells(seeds: int) -> Iterator[Row]:
    """Every family in every setting."""
    for seed, (notion, classes, samples), family in product(range(seeds), SETTINGS, EVERY):
        values = (family, float(classes), float(seed), notion, float(samples))
        yield dict(zip(KEYS, values, strict=True))


def compute(cell: Row) -> list[Row]:
    """The spread of the value of one data set, by each loss."""
    family, seed = str(cell["family"]), int(cell["seed"])
    data = EVERY[family](int(cell["samples"]), int(cell["classes"]), FIRST_SEED + seed)
    generator = np.random.default_rng(seed)
    changed = []
    for _ in range(CHANGES):
        p = data.y_prob * (1 + SIZE * generator.standard_normal(data.y_prob.shape))
        changed.append(p / p.sum(axis=1, keepdims=True))
    options = {"notion": cell["notion"], "progress": False}
    rows: list[Row] = []
    for loss in LOSSES:
        whole = ra.calibration_error(
            data.y_true, data.y_prob, loss=loss, confidence=0.95, **options
        )
        values = [ra.calibration_error(data.y_true, p, loss=loss, **options).value for p in changed]
        assert whole.standard_error is not None
        rows.append(
            {
                "loss": loss,
                "value": whole.value,
                "standard_error": whole.standard_error,
                "sd": float(np.std(values, ddof=1)),
                "farthest": float(np.abs(np.array(values) - whole.value).max()),
            }
        )
    return rows


def report(rows: list[Row]) -> str:
    """One line per family and setting; the largest over seeds."""
    lines = []
    keys = ("family", "notion", "classes", "samples")
    for (family, notion, classes, samples), own in group(rows, *keys).items():
        shown = []
        for loss in LOSSES:
            its = [row for row in own if row["loss"] == loss]
            for name in ("sd", "farthest"):
                ratios = [float(row[name]) / float(row["standard_error"]) for row in its]
                shown.append(f"{max(ratios):.1g}")
        size = [f"{classes:.0f}", f"{samples:,.0f}"]
        lines.append([str(family), str(notion), *size, *shown])
    header = ["family", "notion", "K", "n"]
    header += [f"{loss}: {name}" for loss in LOSSES for name in ("sd", "farthest change")]
    spreads, farthest = (
        [float(row[name]) / float(row["standard_error"]) for row in rows]
        for name in ("sd", "farthest")
    )
    beyond = sum(spread > TO_REACH for spread in spreads)
    return (
        f"Probabilities changed {CHANGES} times by {SIZE:g} of themselves. Standard deviation and "
        "farthest change of the value, in standard errors, the largest over seeds; "
        f"{len(lines)} of {len(SETTINGS) * len(EVERY)} lines are computed. Largest standard "
        f"deviation: {max(spreads):.3f}, above {TO_REACH}: {beyond} of {len(spreads)}. Farthest "
        f"change of all: {max(farthest):.3f}.\n\n" + markdown(header, lines)
    )


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(options.seeds), compute)
    text = "# Stability of the default value\n\n" + report(rows) + "\n"
    (RESULTS / "stability.md").write_text(text)


if __name__ == "__main__":
    main()
