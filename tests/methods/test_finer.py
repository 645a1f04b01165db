"""Finer curves against the plain loops of `oracle_finer`, and what they find."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import oracle
import oracle_finer
import pytest
from cases import ordinary
from scipy.stats import chi2, norm

import riskalign as ra
from riskalign.data.notions import NOTIONS
from riskalign.data.validation import as_sample
from riskalign.equations import curve_fit, curves
from riskalign.equations.curve_fit import CurveStep
from riskalign.equations.curves import CurveForm, Knots
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import LOSSES
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS, FittedStart
from riskalign.methods import finer as module
from riskalign.methods.finer import STEPS, finer, levels, normal_score
from riskalign.methods.residuals import debiased
from riskalign.smoothing import Tuning, condensed
from riskalign.smoothing.threads import ordered_map

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
FORMS = [(0, False, False), (4, False, False), (3, True, False), (3, True, True)]
CASES = {
    "two classes": ordinary(30, 2, seed=3),
    "three classes": ordinary(28, 3, seed=4),
    "four classes, weights": replace(ordinary(26, 4, seed=5), weights=np.linspace(0.2, 2, 26)),
    "zeros, ones and ties": replace(
        ordinary(24, 3, seed=6), f=np.repeat(np.vstack([np.eye(3), ordinary(5, 3, seed=7).f]), 3, 0)
    ),
}


def problems_of(case, notion, loss):
    sample = as_sample(case.y, case.f, sample_weight=case.weights)
    return NOTIONS[notion].problems(sample, LOSSES[loss])


def level_of(problem, form, n_steps=STEPS):
    g = FittedStart.of(problem, STARTS["logistic"]).at(problem.predictions)
    return terms_of(problem, g, Knots.of(problem, g, form), n_steps)


def terms_of(problem, g, knots, n_steps):
    """The last step of so many, and its terms."""
    step = CurveStep.first(problem, g, knots)
    for _ in range(n_steps - 1):
        step = step.next(problem)
    return step, step.terms(problem)


def forms_of(problems):
    """The knots of the ladder: those of all classes or shared ones, and whether shared."""
    g = [FittedStart.of(each, STARTS["logistic"]).at(each.predictions) for each in problems]
    return [
        ([len(own) for each in level for own in each.places], level[0].form.per_class)
        for level in levels(problems, g)
    ]


@pytest.fixture(autouse=True)
def many_knots(request, monkeypatch):
    """Plain loops are slow, and small samples have few knots: let them have more."""
    if "plain_loops" in request.node.name:
        for place in (curves, oracle_finer):
            monkeypatch.setattr(place, "OUTCOMES", 1.5)
            monkeypatch.setattr(place, "OUTCOMES_EVERY", 0.5)


@pytest.mark.parametrize("n_steps", [1, STEPS])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_level_is_that_of_plain_loops(name, form, n_steps):
    case = CASES[name]
    y, f, weights = case.plain
    for notion in case.notions():
        single = notion != "canonical"
        if single and not form[1]:
            continue
        for loss in ("l2", "kl", "ranked"):
            for problem, plain in zip(
                problems_of(case, notion, loss), oracle.problems(notion, f, y), strict=True
            ):
                step, got = level_of(problem, CurveForm(*form), n_steps)
                known = plain, weights, oracle.loss_of(loss, notion), "logistic", form, single
                terms, removed, added, R, dimension = oracle_finer.level(*known, n_steps)
                np.testing.assert_allclose(got.terms, terms, **CLOSE)
                np.testing.assert_allclose(got.variance_removed, removed, **CLOSE)
                np.testing.assert_allclose(step.errors(problem)[1], added, **CLOSE)
                np.testing.assert_allclose(got.conditional, R, **CLOSE)
                np.testing.assert_allclose(step.dimension, dimension, rtol=1e-9)
                risk = problem.loss(problem.points)[np.arange(len(terms)), problem.labels]
                np.testing.assert_allclose(got.risk, risk, **CLOSE)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_of_rows_make_the_same_steps(form, monkeypatch):
    (problem,) = problems_of(CASES["four classes, weights"], "canonical", "kl")
    g = FittedStart.of(problem, STARTS["logistic"]).at(problem.predictions)
    knots = Knots.of(problem, g, CurveForm(*form))
    whole = CurveStep.first(problem, g, knots).next(problem)
    monkeypatch.setattr(curves, "BLOCK", 7)
    blocks = CurveStep.first(problem, g, knots, ordered_map).next(problem)
    assert len(blocks.features.blocks) == 4
    pairs = zip(
        whole.left_out_and_let_in(problem), blocks.left_out_and_let_in(problem), strict=True
    )
    for one, other in [(whole.g, blocks.g), (whole.theta, blocks.theta), *pairs]:
        np.testing.assert_allclose(other, one, **CLOSE)


def test_effects_are_shared_only_where_they_are_few(monkeypatch):
    """For many classes they would take n K^2 numbers."""
    (problem,) = problems_of(CASES["three classes"], "canonical", "l2")
    g = FittedStart.of(problem, STARTS["logistic"]).at(problem.predictions)
    step = CurveStep.first(problem, g, Knots.of(problem, g, CurveForm(4, False)), shared=True)
    monkeypatch.setattr(curve_fit, "SHARED", g.size * g.shape[1] - 1)
    step.left_out_and_let_in(problem)
    assert "_of_units" not in vars(step)
    monkeypatch.setattr(curve_fit, "SHARED", g.size * g.shape[1])
    step.left_out_and_let_in(problem)
    assert "_of_units" in vars(step)


def test_features_without_blocks_are_freed_at_once():
    (problem,) = problems_of(CASES["two classes"], "binary", "l2")
    g = FittedStart.of(problem, STARTS["logistic"]).at(problem.predictions)
    step = CurveStep.first(problem, g, Knots.of(problem, g, CurveForm(4, True)))
    step.left_out_and_let_in(problem)
    held = weakref.ref(step.features)
    gc.disable()
    try:
        del step
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("form", FORMS)
def test_label_sets_that_share_a_step_have_the_effects_of_one(form, scale):
    """Also where residuals are so large that parameters are moved as far as they may be."""
    (problem,) = problems_of(CASES["three classes"], "canonical", "l2")
    g = FittedStart.of(problem, STARTS["logistic"]).at(problem.predictions)
    knots = Knots.of(problem, g, CurveForm(*form))
    units = scale * problem.units  # of one sample each: they decide how far parameters move
    heavy = replace(problem, sample_weights=units)
    alone, shared = (
        CurveStep.first(heavy, g, knots, shared=many).left_out_and_let_in(heavy)
        for many in (False, True)
    )
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


@pytest.mark.parametrize("name", ["two classes", "four classes, weights"])
@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_the_ladder_is_that_of_plain_loops(name, notion, monkeypatch):
    """With thresholds so low that several levels have a share of the estimate."""
    case = CASES[name]
    y, f, weights = case.plain
    gates = {"BELIEVED": (-9.0, 6.0), "SURE": (-7.0, 8.0), "FEARED": (-12.0, 4.0)}
    for gate, ends in gates.items():
        monkeypatch.setattr(module, gate, ends)
    single = notion != "canonical"
    forms = [form for form in FORMS if form[1] or not single]
    chosen = [CurveForm(*form) for form in forms]

    def ladder(problems, g):
        return [
            [Knots.of(*each, form) for each in zip(problems, g, strict=True)] for form in chosen
        ]

    monkeypatch.setattr(module, "levels", ladder)
    for loss in ("l2", "kl"):
        problems = problems_of(case, notion, loss)
        tunings = [Tuning(0.05)] * len(problems)
        base = debiased(problems, DIRICHLET, "exact", STARTS["logistic"], tunings)
        got = finer(base)
        values, below, above, shares = oracle_finer.ladder(
            [each.mean(each.terms) for each in base],
            oracle.problems(notion, f, y),
            weights,
            oracle.loss_of(loss, notion),
            "logistic",
            forms,
            list(gates.values()),
            single,
        )
        assert sum(0 < share < 1 for share in shares) > 1
        np.testing.assert_allclose([each.mean(each.terms) for each in got], values, **CLOSE)
        doubts = np.array([below, above]).T
        np.testing.assert_allclose([each.doubts for each in got], doubts, **CLOSE)
        kept = np.prod([1 - share for share in shares])
        for each, one in zip(got, base, strict=True):
            mixture = each.mixture
            np.testing.assert_allclose(mixture.kernels, kept, rtol=1e-9)
            parts = mixture.kernels + sum(share for _, share in mixture.levels)
            np.testing.assert_allclose(parts, 1.0)
            np.testing.assert_allclose(each.conditional.sum(axis=1), 1.0)
            # the terms are those of the risk, the variance removed, and R that is left out
            assert each.problem is one.problem


def test_the_ladder_of_few_samples_is_empty():
    for notion in ("classwise", "canonical"):
        assert forms_of(problems_of(CASES["three classes"], notion, "l2")) == []


def uniform(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.dirichlet(np.ones(n_classes), n)
    labels = np.array([rng.choice(n_classes, p=row) for row in f])
    return Problem("all", f, labels, np.ones(n), LOSSES["l2"])


def test_the_ladder_of_many_samples():
    """Shared curves, then one per class; no more knots than an eighth of a class's outcomes."""
    joint = uniform(2_000, 4)
    shared, own = [([12], False), ([24], False)], [([12] * 4, True), ([24] * 4, True)]
    assert forms_of([joint]) == [*shared, *own]
    single = Problem("one", joint.predictions[:, 0], joint.labels == 0, joint.weights, joint.loss)
    assert forms_of([single]) == [([12], True), ([24], True)]
    (*same, (few, per_class)) = forms_of([joint.take(slice(240))])
    assert same == shared
    assert per_class
    assert all(4 <= count <= 8 for count in few)  # each class comes some 60 times


