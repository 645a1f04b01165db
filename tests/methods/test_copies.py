"""A row that stands for several equal samples gives what as many rows give."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import riskalign as ra
from riskalign.data.notions import NOTIONS
from riskalign.data.validation import as_sample
from riskalign.equations.kernels import DIRICHLET, KERNELS
from riskalign.equations.losses import KL, L2
from riskalign.equations.starts import STARTS
from riskalign.methods.labels import label_estimates
from riskalign.methods.residuals import debiased
from riskalign.smoothing import Tuning, choose_smoother

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
ROW_TERMS = (
    "terms",
    "risk",
    "reconstructed_risk",
    "plugin",
    "variance_removed",
    "gains",
    "conditional",
)


def sample_of(family, n=120):
    """Predictions of three classes, some of them equal, some of exactly 0 and 1."""
    data = ra.datasets.FAMILIES[family](n, 3, 0)
    f = np.round(data.y_prob, 2)
    f /= f.sum(axis=1, keepdims=True)
    f[:6] = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    return as_sample(data.y_true, f)


def both(notion, loss, family="temperature", weighted=True):
    """Problems with rows of up to four samples, those with a row per sample, and whose it is."""
    problems = NOTIONS[notion].problems(sample_of(family), loss)
    n = len(problems[0].labels)
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 5, n)
    units = rng.uniform(0.3, 2, n) if weighted else np.ones(n)
    each = np.repeat(np.arange(n), counts)
    tables = [replace(own, weights=counts * units, sample_weights=units) for own in problems]
    expanded = [replace(own.take(each), weights=units[each]) for own in problems]
    return tables, expanded, each


def check(short, long, each):
    for one, other in zip(short, long, strict=True):
        for name in ROW_TERMS:
            got, expected = getattr(one, name)[each], getattr(other, name)
            np.testing.assert_allclose(got, expected, **CLOSE, err_msg=name)
            if got.ndim == 1:
                assert one.mean(getattr(one, name)) == pytest.approx(other.mean(expected), rel=1e-9)
        assert one.effective_samples == pytest.approx(other.effective_samples)
        assert one.tunings.tunings == other.tunings.tunings
        np.testing.assert_allclose(one.tunings.weights, other.tunings.weights, rtol=1e-7)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("loss", [L2, KL], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("notion", "engine"),
    [("classwise", "exact"), ("classwise", "grid"), ("top-label", "grid"), ("canonical", "exact")],
)
def test_the_debiased_estimate_at_given_tunings(notion, engine, loss, start):
    tables, expanded, each = both(notion, loss)
    for kernel, tuning in (("dirichlet", Tuning(0.02, 0.5)), ("rbf", Tuning(0.1))):
        tunings = [tuning] * len(tables)
        args = KERNELS[kernel], engine, STARTS[start], tunings
        check(debiased(tables, *args), debiased(expanded, *args), each)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("family", ["temperature", "peaked"])
@pytest.mark.parametrize(
    ("notion", "engine"), [("classwise", "exact"), ("classwise", "grid"), ("canonical", "exact")]
)
def test_the_debiased_estimate_where_candidates_are_weighted(notion, engine, family, weighted):
    tables, expanded, each = both(notion, KL, family, weighted)
    args = DIRICHLET, engine, STARTS["logistic"], None, np.array([0.01, 0.05, 0.2])
    check(debiased(tables, *args), debiased(expanded, *args), each)


@pytest.mark.parametrize("estimator", ["plugin", "variational", "cross"])
@pytest.mark.parametrize(
    ("notion", "engine"), [("classwise", "exact"), ("classwise", "grid"), ("canonical", "exact")]
)
def test_smoothed_labels(notion, engine, estimator):
    tables, expanded, each = both(notion, KL)
    tunings = [Tuning(0.02)] * len(tables)
    short, long = (
        label_estimates(problems, choose_smoother(problems, DIRICHLET, engine), tunings, estimator)
        for problems in (tables, expanded)
    )
    for one, other in zip(short, long, strict=True):
        for name in ("value", "risk", "refinement", "reconstructed_risk"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(one.conditional[each], other.conditional, **CLOSE)


def test_by_nodes_copies_are_samples_too():
    """Nodes hold sums of weights, so that they cannot tell rows from copies at all."""
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-1, 2, 6_000))
    y = (rng.random(6_000) < p).astype(int)
    (problem,) = NOTIONS["binary"].problems(as_sample(y, p), KL)
    counts = rng.integers(1, 4, 6_000)
    each = np.repeat(np.arange(6_000), counts)
    table = replace(problem, weights=counts * 1.0, sample_weights=np.ones(6_000))
    expanded = replace(problem.take(each), weights=np.ones(len(each)))
    args = DIRICHLET, "grid", STARTS["logistic"], [Tuning(0.02)]
    (short,), (long,) = debiased([table], *args), debiased([expanded], *args)
    assert len(short.problem.labels) == len(long.problem.labels)
    for name in ROW_TERMS[:5]:
        got, expected = (one.mean(getattr(one, name)) for one in (short, long))
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_repeated_rows_do_not_depend_on_how_they_are_held(notion):
    """The same data in any order, ties apart or together."""
    sample = sample_of("temperature", 60)
    y, f = sample.labels, sample.probabilities
    if notion == "binary":
        y, f = (y == 0).astype(int), np.stack([1 - f[:, 0], f[:, 0]], axis=1)
    each = np.repeat(np.arange(60), np.random.default_rng(2).integers(1, 4, 60))
    order = np.random.default_rng(3).permutation(len(each))
    options = {"notion": notion, "loss": "kl", "engine": "exact", "candidates": [0.02, 0.2]}
    one, other = (ra.calibration_error(y[rows], f[rows], **options) for rows in (each, each[order]))
    assert one.value == pytest.approx(other.value, rel=1e-9)
    np.testing.assert_allclose(one.conditional[order], other.conditional, **CLOSE)
