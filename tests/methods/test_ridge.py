"""Kernel ridge regression against its formulas, solved densely and without eigenvalues."""

import numpy as np
import pytest
from cases import ordinary
from scipy.spatial.distance import cdist

import riskalign as ra
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.methods import ridge

FORMS = ("residual", "kronecker")
FEW = {"residual": (10.0, 0.1, 1e-3), "kronecker": (1e4, 1.0, 1e-4)}


def problem_of(case):
    predictions = case.f[:, 1] if case.n_classes == 2 else case.f
    loss = L2.binary if case.n_classes == 2 else L2
    return Problem("", predictions, np.asarray(case.y), np.ones(len(case.y)), loss)


def h_of(form, K, D, rho):
    """The regression function h(x, x') as a function of kernel columns k_x and k_x'."""
    m = len(K)
    if form == "residual":
        A = np.linalg.solve(K + rho * m**0.75 * np.eye(m), D)
        return lambda k, other: (k @ A) @ (other @ A)
    system = np.kron(K, K) + rho * m**1.5 * np.eye(m * m)
    solution = np.linalg.solve(system, (D @ D.T).ravel()).reshape(m, m)
    return lambda k, other: k @ solution @ other


def by_definition(problem, parts, form, penalties):
    x = problem.predictions.reshape(len(parts), -1)
    y = problem.labels[:, None] if x.shape[1] == 1 else np.eye(x.shape[1])[problem.labels]
    D, K = x - y, np.exp(-(cdist(x, x) ** 2))
    risks, values = np.zeros(len(penalties)), np.zeros(len(penalties))
    test = np.flatnonzero(parts == -1)
    for fold in range(parts.max() + 1):
        train = np.flatnonzero((parts != -1) & (parts != fold))
        held = np.flatnonzero(parts == fold)
        for r, rho in enumerate(penalties):
            h = h_of(form, K[np.ix_(train, train)], D[train], rho)
            gaps = [D[i] @ D[j] - h(K[i, train], K[j, train]) for i in held for j in held if i != j]
            risks[r] += np.mean(np.square(gaps)) / (parts.max() + 1)
            values[r] += np.mean([h(K[i, train], K[i, train]) for i in test]) / (parts.max() + 1)
    return values[np.argmin(risks)], int(np.argmin(risks))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("form", FORMS)
