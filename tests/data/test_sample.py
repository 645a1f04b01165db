"""Notions as reductions of the data."""

import numpy as np
import oracle
import pytest
from cases import HARD, ordinary
from hypothesis import given
from hypothesis import strategies as st

from riskalign.data.notions import NOTIONS
from riskalign.data.sample import Sample
from riskalign.equations.losses import KL, L2
from riskalign.equations.simplex import on_simplex


def reduce(sample, notion, loss):
    return NOTIONS[notion].problems(sample, loss)


def as_sample(case):
    names = tuple(str(k) for k in range(case.n_classes))
    f = case.f.astype(np.float64)
    return Sample(f, case.y.astype(np.intp), np.ones(len(case.y)), names)


@pytest.mark.parametrize("name", HARD)
def test_reductions_equal_the_oracle(name):
    case = HARD[name]
    y, f, _ = case.plain
    for notion in case.notions():
        found = reduce(as_sample(case), notion, L2)
        for problem, (points, labels) in zip(found, oracle.problems(notion, f, y), strict=True):
            assert problem.points.tolist() == [list(row) for row in points]
            assert problem.labels.tolist() == list(labels)
            one_hot = [[float(k == label) for k in range(len(points[0]))] for label in labels]
            assert problem.one_hot().tolist() == one_hot


def test_the_reduction_picks_the_form_of_the_loss():
    for notion in ("top-label", "classwise"):
        assert all(p.loss is L2.binary for p in reduce(as_sample(ordinary(5, 3)), notion, L2))
    for notion, form in (("binary", L2.binary), ("canonical", L2)):
        assert reduce(as_sample(ordinary(5, 2)), notion, L2)[0].loss is form
    assert reduce(as_sample(ordinary(5, 2)), "binary", KL)[0].loss is KL


def test_of_equal_top_probabilities_the_first_counts():
    f = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    sample = Sample(f, np.array([0, 2]), np.ones(2), ("a", "b", "c"))
    (problem,) = reduce(sample, "top-label", L2)
    assert problem.labels.tolist() == [1, 0]
    assert problem.predictions.tolist() == [0.4, 0.4]


def test_classwise_problems_carry_the_names_of_the_classes():
    sample = Sample(np.eye(3), np.arange(3), np.ones(3), ("cat", "dog", "owl"))
    assert [p.name for p in reduce(sample, "classwise", L2)] == ["cat", "dog", "owl"]
    assert [p.labels.tolist() for p in reduce(sample, "classwise", L2)] == np.eye(3).tolist()


@pytest.mark.parametrize("notion", NOTIONS)
def test_taking_rows_keeps_them_together(notion):
    case = ordinary(6, 2)
    sample = Sample(case.f, case.y, np.arange(6.0), ("0", "1"))
    for problem in reduce(sample, notion, L2):
        part = problem.take(np.array([4, 1]))
        assert part.points.tolist() == problem.points[[4, 1]].tolist()
        assert part.labels.tolist() == problem.labels[[4, 1]].tolist()
        assert part.weights.tolist() == [4, 1]
        assert part.n_classes == 2


@given(st.floats(0, 1))
def test_one_probability_on_the_simplex(p):
    assert on_simplex(np.array([p])).tolist() == [[1 - p, p]]