def test_many_classes_have_shifts_before_curves():
    assert forms_of([uniform(400, 40)]) == [([], False), ([12], False), ([24], False)]
    assert forms_of([uniform(150, 40)]) == []


def discrete(places, n, seed=0):
    """A calibrated problem whose predictions are drawn from a few places."""
    rng = np.random.default_rng(seed)
    p = rng.choice(places, n)
    return Problem("p", p, (rng.random(n) < p) * 1, np.ones(n), LOSSES["l2"].binary)


def test_few_distinct_predictions_have_a_knot_each():
    problem = discrete(np.linspace(0.1, 0.9, 40), 3_000)
    assert forms_of([problem]) == [([12], True), ([24], True), ([40], True)]
    assert forms_of([replace(problem, rounded=True)]) == [([12], True), ([24], True)]


def test_distinct_predictions_of_few_samples_have_no_knots():
    """Neither those that come rarely nor those whose rarer outcome is expected rarely."""
    often = discrete(np.linspace(0.1, 0.9, 40), 3_000)
    p = np.r_[often.predictions, np.linspace(0.405, 0.6, 30), np.full(60, 0.05)]
    labels = np.r_[often.labels, np.arange(90) % 2]
    problem = Problem("p", p, labels, np.ones(len(p)), often.loss)
    g = p[:, None]
    (knots,) = Knots.of(problem, g, CurveForm(24, per_class=True, every=True)).places
    np.testing.assert_array_equal(knots, np.unique([*often.predictions, 0.05]))  # and both ends


