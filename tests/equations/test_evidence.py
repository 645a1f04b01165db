"""What the data say of each class on its own."""

import numpy as np
import pytest
from scipy.stats import poisson

from riskalign.data.validation import as_sample
from riskalign.equations.evidence import ClassEvidence
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.options import make_case


def evidence(y, p):
    case = make_case(as_sample(y, p), "classwise", "l2")
    return ClassEvidence.of(case.problems, len(y), 0.95)


def drawn(p, rng):
    return (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)


def test_calibrated_models_have_findings_rarely():
    """At 5% per data set, at most 13 of 120 (once in 200 if exact); it is conservative."""
    found = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        n, K = [(200, 4), (400, 40)][seed % 2]
        p = rng.dirichlet(np.full(K, 0.3), n)
        found += evidence(drawn(p, rng), p).findings.any()
    assert found <= 13


def test_directions():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 4_000)
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    assert evidence(drawn(p, rng), sharp).directions == ["too extreme"] * 3
    assert evidence(drawn(sharp, rng), p).directions == ["too timid"] * 3
    moved = p * [1.0, 1.0, 2.0]
    moved /= moved.sum(axis=1, keepdims=True)
    words = evidence(drawn(p, rng), moved).directions
    assert words[2] in ("too high", "too extreme")
    assert evidence(drawn(p, rng), moved).gaps[2] > 0


def test_a_rare_class_has_the_p_value_of_its_count():
    """Twelve rows of a class of which three are expected, among many rows."""
    n = 30_000
    p, y = np.full(n, 1e-4), (np.arange(n) < 12).astype(np.int8)
    found = ClassEvidence.of([Problem("rare", p, y, np.ones(n), L2.binary)], n, 0.95)
    assert found.p_values[0] == pytest.approx(2 * poisson.sf(11, 3), rel=0.01)
    assert found.directions == ["too low"]
    assert found.counts[0] == pytest.approx(12)


def test_intervals_of_few_rows_are_possible():
    y, p = np.array([0, 1, 2]), np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    found = evidence(y, p)
    assert (found.low >= p.mean(axis=0) - 1).all()
    assert (found.high <= p.mean(axis=0)).all()


def test_order_is_by_evidence():
    """A large gap of a few rows comes after a small one of many."""
    n = 10_000
    few = Problem("few", np.full(20, 0.5), (np.arange(20) < 6).astype(np.int8), np.ones(20),
                  L2.binary)  # fmt: skip
    many = Problem("many", np.full(n, 0.5), (np.arange(n) < 4_700).astype(np.int8), np.ones(n),
                   L2.binary)  # fmt: skip
    parts = [ClassEvidence.of([each], len(each.labels), 0.95) for each in (few, many)]
    both = ClassEvidence(
        ("few", "many"),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in (
                "mean_prediction",
                "frequency",
                "counts",
                "low",
                "high",
                "p_values",
                "slopes",
            )
        ),
    )
    assert abs(both.gaps[0]) > abs(both.gaps[1])
    assert both.order().tolist() == [1, 0]
    assert both.findings.tolist() == [False, True]


def test_predictions_of_0_and_1():
    y = np.array([0, 1, 1, 0])
    found = evidence(y, np.eye(2)[y])
    assert not found.findings.any()
    assert np.isfinite(found.p_values).all()
    wrong = evidence(np.tile(y, 10), np.tile(np.eye(2)[1 - y], (10, 1)))
    assert np.isfinite(wrong.p_values).all()


def test_classes_that_differ_by_rounding_keep_their_order():
    """The gaps of two classes are the same but for their sign and the last bits."""
    p = np.array([0.4835821429975719, 0.5164178570024281, 0.3])
    frequency = np.array([0.4333333333333333, 0.5666666666666667, 0.3])
    gaps, p_values = p - frequency, np.array([0.3 + 6e-17, 0.3, 0.5])
    assert abs(gaps[0]) > abs(gaps[1])
    assert p_values[0] > p_values[1]
    rest = (np.full(3, 50.0), gaps - 0.1, gaps + 0.1)
    found = ClassEvidence(("a", "b", "c"), p, frequency, *rest, p_values, np.zeros(3, np.intp))
    assert found.order().tolist() == [0, 1, 2]
    found = ClassEvidence(
        ("a", "b", "c"), *(x[::-1] for x in (p, frequency, *rest, p_values)), np.zeros(3, np.intp)
    )
    assert found.order().tolist() == [1, 2, 0]
