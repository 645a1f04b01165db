"""The whole way from labels and predictions to numbers, against the equations as loops."""

import math

import numpy as np
import oracle
import pytest
from cases import (
    CANDIDATES,
    CRITERIA,
    ESTIMATORS,
    HARD,
    LOSSES,
    NOTIONS,
    bandwidths,
    kernels,
    ordinary,
    samples,
)
from hypothesis import given
from hypothesis import strategies as st

import riskalign as ra

TOLERANCE = 1e-9
SAMPLES = {2: ordinary(12, 2), 3: ordinary(12, 3), 10: ordinary(14, 10)}


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def unit_of(weights):
    """The power of two in which weights are summed: the largest up to the heaviest."""
    return 2.0 ** math.floor(math.log2(max(weights)))


def assert_equals_oracle(result, case, notion, loss, kernel, bandwidths):
    """Every number of a result is the oracle's."""
    total, per_problem, conditional = oracle.calibration_error(
        *case.plain, notion, loss, kernel, bandwidths
    )
    close(result.value, total[result.estimator])
    close(result.risk, total["risk"])
    close(result.refinement, total["refinement"])
    close(result.reconstructed_risk, total["reconstructed_risk"])
    if notion == "classwise":
        close(result.per_class, [means[result.estimator] for means in per_problem])
        expected = np.array(conditional)[:, :, 1].T
    else:
        assert result.per_class is None
        expected = np.array(conditional[0])
        expected = expected if notion == "canonical" else expected[:, 1]
    close(result.conditional, expected)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("n_classes", "notion"),
    [(K, notion) for K, case in SAMPLES.items() for notion in case.notions()],
)
def test_every_combination_equals_the_oracle(n_classes, notion, loss, kernel, criterion):
    case = SAMPLES[n_classes]
    options = {"notion": notion, "loss": LOSSES[loss], "kernel": kernel, "engine": "exact"}
    candidates = CANDIDATES[kernel]
    search = ra.select_bandwidth(
        case.y, case.f, criterion=criterion, candidates=candidates, **options
    )

    y, f, weights = case.plain
    for problem, curve in zip(oracle.problems(notion, f, y), search.curves, strict=True):
        arguments = (problem, weights, oracle.loss_of(loss, notion), kernel)
        close(curve.candidates, candidates)
        close(curve.objective, [oracle.objective(*arguments, h, criterion) for h in candidates])
        assert curve.value == oracle.best_bandwidth(*arguments, candidates, criterion)

    for estimator in ESTIMATORS:
        result = ra.calibration_error(
            case.y,
            case.f,
            estimator=estimator,
            bandwidth=criterion,
            candidates=candidates,
            **options,
        )
        chosen = np.atleast_1d(result.bandwidth).tolist()
        assert chosen == search.values.tolist()
        assert result.estimator == estimator
        assert_equals_oracle(result, case, notion, loss, kernel, chosen)


@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize(
    ("name", "notion"), [(name, notion) for name, case in HARD.items() for notion in case.notions()]
)
def test_hard_inputs_equal_the_oracle(name, notion, kernel):
    case = HARD[name]
    n_problems = case.n_classes if notion == "classwise" else 1
    for h in (1e-4, 0.02, 1.0) if kernel == "dirichlet" else (0.005, 0.1, 2.0):
        for loss in LOSSES:
            result = ra.calibration_error(
                case.y,
                case.f,
                notion=notion,
                loss=LOSSES[loss],
                kernel=kernel,
                estimator="cross",
                bandwidth=h,
                sample_weight=case.weights,
                engine="exact",
            )
            assert_equals_oracle(result, case, notion, loss, kernel, [h] * n_problems)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("notion", ["classwise", "canonical"])
