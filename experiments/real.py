"""The paper's protocol for real predictions, on any folder of prediction files.

Population: all rows of a file. Proxy truth: risk alignment on the population, and kernel ridge
for canonical squared errors. Ten random subsets of a third of it (at most 20,000, the paper's
share of CIFAR's 60,000) are estimated on, and of less for the pictures. The proxy is one of
the rivals, which favours it; models and splits are those of the files, not the paper's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, softmax

from experiments.cells import RESULTS, Row, group, run
from experiments.estimators import METHODS, RIDGE, RISK_ALIGNMENT, rows_of
from experiments.finite import interval
from experiments.synthetic import factor
from experiments.tables import save, summary
from riskalign.data.files import open_predictions
from riskalign.equations.arrays import FloatArray, IntArray

FORMATS = (".npz", ".csv", ".tsv", ".jsonl", ".parquet")
SUBSETS = 10
LARGEST = 20_000
SHARES = (3, 10, 30)
"""Subsets are these parts of the population; the table shows the largest."""

CANONICAL_CLASSES = 100
"""Most classes for canonical errors: the paper leaves ImageNet's out."""

FEW_CLASSES = 20
"""Files with more classes wait for all others: they cost as much as these together."""

LEAST = 30
"""Fewest samples of a subset."""

POPULATION = "population"
KEYS = ("file", "notion", "method", "n", "subset")
COLUMNS = (
    *("table", "t1", "t2", "dataset", "model", "notion", "divergence", "n_classes", "method"),
    *("mae_x100", "sd_x100", "se_x100", "bias_x100", "truth", "truth_x100", "n", "subsets"),
    *("factor", "population"),
)
POINT_COLUMNS = (
    *("dataset", "model", "notion", "divergence", "method", "n", "subsets"),
    *("mean_x100", "low_x100", "high_x100", "truth_x100"),
)


