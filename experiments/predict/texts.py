"""Labelled texts in a table: .csv, .tsv, .jsonl or .parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Texts:
    """Texts with the numbers of their classes."""

    texts: tuple[str, ...]
    labels: npt.NDArray[np.int32]

    @classmethod
    def of(cls, path: Path, text: str, label: str, classes: Sequence[str] | None = None) -> Texts:
        """Two columns of a table; classes are numbered in the order given, or sorted."""
        rows = [(str(row[text]), _word(row[label])) for row in _rows(path, (text, label))]
        if not rows:
            raise ValueError(f"{path}: there are no rows.")
        texts, words = zip(*rows, strict=True)
        names = list(classes) if classes else sorted(set(words), key=_order)
        unknown = sorted(set(words) - set(names))
        if unknown:
            raise ValueError(
                f"{path}, {label!r}: labels {unknown[:5]} are not among the classes {names}."
            )
        numbers = {name: number for number, name in enumerate(names)}
        return cls(texts, np.array([numbers[word] for word in words], dtype=np.int32))

    def batch(self, rows: range) -> list[str]:
        """Texts of some rows."""
        return [self.texts[row] for row in rows]


def _word(value: object) -> str:
    """A label as text; 5.0 stars are 5 stars."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _order(word: str) -> tuple[int, float, str]:
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)


def _rows(path: Path, columns: tuple[str, str]) -> Iterator[dict[str, object]]:
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter="\t" if ending == ".tsv" else ",")
            _check(path, reader.fieldnames or (), columns)
            yield from reader
    elif ending == ".jsonl":
        with path.open(encoding="utf-8") as file:
            for line in filter(str.strip, file):
                row = json.loads(line)
                _check(path, row, columns)
                yield row
    elif ending == ".parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(path)
        _check(path, file.schema_arrow.names, columns)
        for batch in file.iter_batches(columns=list(columns)):
            yield from batch.to_pylist()
    else:
        raise ValueError(f"{path}: tables end in .csv, .tsv, .jsonl or .parquet.")


def _check(path: Path, found: Sequence[str] | dict[str, object], columns: tuple[str, str]) -> None:
    for column in columns:
        if column not in found:
            raise ValueError(f"{path}: no column {column!r}; there are {', '.join(found)}.")
