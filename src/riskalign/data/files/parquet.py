"""Parquet files, read in batches: never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from riskalign.data.files.tables import Batch
from riskalign.equations.arrays import FloatArray

CELLS = 2_000_000
"""Numbers of a batch: 16 MB."""

MOST_CLASSES = 1_000_000
"""Numbers of a list of predictions."""


class ParquetTable:
    """A Parquet file; predictions are numbers in several columns, or lists in one."""

    def __init__(self, path: Path) -> None:
        self._pyarrow, parquet = import_pyarrow()
        try:
            # By default pyarrow keeps every byte that it has read until the file is closed.
            self._file = parquet.ParquetFile(
                path, pre_buffer=False, page_checksum_verification=True
            )
        except PermissionError:
            raise
        except (self._pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"this is not a Parquet file ({_first_line(error)}).") from None
        self._types = {field.name: field.type for field in self._file.schema_arrow}
        self.columns = list(self._file.schema_arrow.names)

    def cells(self, numbers: Sequence[str]) -> int:
        """See `Table.cells`; the file says how many rows it has."""
        try:
            return int(self._file.metadata.num_rows) * self._width(numbers)
        except (self._pyarrow.ArrowException, OSError, ValueError):
            return 0  # `batches` says what is wrong

    def batches(self, words: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        """See `Table.batches`."""
        first = 0
        for name in words:
            if self._pyarrow.types.is_nested(self._types[name]):
                raise ValueError(
                    f"column {name!r} holds {self._types[name]}; one number or name per row is "
                    "needed. Choose another column with --label."
                )
        try:
            step = max(1, CELLS // max(self._width(numbers), 1))
            for batch in self._file.iter_batches(step, columns=[*words, *numbers]):
                if not len(batch):
                    continue
                texts: list[list[object]] = [batch.column(name).to_pylist() for name in words]
                columns = [self._numbers(batch.column(name), name, first) for name in numbers]
                yield texts, np.hstack([np.empty((len(batch), 0)), *columns])
                first += len(batch)
        except (self._pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"the file cannot be read ({_first_line(error)}).") from None

    def _width(self, numbers: Sequence[str]) -> int:
        """Numbers per row: columns, or the length of the first row's list."""
        if len(numbers) != 1 or not self._is_list(self._types[numbers[0]]):
            return len(numbers)
        check_lengths(self._file.metadata, numbers[0])
        batch = next(self._file.iter_batches(1, columns=list(numbers)), None)
        return 0 if batch is None else first_length(batch.column(numbers[0]), numbers[0])

    def _is_list(self, kind: Any) -> bool:
        types = self._pyarrow.types
        return bool(
            types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        )

    def _numbers(self, column: Any, name: str, first: int) -> FloatArray:
        """One column as ``(b, 1)``, or a column of lists as ``(b, K)``."""
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{self.place(row)}, column {name!r} is empty. Drop the row.")
        n = len(column)
        if self._is_list(column.type):
            lengths = np.asarray(self._pyarrow.compute.list_value_length(column))
            if (lengths != lengths[0]).any():
                row = int(np.argmax(lengths != lengths[0]))
                raise ValueError(
                    f"{self.place(first + row)}, column {name!r} has {lengths[row]} numbers, the "
                    f"rows before have {lengths[0]}."
                )
            column = column.flatten()
            if column.null_count:
                raise ValueError(f"column {name!r} has lists with empty places. Fill them.")
        try:
            values = column.cast(self._pyarrow.float64()).to_numpy(zero_copy_only=False)
        except (self._pyarrow.ArrowInvalid, self._pyarrow.ArrowNotImplementedError):
            raise ValueError(
                f"column {name!r} holds {column.type}, not numbers. Choose others with --probs."
            ) from None
        matrix: FloatArray = values.reshape(n, -1)
        return matrix

    def place(self, row: int) -> str:
        """See `Table.place`."""
        return f"row {row}"


def check_lengths(metadata: Any, name: str) -> None:
    """Refuse a column of lists that are too long, by what the file says, before any is read.

    A few bytes of a file can stand for any number of equal values.
    """
    own = [
        k
        for k in range(metadata.num_columns)
        if metadata.schema.column(k).path.startswith(f"{name}.")
    ]
    for number in range(metadata.num_row_groups) if own else ():
        group = metadata.row_group(number)
        if group.num_rows and group.column(own[0]).num_values / group.num_rows > MOST_CLASSES:
            raise _too_long(group.column(own[0]).num_values // group.num_rows, name)


def first_length(column: Any, name: str) -> int:
    """The length of the first list of an Arrow column; 0 if there is none."""
    pyarrow, _ = import_pyarrow()
    length = pyarrow.compute.list_value_length(column.slice(0, 1))
    found = int((length[0].as_py() if len(length) else None) or 0)
    if found > MOST_CLASSES:
        raise _too_long(found, name)
    return found


def _too_long(length: int, name: str) -> ValueError:
    return ValueError(
        f"column {name!r} has lists of {length:,} numbers; at most {MOST_CLASSES:,} classes are "
        "read. Store the predicted class's probability (confidence, pred) in place of all."
    )


def import_pyarrow() -> tuple[Any, Any]:
    """The modules pyarrow and pyarrow.parquet, or an error that says how to install them."""
    try:
        import pyarrow
        import pyarrow.compute
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "reading Parquet needs pyarrow: pip install 'riskalign[parquet]'."
        ) from None
    return pyarrow, parquet


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
