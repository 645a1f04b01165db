"""The default estimate against that of the first version, paired on the same data sets.

Run: python -m experiments.versions [--repetitions 6] [--report]

`experiments.first_version` recorded what the first version answered, on seeds that nothing was
chosen on. Every row of results/versions.csv is one of these data sets with both answers, and
results/versions.md is made from it.

The error of a value is |value - truth| over the width of the first version's interval, so that
data sets of different scale can be averaged. Its difference between the versions is averaged over
data sets (over the losses of a data set first, because they err together), and judged by a
one-sided t test at 5%. Each line is judged on its own: of many equal lines, one in twenty is
called worse by chance, and one in twenty better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.stats import t

from experiments.cells import RESULTS, Row, group, load, markdown, run
from experiments.first_version import FIRST_SEED, KEYS, estimate
from experiments.first_version import PATH as FIRST
from riskalign.equations.arrays import FloatArray

PATH = RESULTS / "versions.csv"
ANSWERS = ("value", "low", "high")
SLICES: tuple[tuple[str, ...], ...] = (
    ("notion",),
    ("notion", "loss"),
    ("notion", "family"),
    ("notion", "samples"),
    ("notion", "classes"),
    ("notion", "family", "loss", "samples", "classes"),
)
"""What the tables are divided by; the last is one line per cell."""


def cells(repetitions: int) -> Iterator[Row]:
    """The data sets of the first version, one repetition after another."""
    for row in load(FIRST):
        if float(row["seed"]) < FIRST_SEED + repetitions:
            first = {f"first {name}": row[name] for name in ANSWERS}
            yield {key: row[key] for key in (*KEYS, "truth")} | first


def compute(cell: Row) -> list[Row]:
    """The answer of this version."""
    return [{f"new {name}": value for name, value in estimate(cell).items()}]


def _column(rows: list[Row], name: str) -> FloatArray:
    return np.array([float(row[name]) for row in rows])


def by_data_set(rows: list[Row], values: FloatArray) -> FloatArray:
    """Means over the losses of each data set."""
    numbers = {id(row): value for row, value in zip(rows, values, strict=True)}
    sets = group(rows, *(key for key in KEYS if key != "loss")).values()
    return np.array([np.mean([numbers[id(row)] for row in own]) for own in sets])


def mean_and_error(rows: list[Row], values: FloatArray) -> tuple[float, float, float]:
    """The mean of some values, its standard error, and the width of its one-sided 95% interval.

    Those of one data set are unknown.
    """
    each = by_data_set(rows, values)
    if len(each) == 1:
        return float(each[0]), np.nan, np.nan
    error = float(each.std(ddof=1)) / len(each) ** 0.5
    return float(each.mean()), error, float(t.ppf(0.95, len(each) - 1)) * error


def verdict(mean: float, width: float) -> str:
    """Which version is better by a one-sided t test at 5%, if that can be said."""
    if mean > width:
        return "new is worse"
    return "new is better" if mean < -width else ""


def line(rows: list[Row]) -> list[str]:
    """Errors, biases, coverages and widths of both versions on some data sets."""
    true, width = _column(rows, "truth"), _column(rows, "first high") - _column(rows, "first low")
    gaps, covered, too_high = {}, {}, {}
    for version in ("first", "new"):
        value, low, high = (_column(rows, f"{version} {name}") for name in ANSWERS)
        gaps[version] = (value - true) / width
        covered[version] = (low <= true) & (true <= high)
        too_high[version] = low > true
    errors = {version: float(np.abs(gap).mean()) for version, gap in gaps.items()}
    mean, error, wide = mean_and_error(rows, np.abs(gaps["new"]) - np.abs(gaps["first"]))
    ratio, most = (1 + part / errors["first"] for part in (mean, mean + wide))
    change, its_error, _ = mean_and_error(rows, 1.0 * covered["new"] - covered["first"])
    new_width = _column(rows, "new high") - _column(rows, "new low")

    def both(values: dict[str, FloatArray], digits: int) -> list[str]:
        return [f"{values[version].mean():.{digits}f}" for version in ("first", "new")]

    return [
        str(len(by_data_set(rows, true))),
        f"{ratio:.3f}",
        f"{most:.3f}",
        f"{mean:+.4f} ± {error:.4f}",
        verdict(mean, wide),
        *both(gaps, 3),
        *both(covered, 3),
        f"{change:+.3f} ± {its_error:.3f}",
        *both(too_high, 3),
        f"{np.mean(new_width / width):.3f}",
    ]


def report(rows: list[Row], *keys: str) -> str:
    """One line per group of data sets."""
    header = [
        *keys,
        "data sets",
        "error, new over first",
        "at most (95%)",
        "difference of errors",
        "one-sided 5%",
        *("bias, first", "bias, new"),
        *("coverage, first", "coverage, new", "its change"),
        *("low end above the truth, first", "the same, new"),
        "width, new over first",
    ]
    lines = []
    for names, own in group(rows, *keys).items():
        shown = [f"{name:,.0f}" if isinstance(name, float) else str(name) for name in names]
        lines.append([*shown, *line(own)])
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=6)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(options.repetitions), compute)
    parts = [
        "# The default estimate against that of the first version",
        "Errors and biases are in widths of the first version's 95% interval. "
        '"At most" is the upper end of a one-sided 95% interval of the ratio of mean absolute '
        "errors. Seeds from 1,000 on: no rule of either version was chosen with them in view.",
    ]
    parts += [report(rows, *keys) for keys in SLICES]
    (RESULTS / "versions.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
