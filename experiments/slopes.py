"""What shortcuts of canonical errors change, in standard errors.

    python -m experiments.slopes [--report]

On a larger simplex, slopes of the fitted start are averaged over some of the centres
(`riskalign.smoothing.tiles.SOME`), and curves that show little after one Newton step have no second
(`riskalign.methods.finer.GAINED`). Each line compares a value and its 95% interval with those
without both shortcuts, on the same data. The value of the kernels alone, before finer curves are
mixed in, is compared too. Writes results/slopes.csv and results/slopes.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.datasets import FAMILIES
from riskalign.methods import finer, kernel
from riskalign.methods.residuals import Debiased
from riskalign.smoothing import tiles

PATH = RESULTS / "slopes.csv"
KEYS = ("data", "classes", "samples", "loss", "seed")
SAMPLES = 10_000
CLASSES = (4, 10)
SEEDS = (0,)
CENTRES = (2 * tiles.SOME, tiles.SOME)
"""How many centres stand for all: twice as many as in the library, and as many."""

TO_REACH = 0.02
"""Standard errors that a value may move."""


def cells(samples: int) -> Iterator[Row]:
    """Families, numbers of classes, losses and seeds."""
    for seed in SEEDS:
        for classes in CLASSES:
            for loss in ("l2", "kl"):
                for name in FAMILIES:
                    values = (name, float(classes), float(samples), loss, float(seed))
                    yield dict(zip(KEYS, values, strict=True))


def numbers(
    y: np.ndarray, f: np.ndarray, loss: str, centres: float, gained: float
) -> dict[str, float]:
    """The value of the kernels alone, the value, and its interval with the standard error."""
    alone: list[float] = []

    def mixed(estimates: list[Debiased]) -> list[Debiased]:
        alone.append(sum(each.mean(each.terms) for each in estimates))
        return finer.finer(estimates)

    with (
        patch.object(tiles, "SOME", centres),
        patch.object(finer, "GAINED", gained),
        patch.object(kernel, "finer", mixed),
    ):
        found = ra.calibration_error(
            y, f, notion="canonical", loss=loss, confidence=0.95, progress=False
        )
    assert found.interval is not None
    assert found.standard_error is not None
    low, high = found.interval
    of_kernels, error = alone[0], found.standard_error
    return {"kernels": of_kernels, "value": found.value, "low": low, "high": high, "error": error}


def compute(cell: Row) -> list[Row]:
    """The differences of one cell, in standard errors, one row per number of centres."""
    data = FAMILIES[str(cell["data"])](
        int(cell["samples"]), int(cell["classes"]), int(cell["seed"])
    )
    y, f, loss = data.y_true, data.y_prob, str(cell["loss"])
    whole = numbers(y, f, loss, int(cell["samples"]), np.inf)
    rows: list[Row] = []
    for centres in CENTRES:
        found = numbers(y, f, loss, centres, finer.GAINED)
        row: Row = {"centres": float(centres), "whole": whole["value"], "error": whole["error"]}
        for name in ("kernels", "value", "low", "high"):
            row[name] = (found[name] - whole[name]) / whole["error"]
        rows.append(row)
    return rows


def report(rows: list[Row]) -> str:
    """The largest differences of each family."""
    lines = []
    for (name, classes, centres), own in group(rows, "data", "classes", "centres").items():
        largest = [
            f"{max(abs(float(row[of])) for row in own):.4f}"
            for of in ("kernels", "value", "low", "high")
        ]
        lines.append([str(name), f"{classes:.0f}", f"{centres:,.0f}", str(len(own)), *largest])
    used = [row for row in rows if row["centres"] == tiles.SOME]
    most = max(abs(float(row["value"])) for row in used)
    header = ["data", "K", "centres", "comparisons", "kernels", "value", "lower end", "upper end"]
    words = (
        "Canonical errors with slopes of the start averaged over some centres, and without a "
        "second Newton step of curves that show little after the first, less those without these "
        f"shortcuts: the largest differences over losses, in standard errors. n = {SAMPLES:,}. "
        f"The library has {tiles.SOME:,} centres, with which a value moves by at most {most:.4f}; "
        f"to reach: {TO_REACH}."
    )
    return f"# Shortcuts of canonical errors\n\n{words}\n\n{markdown(header, lines)}\n"


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(SAMPLES), compute)
    (RESULTS / "slopes.md").write_text(report(rows))


if __name__ == "__main__":
    main()
