"""Sketches in several processes, merged in one: python examples/processes.py FOLDER."""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import riskalign as ra


def sketch_file(path: Path) -> bytes:
    """One file as a sketch, as bytes."""
    return ra.sketch_batches(path, label="y", probs="p", workers=1).to_bytes()


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        blobs = list(pool.map(sketch_file, sorted(Path(sys.argv[1]).glob("*.parquet"))))
    first, *rest = map(ra.CalibrationSketch.from_bytes, blobs)
    for other in rest:
        first.merge(other)
    print(first.calibration_error(confidence=0.95))
