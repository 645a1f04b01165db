"""The table of distinct rows: laws, collisions, and the sample that it is."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskalign.data import hashing, rows
from riskalign.data.distinct import HALF, WHOLE, distinct_rows, is_one_hot, regrouped, row_hashes
from riskalign.data.rows import RowTable

LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


def sample(seed, n, width, levels=LEVELS):
    """Rows with many ties, labels of two kinds, weights of two kinds."""
    rng = np.random.default_rng(seed)
    p = rng.choice(levels, (n, width))
    return p, rng.integers(0, 2, n), rng.choice([0.0, 1.0, 2.0, 3.0], n)


def continuous(seed, n, width):
    rng = np.random.default_rng(seed)
    return rng.random((n, width)), rng.integers(0, 2, n), rng.choice([1.0, 2.0], n)


def state(table):
    content = [column.tolist() for column in vars(table.rows).values()]
    return [*content, list(table.thresholds), list(table.merged), table.complete]


def plain(p, y, w, limit):
    """Kept rows with counts, the thresholds and which kinds are merged, from all rows at once.

    Weights are such that their sums are exact.
    """
    hashes = row_hashes(p, y).tolist()
    keys = zip(hashes, map(tuple, p.tolist()), y.tolist(), w.tolist(), strict=True)
    counts = Counter(key for key in keys if key[3] > 0)
    kept, thresholds, merged = [], [], []
    for low, high in ((0, HALF), (HALF, WHOLE)):
        own = {key: count for key, count in counts.items() if low <= key[0] < high}
        rows = [(*key, key[3], count) for key, count in own.items()]
        merged.append(len(rows) > limit or (limit == 0 and len(counts) > 0))
        if merged[-1]:
            rows = [
                (*row, *pooled([(key[3], n) for key, n in own.items() if key[:3] == row]))
                for row in {key[:3] for key in own}
            ]
        rows = sorted(rows)
        threshold = rows[limit][0] >> 16 << 16 if len(rows) > limit else high
        if limit == 0 and counts:
            threshold = low
        thresholds.append(threshold)
        kept += [row for row in rows if row[0] < threshold]
    columns = [list(column) for column in zip(*kept, strict=True)] or [[] for _ in range(6)]
    columns[1] = [list(row) for row in columns[1]]
    return [*columns, thresholds, merged, thresholds == [HALF, WHOLE]]


def pooled(members):
    """Mean weight, sum w^2 / sum w, and number of samples, of pairs of weight and number."""
    count, total = sum(n for _, n in members), sum(w * n for w, n in members)
    return total / count, sum(w * w * n for w, n in members) / total, count


def same(found, expected):
    """Equal states up to the rounding of mean weights and of sum w^2 / sum w."""
    assert found[:3] + found[5:] == expected[:3] + expected[5:]
    for one, other in zip(found[3:5], expected[3:5], strict=True):
        assert one == pytest.approx(other, rel=1e-12)


cases = st.tuples(
    st.integers(0, 99),
    st.integers(0, 80),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([0, 1, 3, 20, 1000]),
)


@given(cases, st.booleans(), st.integers(1, 20))
def test_the_table_equals_its_definition(case, tied, step):
    seed, n, width, limit = case
    p, y, w = (sample if tied else continuous)(seed, n, width)
    expected = plain(p, y, w, limit)
    same(state(RowTable(width, limit).add(p, y, w)), expected)
    table = RowTable(width, limit)
    for i in range(0, n, step):
        table.add(p[i : i + step], y[i : i + step], w[i : i + step])
    same(state(table), expected)


@given(cases, st.integers(1, 6))
def test_order_and_division_change_nothing(case, pieces):
    seed, n, width, limit = case
    p, y, w = sample(seed, n, width)
    expected = state(RowTable(width, limit).add(p, y, w))
    order = np.random.default_rng(seed).permutation(n)
    tables = [
        RowTable(width, limit).add(p[part], y[part], w[part])
        for part in np.array_split(order, pieces)
    ]
    merged = RowTable(width, limit)
    for table in tables:
        merged.merge(table)
    same(state(merged), expected)
    backwards = tables[-1]
    for table in tables[-2::-1]:
        backwards.merge(table)
    same(state(backwards.merge(RowTable(width, limit))), expected)


@given(cases, st.integers(1, 5))
def test_a_table_that_follows_another_adds_the_same(case, pieces):
    """It does not look at rows that the other has dropped, and merges into the same table."""
    seed, n, width, limit = case
    p, y, w = sample(seed, n, width)
    whole = RowTable(width, limit)
    for part in np.array_split(np.arange(n), pieces):
        table = RowTable(width, limit)
        table.follow(whole)
        whole.merge(table.add(p[part], y[part], w[part]))
    same(state(whole), state(RowTable(width, limit).add(p, y, w)))


@given(cases)
def test_merging_is_associative(case):
    seed, n, width, limit = case

    def made(i):
        return RowTable(width, limit).add(*sample(seed + i, n, width))

    left = made(0).merge(made(1)).merge(made(2))
    right = made(0).merge(made(1).merge(made(2)))
    same(state(left), state(right))


@given(cases, st.integers(1, 4))
def test_rows_that_share_a_hash(case, buckets):
    """With a hash of a few values, rows are told apart by their content."""
    seed, n, width, limit = case
    p, y, w = sample(seed, n, width)
    good = hashing.hash_rows

    def poor(predictions, labels):
        few = good(predictions, labels) % np.uint64(buckets) + np.uint64(7)
        return few << np.uint64(16)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "hash_rows", poor)
        expected = plain(p, y, w, limit)
        same(state(RowTable(width, limit).add(p, y, w)), expected)
        table = RowTable(width, limit)
        for i in np.random.default_rng(seed).permutation(n):
            table.add(p[i : i + 1], y[i : i + 1], w[i : i + 1])
        same(state(table), expected)
        half = RowTable(width, limit).add(p[: n // 2], y[: n // 2], w[: n // 2])
        rest = RowTable(width, limit).add(p[n // 2 :], y[n // 2 :], w[n // 2 :])
        same(state(half.merge(rest)), expected)
        places = table.find(p, y, w)
        check_places(table, places, p, y, w)


def check_places(table, places, p, y, w):
    kept = table.rows
    merged = np.where(kept.one_hot, *table.merged)
    points = list(zip(map(tuple, kept.predictions.tolist()), kept.labels.tolist(), strict=True))
    known = {
        (*point, None if some else weight): number
        for number, (point, weight, some) in enumerate(
            zip(points, kept.weights.tolist(), merged, strict=True)
        )
    }
    for place, row, label, weight in zip(places, p.tolist(), y, w, strict=True):
        expected = known.get((tuple(row), label, None), known.get((tuple(row), label, weight), -1))
        assert place == (expected if weight > 0 else -1)


@given(cases, st.booleans())
def test_finding_rows(case, tied):
    seed, n, width, limit = case
    p, y, w = (sample if tied else continuous)(seed, n, width)
    table = RowTable(width, limit).add(p, y, w)
    check_places(table, table.find(p, y, w), p, y, w)
    others = continuous(seed + 1, n, width)
    assert (table.find(*others) == -1).all() or tied


@given(cases, st.booleans())
def test_distinct_rows_are_those_of_a_large_table(case, weighted):
    seed, n, width, _ = case
    p, y, w = sample(seed, n, width)
    table = RowTable(width, n + 1).add(p, y, w if weighted else None)
    found = distinct_rows(p, y, w if weighted else None)
    for one, other in zip(vars(found).values(), vars(table.rows).values(), strict=True):
        assert one.tolist() == other.tolist()
    restored = RowTable.restored(found, n + 1, (HALF, WHOLE), (False, False))
    places = restored.find(p, y, w if weighted else np.ones(n))
    assert places.tolist() == table.find(p, y, w if weighted else None).tolist()


@given(cases)
def test_rows_that_stand_for_others(case):
    seed, n, width, _ = case
    p, y, w = sample(seed, n, width)
    kept = RowTable(width, n + 1).add(p, y, w).kept()
    found = regrouped(kept.rows, kept.rows.predictions[:, :1], kept.rows.labels, kept.merged)
    expected = RowTable(1, n + 1).add(p[:, :1], y, w).rows
    for one, other in zip(vars(found).values(), vars(expected).values(), strict=True):
        assert one.tolist() == other.tolist()


def test_slots_that_other_rows_took(monkeypatch):
    monkeypatch.setattr(rows, "SLOTS", 4)
    p, y, w = sample(0, 300, 3)
    table = RowTable(3, 1000)
    for i in range(0, 300, 50):
        table.add(p[i : i + 50], y[i : i + 50], w[i : i + 50])
    assert state(table) == plain(p, y, w, 1000)
    check_places(table, table.find(p, y, w), p, y, w)


def test_rows_that_differ_in_their_label_stay_or_go_together():
    """A sample that looked at labels would not be one of drawn labels in a test of calibration."""
    rng = np.random.default_rng(0)
    p = rng.choice(np.linspace(0.01, 0.99, 300), (4000, 1))
    y = rng.integers(0, 2, 4000)
    table = RowTable(1, 100).add(p, y)
    whole, kept = Counter(p[:, 0].tolist()), Counter()
    for row, count in zip(table.rows.predictions[:, 0], table.rows.counts, strict=True):
        kept[float(row)] += int(count)
    assert 90 <= len(table.rows) <= 100
    assert all(whole[row] == count for row, count in kept.items())


def test_chunks_change_nothing(monkeypatch):
    p, y, w = sample(1, 500, 2, np.linspace(0, 1, 12))
    expected = plain(p, y, w, 40)
    monkeypatch.setattr(rows, "CHUNK", 64)
    same(state(RowTable(2, 40).add(p, y, w)), expected)


def test_values_decide_and_not_their_form():
    p = np.array([[0.5, -0.0], [0.5, 0.0]])
    table = RowTable(2, 10).add(p, np.zeros(2, dtype=int))
    assert table.rows.counts.tolist() == [2]
    assert not np.signbit(table.rows.predictions).any()
    single = np.random.default_rng(0).random((30, 2)).astype(np.float32)
    y = np.zeros(30, dtype=np.int8)
    expected = state(RowTable(2, 10).add(single.astype(np.float64), y.astype(int)))
    assert state(RowTable(2, 10).add(single, y)) == expected
    assert state(RowTable(2, 10).add(single, y, np.ones(30))) == expected


def test_results_stay_when_the_table_goes_on():
    p, y, w = sample(2, 50, 1)
    table = RowTable(1, 100).add(p, y, w)
    before = table.rows
    copy = [column.tolist() for column in vars(before).values()]
    other = RowTable(1, 100).merge(table)
    table.add(p, y, w)
    other.add(p, y, w)
    assert [column.tolist() for column in vars(before).values()] == copy
    assert state(table) == state(other)


def test_no_room_for_rows():
    table = RowTable(3, 0)
    assert table.complete
    table.add(np.ones((2, 3)), np.zeros(2, dtype=int))
    assert (len(table.rows), table.complete, table.thresholds) == (0, False, (0, HALF))
    assert not RowTable(3, 0).merge(table).complete


def test_other_settings_do_not_merge():
    with pytest.raises(ValueError, match="the same width and limit"):
        RowTable(2, 10).merge(RowTable(2, 11))


def test_one_hot_rows():
    p = np.array([[1, 0, 0], [0, 1, 1e-30], [0.5, 0.5, 0], [0, 0, 1], [0, 0, 0]], dtype=float)
    assert is_one_hot(p).tolist() == [True, False, False, True, False]
    assert is_one_hot(np.array([[0.0], [1.0], [0.5]])).tolist() == [True, True, False]
    y = np.zeros(5, dtype=int)
    found = row_hashes(p, y)
    assert ((found < HALF) == is_one_hot(p)).all()
    assert (found % np.uint64(HALF) == hashing.hash_rows(p, y) % np.uint64(HALF)).all()


def test_a_sum_is_estimated_without_bias_and_its_error_is_right():
    """Over 300 samples of rows: means within 4 standard errors (6e-5 to fail by chance)."""
    limit, n = 200, 2000
    errors, distinct = [], []
    for seed in range(300):
        p, y, _ = continuous(seed, n, 1)
        table = RowTable(1, limit).add(p, y)
        f = np.where(table.rows.labels == 1, table.rows.predictions[:, 0], 0.0)
        estimate = (table.rows.counts * f / table.inclusion).sum()
        errors.append(estimate / (p[:, 0] * y).sum() - 1)
        distinct.append((1 / table.inclusion).sum() / n - 1)
    for values in (errors, distinct):
        assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(300)
    # The standard error of the number of distinct rows is 1 / sqrt(limit - 1), less what a
    # sample without replacement saves.
    assert np.std(distinct) == pytest.approx(np.sqrt((1 - limit / n) / limit), rel=0.2)


def saturated(seed, n, n_classes):
    """Half of the rows one-hot, nearly all of them right; the others spread."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    p = rng.dirichlet(np.ones(n_classes), n)
    certain = rng.random(n) < 0.5
    claimed = np.where(rng.random(n) < 0.95, y, rng.integers(0, n_classes, n))
    p[certain] = np.eye(n_classes)[claimed[certain]]
    return p, y


