"""Averages W v of any values, s = sum_j w_ij^2, and averages at points, of both engines.

Exact sums equal plain loops; nodes equal exact sums within stated limits; a row that stands for
several equal samples equals as many rows.
"""

import math
from dataclasses import replace

import numpy as np
import oracle
import pytest
from cases import CANDIDATES, HARD, ordinary
from oracle_debiased import flattened, mean_weight, weights_of_row
from scipy.special import expit

from riskalign.equations.kernels import DIRICHLET, KERNELS, RBF
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import FLATTENINGS, on_simplex
from riskalign.smoothing import Tuning, choose_smoother, tiles
from riskalign.smoothing.dense import DenseSmoother, distinct_columns
from riskalign.smoothing.grid import GridSmoother
from riskalign.smoothing.operator import ALONE

N = 600
ENGINES = {"exact": DenseSmoother, "grid": GridSmoother}


def simplex_problem(case):
    weights = np.ones(len(case.y)) if case.weights is None else np.asarray(case.weights, float)
    return Problem("all", case.f.astype(np.float64), case.y.astype(np.intp), weights, L2)


def one_probability(p, y=None, weights=None, seed=0):
    rng = np.random.default_rng(seed)
    p = np.asarray(p, float)
    y = (rng.random(len(p)) < p**1.3).astype(np.intp) if y is None else np.asarray(y, np.intp)
    weights = np.ones(len(p)) if weights is None else np.asarray(weights, float)
    return Problem("p", p, y, weights, L2.binary)


def values_of(problem):
    """What is averaged in these tests: residuals, and columns of other sizes and signs."""
    f = problem.free(problem.predictions)
    return np.concatenate([problem.columns() - f, np.sin(5 * f), f * (1 - f)], axis=1)


def plain(array):
    """Numbers as tuples, for the oracle."""
    return tuple(tuple(row) if isinstance(row, list) else row for row in array.tolist())


# Exact sums against plain loops.


def plain_weights(problem, kernel, tuning):
    """w_ij, ``(n, n)``; rows that are alone sum to less than 1."""
    points, weights = plain(problem.points), plain(problem.weights)
    args = points, weights, kernel, tuning.bandwidth, tuning.flattening
    return np.array([weights_of_row(i, *args) for i in range(len(points))])


