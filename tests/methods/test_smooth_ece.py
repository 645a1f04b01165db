"""Smooth ECE against the integral of its definition."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq

import riskalign as ra
from riskalign.data.sample import Problem
from riskalign.equations.losses import L2
from riskalign.methods.smooth_ece import SmoothedResiduals


def integral(p, y, w, sigma, points=8_000):
    """The integral of |mean of K(t, p) (p - y)|, with the images of p at 2m + p and 2m - p."""
    t = (np.arange(points) + 0.5) / points
    residual = np.zeros(points)
    for p_i, y_i, w_i in zip(p, y, w, strict=True):
        images = [2 * m + sign * p_i for m in range(-5, 6) for sign in (1, -1)]
        kernel = sum(np.exp(-((t - image) ** 2) / (2 * sigma**2)) for image in images)
        residual += w_i * (p_i - y_i) * kernel / (np.sqrt(2 * np.pi) * sigma)
    return np.abs(residual / np.sum(w)).mean()


def smoothed(p, y, w):
    return SmoothedResiduals(Problem("", np.asarray(p), np.asarray(y), np.asarray(w), L2.binary))


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5, n)
    p[:4] = [0.0, 1.0, 1.0, 0.5]
    return p, (rng.random(n) < p**1.5).astype(int)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sigma", [0.003, 0.02, 0.1, 0.5, 1.0])
def test_the_error_at_a_bandwidth_is_the_integral(sigma, weighted):
    p, y = data(40)
    w = np.random.default_rng(1).random(40) if weighted else np.ones(40)
    np.testing.assert_allclose(
        smoothed(p, y, w).error(sigma), integral(p, y, w, sigma), rtol=2e-5, atol=1e-12
    )


def test_the_value_is_the_fixed_point_of_the_integral():
    p, y = data(30)
    expected = brentq(
        lambda sigma: integral(p, y, np.ones(30), sigma) - sigma, 1e-2, 1.0, xtol=1e-7
    )
    value = ra.calibration_error(y, p, method=ra.SmoothECE()).value
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_the_error_falls_as_the_bandwidth_grows():
    p, y = data(200)
    residuals = smoothed(p, y, np.ones(200))
    errors = [residuals.error(sigma) for sigma in (0.0, 1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0)]
    assert all(a >= b - 1e-12 for a, b in pairwise(errors))
    assert errors[-1] < errors[0] / 2
    np.testing.assert_allclose(errors[-1], abs((p - y).mean()), rtol=0.01)  # one wide kernel


def test_limits():
    y = np.array([0, 1, 1, 0])

    def value(p):
        return ra.calibration_error(y, p, method=ra.SmoothECE()).value

    assert value(y.astype(float)) == 0.0
    assert value([0.5] * 4) == pytest.approx(0.0, abs=1e-9)  # residuals at one point cancel
    everyone_wrong = ra.calibration_error([0, 0], [1.0, 1.0], method=ra.SmoothECE())
    assert everyone_wrong.value == pytest.approx(1.0)
    # residuals +1 at 1 and -1 at 0 cancel where the smoothed ones overlap
    assert 0.3 < value(1.0 - y) < 1.0


def test_integer_weights_equal_repetition():
    p, y = data(50)
    weights = np.random.default_rng(2).integers(0, 4, 50)
    weighted = ra.calibration_error(y, p, method=ra.SmoothECE(), sample_weight=weights)
    repeated = ra.calibration_error(
        np.repeat(y, weights), np.repeat(p, weights), method=ra.SmoothECE()
    )
    np.testing.assert_allclose(weighted.value, repeated.value, rtol=1e-8)


def test_top_label_is_binary_of_the_confidence():
    rng = np.random.default_rng(0)
    f, y = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300)
    top = ra.calibration_error(y, f, notion="top-label", method=ra.SmoothECE())
    right = (f.argmax(axis=1) == y).astype(int)
    binary = ra.calibration_error(right, f.max(axis=1), method=ra.SmoothECE())
    assert top.value == binary.value
    assert top.conditional is None
    assert "sigma = integral of |smoothed f - y|" in str(top)
