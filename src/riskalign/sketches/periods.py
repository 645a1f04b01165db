"""Periods of a history: their names, their order, and the files that store them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from riskalign.data.files.parquet import import_pyarrow
from riskalign.data.files.sketches import SUFFIX, read_sketch_file
from riskalign.data.files.whole import write_together, write_whole
from riskalign.data.format import SketchFormatError
from riskalign.data.sources import PARQUET
from riskalign.data.validation import is_whole
from riskalign.sketches.sketch import CalibrationSketch

SMALL, MOST_TIMES = 10_000_000, 50
"""Bytes that a stored sketch may always take when unpacked, and how many times its stored bytes
more may take; sketches take less than twice as many."""

LONGEST = 120
"""Letters of a period's name, which names a file."""

LONGEST_FILE = 240
"""Bytes of that file's name: file systems allow 255, and while it is written it has some more."""


def spelled(period: str | date | int) -> str:
    """A period as text; dates are written as 2026-01-31."""
    return period.isoformat() if isinstance(period, date) else str(period)


def name_of(period: str | date | int) -> str:
    """The name of a new period, which must be able to name a file."""
    if not isinstance(period, str | date) and not is_whole(period):
        raise TypeError(f"`period` must be a name, a date or a whole number; found {period!r}.")
    name = spelled(period)
    if not 1 <= len(name) <= LONGEST or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"`period` must be a name of 1 to {LONGEST} printable letters; found {name[:150]!r}."
        )
    if len(_file_name(name)) > LONGEST_FILE:
        raise ValueError(
            f"`period` must be shorter: {name!r} takes more than {LONGEST_FILE} bytes as the name "
            "of a file, where letters other than those of ASCII take 6 or more."
        )
    return name


def _file_name(period: str) -> str:
    """The file of a period; letters that file names cannot have, and a first dot, are encoded."""
    name = quote(period, safe=" ,:+=@()")
    return ("%2E" + name[1:] if name.startswith(".") else name) + SUFFIX


def order_of(name: str) -> list[tuple[int, str]]:
    """Names in order, numbers in them by their value."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part) if i % 2 else 0, part) for i, part in enumerate(parts)]


def _restored(blob: bytes, path: Path) -> CalibrationSketch:
    try:
        return CalibrationSketch.from_bytes(blob)
    except SketchFormatError as error:
        raise SketchFormatError(f"{path}: {error}") from None


def _parquet_rows(path: Path) -> Iterator[tuple[str, bytes]]:
    """Periods and bytes of sketches, one after the other."""
    pyarrow, parquet = import_pyarrow()
    try:
        with parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
            plain = {field.name for field in file.schema_arrow if not field.type.num_fields}
            if not {"period", "sketch"} <= plain:
                raise ValueError(
                    f"{path}: this is no history; the columns 'period' and 'sketch' are needed."
                )
            _check_sizes(file.metadata, path)
            for batch in file.iter_batches(1, columns=["period", "sketch"]):
                row = batch.to_pylist()[0]
                if not isinstance(row["period"], str) or not isinstance(row["sketch"], bytes):
                    raise ValueError(f"{path}: a period or a sketch is missing.")  # noqa: TRY004
                yield row["period"], row["sketch"]
    except (pyarrow.ArrowInvalid, OSError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise ValueError(f"{path}: the file cannot be read ({reason}).") from None


def _check_sizes(metadata: Any, path: Path) -> None:
    """Refuse what is far larger when unpacked: sketches are packed already."""
    names = [metadata.schema.column(k).path for k in range(metadata.num_columns)]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for name in ("period", "sketch"):
            column = group.column(names.index(name))
            unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
            if unpacked > SMALL and unpacked > MOST_TIMES * packed:
                raise ValueError(
                    f"{path}: this is no history; {packed:,} bytes of the column {name!r} would "
                    f"take {unpacked:,} bytes of memory."
                )


def save(sketches: dict[str, CalibrationSketch], path: Path) -> None:
    """Store sketches by period as one Parquet file, or as a folder of .sketch files."""
    for period in sketches:
        name_of(period)  # windows have longer names, with which they could not be loaded
    if path.suffix.lower() != ".parquet":
        _save_folder(sketches, path)
        return
    pyarrow, parquet = import_pyarrow()
    blobs = [sketch.to_bytes() for sketch in sketches.values()]
    table = pyarrow.table(
        {
            "period": pyarrow.array(list(sketches), pyarrow.string()),
            "n_samples": [sketch.n_samples for sketch in sketches.values()],
            "sketch": pyarrow.array(blobs, pyarrow.large_binary()),
        }
    )
    stream = pyarrow.BufferOutputStream()
    parquet.write_table(
        table,
        stream,
        compression="zstd",
        row_group_size=1,
        write_statistics=False,  # they would repeat the sketches
        write_page_checksum=True,
    )
    write_whole(path, stream.getvalue().to_pybytes())


def _save_folder(sketches: dict[str, CalibrationSketch], path: Path) -> None:
    """One file per period, in a folder that has no others: those would be read as periods too."""
    files = {path / _file_name(period): sketch for period, sketch in sketches.items()}
    others = [
        file.name for file in (sketch_files(path) if path.is_dir() else []) if file not in files
    ]
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise ValueError(
            f"{path}: the folder holds sketches of other periods ({shown}). Load the folder and "
            "append to that history, remove the files, or save to another folder."
        )
    path.mkdir(parents=True, exist_ok=True)
    write_together(_changed(files))


def _changed(files: dict[Path, CalibrationSketch]) -> Iterator[tuple[Path, bytes]]:
    """The files whose content is new, one after the other."""
    for file, sketch in files.items():
        blob = sketch.to_bytes()
        known = file.is_file() and file.stat().st_size == len(blob)
        if not known or file.read_bytes() != blob:
            yield file, blob


def sketch_files(path: Path) -> list[Path]:
    """The files of a history: the sketches of a folder, or one Parquet file."""
    if not path.is_dir():
        return [path]
    # One that begins with a dot is being written.
    return [file for file in path.glob(f"*{SUFFIX}") if not file.name.startswith(".")]


def load(path: Path) -> Iterator[tuple[str, CalibrationSketch]]:
    """The periods that `save` stored, or the sketches of a folder, named by their files."""
    if path.is_dir():
        files = sketch_files(path)
        if not files:
            raise FileNotFoundError(f"{path}: there are no {SUFFIX} files in it.")
        for file in files:
            period = unquote(file.name.removesuffix(SUFFIX))
            yield period, _restored(read_sketch_file(file), file)
        return
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder.")
    if not path.is_file():
        raise ValueError(f"{path}: this is no file.")
    if path.suffix.lower() not in PARQUET:
        raise ValueError(
            f"{path}: this is no history, which is a folder of {SUFFIX} files or a .parquet file "
            "that CalibrationHistory.save has written."
        )
    for period, blob in _parquet_rows(path):
        yield period, _restored(blob, path)
