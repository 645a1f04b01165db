"""Where rows come from: Parquet files, data frames, query results and iterables of them.

A source is a list of *spans*. A span yields Arrow record batches with the place they come from;
spans can be read at the same time. Parquet files make many spans of a few row groups each,
everything else makes one.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskalign.data.arrow import CELLS, Reading, is_list
from riskalign.data.files.parquet import check_lengths, import_pyarrow

PARQUET = (".parquet", ".pq")
"""Endings of Parquet files, in any case."""

OTHERS = (".csv", ".tsv", ".jsonl", ".json", ".npz", ".npy", ".txt", ".sketch")
"""Endings of files that are surely not Parquet."""

SPANS, WIDE_SPANS, WIDE = 32, 8, 16
"""Spans of Parquet files for up to 16 predictions per row, and for more: the sketches of spans are
merged, and those of many classes are large."""

BUFFER = 1 << 20
"""Bytes of a column that are read from a file at a time."""

LEAST_ROWS = 250_000
"""Rows that a span has at least, if there are as many."""

Batches = Iterator[tuple[Any, str, int]]
"""Record batches, the place they come from, and the number of their first row there."""


@dataclass(frozen=True)
class Source:
    """Columns, and how to read those that are wanted.

    Attributes
    ----------
    columns : names of all columns
    spans : from a reading to functions that yield batches; each may be called once
    """

    columns: list[str]
    spans: Callable[[Reading], list[Callable[[], Batches]]]


def open_source(source: object) -> Source:
    """What `riskalign.sketch_batches` takes, as a `Source`."""
    import_pyarrow()
    from pyarrow import dataset

    if isinstance(source, str | os.PathLike):
        return of_dataset(parquet_files([source]))
    if isinstance(source, dataset.Dataset):
        return of_dataset(source)
    if isinstance(source, list | tuple) and all(isinstance(x, str | os.PathLike) for x in source):
        return of_dataset(parquet_files(source))
    if hasattr(source, "collect_batches"):  # a lazy frame of Polars
        return _of_lazy_frame(source)
    if hasattr(source, "fetch_arrow_reader") and hasattr(source, "project"):  # one of DuckDB
        return _of_relation(source)
    if _is_frame(source):
        reader = _reader(source)
        return Source(
            list(reader.schema.names), lambda reading: [lambda: _stream([reader], reading)]
        )
    if isinstance(source, Iterable):
        frames = iter(source)
        first = next(frames, None)
        if first is None:
            raise ValueError("`source` is empty: there are no rows.")
        head = _reader(first)
        rest = (_reader(frame) for frame in frames)
        return Source(
            list(head.schema.names), lambda reading: [lambda: _stream(_chain(head, rest), reading)]
        )
    raise TypeError(_wrong_source(source))


def parquet_files(paths: Sequence[str | os.PathLike[str]]) -> Any:
    """A pyarrow dataset of Parquet files, given as files, folders and patterns.

    Folders are searched through; those named ``column=value`` make a column, as Hive's do.
    """
    pyarrow, _ = import_pyarrow()
    from pyarrow import dataset

    if not paths:
        raise ValueError("`source` is empty: there are no files.")
    files = [file for path in paths for file in files_of(path)]
    _refuse_other_formats(files)
    root = os.fspath(paths[0]) if len(paths) == 1 and os.path.isdir(paths[0]) else None
    try:
        return dataset.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=root
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"the files cannot be read as Parquet ({_reason(error)}).") from None


def _refuse_other_formats(files: Sequence[str]) -> None:
    for file in files:
        if Path(file).suffix.lower() in OTHERS:
            raise ValueError(
                f"{file}: the file cannot be read as Parquet, which patterns and sketch_batches "
                "are for. List other files one by one: riskalign sketch a.csv b.csv -o both.sketch."
            )


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files that a path stands for: itself, those in a folder, or those of a pattern.

    Of a folder, also of one that a pattern matches, these are the files that end in .parquet or
    .pq, in any case, apart from those whose names begin with a dot or an underscore.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        found = _files_in(path)
    elif os.path.exists(path):
        found = [path]
    else:
        matches = sorted(glob.glob(path, recursive=True))
        parts = [_files_in(each) if os.path.isdir(each) else [each] for each in matches]
        found = list(dict.fromkeys(os.path.normpath(file) for part in parts for file in part))
    if not found:
        kind = "Parquet files in it" if os.path.isdir(path) else "such file"
        raise FileNotFoundError(f"{path}: no {kind}.")
    for file in found:
        if not os.path.isfile(file):
            raise ValueError(f"{file} is a pipe or a device, not a file. Write the rows to a file.")
    return found


def _files_in(folder: str) -> list[str]:
    return sorted(
        str(each)
        for each in Path(folder).rglob("*")
        if each.suffix.lower() in PARQUET
        and not any(part.startswith((".", "_")) for part in each.relative_to(folder).parts)
        and not each.is_dir()
    )


def _reason(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def of_dataset(dataset: Any) -> Source:
    """A pyarrow dataset; of Parquet files, unless filtered, row groups are read in parallel."""
    from pyarrow.dataset import ParquetFileFragment

    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered dataset has none
        fragments = [None]
    if not all(isinstance(fragment, ParquetFileFragment) for fragment in fragments):

        def scanned(reading: Reading) -> list[Callable[[], Batches]]:
            reader = dataset.scanner(columns=reading.columns).to_reader()
            return [lambda: _stream([reader], reading)]

        return Source(list(dataset.schema.names), scanned)
    return Source(list(dataset.schema.names), lambda reading: _spans(fragments, reading))


def _spans(fragments: Sequence[Any], reading: Reading) -> list[Callable[[], Batches]]:
    """Row groups of all files in order, divided into spans of about equal size.

    The division depends on the files alone, so that nothing depends on the number of workers.
    """
    groups = []
    for fragment in fragments:
        first = 0
        for group in _row_groups_of(fragment):
            groups.append((fragment, group.id, first, group.num_rows))
            first += group.num_rows
    total = sum(rows for *_, rows in groups)
    most = SPANS if len(reading.layout.scores) <= WIDE else WIDE_SPANS
    size = max(LEAST_ROWS, -(-total // most))
    spans: list[list[tuple[Any, int, int]]] = []
    held = size
    for fragment, group, first, rows in groups:
        if held >= size:
            spans.append([])
            held = 0
        spans[-1].append((fragment, group, first))
        held += rows
    return [lambda span=span: _row_groups(span, reading) for span in spans]  # type: ignore[misc]


def _row_groups_of(fragment: Any) -> Any:
    """The row groups of a file, which is opened here for the first time."""
    pyarrow, _ = import_pyarrow()
    try:
        return fragment.row_groups
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{fragment.path}: the file cannot be read as Parquet ({_reason(error)}). Remove it, "
            "or name the files by a pattern such as '*.parquet'."
        ) from None


def _row_groups(span: Sequence[tuple[Any, int, int]], reading: Reading) -> Batches:
    """The batches of some row groups, never more than a batch of them in memory."""
    pyarrow, parquet = import_pyarrow()
    from pyarrow import dataset

    path, file, step, keys, columns = None, None, CELLS, {}, reading.columns
    for fragment, group, first in span:
        try:
            if file is None or fragment.path != path:
                if file is not None:
                    file.close()
                path = fragment.path
                source = fragment.filesystem.open_input_file(path)
                # By default pyarrow reads whole columns of a row group, and keeps all it has read.
                file = parquet.ParquetFile(
                    source, pre_buffer=False, buffer_size=BUFFER, page_checksum_verification=True
                )
                keys = dataset.get_partition_keys(fragment.partition_expression)
                columns = [name for name in reading.columns if name not in keys]
                _check_columns(columns, file.schema_arrow.names, path)
                step = _rows_at_a_time(file, reading, path)
            for batch in file.iter_batches(
                step, row_groups=[group], columns=columns, use_threads=False
            ):
                yield _with_keys(batch, keys, reading.columns), path, first
                first += len(batch)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise ValueError(f"{path}: the file cannot be read ({_reason(error)}).") from None


def _check_columns(columns: Sequence[str], there: Sequence[str], place: str) -> None:
    missing = [name for name in columns if name not in there]
    if missing:
        raise ValueError(f"{place}: the column {missing[0]!r} is not there, as it is in others.")


def _rows_at_a_time(file: Any, reading: Reading, path: str) -> int:
    names = reading.layout.scores
    width = len(names)
    if width == 1 and is_list(file.schema_arrow.field(names[0]).type):
        try:
            check_lengths(file.metadata, names[0])
            first = next(file.iter_batches(1, columns=list(names)), None)
            width = 1 if first is None else reading.width(first)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return max(1, CELLS // width)


def _with_keys(batch: Any, keys: dict[str, Any], columns: Sequence[str]) -> Any:
    """The batch with the columns that the names of its folders make."""
    pyarrow, _ = import_pyarrow()
    for name in columns:
        if name in keys:
            column = pyarrow.repeat(pyarrow.scalar(keys[name]), len(batch))
            extended = [*batch.columns, column]
            batch = pyarrow.RecordBatch.from_arrays(extended, [*batch.schema.names, name])
    return batch


def _of_lazy_frame(frame: Any) -> Source:
    def spans(reading: Reading) -> list[Callable[[], Batches]]:
        wanted = frame.select(reading.columns)
        return [lambda: _stream(map(_reader, wanted.collect_batches()), reading)]

    return Source(list(frame.collect_schema().names()), spans)


def _of_relation(relation: Any) -> Source:
    def spans(reading: Reading) -> list[Callable[[], Batches]]:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in reading.columns)
        wanted = relation.project(quoted)
        reader = getattr(wanted, "to_arrow_reader", wanted.fetch_arrow_reader)  # its name changed
        return [lambda: _stream([reader(CELLS)], reading)]

    return Source(list(relation.columns), spans)


def _chain(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _stream(readers: Iterable[Any], reading: Reading) -> Batches:
    """The batches of readers one after the other, their rows numbered from the first."""
    first = 0
    for number, reader in enumerate(readers):
        _check_columns(reading.columns, reader.schema.names, f"frame {number} of the source")
        for batch in reader:
            yield batch, "the source", first
            first += len(batch)


def _is_frame(frame: object) -> bool:
    known = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
    return isinstance(frame, dict) or any(hasattr(frame, name) for name in known)


def _reader(frame: Any) -> Any:
    """A frame of any library as a reader of record batches."""
    pyarrow, _ = import_pyarrow()
    if isinstance(frame, pyarrow.RecordBatchReader):
        return frame
    if isinstance(frame, pyarrow.RecordBatch):
        return pyarrow.RecordBatchReader.from_batches(frame.schema, [frame])
    if isinstance(frame, dict):
        return pyarrow.table(frame).to_reader()
    if type(frame).__module__.split(".")[0] == "pandas":
        return of_pandas(frame).to_reader()
    if hasattr(frame, "__arrow_c_stream__"):
        return pyarrow.RecordBatchReader.from_stream(frame)
    raise TypeError(_wrong_source(frame))


def of_pandas(frame: Any) -> Any:
    """A data frame of pandas as a table of Arrow, or an error that names the column."""
    pyarrow, _ = import_pyarrow()
    try:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    except pyarrow.ArrowException as error:
        reason = "; ".join(map(str, error.args)).rstrip(".")
        raise ValueError(
            f"the data frame has a column that Arrow cannot read ({reason}). Give it one type, or "
            "leave it out."
        ) from None


def _wrong_source(found: object) -> str:
    return (
        "`source` must be Parquet (a file, a folder, a pattern, a pyarrow dataset), a data frame "
        "of Arrow, pandas or Polars, a relation of DuckDB, or an iterable of data frames; found "
        f"{type(found).__name__}. For arrays, use `CalibrationSketch.update`."
    )
