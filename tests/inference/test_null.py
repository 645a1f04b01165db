"""Labels drawn from the start: what the estimate is in a world where the start is right."""

from dataclasses import replace

import numpy as np
import pytest

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.notions import NOTIONS
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.debiased import FitNoise, second_order
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import KL, L2
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import mirrored, on_simplex, onto_simplex
from riskalign.equations.starts import (
    STARTS,
    FittedStart,
    information,
    moved,
    prior_precision,
    products,
    scores,
    slopes_of,
)
from riskalign.equations.terms import risk_of
from riskalign.inference import null
from riskalign.inference.null import (
    Model,
    NullWorld,
    draw_labels,
    null_estimates,
    null_sample,
    one_per_row,
    representatives,
    systematic_rows,
)
from riskalign.methods.residuals import debiased
from riskalign.options import sketched_case
from riskalign.smoothing import Tuning, choose_smoother
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.grid import GridSmoother

TUNING = Tuning(0.05, 0.5)


def null_moments(model, n_samples, seed=0):
    """Mean and variance of the sum of a model's estimates in the null world."""
    null = null_estimates(model, n_samples, seed).sum(axis=0)
    return float(null.mean()), float(np.var(null, ddof=1))


def sample_of(n=60, n_classes=3, weights=None, seed=0, family="temperature"):
    data = ra.datasets.FAMILIES[family](n, n_classes, seed)
    return as_sample(data.y_true, data.y_prob, sample_weight=weights)


def model_of(sample, notion="classwise", loss=L2, start="logistic", tuning=TUNING, engine="exact"):
    chosen = NOTIONS[notion]
    given = [WeightedTunings.given(tuning) for _ in chosen.problems(sample, loss)]
    return Model(sample, chosen, loss, DIRICHLET, engine, STARTS[start], given)


# Labels.


def test_labels_are_drawn_from_the_rows():
    g = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    labels = draw_labels(g, 20_000, np.random.default_rng(0))
    shares = [np.bincount(row, minlength=3) / 20_000 for row in labels]
    np.testing.assert_allclose(shares, g, atol=0.02)  # six standard deviations


def test_averages_of_many_columns_are_those_of_the_engine():
    data = ra.datasets.peaked(400, 2, seed=0)
    weights = np.random.default_rng(1).uniform(0.5, 2, 400)
    problem = Problem("p", data.y_prob[:, 1], data.y_true, weights, L2.binary)
    columns = {0: np.random.default_rng(2).normal(size=(400, 5))}
    (exact,) = DenseSmoother([problem], DIRICHLET).averages(columns, [Tuning(0.02)])
    (got,) = GridSmoother([problem], DIRICHLET).averages(columns, [Tuning(0.02)])
    np.testing.assert_allclose(got[0], exact[0], atol=1e-5)


# One label set at a time.


