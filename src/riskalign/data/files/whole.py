"""Files written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name, then rename it: no reader sees half of it.

    A device or a pipe, such as /dev/stdout, is written to as it is; a link stays a link.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    if is_stream(path):
        path.write_bytes(data)
        return
    write_together([(path, data)])


def write_together(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write all files under other names, then rename all: if one cannot be written, none is."""
    written: list[tuple[str, Path]] = []
    try:
        for each, data in files:
            path = Path(os.path.realpath(each))
            written.append((_reserved_beside(path), path))
            _fill(written[-1][0], data, path)
        while written:
            os.replace(*written[0])
            del written[0]
    except BaseException:
        for temporary, _ in written:
            os.unlink(temporary)
        raise


def _reserved_beside(path: Path) -> str:
    """The name of a new file in the folder of another one, which is no folder itself."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    return temporary


def _fill(temporary: str, data: bytes, path: Path) -> None:
    """Write the data, with the rights of the file that is replaced, or those of a new one."""
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # a file on a full disk is not renamed
    mask = os.umask(0)  # asking for it changes it for a moment
    os.umask(mask)
    os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)


def is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, which is not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()