def test_heavy_samples_are_no_knots():
    """A sample shows one outcome, however much it weighs."""
    p = np.r_[np.linspace(0.2, 0.8, 40), np.repeat(np.linspace(0.25, 0.75, 30), 10)]
    weights = np.r_[np.full(40, 1e3), np.ones(300)]
    labels = np.arange(len(p)) % 2
    rows = Problem("p", p, labels, weights, LOSSES["l2"].binary)
    form = CurveForm(24, per_class=True, every=True)
    (knots,) = Knots.of(rows, np.full((len(p), 1), 0.5), form).places
    np.testing.assert_array_equal(knots, np.unique([*p[40:], 0.2, 0.8]))  # and both ends


@pytest.mark.parametrize("n_steps", [1, STEPS])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_the_error_of_a_calibrated_model_is_0_on_average(loss, n_steps):
    """At 60 distinct predictions of 8 samples each, whose leverage is a ninth."""
    p = np.repeat(np.linspace(0.3, 0.7, 60), 8)
    rng, found, added = np.random.default_rng(4), [], []
    problem = Problem("p", p, (p > 1) * 1, np.ones(len(p)), LOSSES[loss].binary)
    knots = Knots(CurveForm(24, per_class=True, every=True), [np.unique(p)])
    for _ in range(300):
        drawn = replace(problem, labels=(rng.random(len(p)) < p) * 1)
        step, level = terms_of(drawn, p[:, None], knots, n_steps)
        terms, optimism = step.errors(drawn)
        np.testing.assert_array_equal(terms, level.terms)
        found.append(np.mean(terms))
        added.append(np.mean(optimism))
    # The mean of left out and let in, with equal weights, would err by 0.17 of what noise adds.
    assert abs(np.mean(found)) < 0.05 * np.mean(added)
    assert np.std(found) / len(found) ** 0.5 < 0.015 * np.mean(added)


def test_rare_classes_have_few_knots():
    f = np.random.default_rng(0).dirichlet([10, 10, 0.4], 1_000)
    labels = np.random.default_rng(1).choice(3, size=1_000, p=f.mean(axis=0))
    problem = Problem("all", f, labels, np.ones(1_000), LOSSES["l2"])
    g = FittedStart.of(problem, STARTS["logistic"]).at(f)
    counts = [len(own) for own in Knots.of(problem, g, CurveForm(24, True)).places]
    assert counts[0] == counts[1] == 24
    assert counts[2] <= 3


def test_normal_scores():
    for degrees in (5, 40):
        for p in (0.05, 0.5, 0.95, 0.999):
            excess = chi2.ppf(p, degrees) - degrees
            assert normal_score(excess, degrees) == pytest.approx(norm.ppf(p), abs=0.03)
    assert normal_score(-100.0, 5) < -4  # a value far below what chi-square variables can be


