"""The first screen for other programs: JSON, CSV, Markdown and JUnit."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from riskalign.display.averages import finite
from riskalign.display.classes import ClassLine
from riskalign.report.screen import Screen
from riskalign.report.words import Answer, tell

SCHEMA = 2
"""Version of the JSON: it grows with every change that could break a reader."""

LISTED, NAME = 10, 40
"""Classes that Markdown lists, and letters of their names."""


FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First letters of a cell that spreadsheets take for a formula; the last four are full-width."""


@dataclass(frozen=True)
class Check:
    """The outcome of one gate.

    Attributes
    ----------
    name : what is compared
    failed : whether the model may not pass
    message : what was found
    """

    name: str
    failed: bool
    message: str


def to_dict(screen: Screen, checks: Sequence[Check] = (), /, **facts: Any) -> dict[str, Any]:
    """The screen and its gates as JSON-ready types; `facts` say where it comes from."""
    result, scores, said = screen.result, screen.scores, tell(screen)
    return {
        "schema": SCHEMA,
        **facts,
        "complete": not screen.stage,
        "verdict": {
            "headline": said.headline,
            "grade": screen.grade,
            "sentences": list(said.sentences),
            "thresholds": vars(screen.options.thresholds),
            "answers": [_answer(answer) for answer in said.answers],
        },
        "gates": [
            {"name": check.name, "passed": not check.failed, "message": check.message}
            for check in checks
        ],
        "n_samples": screen.n_samples,
        **({} if scores is None else vars(scores) | {"mean_confidence": scores.confidence}),
        "p_value": None if screen.test is None else screen.test.p_value,
        **({} if result is None else result.to_dict()),
        "top_label": None if screen.top is None else screen.top.to_dict(),
        "class_table": [_class(screen, line) for line in said.classes],
        "test": None if screen.test is None else screen.test.to_dict(),
        "advice": None if screen.advice is None else screen.advice.to_dict(),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    found, interval = answer.told.verdict, answer.result.gap_interval
    return {
        "question": answer.question,
        "notion": answer.result.notion,
        "grade": found.grade,
        "grades_of_interval": None if found.ends is None else list(found.ends),
        "significant": found.significant,
        "typical_gap": found.gap if answer.told.in_points else None,
        "typical_gap_interval": None if interval is None else list(interval),
    }


def _class(screen: Screen, line: ClassLine) -> dict[str, Any]:
    error = screen.class_errors.get(line.number)
    interval = None if error is None or error.interval is None else list(error.interval)
    return {
        "class": line.name,
        "number": line.number,
        "count": line.count,
        "mean_prediction": line.mean_prediction,
        "frequency": line.frequency,
        "gap": line.gap,
        "gap_interval": [line.low, line.high],
        "error": line.error,
        "error_interval": interval,
        "share": line.share,
        "p_value": line.p_value,
        "beyond_chance": bool(line.direction),
        "direction": line.direction,
    }


def to_json(screen: Screen, checks: Sequence[Check] = (), /, **facts: Any) -> str:
    """The screen and its gates as JSON."""
    content = plain(to_dict(screen, checks, **facts))
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def to_csv(screen: Screen) -> str:
    """A row for each class, or for the one question of other notions."""
    lines = sorted(tell(screen).classes, key=lambda line: line.number)
    if lines:
        rows = [_class(screen, line) for line in lines]
        for row in rows:
            for name in ("gap_interval", "error_interval"):
                ends = row.pop(name)
                row[name.replace("interval", "low")], row[name.replace("interval", "high")] = (
                    ends or (None, None)
                )
    else:
        assert screen.result is not None
        columns = screen.result.to_columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def harmless(value: object) -> object:
    """Text that spreadsheets would take for a formula, marked as text by an apostrophe."""
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULAS):
        return f"'{value}"
    return value


def to_markdown(screen: Screen, heading: str, checks: Sequence[Check] = ()) -> str:
    """The screen for a GitHub step summary or a pull request."""
    return "\n".join(_markdown_lines(screen, heading, checks)) + "\n"


def _markdown_lines(screen: Screen, heading: str, checks: Sequence[Check]) -> Iterator[str]:
    said = tell(screen)
    yield f"## {_cell(said.headline)}"
    yield ""
    yield _cell(f"{heading} ({said.subject})")
    yield ""
    for check in checks:
        yield f"- {'**failed**' if check.failed else 'passed'}: {_cell(check.message)}"
    for sentence in said.sentences:
        yield f"- {_cell(sentence)}"
    yield ""
    level = f"{screen.options.confidence:.0%} CI"
    yield from _markdown_table(
        ("", "value", level, ""),
        [(r.name, r.value, r.interval, r.note) for r in said.rows if r.name],
    )
    if said.classes:
        yield ""
        cells = [line.cells(NAME) for line in said.classes[:LISTED]]
        yield from _markdown_table(said.class_head, cells)
        if len(said.classes) > LISTED:
            yield ""
            yield f"{LISTED} of {len(said.classes):,} classes, by evidence."
    if screen.advice is not None:
        yield ""
        yield f"**What to do.** {_cell(screen.advice.sentence)}"
    yield ""
    yield "<details><summary>Details</summary>"
    yield ""
    details = [(r.name, r.value, r.interval, r.note) for r in said.details]
    yield from _markdown_table(("", "value", level, ""), details)
    yield ""
    yield "</details>"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(_cell(cell) for cell in head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"


def _cell(text: str) -> str:
    """Text without meaning for Markdown or HTML: names come from files."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for letter in "\\`*_{}[]|#~":
        line = line.replace(letter, f"\\{letter}")
    return line


def to_junit(screen: Screen, heading: str, checks: Sequence[Check], text: str) -> str:
    """The gates as JUnit test cases; without a gate, one case that passes."""
    failures = sum(check.failed for check in checks)
    cases = []
    for check in checks:
        name = quoteattr(_xml(check.name))
        body = f"<failure message={quoteattr(_xml(check.message))}/>" if check.failed else ""
        cases.append(f'  <testcase classname="riskalign" name={name}>{body}</testcase>\n')
    if not checks:
        name = quoteattr(_xml(tell(screen).headline))
        cases.append(f'  <testcase classname="riskalign" name={name}/>\n')
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuite name={quoteattr(_xml(heading))} tests="{len(cases)}" '
        f'failures="{failures}" errors="0">\n{"".join(cases)}'
        f"  <system-out>{escape(_xml(text))}</system-out>\n</testsuite>\n"
    )


def _xml(text: str) -> str:
    """Text without what XML cannot hold."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)
