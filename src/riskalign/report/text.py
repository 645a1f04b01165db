"""The first screen as text of at most 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from riskalign.display.table import WIDTH, columns, text_rows, wrapped
from riskalign.report.screen import Screen
from riskalign.report.words import tell

CLASSES, NAME = 5, 18
"""Classes that are listed unless all are asked for, and letters of their names."""


def text_lines(
    screen: Screen,
    source: Sequence[str] = (),
    *,
    all_classes: bool = False,
    verbose: bool = False,
) -> Iterator[str]:
    """The screen in lines, without a heading.

    `source` is the file for the advice's command: its path and the options with which it is read.
    """
    said = tell(screen)
    yield said.subject
    yield ""
    yield from wrapped(said.headline.upper())
    for sentence in said.sentences:
        yield from wrapped(sentence, "  ")
    yield ""
    yield from text_rows(said.rows)
    if said.classes:
        shown = said.classes if all_classes else said.classes[:CLASSES]
        yield ""
        yield from columns([said.class_head, *(line.cells(NAME) for line in shown)], left=(0, 3, 6))
        if len(shown) < len(said.classes):
            yield f"  ({len(said.classes) - len(shown):,} more: --all-classes)"
        yield from wrapped(said.classes_note, "  ")
    yield ""
    if screen.advice is not None:
        yield "What to do"
        yield from wrapped(screen.advice.sentence, "  ")
        command = screen.advice.command(source)
        yield from _folded(command) if command else ()
        yield ""
    if verbose:
        yield "Details"
        yield from text_rows(said.details)
    else:
        yield from wrapped(f"Grades: {said.grades}. --verbose shows squared errors and the method.")


def _folded(command: str) -> Iterator[str]:
    """A command as a shell takes it, continued on lines of its own where it is long."""
    parts: list[list[str]] = [[]]  # an option and its value stay together
    for word in shlex.split(command):
        if word.startswith("-"):
            parts.append([])
        parts[-1].append(word)
    line = f"  $ {shlex.join(parts[0])}"
    for part in map(shlex.join, parts[1:]):
        if len(line) + len(part) + 3 > WIDTH:
            yield f"{line} \\"
            line = "     "
        line = f"{line} {part}"
    yield line
