"""Studies as tables of cells: every finished row is written at once, and never computed twice."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

RESULTS = Path(__file__).parent / "results"

Row = dict[str, str | float]


def load(path: Path) -> list[Row]:
    """The rows of a table; numbers are numbers."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def run(
    path: Path,
    keys: Sequence[str],
    cells: Iterable[Row],
    compute: Callable[[Row], Iterable[Row]],
) -> list[Row]:
    """Compute the cells that the table lacks; a cell may give several rows.

    Stopped at any time, the study goes on where it stood when it is started again.
    """
    done = {tuple(row[key] for key in keys) for row in load(path)}
    cells = [cell for cell in cells if tuple(cell[key] for key in keys) not in done]
    path.parent.mkdir(exist_ok=True)
    for cell in tqdm(cells, desc=path.stem):
        rows = [cell | row for row in compute(cell)]
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows(rows)
            file.flush()
            os.fsync(file.fileno())
    return load(path)


def group(rows: Iterable[Row], *keys: str) -> dict[tuple[str | float, ...], list[Row]]:
    """Rows by the values of some columns, in the order of their first appearance."""
    groups: dict[tuple[str | float, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return dict(groups)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean; a ratio of zero is no ratio and is an error."""
    return float(np.exp(np.mean(np.log(ratios))))


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
