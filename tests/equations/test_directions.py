"""Directions of R - f, and the terms on both sides."""

import numpy as np
import oracle_norms
import pytest
from scipy.integrate import quad
from scipy.stats import norm as normal

from riskalign.equations.norms import direction, norms_of, sides


def test_without_noise_directions_are_signs_and_unit_vectors():
    gap = np.array([[0.3, -0.4], [0.0, 0.0], [1e-160, -1e-9]])
    nothing = np.zeros_like(gap)
    np.testing.assert_allclose(direction("l1", gap, nothing), [[1, -1], [0, 0], [0, -1]])
    found = direction("euclidean", gap, nothing)
    np.testing.assert_allclose(found[:2], [[0.6, -0.8], [0, 0]])
    np.testing.assert_allclose(np.linalg.norm(found[2]), 1.0)


@pytest.mark.parametrize("norm", ["l1", "euclidean"])
def test_directions_are_those_of_plain_loops(norm):
    rng = np.random.default_rng(0)
    gap, variance = rng.normal(size=(40, 5)), rng.gamma(1.0, size=(40, 5))
    expected = [oracle_norms.directions(norm, *row) for row in zip(gap, variance, strict=True)]
    np.testing.assert_allclose(direction(norm, gap, variance), expected, rtol=1e-12)
    sets = direction(norm, gap.reshape(8, 5, 5), variance.reshape(8, 5, 5))
    np.testing.assert_allclose(sets.reshape(40, 5), expected, rtol=1e-12)


def test_the_bias_of_a_shortened_sign_is_a_third_of_the_noise_at_most():
    """z from N(m, 1): m E[u(z)] - m, as the module says."""

    def bias(m):
        def term(z):
            u = direction("l1", np.array([[z]]), np.ones((1, 1)))[0, 0]
            return m * u * normal.pdf(z, m)

        return quad(term, m - 8, m + 8, limit=200)[0] - m

    found = [bias(m) for m in (0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 6.0)]
    assert -0.37 < min(found) < -0.3
    assert 0 < max(found) < 0.16


def test_sides_add_up_to_the_term():
    rng = np.random.default_rng(1)
    u, residual = rng.normal(size=(2, 6, 3))
    found = sides(u, residual)
    np.testing.assert_allclose(found.sum(axis=0), (u * residual).sum(axis=1))
    assert (sides(-np.abs(u), residual)[1] == 0).all()


def test_norms_of_gaps():
    gap = np.array([[0.3, -0.4, 0.1], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(norms_of("l1", gap), [[0.4, 0], [0.4, 0], [0.8, 0]])
    np.testing.assert_allclose(norms_of("euclidean", gap)[2], [np.sqrt(0.26), 0])
