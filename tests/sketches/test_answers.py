"""What a sketch answers and what it does not: one test per sentence of its description."""

import numpy as np
import pytest
from cases import SPHERICAL

import riskalign as ra

N, LIMIT = 3_000, 500
DATA = ra.datasets.temperature(N, 3, t2=0.6, seed=0)


def sketch(notion="classwise", limit=None, rows=slice(None), weights=None):
    p = DATA.y_prob[rows]
    y = DATA.y_true[rows]
    if notion == "binary":
        made = ra.CalibrationSketch(exact_limit=limit)
        return made.update((y == 2) * 1, p[:, 2], sample_weight=weights)
    return ra.CalibrationSketch(notion, 3, exact_limit=limit).update(y, p, sample_weight=weights)


EXACT = {notion: sketch(notion) for notion in ("binary", "top-label", "classwise", "canonical")}
LARGE = {notion: sketch(notion, LIMIT) for notion in EXACT}


def whole(notion, **options):
    y, p = DATA.y_true, DATA.y_prob
    if notion == "binary":
        y, p = (y == 2) * 1, p[:, 2]
    return ra.calibration_error(y, p, notion=notion, progress=False, **options)


def test_the_large_sketches_hold_a_part_of_the_rows():
    assert not any(each.is_exact for each in LARGE.values())
    assert all(each.n_samples == N for each in LARGE.values())


@pytest.mark.parametrize("loss", ["l2", "kl", SPHERICAL], ids=["l2", "kl", "own"])
@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise"])
def test_any_loss_with_a_binary_form(notion, loss):
    options = {"loss": loss, "estimator": "plugin", "bandwidth": 0.02}
    expected = whole(notion, **options).value
    assert EXACT[notion].calibration_error(**options).value == pytest.approx(expected, rel=1e-9)
    assert LARGE[notion].calibration_error(**options).value == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kernel", ["dirichlet", "rbf"])
@pytest.mark.parametrize("estimator", ["plugin", "variational", "cross", "debiased"])
def test_both_kernels_any_bandwidth_every_estimator(kernel, estimator):
    for bandwidth in (0.02, 0.1):
        options = {"kernel": kernel, "estimator": estimator, "bandwidth": bandwidth}
        expected = whole("top-label", **options).value
        got = LARGE["top-label"].calibration_error(**options).value
        assert got == pytest.approx(expected, rel=2e-3, abs=1e-5)


def test_curves():
    for notion in ("binary", "top-label", "classwise"):
        curves = [each[notion].reliability_curve(grid=[0.2, 0.5, 0.8]) for each in (EXACT, LARGE)]
        np.testing.assert_allclose(curves[0].conditional, curves[1].conditional, atol=1e-3)


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise"])
def test_intervals(notion):
    exact, large = (each[notion].calibration_error(confidence=0.9) for each in (EXACT, LARGE))
    assert exact.interval == whole(notion, confidence=0.9).interval
    widths = [result.interval[1] - result.interval[0] for result in (exact, large)]
    assert widths[1] == pytest.approx(widths[0], rel=0.5)  # the noise is shown by other rows
    assert large.interval[0] < exact.value < large.interval[1]


@pytest.mark.parametrize("sketches", [EXACT, LARGE], ids=["exact", "large"])
def test_intervals_per_class(sketches):
    result = sketches["classwise"].calibration_error(confidence=0.95)
    assert result.per_class_interval.shape == (3, 2)
    assert result.per_class_standard_error.shape == (3,)
    low, high = result.per_class_interval.T
    assert (low <= result.per_class).all()
    assert (result.per_class <= high).all()
    truth = np.mean((DATA.conditional - DATA.y_prob) ** 2, axis=0)
    assert ((low < truth) & (truth < high)).all()
    # classes share their labels, so that errors lie between independent and equal ones
    errors = result.per_class_standard_error
    assert 0.8 * np.sqrt(np.sum(errors**2)) < result.standard_error < 1.2 * errors.sum()
    frame = result.to_columns()
    assert frame["low"] == low.tolist()
    assert frame["high"] == high.tolist()
    assert result.to_dict()["per_class_interval"] == result.per_class_interval.tolist()


