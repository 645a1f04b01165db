"""Labels and predictions from Arrow batches, and errors that say which rows are bad.

Arrow is what Parquet files, Polars, DuckDB, pandas, Dask and Spark have in common: each of
them hands over its columns as Arrow arrays, mostly without a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from riskalign.data.files.columns import Layout, find_layout
from riskalign.data.files.labels import Coding, UnknownLabelError, spelled
from riskalign.data.files.parquet import first_length, import_pyarrow
from riskalign.data.validation import ROW_SUM_TOLERANCE, UNSUMMED
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray

CELLS = 1_000_000
"""Numbers that are read at a time: 8 MB."""

LISTED = 5
"""Bad rows that an error names."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a source.

    Attributes
    ----------
    labels : (n,), class numbers; where only the predicted class's probability is known,
        whether the prediction was right
    scores : (n,) or (n, K), probabilities or logits
    weights : (n,) or None
    groups : Arrow array of n values, None without `by`
    place, first : where the rows come from, and the number of the first of them there
    """

    labels: IntArray
    scores: FloatArray
    weights: FloatArray | None
    groups: Any
    place: str
    first: int


@dataclass(frozen=True)
class Reading:
    """Which columns of a source are read, and how.

    Attributes
    ----------
    layout : columns of labels and predictions
    classes : names in the order of the predictions, None if they have none
    normalize : whether rows are rescaled to sum to one
    weight, by : columns of sample weights and of groups
    """

    layout: Layout
    classes: tuple[str, ...] | None = None
    normalize: bool = False
    weight: str | None = None
    by: str | None = None

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        *,
        label: str | None = None,
        probs: str | Sequence[str] | None = None,
        classes: Sequence[object] | None = None,
        from_logits: bool = False,
        normalize: bool = False,
        weight: str | None = None,
        by: str | None = None,
    ) -> Reading:
        """The reading of columns with these names.

        Examples
        --------
        >>> Reading.of(["y", "p_no", "p_yes"]).layout.scores
        ('p_no', 'p_yes')
        """
        try:
            others = [name for name in columns if name != weight]
            layout = find_layout(others, label=label, probs=probs, logits=from_logits)
        except ValueError as error:
            raise ValueError(_in_arguments(str(error))) from None
        for name, option in ((weight, "weight"), (by, "by")):
            if name is not None and name not in columns:
                shown = ", ".join(map(repr, list(columns)[:8]))
                raise ValueError(
                    f"the column {name!r} of `{option}` is not there. The columns are {shown}."
                )
        names = layout.names if classes is None else tuple(str(label) for label in classes)
        if layout.predicted is not None:
            names = ("wrong", "right")
        return cls(layout, names, normalize, weight, by)

    @property
    def columns(self) -> list[str]:
        """All columns that are read, each once."""
        extra = [name for name in (self.weight, self.by) if name is not None]
        return list(dict.fromkeys([*self.layout.needed, *extra]))

    def width(self, batch: Any) -> int:
        """Numbers per row of a batch: columns, or the length of the first row's list."""
        names = self.layout.scores
        if len(names) > 1 or not len(batch) or not is_list(batch.column(names[0]).type):
            return len(names)
        return max(1, first_length(batch.column(names[0]), names[0]))

    def rows(self, batch: Any, place: str, first: int = 0) -> Iterator[Rows]:
        """The rows of a RecordBatch, at most a million numbers at a time.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        place : what the batch is part of, for errors: a file, or a partition
        first : number of the batch's first row there
        """
        batch = _decoded(batch)
        for name, option in ((self.by, "by"), (self.layout.label, "label")):
            if name is not None:
                _check_plain(batch.column(name), name, option, place)
        step = max(1, CELLS // self.width(batch))
        for start in range(0, len(batch), step):
            part = batch.slice(start, step)
            yield self._read(part, place, first + start)

    def _read(self, batch: Any, place: str, first: int) -> Rows:
        scores = self._scores(batch, place, first)
        n_classes = 2 if scores.ndim == 1 else scores.shape[1]
        if self.classes is not None and len(self.classes) != n_classes:
            raise ValueError(
                f"`classes` must name the {n_classes} classes in the order of their predictions; "
                f"found {len(self.classes)} names in {place}."
            )
        if self.layout.predicted is None:
            labels = self._labels(batch.column(self.layout.label), n_classes, place, first)
        else:
            truth, predicted = (
                _spelled(batch.column(name)) for name in (self.layout.label, self.layout.predicted)
            )
            labels = (truth == predicted).astype(np.intp)
        weights = None
        if self.weight is not None:
            weights = _numbers(batch.column(self.weight), self.weight, place, first)
        groups = None if self.by is None else batch.column(self.by)
        return Rows(labels, scores, weights, groups, place, first)

    def _scores(self, batch: Any, place: str, first: int) -> FloatArray:
        names = self.layout.scores
        columns = [batch.column(name) for name in names]
        if len(names) > 1:
            matrix = np.empty((len(batch), len(names)))
            for k, (name, column) in enumerate(zip(names, columns, strict=True)):
                matrix[:, k] = _numbers(column, name, place, first)
            return matrix
        column, name = columns[0], names[0]
        if not is_list(column.type):
            return _numbers(column, name, place, first)
        pyarrow, _ = import_pyarrow()
        lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
        expected = lengths[0] if len(lengths) else 2
        wrong = ~(lengths == expected)  # a missing list has the length NaN
        if wrong.any():
            _refuse(wrong, place, first, name, "lists of different lengths, or none")
        flat = column.flatten()
        width = int(expected)
        if width < 2:
            what = f"a list of {width}; the probabilities of two classes or more are needed"
            _refuse(np.ones(1, dtype=np.bool_), place, first, name, what)
        if flat.null_count:
            empty = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, width).any(axis=1)
            _refuse(empty, place, first, name, "an empty place in a list")
        found: FloatArray = _as_float(flat, name).reshape(-1, width)
        return found

    def _labels(self, column: Any, n_classes: int, place: str, first: int) -> IntArray:
        """Class numbers; integers are taken as they are unless classes are named by numbers."""
        name, types = self.layout.label, import_pyarrow()[0].types
        _refuse(_missing(column), place, first, name, "nothing")
        numbered = self.classes is None or not any(map(_is_number, self.classes))
        if numbered and types.is_integer(column.type):
            labels = column.to_numpy(zero_copy_only=False)
            outside = (labels < 0) | (labels >= n_classes)
            _refuse(outside, place, first, name, f"labels that are not 0 to {n_classes - 1}")
            return labels.astype(np.intp, copy=False)
        known = column.dictionary_encode()
        codes = known.indices.to_numpy(zero_copy_only=False)
        words = known.dictionary.to_pylist()
        coding = Coding(n_classes, self.classes)
        numbers = np.zeros(max(len(words), 1), dtype=np.intp)
        for k, word in enumerate(words):
            try:
                numbers[k] = coding[word]
            except UnknownLabelError as error:
                if (codes == k).any():  # a dictionary may hold words that no row has
                    _refuse(codes == k, place, first, name, _in_arguments(str(error)), whole=True)
        return numbers[codes]

    def explain(self, rows: Rows, error: Exception) -> NoReturn:
        """Raise an error of validation again, with the rows and columns that caused it."""
        matrix = rows.scores.reshape(len(rows.scores), -1)
        wrong = ~np.isfinite(matrix)
        if not self.layout.from_logits:
            wrong |= matrix < 0
            if not self.normalize:
                wrong |= matrix > 1 + ROW_SUM_TOLERANCE
        bad = np.asarray(wrong.any(axis=1))
        names = self.layout.scores
        cure = "Drop those rows, or correct the predictions."
        if not self.layout.from_logits and np.isfinite(matrix).all():
            cure = "Pass `from_logits=True` for logits."
            if matrix.shape[1] > 1 and not (matrix < 0).any():
                cure = "Pass `from_logits=True` for logits, `normalize=True` to rescale."
        if bad.any():
            i = int(np.argmax(bad))
            k = int(np.argmax(wrong[i]))
            name = names[k] if len(names) > 1 else names[0]
            rule = "must be finite" if self.layout.from_logits else "must lie in [0, 1]"
            what = f"{matrix[i, k]!s} there; predictions {rule}. {cure}"
            _refuse(bad, rows.place, rows.first, name, what, found=True)
        sums = matrix.sum(axis=1)
        off = np.abs(sums - 1) > ROW_SUM_TOLERANCE
        if matrix.shape[1] > 1 and not self.layout.from_logits and not self.normalize and off.any():
            columns = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            what = f"predictions whose sum is {sums[int(np.argmax(off))]:.4g}, not 1. {UNSUMMED}"
            _refuse(off, rows.place, rows.first, columns, what, found=True)
        if rows.weights is not None:
            negative: BoolArray = np.logical_not(rows.weights >= 0) | np.isinf(rows.weights)
            what = "weights that are negative or not finite"
            _refuse(negative, rows.place, rows.first, str(self.weight), what)
        last = rows.first + len(rows.labels) - 1
        raise type(error)(f"{rows.place}, rows {rows.first} to {last}: {error}") from None


