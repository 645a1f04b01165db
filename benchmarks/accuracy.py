"""How far the fast engines are from exact sums, on synthetic and on real predictions.

    python -m benchmarks.accuracy [--data FOLDER] [--quick]

Compares the estimate R, the l2 error and the kl error of the engine that `auto` takes for
large samples with exact float64 sums, on up to 400 rows of every problem (exact sums over all
n centres for each of these rows), and writes `benchmarks/ACCURACY.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit

from riskalign.data.notions import NOTIONS
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import KL, L2
from riskalign.equations.problem import Problem
from riskalign.equations.terms import decompose
from riskalign.smoothing import Smoother, Tuning
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.grid import GridSmoother

BANDWIDTHS = (1e-4, 1e-3, 1e-2, 0.1, 0.3)
ROWS = 400
CLASSES = 20
LIMITS = {"R": (1e-4, 1e-6), "l2": (1e-6, 1e-6), "kl": (1e-5, 1e-5)}
"""What must hold below h = 1e-3, and from there up; errors relative to the risk."""


@dataclass(frozen=True)
class Row:
    """Differences of one case at one bandwidth, the largest over its problems."""

    case: str
    notion: str
    n: int
    bandwidth: float
    R: float
    l2: float
    kl: float

    @property
    def holds(self) -> bool:
        """Whether all differences are within the limits."""
        fine = int(self.bandwidth >= 1e-3)
        return all(getattr(self, name) <= limits[fine] for name, limits in LIMITS.items())


def differences(problem: Problem, fast: Smoother, h: float, rows: IntArray) -> tuple[float, ...]:
    """Largest difference of R, and differences of both errors over the risk."""
    exact = DenseSmoother([problem], DIRICHLET)
    R_fast, R_exact = (_conditional(smoother, h, rows) for smoother in (fast, exact))
    part = problem.take(rows)
    result = [float(np.abs(R_fast - R_exact).max())]
    for loss in (L2.binary if problem.one_dimensional else L2, KL):
        terms = [decompose(loss, part.points, part.labels, R) for R in (R_fast, R_exact)]
        risk = max(float(terms[1].risk.mean()), np.finfo(float).tiny)
        gaps = [
            abs(float(getattr(terms[0], name).mean() - getattr(terms[1], name).mean()))
            for name in ("plugin", "variational", "cross")
        ]
        result.append(max(gaps) / risk)
    return tuple(result)


def _conditional(smoother: Smoother, h: float, rows: IntArray) -> FloatArray:
    means = smoother.each([(0, Tuning(h))], lambda k, own: lambda average: average.mean, rows)
    return np.concatenate([mean for _, _, mean in means])


def compare(case: str, sample: Sample, notion: str) -> Iterator[Row]:
    """Rows of the table for one sample."""
    generator = np.random.default_rng(0)
    problems = NOTIONS[notion].problems(sample, L2)
    if len(problems) > CLASSES:
        problems = [problems[k] for k in generator.choice(len(problems), CLASSES, replace=False)]
    n = len(sample.labels)
    for h in BANDWIDTHS:
        if notion == "canonical" and h < 1e-3:
            continue
        worst = np.zeros(3)
        for problem in problems:
            # Positives first: they are few in many problems, and where the kl error is decided.
            rare = np.flatnonzero(problem.labels)[: ROWS // 2] if problem.one_dimensional else []
            others = generator.choice(n, min(ROWS, n), replace=False)
            rows = np.unique(np.concatenate([rare, others]).astype(np.intp))
            fast: Smoother = (
                GridSmoother([problem], DIRICHLET)
                if problem.one_dimensional
                else DenseSmoother([problem], DIRICHLET, single=True)
            )
            worst = np.maximum(worst, differences(problem, fast, h, rows))
        yield Row(case, notion, n, h, *worst.tolist())


def synthetic(sizes: tuple[int, ...]) -> Iterator[tuple[str, Sample]]:
    """Spread-out, peaked, tied predictions and predictions with exact zeros and ones."""
    generator = np.random.default_rng(1)
    for n in sizes:
        spread = generator.beta(1, 3, n)
        ends = np.where(generator.random(n) < 0.3, generator.integers(0, 2, n), spread)
        for name, p in {
            "Beta(1, 3)": spread,
            "logit-normal(-6, 4)": expit(generator.normal(-6, 4, n)),
            "zeros and ones": ends,
            "ties": np.round(spread, 2),
        }.items():
            labels = (generator.random(n) < p**0.8).astype(np.intp)
            yield name, Sample(np.stack([1 - p, p], axis=1), labels, np.ones(n), ("0", "1"))


def files(folder: Path, name: str = "*") -> Iterator[tuple[str, list[str], Sample]]:
    """The notions that each file of predictions allows, and its sample."""
    for path in sorted(folder.glob(f"{name}.npz")):
        with np.load(path, allow_pickle=False) as data:
            labels = data["labels"].astype(np.intp)
            if "confidence" in data:
                right = data["pred"] == labels
                yield path.stem, ["binary"], as_sample(right, data["confidence"])
                continue
            logits = "logits" in data
            sample = as_sample(labels, data["logits" if logits else "probs"], from_logits=logits)
        canonical = ["canonical"] if len(sample.classes) <= 100 else []
        yield path.stem, ["classwise", "top-label", *canonical], sample


def report(rows: list[Row]) -> str:
    """The table as markdown."""
    failed = [row for row in rows if not row.holds]
    lines = [
        "# Accuracy of the fast engines",
        "",
        "Largest differences from exact float64 sums; `python -m benchmarks.accuracy` makes this",
        "table. l2 and kl: the largest of plug-in, variational and cross error, over the risk.",
        f"Limits: R 1e-4 below h = 1e-3 and 1e-6 from there, l2 1e-6, kl 1e-5. {len(rows)} lines,",
        f"{len(failed)} outside the limits" + (" (marked)." if failed else "."),
        "",
        "| case | notion | n | h | R | l2 | kl | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        mark = "" if row.holds else "outside"
        lines.append(
            f"| {row.case} | {row.notion} | {row.n:,} | {row.bandwidth:g} | {row.R:.0e} | "
            f"{row.l2:.0e} | {row.kl:.0e} | {mark} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare, print lines as they come, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("RISKALIGN_DATA"))
    parser.add_argument("--quick", action="store_true", help="small synthetic samples alone")
    options = parser.parse_args()
    rows: list[Row] = []

    def add(case: str, sample: Sample, notion: str) -> None:
        for row in compare(case, sample, notion):
            print(row, "" if row.holds else "  <-- outside the limits", flush=True)
            rows.append(row)

    sizes = (2, 10, 2_000) if options.quick else (2, 10, 200, 5_000, 50_000)
    for case, sample in synthetic(sizes):
        add(case, sample, "binary")
    if options.data and not options.quick:
        for case, notions, sample in files(Path(options.data)):
            for notion in notions:
                add(case, sample, notion)
    if not options.quick:
        Path(__file__).with_name("ACCURACY.md").write_text(report(rows))


if __name__ == "__main__":
    main()
