"""R at points of one's choice: a start, and residuals smoothed around each point.

With e = y - g the residuals of a start g and w_j(x) the kernel's weights, none left out,

    R(x) = g(x) + sum_j w_j(x) e_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riskalign.bandwidth.choosing import choose
from riskalign.bandwidth.coordinates import (
    FLATTENINGS,
    OFFSET,
    Choice,
    like,
    onto_simplex,
    spread,
    values_of,
    with_residuals,
)
from riskalign.bandwidth.search import Search, risk_alignment
from riskalign.data.sample import Problem, Sample, on_simplex, reduce
from riskalign.equations.arrays import FloatArray, floored_log, row_dot, row_sum
from riskalign.equations.kernels import DIRICHLET, Kernel
from riskalign.equations.losses import KL, L2
from riskalign.equations.starts import Start, powered
from riskalign.methods.residuals import BATCH
from riskalign.smoothing import always, choose_smoother
from riskalign.smoothing.squared import SquaredKernel

FLATTEST = 0.01
"""Least power of a start: a model that knows nothing has one about 0."""

RARE = 20
"""Samples below which a class has no curve of its own: what is smoothed would be noise."""

ENGINE = {"binary": "auto", "classwise": "grid", "canonical": "auto"}
"""How calibrators sum: many small problems cost less on nodes than exactly."""


def align(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: str,
    power: float = 2.0,
    progress: bool | None = None,
) -> list[Choice]:
    """Bandwidth and coordinates f^tau by risk alignment, tau among `FLATTENINGS`.

    One bandwidth cannot serve the middle of the simplex and predictions that crowd its
    corners, so that risk alignment over-smooths those; in their own coordinates it does not.
    """
    choices = []
    for first in range(0, len(problems), BATCH):
        batch = problems[first : first + BATCH]
        located = [
            replace(problem, predictions=like(problem, powered(problem.points, tau)))
            for tau in FLATTENINGS
            for problem in batch
        ]
        smoother = choose_smoother(located, kernel, engine)
        # The smoother sees the coordinates, the criterion the predictions themselves.
        search = Search(
            list(batch) * len(FLATTENINGS), smoother, kernel, risk_alignment(power), progress
        )
        curves = search.continuous()
        for k in range(len(batch)):
            own = zip(FLATTENINGS, curves[k :: len(batch)], strict=True)
            tau, curve = min(own, key=lambda pair: float(pair[1].objective.min()))
            choices.append(Choice(curve.value, tau, replace(curve, flattening=tau)))
    return choices


def choose_by_risk(
    problems: Sequence[Problem],
    starts: Sequence[FloatArray],
    kernel: Kernel,
    engine: str,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
) -> list[Choice]:
    """Bandwidth and coordinates by the leave-one-out risk of R."""
    choices = []
    for first in range(0, len(problems), BATCH):
        some = slice(first, first + BATCH)
        choices += choose(problems[some], starts[some], kernel, engine, candidates, progress)
    return choices


def smoothed_at(
    problem: Problem,
    start: FloatArray,
    choice: Choice,
    points: FloatArray,
    kernel: Kernel,
    engine: str,
) -> FloatArray:
    """Residuals y - start ``(n, K)``, smoothed at points of the simplex, ``(m, K)`` each."""
    located = with_residuals(problem, start, choice.flattening)
    smoother = choose_smoother([located], kernel, engine, values_of)
    average = smoother.at((0, choice.bandwidth), powered(points, choice.flattening))
    return spread(problem, average.mean - OFFSET)


def smoothed_left_out(
    problem: Problem, start: FloatArray, choice: Choice, kernel: Kernel, engine: str
) -> FloatArray:
    """Residuals smoothed at the samples themselves ``(n, K)``, each left out of its own."""
    located = with_residuals(problem, start, choice.flattening)
    smoother = choose_smoother([located], kernel, engine, values_of)
    smoothed = np.empty_like(start)
    parts = smoother.each([(0, choice.bandwidth)], always(lambda average: average.mean))
    for _, rows, mean in parts:
        smoothed[rows] = spread(problem, mean - OFFSET)
    return smoothed


@dataclass(frozen=True)
class Recalibration:
    """A map from predictions to R, learnt from a sample.

    R = g + s q, kept on the simplex: g is f at its temperature, q its smoothed residuals,
    and s in [0, 1] the share of q that pays off on samples left out.

    Attributes
    ----------
    sample : what the map was learnt from
    notion : "binary", "classwise" or "canonical"
    exponent : g is f to this power, renormalised
    choices : bandwidth and coordinates, one a problem of the notion; None where q is 0
    shrinkage : s
    """

    sample: Sample
    notion: str
    exponent: float
    choices: Sequence[Choice | None]
    shrinkage: float

    @classmethod
    def fit(
        cls, sample: Sample, notion: str, start: str, bandwidth: FloatArray | None = None
    ) -> Recalibration:
        """Learn the map; bandwidths are found by risk alignment unless given."""
        whole = Problem("all", sample.probabilities, sample.labels, sample.weights, KL)
        choices = _choices(reduce(sample, notion, L2), notion, bandwidth)
        plain = cls(sample, notion, _exponent(whole, start), choices, 1.0)
        g = powered(sample.probabilities, plain.exponent)
        q = plain._smooth(sample.probabilities, left_out=True)
        size = float(sample.weights @ row_dot(q, q))
        gain = float(sample.weights @ row_dot(whole.one_hot() - g, q))
        return replace(plain, shrinkage=min(max(gain / size, 0.0), 1.0) if size > 0 else 0.0)

    def __call__(self, f: FloatArray) -> FloatArray:
        """R at predictions ``(m, K)``."""
        q = self._smooth(f, left_out=False)
        return onto_simplex(powered(f, self.exponent), self.shrinkage * q)

    def _smooth(self, f: FloatArray, *, left_out: bool) -> FloatArray:
        """Smoothed residuals of g at f ``(m, K)``; `left_out` if f is the sample's own."""
        q = np.zeros_like(f)
        points = _views(f, self.notion)
        starts = _views(powered(self.sample.probabilities, self.exponent), self.notion)
        problems, engine = reduce(self.sample, self.notion, L2), ENGINE[self.notion]
        for k, choice in enumerate(self.choices):
            if choice is None:
                continue
            if left_out:
                own = smoothed_left_out(problems[k], starts[k], choice, DIRICHLET, engine)
            else:
                own = smoothed_at(problems[k], starts[k], choice, points[k], DIRICHLET, engine)
            if self.notion != "classwise":
                return own
            q[:, k] = own[:, 1]
        return q


