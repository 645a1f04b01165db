"""Time and peak memory of large inputs, each case in a process of its own.

    python -m benchmarks.scale                    all cases, into benchmarks/SCALE.md
    python -m benchmarks.scale parquet-2e7 ...    some of them; the other rows stay

Files are made in a temporary folder, by chunks, and removed. Seconds are those of the processor,
of all threads together.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

TABLE = Path(__file__).with_name("SCALE.md")
CHUNK = 1_000_000

HEAD = """\
# Time and memory of large inputs

Written by `python -m benchmarks.scale`: `riskalign report` with its default of 199 label sets for
files, `calibration_error(confidence=0.95)` for arrays. Seconds of the processor, peak memory of the
process.

| case | what | outcome | seconds | peak memory |
| --- | --- | --- | --- | --- |
"""


def rows(n: int, n_classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Labels and predictions of an over-confident model, a chunk at a time."""
    rng = np.random.default_rng(0)
    step = max(1, CHUNK // n_classes)
    for start in range(0, n, step):
        size = min(step, n - start)
        logits = 1.5 * rng.normal(size=(size, n_classes)).astype(np.float32)
        if n_classes == 1:
            p = 1 / (1 + np.exp(-logits))
            yield (rng.random((size, 1)) < 1 / (1 + np.exp(-0.7 * logits)))[:, 0].astype("i1"), p
            continue
        noise = rng.gumbel(size=(size, n_classes))
        y = (0.7 * logits + noise).argmax(axis=1)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        yield y, p / p.sum(axis=1, keepdims=True)


def parquet(path: Path, n: int, n_classes: int, *, one_group: bool = False) -> None:
    """A Parquet file of predictions."""
    import pyarrow as pa
    from pyarrow import parquet

    names = ["p"] if n_classes == 1 else [f"p_{k}" for k in range(n_classes)]
    fields = [("y", pa.int16()), *((name, pa.float32()) for name in names)]
    chunks = (
        pa.table([y.astype("i2"), *p.astype("f4").T], schema=pa.schema(fields))
        for y, p in rows(n, n_classes)
    )
    with parquet.ParquetWriter(path, pa.schema(fields)) as writer:
        if one_group:
            writer.write_table(pa.concat_tables(list(chunks)), row_group_size=n)
        else:
            for chunk in chunks:
                writer.write_table(chunk)


def csv(path: Path, n: int) -> None:
    """A CSV file of one probability."""
    with path.open("w") as file:
        file.write("y,p\n")
        for y, p in rows(n, 1):
            file.writelines(f"{a},{b:.6f}\n" for a, b in zip(y, p[:, 0].tolist(), strict=True))


def bomb(path: Path) -> None:
    """An archive of 6 MB whose two arrays are 3.2 GB each."""
    import zipfile

    header = np.lib.format.header_data_from_array_1_0(np.empty(0)) | {"shape": (400_000_000,)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("labels", "probs"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(file, header)
                zeros = bytes(32_000_000)
                for _ in range(100):
                    file.write(zeros)


def wide(path: Path) -> None:
    """Three rows of 100,000 columns."""
    row = ",".join(["0.00001"] * 100_000)
    names = ",".join(f"p_{k}" for k in range(100_000))
    path.write_text(f"y,{names}\n0,{row}\n5,{row}\n7,{row}\n")


REPORT = "import sys; from riskalign.cli import main; sys.exit(main(sys.argv[1:]))"
ARRAYS = """
import sys
import riskalign as ra
from benchmarks.scale import rows
n, n_classes = int(sys.argv[1]), int(sys.argv[2])
import numpy as np
parts = list(rows(n, n_classes))
y, p = (np.concatenate(part) for part in zip(*parts))
ra.calibration_error(y, p, confidence=0.95, progress=False)
"""

Make = Callable[[Path], None]
CASES: dict[str, tuple[str, str, Make | None, list[str]]] = {
    "parquet-2e7": (
        "20,000,000 x 1 in Parquet",
        ".parquet",
        lambda f: parquet(f, 20_000_000, 1),
        [],
    ),
    "parquet-2e7-one-group": (
        "20,000,000 x 1 in Parquet, one row group",
        ".parquet",
        partial(parquet, n=20_000_000, n_classes=1, one_group=True),
        [],
    ),
    "parquet-2e6x10": (
        "2,000,000 x 10 in Parquet",
        ".parquet",
        lambda f: parquet(f, 2_000_000, 10),
        [],
    ),
    "csv-5e6": ("5,000,000 x 1 in CSV", ".csv", partial(csv, n=5_000_000), []),
    "arrays-1000": ("5,000 x 1,000 in memory", "", None, ["5000", "1000"]),
    "arrays-5000": ("2,000 x 5,000 in memory", "", None, ["2000", "5000"]),
    "parquet-1e8": (
        "100,000,000 x 1 in Parquet",
        ".parquet",
        lambda f: parquet(f, 100_000_000, 1),
        [],
    ),
    "few-rows": ("50 x 200 in memory", "", None, ["50", "200"]),
    "bomb": ("an .npz of 6 MB that unpacks to 6.4 GB", ".npz", bomb, []),
    "draws": ("--draws 99999999999999", ".csv", partial(csv, n=1_000), ["--draws", "9" * 14]),
    "wide": ("3 x 100,000 in CSV, without the test", ".csv", wide, ["--draws", "0"]),
}


def measure(name: str, folder: Path) -> str:
    """One row of the table."""
    what, ending, make, arguments = CASES[name]
    if make is None:
        command = [sys.executable, "-c", ARRAYS, *arguments]
    else:
        path = folder / f"{name}{ending}"
        make(path)
        command = [sys.executable, "-c", REPORT, "report", str(path), *arguments]
        if name == "wide":
            command[1:1] = ["-W", "error"]
    outcome, seconds, peak = run(command)
    for path in folder.iterdir():
        path.unlink()
    print(f"{name}: {outcome}, {seconds:.1f} s, {peak:,.0f} MB", flush=True)
    return f"| {name} | {what} | {outcome} | {seconds:.1f} | {peak:,.0f} MB |"


def run(command: list[str]) -> tuple[str, float, float]:
    """Outcome, seconds and megabytes of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    watch = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "sys.exit(done.returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", watch, *command], capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"({time.monotonic() - started:.0f} s on the clock) {done.stderr.strip()[-300:]}")
    outcome = "answered" if done.returncode == 0 else f"refused, exit code {done.returncode}"
    if found := re.search(r"SlowWarning: .* (will take about \d+ \w+)", done.stderr):
        outcome = f"warned before the work: {found[1]}"
    return outcome, seconds, int(done.stdout.split()[-1]) / 1000


def main() -> None:
    asked = sys.argv[1:] or list(CASES)
    kept: dict[str, str] = {}
    if TABLE.exists():
        kept = {
            match[1]: match[0]
            for match in re.finditer(r"^\| ([\w-]+) \|.*$", TABLE.read_text(), re.MULTILINE)
            if match[1] in CASES
        }
    for name in asked:
        with tempfile.TemporaryDirectory() as folder:
            kept[name] = measure(name, Path(folder))
        TABLE.write_text(HEAD + "\n".join(kept[name] for name in CASES if name in kept) + "\n")


if __name__ == "__main__":
    main()
