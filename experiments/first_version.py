"""What the first version answers on data sets that nothing was chosen on.

Run, with a checkout of the first version (commit 2ee61d4) in FOLDER:

    PYTHONPATH=FOLDER/src python -m experiments.first_version [--repetitions 4]

It writes results/first_version_fresh.csv: truths, values and 95% intervals for
`experiments.versions`, which compares them with those of this version.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from itertools import product

import riskalign as ra
from experiments.cells import RESULTS, Row, run
from riskalign.datasets import FAMILIES, SyntheticData

PATH = RESULTS / "first_version_fresh.csv"
KEYS = ("family", "classes", "samples", "notion", "loss", "seed")
POPULATION = 200_000
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


def main() -> None:
    """Compute what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=4)
    run(PATH, KEYS, cells(parser.parse_args().repetitions), compute)


if __name__ == "__main__":
    main()