def _refuse(
    bad: BoolArray,
    place: str,
    first: int,
    column: str,
    what: str,
    *,
    found: bool = False,
    whole: bool = False,
) -> None:
    """An error about bad rows, if there are any."""
    at = np.flatnonzero(bad)
    if not len(at):
        return
    listed = ", ".join(str(first + i) for i in at[:LISTED].tolist())
    more = f" and {len(at) - LISTED:,} more" if len(at) > LISTED else ""
    subject = f"{place}, column {column!r}, row{'s' if len(at) > 1 else ''} {listed}{more}"
    if whole:
        raise ValueError(f"{subject}: {what}")
    end = "" if found else ". Drop those rows or correct them."
    raise ValueError(f"{subject}: found {what}{end}")


def _numbers(column: Any, name: str, place: str, first: int) -> FloatArray:
    _refuse(_missing(column), place, first, name, "nothing (null or NaN)")
    return _as_float(column, name)


def _decoded(batch: Any) -> Any:
    """The batch without run-end encoding, which few functions of Arrow understand."""
    pyarrow, _ = import_pyarrow()
    encoded = pyarrow.types.is_run_end_encoded
    if not any(map(encoded, batch.schema.types)):
        return batch
    columns = [
        pyarrow.compute.run_end_decode(column) if encoded(column.type) else column
        for column in batch.columns
    ]
    return pyarrow.RecordBatch.from_arrays(columns, batch.schema.names)


