"""Files of predictions and sketches, read as the options say."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riskalign.data.arrow import Reading
from riskalign.data.files import PredictionFile, open_predictions
from riskalign.data.files.sketches import SUFFIX, read_sketch_file
from riskalign.data.format import SketchFormatError
from riskalign.data.notions import JOINT, NOTIONS
from riskalign.data.sources import files_of, parquet_files
from riskalign.data.validation import RowError, as_sample
from riskalign.report.surveying import sketch_rows
from riskalign.sketches.batches import sketch_batches
from riskalign.sketches.sketch import CalibrationSketch

OF_PREDICTED = ("wrong", "right")
"""Classes of a sketch that knows only whether the predicted class was right."""


@dataclass(frozen=True)
class SketchSource:
    """A sketch in place of a file of predictions.

    Attributes
    ----------
    path : where it comes from
    description : what was read
    sketch : CalibrationSketch
    """

    path: Path
    description: str
    sketch: CalibrationSketch

    @property
    def top_label(self) -> bool:
        """Whether only the predicted class's probability is known."""
        return NOTIONS[self.sketch.notion].is_one_class and self.sketch.classes == OF_PREDICTED


def opened(
    options: argparse.Namespace,
    path: Path,
    *,
    unlabelled: bool = False,
    weight: str | None = None,
) -> PredictionFile:
    """A file, read as the options say; it may have no labels if they are not needed."""
    return open_predictions(
        path,
        label=options.label,
        probs=options.probs,
        labels=options.labels,
        logits=options.logits,
        classes=options.classes,
        unlabelled=unlabelled,
        weight=weight,
    )


@contextmanager
def naming(file: PredictionFile | Path) -> Iterator[None]:
    """Put the name of a file, and the place in it where it is known, before errors."""
    path = file if isinstance(file, Path) else file.path
    try:
        yield
    except ValueError as error:
        if isinstance(error, RowError) and isinstance(file, PredictionFile):
            place = file.place(error.row, error.column)
            message = f"{path}: {place}: {error.found}"
            raise ValueError(message) from None  # noqa: TRY004
        where = "" if str(error).startswith(f"{path}: ") else f"{path}: "
        raise ValueError(f"{where}{error}") from None


def inputs_of(paths: Sequence[Path]) -> list[Path]:
    """The files that are read, of folders and patterns too."""
    return [
        Path(file) for path in paths for file in (files_of(path) if is_of_many(path) else [path])
    ]


def is_of_many(path: Path) -> bool:
    """Whether a path is a sketch, a folder or a pattern, not one file of predictions."""
    many = any(letter in str(path) for letter in "*?[") and not path.exists()
    return path.suffix.lower() == SUFFIX or path.is_dir() or many


def source_of(options: argparse.Namespace, path: Path) -> PredictionFile | SketchSource:
    """A file of predictions, or a sketch: one that is stored, or that of many Parquet files."""
    if not is_of_many(path):
        return opened(options, path, weight=options.weight)
    if path.suffix.lower() == SUFFIX:
        refuse_weight(options, path)
        sketch = load_sketch(path)
        asked = options.notion
        if asked not in (None, sketch.notion) and not (
            NOTIONS[asked].is_confidence and sketch.classes == OF_PREDICTED
        ):
            raise ValueError(
                f"{path}: --notion {options.notion} cannot be asked of a {sketch.notion} sketch. "
                "Make the sketch with that --notion."
            )
        words = f"a {sketch.notion} sketch, {len(sketch.classes):,} classes"
        return SketchSource(path, words, sketch)
    dataset = parquet_files([path])
    layout = Reading.of(
        dataset.schema.names,
        label=options.label,
        probs=options.probs,
        classes=options.classes,
        from_logits=options.logits,
        normalize=options.normalize,
        weight=options.weight,
    ).layout
    words = f"{len(dataset.files):,} Parquet files, {layout}"
    return SketchSource(path, words, sketch_of_parquet(options, [path]))


def refuse_weight(options: argparse.Namespace, path: Path) -> None:
    """Refuse --weight for a sketch."""
    if options.weight is not None:
        raise ValueError(
            f"{path}: --weight {options.weight} names a column, and a sketch has none. Give it "
            "when the sketch is made."
        )


def load_sketch(path: Path) -> CalibrationSketch:
    """The sketch of a file."""
    blob = read_sketch_file(path)
    try:
        return CalibrationSketch.from_bytes(blob)
    except SketchFormatError as error:
        raise SketchFormatError(f"{path}: {error}") from None


def sketch_of_parquet(options: argparse.Namespace, paths: Sequence[Path]) -> CalibrationSketch:
    """The sketch of files, folders and patterns of Parquet, which are read in batches."""
    found: CalibrationSketch = sketch_batches(
        list(paths),
        label=options.label,
        probs=options.probs,
        notion=options.notion,
        classes=options.classes,
        weight=options.weight,
        from_logits=options.logits,
        normalize=options.normalize,
    )
    return found


def sketch_of(
    options: argparse.Namespace, source: PredictionFile | SketchSource
) -> CalibrationSketch:
    """The sketch of a source for a report; a large file is read in batches."""
    if isinstance(source, SketchSource):
        return source.sketch
    held = not source.is_large or options.notion in JOINT
    batches = [source.read().rows] if held else source
    with naming(source):
        return sketch_rows(
            batches,
            notion=options.notion,
            top_label=source.top_label,
            from_logits=source.from_logits,
            normalize=options.normalize,
            classes=source.classes,
        )


def same_rows(files: Sequence[PredictionFile], normalize: bool) -> list[Any]:
    """The labels that two files share, and the probabilities of each, ``(n, K)``."""
    if any(file.top_label and not file.has_outcomes for file in files):
        raise ValueError("models are compared by the probabilities of all classes. Store them.")
    first, second = (file.read() for file in files)
    samples = []
    for part, file in zip((first, second), files, strict=True):
        with naming(file):
            samples.append(
                as_sample(
                    part.labels, part.scores, from_logits=file.from_logits, normalize=normalize
                )
            )
    labels, second_labels = (sample.labels for sample in samples)
    probabilities, second_probabilities = (sample.probabilities for sample in samples)
    shapes = [sample.probabilities.shape for sample in samples]
    if shapes[0] != shapes[1]:
        found = " and ".join(f"{n:,} rows of {k} classes" for n, k in shapes)
        raise ValueError(f"the files must hold the same rows and classes; found {found}.")
    if first.classes and second.classes and first.classes != second.classes:
        order = [second.classes.index(name) for name in first.classes if name in second.classes]
        if len(order) < len(first.classes):
            raise ValueError(
                f"the files name different classes: {', '.join(first.classes[:5])} and "
                f"{', '.join(second.classes[:5])}. Rename the columns, or give --classes."
            )
        second_probabilities = second_probabilities[:, order]
        second_labels = np.argsort(order)[second_labels]
    if (labels != second_labels).any():
        row = int(np.argmax(labels != second_labels))
        raise ValueError(
            f"the files must hold the same rows in the same order; the labels of row {row} differ. "
            "Sort both files by an identifier."
        )
    return [labels, probabilities, second_probabilities]
