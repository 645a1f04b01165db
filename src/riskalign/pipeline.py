"""From a case to its result: every calibration error passes here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from riskalign.compose import compose
from riskalign.data.case import Case
from riskalign.data.sample import Sample
from riskalign.data.validation import check_shares
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import KERNELS
from riskalign.equations.norms import MEANS
from riskalign.equations.starts import STARTS
from riskalign.inference.bound import upper_bound
from riskalign.inference.interval import interval_of_mean
from riskalign.inference.norms import bound_of_norm, norm_interval, of_root
from riskalign.inference.null import Model
from riskalign.methods import KernelSmoother
from riskalign.methods.method import Method, Outcome
from riskalign.options import check_question
from riskalign.results import CalibrationResult, Interval
from riskalign.smoothing import read_at
from riskalign.smoothing.threads import one_blas_thread


def error_of(
    case: Case,
    method: Method,
    confidence: float | None = None,
    *,
    engine: str = "auto",
    seed: int = 0,
    progress: bool | None = None,
    rows: Sample | None = None,
) -> CalibrationResult:
    """The calibration error of a case, with its interval if a confidence is given.

    `rows` are the user's rows, at which R is wanted, where they are not those of the case.
    """
    check_question(case, method, confidence, engine, seed)
    with one_blas_thread:
        outcome = method.outcome(case, engine, progress)
        if confidence is None or not isinstance(method, KernelSmoother):
            return compose(case, method, outcome, None, rows)
        interval = interval_of(case, method, outcome, confidence, engine, seed)
        result = compose(case, method, outcome, interval, rows)
    return replace(result, bound=partial(bound_of, case, method, outcome, interval, engine, seed))


def bound_of(
    case: Case, method: KernelSmoother, outcome: Outcome, interval: Interval, engine: str, seed: int
) -> float:
    """The conservative bound of an error whose interval is known; of a norm by its mean square."""
    model, end = model_of(case, method, outcome, engine), interval.interval[1]
    if method.norm is None:
        return upper_bound(case, model, interval.interval, interval.confidence, seed)
    assert outcome.residuals is not None
    n, confidence = case.n_drawn, interval.confidence
    square = interval_of_mean(model, outcome.residuals, n, confidence, seed)
    largest = upper_bound(case, model, square.interval, confidence, seed)
    n_columns = len(case.sample.classes) if case.notion.joint else len(case.problems)
    return max(end, bound_of_norm(method.norm, n_columns, largest))


def interval_of(
    case: Case, method: KernelSmoother, outcome: Outcome, confidence: float, engine: str, seed: int
) -> Interval:
    """The interval of a debiased error."""
    assert outcome.residuals is not None
    check_rows(case)
    model = model_of(case, method, outcome, engine)
    if method.norm in MEANS:
        return norm_interval(case, model, method.norm, outcome, confidence, seed)
    found = interval_of_mean(model, outcome.residuals, case.n_drawn, confidence, seed)
    if method.norm is None:
        return found
    values = np.array([each.mean(each.terms) for each in outcome.residuals])
    return of_root(found, float(values.sum()), values)


def check_rows(case: Case) -> None:
    """Refuse intervals, canonical errors and tests where a sketch keeps too few rows for them.

    They need rows, to see how classes vary together. That all rows allow an answer is checked
    elsewhere.
    """
    if case.complete:
        return
    sample = case.sample
    n = int(np.ceil(sample.multiplicities).sum())
    if n < 2:
        limit = None if case.kept is None else case.kept.limit
        made = "" if limit is None else f", as it was made with exact_limit={limit}"
        raise ValueError(
            "Canonical errors, the test, and intervals (`confidence`) of class-wise errors need at "
            f"least two rows, and this sketch holds {n or 'none'}{made}. Make it with a larger "
            "`exact_limit`."
        )
    units = sample.weights if sample.sample_weights is None else sample.sample_weights
    check_shares(n, sample.weights.sum(), units.max(), "; of the rows that are kept one outweighs")


def model_of(case: Case, method: KernelSmoother, outcome: Outcome, engine: str) -> Model:
    """What intervals and comparisons need to know of a debiased estimate."""
    assert outcome.residuals is not None
    return Model(
        case.sample,
        case.notion,
        case.loss,
        KERNELS[method.kernel],
        engine,
        STARTS[method.start],
        [each.tunings for each in outcome.residuals],
        [each.mixture for each in outcome.residuals],
    )


def row_terms(case: Case, method: KernelSmoother, outcome: Outcome) -> FloatArray:
    """The terms of a debiased error at each row of the case, summed over problems, ``(n,)``."""
    assert outcome.residuals is not None
    rows, kernel = np.arange(len(case.sample.labels)), KERNELS[method.kernel]
    total = np.zeros(len(rows))
    for problem, each in zip(case.problems, outcome.residuals, strict=True):
        total += read_at(each.problem, each.terms[:, None], problem, rows, kernel)[:, 0]
    return total