def plain_terms(problem, truth, labels, start, tuning):
    """The terms of one label set, with a start that is refitted by one Newton step.

    Written for one set from the equations, where `NullWorld` has all sets as columns.
    """
    drawn = replace(problem, labels=labels)
    g, y, own = Problem.free(truth), drawn.columns(), problem.units
    phi = start.features(problem.predictions)
    n, d, p = phi.shape
    smoother = DenseSmoother([problem], DIRICHLET)
    shift = None
    if p:
        fisher = information(phi, g, problem.weights) + prior_precision(problem.mean_weight, p)
        slopes = slopes_of(phi, g)
        pushes = np.linalg.solve(fisher, (own[:, None] * scores(phi, y - g)).T).T  # (n, p)
        without = pushes.sum(axis=0) - pushes
        odds = np.log(on_simplex(truth) if d == 1 else truth)
        tilt = moved(phi, without)
        odds = odds + (np.concatenate([np.zeros((n, 1)), tilt], axis=1) if d == 1 else tilt)
        started = np.exp(odds - odds.max(axis=1, keepdims=True))
        started /= started.sum(axis=1, keepdims=True)
        values = np.concatenate([slopes.reshape(n, d * p), y - started[:, -d:]], axis=1)
    else:
        started = on_simplex(truth) if d == 1 else truth
        values = y - started[:, -d:]
    smoothed, s = smoother.with_squares({0: values}, tuning)[0]
    q = smoothed[:, d * p :]
    if p:
        averages = smoothed[:, : d * p].reshape(n, d, p)
        size, seen = (products(problem.weights, slopes, each) for each in (slopes, averages))
        noise = FitNoise.of(fisher, size, seen)
        q = q + moved(averages, pushes)
        shift = noise.own_shift(slopes, pushes)
    R = onto_simplex(started, mirrored(q))
    at_truth = replace(drawn, predictions=truth)
    _, refinement = second_order(at_truth, R, s, shift)
    return risk_of(problem.loss, labels, at_truth.points) - refinement


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [L2, KL], ids=lambda loss: loss.name)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_all_label_sets_at_once_are_each_on_its_own(notion, start, loss, weighted):
    n_classes = 2 if notion == "binary" else 3
    weights = np.linspace(0.3, 2, 60) if weighted else None
    sample = sample_of(60, n_classes, weights)
    model = model_of(sample, notion, loss, start)
    rows = np.arange(60)
    truth = model.truth(rows)
    labels = draw_labels(truth, 4, np.random.default_rng(0))
    problems = model.notion.problems(sample, loss)
    expected = np.zeros((60, 4))
    for k, problem in enumerate(problems):
        true = model.notion.truth(truth, sample.probabilities, k)
        outcomes = model.notion.outcomes(sample.probabilities, labels, k)
        world = NullWorld(
            k, problem, true, outcomes, STARTS[start], choose_smoother(problems, DIRICHLET, "exact")
        )
        alone = np.stack(
            [plain_terms(problem, true, own, STARTS[start], TUNING) for own in outcomes.T], axis=1
        )
        np.testing.assert_allclose(world.terms(TUNING), alone, rtol=1e-9, atol=1e-11)
        expected += alone
    got = sum(model.null_terms(rows, truth, labels))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_with_f_itself_as_the_start_terms_are_those_of_the_estimate(notion):
    """The debiased estimate of drawn labels: nothing is fitted, so nothing is approximate."""
    sample = sample_of(50)
    model = model_of(sample, notion, KL, "identity")
    rows = np.arange(50)
    truth = model.truth(rows)
    np.testing.assert_array_equal(truth, sample.probabilities)
    labels = draw_labels(truth, 3, np.random.default_rng(0))
    got = sum(model.null_terms(rows, truth, labels))
    for b in range(3):
        drawn = replace(sample, labels=labels[:, b])
        problems = model.notion.problems(drawn, KL)
        tunings = [TUNING] * len(problems)
        estimates = debiased(problems, DIRICHLET, "exact", STARTS["identity"], tunings)
        expected = np.sum([each.terms for each in estimates], axis=0)
        np.testing.assert_allclose(got[:, b], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("notion", ["binary", "canonical"])
def test_one_newton_step_is_close_to_a_new_fit(notion):
    """Errors of g over 20 label sets, against the debiased estimate fitted to each of them."""
    sample = sample_of(400, 2 if notion == "binary" else 3)
    model = model_of(sample, notion, L2, "logistic")
    rows = np.arange(400)
    truth = model.truth(rows)
    labels = draw_labels(truth, 20, np.random.default_rng(0))
    got = sum(model.null_terms(rows, truth, labels)).mean(axis=0)
    expected = []
    (problem,) = model.notion.problems(sample, L2)
    true = model.notion.truth(truth, sample.probabilities, 0)
    for own in labels.T:
        drawn = replace(problem, labels=own)
        (estimate,) = debiased([drawn], DIRICHLET, "exact", STARTS["logistic"], [TUNING])
        at_truth = replace(drawn, predictions=true)
        risk = risk_of(problem.loss, own, at_truth.points).mean()
        expected.append(risk - estimate.mean(estimate.risk - estimate.terms))
    assert np.corrcoef(got, expected)[0, 1] > 0.98
    assert np.std(got) == pytest.approx(np.std(expected), rel=0.1)
    assert np.mean(got) == pytest.approx(np.mean(expected), abs=0.1 * np.std(expected))


@pytest.mark.parametrize("notion", ["classwise", "top-label"])
def test_engines_agree(notion):
    sample = sample_of(300, 3)
    rows = np.arange(300)
    model = model_of(sample, notion, KL, tuning=Tuning(0.02))
    truth = model.truth(rows)
    labels = draw_labels(truth, 5, np.random.default_rng(0))
    exact = sum(model.null_terms(rows, truth, labels))
    grid = sum(replace(model, engine="grid").null_terms(rows, truth, labels))
    np.testing.assert_allclose(grid.mean(axis=0), exact.mean(axis=0), rtol=0, atol=1e-6)


def test_hard_rows_give_finite_terms():
    """Exact zeros and ones, ties, a class without labels, two samples."""
    for f, y in (
        (np.eye(3)[[0, 1, 2, 0, 1, 2]], [0, 1, 2, 1, 1, 2]),
        (np.full((6, 3), 1 / 3), [0, 1, 2, 0, 0, 0]),
        (np.array([[0.5, 0.5, 0], [0.9, 0.1, 0], [0.2, 0.8, 0]]), [0, 0, 1]),
        (np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]), [0, 2]),
    ):
        sample = as_sample(y, f)
        for notion in ("top-label", "classwise", "canonical"):
            for start in STARTS:
                moments = null_moments(model_of(sample, notion, KL, start), len(y))
                assert np.isfinite(moments).all()


