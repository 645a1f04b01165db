"""Bytes: round trips, and errors for all that is not a sketch."""

import hashlib
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from riskalign.data.format import (
    CHECKSUM,
    LONGEST_HEADER,
    PREFIX,
    SIGNATURE,
    VERSION,
    SketchFormatError,
    pack,
    unpack,
)

shapes = arrays_of.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5)
integers = arrays_of.arrays(np.int64, shapes, elements=st.integers(0, 2**63 - 1))
floats = arrays_of.arrays(np.float64, shapes, elements=st.floats(0, 1e308))
named = st.dictionaries(st.text(min_size=1, max_size=8), st.one_of(integers, floats), max_size=4)
EXAMPLE = pack({"notion": "binary", "classes": ["a", "ü"]}, {"x": np.arange(5), "y": np.ones(2)})


def sealed(header, data=b"", version=VERSION, length=None, header_length=None):
    """Bytes with a correct checksum."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    whole = PREFIX.size + len(header) + len(data) + CHECKSUM if length is None else length
    size = len(header) if header_length is None else header_length
    body = PREFIX.pack(SIGNATURE, version, size, whole) + header + data
    return body + hashlib.blake2b(body, digest_size=CHECKSUM).digest()


@given(named, st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.none())))
def test_round_trip(arrays, settings):
    found_settings, found = unpack(pack(settings, arrays))
    assert found_settings == settings
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].astype(array.dtype).tolist() == array.tolist()
        assert not found[name].flags.writeable


def test_equal_content_gives_equal_bytes():
    one = pack({"a": 1, "b": 2}, {"x": np.arange(3), "y": np.array([0.5])})
    other = pack(
        {"b": 2, "a": 1},
        {"y": np.array([0.5], dtype=np.float32), "x": np.arange(3, dtype=np.uint8)},
    )
    assert one == other


@pytest.mark.parametrize(
    ("values", "kind"),
    [([255], "u1"), ([256], "u2"), ([65_536], "u4"), ([2**32], "u8"), ([], "u1")],
)
def test_integers_are_narrow(values, kind):
    _, arrays = unpack(pack({}, {"x": np.array(values, dtype=np.int64)}))
    assert arrays["x"].dtype == np.dtype(f"<{kind}")


@pytest.mark.parametrize(
    ("values", "kind"), [([0.25, 1.0], "f4"), ([0.1], "f8"), ([1e300], "f8"), ([1e-300], "f8")]
)
def test_floats_are_narrow(values, kind):
    _, arrays = unpack(pack({}, {"x": np.array(values)}))
    assert arrays["x"].dtype == np.dtype(f"<{kind}")
    assert arrays["x"].tolist() == values


def test_the_documented_layout():
    signature, version, header_length, length = PREFIX.unpack_from(EXAMPLE)
    assert (signature, version, length) == (b"\x89RISKSK\n", 1, len(EXAMPLE))
    header = json.loads(EXAMPLE[PREFIX.size : PREFIX.size + header_length])
    assert header["arrays"] == [["x", "u1", [5]], ["y", "f4", [2]]]
    data = EXAMPLE[PREFIX.size + header_length : -16]
    assert data == bytes(range(5)) + np.ones(2, dtype="<f4").tobytes()
    assert hashlib.blake2b(EXAMPLE[:-16], digest_size=16).digest() == EXAMPLE[-16:]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes(kind):
    assert unpack(kind(EXAMPLE))[0]["notion"] == "binary"


def test_every_truncation_is_refused():
    for stop in range(len(EXAMPLE)):
        with pytest.raises(SketchFormatError, match="cut short"):
            unpack(EXAMPLE[:stop])


def test_every_changed_byte_is_refused():
    for place in range(len(EXAMPLE)):
        changed = bytearray(EXAMPLE)
        changed[place] ^= 0x40
        with pytest.raises(SketchFormatError):
            unpack(changed)


def test_errors_say_what_is_wrong():
    with pytest.raises(SketchFormatError, match="not a sketch"):
        unpack(b"PK\x03\x04" + bytes(100))
    with pytest.raises(SketchFormatError, match="not a sketch"):
        unpack(b"PK")
    with pytest.raises(SketchFormatError, match="version 2; this riskalign reads versions up to 1"):
        unpack(sealed({"arrays": [], "settings": {}}, version=2))
    with pytest.raises(SketchFormatError, match="3 bytes too many"):
        unpack(EXAMPLE + b"abc")
    changed = bytearray(EXAMPLE)
    changed[-20] ^= 1
    with pytest.raises(SketchFormatError, match="checksum is wrong"):
        unpack(changed)


@pytest.mark.parametrize(
    "blob",
    [
        sealed({"arrays": [], "settings": {}}, version=0),
        sealed(b"{", b""),
        sealed(b"\xff\xfe", b""),
        sealed(b"[" * 100_000),
        sealed(b"1" * 10_000),
        sealed({"settings": {}}),
        sealed({"arrays": [], "settings": 3}),
        sealed({"arrays": [["x", "u1"]], "settings": {}}),
        sealed({"arrays": [["x", "u1", 3]], "settings": {}}),
        sealed({"arrays": [["x", "O", [1]]], "settings": {}}, bytes(8)),
        sealed({"arrays": [["x", "u1", [-1]]], "settings": {}}),
        sealed({"arrays": [["x", "u1", [True]]], "settings": {}}, bytes(1)),
        sealed({"arrays": [["x", "u1", [1.0]]], "settings": {}}, bytes(1)),
        sealed({"arrays": [["x", "u1", [1, 1, 1]]], "settings": {}}, bytes(1)),
        sealed({"arrays": [["x", "u1", [1]], ["x", "u1", [1]]], "settings": {}}, bytes(2)),
        sealed({"arrays": [["x", "u1", [1]]], "settings": {}}, bytes(2)),
        sealed({"arrays": [["x", "f8", [2**62]]], "settings": {}}, bytes(8)),
        sealed({"arrays": [["x", "f8", [2**30, 2**39]]], "settings": {}}, bytes(8)),
        sealed({"arrays": [["x", "f8", [0, 2**62]]], "settings": {}}),
        sealed(b"{}", header_length=2**31),
        sealed(b"{}", header_length=10),
    ],
)
def test_hostile_bytes_with_a_correct_checksum(blob):
    tracemalloc.start()
    try:
        with pytest.raises(SketchFormatError, match="malformed"):
            unpack(blob)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(blob) + 100_000
    finally:
        tracemalloc.stop()


def test_a_header_beyond_all_measure_is_refused():
    with pytest.raises(SketchFormatError, match="malformed"):
        unpack(sealed(b" " * (LONGEST_HEADER + 1)))


def test_nothing_is_allocated_before_the_checksum():
    size = 5_000_000
    body = PREFIX.pack(SIGNATURE, VERSION, size, PREFIX.size + size + CHECKSUM) + b"[" * size
    blob = body + bytes(CHECKSUM)
    tracemalloc.start()
    try:
        with pytest.raises(SketchFormatError, match="checksum"):
            unpack(blob)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
