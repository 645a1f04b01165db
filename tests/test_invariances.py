"""What no answer may depend on: the order of rows, the scale of weights, types and containers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import NOTIONS, ordinary

import riskalign as ra
from riskalign.data import state as states

CASES = {2: ordinary(150, 2, seed=7), 3: ordinary(150, 3, seed=8)}
TIED = {
    K: type(case)(case.y, np.round(case.f * 8 + 0.2) / np.round(case.f * 8 + 0.2).sum(1)[:, None])
    for K, case in CASES.items()
}


def case_of(notion, cases=CASES):
    return cases[2 if notion == "binary" else 3]


def answers(y, f, notion, weights=None, **options):
    """Value, interval and verdict."""
    options = {"notion": notion, "sample_weight": weights, **options}
    error = ra.calibration_error(y, f, confidence=0.95, **options)
    test = ra.calibration_test(y, f, notion=notion, sample_weight=weights, n_draws=99)
    return [
        error.value,
        *error.interval,
        error.standard_error,
        error.risk,
        error.overconfidence.top_label,
        test.p_value,
        *test.parts.values(),
    ]


@pytest.mark.parametrize("cases", [CASES, TIED], ids=["distinct", "tied"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_order_of_rows(notion, loss, weighted, cases):
    case = case_of(notion, cases)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, len(case.y)) if weighted else None
    expected = answers(case.y, case.f, notion, weights, loss=loss)
    for order in (np.arange(len(case.y))[::-1], rng.permutation(len(case.y))):
        own = None if weights is None else weights[order]
        found = answers(case.y[order], case.f[order], notion, own, loss=loss)
        if weighted:
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        else:
            assert found == expected


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_the_order_of_classes(notion, loss, weighted):
    """Labels are drawn by rank, so that intervals and tests do not see the order of columns."""
    case = ordinary(150, 4, seed=9)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(case.y)) if weighted else None
    expected = answers(case.y, case.f, notion, weights, loss=loss)
    for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
        labels = np.argsort(order)[case.y]
        found = answers(labels, case.f[:, order], notion, weights, loss=loss)
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("notion", NOTIONS)
def test_rows_of_R_follow_the_rows(notion):
    case = case_of(notion, TIED)
    weights = np.random.default_rng(1).integers(0, 3, len(case.y))
    order = np.random.default_rng(2).permutation(len(case.y))
    for estimator in ("debiased", "plugin"):
        whole = ra.calibration_error(
            case.y, case.f, notion=notion, sample_weight=weights, estimator=estimator
        )
        moved = ra.calibration_error(
            case.y[order],
            case.f[order],
            notion=notion,
            sample_weight=weights[order],
            estimator=estimator,
        )
        np.testing.assert_allclose(moved.conditional, whole.conditional[order], rtol=1e-9)


@pytest.mark.parametrize("notion", NOTIONS)
def test_the_order_of_rows_of_comparisons(notion):
    case = case_of(notion)
    other = 0.8 * case.f + 0.2 / case.n_classes
    order = np.random.default_rng(3).permutation(len(case.y))
    one = ra.compare(case.y, case.f, other, notion=notion)
    two = ra.compare(case.y[order], case.f[order], other[order], notion=notion)
    assert (one.difference, one.p_value) == pytest.approx((two.difference, two.p_value), rel=1e-9)
    assert one.interval == pytest.approx(two.interval, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 3.0, 1e160, 1e307])
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_scale_of_weights(notion, scale):
    case = case_of(notion)
    weights = np.random.default_rng(0).uniform(0.2, 1, len(case.y))
    expected = answers(case.y, case.f, notion, weights)
    found = answers(case.y, case.f, notion, scale * weights)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    others = [
        ra.compare(case.y, case.f, case.f[:, ::-1], notion=notion, sample_weight=own)
        for own in (weights, scale * weights)
    ]
    assert others[1].interval == pytest.approx(others[0].interval, rel=1e-9)
    sketches = [
        ra.CalibrationSketch(notion, case.n_classes).update(case.y, case.f, sample_weight=own)
        for own in (weights, scale * weights)
    ]
    for sketch in sketches:
        result = sketch.calibration_error(confidence=0.95)
        assert [result.value, *result.interval] == pytest.approx(expected[:3], rel=1e-9, abs=1e-12)
    if scale < 1e300:  # sums of w themselves overflow
        assert sketches[1].scores == pytest.approx(sketches[0].scores, rel=1e-9)


@pytest.mark.parametrize(
    "method",
    [ra.EqualWidthBins(10), ra.EqualMassBins(10), ra.KernelRidge(), ra.SmoothECE()],
    ids=lambda method: type(method).__name__,
)
def test_the_order_of_rows_of_other_methods(method):
    case = CASES[2]
    for n in (24, 150):
        y, p = case.y[:n], case.f[:n, 1]
        order = np.random.default_rng(n).permutation(n)
        one = ra.calibration_error(y, p, method=method).value
        two = ra.calibration_error(y[order], p[order], method=method).value
        assert two == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e160, 1e307])
def test_the_scale_of_weights_of_other_methods(scale):
    case = CASES[2]
    weights = np.random.default_rng(0).uniform(0.2, 1, len(case.y))
    for method in (ra.EqualWidthBins(10), ra.EqualMassBins(10), ra.KernelSmoother()):
        one, two = (
            ra.calibration_error(
                case.y, case.f, notion="binary", method=method, sample_weight=own
            ).value
            for own in (weights, scale * weights)
        )
        assert two == pytest.approx(one, rel=1e-9)


def beyond_the_limit():
    """Rows of which a third are one-hot, with a few weights 0, and the limit they are beyond."""
    data = ra.datasets.temperature(1500, 3, seed=0)
    f = data.y_prob.copy()
    f[::3] = np.eye(3)[data.y_true[::3]]
    f[::21] = np.eye(3)[(data.y_true[::21] + 1) % 3]
    weights = np.random.default_rng(0).uniform(0.2, 3, 1500)
    weights[::50] = 0.0
    return data.y_true, f, weights, 300


def close_answers(found, expected):
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("notion", ["canonical", "classwise"])
def test_the_scale_of_weights_beyond_the_limit(notion, monkeypatch):
    y, f, weights, limit = beyond_the_limit()
    monkeypatch.setattr(states, "MOST_DISTINCT", limit)
    expected = answers(y, f, notion, weights)
    for scale in (3.0, 1e-3):
        close_answers(answers(y, f, notion, scale * weights), expected)
    close_answers(answers(y, f, notion, np.full(1500, 3.0)), answers(y, f, notion))


@pytest.mark.parametrize("notion", ["canonical", "classwise", "binary"])
def test_the_scale_of_weights_of_sketches_beyond_the_limit(notion):
    y, f, weights, limit = beyond_the_limit()
    if notion == "binary":
        y, f = (y == 0).astype(int), f[:, 0]

    def asked(own):
        sketch = ra.CalibrationSketch(notion, 2 if notion == "binary" else 3, exact_limit=limit)
        sketch.update(y[:700], f[:700], sample_weight=None if own is None else own[:700])
        sketch.update(y[700:], f[700:], sample_weight=None if own is None else own[700:])
        result = sketch.calibration_error(confidence=0.95)
        test = sketch.calibration_test(n_draws=99)
        return [result.value, *result.interval, test.p_value, result.n_samples]

    expected = asked(weights)
    for scale in (3.0, 1e-3):
        close_answers(asked(scale * weights), expected)
    assert asked(np.full(1500, 2.0)) == asked(None)
    close_answers(asked(np.full(1500, 0.3)), asked(None))


@pytest.mark.parametrize("notion", NOTIONS)
def test_equal_weights_are_no_weights(notion):
    case = case_of(notion)
    expected = answers(case.y, case.f, notion)
    found = answers(case.y, case.f, notion, np.full(len(case.y), 0.3))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("notion", NOTIONS)
def test_types_of_numbers(notion):
    case = case_of(notion)
    single = case.f.astype(np.float32)
    expected = answers(case.y, single.astype(np.float64), notion)
    assert answers(case.y, single, notion) == expected
    for kind in (np.int8, np.uint16, np.float64, bool) if notion == "binary" else (np.int8, float):
        assert answers(case.y.astype(kind), single, notion) == expected
    assert answers(np.eye(case.n_classes)[case.y], single, notion) == expected


@pytest.mark.parametrize("notion", NOTIONS)
def test_containers(notion):
    case = case_of(notion)
    names = [str(k) for k in range(case.n_classes)]
    expected = answers(case.y, case.f, notion)
    labels = (case.y.tolist(), tuple(case.y), pd.Series(case.y), pl.Series(case.y))
    predictions = (
        case.f.tolist(),
        pd.DataFrame(case.f, columns=names, index=np.arange(150)[::-1]),
        pl.DataFrame(case.f, schema=names),
        np.asfortranarray(case.f),
        np.concatenate([case.f, case.f], axis=1)[:, : case.n_classes],
    )
    for y in labels:
        assert answers(y, case.f, notion) == expected
    for f in predictions:
        assert answers(case.y, f, notion) == expected
    if notion == "binary":
        for p in (case.f[:, 1].tolist(), pd.Series(case.f[:, 1]), pl.Series(case.f[:, 1])):
            assert answers(case.y, p, notion) == expected


@pytest.mark.parametrize("total", [0.9995, float(np.float16(1 / 3)) * 3, 1.0, 1.0005])
@pytest.mark.parametrize("kernel", ["rbf", "dirichlet"])
def test_equal_rows_whose_sum_is_not_quite_one(kernel, total):
    """By narrow kernels, products of rows are far from those of rows that sum to one."""
    y, f = np.arange(43) % 2, np.full((43, 3), total / 3)
    R = [[21 / 42, 21 / 42, 0.0], [22 / 42, 20 / 42, 0.0]]
    for bandwidth in (3e-5, 3e-4, 0.01, 0.1):
        options = {"kernel": kernel, "estimator": "plugin", "bandwidth": bandwidth}
        result = ra.calibration_error(y, f, notion="canonical", **options)
        np.testing.assert_allclose(result.conditional[:2], R, atol=1e-6)
        moved = ra.calibration_error(y, f - [0, 0, 1e-9], notion="canonical", **options)
        assert moved.value == pytest.approx(result.value, abs=1e-6)


def test_thirds_in_half_precision():
    y, f = np.arange(43) % 2, np.full((43, 3), 1 / 3, np.float16)
    options = {"notion": "canonical", "kernel": "rbf", "estimator": "plugin", "bandwidth": 3e-4}
    half = ra.calibration_error(y, f, **options).value
    double = ra.calibration_error(y, np.full((43, 3), 1 / 3), **options).value
    assert half == pytest.approx(double, rel=1e-3)


@pytest.mark.parametrize("notion", NOTIONS)
def test_rows_of_weight_0_are_not_there(notion):
    case = case_of(notion)
    used = np.random.default_rng(0).random(len(case.y)) < 0.4
    expected = answers(case.y[used], case.f[used], notion)
    assert answers(case.y, case.f, notion, 1.0 * used) == pytest.approx(expected, rel=1e-9)
    result = ra.calibration_error(case.y, case.f, notion=notion, sample_weight=1.0 * used)
    assert result.n_samples == used.sum()
    sketch = ra.CalibrationSketch(notion, case.n_classes, exact_limit=20)
    sketch.update(case.y[~used], case.f[~used], sample_weight=np.zeros(np.sum(~used)))
    assert sketch.update(case.y, case.f, sample_weight=1.0 * used).n_samples == used.sum()
