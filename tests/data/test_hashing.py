"""The hash of rows: known values, evenness, avalanche."""

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from riskalign.data import hashing
from riskalign.data.hashing import hash_rows, hash_weights, mix

ERROR_RATE = 1e-6
"""Chance that a statistical test here fails for a perfect hash and other constants."""


def plain(row, label):
    """The hash of one row in Python integers."""
    everything = (1 << 64) - 1

    def finish(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & everything
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & everything
        return x ^ (x >> 31)

    def folded(number):
        bits = int(np.array(number + 0.0, dtype=">f8").tobytes().hex(), 16)
        return bits ^ (bits >> 32)

    golden = 0x9E3779B97F4A7C15
    total = 0
    for j, number in enumerate(row, start=1):
        total += (finish((golden * j) & everything) | 1) * folded(float(number))
    of_label = ((((golden * 3) & everything) | 1) * label & everything) >> 48
    return finish(total & everything) >> 16 << 16 | of_label


def test_known_values():
    p = np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0], [1e-300, 0.5, 0.5]])
    y = np.array([2, 2, 0])
    found = hash_rows(p, y)
    assert found.tolist() == [plain(*row) for row in zip(p.tolist(), y.tolist())]
    # As computed on x86-64 with numpy 2.4: bytes of sketches depend on them, for ever.
    assert [f"{h:016x}" for h in found.tolist()] == GOLDEN
    assert [f"{h:016x}" for h in hash_rows(p[:, :1], y).tolist()] == GOLDEN_ONE


GOLDEN = ["865c0a3e44b8b54c", "0c81061a5b89b54c", "50b6942b09a40000"]
GOLDEN_ONE = ["4f8b6f992df9b54c", "000000000000b54c", "05d4556913eb0000"]


def test_only_values_matter():
    p = np.array([[0.0, 0.25], [-0.0, 0.25]])
    zeros = hash_rows(p, np.zeros(2, dtype=int))
    assert zeros[0] == zeros[1]
    single = np.random.default_rng(1).random((50, 3)).astype(np.float32)
    y = np.arange(50)
    expected = hash_rows(single.astype(np.float64), y)
    assert (hash_rows(single, y) == expected).all()
    assert (hash_rows(single, y.astype(np.int8)) == expected).all()
    assert (hash_rows(np.asfortranarray(single), y) == expected).all()
    assert (hash_rows(single.astype(">f8"), y) == expected).all()


@pytest.mark.parametrize("width", [1, 2, 7])
def test_chunks_change_nothing(width, monkeypatch):
    rng = np.random.default_rng(2)
    p, y = rng.random((200, width)), rng.integers(0, 2, 200)
    whole = hash_rows(p, y)
    monkeypatch.setattr(hashing, "CHUNK", 13)
    assert (hash_rows(p, y) == whole).all()


def test_no_rows():
    assert hash_rows(np.empty((0, 3)), np.empty(0, dtype=int)).shape == (0,)


def structured():
    """Rows that differ in few bits."""
    thousandths = np.arange(65_536)[:, None] / 65_535
    dyadic = np.arange(65_536)[:, None] / 65_536
    grid = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2) / 255
    single = np.linspace(0, 1, 65_536, dtype=np.float32)[:, None]
    pair = np.concatenate([thousandths, 1 - thousandths], axis=1)
    near = np.nextafter(0.5, 1) + np.arange(65_536)[:, None] * 2.0**-53
    return {"fractions": thousandths, "dyadic": dyadic, "grid": grid, "float32": single,
            "pair": pair, "neighbours": near}  # fmt: skip


@pytest.mark.parametrize("name", structured())
@pytest.mark.parametrize("shift", [56, 48, 28, 16])
def test_bits_are_even(name, shift):
    p = structured()[name]
    hashes = hash_rows(p, np.zeros(len(p), dtype=int))
    assert len(np.unique(hashes)) == len(p)
    counts = np.bincount((hashes >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
    assert ERROR_RATE < chisquare(counts).pvalue < 1 - ERROR_RATE


def test_labels_and_weights_are_hashed_evenly():
    n = 65_536
    p = np.full((n, 1), 0.5)
    by_weight = hash_weights(hash_rows(p, np.zeros(n, dtype=int)), np.arange(n) * 0.25)
    counts = np.bincount((by_weight >> np.uint64(56)).astype(np.int64), minlength=256)
    assert ERROR_RATE < chisquare(counts).pvalue < 1 - ERROR_RATE
    by_label = hash_rows(p, np.arange(n))
    assert len(np.unique(by_label >> np.uint64(16))) == 1  # labels have the last 16 bits
    assert len(np.unique(by_label[:5000])) == 5000


@pytest.mark.parametrize("width", [1, 3])
def test_avalanche(width):
    """One bit of a number changes each bit of the hash in half of the cases."""
    rng = np.random.default_rng(3)
    p = rng.random((4000, width))
    y = np.zeros(len(p), dtype=int)
    before = hash_rows(p, y)
    statistic = cells = 0.0
    for bit in range(0, 52, 3):
        changed = p.copy()
        changed[:, 0] = (p[:, 0].view(np.uint64) ^ np.uint64(1 << bit)).view(np.float64)
        flips = before ^ hash_rows(changed, y)
        for place in range(16, 64):
            share = float(((flips >> np.uint64(place)) & np.uint64(1)).mean())
            assert 0.4 < share < 0.6
            statistic += 4 * len(p) * (share - 0.5) ** 2
            cells += 1
    assert statistic < chi2.isf(ERROR_RATE, cells)


def test_mixing_is_a_bijection_with_known_outputs():
    # The first outputs of splitmix64 for seed 0, as in Vigna's reference code.
    state = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert mix(state).tolist() == expected