def test_errors_without_classes_have_no_intervals_per_class():
    result = EXACT["binary"].calibration_error(confidence=0.95)
    assert result.per_class_interval is None
    assert result.to_columns()["low"] == [result.interval[0]]
    plain = EXACT["classwise"].calibration_error()
    assert plain.per_class_interval is None
    assert "low" not in plain.to_columns()


def test_intervals_per_class_hold_the_truth():
    """Of 120 intervals at 90%, 96 or more: with a probability above 0.999 if 90% is true."""
    held = 0
    for seed in range(30):
        data = ra.datasets.temperature(600, 4, t2=0.6, seed=seed)
        result = ra.calibration_error(data.y_true, data.y_prob, confidence=0.9, progress=False)
        truth = np.mean((data.conditional - data.y_prob) ** 2, axis=0)
        low, high = result.per_class_interval.T
        held += int(np.sum((low <= truth) & (truth <= high)))
    assert held >= 96


def test_the_test_of_calibration():
    exact, large = (each["binary"].calibration_test(n_draws=99) for each in (EXACT, LARGE))
    assert exact.p_value == large.p_value == 0.01
    assert exact.n_samples == N


def test_scores_and_overconfidence():
    for each in (EXACT, LARGE):
        scores = each["classwise"].scores
        top = DATA.y_prob.argmax(axis=1)
        right = top == DATA.y_true
        own = DATA.y_prob[np.arange(N), DATA.y_true]
        hot = np.eye(3)[DATA.y_true]
        assert scores["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
        assert scores["log_loss"] == pytest.approx(-np.log(own).mean(), abs=1e-6)
        assert scores["brier"] == pytest.approx(((DATA.y_prob - hot) ** 2).sum(1).mean(), abs=1e-6)
        confidence = DATA.y_prob.max(axis=1)
        bins = np.minimum((confidence * 15).astype(int), 14)
        sums = [np.bincount(bins, v, 15) for v in (confidence, right)]
        assert scores["ece"] == pytest.approx(np.abs(sums[0] - sums[1]).sum() / N, abs=1e-6)
        found = each["classwise"].calibration_error().overconfidence
        gap = confidence - right
        assert found.gap == pytest.approx(gap.mean(), abs=1e-6)
        assert found.gap_error == pytest.approx(gap.std(ddof=1) / np.sqrt(N), rel=1e-3)
        assert found.gap_interval[0] < found.gap < found.gap_interval[1]


def test_a_classwise_sketch_knows_the_top_label():
    expected = whole("top-label").value
    exact, large = (
        each["classwise"].calibration_error(notion="top-label").value for each in (EXACT, LARGE)
    )
    assert exact == pytest.approx(expected, rel=1e-9)
    assert large == pytest.approx(expected, rel=1e-3)


# What it does not answer.


def test_no_estimate_at_rows():
    assert EXACT["classwise"].calibration_error().conditional is None


def test_no_other_methods():
    with pytest.raises(TypeError, match="method"):
        EXACT["binary"].calibration_error(method=ra.EqualWidthBins(15))


def test_no_exact_sums_of_rows_that_it_does_not_hold():
    assert EXACT["binary"].calibration_error(engine="exact").value > 0
    with pytest.raises(ValueError, match="engine='exact'"):
        LARGE["binary"].calibration_error(engine="exact")


def test_canonical_errors_and_tests_report_the_rows_that_they_saw():
    of_some, of_all = (each["canonical"].calibration_error() for each in (LARGE, EXACT))
    held = of_some.n_samples
    assert 0 < held <= LIMIT
    assert of_some.note.startswith(
        f"The error comes from a random sample of {held} of the {N:,} rows;"
    )
    assert of_some.note in " ".join(str(of_some).split())
    assert of_some.note in of_some._repr_html_()
    assert of_all.n_samples == N
    assert of_all.note == LARGE["classwise"].calibration_error().note == ""
    assert 0 < LARGE["classwise"].calibration_test(n_draws=9).n_samples <= LIMIT


# Comparisons.


def test_two_sketches_are_compared_as_independent_samples():
    a, b = (sketch("binary", rows=rows) for rows in (slice(0, 1_200), slice(1_200, None)))
    found = a.compare(b, names=("old", "new"), confidence=0.9)
    errors = [each.calibration_error(confidence=0.9) for each in (a, b)]
    assert found.difference == errors[0].value - errors[1].value
    assert found.standard_error == np.hypot(*(each.standard_error for each in errors))
    assert not found.paired
    assert found.n_samples == (1_200, 1_800)
    assert "unpaired" in str(found)
    assert found.to_dict()["n_samples"] == [1_200, 1_800]
    back = b.compare(a, confidence=0.9)
    assert back.difference == -found.difference
    assert back.p_value == found.p_value
    same = a.compare(a)
    assert same.difference == 0
    assert same.p_value == 1


def test_an_unpaired_comparison_is_wider_than_a_paired_one():
    truth = ra.CalibrationSketch("classwise", 3).update(DATA.y_true, DATA.conditional)
    apart = EXACT["classwise"].compare(truth)
    paired = ra.compare(DATA.y_true, DATA.y_prob, DATA.conditional)
    assert paired.paired
    assert apart.difference == pytest.approx(paired.difference, rel=0.05)
    assert apart.standard_error > 0.9 * paired.standard_error


def test_a_paired_comparison_of_sketches_is_refused():
    with pytest.raises(TypeError, match=r"sketch_a\.compare\(sketch_b\)"):
        ra.compare(DATA.y_true, EXACT["classwise"], EXACT["classwise"])


def test_sketches_of_other_settings_are_not_compared():
    with pytest.raises(ValueError, match="notion and classes"):
        EXACT["classwise"].compare(EXACT["binary"])
    with pytest.raises(TypeError, match=r"riskalign\.compare"):
        EXACT["classwise"].compare(DATA.y_prob)


# Batches.


def test_batches_may_have_weights():
    weights = np.random.default_rng(0).integers(1, 4, N)
    parts = (slice(0, 1_000), slice(1_000, N))
    batches = ((DATA.y_true[rows], DATA.y_prob[rows], weights[rows]) for rows in parts)
    got = ra.calibration_error_of_batches(batches, confidence=0.95)
    expected = whole("classwise", sample_weight=weights, confidence=0.95)
    assert got.value == pytest.approx(expected.value, rel=1e-9)
    assert got.interval == pytest.approx(expected.interval, rel=1e-6)


def test_the_method_of_a_sketch_is_a_kernel_smoother():
    data = ra.datasets.temperature(200, 3, seed=0)
    sketch = ra.CalibrationSketch(classes=3).update(data.y_true, data.y_prob)
    found = sketch.calibration_error(method=ra.KernelSmoother(norm="l1"))
    assert found.value == sketch.calibration_error(norm="l1").value
    with pytest.raises(TypeError, match=r"KernelSmoother; found EqualWidthBins.* all rows"):
        sketch.calibration_error(method=ra.EqualWidthBins(15))
    with pytest.raises(ValueError, match="cannot be combined with norm"):
        sketch.calibration_error(method=ra.KernelSmoother(), norm="l1")


def test_a_sketch_selects_the_bandwidth_of_its_top_label():
    data = ra.datasets.temperature(200, 3, seed=0)
    sketch = ra.CalibrationSketch(classes=3).update(data.y_true, data.y_prob)
    options = {"notion": "top-label", "candidates": [0.01, 0.1]}
    found = sketch.select_bandwidth(**options)
    expected = ra.select_bandwidth(data.y_true, data.y_prob, **options)
    np.testing.assert_allclose(found.objective, expected.objective)
    with pytest.raises(ValueError, match="cannot be asked of a 'classwise' sketch"):
        sketch.select_bandwidth(notion="canonical")
