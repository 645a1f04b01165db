"""What the first version answers on data sets that nothing was chosen on.

Run, with a checkout of the first version (commit 2ee61d4) in FOLDER:

    PYTHONPATH=FOLDER/src python -m experiments.first_version [--repetitions 4]

It writes results/first_version_fresh.csv: truths, values and 95% intervals for
`experiments.versions`, which compares them with those of this version.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

from experiments.cells import RESULTS, Row, run
from experiments.coverage import KEYS, compute
from riskalign.datasets import FAMILIES

PATH = RESULTS / "first_version_fresh.csv"
FIRST_SEED = 1_000
PROBLEMS = (
    ("binary", 2),
    ("top-label", 4),
    ("top-label", 10),
    ("classwise", 4),
    ("classwise", 10),
)
SAMPLES = (500, 2_000)


def cells(repetitions: int) -> Iterator[Row]:
    """Every family, problem, size and loss, one repetition after another."""
    for number, samples, problem, family, loss in product(
        range(repetitions), SAMPLES, PROBLEMS, FAMILIES, ("l2", "kl")
    ):
        notion, classes = problem
        seed = float(FIRST_SEED + number)
        values = (family, float(classes), float(samples), notion, loss, seed)
        yield dict(zip(KEYS, values, strict=True))


def main() -> None:
    """Compute what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4)
    run(PATH, KEYS, cells(parser.parse_args().repetitions), compute)


if __name__ == "__main__":
    main()
