"""Norms of R - f and their two sides: against plain loops, on hard inputs, as users ask."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import oracle
import oracle_finer
import oracle_norms
import pytest
from cases import HARD, Case, ordinary

import riskalign as ra
from riskalign.data.notions import NOTIONS
from riskalign.data.validation import as_sample
from riskalign.equations import curves
from riskalign.equations.curves import CurveForm, Knots
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import L2
from riskalign.equations.norms import direction, variance_of_curve
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods.finer import STEPS
from riskalign.methods.level import newton_steps
from riskalign.methods.norms import doubts_of, norm_estimates, norm_sides, sides_of_level
from riskalign.methods.residuals import Mixture, Started, debiased
from riskalign.smoothing import Tuning

CLOSE = {"rtol": 1e-8, "atol": 1e-11}
FORMS = [(0, False, False), (4, False, False), (3, True, False), (3, True, True)]
CURVED = {
    "two classes": ordinary(30, 2, seed=3),
    "four classes, weights": replace(ordinary(26, 4, seed=5), weights=np.linspace(0.2, 2, 26)),
    "ties": replace(
        ordinary(24, 3, seed=6), f=np.repeat(np.vstack([np.eye(3), ordinary(5, 3, seed=7).f]), 3, 0)
    ),
}
CASES = {
    "two classes": ordinary(12, 2, seed=5),
    "three classes": ordinary(14, 3, seed=6),
    "weights": replace(ordinary(11, 4, seed=7), weights=np.linspace(0.2, 2, 11)),
    **HARD,
}


def asked(case, notion):
    """The norms that a notion has."""
    return ("l1", "l2", "euclidean") if notion == "canonical" else ("l1", "l2")


def error(case, notion, norm, **options):
    return ra.calibration_error(
        case.y, case.f, notion=notion, norm=norm, sample_weight=case.weights, **options
    )


@pytest.mark.parametrize("start", sorted(STARTS))
@pytest.mark.parametrize("name", CASES)
def test_norms_are_those_of_plain_loops(name, start):
    case = CASES[name]
    y, f, weights = case.plain
    for notion in case.notions():
        for norm in ("l1", "euclidean") if notion == "canonical" else ("l1",):
            if notion == "canonical" and case.n_classes == 2:
                continue  # the oracle counts one outcome of a pair
            got = error(case, notion, norm, start=start, bandwidth=0.05, engine="exact")
            parts = [
                oracle_norms.sides(norm, problem, weights, start, "dirichlet", 0.05, 1.0)
                for problem in oracle.problems(notion, f, y)
            ]
            close = {"rtol": 1e-6, "atol": 1e-9}
            np.testing.assert_allclose(got.value, np.sum(parts), **close)
            if notion == "canonical":
                assert got.too_high is None
                continue
            both = [got.too_high.value, got.too_low.value]
            np.testing.assert_allclose(both, np.sum(parts, axis=0), **close)
            if notion == "classwise":
                np.testing.assert_allclose(got.per_class, np.sum(parts, axis=1), **close)


@pytest.mark.parametrize("n_steps", [1, STEPS])
@pytest.mark.parametrize("name", ["two classes", "four classes, weights", "ties"])
def test_norms_of_finer_curves_are_those_of_plain_loops(name, n_steps, monkeypatch):
    """R without each row's own sample, its variance, and the terms of both sides."""
    for module in (curves, oracle_finer):
        for limit in ("OUTCOMES", "OUTCOMES_EVERY"):
            monkeypatch.setattr(module, limit, 2)
    case = CURVED[name]
    _, f, weights = case.plain
    sample = as_sample(case.y, case.f, sample_weight=case.weights)
    for notion, form in product(case.notions(), FORMS):
        single = notion != "canonical"
        if (single and not form[1]) or (notion == "canonical" and case.n_classes == 2):
            continue
        pairs = zip(
            NOTIONS[notion].problems(sample, L2), oracle.problems(notion, f, case.plain[0]),
            strict=True,
        )  # fmt: skip
        for problem, plain in pairs:
            start = FittedStart.of(problem, STARTS["logistic"])
            g = start.at(problem.predictions)
            knots = Knots.of(problem, g, CurveForm(*form))
            steps = newton_steps(problem, g, knots, n_steps)
            step, total = steps[-1]
            R = step.without_own(total, problem.columns() - step.g, problem.units)
            v = variance_of_curve(steps[0][0], problem.unit)
            known = plain, weights, "logistic", form, single
            counted = slice(1, 2) if single else slice(None)
            own = np.array(oracle_norms.curve_without_own(*known, n_steps))[:, counted]
            np.testing.assert_allclose(R, own, **CLOSE)
            own = np.array(oracle_norms.curve_variances(*known))[:, counted]
            np.testing.assert_allclose(v, own, **CLOSE)
            if n_steps == STEPS:
                each = replace(known_estimate(problem), started=Started(problem, start, g))
                for norm in ("l1",) if single else ("l1", "euclidean"):
                    got = sides_of_level(each, knots, norm)
                    own = oracle_norms.curve_sides(norm, *known, n_steps)
                    np.testing.assert_allclose(got, own, **CLOSE)


