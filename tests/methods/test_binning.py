"""Bins, against loops over samples."""

import math
from itertools import pairwise

import numpy as np
import oracle
import pytest
from cases import HARD, LOSSES, SPHERICAL, ordinary, samples
from hypothesis import given
from hypothesis import strategies as st

import riskalign as ra
from riskalign.methods.simplex_bins import cells

ONE_PROBABILITY = ("binary", "top-label", "classwise")
CASES = HARD | {"ordinary, two classes": ordinary(40, 2), "ordinary, four": ordinary(60, 4)}


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


# The definitions as loops.


def width_edges(p, weights, n_bins):
    return [b / n_bins for b in range(1, n_bins)]


def mass_edges(p, weights, n_bins):
    """The smallest prediction up to which b/B of the weight has been seen, for each b < B."""
    edges = []
    for b in range(1, n_bins):
        for candidate in sorted(p):
            seen = math.fsum(w for q, w in zip(p, weights, strict=True) if q <= candidate)
            if seen * n_bins >= b * math.fsum(weights) * (1 - 1e-12):
                edges.append(candidate)
                break
    top = max(q for q, w in zip(p, weights, strict=True) if w > 0)
    return [edge for edge in edges if edge < top]


def members(p, edges):
    """Sample numbers of each bin; a sample lies above its lower edge, up to its upper one.

    3/5 is an edge, and so is the 0.6000000000000001 that a library may call it.
    """
    bins = {}
    for i, p_i in enumerate(p):
        bins.setdefault(sum(edge * (1 + 4e-16) < p_i for edge in set(edges)), []).append(i)
    return list(bins.values())


def mean(values, weights):
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)


def over(rows, *columns):
    return ([column[i] for i in rows] for column in columns)


def binned(case, notion, loss, edges_of, n_bins):
    """Means of the terms, summed over problems, with R, sample by sample."""
    y, f, weights = case.plain
    totals = dict.fromkeys(("plugin", "risk", "refinement", "reconstructed_risk"), 0.0)
    conditional = []
    for points, labels in oracle.problems(notion, f, y):
        p = [point[1] for point in points]
        R = [math.nan] * len(p)
        for rows in members(p, edges_of(p, weights, n_bins)):
            y_rows, w_rows = over(rows, labels, weights)
            for i in rows:
                R[i] = mean(y_rows, w_rows) if sum(w_rows) > 0 else math.nan
        known = [i for i in range(len(p)) if weights[i] > 0]
        terms = [
            oracle.terms(oracle.loss_of(loss, notion), points[i], labels[i], (1 - R[i], R[i]))
            for i in known
        ]
        for name in totals:
            totals[name] += mean([t[name] for t in terms], [weights[i] for i in known])
        conditional.append(R)
    return totals, np.array(conditional).T


def gaps(p, labels, weights, edges):
    """(weight, effective number, mean label, mean prediction) of every bin with weight."""
    table = []
    for rows in members(p, edges):
        y_rows, p_rows, w_rows = over(rows, labels, p, weights)
        if sum(w_rows) > 0:
            effective = math.fsum(w_rows) ** 2 / math.fsum(w * w for w in w_rows)
            table.append((sum(w_rows), effective, mean(y_rows, w_rows), mean(p_rows, w_rows)))
    return table


def debiased(p, labels, weights, edges):
    total = 0.0
    for mass, m, y_mean, p_mean in gaps(p, labels, weights, edges):
        if m > 1 + 1e-12:
            total += mass * ((y_mean - p_mean) ** 2 - y_mean * (1 - y_mean) / (m - 1))
    return total / math.fsum(weights)


def classical(p, labels, weights, edges, norm):
    table = gaps(p, labels, weights, edges)
    if norm == "max":
        return max(abs(y - p) for _, _, y, p in table)
    power = {"l1": 1, "l2": 2}[norm]
    total = sum(mass * abs(y - p) ** power for mass, _, y, p in table) / math.fsum(weights)
    return total ** (1 / power)


