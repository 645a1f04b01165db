"""What the noise of R adds to a risk, and that it is taken out."""

import math

import numpy as np
import oracle
import oracle_debiased
import pytest
from cases import LOSSES, SPHERICAL, simplex_points
from hypothesis import given
from hypothesis import strategies as st

from riskalign.equations.debiased import FitNoise, second_order
from riskalign.equations.losses import KL, L2, RANKED
from riskalign.equations.problem import Problem
from riskalign.equations.starts import Logistic, information, prior_precision, products, slopes_of

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
    left_out, refinement = second_order(problem, R, s, shift)
    loss = oracle.LOSSES[name][0]
    for i in range(4):
        rows = f[i].tolist(), int(y[i]), R[i].tolist(), float(s[i]), shift[i].tolist()
        expected = oracle_debiased.terms(loss, *rows)
        observed = loss(f[i].tolist())[y[i]]
        assert left_out[i] == pytest.approx(expected["left_out"], abs=1e-12)
        assert observed - refinement[i] == pytest.approx(expected["terms"], abs=1e-12)
    without, _ = second_order(problem, R, s, None)
    np.testing.assert_array_equal(without, left_out)


def test_the_shift_of_one_probability_is_mirrored():
    rng = np.random.default_rng(0)
    p, r, shift = rng.random(6), rng.random(6), 0.1 * rng.normal(size=6)
    y = rng.integers(0, 2, 6)
    R, s = np.stack([1 - r, r], axis=1), np.full(6, 0.2)
    one = Problem("p", p, y, np.ones(6), KL)
    pairs = Problem("p", one.points, y, np.ones(6), KL)
    as_pair = np.stack([-shift, shift], axis=1)
    for got, expected in zip(
        second_order(one, R, s, shift[:, None]), second_order(pairs, R, s, as_pair), strict=True
    ):
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
            _, refinement = second_order(problem, R, np.full(m + 1, 1 / m), None)
            found += chance * (chances @ ((y - f) ** 2 - refinement))
        left = q * (1 - q) * (1 / m**2 - 1 / m**3) / 2
        assert found == pytest.approx((q - f) ** 2 + left, rel=1e-12)


def test_pushes_are_newton_steps_of_one_label():
    rng = np.random.default_rng(1)
    p, y = rng.random(40), rng.integers(0, 2, 40)
    counts, units = rng.integers(1, 4, 40), rng.uniform(0.5, 2, 40)
    problem = Problem("p", p, y, counts * units, KL, units)
    phi, g = Logistic().features(p), problem.free(p)
    fisher = information(phi, g, problem.weights) + prior_precision(problem.unit, 2)
    slopes = slopes_of(phi, g)
    size = products(problem.weights, slopes, slopes)
    noise = FitNoise.of(fisher, size, 0.5 * size)
    push = noise.pushes(problem, phi, problem.columns() - g)
    for i in (0, 7, 39):
        score = units[i] * (y[i] - p[i]) * phi[i, 0]
        np.testing.assert_allclose(push[i], np.linalg.solve(fisher, score), rtol=1e-9)
        own = slopes[i, 0] @ noise.left @ push[i]
        np.testing.assert_allclose(noise.own_shift(slopes, push)[i], [own], rtol=1e-9)


@pytest.mark.parametrize("rounding", [-1e-13, 0.0, 1e-13])
def test_rounding_in_directions_that_do_not_move_g_is_not_seen(rounding):
    """One shift for all classes leaves g as it is: its slopes are 0 but for rounding."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    size = turn @ np.diag([9.0, 4.0, 1.0, rounding]) @ turn.T
    seen = turn @ np.diag([3.0, 2.0, 0.1, -0.9 * rounding]) @ turn.T
    left = FitNoise.of(np.eye(4), (size + size.T) / 2, (seen + seen.T) / 2).left
    kept = [1 - (3 / 9) ** 2, 1 - (2 / 4) ** 2, 1 - 0.1**2, 1.0]
    np.testing.assert_allclose(left, turn @ np.diag(kept) @ turn.T, atol=1e-12)
