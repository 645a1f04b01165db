"""Spiegelhalter's z against the Brier score of all label sets, and on hard inputs."""

from itertools import product

import numpy as np
import pytest

import riskalign as ra


def z(y, p, **options):
    return ra.calibration_error(y, p, method=ra.Spiegelhalter(), **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_brier_score_standardised_by_all_label_sets(weighted):
    """Its mean and variance under the predictions, by enumeration, as Spiegelhalter defines z."""
    rng = np.random.default_rng(0)
    p, y = rng.random(7), np.array([0, 1, 1, 0, 1, 0, 1])
    w = rng.random(7) if weighted else np.ones(7)
    scores, chances = [], []
    for labels in product((0, 1), repeat=7):
        labels = np.array(labels)
        scores.append(w @ (labels - p) ** 2)
        chances.append(np.prod(np.where(labels, p, 1 - p)))
    mean = np.dot(chances, scores)
    deviation = np.sqrt(np.dot(chances, (np.array(scores) - mean) ** 2))
    found = z(y, p, sample_weight=w if weighted else None)
    assert found.value == pytest.approx((w @ (y - p) ** 2 - mean) / deviation)


def test_the_published_formula_by_hand():
    """Two rows: ((1 - 0.8)(1 - 1.6) + (0 - 0.3)(1 - 0.6)) / sqrt(0.36 0.16 + 0.16 0.21)."""
    expected = (0.2 * -0.6 - 0.3 * 0.4) / np.sqrt(0.36 * 0.16 + 0.16 * 0.21)
    found = z([1, 0], [0.8, 0.3])
    assert found.value == pytest.approx(expected)
    assert found.note == "two-sided p-value 0.43"


def test_calibrated_models_are_standard_normal():
    values = [
        z(data.y_true, data.y_prob).value
        for data in (ra.datasets.calibrated(200, 2, seed=seed) for seed in range(400))
    ]
    assert abs(np.mean(values)) < 4 / np.sqrt(400)  # false alarm in 1 of 16,000
    assert 0.85 < np.var(values) < 1.15  # four standard deviations of a variance: 0.28


def test_signs_and_hard_inputs():
    data = ra.datasets.temperature(1000, 3, t2=0.5, seed=0)
    assert z(data.y_true, data.y_prob, notion="top-label").value > 3  # too extreme
    assert z([0, 1], [0.5, 0.5]).value == 0
    assert z([0, 1], [0.0, 1.0]).value == 0
    assert z([1, 1], [0.0, 1.0]).value == np.inf
    assert z([1, 1], [0.0, 1.0]).note == "two-sided p-value 0"
    with pytest.raises(ValueError, match="has no meaning for notion='classwise'"):
        z(data.y_true, data.y_prob)


def test_it_is_shown_as_a_statistic_and_not_in_points():
    found = z([1, 0, 1], [0.8, 0.3, 0.9])
    assert "The statistic is -0.8296 (two-sided p-value" in str(found)
    assert "points" not in found.sentence()
    assert found.verdict().grade == "unclear"
    assert "z" in found._repr_html_()
