"""How often the 95% interval of a debiased error covers the truth, and how wide it is.

Run: python -m experiments.coverage [--repetitions 100] [--report]

The truth is the population's: the mean over 200,000 draws. Bandwidths are chosen on the
data that the interval is for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.datasets import FAMILIES, SyntheticData

PATH = RESULTS / "coverage.csv"
KEYS = ("family", "classes", "samples", "notion", "loss", "seed")
CLASSES = (2, 4, 10)
SAMPLES = (500, 2_000, 5_000)
POPULATION = 200_000


def cells(repetitions: int, max_samples: int) -> Iterator[Row]:
    """Every family, notion, size and loss."""
    sizes = [n for n in SAMPLES if n <= max_samples]
    for seed, notion, samples, classes, family, loss in product(
        range(repetitions), ("classwise", "canonical"), sizes, CLASSES, FAMILIES, ("l2", "kl")
    ):
        values = (family, float(classes), float(samples), notion, loss, float(seed))
        yield dict(zip(KEYS, values, strict=True))


@cache
def truth(family: str, classes: int, notion: str, loss: str) -> float:
    """The population's error."""
    return FAMILIES[family](POPULATION, classes, 5).truth(notion, loss, given="marginal")


def data_of(cell: Row) -> SyntheticData:
    """The data set of a cell."""
    family = str(cell["family"])
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    # seeds that no other family, size or number of classes shares: their uniform draws would
    # coincide; the rules of the interval were chosen on others
    number = 10**6 * (3 + list(FAMILIES).index(family)) + 10_000 * classes + samples + 7 * seed
    return FAMILIES[family](samples, classes, number)


def estimate(cell: Row) -> Row:
    """The value of one cell and its interval."""
    data, notion = data_of(cell), str(cell["notion"])
    result = ra.calibration_error(
        data.y_true,
        data.y_prob,
        notion=notion,
        loss=str(cell["loss"]),
        estimator="debiased",
        confidence=0.95,
        engine="auto" if notion == "canonical" else "grid",
        progress=False,
    )
    assert result.interval is not None
    low, high = result.interval
    return {"value": result.value, "low": low, "high": high}


def compute(cell: Row) -> list[Row]:
    """One interval, beside the truth."""
    family, notion, loss = str(cell["family"]), str(cell["notion"]), str(cell["loss"])
    return [{"truth": truth(family, int(cell["classes"]), notion, loss), **estimate(cell)}]


def report(rows: list[Row], *keys: str) -> str:
    """Coverage with its standard error, width, and the width that an honest normal would have."""
    header = [*keys, "intervals", "coverage", "width x 100", "3.92 sd of value x 100"]
    lines = []
    for names, own in group(rows, *keys).items():
        low, high, true = (np.array([float(r[k]) for r in own]) for k in ("low", "high", "truth"))
        covered = (low <= true) & (true <= high)
        rate, count = covered.mean(), len(own)
        # both losses of a data set miss together
        alone = len({tuple(row[key] for key in KEYS if key != "loss") for row in own})
        error = np.sqrt(max(rate * (1 - rate), 0.25 / alone) / alone)
        sds = [
            3.92 * np.std([float(r["value"]) for r in cell], ddof=1)
            for cell in group(own, *KEYS[:-1]).values()
            if len(cell) > 1
        ]
        shown = [f"{n:,.0f}" if isinstance(n, float) else str(n) for n in names]
        width = f"{100 * np.mean(high - low):.3f}"
        spread = f"{100 * np.mean(sds):.3f}" if sds else ""
        lines.append([*shown, str(count), f"{rate:.3f} ± {error:.3f}", width, spread])
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--max-samples", type=int, default=5_000)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    if options.report:
        rows = load(PATH)
    else:
        rows = run(PATH, KEYS, cells(options.repetitions, options.max_samples), compute)
    parts = ["# Coverage of the 95% interval", report(rows, "family", "notion")]
    parts += [report(rows, "family", "samples"), report(rows, "family", "classes")]
    parts += [report(rows, "family", "loss")]
    (RESULTS / "coverage.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