# The truth that labels are drawn from.


@pytest.mark.parametrize("start", STARTS)
def test_labels_of_canonical_problems_are_drawn_from_their_start(start):
    sample = sample_of(200)
    model = model_of(sample, "canonical", start=start)
    (problem,) = model.notion.problems(sample, KL)
    fit = FittedStart.of(problem, STARTS[start])
    rows = np.arange(200)
    np.testing.assert_allclose(model.truth(rows), fit.at(sample.probabilities), rtol=1e-12)


@pytest.mark.parametrize("notion", ["classwise", "top-label"])
def test_labels_of_many_classes_are_drawn_from_the_temperature_of_the_whole(notion):
    sample = sample_of(200)
    whole = Problem("all", sample.probabilities, sample.labels, sample.weights, KL)
    fit = FittedStart.of(whole, STARTS["temperature"])
    for start in ("temperature", "logistic"):
        truth = model_of(sample, notion, start=start).truth(np.arange(200))
        np.testing.assert_allclose(truth, fit.at(sample.probabilities), rtol=1e-12)


def test_labels_of_two_classes_are_drawn_from_platt_scaling():
    sample = sample_of(200, 2)
    problem = NOTIONS["binary"].problems(sample, KL)[0]
    expected = FittedStart.of(problem, STARTS["logistic"]).at(problem.predictions)[:, 0]
    for notion in ("binary", "classwise", "canonical"):
        truth = model_of(sample, notion).truth(np.arange(200))
        np.testing.assert_allclose(truth[:, 1], expected, rtol=1e-9)
        np.testing.assert_allclose(truth.sum(axis=1), 1)


# Tunings that stand for all.


def test_representatives_lie_in_the_middle_of_equal_shares():
    tunings = [Tuning(0.1), Tuning(0.01), Tuning(0.05, 0.5)]

    def of(*shares):
        return representatives(WeightedTunings(tunings, np.log(shares), 1.0))

    assert representatives(WeightedTunings.given(TUNING)) == {TUNING: 1.0}
    assert of(0.98, 0.01, 0.01) == {Tuning(0.1): 1.0}
    assert of(0.4, 0.3, 0.3) == pytest.approx({Tuning(0.01): 1 / 2, Tuning(0.1): 1 / 2})
    assert of(0.45, 0.1, 0.45) == pytest.approx({Tuning(0.05, 0.5): 1 / 2, Tuning(0.1): 1 / 2})
    assert of(0.1, 0.1, 0.8) == {Tuning(0.05, 0.5): 1.0}
    for shares in np.random.default_rng(0).dirichlet(np.ones(3), 20):
        assert sum(of(*shares).values()) == pytest.approx(1)


# Which rows are drawn.


def counted(counts, unit=1.0):
    n = len(counts)
    f = np.stack([np.linspace(0.1, 0.5, n), 1 - np.linspace(0.1, 0.5, n)], axis=1)
    counts = np.asarray(counts, float)
    return Sample(f, np.zeros(n, int), counts * unit, ("0", "1"), np.full(n, unit))


def test_all_rows_are_drawn_where_there_are_few():
    sample = sample_of(50)
    for most in (50, 2_000):
        rows = systematic_rows([sample], most)
        np.testing.assert_array_equal(np.sort(rows), np.arange(50))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_predictions_that_differ_by_rounding_are_in_the_same_order(n_classes):
    f = np.random.default_rng(0).dirichlet(np.ones(n_classes), 300)
    noise = np.random.default_rng(1).normal(1, 1e-14, f.shape)
    labels, order = np.zeros(300, int), np.random.default_rng(2).permutation(300)
    classes = tuple(map(str, range(n_classes)))
    first = Sample(f, labels, np.ones(300), classes)
    second = Sample((f * noise)[order], labels, np.ones(300), classes)
    for most in (100, 300):
        one, other = (systematic_rows([each], most) for each in (first, second))
        np.testing.assert_array_equal(one, order[other])


def test_the_order_of_two_models_does_not_matter():
    first, second = sample_of(60), sample_of(60, weights=np.linspace(1, 2, 60))
    second = replace(second, probabilities=second.probabilities[::-1])
    rows = systematic_rows([first, second], 20)
    np.testing.assert_array_equal(rows, systematic_rows([second, first], 20))


@pytest.mark.parametrize("unit", [1.0, 0.37])
def test_a_row_of_many_samples_comes_often(unit):
    sample = counted([1, 3, 2, 0, 4], unit)
    every = systematic_rows([sample], 100)
    assert every.tolist() == [0, 1, 1, 1, 2, 2, 4, 4, 4, 4]
    half = systematic_rows([sample], 5)
    assert np.bincount(half, minlength=5).tolist() == [0, 2, 1, 0, 2]


