"""Views of the residuals, against plain loops and against all label sets of a tiny sample."""

from itertools import product

import numpy as np
import pytest

import riskalign as ra
from riskalign.inference.null import draw_labels
from riskalign.inference.views import (
    GROUPS_PER_CLASS,
    ByClass,
    Crossed,
    GroupSums,
    OneProbability,
    Pooled,
    covariance_of,
    functions_of,
    groups_of,
    uncorrelated,
)


def tiny(n=4, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    f = generator.dirichlet(np.ones(n_classes), n)
    return f, generator.uniform(0.5, 2.0, n)


def every_label_set(f):
    """All label sets ``(n, B)`` and their probabilities ``(B,)``."""
    n, n_classes = f.shape
    labels = np.array(list(product(range(n_classes), repeat=n))).T
    return labels, np.prod(f[np.arange(n)[:, None], labels], axis=0)


def top_hits(f):
    return f.argmax(axis=1)[:, None] == np.arange(f.shape[1])


@pytest.mark.parametrize("p", [[0.1, 0.9, 0.5], [0.3] * 5, [0.0, 1.0, 0.0, 1.0], [0.4]])
def test_few_predictions_are_groups_of_their_own(p):
    groups = groups_of(np.array(p), 10)
    assert np.array_equal(np.unique(p)[groups], p)


def test_groups_are_of_equal_size_and_in_order():
    p = np.random.default_rng(0).permutation(np.linspace(0, 1, 1_000))
    groups = groups_of(p, 8)
    assert np.bincount(groups).tolist() == [125] * 8
    assert (np.diff(groups[np.argsort(p)]) >= 0).all()


def test_ties_share_a_group():
    p = np.repeat(np.linspace(0, 1, 50), np.random.default_rng(0).integers(1, 40, 50))
    groups = groups_of(p, 8)
    for value in np.unique(p):
        assert len(np.unique(groups[p == value])) == 1
    assert np.array_equal(np.unique(groups), np.arange(groups.max() + 1))


@pytest.mark.parametrize("equal", [True, False])
def test_sums_of_residuals_are_those_of_loops(equal):
    f, weights = tiny(20)
    weights = np.full(20, 0.7) if equal else weights
    groups = np.random.default_rng(1).integers(-1, 5, f.shape)
    labels = draw_labels(f, 6, np.random.default_rng(2))
    found = GroupSums.of(groups, f, weights).of_sets(labels)
    expected = np.zeros((5, 6))
    for b in range(6):
        for i in range(20):
            for k in range(3):
                if groups[i, k] >= 0:
                    expected[groups[i, k], b] += weights[i] * ((labels[i, b] == k) - f[i, k])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_covariance_is_that_over_all_label_sets():
    f, weights = tiny()
    groups = np.random.default_rng(1).integers(-1, 4, f.shape)
    sums = GroupSums.of(groups, f, weights)
    functions = np.random.default_rng(2).normal(size=(len(sums.expected), 3))
    labels, probability = every_label_set(f)
    z = functions.T @ sums.of_sets(labels)  # (3, B)
    np.testing.assert_allclose(z @ probability, 0, atol=1e-12)
    covariance, least = covariance_of(functions, sums.groups, f, weights)
    assert (least < 1e-9 * np.diag(covariance)).all()
    np.testing.assert_allclose(covariance, (z * probability) @ z.T, atol=1e-12)


def test_functions_become_uncorrelated_and_combinations_vanish():
    generator = np.random.default_rng(0)
    roots = generator.normal(size=(5, 4, 6))
    roots[2, 2] = roots[2, 0] - 3 * roots[2, 1]  # a combination of the earlier ones
    roots[4] = 0
    covariance = roots @ roots.transpose(0, 2, 1)
    A = uncorrelated(covariance)
    identity = A @ covariance @ A.transpose(0, 2, 1)
    expected = np.broadcast_to(np.eye(4), (5, 4, 4)).copy()
    expected[2, 2, 2] = 0
    expected[4] = 0
    np.testing.assert_allclose(identity, expected, atol=1e-8)
    assert np.array_equal(A, np.tril(A))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_smooth_statistics_have_the_mean_of_their_number(n_classes):
    """Over all label sets S_r is r on average, as far as there are functions."""
    f, weights = tiny(5, n_classes)
    labels, probability = every_label_set(f)
    hits = top_hits(f)
    view = OneProbability(f, weights, hits, {1: "level", 3: "curve"}, "top label")
    assert view.statistics(labels)[:2] @ probability == pytest.approx([1, 3])
    by_class = ByClass(f, weights).statistics(labels) @ probability
    assert by_class[:2] == pytest.approx([n_classes, 2 * n_classes])
    if n_classes > 2:
        assert Pooled(f, weights).statistics(labels)[:1] @ probability == pytest.approx([1])


def test_one_function_is_the_standardised_sum():
    f, weights = tiny(30)
    labels = draw_labels(f, 5, np.random.default_rng(0))
    found = ByClass(f, weights).statistics(labels)[0]
    expected = np.zeros(5)
    for k in range(3):
        for b in range(5):
            residual = (labels[:, b] == k) - f[:, k]
            expected[b] += (weights @ residual) ** 2 / (weights**2 @ (f[:, k] * (1 - f[:, k])))
    assert found == pytest.approx(expected)


def test_the_cumulative_statistic_is_kuipers():
    data = ra.datasets.temperature(100, 3, seed=0)
    view = OneProbability(data.y_prob, np.ones(100), top_hits(data.y_prob), {1: "level"}, "top")
    found = view.statistics(data.y_true[:, None])[-1, 0]
    error = ra.calibration_error(data.y_true, data.y_prob, notion="top-label", method=ra.Kuiper())
    assert found / 100 == pytest.approx(error.value)


def test_crossed_residuals_are_those_of_loops():
    f, weights = tiny(12)
    labels = draw_labels(f, 3, np.random.default_rng(0))
    found = Crossed(f, weights).statistics(labels)
    mean = weights @ f / weights.sum()
    for b in range(3):
        total = 0.0
        for k in range(3):
            for j in range(3):
                own = weights * (f[:, j] - mean[j])
                residual = (labels[:, b] == k) - f[:, k]
                total += (own @ residual) ** 2 / (own**2 @ (f[:, k] * (1 - f[:, k])))
        assert found[0, b] == pytest.approx(total)


def test_functions_begin_with_level_and_log_odds():
    p = np.array([0.1, 0.5, 0.9, 0.5])
    functions = functions_of(p, groups_of(p, 10), 3)
    np.testing.assert_allclose(functions[:, 0], 1)
    np.testing.assert_allclose(functions[:, 1], [-np.log(9), 0, np.log(9)], atol=1e-12)
    np.testing.assert_allclose(functions[:, 2], np.cos(np.pi * np.array([1, 4, 7]) / 8))


@pytest.mark.parametrize("n_classes", [3, 40])
def test_exact_zeros_and_ones_and_empty_classes(n_classes):
    f = np.zeros((50, n_classes))
    f[:, 0], f[:25, 1], f[:25, 0] = 1.0, 0.5, 0.5  # the other classes never occur
    labels = np.zeros((50, 2), dtype=np.intp)
    labels[:10, 1] = 1
    for view in (
        OneProbability(f, np.ones(50), top_hits(f), {2: "slope", 8: "curve"}, "top label"),
        Pooled(f, np.ones(50)),
        ByClass(f, np.ones(50)),
        Crossed(f, np.ones(50)),
    ):
        found = view.statistics(labels)
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert len(found) == len(view.names)


def test_a_class_may_have_fewer_groups_than_others():
    generator = np.random.default_rng(0)
    f = generator.dirichlet(np.ones(3), 400)
    f[:, 2] = np.round(f[:, 2] * 2) / 2  # three values in the last class
    f[:, 1] = 1 - f[:, 0] - f[:, 2]
    f = np.abs(f) / np.abs(f).sum(axis=1, keepdims=True)
    assert groups_of(f[:, 2], GROUPS_PER_CLASS).max() < GROUPS_PER_CLASS
    assert np.isfinite(ByClass(f, np.ones(400)).statistics(draw_labels(f, 4, generator))).all()


def test_certain_predictions_leave_no_variance_to_rounding():
    """Labels are known: functions of them are constant, whatever the weights are."""
    f = np.eye(2)[[1, 1, 1, 0, 1]]
    weights = np.array([0.8469303104657786, 1.1702980235833178, 1.88626, 2.58648, 1.43491])
    for scale in (1.0, 3.0):
        top = OneProbability(f, scale * weights, f > 0.5, {1: "level", 2: "slope"}, "top label")
        found = top.statistics(np.array([[1, 1, 0, 0, 1]]).T)
        np.testing.assert_array_equal(found[:2], 0.0)
        assert found[2] > scale  # the largest sum of residuals
