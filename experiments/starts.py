"""What the start of a debiased estimate is worth: f itself, its temperature, or "logistic".

Run: python -m experiments.starts [--repetitions 5] [--report]

Every row of results/starts.csv is one data set, smoothed from one start. The report,
results/starts.md, has the mean absolute error of each start over that of f itself, and how far
its values are off on average.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, geometric_mean, group, load, markdown, run
from riskalign.datasets import FAMILIES

PATH = RESULTS / "starts.csv"
KEYS = ("family", "classes", "notion", "seed", "start")
CLASSES = (4, 10)
SAMPLES = 2_000
STARTS = ("identity", "temperature", "logistic")
LOSSES = ("l2", "kl")

FIRST_SEED = 40_000
"""The starts were chosen on other data."""


def cells(repetitions: int) -> Iterator[Row]:
    """Repetition by repetition, so that a whole table is early."""
    for seed, notion, classes, family, start in product(
        range(repetitions), ("classwise", "canonical"), CLASSES, FAMILIES, STARTS
    ):
        yield dict(zip(KEYS, (family, float(classes), notion, float(seed), start), strict=True))


def compute(cell: Row) -> list[Row]:
    """The errors of one data set by both losses, and their truth."""
    notion, start = str(cell["notion"]), str(cell["start"])
    data = FAMILIES[str(cell["family"])](
        SAMPLES, int(cell["classes"]), FIRST_SEED + int(cell["seed"])
    )
    return [
        {
            "loss": loss,
            "truth": data.truth(notion, loss, given="marginal"),
            "value": ra.calibration_error(
                data.y_true,
                data.y_prob,
                notion=notion,
                loss=loss,
                estimator="debiased",
                start=start,
            ).value,
        }
        for loss in LOSSES
    ]


def report(rows: list[Row], notion: str) -> str:
    """One line a family; ratios are geometric means over classes and losses."""
    lines = []
    for (family,), own in group((r for r in rows if r["notion"] == notion), "family").items():
        by_start = {start: part for (start,), part in group(own, "start").items()}
        ratios = [_ratio(by_start[start], by_start["identity"]) for start in STARTS[1:]]
        off = [
            _off([r for r in by_start[s] if r["loss"] == loss]) for s in STARTS for loss in LOSSES
        ]
        lines.append([str(family), *ratios, *off])
    header = ["family", *(f"{start}: error over identity's" for start in STARTS[1:])]
    header += [f"{start}, {loss}: value - truth, x 100" for start in STARTS for loss in LOSSES]
    seeds = {row["seed"] for row in rows}
    return f"## {notion}, n = {SAMPLES:,}, {len(seeds)} data sets a cell\n\n" + markdown(
        header, lines
    )


def _ratio(rows: list[Row], others: list[Row]) -> str:
    one, other = (group(each, "classes", "loss") for each in (rows, others))
    return f"{geometric_mean([_error(one[cell]) / _error(other[cell]) for cell in one]):.2f}"


def _error(rows: list[Row]) -> float:
    return float(np.mean([abs(float(row["value"]) - float(row["truth"])) for row in rows]))


def _off(rows: list[Row]) -> str:
    gaps = [100 * (float(row["value"]) - float(row["truth"])) for row in rows]
    return f"{np.mean(gaps):+.2f} ± {np.std(gaps, ddof=1) / len(gaps) ** 0.5:.2f}"


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(options.repetitions), compute)
    parts = ["# Starts of the debiased estimate"]
    parts += [report(rows, notion) for notion in ("classwise", "canonical")]
    (RESULTS / "starts.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