@pytest.mark.parametrize("m", [1, 7, 100, 500])
def test_rows_are_evenly_spaced_among_samples(m):
    counts = np.random.default_rng(0).integers(1, 9, 200)
    rows = systematic_rows([counted(counts)], m)
    assert len(rows) == m
    assert (np.diff(rows) >= 0).all()
    times = np.bincount(rows, minlength=200)
    expected = counts * m / counts.sum()
    assert (np.abs(times - expected) < 1).all()


def test_each_row_then_stands_for_one_sample():
    sample = counted([1, 3, 2], 0.5)
    drawn = one_per_row(sample.take(systematic_rows([sample], 6)))
    assert drawn.weights.tolist() == [0.5] * 6
    assert drawn.sample_weights is None
    plain = sample_of(20)
    assert one_per_row(plain) is plain


# Moments.


def test_moments_are_those_of_the_mean_term():
    sample = sample_of(80, weights=np.linspace(0.5, 2, 80))
    model = model_of(sample)
    bias, variance = null_moments(model, 80, seed=3)
    rows = systematic_rows([sample], 80)
    truth = model.truth(rows)
    labels = draw_labels(truth, null.MOST_DRAWS, np.random.default_rng(3))
    terms = sum(model.null_terms(rows, truth, labels))
    means = np.average(terms, axis=0, weights=sample.weights[rows])
    assert bias == pytest.approx(means.mean(), rel=1e-9)
    assert variance == pytest.approx(means.var(ddof=1), rel=1e-9)
    other = null_moments(model, 80, seed=4)
    assert other != (bias, variance)


@pytest.mark.parametrize(
    ("n", "n_draws"), [(80, 500), (200, 500), (800, 200), (1_500, 106), (2_000, 80)]
)
def test_small_samples_have_more_label_sets(n, n_draws):
    """As many as cost what 30 of the largest samples do, 500 at most."""
    _, _, labels = null.drawn_labels([model_of(sample_of(n))], 0)
    assert labels.shape == (n, n_draws)


def test_moments_scale_with_the_number_of_samples():
    model = model_of(sample_of(80))
    bias, variance = null_moments(model, 80)
    of_more = null_moments(model, 800)
    assert of_more == pytest.approx((bias / 10, variance / 100))


def test_a_model_less_itself_has_no_noise():
    model = model_of(sample_of(80))
    null, _ = null_sample([model, model], [1.0, -1.0])
    assert not null.any()


def test_rows_of_several_samples_are_drawn_as_their_samples():
    """All samples are drawn here: a row per sample, in the same order, gives the same moments."""
    plain = sample_of(60)
    counts = np.random.default_rng(0).integers(1, 4, 60)
    each = np.repeat(np.arange(60), counts)
    table = replace(plain, weights=counts * 1.0, sample_weights=np.ones(60))
    expanded = replace(plain.take(each), weights=np.ones(len(each)))
    for notion in ("classwise", "canonical"):
        one, other = (
            null_moments(model_of(sample, notion), len(each)) for sample in (table, expanded)
        )
        assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_do_not_depend_on_the_order_of_rows(notion, weighted):
    """A case holds its rows in the order of their hashes, whatever the order of the data."""
    n = 300
    data = ra.datasets.temperature(n, 2 if notion == "binary" else 3, seed=1)
    weights = np.random.default_rng(0).uniform(0.5, 2, n) if weighted else np.ones(n)
    order = np.random.default_rng(1).permutation(n)
    moments = []
    for rows in (np.arange(n), order):
        sample = as_sample(data.y_true[rows], data.y_prob[rows], sample_weight=weights[rows])
        case = sketched_case(sample, notion, L2, "exact", weighted=weighted)
        given = [WeightedTunings.given(TUNING) for _ in case.problems]
        model = Model(
            case.sample, case.notion, case.loss, DIRICHLET, "exact", STARTS["logistic"], given
        )
        moments.append(null_moments(model, n, seed=5))
    assert moments[0] == pytest.approx(moments[1], rel=1e-9)


@pytest.mark.parametrize(("notion", "n"), [("classwise", 300), ("top-label", 4_000)])
def test_intervals_do_not_depend_on_the_order_of_rows(notion, n):
    data = ra.datasets.temperature(n, 3, t2=0.7, seed=2)
    order = np.random.default_rng(1).permutation(n)
    one, other = (
        ra.calibration_error(
            data.y_true[rows], data.y_prob[rows], notion=notion, confidence=0.9, seed=7
        )
        for rows in (np.arange(n), order)
    )
    assert one.interval == pytest.approx(other.interval, rel=1e-9)
    assert one.standard_error == pytest.approx(other.standard_error, rel=1e-9)
