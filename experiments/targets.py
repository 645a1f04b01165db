"""The default on small samples and many classes: bias, error beside the oracle's, coverage.

Run: python -m experiments.targets [--repetitions 100] [--jobs 2] [--report]

Families on which the estimate's rules were chosen (`datasets.FAMILIES`, and for finer curves
`datasets.HELD_OUT` as well), and families that were written after all rules (`NEW`), with fresh
seeds for all. The oracle knows E[y | f] and
averages <y, l(f) - l(R)>: its error is the chance of the labels alone. That chance moves the
estimate too, so that biases are measured beside the oracle: mean of (value - oracle).

Every row of results/targets.csv is one data set by one loss; results/targets.md is made from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product

import numpy as np
from scipy.special import softmax

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown
from experiments.debiased import sampling_error
from experiments.parallel import run_on_cores
from riskalign.datasets import FAMILIES, HELD_OUT, Draw, Family
from riskalign.datasets import SyntheticData as Data
from riskalign.equations.arrays import FloatArray

PATH = RESULTS / "targets.csv"
KEYS = ("notion", "classes", "samples", "family", "loss", "seed")
SIZES = (
    ("classwise", 4, 500),
    ("canonical", 4, 500),
    ("classwise", 10, 500),
    ("canonical", 10, 500),
    ("classwise", 2, 500),
    ("classwise", 4, 2_000),
    ("canonical", 4, 2_000),
    ("canonical", 10, 2_000),
    ("classwise", 10, 300),
    ("canonical", 30, 500),
    ("classwise", 10, 2_000),
    ("classwise", 2, 5_000),
    ("classwise", 10, 5_000),
    ("canonical", 4, 5_000),
)


def tilted(by: Callable[[FloatArray], FloatArray], n: int, n_classes: int, seed: int) -> Data:
    """Data with f uniform on the simplex and R = softmax(log f + by(f))."""

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.ones(n_classes), n)
        return softmax(np.log(f) + by(f), axis=1), f

    return made(draw, n, seed)


def confused(n: int, n_classes: int, seed: int) -> Data:
    """A sixth of each class is labelled as the next one: an error in several probabilities."""
    mixed = 5 / 6 * np.eye(n_classes) + 1 / 6 * np.roll(np.eye(n_classes), 1, axis=1)

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.full(n_classes, 0.7), n)
        return f @ mixed, f

    return made(draw, n, seed)


def made(draw: Draw, n: int, seed: int) -> Data:
    """Labels drawn from the R of a draw."""
    generator = np.random.default_rng(seed)
    R, f = draw(n, generator)
    labels = (np.cumsum(R, axis=1)[:, :-1] < generator.random((n, 1))).sum(axis=1)
    return Data(labels, f, R, draw)


def sawtooth(f: FloatArray) -> FloatArray:
    """Four teeth over sqrt f, the same in each class."""
    return 0.8 * (4 * np.sqrt(f) % 1 - 0.5)


def bumps(f: FloatArray) -> FloatArray:
    """One bump per class, each at another place."""
    places = 0.05 + 0.5 * np.linspace(0, 1, f.shape[1]) ** 2
    return np.exp(-((np.sqrt(f) - np.sqrt(places)) ** 2) / 0.01)


NEW: dict[str, Family] = {
    "sawtooth": partial(tilted, sawtooth),
    "bumps": partial(tilted, bumps),
    "confusion": confused,
}
"""Families that were written after the rules of the estimate."""

MAKERS = FAMILIES | HELD_OUT | NEW
ROUGH = ("wavy", "class waves")
SMOOTH = tuple(family for family in FAMILIES if family not in ROUGH)
LOSS_NAMES = ("l2", "kl")
POPULATION = 200_000
FIRST_SEED = 710_000
"""No rule was chosen on these data."""


def cells(repetitions: int) -> Iterator[Row]:
    """Every family at every size, repetition by repetition."""
    for seed, size, family, loss in product(range(repetitions), SIZES, MAKERS, LOSS_NAMES):
        notion, classes, samples = size
        values = (notion, float(classes), float(samples), family, loss, float(seed))
        yield dict(zip(KEYS, values, strict=True))


@cache
def truths(family: str, classes: int, notion: str) -> dict[str, tuple[float, float]]:
    """The population's errors given what the notion sees, and given the whole prediction."""
    data = MAKERS[family](POPULATION, classes, 6)
    return {
        loss: (data.truth(notion, loss, given="marginal"), data.truth(notion, loss))
        for loss in LOSS_NAMES
    }


