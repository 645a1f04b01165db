"""Sketches of Spark data frames, computed on the executors, which need riskalign installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from riskalign.data.arrow import Reading
from riskalign.data.files.parquet import import_pyarrow
from riskalign.data.sources import Batches
from riskalign.sketches.groups import Groups, merged_bytes, sketches_of

TREE = (64, 8)
"""Tasks that merge sketches before the driver does, level by level."""

GROUP, SKETCH = "group", "sketch"
"""Names of the columns of groups and of bytes."""


def sketch(
    df: Any,
    *,
    label: str | None = None,
    probs: str | Sequence[str] | None = None,
    by: str | None = None,
    notion: str | None = None,
    classes: Sequence[object] | None = None,
    weight: str | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    exact_limit: int | None = None,
    bits: int | None = None,
    tree: bool = False,
) -> Any:
    """Sketch the rows of a Spark data frame.

    Every partition becomes one row of bytes by `mapInArrow`; what is merged are these rows. A
    task that Spark runs again replaces its row, so that nothing is counted twice.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    probs : str or sequence of str
        Columns, one column of arrays, or one of ML vectors.
    by : str, optional
        A column of groups. Sketches are merged by group on the executors.
    tree : bool
        Merge on executors, 64 and then 8 tasks, before the driver does. Use it for thousands of
        partitions or for many classes, whose sketches are large.
    others
        As for `riskalign.sketch_batches`.

    Returns
    -------
    CalibrationSketch, or dict of them with `by`
    """
    reading = Reading.of(
        df.columns,
        label=label,
        probs=probs,
        classes=classes,
        from_logits=from_logits,
        normalize=normalize,
        weight=weight,
        by=by,
    )
    settings = {"notion": notion, "exact_limit": exact_limit, "bits": bits}
    rows = _selected(df, reading.columns)
    types = _types(None if by is None else df.schema[by].dataType)
    rows = rows.mapInArrow(partial(_of_partition, reading, settings), types)
    for n_tasks in TREE if tree else TREE[:1] if by is not None else ():
        keys = () if by is None else (GROUP,)
        merge = partial(_of_sketches, by is not None)
        rows = rows.repartition(n_tasks, *keys).mapInArrow(merge, types)
    found = [(None if by is None else row[GROUP], bytes(row[SKETCH])) for row in rows.collect()]
    blobs = merged_bytes({key: blob} for key, blob in found)
    return sketches_of(blobs, grouped=by is not None)


def _selected(df: Any, columns: Sequence[str]) -> Any:
    """The columns that are read, ML vectors as arrays; numbered, since names may hold dots.

    Spark takes a dot in a name that is not quoted for the way into a struct, and does not quote.
    """
    from pyspark.sql import functions

    selected = []
    for number, name in enumerate(columns):
        column = functions.col("`" + name.replace("`", "``") + "`")
        if type(df.schema[name].dataType).__name__ == "VectorUDT":
            from pyspark.ml.functions import vector_to_array

            # It fails without a word of the column where there is no vector.
            column = functions.when(column.isNotNull(), vector_to_array(column))
        selected.append(column.alias(f"column_{number}"))
    return df.select(*selected)


def _types(kind: Any) -> Any:
    """The columns of sketches: the group, if there are groups of some type, and bytes."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    groups = [] if kind is None else [StructField(GROUP, kind)]
    return StructType([*groups, StructField(SKETCH, BinaryType())])


def _of_partition(
    reading: Reading, settings: dict[str, Any], batches: Iterator[Any]
) -> Iterator[Any]:
    """One row of bytes per group of a partition; none if it is empty."""
    from pyspark import TaskContext

    context = TaskContext.get()
    place = f"partition {'?' if context is None else context.partitionId()}"
    kinds: list[Any] = []

    def numbered() -> Batches:
        first = 0
        for given in batches:
            batch = given.rename_columns(reading.columns)
            kinds.append(None if reading.by is None else batch.schema.field(reading.by).type)
            yield batch, place, first
            first += len(batch)

    blobs = Groups(reading, settings).add(numbered()).to_bytes()
    if blobs:
        yield _batch(blobs, kinds[0])


def _of_sketches(grouped: bool, batches: Iterator[Any]) -> Iterator[Any]:
    """The sketches of a task's rows, merged by group."""
    kinds: list[Any] = []

    def parts() -> Iterator[dict[Any, bytes]]:
        for batch in batches:
            kinds.append(batch.schema.field(GROUP).type if grouped else None)
            for row in batch.to_pylist():
                yield {row[GROUP] if grouped else None: row[SKETCH]}

    blobs = merged_bytes(parts())
    if blobs:
        yield _batch(blobs, kinds[0])


def _batch(blobs: dict[Any, bytes], kind: Any) -> Any:
    """Sketches as rows; `kind` is the type of the groups, None where there are none."""
    pyarrow, _ = import_pyarrow()
    columns = {} if kind is None else {GROUP: pyarrow.array(list(blobs), kind)}
    return pyarrow.RecordBatch.from_pydict(
        columns | {SKETCH: pyarrow.array(list(blobs.values()), pyarrow.binary())}
    )
