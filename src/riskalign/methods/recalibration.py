"""Recalibration: a map from predictions to R, a start and the residuals smoothed around each point.

With e = y - g the residuals of a start g and w_j(x) the kernel's weights, none left out,

    R(x) = g(x) + s sum_j w_j(x) e_j,

where the shrinkage s is fitted to the residuals smoothed at the samples, each left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riskalign.bandwidth.search import align
from riskalign.data.notions import NOTIONS, Notion
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, row_dot
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import KL, L2
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import mirrored, on_simplex, onto_simplex, tempered
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.smoothing import Smoother, Tuning, choose_smoother

FLATTEST = 0.01
"""Least power of a start: a model that knows nothing has one about 0."""

RARE = 20
"""Samples below which a class has no curve of its own: what is smoothed would be noise."""


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
    tunings : bandwidth and coordinates, one per problem of the notion; None where q is 0
    shrinkage : s
    """

    sample: Sample
    notion: str
    exponent: float
    tunings: Sequence[Tuning | None]
    shrinkage: float

    @classmethod
    def fit(
        cls, sample: Sample, notion: str, start: str, bandwidth: FloatArray | None = None
    ) -> Recalibration:
        """Learn the map; bandwidths are found by risk alignment unless given."""
        whole = Problem("all", sample.probabilities, sample.labels, sample.weights, KL)
        exponent = _exponent(whole, start)
        plain = cls(sample, notion, exponent, _tunings(sample, NOTIONS[notion], bandwidth), 1.0)
        q = np.zeros_like(sample.probabilities)
        for k, tuning, own in plain._smoothed():
            (smoothed,) = plain._smoother.averages({k: own}, [tuning])
            plain._put(q, k, smoothed[k])
        g = tempered(sample.probabilities, exponent)
        size = float(sample.weights @ row_dot(q, q))
        gain = float(sample.weights @ row_dot(whole.one_hot() - g, q))
        return replace(plain, shrinkage=min(max(gain / size, 0.0), 1.0) if size > 0 else 0.0)

    def __call__(self, f: FloatArray) -> FloatArray:
        """R at predictions ``(m, K)``."""
        q = np.zeros_like(f)
        columns = NOTIONS[self.notion].columns(f)
        for k, tuning, own in self._smoothed():
            points = f if NOTIONS[self.notion].joint else on_simplex(columns[:, k])
            smoothed, _ = self._smoother.averages_at(own, (k, tuning), points)
            self._put(q, k, smoothed)
        return onto_simplex(tempered(f, self.exponent), self.shrinkage * q)

    @cached_property
    def _problems(self) -> list[Problem]:
        return NOTIONS[self.notion].problems(self.sample, L2)

    @cached_property
    def _smoother(self) -> Smoother:
        # Many small problems cost less on nodes than exactly.
        engine = "grid" if len(self._problems) > 1 else "auto"
        return choose_smoother(self._problems, DIRICHLET, engine)

    def _smoothed(self) -> Iterator[tuple[int, Tuning, FloatArray]]:
        """The problems that are smoothed: number, tuning, residuals ``(n, d)``."""
        g = tempered(self.sample.probabilities, self.exponent)
        columns = NOTIONS[self.notion].columns(g)
        for k, (problem, tuning) in enumerate(zip(self._problems, self.tunings, strict=True)):
            if tuning is not None:
                start = columns[:, k : k + 1] if problem.one_dimensional else g
                yield k, tuning, problem.columns() - start

    def _put(self, q: FloatArray, k: int, smoothed: FloatArray) -> None:
        """Set what problem k says of the smoothed residuals q ``(m, K)`` of all classes."""
        if NOTIONS[self.notion].per_class:
            q[:, k] = smoothed[:, 0]
        else:
            q[:] = mirrored(smoothed)


def _exponent(problem: Problem, start: str) -> float:
    """The power of f that a start is; above 0, so that no ranks are turned round."""
    if start == "identity":
        return 1.0
    return max(float(FittedStart.of(problem, STARTS[start]).parameters[0]), FLATTEST)


def _tunings(sample: Sample, notion: Notion, bandwidth: FloatArray | None) -> list[Tuning | None]:
    """Bandwidths given, or by risk alignment; none for classes too rare to be smoothed."""
    problems = notion.problems(sample, L2)
    many = [not notion.per_class or problem.labels.sum() >= RARE for problem in problems]
    if bandwidth is not None:
        given = np.broadcast_to(bandwidth, len(problems)).tolist()
        return [Tuning(h) if enough else None for h, enough in zip(given, many, strict=True)]
    frequent = [problem for problem, enough in zip(problems, many, strict=True) if enough]
    if not frequent:
        return [None] * len(problems)
    engine = "grid" if notion.per_class else "auto"
    curves = iter(align(frequent, DIRICHLET, engine, progress=False))
    aligned = (Tuning(curve.value, curve.flattening) for curve in curves)
    return [next(aligned) if enough else None for enough in many]
