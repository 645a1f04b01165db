"""Errors of the debiased estimate and of its rivals on data whose truth is known.

Run: python -m experiments.debiased [--repetitions 3] [--max-samples 10000] [--report]

Every row of results/debiased.csv is one data set: a family, a size, a notion, a loss and a
seed. The report, results/debiased.md, is made from it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, geometric_mean, group, load, markdown, run
from riskalign.datasets import FAMILIES, SyntheticData
from riskalign.equations.losses import LOSSES
from riskalign.equations.simplex import on_simplex

PATH = RESULTS / "debiased.csv"
KEYS = ("family", "classes", "samples", "notion", "seed")
LOSS_NAMES = ("l2", "kl")
CLASSES = (2, 4, 10, 30)
SAMPLES = (500, 2_000, 10_000)
NOTIONS = ("classwise", "canonical")
METHODS = {
    "plugin": {"estimator": "plugin", "bandwidth": "risk-alignment"},
    "debiased": {"estimator": "debiased"},
}
"""The paper's plug-in, and the default."""

ALL_CELLS = len(FAMILIES) * len(CLASSES) * len(SAMPLES) * len(NOTIONS) * len(LOSS_NAMES)
"""A table with fewer lacks the dearest: canonical errors of 10,000 samples."""

FIRST_SEED = 20_000
"""The rules of the debiased estimate were chosen on other data."""


def cells(repetitions: int, max_samples: int) -> Iterator[Row]:
    """Cells, repetition by repetition and small before large, so that a whole table is early."""
    for seed in range(repetitions):
        for samples in (n for n in SAMPLES if n <= max_samples):
            for notion in NOTIONS:
                for classes in CLASSES:
                    for family in FAMILIES:
                        values = (family, float(classes), float(samples), notion, float(seed))
                        yield dict(zip(KEYS, values, strict=True))


def compute(cell: Row) -> list[Row]:
    """The truth and every method's estimate for one data set, by each loss."""
    family, notion = str(cell["family"]), str(cell["notion"])
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    data = FAMILIES[family](samples, classes, FIRST_SEED + seed)
    return [_row(data, notion, loss) for loss in LOSS_NAMES]


def _row(data: SyntheticData, notion: str, loss: str) -> Row:
    row: Row = {
        "loss": loss,
        "joint": data.truth(notion, loss),
        "marginal": data.truth(notion, loss, given="marginal"),
    }
    engine = "grid" if notion == "classwise" else "auto"
    row["oracle"] = float(row["joint"]) + sampling_error(data, notion, loss)
    for name, options in METHODS.items():
        started = time.perf_counter()
        result = ra.calibration_error(
            data.y_true, data.y_prob, notion=notion, loss=loss, engine=engine, **options
        )
        row[name] = result.value
        row[f"{name} seconds"] = round(time.perf_counter() - started, 3)
    return row


def sampling_error(data: SyntheticData, notion: str, loss: str) -> float:
    """Error of an estimator that knows E[y | f] and averages <y, l(f) - l(R)>."""
    form = LOSSES[loss] if notion == "canonical" else LOSSES[loss].binary
    total = 0.0
    columns = [None] if notion == "canonical" else range(data.y_prob.shape[1])
    y = np.eye(data.y_prob.shape[1])[data.y_true]
    for k in columns:
        f, R, labels = (
            (v if k is None else on_simplex(v[:, k])) for v in (data.y_prob, data.conditional, y)
        )
        total += float(np.mean(np.sum((labels - R) * (form(f) - form(R)), axis=1)))
    return total


def errors(rows: list[Row], method: str, truth: str) -> float:
    """Mean absolute error of a method, 0 for the estimator that always answers 0."""
    values = [0.0 if method == "zero" else float(row[method]) for row in rows]
    return float(np.mean([abs(v - float(row[truth])) for v, row in zip(values, rows, strict=True)]))


