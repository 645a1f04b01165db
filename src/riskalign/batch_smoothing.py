"""Smoothers of rows that were gathered in batches: bandwidths chosen, averages at any rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riskalign.bandwidth.choosing import choose
from riskalign.bandwidth.coordinates import (
    FLATTENINGS,
    OFFSET,
    Choice,
    Valued,
    apart,
    residuals_and_slopes,
    values_of,
)
from riskalign.bandwidth.search import BandwidthSearch
from riskalign.data.sample import Problem
from riskalign.debiasing import DEBIASED
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.starts import FitNoise
from riskalign.gathering import Gathering, Starts
from riskalign.methods.method import KernelSmoother
from riskalign.methods.residuals import BATCH
from riskalign.options import Setup, resolve_bandwidth, smoothing_choices
from riskalign.smoothing import Average, Smoother, Values, always
from riskalign.smoothing.dense import concatenate
from riskalign.smoothing.gathered import Gathered, GatheredSmoother


@dataclass(frozen=True)
class BatchSmoothing:
    """The method's smoothers over all rows, and the bandwidths that some rows chose."""

    gathering: Gathering
    method: KernelSmoother
    progress: bool | None

    @cached_property
    def choices(self) -> list[Choice]:
        """Bandwidth and coordinates of each problem."""
        return self._chosen[0]

    @property
    def search(self) -> BandwidthSearch | None:
        """How the bandwidths were found, None where they were given."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[list[Choice], BandwidthSearch | None]:
        setup = Setup(
            **vars(self.gathering.case),
            kernel=self.gathering.kernel,
            engine=self._label_engine,
            progress=self.progress,
        )
        method = self.method
        if method.estimator != DEBIASED:
            bandwidths, search = resolve_bandwidth(
                setup, method.bandwidth, method.candidates, method.power
            )
            return [Choice(h) for h in bandwidths.tolist()], self._scaled(search)
        choices, candidates, search = smoothing_choices(setup, method)
        if choices is None:
            choices = self._choose(candidates)
            curves = tuple(choice.curve for choice in choices if choice.curve is not None)
            classwise = self.gathering.case.notion == "classwise"
            search = BandwidthSearch("cross-validation", curves, classwise)
        return choices, self._scaled(search)

    def _scaled(self, search: BandwidthSearch | None) -> BandwidthSearch | None:
        """A search by some rows as if by all: its objective is a sum over rows."""
        if search is None or search is self.method.bandwidth:
            return search
        factor = self.gathering.n / len(self.gathering.problems[0].labels)
        scaled = [replace(curve, objective=curve.objective * factor) for curve in search.curves]
        return replace(search, curves=tuple(scaled))

    def _label_engine(
        self, problems: Sequence[Problem], kernel: Kernel, values: Values
    ) -> Smoother:
        """Smooths labels over all rows."""
        tables = [table[1.0] for table in self.gathering.tables]
        return GatheredSmoother(problems, tables, values, [_one_hot(table) for table in tables])

    @cached_property
    def starts(self) -> Starts:
        """The start of every problem."""
        return Starts(self.gathering, self.method.start)

    def _choose(self, candidates: FloatArray | None) -> list[Choice]:
        """Bandwidths of residuals, by the rows that are held."""
        choices = []
        for first in range(0, len(self.gathering.problems), BATCH):
            numbers = range(first, min(first + BATCH, len(self.gathering.problems)))
            pairs = [(k, tau) for tau in FLATTENINGS for k in numbers]
            tables = [self.gathering.tables[k][tau] for k, tau in pairs]
            at_nodes = [self.starts.values(k, tau, slopes=False) for k, tau in pairs]

            def engine(
                problems: Sequence[Problem],
                kernel: Kernel,
                values: Values,
                tables: Sequence[Gathered] = tables,
                at_nodes: Sequence[tuple[FloatArray, FloatArray]] = at_nodes,
            ) -> Smoother:
                return GatheredSmoother(problems, tables, values, at_nodes)

            batch = [self.gathering.problems[k] for k in numbers]
            starts = [self.starts.of(k, self.gathering.problems[k])[0] for k in numbers]
            kernel = self.gathering.kernel
            choices += choose(batch, starts, kernel, engine, candidates, self.progress)
        return choices

    @cached_property
    def smoothers(self) -> tuple[GatheredSmoother, GatheredSmoother]:
        """Of residuals (labels), and of nothing but squared weights, at the choices."""
        chosen = [
            table[choice.flattening]
            for table, choice in zip(self.gathering.tables, self.choices, strict=True)
        ]
        nothing = [(np.empty((len(table.points), 0)),) * 2 for table in chosen]
        squared = GatheredSmoother([], chosen, _nothing, nothing, squared=True)
        if self.method.estimator != DEBIASED:
            at_nodes = [_one_hot(table) for table in chosen]
            return GatheredSmoother([], chosen, Problem.one_hot, at_nodes), squared
        at_nodes = [
            self.starts.values(k, choice.flattening, slopes=True)
            for k, choice in enumerate(self.choices)
        ]
        return GatheredSmoother([], chosen, values_of, at_nodes), squared

    def averages(self, smoother: GatheredSmoother, held: Sequence[Problem]) -> list[Average]:
        """Leave-one-out averages of rows, one a problem."""
        requests = [(k, choice.bandwidth) for k, choice in enumerate(self.choices)]
        parts: list[list[Average]] = [[] for _ in requests]
        every = smoother.holding(held).each(requests, always(lambda average: average))
        for k, _, average in every:
            parts[k].append(average)
        return [concatenate(own) for own in parts]

    def smoothed(self, problems: Sequence[Problem]) -> Iterator[SmoothedRows]:
        """Starts of some rows, and averages over all rows but each its own."""
        numbers = range(len(problems))
        starts = [self.starts.of(k, problems[k]) for k in numbers]
        valued = [
            Valued.of(
                problems[k],
                self.choices[k].flattening,
                residuals_and_slopes(problems[k], *starts[k]) + OFFSET,
            )
            for k in numbers
        ]
        smoother, squared = self.smoothers
        of_values, of_squares = self.averages(smoother, valued), self.averages(squared, valued)
        others = np.log(self.gathering.n - 1)
        for k in numbers:
            log_share = of_squares[k].log_density - 2 * of_values[k].log_density - others
            share = np.minimum(np.exp(log_share), 1.0)
            yield SmoothedRows(*starts[k], of_values[k].mean - OFFSET, share)

    @cached_property
    def noises(self) -> list[FitNoise | None]:
        """What all rows say of each fitted start; how much a kernel sees of it, those held."""
        if self.method.start == "identity":
            return [None] * len(self.gathering.problems)
        held = self.gathering.problems
        noises: list[FitNoise | None] = []
        for k, (problem, rows) in enumerate(zip(held, self.smoothed(held), strict=True)):
            information, smoothed = self.starts.fitted[k].information, apart(problem, rows.averages)
            noises.append(FitNoise.of(information, problem.weights, rows.slopes, smoothed[1]))
        return noises


@dataclass(frozen=True)
class SmoothedRows:
    """Rows of one problem: their start and its slopes, and averages of the rows around them."""

    start: FloatArray
    slopes: FloatArray
    averages: FloatArray
    share: FloatArray


def _one_hot(table: Gathered) -> tuple[FloatArray, FloatArray]:
    """Labels at the nodes: rows of label 0, rows of label 1."""
    m = len(table.points)
    return np.tile([1.0, 0.0], (m, 1)), np.tile([0.0, 1.0], (m, 1))


def _nothing(problem: Problem) -> FloatArray:
    return np.empty((len(problem.labels), 0))
