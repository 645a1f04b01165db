"""Size and power of the test of calibration, beside a test by 15 bins.

Run: python -m experiments.size_power [--repetitions 200] [--report]

Both tests draw labels from the predictions; the binned one compares the debiased squared
error of 15 bins of equal width, summed over classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, group, markdown, run
from riskalign.datasets import FAMILIES
from riskalign.equations.arrays import FloatArray
from riskalign.inference.null import draw_labels

PATH = RESULTS / "size_power.csv"
KEYS = ("family", "classes", "samples", "seed")
DRAWS = 199
BINS = 15


def cells(repetitions: int) -> Iterator[Row]:
    """The calibrated family, for the size, three times as often as the others."""
    for seed in range(repetitions):
        for classes, samples in ((2, 200), (4, 200), (10, 500)):
            for family in FAMILIES:
                if family == "calibrated" or seed < repetitions // 3:
                    values = (family, float(classes), float(samples), float(seed))
                    yield dict(zip(KEYS, values, strict=True))


def binned(y: FloatArray, f: FloatArray) -> float:
    """Debiased squared gaps of bins of equal width, for labels ``(n, K)``."""
    total = 0.0
    for k in range(f.shape[1]):
        bins = np.minimum((f[:, k] * BINS).astype(int), BINS - 1)
        counts = np.bincount(bins, minlength=BINS)
        gaps = np.bincount(bins, y[:, k] - f[:, k], BINS)
        means = np.bincount(bins, y[:, k], BINS) / np.maximum(counts, 1)
        noise = means * (1 - means) / np.maximum(counts - 1, 1) * counts
        full = counts > 1
        total += float(np.sum(gaps[full] ** 2 / counts[full] - noise[full]))
    return total


def binned_p_value(labels: FloatArray, f: FloatArray, seed: int) -> float:
    """The test by bins, with drawn labels."""
    identity = np.eye(f.shape[1])
    observed = binned(identity[labels], f)
    draws = draw_labels(f, DRAWS, np.random.default_rng(seed))
    drawn = [binned(identity[column], f) for column in draws.T]
    return (1 + sum(value >= observed for value in drawn)) / (1 + DRAWS)


def compute(cell: Row) -> list[Row]:
    """Both p-values for one data set."""
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    data = FAMILIES[str(cell["family"])](samples, classes, 500_000 + seed)
    test = ra.calibration_test(
        data.y_true, data.y_prob, notion="classwise", n_draws=DRAWS, seed=seed, engine="grid"
    )
    by_bins = binned_p_value(data.y_true, data.y_prob, seed + 1)
    return [{"kernel": test.p_value, "bins": by_bins}]


def report(rows: list[Row]) -> str:
    """Rejection rates with standard errors."""
    header = ["family", "K", "n", "data sets", "kernel, 5%", "bins, 5%", "kernel, 1%", "bins, 1%"]
    lines = []
    for (family, classes, samples), own in group(rows, "family", "classes", "samples").items():
        rates = []
        for level in (0.05, 0.01):
            for test in ("kernel", "bins"):
                rate = np.mean([float(row[test]) <= level for row in own])
                rates.append(f"{rate:.3f} ± {np.sqrt(rate * (1 - rate) / len(own)):.3f}")
        shown = [rates[0], rates[1], rates[2], rates[3]]
        lines.append([str(family), f"{classes:.0f}", f"{samples:.0f}", str(len(own)), *shown])
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    wanted = [] if options.report else cells(options.repetitions)
    rows = run(PATH, KEYS, wanted, compute)
    text = "# Size (calibrated) and power of the test of calibration\n\n" + report(rows) + "\n"
    (RESULTS / "size_power.md").write_text(text)


if __name__ == "__main__":
    main()