def _exponent(problem: Problem, start: str) -> float:
    """The power of f that a start is; above 0, so that no ranks are turned round."""
    if start == "identity":
        return 1.0
    return max(float(Start.fit(problem, start).parameters[0]), FLATTEST)


def _choices(
    problems: Sequence[Problem], notion: str, bandwidth: FloatArray | None
) -> list[Choice | None]:
    """Bandwidths given, or by risk alignment; none for classes too rare to be smoothed."""
    many = [notion != "classwise" or problem.labels.sum() >= RARE for problem in problems]
    if bandwidth is not None:
        given = np.broadcast_to(bandwidth, len(problems)).tolist()
        return [Choice(h) if enough else None for h, enough in zip(given, many, strict=True)]
    aligned = iter(
        align(
            [problem for problem, enough in zip(problems, many, strict=True) if enough],
            DIRICHLET,
            ENGINE[notion],
            progress=False,
        )
    )
    return [next(aligned) if enough else None for enough in many]


def _views(f: FloatArray, notion: str) -> list[FloatArray]:
    """What each problem of a notion sees of predictions ``(m, K)``: points of a simplex."""
    return [on_simplex(column) for column in f.T] if notion == "classwise" else [f]


@dataclass(frozen=True)
class Support:
    """What averages at some points rest on, ``(m,)`` each.

    Attributes
    ----------
    density : the kernel density of the predictions
    effective : (sum_j w_j)^2 / sum_j w_j^2, how many samples share the average
    nearby : sum_j w_j / k_h(x; x), samples counted by how close they are
    """

    density: FloatArray
    effective: FloatArray
    nearby: FloatArray

    @classmethod
    def of_sums(
        cls,
        log_weights: FloatArray,
        log_squares: FloatArray,
        choice: Choice,
        points: FloatArray,
        kernel: Kernel,
        weights: tuple[float, float],
    ) -> Support:
        """From logarithms of sums of weights, and of their squares, at points ``(m, K)``.

        `weights` holds the total and the mean of the samples' own weights.
        """
        h, flattening = choice.bandwidth, choice.flattening
        x = powered(points, flattening)
        peak = kernel.scale(h) * row_dot(kernel.queries(x), x)
        peak += kernel.key_bias(x, h) + kernel.query_bias(x, h)
        # The flattened simplex is stretched by a factor, and with it the density.
        stretch = (x.shape[1] - 1) * np.log(flattening)
        stretch += row_sum(floored_log(x)) - row_sum(floored_log(points))
        total, mean = weights
        return cls(
            np.exp(log_weights + stretch) / total,
            np.exp(2 * log_weights - log_squares),
            np.exp(log_weights - peak) / mean,
        )


def support_at(
    problem: Problem, choice: Choice, points: FloatArray, kernel: Kernel, engine: str
) -> Support:
    """The samples behind an average at points ``(m, K)``."""
    h, flattening = choice.bandwidth, choice.flattening
    x = powered(points, flattening)
    located = with_residuals(problem, problem.points, flattening)

    def log_sum(power: int, kernel: Kernel) -> FloatArray:
        raised = replace(located, weights=problem.weights**power)
        smoother = choose_smoother([raised], kernel, engine, values_of)
        return smoother.at((0, h), x).log_density + np.log(raised.weights.sum())

    of_weights, of_squares = log_sum(1, kernel), log_sum(2, SquaredKernel(kernel))
    weights = (float(problem.weights.sum()), float(problem.weights.mean()))
    return Support.of_sums(of_weights, of_squares, choice, points, kernel, weights)
