"""Rows of an answer, as text of limited width and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from riskalign.display.numbers import MINUS

WIDTH = 80
"""Columns of a terminal that a text may take."""


@dataclass(frozen=True)
class Row:
    """One number of an answer.

    Attributes
    ----------
    name, value : what it is, and the number with its unit
    interval : its interval, empty where there is none
    note : a few words on it
    help : what it means, in a sentence or two; shown as a tooltip
    """

    name: str
    value: str
    interval: str = ""
    note: str = ""
    help: str = ""


def wrapped(text: str, indent: str = "", width: int = WIDTH) -> list[str]:
    """Text in lines of limited width; words are never cut.

    Examples
    --------
    >>> wrapped("one two three", width=8)
    ['one two', 'three']
    """
    lines, line = [], ""
    for word in text.split():
        if line and len(indent) + len(line) + 1 + len(word) > width:
            lines.append(indent + line)
            line = ""
        line = f"{line} {word}" if line else word
    return [*lines, indent + line] if line else lines


def columns(rows: Sequence[Sequence[str]], left: Iterable[int] = (0,), gap: int = 2) -> list[str]:
    """Rows of a table, some columns aligned to the left, others to the right.

    Columns of a table that is too wide for a terminal move together.

    Examples
    --------
    >>> columns([("a", "1"), ("bcd", "10")])
    ['  a     1', '  bcd  10']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    to_left = set(left)
    if gap > 1 and 2 + sum(widths) + gap * (len(widths) - 1) > WIDTH:
        return columns(rows, to_left, gap - 1)
    return [
        "  "
        + (" " * gap)
        .join(
            cell.ljust(width) if i in to_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]


def text_rows(rows: Sequence[Row], width: int = WIDTH) -> list[str]:
    """Rows as text; a note that does not fit moves to a line of its own."""
    if not rows:
        return []
    names, values, intervals = (
        max(len(getattr(row, part)) for row in rows) for part in ("name", "value", "interval")
    )
    lines = []
    for row in rows:
        start = f"  {row.name:<{names}}  {row.value:>{values}}  "
        line = f"{start}{row.interval:<{intervals}}  {row.note}".rstrip()
        if len(line) <= width:
            lines.append(line)
            continue
        column = len(f"{start}{row.interval:<{intervals}}  ")
        note = wrapped(row.note, "", width - column)
        if len(note) == 2 and max(map(len, note)) <= width - column:  # below each other
            lines += [f"{start}{row.interval:<{intervals}}  {note[0]}", " " * column + note[1]]
            continue
        line = f"{start}{row.interval}".rstrip()
        note = wrapped(row.note, " " * len(start), width)
        if not row.interval and note:
            line, note = f"{start}{note[0].strip()}", note[1:]
        lines += [line, *note]
    return lines


def html_rows(rows: Sequence[Row]) -> str:
    """Rows as an HTML table without a style of its own."""
    cells = []
    for row in rows:
        title = f' title="{html.escape(row.help)}"' if row.help else ""
        parts = (row.value, row.interval, row.note)
        data = "".join(f"<td>{html.escape(part).replace('-', MINUS)}</td>" for part in parts[:2])
        cells.append(
            f"<tr{title}><th>{html.escape(row.name)}</th>{data}"
            f"<td>{html.escape(parts[2])}</td></tr>"
        )
    return f"<table><tbody>{''.join(cells)}</tbody></table>"
