"""Sketch files from strangers: half of one, something else, and bytes made to harm."""

import json
import os
import re
import struct
import tracemalloc

import numpy as np
import pytest

import riskalign as ra
from riskalign.data.files.sketches import read_sketch_file
from riskalign.data.format import CHECKSUM, PREFIX, SIGNATURE, SketchFormatError, _checksum

BOUND = 3_000_000
"""Bytes that refusing may allocate, whatever a file claims."""


@pytest.fixture(scope="module")
def blobs():
    data = ra.datasets.temperature(300, 3, seed=0)
    whole = ra.CalibrationSketch(notion="classwise", classes=3).update(data.y_true, data.y_prob)
    g = np.random.default_rng(0)
    p = g.random(3_000)
    rounded = ra.CalibrationSketch(exact_limit=100).update(g.random(3_000) < p, p)
    weighted = ra.CalibrationSketch().update([0, 1, 1], [0.2, 0.5, 0.7], sample_weight=[1, 2, 3])
    return [whole.to_bytes(), rounded.to_bytes(), weighted.to_bytes()]


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def signed(body):
    """Bytes with a correct checksum, as a stranger can make them."""
    return bytes(body) + _checksum(bytes(body))


class TestFiles:
    def test_a_whole_file(self, blobs, tmp_path):
        path = tmp_path / "a.sketch"
        path.write_bytes(blobs[0])
        assert read_sketch_file(path) == blobs[0]

    def test_every_cut_is_refused(self, blobs, tmp_path):
        path = tmp_path / "a.sketch"
        for cut in range(0, len(blobs[2])):
            path.write_bytes(blobs[2][:cut])
            with pytest.raises(SketchFormatError, match="cut short"):
                read_sketch_file(path)

    def test_a_huge_file_is_not_read(self, blobs, tmp_path):
        """A hole of 20 GB on the disk, once with a true and once with a false length."""
        path = tmp_path / "huge.sketch"
        size = 20_000_000_000
        for length, reason in ((size, "takes 20.0 GB"), (123, "bytes too many")):
            with path.open("wb") as file:
                file.write(PREFIX.pack(SIGNATURE, 1, 10, length))
                file.truncate(size)

            def refused(reason=reason):
                with pytest.raises(SketchFormatError, match=re.escape(reason)):
                    read_sketch_file(path)

            assert peak_of(refused) < BOUND

    def test_other_things(self, tmp_path):
        (tmp_path / "text.sketch").write_text("period,value\n" * 100)
        with pytest.raises(SketchFormatError, match="not a sketch"):
            read_sketch_file(tmp_path / "text.sketch")
        with pytest.raises(ValueError, match="this is no file"):
            read_sketch_file(tmp_path)
        with pytest.raises(FileNotFoundError, match="no such file"):
            read_sketch_file(tmp_path / "none.sketch")
        if hasattr(os, "mkfifo"):  # reading it would wait for ever
            os.mkfifo(tmp_path / "pipe.sketch")
            with pytest.raises(ValueError, match="this is no file"):
                read_sketch_file(tmp_path / "pipe.sketch")


class TestBytes:
    def test_any_changed_byte_is_noticed(self, blobs):
        g = np.random.default_rng(1)
        for blob in blobs:
            for place in g.integers(0, len(blob), 150):
                changed = bytearray(blob)
                changed[place] ^= int(g.integers(1, 256))
                with pytest.raises(SketchFormatError):
                    ra.CalibrationSketch.from_bytes(bytes(changed))

    def test_nothing_is_allocated_before_the_checksum_is_known(self, blobs):
        """A header of 4 GB, arrays of terabytes: refused within the bound."""
        for name, place, form in (("header", 12, "<I"), ("whole", 16, "<Q")):
            changed = bytearray(blobs[0])
            struct.pack_into(form, changed, place, 2**32 - 1)

            def refused(changed=changed):
                with pytest.raises(SketchFormatError):
                    ra.CalibrationSketch.from_bytes(bytes(changed))

            assert peak_of(refused) < BOUND, name

    def test_false_bytes_with_a_true_checksum(self, blobs):
        """Whatever is changed, the answer is an error of the format or a sketch; no more memory."""
        g = np.random.default_rng(2)
        for blob in blobs:
            for _ in range(100):
                body = bytearray(blob[:-CHECKSUM])
                for place in g.integers(PREFIX.size, len(body), g.integers(1, 4)):
                    body[place] = int(g.choice([0, 1, 48, 57, 91, 127, 255, g.integers(256)]))
                forged = signed(body)

                def read(forged=forged):
                    try:
                        ra.CalibrationSketch.from_bytes(forged).scores
                    except SketchFormatError:
                        return
                    except ValueError as error:
                        raise AssertionError(str(error)) from error

                assert peak_of(read) < 40 * len(blob) + BOUND

    @pytest.mark.parametrize(
        ("name", "value"),
        [("limit", 2**62), ("bits", 16), ("n_rows", 2**43), ("classes", ["a"] * 2), ("bits", 99)],
    )
    def test_large_settings_with_a_true_checksum(self, blobs, name, value):
        blob = blobs[1]
        _, version, header, _ = PREFIX.unpack_from(blob)
        content = json.loads(blob[PREFIX.size : PREFIX.size + header])
        content["settings"][name] = value
        text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        rest = blob[PREFIX.size + header : -CHECKSUM]
        length = PREFIX.size + len(text) + len(rest) + CHECKSUM
        forged = signed(PREFIX.pack(SIGNATURE, version, len(text), length) + text + rest)

        def read():
            try:
                ra.CalibrationSketch.from_bytes(forged)
            except SketchFormatError:
                return

        assert peak_of(read) < 40_000_000
