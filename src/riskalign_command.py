"""Where the command `riskalign` starts: beside the package, whose import takes a while.

What goes wrong during that import ends the command as it does later: with one line and an exit
code that is no verdict, 130 after Ctrl-C and 3 for everything else.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

INTERNAL_ERROR, INTERRUPTED = 3, 130


def main() -> int:
    """Run the command line and return its exit code; see `riskalign.cli.main`."""
    try:
        if sys.argv[1:] == ["--version"] and _print_version():
            return 0
        from riskalign.cli import main

        return main()
    except KeyboardInterrupt:
        say("riskalign: interrupted")
        return INTERRUPTED
    except Exception as error:  # Python would exit with 1, the code of a gate that failed
        happened = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":.")
        say(
            f"riskalign: internal error: {happened}. This is not a result. If it is about an "
            "import, install riskalign and its requirements again."
        )
        return INTERNAL_ERROR
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)


def _print_version() -> bool:
    """Print the version as the package's file tells it, without importing it; whether it does."""
    found = find_spec("riskalign")
    if found is None or found.origin is None:
        return False
    text = Path(found.origin).read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if version is None:
        return False
    print(version.group(1))
    return True


def say(text: str) -> None:
    """Write a line to the standard error; where that cannot be written, the exit code says it."""
    if sys.stderr is not None:  # it is None where it was closed
        try:
            print(text, file=sys.stderr)
        except OSError:
            silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written end in nothing, with all that it still holds."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def _flush(stream: TextIO | None) -> None:
    """Flush a stream here: Python exits with 120 where that fails at the end."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        assert stream is not None
        silence(stream)
