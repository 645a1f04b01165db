"""Sketches of all kinds of sources are those of the same rows in memory."""

import datetime
import tracemalloc
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import riskalign as ra
from riskalign.sketches.groups import Groups

N = 50_000


@pytest.fixture(scope="module")
def table():
    """Rows with binary predictions, three classes, groups and weights."""
    g = np.random.default_rng(0)
    p = g.beta(0.5, 0.5, N)
    three = g.dirichlet([1, 1, 1], N)
    return pa.table(
        {
            "day": pa.array(np.sort(g.integers(0, 5, N)), pa.int32()),
            "target": (g.random(N) < p).astype(np.int8),
            "score": p,
            "kind": pa.array(np.array(["a", "b", "c"])[g.integers(0, 3, N)]),
            "probs": pa.array(three.tolist()),
            **{f"p_{name}": three[:, k] for k, name in enumerate("abc")},
            "w": g.integers(1, 4, N).astype(float),
        }
    )


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """The rows in files per day, of several row groups each."""
    path = tmp_path_factory.mktemp("days")
    for day in range(5):
        (path / f"day={day}").mkdir()
        part = table.filter(pa.compute.equal(table["day"], day)).drop(["day"])
        pq.write_table(part, path / f"day={day}" / "part-0.parquet", row_group_size=3_000)
    (path / "_SUCCESS").touch()
    return path


@pytest.fixture(scope="module")
def binary(table):
    """The sketch of the binary predictions in memory."""
    y, p = table["target"].to_numpy(), table["score"].to_numpy()
    return ra.CalibrationSketch().update(y, p)


BINARY = {"label": "target", "probs": "score"}


class TestSources:
    """Whatever holds the rows, the bytes of the sketch are the same."""

    def frames(self, table, folder, tmp_path):
        names = list(BINARY.values())
        one = table.select(names)
        pq.write_table(table, tmp_path / "one.parquet", row_group_size=7_000)
        chunks = one.to_batches(max_chunksize=4_321)
        return {
            "folder": folder,
            "folder as text": str(folder),
            "pattern": str(folder / "*" / "*.parquet"),
            "one file": tmp_path / "one.parquet",
            "list of files": sorted(folder.glob("*/*.parquet")),
            "dataset": ds.dataset(folder, format="parquet", partitioning="hive"),
            "dataset in memory": ds.dataset(one),
            "filtered dataset": ds.dataset(folder, format="parquet", partitioning="hive").filter(
                ds.field("w") > 0
            ),
            "table": one,
            "reader": pa.RecordBatchReader.from_batches(one.schema, chunks),
            "batches": iter(chunks),
            "pandas": one.to_pandas(),
            "iterable of pandas": (chunk.to_pandas() for chunk in chunks),
            "polars": pl.from_arrow(one),
            "lazy polars": pl.scan_parquet(folder / "*" / "*.parquet"),
            "iterable of polars": [pl.from_arrow(chunk) for chunk in chunks],
            "duckdb": duckdb.sql(f"select * from '{folder}/*/*.parquet'"),
            "dictionary": {name: one[name].to_numpy() for name in names},
        }

    def test_all_are_equal(self, table, folder, tmp_path, binary):
        expected = binary.to_bytes()
        for name, source in self.frames(table, folder, tmp_path).items():
            found = ra.sketch_batches(source, **BINARY)
            assert found.to_bytes() == expected, name

    @pytest.mark.parametrize("notion", ["classwise", "top-label", "canonical"])
    @pytest.mark.parametrize("probs", ["p_*", "probs", ["p_a", "p_b", "p_c"]])
    def test_classes_by_name(self, table, folder, notion, probs):
        three = np.column_stack([table[f"p_{name}"] for name in "abc"])
        kinds = table["kind"].to_numpy(zero_copy_only=False)
        expected = ra.CalibrationSketch(notion, ["a", "b", "c"]).update(kinds, three)
        found = ra.sketch_batches(
            folder, label="kind", probs=probs, notion=notion, classes=["a", "b", "c"]
        )
        assert found.to_bytes() == expected.to_bytes()
        assert found.classes == ("a", "b", "c")
        assert found.update(kinds[:10], three[:10]).n_samples == N + 10  # labels by name, still

    def test_one_group_after_the_other(self, table, folder):
        found = ra.sketch_batches(folder, by="day", **BINARY)
        assert list(found) == [0, 1, 2, 3, 4]
        days = table["day"].to_numpy()
        y, p = table["target"].to_numpy(), table["score"].to_numpy()
        for day, sketch in found.items():
            own = ra.CalibrationSketch().update(y[days == day], p[days == day])
            assert sketch.to_bytes() == own.to_bytes()

    def test_groups_within_batches(self, table, binary):
        found = ra.sketch_batches(table, by="kind", **BINARY)
        assert list(found) == ["a", "b", "c"]
        merged = ra.CalibrationSketch()
        for sketch in found.values():
            merged.merge(sketch)
        assert merged.to_bytes() == binary.to_bytes()

    def test_groups_of_any_type(self):
        day = datetime.date(2026, 1, 2)
        table = {"y": [0, 1, 1], "p": [0.1, 0.5, 0.9], "on": [day, None, day]}
        found = ra.sketch_batches(table, by="on")
        assert {key: sketch.n_samples for key, sketch in found.items()} == {day: 2, None: 1}

    def test_decimals_are_in_order(self):
        table = {"y": [0, 1], "p": [0.1, 0.5], "on": [Decimal("10.5"), Decimal("2.5")]}
        assert list(ra.sketch_batches(table, by="on")) == [Decimal("2.5"), Decimal("10.5")]

    def test_run_end_encoding(self):
        columns = {"y": [0, 0, 1, 1], "p": [0.1, 0.1, 0.9, 0.9], "day": ["a", "a", "a", "b"]}
        encoded = pa.table(
            {name: pa.compute.run_end_encode(pa.array(own)) for name, own in columns.items()}
        )
        found = ra.sketch_batches(encoded, by="day", label="y", probs="p")
        expected = ra.sketch_batches(pa.table(columns), by="day", label="y", probs="p")
        assert list(found) == ["a", "b"]
        for day, sketch in found.items():
            assert sketch.to_bytes() == expected[day].to_bytes()

    def test_weights(self, table, folder):
        y, p, w = (table[name].to_numpy() for name in ("target", "score", "w"))
        expected = ra.CalibrationSketch().update(y, p, sample_weight=w)
        found = ra.sketch_batches(folder, weight="w", **BINARY)
        assert found.calibration_error().value == pytest.approx(expected.calibration_error().value)

    def test_predicted_classes_alone(self):
        table = {"y": ["a", "b", "c"], "pred": ["a", "c", "c"], "confidence": [0.6, 0.7, 0.8]}
        found = ra.sketch_batches(table)
        assert (found.notion, found.classes) == ("binary", ("wrong", "right"))
        with pytest.raises(ValueError, match="needs the probabilities of all classes"):
            ra.sketch_batches(table, notion="canonical")

    def test_settings_are_passed_on(self, table):
        found = ra.sketch_batches(table, exact_limit=100, bits=6, **BINARY)
        y, p = table["target"].to_numpy(), table["score"].to_numpy()
        expected = ra.CalibrationSketch(exact_limit=100, bits=6).update(y, p)
        assert found.to_bytes() == expected.to_bytes()