@pytest.mark.parametrize("name", HARD)
def test_objectives_of_hard_inputs_equal_the_oracle(name, notion, kernel, criterion):
    case = HARD[name]
    candidates = CANDIDATES[kernel]
    for loss in LOSSES:
        search = ra.select_bandwidth(
            case.y,
            case.f,
            notion=notion,
            loss=LOSSES[loss],
            kernel=kernel,
            criterion=criterion,
            candidates=candidates,
            sample_weight=case.weights,
            engine="exact",
        )
        y, f, weights = case.plain
        for problem, curve in zip(oracle.problems(notion, f, y), search.curves, strict=True):
            arguments = (problem, weights, oracle.loss_of(loss, notion), kernel)
            expected = [oracle.objective(*arguments, h, criterion) for h in candidates]
            close(np.array(curve.objective) * unit_of(weights), expected)


def test_a_thousand_classes_equal_the_oracle():
    case = ordinary(8, 1000, seed=5, sharpness=3)
    for notion in ("top-label", "canonical"):
        result = ra.calibration_error(
            case.y,
            case.f,
            notion=notion,
            loss="kl",
            estimator="plugin",
            bandwidth=0.01,
            engine="exact",
        )
        assert_equals_oracle(result, case, notion, "kl", "dirichlet", [0.01])
    result = ra.calibration_error(
        case.y,
        case.f,
        notion="classwise",
        loss="l2",
        estimator="variational",
        bandwidth=0.01,
        engine="exact",
    )
    assert_equals_oracle(result, case, "classwise", "l2", "dirichlet", [0.01] * 1000)


@pytest.mark.parametrize("power", [0.5, 1, 2, 3.5])
def test_the_power_of_risk_alignment(power):
    case = SAMPLES[3]
    candidates = CANDIDATES["dirichlet"]
    search = ra.select_bandwidth(
        case.y,
        case.f,
        notion="canonical",
        loss="kl",
        power=power,
        candidates=candidates,
        engine="exact",
    )
    y, f, weights = case.plain
    expected = [
        oracle.objective((f, y), weights, oracle.log_loss, "dirichlet", h, "risk-alignment", power)
        for h in candidates
    ]
    close(search.objective, expected)


def test_one_bandwidth_a_class():
    case = SAMPLES[3]
    given_ = [0.01, 0.05, 0.2]
    result = ra.calibration_error(
        case.y, case.f, notion="classwise", estimator="plugin", bandwidth=given_, engine="exact"
    )
    assert result.bandwidth.tolist() == given_
    assert result.search is None
    assert_equals_oracle(result, case, "classwise", "l2", "dirichlet", given_)


def test_the_notion_defaults_to_the_shape_of_the_predictions():
    case = SAMPLES[2]
    one = ra.calibration_error(case.y, case.f[:, 1], bandwidth=0.05, estimator="plugin")
    both = ra.calibration_error(case.y, case.f, bandwidth=0.05, estimator="plugin")
    assert (one.notion, both.notion) == ("binary", "binary")
    assert both.value == one.value
    each = ra.calibration_error(
        case.y, case.f, notion="classwise", bandwidth=0.05, estimator="plugin"
    )
    assert each.per_class.shape == (2,)
    # the two classes of a binary problem are mirror images, and the errors add up
    close(each.value, 2 * one.value)
    more = ra.calibration_error(SAMPLES[3].y, SAMPLES[3].f, bandwidth=0.05, estimator="plugin")
    assert more.notion == "classwise"


