"""Whether a model is calibrated at all: a test whose label sets are drawn from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from riskalign.data.case import Case
from riskalign.equations.arrays import FloatArray, LabelArray, row_dot
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, on_simplex, onto_simplex
from riskalign.inference.null import draw_labels
from riskalign.progress import track
from riskalign.smoothing import TINY, Tuning, choose_smoother

SCALES: FloatArray = np.array([1, 1 / 4, 1 / 16, 1 / 64, 1 / 256])
"""Shares of the kernel's widest bandwidth that the test looks at, from broad trends to fine
structure. No label has a part in them."""

DRAWS_AT_ONCE = 50
"""Label sets held at once."""


@dataclass(frozen=True)
class CalibrationTest:
    """The outcome of `calibration_test`.

    Attributes
    ----------
    p_value : the share of label sets drawn from the predictions, the observed one included,
        whose statistic is at least the observed
    statistic : standard deviations by which mean <y - f, l(f) - l(R)>, twice the debiased
        error to first order, exceeds that of drawn labels, where it does so most
    bandwidths : the bandwidths looked at, ``(5,)``

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(400, 3, t2=0.3, seed=0)
    >>> test = ra.calibration_test(data.y_true, data.y_prob, n_draws=99, seed=0)
    >>> test.p_value, test.n_samples, sorted(test.to_dict())[:2]
    (0.01, 400, ['bandwidths', 'loss'])
    """

    p_value: float
    statistic: float
    n_draws: int
    bandwidths: FloatArray
    notion: str
    loss: str
    n_samples: int

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        return asdict(self) | {"bandwidths": self.bandwidths.tolist()}

    def __str__(self) -> str:
        """Two lines."""
        return (
            f"test of calibration, {self.notion}, {self.loss} loss, n = {self.n_samples:,}\n"
            f"  p = {self.p_value:.4g} (statistic {self.statistic:.2f}, {self.n_draws} label sets "
            "drawn from the predictions)"
        )


def tested(
    case: Case, kernel: Kernel, engine: str, n_draws: int, seed: int, progress: bool | None
) -> CalibrationTest:
    """The test of a case: its statistic against those of drawn label sets."""
    bandwidths = SCALES * kernel.bandwidth_range(case.problems[0].n_classes)[1]
    statistics = _statistics(case, kernel, engine, bandwidths, n_draws, seed, progress)
    observed, drawn = statistics[0], statistics[1:]
    return CalibrationTest(
        p_value=float((1 + np.count_nonzero(drawn >= observed)) / (1 + n_draws)),
        statistic=float(observed),
        n_draws=n_draws,
        bandwidths=bandwidths,
        notion=case.notion.name,
        loss=case.loss.name,
        n_samples=len(case.sample.labels),
    )


def _gains(problem: Problem, labels: LabelArray, smoothed: FloatArray) -> FloatArray:
    """Weighted sums of <y - f, l(f) - l(R)> for label sets ``(n, B)``: for l2, 2 <e, W e>.

    `smoothed` holds the smoothed residuals of all sets, ``(n, B d)``.
    """
    f, n_sets = problem.points, labels.shape[1]
    if problem.one_dimensional:
        e = labels - problem.predictions[:, None]  # (n, B)
        p = f[:, 1:]
        R = np.clip(p + smoothed, KEPT_SHARE * p, 1 - KEPT_SHARE * (1 - p))
        gain = np.repeat(problem.loss(f), n_sets, axis=0)
        gain -= problem.loss(on_simplex(R.ravel()))
        rows = e * (gain[:, 1] - gain[:, 0]).reshape(e.shape)
    else:
        e = residuals_of(problem, labels).reshape(-1, f.shape[1])
        start = np.repeat(f, n_sets, axis=0)  # (n B, K)
        R = onto_simplex(start, smoothed.reshape(start.shape))
        gain = problem.loss(start) - problem.loss(R)
        rows = row_dot(e, gain).reshape(labels.shape)
    sums: FloatArray = problem.weights @ rows
    return sums


def residuals_of(problem: Problem, labels: LabelArray) -> FloatArray:
    """y - f of label sets ``(n, B)``, as ``(n, B d)``."""
    if problem.one_dimensional:
        return labels - problem.predictions[:, None]
    y = labels[:, :, None] == np.arange(problem.n_classes)  # (n, B, K)
    return (y - problem.predictions[:, None]).reshape(len(labels), -1)


def _statistics(
    case: Case,
    kernel: Kernel,
    engine: str,
    bandwidths: FloatArray,
    n_draws: int,
    seed: int,
    progress: bool | None,
) -> FloatArray:
    """Of the observed and the drawn label sets, ``(1 + n_draws,)``.

    Each scale is standardised over all sets, the observed one among them, so that none is
    treated differently; then the largest scale counts.
    """
    sample, generator = case.sample, np.random.default_rng(seed)
    smoother = choose_smoother(case.problems, kernel, engine, small=TINY)
    tunings = [Tuning(h) for h in bandwidths.tolist()]
    values = []
    starts = range(0, n_draws + 1, DRAWS_AT_ONCE)
    for start in track(((1, start) for start in starts), len(starts), "label sets", progress):
        count = min(DRAWS_AT_ONCE, n_draws + 1 - start)
        labels = draw_labels(sample.probabilities, count, generator)
        if start == 0:
            labels[:, 0] = sample.labels
        gains = np.zeros((len(tunings), count))
        for k, problem in enumerate(case.problems):
            outcomes = case.notion.outcomes(sample.probabilities, labels, k)
            averages = smoother.averages({k: residuals_of(problem, outcomes)}, tunings)
            for c, smoothed in enumerate(averages):
                gains[c] += _gains(problem, outcomes, smoothed[k])
        values.append(gains)
    table: FloatArray = np.concatenate(values, axis=1)  # (5, 1 + n_draws)
    spread = table.std(axis=1, keepdims=True)
    centred = table - table.mean(axis=1, keepdims=True)
    standardised = np.divide(centred, spread, out=np.zeros_like(table), where=spread > 0)
    highest: FloatArray = standardised.max(axis=0)
    return highest
