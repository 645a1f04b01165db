"""Kernels: densities on the simplex, seen through curves of samples at one point."""

import math

import numpy as np
import oracle
import pytest
from scipy.special import expit

import riskalign as ra
from riskalign.equations.kernels import KERNELS


def density(centre, x, kernel, h):
    """k_h(x; centre): the density estimate of two samples at the centre."""
    centre, x = np.asarray(centre, dtype=float), np.asarray(x)
    notion = "canonical" if x.ndim == 2 else "binary"
    curve = ra.reliability_curve(
        [0, 1], np.array([centre, centre]), grid=x, notion=notion, kernel=kernel, bandwidth=h
    )
    return curve.density


def quadrature(n=160):
    """Nodes and weights on [0, 1] by tanh-sinh, which powers like x^0.04 do not disturb."""
    t = np.linspace(-3, 3, n)
    x = expit(np.pi * np.sinh(t))
    return x, (t[1] - t[0]) * np.pi * np.cosh(t) * x * expit(-np.pi * np.sinh(t))


def triangle(n):
    """Nodes and weights on the simplex of three classes, from a square."""
    s, weights = quadrature(n)
    a, t = np.meshgrid(s, s)
    x = np.stack([a, (1 - a) * t, (1 - a) * (1 - t)], axis=-1).reshape(-1, 3)
    return x, (np.outer(weights, weights) * (1 - a)).ravel()


@pytest.mark.parametrize("h", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("centre", [0.0, 0.004, 0.3, 1.0])
def test_the_beta_kernel_integrates_to_one(centre, h):
    x, weights = quadrature()
    assert weights @ density(centre, x, "dirichlet", h) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("h", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("centre", [[0.2, 0.3, 0.5], [0, 0.1, 0.9], [0, 0, 1]])
def test_the_dirichlet_kernel_integrates_to_one(centre, h):
    x, area = triangle(100)
    assert area @ density(centre, x, "dirichlet", h) == pytest.approx(1, abs=1e-7)


def test_the_rbf_kernel_integrates_to_one_on_the_line_of_two_classes():
    x, weights = quadrature()
    length = math.sqrt(2)  # of the simplex, whose parameter runs over [0, 1]
    assert length * weights @ density(0.5, x, "rbf", 0.05) == pytest.approx(1, abs=1e-7)


def test_the_rbf_kernel_integrates_to_one_on_the_plane_of_three_classes():
    x, area = triangle(160)
    centre, plane = [1 / 3, 1 / 3, 1 / 3], math.sqrt(3)
    assert plane * area @ density(centre, x, "rbf", 0.04) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("h", [0.01, 0.2, 1.0])
def test_densities_equal_the_oracle(kernel, h):
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 10):
        centre = rng.dirichlet(np.ones(n_classes))
        x = np.concatenate([rng.dirichlet(np.ones(n_classes), 5), np.eye(n_classes)[:1]])
        expected = [math.exp(oracle.KERNELS[kernel](row, centre.tolist(), h)) for row in x.tolist()]
        np.testing.assert_allclose(density(centre, x, kernel, h), expected, rtol=1e-9)


def test_the_dirichlet_kernel_normalises_rows_that_are_slightly_off():
    """Gamma(sum alpha), not Gamma(1/h + K): at small h the two differ by percents."""
    h, centre, x = 1e-3, [0.2, 0.3, 0.4995], [0.2, 0.3, 0.5]
    found = math.log(density(centre, [x], "dirichlet", h)[0])
    assert found == pytest.approx(oracle.dirichlet(x, centre, h), abs=1e-9)
    shortcut = found - math.lgamma(sum(centre) / h + 3) + math.lgamma(1 / h + 3)
    assert abs(found - shortcut) > 1  # the two formulas can be told apart here


def test_the_paper_range_is_searched():
    dirichlet = KERNELS["dirichlet"]
    assert dirichlet.bandwidth_range(2) == (1e-4, 0.2)
    assert dirichlet.bandwidth_range(5) == (1e-3, 1.0)