def in_cells(case, loss, n_bins):
    """Leave-one-out means in the cells of the simplex, and the error over samples with one."""
    y, f, weights = case.plain
    edges = width_edges(None, None, n_bins)
    cell = [tuple(sum(edge * (1 + 4e-16) < f_ik for edge in edges) for f_ik in f_i) for f_i in f]
    R, values, used = [], [], []
    for i, f_i in enumerate(f):
        others = [j for j in range(len(f)) if j != i and cell[j] == cell[i] and weights[j] > 0]
        R.append([math.nan] * len(f_i))
        if others:
            (w,) = over(others, weights)
            R[i] = [mean([y[j] == k for j in others], w) for k in range(len(f_i))]
            values.append(oracle.terms(oracle.loss_of(loss, "canonical"), f_i, y[i], R[i]))
            used.append(weights[i])
    if not sum(used):
        return None, R
    return mean([v["plugin"] for v in values], used), np.array(R)


BINS = {"width": (ra.EqualWidthBins, width_edges), "mass": (ra.EqualMassBins, mass_edges)}


def error(case, notion, method, **options):
    return ra.calibration_error(
        case.y, case.f, notion=notion, method=method, sample_weight=case.weights, **options
    )


def notions_of(case):
    return ONE_PROBABILITY if case.n_classes == 2 else ONE_PROBABILITY[1:]


# Bins of one probability.


@pytest.mark.parametrize("n_bins", [1, 4, 15])
@pytest.mark.parametrize("kind", BINS)
@pytest.mark.parametrize("name", CASES)
def test_bins_equal_the_loops(name, kind, n_bins):
    case, (method, edges) = CASES[name], BINS[kind]
    for notion in notions_of(case):
        for loss in LOSSES:
            result = error(case, notion, method(n_bins), loss=LOSSES[loss])
            totals, R = binned(case, notion, loss, edges, n_bins)
            close(result.value, totals["plugin"])
            close(result.risk, totals["risk"])
            close(result.refinement, totals["refinement"])
            close(result.reconstructed_risk, totals["reconstructed_risk"])
            close(result.conditional, R if notion == "classwise" else R[:, 0])


@pytest.mark.parametrize("kind", BINS)
@pytest.mark.parametrize("name", CASES)
def test_norms_and_debiasing_use_bin_means(name, kind):
    case, (method, edges_of) = CASES[name], BINS[kind]
    y, f, weights = case.plain
    for notion in notions_of(case):
        expected = 0.0
        for points, labels in oracle.problems(notion, f, y):
            p = [point[1] for point in points]
            edges = edges_of(p, weights, 5)
            expected += debiased(p, labels, weights, edges)
            if notion != "classwise":
                for norm in ("l1", "l2", "max"):
                    value = error(case, notion, method(5, norm=norm)).value
                    close(value, classical(p, labels, weights, edges, norm))
        close(error(case, notion, method(5, debias=True)).value, expected)


def test_debiasing_removes_the_error_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    p = rng.random((300, 400))
    y = (rng.random(p.shape) < p).astype(int)
    values = [
        [ra.calibration_error(y[i], p[i], method=m).value for i in range(len(p))]
        for m in (ra.EqualWidthBins(15, debias=True), ra.EqualWidthBins(15, norm="l2"))
    ]
    means = np.mean(values, axis=1)
    standard_error = np.std(values[0]) / np.sqrt(len(p))
    assert abs(means[0]) < 3.5 * standard_error  # wrong once in two thousand seeds
    assert np.mean(np.square(values[1])) > 20 * standard_error


def test_a_bin_with_one_sample_stays_out_of_debiasing():
    y, p = [0, 1, 1, 0, 1], [0.1, 0.15, 0.12, 0.18, 0.9]
    with_single = ra.calibration_error(y, p, method=ra.EqualWidthBins(2, debias=True)).value
    without = ra.calibration_error(y[:4], p[:4], method=ra.EqualWidthBins(2, debias=True)).value
    close(with_single, without * 4 / 5)
    lonely = ra.calibration_error([0, 1], [0.1, 0.9], method=ra.EqualWidthBins(2, debias=True))
    assert lonely.value == 0.0