def test_both_forms_equal_their_definition(form, n_classes):
    case = ordinary(30, n_classes, seed=4)
    problem = problem_of(case)
    parts = ridge.parts_of(problem, 5, seed=0)
    value, best = by_definition(problem, parts, form, FEW[form])
    found, chosen = ridge.estimate_on(problem, parts, form, FEW[form])
    assert chosen == best
    np.testing.assert_allclose(found, value, rtol=1e-7)
    notion = "binary" if n_classes == 2 else "canonical"
    method = ra.KernelRidge(form, penalties=FEW[form])
    result = ra.calibration_error(case.y, case.f, notion=notion, method=method)
    np.testing.assert_allclose(result.value, value, rtol=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_few_features_are_as_good_as_all(form, monkeypatch):
    """The low-rank form, which one probability always takes, against eigenvalues of K itself.

    At the smallest Kronecker penalty rounding alone moves either by 2e-6.
    """
    case = ordinary(300, 2, seed=1)
    problem, parts = problem_of(case), ridge.split(300, 5, seed=0)
    penalties = ridge.PENALTIES[form].tolist()
    assert ridge.low_rank(case.f[:, [1]], most=37).shape[1] < 20
    few = [ridge.estimate_on(problem, parts, form, [rho])[0] for rho in penalties]
    monkeypatch.setattr(ridge, "low_rank", lambda x, most: None)
    full = [ridge.estimate_on(problem, parts, form, [rho])[0] for rho in penalties]
    np.testing.assert_allclose(few, full, rtol=1e-5)


def test_features_reproduce_the_kernel():
    f = ordinary(400, 4, seed=2).f
    features = ridge.low_rank(f, most=300)
    K = np.exp(-(cdist(f, f) ** 2))
    np.testing.assert_allclose(features @ features.T, K, atol=5e-12)
    assert ridge.low_rank(f, most=20) is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_classes", [2, 6])
def test_rows_permuted_with_their_folds_give_the_same_estimate(form, n_classes):
    problem, parts = problem_of(ordinary(120, n_classes)), ridge.split(120, 5, seed=0)
    order = np.random.default_rng(3).permutation(120)
    penalties = ridge.PENALTIES[form].tolist()
    value, best = ridge.estimate_on(problem, parts, form, penalties)
    permuted, same = ridge.estimate_on(problem.take(order), parts[order], form, penalties)
    assert best == same
    np.testing.assert_allclose(permuted, value, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_order_of_rows_does_not_matter(n_classes):
    """Equal rows may change places: they have equal labels too."""
    case = ordinary(60, n_classes)
    f, y = np.concatenate([case.f, case.f[:20]]), np.concatenate([case.y, case.y[:20]])
    order = np.random.default_rng(0).permutation(80)
    notion = "binary" if n_classes == 2 else "canonical"
    one, other = (
        ra.calibration_error(y[rows], f[rows], notion=notion, method=ra.KernelRidge())
        for rows in (np.arange(80), order)
    )
    np.testing.assert_allclose(one.value, other.value, rtol=1e-7)
    assert one.note == other.note
    sizes = np.bincount(ridge.parts_of(problem_of(case), 5, seed=0) + 1)
    assert sizes.tolist() == np.bincount(ridge.split(60, 5, seed=0) + 1).tolist()


def test_labels_stay_with_their_predictions():
    """Certain and right: no error; certain and right beside a shuffled label: a large one."""
    y = np.random.default_rng(0).integers(0, 3, 200)
    right = ra.calibration_error(y, np.eye(3)[y], notion="canonical", method=ra.KernelRidge())
    assert abs(right.value) < 1e-12
    wrong = ra.calibration_error(
        (y + 1) % 3, np.eye(3)[y], notion="canonical", method=ra.KernelRidge()
    )
    np.testing.assert_allclose(wrong.value, 2.0, rtol=1e-3)


@pytest.mark.parametrize(("n", "folds"), [(13, 5), (100, 5), (101, 4), (5000, 10)])
def test_the_split_sets_a_fifth_aside_and_shares_out_the_rest(n, folds):
    parts = ridge.split(n, folds, seed=0)
    sizes = np.bincount(parts + 1)
    assert sizes[0] == n - int(0.8 * n)
    assert len(sizes) == folds + 1
    assert sizes[1:].max() - sizes[1:].min() <= 1
    assert (parts != ridge.split(n, folds, seed=1)).any()


@pytest.mark.parametrize("form", FORMS)
def test_all_predictions_equal(form):
    """One point: g is the shrunk mean residual, and nothing divides by zero."""
    p, y = np.full(60, 0.3), np.arange(60) % 2
    result = ra.calibration_error(y, p, method=ra.KernelRidge(form))
    assert 0 <= result.value < 0.06
    assert result.conditional is None
    assert result.refinement is None
    np.testing.assert_allclose(result.risk, np.mean((p - y) ** 2))


@pytest.mark.parametrize("form", FORMS)
def test_zeros_and_ones(form):
    rng = np.random.default_rng(0)
    vertices = np.eye(3)[rng.integers(0, 3, 30)]
    problem = Problem("", vertices, rng.integers(0, 3, 30), np.ones(30), L2)
    parts = ridge.split(30, 3, seed=0)
    value, best = by_definition(problem, parts, form, FEW[form])
    found, chosen = ridge.estimate_on(problem, parts, form, FEW[form])
    assert chosen == best
    np.testing.assert_allclose(found, value, rtol=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_a_known_error_is_found(form):
    data = ra.datasets.temperature(20_000, 2, t1=1.0, t2=0.5, seed=0)
    method = ra.KernelRidge(form)
    result = ra.calibration_error(data.y_true, data.y_prob, notion="binary", method=method)
    truth = data.truth("binary", "l2")
    assert abs(result.value - truth) < 0.15 * truth  # three standard deviations over seeds


def test_the_edge_of_the_penalties_is_noted():
    case = ordinary(60, 3)

    def note(penalties):
        method = ra.KernelRidge(penalties=penalties)
        return ra.calibration_error(case.y, case.f, notion="canonical", method=method).note

    assert "at the edge" in note([1e6, 1e7])
    assert "at the edge" not in note([1e6])
    assert note([0.1, 10.0, 1.0]) == note((10.0, 1.0, 0.1))


def test_options_are_checked():
    with pytest.raises(ValueError, match="`form` must be one of 'residual', 'kronecker'"):
        ra.KernelRidge("primal")
    for folds in (1, 0, 2.5, "5"):
        with pytest.raises(ValueError, match="`folds`"):
            ra.KernelRidge(folds=folds)
    for penalties in ([], [0.0], [-1.0], [np.nan], [[1.0]], 1.0):
        with pytest.raises(ValueError, match="`penalties`"):
            ra.KernelRidge(penalties=penalties)
    case = ordinary(12, 3)
    with pytest.raises(ValueError, match="two samples in each of 5 folds"):
        ra.calibration_error(case.y, case.f, notion="canonical", method=ra.KernelRidge())
    case = ordinary(40, 3)
    with pytest.raises(ValueError, match="`sample_weight` is not used"):
        ra.calibration_error(
            case.y,
            case.f,
            notion="canonical",
            method=ra.KernelRidge(),
            sample_weight=np.arange(40),
        )
    ones = ra.calibration_error(
        case.y, case.f, notion="canonical", method=ra.KernelRidge(), sample_weight=np.full(40, 2)
    )
    plain = ra.calibration_error(case.y, case.f, notion="canonical", method=ra.KernelRidge())
    assert ones.value == plain.value
