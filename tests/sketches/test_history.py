"""Histories: order, windows, files, and what is said of every period."""

import datetime
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot as plt
from scipy.special import expit

import riskalign as ra
from riskalign.data.format import SketchFormatError


def sketch(seed, n=400, factor=1.0, **settings):
    """Binary predictions whose logits are too large by a factor."""
    g = np.random.default_rng(seed)
    logit = g.normal(-0.5, 1.2, n)
    labels = (g.random(n) < expit(logit)).astype(int)
    return ra.CalibrationSketch(**settings).update(labels, expit(factor * logit))


@pytest.fixture(scope="module")
def history():
    days = ra.CalibrationHistory()
    for day in range(1, 10):
        days.append(f"2026-01-{day:02}", sketch(day))
    return days


def same(history, other):
    assert history.periods == other.periods
    for period in history:
        assert history[period].to_bytes() == other[period].to_bytes()


class TestPeriods:
    def test_order_is_by_name_and_number(self):
        found = ra.CalibrationHistory()
        for name in ("v10", "v9", "v2", datetime.date(2026, 1, 9), "2025-12-31", 7):
            found.append(name, sketch(0))
        assert found.periods == ["7", "2025-12-31", "2026-01-09", "v2", "v9", "v10"]

    def test_a_period_is_not_replaced_by_accident(self, history):
        with pytest.raises(ValueError, match="has a period '2026-01-01' already"):
            history.append("2026-01-01", sketch(0))
        twin = ra.CalibrationHistory().append("a", sketch(0))
        twin.append("a", sketch(1), replace=True)
        assert twin["a"].to_bytes() == sketch(1).to_bytes()

    def test_settings_must_agree(self, history):
        with pytest.raises(ValueError, match="settings are the same; `bits`"):
            history.append("2027", sketch(0, bits=6))
        assert "2027" not in history.periods

    @pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 121])
    def test_names(self, name):
        with pytest.raises(ValueError, match="`period` must be a name"):
            ra.CalibrationHistory().append(name, sketch(0))

    @pytest.mark.parametrize("name", [None, 1.5, True, ["a"]])
    def test_other_things_are_no_names(self, name):
        with pytest.raises(TypeError, match="`period` must be a name, a date or a whole number"):
            ra.CalibrationHistory().append(name, sketch(0))
        assert ra.CalibrationHistory().append(np.int64(7), sketch(0)).periods == ["7"]

    def test_sketches_are_copies(self):
        own = sketch(0)
        found = ra.CalibrationHistory().append("a", own)
        own.merge(sketch(1))
        found["a"].merge(sketch(1))
        assert found["a"].n_samples == 400
        with pytest.raises(TypeError, match="must be a CalibrationSketch"):
            found.append("b", b"")
        with pytest.raises(KeyError, match="no period 'c'"):
            found["c"]

    def test_dates_name_periods_everywhere(self):
        days = [datetime.date(2026, 1, day) for day in (1, 2)]
        found = ra.CalibrationHistory()
        for seed, day in enumerate(days):
            found.append(day, sketch(seed))
        assert days[0] in found
        assert datetime.date(2026, 1, 3) not in found
        assert found[days[0]].to_bytes() == found["2026-01-01"].to_bytes()
        assert found.result(days[0]).value == found.result("2026-01-01").value
        assert found.compare(*days).names == ("2026-01-01", "2026-01-02")
        assert found.window(*days).n_samples == 800
        with pytest.raises(KeyError, match="no period '2026-01-03'"):
            found[datetime.date(2026, 1, 3)]


class TestWindows:
    def test_windows_keep_the_order_of_their_periods(self):
        found = ra.CalibrationHistory()
        for seed, name in enumerate(("a", "a a", "a b", "b")):
            found.append(name, sketch(seed))
        windows = found.windows(2)
        assert windows.periods == ["a to a a", "a b to b"]
        assert windows.window("a to a a", "a b to b").n_samples == 1600
        assert windows.append("c", sketch(5)).periods == ["a to a a", "a b to b", "c"]
        assert windows.alarm().windows == ("a b to b", "c")
        assert windows.windows(2).periods == ["a to a a to a b to b"]

    def test_windows_are_merged_periods(self, history):
        threes = history.windows(3)
        assert threes.periods[0] == "2026-01-01 to 2026-01-03"
        assert len(threes) == 3
        whole = sketch(1).merge(sketch(2)).merge(sketch(3))
        assert threes[threes.periods[0]].to_bytes() == whole.to_bytes()
        assert history.window("2026-01-01", "2026-01-03").to_bytes() == whole.to_bytes()

    def test_incomplete_windows_are_left_out(self, history):
        assert len(history.windows(4)) == 2
        with pytest.raises(ValueError, match="`size` must be a number of periods"):
            history.windows(0)
        with pytest.raises(ValueError, match="No period lies from"):
            history.window("2027", "2028")

    def test_groups(self, history):
        months = history.grouped(lambda day: day[:7])
        assert months.periods == ["2026-01"]
        assert months["2026-01"].n_samples == 9 * 400