@given(samples(), st.integers(1, 12), st.data())
def test_equal_mass_bins_are_never_empty_or_reversed(case, n_bins, data):
    weights = data.draw(
        st.lists(st.integers(0, 3), min_size=len(case.y), max_size=len(case.y)).filter(
            lambda w: np.count_nonzero(w) >= 2
        )
    )
    p, w = case.f[:, 0], np.array(weights, dtype=float)
    edges = ra.EqualMassBins(n_bins)._upper_edges(p, w)
    assert all(a < b for a, b in pairwise(edges))
    assert len(edges) < n_bins
    mass = np.bincount(np.searchsorted(edges, p), w, minlength=len(edges) + 1)
    assert (mass > 0).all()


@pytest.mark.parametrize(("n", "n_bins"), [(60, 15), (61, 15), (7, 5), (3, 15), (1000, 7)])
def test_equal_mass_bins_without_ties_differ_by_one_sample(n, n_bins):
    p = np.random.default_rng(n).random(n)
    edges = ra.EqualMassBins(n_bins)._upper_edges(p, np.ones(n))
    sizes = np.bincount(np.searchsorted(edges, p))
    assert len(sizes) == min(n, n_bins)
    assert sizes.max() - sizes.min() <= 1
    scaled = ra.EqualMassBins(n_bins)._upper_edges(p, np.full(n, 0.1))
    np.testing.assert_array_equal(scaled, edges)  # 0.1 + 0.1 + 0.1 is not 0.3


@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize("kind", BINS)
def test_integer_weights_equal_repetition(kind, loss):
    case = ordinary(40, 3, seed=5)
    weights = np.random.default_rng(1).integers(0, 4, 40)
    method = BINS[kind][0](6)
    weighted = ra.calibration_error(
        case.y, case.f, method=method, loss=loss, sample_weight=weights, notion="classwise"
    )
    repeated = ra.calibration_error(
        np.repeat(case.y, weights),
        np.repeat(case.f, weights, axis=0),
        method=method,
        loss=loss,
        notion="classwise",
    )
    close(weighted.value, repeated.value)
    close(weighted.refinement, repeated.refinement)
    close(weighted.overconfidence.per_class, repeated.overconfidence.per_class)


def test_a_loss_of_one_s_own_goes_through_bins():
    case = ordinary(60, 3)
    totals, _ = binned(case, "top-label", "spherical", width_edges, 10)
    close(error(case, "top-label", ra.EqualWidthBins(10), loss=SPHERICAL).value, totals["plugin"])


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("options", [{}, {"debias": True}, {"norm": "l2"}])
@pytest.mark.parametrize("kind", BINS)
def test_the_scale_of_weights_does_not_matter(kind, options, scale):
    case, weights = ordinary(40, 2), np.linspace(0.5, 2, 40)
    method = BINS[kind][0](5, **options)
    values = [
        ra.calibration_error(case.y, case.f[:, 1], method=method, sample_weight=w).value
        for w in (weights, scale * weights)
    ]
    close(*values)


def test_edges_belong_to_the_bin_below():
    """Probabilities at an edge, at 0 and at 1: four bins of (0, 1/4], ... with 0 in the first."""
    p = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 0.1, 0.3, 0.6, 0.9])
    y = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1])
    R = ra.calibration_error(y, p, method=ra.EqualWidthBins(4)).conditional
    close(R, np.array([1 / 3, 1 / 3, 1 / 2, 1 / 2, 1, 1 / 3, 1 / 2, 1 / 2, 1]))


def test_empty_bins_contribute_nothing():
    y, p = [0, 1, 0, 1], [0.01, 0.02, 0.98, 0.99]
    for options in ({}, {"debias": True}, {"norm": "l1"}, {"norm": "l2"}, {"norm": "max"}):
        few = ra.calibration_error(y, p, method=ra.EqualWidthBins(2, **options)).value
        many = ra.calibration_error(y, p, method=ra.EqualWidthBins(20, **options)).value
        close(few, many)


def test_a_thousand_classes():
    case = ordinary(200, 1000, sharpness=6)
    result = error(case, "classwise", ra.EqualMassBins(10), loss="kl")
    assert result.per_class.shape == (1000,)
    for k in (0, 17, 999):
        right = (case.y == k).astype(int)
        one = ra.calibration_error(right, case.f[:, k], loss="kl", method=ra.EqualMassBins(10))
        close(result.per_class[k], one.value)


