"""What users may say: a loss of their own is checked before it is used."""

import numpy as np
import pytest

import riskalign as ra

Y, F = [0, 1, 2, 0], np.full((4, 3), 1 / 3)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (lambda f: f * np.nan, r"`loss='mine'` must be finite"),
        (lambda f: f.sum(axis=1), r"must map predictions \(n, K\) to losses \(n, K\)"),
    ],
)
@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_a_loss_of_the_users_own_is_checked(outcomes, message, notion):
    with pytest.raises(ValueError, match=message):
        ra.calibration_error(Y, F, loss=ra.ProperLoss("mine", outcomes), notion=notion)


def test_a_logarithm_without_a_floor_is_told_what_to_do():
    def bare_log(f):
        with np.errstate(divide="ignore"):
            return -np.log(f)

    with pytest.raises(ValueError, match=r"Floor what a logarithm"):
        ra.calibration_error(Y, F, loss=ra.ProperLoss("bare", bare_log))
