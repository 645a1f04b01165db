"""Tunings of residuals: candidates are weighted, and no row has a part in its own weights."""

from dataclasses import replace

import numpy as np
import oracle
import oracle_debiased
import pytest
from scipy.special import expit, softmax

import riskalign as ra
from riskalign.bandwidth import tuning as weighing
from riskalign.bandwidth.tuning import (
    HEARD,
    KEPT,
    MOST,
    MOST_JOINT,
    OWN_SHARE,
    POOLED,
    TEMPERING,
    WeightedTunings,
    candidate_tunings,
    likelihood_scale,
    pooled,
)
from riskalign.equations.debiased import Started
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import KL, L2, RANKED, ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import mirrored, onto_simplex
from riskalign.equations.starts import STARTS
from riskalign.methods.residuals import SEARCH_ROWS, _search_rows, weigh
from riskalign.smoothing import Tuning, choose_smoother

TUNINGS = [Tuning(0.01), Tuning(0.1), Tuning(0.01, 0.5), Tuning(0.1, 0.5)]


def weighted(problem, g, tunings, losses):
    """The candidates of one problem."""
    (only,) = WeightedTunings.of_classes([problem], [g], tunings, losses[None])
    return only


def binary(n=200, loss=L2.binary, weights=None):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, n)
    y = (rng.random(n) < p).astype(int)
    return Problem("one", p, y, np.ones(n) if weights is None else weights, loss)


# The scale of a loss.


@pytest.mark.parametrize(("loss", "name"), [(L2.binary, "l2"), (KL, "kl"), (RANKED, "ranked")])
def test_the_scale_of_a_loss_equals_the_oracle(loss, name):
    problem = binary(30, loss, np.linspace(0.1, 3, 30))
    points = [tuple(row) for row in problem.points.tolist()]
    weights = problem.weights.tolist()
    expected = oracle_debiased.likelihood_scale(oracle.LOSSES[name][1], points, weights, TEMPERING)
    found = likelihood_scale(problem, problem.free(problem.predictions))
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_log_loss_is_brought_to_a_share_of_a_likelihood():
    for weights in (None, np.random.default_rng(1).exponential(size=500)):
        problem = binary(500, KL, weights)
        found = likelihood_scale(problem, problem.free(problem.predictions))
        assert found == pytest.approx(TEMPERING, rel=0.05)
    data = ra.datasets.temperature(500, 5, seed=0)
    problem = Problem("all", data.y_prob, data.y_true, np.ones(500), KL)
    assert likelihood_scale(problem, data.y_prob) == pytest.approx(TEMPERING, rel=0.05)


def test_the_unit_of_a_loss_does_not_matter():
    problem = binary()
    g = problem.free(problem.predictions)
    tenfold = replace(problem, loss=ProperLoss("tenfold", lambda f: 10 * L2.binary(f)))
    assert likelihood_scale(tenfold, g) == pytest.approx(likelihood_scale(problem, g) / 10)


@pytest.mark.parametrize("p", [[0.0] * 5, [0.5] * 5])
def test_a_start_that_a_temperature_does_not_change_has_no_scale(p):
    problem = Problem("one", np.array(p), np.arange(5) % 2, np.ones(5), L2.binary)
    assert likelihood_scale(problem, problem.free(problem.predictions)) == 0.0


# Weights of the candidates.


def test_weights_are_those_of_a_posterior():
    problem = binary(loss=KL)
    g = problem.free(problem.predictions)
    losses = np.array([100.0, 100.5, 99.0, 101.0])
    found = weighted(problem, g, TUNINGS, losses)
    scale = likelihood_scale(problem, g)
    h = np.array([tuning.bandwidth for tuning in TUNINGS])
    expected = h * np.exp(-scale * (losses - 99))
    expected /= expected.sum()
    order = np.argsort(-expected)
    kept = order[: len(found.tunings)]
    assert found.tunings == [TUNINGS[c] for c in kept]
    np.testing.assert_allclose(found.weights, expected[kept] / expected[kept].sum(), rtol=1e-12)
    assert found.best is found.tunings[0] == TUNINGS[order[0]]
    assert found.scale == pytest.approx(scale)


