"""Bandwidths of residuals: no label has a part in the choice for its own row."""

from dataclasses import replace

import numpy as np
import pytest

import riskalign as ra
from riskalign.bandwidth.choosing import (
    FEWEST,
    FOLDS,
    SEARCH_ROWS,
    _risks,
    choose,
    choose_across,
    folds,
)
from riskalign.bandwidth.coordinates import with_residuals
from riskalign.data.sample import reduce
from riskalign.data.validation import as_sample
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import L2
from riskalign.equations.starts import started


def parts_of(problems, start="logistic"):
    return choose_across(problems, start, folds(problems), DIRICHLET, "exact", None, False)[1]


@pytest.mark.parametrize("start", ["identity", "logistic"])
@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_a_fold_is_smoothed_as_the_other_rows_choose(notion, start):
    data = ra.datasets.peaked(200, 3, seed=0)
    problems = reduce(as_sample(data.y_true, data.y_prob), notion, L2)
    before = parts_of(problems, start)
    changed = []
    for number in range(FOLDS):
        rows = before[number].rows
        other = [
            replace(problem, labels=np.where(np.isin(np.arange(200), rows), 0, problem.labels))
            for problem in problems
        ]
        after = parts_of(other, start)
        for mine, theirs in zip(before[number].choices, after[number].choices, strict=True):
            assert (mine.bandwidth, mine.flattening) == (theirs.bandwidth, theirs.flattening)
            np.testing.assert_array_equal(mine.curve.objective, theirs.curve.objective)
        changed += [
            not np.array_equal(mine.curve.objective, theirs.curve.objective)
            for part, again in zip(before, after, strict=True)
            for mine, theirs in zip(part.choices, again.choices, strict=True)
        ]
    assert any(changed)  # labels matter, to the others


def test_folds_hold_every_row_once_and_are_alike():
    data = ra.datasets.peaked(203, 3, seed=0)
    problems = reduce(as_sample(data.y_true, data.y_prob), "classwise", L2)
    dealt = folds(problems)
    assert np.array_equal(np.sort(np.concatenate(dealt)), np.arange(203))
    assert {len(rows) for rows in dealt} <= {203 // FOLDS, 203 // FOLDS + 1}
    tops = [data.y_prob[rows].max(axis=1).mean() for rows in dealt]
    assert np.ptp(tops) < 0.02


def test_few_rows_that_count_are_not_dealt():
    data = ra.datasets.calibrated(100, 3, seed=0)
    weights = np.where(np.arange(100) < FEWEST - 1, 1.0, 0.0)
    problems = reduce(as_sample(data.y_true, data.y_prob, sample_weight=weights), "classwise", L2)
    assert folds(problems) is None
    weights[50] = 1.0
    problems = reduce(as_sample(data.y_true, data.y_prob, sample_weight=weights), "classwise", L2)
    each = [weights[rows].sum() for rows in folds(problems)]
    assert max(each) - min(each) <= 1


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
def test_the_order_of_rows_and_classes_does_not_matter(notion):
    data = ra.datasets.class_bias(150, 3, seed=1)
    rows, classes = np.random.default_rng(0).permutation(150), np.array([2, 0, 1])
    options = {"notion": notion, "estimator": "debiased", "engine": "exact", "confidence": 0.9}
    one = ra.calibration_error(data.y_true, data.y_prob, **options)
    other = ra.calibration_error(data.y_true[rows], data.y_prob[rows], **options)
    renamed = ra.calibration_error(
        np.argsort(classes)[data.y_true], data.y_prob[:, classes], **options
    )
    assert other.value == pytest.approx(one.value, rel=1e-9)
    assert renamed.value == pytest.approx(one.value, rel=1e-9)


@pytest.mark.parametrize(("notion", "rows"), [("classwise", 3_000), ("canonical", SEARCH_ROWS)])
def test_more_rows_choose_where_they_cost_little(notion, rows):
    """Few rows cannot tell a narrow kernel from a wide one, and the wide one sees less error."""
    data = ra.datasets.temperature(3_000, 3, t2=0.7, seed=4)
    problems = reduce(as_sample(data.y_true, data.y_prob), notion, L2)
    valued = [
        with_residuals(problem, problem.points, tau) for tau in (1, 0.5) for problem in problems
    ]
    risks, weights = _risks(valued, np.array([0.01, 0.1]), DIRICHLET, "auto", False)
    assert risks.shape == (len(valued), 2, rows)
    assert len(weights) == rows


@pytest.mark.parametrize("notion", ["classwise", "canonical"])
@pytest.mark.parametrize("candidates", [None, np.array([0.02, 0.1, 0.3])])
def test_folds_are_smoothed_as_the_other_rows_choose(notion, candidates):
    data = ra.datasets.temperature(200, 3, t2=0.5, seed=0)
    problems = reduce(as_sample(data.y_true, data.y_prob), notion, L2)
    dealt = folds(problems)
    args = ("logistic", dealt, DIRICHLET, "exact", candidates, False)
    _, parts = choose_across(problems, *args)
    for rows, part in zip(dealt, parts, strict=True):
        np.testing.assert_array_equal(part.rows, rows)
        rest = [problem.take(np.delete(np.arange(200), rows)) for problem in problems]
        starts = [started(problem, "logistic") for problem in rest]
        for got, expected in zip(part.choices, choose(rest, starts, *args[2:]), strict=True):
            assert (got.bandwidth, got.flattening) == (expected.bandwidth, expected.flattening)