@pytest.mark.parametrize("notion", ["classwise", "canonical"])
@pytest.mark.parametrize("family", ["wavy", "class waves", "ties"])
def test_rough_miscalibration_is_found(family, notion):
    """Beside an estimator that knows E[y | f]: its error is the chance of the labels."""
    makers = ra.datasets.FAMILIES | ra.datasets.HELD_OUT
    data = makers[family](2_000, 4, 3)
    truth = data.truth(notion, "l2", given="marginal")
    y, R = np.eye(4)[data.y_true], data.conditional
    chance = 2 * np.mean(np.sum((y - R) * (R - data.y_prob), axis=1))
    result = ra.calibration_error(
        data.y_true, data.y_prob, notion=notion, confidence=0.95, progress=False
    )
    assert abs(result.value - chance - truth) < 0.2 * truth
    assert result.interval[0] < truth + chance < result.interval[1]


def test_class_bias_of_many_classes_is_found():
    data = ra.datasets.class_bias(1_500, 40, seed=1)
    truth = data.truth("canonical", "kl")
    result = ra.calibration_error(data.y_true, data.y_prob, notion="canonical", loss="kl")
    assert abs(result.value - truth) < 0.35 * truth


def test_calibrated_models_keep_their_value():
    """Levels see nothing but chance: most data sets keep the estimate of the kernels."""
    moved = 0
    for seed in range(20):
        data = ra.datasets.calibrated(400, 4, seed=seed)
        problems = problems_of(
            replace(ordinary(2, 2, seed=0), y=data.y_true, f=data.y_prob, weights=None),
            "canonical",
            "l2",
        )
        base = debiased(problems, DIRICHLET, "auto", STARTS["logistic"], [Tuning(1.0)])
        (got,) = finer(base)
        moved += got.mixture.kernels < 0.5
    assert moved <= 3


@pytest.mark.parametrize("notion", ["top-label", "classwise"])
def test_the_curve_is_the_r_behind_the_error(notion):
    """Where finer curves have a share of the value, they have it of the curve that is drawn."""
    data = ra.datasets.wavy(500, 4, seed=1)
    result = ra.calibration_error(data.y_true, data.y_prob, notion=notion)
    one = notion == "top-label"
    p = data.y_prob.max(axis=1) if one else data.y_prob[:, 0]
    R = result.conditional if one else result.conditional[:, 0]
    curve = result.reliability_curve(p).conditional
    curve = curve if one else curve[:, 0]
    assert np.mean(np.abs(R - p)) > 0.05
    assert np.mean(np.abs(curve - R)) < 0.015  # R leaves out each row's own sample


def one_discrete_class(n, seed=1, amplitude=0.06):
    """Three classes: the first has 200 scores, each off by the amplitude, the others are right."""
    rng = np.random.default_rng(seed)
    scores, off = np.linspace(0.1, 0.6, 200), amplitude * rng.choice([-1, 1], 200)
    place, share = rng.integers(0, 200, n), rng.beta(2, 2, n)
    f, R = (
        np.column_stack([p, (1 - p) * share, (1 - p) * (1 - share)])
        for p in (scores[place], (scores + off)[place])
    )
    y = (rng.random((n, 1)) > np.cumsum(R, axis=1)[:, :-1]).sum(axis=1)
    return y, f


@pytest.mark.parametrize("n", [10_000, 30_000])
def test_a_discrete_class_among_others_is_seen_wherever_it_stands(n):
    y, f = one_discrete_class(n)
    alone = ra.calibration_error((y == 0) * 1, f[:, 0])
    assert alone.value == pytest.approx(0.06**2, rel=0.3)
    for order in ([0, 1, 2], [2, 0, 1]):
        together = ra.calibration_error(np.argsort(order)[y], f[:, order])
        value = together.per_class[order.index(0)]
        assert value == pytest.approx(alone.value, rel=1e-6)


def test_many_distinct_predictions_with_samples_enough_are_seen():
    rng = np.random.default_rng(0)
    scores, off = np.linspace(0.2, 0.8, 900), 0.15 * rng.choice([-1, 1], 900)
    place = rng.integers(0, 900, 20_000)
    y = (rng.random(20_000) < (scores + off)[place]) * 1
    assert ra.calibration_error(y, scores[place]).value == pytest.approx(0.15**2, rel=0.15)


def test_knots_of_nodes_are_as_many_as_asked():
    """Nodes may have negative weights."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 10_000)
    rows = Problem("p", p, (rng.random(10_000) < p) * 1, np.ones(10_000), LOSSES["l2"].binary)
    nodes = condensed(rows, DIRICHLET)
    assert nodes.nodes is not None
    assert nodes.weights.min() < 0
    for count in (12, 24):
        (knots,) = Knots.of(nodes, nodes.predictions[:, None], CurveForm(count, True)).places
        assert len(knots) == count
        np.testing.assert_allclose(
            knots[1:-1], np.quantile(p, np.linspace(0, 1, count))[1:-1], atol=0.05
        )