class TestFiles:
    def test_folder(self, history, tmp_path):
        history.save(tmp_path / "days")
        assert len(list((tmp_path / "days").iterdir())) == 9
        same(history, ra.CalibrationHistory.load(tmp_path / "days"))

    def test_names_that_are_no_file_names(self, tmp_path):
        found = ra.CalibrationHistory()
        for name in ("a/b", "..", "week 1: 50%", "日"):
            found.append(name, sketch(0))
        found.save(tmp_path / "days")
        same(found, ra.CalibrationHistory.load(tmp_path / "days"))
        assert all(path.suffix == ".sketch" for path in (tmp_path / "days").iterdir())

    def test_the_longest_names_are_saved(self, tmp_path):
        """A letter such as é takes six bytes in the name of a file."""
        found = ra.CalibrationHistory()
        for name in ("x" * 120, "é" * 38, "日" * 25):
            found.append(name, sketch(0))
        with pytest.raises(ValueError, match="`period` must be shorter"):
            found.append("é" * 41, sketch(0))
        found.save(tmp_path)
        same(found, ra.CalibrationHistory.load(tmp_path))

    @pytest.mark.parametrize("name", ["windows", "windows.parquet"])
    def test_names_that_could_not_be_loaded_are_not_saved(self, tmp_path, name):
        found = ra.CalibrationHistory().append("a" * 70, sketch(0)).append("b" * 70, sketch(1))
        with pytest.raises(ValueError, match="`period` must be a name of 1 to 120"):
            found.windows(2).save(tmp_path / name)
        assert not list(tmp_path.iterdir())

    def test_changed_names_in_parquet_are_noticed(self, history, tmp_path):
        path = tmp_path / "days.parquet"
        history.save(path)
        blob = path.read_bytes()
        assert b"2026-01-03" in blob
        path.write_bytes(blob.replace(b"2026-01-03", b"2026-01-13"))
        with pytest.raises(ValueError, match=r"days\.parquet: the file cannot be read"):
            ra.CalibrationHistory.load(path)

    def test_saving_again_writes_what_is_new(self, history, tmp_path):
        history.save(tmp_path)
        before = {path: path.stat().st_ino for path in tmp_path.iterdir()}
        later = ra.CalibrationHistory.load(tmp_path).append("2026-01-10", sketch(10))
        later.save(tmp_path)
        after = {path: path.stat().st_ino for path in tmp_path.iterdir()}
        assert len(after) == 10
        assert before.items() <= after.items()

    def test_folders_of_other_periods_are_refused(self, history, tmp_path):
        history.save(tmp_path)
        fewer = ra.CalibrationHistory()
        for name in history.periods[2:5]:
            fewer.append(name, history[name])
        with pytest.raises(ValueError, match="holds sketches of other periods"):
            fewer.save(tmp_path)
        same(history, ra.CalibrationHistory.load(tmp_path))
        fewer.save(tmp_path / "fewer")
        same(fewer, ra.CalibrationHistory.load(tmp_path / "fewer"))

    def test_other_files_are_left_alone(self, history, tmp_path):
        (tmp_path / "notes.txt").write_bytes(b"a")
        history.save(tmp_path)
        assert (tmp_path / "notes.txt").read_bytes() == b"a"

    def test_files_that_unpack_to_much_more_are_refused(self, tmp_path):
        path = tmp_path / "a.parquet"
        for column in ("period", "sketch"):
            columns = {"period": ["a"], "sketch": [b"a"]}
            columns[column] = ["0" * 20_000_000] if column == "period" else [bytes(20_000_000)]
            pq.write_table(pa.table(columns), path, compression="zstd")
            pa.default_memory_pool().release_unused()
            with pytest.raises(ValueError, match=f"the column '{column}' would take 20,000,"):
                ra.CalibrationHistory.load(path)

    def test_columns_of_other_kinds(self, tmp_path):
        table = pa.table({"period": [["a"]], "sketch": [{"a": 1}]})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(ValueError, match="this is no history"):
            ra.CalibrationHistory.load(tmp_path / "a.parquet")

    def test_parquet(self, history, tmp_path):
        history.save(tmp_path / "days.parquet")
        same(history, ra.CalibrationHistory.load(tmp_path / "days.parquet"))
        assert pq.read_table(tmp_path / "days.parquet")["n_samples"].to_pylist() == [400] * 9
        assert [path.name for path in tmp_path.iterdir()] == ["days.parquet"]

    @pytest.mark.parametrize("name", ["days", "days.parquet"])
    def test_a_failure_leaves_the_old_files(self, history, tmp_path, monkeypatch, name):
        path = tmp_path / name
        first = ra.CalibrationHistory().append("2026-01-01", sketch(1))
        first.save(path)

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                history.save(path)
        same(first, ra.CalibrationHistory.load(path))
        folder = path if path.is_dir() else tmp_path
        assert len(list(folder.iterdir())) == 1  # no leftovers

    def test_a_late_failure_leaves_no_new_period(self, history, tmp_path, monkeypatch):
        first = ra.CalibrationHistory()
        for name in history.periods[:2]:
            first.append(name, history[name])
        first.save(tmp_path)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        changed = ra.CalibrationHistory()
        for name in history.periods:
            changed.append(name, history[name])
        changed.append("2026-01-01", sketch(99), replace=True)
        done, flush = [], os.fsync

        def full_at_the_third(handle):
            done.append(handle)
            if len(done) == 3:
                raise OSError(28, "No space left on device")
            flush(handle)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full_at_the_third)
            with pytest.raises(OSError, match="No space"):
                changed.save(tmp_path)
        assert len(done) == 3
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        changed.save(tmp_path)
        same(changed, ra.CalibrationHistory.load(tmp_path))

    def test_a_folder_in_the_place_of_a_file(self, history, tmp_path):
        changed = ra.CalibrationHistory()
        for name in history.periods[:3]:
            changed.append(name, history[name])
        (tmp_path / "2026-01-03.sketch").mkdir()
        with pytest.raises(IsADirectoryError, match=r"2026-01-03\.sketch"):
            changed.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["2026-01-03.sketch"]

    def test_half_written_sketches_are_refused(self, history, tmp_path):
        history.save(tmp_path)
        path = tmp_path / "2026-01-03.sketch"
        blob = path.read_bytes()
        for cut in (0, 10, 30, len(blob) // 2, len(blob) - 1):
            path.write_bytes(blob[:cut])
            with pytest.raises(SketchFormatError, match=r"2026-01-03\.sketch: The sketch is cut"):
                ra.CalibrationHistory.load(tmp_path)

    def test_files_that_are_being_written_are_not_read(self, history, tmp_path):
        history.save(tmp_path)
        (tmp_path / ".2026-01-10.sketch.abc").write_bytes(b"half")
        (tmp_path / ".2026-01-10.sketch").write_bytes(b"half")
        same(history, ra.CalibrationHistory.load(tmp_path))

    def test_other_files(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no such file or folder"):
            ra.CalibrationHistory.load(tmp_path / "none")
        with pytest.raises(FileNotFoundError, match=r"no \.sketch files"):
            ra.CalibrationHistory.load(tmp_path)
        (tmp_path / "text.parquet").write_text("no Parquet")
        with pytest.raises(ValueError, match="cannot be read"):
            ra.CalibrationHistory.load(tmp_path / "text.parquet")
        pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
        with pytest.raises(ValueError, match="this is no history"):
            ra.CalibrationHistory.load(tmp_path / "other.parquet")
        table = pa.table({"period": ["a", None], "sketch": [b"x", b"y"]})
        pq.write_table(table, tmp_path / "bad.parquet")
        with pytest.raises(SketchFormatError, match="not a sketch"):
            ra.CalibrationHistory.load(tmp_path / "bad.parquet")


class TestFrame:
    def test_rows_are_the_periods_own_answers(self, history):
        frame = history.frame(confidence=0.9)
        assert isinstance(frame, pd.DataFrame)
        assert frame["period"].tolist() == history.periods
        for row in frame.iloc[:2].itertuples():
            own = history[row.period].calibration_error(confidence=0.9)
            assert (row.value, row.low, row.high) == (own.value, *own.interval)
            assert row.n == 400
            assert row.overconfidence == own.overconfidence.gap
            ends = row.overconfidence_low, row.overconfidence_high
            assert ends == pytest.approx(own.overconfidence.gap_interval, rel=1e-6)

    @pytest.mark.parametrize("n", [0, 1])
    def test_periods_without_an_error(self, history, n, tmp_path):
        """They have NaN in the frame, and the alarm leaves them out."""
        few = ra.CalibrationSketch()
        if n:
            few.update([1], [0.5])
        found = ra.CalibrationHistory()
        for name in history.periods[:4]:
            found.append(name, history[name])
        without = found.alarm()
        found.append("2026-01-02 b", few)
        frame = found.frame()
        assert frame["n"].tolist() == [400, 400, n, 400, 400]
        assert frame.iloc[2, 2:].isna().all()
        assert not frame.drop(index=2).isna().any().any()
        assert found.alarm() == without
        with pytest.raises(ValueError, match=f"The period '2026-01-02 b' has {n} rows; an error"):
            found.result("2026-01-02 b")
        with pytest.raises(ValueError, match="up to '2026-01-00', have less than 2 rows"):
            found.append("2026-01-00", few).alarm()
        assert found.plot().lines
        plt.close("all")

    def test_a_period_where_one_row_outweighs_the_others(self, history):
        """It has NaN in the frame and is left out by the alarm; asked for itself, it is named."""
        found = ra.CalibrationHistory()
        for name in history.periods[:3]:
            found.append(name, history[name])
        without = found.alarm()
        heavy = ra.CalibrationSketch()
        heavy.update([0, 1, 1], [0.2, 0.6, 0.7], sample_weight=[1, 1, 1e16])
        found.append("2026-01-02 b", heavy)
        frame = found.frame()
        assert frame.iloc[2, 2:].isna().all()
        assert not frame.drop(index=2).isna().any().any()
        assert found.alarm() == without
        with pytest.raises(ValueError, match="The period '2026-01-02 b' has no error: `sample_we"):
            found.result("2026-01-02 b")

    def test_sketches_without_rows(self):
        """Class-wise ones, as the metric for PyTorch makes them: the errors have no intervals."""
        g = np.random.default_rng(0)
        found, with_rows = ra.CalibrationHistory(), ra.CalibrationHistory()
        for day in range(3):
            p = g.dirichlet([1, 1, 1], 300)
            y = (g.random((300, 1)) > p.cumsum(1)[:, :2]).sum(1)
            for history, limit in ((found, 0), (with_rows, 5_000)):
                own = ra.CalibrationSketch("classwise", 3, exact_limit=limit).update(y, p)
                history.append(f"day {day}", own)
        frame = found.frame(confidence=0.9)
        values = [found[name].calibration_error().value for name in found]
        assert frame["value"].tolist() == values
        assert frame[["low", "high"]].isna().all(axis=None)
        rest = [name for name in frame if name.startswith(("n", "overconfidence"))]
        expected = with_rows.frame(confidence=0.9)
        np.testing.assert_allclose(frame[rest], expected[rest], atol=1e-4)
        assert not expected.isna().any(axis=None)
        assert found.result("day 0").interval is None
        gaps = 100 * np.sqrt(np.maximum(values, 0.0) / 3)  # typical ones per class, in points
        np.testing.assert_allclose(found.plot().lines[0].get_ydata(), gaps)
        plt.close("all")
        for asked in (found.alarm, lambda: found.compare("day 0", "day 1")):
            with pytest.raises(ValueError, match=r"needs intervals.*exact_limit=5000"):
                asked()
        assert not with_rows.alarm().raised

    @pytest.mark.parametrize("confidence", [0, 1, 95, np.nan, "95%"])
    def test_confidence_is_checked(self, history, confidence):
        with pytest.raises(ValueError, match="`confidence` must lie between 0 and 1"):
            history.frame(confidence=confidence)
        with pytest.raises(ValueError, match="`confidence` must lie between 0 and 1"):
            history.compare(*history.periods[:2], confidence=confidence)

    def test_polars(self, history):
        assert isinstance(history.frame("polars", confidence=0.9), pl.DataFrame)
        with pytest.raises(ValueError, match="must be 'pandas' or 'polars'"):
            history.frame("spark")


class TestCompare:
    def test_two_periods(self):
        days = ra.CalibrationHistory()
        days.append("before", sketch(1, 2_000, 1.1)).append("after", sketch(2, 2_000, 3.0))
        found = days.compare("before", "after")
        own = [days[name].calibration_error(confidence=0.95) for name in ("before", "after")]
        assert found.difference == own[0].value - own[1].value
        squares = [result.standard_error**2 for result in own]
        assert found.standard_error == pytest.approx(sum(squares) ** 0.5)
        assert found.interval[1] < 0
        assert found.p_value < 0.001
        assert days.compare("before", "before").p_value == 1.0
        assert (found.n_samples, found.paired) == ((2000, 2000), False)


class TestAlarm:
    def test_drift_is_found_and_its_absence_is_not(self):
        days = ra.CalibrationHistory()
        for day in range(12):
            days.append(f"day {day}", sketch(day, 2_000, 1.2 if day < 6 else 3.0))
        alarm = days.alarm(reference=3)
        assert alarm.raised
        assert alarm.since == "day 6"
        assert alarm.windows[0] == "day 3"
        early = ra.CalibrationHistory()
        for day in range(6):
            early.append(f"day {day}", days[f"day {day}"])
        assert not early.alarm(reference=3).raised
        assert days.alarm(reference=4, window=2).windows[0] == "day 4 to day 5"

    @pytest.mark.parametrize(
        "options",
        [
            {"reference": 0},
            {"reference": 99},
            {"reference": True},
            {"window": True},
            {"alpha": 0.0},
            {"alpha": "5%"},
            {"tolerance": -1.0},
            {"tolerance": None},
        ],
    )
    def test_options(self, history, options):
        name = next(iter(options)).replace("window", "size")
        with pytest.raises(ValueError, match=f"`{name}` must"):
            history.alarm(**options)

    def test_numbers_of_numpy(self, history):
        assert history.alarm(reference=np.int64(2), window=np.int64(3)).windows


class TestPlot:
    def test_points_band_and_alarm(self, history):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        alarm = history.alarm(reference=2)
        ax = history.plot(alarm=alarm)
        shown = [100 * history.result(name).gap for name in history]
        np.testing.assert_allclose(ax.lines[0].get_ydata(), shown)
        assert ax.get_ylabel() == "typical gap\n(percentage points), 95% interval"
        assert any(100 * alarm.limit**0.5 in line.get_ydata() for line in ax.lines)
        matplotlib.pyplot.close("all")

    def test_typical_gaps_are_per_class(self):
        pytest.importorskip("matplotlib").use("Agg")
        data = ra.datasets.class_bias(300, 3, seed=0)
        own = ra.CalibrationSketch("classwise", 3).update(data.y_true, data.y_prob)
        found = ra.CalibrationHistory().append("a", own)
        ax = found.plot()
        assert ax.lines[0].get_ydata() == pytest.approx([100 * found.result("a").gap])
        assert ax.get_ylabel() == "typical gap per class\n(percentage points), 95% interval"
        ax = found.plot(notion="top-label")
        assert ax.get_ylabel() == "typical gap\n(percentage points), 95% interval"
        plt.close("all")

    def test_other_losses_keep_their_unit(self, history):
        pytest.importorskip("matplotlib").use("Agg")
        ax = history.plot(loss="kl")
        value = history.to_columns(loss="kl")["value"]
        np.testing.assert_allclose(ax.lines[0].get_ydata(), value)
        assert ax.get_ylabel() == "calibration error\n(log loss), 95% interval"
        plt.close("all")

    def test_an_empty_history(self):
        with pytest.raises(ValueError, match="The history is empty: append"):
            ra.CalibrationHistory().plot()


def test_notebooks_show_the_last_periods():
    history = ra.CalibrationHistory().append("<none>", ra.CalibrationSketch())
    for k in range(24):
        history.append(f"day {k}", sketch(k))
    page = history._repr_html_()
    assert "The last 20 of 25 periods." in page
    assert page.count("<tr>") == 21
    assert "day 23" in page
    assert "day 3<" not in page
    page = ra.CalibrationHistory().append("<none>", ra.CalibrationSketch())._repr_html_()
    assert "<td>&lt;none&gt;</td><td>0</td><td></td>" in page


def test_intervals_of_periods_end_within_the_range_of_the_loss():
    wrong = ra.CalibrationSketch().update([1, 0, 1], [0.0, 1.0, 0.1])
    history = ra.CalibrationHistory().append("a", wrong)
    whole = wrong.calibration_error(confidence=0.95)
    assert whole.interval[1] == pytest.approx((1 + 1 + 0.9**2) / 3)
    assert history.result("a").interval == pytest.approx(whole.interval)
