"""Results: what is printed, what becomes JSON, and that nobody changes them."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from cases import LOSSES, NOTIONS, ordinary

import riskalign as ra
from riskalign.compose import binary_summary
from riskalign.data.validation import as_sample
from riskalign.options import make_case

CASE = ordinary(60, 3, seed=2)
PAIR = ordinary(60, 2, seed=2)


def result(notion="classwise", **options):
    case = PAIR if notion == "binary" else CASE
    options = {"bandwidth": 0.05, "estimator": "plugin"} | options
    return ra.calibration_error(case.y, case.f, notion=notion, **options)


VARIANTS = [
    {"notion": notion, "loss": loss, "bandwidth": bandwidth, "candidates": [1e-3, 0.05]}
    for notion in NOTIONS
    for loss in LOSSES
    for bandwidth in (0.05, "risk-alignment", "likelihood", "cross-validation")
]


LOSS_WORDS = {"l2": "squared error", "kl": "log loss", "ranked": "ranked probability score"}


def made(variant):
    return result(**variant | {"loss": LOSSES[variant["loss"]]})


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: " ".join(map(str, v.values())))
def test_print_is_narrow_and_holds_the_definition(variant):
    found = made(variant)
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 100
    *_, line = (line for line in lines if line.startswith("  calibration error"))
    assert f"{found.value:.6f}" in line
    assert found.definition in line
    assert found.notion.replace("classwise", "class-wise") in lines[0].lower()
    assert LOSS_WORDS.get(found.loss, found.loss) in lines[0]
    for number in (found.risk, found.refinement, found.reconstructed_risk):
        assert f"{number:.6f}" in str(found)


@pytest.mark.parametrize(
    ("notion", "loss", "definition"),
    [
        ("binary", "l2", "mean (R - f)^2"),
        ("top-label", "l2", "mean (R - f)^2"),
        ("classwise", "l2", "sum over classes of mean (R - f)^2"),
        ("canonical", "l2", "mean |R - f|^2"),
        ("binary", "kl", "mean KL(R || f)"),
        ("classwise", "kl", "sum over classes of mean KL(R || f)"),
        ("canonical", "ranked", "mean sum_m (cum R_m - cum f_m)^2"),
        ("classwise", "ranked", "sum over classes of mean (R - f)^2"),
        ("canonical", "spherical", "mean <R, l(f) - l(R)>"),
    ],
)
def test_definitions(notion, loss, definition):
    assert result(notion, loss=LOSSES[loss]).definition == definition


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: " ".join(map(str, v.values())))
def test_a_result_becomes_json(variant):
    found = made(variant)
    text = json.dumps(found.to_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["value"] == found.value
    assert back["root"] == found.root
    assert back["risk"] == found.risk
    assert back["refinement"] == found.refinement
    assert back["reconstructed_risk"] == found.reconstructed_risk
    assert back["bandwidth"] == np.asarray(found.bandwidth).tolist()
    assert back["overconfidence"]["top_label"] == found.overconfidence.top_label
    assert back["overconfidence"]["gap"] == found.overconfidence.gap
    assert back["overconfidence"]["gap_interval"] == list(found.overconfidence.gap_interval)
    assert back["direction"] == found.direction
    assert back["overconfidence"]["per_class"] == found.overconfidence.per_class.tolist()
    assert (back["notion"], back["loss"]) == (found.notion, found.loss)
    assert (back["estimator"], back["kernel"]) == ("plugin", "dirichlet")
    assert back["definition"] == found.definition
    assert back["n_samples"] == 60
    assert back["classes"] == list(found.classes)
    if found.notion == "classwise":
        assert back["per_class"] == found.per_class.tolist()
    else:
        assert back["per_class"] is None
    if found.search is None:
        assert back["search"] is None
    else:
        assert back["search"]["criterion"] == variant["bandwidth"]
        assert back["search"]["value"] == back["bandwidth"]
        assert back["search"]["at_edge"] == np.asarray(found.search.at_edge).tolist()


def test_names_that_are_no_strings_become_json():
    found = ra.calibration_error(
        CASE.y, CASE.f, classes=np.arange(3), bandwidth=0.1, estimator="plugin"
    )
    assert json.loads(json.dumps(found.to_dict()))["classes"] == ["0", "1", "2"]


def test_the_root():
    for notion in ("binary", "top-label", "canonical"):
        found = result(notion)
        assert found.root == math.sqrt(found.value)
        assert dataclasses.replace(found, value=-1e-4).root == 0


def test_the_root_of_classwise_errors_is_that_of_their_mean():
    found = result("classwise")
    assert found.root == pytest.approx(math.sqrt(found.value / 3))
    assert dataclasses.replace(found, per_class=-found.per_class).root == 0
    (line,) = (line for line in str(found).splitlines() if "typical gap, per class" in line)
    assert f"{100 * found.root:.1f} pts" in line
    # The same gap in every class is typical, however many classes there are.
    n = 4_000
    for n_classes in (4, 8):
        f = np.full((n, n_classes), 1.0 / n_classes)
        f[:, ::2] += 0.05
        f[:, 1::2] -= 0.05
        y = np.arange(n) % n_classes  # every class is as frequent
        gap = ra.calibration_error(y, f, bandwidth=0.05).root
        assert gap == pytest.approx(0.05, rel=0.02)


def test_the_root_is_printed_for_l2_alone():
    assert f"{100 * result(loss='l2').root:.1f} pts" in str(result(loss="l2"))
    assert "typical" in str(result(loss="l2"))
    assert "typical gap" not in str(result(loss="kl"))


@pytest.mark.parametrize("notion", NOTIONS)
def test_results_are_frozen(notion):
    found = result(notion)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.value = 0.0


def test_the_edge_is_printed():
    at_edge = result("canonical", bandwidth="likelihood", candidates=[0.8, 0.9])
    assert at_edge.search.at_edge
    assert "at the edge of the range that was" in str(at_edge)
    inside = result("canonical", bandwidth="risk-alignment", candidates=[1e-3, 0.05, 1.0])
    assert not inside.search.at_edge
    assert "edge" not in str(inside)
    assert "risk-alignment" in str(inside)
    assert "given" in str(result())


def test_the_edge_of_some_classes_is_counted():
    found = result("classwise", bandwidth="likelihood", candidates=[0.19, 0.2])
    count = int(np.count_nonzero(found.search.at_edge))
    assert count > 0
    text = " ".join(str(found).split())
    assert f"at the edge of the range that was searched for {count} of 3 classes" in text


def test_the_worst_classes_are_listed():
    case = ordinary(80, 12, seed=1)
    names = [f"class {k}" for k in range(12)]
    found = ra.calibration_error(
        np.array(names)[case.y], case.f, classes=names, bandwidth=0.05, estimator="plugin"
    )
    text = str(found)
    worst = found.evidence.order(found.per_class)
    listed = [text.find(f"{names[k]} ") for k in worst[:5]]
    assert min(listed) > 0
    assert listed == sorted(listed)
    assert all(f"{names[k]} " not in text for k in worst[5:])
    assert "7 more classes" in text


def test_long_names_stay_within_the_width():
    names = ["a name " * 30 + str(k) for k in range(3)]
    found = ra.calibration_error(
        CASE.y, CASE.f, bandwidth=0.05, estimator="plugin", classes=range(3)
    )
    found = dataclasses.replace(found, classes=tuple(names))
    assert max(map(len, str(found).splitlines())) <= 100
    assert "a name a name" in str(found)


def test_overconfidence_is_told_in_words():
    sharp = ra.datasets.temperature(2000, 3, t2=0.5, seed=0)
    soft = ra.datasets.temperature(2000, 3, t2=2.0, seed=0)
    options = {"notion": "canonical", "bandwidth": 0.05, "estimator": "plugin"}
    over = ra.calibration_error(sharp.y_true, sharp.y_prob, **options)
    under = ra.calibration_error(soft.y_true, soft.y_prob, **options)
    assert over.overconfidence.top_label > 0.02
    assert "over-confident" in str(over)
    assert under.overconfidence.top_label < -0.02
    assert "under-confident" in str(under)


def test_a_direction_is_named_only_if_the_interval_excludes_0():
    """Rows of confidence 0.7, of which some are right."""
    options = {"notion": "top-label", "bandwidth": 0.1, "estimator": "plugin"}
    for right, n, expected in (
        (13, 20, "no clear direction"),
        (14, 20, "no clear direction"),
        (16, 20, "no clear direction"),
        (6, 20, "over-confident"),
        (20, 20, "under-confident"),
        (1300, 2000, "over-confident"),
        (1500, 2000, "under-confident"),
    ):
        y = (np.arange(n) >= right).astype(int)
        found = ra.calibration_error(y, np.tile([0.7, 0.3], (n, 1)), **options)
        assert found.overconfidence.gap == pytest.approx(0.7 - right / n)
        assert found.direction == expected
        (line,) = (line for line in str(found).splitlines() if "confidence - accuracy" in line)
        assert line.endswith(f" {expected}")
        assert ("-confident" in str(found)) == (expected != "no clear direction")


def test_a_few_rows_that_are_all_right_are_not_called_under_confident():
    """By chance, 20 rows of confidence 0.95 are all right once in three times."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.92, 0.98, 20)
    options = {"notion": "top-label", "bandwidth": 0.1, "estimator": "plugin"}
    f = np.stack([confidence, 1 - confidence], axis=1)
    found = ra.calibration_error(np.zeros(20, int), f, **options)
    assert found.overconfidence.gap < -0.02
    assert found.direction == "no clear direction"


