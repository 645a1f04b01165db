"""Masses on nodes against exact sums."""

import numpy as np
import pytest
from scipy.special import expit

import riskalign as ra
from riskalign.equations.kernels import DIRICHLET, KERNELS, RBF, SquaredKernel
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import FLATTENINGS, on_simplex, tempered
from riskalign.smoothing import Tuning, choose_smoother
from riskalign.smoothing.kernel_sums import kernel_sums, nodes_of, own_kernel

N = 600


def make(p, y=None, weights=None, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(len(p)) < p**1.3).astype(np.intp) if y is None else np.asarray(y, np.intp)
    weights = np.ones(len(p)) if weights is None else np.asarray(weights, float)
    return Problem("p", np.asarray(p, float), y, weights, L2)


def _problems():
    rng = np.random.default_rng(11)
    beta = rng.beta(1, 3, N)
    rare = expit(rng.normal(-6, 4, N))
    single = np.zeros(N, dtype=int)
    single[np.argmax(rare)] = 1
    ends = np.concatenate([beta[:200], np.zeros(50), np.ones(50), [1e-12, 1 - 1e-12, 0.5]])
    yield "beta(1, 3)", make(beta)
    yield "logit-normal(-6, 4)", make(rare)
    yield "its mirror image", make(1 - rare)
    yield "beta(0.1, 0.1)", make(rng.beta(0.1, 0.1, N))
    yield "zeros and ones", make(ends)
    yield "zeros and ones, labels at random", make(ends, rng.integers(0, 2, len(ends)))
    yield "only zeros and ones", make(np.array([0.0, 1] * 20), np.array([0, 1, 1, 0] * 10))
    yield "ties", make(np.round(beta, 1))
    yield "all equal", make(np.full(50, 0.3))
    yield "two samples", make(np.array([0.2, 0.7]), [0, 1])
    yield "two samples at the ends", make(np.array([0.0, 1.0]), [1, 0])
    yield "two equal samples", make(np.array([0.2, 0.2]), [0, 1])
    yield "far from all others", make(np.array([0.001, 0.0011, 0.0012, 0.9]), [0, 1, 0, 1])
    yield "a single positive", make(rare, single)
    yield "no positive", make(beta, np.zeros(N))
    yield "weights", make(beta, weights=rng.exponential(size=N))
    yield "weights, most of them zero", make(rare, weights=(rng.random(N) < 0.1) * 3.0)
    yield "one heavy sample", make(beta, weights=np.where(np.arange(N) == 7, 500, 1))
    yield "float32", make(beta.astype(np.float32))


PROBLEMS = dict(_problems())


def as_it_is(number, rows):
    """A reader that keeps the averages themselves."""
    return lambda average: average


def both(problem, kernel, bandwidths, tau=1.0):
    """Averages of the labels by the grid and by exact sums, for each bandwidth."""
    requests = [(0, Tuning(h, tau)) for h in bandwidths]
    answers = []
    for engine in ("grid", "exact"):
        smoother = choose_smoother([problem], kernel, engine)
        parts = {i: [] for i in range(len(requests))}
        for i, own, average in smoother.each(requests, as_it_is):
            parts[i].append((own, average))
        answers.append([])
        for i in range(len(requests)):
            order = np.argsort(np.concatenate([own for own, _ in parts[i]]))
            mean = np.concatenate([average.mean for _, average in parts[i]])[order]
            density = np.concatenate([average.log_density for _, average in parts[i]])[order]
            answers[-1].append((mean, density))
    return zip(bandwidths, *answers, strict=True)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_grid_agrees_with_exact_sums(name):
    problem = PROBLEMS[name]
    for h, grid, exact in both(problem, DIRICHLET, [1e-4, 1.7e-4, 5e-4, 1e-3, 4e-3, 0.03, 0.2]):
        tolerance = 1e-4 if h < 1e-3 else 1e-6
        np.testing.assert_allclose(grid[0], exact[0], rtol=0, atol=tolerance, err_msg=f"{h}")
        np.testing.assert_allclose(grid[1], exact[1], rtol=0, atol=1e-3, err_msg=f"{h}")


@pytest.mark.parametrize("tau", FLATTENINGS[1:])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_grid_agrees_in_flattened_coordinates(name, tau):
    problem = PROBLEMS[name]
    for h, grid, exact in both(problem, DIRICHLET, [1e-4, 1e-3, 0.03, 0.2], tau):
        tolerance = 1e-4 if h < 1e-3 else 1e-6
        np.testing.assert_allclose(grid[0], exact[0], rtol=0, atol=tolerance, err_msg=f"{h}")
        np.testing.assert_allclose(grid[1], exact[1], rtol=0, atol=1e-3, err_msg=f"{h}")


