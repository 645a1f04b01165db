"""The commands: read files, ask the library, print and write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import riskalign
from riskalign import datasets
from riskalign.cli.output import check_outputs, print_lines, write_whole
from riskalign.cli.parser import make_parser
from riskalign.cli.tables import comparison_lines, report_csv, report_json, report_lines
from riskalign.data.files import PredictionFile, open_predictions
from riskalign.data.validation import as_sample
from riskalign.report import to_html
from riskalign.report.summary import Summary, summarize, summarize_batches
from riskalign.testing import compare as compare_models

DEMO_ROWS = 5_000
DEMO_CLASSES = ("cat", "dog", "bird", "fish")


def report(options: argparse.Namespace) -> int:
    """`riskalign report`."""
    outputs = {f"--{kind}": getattr(options, kind) for kind in ("html", "json", "csv")}
    check_outputs(outputs, [options.file, options.labels])
    file = opened(options, options.file)
    summary = _summary(options, file)
    heading = f"{file.path.name}: {file.description}"
    print_lines(report_lines(summary, heading))
    writers: dict[str, Callable[[], str]] = {
        "html": partial(to_html, summary, source=file.path.name, version=riskalign.__version__),
        "json": partial(report_json, summary, str(file.path)),
        "csv": partial(report_csv, summary),
    }
    for kind, content in writers.items():
        path = getattr(options, kind)
        if path is not None:
            write_whole(path, content())
            print_lines([f"wrote {path}"])
    return _verdict(summary, options.fail_above)


def _verdict(summary: Summary, limit: float | None) -> int:
    """1 where the error is above the limit beyond doubt."""
    if limit is None:
        return 0
    assert summary.result.interval is not None
    low, _ = summary.result.interval
    failed = low > limit
    sign = "above" if failed else "not above"
    print_lines([f"--fail-above {limit:g}: the interval's lower end, {low:.6g}, is {sign} it"])
    return int(failed)


def opened(options: argparse.Namespace, path: Path) -> PredictionFile:
    """A file, read as the options say."""
    return open_predictions(
        path,
        label=options.label,
        probs=options.probs,
        labels=options.labels,
        logits=options.logits,
        classes=options.classes,
    )


def _summary(options: argparse.Namespace, file: PredictionFile) -> Summary:
    asked: dict[str, Any] = {
        "notion": options.notion,
        "loss": options.loss,
        "top_label": file.top_label,
        "from_logits": file.from_logits,
        "normalize": options.normalize,
        "classes": file.classes,
        "n_draws": options.draws,
    }
    if file.is_large and options.notion != "canonical":
        return summarize_batches(file, **asked)
    predictions = file.read()
    return summarize(predictions.y_true, predictions.scores, **asked)


def compare(options: argparse.Namespace) -> int:
    """`riskalign compare`."""
    check_outputs({"--json": options.json}, [options.first, options.second, options.labels])
    files = [opened(options, path) for path in (options.first, options.second)]
    labels, *probabilities = same_rows(files, options.normalize)
    names = [path.name for path in (options.first, options.second)]
    if names[0] == names[1]:
        names = [str(options.first), str(options.second)]
    comparison = compare_models(
        labels, *probabilities, notion=options.notion, loss=options.loss, names=(names[0], names[1])
    )
    print_lines(comparison_lines(comparison))
    if options.json is not None:
        text = json.dumps(comparison.to_dict(), indent=2, ensure_ascii=False)
        write_whole(options.json, text + "\n")
        print_lines([f"wrote {options.json}"])
    return 0


def same_rows(files: Sequence[PredictionFile], normalize: bool) -> list[Any]:
    """The labels that two files share, and the probabilities of each, ``(n, K)``."""
    if any(file.top_label for file in files):
        raise ValueError("models are compared by the probabilities of all classes. Store them.")
    first, second = (file.read() for file in files)
    samples = [
        as_sample(part.labels, part.scores, from_logits=file.from_logits, normalize=normalize)
        for part, file in zip((first, second), files, strict=True)
    ]
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


def demo(options: argparse.Namespace) -> int:
    """`riskalign demo`."""
    table = options.directory / "riskalign-demo.csv"
    check_outputs({"--directory": table}, [])
    data = datasets.temperature(DEMO_ROWS, len(DEMO_CLASSES), t2=0.6, seed=0)
    lines = [",".join(["label", *(f"p_{name}" for name in DEMO_CLASSES)])]
    lines += [
        ",".join([DEMO_CLASSES[y], *(f"{p:.6f}" for p in row)])
        for y, row in zip(data.y_true.tolist(), data.y_prob.tolist(), strict=True)
    ]
    write_whole(table, "\n".join(lines) + "\n")
    page = table.with_suffix(".html")
    print_lines([f"wrote {table}: made-up predictions of an over-confident model", ""])
    command = ["report", str(table), "--html", str(page)]
    print_lines([f"$ riskalign {' '.join(command)}", ""])
    return report(make_parser().parse_args(command))