def test_directions_of_calibrated_models_are_named_rarely():
    """At 95%, at most 16 of 200 (once in 100 if exact)."""
    options = {"notion": "top-label", "bandwidth": 0.1, "estimator": "plugin"}
    named = 0
    for seed in range(200):
        data = ra.datasets.calibrated(50, 3, seed=seed)
        found = ra.calibration_error(data.y_true, data.y_prob, **options)
        named += found.direction != "no clear direction"
    assert 2 <= named <= 17


def fraud(n, seed=0, factor=1.7):
    """A rare class, whose probability is some times too high."""
    rng = np.random.default_rng(seed)
    f = rng.beta(0.1, 25, n)
    return (rng.random(n) < f / factor).astype(int), f


def test_one_probability_that_is_too_high():
    y, f = fraud(40_000)
    found = ra.calibration_error(y, f, bandwidth=0.1)
    binary = found.binary
    assert binary.mean_prediction == pytest.approx(f.mean())
    assert binary.frequency == pytest.approx(y.mean())
    assert binary.ratio == pytest.approx(f.mean() / y.mean())
    assert 1 < binary.ratio_interval[0] < 1.7 < binary.ratio_interval[1]
    assert found.direction == "too high"
    text = str(found)
    assert f" {binary.ratio:.1f} times too high" in text
    assert "confident" not in text
    for number in (binary.ratio, binary.slope, binary.intercept):
        assert f"{number:.2f}" in text
    for share in (binary.mean_prediction, binary.frequency):
        assert f"{100 * share:.2f}%" in text
    assert max(map(len, text.splitlines())) <= 100
    flipped = ra.calibration_error(y, f / 1.7**2, bandwidth=0.1)
    assert flipped.direction == "too low"
    assert re.search(r" 1\.[5-9] times too low$", str(flipped), re.MULTILINE)
    few = ra.calibration_error(*fraud(300), bandwidth=0.1)
    assert few.direction == few.binary.direction == "no clear direction"


