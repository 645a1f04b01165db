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
from riskalign.data.files.tables import DELIMITERS, CsvTable, JsonLinesTable
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
    check_rewritable(path)
    write = _WRITERS[path.suffix.lower()]
    return write(path, columns, scores.reshape(len(scores), -1))


def is_rewritable(path: Path) -> bool:
    """Whether predictions can be written in the format of a file."""
    return path.suffix.lower() in _WRITERS


def check_rewritable(path: Path) -> None:
    """Refuse a file in whose format predictions cannot be written."""
    if not is_rewritable(path):
        raise ValueError(
            f"{path}: predictions cannot be written in the format of this file. Store a calibrator "
            "with --save."
        )


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
    classes = JsonLinesTable(path).nested
    with path.open(encoding="utf-8-sig") as file:
        for line in file:
            if not line.strip():
                continue
            found, own = json.loads(line), next(numbers)
            if len(columns) == 1 and columns[0] in classes:
                by_class = dict(zip(classes[columns[0]], own, strict=True))
                if isinstance(found, list):  # what a pipeline returned, as it is
                    lines.append(_json_line(_with_scores(found, by_class)))
                    continue
                own = [_with_scores(found[columns[0]], by_class)]
            elif len(columns) == 1 and isinstance(found[columns[0]], list):
                own = [own]
            for column, value in zip(columns, own, strict=True):
                found[column] = value
            lines.append(_json_line(found))
    return "".join(lines).encode()


def _json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _with_scores(value: Any, scores: dict[str, float]) -> Any:
    """A value in which scores stand by class, with other scores.

    Pairs of label and score that are sorted by score remain so.
    """
    if isinstance(value, dict):
        return {name: scores[name] for name in value}
    if isinstance(value[0], list):  # pipelines return a list per text
        return [_with_scores(value[0], scores)]
    old = [pair["score"] for pair in value]
    pairs = [{**pair, "score": scores[str(pair["label"])]} for pair in value]
    if old == sorted(old, reverse=True):
        pairs.sort(key=lambda pair: -pair["score"])
    return pairs


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
    ".pq": _parquet,
}
