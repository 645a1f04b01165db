"""The search for a bandwidth: exact over candidates, close to it over a range."""

import sys

import numpy as np
import oracle
import pytest
from cases import CRITERIA, HARD, ordinary
from hypothesis import given
from hypothesis import strategies as st

import riskalign as ra

CASE = ordinary(40, 3, seed=8)
PAPER_ONE = np.concatenate([np.geomspace(1e-4, 1e-1, 60), np.linspace(0.1, 0.2, 10)])
PAPER_SIMPLEX = np.concatenate(
    [
        np.geomspace(1e-3, 1e-2, 20),
        np.geomspace(1e-2, 1e-1, 40),
        np.geomspace(1e-1, 10**-0.7, 30),
        np.linspace(0.2, 1, 40),
    ]
)


def search(case=CASE, **options):
    return ra.select_bandwidth(case.y, case.f, **({"notion": "canonical"} | options))


# Over candidates.


@given(st.lists(st.floats(1e-4, 1), min_size=1, max_size=8), st.sampled_from(CRITERIA))
def test_the_minimum_over_candidates_is_exact(candidates, criterion):
    case = HARD["rows off by 5e-4"]
    found = search(case, candidates=candidates, criterion=criterion, engine="exact")
    y, f, weights = case.plain
    distinct = sorted(set(candidates))
    objective = [
        oracle.objective((f, y), weights, oracle.brier, "dirichlet", h, criterion) for h in distinct
    ]
    assert found.candidates.tolist() == distinct
    np.testing.assert_allclose(found.objective, objective, rtol=1e-9, atol=1e-9)
    assert objective[distinct.index(found.value)] == pytest.approx(min(objective), abs=1e-9)


def test_candidates_may_come_in_any_order():
    found = search(candidates=[0.3, 0.01, 0.1, 0.01])
    assert found.candidates.tolist() == [0.01, 0.1, 0.3]


def test_one_candidate_is_no_edge():
    found = search(candidates=0.07)
    assert (found.value, found.at_edge) == (0.07, False)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_edge_is_told(criterion):
    full = search(criterion=criterion, candidates=PAPER_SIMPLEX)
    place = int(np.flatnonzero(full.candidates == full.value)[0])
    assert 0 < place < len(full.candidates) - 1
    assert full.at_edge is False
    below = search(criterion=criterion, candidates=full.candidates[: place + 1])
    above = search(criterion=criterion, candidates=full.candidates[place:])
    assert (below.value, below.at_edge) == (full.value, True)
    assert (above.value, above.at_edge) == (full.value, True)


@pytest.mark.parametrize("engine", ["exact", "grid"])
@pytest.mark.parametrize("candidates", [None, [0.001, 0.02, 0.05]])
@pytest.mark.parametrize("criterion", ["risk-alignment", "cross-validation"])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_a_flat_objective_goes_to_the_larger_bandwidth(loss, criterion, candidates, engine):
    """Without positives R is 0 = y at any bandwidth: nothing to choose, and no edge."""
    f = np.random.default_rng(0).beta(1, 4, 300)
    found = ra.select_bandwidth(
        np.zeros(300, int), f, loss=loss, criterion=criterion, candidates=candidates, engine=engine
    )
    assert found.value == pytest.approx(found.candidates.max())
    assert found.value == pytest.approx(0.2 if candidates is None else 0.05)
    assert found.at_edge is False


@pytest.mark.parametrize("name", ["all predictions equal", "two samples", "two equal samples"])
def test_samples_that_cannot_tell_bandwidths_apart(name):
    case = HARD[name]
    found = search(case, candidates=[0.01, 0.1, 0.3], engine="exact")
    assert (found.value, found.at_edge) == (0.3, False)
    assert search(case, engine="exact").value == pytest.approx(1.0 if case.n_classes > 2 else 0.2)


