"""Printing, and files that are written whole or not at all."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import riskalign
from riskalign.data.files.whole import is_stream, write_whole
from riskalign_command import say, silence

PICTURES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150

OPTIONS = {
    "from_logits": "--logits",
    "normalize": "--normalize",
    "classes": "--classes",
    "notion": "--notion",
    "loss": "--loss",
    "n_draws": "--draws",
    "pos_label": "--class",
    "reference": "--reference",
    "size": "--window",
    "alpha": "--alpha",
    "tolerance": "--tolerance",
    "label": "--label",
    "probs": "--probs",
    "y_prob": "predictions",
    "y_true": "labels",
    "prob_a": "the first predictions",
    "prob_b": "the second predictions",
}
"""What the command line calls the library's arguments."""


def words_of_options(message: str) -> str:
    """An error of the library in one line, in the words of the command line."""

    def said(match: re.Match[str]) -> str:
        name, value = match.group(1), match.group(2)
        if name not in OPTIONS:
            return match.group(0)
        return OPTIONS[name] + ("" if value in (None, "", "True") else f" {value}")

    return re.sub(r"`(\w+)(?:='?([^'`]*)'?)?`", said, " ".join(message.split()))


def printable(text: str) -> str:
    """Text without what could command a terminal: names come from files."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def print_error(message: str) -> None:
    """One line on the standard error."""
    say(printable(f"riskalign: error: {message}"))


def print_warning(message: Warning | str, *_: object) -> None:
    """A warning as one line on the standard error; takes the place of `warnings.showwarning`."""
    say(printable(f"riskalign: warning: {words_of_options(str(message))}"))


def print_internal_error(error: Exception) -> None:
    """One line on the standard error: what happened, and how to report it."""
    happened = " ".join(f"{type(error).__name__}: {error}".split())
    message = (
        f"riskalign: internal error: {happened}. This is a defect of riskalign "
        f"{riskalign.__version__}, not a result. Please report it with the output of the same "
        "command with --debug."
    )
    say(printable(message))


def print_lines(lines: Iterable[str]) -> None:
    """Lines on the standard output; where its reader has gone, on nothing.

    The command goes on, because its files and its exit code are still wanted. Where the output
    cannot be written for another reason, such as a full disk, that is an error.
    """
    try:
        print("\n".join(printable(line) for line in lines), flush=True)
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise OSError(f"the standard output cannot be written ({error.strerror}).") from None


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Refuse outputs that cannot be written, or that would replace an input or each other.

    Parameters
    ----------
    outputs : paths by the option that names them, None where it was not given
    inputs : files that are read
    """
    named = [(option, path) for option, path in outputs.items() if path is not None]
    for option, path in named:
        if str(path) == "-":
            raise ValueError(
                f"{option} -: outputs are written to files, not to the standard output. Name a "
                "file."
            )
        _check_place(path)
        if any(_same_file(path, other) for other in inputs if other is not None):
            raise ValueError(f"{option} {path} would replace the input. Name another file.")
    for (option, path), (other_option, other) in combinations(named, 2):
        if _same_file(path, other) and not is_stream(path):
            raise ValueError(
                f"{option} and {other_option} name the same file, {path}. Name two files."
            )


def _same_file(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, through links of any kind."""
    if path.exists() and other.exists():
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _check_place(path: Path) -> None:
    """Refuse a path where no file can be written."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory. Name a file in it.")
    if is_stream(path):
        return
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such directory to write {path.name} into.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{path.parent} is not writable. Name a file in another directory.")


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file whole, or say why it cannot be written.

    Names of files may hold bytes that are no text; a question mark takes their place.
    """
    _check_place(path)
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    write_whole(path, data)


def check_picture(path: Path) -> None:
    """Refuse a path whose ending is that of no picture."""
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"pictures end in .png, .svg or .pdf; found {path.name!r}.")


def picture_of(figure: Any, path: Path) -> bytes:
    """A figure of pyplot in the format of a path; the figure is closed."""
    from riskalign.plots.canvas import pyplot

    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lower().removeprefix("."), dpi=DOTS_PER_INCH)
    pyplot().close(figure)
    return picture.getvalue()
