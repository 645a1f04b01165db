"""The test of calibration: exact size, and a statistic on nodes that is that of the rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import riskalign as ra
from riskalign.data.case import Case
from riskalign.data.notions import BINARY, CLASSWISE
from riskalign.data.sample import Sample
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.inference import calibration_test as module
from riskalign.inference.calibration_test import (
    SCALES,
    Statistics,
    highest,
    one_per_sample,
    perform_test,
    sums_of_sets,
)
from riskalign.inference.null import draw_labels

SPHERICAL = ra.ProperLoss("spherical", lambda f: 1 - f / np.linalg.norm(f, axis=1, keepdims=True))


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
        test = ra.calibration_test(
            data.y_true, data.y_prob, notion=notion, n_draws=19, seed=seed, engine="exact"
        )
        p_values.append(test.p_value)
    assert rejections_are_as_many_as_stated(p_values, 0.1)


def test_size_is_exact_on_nodes():
    """At 5%, 200 calibrated data sets of 200 samples."""
    p_values = []
    for seed in range(200):
        data = ra.datasets.calibrated(200, 3, seed=1000 + seed)
        test = ra.calibration_test(data.y_true, data.y_prob, n_draws=39, seed=seed, engine="grid")
        p_values.append(test.p_value)
    assert rejections_are_as_many_as_stated(p_values, 0.05)


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
        test = perform_test(case, KERNELS["dirichlet"], "grid", 19, seed, False)
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
    assert each.labels.tolist() == [1, 1, 1, 0, 0]
    assert each.weights.tolist() == [2, 2, 2, 2, 5]
    single = replace(sample, sample_weights=None)
    assert one_per_sample(single, seed=0) is single


def statistics_of_drawn_sets(problem, kernel, engine, outcomes):
    """Standardised, at every scale; label sets like those of the test."""
    kernel = KERNELS[kernel]
    bandwidths = (SCALES * kernel.bandwidth_range(2)[1]).tolist()
    sums = Statistics([problem], kernel, engine, bandwidths).of(0).sums(outcomes)
    return (sums - sums.mean(axis=1, keepdims=True)) / sums.std(axis=1, keepdims=True)


def confident(n, generator):
    """Predictions from 1e-12 to 1, a tenth of them 0 or 1."""
    p = 1 / (1 + np.exp(-8 * generator.normal(size=n)))
    p[: n // 20], p[n // 20 : n // 10] = 0.0, 1.0
    return p


@pytest.mark.parametrize("loss", ["l2", "kl", SPHERICAL])
@pytest.mark.parametrize("kernel", ["dirichlet", "rbf"])
@pytest.mark.parametrize("weights", ["equal", "gamma"])
@pytest.mark.parametrize("family", ["calibrated", "top", "confident", "tenths"])
def test_sums_over_nodes_are_those_over_rows(family, weights, kernel, loss):
    """Limits in standard deviations over label sets, on average and at most.

    Predictions of a top label are far from 0, so that R is rarely clipped.
    """
    generator = np.random.default_rng(0)
    n, n_sets = 700, 60
    f = ra.datasets.calibrated(n, 5, seed=2).y_prob
    p = {
        "calibrated": f[:, 0],
        "top": f.max(axis=1),
        "confident": confident(n, generator),
        "tenths": generator.integers(1, 10, n) / 10,
    }[family]
    w = np.ones(n) if weights == "equal" else generator.gamma(2.0, size=n)
    outcomes = draw_labels(np.stack([1 - p, p], axis=1), n_sets, generator)
    loss = loss if isinstance(loss, ra.ProperLoss) else ra.equations.losses.LOSSES[loss]
    problem = Problem("p", p, outcomes[:, 0], w, loss.binary)
    rows, nodes = (
        statistics_of_drawn_sets(problem, kernel, engine, outcomes) for engine in ("exact", "grid")
    )
    error = np.abs(nodes - rows)
    mean, most = (2e-2, 0.2) if loss.name == "kl" else (1e-3, 1e-2)
    if family == "top":
        mean, most = mean / 10, most / 10
    assert np.sqrt(np.mean(error**2, axis=1)).max() < mean
    assert error.max() < most


@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_p_values_do_not_depend_on_the_engine(loss):
    """Label sets are the same, whatever the engine: p-values differ by a set or two."""
    for seed in range(3):
        data = ra.datasets.calibrated(400, 3, seed=seed)
        exact, nodes = (
            ra.calibration_test(data.y_true, data.y_prob, loss=loss, n_draws=199, engine=engine)
            for engine in ("exact", "grid")
        )
        assert nodes.p_value == pytest.approx(exact.p_value, abs=2.1 / 200)
        assert nodes.statistic == pytest.approx(exact.statistic, abs=0.05)


def test_label_sets_are_drawn_once_for_all_classes(monkeypatch):
    """However few are held at once, the classes' outcomes of a set add up to one."""
    monkeypatch.setattr(module, "HELD", 600)
    monkeypatch.setattr(module, "SETS", 4)
    data = ra.datasets.calibrated(50, 3, seed=0)
    sample = Sample(data.y_prob, data.y_true, np.ones(50), ("a", "b", "c"))

    class Recorder:
        problems = range(3)
        workers = 1

        def of(self, k):
            return self

        def sums(self, outcomes):
            return outcomes.astype(float)

    table = np.zeros((50, 10))
    done = 0
    for part, (sets, outcomes) in sums_of_sets(sample, CLASSWISE, Recorder(), 9, seed=0):
        table[:, sets] += outcomes
        done += part
    assert np.array_equal(table, np.ones((50, 10)))
    assert done == 3 * 10