class TestColumns:
    """Columns that were not asked for are not read: here they could not be."""

    def test_columns_of_lazy_frames(self):
        frame = pl.LazyFrame({"y": [0, 1], "p": [0.2, 0.8], "x": ["a", "b"]})
        frame = frame.with_columns(z=pl.col("x").cast(pl.Int64))
        with pytest.raises(pl.exceptions.InvalidOperationError):
            frame.collect()
        found = ra.sketch_batches(frame, label="y", probs="p")
        expected = ra.CalibrationSketch().update([0, 1], [0.2, 0.8])
        assert found.to_bytes() == expected.to_bytes()

    @pytest.mark.parametrize("as_dataset", [False, True])
    def test_columns_of_files(self, table, binary, tmp_path, as_dataset):
        path = tmp_path / "a.parquet"
        pq.write_table(table.select(["target", "w", "score"]), path, row_group_size=20_000)
        data = bytearray(path.read_bytes())
        metadata = pq.read_metadata(path)
        for k in range(metadata.num_row_groups):
            column = metadata.row_group(k).column(1)
            assert column.path_in_schema == "w"
            start = column.dictionary_page_offset or column.data_page_offset
            end = start + column.total_compressed_size
            data[start:end] = bytes(end - start)
        path.write_bytes(data)
        with pytest.raises(OSError, match=r"\S"):
            pq.read_table(path)
        source = ds.dataset(path) if as_dataset else path
        assert ra.sketch_batches(source, **BINARY).to_bytes() == binary.to_bytes()


