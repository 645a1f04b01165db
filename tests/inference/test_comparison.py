"""Comparisons of two models: seeded, with stated error rates."""

import re

import numpy as np
import pytest
from experiments.comparing import pair_of

import riskalign as ra
from riskalign import testing


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_a_model_does_not_differ_from_its_copy(notion, loss):
    data = ra.datasets.peaked(300, 3, seed=0)
    diff = ra.compare(data.y_true, data.y_prob, data.y_prob.copy(), notion=notion, loss=loss)
    assert (diff.difference, diff.p_value, diff.interval) == (0.0, 1.0, (0.0, 0.0))


@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize(("n", "told"), [(4, False), (8, True), (1200, True)])
def test_a_difference_that_all_rows_share(n, told, loss):
    """Its standard error would be 0; the p-value is that of a sign test, 2^(1 - n)."""
    y = np.arange(n) % 2
    right, wrong = np.where(y == 1, 0.99, 0.01), np.where(y == 1, 0.01, 0.99)
    for first, second in ((right, wrong), (y, 1 - y)):
        diff = ra.compare(y, first, second, loss=loss)
        assert diff.difference < -0.5
        assert 0 < diff.standard_error < np.inf
        assert diff.p_value == pytest.approx(2.0 ** (1 - n), rel=1e-6)
        assert (diff.interval[1] < 0) == told


@pytest.mark.parametrize("notion", ["binary", "canonical"])
def test_few_rows_prove_no_more_than_that_all_agree(notion):
    y, p = np.ones(24, dtype=int), np.full(24, 0.66)
    diff = ra.compare(y, p, 0.7 * p + 0.15, notion=notion)
    assert diff.p_value >= 2.0 ** (1 - 24) * (1 - 1e-6)


def test_pairs_are_told_apart_better_than_separate_intervals_would():
    data = ra.datasets.temperature(1500, 4, t2=0.7, seed=1)
    sharper = data.y_prob**1.1
    sharper /= sharper.sum(axis=1, keepdims=True)
    diff = ra.compare(data.y_true, data.y_prob, sharper, names=("model", "sharper"))
    separate = [
        ra.calibration_error(data.y_true, f, estimator="debiased", confidence=0.95).standard_error
        for f in (data.y_prob, sharper)
    ]
    assert diff.standard_error < 0.6 * np.hypot(*separate)
    assert diff.interval[1] < 0
    assert "sharper" in str(diff)
    swapped = ra.compare(data.y_true, sharper, data.y_prob)
    assert swapped.difference == -diff.difference
    assert swapped.p_value == pytest.approx(diff.p_value)


def test_calibrated_models_are_told_apart_as_often_as_said():
    """Of 60 pairs at 5%, at most 8; at 20%, 5 to 20: each once in 300 or less if exact."""
    p = []
    for seed in range(60):
        y, first, second = pair_of(300, 2, 0.0, (1.0, 1.0), seed)
        p.append(ra.compare(y, first, second, notion="binary", engine="grid").p_value)
    assert np.sum(np.array(p) <= 0.05) <= 8
    assert 5 <= np.sum(np.array(p) <= 0.2) <= 20


def test_comparisons_need_the_same_samples():
    data = ra.datasets.calibrated(20, 3)
    with pytest.raises(ValueError, match="must have one shape"):
        ra.compare(data.y_true, data.y_prob, np.full((20, 4), 0.25))


def test_intervals_stay_within_what_two_errors_can_differ_by():
    y = [0, 1, 0, 1]
    found = ra.compare(y, [0.0, 1, 0, 1], [1.0, 0, 1, 0])
    assert found.interval[0] == -1.0
    assert found.difference == pytest.approx(-1.0, abs=1e-3)
    assert 0 < found.interval[1] <= 1.0


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0.0, 0.0), (0.0, 0.0), 0.0),
        ((0.3, 0.1), (0.3, 0.1), 0.0),  # in doubt alike: the difference is the same in all cases
        ((0.3, 0.1), (0.0, 0.0), 0.1),  # the difference may be 0.3 less or 0.1 more
        ((0.0, 0.0), (0.3, 0.1), 0.1),
        ((0.3, 0.1), (0.1, 0.3), 0.05),  # 0.2 less in both cases
    ],
)
def test_a_difference_in_doubt_has_a_larger_error(first, second, expected, monkeypatch):
    given = iter([first, second])
    data = ra.datasets.temperature(200, 2, t2=0.7, seed=0)
    plain = ra.compare(data.y_true, data.y_prob, data.conditional)
    monkeypatch.setattr(testing, "doubts_of", lambda estimates: next(given))
    found = ra.compare(data.y_true, data.y_prob, data.conditional)
    assert found.difference == plain.difference
    assert found.standard_error == pytest.approx(np.hypot(plain.standard_error, expected))


