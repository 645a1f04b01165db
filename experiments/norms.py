"""Norms of R - f: errors beside those of a published study, and coverage of their intervals.

Run: python -m experiments.norms [--repetitions 40] [--seeds 10] [--report]

The first table has the families of E. Berta, S. Braun, D. Holzmüller, F. Bach, M. I. Jordan: A
Variational Estimator for Lp Calibration Errors (arXiv 2602.24230, 2026), as defined in the code of
that study (github.com/ElSacho/Evaluating_Lp_Calibration_Errors, calibration_generators.py). The
numbers of its estimators are means of |estimate - truth| over the ten runs of its tables
(results/synthetic_binary_V7.csv and synthetic_multiclass_V7.csv there): boosted trees that start
from the logits, isotonic regression (one-versus-rest for vectors), and the best of its ten
estimators and of bins in each row. Binary errors are E|R - f|, others E of the length of R - f.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import numpy as np
from scipy.special import expit, logit, softmax

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.datasets import FAMILIES, HELD_OUT, SyntheticData
from riskalign.equations.arrays import FloatArray

PUBLISHED, COVERAGE = RESULTS / "norms_published.csv", RESULTS / "norms_coverage.csv"
KEYS = ("family", "classes", "samples", "seed")
ASKED = (("binary", "l1", 2), ("classwise", "l1", 4), ("canonical", "l1", 4),
         ("canonical", "euclidean", 4))  # fmt: skip
POPULATION = 200_000
EVERY = FAMILIES | HELD_OUT
"""The families of `riskalign.datasets`; no rule of an estimator was chosen on the latter."""

Map = Callable[[FloatArray], FloatArray]


def _two_waves(p: FloatArray) -> FloatArray:
    """Two sines on top of the diagonal, of 5 and of 20/3 periods."""
    wave: FloatArray = 2 * np.sin(10 * np.pi * p) + np.sin(40 / 3 * np.pi * p)
    return p + wave / (10 * np.pi)


def _harmonic(f: FloatArray) -> FloatArray:
    """Every logit moves by half a sine of itself."""
    logits = np.log(np.maximum(f, 1e-300))
    distorted: FloatArray = softmax(logits + 0.5 * np.sin(5 * logits), axis=1)
    return distorted


def _power(exponent: float) -> Map:
    return lambda f: softmax(exponent * np.log(np.maximum(f, 1e-300)), axis=1)


BINARY: dict[str, Map] = {
    "calibrated": lambda p: p,
    "almost calibrated": lambda p: np.minimum(p + 0.02, 1.0),
    "over-confident": lambda p: expit(0.4 * logit(p) + 0.3),
    "under-confident": lambda p: expit(4 * logit(p) + 1),
    "wavy": _two_waves,
}
"""E[y | p] of one probability p from Beta(1/2, 1/2)."""

VECTORS: dict[str, Map] = {
    "calibrated": lambda f: f,
    "over-confident": _power(0.3),
    "under-confident": _power(2.0),
    "harmonic": _harmonic,
}
"""E[y | f] of vectors f from Dirichlet(1/2, ..., 1/2)."""

THEIRS = {
    # (family, K, n): (boosted trees, isotonic, best of all)
    ("calibrated", 2, 1069): (0.0135, 0.0151, 0.0093),
    ("calibrated", 2, 10000): (0.0028, 0.0031, 0.0023),
    ("almost calibrated", 2, 1069): (0.0186, 0.0179, 0.0155),
    ("almost calibrated", 2, 10000): (0.0041, 0.0062, 0.0025),
    ("over-confident", 2, 1069): (0.0097, 0.0129, 0.0069),
    ("over-confident", 2, 10000): (0.0041, 0.0042, 0.0041),
    ("under-confident", 2, 1069): (0.0056, 0.0088, 0.0043),
    ("under-confident", 2, 10000): (0.0024, 0.0023, 0.0021),
    ("wavy", 2, 1069): (0.0291, 0.0312, 0.0039),
    ("wavy", 2, 10000): (0.0049, 0.0058, 0.0049),
    ("calibrated", 3, 1069): (0.0180, 0.0166, 0.0138),
    ("calibrated", 3, 10000): (0.0053, 0.0074, 0.0031),
    ("over-confident", 3, 1069): (0.0090, 0.0084, 0.0078),
    ("over-confident", 3, 10000): (0.0049, 0.0041, 0.0036),
    ("under-confident", 3, 1069): (0.0183, 0.0185, 0.0113),
    ("under-confident", 3, 10000): (0.0037, 0.0024, 0.0024),
    ("harmonic", 3, 1069): (0.0465, 0.0401, 0.0136),
    ("harmonic", 3, 10000): (0.0144, 0.0167, 0.0124),
    ("calibrated", 10, 1069): (0.0157, 0.0149, 0.0056),
    ("calibrated", 10, 10000): (0.0069, 0.0050, 0.0031),
    ("over-confident", 10, 1069): (0.0093, 0.0118, 0.0081),
    ("over-confident", 10, 10000): (0.0029, 0.0025, 0.0022),
    ("under-confident", 10, 1069): (0.0489, 0.0176, 0.0113),
    ("under-confident", 10, 10000): (0.0127, 0.0083, 0.0028),
    ("harmonic", 10, 1069): (0.1112, 0.0530, 0.0128),
    ("harmonic", 10, 10000): (0.1110, 0.0173, 0.0173),
}
"""Published mean absolute errors."""


def draw(family: str, classes: int, n: int, generator: np.random.Generator) -> SyntheticData:
    """A data set of the published study."""
    if classes == 2:
        p = np.clip(generator.beta(0.5, 0.5, n), 1e-15, 1 - 1e-15)
        true = np.clip(BINARY[family](p), 0.0, 1.0)
        f, R = np.column_stack([1 - p, p]), np.column_stack([1 - true, true])
    else:
        f = generator.dirichlet(np.full(classes, 0.5), n)
        R = VECTORS[family](f)
    labels = (np.cumsum(R, axis=1)[:, :-1] < generator.random((n, 1))).sum(axis=1)
    return SyntheticData(labels.astype(np.intp), f, R, lambda n, g: (R, f))


def published_cells(seeds: int) -> Iterator[Row]:
    """Every row of the published table."""
    for seed, (family, classes, n) in product(range(seeds), THEIRS):
        yield dict(zip(KEYS, (family, float(classes), float(n), float(seed)), strict=True))


@cache
def population(family: str, classes: int) -> float:
    """The norm of the population, of the published study."""
    data = draw(family, classes, POPULATION, np.random.default_rng(0))
    notion, norm = ("binary", "l1") if classes == 2 else ("canonical", "euclidean")
    return data.truth(notion, norm=norm)


def published(cell: Row) -> list[Row]:
    """Our estimate of one cell of the published study."""
    family, (classes, n, seed) = str(cell["family"]), (int(cell[key]) for key in KEYS[1:])
    generator = np.random.default_rng([1, seed, classes, n, len(family)])
    data = draw(family, classes, n, generator)
    notion, norm = ("binary", "l1") if classes == 2 else ("canonical", "euclidean")
    result = ra.calibration_error(
        data.y_true, data.y_prob, notion=notion, norm=norm, confidence=0.95, progress=False
    )
    assert result.interval is not None
    low, high = result.interval
    truth = population(family, classes)
    return [{"truth": truth, "value": result.value, "low": low, "high": high}]


def coverage_cells(repetitions: int) -> Iterator[Row]:
    """Every family of `riskalign.datasets`, for two sizes."""
    for seed, n, family in product(range(repetitions), (500, 2_000), EVERY):
        for notion, norm, classes in ASKED:
            values = (family, float(classes), float(n), float(seed))
            yield dict(zip(KEYS, values, strict=True)) | {"notion": notion, "norm": norm}


@cache
def truths(family: str, classes: int, notion: str, norm: str) -> tuple[float, float, float]:
    """The norm of the population, and of one probability its two sides."""
    data = EVERY[family](POPULATION, classes, 5)
    whole = data.truth(notion, norm=norm, given="marginal")
    if notion != "binary":
        return whole, np.nan, np.nan
    gap = (data.y_prob - data.conditional)[:, 1]
    return whole, float(np.maximum(gap, 0).mean()), float(np.maximum(-gap, 0).mean())


def coverage(cell: Row) -> list[Row]:
    """The intervals of one data set: the norm, too high, too low."""
    family, notion, norm = (str(cell[key]) for key in ("family", "notion", "norm"))
    classes, n, seed = (int(cell[key]) for key in KEYS[1:])
    number = 10**6 * (20 + list(EVERY).index(family)) + 10_000 * classes + n + 7 * seed
    data = EVERY[family](n, classes, number)
    result = ra.calibration_error(
        data.y_true, data.y_prob, notion=notion, norm=norm, confidence=0.95, progress=False
    )
    whole, high, low = truths(family, classes, notion, norm)
    parts = {"whole": (result.value, result.interval, whole)}
    if notion == "binary":
        assert result.too_high is not None
        assert result.too_low is not None
        parts["too high"] = (result.too_high.value, result.too_high.interval, high)
        parts["too low"] = (result.too_low.value, result.too_low.interval, low)
    rows: list[Row] = []
    for name, (value, ends, true) in parts.items():
        assert ends is not None
        rows.append({"part": name, "truth": true, "value": value, "low": ends[0], "high": ends[1]})
    return rows


def table_of_published(rows: list[Row]) -> str:
    """Mean absolute errors beside the published ones."""
    header = ["family", "K", "n", "truth", "riskalign", "bias", "covered",
              "boosted trees", "isotonic", "best published"]  # fmt: skip
    lines = []
    for (family, classes, n), own in group(rows, "family", "classes", "samples").items():
        off = np.array([float(row["value"]) - float(row["truth"]) for row in own])
        inside = [float(r["low"]) <= float(r["truth"]) <= float(r["high"]) for r in own]
        theirs = THEIRS[str(family), int(classes), int(n)]
        error = np.abs(off).std(ddof=1) / np.sqrt(len(off)) if len(off) > 1 else np.nan
        lines.append(
            [str(family), f"{classes:.0f}", f"{n:,.0f}", f"{float(own[0]['truth']):.4f}",
             f"{np.abs(off).mean():.4f} ± {error:.4f}", f"{off.mean():+.4f}",
             f"{sum(inside)} of {len(own)}", *(f"{x:.4f}" for x in theirs)]
        )  # fmt: skip
    return markdown(header, lines)


def table_of_coverage(rows: list[Row], *keys: str) -> str:
    """Coverage, false alarms (the lower end above the truth), bias and width."""
    header = [*keys, "intervals", "coverage", "lower end too high", "truth", "bias", "mean width",
              "3.92 sd"]  # fmt: skip
    lines = []
    for names, own in group(rows, *keys).items():
        value, low, high, true = (
            np.array([float(row[key]) for row in own]) for key in ("value", "low", "high", "truth")
        )
        rates = [np.mean((low <= true) & (true <= high)), np.mean(low > true)]
        shown = [f"{r:.3f} ± {np.sqrt(r * (1 - r) / len(own)):.3f}" for r in rates]
        cells = group(own, "family", "samples", "notion", "norm", "part").values()
        spread = np.mean(
            [3.92 * np.std([float(r["value"]) for r in c], ddof=1) for c in cells if len(c) > 1]
            or [np.nan]
        )
        lines.append(
            [*(f"{x:,.0f}" if isinstance(x, float) else str(x) for x in names), str(len(own)),
             *shown, f"{true.mean():.4f}", f"{(value - true).mean():+.4f}",
             f"{(high - low).mean():.4f}", f"{spread:.4f}"]
        )  # fmt: skip
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    if not options.report:
        run(PUBLISHED, KEYS, published_cells(options.seeds), published)
        keys = (*KEYS, "notion", "norm")
        run(COVERAGE, keys, coverage_cells(options.repetitions), coverage)
    rows = load(COVERAGE)
    chosen, held_out = (
        [row for row in rows if str(row["family"]) in families] for families in (FAMILIES, HELD_OUT)
    )
    parts = [
        "# Norms of R - f",
        "## Mean absolute errors beside a published study",
        table_of_published(load(PUBLISHED)),
        "## Coverage of 95% intervals",
        table_of_coverage(chosen, "notion", "norm", "part", "samples"),
        "### Families on which no rule of an estimator was chosen",
        table_of_coverage(held_out, "notion", "norm", "part", "samples"),
        "### By family",
        table_of_coverage(rows, "notion", "norm", "part", "family", "samples"),
    ]
    (RESULTS / "norms.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
