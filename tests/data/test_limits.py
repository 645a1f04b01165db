"""Work of minutes is announced before it begins, work of days is refused."""

import numpy as np
import pytest

import riskalign as ra
from riskalign.data import limits
from riskalign.data.files import open_predictions
from riskalign.data.limits import (
    NO_PAIRS,
    SlowWarning,
    announce_errors,
    announce_pairs,
    announce_scaling,
    announce_test,
)
from riskalign.data.validation import as_sample
from riskalign.recalibration.calibrators import cross_fitted

FEW = [0, 1], [0.2, 0.9]
MANY = np.linspace(0.1, 1, 20_000)


def test_ordinary_work_is_not_announced():
    announce_errors(1_000)
    announce_test(200_000, 999)
    announce_pairs(10_000, 40, 200, NO_PAIRS)
    announce_scaling((2_000, 300), 40, 3_000_000, 2_000 * 603**2, 603)


def test_work_of_minutes_is_announced():
    with pytest.warns(SlowWarning, match=r"40,000 classes will take about 5 minutes. `notion='top"):
        announce_errors(40_000)
    with pytest.warns(SlowWarning, match="about 11 hours"):
        announce_test(200_000, 1_000_000)
    with pytest.warns(
        SlowWarning, match=r"pairs of 200,000 rows will take about 3 hours. `engine='"
    ):
        announce_pairs(200_000, 40, 200, NO_PAIRS)
    with pytest.warns(SlowWarning, match=r"10,003 weights to 25,000 rows of 5,000 .* 42 minutes"):
        announce_scaling((25_000, 5_000), 40, 625_000_000, 2e10, 10_003)


def test_work_of_days_is_refused():
    with pytest.raises(ValueError, match="20,000,000 classes would take about 2 days"):
        announce_errors(20_000_000)


def test_the_functions_ask_before_they_begin(monkeypatch):
    data = ra.datasets.temperature(60, 4, seed=0)
    monkeypatch.setattr(limits, "PER_PROBLEM", 1e6)
    monkeypatch.setattr(limits, "PER_DRAW", 1e6)
    sketch = ra.CalibrationSketch(classes=4).update(data.y_true, data.y_prob)
    for call in (
        lambda: ra.calibration_error(data.y_true, data.y_prob),
        lambda: ra.compare(data.y_true, data.y_prob, data.y_prob),
        lambda: ra.calibration_test(data.y_true, data.y_prob),
        sketch.calibration_error,
        sketch.calibration_test,
    ):
        with pytest.raises(ValueError, match="would take about"):
            call()
    assert ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.05)  # the cure


EXACT = {"engine": "exact"}
JOINT = {"notion": "canonical"}
PLUGIN = {"estimator": "plugin"}


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        (lambda y, f: ra.calibration_error(y, f, **EXACT), "engine='auto'"),
        (lambda y, f: ra.calibration_error(y, f, bandwidth=0.1, **EXACT), "engine='auto'"),
        (lambda y, f: ra.calibration_error(y, f, norm="l1", **EXACT), "engine='auto'"),
        (lambda y, f: ra.calibration_error(y, f, **PLUGIN, **EXACT), "engine='auto'"),
        (
            lambda y, f: ra.calibration_error(y, f, bandwidth=0.1, **PLUGIN, **EXACT),
            "engine='auto'",
        ),
        (lambda y, f: ra.select_bandwidth(y, f, **EXACT), "engine='auto'"),
        (lambda y, f: ra.reliability_curve(y, f, **EXACT), "engine='auto'"),
        (lambda y, f: ra.compare(y, f, f, **EXACT), "engine='auto'"),
        (lambda y, f: ra.calibration_error(y, f, **JOINT), "notion='classwise'"),
        (lambda y, f: ra.calibration_error(y, f, **PLUGIN, **JOINT), "notion='classwise'"),
    ],
)
def test_sums_over_all_pairs_are_announced(monkeypatch, call, cure):
    """Exact ones of one probability, and those of whole vectors; the default needs no pairs."""
    data = ra.datasets.temperature(60, 3, seed=0)
    monkeypatch.setattr(limits, "PER_PAIR", 1e6)
    with pytest.raises(ValueError, match=f"all pairs of 60 rows would take about .*{cure}"):
        call(data.y_true, data.y_prob)
    assert ra.calibration_error(data.y_true, data.y_prob)


