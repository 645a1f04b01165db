"""Points of the simplex: pairs, powers of f, and estimates kept on it."""

import numpy as np
import oracle_debiased
import pytest
from cases import simplex_points
from hypothesis import given
from hypothesis import strategies as st

import riskalign as ra
from riskalign.equations.arrays import FLOOR
from riskalign.equations.simplex import (
    FLATTENINGS,
    KEPT_SHARE,
    LOG_ODDS_END,
    log_odds,
    mirrored,
    on_simplex,
    onto_simplex,
    tempered,
)

TAILS = np.array([0.0, 1e-12, 1e-9, 1e-5, 0.1, 0.5, 0.9, 1 - 1e-5, 1 - 1e-12, 1.0])


def test_powers_are_temperatures():
    data = ra.datasets.temperature(50, 4, t2=0.5, seed=0)
    np.testing.assert_allclose(tempered(data.y_prob, 0.5), data.conditional, atol=1e-12)


@pytest.mark.parametrize("tau", [*FLATTENINGS, 0.01, 2.0])
@given(st.integers(2, 6).flatmap(lambda K: simplex_points(4, K)))
def test_powers_equal_the_oracle(tau, f):
    expected = [oracle_debiased.flattened(row, tau) for row in f.tolist()]
    np.testing.assert_allclose(tempered(f, tau), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("tau", FLATTENINGS)
def test_powers_of_one_probability_are_those_of_its_pair(tau):
    pairs = tempered(on_simplex(TAILS), tau)
    np.testing.assert_allclose(tempered(TAILS, tau), pairs[:, 1], rtol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=1), 1, rtol=1e-12)
    assert (np.diff(tempered(TAILS, tau)) >= 0).all()


def test_one_probability_as_a_pair_and_a_difference_as_its_mirror():
    assert on_simplex(np.array([0.0, 0.3])).tolist() == [[1.0, 0.0], [0.7, 0.3]]
    points = np.array([[0.2, 0.3, 0.5]])
    assert on_simplex(points) is points
    assert mirrored(np.array([[0.25], [-0.5]])).tolist() == [[-0.25, 0.25], [0.5, -0.5]]
    assert mirrored(points) is points


def test_log_odds_are_accurate_in_both_tails_and_end_at_the_floor():
    p = np.array([1e-8, 1e-4, 0.25, 0.5])
    np.testing.assert_allclose(log_odds(p), np.log(p) - np.log1p(-p), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(log_odds(1 - p), -log_odds(p), rtol=1e-8)
    end = np.log(FLOOR) - np.log1p(-FLOOR)
    assert log_odds(np.array([0.0, 1e-15])).tolist() == pytest.approx([end, end], rel=1e-15)
    assert log_odds(np.array([1.0])).tolist() == pytest.approx([-end], rel=1e-15)
    assert pytest.approx(-end, rel=1e-12) == LOG_ODDS_END


@given(st.integers(2, 6).flatmap(lambda K: simplex_points(8, K)))
def test_estimates_stay_on_the_simplex_near_their_start(points):
    start, other = points[:4], points[4:]
    smoothed = 1.5 * (other - start)
    R = onto_simplex(start, smoothed)
    expected = [
        oracle_debiased.onto_simplex(g, q)
        for g, q in zip(start.tolist(), smoothed.tolist(), strict=True)
    ]
    np.testing.assert_allclose(R, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(R.sum(axis=1), 1, rtol=1e-12)
    grown = np.maximum(start + smoothed, KEPT_SHARE * start).sum(axis=1, keepdims=True)
    assert (KEPT_SHARE * start / grown - 1e-15 <= R).all()
    np.testing.assert_allclose(onto_simplex(start, np.zeros_like(start)), start, rtol=1e-12)