def test_slope_and_intercept_are_those_of_logistic_regression():
    data = ra.datasets.temperature(4_000, 2, t2=0.5, seed=0)
    y, f = data.y_true, data.y_prob[:, 1]
    binary = ra.calibration_error(y, f, bandwidth=0.1, confidence=0.9).binary
    odds = np.log(f / (1 - f))
    slope, intercept = binary.slope, binary.intercept
    p = 1 / (1 + np.exp(-(intercept + slope * odds)))
    X = np.stack([odds, np.ones(len(y))], axis=1)
    information = X.T @ (X * (p * (1 - p))[:, None])
    step = np.linalg.solve(information, X.T @ (y - p))  # to the maximum of the likelihood
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert (np.abs(step) < 0.01 * errors).all()  # but for a weak prior
    expected = [slope - 1.6449 * errors[0], slope + 1.6449 * errors[0]]
    np.testing.assert_allclose(binary.slope_interval, expected, rtol=1e-3)
    assert (binary.intercept_interval[1] - intercept) == pytest.approx(1.6449 * errors[1], rel=1e-3)
    assert binary.slope_interval[1] < 1  # over-confident
    assert binary.confidence == 0.9


@pytest.mark.parametrize("mean", [0.01, 0.2, 0.9])
def test_intervals_of_one_probability_cover(mean):
    """Of 200 data sets, each interval misses at most 20 (once in 900 if it is exact)."""
    rng = np.random.default_rng(0)
    missed = np.zeros(3)
    for _ in range(200):
        odds = rng.normal(np.log(mean / (1 - mean)), 1.5, 400)
        y = (rng.random(400) < 1 / (1 + np.exp(-odds))).astype(int)
        f = 1 / (1 + np.exp(-2 * odds - 0.4))  # R has slope 1/2 and intercept -0.2
        weights = rng.uniform(0.5, 1.5, 400)
        sample = as_sample(y, f, sample_weight=weights)
        binary = binary_summary(make_case(sample, "binary", "l2"), 0.95)
        ratio = weights @ f / (weights @ (1 / (1 + np.exp(-odds))))  # of these predictions
        truths = ((binary.ratio_interval, ratio), (binary.slope_interval, 0.5),
                  (binary.intercept_interval, -0.2))  # fmt: skip
        missed += [not low <= truth <= high for (low, high), truth in truths]
    assert (missed <= 20).all()


