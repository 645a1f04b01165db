"""Starts: fitted without each row, and what their fit adds to the noise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import riskalign as ra
from riskalign.data.sample import Problem
from riskalign.equations.losses import LOSSES
from riskalign.equations.starts import (
    NOISE,
    PRIOR,
    SHIFTED,
    FitNoise,
    Start,
    _derivatives,
    features,
    n_parameters,
    powered,
    products,
    slopes_of,
    started,
)

KL = LOSSES["kl"]


def problem_of(n=300, n_classes=4, *, single, seed=4, t2=0.5):
    data = ra.datasets.temperature(n, n_classes, t2=t2, seed=seed)
    if single:
        return Problem("p", data.y_prob[:, 0], (data.y_true == 0) * 1, np.ones(n), KL.binary)
    return Problem("p", data.y_prob, data.y_true, np.ones(n), KL)


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
    whole = Start.fit(problem, name)
    np.testing.assert_allclose(whole.parameters, plain_fit(problem, p), atol=1e-4)
    moves = np.abs(got - whole.at(problem.points)).max(axis=1)
    assert moves.max() > 0.004
    for i in (np.argmax(moves), 0, 50):
        rest = problem.take(np.delete(np.arange(120), i))
        alone = problem.take(np.array([i]))
        expected = plain_start(alone, plain_fit(rest, p))[0]
        assert np.abs(got[i] - expected).max() < 0.15 * moves[i] + 1e-4  # one Newton step


def test_many_classes_are_not_shifted_and_the_identity_is_f():
    assert [n_parameters("logistic", k) for k in (2, 3, SHIFTED, SHIFTED + 1)] == [2, 5, 32, 2]
    assert [n_parameters("temperature", k) for k in (2, 3, 100)] == [1, 1, 1]
    problem = problem_of(60, SHIFTED + 1, single=False)
    fit = Start.fit(problem, "logistic")
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


def test_powers_are_temperatures():
    data = ra.datasets.temperature(50, 4, t2=0.5, seed=0)
    np.testing.assert_allclose(powered(data.y_prob, 0.5), data.conditional, atol=1e-12)


@pytest.mark.parametrize(
    ("single", "count"), [(False, 1), (True, 1), (True, 2), (False, 2), (False, 6)]
)
def test_slopes_are_derivatives(single, count):
    problem = problem_of(20, single=single)
    theta, step = np.array([0.7, -0.4, 0.2, 0.0, -0.3, 0.5])[:count], 1e-6
    slopes = slopes_of(features(problem.points, count), plain_start(problem, theta))
    for p in range(count):
        up, down = (plain_start(problem, theta + sign * step * np.eye(count)[p])
                    for sign in (1, -1))  # fmt: skip
        np.testing.assert_allclose(slopes[:, :, p], (up - down) / (2 * step), atol=1e-8)


def test_what_is_left_of_the_noise_of_a_fit():
    problem = problem_of(single=True)
    g = started(problem, "logistic")
    slopes = slopes_of(features(problem.points, 2), g)
    one = slopes[:, :, :1]
    weights = np.random.default_rng(0).uniform(0.5, 2, len(g))
    left = FitNoise.of(np.array([[7.0]]), weights, one, 0.6 * one).left
    np.testing.assert_allclose(left, [[1 - 0.6**2]], atol=1e-12)
    information = products(problem.weights, slopes, features(problem.points, 2))
    for share in (0.0, 0.5, 1.0):  # of both parameters alike
        left = FitNoise.of(information, weights, slopes, share * slopes).left
        np.testing.assert_allclose(left, (1 - share**2) * np.eye(2), atol=1e-9)
    overlap = np.array([[0.5, 0.1], [-0.2, 0.3]])
    noise = FitNoise.of(information, weights, slopes, slopes @ overlap)
    V = np.linalg.inv(information)
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
    fitted = Start.fit(problem, name)
    theta, p = fitted.parameters, len(fitted.parameters)
    derivatives = _derivatives(problem, features(problem.points, p), theta, PRIOR * np.eye(p))
    assert np.abs(np.linalg.solve(*derivatives[::-1])).max() < 1e-6  # where Newton stays
    if name == "logistic":
        assert fitted.at(problem.points)[:, 1].mean() == pytest.approx(labels.mean(), rel=0.02)