def _check_plain(column: Any, name: str, option: str, place: str) -> None:
    if import_pyarrow()[0].types.is_nested(column.type):
        raise ValueError(
            f"{place}, column {name!r} of `{option}` holds {column.type}; one number or name per "
            "row is needed. Choose another column, or make one from its parts."
        )


def _missing(column: Any) -> BoolArray:
    if not column.null_count:
        return np.zeros(0, dtype=np.bool_)
    empty: BoolArray = column.is_null().to_numpy(zero_copy_only=False)
    return empty


def _as_float(column: Any, name: str) -> FloatArray:
    pyarrow, _ = import_pyarrow()
    if column.type != pyarrow.float64():
        try:
            column = column.cast(pyarrow.float64())
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            raise ValueError(
                f"column {name!r} holds {column.type}, not numbers. Choose others with `probs`."
            ) from None
    values: FloatArray = column.to_numpy(zero_copy_only=False)
    return values


def _spelled(column: Any) -> npt.NDArray[Any]:
    """Labels in their one spelling, see `riskalign.data.files.labels`."""
    known = column.dictionary_encode()
    words = [spelled(word) for word in known.dictionary.to_pylist()] or [""]
    return np.array(words, dtype=object)[known.indices.to_numpy(zero_copy_only=False)]


def is_list(kind: Any) -> bool:
    """Whether a type of Arrow is one of lists."""
    types = import_pyarrow()[0].types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(name: str) -> bool:
    return spelled(name).removeprefix("-").isdecimal()


def _in_arguments(message: str) -> str:
    """An error of the command line in the words of the library."""
    return re.sub(r"--(label|probs|classes)\b", r"`\1`", message)
