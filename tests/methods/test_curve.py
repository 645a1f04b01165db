"""Curves of R: what they show at the ends, and how often their band holds the truth."""

import numpy as np
import pytest

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods import KernelSmoother, band
from riskalign.methods.band import (
    END,
    KernelMatrices,
    inhabited,
    narrowed,
    samples_nearby,
    spread_of,
)
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
    f = np.tile([[0.6, 0.3, 0.1]], (40, 1))
    y = np.repeat([0, 1], 20)
    curve = ra.reliability_curve(
        y,
        f,
        grid=[[0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.01, 0.01, 0.98]],
        notion="canonical",
        bandwidth=0.01,
        **DEBIASED,
    )
    np.testing.assert_allclose(curve.conditional[0], [0.5, 0.5, 0], atol=1e-12)
    np.testing.assert_allclose(curve.conditional[:2].sum(axis=1), 1, atol=1e-12)
    assert (curve.conditional[:2] >= 0).all()
    assert np.isnan(curve.conditional[2]).all()  # nobody is near
    low, high = curve.band()
    assert ((low <= curve.conditional) & (curve.conditional <= high))[:2].all()
    assert np.isnan(low[2]).all()
    with pytest.raises(ValueError, match="canonical curves have pointwise bands"):
        curve.band(kind="simultaneous")


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


def coverage(n, exponent, points, repetitions, kind="pointwise", **options):
    """How often the 95% band holds the truth at points, over seeded samples of known truth.

    Predictions are p ~ Beta(0.8, 0.8), and E[y | p] is p to a power, renormalised: of power 1
    calibrated, of 0.6 over-confident.
    """

    def truth(p):
        return p**exponent / (p**exponent + (1 - p) ** exponent)

    generator = np.random.default_rng(7)
    held = np.zeros((repetitions, len(points)), dtype=bool)
    for i in range(repetitions):
        p = generator.beta(0.8, 0.8, n)
        y = (generator.random(n) < truth(p)).astype(int)
        curve = ra.reliability_curve(y, p, grid=points, notion="binary", **options, **DEBIASED)
        low, high = curve.band(0.95, kind)
        held[i] = (low <= truth(points)) & (truth(points) <= high)
    return held


@pytest.mark.parametrize("exponent", [1.0, 0.6])
def test_the_band_holds_the_truth_at_its_rate(exponent):
    # 80 samples: the standard error of a rate of 95% is 2.4 points at one place, and about 1.1
    # on average over five places that are nearly independent.
    points = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    held = coverage(500, exponent, points, 80, bandwidth=0.02)
    assert held.mean(axis=0).min() > 0.87
    assert held.mean() > 0.92


def test_the_band_holds_the_truth_at_a_bandwidth_found():
    points = np.linspace(0.1, 0.9, 9)
    options = {"bandwidth": "cross-validation", "start": "logistic"}
    held = coverage(500, 0.6, points, 15, **options)
    assert held.mean() > 0.88
    held = coverage(500, 0.6, points, 15, "simultaneous", **options)
    assert held.all(axis=1).sum() >= 12  # fewer once in 200 at a rate of 95%


@pytest.mark.parametrize("start", ["identity", "logistic"])
@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
def test_the_variance_is_that_of_labels_drawn_again(estimator, start):
    """The variance of the whole fit, against curves of labels drawn from the truth."""
    generator = np.random.default_rng(3)
    p, points = generator.beta(1, 2, 400), np.array([0.05, 0.2, 0.5, 0.8])
    method = KernelSmoother(0.05, estimator=estimator, start=start)
    given, narrow = WeightedTunings.given(Tuning(0.05)), WeightedTunings.given(Tuning(0.8))
    curves = []
    for _ in range(400):
        problem = Problem("p", p, (generator.random(400) < p).astype(int), np.ones(400), L2.binary)
        R, _ = curve_of_problem(problem, method, given, points, "exact")
        curves.append(R[:, 1])
    assert narrowed(narrow, DIRICHLET)[0][0] == Tuning(0.05)

    def estimate(x):
        return x

    fit = FittedStart.of(problem, STARTS[start]) if estimator == "debiased" else None
    matrices = KernelMatrices(DIRICHLET, points)
    spread = spread_of(problem, fit, narrow, estimate, matrices, np.full(4, 400.0))
    np.testing.assert_allclose(np.cov(np.array(curves).T), spread.covariance, atol=3e-4, rtol=0.3)
    np.testing.assert_allclose(
        spread.constant + spread.share * points * (1 - points),
        np.diag(spread.covariance),
        rtol=1e-9,
    )
    np.testing.assert_allclose(spread.undersmoothed, curves[-1], atol=1e-9)