def known_estimate(problem):
    """An estimate of a problem, whichever."""
    (each,) = debiased([problem], DIRICHLET, "exact", STARTS["identity"], [Tuning(0.05)])
    return each


def test_norms_are_mixed_by_the_shares_of_the_curves():
    """Of the estimate and of both ends of an interval, whose doubts are those of the sum."""
    data = ra.datasets.wavy(300, 3, seed=0)
    problems = NOTIONS["classwise"].problems(as_sample(data.y_true, data.y_prob), L2)
    kernels = debiased(problems, DIRICHLET, "exact", STARTS["logistic"], [Tuning(0.05)] * 3)
    mixed, levels = [], []
    for each in kernels:
        f = Problem.free(each.problem.predictions)
        coarse, fine = (Knots.of(each.problem, f, CurveForm(m, True)) for m in (4, 8))
        mixture, sure, feared = (
            Mixture().with_level(coarse, first).with_level(fine, second)
            for first, second in ((0.5, 0.2), (0.3, 0.0), (1.0, 0.6))
        )
        mixed.append(replace(each, mixture=mixture, ends=(sure, feared)))
        levels.append([sides_of_level(each, knots, "l1") for knots in (coarse, fine)])
    (same, *_) = norm_estimates(kernels, kernels, "l1")
    np.testing.assert_array_equal(same.value, norm_sides(kernels[0], "l1"))
    np.testing.assert_array_equal(same.sure, same.feared)
    found = norm_estimates(kernels, mixed, "l1")
    total = np.zeros((3, 2))
    for each, one, (first, second) in zip(found, kernels, levels, strict=True):
        own = norm_sides(one, "l1")
        value = 0.8 * (0.5 * own + 0.5 * first) + 0.2 * second
        sure, feared = 0.7 * own + 0.3 * first, 0.4 * first + 0.6 * second
        np.testing.assert_allclose([each.value, each.sure, each.feared], [value, sure, feared])
        total += [value, sure, feared]
    value, sure, feared = np.column_stack([total, total.sum(axis=1)])
    moves = np.maximum([value - sure, feared - value], 0.0).T
    assert moves.max() > 1e-3
    np.testing.assert_allclose(doubts_of(found), moves)


@pytest.mark.parametrize("n_steps", [1, STEPS])
def test_a_curve_adds_nothing_to_the_norm_of_a_calibrated_model(n_steps):
    """At 60 distinct predictions of 8 samples each, whose leverage is a ninth."""
    p = np.repeat(np.linspace(0.3, 0.7, 60), 8)
    f, rng, found, errors = p[:, None], np.random.default_rng(4), [], []
    knots = Knots(CurveForm(24, per_class=True, every=True), [np.unique(p)])
    for _ in range(300):
        problem = Problem("p", p, (rng.random(len(p)) < p) * 1, np.ones(len(p)), L2.binary)
        steps = newton_steps(problem, f, knots, n_steps)
        step, total = steps[-1]
        R = step.without_own(total, problem.columns() - step.g, problem.units)
        v = variance_of_curve(steps[0][0], problem.unit)
        u = direction("l1", R - f, v)
        found.append(np.mean(u * (problem.columns() - f)))
        errors.append(np.mean((R - f) ** 2) / np.mean(v))
    # The R of the squared error, that leaves a part of each label in the second step, adds 0.017.
    assert abs(np.mean(found)) < 0.006
    assert np.mean(errors) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(("norm", "n_classes"), [("l1", 4), ("euclidean", 10)])
