"""Problems: rows of one or of several samples, labels in columns."""

import numpy as np
import pytest

from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem


def one(sample_weights=None):
    p, y, w = np.array([0.2, 0.9, 0.4]), np.array([0, 1, 1]), np.array([2.0, 3.0, 0.5])
    return Problem("p", p, y, w, L2.binary, sample_weights)


def several():
    f = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    return Problem("all", f, np.array([2, 0]), np.ones(2), L2)


def test_labels_as_columns():
    assert one().one_hot().tolist() == [[1, 0], [0, 1], [0, 1]]
    assert one().columns().tolist() == [[0], [1], [1]]
    assert several().one_hot().tolist() == several().columns().tolist() == [[0, 0, 1], [1, 0, 0]]


def test_the_form_of_predictions():
    assert (one().n_classes, one().one_dimensional) == (2, True)
    assert (several().n_classes, several().one_dimensional) == (3, False)
    np.testing.assert_allclose(one().points, [[0.8, 0.2], [0.1, 0.9], [0.6, 0.4]])
    assert Problem.free(one().predictions).shape == (3, 1)
    assert Problem.free(several().predictions).shape == (2, 3)


def test_a_row_is_one_sample_unless_it_says_otherwise():
    assert one().units.tolist() == [2.0, 3.0, 0.5]
    assert one().unit == pytest.approx((4 + 9 + 0.25) / 5.5)
    copies = one(np.array([1.0, 0.5, 0.5]))
    assert copies.units.tolist() == [1.0, 0.5, 0.5]
    # two samples of weight 1, six and one of weight 1/2: the mean over their weight
    assert copies.unit == pytest.approx((2 * 1 + 7 * 0.25) / 5.5)


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([1, 2])])
def test_some_rows(rows):
    part = one(np.array([1.0, 0.5, 0.25])).take(rows)
    assert part.predictions.tolist() == [0.9, 0.4]
    assert part.labels.tolist() == [1, 1]
    assert part.weights.tolist() == [3.0, 0.5]
    assert part.units.tolist() == [0.5, 0.25]
    assert one().take(rows).sample_weights is None