@pytest.mark.parametrize("notion", NOTIONS)
def test_overconfidence_is_the_mean_of_f_minus_R(notion):
    case = SAMPLES[2] if notion == "binary" else SAMPLES[3]
    weights = np.linspace(0.5, 2, len(case.y))
    result = ra.calibration_error(
        case.y,
        case.f,
        notion=notion,
        estimator="plugin",
        bandwidth=0.05,
        sample_weight=weights,
        engine="exact",
    )
    y, f, _ = case.plain
    w = [x / math.fsum(weights) for x in weights]
    R = result.conditional.tolist()
    rows = range(len(y))
    tops = [oracle.top_class(f_i) for f_i in f]
    if notion == "binary":
        per_class = [sum(w[i] * (f[i][1] - R[i]) for i in rows)]
        R = [(1 - r, r) for r in R]
    elif notion == "top-label":
        per_class = [sum(w[i] * (f[i][tops[i]] - R[i]) for i in rows)]
    else:
        per_class = [sum(w[i] * (f[i][k] - R[i][k]) for i in rows) for k in range(3)]
    close(result.overconfidence.per_class, per_class)
    top = per_class[0]
    if notion != "top-label":
        top = sum(w[i] * (f[i][tops[i]] - R[i][tops[i]]) for i in rows)
    close(result.overconfidence.top_label, top)


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("sharpness", [1, 6])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_observed_gap_and_its_standard_error(notion, sharpness, scale):
    case = SAMPLES[2] if notion == "binary" else SAMPLES[3]
    probabilities = case.f**sharpness
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights, n = np.linspace(0.5, 2, len(case.y)), len(case.y)
    gaps = ra.calibration_error(
        case.y,
        probabilities,
        notion=notion,
        estimator="plugin",
        bandwidth=0.05,
        sample_weight=scale * weights,
    ).overconfidence
    f, y = probabilities[:, 1], case.y
    if notion != "binary":
        f, y = probabilities.max(axis=1), probabilities.argmax(axis=1) == case.y
    share = weights / weights.sum()
    close(gaps.gap, share @ (f - y))
    observed = share**2 @ (f - y - gaps.gap) ** 2 * n / (n - 1)
    drawn = share**2 @ (f * (1 - f))
    assert (observed > drawn) == (sharpness > 1)  # both are met
    close(gaps.gap_error**2, max(observed, drawn))
    reach = 1.959963984540054 * gaps.gap_error
    close(gaps.gap_interval, [gaps.gap - reach, gaps.gap + reach])


