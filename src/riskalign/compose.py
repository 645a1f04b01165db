"""The one constructor of results: from the outcome of a method to what users get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import ndtri

from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.case import Case
from riskalign.data.sample import Sample
from riskalign.display.averages import BinarySummary, Overconfidence
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.evidence import ClassEvidence
from riskalign.equations.gaps import Gap
from riskalign.equations.kernels import KERNELS
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods import KernelSmoother
from riskalign.methods.curve import ReliabilityCurve, curve_by, curve_of_problem, grid_points
from riskalign.methods.method import Method, Outcome
from riskalign.methods.residuals import Debiased
from riskalign.results import CONFIDENCE, CalibrationResult, Interval, Side


def compose(
    case: Case,
    method: Method,
    outcome: Outcome,
    interval: Interval | None = None,
    rows: Sample | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> CalibrationResult:
    """The result of a method; R at the user's `rows` is computed when it is asked for.

    `confidence` is that of the intervals of averages where there is no `interval` of the error.
    """
    kernel = method if isinstance(method, KernelSmoother) else None
    bandwidths = None if outcome.tunings is None else [each.bandwidth for each in outcome.tunings]
    first = outcome.estimates[0]
    confidence = confidence if interval is None else interval.confidence
    total, each = _errors(outcome, method.norm)
    chance = sides_of(case, method, outcome) if interval is None else vars(interval)
    return CalibrationResult(
        value=total,
        risk=float(np.sum([estimate.risk for estimate in outcome.estimates])),
        refinement=_total([estimate.refinement for estimate in outcome.estimates]),
        reconstructed_risk=_total([each.reconstructed_risk for each in outcome.estimates]),
        bandwidth=None if bandwidths is None else case.notion.number(bandwidths),
        per_class=each if case.notion.per_class else None,
        search=outcome.search,
        overconfidence=overconfidence(case, method, outcome, confidence),
        rows=partial(conditional_of, case, method, outcome, rows),
        curve=None if kernel is None else partial(curve_behind, case, kernel, outcome),
        notion=case.notion.name,
        loss=case.loss.name,
        estimator=None if kernel is None else kernel.estimator,
        kernel=None if kernel is None else kernel.kernel,
        definition=_definition(case, method, outcome),
        classes=case.sample.classes,
        n_samples=case.n_samples,
        method="KernelSmoother" if kernel is not None else repr(method),
        norm=method.norm,
        note=first.note or " ".join(filter(None, [_one_class_note(case), _sample_note(case)])),
        binary=binary_summary(case, confidence) if _is_binary(case, outcome) else None,
        evidence=ClassEvidence.of(case.problems, case.n_samples, confidence)
        if case.notion.per_class
        else None,
        **chance,
    )


def _definition(case: Case, method: Method, outcome: Outcome) -> str:
    """What the value is, in words."""
    divergence = case.problems[0].loss.divergence
    if outcome.residuals is not None and method.norm == "l2":
        return f"root of {case.notion.of_each}mean {divergence}"
    if case.notion.joint and method.norm == "l1":
        return "mean of sum_k |R_k - f_k|"
    return f"{case.notion.of_each}{method.definition(divergence)}"


def _errors(outcome: Outcome, norm: str | None) -> tuple[float, FloatArray]:
    """The error of a case and those of its problems ``(P,)``."""
    each = np.array([estimate.value for estimate in outcome.estimates])
    if norm == "l2" and outcome.residuals is not None:  # estimated as squares
        return max(float(each.sum()), 0.0) ** 0.5, np.sqrt(np.maximum(each, 0.0))
    return float(each.sum()), each


def sides_of(case: Case, method: Method, outcome: Outcome) -> dict[str, Side]:
    """The parts of the mean of |R - f| that are too high and too low, where it was estimated.

    Of a whole vector, whose entries add up to 1, both are half of it.
    """
    if method.norm != "l1" or outcome.norms is None or case.notion.joint:
        return {}
    high, low = np.sum([each.value for each in outcome.norms], axis=0).tolist()
    return {"too_high": Side(high), "too_low": Side(low)}


def conditional_of(
    case: Case, method: Method, outcome: Outcome, rows: Sample | None = None
) -> FloatArray | None:
    """R in the shape of results, None where a method has none.

    It is given at the rows of the case, or at the user's `rows` of which the case was made. Where
    the case holds all rows, each sample is left out of its own R. Otherwise, and for rows without
    weight, R is the curve at each row's prediction.
    """
    if rows is not None and not case.complete:
        return _curve_at(case, method, outcome, rows)
    every = np.arange(len(case.sample.labels))
    known = [_at_rows(case, method, outcome, k, every) for k in range(len(case.problems))]
    each = [R for R in known if R is not None]
    if not each:
        return None
    found = case.notion.gathered(each)
    if rows is None:
        return found
    places = case.places(rows)
    found, out = found[places], np.flatnonzero(places < 0)
    if len(out):
        found[out] = _curve_at(case, method, outcome, rows.take(out))
    return found


def curve_behind(
    case: Case, method: KernelSmoother, outcome: Outcome, grid: object
) -> ReliabilityCurve:
    """The R behind an error as a curve, at points of one's choice."""
    points = grid_points(grid, case.notion, case.problems[0].n_classes)
    return curve_by(case, method, _weighted(outcome), points, known=outcome.residuals)


def _weighted(outcome: Outcome) -> list[WeightedTunings]:
    if outcome.residuals is not None:
        return [each.tunings for each in outcome.residuals]
    return [WeightedTunings.given(tuning) for tuning in outcome.tunings or []]


