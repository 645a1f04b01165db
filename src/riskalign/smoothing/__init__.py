"""The operator W: kernel averages, each sample left out of its own.

Engines: `dense` sums over all pairs, tile by tile; `grid` spreads the samples of one-dimensional
problems onto nodes. `operator` is their contract, `choose_smoother` picks one by structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.grid import GridSmoother, quadrature, read_at
from riskalign.smoothing.operator import Average, Request, Smoother, Support, Tuning

__all__ = [
    "ENGINES",
    "TINY",
    "Average",
    "Request",
    "Smoother",
    "Support",
    "Tuning",
    "choose_smoother",
    "condensed",
    "read_at",
]

ENGINES = ("auto", "exact", "grid")
"""Engines known by name."""

SMALL = 1_000
"""Samples up to which exact sums of labels cost no more than anything else."""

FEW = 1_000
"""Samples up to which nodes are not worth the rounding."""

TINY = 256
"""The same for residuals, which are smoothed by many tunings."""


def choose_smoother(
    problems: Sequence[Problem], kernel: Kernel, engine: str = "auto", *, small: int = SMALL
) -> Smoother:
    """The engine that the problems' structure asks for.

    - Exact float64 sums, for up to `small` rows, or if asked for.
    - Nodes, for problems made from one probability.
    - Exact sums with float32 exponentials, for larger simplices.
    """
    one_dimensional = all(problem.one_dimensional for problem in problems)
    if engine == "grid" and not one_dimensional:
        raise ValueError(
            "`engine='grid'` is for one-dimensional problems (binary, top-label, class-wise); "
            "canonical errors take `engine='auto'` or 'exact'."
        )
    few = max(len(problem.labels) for problem in problems) <= small
    few = few and not any(problem.nodes is not None for problem in problems)
    if engine == "exact" or (engine == "auto" and few):
        return DenseSmoother(problems, kernel)
    if one_dimensional:
        return GridSmoother(problems, kernel)
    return DenseSmoother(problems, kernel, single=True)


SHARED = 4
"""Samples per row on average, from which predictions are discrete."""

DISCRETE = 2_400
"""Rows of discrete predictions up to which nodes would not tell them apart well enough."""

LOOKED_AT, DISTINCT = 1_000, 0.65
"""Rows that show whether predictions repeat, and the share of distinct ones from which they do
not."""

UNEQUAL = 1.1
"""(sum w)(sum w^3) / (sum w^2)^2 of the samples, from which their weights differ so much that rows
are kept: 1.08 for weights drawn evenly from 0.5 to 2, and 4/3 for those over three decades."""

MOST_ROWS = 200_000
"""Rows of unequal weights up to which all problems together keep them: ten classes of as many rows
as a sketch keeps."""


def condensed(
    problem: Problem,
    kernel: Kernel,
    engine: str = "auto",
    *,
    always: bool = False,
    n_problems: int = 1,
) -> Problem:
    """The problem by its rows, or by nodes if these are fewer.

    Discrete predictions, which many samples share, stay rows: between scores such as hundredths
    nodes would not tell. So do samples of very unequal weights, unless `engine` asks for nodes or
    there are too many of them in `n_problems` such problems: a node can leave out their mean weight
    only. With `always` others are nodes in any case.
    """
    if engine == "exact" or not problem.one_dimensional:
        return problem
    if len(problem.labels) > FEW:
        problem = without_copies(problem)
    n = len(problem.labels)
    shared = problem.n_samples >= SHARED * n
    if n <= FEW and (shared or not always):
        return problem
    if shared and n <= DISCRETE and not problem.rounded:
        return problem
    few = n * n_problems <= MOST_ROWS and not (always or problem.rounded)
    if engine == "auto" and few and unequal(problem):
        return problem
    nodes = quadrature(problem, kernel)
    return nodes if always or len(nodes.labels) < n else problem


def unequal(problem: Problem) -> bool:
    """Whether the weights of single samples differ so much that nodes do not serve them.

    A few samples that are lighter than all others do not matter; a few that are heavier do.
    """
    units = problem.units / problem.units.max()
    first, second, third = (float(problem.weights @ units**power) for power in range(3))
    return first * third > UNEQUAL * second**2


def without_copies(problem: Problem) -> Problem:
    """The problem with one row for samples of equal prediction, label and weight.

    Rows of several classes differ where the probabilities of one class are equal. A few rows show
    whether it is worth looking at all.
    """
    p = problem.predictions
    some = p[:: max(len(p) // LOOKED_AT, 1)]
    if len(np.unique(some)) > DISTINCT * len(some) or np.ptp(problem.units) > 0:
        return problem
    distinct, places = np.unique(p, return_inverse=True)
    weights = np.zeros(2 * len(distinct))
    np.add.at(weights, 2 * places + problem.labels, problem.weights)
    held = np.flatnonzero(weights)
    if len(held) == len(p):
        return problem
    return replace(
        problem,
        predictions=distinct[held // 2],
        labels=(held % 2).astype(problem.labels.dtype),
        weights=weights[held],
        sample_weights=np.full(len(held), problem.units[0]),
    )
