"""The command `riskalign`: a file of predictions in, an answer out."""

from __future__ import annotations

import argparse
import dis
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence

from riskalign.cli import calibrate, commands, output, pictures, report, sketches
from riskalign.cli.parser import make_parser
from riskalign_command import say

ANSWERED, GATE_FAILED, BAD_INPUT, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes. A shell expects 130 of a program that Ctrl-C ended."""

COMMANDS = {
    "report": report.report,
    "compare": commands.compare,
    "plot": pictures.plot,
    "calibrate": calibrate.calibrate,
    "demo": commands.demo,
    "sketch": sketches.sketch,
    "merge": sketches.merge,
    "history": sketches.history,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    The code is 0 if the question was answered, 1 if a gate failed, 2 for bad
    input or usage, 3 for an internal error and 130 after Ctrl-C.

    Examples
    --------
    >>> main(["report", "nothing.csv"])
    2
    """
    for stream in (sys.stdout, sys.stderr):  # class names may hold letters a terminal lacks
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        options = make_parser().parse_args(arguments)
        given = sys.argv[1:] if arguments is None else arguments
        options.line = shlex.join(["riskalign", *given])
        return _run(options)
    except KeyboardInterrupt:
        say("riskalign: interrupted")
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    """Run one command; every exception becomes one line and an exit code that is no verdict."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = output.print_warning  # type: ignore[assignment]
            return COMMANDS[options.command](options)
    except Exception as error:
        if options.debug:
            traceback.print_exc()
        if isinstance(error, MemoryError):
            output.print_error(
                "there is not enough memory. Write the predictions to Parquet, or use fewer."
            )
        elif isinstance(error, OSError | ImportError) or _is_about_input(error):
            output.print_error(output.words_of_options(str(error)))
        else:
            output.print_internal_error(error)
            return INTERNAL_ERROR
        return BAD_INPUT


def _is_about_input(error: Exception) -> bool:
    """Whether a `raise` statement of riskalign made it: all checks of input are of this kind.

    A ValueError or TypeError of numpy, of scipy or of a built-in function is our own fault.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, ValueError | TypeError):
        return False
    name = str(trace.tb_frame.f_globals.get("__name__"))
    instruction = trace.tb_frame.f_code.co_code[trace.tb_lasti]
    return name.startswith("riskalign.") and dis.opname[instruction] == "RAISE_VARARGS"
