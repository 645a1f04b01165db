"""Problems by nodes: sums over nodes are sums over rows, and so are estimates."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.equations.debiased import Started
from riskalign.equations.kernels import DIRICHLET, KERNELS, RBF
from riskalign.equations.losses import KL, L2
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import log_odds
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods.residuals import _estimates, debiased
from riskalign.smoothing import Tuning, condensed, read_at
from riskalign.smoothing.grid import GridSmoother, quadrature
from riskalign.smoothing.kernel_sums import nodes_of

N = 6_000
LOSSES = {"l2": L2.binary, "kl": KL}


def make(p, weights=None, sample_weights=None, loss=L2.binary):
    p = np.asarray(p, float)
    y = (np.random.default_rng(0).random(len(p)) < expit(0.7 * log_odds(p) - 0.2)).astype(int)
    weights = np.ones(len(p)) if weights is None else np.asarray(weights, float)
    return Problem("p", p, y, weights, loss, sample_weights)


def _problems():
    rng = np.random.default_rng(3)
    beta, rare = rng.beta(1, 3, N), expit(rng.normal(-6, 4, N))
    ends = np.where(rng.random(N) < 0.3, rng.integers(0, 2, N), beta)
    counts, units = rng.integers(1, 6, N), rng.uniform(0.5, 2, N)
    yield "beta(1, 3)", make(beta)
    yield "logit-normal(-6, 4)", make(rare)
    yield "zeros and ones", make(ends)
    yield "ties", make(np.round(beta, 2))
    yield "float32, peaked", make(rare.astype(np.float32))
    yield "weights over three decades", make(beta, 10.0 ** rng.uniform(-1.5, 1.5, N))
    yield "rows of several samples", make(rare, counts * units, units)
    yield "a third without weight", make(beta, rng.integers(0, 3, N))


PROBLEMS = dict(_problems())

LIMITS = {
    # of the estimate at bandwidths from 1e-4, 1e-3, 1e-2 and 0.1 on, and of the start's parameters
    "equal": ((1e-4, 2e-6, 1e-6, 1e-7), 2e-6),
    "rows of several samples": ((3e-4, 1e-4, 5e-5, 3e-5), 1e-5),
    "a third without weight": ((5e-4, 3e-4, 5e-5, 1e-5), 1e-5),
    "weights over three decades": ((1e-2, 1e-3, 5e-4, 1e-4), 5e-5),
}
"""Largest differences, those of estimates relative to the risk. Samples of unequal weights near one
node leave it by their mean weight, which is close to leaving each by its own, and not equal."""

SMOOTH = {
    "1": lambda p, y: np.ones(len(p)),
    "p": lambda p, y: p * (1 + y),
    "squared error": lambda p, y: (y - p) ** 2,
    "log loss at a temperature": lambda p, y: np.logaddexp(0, (1 - 2 * y) * 0.5 * log_odds(p)),
    "log loss": lambda p, y: np.logaddexp(0, (1 - 2 * y) * log_odds(p)),
    "waves": lambda p, y: np.sin(9 * p + y),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_sums_over_nodes_are_sums_over_rows(name, kernel):
    """Within 1e-8 of the sum of absolute values."""
    problem = PROBLEMS[name]
    nodes = quadrature(problem, KERNELS[kernel])
    for what, function in SMOOTH.items():
        terms = problem.weights * function(problem.predictions, problem.labels)
        found = nodes.weights @ function(nodes.predictions, nodes.labels)
        scale = np.abs(terms).sum()
        assert abs(found - terms.sum()) <= 1e-8 * scale, what


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_quadrature_is(name):
    problem = PROBLEMS[name]
    nodes, every = quadrature(problem, DIRICHLET), nodes_of(DIRICHLET)
    assert nodes.predictions.shape == nodes.labels.shape == nodes.weights.shape
    assert np.array_equal(nodes.predictions, every.probabilities[nodes.nodes])
    places = nodes.labels.astype(int) * len(every) + nodes.nodes
    assert (np.diff(places) > 0).all()  # no node comes twice for one label
    spread = every.weights(problem.predictions)
    needed = spread.indices + np.repeat(problem.labels, np.diff(spread.indptr)) * len(every)
    assert np.isin(needed[spread.data != 0], places).all()
    for y in (0, 1):
        own = problem.labels == y
        assert nodes.weights[nodes.labels == y].sum() == pytest.approx(problem.weights[own].sum())
    # samples leave nodes by the mean weight of those nearby, which stays within their range
    low, high = problem.units[problem.units > 0].min(), problem.units.max()
    assert (nodes.units >= low - 1e-12).all()
    assert (nodes.units <= high + 1e-12).all()
    assert nodes.unit == pytest.approx(problem.unit, rel=0.05 if low < high else 1e-9)
    assert nodes.loss is problem.loss


def test_problems_are_condensed_where_nodes_are_fewer():
    problem, few = PROBLEMS["beta(1, 3)"], PROBLEMS["beta(1, 3)"].take(slice(0, 300))
    assert len(problem.labels) > 2 * len(nodes_of(DIRICHLET)) > 300
    assert condensed(problem, DIRICHLET).nodes is not None
    assert condensed(problem, DIRICHLET, "exact") is problem
    assert condensed(few, DIRICHLET) is few
    assert condensed(few, DIRICHLET, always=True).nodes is not None
    assert condensed(few, DIRICHLET, "exact", always=True) is few
    pairs = replace(problem, predictions=problem.points)
    assert condensed(pairs, DIRICHLET) is pairs


def test_very_unequal_weights_keep_rows():
    """Unless there are too many, nodes are asked for, or a few samples are lighter alone."""
    problem = PROBLEMS["weights over three decades"]
    assert condensed(problem, DIRICHLET) is problem
    for options in ({"engine": "grid"}, {"always": True}, {"n_problems": 50}):
        assert condensed(problem, DIRICHLET, **options).nodes is not None
    assert condensed(replace(problem, rounded=True), DIRICHLET).nodes is not None
    light, heavy = np.ones((2, N))
    light[:5], heavy[:5] = 1e-6, 1e3
    assert condensed(make(problem.predictions, light), DIRICHLET).nodes is not None
    assert condensed(make(problem.predictions, heavy), DIRICHLET).nodes is None
    counts = np.random.default_rng(1).integers(1, 50, N)  # of equal samples
    several = make(problem.predictions, counts.astype(float), np.ones(N))
    assert condensed(several, DIRICHLET).nodes is not None


@pytest.mark.parametrize("half", [1.5, 3])
@pytest.mark.parametrize("seed", range(5))
def test_estimates_with_very_unequal_weights_are_those_of_the_exact_engine(seed, half):
    """With predictions crowded near 0, where a node has several samples of unequal weights."""
    n, rng = 1_500, np.random.default_rng(seed)
    p = expit(rng.normal(-6, 2, n))
    y = (rng.random(n) < expit(0.7 * log_odds(p) - 0.2)).astype(int)
    weights = 10 ** rng.uniform(-half, half, n)
    auto, exact = (
        ra.calibration_error(y, p, sample_weight=weights, confidence=0.95, engine=engine)
        for engine in ("auto", "exact")
    )
    close = 0.002 * (exact.interval[1] - exact.interval[0])
    assert auto.value == pytest.approx(exact.value, abs=close)
    assert auto.interval == pytest.approx(exact.interval, abs=close)


def test_values_at_nodes_are_read_at_rows_of_their_label():
    problem = PROBLEMS["logit-normal(-6, 4)"]
    nodes, rows = quadrature(problem, DIRICHLET), np.array([5, 0, 5_999, 17, 18])

    def values(of):
        return np.stack([np.cos(3 * of.predictions + of.labels), of.labels], axis=1)

    got = read_at(nodes, values(nodes), problem, rows, DIRICHLET)
    np.testing.assert_allclose(got, values(problem)[rows], rtol=0, atol=1e-9)
    itself = read_at(problem, values(problem), problem, rows, DIRICHLET)
    np.testing.assert_array_equal(itself, values(problem)[rows])


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_starts_fitted_to_nodes_are_those_fitted_to_rows(name, start):
    problem = PROBLEMS[name]
    nodes = quadrature(problem, DIRICHLET)
    fits = [FittedStart.of(one, STARTS[start]) for one in (nodes, problem)]
    _, limit = LIMITS.get(name, LIMITS["equal"])
    np.testing.assert_allclose(fits[0].parameters, fits[1].parameters, rtol=0, atol=limit)
    np.testing.assert_allclose(fits[0].information, fits[1].information, rtol=10 * limit)


def at_rows(problem, start, tuning, kernel=DIRICHLET):
    """The estimate by the nodes' engine at the rows themselves."""
    started = [Started.of(problem, STARTS[start])]
    given = [WeightedTunings.given(tuning)]
    (estimate,) = _estimates(started, GridSmoother([problem], kernel), given)
    return estimate


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_debiased_estimate_by_nodes_is_that_by_rows(name, start, loss):
    problem = replace(PROBLEMS[name], loss=LOSSES[loss])
    limits, _ = LIMITS.get(name, LIMITS["equal"])
    for h, limit in zip((1e-4, 1e-3, 0.012, 0.2), limits, strict=True):
        for tuning in (Tuning(h), Tuning(h, 0.25)):
            (by_nodes,) = debiased([problem], DIRICHLET, "grid", STARTS[start], [tuning])
            assert (by_nodes.problem.nodes is None) == (name == "ties")
            by_rows = at_rows(problem, start, tuning)
            risk = by_rows.mean(by_rows.risk)
            for what in ("terms", "risk", "reconstructed_risk", "plugin", "variance_removed"):
                gap = by_nodes.mean(getattr(by_nodes, what)) - by_rows.mean(getattr(by_rows, what))
                assert abs(gap) <= limit * risk, (what, tuning, gap / risk)