def test_equal_minima_go_to_the_larger_bandwidth():
    """Far clusters of one label each: R is right at every small bandwidth, and blurred at 0.5."""
    f = np.array([[0.9, 0.05, 0.05]] * 4 + [[0.05, 0.05, 0.9]] * 4)
    y = np.array([0, 0, 0, 0, 2, 2, 2, 2])
    found = ra.select_bandwidth(
        y, f, notion="canonical", candidates=[1e-3, 2e-3, 3e-3, 0.5], engine="exact"
    )
    np.testing.assert_allclose(found.objective[:3], 0, atol=1e-12)
    assert found.objective[3] > 1e-3
    assert (found.value, found.at_edge) == (3e-3, False)


# The paper's candidates.


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise"])
def test_the_candidates_of_the_paper_for_one_probability(notion):
    case = ordinary(12, 2)
    found = search(case, notion=notion, candidates="paper")
    for candidates in (curve.candidates for curve in found.curves):
        np.testing.assert_allclose(candidates, np.unique(PAPER_ONE), rtol=1e-12)
        assert len(candidates) == 69  # 60 + 10, and both hold 0.1


def test_the_candidates_of_the_paper_for_the_simplex():
    found = search(candidates="paper")
    for h in PAPER_SIMPLEX:
        assert np.min(np.abs(found.candidates / h - 1)) < 1e-12
    assert (np.diff(found.candidates) > 0).all()
    assert found.candidates[[0, -1]].tolist() == pytest.approx([1e-3, 1])
    assert len(found.candidates) in (128, 130)  # 20 + 40 + 30 + 40, ends shared or not


# Over a range.

RANGES = {
    ("dirichlet", "classwise"): (1e-4, 0.2),
    ("dirichlet", "canonical"): (1e-3, 1.0),
    ("rbf", "classwise"): (0.005, 2.0),
    ("rbf", "canonical"): (0.005, 2.0),
}


