"""NumPy's files: archives of named arrays, and single arrays. Nothing in them is executed."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

LARGEST = 4_000_000_000
"""Bytes that the arrays of a file may take together when unpacked. A few megabytes of an archive
can promise any number, so that the sum is checked before anything is read."""

UNREADABLE = (
    ValueError,
    TypeError,
    EOFError,
    NotImplementedError,
    RuntimeError,  # an encrypted archive
    SyntaxError,
    MemoryError,
    RecursionError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy and zipfile raise for bytes that are no array."""

HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Readers of headers by version. NumPy writes version 3 for the names of fields alone, which no
array of predictions has."""


def archive_keys(path: Path) -> list[str]:
    """Names of the arrays in an .npz archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except UNREADABLE:
        raise ValueError("this is not an .npz archive. Write it with numpy.savez.") from None
    return [name.removesuffix(".npy") for name in names]


def archive_arrays(path: Path, keys: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    """Some arrays of an .npz archive."""
    with zipfile.ZipFile(path) as archive:
        known = set(archive.namelist())
        names = {key: key if key in known else f"{key}.npy" for key in keys}
        sizes = {name: archive.getinfo(name).file_size for name in names.values()}
        if sum(sizes.values()) > LARGEST:
            listed = ", ".join(repr(key) for key in names)
            raise ValueError(_too_large(f"the arrays {listed} take", sum(sizes.values())))
        return {key: _member(archive, key, name) for key, name in names.items()}


def _member(archive: zipfile.ZipFile, key: str, name: str) -> npt.NDArray[Any]:
    size = archive.getinfo(name).file_size
    try:
        with archive.open(name) as file:
            _check_header(file, size)
        with archive.open(name) as file:
            return _checked(np.lib.format.read_array(file, allow_pickle=False))
    except (*UNREADABLE, OSError) as error:  # a place outside the file
        raise ValueError(f"the array {key!r} cannot be read ({_reason(error)}).") from None


def single_array(path: Path) -> npt.NDArray[Any]:
    """The array of an .npy file."""
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(_too_large("the array takes", size))
    try:
        with path.open("rb") as file:
            _check_header(file, size)
            file.seek(0)
            return _checked(np.lib.format.read_array(file, allow_pickle=False))
    except UNREADABLE as error:
        raise ValueError(f"this is not an .npy array ({_reason(error)}).") from None


def _check_header(file: IO[bytes], size: int) -> None:
    """Refuse a header that promises more than the file holds: memory is reserved by it."""
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"its format {version[0]}.{version[1]} is not known")
    shape, _, dtype = HEADERS[version](file)
    promised = math.prod(shape) * dtype.itemsize
    if promised > size and not dtype.hasobject:
        raise ValueError(f"its header promises {promised:,} bytes, and there are {size:,}")


def _checked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind not in "biufSU":
        raise ValueError(f"it holds {array.dtype}, neither numbers nor text")
    return array


def _reason(error: Exception) -> str:
    text = str(error).strip().rstrip(".") or type(error).__name__
    if "allow_pickle" in text:
        return "it holds Python objects, which are not loaded from files"
    return text.split("\n")[0]


def _too_large(what: str, size: int) -> str:
    return (
        f"{what} {size / 1e9:.1f} GB, more than {LARGEST / 1e9:g} GB. Write the predictions "
        "to Parquet, which is read in batches."
    )


def archive_of(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """An .npz archive; `numpy.savez` takes neither every name nor, before 2.1, `allow_pickle`.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> np.load(io.BytesIO(archive_of({"file": np.arange(3)})))["file"].tolist()
    [0, 1, 2]
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()
