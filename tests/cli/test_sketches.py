"""`riskalign sketch`, `merge`, `history`, and reports of sketches and folders."""

import json
import re
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot as plt
from scipy.special import expit

import riskalign as ra
from riskalign.cli import main, sketches


def rows(seed, n=600, factor=1.2):
    g = np.random.default_rng(seed)
    logit = g.normal(-0.5, 1.2, n)
    return (g.random(n) < expit(logit)).astype(int), expit(factor * logit)


@pytest.fixture
def folder(tmp_path):
    """Three Parquet files of a day each."""
    path = tmp_path / "parquet"
    path.mkdir()
    for day in range(3):
        y, p = rows(day)
        pq.write_table(pa.table({"y": y, "p": p}), path / f"day-{day}.parquet")
    return path


@pytest.fixture
def whole():
    sketch = ra.CalibrationSketch()
    for day in range(3):
        sketch.update(*rows(day))
    return sketch


def loaded(path):
    return ra.CalibrationSketch.from_bytes(path.read_bytes())


class TestSketch:
    def test_folders_patterns_and_files(self, folder, whole, tmp_path, capsys):
        out = tmp_path / "all.sketch"
        sources = ([folder], [f"{folder}/*.parquet"], sorted(folder.iterdir()))
        for files in sources:
            assert main(["sketch", *map(str, files), "-o", str(out)]) == 0
            assert loaded(out).to_bytes() == whole.to_bytes()
        assert "binary, 2 classes, 1,800 rows (all of them)" in capsys.readouterr().out

    def test_text_and_parquet_together(self, folder, whole, tmp_path):
        y, p = rows(9)
        lines = "\n".join(f"{label},{value!r}" for label, value in zip(y.tolist(), p.tolist()))
        (tmp_path / "more.csv").write_text(f"y,p\n{lines}\n")
        out = tmp_path / "all.sketch"
        assert main(["sketch", str(folder), str(tmp_path / "more.csv"), "-o", str(out)]) == 0
        assert loaded(out).to_bytes() == whole.update(y, p).to_bytes()

    def test_predicted_classes_alone(self, tmp_path):
        columns = {
            "y": list("abcab"),
            "pred": list("abbab"),
            "confidence": [0.9, 0.8, 0.4, 0.7, 0.6],
        }
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        text = "\n".join(",".join(map(str, row)) for row in zip(*columns.values()))
        (tmp_path / "a.csv").write_text(f"y,pred,confidence\n{text}\n")
        for name in ("a.parquet", "a.csv"):
            assert (
                main(["sketch", str(tmp_path / name), "-o", str(tmp_path / f"{name}.sketch")]) == 0
            )
        first, second = (loaded(tmp_path / f"{name}.sketch") for name in ("a.parquet", "a.csv"))
        assert first.to_bytes() == second.to_bytes()
        assert first.classes == ("wrong", "right")

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "parquet", "folder"])
    @pytest.mark.parametrize("top_label", [False, True])
    def test_weights(self, tmp_path, ending, top_label):
        y, p = rows(0, 40)
        weights = np.random.default_rng(0).integers(0, 4, 40).astype(float)
        columns = {"y": y, "p": p, "p_w": weights}
        if top_label:
            columns = {"y": y, "pred": 1 - y % 2, "confidence": p, "p_w": weights}
        table = pa.table(columns)
        path = tmp_path / ("folder" if ending == "folder" else f"a.{ending}")
        if ending == "csv":
            table.to_pandas().to_csv(path, index=False)
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        elif ending == "npz":
            np.savez(path, **columns)
        else:
            pq.write_table(table, path if ending == "parquet" else _made(path) / "a.parquet")
        expected = ra.CalibrationSketch(classes=("wrong", "right") if top_label else None)
        labels = np.array(["wrong", "right"])[(y == 1 - y % 2).astype(int)] if top_label else y
        expected.update(labels, p, sample_weight=weights)
        out = tmp_path / "a.sketch"
        assert main(["sketch", str(path), "--weight", "p_w", "-o", str(out)]) == 0
        assert loaded(out).to_bytes() == expected.to_bytes()
        options = ["--weight", "p_w", "--fast", "--json", str(tmp_path / "a.json")]
        assert main(["report", str(path), *options]) == 0
        value = expected.calibration_error(confidence=0.95).value
        assert repr(value) in (tmp_path / "a.json").read_text()

    def test_a_sketch_has_no_column_of_weights(self, whole, tmp_path, capsys):
        (tmp_path / "a.sketch").write_bytes(whole.to_bytes())
        command = ["sketch", str(tmp_path / "a.sketch"), "-o", str(tmp_path / "b.sketch")]
        for arguments in (["report", command[1]], command):
            assert main([*arguments, "--weight", "w"]) == 2
            assert "names a column, and a sketch has none" in capsys.readouterr().err

    def test_merging(self, folder, whole, tmp_path):
        parts = []
        for path in sorted(folder.iterdir()):
            parts.append(str(tmp_path / f"{path.stem}.sketch"))
            assert main(["sketch", str(path), "-o", parts[-1]]) == 0
        assert main(["merge", *parts, "-o", str(tmp_path / "all.sketch")]) == 0
        assert loaded(tmp_path / "all.sketch").to_bytes() == whole.to_bytes()

    def test_one_at_a_time(self, whole, tmp_path, monkeypatch):
        """Those of many classes are large: a folder of them need not fit into memory."""
        path, alive, most = tmp_path / "a.sketch", weakref.WeakSet(), []
        path.write_bytes(whole.to_bytes())

        def load(path):
            alive.add(found := loaded(path))
            most.append(len(alive))
            return found

        monkeypatch.setattr(sketches, "load_sketch", load)
        for command in ("merge", "sketch"):
            arguments = [command, *[str(path)] * 6, "-o", str(tmp_path / "b.sketch")]
            assert main(arguments) == 0
        assert len(most) == 12
        assert max(most) <= 3
        assert loaded(tmp_path / "b.sketch").n_samples == 6 * whole.n_samples

    def test_sketches_that_do_not_merge(self, tmp_path, capsys):
        (tmp_path / "a.sketch").write_bytes(ra.CalibrationSketch().to_bytes())
        (tmp_path / "b.sketch").write_bytes(ra.CalibrationSketch(classes=3).to_bytes())
        command = ["merge", str(tmp_path / "a.sketch"), str(tmp_path / "b.sketch")]
        assert main([*command, "-o", str(tmp_path / "c.sketch")]) == 2
        assert "settings are the same" in capsys.readouterr().err
        assert not (tmp_path / "c.sketch").exists()

    def test_half_a_sketch(self, whole, tmp_path, capsys):
        (tmp_path / "half.sketch").write_bytes(whole.to_bytes()[:1000])
        assert main(["merge", str(tmp_path / "half.sketch"), "-o", str(tmp_path / "c.sketch")]) == 2
        assert "half.sketch: The sketch is cut short" in capsys.readouterr().err

    def test_bad_rows(self, folder, tmp_path, capsys):
        table = pa.table({"y": [0, 1], "p": [0.5, 1.5]})
        pq.write_table(table, folder / "day-3.parquet")
        assert main(["sketch", str(folder), "-o", str(tmp_path / "a.sketch")]) == 2
        assert "day-3.parquet, column 'p', row 1: found 1.5" in capsys.readouterr().err

    def test_a_pattern_that_matches_folders(self, folder, whole, tmp_path):
        for name in ("day-0", "day-1"):
            (folder / f"{name}.parquet").rename(_made(tmp_path / "logs" / name) / "a.parquet")
        (folder / "day-2.parquet").rename(_made(tmp_path / "logs" / "day-2") / "b.PQ")
        (tmp_path / "logs" / "empty").mkdir()
        out = tmp_path / "all.sketch"
        for pattern in ("logs/day-*/", "logs/*", "logs/**", "logs"):
            assert main(["sketch", f"{tmp_path}/{pattern}", "-o", str(out)]) == 0
            assert loaded(out).to_bytes() == whole.to_bytes(), pattern

    @pytest.mark.parametrize("name", ["a.csv", "z.csv"])
    def test_a_pattern_that_matches_another_file(self, folder, tmp_path, capsys, name):
        (folder / name).write_text("y,p\n0,0.5\n1,0.5\n")
        assert main(["sketch", f"{folder}/*", "-o", str(tmp_path / "a.sketch")]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert name in said
        assert "cannot be read as Parquet" in said
        assert "one by one: riskalign sketch a.csv b.csv" in said
        assert "magic" not in said

    @pytest.mark.parametrize("command", ["sketch", "merge"])
    def test_sketches_have_names_by_which_they_are_found(self, whole, tmp_path, capsys, command):
        (tmp_path / "a.sketch").write_bytes(whole.to_bytes())
        out = tmp_path / "b.bin"
        assert main([command, str(tmp_path / "a.sketch"), "-o", str(out)]) == 2
        assert "must end in .sketch" in capsys.readouterr().err
        assert not out.exists()

    @pytest.mark.parametrize("command", ["plot", "compare", "calibrate"])
    def test_commands_that_need_rows(self, whole, tmp_path, capsys, command):
        path = tmp_path / "a.sketch"
        path.write_bytes(whole.to_bytes())
        more = {"plot": ["-o", "a.png"], "compare": [str(path)], "calibrate": ["-o", "b.sketch"]}
        assert main([command, str(path), *more[command]]) == 2
        assert "Sketches work with riskalign report, merge and hist" in capsys.readouterr().err

    def test_the_count_of_rows_is_not_rounded(self, tmp_path, capsys):
        np.savez(tmp_path / "a.npz", y=rows(0, 50_000)[0], p=rows(0, 50_000)[1])
        assert main(["sketch", str(tmp_path / "a.npz"), "-o", str(tmp_path / "a.sketch")]) == 0
        assert "50,000 rows (predictions rounded)" in capsys.readouterr().out

    def test_bad_rows_of_text_are_named(self, tmp_path, capsys):
        path = tmp_path / "a.csv"
        path.write_text("y,p\n0,0.5\n\n1,1.7\n")
        assert main(["sketch", str(path), "-o", str(tmp_path / "a.sketch")]) == 2
        assert f"{path}: line 4, column 'p': found 1.7 there" in capsys.readouterr().err


def _made(path):
    path.mkdir(parents=True)
    return path


class TestInputsStay:
    """No output replaces a file of a folder or of a pattern that is read."""

    @pytest.mark.parametrize("pattern", ["", "/*.parquet", "/../parquet", "/day-[12].parquet"])
    @pytest.mark.parametrize("command", [("sketch", "-o"), ("report", "--csv")])
    def test_parquet(self, folder, capsys, pattern, command):
        name, option = command
        target = folder / "day-1.parquet"
        before = target.read_bytes()
        assert main([name, f"{folder}{pattern}", option, str(target)]) == 2
        assert f"{target} would replace the input" in capsys.readouterr().err
        assert target.read_bytes() == before

    @pytest.mark.parametrize("option", ["--json", "--csv", "-o"])
    def test_history(self, tmp_path, capsys, option):
        for day in range(3):
            sketch = ra.CalibrationSketch().update(*rows(day))
            (tmp_path / f"{day}.sketch").write_bytes(sketch.to_bytes())
        target = tmp_path / "link.png"
        target.symlink_to(tmp_path / "2.sketch")
        before = target.read_bytes()
        assert main(["history", str(tmp_path), option, str(target)]) == 2
        assert "would replace the input" in capsys.readouterr().err
        assert target.read_bytes() == before


class TestReport:
    @pytest.mark.parametrize("kind", ["folder", "pattern", "sketch"])
    def test_numbers_are_those_of_all_rows(self, folder, whole, tmp_path, kind):
        (tmp_path / "a.sketch").write_bytes(whole.to_bytes())
        source = {"folder": folder, "pattern": f"{folder}/*", "sketch": tmp_path / "a.sketch"}[kind]
        out = tmp_path / "report.json"
        assert main(["report", str(source), "--draws", "0", "--json", str(out)]) == 0
        assert repr(whole.calibration_error(confidence=0.95).value) in out.read_text()

    def test_another_notion_than_the_sketch_has(self, whole, tmp_path, capsys):
        (tmp_path / "a.sketch").write_bytes(whole.to_bytes())
        assert main(["report", str(tmp_path / "a.sketch"), "--notion", "canonical"]) == 2
        assert "cannot be asked of a binary sketch" in capsys.readouterr().err


class TestHistory:
    @pytest.fixture
    def days(self, tmp_path):
        history = ra.CalibrationHistory()
        for day in range(8):
            y, p = rows(day, 1500, 1.2 if day < 5 else 4.0)
            history.append(f"2026-01-{day + 1:02}", ra.CalibrationSketch().update(y, p))
        history.save(tmp_path / "days")
        history.save(tmp_path / "days.parquet")
        return tmp_path

    def test_typical_gaps_are_shown_in_points(self, days, capsys):
        assert main(["history", str(days / "days"), "--reference", "3"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("In percentage points: typical gap, and bias (mean pred")
        result = ra.CalibrationHistory.load(days / "days")["2026-01-06"].calibration_error(
            confidence=0.95
        )
        (row,) = [line for line in lines if line.startswith("  2026-01-06")]
        low, high = (100 * end for end in result.gap_interval)
        assert f"{100 * result.gap:.1f}  " in row
        assert f"{low:.1f} to {high:.1f}" in row
        assert row.endswith("alarm")
        assert main(["history", str(days / "days"), "--loss", "kl"]) == 0
        text = capsys.readouterr().out
        assert text.startswith("Calibration error, and bias (mean prediction less mean outcome)")
        assert "typical gap" not in text

    def test_a_tolerance_in_points_is_one_of_typical_gaps(self, days):
        out = days / "out.json"
        limits = []
        for option in ([], ["--tolerance", "2pts"], ["--tolerance", "0.01raw"]):
            command = ["history", str(days / "days"), "--reference", "3", "--json", str(out)]
            assert main([*command, *option]) == 0
            limits.append(json.loads(out.read_text())["alarm"]["limit"])
        assert limits[1] ** 0.5 == pytest.approx(limits[0] ** 0.5 + 0.02)
        assert limits[2] == pytest.approx(limits[0] + 0.01)

    @pytest.mark.parametrize("options", [["1x"], ["1pts", "--loss", "kl"]])
    def test_tolerances_that_make_no_sense(self, days, capsys, options):
        assert main(["history", str(days / "days"), "--tolerance", *options]) == 2
        assert "in the units of the loss, such as 0.001raw" in capsys.readouterr().err

    def test_table_alarm_and_files(self, days, capsys):
        out, picture = days / "out.json", days / "out.png"
        command = ["history", str(days / "days"), "--reference", "3", "--json", str(out)]
        command += ["--csv", str(days / "out.csv"), "-o", str(picture)]
        assert main(command) == 0
        text = capsys.readouterr().out
        assert text.count("2026-01-0") >= 8
        assert "ALARM at 2026-01-06: the typical gap has grown above" in text
        words = " ".join(text.split())
        assert re.search(r"the reference's [\d.]+ points \(tested against [\d.]+ points\)", words)
        assert re.search(r" bias +95% CI$", text, re.MULTILINE)
        assert re.search(r"^  2026-01-06 .* [+-][\d.]+ to [+-][\d.]+ +alarm$", text, re.MULTILINE)
        lines = [line for line in text.splitlines() if not line.startswith("wrote")]
        assert max(map(len, lines)) <= 80
        content = json.loads(out.read_text())
        assert content["alarm"]["raised"]
        expected = ra.CalibrationHistory.load(days / "days").to_columns()["value"]
        assert [row["value"] for row in content["periods"]] == expected
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert len((days / "out.csv").read_text().splitlines()) == 9

    def test_names_of_periods_are_no_formulas(self, tmp_path):
        history = ra.CalibrationHistory()
        for name in ("=1+1", "@a", "plain"):
            history.append(name, ra.CalibrationSketch().update(*rows(0)))
        history.save(tmp_path / "days")
        assert main(["history", str(tmp_path / "days"), "--csv", str(tmp_path / "out.csv")]) == 0
        lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
        assert [line.split(",")[0] for line in lines] == ["'=1+1", "'@a", "plain"]

    def test_a_day_without_rows(self, days, capsys):
        blob = ra.CalibrationSketch().to_bytes()
        (days / "days" / "2026-01-02 b.sketch").write_bytes(blob)
        out = days / "out.json"
        assert main(["history", str(days / "days"), "--json", str(out)]) == 0
        row = json.loads(out.read_text(), parse_constant=pytest.fail)["periods"][2]
        assert (row["period"], row["n"], row["value"]) == ("2026-01-02 b", 0, None)

    def test_pictures_are_closed(self, days):
        before = plt.get_fignums()
        assert main(["history", str(days / "days"), "-o", str(days / "out.svg")]) == 0
        assert plt.get_fignums() == before

    def test_endings_are_checked_before_the_work(self, days, capsys, monkeypatch):
        monkeypatch.setattr(ra.CalibrationHistory, "load", None)
        out = days / "out.txt"
        assert main(["history", str(days / "days"), "-o", str(out), "--json", str(out)]) == 2
        assert main(["history", str(days / "days"), "-o", str(out)]) == 2
        assert "pictures end in .png, .svg or .pdf; found 'out.txt'" in capsys.readouterr().err

    def test_gate_and_windows(self, days):
        command = ["history", str(days / "days.parquet"), "--reference", "3"]
        assert main([*command, "--fail-on-alarm"]) == 1
        assert main([*command, "--tolerance", "1raw", "--fail-on-alarm"]) == 0
        assert main(["history", str(days / "days"), "--window", "2"]) == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--reference", "8"), "there are 8 windows, and --reference 8 takes all. Give "
                                   "--reference 1 to 7, or add periods."),
            (("--window", "5"), "there is 1 window, and --reference 1 takes all. Add periods."),
        ],
    )  # fmt: skip
    def test_a_gate_that_tests_nothing_does_not_pass(self, days, capsys, options, message):
        command = ["history", str(days / "days"), *options]
        assert main([*command, "--fail-on-alarm"]) == 2
        assert message in capsys.readouterr().err
        assert main(command) == 0
        assert "no window has come after the reference" in capsys.readouterr().out

    def test_a_gate_whose_only_window_has_no_rows(self, tmp_path, capsys):
        history = ra.CalibrationHistory().append("a", ra.CalibrationSketch().update(*rows(0)))
        history.append("b", ra.CalibrationSketch()).save(tmp_path / "days")
        assert main(["history", str(tmp_path / "days"), "--fail-on-alarm"]) == 2
        assert "no window after the reference has two rows" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--reference", "9"), "--reference 9: there are 8 windows; the reference may be the"),
            (("--reference", "0"), "first 1 to 8 of them."),
            (("--window", "0"), "--window must be a number of periods"),
            (("--alpha", "7"), "--alpha must lie"),
        ],
    )
    def test_errors_speak_of_options(self, days, capsys, options, message):
        assert main(["history", str(days / "days"), *options]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert "`" not in said

    def test_what_is_no_history(self, tmp_path, capsys):
        (tmp_path / "a.csv").write_text("y,p\n0,0.5\n1,0.5\n")
        assert main(["history", str(tmp_path / "a.csv")]) == 2
        assert "a folder of .sketch files or a .parquet file" in capsys.readouterr().err

    def test_the_help_lists_exit_codes(self, capsys):
        with pytest.raises(SystemExit):
            main(["history", "--help"])
        assert "a gate failed: --fail-above, --worse-than or --fail-on" in capsys.readouterr().out

    def test_bad_options(self, days, capsys):
        assert main(["history", str(days / "days"), "--window", "9"]) == 2
        assert main(["history", str(days / "days"), "--reference", "9"]) == 2
        assert main(["history", str(days)]) == 2
        assert "there are no .sketch files" in capsys.readouterr().err
