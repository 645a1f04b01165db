"""Exact sums over pairs of labels: any tiling, any rows, and float32 exponentials."""

import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import oracle
import pytest
from cases import CANDIDATES, HARD, ordinary, samples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle_debiased import flattened

from riskalign.equations.kernels import DIRICHLET, KERNELS
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.smoothing import Tuning, choose_smoother, sums, tiles
from riskalign.smoothing.dense import DenseSmoother
from riskalign.smoothing.tiles import Centres

FACTORS = (1, 4 / 3, 2, 8 / 3, 4, 10, 20, 80, 100, 200, 800, 1000)
"""Ratios of bandwidths, simple ones among them: engines may derive one from another."""


def problem(case):
    weights = np.ones(len(case.y)) if case.weights is None else np.asarray(case.weights, float)
    return Problem("all", case.f.astype(np.float64), case.y.astype(np.intp), weights, L2)


def as_it_is(number, rows):
    """A reader that keeps the averages themselves."""
    return lambda average: average


def asked(number, *bandwidths):
    """Requests of one problem at some bandwidths."""
    return [(number, Tuning(h)) for h in bandwidths]


def gather(smoother, requests, n, rows=None):
    """Means and log densities of every request, put together from the tiles."""
    d = None
    found = {}
    for i, own, average in smoother.each(requests, as_it_is, rows):
        if d is None:
            d = average.mean.shape[1]
        mean, log_density = found.setdefault(i, (np.full((n, d), np.nan), np.full(n, np.nan)))
        assert np.isnan(log_density[own]).all(), "a row came twice"
        mean[own], log_density[own] = average.mean, average.log_density
    return [found[i] for i in range(len(requests))]


@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("name", HARD)
def test_averages_equal_the_oracle(name, kernel):
    case = HARD[name]
    y, f, weights = case.plain
    smoother = choose_smoother([problem(case)], KERNELS[kernel], "exact")
    requests = asked(0, *CANDIDATES[kernel])
    for (_, tuning), (mean, log_density) in zip(
        requests, gather(smoother, requests, len(y)), strict=True
    ):
        expected = oracle.leave_one_out(f, y, weights, kernel, tuning.bandwidth)
        np.testing.assert_allclose(mean, [R for R, _ in expected], atol=1e-9)
        np.testing.assert_allclose(
            log_density, [density for _, density in expected], rtol=1e-9, atol=1e-9
        )


def test_requests_may_mix_problems_and_tunings():
    cases = [ordinary(11, 3, seed=1), ordinary(11, 3, seed=2)]
    both = choose_smoother([problem(case) for case in cases], KERNELS["dirichlet"], "exact")
    wanted = [(1, 0.1, 1.0), (0, 0.02, 0.5), (1, 0.02, 0.25), (0, 0.1, 1.0), (0, 0.1, 0.5)]
    requests = [(number, Tuning(h, tau)) for number, h, tau in wanted]
    for (number, h, tau), (mean, _) in zip(wanted, gather(both, requests, 11), strict=True):
        y, f, weights = cases[number].plain
        x = tuple(flattened(point, tau) for point in f)
        expected = [R for R, _ in oracle.leave_one_out(x, y, weights, "dirichlet", h)]
        np.testing.assert_allclose(mean, expected, atol=1e-9)


def test_some_rows_are_averaged_over_all_others():
    case = ordinary(11, 3)
    smoother = choose_smoother([problem(case)], KERNELS["dirichlet"], "exact")
    rows = np.array([7, 2, 3])
    ((all_rows, _),) = gather(smoother, asked(0, 0.05), 11)
    ((some, _),) = gather(smoother, asked(0, 0.05), 11, rows)
    np.testing.assert_allclose(some[rows], all_rows[rows], atol=1e-12)
    assert np.isnan(np.delete(some, rows, axis=0)).all()


def test_the_reader_is_told_the_problem_and_the_rows():
    cases = [ordinary(5, 3, seed=1), ordinary(5, 3, seed=2)]
    smoother = choose_smoother([problem(case) for case in cases], KERNELS["rbf"], "exact")

    def told(number, own):
        return lambda average: (number, own.tolist())

    seen = list(smoother.each(asked(1, 0.1) + asked(0, 0.3), told))
    assert sorted(i for i, _, _ in seen) == [0, 1]
    for i, own, (number, told) in seen:
        assert number == (1, 0)[i]
        assert told == own.tolist() == [0, 1, 2, 3, 4]


def unbalanced(n, n_classes):
    """Classes of all sizes, one of them empty and one a single sample, and weights of zero."""
    generator = np.random.default_rng(3)
    share = np.r_[0.0, 0.0, 2.0 ** np.arange(n_classes - 2)]
    y = generator.choice(n_classes, n, p=share / share.sum())
    y[7] = 1
    f = generator.dirichlet(np.ones(n_classes), n)
    weights = generator.integers(0, 3, n).astype(float)
    return Problem("all", f, y, weights, L2)


