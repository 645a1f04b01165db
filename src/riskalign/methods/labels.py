"""The paper's estimate: labels are smoothed, R = W y, and the terms of the risk are averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray, as_slice
from riskalign.equations.problem import Problem
from riskalign.equations.terms import Terms, decompose
from riskalign.methods.method import Estimate
from riskalign.progress import track
from riskalign.smoothing import Average, Smoother, Tuning


def label_estimates(
    problems: Sequence[Problem],
    smoother: Smoother,
    tunings: Sequence[Tuning],
    estimator: str,
    progress: bool | None = None,
) -> list[Estimate]:
    """One estimate per problem: "plugin", "variational" or "cross", see `Terms`."""
    totals = np.zeros((len(problems), 4))
    conditional = [np.empty_like(problem.predictions) for problem in problems]

    def reader(k: int, rows: IntArray) -> Callable[[Average], tuple[FloatArray, Terms]]:
        part = problems[k].take(as_slice(rows))
        return lambda average: (
            average.mean,
            decompose(part.loss, part.points, part.labels, average.mean),
        )

    tiles = smoother.each(list(enumerate(tunings)), reader)
    steps = ((len(tile[1]), tile) for tile in tiles)
    n_steps = sum(len(problem.labels) for problem in problems)
    for k, rows, (R, terms) in track(steps, n_steps, "estimate", progress):
        weights = problems[k].weights[as_slice(rows)]
        of = (getattr(terms, estimator), terms.risk, terms.refinement, terms.reconstructed_risk)
        totals[k] += [weights @ term for term in of]
        conditional[k][rows] = R[:, 1] if problems[k].one_dimensional else R
    estimates = []
    for problem, total, R in zip(problems, totals, conditional, strict=True):
        value, risk, refinement, reconstructed = (total / problem.weights.sum()).tolist()
        estimates.append(Estimate(value, risk, refinement, reconstructed, R))
    return estimates
