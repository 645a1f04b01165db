"""The paper's synthetic tables: mean absolute errors of every method, beside the published ones.

A pool of ten blocks of 20,000 samples; each block is one subset. Every finished estimate is a
row of a raw table, so a run that was stopped goes on where it stood. The first subset of all
cells comes early: the table is soon whole, and becomes more precise with time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load
from experiments.estimators import DEBIASED, DIVERGENCES, METHODS, rows_of
from experiments.parallel import run_on_cores
from experiments.tables import rounded, save, summary
from riskalign.datasets import SyntheticData

SETTINGS = ((1.0, 0.8), (0.9, 0.6), (0.9, 0.7), (0.9, 0.8))
CLASSES = (4, 8, 16, 32)
NOTIONS = ("classwise", "canonical")
BLOCKS = 10
"""Blocks of the pool, whose mean is the truth, whatever number of them is estimated on."""

KEYS = ("t1", "t2", "n_classes", "notion", "method", "subset")
TRUTH_KEYS = ("t1", "t2", "n_classes", "notion")
COLUMNS = (
    *("table", "t1", "t2", "dataset", "model", "notion", "divergence", "n_classes", "method"),
    *("mae_x100", "sd_x100", "se_x100", "bias_x100", "truth", "truth_x100", "n", "subsets"),
    "factor",
)
"""Those of published_mae.csv, then what they leave open."""


@dataclass(frozen=True)
class Study:
    """A size of the study, and the files that belong to it."""

    n: int = 20_000
    subsets: int = 10
    folder: Path = RESULTS
    name: str = "synthetic"
    settings: tuple[tuple[float, float], ...] = SETTINGS
    classes: tuple[int, ...] = CLASSES
    debiased_n: int = 20_000
    debiased_subsets: int = 10
    debiased_settings: tuple[tuple[float, float], ...] = SETTINGS

    def asks(self, method: str, subset: int, setting: tuple[float, float]) -> bool:
        """Whether a cell belongs to the study: a quick one has few debiased estimates."""
        few = subset < self.debiased_subsets and setting in self.debiased_settings
        return method != DEBIASED or few

    def samples(self, notion: object, method: object) -> int:
        """Samples of an estimate: a quick study has fewer for canonical debiased ones."""
        fewer = (notion, method) == ("canonical", DEBIASED)
        return min(self.n, self.debiased_n) if fewer else self.n

    @property
    def table(self) -> Path:
        """The aggregated table."""
        return self.folder / f"{self.name}.csv"

    @property
    def raw(self) -> Path:
        """One row an estimate."""
        return self.folder / f"{self.name}_raw.csv"

    @property
    def truths(self) -> Path:
        """True errors of the pools."""
        return self.folder / f"{self.name}_truth.csv"


FULL = Study()
QUICK = Study(
    n=3_000,
    subsets=3,
    name="synthetic_quick",
    debiased_n=1_000,
    debiased_subsets=1,
    debiased_settings=SETTINGS[:1],
)


@lru_cache(maxsize=1)
def block(n: int, classes: int, t1: float, t2: float, number: int) -> SyntheticData:
    """One subset of the pool; the last one is kept, for the next method."""
    seed = int(1_000 * classes + 100_000 * round(10 * t1) + 10_000_000 * round(10 * t2)) + number
    return ra.datasets.temperature(n, classes, t1, t2, seed=seed)


def pool(n: int, classes: int, t1: float, t2: float) -> SyntheticData:
    """All blocks in one."""
    blocks = [block(n, classes, t1, t2, number) for number in range(BLOCKS)]
    y, f, R = (
        np.concatenate([getattr(each, name) for each in blocks])
        for name in ("y_true", "y_prob", "conditional")
    )
    return SyntheticData(y, f, R, blocks[0].draw)


def cells(study: Study, methods: Collection[str] | None = None) -> Iterator[Row]:
    """Cells of every notion in turn, canonical ones three times more rarely: they cost more.

    Within a turn the cheap come first, so that no column waits long for another.
    """
    turns = [(subset, "classwise", subset) for subset in range(study.subsets)]
    turns += [(3 * subset, "canonical", subset) for subset in range(study.subsets)]
    for _, notion, subset in sorted(turns, key=lambda turn: turn[0]):
        for t1, t2 in study.settings:
            for classes in study.classes:
                for method in METHODS[notion]:
                    chosen = methods is None or method in methods
                    if chosen and study.asks(method, subset, (t1, t2)):
                        values = (t1, t2, float(classes), notion, method, float(subset))
                        yield dict(zip(KEYS, values, strict=True))


def _place(cell: Row) -> tuple[int, float, float]:
    return int(cell["n_classes"]), float(cell["t1"]), float(cell["t2"])


def estimate(study: Study, cell: Row) -> list[Row]:
    """The estimates of one method on one subset, by each divergence."""
    data = block(study.n, *_place(cell), int(cell["subset"]))
    method, notion = str(cell["method"]), str(cell["notion"])
    n = study.samples(notion, method)
    rows = rows_of(method, notion, data.y_true[:n], data.y_prob[:n])
    return [{"n": n, **row} for row in rows]


def truth(study: Study, cell: Row) -> list[Row]:
    """True errors of a pool: given the whole prediction (the paper's), and given f_k alone."""
    data, notion = pool(study.n, *_place(cell)), str(cell["notion"])
    given = ("joint", "marginal") if notion == "classwise" else ("joint",)
    return [
        {"divergence": loss, "truth": g, "value": data.truth(notion, loss, given=g)}
        for g in given
        for loss in DIVERGENCES
    ]


def truth_cells(study: Study) -> Iterator[Row]:
    """The pools whose truth is needed."""
    for classes in study.classes:
        for t1, t2 in study.settings:
            for notion in NOTIONS:
                yield dict(zip(TRUTH_KEYS, (t1, t2, float(classes), notion), strict=True))


def factor(notion: object, divergence: object) -> int:
    """What the published class-wise l2 figures hold of (R - f)^2: twice as much."""
    return 2 if (notion, divergence) == ("classwise", "l2") else 1


def aggregate(raw: list[Row], truths: list[Row]) -> list[Row]:
    """Mean absolute errors x 100 with standard errors, one row a cell, method and truth."""
    true = group(truths, *TRUTH_KEYS, "divergence")
    rows = []
    for cell, own in group(raw, *TRUTH_KEYS, "divergence", "method", "n").items():
        *place, method, n = cell
        t1, t2, classes, notion, divergence = place
        for against in true.get(tuple(place), []):
            scale = 100 * factor(notion, divergence)
            gaps = scale * (np.array([r["value"] for r in own], float) - float(against["value"]))
            gaps = gaps[np.isfinite(gaps)]
            found = (
                *("synthetic", t1, t2, "", "", notion, divergence, int(classes), method),
                *summary(gaps),
                *(against["truth"], rounded(scale * float(against["value"])), int(n)),
                *(len(gaps), scale // 100),
            )
            rows.append(dict(zip(COLUMNS, found, strict=True)))
    return rows


def write_table(study: Study) -> list[Row]:
    """The table from the raw rows there are."""
    rows = aggregate(load(study.raw), load(study.truths))
    save(study.table, COLUMNS, rows)
    return rows


def forget(study: Study, method: str) -> None:
    """Drop a method's rows, to compute them again."""
    rows = load(study.raw)
    if rows:
        save(study.raw, list(rows[0]), [row for row in rows if row["method"] != method])


def main(
    study: Study,
    methods: Collection[str] | None = None,
    again: Iterable[str] = (),
    jobs: int = 1,
) -> None:
    """Compute what is missing, some cells at once, then the table."""
    study.folder.mkdir(parents=True, exist_ok=True)
    for method in again:
        forget(study, method)
    run_on_cores(study.truths, TRUTH_KEYS, truth_cells(study), partial(truth, study), jobs)
    run_on_cores(study.raw, KEYS, cells(study, methods), partial(estimate, study), jobs)
    write_table(study)