def report(rows: list[Row], truth: str) -> str:
    """Ratios to the plug-in's mean absolute error, as geometric means."""
    methods = [name for name in METHODS if name != "plugin"]
    by_cell = group(rows, "family", "classes", "samples", "notion", "loss")
    ratios = {
        (method, cell): errors(own, method, truth) / errors(own, "plugin", truth)
        for cell, own in by_cell.items()
        for method in [*methods, "oracle", "zero"]
    }

    def mean_over(method: str, **fixed: object) -> str:
        names = ("family", "classes", "samples", "notion", "loss")
        chosen = [
            ratio
            for (m, cell), ratio in ratios.items()
            if m == method and all(_fits(dict(zip(names, cell, strict=True)), fixed))
        ]
        # The oracle (and the null row) have no error at all on calibrated models.
        chosen = [ratio for ratio in chosen if ratio > 0]
        if not chosen:
            return "0"
        mean = geometric_mean(chosen)
        # Cells are independent but for the losses and notions that share a data set.
        return f"{mean:.2f} ± {mean * np.std(np.log(chosen)) / len(chosen) ** 0.5:.2f}"

    header = ["", *methods, "oracle", "always 0"]
    shown = [*methods, "oracle", "zero"]
    lines = []
    for title, fixed in _slices():
        lines.append([title, *(mean_over(method, **fixed) for method in shown)])
    repetitions = min(len(own) for own in by_cell.values())
    most = max(len(own) for own in by_cell.values())
    return (
        f"Truth: {truth}. {len(by_cell)} of {ALL_CELLS} cells, {repetitions} to {most} runs each. "
        "Mean absolute error over the plug-in's, geometric means ± standard errors over cells.\n\n"
        + markdown(header, lines)
    )


def _fits(cell: dict[str, object], fixed: dict[str, object]) -> Iterator[bool]:
    for name, value in fixed.items():
        if name == "large":
            yield (cell["samples"] >= 2_000) == value
        elif name == "within":
            yield cell["samples"] <= value
        else:
            yield cell[name] == value


def _slices() -> Iterator[tuple[str, dict[str, object]]]:
    yield "all", {}
    yield "n <= 2,000", {"within": 2_000}
    for family in FAMILIES:
        yield f"{family}, n >= 2,000", {"family": family, "large": True}
    for samples in SAMPLES:
        yield f"n = {samples:,}", {"samples": float(samples)}
    for classes in CLASSES:
        yield f"K = {classes}", {"classes": float(classes)}
    for notion in NOTIONS:
        for loss in ("l2", "kl"):
            yield f"{notion}, {loss}", {"notion": notion, "loss": loss}


def absolute(rows: list[Row], truth: str) -> str:
    """Mean absolute errors x 100 with standard errors, one line a cell."""
    header = ["family", "K", "n", "notion", "loss", "truth", *METHODS, "oracle"]
    lines = []
    for cell, own in group(rows, "family", "classes", "samples", "notion", "loss").items():
        family, classes, samples, notion, loss = cell
        true = 100 * np.mean([float(row[truth]) for row in own])
        shown = []
        for method in [*METHODS, "oracle"]:
            each = [100 * abs(float(row[method]) - float(row[truth])) for row in own]
            spread = f" ± {np.std(each, ddof=1) / len(each) ** 0.5:.3f}" if len(each) > 1 else ""
            shown.append(f"{np.mean(each):.3f}{spread}")
        numbers = [f"{classes:.0f}", f"{samples:,.0f}"]
        lines.append([str(family), *numbers, str(notion), str(loss), f"{true:.3f}", *shown])
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--max-samples", type=int, default=10_000)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    if options.report:
        rows = load(PATH)
    else:
        rows = run(PATH, KEYS, cells(options.repetitions, options.max_samples), compute)
    parts = ["# Debiased estimates against the paper's plug-in"]
    parts += [report(rows, truth) for truth in ("marginal", "joint")]
    parts += ["Mean absolute errors x 100 (marginal truth).", absolute(rows, "marginal")]
    (RESULTS / "debiased.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
