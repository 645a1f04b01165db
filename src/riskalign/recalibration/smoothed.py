"""Residuals of a start smoothed by kernels, as functions that can be read anywhere and stored.

With e = y - g the residuals of a start g and w_j(x) the kernel's weights, q(x) = sum_j w_j(x) e_j.
`Curves` smooths over each class's own probability; q is a curve per class, which is tabulated.
`Joint` smooths over the whole vector of probabilities, and keeps the sample for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from riskalign.data.limits import announce_pairs
from riskalign.data.notions import CANONICAL, default_notion
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import LOG_ODDS_END, log_odds, mirrored, on_simplex
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother

TABULATED = 2_001
"""Points at which a curve is tabulated, evenly spaced in log-odds: 0.02 apart, a fifth of the
width of the narrowest kernel that is tried."""

RARE = 20
"""Rows of a class below which it has no curve: what is smoothed would be noise."""

MOST_CURVES = 30
"""Classes up to which curves are smoothed."""


class Residuals(Protocol):
    """Smoothed residuals q, ready to be read."""

    def __call__(self, f: FloatArray) -> FloatArray:
        """Q at predictions ``(m, K)``, as ``(m, K)``."""


class Smoothing(Protocol):
    """Residuals of a sample that can be smoothed by any tuning."""

    @property
    def tunings(self) -> Sequence[Tuning]:
        """The tunings that are tried."""

    def left_out(self, tunings: Sequence[Tuning]) -> Iterator[FloatArray]:
        """Q at the sample's rows, each left out of its own average, ``(n, K)`` per tuning."""

    def fixed(self, tuning: Tuning) -> Residuals:
        """Q by one tuning."""


@dataclass(frozen=True)
class Curves:
    """A curve per class, tabulated in log-odds; one curve for two classes.

    Attributes
    ----------
    values : (P, `TABULATED`), q of the outcome 1 of each problem
    """

    values: FloatArray

    def __call__(self, f: FloatArray) -> FloatArray:
        """Q at predictions ``(m, K)``, by linear interpolation."""
        grid = np.linspace(-LOG_ODDS_END, LOG_ODDS_END, self.values.shape[1])
        columns = f[:, 1:] if len(self.values) == 1 else f
        q = np.zeros(columns.shape)
        for k, curve in enumerate(self.values):
            if curve.any():
                q[:, k] = np.interp(log_odds(columns[:, k]), grid, curve)
        return mirrored(q)


class ClasswiseSmoothing:
    """Residuals smoothed over each class's own probability, by one tuning for all classes."""

    tunings = tuple(
        Tuning(h, tau) for tau in (1.0, 0.5, 0.25) for h in (0.16 / 2.0 ** np.arange(7)).tolist()
    )

    def __init__(self, sample: Sample, residuals: FloatArray) -> None:
        n_classes = sample.probabilities.shape[1]
        notion = default_notion(n_classes)
        problems = notion.problems(sample, L2)
        counts = np.bincount(sample.labels, minlength=n_classes)
        common = counts >= RARE if n_classes <= MOST_CURVES else np.zeros(n_classes, dtype=bool)
        kept = [0] if n_classes == 2 else np.flatnonzero(common).tolist()
        self._n_problems, self._kept = len(problems), kept
        self._problems: list[Problem] = [problems[k] for k in kept]
        columns = residuals[:, 1:] if n_classes == 2 else residuals
        self._values = {i: columns[:, k : k + 1] for i, k in enumerate(kept)}
        self._smoother: Smoother | None = None
        if kept:
            engine = "auto" if len(residuals) <= TINY else "grid"
            self._smoother = choose_smoother(self._problems, DIRICHLET, engine)

    def left_out(self, tunings: Sequence[Tuning]) -> Iterator[FloatArray]:
        """See `Smoothing.left_out`."""
        if self._smoother is None:
            return
        for found in self._smoother.averages(self._values, tunings):
            q = np.zeros((len(found[0]), self._n_problems))
            for i, k in enumerate(self._kept):
                q[:, k] = found[i][:, 0]
            yield mirrored(q)

    def fixed(self, tuning: Tuning) -> Curves:
        """See `Smoothing.fixed`."""
        grid = np.linspace(-LOG_ODDS_END, LOG_ODDS_END, TABULATED)
        points = on_simplex(1 / (1 + np.exp(-grid)))
        values = np.zeros((self._n_problems, TABULATED))
        for i, k in enumerate(self._kept):
            assert self._smoother is not None
            found, _ = self._smoother.averages_at(self._values[i], (i, tuning), points)
            values[k] = found[:, 0]
        return Curves(values)


@dataclass(frozen=True)
class Joint:
    """Residuals smoothed over the whole vector of probabilities.

    Attributes
    ----------
    predictions, residuals : (n, K)
    weights : (n,)
    tuning : how they are smoothed
    """

    predictions: FloatArray
    residuals: FloatArray
    weights: FloatArray
    tuning: Tuning

    def __call__(self, f: FloatArray) -> FloatArray:
        """Q at predictions ``(m, K)``: sums over all pairs of rows."""
        labels = np.zeros(len(self.predictions), dtype=np.intp)
        problem = Problem("all classes", self.predictions, labels, self.weights, L2)
        smoother = choose_smoother([problem], DIRICHLET)
        q, _ = smoother.averages_at(self.residuals, (0, self.tuning), f)
        return q


class JointSmoothing:
    """Residuals smoothed over the whole vector."""

    tunings = tuple(Tuning(h, tau) for tau in (1.0, 0.5) for h in (0.08, 0.04, 0.02, 0.01))

    def __init__(self, sample: Sample, residuals: FloatArray) -> None:
        self._sample, self._residuals = sample, residuals
        self._smoother = choose_smoother(CANONICAL.problems(sample, L2), DIRICHLET)

    def left_out(self, tunings: Sequence[Tuning]) -> Iterator[FloatArray]:
        """See `Smoothing.left_out`."""
        n, n_classes = self._residuals.shape
        cure = "Fewer rows, `notion='classwise'` or one `bandwidth` take less."
        announce_pairs(n, len(tunings), 2 * n_classes * len(tunings), cure)
        for found in self._smoother.averages({0: self._residuals}, tunings):
            yield found[0]

    def fixed(self, tuning: Tuning) -> Joint:
        """See `Smoothing.fixed`."""
        sample = self._sample
        return Joint(sample.probabilities, self._residuals, sample.weights, tuning)
