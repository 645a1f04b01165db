"""A file of predictions and labels, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.data.files.arrays import archive_arrays, archive_keys, single_array
from riskalign.data.files.columns import Layout, find_layout
from riskalign.data.files.labels import Coding, Spellings, UnknownLabelError, is_text, reject_many
from riskalign.data.files.nested import HarnessTable, lone_score
from riskalign.data.files.parquet import ParquetTable
from riskalign.data.files.separate import (
    LISTS,
    WithLabels,
    as_labels,
    label_column,
    listed_labels,
)
from riskalign.data.files.sketches import SUFFIX
from riskalign.data.files.tables import CsvTable, JsonLinesTable, Table
from riskalign.data.files.whole import is_stream
from riskalign.equations.arrays import FloatArray, IntArray

TABLES: dict[str, Callable[[Path], Table]] = {
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".jsonl": JsonLinesTable,
    ".parquet": ParquetTable,
    ".pq": ParquetTable,
}
FORMATS = ".csv, .parquet, .npz, .npy, .jsonl or .tsv"
LARGE = 4_000_000
"""Numbers above which a file is read in batches: held, they take 32 MB, and estimating a class-wise
error thirty times that; in batches its memory does not grow, and it takes a third of the time."""

BATCH_NUMBERS = 2_000_000
"""Numbers of arrays that are converted at once: 16 MB."""

NO_TEXT = "this is not text in UTF-8. Save it as UTF-8."


@dataclass(frozen=True)
class Predictions:
    """What a file holds, or a batch of it.

    Attributes
    ----------
    labels : (n,), class numbers; where only the predicted class's probability is known,
        whether the prediction was right
    scores : (n,) or (n, K), probabilities or logits
    classes : names, None where the file has none
    weights : (n,), None where there are none
    """

    labels: IntArray
    scores: FloatArray
    classes: tuple[str, ...] | None
    weights: FloatArray | None = None

    @property
    def y_true(self) -> npt.NDArray[Any]:
        """Labels in the form that `calibration_error` takes beside `classes`."""
        if self.classes is None:
            return self.labels
        return np.array(self.classes, dtype=object)[self.labels]

    @property
    def rows(self) -> tuple[Any, ...]:
        """(y_true, y_prob), and sample weights if there are any."""
        rows = (self.y_true, self.scores)
        return rows if self.weights is None else (*rows, self.weights)


class PredictionFile:
    """A file of predictions: which columns it has, and its rows, in batches or at once.

    Attributes
    ----------
    path : the file
    from_logits : whether scores are logits
    top_label : whether only the predicted class's probability is known
    description : what was taken from where, in words
    """

    def __init__(
        self,
        path: Path,
        table: Table,
        layout: Layout,
        classes: Sequence[str] | None,
    ) -> None:
        self.path = path
        self.from_logits = layout.from_logits
        self.top_label = layout.top_label
        self.description = str(layout)
        self._table = table
        self._layout = layout
        self._classes = tuple(classes) if classes else layout.names

    @cached_property
    def is_large(self) -> bool:
        """Whether the rows are better read in batches than held."""
        return self._table.cells(self._layout.scores) > LARGE

    @property
    def has_labels(self) -> bool:
        """Whether the file tells what came true."""
        return bool(self._layout.label)

    @property
    def has_outcomes(self) -> bool:
        """Whether labels say if the predicted class was right, and not which class it was."""
        return self._layout.right

    @property
    def is_log(self) -> bool:
        """Whether predictions come from the log of another tool, which is not rewritten."""
        return isinstance(self._table, HarnessTable)

    @property
    def score_columns(self) -> tuple[str, ...]:
        """Names of the columns that hold predictions."""
        return self._layout.scores

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes, None where the file has none."""
        return None if self.top_label else self._classes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """`Predictions.rows`, batch by batch; begins anew each time."""
        for part in self.batches():
            yield part.rows

    def batches(self) -> Iterator[Predictions]:
        """The rows, some at a time; may be called again. Without labels, they are all class 0."""
        layout = self._layout
        words = [layout.label] if layout.predicted is None else [layout.label, layout.predicted]
        words = words if self.has_labels else []
        words += [] if layout.weight is None else [layout.weight]
        coding, spellings, first = None, Spellings(), 0
        try:
            for texts, numbers in self._table.batches(words, layout.scores):
                scores = numbers[:, 0] if numbers.shape[1] == 1 else numbers
                own = None if layout.weight is None else self._weights(texts.pop(), first)
                if not self.has_labels:
                    names = None if self.top_label else self._classes
                    yield Predictions(np.zeros(len(numbers), dtype=np.intp), scores, names, own)
                elif layout.predicted is not None:
                    truth, predicted = ([spellings[word] for word in column] for column in texts)
                    right = [a == b for a, b in zip(truth, predicted, strict=True)]
                    yield Predictions(np.array(right, dtype=np.intp), scores, None, own)
                else:
                    coding = coding or self._coding(numbers.shape[1])
                    labels = self._numbers(coding, texts[0], first, scores)
                    yield Predictions(labels, scores, self._classes, own)
                first += len(numbers)
        except UnicodeDecodeError:
            raise _in_file(self.path, ValueError(NO_TEXT)) from None
        except ValueError as error:
            raise _in_file(self.path, error) from None

    def _coding(self, width: int) -> Coding:
        if width == 0:
            raise ValueError("the lists of predictions are empty.")
        n_classes = 2 if width == 1 else width
        if self._classes is not None and len(self._classes) != n_classes:
            raise ValueError(
                f"there are predictions for {n_classes} classes, but {len(self._classes)} names: "
                f"{', '.join(self._classes[:8])}. Give one name per class with --classes"
                f"{' (the negative class, then the positive)' if width == 1 else ''}."
            )
        return Coding(n_classes, self._classes)

    def _numbers(
        self, coding: Coding, labels: list[object], first: int, scores: FloatArray
    ) -> IntArray:
        try:
            return coding.numbers(labels)
        except UnknownLabelError as error:
            if scores.ndim == 1 and self._classes is None:
                reject_many(self._layout.scores[0], labels, scores)
            row = next(i for i, label in enumerate(labels) if label is error.label)
            place = self._table.place(first + row)
            raise ValueError(f"{place}, {self._layout.label!r}: {error}") from None

    def _weights(self, values: list[object], first: int) -> FloatArray:
        found = np.fromiter(map(_weight, values), dtype=np.float64, count=len(values))
        bad = ~(np.isfinite(found) & (found >= 0))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"{self._table.place(first + row)}, {self._layout.weight!r}: {values[row]!r} is no "
                "weight. Weights are numbers from 0 on; correct it or drop the row."
            )
        return found

    def place(self, row: int, column: int | None) -> str:
        """Where a prediction, or with no column all of a row, is found, for people."""
        place, names = self._table.place(row), self._layout.scores
        if column is None:
            return place
        return f"{place}, column {names[column if len(names) > 1 else 0]!r}"

    def read(self) -> Predictions:
        """All rows at once."""
        parts = list(self.batches())
        if not parts:
            raise ValueError(f"{self.path}: there are no rows of predictions.")
        return Predictions(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
            parts[0].classes,
            None
            if self._layout.weight is None
            else np.concatenate([part.weights for part in parts if part.weights is not None]),
        )