def test_waves_that_kernels_on_a_simplex_miss_are_in_the_norm(norm, n_classes):
    data = ra.datasets.wavy(1500, n_classes, seed=5)
    truth = data.truth("canonical", norm=norm)
    options = {"notion": "canonical", "norm": norm, "progress": False}
    found = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95, **options)
    assert found.value == pytest.approx(truth, rel=0.25)
    assert found.interval[0] < truth < found.interval[1]
    kernels = ra.calibration_error(data.y_true, data.y_prob, start="identity", **options)
    assert kernels.value < 0.5 * truth


@pytest.mark.parametrize("notion", ["binary", "canonical"])
def test_the_mean_over_all_label_sets_of_a_calibrated_model_is_zero(notion):
    """Labels have no part in their own R, so that every term has mean 0."""
    f = np.array([[0.9, 0.1], [0.7, 0.3], [0.65, 0.35], [0.5, 0.5], [0.2, 0.8]])
    if notion == "canonical":
        f = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])
    norms = ("l1", "euclidean") if notion == "canonical" else ("l1",)
    total = dict.fromkeys(norms, 0.0)
    largest = 0.0
    for labels in product(range(f.shape[1]), repeat=len(f)):
        chance = np.prod(f[np.arange(len(f)), labels])
        for norm in norms:
            found = error(Case(np.array(labels), f), notion, norm, start="identity", bandwidth=0.1)
            total[norm] += chance * found.value
            largest = max(largest, abs(found.value))
    assert largest > 0.3
    assert all(abs(mean) < 1e-12 for mean in total.values())


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs_have_finite_norms_and_intervals(name):
    case = HARD[name]
    for notion in case.notions():
        for norm in asked(case, notion):
            found = error(case, notion, norm, confidence=0.9)
            low, high = found.interval
            assert np.isfinite([found.value, found.standard_error, found.upper_bound]).all()
            assert 0 <= low <= high <= found.upper_bound < np.inf
            json.dumps(found.to_dict())
            assert f"{norm} norm" in str(found)
            assert found.estimator == "debiased"


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_the_l2_norm_is_the_root_of_the_squared_error(notion):
    data = ra.datasets.temperature(300, 2 if notion == "binary" else 3, t2=0.5, seed=0)
    case = Case(data.y_true, data.y_prob)
    square = ra.calibration_error(case.y, case.f, notion=notion, confidence=0.9)
    norm = error(case, notion, "l2", confidence=0.9)
    assert norm.value == pytest.approx(square.value**0.5)
    assert norm.definition == f"root of {square.definition}"
    np.testing.assert_allclose(norm.interval, np.sqrt(square.interval))
    assert norm.standard_error == pytest.approx(square.standard_error / 2 / norm.value)
    assert norm.upper_bound == pytest.approx(square.upper_bound**0.5)
    if notion == "classwise":
        np.testing.assert_allclose(norm.per_class, np.sqrt(np.maximum(square.per_class, 0)))
        np.testing.assert_allclose(norm.per_class_interval, np.sqrt(square.per_class_interval))


def test_a_negative_square_has_the_root_zero():
    found = [
        ra.calibration_error(d.y_true, d.y_prob, norm="l2", confidence=0.9)
        for d in (ra.datasets.calibrated(200, 2, seed=seed) for seed in range(6))
    ]
    zero = [each for each in found if each.value == 0]
    assert zero
    assert all(each.standard_error > 0 for each in found)


@pytest.mark.parametrize("family", ["temperature", "class_bias", "label_noise", "peaked"])
def test_norms_of_known_families(family):
    """Within four standard errors of the truth, and the sides on the side that they are of."""
    data = getattr(ra.datasets, family)(2000, 3, seed=12)
    for notion in ("classwise", "canonical", "top-label"):
        for norm in asked(None, notion):
            found = ra.calibration_error(
                data.y_true, data.y_prob, notion=notion, norm=norm, confidence=0.95
            )
            given = "marginal" if notion == "top-label" else "joint"
            truth = data.truth(notion=notion, norm=norm, given=given)
            assert abs(found.value - truth) < 4 * found.standard_error
    top = ra.calibration_error(
        data.y_true, data.y_prob, notion="top-label", norm="l1", confidence=0.95
    )
    if family in ("temperature", "peaked"):  # over-confident everywhere
        assert top.too_high.interval[0] > top.too_low.interval[1] / 2
        assert top.too_low.interval[0] == 0


