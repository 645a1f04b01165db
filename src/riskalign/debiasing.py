"""From debiased estimates of each problem to the one result that a user reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskalign.bandwidth.search import BandwidthSearch
from riskalign.composition import (
    Case,
    binary_summary,
    logistic_recalibration,
    observed,
    overconfidence,
)
from riskalign.equations.arrays import FloatArray
from riskalign.inference.interval import Chance, Fit
from riskalign.methods.residuals import Debiased
from riskalign.results import CalibrationResult

DEBIASED = "debiased"
"""The name of the estimator."""


def by_residuals(
    case: Case, fit: Fit, search: BandwidthSearch | None, confidence: float | None
) -> CalibrationResult:
    """The result of debiased estimates, one a problem, and its interval if asked for."""
    estimates = fit.estimates
    weights = case.sample.weights / case.sample.weights.sum()
    values = np.array([weights @ each.terms for each in estimates])
    value, risk = float(values.sum()), float(sum(weights @ each.risk for each in estimates))
    conditional = _columns([each.conditional for each in estimates])
    chance = None if confidence is None else Chance.of(fit)
    binary = None
    if case.notion == "binary":
        recalibration = logistic_recalibration(case.problems[0])
        binary = binary_summary(observed(case), recalibration, confidence)
    bandwidths = np.array([each.choice.bandwidth for each in estimates])
    return CalibrationResult(
        value=value,
        risk=risk,
        refinement=risk - value,
        reconstructed_risk=float(sum(weights @ each.reconstructed_risk for each in estimates)),
        bandwidth=bandwidths if case.notion == "classwise" else float(bandwidths[0]),
        per_class=values if case.notion == "classwise" else None,
        search=search,
        overconfidence=overconfidence(case, conditional, confidence),
        conditional=conditional[:, 0] if case.single else conditional,
        notion=case.notion,
        loss=case.loss.name,
        estimator=DEBIASED,
        kernel=fit.kernel.name,
        definition=case.over_problems(f"mean {case.divergence}"),
        classes=case.sample.classes,
        n_samples=len(weights),
        standard_error=None if chance is None else chance.standard_error(value),
        interval=None
        if chance is None or confidence is None
        else chance.interval(value, confidence),
        confidence=confidence,
        binary=binary,
    )


def found_by(estimates: Sequence[Debiased], classwise: bool) -> BandwidthSearch | None:
    """The search behind the estimates, None where bandwidths were given."""
    curves = [each.choice.curve for each in estimates]
    known = tuple(curve for curve in curves if curve is not None)
    if len(known) < len(curves):
        return None
    return BandwidthSearch("cross-validation", known, classwise)


def _columns(conditionals: Sequence[FloatArray]) -> FloatArray:
    first = conditionals[0]
    return first if first.ndim == 2 else np.stack(conditionals, axis=1)
