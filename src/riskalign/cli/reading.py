"""Files of predictions, read as the options say."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from riskalign.data.files import PredictionFile, open_predictions
from riskalign.data.validation import RowError, as_sample


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
