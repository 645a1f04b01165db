"""Labels in a file of their own, beside a file of predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.data.files.columns import LABEL, find_label
from riskalign.data.files.tables import Batch, Table

INDEX = ("", "unnamed: 0", "index", "id", "row", "__index_level_0__")
"""Names of columns that count rows."""


def label_column(columns: Sequence[str], label: str | None) -> str:
    """Which column of a file of labels holds them: the one so named, or the only one."""
    if label is None and not any(LABEL.fullmatch(name.strip()) for name in columns):
        others = [name for name in columns if name.strip().lower() not in INDEX]
        if len(others) == 1:
            return others[0]
    return find_label(columns, label)


LISTS = (".txt", ".json")
"""Files of labels alone: one per line, or a JSON list."""


def listed_labels(path: Path) -> list[Any]:
    """The labels of a text file with one per line, or of a JSON list."""
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".txt":
        labels: list[Any] = [line.strip() for line in text.splitlines()]
        while labels and not labels[-1]:
            labels.pop()
        if "" in labels:
            raise ValueError(
                f"--labels {path}: line {labels.index('') + 1} is empty. Write one label per line."
            )
        return labels
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or any(isinstance(each, list | dict) for each in found):
        raise ValueError(f"--labels {path}: write one JSON list of labels, such as [0, 2, 1].")
    if None in found:
        raise ValueError(f"--labels {path}: the label of row {found.index(None)} is missing.")
    return found


class WithLabels:
    """A table of predictions, with the labels of another file as one more column."""

    def __init__(self, table: Table, name: str, labels: npt.NDArray[Any], path: Path) -> None:
        self._table = table
        self._name = name
        self._labels = labels
        self._path = path
        self.columns = [*table.columns, name]

    def cells(self, numbers: Sequence[str]) -> int:
        """See `Table.cells`."""
        return self._table.cells(numbers)

    def place(self, row: int) -> str:
        """See `Table.place`."""
        return self._table.place(row)

    def batches(self, words: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        """See `Table.batches`; the two files must have equally many rows."""
        others = [word for word in words if word != self._name]
        first = 0
        for texts, values in self._table.batches(others, numbers):
            last = first + len(values)
            if last > len(self._labels):
                break
            known = dict(zip(others, texts, strict=True))
            own: list[object] = self._labels[first:last].tolist()
            yield [known.get(word, own) for word in words], values
            first = last
        else:
            if first == len(self._labels):
                return
        total = sum(len(values) for _, values in self._table.batches([], numbers))
        raise ValueError(
            f"there are {total:,} rows of predictions and {len(self._labels):,} labels in "
            f"{self._path.name}. Give a label per row, in the same order."
        )


def as_labels(values: Sequence[object]) -> npt.NDArray[Any]:
    """Labels as they were read, ``(n,)``."""
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels
