"""Sketches of Parquet files: against reading and counting alone, and on two cores.

    python -m benchmarks.run --only sketch_parquet sketch_parquet_cores

The files are written to a temporary folder, a million rows at a time.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import riskalign as ra
from benchmarks.default import against
from benchmarks.timing import Work, timed

ROWS, FEWER = 100_000_000, 30_000_000
PIECE = 1_000_000


def write_rows(path: Path, n: int) -> None:
    """Binary predictions and labels, in row groups of a million."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([("y", pa.int8()), ("p", pa.float64())])
    with parquet.ParquetWriter(path, schema, use_dictionary=["y"]) as writer:
        for start in range(0, n, PIECE):
            generator = np.random.default_rng(start)
            p = generator.beta(0.5, 0.5, PIECE)
            y = (generator.random(PIECE) < p).astype(np.int8)
            writer.write_table(pa.table({"y": y, "p": p}, schema=schema), row_group_size=PIECE)


def read_and_count(path: Path) -> None:
    """Read the two columns, and count each by np.histogram, a row group at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["y", "p"])
            np.histogram(table["p"].to_numpy(), bins=15, range=(0, 1))
            np.histogram(table["y"].to_numpy(), bins=2, range=(0, 1))


def sketch_parquet() -> dict[str, Any]:
    """`sketch_batches`, binary, 100,000,000 rows of Parquet."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, ROWS)
        size = path.stat().st_size / 2**20

        def load() -> Work:
            return lambda: read_and_count(path)

        return against(
            "pyarrow's reading of both columns and np.histogram of each",
            lambda: ra.sketch_batches(path, label="y", probs="p"),
            load,
            target=3,
            turns=2,
            note=f"{ROWS:,} rows, a file of {size:.0f} MB, {len(os.sched_getaffinity(0))} cores",
        )


def sketch_parquet_cores() -> dict[str, Any]:
    """`sketch_batches` on two cores, binary, 30,000,000 rows of Parquet."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, FEWER)
        one, two = [], []
        for _ in range(5):
            one.append(timed(lambda: ra.sketch_batches(path, label="y", probs="p", workers=1)))
            two.append(timed(lambda: ra.sketch_batches(path, label="y", probs="p", workers=2)))
    alone, both = (min(wall for wall, _ in each) for each in (one, two))
    busy = [min(cpu for _, cpu in each) for each in (one, two)]
    return {
        "seconds": both,
        "against": "one core",
        "reference_seconds": alone,
        "ratio": alone / both,
        "unit": "times faster",
        "target": 1.6,
        "reached": bool(alone >= 1.6 * both),
        "note": f"CPU seconds {busy[1]:.2g} on two, {busy[0]:.2g} on one",
    }


WORKS = (sketch_parquet, sketch_parquet_cores)
