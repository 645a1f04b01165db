"""Isotonic errors and bands against plain loops, scikit-learn, and the truth."""

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.isotonic import IsotonicRegression

import riskalign as ra
from riskalign.methods.isotonic import MOST_GROUPS


def cases():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    yield "smooth", (rng.uniform(size=300) < p**2).astype(int), p
    tenths = rng.integers(0, 11, 200) / 10  # ties, exact zeros and ones
    yield "tenths", (rng.uniform(size=200) < 0.2 + 0.6 * tenths).astype(int), tenths
    yield "two", np.array([1, 0]), np.array([0.2, 0.9])
    yield "one class", np.zeros(20, dtype=int), rng.uniform(size=20)
    yield "constant", np.array([0, 1, 1, 0, 1]), np.full(5, 0.3)


CASES = list(cases())
named = pytest.mark.parametrize(("y", "p"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


@named
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_that_of_scikit_learn(y, p, weighted):
    w = np.random.default_rng(1).uniform(0.1, 3, len(y)) if weighted else None
    result = ra.calibration_error(y, p, method=ra.Isotonic(), sample_weight=w)
    R = IsotonicRegression(out_of_bounds="clip").fit(p, y, sample_weight=w).predict(p)
    np.testing.assert_allclose(result.conditional, R, atol=1e-12)
    mcb = np.average((y - p) ** 2 - (y - R) ** 2, weights=w)
    assert result.value == pytest.approx(mcb, abs=1e-12)
    assert result.value >= -1e-12


def test_rows_without_weight_lie_on_a_step():
    y, p = [0, 1, 1, 0], [0.2, 0.5, 0.8, 0.6]
    result = ra.calibration_error(y, p, method=ra.Isotonic(), sample_weight=[1, 1, 1, 0])
    assert result.conditional.tolist() == [0, 1, 1, 1]


def test_log_loss_and_classes():
    data = ra.datasets.temperature(400, 3, t2=0.6, seed=0)
    result = ra.calibration_error(data.y_true, data.y_prob, method=ra.Isotonic(), loss="kl")
    alone = ra.calibration_error(
        data.y_true == 1, data.y_prob[:, 1], method=ra.Isotonic(), loss="kl"
    )
    assert result.per_class[1] == pytest.approx(alone.value, rel=1e-12)
    assert result.value == pytest.approx(result.per_class.sum())


def band_by_loops(y, p, confidence):
    """The definition: every block of consecutive distinct predictions has its limits."""
    values = np.unique(p)
    n_blocks = len(values) * (len(values) + 1) // 2
    share = (1 - confidence) / 2 / n_blocks
    lower, upper = np.zeros(len(values)), np.ones(len(values))
    for i, first in enumerate(values):
        for j, last in enumerate(values[i:], start=i):
            inside = (first <= p) & (p <= last)
            n, k = inside.sum(), y[inside].sum()
            low = beta.ppf(share, k, n - k + 1) if k > 0 else 0.0
            high = beta.ppf(1 - share, k + 1, n - k) if k < n else 1.0
            for m in range(len(values)):
                if m >= j:
                    lower[m] = max(lower[m], low)
                if m <= i:
                    upper[m] = min(upper[m], high)
    return values, lower, upper


@named
def test_the_band_is_that_of_plain_loops(y, p):
    y, p = y[:60], p[:60]
    band = ra.isotonic_band(y, p, confidence=0.9)
    values, lower, upper = band_by_loops(y, p, 0.9)
    np.testing.assert_array_equal(band.predictions, values)
    np.testing.assert_allclose(band.lower, lower, atol=1e-9)
    np.testing.assert_allclose(band.upper, upper, atol=1e-9)


def test_the_band_covers_the_whole_curve():
    # 40 data sets, each covered with probability 0.9 at least: fewer than 29 would be seen in
    # 1 of 1,000 runs. More than MOST_GROUPS predictions share groups.
    rng, covered = np.random.default_rng(2), 0
    for _ in range(40):
        p = rng.beta(0.7, 1.5, size=3 * MOST_GROUPS)
        truth = 0.05 + 0.7 * p**1.5
        band = ra.isotonic_band(rng.uniform(size=len(p)) < truth, p, confidence=0.9)
        at = 0.05 + 0.7 * band.predictions**1.5
        covered += bool(((band.lower <= at) & (at <= band.upper)).all())
        assert (np.diff(band.lower) >= 0).all()
        assert (np.diff(band.upper) >= 0).all()
    assert covered >= 29


def test_the_band_finds_what_is_far_off():
    data = ra.datasets.temperature(5_000, 2, t2=0.4, seed=0)
    band = ra.isotonic_band(data.y_true, data.y_prob)
    assert band.excludes([0.95]).tolist() == [True]
    assert not band.excludes([0.5]).any()


def test_bands_are_for_one_probability():
    data = ra.datasets.temperature(50, 3, seed=0)
    with pytest.raises(ValueError, match="notion='top-label'"):
        ra.isotonic_band(data.y_true, data.y_prob)
    band = ra.isotonic_band(data.y_true, data.y_prob, notion="top-label")
    assert band.notion == "top-label"
    with pytest.raises(ValueError, match="between 0 and 1"):
        ra.isotonic_band(data.y_true, data.y_prob, notion="top-label", confidence=95)


def test_a_band_in_one_line_and_in_notebooks():
    band = ra.isotonic_band([0] * 50 + [1] * 50, [0.6] * 50 + [0.7] * 50)
    assert repr(band) == (
        "<IsotonicBand: binary, 2 distinct predictions, 2 outside the band, confidence=0.95>"
    )
    page = band._repr_html_()
    assert "Isotonic band, binary calibration" in page
    assert "<polyline" in page
    assert "<polygon" in page