def test_the_unit_of_the_weights_does_not_matter():
    problem = binary(loss=KL)
    g, losses = problem.free(problem.predictions), np.array([100.0, 100.5, 99.0, 101.0])
    heavy = replace(problem, weights=7 * problem.weights)
    one = weighted(problem, g, TUNINGS, losses)
    other = weighted(heavy, g, TUNINGS, 7 * losses)
    assert one.tunings == other.tunings
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    own = np.random.default_rng(0).random((len(one.tunings), 200))
    np.testing.assert_allclose(one.own_weights(own), other.own_weights(7 * own), rtol=1e-9)


def test_the_wider_of_kernels_that_fit_alike_weighs_more():
    problem = binary()
    found = weighted(problem, problem.free(problem.predictions), TUNINGS, np.full(4, 3.0))
    by_tuning = dict(zip(found.tunings, found.weights, strict=True))
    assert by_tuning[Tuning(0.1)] == by_tuning[Tuning(0.1, 0.5)]
    assert by_tuning[Tuning(0.1)] == pytest.approx(10 * by_tuning[Tuning(0.01)])


def test_candidates_that_hold_most_of_the_weight_are_kept():
    problem = binary(2_000, KL)
    tunings = candidate_tunings(DIRICHLET, 2)
    g = problem.free(problem.predictions)
    scale = likelihood_scale(problem, g)
    for spread in (0.0, 1.0, 5.0, 100.0):
        losses = spread * np.random.default_rng(1).random(len(tunings))
        found = weighted(problem, g, tunings, losses)
        shares = softmax(np.log([t.bandwidth for t in tunings]) - scale * losses)
        kept = [shares[tunings.index(tuning)] for tuning in found.tunings]
        assert kept == sorted(kept, reverse=True)
        assert len(kept) == MOST or sum(kept) >= KEPT > sum(kept[:-1])
        assert len(kept) <= MOST
        assert found.weights.sum() == pytest.approx(1)
        pairs = replace(problem, predictions=problem.points)
        joint = weighted(pairs, pairs.points, tunings, losses)
        assert joint.tunings == found.tunings[:MOST_JOINT]


def test_the_curve_is_of_the_best_candidate_s_coordinates():
    problem = binary(loss=KL)
    g = problem.free(problem.predictions)
    found = weighted(problem, g, TUNINGS, np.array([90.0, 80.0, 10.0, 70.0]))
    curve = found.curve
    assert (curve.value, curve.flattening, curve.at_edge) == (0.01, 0.5, True)
    assert curve.candidates.tolist() == [0.01, 0.1]
    assert curve.objective.tolist() == [10.0, 70.0]
    assert curve.name == "one"
    single = weighted(problem, g, [Tuning(0.1)], np.array([5.0]))
    assert single.curve.at_edge is False
    inner = [Tuning(h) for h in (0.01, 0.05, 0.2)]
    middle = weighted(problem, g, inner, np.array([90.0, 10.0, 80.0]))
    assert (middle.curve.value, middle.curve.at_edge) == (0.05, False)


def test_a_given_tuning_has_all_the_weight():
    given = WeightedTunings.given(Tuning(0.3, 0.5))
    assert given.best == Tuning(0.3, 0.5)
    assert given.weights.tolist() == [1.0]
    np.testing.assert_array_equal(given.own_weights(np.random.default_rng(0).random((1, 9))), 1.0)
    assert given.curve is None


# Weights of the rows.