@pytest.mark.parametrize("n_classes", [2, 5])
def test_saturated_rows_are_sampled_right(n_classes):
    """Half of the rows are equal to few others: shares come from a sample of 500 of 5,000 rows.

    Of each 100 samples the mean lies within 4 standard errors (6e-5 to fail by chance), and the
    standard error is that of the spread rows: one-hot rows add nothing to it.
    """
    limit, n, errors = 500, 10_000, []
    for seed in range(100):
        p, y = saturated(seed, n, n_classes)
        table = RowTable(n_classes, limit).add(p, y)
        assert not table.complete
        kept, inclusion = table.rows, table.inclusion
        certain = is_one_hot(p)
        assert kept.counts[kept.one_hot].sum() == certain.sum()  # all of them, counted fully
        assert (inclusion[kept.one_hot] == 1).all()
        weights = kept.counts / inclusion
        gap = kept.predictions.max(axis=1) - (kept.predictions.argmax(axis=1) == kept.labels)
        true_gap = p.max(axis=1) - (p.argmax(axis=1) == y)
        errors.append([
            weights.sum() / n - 1,
            weights[kept.one_hot].sum() / weights.sum() - certain.mean(),
            weights @ gap / weights.sum() - true_gap.mean(),
        ])  # fmt: skip
    mean, sd = np.mean(errors, axis=0), np.std(errors, axis=0)
    assert (np.abs(mean) < 4 * sd / 10 + 1e-3).all()
    assert (sd < [0.03, 0.015, 0.03]).all()


