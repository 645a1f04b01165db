"""How far rounding moves the default value: a sketch of counts beside one that holds all rows.

Run: python -m experiments.rounding [DIRECTORY] [--classes 2 4] [--most-classes 10] [--large]
     [--report]

Each data set fills two sketches, one with `exact_limit=0`, which keeps counts of rounded
probabilities alone, and one whose limit is the number of rows, which keeps them all. The data are
the seven families and those held out at n = 100,000 (with --large at n = 1,000,000 too), a
calibrated model whose probabilities are all near 1/K, the first family rounded to tenths and
hundredths, and the prediction files in DIRECTORY, by default $RISKALIGN_DATA, of at
most --most-classes classes. Every row of results/rounding.csv is one data set, notion and loss;
results/rounding_bytes.csv has sizes of sketches, and results/rounding.md is made from both.
To reach: a difference of at most 0.02 standard errors.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import riskalign as ra
from experiments import real
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.data.files import open_predictions
from riskalign.datasets import FAMILIES, HELD_OUT
from riskalign.equations.arrays import FloatArray, IntArray

PATH = RESULTS / "rounding.csv"
BYTES = RESULTS / "rounding_bytes.csv"
KEYS = ("data", "classes", "samples", "notion")
BYTES_KEYS = ("classes", "samples", "notion")
LOSSES = ("l2", "kl")
SAMPLES, LARGE = 100_000, 1_000_000
SEED = 70_000
STEPS = {"tenths": 10, "hundredths": 100}
"""Families of discrete scores: multiples of one over this number."""

NARROW = "narrow"
CONCENTRATION = 100.0
"""Predictions of the narrow family are drawn from the Dirichlet distribution with this parameter
for each class: few cells, with many rows each."""

TO_REACH = 0.02

SIZES: tuple[tuple[int, int, str], ...] = (
    (2, 100_000, "binary"),
    (10, 100_000, "top-label"),
    (10, 100_000, "classwise"),
    (1_000, 20_000, "classwise"),
)
"""Classes, samples and notions of the sketches whose bytes are counted."""

Data = tuple[IntArray, FloatArray]


def in_steps(f: FloatArray, steps: int) -> FloatArray:
    """Rows of probabilities rounded to multiples of 1/steps that sum to one.

    The units that are left after rounding down go to the largest remainders.
    """
    scaled = f * steps
    units = np.floor(scaled)
    left = steps - units.sum(axis=1)
    rank = np.argsort(np.argsort(units - scaled, axis=1), axis=1)
    return (units + (rank < left[:, None])) / steps


def family_data(name: str, classes: int, samples: int) -> Data:
    """A family by name, or discrete scores."""
    if name == NARROW:
        generator = np.random.default_rng(SEED)
        f = generator.dirichlet(np.full(classes, CONCENTRATION), samples)
        return (np.cumsum(f, axis=1)[:, :-1] < generator.random((samples, 1))).sum(axis=1), f
    known = FAMILIES | HELD_OUT
    data = known[next(iter(FAMILIES)) if name in STEPS else name](samples, classes, SEED)
    return data.y_true, in_steps(data.y_prob, STEPS[name]) if name in STEPS else data.y_prob


def notions_of(classes: int) -> tuple[str, ...]:
    """The notions that sketches answer from counts."""
    return ("binary", "top-label", "classwise") if classes == 2 else ("top-label", "classwise")


def family_cells(classes: Sequence[int], sizes: Sequence[int]) -> Iterator[Row]:
    """Families and discrete scores."""
    for samples in sizes:
        for k in classes:
            for name in (*STEPS, *FAMILIES, *HELD_OUT, NARROW):
                for notion in notions_of(k):
                    yield dict(zip(KEYS, (name, float(k), float(samples), notion), strict=True))


def file_cells(directory: Path, most_classes: int) -> Iterator[Row]:
    """Prediction files; of a top label alone, whether it is right is a binary problem."""
    for path in real.files(directory):
        whole = real.read(path)
        if whole.classes > most_classes:
            continue
        top_label = open_predictions(path).top_label
        for notion in ("binary",) if top_label else notions_of(whole.classes):
            values = (path.name, float(whole.classes), float(len(whole.y)), notion)
            yield dict(zip(KEYS, values, strict=True))


def compute(cell: Row, read: Callable[[Row], Data]) -> list[Row]:
    """Values with and without rounding, by each loss."""
    y, f = read(cell)
    sketches = [
        ra.CalibrationSketch(str(cell["notion"]), int(cell["classes"]), exact_limit=limit)
        for limit in (0, len(y))
    ]
    rounded, exact = (sketch.update(y, f) for sketch in sketches)
    assert exact.is_exact
    rows: list[Row] = []
    for loss in LOSSES:
        whole = exact.calibration_error(loss=loss, confidence=0.95, progress=False)
        value = rounded.calibration_error(loss=loss, progress=False).value
        assert whole.standard_error is not None
        rows.append(
            {
                "loss": loss,
                "exact": whole.value,
                "standard_error": whole.standard_error,
                "rounded": value,
                "difference": (value - whole.value) / whole.standard_error,
                "nbytes": float(rounded.nbytes),
                "stored": float(len(rounded.to_bytes())),
            }
        )
    return rows


def read_family(cell: Row) -> Data:
    """The data of a cell of `family_cells`."""
    return family_data(str(cell["data"]), int(cell["classes"]), int(cell["samples"]))


def count_bytes(cell: Row) -> list[Row]:
    """Bytes of sketches of one family: of counts alone, and with the default limit."""
    classes, samples = int(cell["classes"]), int(cell["samples"])
    y, f = family_data("temperature", classes, samples)
    row: Row = {}
    for name, limit in (("counts", 0), ("default", None)):
        sketch = ra.CalibrationSketch(str(cell["notion"]), classes, exact_limit=limit)
        sketch.update(y, f)
        row[f"{name} nbytes"] = float(sketch.nbytes)
        row[f"{name} stored"] = float(len(sketch.to_bytes()))
    return [row]


def report(rows: list[Row]) -> str:
    """One line per data set; differences in percent of a standard error."""
    notions = ("binary", "top-label", "classwise")
    lines = []
    for (data, classes, samples), own in group(rows, "data", "classes", "samples").items():
        found = {(row["notion"], row["loss"]): 100 * float(row["difference"]) for row in own}
        shown = [
            f"{found[key]:+.2g}" if (key := (notion, loss)) in found else ""
            for notion in notions
            for loss in LOSSES
        ]
        most = max(float(row["nbytes"]) for row in own)
        lines.append([str(data), f"{classes:.0f}", f"{samples:,.0f}", *shown, f"{most:,.0f}"])
    header = ["data", "K", "n", *(f"{notion}, {loss}" for notion in notions for loss in LOSSES)]
    beyond = [row for row in rows if abs(float(row["difference"])) > TO_REACH]
    largest = max(rows, key=lambda row: abs(float(row["difference"])))
    text = (
        "The default value of a sketch of counts less that of all rows, in percent of a standard "
        f"error. To reach: at most {100 * TO_REACH:.0f}. {len(rows)} comparisons, {len(beyond)} "
        f"beyond; the largest is {100 * float(largest['difference']):+.2f} ({largest['data']}, "
        f"K = {largest['classes']:.0f}, {largest['notion']}, {largest['loss']})."
    )
    return text + "\n\n" + markdown([*header, "most bytes"], lines)


def bytes_report(rows: list[Row]) -> str:
    """Sizes of sketches of the first family."""
    names = ("counts nbytes", "counts stored", "default nbytes", "default stored")
    lines = []
    for row in rows:
        place = [f"{row['classes']:,.0f}", str(row["notion"]), f"{row['samples']:,.0f}"]
        lines.append([*place, *(f"{float(row[name]):,.0f}" for name in names)])
    header = ["K", "notion", "n"]
    header += ["counts alone, in memory", "stored", "default limit, in memory", "stored"]
    return "Bytes of a sketch of the family `temperature`.\n\n" + markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=os.environ.get("RISKALIGN_DATA"))
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--most-classes", type=int, default=1_000)
    parser.add_argument("--large", action="store_true", help="families at n = 1,000,000 too")
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    if not options.report:
        sizes = (
            dict(zip(BYTES_KEYS, (float(k), float(n), notion), strict=True))
            for k, n, notion in SIZES
        )
        run(BYTES, BYTES_KEYS, sizes, count_bytes)
        of_families = family_cells(options.classes, [SAMPLES])
        run(PATH, KEYS, of_families, lambda cell: compute(cell, read_family))
        if options.directory is None:
            print("No folder of prediction files; name one, or set RISKALIGN_DATA.")
        else:
            directory = Path(options.directory)

            def read_file(cell: Row) -> Data:
                whole = real.read(directory / str(cell["data"]))
                return whole.y, whole.f

            of_files = file_cells(directory, options.most_classes)
            run(PATH, KEYS, of_files, lambda cell: compute(cell, read_file))
        if options.large:
            of_families = family_cells(options.classes, [LARGE])
            run(PATH, KEYS, of_families, lambda cell: compute(cell, read_family))
    parts = ["# Rounding of a sketch", report(load(PATH)), bytes_report(load(BYTES))]
    (RESULTS / "rounding.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
