"""The operator W: kernel averages, each sample left out of its own.

Engines: `dense` sums over all pairs, tile by tile; `grid` spreads the samples of one-dimensional
problems onto nodes. `operator` is their contract, `choose_smoother` picks one by structure.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def condensed(
    problem: Problem, kernel: Kernel, engine: str = "auto", *, always: bool = False
) -> Problem:
    """The problem by its rows, or by nodes if these are fewer.

    With `always` by nodes in any case, but for a few rows that many samples share: scores such as
    tenths, between which nodes would not tell.
    """
    n = len(problem.labels)
    if engine == "exact" or not problem.one_dimensional:
        return problem
    if n <= FEW and not (always and problem.n_samples < SHARED * n):
        return problem
    nodes = quadrature(problem, kernel)
    return nodes if always or len(nodes.labels) < n else problem
