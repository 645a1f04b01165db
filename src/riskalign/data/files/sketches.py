"""Sketch files: read with bounded memory, whatever they hold."""

from __future__ import annotations

import os
from pathlib import Path

from riskalign.data.format import PREFIX, SketchFormatError, expected_length

SUFFIX = ".sketch"

LARGEST = 8_000_000_000
"""Bytes of a sketch file. A class-wise state takes at most 0.36 MB per class (benchmarks/PAPER.md):
this is enough for 20,000 classes with every cell filled."""


def read_sketch_file(path: str | Path) -> bytes:
    """The bytes of a sketch file, whose size agrees with what its first bytes say.

    The content is read only after that, so that neither a file that was half written nor one
    that is no sketch takes any memory.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    if not path.is_file():
        raise ValueError(f"{path}: this is no file.")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            length = expected_length(file.read(PREFIX.size), size)
        except SketchFormatError as error:
            raise SketchFormatError(f"{path}: {error}") from None
        if length > LARGEST:
            raise SketchFormatError(
                f"{path}: the sketch takes {length / 1e9:.1f} GB, more than {LARGEST / 1e9:g} GB."
            )
        file.seek(0)
        return file.read(length)
