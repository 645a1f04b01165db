"""Sketches of Dask data frames and arrays, computed where the data are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from riskalign.data.arrow import Reading
from riskalign.data.files.parquet import import_pyarrow
from riskalign.data.sources import of_pandas
from riskalign.sketches.groups import Groups, merged_bytes, sketches_of

FAN_IN = 8
"""Sketches that one task merges."""


def sketch(
    data: Any,
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
) -> Any:
    """Sketch the rows of a Dask collection, lazily.

    Every partition becomes a sketch, and a tree of tasks merges them. Sketches travel as bytes,
    which no task changes, so that a task that is run again counts nothing twice.

    Parameters
    ----------
    data : dask data frame, or (y_true, y_prob) or (y_true, y_prob, sample_weight) of dask arrays
        Arrays are divided along their rows; `y_prob` has shape (n,) or (n, K).
    others
        As for `riskalign.sketch_batches`; `label`, `probs`, `by` and `weight` name columns of a
        data frame.

    Returns
    -------
    dask.delayed.Delayed
        Its `compute()` gives a `CalibrationSketch`, or a dictionary of them with `by`.

    Examples
    --------
    >>> import dask.dataframe as dd  # doctest: +SKIP
    >>> import riskalign.dask
    >>> lazy = riskalign.dask.sketch(
    ...     dd.read_parquet("predictions"), label="y", probs="p"
    ... )  # doctest: +SKIP
    >>> lazy.compute().calibration_error(confidence=0.95).interval  # doctest: +SKIP
    (0.0021, 0.0025)
    """
    from dask.delayed import delayed

    options: dict[str, Any] = {"classes": classes, "from_logits": from_logits}
    options["normalize"] = normalize
    if isinstance(data, tuple | list):
        if not (label is probs is by is weight is None):
            raise ValueError("`label`, `probs`, `by` and `weight` name columns of a data frame.")
        parts, columns = _blocks(data)
        options |= {"label": "y_true", "probs": "y_prob"}
        options["weight"] = "sample_weight" if "sample_weight" in columns else None
        reading = Reading.of(columns, **options)
    elif hasattr(data, "npartitions") and hasattr(data, "columns"):
        options |= {"label": label, "probs": probs, "by": by, "weight": weight}
        names = {str(name): name for name in data.columns}
        reading = Reading.of([str(name) for name in data.columns], **options)
        chosen = data[[names[name] for name in reading.columns]]
        parts = [(part,) for part in chosen.to_delayed()]
    else:
        raise TypeError(
            "`data` must be a dask data frame or a pair (y_true, y_prob) of dask arrays; found "
            f"{type(data).__name__}."
        )
    settings = {"notion": notion, "exact_limit": exact_limit, "bits": bits}
    make, merge = delayed(_sketched, pure=False), delayed(_merged, pure=False)
    tasks = [make(reading, settings, number, *part) for number, part in enumerate(parts)]
    while len(tasks) > 1:
        tasks = [merge(tasks[i : i + FAN_IN]) for i in range(0, len(tasks), FAN_IN)]
    return delayed(sketches_of, pure=False)(tasks[0], grouped=by is not None)


def _blocks(arrays: Sequence[Any]) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The blocks of arrays, divided alike, and the names of the arrays."""
    names = ["y_true", "y_prob", "sample_weight"][: len(arrays)]
    if len(arrays) not in (2, 3) or not all(hasattr(array, "chunks") for array in arrays):
        raise TypeError("`data` must be a pair (y_true, y_prob) of dask arrays.")
    y_prob = arrays[1]
    if y_prob.ndim == 2 and y_prob.shape[1] == 1:
        raise ValueError(
            "`y_prob` must have shape (n,) or (n, K) with K >= 2; found one column. Pass "
            "`y_prob[:, 0]`, the probability of the positive class."
        )
    if y_prob.ndim == 2 and len(y_prob.chunks[1]) > 1:
        y_prob = y_prob.rechunk({1: -1})
    blocks = []
    for array, ndim, name in zip((arrays[0], y_prob, *arrays[2:]), (1, 2, 1), names, strict=False):
        if not 1 <= array.ndim <= ndim:
            raise ValueError(f"`{name}` has {array.ndim} dimensions; at most {ndim} are possible.")
        if array.chunks[0] != y_prob.chunks[0] and not np.isnan(array.shape[0] + y_prob.shape[0]):
            if array.shape[0] != y_prob.shape[0]:
                raise ValueError(
                    f"`{name}` and `y_prob` must have the same length; found {array.shape[0]} and "
                    f"{y_prob.shape[0]}."
                )
            array = array.rechunk({0: y_prob.chunks[0]})
        blocks.append(array.to_delayed().ravel().tolist())
        if len(blocks[-1]) != len(blocks[0]):
            raise ValueError(
                f"`{name}` has {len(blocks[-1])} blocks and `{names[0]}` {len(blocks[0])}, and "
                "their lengths are not known. Call `compute_chunk_sizes` of the arrays first."
            )
    return list(zip(*blocks, strict=True)), names


def _sketched(
    reading: Reading, settings: dict[str, Any], number: int, *part: Any
) -> dict[Any, bytes]:
    """The sketches of one partition: a pandas frame, or blocks of arrays."""
    pyarrow, _ = import_pyarrow()
    place = f"partition {number}"
    if len(part) == 1:
        frame = part[0].set_axis([str(name) for name in part[0].columns], axis=1)
        table = of_pandas(frame)
    else:
        lengths = {len(array) for array in part}
        if len(lengths) > 1:
            raise ValueError(f"{place}: the arrays have blocks of different lengths, {lengths}.")
        names = ["y_true", "y_prob", "sample_weight"]
        table = pyarrow.table(
            {name: _column(array) for name, array in zip(names, part, strict=False)}
        )
    first, batches = 0, []
    for batch in table.to_batches():
        batches.append((batch, place, first))
        first += len(batch)
    return Groups(reading, settings).add(iter(batches)).to_bytes()


def _column(array: Any) -> Any:
    """A block of an array as a column, of lists if it has two dimensions."""
    pyarrow, _ = import_pyarrow()
    array = np.asarray(array)
    if array.ndim == 1:
        return pyarrow.array(array)
    flat = pyarrow.array(np.ascontiguousarray(array).ravel())
    return pyarrow.FixedSizeListArray.from_arrays(flat, array.shape[1])


def _merged(parts: Sequence[dict[Any, bytes]]) -> dict[Any, bytes]:
    return merged_bytes(parts)
