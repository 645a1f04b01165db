"""Reliability diagrams as numbers: curve, band, bins, and where the predictions lie."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from riskalign.equations.arrays import FloatArray
from riskalign.equations.problem import Problem
from riskalign.methods.curve import ReliabilityCurve
from riskalign.plots.problems import bin_numbers

LOGIT_END = 9.0
"""Where a logit axis ends: at a probability of 1.2e-4, and its mirror image."""

GRID = np.unique(
    np.concatenate(
        [np.linspace(0, 1, 61), expit(np.linspace(-LOGIT_END, LOGIT_END, 37))],
    ).round(6)
)
"""Points of a curve that serve a linear and a logit axis."""

LINEAR_EDGES = np.linspace(0, 1, 31)
LOGIT_EDGES = np.concatenate([[0.0], expit(np.linspace(-LOGIT_END, LOGIT_END, 37)[1:-1]), [1.0]])
"""Edges of the bins in which predictions are counted for the two axes; the outermost bins of a
logit axis reach to 0 and 1."""


@dataclass(frozen=True)
class Counts:
    """Where the predictions of one problem lie.

    Attributes
    ----------
    linear, logit : samples in the bins of each axis
    mean_prediction, frequency : means of predictions and of outcomes
    """

    linear: FloatArray
    logit: FloatArray
    mean_prediction: float
    frequency: float

    @classmethod
    def of(cls, problem: Problem) -> Counts:
        """Counts of all samples of a problem."""
        p, weights = np.clip(problem.predictions, 0, 1), problem.weights
        samples = weights / problem.units
        share = weights / weights.sum()
        return cls(
            np.histogram(p, LINEAR_EDGES, weights=samples)[0],
            np.histogram(p, LOGIT_EDGES, weights=samples)[0],
            float(share @ p),
            float(share @ problem.labels),
        )


N_BINS = 15
"""Bins of equal width, as everyone's ECE has."""


@dataclass(frozen=True)
class Bins:
    """Predictions of one problem in 15 bins of equal width.

    Attributes
    ----------
    counts : (15,), samples
    predicted, observed : (15,), means of predictions and of outcomes; NaN where a bin is empty
    ece : sum of |observed - predicted|, weighted by the bins' shares
    by_chance : what a calibrated model with these predictions shows on average, by the normal
        approximation of a bin's mean label
    """

    counts: FloatArray
    predicted: FloatArray
    observed: FloatArray
    ece: float
    by_chance: float

    @classmethod
    def of(cls, problem: Problem) -> Bins:
        """The bins (0, 1/15], ..., (14/15, 1] of a one-dimensional problem; 0 is in the first."""
        p, w = problem.predictions, problem.weights
        bin_of = bin_numbers(p, N_BINS)

        def total(values: FloatArray) -> FloatArray:
            sums: FloatArray = np.bincount(bin_of, values, N_BINS).astype(np.float64)
            return sums

        mass, predicted = total(w), total(w * p)
        observed = total(w * problem.labels)
        deviations = np.sqrt(np.maximum(total(w * problem.units * p * (1 - p)), 0.0))
        with np.errstate(invalid="ignore"):
            means = (predicted / mass, observed / mass)
        return cls(
            total(w / problem.units),
            *means,
            float(np.abs(predicted - observed).sum() / mass.sum()),
            float(np.sqrt(2 / np.pi) * deviations.sum() / mass.sum()),
        )


@dataclass(frozen=True)
class Diagram:
    """One probability against what came true.

    Attributes
    ----------
    name : what the probability is of
    grid : (m,)
    conditional, low, high : (m,), the estimate of E[y | f], NaN where no prediction lies, and its
        band, NaN where few do
    linear_counts, logit_counts : predictions in the bins of each axis
    bins : the 15 bins of an ECE
    mean_prediction, frequency : on average, what was predicted and how often it came true
    """

    name: str
    grid: FloatArray
    conditional: FloatArray
    low: FloatArray
    high: FloatArray
    linear_counts: FloatArray
    logit_counts: FloatArray
    bins: Bins
    mean_prediction: float
    frequency: float


def diagrams(
    curve: ReliabilityCurve,
    problems: Sequence[Problem],
    confidence: float,
    banded: Container[int] | None = None,
) -> Iterator[Diagram]:
    """A diagram for each problem of a notion, from the notion's curve.

    Bands take longer than curves: `banded` are the problems that get one, by default all.
    """
    banded = range(len(problems)) if banded is None else banded
    R = curve.conditional.reshape(len(curve.grid), -1)
    for k, problem in enumerate(problems):
        counts = Counts.of(problem)
        one = curve if curve.conditional.ndim == 1 else curve.of_class(k)
        unknown = np.full(len(curve.grid), np.nan)
        low, high = one.band(confidence) if k in banded else (unknown, unknown)
        yield Diagram(
            name=problem.name,
            grid=curve.grid,
            conditional=R[:, k],
            low=low,
            high=high,
            linear_counts=counts.linear,
            logit_counts=counts.logit,
            bins=Bins.of(problem),
            mean_prediction=counts.mean_prediction,
            frequency=counts.frequency,
        )
