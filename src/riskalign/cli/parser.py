"""The options of the command line, with their help."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias

import riskalign
from riskalign.bandwidth.criteria import CRITERIA
from riskalign.cli.gates import limit_of
from riskalign.cli.sketch_options import add_sketch_commands
from riskalign.cli.texts import (
    CALIBRATE,
    COMPARE,
    DEBUG,
    DEMO,
    PLOT,
    REPORT,
    TOP,
)
from riskalign.data.notions import NOTIONS
from riskalign.display.judgement import Thresholds
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import LOSSES, loss_name
from riskalign.methods.kernel import ESTIMATORS, OF_RESIDUALS
from riskalign.options import MOST_DRAWS
from riskalign.recalibration.calibrators import CALIBRATORS

MOST_BINS = 1_000_000
"""Bins that are counted: more than there are different probabilities in most files."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others are."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        if message == "argument --fail-above: expected one argument":  # -1pts looks like an option
            message = f"{message}, a limit such as 3pts that is not negative"
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
    _add_calibrate(commands)
    _add_demo(commands)
    add_sketch_commands(partial(_command, commands), _add_weighted_reading)
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
    _add_weighted_reading(command)
    _add_question(command)
    _add_method(command)
    command.add_argument(
        "--draws",
        type=_count,
        default=199,
        metavar="N",
        help="draws of the simulated p-value, 0 for none (default: %(default)s)",
    )
    command.add_argument("--no-advice", action="store_true", help="do not try recalibration")
    command.add_argument("--fast", action="store_true", help="no p-value and no advice")
    command.add_argument("--all-classes", action="store_true", help="list every class")
    command.add_argument("--verbose", action="store_true", help="squared errors, method, smoothing")
    command.add_argument(
        "--thresholds",
        type=_thresholds,
        default=Thresholds(),
        metavar="A,B,C",
        help="points below which a typical gap is good, fair and poor (default: 1,3,10)",
    )
    _add_files(command)
    _add_gates(command)


