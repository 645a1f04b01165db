"""Cells against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskalign.data.cells import Cells, Room

HALF = 0.5
SPECIAL = [
    0.0, -0.0, 5e-324, 1e-310, 2.2e-308, 1e-12, np.nextafter(2.0**-30, 0), 2.0**-30,
    np.nextafter(2.0**-30, 1), 1e-9, 0.1, 0.2, 0.25, np.nextafter(0.25, 0), 1 / 3,
    np.nextafter(HALF, 0), HALF, np.nextafter(HALF, 1), 0.6, 2 / 3, 0.75, 0.8, 1 - 2.0**-30,
    np.nextafter(1 - 2.0**-30, 1), 1 - 2.0**-40, np.nextafter(1.0, 0), 1.0, 1.0005,
]  # fmt: skip

probabilities = st.one_of(
    st.sampled_from(SPECIAL),
    st.floats(0, 1),
    st.floats(0, 1, width=32),
    st.floats(0, 50).map(lambda x: math.exp(-x)),
    st.floats(0, 30).map(lambda x: 1 - math.exp(-x)),
    st.integers(0, 1000).map(lambda k: k / 1000),
)
all_bits = st.integers(5, 16)


def plain(p, bits, n_bins=1):
    """Slot and offset of one probability."""
    per_octave = 2 ** (bits - 1)
    one_side = 3 + 29 * per_octave
    exact = min(Fraction(p), Fraction(1))
    q = min(exact, 1 - exact)
    side = one_side * (p > 0.5)
    if q < Fraction(1, 2**30):
        slot, offset = side + (q > 0), 0
    else:
        exponent = 0
        while q * 2**-exponent < 1:
            exponent -= 1
        fine = math.floor(q * Fraction(2) ** -exponent * 2 ** (bits - 1 + 20))
        whole, offset = divmod(fine, 2**20)
        slot = side + 2 + (exponent + 30) * per_octave + whole - per_octave
    for k, edge in enumerate(np.linspace(0, 1, n_bins + 1)[1:-1]):
        if p > edge and plain(edge, bits)[0] == slot:
            slot = 2 * one_side + k
    return slot, offset


def encoded(p, bits, n_bins=1):
    slots, offsets = Cells(bits, n_bins).encode(np.atleast_1d(p))
    return list(zip(slots.tolist(), offsets.tolist(), strict=True))


@pytest.mark.parametrize("bits", [5, 8, 10])
@pytest.mark.parametrize("n_bins", [1, 15])
def test_special_probabilities(bits, n_bins):
    assert encoded(np.array(SPECIAL), bits, n_bins) == [plain(p, bits, n_bins) for p in SPECIAL]


@given(st.lists(probabilities, min_size=1, max_size=20), all_bits, st.sampled_from([1, 10, 15]))
def test_slots_and_offsets(p, bits, n_bins):
    assert encoded(np.array(p), bits, n_bins) == [plain(x, bits, n_bins) for x in p]


@given(st.lists(st.floats(0, 1, width=32), min_size=1), all_bits)
def test_float32_is_its_value(p, bits):
    single = np.array(p, dtype=np.float32)
    for n_bins in (1, 15):
        assert encoded(single, bits, n_bins) == encoded(single.astype(np.float64), bits, n_bins)


EDGES = np.linspace(0, 1, 16)[1:-1]
single_probabilities = st.one_of(
    st.floats(0, 1, width=32),
    st.sampled_from([float(np.float32(p)) for p in (*SPECIAL[:-1], *EDGES)]),
    st.integers(0, 100).map(lambda k: float(np.float32(k / 100))),
)


@given(st.lists(single_probabilities, min_size=1), st.integers(5, 12))
def test_float32_by_its_own_bits(p, bits):
    """The recipe of a device that has no float64: 32-bit integers of the number's own bits."""
    p = np.array(p, dtype=np.float32)
    one_side = 3 + 29 * 2 ** (bits - 1)
    q = np.minimum(p, np.float32(1) - p)
    assert q.dtype == np.float32
    pattern = q.view(np.int32)
    shift = 23 - (bits - 1)
    slots = (pattern >> shift) - (int(np.float32(2.0**-30).view(np.int32)) >> shift) + 2
    offsets = (pattern & ((1 << shift) - 1)) << (20 - shift)
    small = q < np.float32(2.0**-30)
    slots = np.where(small, q > 0, slots) + np.where(p > np.float32(0.5), one_side, 0)
    offsets = np.where(small, 0, offsets)
    assert encoded(p, bits) == list(zip(slots.tolist(), offsets.tolist(), strict=True))
    # Above an edge is above the largest float32 up to it.
    edges = EDGES.astype(np.float32)
    edges = np.where(edges > EDGES, np.nextafter(edges, np.float32(0)), edges)
    cut, _ = Cells(bits).encode(EDGES)
    for k, (edge, slot) in enumerate(zip(edges, cut, strict=True)):
        slots[(slots == slot) & (p > edge)] = 2 * one_side + k
    assert encoded(p, bits, 15) == list(zip(slots.tolist(), offsets.tolist(), strict=True))


