"""The debiased estimate of the package against the plain loops of `oracle_debiased`."""

from dataclasses import replace
from itertools import product

import numpy as np
import oracle
import oracle_debiased
import pytest
from cases import HARD, NOTIONS, SPHERICAL, Case, ordinary

import riskalign as ra
from riskalign.bandwidth.tuning import (
    HEARD,
    KEPT,
    MOST,
    MOST_JOINT,
    OWN_SHARE,
    POOLED,
    TEMPERING,
    WeightedTunings,
    candidate_tunings,
)
from riskalign.data.notions import NOTIONS as NOTIONS_BY_NAME
from riskalign.data.validation import as_sample
from riskalign.equations.debiased import Started
from riskalign.equations.kernels import DIRICHLET, KERNELS
from riskalign.equations.losses import LOSSES as LOSSES_BY_NAME
from riskalign.equations.starts import STARTS as STARTS_BY_NAME
from riskalign.methods.residuals import _averaged, debiased
from riskalign.smoothing import Tuning, choose_smoother

LOSSES = ("l2", "kl", "ranked")
STARTS = ("identity", "temperature", "logistic")
ROW_TERMS = (
    "terms",
    "risk",
    "reconstructed_risk",
    "plugin",
    "variance_removed",
    "gains",
    "conditional",
)
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
    "two classes, far apart": Case(
        np.array([0, 1, 0, 1, 0, 1]),
        np.array([[1 - p, p] for p in (1e-7, 0.01, 0.2, 0.2001, 0.6, 0.999)]),
        np.array([1.0, 0.2, 3, 1, 0.5, 1]),
    ),
    **HARD,
}
"""Ordinary samples, and `HARD`: exact zeros and ones, ties, an empty class, weights, float32."""


def expected(case, notion, loss, start, kernel, tuning):
    """The oracle's terms of every row, one list per problem, by one tuning (h, tau) for all."""
    y, f, weights = case.plain
    chosen = oracle.loss_of(loss, notion)
    return [
        oracle_debiased.debiased(problem, weights, chosen, start, kernel, [tuning])
        for problem in oracle.problems(notion, f, y)
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
    R = np.array([[row["conditional"] for row in rows] for rows in answers])  # (P, n, outcomes)
    shown = {"classwise": R[:, :, 1].T, "canonical": R[0]}.get(result.notion, R[0, :, 1])
    counts = np.array(weights) > 0  # rows without weight have no sample to leave out
    same(result.conditional[counts], shown[counts], "R")
    assert ((result.conditional >= 0) & (result.conditional <= 1)).all()
    if result.notion in ("classwise", "canonical"):
        gaps = np.array(weights) @ (np.array(f) - result.conditional) / sum(weights)
        same(result.overconfidence.per_class, gaps, "over-confidence")


def check_at(case, notion, loss, start, h, kernel="dirichlet"):
    result = ra.calibration_error(
        case.y,
        case.f,
        notion=notion,
        loss=SPHERICAL if loss == "spherical" else loss,
        estimator="debiased",
        start=start,
        kernel=kernel,
        bandwidth=h,
        sample_weight=case.weights,
        engine="exact",
    )
    check_result(result, case, expected(case, notion, loss, start, kernel, (h, 1.0)))


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
            answers = expected(case, notion, loss, start, "dirichlet", (0.1, tau))
            check_result(result, case, answers)


# Rows that are alone.


def lone_shares(case, notion, kernel, h):
    """By how much the averages of each row are shrunk, all problems together."""
    y, f, weights = case.plain
    return [
        sum(oracle_debiased.weights_of_row(i, points, weights, kernel, h, 1.0))
        for points, _ in oracle.problems(notion, f, y)
        for i in range(len(points))
    ]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("kernel", "h"), [("dirichlet", 1e-4), ("rbf", 0.005)])
@pytest.mark.parametrize("name", ["two classes, far apart", "weights", "peaked and wrong"])
def test_rows_that_are_alone(name, kernel, h, start):
    """Neighbours that weigh less than 0.15 of the sample itself do not decide its average."""
    case = CASES[name]
    shares = []
    for notion in case.notions():
        shares += lone_shares(case, notion, kernel, h)
        for loss in LOSSES:
            check_at(case, notion, loss, start, h, kernel)
    assert min(shares) < 1e-3
    assert any(1e-3 < share < 1 - 1e-9 for share in shares) or name != "two classes, far apart"


# Estimates row by row, by tunings of each problem's own.


def problems_of(case, notion, loss):
    """The package's problems, in the order of the rows."""
    sample = as_sample(case.y, case.f, sample_weight=case.weights)
    chosen = SPHERICAL if loss == "spherical" else LOSSES_BY_NAME[loss]
    return NOTIONS_BY_NAME[notion].problems(sample, chosen)


def check_rows(estimate, rows):
    for name in ROW_TERMS:
        wanted = [row[name] for row in rows]
        np.testing.assert_allclose(getattr(estimate, name), wanted, **CLOSE, err_msg=name)


