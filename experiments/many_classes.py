"""Canonical errors of many classes: bias, error beside the oracle's, memory and time.

Run: python -m experiments.many_classes [--repetitions 3] [--report]

Every row of results/many_classes.csv is one data set by one loss, in a process of its own, whose
peak memory is noted; results/many_classes.md is made from it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np

from experiments.cells import RESULTS, Row, group, load, markdown, run

PATH = RESULTS / "many_classes.csv"
KEYS = ("classes", "samples", "family", "loss", "seed")
SIZES = ((30, 500), (30, 2_000), (40, 2_000), (100, 2_000), (1_000, 2_000))
FAMILY_NAMES = ("calibrated", "class bias", "temperature")
FIRST_SEED = 720_000

ONE = """
import json, resource, sys, time
import riskalign as ra
from experiments.debiased import sampling_error
from riskalign.datasets import FAMILIES
family, classes, samples, loss, seed = json.loads(sys.argv[1])
data = FAMILIES[family](samples, classes, seed)
started = time.process_time()
result = ra.calibration_error(
    data.y_true, data.y_prob, notion="canonical", loss=loss, confidence=0.95, progress=False
)
seconds = time.process_time() - started
truth = data.truth("canonical", loss)
print(json.dumps({
    "truth": truth,
    "oracle": truth + sampling_error(data, "canonical", loss),
    "value": result.value, "low": result.interval[0], "high": result.interval[1],
    "seconds": round(seconds, 2),
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
}))
"""


def cells(repetitions: int) -> Iterator[Row]:
    """Every size and family, repetition by repetition."""
    for seed, size, family, loss in product(range(repetitions), SIZES, FAMILY_NAMES, ("l2", "kl")):
        values = (*map(float, size), family, loss, float(seed))
        yield dict(zip(KEYS, values, strict=True))


def compute(cell: Row) -> list[Row]:
    """One data set, in another process."""
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    asked = json.dumps([cell["family"], classes, samples, cell["loss"], FIRST_SEED + seed])
    command = [sys.executable, "-c", ONE, asked]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    row: Row = json.loads(answer.stdout)
    return [row]


def report(rows: list[Row]) -> str:
    """One line per size, family and loss."""
    header = [*KEYS[:-1], "data sets", "truth x 100", "value - oracle, x n"]
    header += ["mean absolute error x 100", "the oracle's", "covered", "seconds", "megabytes"]
    lines = []
    for names, own in group(rows, *KEYS[:-1]).items():
        columns = ("truth", "oracle", "value", "low", "high", "seconds", "megabytes")
        truth, oracle, value, low, high, seconds, size = (
            np.array([float(row[name]) for row in own]) for name in columns
        )
        off = float(own[0]["samples"]) * (value - oracle)
        error = np.std(off, ddof=1) / len(off) ** 0.5 if len(off) > 1 else np.nan
        shown = [f"{name:g}" if isinstance(name, float) else str(name) for name in names]
        lines.append(
            [
                *shown,
                str(len(own)),
                f"{100 * truth.mean():.3f}",
                f"{off.mean():+.2f} ± {error:.2f}",
                f"{100 * np.abs(value - truth).mean():.3f}",
                f"{100 * np.abs(oracle - truth).mean():.3f}",
                f"{np.mean((low <= truth) & (truth <= high)):.2f}",
                f"{np.median(seconds):.1f}",
                f"{size.max():.0f}",
            ]
        )
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(options.repetitions), compute)
    text = "# Canonical errors of many classes\n\n" + report(rows) + "\n"
    (RESULTS / "many_classes.md").write_text(text)


if __name__ == "__main__":
    main()
