"""The terms of the risk, row by row."""

import math

import numpy as np
import oracle
import pytest
from cases import LOSSES, SPHERICAL, simplex_points
from hypothesis import given
from hypothesis import strategies as st

from riskalign.equations.losses import KL, L2, RANKED
from riskalign.equations.terms import ESTIMATORS, alignment_residual, decompose, risk_of

BY_NAME = {"l2": L2, "kl": KL, "ranked": RANKED, "spherical": SPHERICAL}


@st.composite
def estimates(draw, n_classes=None):
    """(f, y, R) for a few rows."""
    K = n_classes or draw(st.integers(2, 6))
    points = draw(simplex_points(8, K))
    y = draw(st.lists(st.integers(0, K - 1), min_size=4, max_size=4))
    return points[:4], np.array(y), points[4:]


@pytest.mark.parametrize("name", LOSSES)
@given(estimates())
def test_terms_equal_the_oracle(name, estimate):
    f, y, R = estimate
    found = decompose(BY_NAME[name], f, y, R)
    plain = oracle.LOSSES[name][0]
    for i in range(len(y)):
        expected = oracle.terms(plain, f[i].tolist(), int(y[i]), R[i].tolist())
        for term in ("risk", "refinement", "reconstructed_risk", *ESTIMATORS):
            assert getattr(found, term)[i] == pytest.approx(expected[term], abs=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@given(estimates())
def test_risk_is_calibration_plus_refinement_row_by_row(name, estimate):
    f, y, R = estimate
    loss = BY_NAME[name]
    rows = decompose(loss, f, y, R)
    np.testing.assert_allclose(rows.plugin + rows.refinement, rows.reconstructed_risk, atol=1e-12)
    # with the truth for an estimate the reconstructed risk is the expected one
    at_truth = [decompose(loss, f, np.full(4, k), R).risk for k in range(f.shape[1])]
    np.testing.assert_allclose(
        np.sum(R * np.transpose(at_truth), axis=1), rows.reconstructed_risk, atol=1e-12
    )


@pytest.mark.parametrize("name", LOSSES)
@given(estimates())
def test_the_residual_is_reconstructed_minus_observed_risk(name, estimate):
    f, y, R = estimate
    rows = decompose(BY_NAME[name], f, y, R)
    residual = alignment_residual(BY_NAME[name], f, y)(R)
    np.testing.assert_allclose(residual, rows.reconstructed_risk - rows.risk, atol=1e-12)


@given(estimates(n_classes=2))
def test_the_binary_residuals_have_the_weights_of_the_paper(estimate):
    f, y, R = estimate
    for loss, weight in (
        (L2.binary, lambda p: 1 - 2 * p),
        (KL.binary, lambda p: oracle.log(1 - p) - oracle.log(p)),
    ):
        expected = [weight(f[i, 1]) * (R[i, 1] - y[i]) for i in range(4)]
        np.testing.assert_allclose(alignment_residual(loss, f, y)(R), expected, atol=1e-12)


@given(estimates())
def test_the_canonical_residuals_have_the_weights_of_the_paper(estimate):
    f, y, R = estimate
    gap = R - np.eye(f.shape[1])[y]
    for loss, weight in ((L2, lambda p: -2 * p), (KL, lambda p: -oracle.log(p))):
        expected = [
            math.fsum(weight(p) * g for p, g in zip(f[i].tolist(), gap[i].tolist(), strict=True))
            for i in range(4)
        ]
        np.testing.assert_allclose(alignment_residual(loss, f, y)(R), expected, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@given(estimates())
def test_the_risk_of_the_estimate_is_what_the_variational_term_takes_away(name, estimate):
    f, y, R = estimate
    rows = decompose(BY_NAME[name], f, y, R)
    own = risk_of(BY_NAME[name], y, R)
    np.testing.assert_allclose(rows.risk - own, rows.variational, atol=1e-12)
    np.testing.assert_allclose(rows.cross, (rows.plugin + rows.variational) / 2, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_a_perfect_estimate_equal_to_the_prediction_has_no_error(name):
    f = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    rows = decompose(BY_NAME[name], f, np.array([2, 0]), f.copy())
    for term in ESTIMATORS:
        assert getattr(rows, term).tolist() == [0, 0]
