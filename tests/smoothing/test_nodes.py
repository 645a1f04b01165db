"""Nodes on [0, 1]: what they interpolate, and sums that they stand for."""

import numpy as np
import pytest
from scipy.special import expit

from riskalign.equations.kernels import DIRICHLET, KERNELS, RBF, SquaredKernel
from riskalign.equations.simplex import FLATTENINGS, LOG_ODDS_END, log_odds
from riskalign.smoothing.kernel_sums import nodes_of
from riskalign.smoothing.nodes import Nodes, nodes_at

EVERYWHERE = np.concatenate(
    [
        [0.0, 1e-15, 1e-12, 1e-9, 1.0000001e-9, 1 - 1e-9, 1 - 1e-12, 1.0],
        expit(np.random.default_rng(0).uniform(-21, 21, 2_000)),
        np.random.default_rng(1).random(500).astype(np.float32).astype(float),
    ]
)
SMOOTH = {
    "p": lambda p: p,
    "p^3": lambda p: p**3,
    "sin 20p": lambda p: np.sin(20 * p),
    "p log p": lambda p: p * np.log(np.maximum(p, 1e-9)),
    "odds at a temperature": lambda p: expit(0.4 * log_odds(p) - 0.3),
}


@pytest.mark.parametrize(
    "kernel", [*KERNELS.values(), SquaredKernel(DIRICHLET)], ids=lambda k: k.name
)
@pytest.mark.parametrize("resolution", [0.005, 0.1, 2.0])
def test_nodes_go_from_zero_to_one(kernel, resolution):
    nodes = Nodes(kernel, resolution)
    assert nodes.probabilities[[0, -1]].tolist() == [0.0, 1.0]
    assert (np.diff(nodes.probabilities) > 0).all()
    assert nodes.log_odds[[0, 1]].tolist() == [-LOG_ODDS_END] * 2
    assert nodes.log_odds[[-2, -1]].tolist() == [LOG_ODDS_END] * 2
    np.testing.assert_allclose(nodes.points.sum(axis=1), 1, rtol=1e-15)
    # coordinates close to 1 are less accurate: nodes mirror each other to a thousandth of a step
    np.testing.assert_allclose(nodes.log_odds, -nodes.log_odds[::-1], rtol=0, atol=2e-4)
    assert len(nodes_at(kernel, resolution)) == len(nodes)
    assert nodes_at(kernel, resolution) is nodes_at(kernel, resolution)


@pytest.mark.parametrize("kernel", [DIRICHLET, RBF], ids=lambda kernel: kernel.name)
def test_interpolation_weights_add_up_to_one_and_are_exact_at_nodes(kernel):
    nodes = nodes_of(kernel)
    weights = nodes.weights(EVERYWHERE)
    assert weights.shape == (len(EVERYWHERE), len(nodes))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-13)
    at_nodes = nodes.weights_at(nodes.log_odds, nodes.probabilities).toarray()
    np.testing.assert_allclose(at_nodes, np.eye(len(nodes)), rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kernel", [DIRICHLET, RBF], ids=lambda kernel: kernel.name)
def test_smooth_functions_are_known_by_their_values_at_the_nodes(kernel, name):
    function, nodes = SMOOTH[name], nodes_of(kernel)
    found = nodes.weights(EVERYWHERE) @ function(nodes.probabilities)
    np.testing.assert_allclose(found, function(EVERYWHERE), rtol=0, atol=2e-8)


@pytest.mark.parametrize("kernel", [DIRICHLET, RBF], ids=lambda kernel: kernel.name)
def test_more_flattenings_make_finer_nodes(kernel):
    low = kernel.bandwidth_range(2)[0]
    plain, every = Nodes(kernel, low), Nodes(kernel, low, FLATTENINGS)
    assert len(plain) < len(every) < 3 * len(plain)


def test_no_samples_have_no_weights():
    assert nodes_of(DIRICHLET).weights(np.empty(0)).shape == (0, len(nodes_of(DIRICHLET)))
