"""From what was estimated for each problem to the one result that a user reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincinv, ndtri

from riskalign.data.sample import Problem, Sample, on_simplex, reduce
from riskalign.equations.arrays import FloatArray
from riskalign.equations.losses import L2, ProperLoss
from riskalign.equations.starts import Start
from riskalign.methods.method import CHUNK, Estimate, Method
from riskalign.results import CONFIDENCE, BinarySummary, CalibrationResult, Overconfidence


@dataclass(frozen=True)
class Case:
    """What is asked: the data, the notion with its problems, the loss."""

    sample: Sample
    notion: str
    loss: ProperLoss
    problems: list[Problem]

    @property
    def n_columns(self) -> int:
        """Columns of R: one a problem, or one a class of the only problem."""
        alone = self.notion == "canonical"
        return self.problems[0].n_classes if alone else len(self.problems)

    @property
    def single(self) -> bool:
        """Whether R is one column, shown as a vector."""
        return self.notion in ("binary", "top-label")

    @property
    def divergence(self) -> str:
        """The calibration error of one prediction, in words."""
        return (self.loss if self.notion == "canonical" else self.loss.binary).divergence

    def over_problems(self, each: str) -> str:
        """A definition for one problem, said of all."""
        return f"sum over classes of {each}" if self.notion == "classwise" else each


class GapSums:
    """Sums over rows of one probability f and of its outcome y: what mean(f - y) follows from."""

    def __init__(self) -> None:
        self._rows = 0
        self._first = np.zeros(3)  # of w, w f, w y
        self._second = np.zeros(5)  # of w^2, w^2 f, w^2 y, w^2 f^2, w^2 f y

    def add(self, case: Case, sample: Sample) -> None:
        """Add some rows: the one probability of a binary problem, else that of the top label."""
        notion = "binary" if case.notion == "binary" else "top-label"
        (problem,) = reduce(sample, notion, L2)  # the loss does not matter
        f, y, w = problem.predictions, problem.labels, problem.weights
        self._rows += int(np.count_nonzero(w))
        self._first += [w.sum(), w @ f, w @ y]
        w2 = w**2
        self._second += [w2.sum(), w2 @ f, w2 @ y, w2 @ f**2, w2 @ (f * y)]

    @property
    def mean_prediction(self) -> float:
        """The weighted mean of f."""
        return float(self._first[1] / self._first[0])

    @property
    def frequency(self) -> float:
        """The weighted mean of y."""
        return float(self._first[2] / self._first[0])

    @property
    def gap(self) -> float:
        """The weighted mean of f - y."""
        return self.mean_prediction - self.frequency

    @property
    def gap_error(self) -> float:
        """The standard error of the gap, from the sample variance of f - y.

        The variance is at least that of labels drawn from the predictions, f (1 - f): a few rows
        that are all right vary too little to tell how often such rows are wrong.
        """
        w2, f, y, ff, fy = self._second
        m, n = self.gap, self._rows
        observed = (ff - 2 * fy + y - 2 * m * (f - y) + m**2 * w2) * n / max(n - 1, 1)
        return float(np.sqrt(max(observed, f - ff, 0.0)) / self._first[0])

    def frequency_interval(self, confidence: float) -> tuple[float, float]:
        """The interval of what the labels have as their mean, given the predictions.

        It is the gamma interval of Fay and Feuer for weighted counts, which suits rare classes:
        the mean is `unit` times a count, whose interval is the exact one of a Poisson count. The
        unit is variance over mean, of the labels around predictions that were scaled to their
        frequency; or, if that is larger, of labels drawn from the predictions.
        """
        w2, f, y, ff, fy = self._second / self._first[0] ** 2
        p, frequency, n = self.mean_prediction, self.frequency, self._rows
        scale = frequency / p if p > 0 else 0.0
        units = [w2] if f - ff <= 0 else [(f - ff) / p]
        if frequency > 0:
            units.append((y - 2 * scale * fy + scale**2 * ff) / frequency * n / max(n - 1, 1))
        unit = max(units)
        count, tail = frequency / unit, (1 - confidence) / 2
        low = unit * float(gammaincinv(count, tail)) if count > 0 else 0.0
        return low, unit * float(gammaincinv(count + 1, 1 - tail))


def overconfidence(
    case: Case, conditional: FloatArray, confidence: float | None = None
) -> Overconfidence:
    """Mean of f - R for each column of R, and for the class each row ranks first; mean of f - y.

    Samples for which a method has no R (NaN) are left out of the means of f - R. `confidence` is
    that of the interval of mean(f - y).
    """
    sums = observed(case)
    f, weights = case.sample.probabilities, case.sample.weights
    columns = f if not case.single else case.problems[0].predictions[:, None]
    per_class, top_label, total = np.zeros(case.n_columns), 0.0, 0.0
    for start in range(0, len(weights), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(weights)))
        rows = rows[~np.isnan(conditional[rows]).any(axis=1)]
        R, w = conditional[rows], weights[rows]
        per_class += w @ (columns[rows] - R)
        total += w.sum()
        if case.notion != "top-label":
            R = on_simplex(R[:, 0]) if case.notion == "binary" else R
            top = np.argmax(f[rows], axis=1)
            own = np.arange(len(rows))
            top_label += float(w @ (f[rows, top] - R[own, top]))
    if case.notion == "top-label":
        top_label = float(per_class[0])
    return Overconfidence(
        per_class / total,
        top_label / total,
        sums.gap,
        sums.gap_error,
        CONFIDENCE if confidence is None else confidence,
    )


def binary_summary(sums: GapSums, recalibration: Start, confidence: float | None) -> BinarySummary:
    """One probability on average, and its logistic recalibration."""
    confidence = CONFIDENCE if confidence is None else confidence
    p, frequency = sums.mean_prediction, sums.frequency
    low, high = sums.frequency_interval(confidence)
    slope, intercept = recalibration.parameters.tolist()
    errors = np.sqrt(np.diag(np.linalg.inv(recalibration.information)))
    slope_reach, intercept_reach = (ndtri((1 + confidence) / 2) * errors).tolist()
    return BinarySummary(
        mean_prediction=p,
        frequency=frequency,
        ratio=_ratio(p, frequency),
        ratio_interval=(_ratio(p, high), _ratio(p, low)),
        slope=slope,
        slope_interval=(slope - slope_reach, slope + slope_reach),
        intercept=intercept,
        intercept_interval=(intercept - intercept_reach, intercept + intercept_reach),
        confidence=confidence,
    )


def _ratio(p: float, frequency: float) -> float:
    if frequency > 0:
        return p / frequency
    return math.inf if p > 0 else math.nan


def logistic_recalibration(problem: Problem) -> Start:
    """Slope and intercept, with weights that add up to the effective number of rows.

    That number is (sum w)^2 / sum w^2; the information then is that of so many rows of weight 1.
    """
    weights = problem.weights / problem.weights.max()
    weights = weights * (weights.sum() / (weights @ weights))
    return Start.fit(replace(problem, weights=weights), "logistic", unit=1.0)


def observed(case: Case) -> GapSums:
    """Sums over all rows of a case."""
    sums, weights = GapSums(), case.sample.weights
    sums.add(case, replace(case.sample, weights=weights / weights.max()))
    return sums


def by_method(case: Case, method: Method) -> CalibrationResult:
    """The result of a method that estimates problem by problem."""
    answers: list[Estimate] = []
    conditional = None
    for k, answer in enumerate(method.estimates(case.problems)):
        answers.append(replace(answer, conditional=None))  # R is kept once, in the result
        if answer.conditional is None:
            continue
        if answer.conditional.ndim == 2:
            conditional = answer.conditional
            continue
        if conditional is None:
            conditional = np.empty((len(case.sample.labels), case.n_columns), order="F")
        conditional[:, k] = answer.conditional
    values = np.array([answer.value for answer in answers])
    R = conditional
    if conditional is not None and case.single:
        R = conditional[:, 0]
    return CalibrationResult(
        value=float(values.sum()),
        risk=sum(answer.risk for answer in answers),
        refinement=_total([answer.refinement for answer in answers]),
        reconstructed_risk=_total([answer.reconstructed_risk for answer in answers]),
        bandwidth=None,
        per_class=values if case.notion == "classwise" else None,
        search=None,
        overconfidence=None if conditional is None else overconfidence(case, conditional),
        conditional=R,
        notion=case.notion,
        loss=case.loss.name,
        estimator=None,
        kernel=None,
        definition=case.over_problems(method.definition(case.divergence)),
        classes=case.sample.classes,
        n_samples=len(case.sample.labels),
        method=repr(method),
        norm=method.norm,
        note=answers[0].note,
    )


def _total(terms: Sequence[float | None]) -> float | None:
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None
