"""Calibrators on held-out halves of real predictions, by risk and by calibration error.

Run: python -m experiments.calibrators [DIRECTORY] [--seeds 5] [--report]

DIRECTORY, by default $RISKALIGN_DATA, holds files of predictions: .npz with `labels` and one of
`probs`, `logits`, or `confidence` with `pred`. Each file is split into stratified halves; the
calibrators learn from one half and are judged on the other. Every row of
results/calibrators.csv is one file, seed and method; results/calibrators.md is made from it.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.equations.arrays import FLOOR, floored_log
from riskalign.equations.simplex import on_simplex

Array = npt.NDArray[np.float64]

PATH = RESULTS / "calibrators.csv"
KEYS = ("data", "seed")
MOST_CANONICAL = 20
"""Classes up to which the canonical calibrator is tried."""
MOST_CLASSWISE = 100
"""Classes up to which the class-wise error is estimated: it takes a curve a class."""
METRICS = {
    "log loss": f"Log loss (probabilities floored at {FLOOR:g})",
    "brier": "Brier score, summed over classes",
    "top-label error": "Top-label (for two classes: binary) calibration error x 10,000, "
    "debiased, l2",
    "class-wise error": "Class-wise calibration error x 10,000, debiased, l2, summed over "
    f"classes (up to {MOST_CLASSWISE})",
}


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its own probabilities, for scikit-learn's calibrators."""

    def fit(self, X: Array, y: npt.NDArray[np.intp]) -> Given:
        """Remember the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Array) -> Array:
        """Logits: the logarithm, for two classes of the odds."""
        z = floored_log(X)
        return z[:, 1] - z[:, 0] if X.shape[1] == 2 else z

    def predict(self, X: Array) -> npt.NDArray[np.intp]:
        """The most probable class."""
        return self.classes_[np.argmax(X, axis=1)]


Fitted = Callable[[Array], Array]


def by_scikit_learn(method: str) -> Callable[[Array, npt.NDArray[np.intp]], Fitted]:
    """scikit-learn's calibrator of that name, fitted on all samples that it is given."""

    def fit(X: Array, y: npt.NDArray[np.intp]) -> Fitted:
        everything = [(np.arange(len(y)), np.arange(len(y)))]
        model = FrozenEstimator(Given().fit(X, y))
        calibrated = CalibratedClassifierCV(model, method=method, cv=everything, ensemble=False)
        with warnings.catch_warnings():  # classes of which a half has few
            warnings.simplefilter("ignore")
            return calibrated.fit(X, y).predict_proba

    return fit


def by_kernel(**options: str) -> Callable[[Array, npt.NDArray[np.intp]], Fitted]:
    """The calibrator of this package."""
    return lambda X, y: ra.KernelCalibrator(**options).fit(X, y).predict_proba


METHODS: dict[str, Callable[[Array, npt.NDArray[np.intp]], Fitted]] = {
    "none": lambda X, y: lambda f: f,
    "temperature": by_scikit_learn("temperature"),
    "Platt": by_scikit_learn("sigmoid"),
    "isotonic": by_scikit_learn("isotonic"),
    "kernel": by_kernel(),
    "kernel, no temperature": by_kernel(start="identity"),
    "kernel, canonical": by_kernel(notion="canonical"),
}


def read(path: Path) -> tuple[Array, npt.NDArray[np.intp]]:
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
    """One row a method."""
    f, y = read(directory / f"{cell['data']}.npz")
    learn, judge = train_test_split(
        np.arange(len(y)), test_size=0.5, stratify=y, random_state=int(cell["seed"])
    )
    n_classes = f.shape[1]
    for name, fit in METHODS.items():
        if name == "kernel, canonical" and not 2 < n_classes <= MOST_CANONICAL:
            continue
        started = time.perf_counter()
        R = fit(f[learn], y[learn])(f[judge])
        seconds = time.perf_counter() - started
        yield {
            "classes": float(n_classes),
            "samples": float(len(learn)),
            "method": name,
            **judged(R, y[judge]),
            "seconds": round(seconds, 2),
        }


def judged(R: Array, y: npt.NDArray[np.intp]) -> Row:
    """Risks and calibration errors of probabilities."""
    n, n_classes = R.shape
    options = {"loss": "l2", "estimator": "debiased", "progress": False}
    top, classwise = ("binary", None) if n_classes == 2 else ("top-label", "classwise")
    of_top = ra.calibration_error(y, R, notion=top, **options).value
    of_all = ""
    if classwise and n_classes <= MOST_CLASSWISE:
        of_all = ra.calibration_error(y, R, notion=classwise, **options).value
    return {
        "log loss": float(-floored_log(R[np.arange(n), y]).mean()),
        "brier": float(np.sum((R - np.eye(n_classes)[y]) ** 2, axis=1).mean()),
        "top-label error": of_top,
        "class-wise error": of_all,
    }


