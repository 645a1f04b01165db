"""Tables of results: written whole or not at all, and set beside the published figures."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.cells import Row, load

PUBLISHED = Path(__file__).parent / "published_mae.csv"


def save(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a table beside its place, then move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, path)


def published(table: str) -> list[Row]:
    """The published figures of one kind, "synthetic" or "real"."""
    return [row for row in load(PUBLISHED) if row["table"] == table]


def summary(gaps: np.ndarray) -> tuple[object, ...]:
    """Mean and standard deviation of |gap|, standard error of the mean, and the mean gap."""
    size = np.abs(gaps)
    if len(gaps) == 0:
        return "", "", "", ""
    if len(gaps) == 1:
        return rounded(size[0]), "", "", rounded(gaps[0])
    sd = float(np.std(size, ddof=1))
    return tuple(map(rounded, (size.mean(), sd, sd / len(gaps) ** 0.5, gaps.mean())))


def rounded(value: float) -> float:
    """Four digits, which is what the tables show at most."""
    return float(f"{value:.4g}")
