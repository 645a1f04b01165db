"""`riskalign sketch`, `merge` and `history`: samples as small files, and periods over time."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from riskalign.cli.output import (
    check_outputs,
    check_picture,
    picture_of,
    print_lines,
    write_output,
)
from riskalign.cli.reading import (
    OF_PREDICTED,
    inputs_of,
    is_of_many,
    load_sketch,
    naming,
    opened,
    refuse_weight,
    sketch_of_parquet,
)
from riskalign.data.files.sketches import SUFFIX
from riskalign.data.notions import BINARY, NOTIONS
from riskalign.data.sources import PARQUET
from riskalign.display.averages import finite
from riskalign.display.numbers import points, points_between, ratio, shortened
from riskalign.display.table import columns as aligned
from riskalign.display.table import wrapped
from riskalign.inference.alarm import Alarm
from riskalign.plots.canvas import pyplot
from riskalign.report.exchange import harmless
from riskalign.sketches.batches import sketch_of_batches
from riskalign.sketches.history import CalibrationHistory
from riskalign.sketches.periods import sketch_files
from riskalign.sketches.sketch import CalibrationSketch


def sketch(options: argparse.Namespace) -> int:
    """`riskalign sketch`."""
    check_outputs({"--output": options.output}, inputs_of(options.files))
    _check_ending(options.output)
    parquet = [path for path in options.files if path.suffix.lower() in PARQUET or is_of_many(path)]
    parquet = [path for path in parquet if path.suffix.lower() != SUFFIX]
    others = (_of_file(options, path) for path in options.files if path not in parquet)
    parts = chain([sketch_of_parquet(options, parquet)] if parquet else [], others)
    return _store(_merged(parts, options.files), options.output)


def merge(options: argparse.Namespace) -> int:
    """`riskalign merge`."""
    check_outputs({"--output": options.output}, options.files)
    _check_ending(options.output)
    parts = map(load_sketch, options.files)  # one at a time: those of many classes are large
    return _store(_merged(parts, options.files), options.output)


def _check_ending(path: Path) -> None:
    """Refuse a name under which no command would look for a sketch."""
    if path.suffix.lower() != SUFFIX:
        raise ValueError(f"-o {path} must end in {SUFFIX}, by which other commands know sketches.")


def history(options: argparse.Namespace) -> int:
    """`riskalign history`."""
    outputs = {"--output": options.output, "--json": options.json, "--csv": options.csv}
    check_outputs(outputs, sketch_files(options.folder))
    if options.output is not None:
        check_picture(options.output)
    days = CalibrationHistory.load(options.folder)
    shown = days.windows(options.window)
    if not len(shown):
        raise ValueError(f"--window {options.window}: there are only {len(days)} periods.")
    _check_reference(options, len(shown))
    asked = {"notion": options.notion, "loss": options.loss}
    columns = shown.to_columns(**asked)
    known = days[next(iter(days))]
    notion = NOTIONS[options.notion or known.notion]
    n_classes = len(known.classes) if notion.per_class else 1
    alarm = _alarm(options, days, asked, n_classes)
    if options.fail_on_alarm and not alarm.windows:
        raise ValueError("--fail-on-alarm: no window after the reference has two rows to test.")
    bias = "mean prediction less mean outcome"
    if not notion.is_one_class:
        bias = "mean confidence less accuracy"
    if options.loss == "l2":
        lines = _table_in_points(columns, alarm, n_classes, bias)
        sentence = alarm.sentence("typical gap", lambda error: f"{_gap(error, n_classes)} points")
    else:
        lines = _table(columns, alarm, bias)
        sentence = str(alarm)
    print_lines([*lines, "", *wrapped(sentence)])
    if options.json is not None:
        content = {"periods": _plain(columns), "alarm": alarm.to_dict()}
        _write(options.json, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    if options.csv is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(map(harmless, row))
        _write(options.csv, text.getvalue())
    if options.output is not None:
        _draw(shown, alarm, options.output, asked)
    return int(alarm.raised and options.fail_on_alarm)


def _alarm(
    options: argparse.Namespace, days: CalibrationHistory, asked: dict[str, Any], n_classes: int
) -> Alarm:
    """The alarm; a tolerance in points is added to the typical gap of what is tested against."""
    limit = options.tolerance
    reference = options.reference * options.window
    ask = partial(
        days.alarm, reference=reference, window=options.window, alpha=options.alpha, **asked
    )
    if limit is None:
        return ask()
    if limit.is_factor or (limit.in_points and options.loss != "l2"):
        raise ValueError(
            f"--tolerance {limit}: give it in the units of the loss, such as 0.001raw, or for "
            "--loss l2 in percentage points, such as 1pts."
        )
    if limit.in_points:
        return ask(tolerance=limit.added(ask().limit, n_classes))
    return ask(tolerance=limit.value)


def _check_reference(options: argparse.Namespace, n_windows: int) -> None:
    """Refuse a reference that is no part of the windows, or leaves a gate nothing to test."""
    there = f"there {'is' if n_windows == 1 else 'are'} {_windows(n_windows)}"
    if not 1 <= options.reference <= n_windows:
        raise ValueError(
            f"--reference {options.reference}: {there}; the reference may be the first 1 to "
            f"{n_windows} of them."
        )
    if options.fail_on_alarm and options.reference == n_windows:
        cure = f"Give --reference 1 to {n_windows - 1}, or add" if n_windows > 1 else "Add"
        raise ValueError(
            f"--fail-on-alarm has nothing to test: {there}, and --reference {options.reference} "
            f"takes all. {cure} periods."
        )


def _windows(n: int) -> str:
    return f"{n} window{'' if n == 1 else 's'}"


def _of_file(options: argparse.Namespace, path: Path) -> CalibrationSketch:
    if path.suffix.lower() == SUFFIX:
        refuse_weight(options, path)
        return load_sketch(path)
    file = opened(options, path, weight=options.weight)
    if file.top_label:
        if options.notion is not None and NOTIONS[options.notion].whole_rows:
            raise ValueError(
                f"--notion {options.notion} needs the probabilities of all classes; {path} has "
                "only that of the predicted class."
            )
        words = np.array(OF_PREDICTED, dtype=object)
        batches = ((words[y], *rest) for y, *rest in file)
        with naming(file):
            return sketch_of_batches(batches, notion=BINARY.name, classes=OF_PREDICTED)
    with naming(file):
        return sketch_of_batches(
            file,
            notion=options.notion,
            classes=file.classes,
            from_logits=file.from_logits,
            normalize=options.normalize,
        )


def _merged(parts: Iterable[CalibrationSketch], names: Sequence[Path]) -> CalibrationSketch:
    parts = iter(parts)
    merged = next(parts)
    for part in parts:
        try:
            merged.merge(part)
        except ValueError as error:
            listed = ", ".join(map(str, names[:3])) + (", ..." if len(names) > 3 else "")
            raise ValueError(f"{listed}: {error}") from None
    return merged


def _store(found: CalibrationSketch, path: Path) -> int:
    blob = found.to_bytes()
    write_output(path, blob)
    kind = "all of them" if found.is_exact else "predictions rounded"
    print_lines(
        [
            f"wrote {path}: {found.notion}, {len(found.classes):,} classes, "
            f"{found.n_samples:,} rows ({kind}), {len(blob):,} bytes"
        ]
    )
    return 0


NAME = 28
"""Letters of a period that are shown."""

ERROR = ("value", "low", "high")
BIAS = ("overconfidence", "overconfidence_low", "overconfidence_high")
"""Columns of an error and of a bias with its interval."""


def _table(columns: dict[str, list[Any]], alarm: Alarm, bias: str) -> Iterator[str]:
    """A row per period with the error in the units of its loss."""
    yield from wrapped(f"Calibration error, and bias ({bias}) in percentage points.")
    yield ""
    shown = [
        (ratio(value, 6), f"{ratio(low, 6)} to {ratio(high, 6)}")
        for value, low, high in zip(*(columns[key] for key in ERROR), strict=True)
    ]
    yield from _rows("error", shown, columns, alarm)


def _table_in_points(
    columns: dict[str, list[Any]], alarm: Alarm, n_classes: int, bias: str
) -> Iterator[str]:
    """A row per period with the typical gap of the squared error."""
    per = " per class" if n_classes > 1 else ""
    yield from wrapped(f"In percentage points: typical gap{per}, and bias ({bias}).")
    yield ""
    shown = [
        (_gap(value, n_classes), f"{_gap(low, n_classes)} to {_gap(high, n_classes)}")
        for value, low, high in zip(*(columns[key] for key in ERROR), strict=True)
    ]
    yield from _rows("gap", shown, columns, alarm)


def _gap(error: float, n_classes: int) -> str:
    """The typical gap of a squared error, or of one of its ends, in points."""
    return points((max(error, 0.0) / n_classes) ** 0.5)


def _rows(
    name: str, errors: Sequence[tuple[str, str]], columns: dict[str, list[Any]], alarm: Alarm
) -> list[str]:
    """Periods with their errors and biases; the period of the alarm is marked."""
    rows = [("period", "rows", name, "95% CI", "bias", "95% CI", "")]
    keys = ("period", "n", *BIAS)
    for error, (period, n, bias, *ends) in zip(
        errors, zip(*(columns[key] for key in keys), strict=True), strict=True
    ):
        between = points_between(*ends, signed=True)
        mark = "alarm" if period == alarm.at else ""
        named = shortened(str(period), NAME)
        rows.append((named, f"{n:,}", *error, points(bias, signed=True), between, mark))
    return aligned(rows, left=(0, 3, 5, 6))


def _plain(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """A row per period; JSON has no NaN."""
    rows = zip(*columns.values(), strict=True)
    return [
        {
            name: finite(value) if isinstance(value, float) else value
            for name, value in zip(columns, row, strict=True)
        }
        for row in rows
    ]


def _write(path: Path, text: str) -> None:
    write_output(path, text)
    print_lines([f"wrote {path}"])


def _draw(shown: CalibrationHistory, alarm: Alarm, path: Path, asked: dict[str, Any]) -> None:
    plt = pyplot()
    plt.switch_backend("agg")  # no window, and no need of a display
    figure = shown.plot(alarm=alarm, **asked).figure
    write_output(path, picture_of(figure, path))
    print_lines([f"wrote {path}"])
