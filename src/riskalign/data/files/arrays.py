"""NumPy's files: archives of named arrays, and single arrays. Nothing in them is executed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST = 4_000_000_000
"""Bytes that an array may take when unpacked; a small archive can promise any number."""


def archive_keys(path: Path) -> list[str]:
    """Names of the arrays in an .npz archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        raise ValueError("this is not an .npz archive. Write it with numpy.savez.") from None
    return [name.removesuffix(".npy") for name in names]


def archive_array(path: Path, key: str) -> npt.NDArray[Any]:
    """One array of an .npz archive."""
    with zipfile.ZipFile(path) as archive:
        name = key if key in archive.namelist() else f"{key}.npy"
        size = archive.getinfo(name).file_size
        if size > LARGEST:
            raise ValueError(_too_large(f"the array {key!r}", size))
        try:
            with archive.open(name) as file:
                return _checked(np.lib.format.read_array(file, allow_pickle=False))
        except (ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
            raise ValueError(f"the array {key!r} cannot be read ({_reason(error)}).") from None


def single_array(path: Path) -> npt.NDArray[Any]:
    """The array of an .npy file."""
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(_too_large("the array", size))
    try:
        with path.open("rb") as file:
            return _checked(np.lib.format.read_array(file, allow_pickle=False))
    except (ValueError, EOFError) as error:
        raise ValueError(f"this is not an .npy array ({_reason(error)}).") from None


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
        f"{what} takes {size / 1e9:.1f} GB, more than {LARGEST / 1e9:g} GB. Write the predictions "
        "to Parquet, which is read in batches."
    )