@pytest.mark.parametrize("seed", range(16))
def test_the_grid_agrees_where_samples_are_sparse(seed):
    """Rows whose own term is most of what was interpolated: removing it magnifies errors."""
    rng = np.random.default_rng(seed)
    n = (5, 20, 60, 200)[seed % 4]
    for p in (rng.beta(1, 3, n), rng.beta(0.3, 0.3, n), expit(rng.normal(-6, 4, n))):
        for weights in (None, rng.exponential(size=n)):
            problem = make(p, weights=weights, seed=seed)
            for h, grid, exact in both(problem, DIRICHLET, [1e-4, 5e-4, 1e-3, 4e-3, 0.03]):
                tolerance = 1e-4 if h < 1e-3 else 1e-6
                np.testing.assert_allclose(grid[0], exact[0], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_grid_of_the_rbf_kernel_agrees_with_exact_sums(name):
    problem = PROBLEMS[name]
    for h, grid, exact in both(problem, RBF, [0.005, 0.02, 0.1, 0.5, 2.0]):
        np.testing.assert_allclose(grid[0], exact[0], rtol=0, atol=1e-4, err_msg=f"{h}")


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows_of_R_lie_on_the_simplex(name):
    for h, (R, _), _ in both(PROBLEMS[name], DIRICHLET, [1e-4, 1e-3, 0.03]):
        tolerance = 1e-4 if h < 1e-3 else 1e-6
        assert (-tolerance <= R).all()
        np.testing.assert_allclose(R.sum(axis=1), 1, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_bandwidths_below_the_resolution_are_summed_exactly(kernel):
    lowest = KERNELS[kernel].bandwidth_range(2)[0]
    for _, grid, exact in both(PROBLEMS["beta(1, 3)"], KERNELS[kernel], [lowest / 2, lowest / 30]):
        np.testing.assert_allclose(grid[0], exact[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(grid[1], exact[1], rtol=0, atol=1e-9)


def test_bandwidths_above_and_below_the_resolution_may_be_mixed():
    bandwidths = [0.1, 1e-5, 1e-3, 2e-5]
    for _, grid, exact in both(PROBLEMS["beta(1, 3)"], DIRICHLET, bandwidths):
        np.testing.assert_allclose(grid[0], exact[0], rtol=0, atol=1e-6)


def test_samples_that_come_in_many_chunks():
    rng = np.random.default_rng(5)
    problem = make(rng.beta(1, 3, 45_000), weights=rng.exponential(size=45_000))
    rows = rng.choice(45_000, 60, replace=False)
    for h in (1e-3, 0.05):
        found = []
        for engine in ("grid", "exact"):
            smoother = choose_smoother([problem], DIRICHLET, engine)
            averages = [a for _, _, a in smoother.each([(0, Tuning(h))], as_it_is, rows)]
            found.append(np.concatenate([a.mean[:, 1] for a in averages]))
            found.append(np.concatenate([a.log_density for a in averages]))
        np.testing.assert_allclose(found[0], found[2], rtol=0, atol=1e-6)
        np.testing.assert_allclose(found[1], found[3], rtol=0, atol=1e-6)


def test_problems_share_a_group():
    """More problems than are handled at once, at bandwidths of their own."""
    rng = np.random.default_rng(3)
    problems = [make(rng.beta(1, 9, 80), seed=k) for k in range(70)]
    requests = [(k, Tuning((0.003, 0.05)[k % 2], (1.0, 0.5)[k % 3 == 0])) for k in range(70)]
    requests += [(3, Tuning(0.1)), (69, Tuning(0.1))]
    answers = []
    for engine in ("grid", "exact"):
        smoother = choose_smoother(problems, DIRICHLET, engine)
        answer = np.full((len(requests), 80), np.nan)
        for i, own, average in smoother.each(requests, as_it_is):
            answer[i, own] = average.mean[:, 1]
        answers.append(answer)
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-6)


def test_some_rows():
    problem = PROBLEMS["beta(1, 3)"]
    rows = np.array([3, 500, 77])
    found = [
        np.concatenate([a.mean for _, _, a in smoother.each([(0, Tuning(0.01))], as_it_is, rows)])
        for smoother in (choose_smoother([problem], DIRICHLET, e) for e in ("grid", "exact"))
    ]
    assert found[0].shape == (3, 2)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_averages_at_points_leave_nobody_out(kernel):
    problem = PROBLEMS["weights"]
    points = on_simplex(np.array([0.0, 1e-12, 1e-4, 0.3, 0.999, 1.0]))
    grid, exact = (
        choose_smoother([problem], KERNELS[kernel], engine).at((0, Tuning(0.02)), points)
        for engine in ("grid", "exact")
    )
    np.testing.assert_allclose(grid.mean, exact.mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(grid.log_density, exact.log_density, rtol=0, atol=1e-5)


def test_the_whole_estimate_agrees():
    data = ra.datasets.temperature(1500, 3, seed=1)
    options = {"estimator": "plugin", "candidates": np.geomspace(1e-4, 0.2, 7)}
    for notion in ("top-label", "classwise"):
        for loss in ("l2", "kl"):
            grid, exact = (
                ra.calibration_error(
                    data.y_true,
                    data.y_prob,
                    notion=notion,
                    loss=loss,
                    bandwidth="risk-alignment",
                    engine=engine,
                    **options,
                )
                for engine in ("grid", "exact")
            )
            np.testing.assert_array_equal(grid.bandwidth, exact.bandwidth)
            assert grid.value == pytest.approx(exact.value, rel=1e-5)


def test_the_grid_is_for_one_probability():
    data = ra.datasets.temperature(50, 3, seed=1)
    with pytest.raises(ValueError, match=r"`engine='grid'`.*one-dimensional.*'exact'"):
        ra.calibration_error(data.y_true, data.y_prob, notion="canonical", engine="grid")
    pair = data.y_prob[:, :2] / data.y_prob[:, :2].sum(axis=1, keepdims=True)
    with pytest.raises(ValueError, match=r"`engine='grid'`.*one-dimensional.*'exact'"):
        ra.calibration_error(data.y_true % 2, pair, notion="canonical", engine="grid")


# Kernel sums of masses on nodes.


def spread(p, values, kernel=DIRICHLET):
    """Masses of values ``(n, c)`` on the kernel's nodes."""
    return nodes_of(kernel).weights(p).T @ values


@pytest.mark.parametrize("kernel", KERNELS)
def test_masses_add(kernel):
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.beta(0.3, 1, 200), [0, 1, 1e-12]])
    values = rng.normal(size=(len(p), 3))
    whole = spread(p, values, KERNELS[kernel])
    parts = [
        spread(p[rows], values[rows], KERNELS[kernel]) for rows in (slice(90), slice(90, None))
    ]
    np.testing.assert_allclose(parts[0] + parts[1], whole, atol=1e-12)
    np.testing.assert_allclose(whole.sum(axis=0), values.sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("tau", FLATTENINGS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_of_masses_are_kernel_sums_at_the_nodes(kernel, tau, squared):
    """Within 1e-6 of the largest sum from ten times the resolution on, 1e-4 at the resolution."""
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.beta(1, 3, 300), [0.0, 1.0, 1e-10]])
    values = np.stack([rng.random(len(p)), np.ones(len(p))], axis=1)
    own = KERNELS[kernel]
    used = SquaredKernel(own) if squared else own
    masses, low = spread(p, values, own), own.bandwidth_range(2)[0]
    x, c = tempered(nodes_of(own).points, tau), tempered(on_simplex(p), tau)
    for h in (low, 3.3 * low, 10 * low, 200 * low):
        scores = used.queries(x) @ c.T * used.scale(h) + used.key_bias(c, h)
        expected = np.exp(scores + used.query_bias(x, h)[:, None]) @ values
        got = kernel_sums(own, Tuning(h, tau), masses, squared=squared)
        limit = (1e-6 if h >= 10 * low else 1e-4) * expected.max()
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit, err_msg=f"{h}")


@pytest.mark.parametrize("tau", FLATTENINGS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_own_kernel_is_what_a_sample_adds_at_its_place(kernel, tau):
    own, nodes = KERNELS[kernel], nodes_of(KERNELS[kernel])
    h = 10 * own.bandwidth_range(2)[0]
    x = tempered(nodes.points, tau)
    scores = own.scale(h) * np.sum(own.queries(x) * x, axis=1)
    expected = np.exp(scores + own.key_bias(x, h) + own.query_bias(x, h))
    np.testing.assert_allclose(own_kernel(own, Tuning(h, tau)), expected, rtol=1e-9)
