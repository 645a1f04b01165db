"""How often `compare` finds a difference: between models that are equally good, and that are not.

Run: python -m experiments.comparing [--repetitions 200] [--report]

Two models see different parts of the truth. With u0, u1 and u2 drawn from a Dirichlet
distribution, labels follow R = s u0 + (1 - s) (u1 + u2) / 2; the first model knows u0 and u1 and
says E[y | u0, u1], the second knows u0 and u2. Both are calibrated, and by symmetry their errors
are the same after any distortion that both suffer: here f^t, renormalised. Power is measured
where the first model alone suffers it.

Every row of results/comparing.csv is one pair of models on one data set; results/comparing.md is
made from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.simplex import tempered

PATH = RESULTS / "comparing.csv"
KEYS = ("notion", "classes", "samples", "loss", "shared", "first", "second", "seed")
SIZES = (("binary", 2, 400), ("classwise", 4, 400), ("canonical", 4, 400))
PAIRS = ((0.0, 1.0, 1.0), (0.6, 1.0, 1.0), (0.6, 1.3, 1.3), (0.6, 2.0, 2.0), (0.6, 1.6, 1.0))
"""What the models share, and the exponent of each: calibrated twice, wrong alike twice, unequal."""

FIRST_SEED = 400_000
"""The rule of the standard error was chosen on other data."""


def cells(repetitions: int) -> Iterator[Row]:
    """Every pair of models at every size, repetition by repetition."""
    for seed, size, pair, loss in product(range(repetitions), SIZES, PAIRS, ("l2", "kl")):
        notion, classes, samples = size
        values = (notion, float(classes), float(samples), loss, *pair, float(seed))
        yield dict(zip(KEYS, values, strict=True))


def pair_of(
    samples: int, classes: int, shared: float, exponents: tuple[float, float], seed: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Labels, and the predictions of two models that know different parts of the truth."""
    generator = np.random.default_rng(seed)
    common, *own = generator.dirichlet(np.full(classes, 0.7), (3, samples))
    half = (1 - shared) / 2
    truth = shared * common + half * (own[0] + own[1])
    below = np.cumsum(truth, axis=1)[:, :-1] < generator.random((samples, 1))
    first, second = (
        tempered(shared * common + half * part + half / classes, t)
        for part, t in zip(own, exponents, strict=True)
    )
    return below.sum(axis=1).astype(np.intp), first, second


def compute(cell: Row) -> list[Row]:
    """One comparison."""
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    exponents = float(cell["first"]), float(cell["second"])
    y, first, second = pair_of(
        samples, classes, float(cell["shared"]), exponents, FIRST_SEED + seed
    )
    found = ra.compare(
        y, first, second, notion=str(cell["notion"]), loss=str(cell["loss"]), progress=False
    )
    return [
        {
            "difference": found.difference,
            "standard error": found.standard_error,
            "p": found.p_value,
        }
    ]


def report(rows: list[Row], *keys: str) -> str:
    """Rejections at 5% and 20%, and the standard error beside what differences vary by."""
    header = [*keys, "pairs", "below 5%", "below 20%", "standard error over sd"]
    lines = []
    for names, own in group(rows, *keys).items():
        p = np.array([float(row["p"]) for row in own])
        rates = [(p < level).mean() for level in (0.05, 0.2)]
        alone = len({row["seed"] for row in own})  # cells of one seed share their draws
        errors = [np.sqrt(max(rate * (1 - rate), 1 / alone) / alone) for rate in rates]
        ratios = []
        for cell in group(own, *KEYS[:-1]).values():
            d, e = (np.array([float(r[k]) for r in cell]) for k in ("difference", "standard error"))
            ratios.append(np.sqrt(np.mean(e**2)) / np.std(d, ddof=1) if len(cell) > 1 else np.nan)
        shown = [f"{name:g}" if isinstance(name, float) else str(name) for name in names]
        found = [f"{rate:.3f} ± {error:.3f}" for rate, error in zip(rates, errors, strict=True)]
        lines.append([*shown, str(len(own)), *found, f"{np.mean(ratios):.2f}"])
    return markdown(header, lines)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(options.repetitions), compute)
    equal = [row for row in rows if row["first"] == row["second"]]
    unequal = [row for row in rows if row["first"] != row["second"]]
    parts = [
        "# Comparing two models",
        "Models that err alike: rejections should be 5% and 20%. `first` and `second` are the "
        "exponents of the distortions, 1 for a calibrated model.",
        report(equal, "first"),
        report(equal, "notion", "loss", "shared", "first"),
        "Models that do not: the power.",
        report(unequal, "notion", "loss", "shared", "first", "second"),
    ]
    (RESULTS / "comparing.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