def compute(cell: Row) -> list[Row]:
    """The answer for one data set, beside the truth and the oracle's error."""
    family, notion, loss = (str(cell[key]) for key in ("family", "notion", "loss"))
    classes, samples, seed = (int(cell[key]) for key in ("classes", "samples", "seed"))
    number = FIRST_SEED + 1_000 * list(MAKERS).index(family) + seed
    data = MAKERS[family](samples, classes, number)
    marginal, joint = truths(family, classes, notion)[loss]
    result = ra.calibration_error(
        data.y_true, data.y_prob, notion=notion, loss=loss, confidence=0.95, progress=False
    )
    assert result.interval is not None
    chance = data.truth(notion, loss) + sampling_error(data, notion, loss) - joint
    low, high = result.interval
    found = {"truth": marginal, "oracle": marginal + chance, "value": result.value}
    assert result.upper_bound is not None
    return [found | {"low": low, "high": high, "bound": result.upper_bound}]


def _columns(rows: list[Row]) -> list[FloatArray]:
    names = ("truth", "oracle", "value", "low", "high", "bound")
    return [np.array([float(row[name]) for row in rows]) for name in names]


def line(rows: list[Row]) -> list[str]:
    """Bias beside the oracle, errors, coverage and its misses, for data sets of one cell or more.

    Standard errors are over data sets; the losses of one data set are no independent ones.
    """
    truth, oracle, value, low, high, bound = _columns(rows)
    n = np.array([float(row["samples"]) for row in rows])
    sets = group(rows, *(key for key in KEYS if key != "loss"))
    alone = len(sets)

    def mean(values: FloatArray) -> tuple[float, float]:
        each = dict(zip(map(id, rows), values, strict=True))
        own = [np.mean([each[id(row)] for row in data]) for data in sets.values()]
        error = np.std(own, ddof=1) / alone**0.5 if alone > 1 else np.nan
        return float(np.mean(own)), float(error)

    calibrated = truth.max() == 0
    bias = (value - oracle) * n if calibrated else 100 * (value - oracle) / truth
    centre, error = mean(bias)
    away, floor = np.abs(value - truth).mean(), np.abs(oracle - truth).mean()
    covered, above = mean(1.0 * ((low <= truth) & (truth <= high))), mean(1.0 * (low > truth))
    return [
        str(alone),
        f"{centre:+.2f} ± {error:.2f} / n" if calibrated else f"{centre:+.0f} ± {error:.0f} %",
        f"{100 * away:.3f}",
        f"{100 * floor:.3f}",
        f"{covered[0]:.2f} ± {max(covered[1], 0.5 / alone):.2f}",
        f"{above[0]:.2f}",
        f"{100 * np.mean(high - low):.2f}",
        _spread(rows),
        f"{np.mean(truth <= bound):.2f}",
        f"{100 * np.mean(bound):.2f}",
    ]


def _spread(rows: list[Row]) -> str:
    """3.92 standard deviations of the value, averaged over cells of several data sets."""
    cells = group(rows, *KEYS[:-1]).values()
    found = [np.std([float(r["value"]) for r in cell], ddof=1) for cell in cells if len(cell) > 2]
    return f"{392 * np.mean(found):.2f}" if found else ""


def report(rows: list[Row], *keys: str) -> str:
    """One line per group of data sets."""
    header = [
        *keys,
        "data sets",
        "bias",
        "mean absolute error x 100",
        "the oracle's",
        "coverage",
        "low end above the truth",
        "width x 100",
        "3.92 sd of value x 100",
        "truth below `upper_bound`",
        "`upper_bound` x 100",
    ]
    lines = []
    for names, own in group(rows, *keys).items():
        shown = [f"{name:g}" if isinstance(name, float) else str(name) for name in names]
        lines.append([*shown, *line(own)])
    return markdown(header, lines)


def _bias(row: Row) -> float:
    """The value less what the oracle finds from the same labels."""
    return float(row["value"]) - float(row["oracle"])


def biases(rows: list[Row]) -> list[list[str]]:
    """Biases beside the oracle that were to be small: calibrated models, and class-wise errors."""
    lines = []
    for classes in (10.0, 30.0):
        own = [
            row
            for row in rows
            if (row["notion"], row["classes"], row["family"])
            == ("canonical", classes, "calibrated")
        ]
        for (loss,), each in group(own, "loss").items():
            bias = np.array([_bias(row) * float(row["samples"]) for row in each])
            what = f"bias of calibrated models times n, {loss}, K = {classes:.0f}"
            lines.append([what, "canonical", "-1 to 1", _mean(each, bias)])
    wrong = [row for row in rows if row["family"] in SMOOTH and float(row["truth"]) > 0]
    for (classes, samples), each in group(
        [row for row in wrong if row["notion"] == "classwise"], "classes", "samples"
    ).items():
        bias = np.array([_bias(row) / float(row["truth"]) for row in each])
        what = (
            f"bias over truth, K = {classes:.0f}, n = {samples:,.0f}, other families of the rules"
        )
        lines.append([what, "classwise", "-0.1 to 0.1", _mean(each, bias)])
    return lines