def _curve_at(case: Case, method: Method, outcome: Outcome, rows: Sample) -> FloatArray | None:
    """R at predictions that the case does not hold; no row is left out."""
    assert isinstance(method, KernelSmoother)
    points, _ = case.notion.reduce(rows.probabilities, rows.labels)
    columns = points.T if case.notion.per_class else [points]
    each = []
    known: Sequence[Debiased | None] = outcome.residuals or [None] * len(case.problems)
    weighted = _weighted(outcome)
    for problem, own, x, estimate in zip(case.problems, weighted, columns, known, strict=True):
        R, _ = curve_of_problem(problem, method, own, x, "auto", estimate)
        each.append(R if case.notion.joint else R[:, 1])
    return case.notion.gathered(each)


def overconfidence(
    case: Case, method: Method, outcome: Outcome, confidence: float
) -> Overconfidence | None:
    """Mean of f - R for each class and for the top label, and of f - y with its interval.

    The latter is of the one probability of a binary error, otherwise of the class that each row
    ranks first. Samples for which a method has no R (NaN) are left out of the means of f - R.
    """
    curves = _curves(case, outcome)
    if curves is None:
        return None
    gaps = []
    for problem, R in curves:
        difference = (problem.predictions - R).reshape(len(R), -1)
        known = ~np.isnan(difference).any(axis=1)
        weights = problem.weights[known]
        gaps.append(weights @ difference[known] / weights.sum())
    gap = Gap.of(case.problems[0] if case.notion.is_one_class else case.top, case.n_samples)
    top = _top_label_gap(case, method, outcome)
    return Overconfidence(np.concatenate(gaps), top, gap.value, gap.standard_error, confidence)


def _curves(case: Case, outcome: Outcome) -> list[tuple[Problem, FloatArray]] | None:
    """Each problem with R at its rows, in the form of its predictions; None without an R."""
    if outcome.residuals is not None:
        debiased = ((each.problem, each.conditional) for each in outcome.residuals)
        return [(of, R[:, 1] if of.predictions.ndim == 1 else R) for of, R in debiased]
    known = [estimate.conditional for estimate in outcome.estimates]
    found = [(of, R) for of, R in zip(case.problems, known, strict=True) if R is not None]
    return found if len(found) == len(known) else None


def _top_label_gap(case: Case, method: Method, outcome: Outcome) -> float:
    """Mean of f - R for the class that each row ranks first.

    Where a case holds a part of the rows it is the mean of f - y over all of them, which has the
    same expectation.
    """
    if not case.complete:
        return Gap.of(case.top, case.n_samples).value
    top = case.sample.probabilities.argmax(axis=1)
    if case.notion.per_class:
        R = np.empty(len(top))
        for k in np.unique(top).tolist():
            rows = np.flatnonzero(top == k)
            R[rows] = _at_rows(case, method, outcome, k, rows)
    else:
        found = conditional_of(case, method, outcome)
        assert found is not None
        whole = case.notion.whole(found)
        R = found if whole is None else whole[np.arange(len(top)), top]
    known = ~np.isnan(R)
    weights = case.top.weights[known]
    return float(weights @ (case.top.predictions - R)[known] / weights.sum())


def _at_rows(
    case: Case, method: Method, outcome: Outcome, k: int, rows: IntArray
) -> FloatArray | None:
    """R of problem k at some rows of the case, ``(m,)`` or ``(m, K)``, if there is one."""
    if outcome.residuals is not None and isinstance(method, KernelSmoother):
        kernel = KERNELS[method.kernel]
        R, _ = outcome.residuals[k].at_rows(case.problems[k], rows, kernel)
        return R if case.notion.joint else R[:, 1]
    known = outcome.estimates[k].conditional
    return None if known is None else known[rows]


def _one_class_note(case: Case) -> str:
    """A note if all labels are of one class."""
    labels = case.sample.labels
    of_classes = case.notion.is_one_class or case.notion.per_class
    if not of_classes or not len(labels) or (labels != labels[0]).any():
        return ""
    name = case.sample.classes[int(labels[0])]
    return f"All labels are of class {name}, so nothing is known about rows of the other classes."


def _sample_note(case: Case) -> str:
    """A note if an error comes from a part of the rows, with the size of that part."""
    if case.complete or not case.notion.joint:
        return ""
    return (
        f"The error comes from a random sample of {case.n_samples:,} of the "
        f"{case.n_rows:,} rows; the confidence is compared with the accuracy on all of them."
    )


def _is_binary(case: Case, outcome: Outcome) -> bool:
    return outcome.residuals is not None and case.notion.is_one_class


def binary_summary(case: Case, confidence: float) -> BinarySummary:
    """One probability on average, and its logistic recalibration with intervals."""
    problem = case.problems[0]
    gap = Gap.of(problem, case.n_samples)
    low, high = gap.frequency_interval(confidence)
    # Weights that add up to the effective number of samples give the information of so many.
    scale = 1 / problem.unit
    scaled = replace(problem, weights=problem.weights * scale, sample_weights=problem.units * scale)
    fit = FittedStart.of(scaled, STARTS["logistic"])
    slope, intercept = fit.parameters.tolist()
    errors = np.sqrt(np.diag(np.linalg.inv(fit.information)))
    slope_reach, intercept_reach = (ndtri((1 + confidence) / 2) * errors).tolist()
    p, frequency = gap.mean_prediction, gap.frequency
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


def _total(terms: Sequence[float | None]) -> float | None:
    known = [term for term in terms if term is not None]
    return float(np.sum(known)) if len(known) == len(terms) else None
