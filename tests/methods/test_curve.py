"""Curves of R: what they show at the ends, and how often their band holds the truth."""

import numpy as np
import pytest

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.methods import KernelSmoother
from riskalign.methods.curve import curve_of_problem, shown_of
from riskalign.smoothing import Tuning

DEBIASED = {"estimator": "debiased", "progress": False}


def wrong_at_the_ends(n):
    """Predictions of 0.1 that never come true, of 0.9 that always do, and of 0.5 that toss."""
    y_prob = np.repeat([0.1, 0.5, 0.9], n)
    y_true = np.repeat([0, 0, 1, 1], [n, n // 2, n // 2, n])
    return y_true, y_prob


@pytest.mark.parametrize("start", ["identity", "logistic"])
@pytest.mark.parametrize("engine", ["exact", "grid"])
def test_a_curve_reaches_zero_and_one(engine, start):
    y_true, y_prob = wrong_at_the_ends(200)
    curve = ra.reliability_curve(
        y_true,
        y_prob,
        grid=[0.1, 0.5, 0.9],
        bandwidth=1e-3,
        engine=engine,
        start=start,
        **DEBIASED,
    )
    np.testing.assert_allclose(curve.conditional, [0, 0.5, 1], atol=1e-6)
    low, high = curve.band(0.95)
    assert low[0] <= curve.conditional[0] < high[0] < 0.03  # Wilson's: z^2 / (N + z^2)
    assert 0.97 < low[2] < curve.conditional[2] <= high[2]


@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
@pytest.mark.parametrize("engine", ["exact", "grid"])
def test_a_curve_of_rows_that_stand_for_several_samples(engine, estimator):
    """Four distinct rows with their counts, against a row per sample."""
    y_true, y_prob = wrong_at_the_ends(200)
    p, y = np.array([0.1, 0.5, 0.5, 0.9]), np.array([0, 0, 1, 1])
    counts = np.array([200.0, 100.0, 100.0, 200.0])
    table = Problem("p", p, y, counts, L2.binary, np.ones(4))
    every = Problem("p", y_prob, y_true, np.ones(600), L2.binary)
    method = KernelSmoother(1e-3, estimator=estimator)
    given, points = WeightedTunings.given(Tuning(1e-3)), np.array([0.1, 0.3, 0.5, 0.9])
    (R, support), (expected, wanted) = (
        curve_of_problem(problem, method, given, points, engine) for problem in (table, every)
    )
    np.testing.assert_allclose(R, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(R[[0, 2, 3], 1], [0, 0.5, 1], atol=1e-4)
    for name in ("density", "effective", "nearby"):
        np.testing.assert_allclose(
            getattr(support, name)[[0, 2, 3]], getattr(wanted, name)[[0, 2, 3]], rtol=1e-9
        )


def test_a_curve_is_the_weighted_mean_of_its_tunings():
    rng = np.random.default_rng(0)
    p = rng.random(150)
    problem = Problem("p", p, (rng.random(150) < p**2).astype(int), np.ones(150), L2.binary)
    tunings, points = [Tuning(0.01), Tuning(0.1, 0.5)], np.linspace(0, 1, 11)
    method, evidence = KernelSmoother(), np.log([0.25, 0.75])
    R, support = curve_of_problem(
        problem, method, WeightedTunings(tunings, evidence, 1.0), points, "exact"
    )
    each = [
        curve_of_problem(problem, method, WeightedTunings.given(tuning), points, "exact")
        for tuning in tunings
    ]
    np.testing.assert_allclose(R, 0.25 * each[0][0] + 0.75 * each[1][0], rtol=1e-12)
    np.testing.assert_array_equal(support.nearby, each[1][1].nearby)


def test_a_canonical_curve_stays_on_the_simplex():
    f = np.tile([[0.6, 0.3, 0.1]], (30, 1))
    y = np.repeat([0, 1], 15)
    curve = ra.reliability_curve(
        y,
        f,
        grid=[[0.6, 0.3, 0.1], [0.9, 0.05, 0.05]],
        notion="canonical",
        bandwidth=0.01,
        **DEBIASED,
    )
    np.testing.assert_allclose(curve.conditional[0], [0.5, 0.5, 0], atol=1e-12)
    np.testing.assert_allclose(curve.conditional.sum(axis=1), 1, atol=1e-12)
    assert (curve.conditional >= 0).all()


def test_what_is_shown_is_cut_at_the_simplex():
    start = np.array([[0.2, 0.8], [0.2, 0.8], [0.2, 0.8], [0.0, 1.0]])
    smoothed = np.array([[-0.3, 0.3], [0.1, -0.1], [0.9, -0.9], [0.0, 0.0]])
    np.testing.assert_allclose(shown_of(start, smoothed), [[0, 1], [0.3, 0.7], [1, 0], [0, 1]])


@pytest.mark.parametrize("engine", ["exact", "grid"])
def test_exact_zeros_and_ones_as_predictions(engine):
    y_prob = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], dtype=np.float32)
    y_true = np.array([0, 0, 0, 1, 1, 1])
    curve = ra.reliability_curve(
        y_true, y_prob, grid=[0.0, 1.0], bandwidth=0.01, engine=engine, **DEBIASED
    )
    np.testing.assert_allclose(curve.conditional, [0, 1], atol=1e-6)


def coverage(n, exponent, points, repetitions, **options):
    """How often the 95% band holds the truth at points, over seeded samples of known truth.

    Predictions are p ~ Beta(0.8, 0.8), and E[y | p] is p to a power, renormalised: of power 1
    calibrated, of 0.6 over-confident.
    """

    def truth(p):
        return p**exponent / (p**exponent + (1 - p) ** exponent)

    generator = np.random.default_rng(7)
    held = np.zeros(len(points))
    for _ in range(repetitions):
        p = generator.beta(0.8, 0.8, n)
        y = (generator.random(n) < truth(p)).astype(int)
        curve = ra.reliability_curve(y, p, grid=points, notion="binary", **options, **DEBIASED)
        low, high = curve.band(0.95)
        held += (low <= truth(points)) & (truth(points) <= high)
    return held / repetitions


@pytest.mark.parametrize("exponent", [1.0, 0.6])
def test_the_band_holds_the_truth_at_its_rate(exponent):
    # 300 independent samples: the standard error of a rate of 95% is 1.26 points, so that a
    # band at its rate leaves 95 +- 4 points once in 700 at each of five places.
    points = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    rates = coverage(500, exponent, points, 300, bandwidth=0.02)
    np.testing.assert_allclose(rates, 0.95, atol=0.04)


def test_the_band_holds_the_truth_at_a_bandwidth_found():
    # Places far apart are nearly independent: of 60 samples at 4 places the rate has a standard
    # error of 1.4 points, and leaves 95 +- 5 points once in 2,000.
    points = np.array([0.1, 0.35, 0.65, 0.9])
    rates = coverage(500, 1.0, points, 60, bandwidth="risk-alignment")
    assert rates.mean() == pytest.approx(0.95, abs=0.05)
