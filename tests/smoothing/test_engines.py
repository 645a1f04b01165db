"""The fast engines against exact sums of labels, and bandwidths that share exponentials."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import riskalign as ra
from riskalign.bandwidth import search
from riskalign.bandwidth.minimum import lattice_of
from riskalign.data.notions import NOTIONS
from riskalign.data.validation import as_sample
from riskalign.equations.kernels import DIRICHLET, RBF
from riskalign.equations.losses import KL, L2
from riskalign.equations.problem import Problem
from riskalign.equations.terms import decompose
from riskalign.smoothing import Tuning
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.grid import GridSmoother
from riskalign.smoothing.tiles import Centres

DATA = os.environ.get("RISKALIGN_DATA")
FILES = ["precip_niamey_ENS", "hpc_cv_lda", "imdb_cleanlab", "cifar100_cleanlab"]
LIMITS = {"R": (1e-4, 1e-6), "l2": (1e-6, 1e-6), "kl": (1e-5, 1e-5)}
"""What must hold below h = 1e-3, and from there up; errors relative to the risk."""


def problem(n, n_classes, seed=0):
    data = ra.datasets.temperature(n, n_classes, seed=seed)
    return Problem("all", data.y_prob, data.y_true, np.ones(n), L2)


def binary(n, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.beta(1, 3, n)
    return Problem("one", p, (generator.random(n) < p).astype(int), np.ones(n), L2.binary)


def asked(*bandwidths):
    """Requests of the first problem at some bandwidths."""
    return [(0, Tuning(h)) for h in bandwidths]


def everything(smoother, requests, rows=None):
    parts = {i: [] for i in range(len(requests))}
    for i, _, average in smoother.each(requests, lambda k, rows: lambda average: average, rows):
        parts[i].append(average)
    return [
        (
            np.concatenate([a.mean for a in parts[i]]),
            np.concatenate([a.log_density for a in parts[i]]),
        )
        for i in range(len(requests))
    ]


def check_shared(case, kernel, requests, values=None):
    """Bandwidths smoothed together in float32 against each of them alone in float64."""
    shared = DenseSmoother([case], kernel, single=True)
    exact = DenseSmoother([case], kernel)
    for request, (mean, log_density) in zip(requests, everything(shared, requests), strict=True):
        ((alone, log_alone),) = everything(exact, [request])
        np.testing.assert_allclose(mean, alone, rtol=0, atol=2e-6)
        np.testing.assert_allclose(log_density, log_alone, rtol=1e-6, atol=2e-6)
    if values is None:
        return
    bandwidths, rows = [tuning.bandwidth for _, tuning in requests], np.arange(len(case.labels))
    together = Centres(case, kernel, values, bandwidths, np.float32).averages(case.points, rows)
    for h, average in zip(bandwidths, together, strict=True):
        (alone,) = Centres(case, kernel, values, [h], np.float64).averages(case.points, rows)
        np.testing.assert_allclose(average.mean, alone.mean, rtol=0, atol=2e-6)
        np.testing.assert_allclose(average.log_density, alone.log_density, rtol=1e-6, atol=2e-6)


def differences(case, fast, h, rows):
    """Largest difference of R, and differences of both errors over the risk."""
    exact = DenseSmoother([case], DIRICHLET)
    ((R_fast, _),), ((R_exact, _),) = (everything(each, asked(h), rows) for each in (fast, exact))
    part = case.take(rows)
    result = {"R": np.abs(R_fast - R_exact).max()}
    for name, loss in (("l2", L2.binary if case.one_dimensional else L2), ("kl", KL)):
        terms = [decompose(loss, part.points, part.labels, R) for R in (R_fast, R_exact)]
        risk = max(terms[1].risk.mean(), np.finfo(float).tiny)
        gaps = [
            abs(getattr(terms[0], of).mean() - getattr(terms[1], of).mean())
            for of in ("plugin", "variational", "cross")
        ]
        result[name] = max(gaps) / risk
    return result


def check_limits(case, n_rows, bandwidths=(1e-4, 1e-3, 1e-2, 0.1, 0.3)):
    """The fast engine of a problem against exact sums on some rows, positives among them."""
    generator, n = np.random.default_rng(0), len(case.labels)
    rare = np.flatnonzero(case.labels)[: n_rows // 2] if case.one_dimensional else []
    others = generator.choice(n, min(n_rows, n), replace=False)
    rows = np.unique(np.concatenate([rare, others]).astype(np.intp))
    engine = GridSmoother if case.one_dimensional else DenseSmoother
    fast = engine([case], DIRICHLET, **({} if case.one_dimensional else {"single": True}))
    for h in bandwidths:
        if not case.one_dimensional and h < 1e-3:
            continue
        found = differences(case, fast, h, rows)
        for name, limits in LIMITS.items():
            assert found[name] <= limits[int(h >= 1e-3)], (name, h)


def synthetic(n):
    """Spread-out, peaked, tied predictions and predictions with exact zeros and ones."""
    generator = np.random.default_rng(1)
    spread = generator.beta(1, 3, n)
    ends = np.where(generator.random(n) < 0.3, generator.integers(0, 2, n), spread)
    peaked = expit(generator.normal(-6, 4, n))
    for p in (spread, peaked, ends, np.round(spread, 2)):
        labels = (generator.random(n) < p**0.8).astype(np.intp)
        yield Problem("one", p, labels, np.ones(n), L2.binary)


@pytest.mark.parametrize("n", [2, 10, 2_000])
def test_grid_is_within_its_limits_on_hard_predictions(n):
    for case in synthetic(n):
        check_limits(case, 400)


@pytest.mark.skipif(DATA is None, reason="RISKALIGN_DATA is not set")
@pytest.mark.parametrize("name", FILES)
def test_engines_are_within_their_limits_on_real_predictions(name):
    with np.load(Path(DATA) / f"{name}.npz", allow_pickle=False) as data:
        labels = data["labels"].astype(np.intp)
        if "confidence" in data:
            notions, sample = ["binary"], as_sample(data["pred"] == labels, data["confidence"])
        else:
            logits = "logits" in data
            sample = as_sample(labels, data["logits" if logits else "probs"], from_logits=logits)
            notions = ["classwise", "top-label", "canonical"]
    for notion in notions:
        problems = NOTIONS[notion].problems(sample, L2)
        chosen = np.random.default_rng(0).choice(len(problems), min(3, len(problems)), False)
        for k in chosen.tolist():
            check_limits(problems[k], 100)


@pytest.mark.parametrize("kernel", [DIRICHLET, RBF], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("n_classes", [3, 10])
def test_bandwidths_that_share_exponentials_give_the_sums_of_their_own(kernel, n_classes):
    case = problem(300, n_classes)
    case = replace(case, weights=np.r_[0.0, np.linspace(0.5, 2, 299)])
    low, high = kernel.bandwidth_range(n_classes)
    requests = asked(*lattice_of(low, high).tolist())
    check_shared(case, kernel, requests, np.sin(9 * case.points))


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("n_classes", [10, 60, 150])
def test_bandwidths_share_exponentials_where_tilts_are_large(n_classes, step):
    """Peaked predictions tilt by a hundred nats between narrow bandwidths."""
    data = ra.datasets.peaked(200, n_classes, seed=0)
    case = Problem("all", data.y_prob, data.y_true, np.ones(200), L2)
    requests = asked(*lattice_of(1e-3, 1.0)[::step].tolist())
    check_shared(case, DIRICHLET, requests)


def test_far_off_samples_of_small_weight_are_not_lost_between_bandwidths():
    """Two close samples of tiny weight against thousands far away: a tilt of 84 nats."""
    narrow, wide = 0.01, 0.0305
    share = (narrow / wide) ** 2
    nats = 84.5 / (1 - share)
    distance = narrow * np.sqrt(2 * (104.3 / share + nats))
    p = np.r_[0.1, 0.1, np.full(4500, 0.1 + distance / np.sqrt(2))]
    weights = np.r_[np.exp([-nats, -nats]), np.ones(4500)]
    labels = np.r_[0, 0, np.ones(4500, dtype=int)]
    case = Problem("one", np.stack([1 - p, p], axis=1), labels, weights, L2)
    requests, rows = asked(narrow, wide), np.array([0, 1])
    shared = everything(DenseSmoother([case], RBF, single=True), requests, rows)
    exact = everything(DenseSmoother([case], RBF), requests, rows)
    for (mean, _), (alone, _) in zip(shared, exact, strict=True):
        np.testing.assert_allclose(mean, alone, rtol=0, atol=1e-6)


def test_large_values_do_not_overflow():
    case = problem(50, 4)
    tunings = [Tuning(0.1), Tuning(0.2), Tuning(0.4)]
    large = {0: 1e9 * (case.one_hot() - case.points)}
    for mean, exact in zip(
        DenseSmoother([case], DIRICHLET, single=True).averages(large, tunings),
        DenseSmoother([case], DIRICHLET).averages(large, tunings),
        strict=True,
    ):
        np.testing.assert_allclose(mean[0], exact[0], rtol=1e-4, atol=1e3)


def test_densities_do_not_depend_on_the_unit_of_the_weights():
    case = replace(binary(3), predictions=np.array([[1, 0], [0.3, 0.7], [0.3, 0.7]]))
    requests = asked(0.05)
    ((_, one),) = everything(DenseSmoother([case], RBF), requests)
    heavy = replace(case, weights=np.full(3, 1e200))
    ((_, other),) = everything(DenseSmoother([heavy], RBF), requests)
    np.testing.assert_allclose(other, one, rtol=1e-9)


def test_precision_is_that_of_the_narrowest_bandwidth_of_a_family():
    case = problem(300, 200)
    requests = asked(0.2, 0.15, 0.1)
    shared = DenseSmoother([case], DIRICHLET, single=True)
    ((alone, _),) = everything(DenseSmoother([case], DIRICHLET), requests[2:])
    np.testing.assert_allclose(everything(shared, requests)[2][0], alone, rtol=0, atol=1e-6)


def test_no_rows_give_no_averages():
    smoother = DenseSmoother([problem(30, 4)], DIRICHLET)
    none = np.empty(0, dtype=np.intp)
    assert not list(smoother.each(asked(0.1), lambda k, rows: lambda average: average, none))


def test_bandwidths_of_the_search_share_products_and_exponentials():
    case = problem(50, 4)
    lattice = lattice_of(1e-3, 1.0).tolist()

    def families(bandwidths):
        return Centres(case, DIRICHLET, case.one_hot(), bandwidths, np.float32)._families

    (octaves,) = families(lattice[::2])
    assert len(octaves.chains) <= len(lattice[::2]) / 2 + 1
    assert sorted(step.position for step in octaves.steps) == list(range(len(lattice[::2])))
    for i in range(1, 18):  # a bandwidth of the lattice and its neighbours
        (family,) = families(lattice[i - 1 : i + 2])
        (chain,) = family.chains
        assert [power for power, _ in chain.members] == [[3, 4, 6], [2, 3, 4]][i % 2 == 0]


def test_bandwidths_with_large_tilts_share_the_product_alone():
    case = problem(120, 150)
    certain, open_minded = np.eye(150)[case.labels[:40]], np.full((40, 150), 1 / 150)
    predictions = np.concatenate([certain, open_minded, case.predictions[80:]])
    case = replace(case, predictions=predictions)
    lattice = lattice_of(1e-3, 1.0).tolist()
    centres = Centres(case, DIRICHLET, case.one_hot(), lattice, np.float32)
    assert len(centres._families) > 1
    check_shared(case, DIRICHLET, asked(*lattice))


def test_grid_evaluates_new_points_as_exact_sums_do():
    case = binary(3_000)
    grid = GridSmoother([case], DIRICHLET)
    exact = DenseSmoother([case], DIRICHLET)
    p = np.r_[0.0, 1e-12, 0.01, np.linspace(0, 1, 40), 1.0]
    points = np.stack([1 - p, p], axis=1)
    for h in (5e-5, 1e-3, 0.05):  # the first is below what the nodes resolve
        fast, slow = (each.at((0, Tuning(h)), points) for each in (grid, exact))
        np.testing.assert_allclose(fast.mean, slow.mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(fast.log_density, slow.log_density, rtol=0, atol=1e-5)


def test_kept_weights_are_those_of_the_rows_asked_for():
    case = binary(1_500)
    grid = GridSmoother([case], DIRICHLET)
    ((whole, _),) = everything(grid, asked(0.01))
    scattered = np.r_[0, np.sort(np.random.default_rng(0).choice(np.arange(1, 1_500), 700, False))]
    for rows in (np.arange(701), scattered):  # same first row, same number
        ((some, _),) = everything(grid, asked(0.01), rows)
        np.testing.assert_array_equal(some, whole[rows])


def test_grid_averages_stay_within_their_values():
    case = binary(2_000)
    for h in (1e-4, 1e-2):
        ((mean, _),) = everything(GridSmoother([case], DIRICHLET), asked(h))
        assert mean.min() >= 0
        assert mean.max() <= 1


@pytest.mark.parametrize(("notion", "n"), [("classwise", 6_000), ("canonical", 1_500)])
def test_a_search_that_brackets_on_some_rows_ends_at_the_minimum_over_all(notion, n):
    data = ra.datasets.temperature(n, 3, t2=0.6, seed=2)
    low, high = DIRICHLET.bandwidth_range(2 if notion == "classwise" else 3)
    found = ra.select_bandwidth(data.y_true, data.y_prob, notion=notion)
    fine = ra.select_bandwidth(
        data.y_true, data.y_prob, notion=notion, candidates=np.geomspace(low, high, 150)
    )
    at_found = ra.select_bandwidth(
        data.y_true, data.y_prob, notion=notion, candidates=np.unique(found.values)
    )
    for curve, best, reached in zip(found.curves, fine.curves, at_found.curves, strict=True):
        objective = reached.objective[list(reached.candidates).index(curve.value)]
        assert objective <= best.objective.min() * (1 + 1e-4)
        assert curve.value in curve.candidates


def test_exact_sums_decide_between_candidates_that_the_grid_cannot_tell_apart(monkeypatch):
    data = ra.datasets.temperature(1_500, 2, seed=0)
    y, p = data.y_true, data.y_prob[:, 1]
    close = 0.01 * (1 + 1e-9 * np.arange(4))
    exact = ra.select_bandwidth(y, p, candidates=close, engine="exact")
    settled = ra.select_bandwidth(y, p, candidates=close, engine="grid")
    np.testing.assert_allclose(settled.objective, exact.objective, rtol=1e-13)
    monkeypatch.setattr(search, "AFFORDABLE", 0)
    unsettled = ra.select_bandwidth(y, p, candidates=close, engine="grid")
    assert np.abs(unsettled.objective / exact.objective - 1).max() > 1e-13


def test_a_probability_above_one_by_rounding_counts_as_one():
    generator = np.random.default_rng(0)
    p = generator.random(200)
    f = np.stack([1 - p, p], axis=1)
    f[:5] = [0.0, 1.00002]
    rounded = f.copy()
    rounded[:5] = [0.0, 1.0]
    y = (generator.random(200) < p).astype(int)
    for notion in ("binary", "classwise", "top-label"):
        values = [
            ra.calibration_error(y, g, notion=notion, estimator="plugin", bandwidth=0.01).value
            for g in (f, rounded)
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-12)  # rows come in another order
