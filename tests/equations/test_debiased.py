"""What the noise of R adds to a risk, and that it is taken out."""

import math

import numpy as np
import oracle
import oracle_debiased
import pytest
from cases import LOSSES, SPHERICAL, simplex_points
from hypothesis import given
from hypothesis import strategies as st

from riskalign.equations.debiased import Started, Terms, errors, let_in
from riskalign.equations.losses import KL, L2, RANKED
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS, Logistic, information, prior_precision

BY_NAME = {"l2": L2, "kl": KL, "ranked": RANKED, "spherical": SPHERICAL}


@pytest.mark.parametrize("name", LOSSES)
@given(st.data())
def test_both_risks_equal_the_oracle(name, data):
    n_classes = data.draw(st.integers(2, 5))
    points = data.draw(simplex_points(8, n_classes))
    f, R = points[:4], points[4:]
    y = np.array(data.draw(st.lists(st.integers(0, n_classes - 1), min_size=4, max_size=4)))
    s = np.array(data.draw(st.lists(st.floats(0, 1), min_size=4, max_size=4)))
    steps = st.lists(st.floats(-0.3, 0.3), min_size=n_classes, max_size=n_classes)
    shift = np.array(data.draw(st.lists(steps, min_size=4, max_size=4)))
    problem = Problem("all", f, y, np.ones(4), BY_NAME[name])
    found = Terms.of(problem, R, let_in(problem, R, s, shift))
    loss = oracle.LOSSES[name][0]
    for i in range(4):
        rows = f[i].tolist(), int(y[i]), R[i].tolist(), float(s[i]), shift[i].tolist()
        expected = oracle_debiased.terms(loss, *rows)
        assert found.left_out[i] == pytest.approx(expected["left_out"], abs=1e-12)
        assert found.terms[i] == pytest.approx(expected["terms"], abs=1e-12)
        assert found.risk[i] == pytest.approx(loss(f[i].tolist())[y[i]], abs=1e-12)
    terms, _ = errors(problem, R, let_in(problem, R, s, shift))
    np.testing.assert_array_equal(terms, found.terms)


def test_the_shift_of_one_probability_is_mirrored():
    rng = np.random.default_rng(0)
    p, r, shift = rng.random(6), rng.random(6), 0.1 * rng.normal(size=6)
    y = rng.integers(0, 2, 6)
    R, s = np.stack([1 - r, r], axis=1), np.full(6, 0.2)
    one = Problem("p", p, y, np.ones(6), KL)
    pairs = Problem("p", one.points, y, np.ones(6), KL)
    as_pair = np.stack([-shift, shift], axis=1)
    got, expected = let_in(one, R, s, shift[:, None]), let_in(pairs, R, s, as_pair)
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_the_variance_of_averages_is_taken_out_of_squared_errors():
    """The expectation of a term over all labels, its own and the m whose mean is R (s = 1/m).

    It is the squared distance of the truth q and f but for q (1 - q) (s^2 - s^3) / 2.
    """
    f, q = 0.35, 0.6
    for m in (2, 3, 6, 20):
        positives = np.arange(m + 1)
        chances = np.array([math.comb(m, k) * q**k * (1 - q) ** (m - k) for k in positives])
        R = np.stack([1 - positives / m, positives / m], axis=1)
        found = 0.0
        for y, chance in ((0, 1 - q), (1, q)):
            problem = Problem("p", np.full(m + 1, f), np.full(m + 1, y), np.ones(m + 1), L2.binary)
            own = let_in(problem, R, np.full(m + 1, 1 / m), np.zeros((m + 1, 1)))
            found += chance * (chances @ errors(problem, R, own)[0])
        left = q * (1 - q) * (1 / m**2 - 1 / m**3) / 2
        assert found == pytest.approx((q - f) ** 2 + left, rel=1e-12)


def test_pushes_are_newton_steps_of_one_label():
    """Also those of label sets, which are several rows for each prediction."""
    rng = np.random.default_rng(1)
    p, labels = rng.random(40), rng.integers(0, 2, (40, 3))
    counts, units = rng.integers(1, 4, 40), rng.uniform(0.5, 2, 40)
    problem = Problem("p", p, labels[:, 0], counts * units, KL, units)
    phi = Logistic().features(p)
    fisher = information(phi, problem.free(p), problem.weights)
    fisher += prior_precision(problem.mean_weight, 2)
    drawn = Started.drawn(problem, p, labels, Logistic())
    fitted = Started.of(problem, Logistic())
    for i in (0, 7, 39):
        for b in range(3):
            score = units[i] * (labels[i, b] - p[i]) * phi[i, 0]
            push = np.linalg.solve(fisher, score)
            np.testing.assert_allclose(drawn.pushes[3 * i + b], push, rtol=1e-9)
        score = units[i] * (labels[i, 0] - fitted.g[i, 0]) * phi[i, 0]
        push = np.linalg.solve(fitted.fit.information, score)
        np.testing.assert_allclose(fitted.pushes[i], push, rtol=1e-9)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_label_sets_are_each_on_its_own(start, n_classes):
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.ones(n_classes), 30)
    truth = truth[:, 1] if n_classes == 2 else truth
    labels = rng.integers(0, n_classes, (30, 4))
    problem = Problem("p", truth**1.1, labels[:, 0], rng.uniform(0.5, 2, 30), L2)
    sets = Started.drawn(problem, truth, labels, STARTS[start])
    n_slopes = sets.with_slopes().shape[1] - sets.residuals.size // 30
    averages, s = rng.normal(scale=0.1, size=sets.with_slopes().shape), rng.random(30) / 5
    together = sets.smoothed(averages, s)
    d = sets.g.shape[1]
    for b in range(4):
        one = Started.drawn(problem, truth, labels[:, [b]], STARTS[start])
        np.testing.assert_allclose(one.g, sets.g[b::4], rtol=1e-12)
        columns = np.r_[b * d : (b + 1) * d, averages.shape[1] - n_slopes : averages.shape[1]]
        expected = sets.with_slopes()[:, columns]
        np.testing.assert_allclose(one.with_slopes(), expected, rtol=1e-12, atol=1e-15)
        alone = one.smoothed(averages[:, columns], s)
        np.testing.assert_allclose(alone.R, together.R[b::4], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(alone.let_in, together.let_in[b::4], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(alone.variance, together.variance[b::4], rtol=1e-12)


def test_terms_are_averaged_row_by_row():
    rng = np.random.default_rng(3)
    f, y = rng.dirichlet(np.ones(3), 10), rng.integers(0, 3, 10)
    problem, points = Problem("p", f, y, np.ones(10), KL), rng.dirichlet(np.ones(3), (4, 10))
    parts = [Terms.of(problem, points[0], points[1]), Terms.of(problem, points[2], points[3], 0.9)]
    weights = np.stack([rng.random(10), rng.random(10)])
    weights /= weights.sum(axis=0)
    found = Terms.averaged(parts, weights)
    np.testing.assert_array_equal(found.risk, parts[0].risk)
    for name in ("terms", "plugin", "variance_removed", "reconstructed_risk"):
        expected = sum(w * getattr(part, name) for w, part in zip(weights, parts, strict=True))
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12)
    expected = weights[0][:, None] * points[0] + weights[1][:, None] * points[2]
    np.testing.assert_allclose(found.conditional, expected, rtol=1e-12)
    one = Terms.averaged(parts, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(one.gains, parts[1].gains)
