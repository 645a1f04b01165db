"""The options of the command line, with their help."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NoReturn, TypeAlias

import riskalign
from riskalign.data.notions import NOTIONS
from riskalign.equations.losses import LOSSES

EXIT_CODES = """\
exit codes:
  0    the question was answered
  1    the gate failed: the error is above --fail-above
  2    bad input or usage
  3    an internal error, a defect of riskalign; --debug shows where
  130  interrupted by Ctrl-C
"""

TOP = f"""\
examples:
  riskalign demo                               see what a report looks like
  riskalign report predictions.csv             the calibration error, in a table
  riskalign report predictions.csv --html report.html
  riskalign compare model-a.npz model-b.npz    which is calibrated better?
  riskalign plot predictions.parquet -o reliability.png

{EXIT_CODES}"""

FILES = """\
files:
  .csv .parquet .jsonl  a column of labels (y, label, target), and either one of
                        probabilities (p, prob), several (p_<class>,
                        prob_<class>, or a list), logits (logit_<class>), or
                        confidence and pred. For other names, --label NAME and
                        --probs NAME,NAME or 'prefix*'
  .npz                  keys labels with probs, logits, or confidence and pred
  .npy                  predictions alone, with --labels FILE
"""

REPORT = f"""\
examples:
  riskalign report predictions.csv
  riskalign report predictions.csv --label truth --probs 'model_*'
  riskalign report logits.npy --labels labels.npy --logits --notion top-label
  riskalign report predictions.parquet --html report.html --json report.json
  riskalign report predictions.csv --fail-above 0.01    in CI: exit code 1 when
                                 the error is above 0.01 beyond reasonable doubt

{FILES}
{EXIT_CODES}"""

COMPARE = f"""\
example:
  riskalign compare before.csv after.csv --notion top-label

The files hold predictions for the same rows, in the same order.

{FILES}
{EXIT_CODES}"""

PLOT = f"""\
examples:
  riskalign plot predictions.csv -o reliability.png
  riskalign plot predictions.csv -o reliability.pdf --notion classwise
  riskalign plot predictions.csv -o cat.svg --class cat
  riskalign plot predictions.csv -o confident.png --scale logit

By default two classes are drawn as the curve of the second, more as that of the
predicted class. The class-wise picture has a diagram for each of up to twelve
classes, the most frequent.

{FILES}
{EXIT_CODES}"""

DEMO = f"""\
example:
  riskalign demo --directory /tmp

Writes riskalign-demo.csv, 5,000 made-up predictions of an over-confident model
of four classes, and riskalign-demo.html, the report of that file.

{EXIT_CODES}"""

DEBUG = "show the traceback of an error"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others are."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        self.exit(2, f"riskalign: error: {message}. See {self.prog} --help.\n")


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="riskalign",
        description="When a model says 80%, is it right 80% of the time?\n"
        "Calibration errors of classifiers, from files of predictions.",
        epilog=TOP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=riskalign.__version__)
    parser.add_argument("--debug", action="store_true", help=DEBUG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_report(commands)
    _add_compare(commands)
    _add_plot(commands)
    _add_demo(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def _command(commands: Commands, name: str, summary: str, epilog: str) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:],
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    # Without a default, it does not undo a --debug before the command.
    command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=DEBUG)
    return command


def _add_report(commands: Commands) -> None:
    command = _command(commands, "report", "how far off are a model's probabilities?", REPORT)
    command.add_argument("file", type=Path, metavar="FILE", help="predictions and labels")
    _add_reading(command)
    _add_question(command)
    command.add_argument(
        "--draws",
        type=_count,
        default=199,
        metavar="N",
        help="label sets drawn for the p-value, 0 for none (default: %(default)s)",
    )
    command.add_argument("--html", type=Path, metavar="OUT", help="write a report to look at")
    command.add_argument("--json", type=Path, metavar="OUT", help="write the numbers")
    command.add_argument("--csv", type=Path, metavar="OUT", help="write a row for each class")
    command.add_argument(
        "--fail-above",
        type=_limit,
        metavar="X",
        help="exit code 1 when the lower end of the interval is above X",
    )


def _count(text: str) -> int:
    """0 or more."""
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _limit(text: str) -> float:
    """A number that an error can be above."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


_count.__name__, _limit.__name__ = "count", "number"  # what argparse calls them in errors


def _add_compare(commands: Commands) -> None:
    command = _command(commands, "compare", "which of two models is calibrated better?", COMPARE)
    command.add_argument("first", type=Path, metavar="A", help="predictions and labels")
    command.add_argument("second", type=Path, metavar="B", help="the same rows, another model")
    _add_reading(command)
    _add_question(command)
    command.add_argument("--json", type=Path, metavar="OUT", help="write the numbers")


def _add_plot(commands: Commands) -> None:
    command = _command(commands, "plot", "a reliability diagram as a picture", PLOT)
    command.add_argument("file", type=Path, metavar="FILE", help="predictions and labels")
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="OUT",
        help="the picture: .png, .svg or .pdf",
    )
    _add_reading(command)
    group = command.add_argument_group("picture")
    group.add_argument(
        "--notion",
        choices=list(NOTIONS),
        metavar="NOTION",
        help="whose probability: binary, top-label or classwise",
    )
    group.add_argument("--class", dest="pos_label", metavar="NAME", help="one class alone")
    group.add_argument(
        "--scale",
        choices=["linear", "logit"],
        default="linear",
        metavar="SCALE",
        help="linear, or logit for predictions near 0 and 1 (default: %(default)s)",
    )


def _add_demo(commands: Commands) -> None:
    command = _command(commands, "demo", "a report of made-up predictions", DEMO)
    command.add_argument(
        "--directory",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where files are written (default: here)",
    )


def _add_reading(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("reading")
    group.add_argument("--label", metavar="NAME", help="the column of labels")
    group.add_argument("--probs", metavar="NAMES", help="the columns of predictions")
    group.add_argument("--labels", type=Path, metavar="FILE", help="labels beside an .npy file")
    group.add_argument("--logits", action="store_true", help="predictions are logits")
    group.add_argument("--normalize", action="store_true", help="rescale rows to sum to one")
    group.add_argument(
        "--classes",
        type=lambda text: [name.strip() for name in text.split(",")],
        metavar="A,B,...",
        help="names of the classes, in the order of the predictions",
    )


def _add_question(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("question")
    group.add_argument(
        "--notion",
        choices=list(NOTIONS),
        metavar="NOTION",
        help=f"what must be calibrated: {', '.join(NOTIONS)} (default: binary for two classes, "
        "else classwise)",
    )
    group.add_argument(
        "--loss",
        choices=list(LOSSES),
        default="l2",
        metavar="LOSS",
        help=f"{', '.join(LOSSES)} (default: l2, the squared error)",
    )
