"""Calibrators on held-out halves of real predictions, by log loss and Brier score.

Run: python -m experiments.calibrators [DIRECTORY] [--seeds 2] [--report]

DIRECTORY, by default $RISKALIGN_DATA, holds files of predictions: .npz with `labels` and one of
`probs`, `logits`, or `confidence` with `pred`. Each file is split into stratified halves; the
calibrators learn from one half and are judged on the other. Every row of
results/calibrators.csv is one file, seed and method; results/calibrators.md is made from it.

All of these files were looked at when the features and the constants of the kernel calibrator were
chosen: the table describes them, and proves nothing about others.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import softmax
from sklearn.model_selection import train_test_split

import riskalign as ra
from experiments.cells import RESULTS, Row, geometric_mean, group, load, markdown, run
from experiments.rivals import RIVALS, Array, Fitted, Labels, applies, fitted
from riskalign.equations.arrays import FLOOR, floored_log
from riskalign.equations.simplex import on_simplex

PATH = RESULTS / "calibrators.csv"
KEYS = ("data", "seed", "method")
METRICS = {
    "log loss": f"Log loss (probabilities floored at {FLOOR:g})",
    "brier": "Brier score, summed over classes",
}
CLOSE = 1.005
"""A loss is close to another if it is at most 0.5% larger."""

OURS: dict[str, dict[str, str]] = {"kernel": {}}
"""Calibrators of this package."""

METHODS = ["none", *OURS, *RIVALS]


def fit(method: str, X: Array, y: Labels) -> Fitted:
    """A calibrator by the name in the tables."""
    if method == "none":
        return lambda f: f
    if method in OURS:
        calibrator = ra.KernelCalibrator(**OURS[method], classes=range(X.shape[1]))
        return calibrator.fit(X, y).predict_proba
    return fitted(method, X, y)


@functools.cache
def warm(method: str, n_classes: int) -> None:
    """Fit a method once, so that imports and compilation are not in its seconds."""
    data = ra.datasets.temperature(500, n_classes, seed=0)
    fit(method, data.y_prob, data.y_true)(data.y_prob)


def read(path: Path) -> tuple[Array, Labels]:
    """Probabilities ``(n, K)`` and labels; of confidences alone, whether they were right."""
    with np.load(path, allow_pickle=False) as file:
        labels = file["labels"].astype(np.intp)
        if "confidence" in file:
            confidence = np.minimum(file["confidence"].astype(np.float64), 1.0)
            return on_simplex(confidence), (file["pred"] == labels).astype(np.intp)
        if "logits" in file:
            return softmax(file["logits"].astype(np.float64), axis=1), labels
        f = file["probs"].astype(np.float64)
        return (on_simplex(f) if f.ndim == 1 else f / f.sum(axis=1, keepdims=True)), labels


def compute(directory: Path, cell: Row) -> Iterator[Row]:
    """One row: a method on one half of a file, judged on the other."""
    f, y = read(directory / f"{cell['data']}.npz")
    learn, judge = train_test_split(
        np.arange(len(y)), test_size=0.5, stratify=y, random_state=int(cell["seed"])
    )
    warm(str(cell["method"]), 2 if f.shape[1] == 2 else 3)
    started = time.process_time()
    R = fit(str(cell["method"]), f[learn], y[learn])(f[judge])
    seconds = time.process_time() - started
    n, n_classes = R.shape
    yield {
        "classes": float(n_classes),
        "samples": float(len(learn)),
        "log loss": float(-floored_log(R[np.arange(n), y[judge]]).mean()),
        "brier": float(np.sum((R - np.eye(n_classes)[y[judge]]) ** 2, axis=1).mean()),
        "seconds": round(seconds, 2),
    }


def means(rows: list[Row], metric: str) -> dict[str, float]:
    """The mean over seeds, by method; of methods that have every seed of the rows."""
    seeds = {row["seed"] for row in rows}
    found = {}
    for (name,), own in group(rows, "method").items():
        if {row["seed"] for row in own} == seeds:
            found[str(name)] = float(np.mean([float(row[metric]) for row in own]))
    return found


def report(rows: list[Row]) -> str:
    """The summary, and a table per metric; the lowest mean is in bold."""
    files = len(group(rows, "data"))
    seeds = len({row["seed"] for row in rows})
    parts = [
        "# Calibrators on held-out halves",
        f"{files} files, {seeds} random halvings each; means over halvings. Standard errors of "
        "ratios are over files.",
        *(_summary(rows, two) for two in (True, False)),
        _close(rows),
        READING,
    ]
    for metric, title in METRICS.items():
        header = ["data", "K", "n", *METHODS]
        lines = []
        for (data, classes, samples), own in group(rows, "data", "classes", "samples").items():
            cells = means(own, metric)
            lowest = min(cells.values())
            shown = [_shown(cells.get(name), lowest) for name in METHODS]
            lines.append([str(data), f"{classes:.0f}", f"{samples:,.0f}", *shown])
        parts += [f"## {title}", markdown(header, lines)]
    header = ["K", "n", *METHODS]
    lines = [
        [f"{K:.0f}", f"{n:,.0f}", *(f"{cells[m]:.2f}" if m in cells else "" for m in METHODS)]
        for (K, n), own in sorted(group(rows, "classes", "samples").items())
        if (cells := means(own, "seconds"))
    ]
    parts += ["## CPU seconds to fit and to predict the other half, one thread"]
    parts += [markdown(header, lines)]
    return "\n\n".join(parts) + "\n"


def _shown(value: float | None, lowest: float) -> str:
    if value is None:
        return ""
    return f"**{value:.4f}**" if value == lowest else f"{value:.4f}"


def _summary(rows: list[Row], two: bool) -> str:
    """Losses relative to temperature scaling, geometric means over files."""
    lines = []
    for name in METHODS:
        line = [name]
        for metric in METRICS:
            ratios = []
            for (_, classes), own in group(rows, "data", "classes").items():
                cells = means(own, metric)
                if (classes == 2) == two and name in cells:
                    ratios.append(cells[name] / cells["temperature"])
            if not ratios:
                line.append("")
                continue
            spread = np.std(np.log(ratios), ddof=1) / len(ratios) ** 0.5 if ratios[1:] else 0.0
            line.append(f"{geometric_mean(ratios):.4f} ± {spread:.4f} ({len(ratios)})")
        if any(line[1:]):
            lines.append(line)
    header = ["method", *METRICS]
    title = "Two classes" if two else "More than two classes"
    return f"**{title}**, relative to temperature scaling (number of files):\n\n" + markdown(
        header, lines
    )


def _close(rows: list[Row]) -> str:
    """On how many files the default is close to the best rival, and to doing nothing."""
    far, worst = [], ("", 0.0)
    files = group(rows, "data")
    for (data,), own in files.items():
        cells = means(own, "log loss")
        best = min(value for name, value in cells.items() if name in RIVALS)
        if cells["kernel"] > CLOSE * best:
            far.append(f"{data} ({cells['kernel'] / best - 1:+.1%})")
        ratio = cells["kernel"] / cells["none"]
        worst = max(worst, (str(data), ratio), key=lambda pair: pair[1])
    return (
        f"The default `KernelCalibrator` is the best of all or within {CLOSE - 1:.1%} of the best "
        f"rival in log loss on {len(files) - len(far)} of {len(files)} files; not on "
        f"{', '.join(far) or 'none'}. Against no calibration, its largest ratio of log losses is "
        f"{worst[1]:.4f} ({worst[0]})."
    )


READING = """\
**How far to trust this.** All files were looked at when the features and constants of the kernel
calibrator were chosen, so that its numbers may flatter it. Halvings of one file share its samples,
and files that share a data set are not independent. Platt scaling and isotonic regression are
scikit-learn's, one class against the rest; so are beta, spline and Venn-Abers calibration of more
than two classes, with rows renormalised. SVS and SMS are probmetrics' structured vector and matrix
scaling; quadratic scaling is for two classes only. Some rivals are left out where they take minutes
(`MOST_CLASSES`). Seconds of the kernel calibrator and of SMS are from one run, after a first fit
of each; those of the others are from an earlier run."""


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default=os.environ.get("RISKALIGN_DATA"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    if options.report:
        rows = load(PATH)
    else:
        if options.directory is None:
            parser.error("name the directory of the data, or set RISKALIGN_DATA")
        directory = Path(options.directory)
        sizes = sorted(directory.glob("*.npz"), key=lambda path: path.stat().st_size)
        cells: Iterator[Row] = (
            {"data": path.stem, "seed": float(seed), "method": method}
            for seed in range(options.seeds)
            for path in sizes
            for method in _methods(path)
        )
        rows = run(PATH, KEYS, cells, lambda cell: compute(directory, cell))
    (RESULTS / "calibrators.md").write_text(report(rows))


def _methods(path: Path) -> list[str]:
    """The methods that are tried on a file."""
    n_classes = read(path)[0].shape[1]
    return [name for name in METHODS if name not in RIVALS or applies(name, n_classes)]


if __name__ == "__main__":
    main()
