"""Recalibrated predictions in the format of the file they came from.

What is not a prediction is kept: other columns, keys and arrays, and the order of rows.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.data.files.arrays import archive_arrays, archive_keys, archive_of, single_array
from riskalign.data.files.parquet import import_pyarrow
from riskalign.data.files.tables import DELIMITERS, CsvTable
from riskalign.equations.arrays import FloatArray


def rewritten(path: Path, columns: Sequence[str], scores: FloatArray) -> bytes:
    """The content of a file with other predictions.

    Parameters
    ----------
    path : the file that the predictions were read from
    columns : names of the columns (keys of an archive) that hold predictions
    scores : (n,) or (n, K)
        The new predictions, in the order of the rows and of the columns.
    """
    write = _WRITERS[path.suffix.lower()]
    return write(path, columns, scores.reshape(len(scores), -1))


def _csv(path: Path, columns: Sequence[str], scores: FloatArray) -> bytes:
    text, table = io.StringIO(), CsvTable(path)
    places = [table.columns.index(column) for column in columns]
    with path.open(encoding="utf-8-sig", newline="") as file:
        delimiter = max(DELIMITERS, key=file.readline().count)
        file.seek(0)
        rows = filter(None, csv.reader(file, delimiter=delimiter))
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if table.has_names:
            writer.writerow(next(rows))
        for row, own in zip(rows, scores.tolist(), strict=True):
            for place, value in zip(places, own, strict=True):
                row[place] = repr(value)
            writer.writerow(row)
    return text.getvalue().encode()


def _json_lines(path: Path, columns: Sequence[str], scores: FloatArray) -> bytes:
    lines, numbers = [], iter(scores.tolist())
    with path.open(encoding="utf-8-sig") as file:
        for line in file:
            if not line.strip():
                continue
            found, own = json.loads(line), next(numbers)
            if len(columns) == 1 and isinstance(found[columns[0]], list):
                own = [own]
            for column, value in zip(columns, own, strict=True):
                if isinstance(found[column], dict) or _holds_objects(found[column]):
                    raise ValueError(
                        f"{column!r} holds JSON objects, into which nothing is written. Store "
                        "predictions as numbers under several keys, or as a list under one."
                    )
                found[column] = value
            lines.append(json.dumps(found, ensure_ascii=False) + "\n")
    return "".join(lines).encode()


def _holds_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)


def _archive(path: Path, columns: Sequence[str], scores: FloatArray) -> bytes:
    arrays: dict[str, Any] = archive_arrays(path, archive_keys(path))
    first = 0
    for column in columns:
        width = 1 if arrays[column].ndim == 1 else arrays[column].shape[1]
        arrays[column] = _like(arrays[column], scores[:, first : first + width])
        first += width
    return archive_of(arrays)


def _single(path: Path, columns: Sequence[str], scores: FloatArray) -> bytes:
    file = io.BytesIO()
    np.save(file, _like(single_array(path), scores), allow_pickle=False)
    return file.getvalue()


def _like(old: npt.NDArray[Any], scores: FloatArray) -> npt.NDArray[Any]:
    """Scores in the shape of an array, and in its type unless that is too short for them."""
    kept = old.dtype if old.dtype in (np.float32, np.float64) else np.float64
    return scores.reshape(old.shape).astype(kept)


def _parquet(path: Path, columns: Sequence[str], scores: FloatArray) -> bytes:
    arrow, parquet = import_pyarrow()
    table = parquet.read_table(path)
    first = 0
    for column in columns:
        place = table.schema.get_field_index(column)
        if arrow.types.is_nested(table.schema.field(place).type):
            width = scores.shape[1]
            flat = arrow.array(scores.ravel())
            values = arrow.ListArray.from_arrays(
                arrow.array(np.arange(len(scores) + 1, dtype=np.int32) * width), flat
            )
        else:
            values, first = arrow.array(scores[:, first]), first + 1
        table = table.set_column(place, column, values)
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


_WRITERS: dict[str, Callable[[Path, Sequence[str], FloatArray], bytes]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json_lines,
    ".npz": _archive,
    ".npy": _single,
    ".parquet": _parquet,
}
