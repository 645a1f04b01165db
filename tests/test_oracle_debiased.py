"""The debiased estimate of the package against the plain loops of `oracle_debiased`."""

from dataclasses import replace

import numpy as np
import oracle
import oracle_debiased
import pytest
from cases import HARD, NOTIONS, Case, ordinary

import riskalign as ra
from riskalign.coordinates import Choice, Part
from riskalign.estimate import fit_debiased
from riskalign.kernels import KERNELS
from riskalign.options import make_case
from riskalign.residual import _estimates
from riskalign.validation import as_sample

LOSSES = ("l2", "kl", "ranked")
STARTS = ("identity", "temperature", "logistic")
ROW_TERMS = ("terms", "risk", "reconstructed_risk", "plugin", "put_back")
CLOSE = {"rtol": 1e-9, "atol": 1e-12}

CASES = {
    "two classes": ordinary(12, 2, seed=5),
    "three classes": ordinary(14, 3, seed=6),
    "four classes, weights": replace(ordinary(11, 4, seed=7), weights=np.linspace(0.2, 2, 11)),
    "two classes, weights": replace(ordinary(10, 2, seed=8), weights=np.linspace(3, 0.1, 10)),
    "two classes, tenths": Case(
        np.array([0, 1, 0, 1, 1, 1, 0, 1, 1]),
        np.array([[1 - p, p] for p in (0.0, 0.1, 0.1, 0.1, 0.5, 0.5, 0.9, 0.9, 1.0)]),
    ),
    **HARD,
}
"""Ordinary samples, and `HARD`: exact zeros and ones, ties, an empty class, weights, float32."""


def expected(case, notion, loss, start, kernel, tunings):
    """The oracle's (R, terms) of every row, one list per problem.

    `tunings` holds the (h, tau) of each row, one list per problem.
    """
    y, f, weights = case.plain
    return [
        oracle_debiased.debiased(
            problem,
            weights,
            oracle.loss_of(loss, notion),
            start,
            kernel,
            [h for h, _ in rows],
            [tau for _, tau in rows],
        )
        for problem, rows in zip(oracle.problems(notion, f, y), tunings, strict=True)
    ]


def check_result(result, case, answers):
    """A result against the oracle's rows: every number that it shows, and R."""
    _, f, weights = case.plain
    means = [oracle_debiased.mean_terms(rows, weights) for rows in answers]

    def total(name):
        return sum(mean[name] for mean in means)

    def same(got, wanted, what):
        np.testing.assert_allclose(got, wanted, **CLOSE, err_msg=what)

    same(result.value, total("terms"), "value")
    same(result.risk, total("risk"), "risk")
    same(result.refinement, total("risk") - total("terms"), "refinement")
    same(result.reconstructed_risk, total("reconstructed_risk"), "reconstructed risk")
    if result.notion == "classwise":
        same(result.per_class, [mean["terms"] for mean in means], "per class")
    R = np.array([[R for R, _ in rows] for rows in answers])  # (problems, n, outcomes)
    if result.notion == "classwise":
        same(result.conditional, R[:, :, 1].T, "R")
    else:
        same(result.conditional, R[0] if result.notion == "canonical" else R[0, :, 1], "R")
    if result.notion in ("classwise", "canonical"):
        gaps = np.array(weights) @ (np.array(f) - result.conditional) / sum(weights)
        same(result.overconfidence.per_class, gaps, "over-confidence")


def alike(case, notion, h, tau=1.0):
    """The same tuning for every row of every problem."""
    return [[(h, tau)] * len(case.y)] * (case.n_classes if notion == "classwise" else 1)


def check_at(case, notion, loss, start, h, kernel="dirichlet"):
    result = ra.calibration_error(
        case.y,
        case.f,
        notion=notion,
        loss=loss,
        estimator="debiased",
        start=start,
        kernel=kernel,
        bandwidth=h,
        sample_weight=case.weights,
        engine="exact",
    )
    tunings = alike(case, notion, h)
    check_result(result, case, expected(case, notion, loss, start, kernel, tunings))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", CASES)
def test_given_bandwidths(name, start):
    case = CASES[name]
    for notion in case.notions():
        for loss in LOSSES:
            check_at(case, notion, loss, start, 0.05)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("h", [0.003, 1.0])
@pytest.mark.parametrize("name", ["two classes", "three classes", "weights"])
def test_narrow_and_wide_bandwidths(name, h, start):
    case = CASES[name]
    for notion in case.notions():
        check_at(case, notion, "kl", start, h)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_gaussian_kernel(notion, start):
    case = CASES["two classes, weights" if notion == "binary" else "four classes, weights"]
    for loss in LOSSES:
        check_at(case, notion, loss, start, 0.15, "rbf")


@pytest.mark.parametrize("loss", LOSSES)
def test_many_classes_have_no_shifts(loss):
    case = ordinary(8, oracle_debiased.SHIFTED + 1, seed=9)
    check_at(case, "canonical", loss, "logistic", 0.3)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("tau", [0.5, 0.25])
