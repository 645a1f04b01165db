"""Whether a model is calibrated at all: a test whose label sets are drawn from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from riskalign.data.case import Case
from riskalign.data.notions import Notion
from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray, row_dot
from riskalign.equations.kernels import Kernel
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import onto_simplex
from riskalign.inference.null import draw_labels, one_per_row
from riskalign.inference.set_statistics import NodeStatistic, terms_of
from riskalign.progress import track
from riskalign.smoothing import TINY, Smoother, Tuning, choose_smoother
from riskalign.smoothing.grid import GridSmoother
from riskalign.smoothing.threads import ordered_map

SCALES: FloatArray = np.array([1, 1 / 4, 1 / 16, 1 / 64, 1 / 256])
"""Shares of the kernel's widest bandwidth that the test looks at, from broad trends to fine
structure. No label has a part in them."""

SETS = 100
"""Label sets that are worked on together: as many as caches hold on nodes."""

TOGETHER = 5_000_000
"""Residuals that are worked on together, 40 MB: of many samples, fewer sets."""

HELD = 10_000_000
"""Drawn labels that are held at once, for all problems to use: 80 MB."""

KEPT = 400_000
"""Rows times problems whose statistics are kept while more labels are drawn: 200 MB."""

MOST = 200_000
"""Samples that are tested if rows stand for several: of more, a random part."""

NUMBERS = 20_000_000
"""Predictions of these samples: of many classes, fewer samples."""

ROUNDING = 1e-9
"""Below this part of a statistic, or of its standard deviation, differences are rounding: those
of equal label sets are."""


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


def perform_test(
    case: Case,
    kernel: Kernel,
    engine: str,
    n_draws: int,
    seed: int,
    progress: bool | None,
    most: int | None = None,
) -> CalibrationTest:
    """The test of a case: its statistic against those of drawn label sets.

    At most `most` samples (by default `MOST`) are tested, a random part where there are more.
    """
    sample = one_per_sample(case.sample, seed, most)
    problems = case.problems
    if sample is not case.sample or not case.complete:
        problems = case.notion.problems(sample, case.loss)
    bandwidths = SCALES * kernel.bandwidth_range(problems[0].n_classes)[1]
    statistics = Statistics(problems, kernel, engine, bandwidths.tolist())
    pieces = sums_of_sets(sample, case.notion, statistics, n_draws, seed)
    table = np.zeros((len(bandwidths), 1 + n_draws))
    for sets, sums in track(pieces, len(problems) * (1 + n_draws), "label sets", progress):
        table[:, sets] += sums
    found = highest(table)
    return CalibrationTest(
        p_value=float(np.mean(found >= found[0] - ROUNDING)),  # the observed set is one of them
        statistic=float(found[0]),
        n_draws=n_draws,
        bandwidths=bandwidths,
        notion=case.notion.name,
        loss=case.loss.name,
        n_samples=len(sample.labels),
    )


def one_per_sample(sample: Sample, seed: int, most: int | None = None) -> Sample:
    """The sample with a row for each of its samples, or for each of a random part of many.

    Labels are drawn for samples, so the observed ones must be those of samples too. The part is
    drawn blindly: evenly spaced samples would have labels in the proportions of the whole, with
    less noise than drawn labels have.
    """
    if sample.sample_weights is None:
        return sample
    counts = np.rint(sample.weights / sample.sample_weights).astype(np.int64)
    ends = np.cumsum(counts)
    most = min(MOST if most is None else most, NUMBERS // sample.probabilities.shape[1])
    if ends[-1] <= most:
        rows = np.repeat(np.arange(len(counts)), counts)
    else:
        generator = np.random.default_rng([seed, 0, 1])  # not one of `sums_of_sets`
        chosen = generator.choice(ends[-1], most, replace=False, shuffle=False)
        rows = np.searchsorted(ends, np.sort(chosen), side="right")
    return one_per_row(sample.take(rows))


class Statistic(Protocol):
    """The statistic of one problem."""

    def sums(self, outcomes: LabelArray) -> FloatArray:
        """Of label sets ``(n, B)`` at every bandwidth, ``(C, B)``."""


@dataclass(frozen=True)
class RowStatistic:
    """The statistic of any problem, row by row: the sum of w_i <y_i - f_i, l(f_i) - l(R_i)>.

    Attributes
    ----------
    number : of the problem in the smoother's group
    """

    number: int
    problem: Problem
    smoother: Smoother
    tunings: Sequence[Tuning]

    def sums(self, outcomes: LabelArray) -> FloatArray:
        """See `Statistic`."""
        f = self.problem.predictions
        if self.problem.one_dimensional:
            residuals = outcomes - f[:, None]
        else:
            y = outcomes[:, :, None] == np.arange(f.shape[1])  # (n, B, K)
            residuals = (y - f[:, None]).reshape(len(f), -1)
        averages = self.smoother.averages({self.number: residuals}, self.tunings)
        terms = (self._terms(outcomes, residuals, each[self.number]) for each in averages)
        return np.stack([self.problem.weights @ each for each in terms])

    def _terms(
        self, outcomes: LabelArray, residuals: FloatArray, smoothed: FloatArray
    ) -> FloatArray:
        """Of all sets, ``(n, B)``, from residuals and smoothed residuals ``(n, B d)``."""
        loss, f = self.problem.loss, self.problem.predictions
        if self.problem.one_dimensional:
            return terms_of(loss, f[:, None], outcomes, f[:, None] + smoothed)
        start = np.repeat(f, outcomes.shape[1], axis=0)  # (n B, K)
        R = onto_simplex(start, smoothed.reshape(start.shape))
        gains = loss(start) - loss(R)
        return row_dot(residuals.reshape(start.shape), gains).reshape(outcomes.shape)


class Statistics:
    """The statistics of all problems.

    Attributes
    ----------
    of : from a problem's number to its statistic
    workers : threads that may ask for sums at once; None for one on each core
    """

    def __init__(
        self, problems: Sequence[Problem], kernel: Kernel, engine: str, bandwidths: Sequence[float]
    ) -> None:
        self.problems = problems
        self._kernel, self._bandwidths = kernel, bandwidths
        self._smoother = choose_smoother(problems, kernel, engine, small=TINY)
        self._on_nodes = isinstance(self._smoother, GridSmoother)
        self.workers = None if self._on_nodes else 1  # row by row, the smoother has threads
        few = sum(len(problem.labels) for problem in problems) <= KEPT
        self.of = lru_cache(maxsize=len(problems) if few else 1)(self._of)

    def _of(self, k: int) -> Statistic:
        if self._on_nodes:
            return NodeStatistic(self.problems[k], self._kernel, self._bandwidths)
        tunings = [Tuning(h) for h in self._bandwidths]
        return RowStatistic(k, self.problems[k], self._smoother, tunings)


def sums_of_sets(
    sample: Sample, notion: Notion, statistics: Statistics, n_draws: int, seed: int
) -> Iterator[tuple[int, tuple[slice, FloatArray]]]:
    """What each problem adds to the statistics of some sets: how many, which, and ``(C, b)``.

    The first set is the observed one. All problems see the same labels.
    """
    n = len(sample.labels)
    width = sample.probabilities.shape[1] if notion.joint else 1
    step = min(SETS, max(1, TOGETHER // (n * width)))
    chunks = [slice(a, min(a + step, 1 + n_draws)) for a in range(0, 1 + n_draws, step)]
    held = max(1, HELD // (n * step))

    def drawn(chunk: slice) -> IntArray:
        generator = np.random.default_rng([seed, chunk.start])
        labels = draw_labels(sample.probabilities, chunk.stop - chunk.start, generator)
        if chunk.start == 0:
            labels[:, 0] = sample.labels
        return labels

    for start in range(0, len(chunks), held):
        some = chunks[start : start + held]
        labels = list(ordered_map(drawn, some))
        for k in range(len(statistics.problems)):
            statistic = statistics.of(k)

            def sums(sets: IntArray, k: int = k, statistic: Statistic = statistic) -> FloatArray:
                return statistic.sums(notion.outcomes(sample.probabilities, sets, k))

            results = ordered_map(sums, labels, statistics.workers)
            for chunk, result in zip(some, results, strict=True):
                yield result.shape[1], (chunk, result)


def highest(table: FloatArray) -> FloatArray:
    """The statistics of all sets, ``(B,)``, from those at each scale ``(C, B)``.

    Each scale is standardised over all sets, the observed one among them, so that none is
    treated differently; then the largest scale counts.
    """
    spread = table.std(axis=1, keepdims=True)
    differs = spread > ROUNDING * np.abs(table).max(axis=1, keepdims=True)
    centred = table - table.mean(axis=1, keepdims=True)
    standardised = np.divide(centred, spread, out=np.zeros_like(table), where=differs)
    largest: FloatArray = standardised.max(axis=0)
    return largest