def test_weights_of_rows_equal_the_oracle():
    rng = np.random.default_rng(0)
    evidence, losses, scale = rng.normal(size=4), rng.random((4, 50)), 1.3
    found = WeightedTunings(TUNINGS, evidence, scale).own_weights(losses)
    for i in range(50):
        own = losses[:, i].tolist()
        expected = oracle_debiased.own_weights(evidence.tolist(), scale, own, OWN_SHARE)
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("share", [OWN_SHARE, 1.0])
def test_a_row_has_no_part_in_its_own_weights(share, monkeypatch):
    """With gamma = 1 they are the weights that all other rows' losses give."""
    monkeypatch.setattr(weighing, "OWN_SHARE", share)
    monkeypatch.setattr(weighing, "KEPT", 1.1)  # all candidates
    problem, rng = binary(loss=KL), np.random.default_rng(3)
    g, losses = problem.free(problem.predictions), 0.02 * rng.random((4, 200))
    found = weighted(problem, g, TUNINGS, losses.sum(axis=1))
    order = [TUNINGS.index(tuning) for tuning in found.tunings]
    assert len(order) == 4
    own = found.own_weights(losses[order])
    for i in (0, 50, 199):
        others = losses.sum(axis=1) - share * losses[:, i]
        without = weighted(problem, g, TUNINGS, others)
        expected = dict(zip(without.tunings, without.weights, strict=True))
        np.testing.assert_allclose(own[:, i], [expected[t] for t in found.tunings], rtol=1e-9)


def test_large_losses_do_not_overflow():
    weighted = WeightedTunings(TUNINGS, np.array([-1e6, -1e6 + 1, 0.0, -2e3]), 1e3)
    own = weighted.own_weights(np.random.default_rng(0).random((4, 20)) * 20)
    assert np.isfinite(own).all()
    np.testing.assert_allclose(own.sum(axis=0), 1, rtol=1e-9)


# What weighs.


def weighed(problems, start="logistic", engine="exact", candidates=None):
    started = [Started.of(problem, STARTS[start]) for problem in problems]
    smoother = choose_smoother(problems, DIRICHLET, engine)
    return weigh([(started, smoother)], DIRICHLET, candidates, progress=False)


def test_losses_of_candidates_are_sums_over_all_rows():
    """Against R row by row, with a start that is f itself."""
    problem = binary(60, weights=np.linspace(0.5, 2, 60))
    (found,) = weighed([problem], "identity", candidates=np.array([0.03, 0.2]))
    smoother = choose_smoother([problem], DIRICHLET, "exact")
    e = problem.columns() - problem.free(problem.predictions)
    h, objective = found.curve.value, found.curve.objective
    tuning = Tuning(h, found.curve.flattening)
    (q,) = smoother.averages({0: e}, [tuning])
    R = onto_simplex(problem.points, mirrored(q[0]))[:, 1]
    expected = problem.weights @ (problem.labels - R) ** 2
    assert objective[list(found.curve.candidates).index(h)] == pytest.approx(expected, rel=1e-9)