TUNINGS = [(0.02, 1.0), (0.2, 0.5), (0.07, 0.25), (0.4, 1.0), (0.05, 0.5)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_row_terms(notion, start, kernel):
    case = CASES["two classes" if notion == "binary" else "three classes"]
    weights = np.random.default_rng(1).uniform(0.3, 2, len(case.y))
    case = replace(case, weights=weights)
    y, f, plain = case.plain
    for loss, shift in product((*LOSSES, "spherical"), (0, 3)):
        problems = problems_of(case, notion, loss)
        chosen = [TUNINGS[(2 * k + shift) % 5] for k in range(len(problems))]
        got = debiased(
            problems,
            KERNELS[kernel],
            "exact",
            STARTS_BY_NAME[start],
            [Tuning(*tuning) for tuning in chosen],
        )
        for estimate, problem, tuning in zip(
            got, oracle.problems(notion, f, y), chosen, strict=True
        ):
            loss_of = oracle.loss_of(loss, notion)
            rows = oracle_debiased.debiased(problem, plain, loss_of, start, kernel, [tuning])
            check_rows(estimate, rows)


# Several tunings, weighted.


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_averages_over_tunings_whose_evidence_is_given(notion, start):
    case = CASES["two classes, weights" if notion == "binary" else "four classes, weights"]
    y, f, plain = case.plain
    evidence, scale = [0.3, -0.2, 1.1, 0.0, 0.6], 1.7  # in the unit of the case's weights
    for loss in LOSSES:
        problems = problems_of(case, notion, loss)
        smoother = choose_smoother(problems, DIRICHLET, "exact")
        tunings = [Tuning(*tuning) for tuning in TUNINGS]
        unit = problems[0].unit / oracle_debiased.mean_weight(plain)
        weighted = WeightedTunings(tunings, np.array(evidence), scale / unit)
        for k, plain_problem in enumerate(oracle.problems(notion, f, y)):
            started = Started.of(problems[k], STARTS_BY_NAME[start])
            parts = []
            for tuning in tunings:
                (averages,) = smoother.averages({k: started.with_slopes()}, [tuning])
                squares = smoother.squares([k], tuning)[k]
                parts.append(started.smoothed(averages[k], squares))
            rows = oracle_debiased.debiased(
                plain_problem,
                plain,
                oracle.loss_of(loss, notion),
                start,
                "dirichlet",
                TUNINGS,
                evidence,
                scale,
                OWN_SHARE,
            )
            check_rows(_averaged(started, weighted, parts), rows)


def check_default(case, notion, loss, start, kernel, candidates):
    """The whole estimate where nothing is given; returns how many tunings each problem has."""
    y, f, plain = case.plain
    problems = problems_of(case, notion, loss)
    got = debiased(
        problems, KERNELS[kernel], "exact", STARTS_BY_NAME[start], None, np.array(candidates)
    )
    pairs = [(h, tau) for tau in oracle_debiased.FLATTENINGS for h in candidates]
    chosen = oracle.loss_of(loss, notion)
    plain_problems = oracle.problems(notion, f, y)
    args = plain, chosen, start, kernel, pairs, TEMPERING
    scales, losses = zip(
        *(oracle_debiased.losses_of_candidates(problem, *args) for problem in plain_problems),
        strict=True,
    )
    together = oracle_debiased.pooled(losses, POOLED, HEARD)
    most = MOST_JOINT if notion == "canonical" else MOST
    answers = []
    for own, estimate, problem, scale, weighed in zip(
        problems, got, plain_problems, scales, together, strict=True
    ):
        tunings, evidence = oracle_debiased.weighted_tunings(weighed, pairs, KEPT, most)
        found = estimate.tunings
        assert [(each.bandwidth, each.flattening) for each in found.tunings] == tunings
        # a sample checked may hold the weights in another unit
        unit = oracle_debiased.mean_weight(plain)
        np.testing.assert_allclose(found.scale * own.unit, scale * unit, **CLOSE)
        np.testing.assert_allclose(found.evidence, evidence, rtol=1e-9, atol=1e-9)
        shares = oracle_debiased.softmax(evidence)
        np.testing.assert_allclose(found.weights, shares, rtol=1e-8)
        rows = oracle_debiased.debiased(
            problem, plain, chosen, start, kernel, tunings, evidence, scale, OWN_SHARE
        )
        check_rows(estimate, rows)
        answers.append(rows)
    result = ra.calibration_error(
        case.y,
        case.f,
        notion=notion,
        loss=loss,
        start=start,
        kernel=kernel,
        candidates=candidates,
        sample_weight=case.weights,
        engine="exact",
    )
    check_result(result, case, answers)
    return [len(estimate.tunings.tunings) for estimate in got]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_default_weighs_candidates_by_their_risk(notion, start):
    case = ordinary(24, 2 if notion == "binary" else 3, seed=1, sharpness=2.5)
    for loss in ("l2", "kl"):
        counts = check_default(case, notion, loss, start, "dirichlet", [0.01, 0.05, 0.2])
        assert max(counts) > 1


@pytest.mark.parametrize("start", ["identity", "logistic"])
@pytest.mark.parametrize("name", ["weights", "two classes, far apart", "two classes, tenths"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_default_on_hard_samples(name, kernel, start):
    case = CASES[name]
    for notion in case.notions():
        check_default(case, notion, "kl", start, kernel, [0.01, 0.2])


def test_candidates_are_octaves_in_every_coordinates():
    for kernel, n_classes in product(KERNELS.values(), (2, 5)):
        low, high = kernel.bandwidth_range(n_classes)
        tunings = candidate_tunings(kernel, n_classes)
        by_tau = {
            tau: [t.bandwidth for t in tunings if t.flattening == tau] for tau in (1, 0.5, 0.25)
        }
        assert sum(map(len, by_tau.values())) == len(tunings)
        for bandwidths in by_tau.values():
            assert bandwidths[-1] == high
            assert low <= bandwidths[0] < 2 * low
            np.testing.assert_allclose(np.diff(np.log2(bandwidths)), 1)


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