@pytest.mark.parametrize("name", ["zeros and ones, some wrong", "two classes", "weights"])
def test_flattened_coordinates(name, tau, start):
    """A search may be passed as a bandwidth, and brings its flattening along."""
    case = CASES[name]
    for notion in case.notions():
        options = {"notion": notion, "sample_weight": case.weights, "engine": "exact"}
        search = ra.select_bandwidth(case.y, case.f, candidates=[0.1], **options)
        flat = tuple(replace(curve, flattening=tau) for curve in search.curves)
        search = replace(search, curves=flat)
        for loss in LOSSES:
            result = ra.calibration_error(
                case.y, case.f, loss=loss, start=start, bandwidth=search, **options
            )
            tunings = alike(case, notion, 0.1, tau)
            answers = expected(case, notion, loss, start, "dirichlet", tunings)
            check_result(result, case, answers)


# Folds. The public functions choose them, so these tests look inside.


def reduced(case, notion, loss):
    """The package's problems."""
    return make_case(as_sample(case.y, case.f, sample_weight=case.weights), notion, loss)


def package_by_folds(case, notion, loss, start, kernel, folds):
    """The package's estimates where folds are given, one per problem.

    Each fold is (rows, [(h, tau) of each problem]).
    """
    problems = reduced(case, notion, loss).problems
    parts = [
        Part(np.array(rows), [Choice(h, tau) for h, tau in tunings]) for rows, tunings in folds
    ]
    shown = parts[0].choices
    return list(_estimates(problems, start, shown, parts, KERNELS[kernel], "exact"))


def by_rows(folds, n, n_problems):
    """The (h, tau) of each row, one list per problem."""
    tunings = [[None] * n for _ in range(n_problems)]
    for rows, own in folds:
        for k, tuning in enumerate(own):
            for i in rows:
                tunings[k][i] = tuning
    return tunings


TUNINGS = [(0.02, 1.0), (0.2, 0.5), (0.07, 0.25), (0.4, 1.0), (0.05, 0.5)]


@pytest.mark.parametrize("kernel", ["dirichlet", "rbf"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_row_terms_where_folds_are_given(notion, start, kernel):
    case = CASES["two classes" if notion == "binary" else "three classes"]
    weights = np.random.default_rng(1).uniform(0.3, 2, len(case.y))
    case, n = replace(case, weights=weights), len(case.y)
    n_problems = case.n_classes if notion == "classwise" else 1
    folds = [
        (range(fold, n, 3), [TUNINGS[(fold + 2 * k) % 5] for k in range(n_problems)])
        for fold in range(3)
    ]
    for loss in LOSSES:
        got = package_by_folds(case, notion, loss, start, kernel, folds)
        answers = expected(case, notion, loss, start, kernel, by_rows(folds, n, n_problems))
        for estimate, rows in zip(got, answers, strict=True):
            for term in ROW_TERMS:
                wanted = [terms[term] for _, terms in rows]
                np.testing.assert_allclose(getattr(estimate, term), wanted, **CLOSE, err_msg=term)
            R = [R if notion == "canonical" else R[1] for R, _ in rows]
            np.testing.assert_allclose(estimate.conditional, R, **CLOSE)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_default_is_the_estimate_at_what_its_folds_chose(notion, start):
    """30 rows: the package deals five folds, and each is smoothed as the others choose."""
    case = ordinary(30, 2 if notion == "binary" else 3, seed=1, sharpness=2.5)
    options = {"notion": notion, "loss": "kl", "start": start, "candidates": [0.01, 0.05, 0.2]}
    result = ra.calibration_error(case.y, case.f, engine="exact", **options)
    method = ra.KernelSmoother(start=start, candidates=options["candidates"])
    fit, _ = fit_debiased(reduced(case, notion, "kl"), method, "exact", None)
    folds = [
        (part.rows.tolist(), [(choice.bandwidth, choice.flattening) for choice in part.choices])
        for part in fit.parts
    ]
    assert len(folds) == 5
    tunings = by_rows(folds, 30, len(fit.problems))
    assert any(len(set(own)) > 1 for own in tunings)
    check_result(result, case, expected(case, notion, "kl", start, "dirichlet", tunings))


# The oracle's own derivatives and minimum.


@pytest.mark.parametrize("start", STARTS[1:])
@pytest.mark.parametrize("name", ["two classes, weights", "four classes, weights"])
def test_the_oracle_fits_the_minimum(name, start):
    y, f, weights = CASES[name].plain
    phis = [oracle_debiased.features(point, start) for point in f]
    theta, information = oracle_debiased.fit(f, y, weights, start)
    best, _ = oracle_debiased.fit(f, y, weights, start, 1e-11)
    np.testing.assert_allclose(theta, best, atol=1e-6)

    def loss_near(step):
        moved = (np.array(best) + step).tolist()
        return oracle_debiased.penalised_loss(moved, phis, y, weights)

    steps = 1e-3 * np.eye(len(best))
    second = [
        [
            (loss_near(a + b) - loss_near(a - b) - loss_near(b - a) + loss_near(-a - b)) / 4e-6
            for b in steps
        ]
        for a in steps
    ]
    np.testing.assert_allclose(information, second, rtol=1e-4, atol=1e-4)
    for step in steps:
        assert loss_near(0 * step) < min(loss_near(step), loss_near(-step))