@pytest.mark.parametrize("bandwidth", [0.002, 0.1])
@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
def test_rows_and_nodes_have_one_spread(monkeypatch, estimator, bandwidth):
    generator = np.random.default_rng(4)
    p = np.concatenate([generator.beta(0.5, 1, 900), [0.0, 1.0, 0.25, 0.25]])
    y = generator.integers(0, 2, len(p))
    options = {"bandwidth": bandwidth, "estimator": estimator}
    by_rows = ra.reliability_curve(y, p, start="logistic", **options)
    ends = by_rows.band(), by_rows.band(kind="simultaneous")
    monkeypatch.setattr(band, "_few", lambda problem, kernel: False)
    by_nodes = ra.reliability_curve(y, p, start="logistic", **options)
    found = by_nodes.band(), by_nodes.band(kind="simultaneous")
    np.testing.assert_allclose(found, ends, atol=1e-4)
    shown = np.isfinite(ends[0][0])
    assert shown.any()
    assert not shown.all()


def test_there_is_no_band_where_few_rows_inform_it():
    """A model of fraud: most predictions below 0.02, and a lone one at 0.5."""
    generator = np.random.default_rng(5)
    p = np.concatenate([generator.beta(1, 200, 5_000), [0.5, 0.52]])
    y = (generator.random(len(p)) < p).astype(int)
    curve = ra.calibration_error(y, p).reliability_curve()
    low, high = curve.band()
    lone, empty = np.searchsorted(curve.grid, [0.5, 0.9])
    assert curve.local_samples[lone] == 2
    assert np.isfinite(curve.conditional[lone])
    assert np.isnan([low[lone], high[lone], curve.conditional[empty], low[empty]]).all()
    assert np.isfinite(low[[0, 1]]).all()  # thousands are near


def test_a_curve_is_not_a_number_where_no_prediction_lies():
    p = np.repeat([0.2, 0.8], 50)
    y = np.tile([0, 1], 50)
    for options in ({"estimator": "plugin"}, DEBIASED):
        curve = ra.reliability_curve(
            y, p, grid=[0.0, 0.2, 0.5, 0.8, 1.0], bandwidth=0.05, **options
        )
        np.testing.assert_array_equal(np.isnan(curve.conditional), [True, False, True, False, True])
        np.testing.assert_array_equal(curve.local_samples, [0, 50, 0, 50, 0])


def over_confident(n, mirror, seed=0):
    """Log-odds with a scale of 4, of which the truth has half: the last predictions are sparse."""
    generator = np.random.default_rng(seed)
    odds = 4 * generator.standard_normal(n) + 1
    p, R = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-odds / 2))
    y = (generator.random(n) < R).astype(int)
    return (1 - y, 1 - p) if mirror else (y, p)


def ends_of(y, p, mirror, grid, **options):
    """R and the ends of its band at points counted from an end, mirrored from 1 to 0."""
    points = 1 - grid if mirror else grid
    curve = ra.reliability_curve(y, p, grid=points, notion="binary", progress=False, **options)
    low, high = curve.band()
    R = curve.conditional
    return (1 - R, 1 - high, 1 - low) if mirror else (R, low, high)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("options", [{}, {"estimator": "plugin"}, {"estimator": "debiased"}])
@pytest.mark.parametrize("n", [1_000, 4_000])
def test_a_curve_stays_with_its_predictions_at_the_ends(n, options, mirror):
    y, p = over_confident(n, mirror)
    first = np.min(1 - p if mirror else p)
    assert 0 < first < END
    inside = np.geomspace(first, END, 40)
    R, low, high = ends_of(y, p, mirror, np.concatenate([[0.0], inside]), **options)
    assert np.nanmin(R[1:]) <= R[0] <= np.nanmax(R[1:])
    width = high - low
    assert np.isfinite(width[0])
    # the outermost points that have a band are those of some 30 neighbours
    assert width[0] <= 1.2 * np.nanmax(width[1:])
    assert not width[0] > width[1]  # that of the outermost prediction, if it has one