def test_one_probability_does_not_depend_on_the_scale_of_weights():
    data = ra.datasets.temperature(400, 2, seed=0)
    y, f = data.y_true, data.y_prob[:, 1]
    weights = np.random.default_rng(1).exponential(size=400)
    found = [
        ra.calibration_error(y, f, bandwidth=0.1, sample_weight=scale * weights).binary.to_dict()
        for scale in (1.0, 1e6)
    ]
    for name, value in found[0].items():
        assert found[1][name] == pytest.approx(value, rel=1e-6)
    twice = ra.calibration_error(
        np.repeat(y, 2), np.repeat(f, 2), bandwidth=0.1, sample_weight=np.repeat(weights, 2)
    ).binary
    assert twice.ratio == pytest.approx(found[0]["ratio"])
    widths = [high - low for low, high in (twice.slope_interval, found[0]["slope_interval"])]
    assert widths[0] == pytest.approx(widths[1] / 2**0.5, rel=0.01)


@pytest.mark.parametrize(
    ("y", "f", "ratio", "direction"),
    [
        ([0] * 30, [0.2] * 30, None, "at least 2.0 times too high"),
        ([0] * 30, [0.01] * 30, None, "no clear direction"),
        ([0] * 20, [0.0] * 20, None, "no clear direction"),
        ([0, 1] * 10, [0.0] * 20, 0.0, "too low"),
        ([0, 1] * 10, [0.0, 1.0] * 10, 1.0, "no clear direction"),
        ([1] * 4, [1.0] * 4, 1.0, "no clear direction"),
    ],
)
def test_classes_that_never_or_always_occur(y, f, ratio, direction):
    found = ra.calibration_error(y, f, bandwidth=0.1)
    assert found.binary.direction == direction
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["binary"]["ratio"] == ratio
    assert str(found)


