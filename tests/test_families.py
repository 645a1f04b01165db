"""Every synthetic family has the truth it claims."""

import numpy as np
import pytest

from riskalign import datasets
from riskalign.datasets import FAMILIES, HELD_OUT

ALL = FAMILIES | HELD_OUT


@pytest.mark.parametrize("n_classes", [2, 4, 30])
@pytest.mark.parametrize("name", ALL)
def test_rows_lie_on_the_simplex(name, n_classes):
    data = ALL[name](500, n_classes, 1)
    for rows in (data.y_prob, data.conditional):
        assert rows.shape == (500, n_classes)
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)
    assert set(np.unique(data.y_true)) <= set(range(n_classes))


@pytest.mark.parametrize("name", ALL)
def test_labels_are_drawn_from_the_conditional(name):
    """Class counts within five standard deviations: fails once in 400,000 for right code."""
    data = ALL[name](40_000, 4, 2)
    counts = np.bincount(data.y_true, minlength=4)
    expected = data.conditional.sum(axis=0)
    sd = np.sqrt((data.conditional * (1 - data.conditional)).sum(axis=0))
    assert (np.abs(counts - expected) < 5 * sd).all()
    # and where f ranks a class first, not only on average
    top = np.argmax(data.y_prob, axis=1)
    p = data.conditional[np.arange(len(top)), top]
    assert abs(np.sum(data.y_true == top) - p.sum()) < 5 * np.sqrt(np.sum(p * (1 - p)))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_conditional_is_a_function_of_the_prediction(name):
    """Rows with close predictions have close conditionals, or `conditional` is not E[y | f]."""
    data = FAMILIES[name](20_000, 2, 3)
    order = np.argsort(data.y_prob[:, 1])
    gaps = np.abs(np.diff(data.conditional[order, 1]))
    assert np.max(gaps) < 0.02
    assert np.mean(gaps) < 3e-4


@pytest.mark.parametrize("notion", ["classwise", "canonical", "top-label"])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_only_the_calibrated_family_has_no_error(notion, loss):
    for name, family in ALL.items():
        truth = family(2000, 4, 4).truth(notion=notion, loss=loss)
        assert truth == pytest.approx(0, abs=1e-15) if name == "calibrated" else truth > 3e-4


@pytest.mark.parametrize("name", ALL)
def test_marginal_truth_is_below_the_joint_one(name):
    """Averaging R over rows with one f_k loses what differs between them, never adds."""
    data = ALL[name](5000, 4, 5)
    joint = data.truth(notion="classwise", given="joint")
    assert data.truth(notion="classwise", given="marginal") <= joint + 2e-4


def test_seeds_and_strengths_matter():
    first, again, other = (datasets.wavy(50, 3, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.y_prob, again.y_prob)
    assert not np.array_equal(first.y_prob, other.y_prob)
    weak, strong = (datasets.class_bias(500, 3, bias=b).truth() for b in (0.1, 0.8))
    assert weak < strong
    none = datasets.label_noise(500, 3, noise=0.0)
    assert np.array_equal(none.y_prob, none.conditional)


@pytest.mark.parametrize("name", ["ties", "verbalised"])
def test_equal_predictions_have_one_conditional(name):
    data = HELD_OUT[name](5_000, 3, 6)
    f, number = np.unique(data.y_prob, axis=0, return_inverse=True)
    assert len(f) <= 30
    for k in range(len(f)):
        assert np.ptp(data.conditional[number == k], axis=0).max() == 0


def test_a_step_is_a_jump_of_the_log_odds():
    data = datasets.step(2_000, 2, height=0.3, seed=0)
    jump = np.log(data.conditional / data.y_prob)
    above = data.y_prob[:, 1] > 0.5
    np.testing.assert_allclose((jump[:, 1] - jump[:, 0])[above], 0.6)
    np.testing.assert_allclose((jump[:, 1] - jump[:, 0])[~above], -0.6)