@given(probabilities, all_bits, st.sampled_from([1, 15]))
def test_locations(p, bits, n_bins):
    cells = Cells(bits, n_bins)
    slots, offsets = cells.encode(np.array([p]))
    location = float(cells.locations(slots, offsets)[0])
    p = min(p, 1.0)
    q = min(p, 1 - p)
    if 0 < q < 2.0**-30:
        assert location == (2.0**-31 if p < 0.5 else 1 - 2.0**-31)
    else:
        assert abs(location - p) <= q * 2.0 ** -(bits + 19)


@given(st.floats(0, 1, width=32).filter(lambda p: p == 0 or 2.0**-30 <= p <= 1 - 2.0**-30))
def test_float32_numbers_are_placed_exactly(p):
    cells = Cells(8)
    assert cells.locations(*cells.encode(np.array([p]))).tolist() == [p]


@given(st.lists(probabilities, min_size=1, max_size=50), st.integers(5, 12), st.integers(1, 16))
def test_bins_are_those_of_equal_width(p, bits, n_bins):
    cells = Cells(bits, n_bins)
    p = np.minimum(np.array(p), 1.0)
    slots, _ = cells.encode(p)
    assert (slots < cells.n_slots).all()
    expected = np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], p)
    assert cells.bins(slots).tolist() == expected.tolist()


@pytest.mark.parametrize("bits", [5, 8, 10])
def test_bins_around_every_edge(bits):
    cells = Cells(bits, 15)
    edges = np.linspace(0, 1, 16)
    p = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)[:-1]])
    assert (cells.bins(cells.encode(p)[0]) == np.searchsorted(edges[1:-1], p)).all()


def test_cells_are_narrow():
    p = np.sort(np.random.default_rng(0).beta(0.3, 0.3, 100_000))
    cells = Cells(8)
    slots, _ = cells.encode(p)
    q = np.minimum(p, 1 - p)
    for slot in np.unique(slots):
        own = q[slots == slot]
        if own.min() >= 2.0**-30:
            assert own.max() - own.min() <= 2.0**-7 * own.max()


def test_memory_is_reused():
    cells, room = Cells(10, 15), Room.of((6, 4))
    p = np.random.default_rng(1).random((6, 4))
    expected = [array.tolist() for array in cells.encode(p[:5, :3])]
    assert [array.tolist() for array in cells.encode(p[:5, :3], room.part(5, 3))] == expected


@pytest.mark.parametrize(("bits", "n_bins"), [(3, 1), (17, 1), (8, 0), (5, 17)])
def test_settings_out_of_range(bits, n_bins):
    with pytest.raises(ValueError, match="must lie between"):
        Cells(bits, n_bins)