def report(rows: list[Row]) -> str:
    """A table a metric: means over seeds with standard errors; the lowest mean is in bold."""
    parts = ["# Calibrators on held-out halves", _summary(rows), _duels(rows), READING]
    for metric, title in METRICS.items():
        known = [row for row in rows if row[metric] != ""]
        header = ["data", "K", "n", *METHODS]
        lines = []
        for (data, classes, samples), own in group(known, "data", "classes", "samples").items():
            cells = _means(own, metric)
            lowest = min(cells.values(), key=lambda cell: cell[0])[0]
            scale, digits = (1e4, 2) if "error" in metric else (1.0, 4)
            shown = [_shown(cells.get(name), lowest, scale, digits) for name in METHODS]
            lines.append([str(data), f"{classes:.0f}", f"{samples:,.0f}", *shown])
        parts += [f"## {title}", markdown(header, lines)]
    return "\n\n".join(parts) + "\n"


def _means(rows: list[Row], metric: str) -> dict[str, tuple[float, float]]:
    """Mean and standard error over seeds, by method."""
    cells = {}
    for (name,), own in group(rows, "method").items():
        values = np.array([float(row[metric]) for row in own])
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
        cells[str(name)] = (float(values.mean()), float(error))
    return cells


def _shown(cell: tuple[float, float] | None, lowest: float, scale: float, digits: int) -> str:
    if cell is None:
        return ""
    text = f"{scale * cell[0]:.{digits}f} ± {scale * cell[1]:.{digits}f}"
    return f"**{text}**" if cell[0] == lowest else text


def _summary(rows: list[Row]) -> str:
    """How often each method beats temperature scaling, and by how much."""
    header = ["method", *(f"{metric}: better than temperature" for metric in ("log loss", "brier"))]
    header += ["log loss over temperature's", "brier over temperature's"]
    lines = []
    for name in METHODS:
        line, ratios = [name], []
        for metric in ("log loss", "brier"):
            wins, logs = [], []
            for own in group(rows, "data").values():
                cells = _means(own, metric)
                if name in cells:
                    wins.append(cells[name][0] < cells["temperature"][0])
                    logs.append(np.log(cells[name][0] / cells["temperature"][0]))
            line.append(f"{sum(wins)} of {len(wins)}")
            spread = np.std(logs, ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
            ratios.append(f"{np.exp(np.mean(logs)):.4f} ± {spread:.4f}")
        lines.append([*line, *ratios])
    seeds = len({row["seed"] for row in rows})
    return (
        f"{len(group(rows, 'data'))} files, {seeds} random halvings each. ± is one standard "
        "error: in the tables over halvings of the same samples, in this summary over files "
        "(ratios are geometric means).\n\n" + markdown(header, lines)
    )


CLEAR = 2.0
"""Standard errors of a paired difference beyond which it is called clear."""

READING = """\
**How far to trust this.** Halvings of one file share its samples, so their standard errors are too
small, and files that share a data set are not independent. Platt scaling and isotonic regression
are scikit-learn's, one class against the rest. Calibration errors are judged by this package's
own debiased estimate, whose kernel the calibrator shares; log loss and Brier score are not. With
few samples a class the kernel calibrator keeps the temperature alone, by design."""


def _duels(rows: list[Row]) -> str:
    """Files on which the default calibrator is clearly better or worse than each other method."""
    header = ["kernel against", *METRICS]
    lines = []
    for rival in METHODS:
        if rival == "kernel":
            continue
        line = [rival]
        for metric in METRICS:
            outcomes = [
                _outcome(own, metric, rival)
                for own in group([row for row in rows if row[metric] != ""], "data").values()
                if any(row["method"] == rival for row in own)
            ]
            better, worse = outcomes.count(-1), outcomes.count(1)
            line.append(f"{better} better, {worse} worse, {outcomes.count(0)} unclear")
        lines.append(line)
    return (
        "Files on which the default `KernelCalibrator` is better or worse than another method by "
        f"more than {CLEAR:g} standard errors of their paired difference over halvings:\n\n"
        + markdown(header, lines)
    )


def _outcome(rows: list[Row], metric: str, rival: str) -> int:
    """-1 where the kernel's value is clearly lower than a rival's, 1 where higher, else 0."""
    values = {(row["method"], row["seed"]): float(row[metric]) for row in rows}
    seeds = sorted({seed for method, seed in values if method == rival})
    gaps = np.array([values["kernel", seed] - values[rival, seed] for seed in seeds])
    if len(gaps) < 2 or abs(gaps.mean()) <= CLEAR * gaps.std(ddof=1) / len(gaps) ** 0.5:
        return 0
    return int(np.sign(gaps.mean()))


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default=os.environ.get("RISKALIGN_DATA"))
    parser.add_argument("--seeds", type=int, default=5)
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
            {"data": path.stem, "seed": float(seed)}
            for seed in range(options.seeds)
            for path in sizes
        )
        rows = run(PATH, KEYS, cells, lambda cell: compute(directory, cell))
    (RESULTS / "calibrators.md").write_text(report(rows))


if __name__ == "__main__":
    main()