def test_the_cost_of_pairs_grows_with_their_number(monkeypatch):
    """By candidates, problems and classes, as measured: within a factor of two at 2,000 rows."""
    found = []
    monkeypatch.setattr(limits, "_announce", lambda seconds, *texts: found.append(seconds))

    def cost(n_classes, **options):
        data = ra.datasets.temperature(300, n_classes, seed=0)
        found.clear()
        ra.calibration_error(data.y_true, data.y_prob, **options)
        return sum(found[-2:] if options.get("estimator") else found[-1:]) * (2_000 / 300) ** 2

    assert 1.6 < cost(3, **EXACT) < 6.5  # 3.3 seconds of the processor
    assert 5.7 < cost(10, **EXACT) < 23  # 11.4
    assert 0.6 < cost(3, **PLUGIN, **EXACT) < 2.5  # 1.25
    assert 3.1 < cost(3, candidates="paper", **PLUGIN, **EXACT) < 12.3  # 6.2


@pytest.mark.parametrize("method", ["temperature", "platt", "vector", "matrix", "kernel"])
def test_scalings_ask_before_they_begin(monkeypatch, method):
    data = ra.datasets.temperature(60, 4, seed=0)
    sample = as_sample(data.y_true, data.y_prob)
    monkeypatch.setattr(limits, "PER_FEATURE", 1e6)
    for call in (
        lambda: ra.fit_calibrator(data.y_true, data.y_prob, method=method),
        lambda: ra.recalibration_gains(data.y_true, data.y_prob, methods=[method]),
        lambda: cross_fitted(sample, method),
    ):
        with pytest.raises(ValueError, match=r"weights? to \d+ rows of 4 classes would take about"):
            call()


def test_all_errors_and_folds_of_gains_count(monkeypatch):
    """Each of four errors and of five folds would be silent by itself."""
    data = ra.datasets.temperature(60, 4, seed=0)
    monkeypatch.setattr(limits, "PER_PROBLEM", 10.0)
    with pytest.warns(SlowWarning, match="errors of 4 classes will take about 3 minutes"):
        ra.recalibration_gains(data.y_true, data.y_prob)
    monkeypatch.setattr(limits, "PER_FEATURE", 0.016)
    with pytest.warns(SlowWarning, match=r"1 weight to 60 rows of .* 3 minutes. Fewer rows"):
        cross_fitted(as_sample(data.y_true, data.y_prob), "temperature")


def test_smoothing_over_whole_vectors_is_announced(monkeypatch):
    data = ra.datasets.temperature(60, 3, seed=0)
    calibrator = ra.KernelCalibrator(notion="canonical")
    monkeypatch.setattr(limits, "PER_PAIR", 1e6)
    with pytest.raises(ValueError, match=r"pairs of 60 rows would take .*notion='classwise'"):
        calibrator.fit(data.y_prob, data.y_true)


def test_many_columns_are_read_in_linear_time(tmp_path):
    """100,000 columns took hours when each was looked up in a list."""
    n_classes = 100_000
    path = tmp_path / "wide.csv"
    row = ",".join(["0.00001"] * n_classes)
    names = ",".join(f"p_{k}" for k in range(n_classes))
    path.write_text(f"y,{names}\n0,{row}\n5,{row}\n")
    found = open_predictions(path).read()
    assert found.scores.shape == (2, n_classes)
    np.testing.assert_array_equal(found.labels, [0, 5])


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        (lambda: ra.EqualWidthBins(10**12), "`n_bins` must be at most 1,000,000"),
        (lambda: ra.EqualMassBins(10**12), "`n_bins` must be at most 1,000,000"),
        (lambda: ra.SimplexBins(10**9), "`n_bins` must be at most 1,000,000"),
        (
            lambda: ra.reliability_curve([0, 1], [0.2, 0.9], grid=10**12),
            "from 2 to 1,000,000 points",
        ),
        (
            lambda: ra.calibration_error(
                [0, 1], [0.2, 0.9], candidates=np.linspace(0.1, 1, 20_000)
            ),
            "Pass fewer, or None for a search",
        ),
    ],
)
def test_numbers_that_no_memory_or_patience_holds(call, cure):
    with pytest.raises(ValueError, match=cure):
        call()
