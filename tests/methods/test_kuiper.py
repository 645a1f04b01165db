"""The range of cumulative differences against its definition over all intervals."""

import numpy as np
import pytest

import riskalign as ra


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_largest_gap_of_any_interval(ties, weighted):
    rng = np.random.default_rng(0)
    p = rng.integers(0, 11, 40) / 10 if ties else rng.uniform(size=40)
    y = (rng.uniform(size=40) < p**2).astype(int)
    w = rng.uniform(0.5, 2, 40) if weighted else np.ones(40)
    found = ra.calibration_error(
        y, p, method=ra.Kuiper(), sample_weight=w if weighted else None
    ).value
    gaps = [
        abs((w * (y - p))[(low <= p) & (p <= high)].sum()) / w.sum()
        for low in np.unique(p)
        for high in np.unique(p)
    ]
    assert found == pytest.approx(max(gaps), abs=1e-12)


def test_no_gap_is_zero():
    assert ra.calibration_error([0, 1], [0, 1], method=ra.Kuiper()).value == 0


def test_the_order_of_rows_has_no_part():
    data = ra.datasets.temperature(300, 3, seed=0)
    order = np.random.default_rng(0).permutation(300)
    one, other = (
        ra.calibration_error(y, f, notion="top-label", method=ra.Kuiper()).value
        for y, f in [(data.y_true, data.y_prob), (data.y_true[order], data.y_prob[order])]
    )
    assert one == pytest.approx(other, rel=1e-12)
