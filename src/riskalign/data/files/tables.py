"""Tables of text, read in batches: comma-separated values, and a JSON object per line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from riskalign.data.files.nested import classes_of, row_of, scores_by_class
from riskalign.equations.arrays import FloatArray

BATCH = 20_000
"""Rows of text held at once."""

LONGEST_LINE = 16_000_000
"""Letters of a line of JSON: a thousand classes with all their digits take 25,000."""

LETTERS = 8
"""Letters that a number and what separates it take, by rule of thumb."""

DELIMITERS = ",;\t|"

Batch = tuple[list[list[object]], FloatArray]
"""Columns of words, and numbers ``(b, m)``."""


class Table(Protocol):
    """A file of named columns that can be read again and again, some rows at a time."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns."""

    def batches(self, words: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        """Columns as they are, and columns as numbers (a single one may hold lists)."""

    def cells(self, numbers: Sequence[str]) -> int:
        """About how many numbers the columns hold."""

    def place(self, row: int) -> str:
        """Where a row is found, for people."""


class CsvTable:
    """Comma-separated values (or semicolons, tabs, bars), mostly under a line of names.

    Attributes
    ----------
    has_names : whether the first line holds names; where it holds numbers, columns are counted
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as file:
            first = file.readline()
        if not first.strip():
            raise ValueError("the file is empty. A first line with the names of columns is needed.")
        self._delimiter = max(DELIMITERS, key=first.count)
        with self._open() as file:
            first_row = [name.strip() for name in next(self._rows(file))]
        counted = [str(k) for k in range(len(first_row))]
        # numpy.savetxt writes no names; 0, 1, 2 are those of pandas
        pandas = first_row == counted and len(first_row) > 1
        self.has_names = pandas or not all(map(_is_number, first_row))
        self.columns = first_row if self.has_names else counted

    def _open(self) -> TextIO:
        return self._path.open(encoding="utf-8-sig", newline="")

    def _rows(self, file: TextIO) -> Iterator[list[str]]:
        """Rows that are not blank."""
        return filter(None, csv.reader(file, delimiter=self._delimiter))

    def batches(self, words: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        """See `Table.batches`."""
        places = {name: place for place, name in enumerate(self.columns)}
        word_columns = [places[name] for name in words]
        number_columns = [places[name] for name in numbers]
        with self._open() as file:
            rows = self._rows(file)
            if self.has_names:
                next(rows)
            first = 0
            while batch := self._next_rows(rows, first):
                texts: list[list[object]] = [[row[i] for row in batch] for i in word_columns]
                yield texts, self._numbers(batch, number_columns, first)
                first += len(batch)

    def _next_rows(self, rows: Iterator[list[str]], first: int) -> list[list[str]]:
        try:
            batch = list(islice(rows, BATCH))
        except csv.Error as error:
            raise ValueError(
                f"the text cannot be split into columns: {error}. Is a quotation mark left open?"
            ) from None
        width = len(self.columns)
        if any(len(row) != width for row in batch):
            bad = next(i for i, row in enumerate(batch) if len(row) != width)
            raise ValueError(
                f"{self.place(first + bad)} has {len(batch[bad])} columns, the first line has "
                f"{width}. Correct the line, or quote values that contain {self._delimiter!r}."
            )
        return batch

    def _numbers(self, batch: list[list[str]], columns: list[int], first: int) -> FloatArray:
        if not columns:
            return np.empty((len(batch), 0))
        pick: Callable[[list[str]], Sequence[str]] = itemgetter(*columns, columns[0])
        cells = list(chain.from_iterable(pick(row)[:-1] for row in batch))  # tuples, even of one
        try:
            values = _floats(cells)
        except ValueError:
            row, column = next(
                (i, k) for i, row in enumerate(batch) for k in columns if not _is_number(row[k])
            )
            raise ValueError(
                f"{self.place(first + row)}, column {self.columns[column]!r}: "
                f"{_short(batch[row][column])} is not a number. Correct it or drop the row."
            ) from None
        return values.reshape(len(batch), len(columns))

    def cells(self, numbers: Sequence[str]) -> int:
        """See `Table.cells`; by the size of the file."""
        return self._path.stat().st_size // LETTERS

    def place(self, row: int) -> str:
        """See `Table.place`; the file is read again, since values may span lines."""
        with self._open() as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            rows = filter(None, reader)
            for _ in islice(rows, row + 1 + self.has_names):
                pass
            return f"line {reader.line_num}"


class JsonLinesTable:
    """A JSON object per line; predictions are numbers under several keys, or a list under one.

    Attributes
    ----------
    first : the first object
    nested : keys under which there is a score per class, with the classes (see `nested`)
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        first = next(self.objects(), None)
        if first is None:
            raise ValueError("the file is empty. A JSON object per line is needed.")
        _, self.first = first
        self.columns = list(self.first)
        self.nested = classes_of(self.first)

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line numbers and objects of lines that are not blank."""
        with self._path.open(encoding="utf-8-sig") as file:
            lines = iter(lambda: file.readline(LONGEST_LINE), "")
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    found = json.loads(line, object_pairs_hook=_without_repeats)
                except RepeatedKeyError as error:
                    raise ValueError(f"line {number} {error}.") from None
                except (ValueError, RecursionError):
                    found = None
                if isinstance(found, list) and scores_by_class(found) is not None:
                    found = {"scores": found}  # what a pipeline returned, as it is
                if not isinstance(found, dict):
                    what = f"line {number} is no JSON object: {_short(line.strip())}."
                    example = '{"label": 1, "probs": [0.2, 0.8]}'
                    raise ValueError(f"{what} Each line must look like {example}.")  # noqa: TRY004
                yield number, found

    def batches(self, words: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        """See `Table.batches`."""
        objects, width = self.objects(), None
        while batch := list(islice(objects, BATCH)):
            texts: list[list[object]] = [
                [self._value(number, found, name) for number, found in batch] for name in words
            ]
            rows = [self._row(number, found, numbers) for number, found in batch]
            width = width or len(rows[0])
            yield texts, self._numbers(batch, rows, numbers, width)

    @staticmethod
    def _value(number: int, found: dict[str, Any], name: str) -> object:
        value = found.get(name)
        if value is None or isinstance(value, list | dict):
            what = "is missing" if value is None else f"holds {_short(json.dumps(value))}"
            raise ValueError(f"line {number}: {name!r} {what}. Correct it or drop the line.")
        return value

    def _row(self, number: int, found: dict[str, Any], names: Sequence[str]) -> list[Any]:
        if len(names) == 1 and names[0] in self.nested:
            where = f"line {number}: {names[0]!r}"
            return row_of(found.get(names[0]), self.nested[names[0]], where)
        if len(names) == 1 and isinstance(found.get(names[0]), list):
            listed: list[Any] = found[names[0]]
            return listed
        return [found.get(name) for name in names]

    @staticmethod
    def _numbers(
        batch: list[tuple[int, dict[str, Any]]],
        rows: list[list[Any]],
        names: Sequence[str],
        width: int,
    ) -> FloatArray:
        try:
            array = np.array(rows)
            if array.dtype.kind in "fiu" and array.shape[1:] == (width,):
                return array.astype(np.float64)
        except ValueError:
            pass  # rows of different lengths
        bad = next(i for i, row in enumerate(rows) if len(row) != width or not _all_numbers(row))
        missing = [name for name in names if batch[bad][1].get(name) is None]
        one = width == len(rows[bad]) == 1
        found = f"found {_short(json.dumps(rows[bad][0] if one else rows[bad]))}"
        found = f"{missing[0]!r} is missing" if missing else found
        expected = "a number" if width == 1 else f"{width} numbers"
        raise ValueError(
            f"line {batch[bad][0]}: {', '.join(names[:3])} must hold {expected}; {found}. "
            + _advice(rows[bad])
        )

    def cells(self, numbers: Sequence[str]) -> int:
        """See `Table.cells`; by the size of the file."""
        return self._path.stat().st_size // LETTERS

    def place(self, row: int) -> str:
        """See `Table.place`."""
        number, _ = next(islice(self.objects(), row, None))
        return f"line {number}"


class RepeatedKeyError(ValueError):
    """A key that an object has twice: nobody knows which value is meant."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"has the key {repeated!r} twice. Remove one of them")
    return found


def _advice(row: list[Any]) -> str:
    if any(isinstance(value, list | dict) for value in row):
        return (
            "Predictions are a list of numbers, numbers by class {class: score}, or a list of "
            '{"label", "score"}, of the same form on every line.'
        )
    return "Correct the line or drop it."


def _all_numbers(row: list[Any]) -> bool:
    kinds = {np.array(value).dtype.kind for value in row}  # integers beyond 64 bits are objects
    return kinds <= {"f", "i", "u"} and not any(isinstance(value, list) for value in row)


def _floats(cells: list[str]) -> FloatArray:
    if "_" in "".join(cells):
        raise ValueError("Python reads 0_1 as 1")
    return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