def shown(**changed):
    """A comparison with given numbers."""
    given = {"difference": 1.05e-5, "standard_error": 1e-5, "interval": (-1e-5, 3e-5)}
    given |= {"confidence": 0.95, "p_value": 0.3, "values": (9.21e-6, -1.29e-6)}
    given |= {"names": ("A", "B"), "notion": "binary", "loss": "l2", "n_samples": 100}
    return ra.Comparison(**given | changed)


def test_an_estimate_below_0_has_a_footnote():
    found = shown()
    said = (
        "An estimate below 0 is shown as 0, but counts in the difference: that of B is -1.29e-06."
    )
    assert found.note == said
    assert said in " ".join(str(found).split())
    assert said in found._repr_html_()
    assert "that of A is -2.00e-06 and that of B is -1.00e-06." in shown(values=(-2e-6, -1e-6)).note
    plain = shown(values=(9.21e-6, 0.0))
    assert plain.note == ""
    assert "below 0" not in str(plain) + plain._repr_html_()


def test_class_wise_comparisons_show_the_typical_gap_of_a_class():
    data = ra.datasets.temperature(400, 3, t2=0.5, seed=0)
    found = ra.compare(data.y_true, data.y_prob, data.conditional)
    assert found.to_dict()["n_classes"] == 3
    gap = (found.values[0] / 3) ** 0.5
    result = ra.calibration_error(data.y_true, data.y_prob)
    assert gap == pytest.approx(result.gap, rel=1e-6)
    assert f"typical gap {100 * gap:.1f} pts per class" in str(found)
    sketches = [
        ra.CalibrationSketch(classes=3).update(data.y_true, p)
        for p in (data.y_prob, data.conditional)
    ]
    assert " pts per class" in str(sketches[0].compare(sketches[1]))


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"values": (0.0004, 0.0)}, "typical gap 2.0 pts"),
        ({"values": (0.0012, 0.0), "notion": "classwise"}, ""),  # of how many classes?
        (
            {"values": (0.0012, 0.0), "notion": "classwise", "n_classes": 3},
            "typical gap 2.0 pts per class",
        ),
        ({"values": (0.0004, 0.0), "notion": "canonical", "n_classes": 3}, "typical gap 2.0 pts"),
        ({"loss": "kl"}, ""),
    ],
)
def test_typical_gaps_beside_errors(options, note):
    assert shown(**options).rows[0].note == note


def test_the_columns_have_names():
    found = shown(confidence=0.9)
    assert re.search(r"^ +error  90% CI$", str(found), re.MULTILINE)
    assert "<td>error</td><td>90% CI</td>" in found._repr_html_()


def sketch_of(y, p):
    return ra.CalibrationSketch("binary").update(y, np.asarray(p, float))


@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_sketches_of_perfect_models_do_not_differ(loss):
    y, other = np.arange(500) % 2, np.arange(300) % 2
    found = sketch_of(y, y).compare(sketch_of(other, other), loss=loss)
    assert found.p_value == 1.0
    assert found.interval[0] <= 0 <= found.interval[1]


@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_sketches_of_two_rows_prove_nothing(loss):
    wrong, right = (sketch_of([0, 1], p).compare for p in ([1, 0], [0, 1]))
    found = wrong(sketch_of([0, 1], [0, 1]), loss=loss)
    assert found.p_value == pytest.approx(0.5)
    assert found.interval[0] < 0 < found.difference <= found.interval[1]
    assert found.interval[1] <= (1.0 if loss == "l2" else -np.log(1e-9) + 1)
    assert right(sketch_of([0, 1], [1, 0]), loss=loss).difference == -found.difference


def test_unpaired_intervals_are_those_of_both_errors():
    """Ends as far from the difference as those of the two intervals, by root sums of squares."""
    first = ra.datasets.temperature(2000, 2, t2=0.6, seed=1)
    second = ra.datasets.class_bias(1500, 2, seed=2)
    sketches = [sketch_of(data.y_true, data.y_prob[:, 1]) for data in (first, second)]
    a, b = (each.calibration_error(confidence=0.9) for each in sketches)
    found = sketches[0].compare(sketches[1], confidence=0.9)
    low = a.value - b.value - np.hypot(a.value - a.interval[0], b.interval[1] - b.value)
    high = a.value - b.value + np.hypot(a.interval[1] - a.value, b.value - b.interval[0])
    assert found.interval == pytest.approx((low, high))
    assert (found.p_value < 0.1) == (low > 0 or high < 0)


def test_rows_of_hardly_any_weight_prove_nothing():
    """Two rows decide, and 298 rows of the weight 1e-11 do not make the difference certain."""
    rng = np.random.default_rng(0)
    y, weights = rng.integers(0, 2, 300), np.full(300, 1e-11)
    first, second = np.full(300, 0.5), np.full(300, 0.5)
    y[:2], weights[:2], first[:2], second[:2] = [0, 1], 1, [0.9, 0.1], [0.1, 0.9]
    found = ra.compare(y, first, second, sample_weight=weights)
    assert found.p_value == pytest.approx(0.5, abs=0.01)
    assert found.interval[0] < 0 < found.difference <= found.interval[1]