def usual(rows: list[Row]) -> list[Row]:
    """Data sets of K = 2, 4 and 10 and n = 500 to 5,000."""
    return [row for row in rows if float(row["classes"]) <= 10 and float(row["samples"]) >= 500]


def by_family(rows: list[Row]) -> str:
    """Coverage and width of the intervals of each family, class-wise and canonical."""
    header, lines = ["family"], []
    for notion in ("class-wise", "canonical"):
        header += [f"{notion}: data sets", "coverage", "width over 3.92 sd"]
    for family in MAKERS:
        line = [family]
        for notion in ("classwise", "canonical"):
            own = [row for row in usual(rows) if (row["family"], row["notion"]) == (family, notion)]
            covered = [float(r["low"]) <= float(r["truth"]) <= float(r["high"]) for r in own]
            width = np.mean([float(r["high"]) - float(r["low"]) for r in own])
            sets = len(group(own, *(key for key in KEYS if key != "loss")))
            ratio = 100 * width / float(_spread(own))
            line += [str(sets), _mean(own, 1.0 * np.array(covered)), f"{ratio:.2f}"]
        lines.append(line)
    return markdown(header, lines)


def summary(rows: list[Row]) -> str:
    """What was to be reached, and what was found."""
    of_bias = biases(rows)
    rows = usual(rows)
    rough = [row for row in rows if row["family"] in ROUGH]
    smooth = [row for row in rows if row["family"] in SMOOTH]
    lines = []
    for title, some, wanted in (
        ("coverage, `wavy` and `class waves`", rough, ">= 0.90"),
        ("coverage, other families of the rules", smooth, "0.94 to 0.97"),
        ("coverage, all families", rows, ""),
    ):
        for notion, own in group(some, "notion").items():
            covered = [float(r["low"]) <= float(r["truth"]) <= float(r["high"]) for r in own]
            lines.append([title, str(notion[0]), wanted, _mean(own, 1.0 * np.array(covered))])
    for notion, own in group(smooth, "notion").items():
        width = np.mean([float(r["high"]) - float(r["low"]) for r in own])
        ratio = 100 * width / float(_spread(own))
        lines.append(["width over 3.92 sd", str(notion[0]), "<= 1.15", f"{ratio:.2f}"])
    for notion, own in group(rows, "notion").items():
        above = 1.0 * np.array([float(r["low"]) > float(r["truth"]) for r in own])
        lines.append(["low end above the truth", str(notion[0]), "<= 0.025", _mean(own, above)])
        below = {
            family: np.mean([float(r["truth"]) <= float(r["bound"]) for r in each])
            for (family,), each in group(own, "family").items()
        }
        worst = min(below, key=lambda family: below[family])
        found = f"{below[worst]:.2f} ({worst})"
        lines.append(["truth below `upper_bound`, worst", str(notion[0]), ">= 0.95", found])
    return markdown(["what", "notion", "to reach", "found"], [*lines, *of_bias])


def _mean(rows: list[Row], values: FloatArray) -> str:
    """A mean with its standard error over data sets, whose losses are no independent ones."""
    each = dict(zip(map(id, rows), values.tolist(), strict=True))
    sets = group(rows, *(key for key in KEYS if key != "loss")).values()
    own = [np.mean([each[id(row)] for row in data]) for data in sets]
    return f"{np.mean(own):.3f} ± {np.std(own, ddof=1) / len(own) ** 0.5:.3f}"


def main() -> None:
    """Compute what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    if options.report:
        rows = load(PATH)
    else:
        missing = cells(options.repetitions)
        rows = run_on_cores(PATH, KEYS, missing, compute, options.jobs)
    parts = [
        "# The default on small samples and many classes",
        "Biases are in percent of the truth, for calibrated models in units of 1/n, and are "
        "measured beside the oracle on the same labels.",
        "## What was to be reached",
        "Coverage and width: K = 2, 4 and 10, n = 500 to 5,000, by both losses.",
        summary(rows),
        "## Coverage and width by family",
        "The same data sets.",
        by_family(rows),
    ]
    for title, families in (
        ("Families of the rules", FAMILIES),
        ("Families held out until finer curves were chosen", HELD_OUT),
        ("Families written after all rules", NEW),
    ):
        some = [row for row in rows if row["family"] in families]
        parts += [f"## {title}", report(some, "notion", "family")]
        parts += [report(some, "notion", "classes", "samples", "family", "loss")]
    (RESULTS / "targets.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
