"""Calibration errors of samples too large to hold, from batches that are read twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from riskalign.bandwidth.coordinates import FLATTENINGS, OFFSET, Part
from riskalign.batch_smoothing import BatchSmoothing
from riskalign.composition import Case, binary_summary
from riskalign.data.sample import NOTIONS, Sample, on_simplex, reduce
from riskalign.data.validation import one_of
from riskalign.debiasing import DEBIASED
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import ProperLoss
from riskalign.equations.starts import STARTS, powered
from riskalign.equations.terms import ESTIMATORS, decompose
from riskalign.gathering import Batches, Gathering, Rows, Starts, gather
from riskalign.inference.interval import Chance, Fit, null_moments
from riskalign.methods.curve import ReliabilityCurve, assemble, shown_of
from riskalign.methods.method import Bandwidth, Candidates, KernelSmoother
from riskalign.methods.recalibration import Support
from riskalign.methods.residuals import combine
from riskalign.options import (
    check_confidence,
    make_case,
)
from riskalign.results import CONFIDENCE, CalibrationResult, Overconfidence
from riskalign.totals import RowTerms, Totals


def calibration_error_of_batches(
    batches: Batches,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    estimator: str = DEBIASED,
    bandwidth: Bandwidth | None = None,
    kernel: str = "dirichlet",
    candidates: Candidates = None,
    power: float = 2,
    start: str = "logistic",
    confidence: float | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    classes: Sequence[object] | None = None,
    progress: bool | None = None,
) -> CalibrationResult:
    """Estimate a calibration error from batches of rows, never holding them all.

    The estimate is that of `calibration_error` for binary, top-label and class-wise errors.
    The bandwidth is chosen by random rows (400,000 probabilities, at least 4,096 rows), each
    smoothed over all, and serves all rows: folds that choose for each other would have to be
    read again.

    Parameters
    ----------
    batches : iterable of pairs (y_true, y_prob)
        Read twice: a list, or an object whose ``__iter__`` begins anew. Each pair is as for
        `calibration_error`.
    notion : {"binary", "top-label", "classwise"}, optional
        Default: "binary" for one probability, else "classwise".
    others
        As for `calibration_error`.

    Returns
    -------
    CalibrationResult
        Without `conditional`, which would be as large as the sample.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.streaming import calibration_error_of_batches
    >>> data = ra.datasets.temperature(3000, 3, seed=0)
    >>> rows = [slice(0, 1000), slice(1000, 3000)]
    >>> batches = [(data.y_true[some], data.y_prob[some]) for some in rows]
    >>> result = calibration_error_of_batches(batches, estimator="plugin", bandwidth=0.02)
    >>> whole = ra.calibration_error(
    ...     data.y_true, data.y_prob, estimator="plugin", bandwidth=0.02
    ... )
    >>> bool(abs(result.value / whole.value - 1) < 1e-4)
    True
    """
    one_of("estimator", estimator, (*ESTIMATORS, DEBIASED))
    one_of("start", start, STARTS)
    one_of("kernel", kernel, KERNELS)
    method = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start)
    check_confidence(confidence, method)
    rows = Rows(batches, from_logits, normalize, classes)
    return Stream.read(rows, notion, loss, method, progress=progress).result(confidence)


def _case(sample: Sample, notion: str | None, loss: str | ProperLoss) -> Case:
    if notion is None:
        notion = "binary" if len(sample.classes) == 2 else "classwise"
    if one_of("notion", notion, NOTIONS) == "canonical":
        raise ValueError(
            "`notion='canonical'` needs all rows at once. Use 'top-label' or 'classwise', or pass "
            "a random part of the rows to `calibration_error`."
        )
    return make_case(sample, notion, loss)


@dataclass(frozen=True)
class Stream:
    """A sample that was read once, ready to be smoothed; see `Stream.read`."""

    gathering: Gathering
    method: KernelSmoother
    smoothing: BatchSmoothing

    @classmethod
    def read(
        cls,
        rows: Rows,
        notion: str | None,
        loss: str | ProperLoss,
        method: KernelSmoother,
        visit: Callable[[Sample], None] = lambda sample: None,
        progress: bool | None = None,
    ) -> Stream:
        """Read all rows once; `visit` sees every batch."""
        residual = method.estimator == DEBIASED
        flattenings = FLATTENINGS if residual else FLATTENINGS[:1]
        kernel = KERNELS[method.kernel]
        to_case = partial(_case, notion=notion, loss=loss)
        gathering = gather(rows, to_case, kernel, flattenings, visit)
        return cls(gathering, method, BatchSmoothing(gathering, method, progress))

    def _terms(self, sample: Sample) -> Iterator[RowTerms]:
        """Terms of every problem at some rows."""
        case = self.gathering.case
        problems = reduce(sample, case.notion, case.loss)
        if self.method.estimator != DEBIASED:
            averages = self.smoothing.averages(self.smoothing.smoothers[0], problems)
            for problem, average in zip(problems, averages, strict=True):
                of = decompose(problem.loss, problem.points, problem.labels, average.mean)
                value = getattr(of, self.method.estimator)
                R = average.mean[:, 1]
                yield RowTerms(value, of.risk, of.refinement, of.reconstructed_risk, R)
            return
        for k, (problem, rows) in enumerate(
            zip(problems, self.smoothing.smoothed(problems), strict=True)
        ):
            found = combine(
                problem,
                rows.start,
                rows.slopes,
                rows.averages,
                rows.share,
                self.smoothing.choices[k],
                self.smoothing.noises[k],
            )
            refinement = found.risk - found.terms
            yield RowTerms(
                found.terms,
                found.risk,
                refinement,
                found.reconstructed_risk,
                found.conditional,
                found,
            )

    def result(self, confidence: float | None = None) -> CalibrationResult:
        """The estimate; rows are read a second time."""
        gathering, case = self.gathering, self.gathering.case
        totals = Totals(len(case.problems))
        for sample in gathering.rows:
            totals.add(sample, case, list(self._terms(sample)))
        n = gathering.n
        values, risk, refinement, reconstructed, gaps = totals.per_problem / n
        value = float(values.sum())
        chance = None
        if confidence is not None:
            rate = totals.variance / (n * totals.plugin) if totals.plugin > 0 else 0.0
            bias, noise = self._null_moments()
            chance = Chance(noise, rate, totals.put_back / n, bias)
        binary = None
        if case.notion == "binary" and self.method.estimator == DEBIASED:
            (recalibration,) = Starts(gathering, "logistic").fitted
            binary = binary_summary(totals.observed, recalibration, confidence)
        bandwidths = np.array([choice.bandwidth for choice in self.smoothing.choices])
        classwise = case.notion == "classwise"
        return CalibrationResult(
            value=value,
            risk=float(risk.sum()),
            refinement=float(refinement.sum()),
            reconstructed_risk=float(reconstructed.sum()),
            bandwidth=bandwidths if classwise else float(bandwidths[0]),
            per_class=values if classwise else None,
            search=self.smoothing.search,
            overconfidence=Overconfidence(
                gaps,
                totals.top_gap / n,
                totals.observed.gap,
                totals.observed.gap_error,
                CONFIDENCE if confidence is None else confidence,
            ),
            conditional=None,
            notion=case.notion,
            loss=case.loss.name,
            estimator=self.method.estimator,
            kernel=gathering.kernel.name,
            definition=case.over_problems(f"mean {case.divergence}"),
            classes=case.sample.classes,
            n_samples=n,
            standard_error=None if chance is None else chance.standard_error(value),
            interval=None
            if chance is None or confidence is None
            else chance.interval(value, confidence),
            confidence=confidence,
            binary=binary,
        )

    def curve(self, grid: FloatArray) -> ReliabilityCurve:
        """R and its support at probabilities ``(m,)``; no row is left out."""
        gathering, x = self.gathering, on_simplex(grid)
        smoother, squared = self.smoothing.smoothers
        R, supports = [], []
        for k, choice in enumerate(self.smoothing.choices):
            at = powered(x, choice.flattening)
            average = smoother.at((k, choice.bandwidth), at)
            of_squares = squared.at((k, choice.bandwidth), at).log_density
            if self.method.estimator == DEBIASED:
                q = average.mean[:, :1] - OFFSET
                start = self.smoothing.starts.fitted[k].at(x)
                R.append(shown_of(start, np.concatenate([-q, q], axis=1)))
            else:
                R.append(average.mean)
            n, log_n = float(gathering.n), np.log(gathering.n)
            sums = (average.log_density + log_n, of_squares + log_n)
            supports.append(Support.of_sums(*sums, choice, x, gathering.kernel, (n, 1.0)))
        return assemble(gathering.case, grid, self.smoothing.choices, R, supports)

    def _null_moments(self) -> tuple[float, float]:
        """The noise of the smoother, from the rows that are held."""
        case = self.gathering.case
        fit = Fit(
            case.sample,
            case.notion,
            case.loss,
            case.problems,
            [],
            [Part(None, self.smoothing.choices)],
            self.gathering.kernel,
            "auto",
            self.method.start,
        )
        return null_moments([fit], [1.0], self.gathering.n)