def test_the_gap_has_the_confidence_that_is_asked_for():
    found = [
        ra.calibration_error(CASE.y, CASE.f, confidence=confidence).overconfidence
        for confidence in (0.5, 0.95)
    ]
    widths = [each.gap_interval[1] - each.gap_interval[0] for each in found]
    assert widths[0] < widths[1] / 2


def test_the_repr_is_one_line():
    for found in (result(), result(loss="kl"), result(confidence=0.9, estimator="debiased")):
        text = repr(found)
        assert text.startswith("<CalibrationResult: classwise")
        assert "\n" not in text
        assert len(text) < 120


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_notebooks_show_a_table_and_a_picture(notion, loss):
    found = result(notion, loss=LOSSES[loss])
    page = found._repr_html_()
    assert page.count("<svg") == 1
    assert f"{found.value:.6f}".replace("-", "\u2212") in page
    assert "<script" not in page


def test_notebooks_show_other_answers():
    options = {"bandwidth": 0.05}
    test = ra.calibration_test(CASE.y, CASE.f, n_draws=19)
    difference = ra.compare(CASE.y, CASE.f, CASE.f[:, ::-1], names=("<a>", "b"))
    search = ra.select_bandwidth(CASE.y, CASE.f, candidates=[0.01, 0.1])
    sketch = ra.CalibrationSketch(classes=3).update(CASE.y, CASE.f)
    curve = ra.reliability_curve(CASE.y, CASE.f, **options)
    points = ra.reliability_curve(CASE.y, CASE.f, notion="canonical", grid=CASE.f[:4], **options)
    for found in (result(**options), test, difference, search, sketch, curve, points):
        assert "\n" not in repr(found)
        assert len(repr(found)) < 160
        page = found._repr_html_()
        assert page.count("<svg") == 1
        assert "<a>" not in page
        assert max(map(len, str(found).splitlines())) <= 100


def test_other_objects_are_told_in_a_line():
    data = ra.datasets.temperature(300, 2, t2=0.5, seed=0)
    display = ra.plots.ReliabilityDisplay.from_predictions(data.y_true, data.y_prob, bins=15)
    assert repr(display) == (
        "<ReliabilityDisplay: predicted probability of class 1, 95% band, pointwise, n=300>"
    )
    assert repr(display.bins).endswith("groups of rows, 15 bins of equal width>")
    assert repr(data) == "<SyntheticData: n=300, 2 classes>"
    (gain,) = ra.recalibration_gains(data.y_true, data.y_prob, methods=["temperature"])
    assert "\n" not in repr(gain)
    assert "temperature scaling" in gain._repr_html_()
    assert "300 rows, cross-fitted" in gain._repr_html_()


def test_a_negative_error_is_shown_as_0():
    found = result(confidence=0.95, estimator="debiased")
    found = dataclasses.replace(found, value=-0.02, per_class=-np.ones(3), interval=(0.0, 0.03))
    assert "0 pts  0 to 10.0 pts" in str(found)
    assert "-0.02" not in str(found) + repr(found) + found._repr_html_()
    assert found.to_dict()["value"] == -0.02


def test_predictions_far_below_the_frequency_have_an_interval():
    p = np.full(6, 1e-200)
    result = ra.calibration_error([0, 1, 0, 1, 1, 0], p, confidence=0.95)
    assert np.isfinite(result.interval).all()
    low, high = result.binary.ratio_interval
    assert 0 < low < high


def test_classes_have_intervals():
    """They are those of the classes asked alone; of a binary error its own."""
    data = ra.datasets.temperature(600, 3, t2=0.4, seed=0)
    whole = ra.calibration_error(data.y_true, data.y_prob, confidence=0.9)
    alone = ra.calibration_error(
        (data.y_true == 1).astype(int), data.y_prob[:, 1], notion="binary", confidence=0.9
    )
    low, high = whole.per_class_interval[1]
    assert whole.per_class[1] == pytest.approx(alone.value, rel=0.01)
    widths = (high - low, alone.interval[1] - alone.interval[0])
    assert widths[0] == pytest.approx(widths[1], rel=0.25)  # other labels are drawn
    assert low < whole.per_class[1] < high
    assert alone.per_class_interval is None
    assert ra.calibration_error(data.y_true, data.y_prob).per_class_interval is None