@pytest.mark.parametrize(
    ("notion", "loss", "n_classes", "method", "published"),
    [
        ("classwise", "kl", 16, ra.EqualWidthBins(15), 18.982),
        ("classwise", "kl", 16, ra.EqualWidthBins(20), 13.443),
        ("classwise", "l2", 16, ra.EqualMassBins(10), 1.653),
        ("classwise", "kl", 16, ra.EqualMassBins(15), 1.951),
        ("canonical", "l2", 4, ra.SimplexBins(10), 1.970),
        ("canonical", "l2", 4, ra.SimplexBins(15), 6.488),
        ("canonical", "kl", 4, ra.SimplexBins(15), 17.613),
        ("canonical", "kl", 16, ra.SimplexBins(10), 229.377),
    ],
)
def test_the_paper_s_figures(notion, loss, n_classes, method, published):
    """Mean absolute errors x 100 at n = 20,000, t1 = 1, t2 = 0.8; one sample of ten's average.

    The published class-wise l2 figures are of 2 (R - f)^2.
    """
    data = ra.datasets.temperature(20_000, n_classes, t1=1.0, t2=0.8, seed=0)
    result = ra.calibration_error(data.y_true, data.y_prob, notion=notion, loss=loss, method=method)
    factor = 2 if (notion, loss) == ("classwise", "l2") else 1
    found = 100 * factor * abs(result.value - data.truth(notion, loss))
    assert abs(found - published) < 0.06 * published


# Cells of the simplex.


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CASES)
def test_simplex_bins_equal_the_loops(name, loss):
    case = CASES[name]
    for n_bins in (1, 2, 5):
        value, R = in_cells(case, loss, n_bins)
        if value is None:
            with pytest.raises(ValueError, match="no two samples in one cell"):
                error(case, "canonical", ra.SimplexBins(n_bins), loss=LOSSES[loss])
            continue
        result = error(case, "canonical", ra.SimplexBins(n_bins), loss=LOSSES[loss])
        close(result.value, value)
        close(result.conditional, R)
        lonely = np.isnan(R[:, 0]).sum()
        assert f"{lonely} of {len(case.y)} samples have none" in result.note


def test_cells_of_many_classes_are_told_apart():
    """15^40 cells do not fit into 64 bits: codes are renumbered on the way."""
    rng = np.random.default_rng(0)
    points = rng.dirichlet(np.full(40, 0.3), 50)[rng.integers(0, 50, 300)]
    bins = np.searchsorted(np.linspace(0, 1, 16)[1:-1], points)
    _, expected = np.unique(bins, axis=0, return_inverse=True)
    found = cells(points, 15)
    assert len(set(zip(found, expected.ravel(), strict=True))) == len(np.unique(expected))
    assert len(np.unique(found)) == len(np.unique(expected))


def test_a_weight_lost_in_rounding_leaves_a_sample_alone():
    y, f = [0, 1, 0, 1], np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]])
    result = ra.calibration_error(
        y, f, notion="canonical", method=ra.SimplexBins(2), sample_weight=[1, 1e-20, 1, 1]
    )
    assert np.isnan(result.conditional[0]).all()
    assert np.isfinite(result.value)


@pytest.mark.parametrize(("n", "n_bins"), [(2, 2), (8, 2), (9, 3), (1_000, 10), (1_001, 11)])
@pytest.mark.parametrize("bins", [ra.EqualWidthBins, ra.EqualMassBins])
def test_the_cube_root_of_the_number_of_samples_is_rounded_up(bins, n, n_bins):
    # as in scikit-learn: int(np.ceil(n ** (1 / 3))), without the error of the floating power
    p = np.random.default_rng(0).uniform(size=n)
    y = (p > 0.4).astype(int)
    found = ra.calibration_error(y, p, method=bins("cube_root")).value
    assert found == ra.calibration_error(y, p, method=bins(n_bins)).value


def test_other_words_for_numbers_of_bins_are_refused():
    with pytest.raises(ValueError, match="cube_root"):
        ra.EqualMassBins("square_root")
