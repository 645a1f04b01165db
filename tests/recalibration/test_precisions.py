"""Precisions by evidence against a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from riskalign.recalibration.evidence import NARROWEST, Evidence, precision_of

WEAK = 0.25


def problem(seed, sizes=(1.0, 0.3)):
    """A regression with blocks of ten weights of given sizes, and two weights without a block."""
    rng = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(-1, len(sizes)), [2, *[10] * len(sizes)])
    design = rng.normal(size=(200, len(blocks)))
    scale = np.array([*sizes, 1.0])[blocks]
    slope = design.T @ (design @ (scale * rng.normal(size=len(blocks))) + rng.normal(size=200))
    members = np.arange(len(sizes))[:, None] == blocks
    return Evidence(design.T @ design, slope, members, WEAK)


def value(evidence, penalties):
    """L by its definition."""
    precision = precision_of(evidence.members, penalties, WEAK)
    system = evidence.information + np.diag(precision)
    weights = np.linalg.solve(system, evidence.slope)
    determinants = np.log(precision).sum() - np.linalg.slogdet(system)[1]
    return (evidence.slope @ weights + determinants) / 2


@pytest.mark.parametrize("seed", range(4))
def test_precisions_maximise_the_evidence(seed):
    evidence = problem(seed)
    penalties = np.array([100.0, 100.0])
    for _ in range(3):
        penalties, found, _ = evidence.best(penalties, vanish=False)
    best = minimize(lambda r: -value(evidence, np.exp(r)), np.zeros(2), method="Nelder-Mead")
    assert found.value == pytest.approx(value(evidence, penalties), abs=1e-9)
    assert found.value == pytest.approx(-best.fun, abs=1e-4)
    np.testing.assert_allclose(np.log(penalties), best.x, atol=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_a_block_without_weights_vanishes_where_it_may(seed):
    evidence = problem(seed, (1.0, 0.0))
    penalties = np.array([10.0, 10.0])
    for _ in range(5):
        penalties, _, _ = evidence.best(penalties, vanish=False)
    assert (penalties < NARROWEST).all()
    for _ in range(5):
        penalties, found, _ = evidence.best(penalties, vanish=True)
    assert penalties[0] < 10
    if penalties[1] == NARROWEST:
        assert not found.weights[evidence.members[1]].any()
    else:  # chance lets some look as if they had evidence
        without = evidence.at(np.array([penalties[0], NARROWEST]))
        assert without.value < found.value
