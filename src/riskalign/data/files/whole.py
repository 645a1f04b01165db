"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name, then rename it: no reader sees half of it.

    A device or a pipe, such as /dev/stdout, is written to as it is; a link stays a link.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    if is_stream(path):
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # a file on a full disk is not renamed
        mask = os.umask(0)  # asking for it changes it for a moment
        os.umask(mask)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, which is not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()
