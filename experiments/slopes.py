"""What averaging slopes over some centres changes in canonical errors, in standard errors.

    python -m experiments.slopes [--report]

On a larger simplex with many rows, slopes of the fitted start are averaged over some of the centres
(`riskalign.smoothing.tiles.SOME`). Each line compares a value and its 95% interval with those where
all centres are used, on the same data, and the value of the kernels alone, before finer curves
are mixed in. Writes results/slopes.csv and results/slopes.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
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
CLASSES = (4, 10)
SEEDS = {10_000: (0,), 2_000: (0, 1)}
"""By the number of samples: the slopes of few samples are exact."""

CENTRES = (2 * tiles.SOME, tiles.SOME)
"""How many centres stand for all: twice as many as in the library, and as many."""

TO_REACH = 0.02
"""Standard errors that a value may move."""


def cells() -> Iterator[Row]:
    """Families, numbers of classes and samples, losses and seeds."""
    for samples, seeds in SEEDS.items():
        for seed, classes, loss, name in product(seeds, CLASSES, ("l2", "kl"), FAMILIES):
            values = (name, float(classes), float(samples), loss, float(seed))
            yield dict(zip(KEYS, values, strict=True))


def numbers(y: np.ndarray, f: np.ndarray, loss: str, centres: int) -> dict[str, float]:
    """The value of the kernels alone, the value, and its interval with the standard error."""
    alone: list[float] = []

    def mixed(estimates: list[Debiased]) -> list[Debiased]:
        alone.append(sum(each.mean(each.terms) for each in estimates))
        return finer.finer(estimates)

    with patch.object(tiles, "SOME", centres), patch.object(kernel, "finer", mixed):
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
    whole = numbers(y, f, loss, int(cell["samples"]))
    rows: list[Row] = []
    for centres in CENTRES if len(y) > max(CENTRES) else (tiles.SOME,):
        found = numbers(y, f, loss, centres)
        row: Row = {"centres": float(centres), "whole": whole["value"], "error": whole["error"]}
        for name in ("kernels", "value", "low", "high"):
            row[name] = (found[name] - whole[name]) / whole["error"]
        rows.append(row)
    return rows


def report(rows: list[Row]) -> str:
    """The largest differences of each family."""
    lines = []
    places = group(rows, "samples", "data", "classes", "centres")
    for (samples, name, classes, centres), own in places.items():
        largest = [
            f"{max(abs(float(row[of])) for row in own):.4f}"
            for of in ("kernels", "value", "low", "high")
        ]
        used = f"{min(float(centres), float(samples)):,.0f}"
        lines.append(
            [f"{samples:,.0f}", str(name), f"{classes:.0f}", used, str(len(own)), *largest]
        )
    used = [row for row in rows if row["centres"] == tiles.SOME]
    most = max(abs(float(row["value"])) for row in used)
    header = [
        "n",
        "data",
        "K",
        "centres",
        "comparisons",
        "kernels",
        "value",
        "lower end",
        "upper end",
    ]
    words = (
        "Canonical errors with slopes of the start averaged over some centres less those with all: "
        "the largest differences over losses and seeds, in standard errors. The library has "
        f"{tiles.SOME:,} centres, with which a value moves by at most {most:.4f}; to reach: "
        f"{TO_REACH}. Samples of 2,000 are averaged over all centres."
    )
    return f"# Slopes of canonical errors\n\n{words}\n\n{markdown(header, lines)}\n"


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(), compute)
    (RESULTS / "slopes.md").write_text(report(rows))


if __name__ == "__main__":
    main()