def test_saturated_rows_with_weights_of_their_own():
    """One-hot rows of any weights are all kept, and leave the others their room.

    Shares by weight over 100 samples: mean within 4 standard errors (6e-5 to fail by chance).
    """
    errors = []
    for seed in range(100):
        p, y = saturated(seed, 4000, 3)
        w = np.random.default_rng(seed).exponential(size=4000)
        table = RowTable(3, 500).add(p, y, w)
        kept = table.rows
        certain = is_one_hot(p)
        assert (kept.one_hot.sum(), (~kept.one_hot).sum()) == (9, 500)
        total = kept.weights * kept.counts
        assert total[kept.one_hot].sum() == pytest.approx(w[certain].sum())
        squares = (total * kept.units)[kept.one_hot]
        assert squares.sum() == pytest.approx((w[certain] ** 2).sum())
        estimate = total / table.inclusion
        share = estimate[kept.one_hot].sum() / estimate.sum()
        errors.append([estimate.sum() / w.sum() - 1, share - w[is_one_hot(p)].sum() / w.sum()])
    mean, sd = np.mean(errors, axis=0), np.std(errors, axis=0)
    assert (np.abs(mean) < 4 * sd / 10).all()
    assert (sd < 0.04).all()


def test_many_counts():
    p, y, w = sample(3, 20, 1)
    once = RowTable(1, 100).add(p, y, w).rows.counts
    table = RowTable(1, 100).add(p, y, w)
    for _ in range(40):
        table.merge(table)
    assert (table.rows.counts == once * 2**40).all()
