"""Coverage of intervals where a class is rare, with the rate c(theta) and with a constant one.

Run: python -m experiments.rare [--repetitions 200]

Log-odds of the predictions are normal, E[y | p] = p / factor; beside them the families of
`riskalign.datasets`, in which no class is that rare. The interval's lower end uses the variance of
smaller errors (`riskalign.inference.interval`); "constant" is the same interval without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import product
from unittest import mock

import numpy as np
from scipy.special import expit

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.datasets import FAMILIES
from riskalign.equations.losses import LOSSES

TABLE, REPORT = RESULTS / "rare.csv", RESULTS / "rare.md"
KEYS = ("family", "samples", "seed")

RARE = {
    "rare, 1.7 times too high": (-7.0, 1.6, 1.7),
    "rare, 1.7 times too low": (-7.0, 1.6, 1 / 1.7),
    "rare, calibrated": (-7.0, 1.6, 1.0),
    "seldom, 1.7 times too high": (-5.0, 1.6, 1.7),
    "seldom, 3 times too high": (-5.0, 1.2, 3.0),
}
"""Mean and standard deviation of the log-odds, and the factor."""


def cells(repetitions: int) -> Iterator[Row]:
    """The data sets."""
    for family, n, seed in product(RARE, (5_000, 20_000), range(repetitions)):
        yield {"family": family, "samples": n, "seed": seed}
    for family, seed in product(FAMILIES, range(repetitions // 2)):
        yield {"family": family, "samples": 1_000, "seed": seed}


def _drawn(family: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions and E[y | p]."""
    if family not in RARE:
        data = FAMILIES[family](n, 2, 10_000 + seed)
        return data.y_true, data.y_prob[:, 1], data.conditional[:, 1]
    mean, deviation, factor = RARE[family]
    rng = np.random.default_rng([seed, n, list(RARE).index(family)])
    p = expit(rng.normal(mean, deviation, n))
    R = np.minimum(p / factor, 1.0)
    return (rng.random(n) < R).astype(int), p, R


def _compute(cell: Row) -> Iterable[Row]:
    y, p, R = _drawn(str(cell["family"]), int(cell["samples"]), int(cell["seed"]))
    for name in ("l2", "kl"):
        loss = LOSSES[name].binary
        f, r = (np.stack([1 - x, x], axis=1) for x in (p, R))
        truth = float(np.mean(np.sum(r * (loss(f) - loss(r)), axis=1)))
        found = ra.calibration_error(y, p, loss=name, confidence=0.95)
        with mock.patch("riskalign.inference.interval.bend_of", return_value=0.0):
            constant = ra.calibration_error(y, p, loss=name, confidence=0.95)
        yield {
            "loss": name,
            "positives": int(y.sum()),
            "truth": truth,
            "value": found.value,
            "low": found.interval[0],
            "high": found.interval[1],
            "low_constant": constant.interval[0],
        }


def report() -> str:
    """The table of coverage."""
    lines = []
    for (family, n, loss), rows in group(load(TABLE), "family", "samples", "loss").items():
        truth, low, high, constant = (
            np.array([float(row[name]) for row in rows])
            for name in ("truth", "low", "high", "low_constant")
        )
        n_sets = len(rows)
        covered = (low <= truth) & (truth <= high)
        error = max(float(np.std(covered)), (1 / n_sets) ** 0.5 / 2) / n_sets**0.5
        positives = np.median([float(row["positives"]) for row in rows])
        lines.append(
            [
                str(family),
                f"{n:,.0f}",
                str(loss),
                f"{n_sets}",
                f"{positives:.0f}",
                f"{np.mean(covered):.3f} ± {error:.3f}",
                f"{np.mean(low > truth):.3f}",
                f"{np.mean(high < truth):.3f}",
                f"{np.mean((constant <= truth) & (truth <= high)):.3f}",
                f"{np.mean(constant > truth):.3f}",
            ]
        )
    header = ("family", "samples", "loss", "data sets", "positives, median", "coverage",
              "low end above the truth", "high end below", "coverage, constant rate",
              "its low end above the truth")  # fmt: skip
    return "# Intervals of rare classes\n\n" + markdown(header, lines) + "\n"


def main() -> None:
    """Compute what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    run(TABLE, KEYS, cells(parser.parse_args().repetitions), _compute)
    REPORT.write_text(report())


if __name__ == "__main__":
    main()
