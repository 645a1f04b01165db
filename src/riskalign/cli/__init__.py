"""The command `riskalign`: a file of predictions in, an answer out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from riskalign.cli.commands import compare, demo, report
from riskalign.cli.output import print_error, words_of_options
from riskalign.cli.parser import make_parser
from riskalign.cli.pictures import plot

COMMANDS = {"report": report, "compare": compare, "plot": plot, "demo": demo}

INTERRUPTED = 130
"""What a shell expects of a program ended by Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 1 (`--fail-above`) or 2 (an error).

    Examples
    --------
    >>> main(["report", "nothing.csv"])
    2
    """
    for stream in (sys.stdout, sys.stderr):  # class names may hold letters a terminal lacks
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    options = make_parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except MemoryError:
        print_error("there is not enough memory. Write the predictions to Parquet, or use fewer.")
    except (ValueError, TypeError, OSError, ImportError) as error:
        print_error(words_of_options(str(error)))
    return 2