@dataclass(frozen=True)
class Population:
    """Labels and probabilities of a file; ``(n,)`` where one probability tells all."""

    y: IntArray
    f: FloatArray

    @property
    def classes(self) -> int:
        """Classes, two where one probability tells all."""
        return 2 if self.f.ndim == 1 else self.f.shape[1]

    @property
    def notions(self) -> tuple[str, ...]:
        """The notions that are asked for."""
        if self.f.ndim == 1:
            return ("binary",)
        return ("classwise", "canonical") if self.classes <= CANONICAL_CLASSES else ("classwise",)

    def sizes(self) -> list[int]:
        """Sizes of subsets, the table's first."""
        return [min(len(self.y) // share, LARGEST) for share in SHARES]

    def subset(self, n: int, number: int) -> tuple[IntArray, FloatArray]:
        """Rows drawn without replacement."""
        rows = np.random.default_rng([number, n]).choice(len(self.y), n, replace=False)
        return self.y[rows], self.f[rows]


@lru_cache(maxsize=64)
def read(path: Path) -> Population:
    """A file's predictions as probabilities; two classes, and top labels, as one."""
    file = open_predictions(path)
    found = file.read()
    scores = found.scores.astype(np.float64)
    if file.from_logits:
        scores = expit(scores) if scores.ndim == 1 else softmax(scores, axis=1)
    elif scores.ndim == 2:
        scores = scores / scores.sum(axis=1, keepdims=True)
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1]
    return Population(found.labels, np.clip(scores, 0.0, 1.0))


def files(folder: Path) -> list[Path]:
    """Prediction files of a folder, by name."""
    found = sorted(path for path in folder.iterdir() if path.suffix in FORMATS)
    found = [path for path in found if path.name != "manifest.jsonl"]
    if not found:
        raise FileNotFoundError(f"{folder}: no prediction files ({', '.join(FORMATS)}).")
    return found


def proxies(notion: str) -> dict[str, tuple[str, ...]]:
    """Which method's answer on the population stands for the truth, for which divergences."""
    if notion == "canonical":
        return {RIDGE: ("l2",), RISK_ALIGNMENT: ("kl",)}
    return {RISK_ALIGNMENT: ("l2", "kl")}


def methods_of(notion: str) -> tuple[str, ...]:
    """Methods of the tables; one probability has those of a class."""
    return METHODS["canonical" if notion == "canonical" else "classwise"]


def cells(paths: list[Path], methods: Collection[str] | None = None) -> Iterator[Row]:
    """The table's subsets before the pictures', and the dear files last."""
    stages = _by_stage([(path, notion) for path in paths for notion in read(path).notions])
    pictures = range(1, len(SHARES))
    for stage, shares in ((0, [0]), (1, [0]), (0, pictures), (1, pictures), (2, [0, *pictures])):
        for path, notion in stages[stage] if 0 in shares else []:
            for method in proxies(notion):
                n = float(len(read(path).y))
                yield dict(zip(KEYS, (path.name, notion, method, n, POPULATION), strict=True))
        for share, subset in product(shares, range(SUBSETS)):
            for path, notion in stages[stage]:
                n = float(read(path).sizes()[share])
                for method in methods_of(notion):
                    if (methods is None or method in methods) and n >= LEAST:
                        values = (path.name, notion, method, n, float(subset))
                        yield dict(zip(KEYS, values, strict=True))


def _by_stage(places: list[tuple[Path, str]]) -> dict[int, list[tuple[Path, str]]]:
    """Errors of one probability or a class; canonical errors; very many classes."""
    stages: dict[int, list[tuple[Path, str]]] = {0: [], 1: [], 2: []}
    for path, notion in places:
        many = read(path).classes > FEW_CLASSES
        stages[2 if many else int(notion == "canonical")].append((path, notion))
    return stages


def estimate(folder: Path, cell: Row) -> list[Row]:
    """Estimates of one method on one subset, or the proxies on the population."""
    whole = read(folder / str(cell["file"]))
    notion, method = str(cell["notion"]), str(cell["method"])
    if cell["subset"] == POPULATION:
        rows = rows_of(method, notion, whole.y, whole.f, proxies(notion)[method])
    else:
        rows = rows_of(method, notion, *whole.subset(int(cell["n"]), int(float(cell["subset"]))))
    return [{"n_classes": whole.classes, **row} for row in rows]


def aggregate(raw: list[Row]) -> tuple[list[Row], list[Row]]:
    """The table (the largest subsets), and the points of the pictures (all of them)."""
    truths = {
        (row["file"], row["notion"], row["divergence"]): row
        for row in raw
        if row["subset"] == POPULATION
    }
    estimates = [row for row in raw if row["subset"] != POPULATION]
    table, points = [], []
    largest: dict[object, float] = {}
    for row in estimates:
        largest[row["file"]] = max(largest.get(row["file"], 0.0), float(row["n"]))
    for cell, own in group(estimates, "file", "notion", "divergence", "method", "n").items():
        file, notion, divergence, method, n = cell
        if (against := truths.get((file, notion, divergence))) is None:
            continue
        dataset, _, model = Path(str(file)).stem.partition("_")
        scale = 100 * factor(notion, divergence)
        values = scale * np.array([row["value"] for row in own], float)
        values = values[np.isfinite(values)]
        true = scale * float(against["value"])
        if len(values):
            spread = [float(f"{v:.5g}") for v in (values.mean(), *interval(values), true)]
            place = (dataset, model, notion, divergence, method, int(n), len(values))
            points.append(dict(zip(POINT_COLUMNS, (*place, *spread), strict=True)))
        if n != largest[file]:
            continue
        found = (
            *("real", "", "", dataset, model, notion, divergence, int(own[0]["n_classes"]), method),
            *summary(values - true),
            *(f"{against['method']} on the population", float(f"{true:.4g}"), int(n)),
            *(len(values), scale // 100, int(against["n"])),
        )
        table.append(dict(zip(COLUMNS, found, strict=True)))
    return table, points


def main(folder: Path, results: Path = RESULTS, methods: Collection[str] | None = None) -> None:
    """Compute what is missing, then the table and the points of the pictures."""
    paths = files(folder)
    raw = run(
        results / "real_raw.csv", KEYS, cells(paths, methods), lambda cell: estimate(folder, cell)
    )
    write(results, raw)


def write(results: Path, raw: list[Row]) -> None:
    """The table and the points of the pictures."""
    table, points = aggregate(raw)
    save(results / "real.csv", COLUMNS, table)
    save(results / "real_finite.csv", POINT_COLUMNS, points)