def _weight(value: object) -> float:
    """A weight as files hold it; NaN for what is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan


def open_predictions(
    path: str | Path,
    *,
    label: str | None = None,
    probs: str | None = None,
    labels: str | Path | None = None,
    logits: bool = False,
    classes: Sequence[str] | None = None,
    unlabelled: bool = False,
    weight: str | None = None,
) -> PredictionFile:
    r"""Find the labels and predictions of a file; rows are read later.

    Parameters
    ----------
    path : a .csv, .tsv, .parquet, .npz, .npy or .jsonl file
    label, probs : columns (keys of an archive) whose names do not tell what they hold
    labels : the file of labels, of any format, where `path` holds predictions alone
    logits : predictions are logits; so are those under names that begin with "logit"
    classes : names of the classes, in the order of the predictions
    unlabelled : whether there may be no labels
    weight : the column (key of an archive) of sample weights

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "predictions.csv"
    ...     _ = path.write_text("target,p_cat,p_dog\ndog,0.2,0.8\ncat,0.6,0.4\n")
    ...     found = open_predictions(path).read()
    >>> found.labels.tolist(), found.classes
    ([1, 0], ('cat', 'dog'))
    """
    path = Path(path)
    if str(path) == "-":
        raise ValueError(
            "-: reading from the standard input is not supported. Write the predictions to a file."
        )
    if not path.exists():
        what = "a symbolic link that leads nowhere" if path.is_symlink() else "no such file"
        raise FileNotFoundError(f"{path}: {what}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory. Name a file in it.")
    _check_regular(path)
    try:
        table, layout = _open(path, label, probs, labels, logits, unlabelled, weight)
        _check_names(classes or layout.names or ())
    except UnicodeDecodeError:
        raise _in_file(path, ValueError(NO_TEXT)) from None
    except ValueError as error:
        raise _in_file(path, error) from None
    if layout.weight != weight:
        said = "--weight names a column beside the predictions; there is none."
        raise _in_file(path, ValueError(said))
    return PredictionFile(path, table, layout, classes)


def _check_regular(path: Path) -> None:
    if is_stream(path):
        raise ValueError(
            f"{path} is a pipe or a device, and files are read more than once. Write the content "
            "to a file."
        )


def _check_names(classes: Sequence[str]) -> None:
    """Refuse names that cannot be written: JSON can spell them, and a command line hold them."""
    for name in classes:
        if not is_text(name):
            raise ValueError(f"the class {name!r} holds half a letter (a surrogate). Rename it.")


def _open(
    path: Path,
    label: str | None,
    probs: str | None,
    labels: str | Path | None,
    logits: bool,
    unlabelled: bool,
    weight: str | None,
) -> tuple[Table, Layout]:
    if labels is not None:
        return _with_labels(path, Path(labels), label, probs, logits, weight)
    kind = path.suffix.lower()
    options: dict[str, Any] = {"label": label, "probs": probs, "logits": logits}
    options |= {"unlabelled": unlabelled, "weight": weight}
    if kind == ".npy":
        if not unlabelled:
            raise ValueError("an .npy file holds predictions alone; give --labels FILE.")
        layout = Layout("", (path.name,), from_logits=logits)
        return _ArrayTable({path.name: single_array(path)}), layout
    if kind == ".npz":
        keys = archive_keys(path)
        layout = find_layout(keys, **options, noun="key")
        return _ArrayTable(archive_arrays(path, layout.needed)), layout
    table = _table(path)
    if isinstance(table, JsonLinesTable) and HarnessTable.fits(table.first) and probs is None:
        target, predicted, confidence = HarnessTable.columns
        words = HarnessTable.words
        return HarnessTable(table), Layout(target, (confidence,), None, predicted, words=words)
    if isinstance(table, CsvTable) and not table.has_names and unlabelled and probs is None:
        return table, Layout("", tuple(table.columns), from_logits=logits)
    if isinstance(table, CsvTable) and not table.has_names:
        n = len(table.columns)
        raise ValueError(
            f"the first line holds {n} number{'s' if n > 1 else ''} and no names of columns. If "
            "these are predictions, give their labels with --labels FILE; else write a line of "
            "names, such as y,p_0,p_1."
        )
    if not isinstance(table, JsonLinesTable):
        return table, find_layout(table.columns, **options)
    try:
        return table, find_layout(table.columns, **options, nested=table.nested)
    except ValueError:
        lone = lone_score(table.first)
        if lone is None:
            raise
        raise ValueError(
            f"{lone!r} holds the score of one class; those of all classes are needed. Write them "
            "with top_k=None in a pipeline of Hugging Face, or write the score under 'confidence' "
            "and its class under 'pred'."
        ) from None


def _table(path: Path) -> Table:
    kind = path.suffix.lower()
    if kind == SUFFIX:
        raise ValueError(
            "this is a sketch, which has no rows. Sketches work with riskalign report, merge and "
            "history."
        )
    if kind not in TABLES:
        raise ValueError(
            f"files of predictions end in {FORMATS}, sketches in {SUFFIX}; found "
            f"{kind or 'no ending'!r}."
        )
    return TABLES[kind](path)


def _with_labels(
    path: Path,
    labels: Path,
    label: str | None,
    probs: str | None,
    logits: bool,
    weight: str | None,
) -> tuple[Table, Layout]:
    """Predictions in one file, labels in another, each of any format."""
    if not labels.exists():
        raise ValueError(f"--labels {labels}: no such file.")
    _check_regular(labels)
    truth, name = _labels(labels, label), labels.name
    kind = path.suffix.lower()
    if kind == ".npy":
        layout = Layout(name, (path.name,), from_logits=logits)
        return _ArrayTable({name: truth, path.name: single_array(path)}), layout
    asked: dict[str, Any] = {"probs": probs, "logits": logits, "labels_from": name}
    asked["weight"] = weight
    if kind == ".npz":
        keys = archive_keys(path)
        layout = find_layout(keys, **asked, noun="key")
        arrays = archive_arrays(path, [key for key in layout.needed if key != name])
        return _ArrayTable({name: truth, **arrays}), layout
    table = _table(path)
    if isinstance(table, CsvTable) and not table.has_names and probs is None:
        layout = Layout(name, tuple(table.columns), from_logits=logits)
    else:
        nested = table.nested if isinstance(table, JsonLinesTable) else None
        layout = find_layout(table.columns, **asked, nested=nested)
    return WithLabels(table, name, truth, labels), layout


def _labels(path: Path, label: str | None) -> npt.NDArray[Any]:
    """The labels of a file of any format, ``(n,)``."""
    kind = path.suffix.lower()
    if kind == ".npy":
        return single_array(path)
    if kind == ".npz":
        key = label_column(archive_keys(path), label)
        return archive_arrays(path, [key])[key]
    if kind in LISTS:
        return as_labels(listed_labels(path))
    if kind not in TABLES:
        listed = f"{FORMATS}, or {' or '.join(LISTS)} with labels alone"
        raise ValueError(f"--labels takes files that end in {listed}; found {path.name}.")
    table = TABLES[kind](path)
    name = label_column(table.columns, label)
    parts = [words for (words,), _ in table.batches([name], [])]
    return as_labels([word for part in parts for word in part])


class _ArrayTable:
    """Arrays by name, as a table."""

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        lengths = {name: len(np.atleast_1d(array)) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name!r} has {length:,}" for name, length in lengths.items())
            raise ValueError(f"the arrays must have one row per sample each: {listed}.")
        self._arrays = arrays
        self.columns = list(arrays)

    def cells(self, numbers: Sequence[str]) -> int:
        return sum(self._arrays[name].size for name in numbers)

    def batches(
        self, words: Sequence[str], numbers: Sequence[str]
    ) -> Iterator[tuple[list[list[object]], FloatArray]]:
        for name in words:
            if self._arrays[name].ndim != 1:
                raise ValueError(
                    f"{name!r} must have one label per row; found shape "
                    f"{self._arrays[name].shape}. Store the class numbers (the argmax of one-hot "
                    "rows)."
                )
        columns = [self._checked(name) for name in numbers]
        n, width = len(columns[0]), sum(column.shape[1] for column in columns)
        step = max(1, BATCH_NUMBERS // width)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            texts: list[list[object]] = [self._arrays[name][rows].tolist() for name in words]
            with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are refused later
                found = np.hstack([column[rows] for column in columns]).astype(np.float64)
            yield texts, found

    def _checked(self, name: str) -> npt.NDArray[Any]:
        """Predictions ``(n, K)`` of the stored type."""
        array = self._arrays[name]
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{name!r} must hold numbers, (n,) or (n, K); found {array.dtype} of shape "
                f"{array.shape}."
            )
        if array.size == 0:
            raise ValueError(f"{name!r} holds no predictions: its shape is {array.shape}.")
        return array.reshape(len(array), -1)

    def place(self, row: int) -> str:
        return f"row {row}"


def _in_file(path: Path, error: ValueError) -> ValueError:
    return ValueError(f"{path}: {error}")
