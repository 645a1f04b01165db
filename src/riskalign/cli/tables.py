"""Reports as text of at most 80 columns, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from riskalign.cli.output import WIDTH, in_columns, shortened
from riskalign.data.notions import NOTIONS
from riskalign.inference.comparison import Comparison
from riskalign.report import words
from riskalign.report.summary import Summary

WORST = 5
"""Classes that a terminal shows."""

NAME = 30
"""Letters of a class's name that a terminal shows."""


def report_lines(summary: Summary, heading: str) -> Iterable[str]:
    """The report of one model."""
    result = summary.result
    classes = f", {len(result.classes):,} classes" if result.classes else ""
    yield from _wrapped(heading)
    yield ""
    yield shortened(f"{words.title_of(result)}: {result.n_samples:,} rows{classes}", WIDTH)
    yield ""
    yield from _averages(summary)
    yield _line("risk", words.number(result.risk), "mean loss, observed")
    yield _line("calibration error", words.number(result.value), words.interval(result))
    if result.loss == "l2":
        meaning = f"root mean square{words.per_class(result)}"
        yield _line(" typical |R - f|", words.number(result.root), meaning)
    if result.refinement is not None:
        yield _line("refinement", words.number(result.refinement), "what calibration cannot mend")
    if summary.test is not None:
        some = summary.test.n_samples < result.n_samples
        rows = f", {summary.test.n_samples:,} rows" if some else ""
        drawn = f"{summary.test.n_draws} label sets drawn from the predictions{rows}"
        yield _line("p-value", words.test_p_value(summary.test), drawn)
    if result.bandwidth is not None:
        yield f"  {'bandwidth':<17}  {words.bandwidths(result)}"
    yield from _worst_classes(summary)
    yield ""
    yield from _wrapped(words.verdict(summary))


def _averages(summary: Summary) -> Iterable[str]:
    """What was predicted on average and what came true: of one class, or of the top label."""
    result, found = summary.result, summary.result.binary
    if found is None:
        yield _line("accuracy", words.percent(summary.accuracy))
        yield _line("mean confidence", words.percent(summary.mean_confidence))
        if result.overconfidence is not None:
            gap = f"{words.points(result.overconfidence.gap)} pts"
            yield _line(" less accuracy", gap, f"{words.gap_interval(result)}: {result.direction}")
        return
    ratio = words.ends(found.ratio_interval, found.confidence)
    slope = words.ends(found.slope_interval, found.confidence)
    intercept = words.ends(found.intercept_interval, found.confidence)
    subject = words.positive_class(result)
    yield _line("mean predicted", words.share(found.mean_prediction), subject)
    yield _line("observed", words.share(found.frequency))
    yield _line(" their ratio", words.ratio(found.ratio), f"{ratio}: {found.direction}")
    yield _line("calibration slope", f"{found.slope:.2f}", f"{slope}, 1 is ideal")
    yield _line(" and intercept", f"{found.intercept:.2f}", f"{intercept}, 0 is ideal")


def _line(name: str, value: str, meaning: str = "") -> str:
    return f"  {name:<17}  {value:<10}  {meaning}".rstrip()


def _wrapped(text: str) -> Iterable[str]:
    line = ""
    for word in text.split():
        if len(line) + len(word) + 1 > WIDTH:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    yield line


def _worst_classes(summary: Summary) -> Iterable[str]:
    result = summary.result
    if result.per_class is None or result.overconfidence is None:
        return
    worst = np.argsort(-result.per_class, kind="stable")[:WORST].tolist()
    total = float(np.abs(result.per_class).sum()) or 1.0
    rows = [["worst classes", "error", "share", "mean f - R"]]
    for k in worst:
        gap = float(result.overconfidence.per_class[k])
        rows.append(
            [
                shortened(result.classes[k].replace("\n", " "), NAME),
                f"{result.per_class[k]:.6f}",
                f"{result.per_class[k] / total:.1%}",
                f"{gap:+.4f}",
            ]
        )
    yield ""
    yield from in_columns(rows)


def report_json(summary: Summary, source: str) -> str:
    """The report as JSON."""
    content: dict[str, Any] = {
        "source": source,
        "accuracy": summary.accuracy,
        "mean_confidence": summary.mean_confidence,
        "p_value": None if summary.test is None else summary.test.p_value,
        **summary.result.to_dict(),
        "test": None if summary.test is None else summary.test.to_dict(),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def report_csv(summary: Summary) -> str:
    """A row for each class (for the one question of other notions)."""
    columns = summary.result.to_columns()
    if summary.diagrams:
        columns["mean_prediction"] = [diagram.mean_prediction for diagram in summary.diagrams]
        columns["frequency"] = [diagram.frequency for diagram in summary.diagrams]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def comparison_lines(comparison: Comparison) -> Iterable[str]:
    """Two models side by side."""
    first, second = (shortened(name, NAME) for name in comparison.names)
    notion, loss = NOTIONS[comparison.notion].title, words.LOSSES.get(comparison.loss, "")
    low, high = comparison.interval
    yield f"{notion} calibration error ({loss}): {comparison.n_samples:,} rows"
    yield ""
    values = (*comparison.values, comparison.difference)
    shown = [words.number(value) for value in values]
    shown[2] = shown[2] if shown[2].startswith("-") else f"+{shown[2]}"
    interval = f"{comparison.confidence:.0%} interval {words.number(low)} to {words.number(high)}"
    rows = list(zip((first, second, "difference"), shown, strict=True))
    lines = in_columns(rows)
    yield from lines[:2]
    yield f"{lines[2]}   {interval}, p-value {words.p_value(comparison.p_value)}"
    yield ""
    if low > 0:
        yield f"{second} is calibrated better."
    elif high < 0:
        yield f"{first} is calibrated better."
    else:
        yield "The data do not tell which is calibrated better."
