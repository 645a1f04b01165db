"""Work of minutes is announced before it begins, work of days is refused."""

import numpy as np
import pytest

import riskalign as ra
from riskalign.data import limits
from riskalign.data.files import open_predictions
from riskalign.data.limits import SlowWarning, announce_errors, announce_test

FEW = [0, 1], [0.2, 0.9]
MANY = np.linspace(0.1, 1, 20_000)


def test_ordinary_work_is_not_announced():
    announce_errors(1_000)
    announce_test(200_000, 999)


def test_work_of_minutes_is_announced():
    with pytest.warns(SlowWarning, match=r"40,000 classes will take about 5 minutes. `notion='top"):
        announce_errors(40_000)
    with pytest.warns(SlowWarning, match="about 11 hours"):
        announce_test(200_000, 1_000_000)


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