@pytest.mark.parametrize("name", ["beta(1, 3)", "logit-normal(-6, 4)", "zeros and ones", "ties"])
def test_few_rows_by_more_nodes(name):
    """Rows whose neighbours are few make R bend, which nodes cut off."""
    problem = PROBLEMS[name].take(slice(0, 1_000))
    args = DIRICHLET, "grid", STARTS["logistic"]
    for h, limit in ((1e-4, 3e-3), (1e-3, 1e-4), (0.012, 1e-6), (0.2, 1e-9)):
        (by_nodes,) = debiased([problem], *args, [Tuning(h)], by_nodes=True)
        assert by_nodes.problem.nodes is not None
        by_rows = at_rows(problem, "logistic", Tuning(h))
        gap = by_nodes.mean(by_nodes.terms) - by_rows.mean(by_rows.terms)
        assert abs(gap) <= limit * by_rows.mean(by_rows.risk), h
        R, gains = by_nodes.at_rows(problem, np.arange(1_000), DIRICHLET)
        if h >= 0.012:
            np.testing.assert_allclose(R, by_rows.conditional, rtol=0, atol=1e-4)
            np.testing.assert_allclose(gains, by_rows.gains, rtol=0, atol=1e-4)


def test_the_gaussian_kernel_by_nodes():
    problem = PROBLEMS["beta(1, 3)"]
    for tuning in (Tuning(0.05), Tuning(0.3, 0.5)):
        (by_nodes,) = debiased([problem], RBF, "grid", STARTS["logistic"], [tuning])
        by_rows = at_rows(problem, "logistic", tuning, RBF)
        gap = by_nodes.mean(by_nodes.terms) - by_rows.mean(by_rows.terms)
        assert abs(gap) <= 1e-6 * by_rows.mean(by_rows.risk)


