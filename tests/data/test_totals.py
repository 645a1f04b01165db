"""Sums of losses: exact in any order, right against numpy; the logarithm's table."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskalign.data import totals as module
from riskalign.data.logs import FIRST, LAST, _table, log_loss
from riskalign.data.totals import Totals
from riskalign.equations.arrays import FLOOR


def sample(seed, n, n_classes=3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_classes, 0.3), n)
    p[rng.random(n) < 0.2] = np.eye(n_classes)[0]
    return p, rng.integers(0, n_classes, n), rng.choice([0.5, 1.0, 3.0], n)


def state(totals):
    return totals.n_rows, totals.exact, totals.weighted, totals.sums.tolist(), totals.exponent


def expected(p, y, w):
    true = p[np.arange(len(p)), y]
    brier = ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1)
    return np.average([-np.log(np.maximum(true, FLOOR)), brier], axis=1, weights=w)


@pytest.mark.parametrize("n_classes", [2, 3, 50])
def test_means_equal_numpy(n_classes):
    p, y, w = sample(0, 400, n_classes)
    totals = Totals().add(p, y)
    assert list(totals.means()) == pytest.approx(expected(p, y, None), abs=1e-11)
    weighted = Totals().add(p, y, w)
    assert list(weighted.means()) == pytest.approx(expected(p, y, w), abs=1e-11)


@given(st.integers(0, 99), st.integers(1, 60), st.integers(1, 5))
def test_order_and_division_change_nothing(seed, n, pieces):
    p, y, w = sample(seed, n)
    order = np.random.default_rng(seed).permutation(n)
    divided, weighted = Totals(), Totals()
    for rows in np.array_split(order, pieces):
        divided.merge(Totals().add(p[rows], y[rows]))
        weighted.merge(Totals().add(p[rows], y[rows], w[rows]))
    assert state(divided.merge(Totals())) == state(Totals().add(p, y))
    whole = Totals().add(p, y, w)
    assert weighted.exponent == whole.exponent
    np.testing.assert_allclose(weighted.sums, whole.sums, rtol=1e-12)


def test_layout_and_precision_change_nothing(monkeypatch):
    p, y, _ = sample(1, 300, 7)
    single = p.astype(np.float32)
    whole = state(Totals().add(single, y))
    for made in (
        single.astype(np.float64),
        np.asfortranarray(single),
        np.repeat(single, 2, axis=1)[:, ::2],
    ):
        assert state(Totals().add(made, y)) == whole
    monkeypatch.setattr(module, "CHUNK", 20)
    assert state(Totals().add(single, y)) == whole


def test_rows_without_weights_weigh_one():
    p, y, w = sample(2, 60)
    mixed = Totals().add(p[:20], y[:20]).add(p[20:40], y[20:40], w[20:40]).add(p[40:], y[40:])
    weights = np.concatenate([np.ones(20), w[20:40], np.ones(20)])
    whole = Totals().add(p, y, weights)
    assert mixed.exponent == whole.exponent
    np.testing.assert_allclose(mixed.sums, whole.sums, rtol=1e-12)
    merged = Totals().add(p[:20], y[:20]).merge(Totals().add(p[20:], y[20:], weights[20:]))
    np.testing.assert_allclose(merged.sums, whole.sums, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_weights_of_any_size(scale):
    p, y, w = sample(3, 50)
    totals = Totals().add(p, y, w * scale)
    assert list(totals.means()) == pytest.approx(expected(p, y, w), abs=1e-11)
    mixed = Totals().add(p, y, w * scale).add(p, y)
    assert np.isfinite(mixed.sums).all()
    kept = (w * scale, np.ones(50)) if scale > 1 else (np.zeros(50), np.ones(50))
    both = expected(np.tile(p, (2, 1)), np.tile(y, 2), np.concatenate(kept))
    assert list(mixed.means()) == pytest.approx(both, abs=1e-11)


def test_no_rows():
    assert math.isnan(Totals().means()[0])
    none = Totals().add(np.empty((0, 3)), np.empty(0, dtype=int), np.empty(0))
    assert state(none) == state(Totals())


def test_a_million_million_rows():
    p, y, _ = sample(4, 4)
    totals = Totals().add(p, y)
    once = totals.exact
    for _ in range(40):
        totals.merge(totals)
    assert totals.exact == tuple(value * 2**40 for value in once)
    assert totals.means()[0] == pytest.approx(Totals().add(p, y).means()[0])


def test_known_sums():
    """Bytes of sketches depend on them, on every machine."""
    p = np.array([[0.1, 0.2, 0.7], [1e-12, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert Totals().add(p, np.array([2, 0, 2])).exact == KNOWN


KNOWN = (5794410000353, 450799767387)


@given(st.lists(st.one_of(st.floats(0, 1), st.floats(0, 25).map(lambda x: math.exp(-x)))))
def test_the_logarithm(p):
    p = np.array(p, dtype=np.float64)
    np.testing.assert_allclose(log_loss(p), -np.log(np.maximum(p, FLOOR)), rtol=0, atol=1.2e-14)


def test_the_logarithm_at_its_joints():
    starts = (np.arange(FIRST + 1, LAST + 1, dtype=np.int64) << 44).view(np.float64)
    p = np.concatenate([starts, np.nextafter(starts, 0), [FLOOR, np.nextafter(FLOOR, 0), 0.0]])
    np.testing.assert_allclose(log_loss(p), -np.log(np.maximum(p, FLOOR)), rtol=0, atol=1.2e-14)
    assert log_loss(np.array([1.0])).tolist() == [0.0]


def test_the_table_is_correctly_rounded():
    inverse, logarithm = _table()
    np.testing.assert_allclose(logarithm, np.log(inverse), rtol=3e-16)
