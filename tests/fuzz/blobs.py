"""Random bytes for the readers of files and sketches: valid ones, mutated.

``check(kind, number)`` repeats a case. Bytes are read, or refused by an error of our own of one
line; nothing else, and never with more memory than the process is given.
"""

import hashlib
import io
import json
import warnings
import zipfile
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from calls import is_ours

import riskalign as ra
from riskalign.data.files import open_predictions
from riskalign.data.validation import as_sample
from riskalign.recalibration.fitted import FittedCalibrator
from riskalign.recalibration.kernel import Recalibration
from riskalign.recalibration.smoothed import Joint
from riskalign.smoothing import Tuning

ODD = (b"\x00", b"\xff", b"-1", b"1e999", b"nan", b'"', b"\n", b"[", b"{", b"\xed\xa0\x80", b",")
FILES = ("csv", "jsonl", "npy", "npz", "parquet")
KINDS = ("sketch", "sealed", *FILES, "calibrator", "archive", "history")


def check(kind, number, folder):
    """Read a mutated file or sketch; return "answered" or "refused"."""
    rng = np.random.default_rng([21, KINDS.index(kind), number])
    seeds = valid(kind)
    content = mutated(rng, seeds[rng.integers(len(seeds))], seeds)
    # NumPy warns of long integers and old names of types in headers, which it reads all the same.
    warnings.filterwarnings("ignore", "Reading `.npy`")
    warnings.filterwarnings("ignore", "Data type alias 'a'")
    try:
        if kind in ("sketch", "sealed"):
            read_sketch(content if kind == "sketch" else sealed(content))
        elif kind == "history":
            read_history(content, folder / "some.parquet")
        elif kind in ("calibrator", "archive"):
            read_calibrator(content, folder / f"some.{'npz' if kind == 'archive' else 'json'}")
        else:
            read_file(kind, content, folder)
    except (ValueError, OSError) as error:
        if not is_ours(error) or "\n" in str(error):
            raise
        return "refused"
    return "answered"


def read_sketch(content):
    found = ra.CalibrationSketch.from_bytes(content)
    assert ra.CalibrationSketch.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    result = found.calibration_error(estimator="plugin", bandwidth=0.1)
    assert np.isfinite(result.value)


def read_history(content, path):
    path.write_bytes(content)
    found = ra.CalibrationHistory.load(path)
    assert all(found[period].n_samples == 12 for period in found)


def read_calibrator(content, path):
    path.write_bytes(content)
    found = ra.load_calibrator(path)
    uniform = np.full((1, len(found.classes)), 1 / len(found.classes))
    np.testing.assert_allclose(found(uniform).sum(), 1)


def read_file(kind, content, folder):
    ending = "npz" if kind == "npz" else kind
    path = folder / f"some.{ending}"
    labels = None
    if kind == "npz":  # the archive's own checksums would refuse what is inside
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("labels.npy", valid("npy")[0])
            archive.writestr("probs.npy", content)
    else:
        path.write_bytes(content)
    if kind == "npy":
        labels = folder / "labels.npy"
        np.save(labels, np.arange(12) % 3)
    found = open_predictions(path, labels=labels).read()
    assert len(found.labels) == len(found.scores)


def sealed(content):
    """A sketch with the checksum that its bytes ask for."""
    return content[:-16] + hashlib.blake2b(content[:-16], digest_size=16).digest()


def mutated(rng, content, others):
    """A few random changes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(0, len(data) + 1))
        kind = rng.integers(7)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1 and data:
            data[place % len(data)] = int(rng.integers(256))
        elif kind == 2:
            del data[place : place + int(rng.integers(1, 20))]
        elif kind == 3:
            data[place:place] = ODD[rng.integers(len(ODD))]
        elif kind == 4:
            data = data[:place]
        elif kind == 5:
            other = others[rng.integers(len(others))]
            data[place:] = other[int(rng.integers(0, len(other) + 1)) :]
        else:
            data[place : place + 8] = int(rng.integers(0, 2**63)).to_bytes(8, "little")
    return bytes(data)


@cache
def valid(kind):
    """Small valid files of a kind."""
    rng = np.random.default_rng(0)
    f, y = rng.dirichlet(np.ones(3), 12).round(3), np.arange(12) % 3
    f[:, 2] = 1 - f[:, 0] - f[:, 1]
    if kind in ("sketch", "sealed"):
        weights = rng.uniform(0.5, 2, 12)
        return [
            ra.CalibrationSketch(notion, 3, exact_limit=limit)
            .update(y, f, sample_weight=own)
            .to_bytes()
            for notion in ("classwise", "canonical", "top-label")
            for limit in (None, 5)
            for own in (None, weights)
        ]
    if kind == "history":
        blobs = [ra.CalibrationSketch("top-label", 3).update(y, f).to_bytes()] * 3
        periods = pa.table({"period": ["2026-01-01", "b", "c"], "sketch": blobs})
        return [_parquet(periods, kind) for kind in ("NONE", "ZSTD")]
    if kind in ("calibrator", "archive"):
        ending = ".json" if kind == "calibrator" else ".npz"
        again, labels = np.tile(f, (20, 1)), np.tile(y, 20)
        maps = [ra.fit_calibrator(labels, again, method=name) for name in ("platt", "matrix")]
        sample = as_sample(labels, again)
        residuals = np.eye(3)[sample.labels] - sample.probabilities
        joint = Joint(sample.probabilities, residuals, sample.weights, Tuning(0.1))
        scaling = maps[0].map
        maps.append(
            FittedCalibrator("kernel", (0, 1, 2), Recalibration(scaling, 1.0, joint, Tuning(0.1)))
        )
        return [each.to_bytes(ending) for each in maps]
    if kind == "csv":
        lines = [f"{k},{','.join(map(str, row))}" for k, row in zip(y, f.tolist(), strict=True)]
        text = "\n".join(["y,p_0,p_1,p_2", *lines])
        quoted = text.replace("y,", '"y",').replace("\n", "\r\n")
        return [text.encode(), quoted.encode(), text.replace(",", ";").encode()]
    if kind == "jsonl":
        rows = list(zip(y.tolist(), f.tolist(), strict=True))
        lists = [json.dumps({"label": k, "probs": row}) for k, row in rows]
        keys = [json.dumps({"y": k, "p_0": a, "p_1": b, "p_2": c}) for k, (a, b, c) in rows]
        return ["\n".join(lists).encode(), "\n".join(keys).encode()]
    if kind in ("npy", "npz"):
        return [_npy(array) for array in (y, f, f.astype("f4"), y.astype("U3"), f[:, 0])]
    tables = (
        pa.table({"y": y, **{f"p_{k}": f[:, k] for k in range(3)}}),
        pa.table({"label": [f"{k}" for k in y], "probs": f.tolist()}),
    )
    return [_parquet(table, kind) for table in tables for kind in ("NONE", "SNAPPY")]


def _npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _parquet(table, compression):
    file = io.BytesIO()
    pq.write_table(table, file, compression=compression)
    return file.getvalue()
