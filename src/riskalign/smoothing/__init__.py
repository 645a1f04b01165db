"""Kernel averages: exact sums over pairs, or masses on nodes; one contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from riskalign.data.sample import Problem
from riskalign.equations.kernels import Kernel
from riskalign.smoothing.contract import Average, Request, Smoother, Values, always
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.grid import GridSmoother

__all__ = [
    "ENGINES",
    "Average",
    "Engine",
    "Request",
    "Smoother",
    "Values",
    "always",
    "choose_smoother",
]

Engine = str | Callable[[Sequence[Problem], Kernel, Values], Smoother]
"""An engine's name, or what makes a smoother."""

ENGINES = ("auto", "exact", "grid")
"""Engines known by name."""

SMALL = 1_000
"""Samples up to which exact sums cost no more than anything else."""


def choose_smoother(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: Engine = "auto",
    values: Values = Problem.one_hot,
) -> Smoother:
    """The engine that the problems' structure asks for.

    Exact float64 sums for small samples; nodes for problems made from one probability;
    exact sums with float32 exponentials for larger simplices. An engine of one's own is a
    function of problems, kernel and values.
    """
    if callable(engine):
        return engine(problems, kernel, values)
    one_dimensional = all(problem.predictions.ndim == 1 for problem in problems)
    if engine == "grid" and not one_dimensional:
        raise ValueError(
            "`engine='grid'` is for one-dimensional problems (binary, top-label, class-wise); "
            "canonical errors take `engine='auto'` or 'exact'."
        )
    small = max(len(problem.labels) for problem in problems) <= SMALL
    if engine == "exact" or (engine == "auto" and small):
        return DenseSmoother(problems, kernel, values)
    if one_dimensional:
        return GridSmoother(problems, kernel, values)
    return DenseSmoother(problems, kernel, values, single=True)
