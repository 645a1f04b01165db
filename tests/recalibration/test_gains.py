"""What recalibrating would gain: cross-fitted, whatever the order of rows, in words."""

import numpy as np
import pytest
from scipy.special import softmax

import riskalign as ra
from riskalign.data.validation import as_sample
from riskalign.recalibration import gains
from riskalign.recalibration.calibrators import CALIBRATORS, cross_fitted, folds_of
from riskalign.recalibration.gains import recalibration_gains


def test_a_temperature_is_found_and_removes_the_error():
    data = ra.datasets.temperature(4000, 4, t2=0.5, seed=1)
    gains = {gain.method: gain for gain in recalibration_gains(data.y_true, data.y_prob)}
    assert list(gains) == ["temperature", "vector", "kernel"]
    for gain in gains.values():
        assert gain.removed_share > 0.9
        assert gain.lowers_log_loss
        assert gain.n == 4000
    fitted = float(gains["temperature"].description.split()[-1].rstrip(")"))
    assert fitted == pytest.approx(2.0, rel=0.1)
    assert "removes" in str(gains["temperature"])
    assert "log loss -" in str(gains["temperature"])


def test_a_calibrated_model_gains_nothing():
    data = ra.datasets.calibrated(3000, 2, seed=2)
    for gain in recalibration_gains(data.y_true, data.y_prob):
        assert gain.log_loss_after > 0.995 * gain.log_loss_before
        assert gain.log_loss_after < 1.005 * gain.log_loss_before


def test_the_order_of_rows_does_not_matter():
    data = ra.datasets.class_bias(900, 3, seed=3)
    order = np.random.default_rng(0).permutation(900)
    plain = recalibration_gains(data.y_true, data.y_prob, methods=["vector"])[0]
    moved = recalibration_gains(data.y_true[order], data.y_prob[order], methods=["vector"])[0]
    assert moved.log_loss_after == pytest.approx(plain.log_loss_after, rel=1e-6)
    assert moved.error_after == pytest.approx(plain.error_after, abs=1e-6)


def test_equal_rows_of_different_weights_are_dealt_by_their_weights(monkeypatch):
    monkeypatch.setattr(gains, "MOST_ROWS", 30)
    y, p = np.repeat([0, 1, 1], 12), np.repeat([0.2, 0.6, 0.9], 12)
    weights = np.tile([0.5, 1.0, 2.0, 4.0], 9)
    order = np.random.default_rng(0).permutation(36)
    sample = as_sample(y, p, weights)
    folds = folds_of(sample)
    moved = folds_of(sample.take(order))
    for k in range(5):
        assert sorted(weights[folds == k]) == sorted(weights[order][moved == k])
    found, same = (
        recalibration_gains(y[rows], p[rows], sample_weight=weights[rows], methods=["matrix"])[0]
        for rows in (np.arange(36), order)
    )
    assert same.log_loss_after == pytest.approx(found.log_loss_after, rel=1e-9)


@pytest.mark.parametrize("p", [[0.65, 0.52], [[0.65, 0.2, 0.15], [0.52, 0.2, 0.28]]])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_folds_of_a_row_or_two_have_gains(p, n):
    """Without a warning: a map learnt from one row has nothing to smooth."""
    p = np.tile(p, (2,) + (1,) * (np.ndim(p) - 1))[:n]
    gains = recalibration_gains([1, 0, 1, 1][:n], p, methods=list(CALIBRATORS))
    for gain in gains:
        assert np.isfinite([gain.log_loss_after, gain.error_after, gain.log_loss_doubt]).all()


@pytest.mark.parametrize("method", CALIBRATORS)
def test_cross_fitted_rows_come_from_maps_that_have_not_seen_them(method):
    data = ra.datasets.class_bias(300, 3, seed=4)
    sample = as_sample(data.y_true, data.y_prob)
    folds = folds_of(sample)
    assert np.bincount(folds).tolist() == [60] * 5
    R = cross_fitted(sample, method)
    held = np.flatnonzero(folds == 2)
    others = np.flatnonzero(folds != 2)
    expected = CALIBRATORS[method](sample.take(others))(sample.probabilities[held])
    np.testing.assert_array_equal(R[held], expected)


def test_large_samples_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(gains, "MOST_ROWS", 500)
    data = ra.datasets.temperature(2000, 2, t2=0.5, seed=5)
    (gain,) = recalibration_gains(data.y_true, data.y_prob, methods=["temperature"])
    assert gain.n == 500
    assert gain.removed_share > 0.5


def test_weights_and_logits():
    data = ra.datasets.temperature(1000, 3, t2=0.5, seed=6)
    logits = np.log(data.y_prob) + 3.0
    options = {"methods": ["temperature"], "sample_weight": np.full(1000, 7.0)}
    (plain,) = recalibration_gains(data.y_true, softmax(logits, axis=1), **options)
    (other,) = recalibration_gains(data.y_true, logits, from_logits=True, **options)
    assert other.log_loss_after == pytest.approx(plain.log_loss_after)


def test_no_error_to_remove():
    gain = ra.Gain("temperature", "temperature scaling", 0.5, 0.5, -0.001, 0.0, "", "", 100)
    assert gain.removed_share is None
    assert (
        str(gain) == "temperature scaling: there is no calibration error to remove, log loss +0.0%"
    )


def test_the_change_of_the_log_loss_has_an_interval():
    """Its standard error is that of the ratio of two means, by resampling rows."""
    data = ra.datasets.temperature(800, 3, t2=0.6, seed=0)
    (gain,) = recalibration_gains(data.y_true, data.y_prob, methods=["temperature"])
    sample = as_sample(data.y_true, data.y_prob)
    rows = np.arange(800)
    losses = [
        -np.log(f[rows, data.y_true]) for f in (data.y_prob, cross_fitted(sample, "temperature", 3))
    ]
    generator = np.random.default_rng(0)
    some = generator.integers(800, size=(2_000, 800))
    before, after = (own[some].mean(axis=1) for own in losses)
    assert gain.change_error == pytest.approx((after / before).std(), rel=0.1)
    low, high = gain.change_interval
    assert gain.change == pytest.approx(losses[1].mean() / losses[0].mean() - 1)
    assert low < gain.change < high
    assert f"log loss {gain.change:+.1%} (95% CI {low:+.1%} to {high:+.1%})" in str(gain)


def test_notebooks_show_a_table():
    data = ra.datasets.temperature(300, 3, t2=0.5, seed=0)
    gains = recalibration_gains(data.y_true, data.y_prob, methods=["temperature", "matrix"])
    assert isinstance(gains, list)
    page = gains._repr_html_()
    assert page.count("<tr>") == 3
    assert "matrix scaling" in page
    assert f"{gains[0].log_loss_after:.4f}" in page
    assert (
        recalibration_gains(data.y_true, data.y_prob, methods=[])._repr_html_().count("<td>") == 0
    )


def test_notebooks_show_a_calibrator():
    data = ra.datasets.temperature(300, 2, t2=0.5, seed=0)
    names = np.array(["<a>", "b"], dtype=object)
    options = {"method": "temperature", "classes": names.tolist()}
    calibrator = ra.fit_calibrator(names[data.y_true], data.y_prob, **options)
    page = calibrator._repr_html_()
    assert "&lt;a&gt;, b" in page
    assert "<a>" not in page
    assert f"<td>{100 * calibrator([0.9])[0]:.1f}%</td>" in page
    many = ra.datasets.temperature(300, 12, seed=0)
    calibrator = ra.fit_calibrator(many.y_true, many.y_prob, method="temperature")
    assert "and 4 more" in calibrator._repr_html_()
