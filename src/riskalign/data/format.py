r"""Settings and arrays as bytes: a header, arrays one after the other, a checksum.

All numbers are little-endian::

    bytes    content
    8        the signature b"\x89RISKSK\n"
    4        version of the format, unsigned
    4        length of the header, unsigned
    8        length of the whole, unsigned
    ...      the header: JSON in ASCII, {"arrays": [[name, type, shape], ...], "settings": {...}}
    ...      the arrays in that order, row by row, without gaps
    16       BLAKE2b checksum of everything before it

Equal settings and arrays give equal bytes: keys and names are sorted, and an array is stored in
the narrowest type that holds its values exactly. Reading is safe for bytes of any origin: lengths
and checksum are verified first, which allocates nothing; arrays are then views of the bytes, so a
false size cannot ask for more memory than the bytes have; nothing is executed or unpacked.
A correct checksum does not make the content sensible: whoever uses the arrays checks them.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89RISKSK\n"
VERSION = 1
PREFIX = struct.Struct("<8sIIQ")
CHECKSUM = 16
LONGEST_HEADER = 1 << 24
"""16 MB, for the names of a million classes: JSON takes many times its length in memory."""

TYPES = ("u1", "u2", "u4", "u8", "f4", "f8")
"""Types that arrays are stored in, all little-endian."""

Array = npt.NDArray[Any]


class SketchFormatError(ValueError):
    """Bytes that are not a sketch that this version can read."""


def pack(settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Settings and arrays as bytes.

    Parameters
    ----------
    settings : what JSON can hold
    arrays : of integers that are not negative, or of floats

    Examples
    --------
    >>> import numpy as np
    >>> blob = pack({"bits": 8}, {"counts": np.array([3, 500])})
    >>> settings, arrays = unpack(blob)
    >>> settings, arrays["counts"].tolist(), arrays["counts"].dtype.itemsize
    ({'bits': 8}, [3, 500], 2)
    """
    narrow = {name: _narrowest(arrays[name]) for name in sorted(arrays)}
    directory = [[name, array.dtype.str[1:], array.shape] for name, array in narrow.items()]
    content = {"arrays": directory, "settings": dict(settings)}
    header = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    parts = [header, *(array.tobytes() for array in narrow.values())]
    length = PREFIX.size + sum(map(len, parts)) + CHECKSUM
    prefix = PREFIX.pack(SIGNATURE, VERSION, len(header), length)
    body = b"".join([prefix, *parts])
    return body + _checksum(body)


def unpack(blob: bytes | bytearray | memoryview) -> tuple[dict[str, Any], dict[str, Array]]:
    """Settings and arrays from bytes; the arrays are read-only views of them.

    Raises
    ------
    SketchFormatError
        If the bytes are of something else, of a newer version, cut short or changed.
    """
    blob = memoryview(blob).cast("B").toreadonly()
    length = expected_length(bytes(blob[: PREFIX.size]), len(blob))
    _, version, header_length, _ = PREFIX.unpack_from(blob)
    if _checksum(blob[:-CHECKSUM]) != bytes(blob[-CHECKSUM:]):
        raise SketchFormatError("The sketch is corrupted: its checksum is wrong.")
    start = PREFIX.size + header_length
    if header_length > LONGEST_HEADER or start > length - CHECKSUM or version < 1:
        raise SketchFormatError("The sketch is malformed: its prefix is false.")
    try:
        content = json.loads(bytes(blob[PREFIX.size : start]).decode("ascii"))
        directory = [(str(n), str(t), tuple(shape)) for n, t, shape in content["arrays"]]
        settings = dict(content["settings"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SketchFormatError("The sketch is malformed: its header cannot be read.") from error
    return settings, _arrays(blob[start:-CHECKSUM], directory)


def expected_length(prefix: bytes, size: int) -> int:
    """The length of a sketch, from its first 24 bytes, which must be the `size` that it has.

    Raises
    ------
    SketchFormatError
        If the bytes are of something else, of a newer version, cut short, or more than a sketch.
    """
    if size < PREFIX.size + CHECKSUM:
        _reject_other(prefix[: len(SIGNATURE)])
        raise SketchFormatError(f"The sketch is cut short: it has {size} bytes only.")
    signature, version, _, length = PREFIX.unpack(prefix)
    _reject_other(signature)
    if version > VERSION:
        raise SketchFormatError(
            f"The sketch has format version {version}; this riskalign reads versions up to "
            f"{VERSION}. Upgrade riskalign to read it."
        )
    if size < length:
        raise SketchFormatError(
            f"The sketch is cut short: it should have {length} bytes, found {size}."
        )
    if size > length:
        raise SketchFormatError(
            f"The sketch has {size - length} bytes too many after its {length}. Was "
            "something appended?"
        )
    return int(length)


def _arrays(
    data: memoryview, directory: list[tuple[str, str, tuple[object, ...]]]
) -> dict[str, Array]:
    """Views of the data, which the arrays must fill exactly."""
    arrays: dict[str, Array] = {}
    start = 0
    for name, kind, shape in directory:
        sizes = [size for size in shape if type(size) is int and 0 <= size < 1 << 40]
        if kind not in TYPES or len(sizes) != len(shape) or len(shape) > 2 or name in arrays:
            raise SketchFormatError(f"The sketch is malformed: array {name[:40]!r} is unreadable.")
        count = math.prod(sizes)
        stop = start + count * np.dtype(kind).itemsize
        if stop > len(data):
            raise SketchFormatError(
                f"The sketch is malformed: array {name[:40]!r} is larger than the bytes."
            )
        flat = np.frombuffer(data[start:stop], dtype=f"<{kind}")
        arrays[name] = flat.reshape(sizes)
        start = stop
    if start != len(data):
        raise SketchFormatError("The sketch is malformed: bytes are left over after its arrays.")
    return arrays


def _reject_other(signature: bytes) -> None:
    if not SIGNATURE.startswith(signature):
        raise SketchFormatError("These bytes are not a sketch: they begin differently.")


def _checksum(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=CHECKSUM).digest()


def _narrowest(array: Array) -> Array:
    """The array in the narrowest little-endian type that holds its values exactly."""
    if array.dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            single = array.astype("<f4")
        return single if (single == array).all() else array.astype("<f8")
    largest = int(array.max(initial=0))
    kind = next(kind for kind in TYPES if largest < 1 << 8 * np.dtype(kind).itemsize)
    return array.astype(f"<{kind}")
