"""The options of `riskalign sketch`, `merge` and `history`, with their help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from riskalign.cli.gates import limit_of
from riskalign.cli.texts import EXIT_CODES
from riskalign.data.notions import NOTIONS
from riskalign.equations.losses import LOSSES, loss_name

SKETCH = f"""\
examples:
  riskalign sketch predictions.parquet -o monday.sketch
  riskalign sketch 'logs/2026-01-*/' -o january.sketch --label y --probs p
  riskalign sketch a.csv b.parquet -o both.sketch --notion classwise

A sketch holds what calibration errors need to know of any number of rows, in
some hundred kilobytes. Files, folders and patterns of Parquet are read in
parallel and in bounded memory. riskalign report reads a sketch, and riskalign
merge merges several.

{EXIT_CODES}"""

MERGE = f"""\
example:
  riskalign merge monday.sketch tuesday.sketch -o days.sketch

The order does not matter. The sketches have the same notion and classes.

{EXIT_CODES}"""

HISTORY = f"""\
examples:
  riskalign history days/                      a folder of .sketch files
  riskalign history days/ --window 7 --reference 4 -o weeks.png
  riskalign history days/ --fail-on-alarm      in a nightly job: exit code 1

Periods are the names of the files, in their order; numbers in names count by
their value. The alarm tests whether the error of the windows after the
reference exceeds that of the reference. It may be asked every day: the
probability that a false alarm is ever raised is at most --alpha.

{EXIT_CODES}"""

Make = Callable[[str, str, str], argparse.ArgumentParser]


def add_sketch_commands(make: Make, add_reading: Callable[[argparse.ArgumentParser], Any]) -> None:
    """Add the three commands to a parser.

    Parameters
    ----------
    make : from a name, a summary and an epilog to the parser of a command
    add_reading : adds the options of how files are read
    """
    command = make("sketch", "summarise any number of predictions in one small file", SKETCH)
    command.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="predictions and labels: files, folders and patterns of Parquet, sketches",
    )
    _add_output(command, "the sketch")
    add_reading(command)
    command.add_argument(
        "--notion",
        choices=list(NOTIONS),
        metavar="NOTION",
        help=f"what is to be asked later: {', '.join(NOTIONS)}",
    )
    command = make("merge", "merge sketches into one", MERGE)
    command.add_argument("files", type=Path, nargs="+", metavar="FILE", help="sketches")
    _add_output(command, "the merged sketch")
    _add_history(make("history", "watch the calibration error over time, with an alarm", HISTORY))


def _add_output(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help=f"{what}: a .sketch file"
    )


def _add_history(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a folder of sketches, or a .parquet history"
    )
    command.add_argument("--window", type=int, default=1, metavar="N", help="periods per window")
    command.add_argument(
        "--reference", type=int, default=1, metavar="N", help="first windows to compare with"
    )
    command.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        metavar="A",
        help="probability that a false alarm is ever raised (default: %(default)s)",
    )
    command.add_argument(
        "--tolerance",
        type=limit_of,
        metavar="X",
        help="how much the error may grow before it matters: 1pts for typical gaps in percentage "
        "points, 0.001raw in the units of the loss (default: none)",
    )
    command.add_argument(
        "--notion",
        choices=list(NOTIONS),
        metavar="NOTION",
        help="top-label, if the sketches know all classes",
    )
    command.add_argument(
        "--loss",
        type=loss_name,
        choices=list(LOSSES),
        default="l2",
        metavar="LOSS",
        help=f"{', '.join(LOSSES)} (default: l2)",
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="a picture: .png, .svg or .pdf"
    )
    command.add_argument("--json", type=Path, metavar="OUT", help="write the numbers")
    command.add_argument("--csv", type=Path, metavar="OUT", help="write a row per period")
    command.add_argument(
        "--fail-on-alarm",
        action="store_true",
        help="exit code 1 if the alarm is raised; there must be a window after the reference",
    )
