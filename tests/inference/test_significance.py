"""The test of calibration: exact size, and power where it is due."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import riskalign as ra
from riskalign.data.case import Case
from riskalign.data.notions import BINARY
from riskalign.data.sample import Sample
from riskalign.equations.losses import L2
from riskalign.inference import calibration_test as module
from riskalign.inference.calibration_test import (
    half_cauchy,
    one_per_sample,
    perform_test,
    rank_p_values,
)


def rejections_are_as_many_as_stated(p_values, level):
    """Within 99.9%."""
    low, high = binom.ppf([0.0005, 0.9995], len(p_values), level)
    return low <= np.count_nonzero(np.array(p_values) <= level) <= high


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
def test_size_is_exact(notion):
    """At 10%, 200 calibrated data sets of 40 samples."""
    p_values = []
    for seed in range(200):
        data = ra.datasets.calibrated(40, 3, seed=seed)
        test = ra.calibration_test(data.y_true, data.y_prob, notion=notion, n_draws=19, seed=seed)
        p_values.append(test.p_value)
    assert rejections_are_as_many_as_stated(p_values, 0.1)


def counted(p, y):
    """A sample of one probability whose equal rows are one."""
    rows, counts = np.unique(np.stack([p, y], axis=1), axis=0, return_counts=True)
    f = np.stack([1 - rows[:, 0], rows[:, 0]], axis=1)
    units = np.full(len(rows), 0.5)
    return Sample(f, rows[:, 1].astype(np.intp), counts * units, ("0", "1"), units)


@pytest.mark.parametrize("most", [200_000, 100])
def test_size_is_exact_for_rows_of_several_samples(most, monkeypatch):
    """At 10%, 200 data sets of tenths, in 20 rows: all samples, and a part of them."""
    monkeypatch.setattr(module, "MOST", most)
    generator = np.random.default_rng(0)
    p_values = []
    for seed in range(200):
        p = generator.integers(0, 11, 300) / 10
        y = (generator.random(300) < p).astype(float)
        case = Case.of(counted(p, y), BINARY, L2)
        test = perform_test(case, 19, seed, False)
        assert test.n_samples == min(300, most)
        p_values.append(test.p_value)
    assert rejections_are_as_many_as_stated(p_values, 0.1)


def test_rows_of_several_samples_become_samples():
    sample = Sample(
        np.array([[0.4, 0.6], [0.4, 0.6], [0.9, 0.1]]),
        np.array([1, 0, 0]),
        np.array([6.0, 2.0, 5.0]),
        ("no", "yes"),
        np.array([2.0, 2.0, 5.0]),
    )
    each = one_per_sample(sample, seed=0)
    assert each.sample_weights is None
    assert each.labels.tolist() == [0, 1, 1, 1, 0]  # the largest probability comes first
    assert each.weights.tolist() == [5, 2, 2, 2, 2]
    single = one_per_sample(replace(sample, sample_weights=None), seed=0)
    assert single.weights.tolist() == [5, 6, 2]


def test_equal_label_sets_are_ties():
    """Predictions of exactly 0 and 1 that came true: every set is the observed one."""
    p = np.repeat([0.0, 1.0], 40)
    assert ra.calibration_test(p.astype(int), p, n_draws=19).p_value == 1.0
    wrong = ra.calibration_test(np.r_[1, 1, p[2:].astype(int)], p, n_draws=19)
    assert wrong.p_value == 0.05


def test_ranks_count_ties_and_forgive_rounding():
    table = np.array([[3.0, 1.0, 2.0, 3.0 + 1e-12], [0.0, 0.0, 0.0, 0.0]])
    assert rank_p_values(table).tolist() == [[0.5, 1.0, 0.75, 0.5], [1.0] * 4]


def test_one_small_p_value_is_enough():
    few = half_cauchy(np.array([[0.001, 0.2], [1.0, 0.2], [0.9, 0.2]]), np.ones(3))
    assert few[0] > few[1]
    assert half_cauchy(np.ones((3, 1)), np.ones(3)) == pytest.approx([0.0])


def test_a_statistic_that_counts_twice_is_as_two():
    p = np.array([[0.3, 0.1], [0.02, 0.7]])
    twice = half_cauchy(p[[0, 1, 1]], np.ones(3))
    np.testing.assert_allclose(half_cauchy(p, np.array([1.0, 2.0])), twice, rtol=1e-12)


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
def test_gross_miscalibration_is_found(notion):
    data = ra.datasets.temperature(500, 4, t2=0.4, seed=0)
    test = ra.calibration_test(data.y_true, data.y_prob, notion=notion, n_draws=99)
    assert test.p_value == 0.01
    assert test.parts[test.strongest] == 0.01


def rejected(family, notion, n, n_classes, repetitions=20):
    """Rejections at 5%."""
    sets = (ra.datasets.FAMILIES[family](n, n_classes, 1_000 + s) for s in range(repetitions))
    tests = (ra.calibration_test(d.y_true, d.y_prob, notion=notion, n_draws=99) for d in sets)
    return sum(test.p_value <= 0.05 for test in tests)


@pytest.mark.parametrize(
    ("family", "notion", "n", "n_classes"),
    [
        ("label noise", "binary", 200, 2),  # a test by 15 bins finds three of four
        ("class bias", "classwise", 300, 4),
        ("wavy", "classwise", 500, 10),  # all classes err alike
        ("imbalanced", "canonical", 500, 4),
    ],
)
def test_power(family, notion, n, n_classes):
    """Sixteen of twenty, where the study finds 0.9 or more."""
    assert rejected(family, notion, n, n_classes) >= 16


def test_the_kind_of_departure_is_named():
    frequency = ra.datasets.class_bias(1_000, 4, bias=0.3, seed=0)
    test = ra.calibration_test(frequency.y_true, frequency.y_prob, n_draws=199)
    assert test.parts["each class: frequency"] == 1 / 200
    assert test.parts["all classes: slope"] > 1 / 200


@pytest.mark.parametrize("n", [100, 400])
def test_test_depends_on_its_seed_alone(n):
    data = ra.datasets.calibrated(n, 3, seed=0)
    first, again, other = (
        ra.calibration_test(data.y_true, data.y_prob, n_draws=49, seed=seed) for seed in (1, 1, 2)
    )
    assert first.parts == again.parts != other.parts
    assert first.to_dict()["p_value"] == first.p_value
    assert f"49 draws of {n} rows" in str(first)
    with pytest.raises(ValueError, match="`n_draws` must be a positive integer; found 0"):
        ra.calibration_test(data.y_true, data.y_prob, n_draws=0)


def test_columns_that_do_not_add_up_exactly_are_no_departure():
    """Rows may sum to one within 1e-3; labels are drawn from what they say in proportion."""
    data = ra.datasets.calibrated(2_000, 3, seed=0)
    f = data.y_prob * (1 + 5e-4)
    test, other = (ra.calibration_test(data.y_true, p, n_draws=99) for p in (data.y_prob, f))
    assert abs(test.p_value - other.p_value) < 0.1