@pytest.mark.parametrize("n", [60, 300, 1200])
@pytest.mark.parametrize("sharpness", [1.5, 8])
@pytest.mark.parametrize(("kernel", "notion"), RANGES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_continuous_search_is_close_to_a_fine_one(criterion, kernel, notion, sharpness, n):
    if notion == "canonical" and n > 300:
        n = 600  # more rows than bracket the minimum, few enough to look at every candidate
    case = ordinary(n, 3, seed=n, sharpness=sharpness)
    options = {"notion": notion, "kernel": kernel, "criterion": criterion, "loss": "kl"}
    found = search(case, **options)
    low, high = RANGES[kernel, notion]
    assert (found.values >= low).all()
    assert (found.values <= high).all()
    candidates = np.concatenate([np.geomspace(low, high, 30), found.values])
    fine = search(case, candidates=candidates, **options)
    for one, other in zip(found.curves, fine.curves, strict=True):
        lowest = other.objective.min()
        excess = other.objective[other.candidates == one.value][0] - lowest
        # likelihoods have no natural zero: a hundredth of a nat a sample instead of percents
        assert excess <= (0.01 * n if criterion == "likelihood" else 0.02 * lowest)


@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_the_curve_of_a_continuous_search(notion):
    found = search(notion=notion)
    low, high = RANGES["dirichlet", notion]
    for curve in found.curves:
        assert (np.diff(curve.candidates) > 0).all()
        assert curve.candidates[0] == pytest.approx(low, rel=0.01)
        assert curve.candidates[-1] == pytest.approx(high, rel=0.01)
        assert curve.objective.shape == curve.candidates.shape
        assert np.isfinite(curve.objective).all()
        assert curve.value in curve.candidates
        chosen = curve.objective[curve.candidates == curve.value][0]
        assert chosen == pytest.approx(curve.objective.min(), rel=1e-6)


def test_a_continuous_search_tells_its_edge():
    """Labels that ignore the prediction: the widest kernel is the best."""
    rng = np.random.default_rng(0)
    f = rng.random(400)
    found = ra.select_bandwidth(
        rng.permutation(np.arange(400) % 2), f, criterion="cross-validation"
    )
    assert found.value == pytest.approx(0.2)
    assert found.at_edge is True
    # labels that alternate between two points a hair apart: the narrowest is
    f = np.tile([0.499, 0.501], 200)
    found = ra.select_bandwidth(np.tile([0, 1], 200), f, criterion="cross-validation")
    assert found.value == pytest.approx(1e-4, rel=0.01)
    assert found.at_edge is True


def test_the_search_repeats_itself():
    case = ordinary(1500, 3, seed=1)
    one, other = (search(case, notion="classwise") for _ in range(2))
    assert one.values.tolist() == other.values.tolist()
    assert [c.objective.tolist() for c in one.curves] == [
        c.objective.tolist() for c in other.curves
    ]


# The likelihood.


def test_a_likelihood_that_is_negative_everywhere():
    """Far from all others the log-likelihood is below zero at any bandwidth: no sentinel."""
    f = np.array([0.01, 0.5, 0.99])
    candidates = np.geomspace(1e-4, 0.2, 30)
    found = ra.select_bandwidth(
        [0, 1, 1], f, criterion="likelihood", candidates=candidates, engine="exact"
    )
    assert (found.objective > 0).all()  # minus the log-likelihood
    assert found.value in candidates
    assert found.objective.min() == found.objective[candidates == found.value]
    result = ra.calibration_error([0, 1, 1], f, bandwidth="likelihood", estimator="plugin")
    assert result.bandwidth > 0
    assert np.isfinite(result.value)


def test_the_likelihood_does_not_see_labels_or_loss():
    one = search(criterion="likelihood", loss="l2", candidates=PAPER_SIMPLEX)
    shuffled = ordinary(40, 3, seed=8)
    other = ra.select_bandwidth(
        np.roll(shuffled.y, 7),
        shuffled.f,
        notion="canonical",
        loss="kl",
        criterion="likelihood",
        candidates=PAPER_SIMPLEX,
    )
    np.testing.assert_allclose(other.objective, one.objective, rtol=1e-12)


# What a search is.


@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_a_search_can_be_passed_on(notion):
    for candidates in (None, [0.01, 0.03, 0.1]):
        found = search(notion=notion, loss="kl", candidates=candidates)
        options = {"notion": notion, "loss": "kl", "estimator": "plugin"}
        passed = ra.calibration_error(CASE.y, CASE.f, bandwidth=found, **options)
        at_once = ra.calibration_error(
            CASE.y, CASE.f, bandwidth="risk-alignment", candidates=candidates, **options
        )
        assert passed.search is found
        np.testing.assert_array_equal(passed.bandwidth, found.value)
        np.testing.assert_array_equal(passed.bandwidth, at_once.bandwidth)
        assert passed.value == at_once.value


def test_classwise_searches_hold_an_entry_a_class():
    found = search(notion="classwise", candidates=[0.01, 0.1])
    assert found.value.shape == found.at_edge.shape == (3,)
    assert found.at_edge.dtype == bool
    assert len(found.candidates) == len(found.objective) == 3
    assert [len(objective) for objective in found.objective] == [2, 2, 2]
    assert [curve.name for curve in found.curves] == ["0", "1", "2"]


def test_other_searches_hold_the_entry_itself():
    found = search(candidates=[0.01, 0.1])
    assert isinstance(found.value, float)
    assert isinstance(found.at_edge, bool)
    assert found.candidates.shape == found.objective.shape == (2,)
    assert found.criterion == "risk-alignment"


def test_each_class_is_searched_on_its_own():
    found = search(notion="classwise", candidates=PAPER_ONE)
    for k in range(3):
        alone = ra.select_bandwidth((CASE.y == k).astype(int), CASE.f[:, k], candidates=PAPER_ONE)
        assert alone.value == found.value[k]
        np.testing.assert_allclose(alone.objective, found.objective[k], rtol=1e-12)


# Progress.


def test_progress_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"`progress=True`.*riskalign\[progress\]"):
        search(candidates=[0.1, 0.2], progress=True)
    assert search(candidates=[0.1, 0.2]).value in (0.1, 0.2)


@pytest.mark.parametrize("progress", [True, False])
def test_progress_changes_no_number(progress, capsys):
    candidates = [0.01, 0.1, 0.2]
    shown = search(candidates=candidates, progress=progress)
    assert shown.objective.tolist() == search(candidates=candidates).objective.tolist()
    assert capsys.readouterr().out == ""
