"""The first screen as text of at most 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from riskalign.display.table import WIDTH, columns, text_rows, wrapped
from riskalign.report import words
from riskalign.report.screen import Screen

CLASSES = 5
"""Classes that are listed, if so many are off."""


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
    yield words.subject(screen)
    yield ""
    yield from wrapped(words.headline(screen).upper())
    for sentence in words.sentences(screen):
        yield from wrapped(sentence, "  ")
    yield ""
    yield from text_rows(list(words.rows(screen)))
    yield from _classes(screen, all_classes)
    yield ""
    yield from _advice(screen, source)
    if verbose:
        yield "Details"
        yield from text_rows(list(words.detail_rows(screen)))
    else:
        yield from _details(screen)


def _classes(screen: Screen, all_classes: bool) -> Iterator[str]:
    found = screen.evidence
    if found is None:
        return
    K = len(found.names)
    order = screen.class_order
    shown = order if all_classes else order[:CLASSES]
    rows = [words.class_head(screen), *(words.class_cells(screen, k) for k in shown)]
    yield ""
    yield from columns(rows, left=(0, 3, 6))
    if len(shown) < K:
        yield f"  ({K - len(shown):,} more: --all-classes)"
    yield from wrapped(screen.classes_note, "  ") if screen.classes_note else ()


def _advice(screen: Screen, source: Sequence[str]) -> Iterator[str]:
    """What recalibration would gain."""
    advice = screen.advice
    if advice is None:
        return
    yield "What to do"
    yield from wrapped(advice.sentence, "  ")
    command = advice.command(source)
    if command:
        yield from _folded(command)
    yield ""


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


def _details(screen: Screen) -> Iterator[str]:
    """One line on the squares and on how grades are given."""
    text = f"Grades: {words.grades(screen)}. --verbose shows squared errors and the method."
    yield from wrapped(text)