def test_sides_add_up_and_have_intervals():
    data = ra.datasets.class_bias(1500, 3, seed=1)
    found = ra.calibration_error(data.y_true, data.y_prob, norm="l1", confidence=0.95)
    assert found.too_high.value + found.too_low.value == pytest.approx(found.value)
    gap = data.y_prob - data.conditional
    for side, truth in ((found.too_high, np.maximum(gap, 0)), (found.too_low, -np.minimum(gap, 0))):
        low, high = side.interval
        assert low < truth.sum(axis=1).mean() < high
        assert high - low < 10 * side.standard_error
    assert "of which too high" in str(found)
    assert "of which too low" in found._repr_html_()
    assert found.to_dict()["too_high"]["value"] == found.too_high.value
    low, high = found.per_class_interval[0]
    assert low < found.per_class[0] < high


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_a_sketch_of_batches_has_the_norms_of_the_whole(notion):
    data = ra.datasets.temperature(600, 2 if notion == "binary" else 3, t2=0.6, seed=2)
    sketch = ra.CalibrationSketch(notion, data.y_prob.shape[1])
    for rows in np.array_split(np.random.default_rng(0).permutation(600), 4):
        sketch.update(data.y_true[rows], data.y_prob[rows])
    for norm in asked(None, notion):
        whole = ra.calibration_error(
            data.y_true, data.y_prob, notion=notion, norm=norm, confidence=0.95
        )
        batches = sketch.calibration_error(norm=norm, confidence=0.95)
        assert batches.value == pytest.approx(whole.value, rel=1e-9)
        np.testing.assert_allclose(batches.interval, whole.interval, rtol=1e-9)
        assert (batches.too_high is None) == (whole.too_high is None)


def test_cells_have_the_norms_of_the_rows():
    """Beyond its limit of rows a sketch knows cells; norms move by less than a standard error."""
    data = ra.datasets.temperature(4000, 3, t2=0.6, seed=3)
    for notion in ("top-label", "classwise"):
        rows = ra.calibration_error(
            data.y_true, data.y_prob, notion=notion, norm="l1", confidence=0.95
        )
        sketch = ra.CalibrationSketch(notion, 3, exact_limit=500)
        sketch.update(data.y_true, data.y_prob)
        cells = sketch.calibration_error(norm="l1", confidence=0.95)
        assert cells.value == pytest.approx(rows.value, abs=0.05 * rows.standard_error)
        assert cells.standard_error == pytest.approx(rows.standard_error, rel=0.5)


def test_engines_agree():
    data = ra.datasets.label_noise(1500, 2, seed=4)
    exact, grid = (
        ra.calibration_error(data.y_true, data.y_prob, norm="l1", bandwidth=0.02, engine=engine)
        for engine in ("exact", "grid")
    )
    assert grid.value == pytest.approx(exact.value, rel=1e-3)


def test_many_classes_in_float32():
    data = ra.datasets.peaked(60, 200, seed=0)
    found = ra.calibration_error(
        data.y_true, data.y_prob.astype(np.float32), norm="l1", confidence=0.95
    )
    assert np.isfinite(found.interval).all()
    assert found.per_class_interval.shape == (200, 2)


def test_refusals_name_what_exists():
    case = ordinary(30, 3)
    with pytest.raises(ValueError, match="notion 'canonical', loss 'l2'"):
        error(case, "classwise", "euclidean")
    with pytest.raises(ValueError, match="needs estimator='debiased' or estimator='plugin'"):
        error(case, "top-label", "l1", estimator="cross")
    with pytest.raises(ValueError, match="needs estimator='plugin'; found estimator='variational'"):
        error(case, "top-label", "max", estimator="variational")
    with pytest.raises(ValueError, match="has no meaning for notion='classwise'"):
        error(case, "classwise", "l1", estimator="plugin")
    with pytest.raises(ValueError, match="with loss='kl'"):
        error(case, "classwise", "l1", loss="kl")
    with pytest.raises(ValueError, match="`norm` must be one of 'l1', 'l2', 'max', 'euclidean'"):
        error(case, "classwise", "l3")
    with pytest.raises(ValueError, match=r"cannot be combined with norm="):
        error(case, "top-label", "l1", method=ra.SmoothECE())
    with pytest.raises(ValueError, match="`confidence` needs estimator='debiased'"):
        error(case, "top-label", "max", confidence=0.9)
