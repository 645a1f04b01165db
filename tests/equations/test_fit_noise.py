"""What is left of the noise of a fitted start when its residuals are smoothed."""

import numpy as np
import pytest

import riskalign as ra
from riskalign.equations.fit_noise import FitNoise
from riskalign.equations.losses import KL
from riskalign.equations.problem import Problem
from riskalign.equations.starts import FittedStart, Logistic, products, slopes_of


def left_of(fisher, weights, slopes, smoothed):
    noise = FitNoise.of(fisher, products(weights, slopes, slopes))
    return noise.left(products(weights, slopes, smoothed))


def test_what_is_left_of_the_noise_of_a_fit():
    data = ra.datasets.temperature(300, 2, t2=0.6, seed=0)
    problem = Problem("p", data.y_prob[:, 1], data.y_true, np.ones(300), KL.binary)
    phi = Logistic().features(problem.predictions)
    slopes = slopes_of(phi, FittedStart.of(problem, Logistic()).without_each(problem))
    one = slopes[:, :, :1]
    weights = np.random.default_rng(0).uniform(0.5, 2, len(slopes))
    left = left_of(np.array([[7.0]]), weights, one, 0.6 * one)
    np.testing.assert_allclose(left, [[1 - 0.6**2]], atol=1e-12)
    fisher = products(problem.weights, slopes, phi)
    for share in (0.0, 0.5, 1.0):  # of both parameters alike
        left = left_of(fisher, weights, slopes, share * slopes)
        np.testing.assert_allclose(left, (1 - share**2) * np.eye(2), atol=1e-9)
    overlap = np.array([[0.5, 0.1], [-0.2, 0.3]])
    left = left_of(fisher, weights, slopes, slopes @ overlap)
    V = np.linalg.inv(fisher)
    noise = FitNoise.of(fisher, fisher)
    np.testing.assert_allclose(noise.variance, V, rtol=1e-9)
    remaining = V - overlap @ V @ overlap.T
    np.testing.assert_allclose(left @ V, remaining, atol=1e-9)
    expected = [5.0 * slopes[i, 0] @ remaining @ slopes[i, 0] for i in range(300)]
    found = noise.variance_of_fit(slopes, left, 5.0)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rounding", [-1e-13, 0.0, 1e-13])
def test_rounding_in_directions_that_do_not_move_g_is_not_seen(rounding):
    """One shift for all classes leaves g as it is: its slopes are 0 but for rounding."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    size = turn @ np.diag([9.0, 4.0, 1.0, rounding]) @ turn.T
    seen = turn @ np.diag([3.0, 2.0, 0.1, -0.9 * rounding]) @ turn.T
    left = FitNoise.of(np.eye(4), (size + size.T) / 2).left((seen + seen.T) / 2)
    kept = [1 - (3 / 9) ** 2, 1 - (2 / 4) ** 2, 1 - 0.1**2, 1.0]
    np.testing.assert_allclose(left, turn @ np.diag(kept) @ turn.T, atol=1e-12)
