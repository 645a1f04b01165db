"""Chance in the estimates of norms: the world where labels are drawn from the start."""

from dataclasses import replace

import numpy as np
import pytest

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.notions import NOTIONS
from riskalign.data.validation import as_sample
from riskalign.equations.curves import CurveForm, Knots
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import L2
from riskalign.equations.norms import direction, norms_of, variance_of_curve
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS
from riskalign.inference.norms import (
    NormChance,
    bound_of_norm,
    norm_chances,
    of_root,
    with_curves,
)
from riskalign.inference.null import Model, drawn_labels
from riskalign.methods.finer import STEPS
from riskalign.methods.level import newton_steps
from riskalign.methods.norms import norm_sides
from riskalign.methods.residuals import Mixture, debiased
from riskalign.results import Interval
from riskalign.smoothing import Tuning

TUNING = Tuning(0.05, 0.5)


def model_of(n, notion, start, weights=None, n_classes=3):
    data = ra.datasets.temperature(n, n_classes, t2=0.6, seed=0)
    sample = as_sample(data.y_true, data.y_prob, sample_weight=weights)
    chosen = NOTIONS[notion]
    given = [WeightedTunings.given(TUNING) for _ in chosen.problems(sample, L2)]
    return Model(sample, chosen, L2, DIRICHLET, "exact", STARTS[start], given)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_with_f_itself_as_the_start_worlds_are_the_estimate_of_drawn_labels(notion, weighted):
    """Nothing is fitted, so nothing is approximate."""
    weights = np.linspace(0.3, 2, 60) if weighted else None
    model = model_of(60, notion, "identity", weights)
    rows, truth, labels = drawn_labels([model], 3)
    sample = model.sample.take(rows)
    np.testing.assert_array_equal(truth, sample.probabilities)
    for norm in ("l1", "euclidean") if notion == "canonical" else ("l1",):
        total, own = norm_chances(model, norm, 60, 3)
        found = np.zeros((len(own), 3, labels.shape[1]))
        for b in range(labels.shape[1]):
            drawn = replace(sample, labels=labels[:, b])
            problems = model.notion.problems(drawn, L2)
            tunings = [TUNING] * len(problems)
            estimates = debiased(problems, DIRICHLET, "exact", STARTS["identity"], tunings)
            for k, each in enumerate(estimates):
                high, low = norm_sides(each, norm)
                found[k, :, b] = high, low, high + low
        for chances, values in ((total, found.sum(axis=0)), *zip(own, found, strict=True)):
            for chance, each in zip(vars(chances).values(), values, strict=True):
                assert chance.error == pytest.approx(np.std(each, ddof=1), rel=1e-9)
                assert chance.bias == pytest.approx(each.mean(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_worlds_have_the_curves_of_the_estimate(notion):
    """By their share: each label set is estimated by a Newton step from the truth."""
    model = model_of(120, notion, "identity")
    form = CurveForm(4, per_class=True)
    problems = model.problems
    knots = [Knots.of(each, Problem.free(each.predictions), form) for each in problems]
    mixed = replace(model, mixtures=[Mixture().with_level(each, 0.4) for each in knots])
    alone = replace(model, mixtures=[Mixture().with_level(each, 1.0) for each in knots])
    rows, _, labels = drawn_labels([model], 3)
    sample = model.sample.take(rows)
    for norm in ("l1", "euclidean") if notion == "canonical" else ("l1",):
        by_kernels, by_curves, by_both = (
            norm_chances(each, norm, 120, 3)[0].whole.bias for each in (model, alone, mixed)
        )
        assert by_both == pytest.approx(0.6 * by_kernels + 0.4 * by_curves, rel=1e-9)
        total = 0.0
        for b in range(labels.shape[1]):
            drawn = model.notion.problems(replace(sample, labels=labels[:, b]), L2)
            for problem, own in zip(drawn, knots, strict=True):
                f = Problem.free(problem.predictions)
                ((step, scores),) = newton_steps(problem, f, own, 1)
                residuals = problem.columns() - f
                R = step.without_own(scores, residuals, problem.units)
                u = direction(norm, R - f, variance_of_curve(step, 1.0))
                total += float(np.mean(np.sum(u * residuals, axis=1)))
        assert by_curves == pytest.approx(total / labels.shape[1], rel=1e-9)


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_labels_are_drawn_from_the_curves_where_these_have_a_share(notion, share):
    """The world's truth is that of each problem's mixture, and of the start for the others."""
    model = model_of(300, notion, "logistic", n_classes=2 if notion == "binary" else 4)
    tunings = [TUNING] * len(model.problems)
    estimates = debiased(model.problems, DIRICHLET, "exact", STARTS["logistic"], tunings)
    form = CurveForm(6, per_class=True)
    knots = [
        Knots.of(each.problem, Problem.free(each.problem.predictions), form) for each in estimates
    ]
    levels = [Mixture().with_level(own, share) for own in knots]
    pairs = zip(estimates, levels, strict=True)
    mixed = [replace(each, mixture=mixture) for each, mixture in pairs]
    rows = np.arange(20, 300)
    f, start = model.sample.probabilities[rows], model.truth(rows)
    found = with_curves(model, rows, start, mixed)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    columns = []
    for k, each in enumerate(mixed):
        points = each.problem.predictions[rows]
        g = Problem.free(model.notion.truth(start, f, k))
        problem, fit = each.started.problem, each.started.fit
        curve = fit.at(points)
        for step, total in newton_steps(problem, fit.at(problem.predictions), knots[k], STEPS):
            curve = step.at(points, curve, total)
        columns.append((1 - share) * g + share * curve)
    wanted = np.concatenate(columns, axis=1)
    if notion == "classwise":
        wanted /= wanted.sum(axis=1, keepdims=True)
    got = [Problem.free(model.notion.truth(found, f, k)) for k in range(len(mixed))]
    np.testing.assert_allclose(np.concatenate(got, axis=1), wanted, rtol=1e-9)
    if notion == "top-label":  # the others keep their proportions
        others = np.argsort(f, axis=1)[:, :2]
        ratio = [np.divide(*np.take_along_axis(R, others, axis=1).T) for R in (found, start)]
        np.testing.assert_allclose(*ratio)


@pytest.mark.parametrize("notion", ["binary", "canonical"])
def test_worlds_of_a_fitted_start_know_their_norm(notion):
    """Bias and error are those of estimates that are fitted to each label set anew."""
    model = model_of(500, notion, "logistic", n_classes=2 if notion == "binary" else 3)
    rows, truth, labels = drawn_labels([model], 0)
    total, _ = norm_chances(model, "l1", 500, 0)
    columns = slice(1, 2) if notion == "binary" else slice(None)
    sample = model.sample.take(rows)
    known = norms_of("l1", (truth - sample.probabilities)[:, columns])[2].mean()
    assert known > 0.05
    problem = model.notion.problems(sample, L2)[0]
    anew = []
    for b in range(labels.shape[1]):
        drawn = replace(problem, labels=labels[:, b].astype(problem.labels.dtype))
        (each,) = debiased([drawn], DIRICHLET, "exact", STARTS["logistic"], [TUNING])
        anew.append(norm_sides(each, "l1").sum())
    assert len(rows) == 500
    assert total.whole.error == pytest.approx(np.std(anew, ddof=1), rel=0.15)
    assert total.whole.bias == pytest.approx(np.mean(anew) - known, abs=0.3 * total.whole.error)


def test_an_interval_allows_for_the_bias_that_hides_the_truth():
    plain, low, high = (NormChance(0.1, bias) for bias in (0.0, -0.05, 0.05))
    assert plain.interval(0.5, 0.95, 1.0) == pytest.approx((0.304, 0.696), abs=1e-3)
    assert low.interval(0.5, 0.95, 1.0) == pytest.approx((0.304, 0.746), abs=1e-3)
    assert high.interval(0.5, 0.95, 1.0) == pytest.approx((0.254, 0.696), abs=1e-3)
    assert plain.interval(-0.5, 0.95, 1.0) == pytest.approx((0, 0.196), abs=1e-3)
    assert plain.interval(0.5, 0.95, 0.6) == pytest.approx((0.304, 0.6), abs=1e-3)


def test_no_norm_is_beyond_the_farthest_labels():
    """Of three rows the interval ends where every label is the less likely one."""
    f = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    for notion, norm, most in (
        ("binary", "l1", np.mean([0.9, 0.8, 0.7])),
        ("classwise", "l1", 2 * np.mean([0.9, 0.8, 0.7])),
        ("canonical", "euclidean", np.mean([0.9, 0.8, 0.7]) * 2**0.5),
    ):
        result = ra.calibration_error([1, 1, 0], f, notion=notion, norm=norm, confidence=0.95)
        assert result.interval[1] == pytest.approx(most)


def test_some_rows_show_the_chance_of_all():
    """From 2,000 of 8,000 rows the error is that of 8,000: half of that of 2,000."""
    few, many = (model_of(n, "binary", "logistic", n_classes=2) for n in (2000, 8000))
    small, large = (norm_chances(m, "l1", len(m.sample.labels), 0)[0] for m in (few, many))
    assert large.whole.error == pytest.approx(small.whole.error / 2, rel=0.35)


def test_roots_and_bounds():
    square = Interval(0.02, (0.0, 0.09), 0.95, np.array([0.02, 0.0]), np.array([[0, 0.04], [0, 0]]))
    found = of_root(square, 0.04, np.array([-0.01, 0.0]))
    assert found.interval == pytest.approx((0, 0.3))
    assert found.standard_error == pytest.approx(0.05)
    np.testing.assert_allclose(found.per_class_standard_error, [0.02 / (2 * 0.02**0.5), 0])
    np.testing.assert_allclose(found.per_class_interval, [[0, 0.2], [0, 0]])
    assert bound_of_norm("l1", 4, 0.04) == pytest.approx(0.4)
    assert bound_of_norm("euclidean", 4, 0.04) == pytest.approx(0.2)
    assert bound_of_norm("l2", 4, -1.0) == 0
