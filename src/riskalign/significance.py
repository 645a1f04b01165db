"""Whether a model is calibrated at all: a test whose label sets are drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from riskalign.bandwidth.coordinates import KEPT_SHARE, Valued, onto_simplex, values_of
from riskalign.composition import Case
from riskalign.data.sample import Problem, on_simplex
from riskalign.data.validation import as_sample, one_of
from riskalign.equations.arrays import FloatArray, LabelArray, row_dot
from riskalign.equations.kernels import KERNELS, Kernel
from riskalign.equations.losses import ProperLoss
from riskalign.inference.interval import draw_labels, outcomes_of
from riskalign.options import default_notion, make_case
from riskalign.progress import track
from riskalign.smoothing import ENGINES, always, choose_smoother
from riskalign.smoothing.linear import LinearSmoother

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


def calibration_test(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    n_draws: int = 999,
    seed: int = 0,
    kernel: str = "dirichlet",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    progress: bool | None = None,
) -> CalibrationTest:
    """Test whether the labels could have been drawn from the predictions.

    The mean of <y - f, l(f) - l(R)>, with R = f + smoothed residuals, is compared with that
    of label sets drawn from the predictions, at five bandwidths from wide to narrow. Nothing
    else depends on the labels, the bandwidths neither: the size is exact for any number of
    samples and classes. The null hypothesis is y ~ f, whatever the notion, which decides what
    departures are looked for: a model that is calibrated class by class but not as a whole
    may be rejected, and may be missed.

    Parameters
    ----------
    n_draws : int
        Label sets drawn. The smallest p-value is 1 / (n_draws + 1).
    seed : int
        Seed of the draws.
    others
        As for `calibration_error`.

    Returns
    -------
    CalibrationTest

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(1000, 3, t2=0.6, seed=0)
    >>> test = ra.calibration_test(data.y_true, data.y_prob, n_draws=99)
    >>> test.p_value
    0.01
    """
    if not isinstance(n_draws, int) or n_draws < 1:
        raise ValueError(f"`n_draws` must be a positive integer; found {n_draws!r}.")
    sample = as_sample(
        y_true,
        y_prob,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        ignore_index=ignore_index,
        classes=classes,
    )
    case = make_case(sample, default_notion(notion, y_prob), loss)
    chosen = KERNELS[one_of("kernel", kernel, KERNELS)]
    one_of("engine", engine, ENGINES)
    generator = np.random.default_rng(seed)
    bandwidths = SCALES * chosen.bandwidth_range(case.problems[0].n_classes)[1]
    averages = [
        [_averages(problem, chosen, h, engine) for problem in case.problems]
        for h in bandwidths.tolist()
    ]
    statistics = _statistics(case, averages, n_draws, generator, progress)
    observed, drawn = statistics[0], statistics[1:]
    return CalibrationTest(
        p_value=float((1 + np.count_nonzero(drawn >= observed)) / (1 + n_draws)),
        statistic=float(observed),
        n_draws=n_draws,
        bandwidths=bandwidths,
        notion=case.notion,
        loss=case.loss.name,
        n_samples=len(sample.labels),
    )


Averages = Callable[[FloatArray], FloatArray]
"""From columns of values to their leave-one-out averages, ``(n, B)`` both."""


def _averages(problem: Problem, kernel: Kernel, h: float, engine: str) -> Averages:
    if problem.predictions.ndim == 1 and engine != "exact":
        return LinearSmoother.of(problem, kernel, h).averages

    def by_pairs(values: FloatArray) -> FloatArray:
        carrier = Valued.of(problem, 1.0, values)
        smoother = choose_smoother([carrier], kernel, engine, values_of)
        result = np.empty_like(values)
        for _, rows, mean in smoother.each([(0, h)], always(lambda average: average.mean)):
            result[rows] = mean
        return result

    return by_pairs


def _gains(problem: Problem, labels: LabelArray, averages: Averages) -> FloatArray:
    """Weighted sums of <y - f, l(f) - l(R)> for label sets ``(n, B)``: for l2, 2 <e, W e>."""
    f, n_sets = problem.points, labels.shape[1]
    if problem.predictions.ndim == 1:
        e = labels - problem.predictions[:, None]  # (n, B)
        p = f[:, 1:]
        R = np.clip(p + averages(e), KEPT_SHARE * p, 1 - KEPT_SHARE * (1 - p))
        gain = np.repeat(problem.loss(f), n_sets, axis=0)
        gain -= problem.loss(on_simplex(R.ravel()))
        rows = e * (gain[:, 1] - gain[:, 0]).reshape(e.shape)
    else:
        y = labels[:, :, None] == np.arange(f.shape[1])  # (n, B, K)
        e = (y - f[:, None]).reshape(len(f), -1)  # (n, B K)
        start = np.repeat(f, n_sets, axis=0)  # (n B, K)
        R = onto_simplex(start, averages(e).reshape(start.shape))
        gain = problem.loss(start) - problem.loss(R)
        rows = row_dot(e.reshape(start.shape), gain).reshape(labels.shape)
    sums: FloatArray = problem.weights @ rows
    return sums


def _statistics(
    case: Case,
    averages: Sequence[Sequence[Averages]],
    n_draws: int,
    generator: np.random.Generator,
    progress: bool | None,
) -> FloatArray:
    """Of the observed and the drawn label sets, ``(1 + n_draws,)``.

    Each scale is standardised over all sets, the observed one among them, so that none is
    treated differently; then the largest scale counts.
    """
    sample = case.sample
    values = []
    starts = range(0, n_draws + 1, DRAWS_AT_ONCE)
    for start in track(((1, start) for start in starts), len(starts), "label sets", progress):
        count = min(DRAWS_AT_ONCE, n_draws + 1 - start)
        labels = draw_labels(sample.probabilities, count, generator)
        if start == 0:
            labels[:, 0] = sample.labels
        outcomes = outcomes_of(sample, case.notion, case.loss, labels)
        gains = [list(map(_gains, case.problems, outcomes, scale)) for scale in averages]
        values.append(np.sum(gains, axis=1))  # (5, count)
    table: FloatArray = np.concatenate(values, axis=1)  # (5, 1 + n_draws)
    spread = table.std(axis=1, keepdims=True)
    centred = table - table.mean(axis=1, keepdims=True)
    standardised = np.divide(centred, spread, out=np.zeros_like(table), where=spread > 0)
    highest: FloatArray = standardised.max(axis=0)
    return highest