@pytest.mark.parametrize(("n", "n_classes"), [(40, 4), (900, 4), (3_000, 7), (3_000, 300)])
def test_sums_of_labels_are_those_of_their_columns(n, n_classes):
    case = unbalanced(n, n_classes) if n_classes < 300 else problem(ordinary(n, n_classes))
    rows = np.arange(0, n, 7)

    def averages(values):
        centres = Centres(case, DIRICHLET, values, [0.004, 0.05, 0.8], np.float64)
        return centres.averages(case.points[rows], rows)

    labels, columns = averages(case.one_hot()), averages(2 * case.one_hot())
    for one, other in zip(labels, columns, strict=True):
        np.testing.assert_allclose(2 * one.mean, other.mean, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(one.log_density, other.log_density, rtol=1e-12, atol=1e-12)


def test_large_classes_are_summed_in_parts_and_small_ones_one_by_one():
    case = unbalanced(900, 4)
    assert sums.by_class(case.labels, np.flatnonzero(case.weights)).part > 1
    assert sums.by_class(np.repeat(np.arange(600), 5), np.arange(3000)).part == 1


@given(st.lists(st.integers(0, 5), max_size=400), st.data())
def test_classes_are_filled_up_to_whole_parts(labels, data):
    labels = np.repeat(np.array(labels, dtype=np.intp), 3)
    samples_ = np.flatnonzero(data.draw(arrays(np.bool_, len(labels))))
    order = sums.by_class(labels, samples_)
    assert sorted(order.samples[order.places].tolist()) == samples_.tolist()
    assert (np.diff(labels[order.samples]) >= 0).all()
    assert len(order.samples) % order.part == 0
    for part in labels[order.samples].reshape(-1, order.part):
        assert len(set(part.tolist())) == 1
    assert len(order.filling) == len(order.samples) - len(samples_)
    assert len(order.filling) <= sums.FILLED * len(samples_)


@given(samples(), st.integers(1, 40), st.integers(1, 80), st.sampled_from([1e-3, 0.05, 1.0]))
def test_the_size_of_tiles_and_blocks_does_not_matter(case, tile, block, h):
    smoother = DenseSmoother([problem(case)], DIRICHLET)
    request = (0, Tuning(h))
    ((mean, log_density),) = gather(smoother, [request], len(case.y))
    at = smoother.at(request, case.f)
    with mock.patch.object(tiles, "TILE", tile), mock.patch.object(tiles, "BLOCK", block):
        ((tiled, tiled_density),) = gather(smoother, [request], len(case.y))
        tiled_at = smoother.at(request, case.f)
    np.testing.assert_allclose(tiled, mean, atol=1e-12)
    np.testing.assert_allclose(tiled_density, log_density, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tiled_at.mean, at.mean, atol=1e-12)
    np.testing.assert_allclose(tiled_at.log_density, at.log_density, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("sharpness", "tolerance"),
    # Peaked predictions add hundreds of equal terms, which float32 rounds in step: a few times
    # 6e-8 sqrt(400) is what a sum over one block of a matrix product may lose.
    [(0.3, 1e-6), (2, 1e-6), (20, 5e-6)],
)
@pytest.mark.parametrize("kernel", CANDIDATES)
def test_float32_exponentials_cost_about_a_millionth(kernel, sharpness, tolerance):
    case = ordinary(300, 4, seed=6, sharpness=sharpness)
    lowest = 1e-3 if kernel == "dirichlet" else 0.005
    requests = asked(0, *(lowest * factor for factor in FACTORS))
    exact = DenseSmoother([problem(case)], KERNELS[kernel])
    single = DenseSmoother([problem(case)], KERNELS[kernel], single=True)
    for (mean, log_density), (mean32, log_density32) in zip(
        gather(exact, requests, 300), gather(single, requests, 300), strict=True
    ):
        np.testing.assert_allclose(mean32, mean, rtol=0, atol=tolerance)
        np.testing.assert_allclose(log_density32, log_density, rtol=0, atol=5 * tolerance)


@pytest.mark.parametrize("name", HARD)
def test_float32_exponentials_on_hard_inputs(name):
    case = HARD[name]
    requests = asked(0, *(1e-3 * factor for factor in FACTORS))
    exact = DenseSmoother([problem(case)], DIRICHLET)
    single = DenseSmoother([problem(case)], DIRICHLET, single=True)
    for (mean, _), (mean32, _) in zip(
        gather(exact, requests, len(case.y)), gather(single, requests, len(case.y)), strict=True
    ):
        np.testing.assert_allclose(mean32, mean, atol=1e-6)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak memory")
def test_twenty_thousand_samples_fit_in_a_gigabyte():
    """An n x n array of float32 alone would take 1.6 GB."""
    script = """
import re
from pathlib import Path
import riskalign as ra
data = ra.datasets.temperature(20_000, 10, seed=0)
options = {"notion": "canonical", "estimator": "plugin", "bandwidth": 0.05}
ra.calibration_error(data.y_true, data.y_prob, **options)
# Not resource.getrusage, whose peak is at least that of the process that started this one.
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1e6
