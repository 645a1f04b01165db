"""Size and power of the test of calibration, beside four rivals.

Run: python -m experiments.size_power [--repetitions 100] [--samples 200 1000] [--report]

All tests draw the same labels from the predictions, so all have exact size. The rivals judge the
top label (for two classes, the second one's probability): a chi-square test and the ECE with 15
bins of equal mass, and Kuiper's range of cumulative differences; the squared kernel calibration
error (SKCE; Widmann, Lindsten, Zachariah, NeurIPS 2019) judges the whole vector, with an
exponential kernel whose scale is the median distance. The statistics of the test were chosen on
seeds from 900,000 on; those of this study are others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import pdist, squareform

import riskalign as ra
from experiments.cells import RESULTS, Row, group, markdown, run
from riskalign.datasets import FAMILIES
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.inference.calibration_test import rank_p_values
from riskalign.inference.null import draw_labels
from riskalign.inference.views import groups_of

PATH = RESULTS / "size_power.csv"
KEYS = ("family", "classes", "samples", "seed")
DRAWS = 199
BINS = 15
RIVALS = ("chi-square", "ECE", "Kuiper", "SKCE")


def cells(repetitions: int, samples: list[int]) -> Iterator[Row]:
    """The calibrated family, for the size, four times as often as the others."""
    for seed in range(4 * repetitions):
        for n in samples:
            for classes in (2, 4, 10):
                for family in FAMILIES:
                    if family == "calibrated" or seed < repetitions:
                        values = (family, float(classes), float(n), float(seed))
                        yield dict(zip(KEYS, values, strict=True))


def rivals(f: FloatArray, labels: IntArray) -> FloatArray:
    """Their statistics for label sets ``(n, B)``, ``(4, B)``."""
    n, n_classes = f.shape
    top = np.ones(n, dtype=np.intp) if n_classes == 2 else f.argmax(axis=1)
    p = f[np.arange(n), top]
    residuals = (labels == top[:, None]) - p[:, None]  # (n, B)
    bins = groups_of(p, BINS)
    member = np.eye(bins.max() + 1)[:, bins]  # (bins, n)
    gaps = member @ residuals
    variance = np.maximum(member @ (p * (1 - p)), 1e-12)
    steps = np.cumsum(residuals[np.argsort(p, kind="stable")], axis=0)
    kuiper = np.maximum(steps.max(axis=0), 0) - np.minimum(steps.min(axis=0), 0)
    chi_square = (gaps**2 / variance[:, None]).sum(axis=0)
    return np.stack([chi_square, np.abs(gaps).sum(axis=0), kuiper, skce(f, labels)])


def skce(f: FloatArray, labels: IntArray) -> FloatArray:
    """The squared kernel calibration error without its diagonal, up to a factor, ``(B,)``."""
    distances = pdist(f)
    kernel = squareform(np.exp(-distances / np.median(distances)))
    total = np.zeros(labels.shape[1])
    for k in range(f.shape[1]):
        residuals = (labels == k) - f[:, [k]]
        total += np.einsum("nb,nb->b", residuals, kernel @ residuals)
    return total


def compute(cell: Row) -> list[Row]:
    """All p-values for one data set."""
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    data = FAMILIES[str(cell["family"])](samples, classes, 500_000 + seed)
    notion = "binary" if classes == 2 else "classwise"
    test = ra.calibration_test(
        data.y_true, data.y_prob, notion=notion, n_draws=DRAWS, seed=seed, progress=False
    )
    drawn = draw_labels(data.y_prob, DRAWS, np.random.default_rng(seed + 1))
    table = rivals(data.y_prob, np.column_stack([data.y_true, drawn]))
    others = rank_p_values(table)[:, 0].tolist()
    return [{"riskalign": test.p_value, **dict(zip(RIVALS, others, strict=True))}]


def report(rows: list[Row]) -> str:
    """Rejection rates with standard errors, and by how much the best rival is better."""
    header = ["family", "K", "n", "data sets", "riskalign", *RIVALS, "shortfall"]
    lines, shortfalls = [], []
    for (family, classes, samples), own in group(rows, "family", "classes", "samples").items():
        rates = {
            name: float(np.mean([float(row[name]) <= 0.05 for row in own]))
            for name in ("riskalign", *RIVALS)
        }
        shown = [f"{r:.3f} ± {np.sqrt(r * (1 - r) / len(own)):.3f}" for r in rates.values()]
        shortfall = ""
        if family != "calibrated":
            shortfalls.append(max(rates[name] for name in RIVALS) - rates["riskalign"])
            shortfall = f"{shortfalls[-1]:+.3f}"
        lines.append(
            [str(family), f"{classes:.0f}", f"{samples:.0f}", str(len(own)), *shown, shortfall]
        )
    positive = np.maximum(shortfalls, 0.0)
    summary = (
        f"Shortfall of power at 5% against the best rival in each cell: mean {positive.mean():.3f} "
        f"(cells where the test is better count as 0), worst {max(shortfalls):.3f}."
    )
    return markdown(header, lines) + "\n\n" + summary


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 1_000])
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    wanted = [] if options.report else cells(options.repetitions, options.samples)
    rows = run(PATH, KEYS, wanted, compute)
    text = "# Size (calibrated) and power of the test of calibration at 5%\n\n" + report(rows)
    (RESULTS / "size_power.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