def check_exact(problem, kernel, tunings):
    smoother, values = DenseSmoother([problem], KERNELS[kernel]), values_of(problem)
    for tuning, got in zip(tunings, smoother.averages({0: values}, tunings), strict=True):
        w = plain_weights(problem, kernel, tuning)
        np.testing.assert_allclose(got[0], w @ values, rtol=1e-9, atol=1e-12)
        both, s = smoother.with_squares({0: values}, tuning)[0]
        np.testing.assert_allclose(both, w @ values, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(s, (w**2).sum(axis=1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tau", FLATTENINGS)
@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("name", HARD)
def test_exact_sums_equal_plain_loops(name, kernel, tau):
    case = HARD[name]
    tunings = [Tuning(h, tau) for h in CANDIDATES[kernel]]
    check_exact(simplex_problem(case), kernel, tunings)
    one = one_probability(np.minimum(case.f[:, -1].astype(float), 1.0), weights=case.weights)
    check_exact(one, kernel, tunings)


@pytest.mark.parametrize("kernel", CANDIDATES)
def test_rows_that_are_alone_are_shrunk(kernel):
    """Two samples, ever farther apart: the average goes from the neighbour's value to 0."""
    h = 0.01 if kernel == "dirichlet" else 0.05
    shares = []
    for gap in (0.001, 0.1, 0.2, 0.25, 0.3, 0.6):
        problem = one_probability(np.array([0.2, 0.2 + gap]), [0, 1])
        (got,) = DenseSmoother([problem], KERNELS[kernel]).averages(
            {0: np.ones((2, 1))}, [Tuning(h)]
        )
        x = plain(problem.points)
        log_share = oracle.KERNELS[kernel](x[0], x[1], h) - oracle.KERNELS[kernel](x[0], x[0], h)
        expected = min(1.0, math.exp(log_share) / ALONE)
        assert got[0][0, 0] == pytest.approx(expected, rel=1e-9)
        shares.append(expected)
    assert shares[0] == 1.0
    assert shares[-1] < 1e-3
    assert any(1e-3 < share < 0.999 for share in shares)


def plain_at(problem, kernel, tuning, values, point):
    """Average, density in the kernel's coordinates, effective and nearby samples at one point."""
    h, tau = tuning.bandwidth, tuning.flattening
    x, weights = flattened(point, tau), plain(problem.weights)
    scores = [oracle.KERNELS[kernel](x, flattened(c, tau), h) for c in plain(problem.points)]
    top = max(score for score, w in zip(scores, weights, strict=True) if w > 0)
    k = [w and w * math.exp(score - top) for score, w in zip(scores, weights, strict=True)]
    total, peak = math.fsum(k), oracle.KERNELS[kernel](x, x, h)
    nearby = math.exp(math.log(total / mean_weight(weights)) + top - peak)
    share = min(1.0, nearby / ALONE)
    mean = [share * oracle.dot(k, column) / total for column in values.T.tolist()]
    density = total * math.exp(top) / math.fsum(weights)
    return mean, density, total**2 / oracle.dot(k, k), nearby


@pytest.mark.parametrize("tau", FLATTENINGS)
@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("name", [name for name, case in HARD.items() if case.n_classes == 3])
def test_averages_at_points_equal_plain_loops(name, kernel, tau):
    problem = simplex_problem(HARD[name])
    values, smoother = values_of(problem), DenseSmoother([problem], KERNELS[kernel])
    points = np.array([[0.2, 0.3, 0.5], [0, 0, 1.0], [0.98, 0.01, 0.01], [0.4, 0.6, 0]])
    for h in CANDIDATES[kernel]:
        tuning = Tuning(h, tau)
        mean, support = smoother.averages_at(values, (0, tuning), points)
        for i, point in enumerate(points.tolist()):
            expected = plain_at(problem, kernel, tuning, values, point)
            np.testing.assert_allclose(mean[i], expected[0], rtol=1e-9, atol=1e-12)
            assert support.effective[i] == pytest.approx(expected[2], rel=1e-9)
            assert support.nearby[i] == pytest.approx(expected[3], rel=1e-9)
            if tau == 1.0:
                assert support.density[i] == pytest.approx(expected[1], rel=1e-9)


@pytest.mark.parametrize("tau", FLATTENINGS)
@pytest.mark.parametrize("engine", ENGINES)
def test_densities_integrate_to_one_in_any_coordinates(engine, tau):
    rng = np.random.default_rng(0)
    problem = one_probability(rng.beta(2, 3, 50), weights=rng.exponential(size=50))
    t = np.linspace(-30, 30, 4_001)  # log-odds
    p = expit(t)
    smoother = ENGINES[engine]([problem], DIRICHLET)
    nothing = np.empty((50, 0))
    _, support = smoother.averages_at(nothing, (0, Tuning(0.02, tau)), on_simplex(p))
    total = np.sum(support.density * p * expit(-t)) * (t[1] - t[0])
    assert total == pytest.approx(1, abs=1e-6)


def test_some_rows_are_averaged_over_all_others():
    problem = simplex_problem(ordinary(11, 3))
    values, rows = values_of(problem), np.array([2, 3, 7])
    tunings = [Tuning(0.05), Tuning(0.1, 0.5)]
    smoother = DenseSmoother([problem], DIRICHLET)
    for every, some in zip(
        smoother.averages({0: values}, tunings),
        smoother.averages({0: values}, tunings, rows),
        strict=True,
    ):
        np.testing.assert_allclose(some[0], every[0][rows], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("engine", ENGINES)
def test_problems_and_tunings_in_any_order(engine):
    """Problems have rows of their own number; tunings come back in the order asked for."""
    rng = np.random.default_rng(1)
    problems = [one_probability(rng.beta(1, 3, n), seed=n) for n in (50, 80, 50)]
    together = ENGINES[engine](problems, DIRICHLET)
    values = {2: rng.normal(size=(50, 2)), 1: rng.normal(size=(80, 2))}
    tunings = [Tuning(0.05), Tuning(0.01, 0.5), Tuning(0.2), Tuning(0.05, 0.5), Tuning(5e-5)]
    for tuning, got in zip(tunings, together.averages(values, tunings), strict=True):
        assert list(got) == [2, 1]
        s = together.squares([2, 1], tuning)
        for k, own in values.items():
            alone = ENGINES[engine]([problems[k]], DIRICHLET)
            (expected,) = alone.averages({0: own}, [tuning])
            np.testing.assert_allclose(got[k], expected[0], rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(s[k], alone.squares([0], tuning)[0], rtol=1e-9, atol=1e-11)
    rows = np.array([4, 30])
    for every, some in zip(
        together.averages(values, tunings), together.averages(values, tunings, rows), strict=True
    ):
        for k in values:
            np.testing.assert_allclose(some[k], every[k][rows], rtol=1e-9, atol=1e-12)


def test_equal_columns_are_averaged_once_and_given_as_often_as_asked_for():
    problem, tuning = simplex_problem(ordinary(40, 3)), Tuning(0.1, 0.5)
    values, places = values_of(problem), [1, 0, 1, 1, 0]
    close = values[:, places].copy()
    close[7, 3] += 1e-9  # equal in most rows, but not in all
    columns, found = distinct_columns(close)
    assert found.tolist() == [0, 1, 0, 2, 1]
    np.testing.assert_array_equal(columns[:, found], close)
    smoother = DenseSmoother([problem], DIRICHLET)
    (plain, s), (repeated, again) = (
        smoother.with_squares({0: each}, tuning)[0] for each in (values, values[:, places])
    )
    np.testing.assert_allclose(repeated, plain[:, places], rtol=1e-13)
    np.testing.assert_array_equal(again, s)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_slowly_varying_columns_are_averaged_over_some_centres(tau, weighted, monkeypatch):
    """Over every third here, by their own weights; other columns and squares are as ever."""
    monkeypatch.setattr(tiles, "SOME", 13)
    case = ordinary(41, 3, seed=8)
    weights = np.random.default_rng(8).uniform(0.5, 2, 41) if weighted else None
    problem, tuning = simplex_problem(replace(case, weights=weights)), Tuning(0.2, tau)
    values = values_of(problem)
    exact, single = (DenseSmoother([problem], DIRICHLET, single=one) for one in (False, True))
    whole, s = exact.with_squares({0: values}, tuning)[0]
    ((_, unchanged),) = exact.each_with_squares({0: values}, [tuning], slow=6)
    np.testing.assert_array_equal(unchanged[0][0], whole)
    ((_, shortened),) = single.each_with_squares({0: values}, [tuning], slow=6)
    found, squares = shortened[0]
    w = plain_weights(problem, "dirichlet", tuning)
    some = w[:, ::3] * (w.sum(axis=1) / w[:, ::3].sum(axis=1))[:, None]
    np.testing.assert_allclose(found[:, :3], whole[:, :3], rtol=0, atol=2e-6)
    np.testing.assert_allclose(squares, s, rtol=0, atol=2e-6)
    np.testing.assert_allclose(found[:, 3:], some @ values[::3, 3:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("sharpness", [0.3, 2, 20])
def test_several_tunings_have_the_squares_of_each(kernel, sharpness, single):
    """Bandwidths share a product where no weight, and no square of one, can vanish."""
    problem = simplex_problem(ordinary(300, 4, seed=7, sharpness=sharpness))
    smoother, exact = (DenseSmoother([problem], KERNELS[kernel], single=s) for s in (single, False))
    low = 1e-3 if kernel == "dirichlet" else 0.005
    tunings = [Tuning(low * 2**power, tau) for power in range(10) for tau in FLATTENINGS]
    values, found = {0: values_of(problem)}, {}
    for tuning, each in smoother.each_with_squares(values, tunings):
        found[tuning] = each[0]
    assert set(found) == set(tunings)
    close = 1e-5 if single else 1e-10
    for tuning in tunings:
        mean, s = exact.with_squares(values, tuning)[0]
        np.testing.assert_allclose(found[tuning][0], mean, rtol=0, atol=close)
        np.testing.assert_allclose(found[tuning][1], s, rtol=0, atol=2 * close)


@pytest.mark.parametrize("engine", ENGINES)
def test_averages_are_linear_and_values_may_be_none(engine):
    rng = np.random.default_rng(2)
    problem = one_probability(rng.beta(0.5, 0.5, 200), weights=rng.exponential(size=200))
    smoother, tuning = ENGINES[engine]([problem], DIRICHLET), Tuning(0.01, 0.5)
    a, b = rng.normal(size=(2, 200, 3))
    (of_a,), (of_b,), (of_sum,), (of_none,) = (
        smoother.averages({0: values}, [tuning]) for values in (a, b, 2 * a - b, a[:, :0])
    )
    np.testing.assert_allclose(of_sum[0], 2 * of_a[0] - of_b[0], rtol=0, atol=1e-10)
    assert of_none[0].shape == (200, 0)


@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("sharpness", [0.3, 2, 20])
def test_float32_exponentials_of_residuals_and_squares(kernel, sharpness):
    """Values are summed with 1 added, so that errors are twice those of labels."""
    problem = simplex_problem(ordinary(300, 4, seed=6, sharpness=sharpness))
    exact, single = (DenseSmoother([problem], KERNELS[kernel], single=s) for s in (False, True))
    low = 1e-3 if kernel == "dirichlet" else 0.005
    tunings = [Tuning(low * factor, tau) for tau in FLATTENINGS for factor in (1, 4, 40, 400)]
    values = {0: values_of(problem)}
    for tuning, slow, fast in zip(
        tunings, exact.averages(values, tunings), single.averages(values, tunings), strict=True
    ):
        np.testing.assert_allclose(fast[0], slow[0], rtol=0, atol=1e-5)
        slow, fast = (each.squares([0], tuning)[0] for each in (exact, single))
        np.testing.assert_allclose(fast, slow, rtol=0, atol=2e-5)


# Nodes against exact sums.


def _problems():
    rng = np.random.default_rng(11)
    beta, rare = rng.beta(1, 3, N), expit(rng.normal(-6, 4, N))
    decades = 10.0 ** rng.uniform(-1.5, 1.5, N)
    ends = np.concatenate([beta[:200], np.zeros(50), np.ones(50), [1e-12, 1 - 1e-12, 0.5]])
    yield "beta(1, 3)", one_probability(beta)
    yield "logit-normal(-6, 4)", one_probability(rare)
    yield "its mirror image", one_probability(1 - rare)
    yield "beta(0.1, 0.1)", one_probability(rng.beta(0.1, 0.1, N))
    yield "zeros and ones", one_probability(ends)
    yield "zeros and ones, labels at random", one_probability(ends, rng.integers(0, 2, len(ends)))
    yield "only zeros and ones", one_probability([0.0, 1] * 20, [0, 1, 1, 0] * 10)
    yield "ties", one_probability(np.round(beta, 1))
    yield "all equal", one_probability(np.full(50, 0.3))
    yield "two samples", one_probability([0.2, 0.7], [0, 1])
    yield "two samples at the ends", one_probability([0.0, 1.0], [1, 0])
    yield "two equal samples", one_probability([0.2, 0.2], [0, 1])
    yield "five samples", one_probability(rng.beta(1, 3, 5))
    yield "five samples, peaked", one_probability(expit(rng.normal(-6, 4, 5)))
    yield "far from all others", one_probability([0.001, 0.0011, 0.0012, 0.9], [0, 1, 0, 1])
    yield "weights over three decades", one_probability(beta, weights=decades)
    yield "peaked, weights over three decades", one_probability(rare, weights=decades)
    yield "weights, most of them zero", one_probability(rare, weights=(rng.random(N) < 0.1) * 3.0)
    yield (
        "weight at one end alone",
        one_probability([1e-8, 1e-7, 0.3, 0.9], [0, 1, 1, 0], [1, 1, 0, 0]),
    )
    yield "one heavy sample", one_probability(beta, weights=np.where(np.arange(N) == 7, 500, 1))
    yield "float32", one_probability(beta.astype(np.float32))
    yield "float32, peaked", one_probability(rare.astype(np.float32))


PROBLEMS = dict(_problems())

LIMITS = {1: (3e-5, 5e-3), 2: (3e-5, 3e-4), 10: (1e-5, 5e-5), 100: (3e-6, 2e-5)}
"""Largest differences of averages (of values up to 1) and of squares, by the least ratio of the
bandwidth and the resolution of the nodes from which they hold. The worst rows are those whose
neighbours weigh a few tenths of the row's own sample: what is left after its removal is a small
part of what was interpolated."""


def limits(kernel, h):
    """Those of averages and of squares at a bandwidth."""
    ratio = h / kernel.bandwidth_range(2)[0] * (1 + 1e-9)
    return LIMITS[max(least for least in LIMITS if least <= ratio)]


BANDWIDTHS = {DIRICHLET: (1e-4, 2e-4, 1e-3, 0.012, 0.2), RBF: (0.005, 0.01, 0.05, 0.5, 2.0)}


@pytest.mark.parametrize("kernel", BANDWIDTHS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("name", PROBLEMS)
def test_nodes_equal_exact_sums(name, kernel):
    problem = PROBLEMS[name]
    values, tunings = (
        values_of(problem),
        [Tuning(h, tau) for tau in FLATTENINGS for h in BANDWIDTHS[kernel]],
    )
    grid, exact = GridSmoother([problem], kernel), DenseSmoother([problem], kernel)
    for tuning, fast, slow in zip(
        tunings,
        grid.averages({0: values}, tunings),
        exact.averages({0: values}, tunings),
        strict=True,
    ):
        of_averages, of_squares = limits(kernel, tuning.bandwidth)
        np.testing.assert_allclose(
            fast[0], slow[0], rtol=0, atol=of_averages, err_msg=f"averages, {tuning}"
        )
        both, s = grid.with_squares({0: values}, tuning)[0]
        np.testing.assert_allclose(both, fast[0], rtol=1e-9, atol=1e-12)
        fast, slow = (each.squares([0], tuning)[0] for each in (grid, exact))
        np.testing.assert_allclose(s, fast, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            fast, slow, rtol=0, atol=of_squares, err_msg=f"squares, {tuning}"
        )
        assert ((fast >= 0) & (fast <= 1)).all()


@pytest.mark.parametrize("kernel", BANDWIDTHS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("name", PROBLEMS)
def test_nodes_at_points_equal_exact_sums(name, kernel):
    problem = PROBLEMS[name]
    values = values_of(problem)
    p = np.concatenate([[0.0, 1e-12, 1e-7, 1e-3], np.linspace(0, 1, 21)[1:-1], [1 - 1e-7, 1.0]])
    grid, exact = GridSmoother([problem], kernel), DenseSmoother([problem], kernel)
    for tuning in [Tuning(h, tau) for tau in FLATTENINGS for h in BANDWIDTHS[kernel]]:
        (fast, sparse), (slow, support) = (
            each.averages_at(values, (0, tuning), on_simplex(p)) for each in (grid, exact)
        )
        limit, _ = limits(kernel, tuning.bandwidth)
        np.testing.assert_allclose(fast, slow, rtol=0, atol=limit, err_msg=f"{tuning}")
        np.testing.assert_allclose(
            sparse.nearby, support.nearby, rtol=limit, atol=limit, err_msg=f"nearby, {tuning}"
        )
        known = support.nearby > 0.1
        for name in ("density", "effective"):
            np.testing.assert_allclose(
                getattr(sparse, name)[known],
                getattr(support, name)[known],
                rtol=100 * limit,
                err_msg=f"{name}, {tuning}",
            )
        assert np.isfinite([sparse.density, sparse.effective, sparse.nearby]).all()


@pytest.mark.parametrize("kernel", BANDWIDTHS, ids=lambda kernel: kernel.name)
def test_bandwidths_below_the_resolution_are_summed_exactly(kernel):
    problem = PROBLEMS["beta(1, 3)"]
    values, tuning = values_of(problem), Tuning(kernel.bandwidth_range(2)[0] / 3, 0.5)
    grid, exact = GridSmoother([problem], kernel), DenseSmoother([problem], kernel)
    (fast,), (slow,) = (each.averages({0: values}, [tuning]) for each in (grid, exact))
    np.testing.assert_array_equal(fast[0], slow[0])
    np.testing.assert_array_equal(grid.squares([0], tuning)[0], exact.squares([0], tuning)[0])
    points = on_simplex(np.array([0.1, 0.5]))
    (fast, _), (slow, _) = (each.averages_at(values, (0, tuning), points) for each in (grid, exact))
    np.testing.assert_array_equal(fast, slow)


def test_many_samples_come_in_chunks():
    """More rows than are handled at once, and than keep their interpolation weights."""
    rng = np.random.default_rng(5)
    n = 130_000
    problem = one_probability(rng.beta(1, 3, n), weights=rng.exponential(size=n))
    group = [problem] * 4  # 520,000 rows: weights are computed anew
    values, rows = values_of(problem), np.sort(rng.choice(n, 40, replace=False))
    tuning = Tuning(1e-3, 0.5)
    exact = DenseSmoother([problem], DIRICHLET)
    (slow,) = exact.averages({0: values}, [tuning], rows)
    for problems in ([problem], group):
        grid = GridSmoother(problems, DIRICHLET)
        (fast,) = grid.averages({0: values}, [tuning], rows)
        np.testing.assert_allclose(fast[0], slow[0], rtol=0, atol=1e-6)
    one, four = (
        GridSmoother(problems, DIRICHLET).squares([0], tuning) for problems in ([problem], group)
    )
    np.testing.assert_allclose(one[0], four[0], rtol=1e-9)


# Rows that stand for several equal samples.


def with_copies(problem, seed=0):
    """The problem with rows of up to four samples, and the one with a row per sample.

    Returns both and the row of the first that each row of the second comes from.
    """
    rng, n = np.random.default_rng(seed), len(problem.labels)
    counts = rng.integers(1, 5, n)
    table = replace(problem, weights=counts * problem.weights, sample_weights=problem.weights)
    each = np.repeat(np.arange(n), counts)
    return table, problem.take(each), each


def of_labels(smoother, tunings, n):
    """R and log densities of every row, ``(C, n, K + 1)``."""
    found = {}
    requests = [(0, tuning) for tuning in tunings]
    for i, rows, average in smoother.each(requests, lambda k, rows: lambda average: average):
        both = np.concatenate([average.mean, average.log_density[:, None]], axis=1)
        found.setdefault(i, np.empty((n, both.shape[1])))[rows] = both
    return np.array([found[i] for i in range(len(tunings))])


def check_copies(engine, kernel, problem, tunings, seed=0):
    table, expanded, each = with_copies(problem, seed)
    short, long = (ENGINES[engine]([one], kernel) for one in (table, expanded))
    close = {"rtol": 1e-9, "atol": 1e-9}
    got = of_labels(short, tunings, len(table.labels))[:, each]
    np.testing.assert_allclose(got, of_labels(long, tunings, len(each)), **close, err_msg="labels")
    pairs = zip(
        tunings,
        short.averages({0: values_of(table)}, tunings),
        long.averages({0: values_of(expanded)}, tunings),
        strict=True,
    )
    points = table.points[:7]
    for tuning, got, expected in pairs:
        np.testing.assert_allclose(got[0][each], expected[0], **close, err_msg="averages")
        s = short.squares([0], tuning)[0]
        np.testing.assert_allclose(s[each], long.squares([0], tuning)[0], **close, err_msg="s")
        (got, support), (expected, wanted) = (
            smoother.averages_at(values_of(one), (0, tuning), points)
            for smoother, one in ((short, table), (long, expanded))
        )
        np.testing.assert_allclose(got, expected, **close, err_msg="at points")
        for name in ("density", "effective", "nearby"):
            np.testing.assert_allclose(
                getattr(support, name), getattr(wanted, name), **close, err_msg=name
            )
        ats = [smoother.at((0, tuning), points) for smoother in (short, long)]
        np.testing.assert_allclose(ats[0].mean, ats[1].mean, **close)
        np.testing.assert_allclose(ats[0].log_density, ats[1].log_density, **close)


@pytest.mark.parametrize("kernel", BANDWIDTHS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "name",
    [
        "beta(1, 3)",
        "logit-normal(-6, 4)",
        "zeros and ones",
        "ties",
        "two samples",
        "five samples",
        "far from all others",
        "weights over three decades",
        "float32, peaked",
    ],
)
def test_a_row_of_several_samples_equals_as_many_rows(name, engine, kernel):
    problem = PROBLEMS[name]
    problem = problem.take(np.arange(min(len(problem.labels), 150)))
    tunings = [Tuning(h, tau) for tau in (1.0, 0.25) for h in BANDWIDTHS[kernel][::2]]
    check_copies(engine, kernel, problem, tunings)


@pytest.mark.parametrize("kernel", CANDIDATES)
@pytest.mark.parametrize("name", ["three classes", *HARD])
def test_a_row_of_several_samples_on_a_simplex(name, kernel):
    case = ordinary(40, 3, seed=3) if name == "three classes" else HARD[name]
    problem = simplex_problem(case)
    problem = problem.take(np.flatnonzero(problem.weights))
    tunings = [Tuning(h, tau) for tau in (1.0, 0.5) for h in CANDIDATES[kernel]]
    check_copies("exact", KERNELS[kernel], problem, tunings)


@pytest.mark.parametrize("p", [0.0, 1e-7, 0.3, 1.0])
@pytest.mark.parametrize("h", [1e-4, 0.01, 0.2])
@pytest.mark.parametrize("count", [2, 50])
@pytest.mark.parametrize("engine", ENGINES)
def test_one_row_of_several_samples_is_enough(engine, count, h, p):
    """All predictions and labels are equal: averages are the values of the row itself."""
    weights, units = np.array([2.0 * count]), np.array([2.0])
    table = Problem("p", np.array([p]), np.array([1]), weights, L2.binary, units)
    smoother, tuning = ENGINES[engine]([table], DIRICHLET), Tuning(h)
    R = of_labels(smoother, [tuning], 1)[0, 0]
    peak = DIRICHLET.log_peak(table.points, h)[0]
    np.testing.assert_allclose(R, [0.0, 1.0, peak], rtol=0, atol=1e-5)
    (got,) = smoother.averages({0: np.array([[0.7]])}, [tuning])
    np.testing.assert_allclose(got[0], [[0.7]], rtol=1e-5)
    np.testing.assert_allclose(smoother.squares([0], tuning)[0], [1 / (count - 1)], rtol=1e-4)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("f", [[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
def test_one_row_of_several_samples_on_a_simplex_is_enough(f, single):
    weights, units = np.array([6.0]), np.array([2.0])
    table = Problem("p", np.array([f]), np.array([1]), weights, L2, units)
    smoother = DenseSmoother([table], DIRICHLET, single=single)
    tunings = [Tuning(1e-3), Tuning(0.01), Tuning(1.0)]
    for tuning, R in zip(tunings, of_labels(smoother, tunings, 1)[:, 0], strict=True):
        peak = DIRICHLET.log_peak(table.points, tuning.bandwidth)[0]
        np.testing.assert_allclose(R, [0.0, 1.0, 0.0, peak], rtol=0, atol=1e-6)
        np.testing.assert_allclose(smoother.squares([0], tuning)[0], [0.5], rtol=1e-6)
    for got in smoother.averages({0: np.array([[0.7]])}, tunings):
        np.testing.assert_allclose(got[0], [[0.7]], rtol=1e-6)


@pytest.mark.parametrize("weights", [[2.0], [2.0, 0.0], [1.0, 1e-30]])
def test_a_row_without_others_has_no_average(weights):
    """Its average is shrunk to 0, without a warning."""
    table = Problem(
        "p", np.full(len(weights), 0.3), np.zeros(len(weights), int), np.array(weights), L2.binary
    )
    smoother = DenseSmoother([table], DIRICHLET)
    for got in smoother.averages({0: np.full((len(weights), 1), 0.7)}, [Tuning(0.01), Tuning(0.2)]):
        assert got[0][0] == 0.0
        assert np.isfinite(got[0]).all()


def test_engines_by_structure():
    few, many = one_probability(np.full(1_000, 0.3)), one_probability(np.full(1_001, 0.3))
    joint = simplex_problem(ordinary(1_001, 3))
    assert isinstance(choose_smoother([few], DIRICHLET), DenseSmoother)
    assert isinstance(choose_smoother([many], DIRICHLET), GridSmoother)
    assert isinstance(choose_smoother([few], DIRICHLET, small=999), GridSmoother)
    assert isinstance(choose_smoother([few, many], DIRICHLET), GridSmoother)
    assert isinstance(choose_smoother([many], DIRICHLET, "exact"), DenseSmoother)
    assert isinstance(choose_smoother([few], DIRICHLET, "grid"), GridSmoother)
    assert isinstance(choose_smoother([joint], DIRICHLET), DenseSmoother)
    with pytest.raises(ValueError, match="one-dimensional"):
        choose_smoother([joint], DIRICHLET, "grid")