def test_equal_label_sets_are_ties():
    """Certain predictions that came true: every set is the observed one."""
    p = np.repeat([0.0, 1.0], 40)
    assert ra.calibration_test(p.astype(int), p, n_draws=19).p_value == 1.0
    assert ra.calibration_test(p.astype(int), p, n_draws=19, engine="grid").p_value == 1.0
    wrong = ra.calibration_test(np.r_[1, 1, p[2:].astype(int)], p, n_draws=19)
    assert wrong.p_value == 0.05


def test_scales_are_standardised_and_the_largest_counts():
    table = np.array([[1.0, 2.0, 3.0], [40.0, 20.0, 0.0], [7.0, 7.0, 7.0]])
    root = np.sqrt(1.5)
    assert highest(table) == pytest.approx([root, 0.0, root])


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_gross_miscalibration_is_found(notion, loss):
    data = ra.datasets.temperature(500, 4, t2=0.4, seed=0)
    test = ra.calibration_test(data.y_true, data.y_prob, notion=notion, loss=loss, n_draws=99)
    assert test.p_value == 0.01
    assert test.statistic > 3


@pytest.mark.parametrize("n", [100, 400])
def test_test_depends_on_its_seed_alone(n):
    data = ra.datasets.calibrated(n, 3, seed=0)
    first, again, other = (
        ra.calibration_test(data.y_true, data.y_prob, n_draws=49, seed=seed) for seed in (1, 1, 2)
    )
    assert first.statistic == again.statistic != other.statistic
    assert first.to_dict()["p_value"] == first.p_value
    assert "label sets drawn" in str(first)
    with pytest.raises(ValueError, match="`n_draws` must be a positive integer; found 0"):
        ra.calibration_test(data.y_true, data.y_prob, n_draws=0)


def test_bandwidths_of_the_test_ignore_the_labels():
    data = ra.datasets.temperature(200, 3, seed=0)
    shuffled = np.random.default_rng(0).permutation(data.y_true)
    one, other = (
        ra.calibration_test(labels, data.y_prob, n_draws=9) for labels in (data.y_true, shuffled)
    )
    assert np.array_equal(one.bandwidths, other.bandwidths)
