"""Losses: their values, that they are proper, and the divergences they induce."""

import numpy as np
import oracle
import pytest
from cases import SPHERICAL, simplex_points
from hypothesis import given
from hypothesis import strategies as st

import riskalign as ra
from riskalign.equations.losses import KL, L2, RANKED

PAIRS = [
    (L2, oracle.brier),
    (KL, oracle.log_loss),
    (RANKED, oracle.ranked),
    (SPHERICAL, oracle.spherical),
]
ALL = [L2, KL, RANKED, SPHERICAL]
DIVERGENCES = [
    (L2, oracle.squared_distance),
    (KL, oracle.kullback_leibler),
    (RANKED, oracle.cumulative_distance),
]


def name(x):
    return getattr(x, "name", "")


def divergence(loss, R, f):
    return np.sum(R * (loss(f) - loss(R)), axis=1)


@pytest.mark.parametrize(("loss", "plain"), PAIRS, ids=name)
@given(st.integers(2, 12).flatmap(lambda K: simplex_points(5, K)))
def test_values_equal_the_oracle(loss, plain, f):
    expected = [plain(row) for row in f.tolist()]
    np.testing.assert_allclose(loss(f), expected, atol=1e-12)


@pytest.mark.parametrize("loss", [L2, RANKED], ids=name)
def test_the_binary_form_is_one_squared_term(loss):
    p = np.array([0.0, 0.2, 0.5, 1.0])
    f = np.stack([1 - p, p], axis=1)
    np.testing.assert_allclose(loss.binary(f), np.stack([p**2, (1 - p) ** 2], axis=1), atol=1e-15)


def test_the_brier_score_on_a_simplex_has_a_term_for_each_class():
    assert L2(np.array([[0.8, 0.2]])).tolist() == [pytest.approx([0.08, 1.28])]
    assert L2.binary(np.array([[0.8, 0.2]])).tolist() == [pytest.approx([0.04, 0.64])]


def test_the_ranked_loss_grows_with_the_distance_from_the_truth():
    losses = RANKED(np.array([[0.7, 0.1, 0.1, 0.1]]))[0]
    assert (np.diff(losses) > 0).all()


@pytest.mark.parametrize("loss", [KL, SPHERICAL], ids=name)
def test_other_losses_take_the_same_form_on_two_classes(loss):
    assert loss.binary is loss


def test_a_loss_may_bring_a_binary_form_of_its_own():
    halved = ra.ProperLoss("halved", lambda f: L2(f) / 2, binary_form=KL)
    assert halved.binary is KL


def test_the_log_is_floored():
    assert KL(np.array([[0.0, 1.0]])).tolist() == [[pytest.approx(-np.log(1e-9)), 0.0]]
    below = KL(np.array([[1e-12, 1.0]]))
    assert below[0, 0] == pytest.approx(-np.log(1e-9))


@pytest.mark.parametrize("loss", [*ALL, L2.binary], ids=name)
@given(st.data())
def test_the_truth_has_the_least_expected_loss(loss, data):
    K = 2 if loss is L2.binary else data.draw(st.integers(2, 6))
    q, f = data.draw(simplex_points(1, K)), data.draw(simplex_points(1, K))
    excess = divergence(loss, q, f)[0]
    assert excess >= -1e-12
    if loss is not KL:  # strictly proper, with a margin that grows with the distance
        assert excess >= 1e-3 * np.sum((q - f) ** 2) - 1e-12
    if np.abs(q - f).max() > 1e-6:
        assert excess > 0


@pytest.mark.parametrize("loss", [*ALL, L2.binary], ids=name)
@given(st.data())
def test_the_divergence_vanishes_on_equality(loss, data):
    K = 2 if loss is L2.binary else data.draw(st.integers(2, 6))
    f = data.draw(simplex_points(4, K))
    np.testing.assert_allclose(divergence(loss, f, f.copy()), 0, atol=1e-15)


@pytest.mark.parametrize(("loss", "bregman"), DIVERGENCES, ids=name)
@given(st.integers(2, 6).flatmap(lambda K: simplex_points(8, K)))
def test_the_divergence_is_the_one_the_paper_writes(loss, bregman, points):
    R, f = points[:4], points[4:]
    expected = [bregman(a, b) for a, b in zip(R.tolist(), f.tolist(), strict=True)]
    np.testing.assert_allclose(divergence(loss, R, f), expected, atol=1e-12)
