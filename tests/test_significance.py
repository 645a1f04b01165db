"""The test of calibration: seeded, with stated error rates."""

import numpy as np
import pytest
from scipy.stats import binom

import riskalign as ra


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
def test_size_is_exact(notion):
    """Rejections at 10% among 200 calibrated data sets of 40 samples: within 99.9%."""
    rejected = 0
    for seed in range(200):
        data = ra.datasets.calibrated(40, 3, seed=seed)
        test = ra.calibration_test(
            data.y_true, data.y_prob, notion=notion, n_draws=19, seed=seed, engine="exact"
        )
        rejected += test.p_value <= 0.1
    low, high = binom.ppf([0.0005, 0.9995], 200, 0.1)
    assert low <= rejected <= high


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_gross_miscalibration_is_found(notion, loss):
    data = ra.datasets.temperature(500, 4, t2=0.4, seed=0)
    test = ra.calibration_test(data.y_true, data.y_prob, notion=notion, loss=loss, n_draws=99)
    assert test.p_value == 0.01
    assert test.statistic > 3


def test_test_depends_on_its_seed_alone():
    data = ra.datasets.calibrated(100, 3, seed=0)
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
