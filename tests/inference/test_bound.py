"""Upper bounds: seeded, with stated error rates."""

import pickle

import numpy as np
import pytest

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.validation import as_sample
from riskalign.inference.bound import NEIGHBOURS, fine_tunings
from riskalign.inference.interval import Chance
from riskalign.methods import KernelSmoother
from riskalign.methods.residuals import debiased
from riskalign.options import sketched_case
from riskalign.pipeline import model_of
from riskalign.smoothing import Tuning, choose_smoother


def state_of(data, notion, loss="l2"):
    """The case of some data, and the model of its default estimate."""
    sample = as_sample(data.y_true, data.y_prob)
    case = sketched_case(sample, notion, loss, "exact", weighted=False)
    method = KernelSmoother()
    return case, model_of(case, method, method.outcome(case, "exact", False), "exact")


@pytest.mark.parametrize("n", [2, 30, 300])
def test_the_narrowest_kernel_rests_on_enough_samples(n):
    data = ra.datasets.temperature(n, 3, seed=0)
    case, model = state_of(data, "classwise")
    smoother = choose_smoother(case.problems, model.kernel, "exact")
    for k, tuning in enumerate(fine_tunings(case.problems, model)):
        assert tuning.flattening == model.tunings[k].best.flattening
        if n == 2:  # nothing is narrow enough
            assert tuning.bandwidth == 0.2
            continue
        narrower = Tuning(tuning.bandwidth / 2, tuning.flattening)
        for each, enough in ((tuning, True), (narrower, False)):
            ones = np.ones((n, 1))
            share, s = smoother.with_squares({k: ones}, each)[k]  # weights sum to their share
            assert (np.mean(s / share[:, 0] ** 2) <= 1 / NEIGHBOURS) == enough


@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_the_bound_is_the_upper_end_at_the_narrowest_kernel(notion):
    data = ra.datasets.wavy(200, 3, seed=1)
    options = {"confidence": 0.9, "engine": "exact", "seed": 3, "progress": False}
    result = ra.calibration_error(data.y_true, data.y_prob, notion=notion, **options)
    seen = "classwise" if notion == "canonical" else notion
    case, model = state_of(data, seen)
    if notion == "canonical":  # the coordinates are those of the joint estimate
        (weighted,) = state_of(data, notion)[1].tunings
        model = type(model)(**vars(model) | {"tunings": [weighted] * 3})
    model = type(model)(**vars(model) | {"mixtures": ()})  # kernels alone
    fine = fine_tunings(case.problems, model)
    given = [WeightedTunings.given(tuning) for tuning in fine]
    estimates = debiased(case.problems, model.kernel, "exact", model.start, fine)
    chance = Chance.of(type(model)(**vars(model) | {"tunings": given}), estimates, 200, 3)
    _, end = chance.interval(sum(each.mean(each.terms) for each in estimates), 0.9)
    high = result.interval[1]
    expected = high + end if notion == "canonical" else max(high, end)
    assert result.upper_bound == pytest.approx(expected, rel=1e-9)
    assert result.upper_bound >= high


@pytest.mark.parametrize(("notion", "n_classes"), [("classwise", 3), ("canonical", 4)])
def test_bounds_of_rough_miscalibration_hold(notion, n_classes):
    """Each of 8; intervals, most of them."""
    truth = ra.datasets.wavy(20_000, n_classes, seed=9).truth(notion, "l2", given="marginal")
    missed = []
    for seed in range(8):
        data = ra.datasets.wavy(400, n_classes, seed=seed)
        result = ra.calibration_error(data.y_true, data.y_prob, notion=notion, confidence=0.95)
        assert result.upper_bound >= truth
        assert result.upper_bound < 8 * truth
        missed.append(result.interval[1] < truth)
    assert np.mean(missed) < 0.3


def test_bounds_are_for_intervals_and_are_stored_once_computed():
    data = ra.datasets.calibrated(100, 2, seed=0)
    assert ra.calibration_error(data.y_true, data.y_prob).upper_bound is None
    result = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95)
    assert pickle.loads(pickle.dumps(result)).upper_bound is None
    bound = result.upper_bound
    assert pickle.loads(pickle.dumps(result)).upper_bound == bound > 0
