"""One level of the ladder of finer curves: Newton steps from a start to a start with curves.

Sums over rows and what follows from them row by row are computed in blocks of rows, on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from riskalign.equations.arrays import FloatArray, LabelArray
from riskalign.equations.curves import CurveStep, Features, Knots
from riskalign.equations.problem import Problem
from riskalign.equations.starts import PRIOR
from riskalign.equations.terms import risk_of
from riskalign.smoothing.threads import ordered_map

T = TypeVar("T")

BLOCK = 2_500
"""Whole vectors that a thread takes at once."""


@dataclass(frozen=True)
class LevelEstimate:
    """The estimate of one problem by a level, row by row.

    Attributes
    ----------
    R : (n, K), each row's sample left out
    let_in : (n, K), R with each row's sample: where the Newton step leads
    left_out : (n,), <y, l(R)>
    refinement : (n,), the same without the noise of R
    within : (n,), <y, l(R)> of R with each row's sample
    dimension : effective number of parameters
    knots : of the curves
    parameters : theta of the curves, as far as the Newton steps led
    """

    R: FloatArray
    let_in: FloatArray
    left_out: FloatArray
    refinement: FloatArray
    within: FloatArray
    dimension: float
    knots: Knots
    parameters: FloatArray

    @classmethod
    def of(cls, problem: Problem, g: FloatArray, knots: Knots, n_steps: int = 1) -> LevelEstimate:
        """The estimate by a fitted start g ``(n, d)`` with curves."""
        level = cls._by_one_step(problem, g, knots, None)
        for _ in range(n_steps - 1):
            level = level.with_another_step(problem)
        return level

    def with_another_step(self, problem: Problem) -> LevelEstimate:
        """The estimate after one more Newton step."""
        reached = self.let_in[:, -problem.columns().shape[1] :]
        return self._by_one_step(problem, reached, self.knots, self.parameters)

    @classmethod
    def _by_one_step(
        cls, problem: Problem, g: FloatArray, knots: Knots, parameters: FloatArray | None
    ) -> LevelEstimate:
        blocks = Block.split(problem, g, knots)
        step, total = newton_step(problem, blocks, parameters)

        def results(block: Block) -> tuple[FloatArray, ...]:
            own = replace(step, features=block.features, g=block.g)
            R, let_in, a = own.left_out_and_let_in(total, block.residuals, block.units)
            left_out, within = (risk_of(problem.loss, block.labels, each) for each in (R, let_in))
            return R, let_in, left_out, a * left_out + (1 - a) * within, within

        columns = [np.concatenate(each) for each in zip(*_mapped(results, blocks), strict=True)]
        R, let_in, left_out, refinement, within = columns
        moved = step.variance @ total
        reached = moved if parameters is None else parameters + moved
        return cls(R, let_in, left_out, refinement, within, step.dimension, knots, reached)


@dataclass(frozen=True)
class Block:
    """Some rows of a problem, where a Newton step begins at g ``(m, d)``."""

    features: Features
    g: FloatArray
    labels: LabelArray
    residuals: FloatArray
    weights: FloatArray
    units: FloatArray

    @classmethod
    def split(cls, problem: Problem, g: FloatArray, knots: Knots) -> list[Block]:
        """All rows, in blocks of one size; those of one probability, which are cheap, in one."""
        n, f, columns = len(g), problem.predictions, problem.columns()
        size = n if problem.one_dimensional else -(-n // -(-n // BLOCK))
        slices = [slice(start, start + size) for start in range(0, n, size)]
        return [
            cls(
                Features(f[rows], knots),
                g[rows],
                problem.labels[rows],
                columns[rows] - g[rows],
                problem.weights[rows],
                problem.units[rows],
            )
            for rows in slices
        ]


def _mapped(function: Callable[[Block], T], blocks: Sequence[Block]) -> list[T]:
    """Results of all blocks, on all cores."""
    return list(ordered_map(function, blocks)) if len(blocks) > 1 else [function(blocks[0])]


def newton_step(
    problem: Problem, blocks: Sequence[Block], parameters: FloatArray | None
) -> tuple[CurveStep, FloatArray]:
    """A Newton step and its scores ``(p,)``; there are no parameters if it is the first."""

    def sums(block: Block) -> tuple[FloatArray, FloatArray]:
        scores = block.features.total(block.weights[:, None] * block.residuals)
        return block.features.information(block.g, block.weights), scores

    parts = zip(*_mapped(sums, blocks), strict=True)
    information, scores = (np.add.reduce(each) for each in parts)
    first, unit = blocks[0], problem.mean_weight
    step = CurveStep.by_information(
        first.features, first.g, information, unit, second=parameters is not None
    )
    return step, scores if parameters is None else scores - PRIOR * unit * parameters


def newton_steps(
    problem: Problem, g: FloatArray, knots: Knots, n_steps: int
) -> list[tuple[CurveStep, FloatArray]]:
    """Newton steps of all rows from a start g ``(n, d)``, each with its scores ``(p,)``."""
    features = Features(problem.predictions, knots)
    parameters: FloatArray | None = None
    steps: list[tuple[CurveStep, FloatArray]] = []
    for _ in range(n_steps):
        if steps:
            step, total = steps[-1]
            g, moved = step.at(problem.predictions, g, total), step.variance @ total
            parameters = moved if parameters is None else parameters + moved
        step, total = newton_step(problem, Block.split(problem, g, knots), parameters)
        steps.append((replace(step, features=features, g=g), total))
    return steps