def test_a_crowd_at_the_outermost_prediction_is_the_end_of_its_curve():
    p = np.repeat([0.001, 0.4, 0.998], [80, 100, 80])
    y = np.concatenate([np.arange(80) < 4, np.tile([0, 1], 50), np.arange(80) > 6]).astype(int)
    grid = [0.0, 0.001, 0.4, 0.998, 1.0]
    for bandwidth in (0.05, "cross-validation"):
        curve = ra.reliability_curve(y, p, grid=grid, bandwidth=bandwidth, **DEBIASED)
        for kind in ("pointwise", "simultaneous"):
            for each in (curve.conditional, *curve.band(kind=kind)):
                np.testing.assert_array_equal(each[[0, -1]], each[[1, -2]])
        np.testing.assert_array_equal(curve.local_samples, [80, 80, 100, 80, 80])


def test_points_stay_where_predictions_are_or_none_is_near():
    def moved(p, weights=None):
        weights = np.ones(len(p)) if weights is None else weights
        problem = Problem("p", p, np.zeros(len(p), dtype=int), weights, L2.binary)
        return inhabited(problem, np.array([0.0, 0.3, 1.0]), 0.02).tolist()

    near = np.repeat([1e-6, 0.002, 0.996, 0.9999], [3, 40, 10, 9])
    assert moved(near) == [0.002, 0.3, 0.996]  # of few, the prediction that most are near
    assert moved(np.append(near, [0.0, 1.0])) == [0.0, 0.3, 1.0]
    assert moved(np.append(near, [0.0, 1.0]), np.append(np.ones(62), [0.0, 0.0]))[0] == 0.002
    assert moved(np.array([0.006, 0.5, 0.99])) == [0.0, 0.3, 1.0]


def test_exact_zeros_and_ones_keep_the_ends_of_a_curve():
    """One class of two is certain: its curve ends at 0 and 1, and the other's near them."""
    y, p = over_confident(600, mirror=False)
    certain = np.concatenate([p, np.zeros(40), np.ones(40)])
    labels = np.concatenate([y, np.zeros(40, dtype=int), np.ones(40, dtype=int)])
    R, low, high = ends_of(labels, certain, False, np.array([0.0, 1.0]))
    apart = ends_of(labels, certain, False, np.array([1e-12, 1 - 1e-12]))
    np.testing.assert_allclose([R, low, high], apart, atol=1e-9)


def test_classes_whose_ends_differ_share_their_matrices(monkeypatch):
    """By rows and by nodes, of three classes of which one has exact zeros."""
    data = ra.datasets.temperature(900, 3, t2=0.4, seed=0)
    f = data.y_prob.copy()
    f[:40, 2] = 0.0
    f /= f.sum(axis=1, keepdims=True)
    options = {"notion": "classwise", "bandwidth": 0.05, "grid": [0.0, 0.01, 0.5, 1.0], **DEBIASED}
    by_rows = ra.reliability_curve(data.y_true, f, **options).band()
    monkeypatch.setattr(band, "_few", lambda problem, kernel: False)
    by_nodes = ra.reliability_curve(data.y_true, f, **options).band()
    np.testing.assert_allclose(by_nodes, by_rows, atol=1e-4)


def test_weights_count_by_their_effective_number():
    p = np.full(40, 0.3)
    weights = np.repeat([1.0, 3.0], 20)
    problem = Problem("p", p, np.zeros(40, dtype=int), weights, L2.binary)
    assert samples_nearby(problem, np.array([0.3]), 0.1) == pytest.approx(80**2 / 200)


def test_the_curve_of_one_class():
    data = ra.datasets.class_bias(800, 3, seed=0)
    whole = ra.reliability_curve(data.y_true, data.y_prob, bandwidth=[0.02, 0.05, 0.1])
    own = whole.of_class(1)
    np.testing.assert_array_equal(own.conditional, whole.conditional[:, 1])
    np.testing.assert_array_equal(own.band(), [end[:, 1] for end in whole.band()])
    assert own.bandwidth == 0.05
    with pytest.raises(ValueError, match="class-wise"):
        own.of_class(0)


@pytest.mark.parametrize(("confidence", "kind"), [(1.0, "pointwise"), (0.95, "both")])
def test_what_is_no_band(confidence, kind):
    curve = ra.reliability_curve([0, 1, 1], [0.2, 0.6, 0.9], grid=[0.5], bandwidth=0.1)
    with pytest.raises(ValueError, match=r"`confidence`|`kind`"):
        curve.band(confidence, kind)