@pytest.mark.parametrize("p", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_intervals_of_mean_differences_are_possible(n, p):
    """Differences of probabilities lie between -1 and 1, and means of labels at most at 1."""
    y = np.arange(n) % 2
    found = ra.calibration_error(y, np.full(n, p), confidence=0.99)
    low, high = found.overconfidence.gap_interval
    assert -1 <= low <= found.overconfidence.gap <= high <= 1
    assert p <= found.binary.ratio_interval[0] * (1 + 1e-12)


def test_the_classwise_l2_error_has_no_factor_two():
    case = SAMPLES[3]
    result = ra.calibration_error(
        case.y,
        case.f,
        notion="classwise",
        loss="l2",
        estimator="plugin",
        bandwidth=0.05,
        engine="exact",
    )
    close(result.value, np.mean(np.sum((result.conditional - case.f) ** 2, axis=1)))


# Reliability curves: the same averages with nobody left out.


@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("notion", NOTIONS)
def test_a_reliability_curve_equals_the_oracle(notion, kernel):
    case = SAMPLES[2] if notion == "binary" else SAMPLES[3]
    weights = np.linspace(0.5, 2, len(case.y))
    h = CANDIDATES[kernel][1]
    grid = case.f[:4] if notion == "canonical" else np.array([0.0, 0.1, 0.3, 0.5, 0.97, 1.0])
    curve = ra.reliability_curve(
        case.y,
        case.f,
        grid=grid,
        notion=notion,
        kernel=kernel,
        bandwidth=h,
        estimator="plugin",
        sample_weight=weights,
        engine="exact",
    )
    y, f, _ = case.plain
    for k, (points, labels) in enumerate(oracle.problems(notion, f, y)):
        for m, x in enumerate(grid.tolist()):
            x = x if notion == "canonical" else (1 - x, x)
            R, log_density = oracle.average(x, None, points, labels, weights.tolist(), kernel, h)
            found = curve.conditional[m, k] if notion == "classwise" else curve.conditional[m]
            local = curve.local_samples[m, k] if notion == "classwise" else curve.local_samples[m]
            if local > 0:
                close(found, R if notion == "canonical" else R[1])
            else:
                assert np.isnan(found).all()
            density = curve.density[m, k] if notion == "classwise" else curve.density[m]
            assert density == pytest.approx(math.exp(log_density), rel=TOLERANCE)


@given(samples(), st.data(), kernels, bandwidths, st.sampled_from(["classwise", "canonical"]))
def test_integer_weights_equal_repetition(case, data, kernel, h, notion):
    n = len(case.y)
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    counts[:2] += 1  # two samples must remain
    options = {
        "grid": case.f if notion == "canonical" else [0.0, 0.3, 0.9, 1.0],
        "notion": notion,
        "kernel": kernel,
        "bandwidth": h,
        "estimator": "plugin",
        "engine": "exact",
    }
    weighted = ra.reliability_curve(case.y, case.f, sample_weight=counts, **options)
    repeated = ra.reliability_curve(
        np.repeat(case.y, counts), np.repeat(case.f, counts, axis=0), **options
    )
    # Where hardly a sample is nearby there is no answer, and weights are no numbers of samples.
    known = ~(np.isnan(weighted.conditional) | np.isnan(repeated.conditional))
    np.testing.assert_allclose(weighted.conditional[known], repeated.conditional[known], atol=1e-10)
    np.testing.assert_allclose(weighted.density, repeated.density, rtol=1e-9)


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_a_curve_is_that_of_the_error_and_of_a_sketch(notion):
    data = ra.datasets.wavy(300, 2 if notion == "binary" else 3, seed=2)
    grid = data.y_prob[:5] if notion == "canonical" else [0.1, 0.4, 0.8]
    curve = ra.reliability_curve(data.y_true, data.y_prob, grid=grid, notion=notion)
    result = ra.calibration_error(data.y_true, data.y_prob, notion=notion)
    sketch = ra.CalibrationSketch(notion, len(data.y_prob.T)).update(data.y_true, data.y_prob)
    for other in (result.reliability_curve(grid), sketch.reliability_curve(grid=grid)):
        np.testing.assert_allclose(other.conditional, curve.conditional, rtol=1e-9)


def test_a_number_is_an_even_grid():
    case = SAMPLES[2]
    curve = ra.reliability_curve(case.y, case.f[:, 1], grid=5, bandwidth=0.05)
    np.testing.assert_array_equal(curve.grid, [0, 0.25, 0.5, 0.75, 1])
    assert curve.conditional.shape == curve.density.shape == (5,)
    assert curve.bandwidth == 0.05


# Properties of the estimate.


def error(case, **options):
    return ra.calibration_error(case.y, case.f, engine="exact", estimator="plugin", **options)


@given(samples(), kernels, bandwidths)
def test_rows_of_R_lie_on_the_simplex(case, kernel, h):
    R = error(case, notion="canonical", kernel=kernel, bandwidth=h).conditional
    assert (R >= 0).all()
    np.testing.assert_allclose(R.sum(axis=1), 1, atol=1e-12)
    R = error(case, notion="classwise", kernel=kernel, bandwidth=h).conditional
    assert (R >= 0).all()
    assert (R <= 1 + 1e-12).all()


@given(samples(), st.data(), kernels, bandwidths, st.sampled_from(["l2", "kl", "ranked"]))
def test_the_order_of_samples_does_not_matter(case, data, kernel, h, loss):
    order = np.array(data.draw(st.permutations(range(len(case.y)))))
    for notion in ("top-label", "classwise", "canonical"):
        options = {"notion": notion, "kernel": kernel, "bandwidth": h, "loss": loss}
        one = error(case, **options)
        other = ra.calibration_error(
            case.y[order], case.f[order], engine="exact", estimator="plugin", **options
        )
        assert other.value == pytest.approx(one.value, abs=1e-9)
        np.testing.assert_allclose(other.conditional, one.conditional[order], atol=1e-9)


@given(samples(), st.data(), kernels, bandwidths, st.sampled_from(["l2", "kl"]))
def test_the_names_of_classes_do_not_matter(case, data, kernel, h, loss):
    order = np.array(data.draw(st.permutations(range(case.n_classes))))
    relabelled = np.argsort(order)[case.y]
    for notion in ("classwise", "canonical"):
        options = {"notion": notion, "kernel": kernel, "bandwidth": h, "loss": loss}
        one = error(case, **options)
        other = ra.calibration_error(
            relabelled, case.f[:, order], engine="exact", estimator="plugin", **options
        )
        assert other.value == pytest.approx(one.value, abs=1e-9)
        np.testing.assert_allclose(other.conditional, one.conditional[:, order], atol=1e-9)


@given(samples(min_classes=3), bandwidths)
def test_ordered_classes_may_be_reversed(case, h):
    one = error(case, notion="canonical", loss="ranked", bandwidth=h)
    other = ra.calibration_error(
        case.n_classes - 1 - case.y,
        case.f[:, ::-1],
        notion="canonical",
        loss="ranked",
        estimator="plugin",
        bandwidth=h,
        engine="exact",
    )
    assert other.value == pytest.approx(one.value, abs=1e-9)


@given(samples(max_classes=2), kernels, bandwidths)
def test_canonical_with_two_classes_is_the_binary_problem(case, kernel, h):
    pair = error(case, notion="canonical", loss="l2", kernel=kernel, bandwidth=h)
    binary = error(case, notion="binary", loss="l2", kernel=kernel, bandwidth=h)
    # A row a thousand bandwidths from the others has log weights of -1e6, which rounding moves.
    np.testing.assert_allclose(pair.conditional[:, 1], binary.conditional, atol=TOLERANCE)
    assert pair.value == pytest.approx(2 * binary.value, abs=TOLERANCE)


@given(samples(), kernels, bandwidths, st.sampled_from(["l2", "kl", "ranked"]))
def test_plugin_and_refinement_add_up_to_the_reconstructed_risk(case, kernel, h, loss):
    for notion in ("top-label", "classwise", "canonical"):
        result = error(case, notion=notion, loss=loss, kernel=kernel, bandwidth=h)
        both = result.value + result.refinement
        assert both == pytest.approx(result.reconstructed_risk, abs=1e-12)
        assert result.value >= -1e-12


@pytest.mark.parametrize("sharpness", [1.5, 12])
@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("notion", NOTIONS)
def test_the_engine_chosen_for_large_samples_agrees_with_exact_sums(notion, kernel, sharpness):
    case = ordinary(1300, 2 if notion == "binary" else 3, seed=9, sharpness=sharpness)
    for h in CANDIDATES[kernel][:2]:
        chosen, exact = (
            ra.calibration_error(
                case.y,
                case.f,
                notion=notion,
                loss="kl",
                kernel=kernel,
                estimator="plugin",
                bandwidth=h,
                sample_weight=np.arange(1300) % 3,
                engine=engine,
            )
            for engine in ("auto", "exact")
        )
        assert chosen.value == pytest.approx(exact.value, rel=1e-5)
        np.testing.assert_allclose(chosen.conditional, exact.conditional, rtol=0, atol=5e-6)


def test_scaling_the_weights_changes_nothing_but_the_objective():
    case = ordinary(15, 3, seed=4)
    weights = np.linspace(0.1, 3, 15)
    options = {
        "notion": "classwise",
        "estimator": "cross",
        "bandwidth": "likelihood",
        "candidates": [0.01, 0.1],
    }
    one = ra.calibration_error(case.y, case.f, sample_weight=weights, **options)
    other = ra.calibration_error(case.y, case.f, sample_weight=1000 * weights, **options)
    close(other.value, one.value)
    objectives = [
        np.array(result.search.objective) * unit_of(w)
        for result, w in ((one, weights), (other, 1000 * weights))
    ]
    close(objectives[1], 1000 * objectives[0])


def test_a_sample_of_weight_zero_is_as_good_as_absent():
    case = ordinary(15, 3, seed=4)
    keep = np.arange(15) % 4 != 0
    for notion in ("top-label", "classwise", "canonical"):
        options = {
            "notion": notion,
            "estimator": "cross",
            "bandwidth": "risk-alignment",
            "candidates": [0.01, 0.1],
        }
        one = ra.calibration_error(case.y, case.f, sample_weight=keep.astype(float), **options)
        other = ra.calibration_error(case.y[keep], case.f[keep], **options)
        close(one.value, other.value)
        close(np.atleast_1d(one.bandwidth), np.atleast_1d(other.bandwidth))
        close(one.conditional[keep], other.conditional)