def test_problems_of_a_group_are_weighed_each_on_its_own(monkeypatch):
    """But for what classes tell each other."""
    monkeypatch.setattr(weighing, "POOLED", 0.0)
    problems = [binary(n, KL) for n in (80, 50, 80)]
    together = weighed(problems)
    for problem, found in zip(problems, together, strict=True):
        (alone,) = weighed([problem])
        assert alone.tunings == found.tunings
        np.testing.assert_allclose(alone.weights, found.weights, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
def test_classes_are_pooled_in_part(n_classes):
    """Against plain loops; the two mirrored problems of two classes have nothing to tell."""
    losses = 5 * np.random.default_rng(0).random((n_classes, 5))
    found = pooled(losses)
    expected = oracle_debiased.pooled(losses.tolist(), POOLED, HEARD)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_class_with_evidence_leaves_the_common_choice():
    """Of six classes one is wavy: it gets a narrow kernel, and the others keep wide ones."""
    rng = np.random.default_rng(0)
    problems = []
    for k in range(6):
        p = rng.uniform(0.05, 0.95, 4_000)
        swing = 0.8 * np.sin(30 * p) if k == 0 else 0.0
        y = rng.random(4_000) < expit(np.log(p / (1 - p)) + swing)
        problems.append(Problem(str(k), p, y.astype(int), np.ones(4_000), KL))
    widths = [
        np.exp(found.weights @ np.log([tuning.bandwidth for tuning in found.tunings]))
        for found in weighed(problems, engine="grid")
    ]
    assert widths[0] < 0.01
    assert min(widths[1:]) > 4 * widths[0]


def test_what_is_there_to_see_is_seen():
    """A wave is missed by wide kernels; of a calibrated model the widest weighs most."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 20_000)
    true = expit(np.log(p / (1 - p)) + 0.8 * np.sin(30 * p))
    for truth, narrow in ((true, True), (p, False)):
        y = (rng.random(20_000) < truth).astype(int)
        (found,) = weighed([Problem("p", p, y, np.ones(20_000), KL)], engine="grid")
        mean = found.weights @ np.log([tuning.bandwidth for tuning in found.tunings])
        assert (np.exp(mean) < 0.01) if narrow else (np.exp(mean) > 0.05)


@pytest.mark.parametrize("n", [SEARCH_ROWS, SEARCH_ROWS + 1, 50_000])
def test_more_rows_weigh_where_they_cost_little(n):
    """Few rows cannot tell a narrow kernel from a wide one, and the wide one sees less error."""
    one = Problem("p", np.full(n, 0.3), np.zeros(n, int), np.ones(n), L2.binary)
    assert _search_rows(one) is None
    joint = replace(one, predictions=np.full((n, 3), 1 / 3), loss=L2)
    rows = _search_rows(joint)
    if n == SEARCH_ROWS:
        assert rows is None
        return
    assert 0.9 * SEARCH_ROWS < len(rows) <= SEARCH_ROWS
    assert (np.diff(rows) > 0).all()
    assert rows[[0, -1]].tolist() == [0, n - 1]


def test_losses_of_some_rows_are_scaled_up(monkeypatch):
    data = ra.datasets.temperature(400, 3, t2=0.6, seed=0)
    weights = np.random.default_rng(0).uniform(0.5, 2, 400)
    problem = Problem("all", data.y_prob, data.y_true, weights, L2)
    (whole,) = weighed([problem], candidates=np.array([0.1, 0.5]))
    monkeypatch.setattr("riskalign.methods.residuals.SEARCH_ROWS", 200)
    (some,) = weighed([problem], candidates=np.array([0.1, 0.5]))
    assert not np.array_equal(whole.evidence, some.evidence)
    np.testing.assert_allclose(some.curve.objective, whole.curve.objective, rtol=0.1)


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
def test_the_order_of_rows_and_classes_does_not_matter(notion):
    data = ra.datasets.class_bias(150, 3, seed=1)
    rows, classes = np.random.default_rng(0).permutation(150), np.array([2, 0, 1])
    options = {"notion": notion, "estimator": "debiased", "engine": "exact", "confidence": 0.9}
    one = ra.calibration_error(data.y_true, data.y_prob, **options)
    other = ra.calibration_error(data.y_true[rows], data.y_prob[rows], **options)
    renamed = ra.calibration_error(
        np.argsort(classes)[data.y_true], data.y_prob[:, classes], **options
    )
    assert other.value == pytest.approx(one.value, rel=1e-9)
    assert renamed.value == pytest.approx(one.value, rel=1e-9)


def test_weights_sum_to_one_on_any_scale():
    """On a scale of 1e20 the evidence of candidates that fit alike had no digits left."""
    tunings = [Tuning(h) for h in (0.01, 0.1, 0.2)]
    for scale in (0.0, 1.0, 1e20, 1e200):
        weighted = WeightedTunings(tunings, np.log([0.01, 0.1, 0.2]), scale)
        own = weighted.own_weights(np.full((3, 2), 0.7))
        np.testing.assert_allclose(own, np.array([[1, 10, 20]] * 2).T / 31, rtol=1e-12)
    y = np.zeros(24, dtype=int)
    f = np.eye(3)[np.arange(24) % 3] + [1e-200, 1e-100, 1e-300]
    result = ra.calibration_error(y, f, notion="classwise", start="identity")
    assert result.conditional.max() <= 1  # was 6