def test_discrete_predictions_keep_their_rows():
    """Of tenths nodes would not tell; values are read at the nearest row of the same label."""
    p, y = np.array([0.1, 0.1, 0.2, 0.9]), np.array([0, 1, 0, 1])
    shared = Problem("p", p, y, np.full(4, 50.0), L2.binary, np.ones(4))
    assert condensed(shared, DIRICHLET, always=True) is shared
    other = Problem(
        "p", np.array([0.1000001, 0.22, 0.8]), np.array([1, 0, 1]), np.ones(3), L2.binary
    )
    found = read_at(shared, np.arange(4.0)[:, None], other, np.arange(3), DIRICHLET)
    assert found[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_rows_that_differ_in_other_classes_alone_count_once():
    rng = np.random.default_rng(0)
    p = rng.integers(1, 100, 5_000) / 100
    problem = Problem("p", p, rng.integers(0, 2, 5_000), np.full(5_000, 0.5), L2.binary)
    found = condensed(problem, DIRICHLET)
    assert found.nodes is None
    pairs = dict.fromkeys(zip(p.tolist(), problem.labels.tolist(), strict=True), 0.0)
    for pair in zip(p.tolist(), problem.labels.tolist(), strict=True):
        pairs[pair] += 0.5
    held = zip(found.predictions.tolist(), found.labels.tolist(), strict=True)
    assert dict(zip(held, found.weights.tolist(), strict=True)) == pairs
    assert found.units.tolist() == [0.5] * len(pairs)
    unequal = Problem("p", p, problem.labels, rng.uniform(0.5, 2, 5_000), L2.binary)
    assert condensed(unequal, DIRICHLET).nodes is not None
    values = found.predictions[:, None]
    np.testing.assert_array_equal(
        read_at(found, values, problem, np.arange(5_000), DIRICHLET)[:, 0], p
    )
