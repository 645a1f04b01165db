"""Weights over candidate kernels beside the choice of the best one: errors and stability.

Run: python -m experiments.averaging [--repetitions 6] [--report]

Both see the same leave-one-out losses. "Chosen" smooths all rows by the candidate of the largest
weight. The last columns show what happens if a hundredth of the labels is drawn again: how far the
value moves. Every row of results/averaging.csv is one data set by one loss; results/averaging.md
is made from it. Finer curves are left out: they follow both in the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np

from experiments.cells import RESULTS, Row, geometric_mean, group, load, markdown, run
from riskalign.data.notions import NOTIONS
from riskalign.data.sample import Sample
from riskalign.datasets import FAMILIES
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import LOSSES
from riskalign.equations.starts import STARTS
from riskalign.methods.residuals import debiased

PATH = RESULTS / "averaging.csv"
KEYS = ("notion", "classes", "family", "loss", "seed")
SAMPLES = 500
REDRAWN = 0.01
FIRST_SEED = 730_000


def cells(repetitions: int) -> Iterator[Row]:
    """Every notion, number of classes, family and loss, repetition by repetition."""
    for seed, notion, classes, family, loss in product(
        range(repetitions), ("classwise", "canonical"), (4, 10), FAMILIES, ("l2", "kl")
    ):
        values = (notion, float(classes), family, loss, float(seed))
        yield dict(zip(KEYS, values, strict=True))


def values(f: FloatArray, labels: IntArray, notion: str, loss: str) -> tuple[float, float]:
    """The debiased value by weighted candidates, and by the best of them."""
    sample = Sample(f, labels, np.ones(len(f)), tuple(map(str, range(f.shape[1]))))
    problems = NOTIONS[notion].problems(sample, LOSSES[loss])
    weighted = debiased(problems, DIRICHLET, "auto", STARTS["logistic"])
    best = [each.tunings.best for each in weighted]
    chosen = debiased(problems, DIRICHLET, "auto", STARTS["logistic"], best)
    first, second = (sum(each.mean(each.terms) for each in some) for some in (weighted, chosen))
    return float(first), float(second)


def compute(cell: Row) -> list[Row]:
    """Both values of one data set, and of the same with some labels drawn again."""
    notion, loss, classes = str(cell["notion"]), str(cell["loss"]), int(cell["classes"])
    seed = FIRST_SEED + int(cell["seed"])
    data = FAMILIES[str(cell["family"])](SAMPLES, classes, seed)
    generator = np.random.default_rng(seed)
    again = data.y_true.copy()
    rows = generator.choice(SAMPLES, round(REDRAWN * SAMPLES), replace=False)
    for row in rows:
        again[row] = generator.choice(classes, p=data.conditional[row])
    weighted, chosen = values(data.y_prob, data.y_true, notion, loss)
    moved = values(data.y_prob, again, notion, loss)
    truth = data.truth(notion, loss, given="marginal")
    found: Row = {"truth": truth, "weighted": weighted, "chosen": chosen}
    return [found | {"weighted again": moved[0], "chosen again": moved[1]}]


def report(rows: list[Row], *keys: str) -> str:
    """Errors and movements, geometric means of ratios over cells."""
    header = [*keys, "data sets", "error of weights over that of the choice"]
    header += ["movement of weights over that of the choice"]
    lines = []
    for names, own in group(rows, *keys).items():
        ratios: tuple[list[float], list[float]] = ([], [])
        for cell in group(own, *KEYS[:-1]).values():
            table = {name: np.array([float(r[name]) for r in cell]) for name in list(cell[0])[5:]}
            ratios[0].append(_ratio(table, table["truth"], table["truth"], ""))
            ratios[1].append(_ratio(table, table["weighted"], table["chosen"], " again"))
        shown = [
            f"{geometric_mean(each):.2f} ± {np.std(np.log(each)) / len(each) ** 0.5:.2f}"
            for each in ratios
        ]
        lines.append([*map(str, names), str(len(own)), *shown])
    return markdown(header, lines)


def _ratio(
    table: dict[str, FloatArray], first: FloatArray, second: FloatArray, suffix: str
) -> float:
    one = np.abs(table["weighted" + suffix] - first).mean()
    other = np.abs(table["chosen" + suffix] - second).mean()
    return float(one / other)


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=6)
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    rows = load(PATH) if options.report else run(PATH, KEYS, cells(options.repetitions), compute)
    parts = ["# Weights over candidate kernels, and the best of them"]
    parts += [f"n = {SAMPLES}, K = 4 and 10. Below 1, weights are better.", report(rows, "notion")]
    parts += [report(rows, "notion", "family")]
    (RESULTS / "averaging.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
