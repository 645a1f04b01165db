"""Scalings against plain loops and general optimisers, on families and on hard inputs."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

import riskalign as ra
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.recalibration.forms import (
    FEATURES,
    MATRIX,
    PLATT,
    TEMPERATURE,
    VECTOR,
    Features,
    blocks_of,
)
from riskalign.recalibration.leverages import Leverages
from riskalign.recalibration.newton import WEAK, Newton
from riskalign.recalibration.scaling import Fit, Scaling

FORMS = [TEMPERATURE, PLATT, VECTOR, MATRIX]


def loop_logits(form, theta, f, centre):
    """eta, number by number."""
    n, K = f.shape
    eta = np.zeros((n, K))
    S, B = len(form.shared), len(form.own)
    features = {name: feature(f) for name, feature in FEATURES.items()}
    for i in range(n):
        for k in range(K):
            for s, name in enumerate(form.shared):
                eta[i, k] += theta[s] * features[name][i, k]
            for b, name in enumerate(form.own):
                eta[i, k] += theta[S + k * B + b] * features[name][i, k]
            if form.crossed:
                for j in range(K):
                    z = np.log(f[i, j]) - centre[j]
                    eta[i, k] += theta[S + K * B + k * K + j] * z
    return eta


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logits_by_plain_loops(form, n_classes):
    data = ra.datasets.class_bias(60, n_classes, seed=0)
    sample = as_sample(data.y_true, data.y_prob)
    fit = Scaling.fit(sample, form)
    eta = loop_logits(form, fit.theta, data.y_prob, fit.centre)
    np.testing.assert_allclose(fit(data.y_prob), softmax(eta, axis=1), atol=1e-12)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_weights_minimise_the_penalised_loss(form):
    data = ra.datasets.class_bias(200, 3, seed=1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    sample = as_sample(data.y_true, data.y_prob, sample_weight=weights)
    fit = Scaling.fit(sample, form)
    S, B, K = len(form.shared), len(form.own), 3
    precision = [WEAK] * S + [float(x) for _ in range(K) for x in fit.penalties[:B]]
    if form.crossed:
        precision += [fit.penalties[B + (k == j)] for k in range(K) for j in range(K)]
    mean = np.eye(len(fit.theta))[0]
    w = sample.weights / sample.weights.mean()

    def loss(theta):
        eta = loop_logits(form, theta, data.y_prob, fit.centre)
        own = eta[np.arange(200), data.y_true]
        return w @ (logsumexp(eta, axis=1) - own) + np.array(precision) @ (theta - mean) ** 2 / 2

    found = minimize(loss, fit.theta, method="Powell", options={"maxiter": 3})
    assert loss(fit.theta) < found.fun + 0.02  # in nats of all 200 rows


def features_of(form, f):
    return Features.of(form, f, np.log(f).mean(axis=0))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_information_by_finite_differences(form, monkeypatch):
    monkeypatch.setattr("riskalign.recalibration.newton.CHUNK", 100)  # several parts
    data = ra.datasets.class_bias(80, 3, seed=2)
    features = features_of(form, data.y_prob)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 80)
    newton = Newton(features, data.y_true, weights, blocks_of(form, 3))
    theta = np.random.default_rng(0).normal(size=len(newton.precision())) / 5
    precision = newton.precision()
    gradient, information = newton.derivatives(theta, precision)
    for j in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[j]
        up, down = (newton.loss(theta + sign * step, precision) for sign in (1, -1))
        assert gradient[j] == pytest.approx(-(up - down) / 2e-5, abs=1e-4)
        up, down = (newton.derivatives(theta + sign * step, precision)[0] for sign in (1, -1))
        np.testing.assert_allclose(information[j], -(up - down) / 2e-5, atol=1e-4)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_leverages_by_the_jacobian(form):
    data = ra.datasets.class_bias(7, 4, seed=4)
    features = features_of(form, data.y_prob)
    p = len(blocks_of(form, 4))
    root = np.random.default_rng(3).normal(size=(p, p))
    V = root @ root.T
    J = np.stack([features.logits(row) for row in np.eye(p)], axis=-1)  # (K, n, p)
    expected = np.einsum("knp,pq,lnq->kln", J, V, J)
    np.testing.assert_allclose(Leverages(V, features)(features), expected, atol=1e-9)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_left_out_logits_are_those_of_one_newton_step(form):
    data = ra.datasets.class_bias(60, 3, seed=5)
    fit = Fit.of(as_sample(data.y_true, data.y_prob), form)
    features = features_of(form, data.y_prob)
    p = len(fit.scaling.theta)
    J = np.stack([features.logits(row) for row in np.eye(p)], axis=-1)
    left = fit.left_out_logits()
    for i in (0, 31, 59):
        eta = features.logits(fit.scaling.theta)[:, i]
        g = softmax(eta)
        V = np.diag(g) - np.outer(g, g)
        rest = fit.information - J[:, i].T @ V @ J[:, i]
        score = J[:, i].T @ (np.eye(3)[data.y_true[i]] - g)
        moved = eta - J[:, i] @ np.linalg.solve(rest, score)
        np.testing.assert_allclose(left[i], moved, atol=1e-4)  # what has vanished has a precision


def test_the_temperature_of_the_family():
    data = ra.datasets.temperature(20_000, 4, t2=0.5, seed=0)
    fit = Scaling.fit(as_sample(data.y_true, data.y_prob), TEMPERATURE)
    assert 1 / fit.slope == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("n_classes", [2, 4, 10])
def test_blocks_without_evidence_vanish(n_classes):
    data = ra.datasets.temperature(3000, n_classes, t2=0.5, seed=1)
    test = ra.datasets.temperature(3000, n_classes, t2=0.5, seed=2)
    sample = as_sample(data.y_true, data.y_prob)

    def distance(form):
        R = Scaling.fit(sample, form)(test.y_prob)
        return np.mean(np.sum((R - test.conditional) ** 2, axis=1))

    before = np.mean(np.sum((test.y_prob - test.conditional) ** 2, axis=1))
    assert distance(TEMPERATURE) < 0.02 * before
    assert distance(VECTOR) < 0.05 * before
    assert distance(MATRIX) < 0.05 * before


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_hard_inputs(form, n_classes):
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.full(n_classes, 0.05), 50)
    f[:25] = np.eye(n_classes)[rng.integers(0, n_classes, 25)]  # exact zeros and ones, ties
    y = np.zeros(50, dtype=int)  # one class alone
    R = Scaling.fit(Sample(f, y, np.ones(50), tuple("abcde"[:n_classes])), form)(f)
    assert np.isfinite(R).all()
    np.testing.assert_allclose(R.sum(axis=1), 1.0)
    two = Scaling.fit(Sample(f[24:26], y[:2], np.ones(2), tuple("abcde"[:n_classes])), form)
    assert np.isfinite(two(f)).all()


def test_weights_as_copies():
    data = ra.datasets.class_bias(150, 3, seed=3)
    counts = np.random.default_rng(1).integers(1, 4, 150)
    weighted = as_sample(data.y_true, data.y_prob, sample_weight=counts)
    copies = np.repeat(np.arange(150), counts)
    copied = as_sample(data.y_true[copies], data.y_prob[copies])
    a, b = (Scaling.fit(sample, TEMPERATURE).slope for sample in (weighted, copied))
    assert a == pytest.approx(b, rel=5e-3)  # the prior counts in mean weights
