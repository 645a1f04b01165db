"""Sketches of whatever comes in batches: Parquet folders, lazy frames, query results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from threading import Event
from typing import Any

from riskalign.data.arrow import Reading
from riskalign.data.sources import Batches, open_source
from riskalign.data.validation import RowError, as_batch, is_whole
from riskalign.results import CalibrationResult
from riskalign.sketches.groups import Groups
from riskalign.sketches.sketch import CalibrationSketch


def sketch_batches(
    source: object,
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
    workers: int | None = None,
) -> Any:
    """Sketch any number of rows, which are read once and never held together.

    Parameters
    ----------
    source
        Parquet files (a path, a folder, a pattern such as ``"logs/*.parquet"``, a list of them,
        or a pyarrow dataset); a data frame, table, record batch or record-batch reader of
        Arrow, pandas or Polars; a lazy frame of Polars, collected in batches; a relation of
        DuckDB; or an iterable of data frames.
    label : str, optional
        The column of labels. By default the one named y, y_true, label or target.
    probs : str or sequence of str, optional
        The columns of predictions: names, a pattern such as ``"p_*"``, or one column of
        probabilities of the positive class or of lists. By default those named p, prob, p_<class>
        and the like, as on the command line.
    by : str, optional
        A column of groups. The answer is then a dictionary of sketches.
    notion, classes, exact_limit, bits
        As for `CalibrationSketch`. `classes` names the classes in the order of the predictions.
    weight : str, optional
        A column of sample weights.
    from_logits, normalize : bool
        As for `calibration_error`.
    workers : int, optional
        Threads that read row groups of Parquet files; by default one per core. The sketch does
        not depend on it.

    Returns
    -------
    CalibrationSketch, or dict of them
        With `by`, one for each value of that column, in ascending order.

    Examples
    --------
    >>> import riskalign as ra
    >>> import pyarrow as pa
    >>> table = pa.table({"y": [0, 1, 1, 0], "p": [0.2, 0.7, 0.9, 0.4], "day": [1, 1, 2, 2]})
    >>> ra.sketch_batches(table, label="y", probs="p").n_samples
    4
    >>> {day: sketch.n_samples for day, sketch in ra.sketch_batches(table, by="day").items()}
    {1: 2, 2: 2}
    """
    opened = open_source(source)
    reading = Reading.of(
        opened.columns,
        label=label,
        probs=probs,
        classes=classes,
        from_logits=from_logits,
        normalize=normalize,
        weight=weight,
        by=by,
    )
    settings = {"notion": notion, "exact_limit": exact_limit, "bits": bits}
    groups = _gathered(opened.spans(reading), reading, settings, workers)
    return groups.answer(grouped=by is not None)


def calibration_error_of_batches(
    batches: Iterable[tuple[Any, ...]],
    *,
    notion: str | None = None,
    classes: Sequence[object] | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    **options: Any,
) -> CalibrationResult:
    """Estimate a calibration error from batches of rows, which are read once.

    Parameters
    ----------
    batches : iterable of (y_true, y_prob) or (y_true, y_prob, sample_weight)
        Each as for `calibration_error`.
    notion, classes, from_logits, normalize
        As for `calibration_error`.
    **options
        Those of `CalibrationSketch.calibration_error`.

    Returns
    -------
    CalibrationResult
        Without `conditional`, which would be as large as the sample.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(3000, 3, seed=0)
    >>> rows = [slice(0, 1000), slice(1000, 3000)]
    >>> batches = [(data.y_true[some], data.y_prob[some]) for some in rows]
    >>> result = ra.calibration_error_of_batches(batches)
    >>> result.value == ra.calibration_error(data.y_true, data.y_prob).value
    True
    """
    _check_options(options)
    sketch = sketch_of_batches(
        batches, notion=notion, classes=classes, from_logits=from_logits, normalize=normalize
    )
    return sketch.calibration_error(**options)


def _check_options(options: Mapping[str, object]) -> None:
    """Refuse options that a sketch does not have, before any batch is read."""
    known = signature(CalibrationSketch.calibration_error).parameters
    for name in options:
        if name == "sample_weight":
            raise TypeError(
                "`sample_weight` belongs to the rows: pass batches of (y_true, y_prob, "
                "sample_weight)."
            )
        if name not in known:
            raise TypeError(
                f"`calibration_error_of_batches` has no option `{name}`. Besides its own it has "
                "those of `CalibrationSketch.calibration_error`; what needs all rows at once goes "
                "to `calibration_error`."
            )


def sketch_of_batches(
    batches: Iterable[tuple[Any, ...]],
    *,
    notion: str | None = None,
    classes: Sequence[object] | None = None,
    from_logits: bool = False,
    normalize: bool = False,
) -> CalibrationSketch:
    """The sketch of batches; parameters as for `calibration_error_of_batches`."""
    sketch: CalibrationSketch | None = None
    first = 0
    for batch in batches:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise TypeError(
                "`batches` must yield (y_true, y_prob) or (y_true, y_prob, sample_weight); found "
                f"{_described(batch)}."
            )
        y, p, *weight = batch
        try:
            if sketch is None:
                known = as_batch(
                    y, p, from_logits=from_logits, normalize=normalize, classes=classes
                )
                asked = classes if classes is not None else len(known.classes)
                sketch = CalibrationSketch(notion, asked)
            sketch.update(
                y,
                p,
                sample_weight=weight[0] if weight else None,
                from_logits=from_logits,
                normalize=normalize,
            )
        except RowError as error:
            raise error.after(first) from None
        except (ValueError, TypeError) as error:
            raise type(error)(
                f"In the rows from {first:,} on: {error}" if first else str(error)
            ) from None
        first += len(p)
    if sketch is None:
        raise ValueError("`batches` is empty: there are no rows.")
    return sketch


def _described(batch: object) -> str:
    kind = type(batch).__name__
    return f"a {kind} of {len(batch)}" if isinstance(batch, tuple | list) else kind


def _gathered(
    spans: Sequence[Callable[[], Batches]],
    reading: Reading,
    settings: dict[str, Any],
    workers: int | None,
) -> Groups:
    """The groups of all spans, which are read in threads and merged in their order."""
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if not is_whole(workers) or workers < 1:
        raise ValueError(f"`workers` must be a number of threads; found {workers!r}.")
    stop, whole = Event(), Groups(reading, settings)

    def of_span(span: Callable[[], Batches]) -> Groups:
        return Groups(reading, settings, whole).add(span(), stop)

    if workers == 1 or len(spans) < 2:
        return _merged(map(of_span, spans), whole)
    with ThreadPoolExecutor(min(workers, len(spans))) as pool:
        try:
            return _merged(pool.map(of_span, spans), whole)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _merged(parts: Iterable[Groups], groups: Groups) -> Groups:
    for part in parts:
        groups.merge(part)
    return groups