class TestWorkers:
    @pytest.mark.parametrize("workers", [1, 2, 5])
    def test_no_number_of_threads_changes_a_byte(self, folder, workers, monkeypatch):
        """Not even with weights, whose sums depend on the order."""
        monkeypatch.setattr("riskalign.data.sources.LEAST_ROWS", 2_000)
        found = ra.sketch_batches(folder, weight="w", workers=workers, **BINARY)
        first = ra.sketch_batches(folder, weight="w", workers=3, **BINARY)
        assert found.to_bytes() == first.to_bytes()

    @pytest.mark.parametrize("by", [None, "day"])
    def test_dropped_rows_change_no_byte(self, folder, by, monkeypatch):
        """Later spans skip the rows that earlier ones have dropped."""
        monkeypatch.setattr("riskalign.data.sources.LEAST_ROWS", 2_000)
        options = BINARY | {"by": by, "exact_limit": 50}
        found = ra.sketch_batches(folder, workers=2, **options)
        monkeypatch.setattr("riskalign.data.rows.RowTable.follow", lambda self, other: None)
        expected = ra.sketch_batches(folder, workers=1, **options)
        if by is None:
            found, expected = {None: found}, {None: expected}
        assert not found[next(iter(found))].is_exact
        assert {k: s.to_bytes() for k, s in found.items()} == {
            k: s.to_bytes() for k, s in expected.items()
        }

    def test_memory_is_bounded(self, tmp_path, monkeypatch):
        """A row group of three million rows is never held whole."""
        g = np.random.default_rng(0)
        n = 3_000_000
        table = pa.table({"y": g.integers(0, 2, n).astype(np.int8), "p": g.random(n)})
        size = table.nbytes
        pq.write_table(table, tmp_path / "large.parquet", row_group_size=n)
        del table
        pool, seen, add = pa.default_memory_pool(), [], Groups._add
        before = pool.bytes_allocated()

        def watched(self, rows):
            seen.append(pool.bytes_allocated() - before)
            add(self, rows)

        monkeypatch.setattr(Groups, "_add", watched)
        monkeypatch.setattr("riskalign.data.sources.CELLS", 100_000)
        tracemalloc.start()
        try:
            ra.sketch_batches(tmp_path / "large.parquet", workers=1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(seen) >= 30
        assert max(seen) < 0.4 * size  # Arrow holds a batch, not the row group
        assert peak < 60_000_000

    @pytest.mark.parametrize("workers", [0, -1, 1.5])
    def test_numbers_of_threads(self, folder, workers):
        with pytest.raises(ValueError, match="`workers` must be a number of threads"):
            ra.sketch_batches(folder, workers=workers, **BINARY)


class TestFaults:
    def test_files_of_other_formats(self, tmp_path):
        (tmp_path / "a.csv").write_text("y,p\n0,0.5\n1,0.5\n")
        with pytest.raises(ValueError, match=r"a\.csv: .*List other files one by one"):
            ra.sketch_batches(tmp_path / "a.csv")

    def test_bad_rows_are_found_in_their_file(self, tmp_path):
        for k in range(3):
            p = np.full(5_000, 0.5)
            if k == 1:
                p[3_456] = 1.7
            table = pa.table({"y": np.zeros(5_000, np.int8), "p": p})
            pq.write_table(table, tmp_path / f"part-{k}.parquet", row_group_size=1_000)
        with pytest.raises(ValueError, match=r"part-1\.parquet, column 'p', row 3456: found 1\.7"):
            ra.sketch_batches(tmp_path, workers=2)

    def test_bad_rows_of_a_stream_are_counted_from_its_first(self):
        frames = [pd.DataFrame({"y": [0, 1], "p": [0.5, q]}) for q in (0.5, 0.5, -3.0)]
        with pytest.raises(ValueError, match=r"the source, column 'p', row 5: found -3\.0"):
            ra.sketch_batches(frames)

    def test_truncated_files(self, folder, tmp_path):
        data = next(folder.glob("*/*.parquet")).read_bytes()
        (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
        with pytest.raises(ValueError, match=r"cannot be read as Parquet .*cut\.parquet"):
            ra.sketch_batches(tmp_path, **BINARY)

    def test_damaged_pages(self, folder, tmp_path):
        data = bytearray(next(folder.glob("*/*.parquet")).read_bytes())
        data[200:40_000] = bytes(39_800)
        (tmp_path / "bad.parquet").write_bytes(data)
        with pytest.raises(ValueError, match=r"bad\.parquet"):
            ra.sketch_batches(tmp_path, **BINARY)

    def test_changed_numbers_where_pages_have_checksums(self, table, tmp_path):
        path = tmp_path / "a.parquet"
        settings = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        pq.write_table(table, path, write_page_checksum=True, **settings)
        blob = path.read_bytes()
        number = table["score"][100].as_py()
        stored = np.float64(number).tobytes()
        assert blob.count(stored) == 1
        path.write_bytes(blob.replace(stored, np.float64(1 - number).tobytes()))
        with pytest.raises(ValueError, match=r"a\.parquet: the file cannot be read"):
            ra.sketch_batches(path, **BINARY)

    def test_columns_that_some_files_lack(self, tmp_path):
        pq.write_table(pa.table({"y": [0, 1], "p": [0.1, 0.2]}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"y": [0, 1], "q": [0.1, 0.2]}), tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"b\.parquet: the column 'p' is not there"):
            ra.sketch_batches(tmp_path)

    def test_columns_that_some_frames_lack(self):
        frames = [{"y": [0, 1], "p": [0.1, 0.9]}, {"y": [0, 1], "q": [0.1, 0.9]}]
        with pytest.raises(ValueError, match="frame 1 of the source: the column 'p' is not there"):
            ra.sketch_batches(frames, label="y", probs="p")

    @pytest.mark.parametrize("option", ["label", "by"])
    def test_columns_of_parts(self, option):
        parts = [{"a": 1}, {"a": 2}]
        table = pa.table({"y": [0, 1], "p": [0.1, 0.9], "parts": parts})
        with pytest.raises(ValueError, match=rf"column 'parts' of `{option}` holds struct<a: int"):
            ra.sketch_batches(table, **({"label": "y", "probs": "p"} | {option: "parts"}))

    def test_nothing_to_read(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no Parquet files in it"):
            ra.sketch_batches(tmp_path)
        with pytest.raises(FileNotFoundError, match="no such file"):
            ra.sketch_batches(tmp_path / "none.parquet")
        with pytest.raises(ValueError, match="no rows"):
            ra.sketch_batches({"y": np.zeros(0), "p": np.zeros(0)})
        with pytest.raises(ValueError, match="is empty"):
            ra.sketch_batches(iter([]))

    @pytest.mark.parametrize("source", [3, [3], [(np.zeros(2), np.zeros(2))]])
    def test_other_things(self, source):
        with pytest.raises(TypeError, match=r"`source` must be Parquet .*update"):
            ra.sketch_batches(source)

    @pytest.mark.parametrize("length", [0, 1])
    def test_lists_of_less_than_two(self, length):
        column = pa.array([[0.5] * length] * 2, pa.list_(pa.float64()))
        with pytest.raises(ValueError, match=f"column 'p', row 0: found a list of {length}; the"):
            ra.sketch_batches(pa.table({"y": [0, 1], "p": column}))

    def test_columns_that_arrow_cannot_read(self):
        frame = pd.DataFrame({"y": [0, 1], "p": [0.1, 0.2], "notes": ["a", 1]})
        with pytest.raises(ValueError, match=r"Arrow cannot read .*column notes with"):
            ra.sketch_batches(frame)
        assert ra.sketch_batches(frame.drop(columns="notes")).n_samples == 2

    @pytest.mark.parametrize("option", ["label", "by"])
    def test_columns_of_lists(self, option):
        columns = {"label": "y", "probs": "p", option: "lists"}
        table = pa.table({"y": [0, 1], "p": [0.1, 0.2], "lists": [[1], [2]]})
        with pytest.raises(ValueError, match=f"source, column 'lists' of `{option}` holds list<"):
            ra.sketch_batches(table, **columns)

    def test_too_many_groups(self, monkeypatch):
        monkeypatch.setattr("riskalign.sketches.groups.MOST_GROUPS", 3)
        table = {"y": [0] * 5, "p": [0.5] * 5, "id": [1, 2, 3, 4, 5]}
        with pytest.raises(ValueError, match="`by='id'` has more than 3 values"):
            ra.sketch_batches(table, by="id")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sample_weight": [1.0, 2.0]}, r"batches of \(y_true, y_prob, sample_weight\)\."),
        ({"metod": None}, "`calibration_error_of_batches` has no option `metod`"),
        ({"ignore_index": 0}, "what needs all rows at once goes to `calibration_error`"),
    ],
)
def test_options_that_batches_do_not_have_are_refused_before_they_are_read(options, words):
    def batches():
        raise AssertionError("a batch was read")
        yield

    with pytest.raises(TypeError, match=words):
        ra.calibration_error_of_batches(batches(), **options)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (3, "found int"),
        (([0, 1],), "found a tuple of 1"),
        (([0, 1], [0.1, 0.2], None, [0, 1]), "found a tuple of 4"),
    ],
)
def test_what_is_no_batch(batch, found):
    with pytest.raises(TypeError, match=f"`batches` must yield .*{found}"):
        ra.calibration_error_of_batches([batch])
