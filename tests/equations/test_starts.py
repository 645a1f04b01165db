"""Starts: fitted without each row, and what their fit adds to the noise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import riskalign as ra
from riskalign.equations import starts
from riskalign.equations.debiased import FitNoise
from riskalign.equations.losses import LOSSES
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex
from riskalign.equations.starts import (
    NOISE,
    PRIOR,
    SHIFTED,
    STARTS,
    FittedStart,
    Logistic,
    Temperature,
    information,
    prior_mean,
    prior_precision,
    products,
    scores,
    slopes_of,
)

KL = LOSSES["kl"]


def problem_of(n=300, n_classes=4, *, single, seed=4, t2=0.5):
    data = ra.datasets.temperature(n, n_classes, t2=t2, seed=seed)
    if single:
        return Problem("p", data.y_prob[:, 0], (data.y_true == 0) * 1, np.ones(n), KL.binary)
    return Problem("p", data.y_prob, data.y_true, np.ones(n), KL)


def on_points(problem, columns):
    """Probabilities in free columns ``(n, d)`` as points of the simplex ``(n, K)``."""
    return on_simplex(columns[:, 0]) if problem.one_dimensional else columns


def started(problem, name):
    """The start at each row, fitted without it, ``(n, K)``."""
    return on_points(problem, FittedStart.of(problem, STARTS[name]).without_each(problem))


def plain_start(problem, theta):
    """softmax(a log f + (0, b)); of K > 2, softmax(a log f + b log(f + c / K) + d); by loops."""
    rows = []
    for f in problem.points:
        z = [theta[0] * np.log(max(p, 1e-9)) for p in f]
        if len(theta) > 1 and len(f) == 2:
            z[1] += theta[1]
        elif len(theta) > 1:
            for k, p in enumerate(f):
                shift = theta[2 + k] if len(theta) > 2 else 0.0
                z[k] += theta[1] * np.log(p + NOISE / len(f)) + shift
        e = np.exp(np.array(z) - max(z))
        rows.append(e / e.sum())
    return np.array(rows)


def plain_fit(problem, p):
    """Parameters of the least penalised log loss, by a general minimiser."""
    beforehand = np.array([1.0] + [0.0] * (p - 1))

    def risk(theta):
        g = plain_start(problem, theta)
        losses = -np.log(g[np.arange(len(g)), problem.labels])
        return problem.weights @ losses + PRIOR / 2 * np.sum((theta - beforehand) ** 2)

    return minimize(risk, beforehand, method="BFGS", options={"gtol": 1e-4}).x


@pytest.mark.parametrize(
    ("name", "single", "p"),
    [
        ("temperature", False, 1),
        ("temperature", True, 1),
        ("logistic", True, 2),
        ("logistic", False, 6),
    ],
)
def test_starts_are_those_fitted_without_each_row(name, single, p):
    problem = problem_of(120, single=single)
    got = started(problem, name)
    whole = FittedStart.of(problem, STARTS[name])
    np.testing.assert_allclose(whole.parameters, plain_fit(problem, p), atol=1e-4)
    moves = np.abs(got - on_points(problem, whole.at(problem.predictions))).max(axis=1)
    assert moves.max() > 0.004
    for i in (np.argmax(moves), 0, 50):
        rest = problem.take(np.delete(np.arange(120), i))
        alone = problem.take(np.array([i]))
        expected = plain_start(alone, plain_fit(rest, p))[0]
        assert np.abs(got[i] - expected).max() < 0.15 * moves[i] + 1e-4  # one Newton step


def test_many_classes_are_not_shifted_and_the_identity_is_f():
    def shape(start, n_classes):
        return start.features(np.full((5, n_classes), 1 / n_classes)).shape[1:]

    counts = [shape(Logistic(), k)[1] for k in (3, SHIFTED, SHIFTED + 1)]
    assert counts == [5, 32, 2]
    assert [shape(Temperature(), k) for k in (2, 3, 100)] == [(2, 1), (3, 1), (100, 1)]
    one = np.linspace(0, 1, 5)
    assert [
        STARTS[name].features(one).shape for name in ("logistic", "temperature", "identity")
    ] == [
        (5, 1, 2),
        (5, 1, 1),
        (5, 1, 0),
    ]
    problem = problem_of(60, SHIFTED + 1, single=False)
    fit = FittedStart.of(problem, Logistic())
    np.testing.assert_allclose(fit.parameters, plain_fit(problem, 2), atol=1e-3)
    np.testing.assert_array_equal(started(problem, "identity"), problem.points)


def test_a_logistic_start_undoes_temperature_and_shift():
    """Class-wise, a temperature of many classes is a slope and a shift in log-odds."""
    data = ra.datasets.temperature(20_000, 10, t2=0.6, seed=1)
    problem = Problem("p", data.y_prob[:, 0], (data.y_true == 0) * 1, np.ones(20_000), KL.binary)
    truth = data.conditional[:, 0]

    def miss(name):
        gap = started(problem, name)[:, 1] - truth
        means = [part.mean() for part in np.array_split(gap[np.argsort(data.y_prob[:, 0])], 50)]
        return np.mean(np.square(means))

    assert miss("logistic") < 0.1 * min(miss("temperature"), miss("identity"))


@pytest.mark.parametrize("family", ["label noise", "class bias", "temperature", "imbalanced"])
def test_a_logistic_start_of_many_classes_undoes_noise_and_shifts(family):
    data = ra.datasets.FAMILIES[family](20_000, 5, 0)
    problem = Problem("p", data.y_prob, data.y_true, np.ones(20_000), KL)

    def miss(name):
        return np.mean(np.square(started(problem, name) - data.conditional))

    assert miss("logistic") < 0.05 * miss("identity")
    if family != "temperature":
        assert miss("logistic") < 0.2 * miss("temperature")


@pytest.mark.parametrize(
    ("single", "count"), [(False, 1), (True, 1), (True, 2), (False, 2), (False, 6)]
)
def test_slopes_are_derivatives(single, count):
    problem = problem_of(20, single=single)
    theta, step = np.array([0.7, -0.4, 0.2, 0.0, -0.3, 0.5])[:count], 1e-6
    phi = Logistic().features(problem.predictions)[:, :, :count]  # the first ones are a start too
    free = slice(1, None) if single else slice(None)
    slopes = slopes_of(phi, plain_start(problem, theta)[:, free])
    for p in range(count):
        up, down = (plain_start(problem, theta + sign * step * np.eye(count)[p])[:, free]
                    for sign in (1, -1))  # fmt: skip
        np.testing.assert_allclose(slopes[:, :, p], (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("single", [True, False])
def test_features_of_the_temperature_are_the_first_of_the_logistic(single):
    problem = problem_of(20, single=single)
    first = Logistic().features(problem.predictions)[:, :, :1]
    np.testing.assert_array_equal(Temperature().features(problem.predictions), first)


def noise_of(fisher, weights, slopes, smoothed):
    seen = products(weights, slopes, smoothed)
    size = products(weights, slopes, slopes)
    noise = FitNoise.of(fisher, size, seen)
    several = FitNoise.of(*(np.stack([a, 2 * a]) for a in (fisher, size, seen)))
    np.testing.assert_allclose(several[0].left, noise.left, atol=1e-12)
    return noise


def test_what_is_left_of_the_noise_of_a_fit():
    problem = problem_of(single=True)
    phi = Logistic().features(problem.predictions)
    slopes = slopes_of(phi, FittedStart.of(problem, Logistic()).without_each(problem))
    one = slopes[:, :, :1]
    weights = np.random.default_rng(0).uniform(0.5, 2, len(slopes))
    left = noise_of(np.array([[7.0]]), weights, one, 0.6 * one).left
    np.testing.assert_allclose(left, [[1 - 0.6**2]], atol=1e-12)
    fisher = products(problem.weights, slopes, phi)
    for share in (0.0, 0.5, 1.0):  # of both parameters alike
        left = noise_of(fisher, weights, slopes, share * slopes).left
        np.testing.assert_allclose(left, (1 - share**2) * np.eye(2), atol=1e-9)
    overlap = np.array([[0.5, 0.1], [-0.2, 0.3]])
    noise = noise_of(fisher, weights, slopes, slopes @ overlap)
    V = np.linalg.inv(fisher)
    np.testing.assert_allclose(noise.left @ V, V - overlap @ V @ overlap.T, atol=1e-9)


@pytest.mark.parametrize("positives", [0, 1, 50])
@pytest.mark.parametrize("at", [[0.0], [1.0], [0.3], [0.0, 1.0]])
def test_fits_of_hard_problems_are_finite(positives, at):
    f = np.resize(at, 50).astype(float)
    labels = (np.arange(50) < positives) * 1
    problem = Problem("p", f, labels, np.ones(50), KL.binary)
    g = started(problem, "logistic")
    assert np.isfinite(g).all()
    np.testing.assert_allclose(g.sum(axis=1), 1)
    light = replace(problem, weights=np.full(50, 1e-6))
    np.testing.assert_allclose(started(light, "logistic"), g, atol=1e-8)


@pytest.mark.parametrize("n_classes", [3, 8, SHIFTED + 5])
@pytest.mark.parametrize("present", [1, 2])
def test_fits_of_hard_simplices_are_finite(n_classes, present):
    """Zeros and ones, ties, and classes without a label."""
    certain = np.eye(n_classes)[np.arange(30) % n_classes]
    f = np.concatenate([certain, np.full((10, n_classes), 1 / n_classes)])
    problem = Problem("p", f, np.arange(40) % present, np.ones(40), KL)
    g = started(problem, "logistic")
    assert np.isfinite(g).all()
    np.testing.assert_allclose(g.sum(axis=1), 1)
    turned = replace(problem, predictions=f[:, ::-1], labels=n_classes - 1 - problem.labels)
    np.testing.assert_allclose(started(turned, "logistic")[:, ::-1], g, atol=1e-7)


@pytest.mark.parametrize(
    ("slope", "shift", "true_slope"), [(0.3, -5.0, 2.0), (3.0, 4.0, 0.5), (1.0, 0.0, -1.0)]
)
@pytest.mark.parametrize("name", ["logistic", "temperature"])
def test_fits_from_far_away_converge(slope, shift, true_slope, name):
    random = np.random.default_rng(0)
    x = random.standard_normal(2_000)
    labels = (random.random(2_000) < expit(true_slope * x)) * 1
    problem = Problem("p", expit(slope * x + shift), labels, np.ones(2_000), KL.binary)
    fitted = FittedStart.of(problem, STARTS[name])
    theta, p = fitted.parameters, len(fitted.parameters)
    phi = STARTS[name].features(problem.predictions)
    g = fitted.at(problem.predictions)
    prior = prior_precision(problem.mean_weight, p)
    gradient = scores(phi, problem.columns() - g).sum(axis=0) - prior @ (theta - prior_mean(p))
    hessian = information(phi, g, problem.weights) + prior
    np.testing.assert_allclose(fitted.information, hessian, rtol=1e-12)
    assert np.abs(np.linalg.solve(hessian, gradient)).max() < 1e-6  # where Newton stays
    if name == "logistic":
        assert g.mean() == pytest.approx(labels.mean(), rel=0.02)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("name", ["temperature", "logistic"])
def test_a_start_whose_parameters_are_the_prior_mean_is_f_itself(single, name):
    problem = problem_of(30, single=single)
    p = STARTS[name].features(problem.predictions).shape[2]
    start = FittedStart(STARTS[name], prior_mean(p), np.eye(p))
    assert start.is_prior
    np.testing.assert_array_equal(start.at(problem.predictions), problem.free(problem.predictions))
    moved = FittedStart(STARTS[name], prior_mean(p) + 1e-9, np.eye(p))
    assert not moved.is_prior
    np.testing.assert_allclose(
        moved.at(problem.predictions), problem.free(problem.predictions), atol=1e-7
    )


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("name", STARTS)
def test_rows_of_several_equal_samples_are_fitted_as_their_samples(single, name):
    problem = problem_of(60, single=single)
    counts = np.random.default_rng(0).integers(1, 5, 60)
    units = np.random.default_rng(1).uniform(0.5, 2, 60)
    table = replace(problem, weights=counts * units, sample_weights=units)
    each = np.repeat(np.arange(60), counts)
    expanded = replace(problem.take(each), weights=units[each])
    assert table.unit == pytest.approx(expanded.unit)
    fit, whole = (FittedStart.of(one, STARTS[name]) for one in (table, expanded))
    np.testing.assert_allclose(fit.parameters, whole.parameters, rtol=1e-9)
    np.testing.assert_allclose(fit.information, whole.information, rtol=1e-9)
    np.testing.assert_allclose(
        fit.without_each(table)[each], whole.without_each(expanded), rtol=1e-9
    )


def test_a_part_of_many_rows_shows_where_the_fit_begins(monkeypatch):
    problem = problem_of(400, single=False)
    whole = FittedStart.of(problem, STARTS["logistic"])
    monkeypatch.setattr(starts, "MANY", 200)
    for weights in (np.ones(400), (np.arange(400) % starts.ROUGH > 0) * 1.0):
        fit = FittedStart.of(replace(problem, weights=weights), STARTS["logistic"])
        score = weights @ scores(
            fit.start.features(problem.predictions), problem.columns() - fit.at(problem.predictions)
        )
        prior = PRIOR * (fit.parameters - prior_mean(len(fit.parameters)))
        np.testing.assert_allclose(score, prior, atol=1e-5)
    again = FittedStart.of(problem, STARTS["logistic"])
    np.testing.assert_allclose(again.parameters, whole.parameters, rtol=0, atol=1e-8)
