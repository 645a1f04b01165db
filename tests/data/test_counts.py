"""Counts of cells against dictionaries, in any order and division."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskalign.data import counting
from riskalign.data.cells import Cells
from riskalign.data.counts import MOST_ROWS, CellCounts

PLACES = np.array([0.0, 1.0, 0.5, 1e-12, 1 - 1e-13, 0.1, 0.2, 0.2001, 0.6, 0.8, 0.9, 1 / 3])


def sample(seed, n, n_problems):
    """Rows with ties, ends and neighbours."""
    rng = np.random.default_rng(seed)
    p = rng.choice(PLACES, (n, n_problems))
    free = rng.random((n, n_problems)) < 0.5
    p[free] = rng.beta(0.5, 0.5, free.sum())
    labels = rng.integers(0, max(n_problems, 2), n)
    return (p[:, 0] if n_problems == 1 else p), labels, rng.choice([0.5, 1.0, 3.0], n)


def plain(p, labels, weights, n_problems, cells):
    """Sums per code, row by row: counts, w, w^2, offsets, w times offset."""
    sums = {}
    for row, label, w in zip(p.reshape(len(labels), -1), labels, weights, strict=True):
        slots, offsets = cells.encode(row)
        for k, (slot, offset) in enumerate(zip(slots.tolist(), offsets.tolist(), strict=True)):
            came = label == 1 if n_problems == 1 else label == k
            code = (2 * k + bool(came)) * cells.n_slots + slot
            old = sums.get(code, np.zeros(5))
            sums[code] = np.add(old, (1, w, w * w, offset, w * offset))
    return sorted(sums), np.array([sums[code] for code in sorted(sums)]).reshape(-1, 5)


def state(counts):
    part = counts.sums
    return [part.codes.tolist(), *(column.tolist() for column in part.sums)]


@pytest.mark.parametrize("n", [1, 7, 300])
@pytest.mark.parametrize("n_problems", [1, 2, 3, 40])
@pytest.mark.parametrize("sparse", [0, 1 << 40])
def test_counts_equal_a_dictionary(n, n_problems, sparse, monkeypatch):
    monkeypatch.setattr(counting, "SPARSE", sparse)  # 0: sorted, many: all cells
    monkeypatch.setattr(counting, "BLOCK", 900)
    monkeypatch.setattr(counting, "CHUNK", 130)
    cells = Cells(6, 15)
    p, y, w = sample(n, n, n_problems)
    codes, sums = plain(p, y, w, n_problems, cells)
    found = CellCounts(n_problems, 6, 15).add(p, y)
    assert state(found) == [codes, sums[:, 0].tolist(), sums[:, 3].tolist()]
    assert all(column.dtype == np.int64 for column in found.sums.sums)
    weighted = CellCounts(n_problems, 6, 15).add(p, y, w)
    assert weighted.exponent == int(np.floor(np.log2(w.max())))
    unit = 2.0**weighted.exponent
    expected = sums[:, [0, 1, 2, 4]] / [1, unit, unit**2, unit]
    assert weighted.sums.codes.tolist() == codes
    np.testing.assert_allclose(np.array(weighted.sums.sums).T, expected, rtol=1e-12)


def divided(p, y, w, n_problems, pieces, seed):
    """Counts of shuffled pieces, merged."""
    order = np.random.default_rng(seed).permutation(len(y))
    result = CellCounts(n_problems, 8)
    for rows in np.array_split(order, pieces):
        result.merge(
            CellCounts(n_problems, 8).add(p[rows], y[rows], None if w is None else w[rows])
        )
    return result


@given(st.integers(0, 99), st.integers(0, 60), st.sampled_from([1, 3]), st.integers(1, 5))
def test_order_and_division_change_nothing(seed, n, n_problems, pieces):
    p, y, w = sample(seed, n, n_problems)
    whole = CellCounts(n_problems, 8).add(p, y)
    assert state(divided(p, y, None, n_problems, pieces, seed)) == state(whole)
    one_by_one = CellCounts(n_problems, 8)
    for i in np.random.default_rng(seed).permutation(n):
        one_by_one.add(p[i : i + 1], y[i : i + 1])
    assert state(one_by_one) == state(whole)
    assert whole.n_rows == one_by_one.n_rows == n
    weighted, pieced = (
        CellCounts(n_problems, 8).add(p, y, w),
        divided(p, y, w, n_problems, pieces, seed),
    )
    assert weighted.exponent == pieced.exponent
    for found, expected in zip(state(pieced), state(weighted), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(st.integers(0, 99))
def test_merging_is_associative_and_has_an_identity(seed):
    parts = [sample(seed + i, 20, 2) for i in range(3)]

    def made(i):
        return CellCounts(2, 8).add(*parts[i][:2])

    left = made(0).merge(made(1)).merge(made(2))
    right = made(2).merge(made(1).merge(made(0)))
    assert (
        state(left) == state(right) == state(CellCounts(2, 8).merge(left).merge(CellCounts(2, 8)))
    )


def test_rows_without_weights_weigh_one():
    p, y, w = sample(3, 50, 1)
    mixed = CellCounts(1, 8).add(p[:20], y[:20]).add(p[20:30], y[20:30], w[20:30])
    mixed.add(p[30:], y[30:]).merge(CellCounts(1, 8))
    all_weights = np.concatenate([np.ones(20), w[20:30], np.ones(20)])
    expected = CellCounts(1, 8).add(p, y, all_weights)
    assert mixed.exponent == expected.exponent
    for a, b in zip(state(mixed), state(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    merged = CellCounts(1, 8).add(p[:20], y[:20])
    merged.merge(CellCounts(1, 8).add(p[20:], y[20:], all_weights[20:]))
    for a, b in zip(state(merged), state(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_weights_of_any_size(scale):
    p, y, w = sample(4, 60, 1)
    plain_atoms = CellCounts(1, 8).add(p, y, w).atoms(0)
    counts = CellCounts(1, 8).add(p[:30], y[:30], w[:30] * scale)
    counts.merge(CellCounts(1, 8)).add(p[30:], y[30:], w[30:] * scale)
    atoms = counts.atoms(0)
    assert atoms.locations.tolist() == pytest.approx(plain_atoms.locations.tolist())
    share = atoms.totals / atoms.totals.sum()
    np.testing.assert_allclose(share, plain_atoms.totals / plain_atoms.totals.sum())
    np.testing.assert_allclose(
        atoms.squares / atoms.totals.sum() ** 2,
        plain_atoms.squares / plain_atoms.totals.sum() ** 2,
    )


def test_weights_of_different_sizes_meet():
    p, y = np.array([0.25, 0.75]), np.array([0, 1])
    small = CellCounts(1, 8).add(p, y, np.full(2, 1e-300))
    large = CellCounts(1, 8).add(p, y, np.full(2, 1e300))
    for counts in (small.merge(large), CellCounts(1, 8).add(p, y, np.full(2, 1e300)).merge(small)):
        atoms = counts.atoms(0)
        assert np.isfinite(atoms.squares).all()
        assert atoms.locations.tolist() == [0.25, 0.75]
    then_ones = CellCounts(1, 8).add(p, y, np.full(2, 1e-300)).add(p, y)
    assert then_ones.exponent == 0
    assert then_ones.atoms(0).squares.tolist() == [1.0, 1.0]
    zero = CellCounts(1, 8).add(p, y, np.zeros(2)).add(p, y, np.full(2, 5e-324))
    assert zero.atoms(0).totals.tolist() == [1.0, 1.0]


def test_a_cell_lies_at_the_mean_of_its_members():
    rng = np.random.default_rng(5)
    p = rng.beta(0.4, 2, 20_000)
    p = p[np.minimum(p, 1 - p) > 2.0**-30]
    y = rng.integers(0, 2, len(p))
    counts = CellCounts(1, 8).add(p, y)
    atoms = counts.atoms(0)
    slots, _ = counts.cells.encode(p)
    for location, label, slot, count in zip(
        atoms.locations, atoms.labels, atoms.slots, atoms.counts, strict=True
    ):
        own = p[(slots == slot) & (y == label)]
        q = min(own.max(), 1 - own.max())
        assert abs(own.mean() - location) <= 2.0**-26 * max(q, 2.0**-30)
        assert len(own) == count
    assert atoms.totals.sum() == len(p)
    w = rng.exponential(size=len(p))
    weighted = CellCounts(1, 8).add(p, y, w)
    heavy = weighted.atoms(0)
    pick = int(np.argmax(heavy.counts))
    own = (slots == heavy.slots[pick]) & (y == heavy.labels[pick])
    unit = 2.0**weighted.exponent
    assert heavy.locations[pick] == pytest.approx(np.average(p[own], weights=w[own]), rel=1e-7)
    assert heavy.totals[pick] * unit == pytest.approx(w[own].sum())
    assert heavy.squares[pick] * unit**2 == pytest.approx((w[own] ** 2).sum())


def test_problems_are_apart():
    p, y, _ = sample(6, 200, 4)
    counts = CellCounts(4, 8).add(p, y)
    for k in range(4):
        one = CellCounts(1, 8).add(p[:, k], (y == k).astype(int)).atoms(0)
        for a, b in zip(vars(counts.atoms(k)).values(), vars(one).values(), strict=True):
            assert a.tolist() == b.tolist()


def test_bins_equal_their_definition():
    p, y, w = sample(7, 500, 1)
    for weights in (None, w):
        counts = CellCounts(1, 10, 15).add(p, y, weights)
        ws = (np.ones(500) if weights is None else w) / 2.0**counts.exponent
        index = np.searchsorted(np.linspace(0, 1, 16)[1:-1], p)
        for found, values in zip(counts.bins(0), (ws, ws * p, ws * y), strict=True):
            # Members of a tiny cell are placed up to 5e-10 off.
            np.testing.assert_allclose(found, np.bincount(index, values, 15), atol=500 * 5e-10)


@pytest.mark.parametrize("layout", ["C", "F", "strided", "float32"])
def test_any_layout_of_memory(layout):
    p, y, _ = sample(8, 70, 3)
    p = p.astype(np.float32)
    expected = state(CellCounts(3, 8).add(p.astype(np.float64), y))
    wide = np.repeat(p.astype(np.float64), 2, axis=1)
    made = {
        "C": p.astype(np.float64),
        "F": np.asfortranarray(p.astype(np.float64)),
        "strided": wide[:, ::2],
        "float32": p,
    }[layout]
    assert state(CellCounts(3, 8).add(made, y)) == expected


def test_small_labels_do_not_overflow():
    p, y, _ = sample(9, 70, 300)
    y %= 100
    expected = state(CellCounts(300, 8).add(p, y))
    assert state(CellCounts(300, 8).add(p, y.astype(np.int8))) == expected
    assert state(CellCounts(300, 8).add(p, y.astype(np.uint8))) == expected


def test_a_million_million_rows():
    top = np.nextafter(0.5, 0)  # the largest offset
    p, y = np.array([top, top, 0.3, 1.0]), np.array([0, 1, 1, 1])
    counts = CellCounts(1, 8).add(p, y)
    once = counts.atoms(0)
    for _ in range(40):
        counts.merge(counts)
    atoms = counts.atoms(0)
    assert counts.n_rows == 4 * 2**40
    assert (atoms.counts == once.counts * 2**40).all()
    assert atoms.locations.tolist() == once.locations.tolist()
    counts.merge(counts)
    assert counts.n_rows == MOST_ROWS
    with pytest.raises(ValueError, match="at most 2\\^43"):
        counts.add(p, y)


def test_nothing_to_add_and_nothing_to_merge_with():
    none = np.empty(0)
    counts = CellCounts(1, 8).add(none, none.astype(int)).add(none, none.astype(int), none)
    assert counts.n_rows == 0
    assert not counts.weighted
    assert len(counts.atoms(0).locations) == 0
    with pytest.raises(ValueError, match="the same problems and cells"):
        counts.merge(CellCounts(1, 9))


def test_many_small_batches_are_merged_when_they_are_many():
    counts = CellCounts(1, 8)
    rng = np.random.default_rng(10)
    p, y = rng.random(2000), rng.integers(0, 2, 2000)
    for i in range(0, 2000, 10):
        counts.add(p[i : i + 10], y[i : i + 10])
        waiting = sum(len(part.codes) for part in counts._parts[1:])
        assert waiting <= len(counts._parts[0].codes)
    assert state(counts) == state(CellCounts(1, 8).add(p, y))