def _add_files(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("files")
    group.add_argument("--html", type=Path, metavar="OUT", help="write an HTML report")
    group.add_argument("--json", type=Path, metavar="OUT", help="write all numbers")
    group.add_argument("--csv", type=Path, metavar="OUT", help="write a row for each class")
    group.add_argument("--markdown", type=Path, metavar="OUT", help="write a summary in Markdown")
    group.add_argument("--junit", type=Path, metavar="OUT", help="write the gates as JUnit XML")


def _add_gates(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("gates")
    group.add_argument(
        "--fail-above",
        type=limit_of,
        metavar="X",
        help="exit code 1 when the lower end of an interval is above X: 3pts for typical gaps in "
        "percentage points, 1.25x for the factor by which the mean probability of one class is "
        "wrong, 0.01raw for errors in the units of the loss",
    )
    group.add_argument(
        "--metric",
        choices=["error", "ece"],
        default="error",
        metavar="M",
        help="what --fail-above is about: error (default) or ece",
    )
    group.add_argument(
        "--upper",
        action="store_true",
        help="fail unless the upper end of the interval shows that the error is not above X; not "
        "for the ECE, which has no interval",
    )
    group.add_argument(
        "--worse-than",
        type=Path,
        metavar="FILE",
        help="exit code 1 when the lower 95%% limit of the difference to the error of FILE is "
        "above 0; FILE has the same rows in the same order",
    )


def _add_method(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("method")
    group.add_argument(
        "--estimator",
        choices=list(ESTIMATORS),
        metavar="E",
        help=f"{', '.join(ESTIMATORS)} (default: debiased, the only one with intervals; plugin is "
        "the paper's)",
    )
    group.add_argument(
        "--bandwidth",
        type=_bandwidth,
        metavar="H",
        help="risk-alignment, likelihood, cross-validation or a number",
    )
    group.add_argument("--kernel", choices=list(KERNELS), metavar="K", help=", ".join(KERNELS))
    group.add_argument(
        "--norm",
        choices=list(OF_RESIDUALS),
        metavar="NORM",
        help="a norm of the difference in place of a loss: l1 (mean absolute difference, with its "
        "parts that are too high and too low), l2 (root mean square), euclidean (mean length, "
        "canonical); with --bins, l1 is the ECE",
    )
    group.add_argument(
        "--bins", type=_bins, metavar="N", help="N bins of equal width in place of a kernel"
    )


def _notion(text: str) -> str:
    """A notion by any of its spellings."""
    plain = text.lower().replace("_", "-")
    return {"toplabel": "top-label", "class-wise": "classwise"}.get(plain, plain)


def _count(text: str) -> int:
    """0 or more, as many as the library draws."""
    value = int(text)
    if value < 0:
        raise ValueError
    if value > MOST_DRAWS:
        raise argparse.ArgumentTypeError(f"at most {MOST_DRAWS:,} are drawn; found {value:,}")
    return value


def _bins(text: str) -> int:
    """A number of bins, 1 or more."""
    value = int(text)
    if value < 1:
        raise ValueError
    if value > MOST_BINS:
        raise argparse.ArgumentTypeError(f"at most {MOST_BINS:,} bins; found {value:,}")
    return value


def _bandwidth(text: str) -> str | float:
    """A criterion, or the bandwidth itself."""
    return text if text in CRITERIA else float(text)


def _thresholds(text: str) -> Thresholds:
    """Three percentage points in rising order."""
    try:
        good, fair, poor = (float(part) for part in text.split(","))
        return Thresholds(good, fair, poor)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be three percentage points that ascend, such as 1,3,10"
        ) from None


_count.__name__, _bins.__name__ = "count", "count"
_bandwidth.__name__, _thresholds.__name__ = "bandwidth", "thresholds"
# what argparse calls them in errors


def _add_compare(commands: Commands) -> None:
    command = _command(commands, "compare", "which of two models is calibrated better?", COMPARE)
    command.add_argument("first", type=Path, metavar="A", help="predictions and labels")
    command.add_argument("second", type=Path, metavar="B", help="the same rows, another model")
    _add_reading(command)
    _add_question(command)
    command.add_argument("--json", type=Path, metavar="OUT", help="write the numbers")


def _add_plot(commands: Commands) -> None:
    command = _command(commands, "plot", "draw a reliability diagram", PLOT)
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
        type=_notion,
        choices=list(NOTIONS),
        metavar="NOTION",
        help="whose probability: binary, top-label or classwise",
    )
    group.add_argument("--class", dest="pos_label", metavar="NAME", help="one class alone")
    group.add_argument(
        "--scale",
        choices=["linear", "logit"],
        metavar="SCALE",
        help="linear, or logit for predictions near 0 and 1 (default: logit for a class that is "
        "predicted with less than 5%% on average, else linear)",
    )
    group.add_argument(
        "--band",
        choices=["pointwise", "simultaneous", "none"],
        default="pointwise",
        metavar="BAND",
        help="pointwise, simultaneous (for the whole curve at once) or none (default: %(default)s)",
    )
    group.add_argument(
        "--bins", type=_bins, metavar="N", help="add N bins of equal width (default: none)"
    )


def _add_calibrate(commands: Commands) -> None:
    command = _command(commands, "calibrate", "write recalibrated predictions", CALIBRATE)
    command.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="predictions and labels; with --load or --fit the labels may be missing",
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the output, in the format of FILE"
    )
    command.add_argument(
        "--method",
        choices=list(CALIBRATORS),
        metavar="METHOD",
        help=f"{', '.join(CALIBRATORS)} (default: kernel)",
    )
    command.add_argument(
        "--fit", type=Path, metavar="OTHER", help="learn from this file, not from FILE"
    )
    command.add_argument(
        "--save", type=Path, metavar="CAL", help="write the calibrator, .json or .npz"
    )
    command.add_argument("--load", type=Path, metavar="CAL", help="use a calibrator from --save")
    _add_reading(command)


def _add_demo(commands: Commands) -> None:
    command = _command(commands, "demo", "make up predictions and report on them", DEMO)
    command.add_argument(
        "--directory",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where files are written (default: here)",
    )


def _add_weighted_reading(command: argparse.ArgumentParser) -> None:
    _add_reading(command).add_argument(
        "--weight", metavar="NAME", help="the column of sample weights"
    )


def _add_reading(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = command.add_argument_group("reading")
    group.add_argument("--label", metavar="NAME", help="the column of labels")
    group.add_argument("--probs", metavar="NAMES", help="the columns of predictions")
    group.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labels in another file; also .txt, one per line, or .json",
    )
    group.add_argument("--logits", action="store_true", help="predictions are logits")
    group.add_argument("--normalize", action="store_true", help="rescale rows to sum to one")
    group.add_argument(
        "--classes",
        type=lambda text: [name.strip() for name in text.split(",")],
        metavar="A,B,...",
        help="names of the classes, in the order of the predictions",
    )
    return group


def _add_question(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("question")
    group.add_argument(
        "--notion",
        type=_notion,
        choices=list(NOTIONS),
        metavar="NOTION",
        help=f"what must be calibrated: {', '.join(NOTIONS)} (default: binary for two classes, "
        "else classwise)",
    )
    group.add_argument(
        "--loss",
        type=loss_name,
        choices=list(LOSSES),
        default="l2",
        metavar="LOSS",
        help="l2 (or brier), kl (or log), ranked (default: l2, the squared error)",
    )