def test_a_direction_is_not_contradicted_by_the_sentence_about_the_error():
    data = ra.datasets.temperature(120, 3, t2=0.75, seed=3)
    result = ra.calibration_error(data.y_true, data.y_prob, notion="top-label", confidence=0.95)
    assert result.direction == "over-confident"
    assert not result.verdict().significant
    assert result.sentence().startswith("Beyond the averages, we found no evidence")


def test_one_line_names_the_norm_and_one_bandwidth():
    data = ra.datasets.temperature(200, 2, seed=0)
    bins = ra.EqualWidthBins(15, norm="l1")
    assert "binary, l1 norm, " in repr(ra.calibration_error(data.y_true, data.y_prob, method=bins))
    curve = ra.reliability_curve(data.y_true, data.y_prob, bandwidth=0.1)
    assert repr(curve).endswith("1 curve, bandwidth 0.1>")


@pytest.mark.parametrize(
    ("mean", "ends", "expected"),
    [
        (1.74, (1.5, 2.1), ("1.7", "1.5", "2.1")),
        (0.4976, (0.4925, 0.5025), ("2.01", "1.99", "2.03")),  # the ends differ
        (1.247, (1.193, 1.304), ("1.25", "1.19", "1.30")),  # the ratio is not its lower end
        (np.inf, (2122.1, np.inf), ("inf", "2,122", "inf")),
        (1.01, (0.99, 1.03), ("1.01", "0.99", "1.03")),
    ],
)
def test_digits_of_a_factor(mean, ends, expected):
    data = ra.datasets.calibrated(50, 2, seed=0)
    found = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95).binary
    assert dataclasses.replace(found, ratio=mean, ratio_interval=ends).factor() == expected


def test_intervals_have_a_head_and_norms_their_names():
    data = ra.datasets.temperature(400, 3, t2=0.6, seed=0)
    options = {"notion": "top-label", "confidence": 0.9}
    found = ra.calibration_error(data.y_true, data.y_prob, **options)
    assert re.search(r"^ +90% CI$", str(found), re.MULTILINE)
    assert "<td>90% CI</td>" in found._repr_html_()
    mean = ra.calibration_error(data.y_true, data.y_prob, norm="l1", **options)
    assert "the mean gap between predicted and true probability is" in mean.sentence()
    largest = ra.calibration_error(
        data.y_true, data.y_prob, notion="top-label", method=ra.EqualWidthBins(15, norm="max")
    )
    assert largest.sentence().startswith("The largest gap between")


def test_no_part_of_the_risk_is_drawn_for_norms_and_statistics():
    data = ra.datasets.temperature(400, 3, t2=0.6, seed=0)
    for method in (ra.EqualWidthBins(15, norm="l1"), ra.Spiegelhalter()):
        found = ra.calibration_error(data.y_true, data.y_prob, notion="top-label", method=method)
        assert "<svg" not in found._repr_html_()
    assert "calibration error" not in str(found)  # of a statistic
    assert repr(found).startswith("<CalibrationResult: top-label, spiegelhalter, value=")


def test_small_curves_are_dotted_where_few_rows_lie():
    data = ra.datasets.temperature(20, 2, seed=0)
    found = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95)
    assert found._repr_html_().count('stroke-dasharray="0.1 4"') == found._repr_html_().count(
        "<polyline"
    )


def test_a_class_that_is_never_predicted_nor_occurs_has_no_ratio():
    found = ra.calibration_error([0] * 10, [0.0] * 10, confidence=0.95)
    assert re.search(r"^  predicted / observed +- +no clear direction$", str(found), re.MULTILINE)
