"""The command line, as a user meets it."""

import builtins
import csv
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import riskalign as ra
import riskalign_command
from riskalign.cli import main
from riskalign.cli import output as output_module
from riskalign.cli.output import check_outputs, printable, words_of_options
from riskalign.data.files import PredictionFile
from riskalign.data.files.whole import write_whole
from riskalign.report.diagrams import GRID

DATA = os.environ.get("RISKALIGN_DATA")
FAST = ("--fast",)


@pytest.fixture(scope="module")
def three():
    return ra.datasets.temperature(300, 3, t2=0.4, seed=0)


@pytest.fixture
def file(three, tmp_path):
    path = tmp_path / "three.npz"
    np.savez(path, labels=three.y_true, probs=three.y_prob)
    return path


@pytest.fixture
def run(capsys):
    def run_command(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leaving:  # argparse
            code = leaving.code
        found = capsys.readouterr()
        return code, found.out, found.err

    return run_command


def one_line(err):
    """An error must be one line that says who speaks."""
    assert err.startswith("riskalign: error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


class TestReport:
    def test_table(self, run, file, three):
        code, out, err = run("report", file, "--draws", "19")
        assert (code, err) == (0, "")
        long = [line for line in out.splitlines() if len(line) > 80]
        assert all(str(file.parent) in line for line in long)  # a path is one word
        accuracy = np.mean(three.y_prob.argmax(axis=1) == three.y_true)
        assert re.search(rf"accuracy +{100 * accuracy:.1f}%", out)
        for line in ("typical gap, confidence", "typical gap, per class", "95% CI", "ECE (15 bins)",
                     "p-value", "class  predicted  observed", "over-confident", "What to do",
                     "$ riskalign calibrate"):  # fmt: skip
            assert line in out
        assert "by simulation, 19 draws" in " ".join(out.split())
        assert out.splitlines()[0] == "three.npz: labels from 'labels', probabilities from 'probs'"

    def test_numbers_are_the_library_s(self, run, file, three, tmp_path):
        code, _, _ = run("report", file, *FAST, "--json", tmp_path / "a.json")
        found = json.loads((tmp_path / "a.json").read_text())
        expected = ra.calibration_error(
            three.y_true, three.y_prob, estimator="debiased", confidence=0.95
        )
        assert code == 0
        assert found["value"] == expected.value
        assert found["interval"] == list(expected.interval)
        assert found["per_class"] == expected.per_class.tolist()
        assert found["estimator"] == "debiased"
        assert found["p_value"] is None

    @pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
    @pytest.mark.parametrize("loss", ["l2", "kl", "ranked"])
    def test_notions_and_losses(self, run, file, tmp_path, notion, loss):
        paths = {kind: tmp_path / f"a.{kind}" for kind in ("html", "json", "csv")}
        outputs = [word for kind, path in paths.items() for word in (f"--{kind}", path)]
        code, out, _ = run("report", file, "--notion", notion, "--loss", loss, *FAST, *outputs)
        assert code == 0
        assert max(map(len, out.splitlines()[:-3])) <= 80
        found = json.loads(paths["json"].read_text())
        assert (found["notion"], found["loss"]) == (notion, loss)
        rows = list(csv.DictReader(paths["csv"].read_text().splitlines()))
        assert len(rows) == (3 if notion == "classwise" else 1)
        assert sum(float(row["error"]) for row in rows) == pytest.approx(found["value"])
        assert paths["html"].read_text().startswith("<!DOCTYPE html>")

    def test_two_classes_are_binary_by_default(self, run, tmp_path):
        data = ra.datasets.temperature(300, 2, seed=0)
        np.savez(tmp_path / "two.npz", labels=data.y_true, probs=data.y_prob)
        np.savez(tmp_path / "one.npz", labels=data.y_true, probs=data.y_prob[:, 1])
        found = []
        for name in ("two", "one"):
            run("report", tmp_path / f"{name}.npz", *FAST, "--json", tmp_path / "a.json")
            found.append(json.loads((tmp_path / "a.json").read_text()))
        assert found[0]["notion"] == found[1]["notion"] == "binary"
        assert found[0]["value"] == pytest.approx(found[1]["value"], rel=1e-9)

    def test_confidence_and_prediction(self, run, three, file, tmp_path):
        best = three.y_prob.argmax(axis=1)
        path = tmp_path / "top.npz"
        np.savez(path, labels=three.y_true, pred=best, confidence=three.y_prob.max(axis=1))
        assert run("report", path, *FAST, "--json", tmp_path / "a.json")[0] == 0
        assert run("report", file, "--notion", "top-label", *FAST, "--json", tmp_path / "b.json")
        alone, whole = (json.loads((tmp_path / f"{x}.json").read_text()) for x in "ab")
        assert alone["notion"] == "top-label"
        for name in ("value", "accuracy", "mean_confidence", "risk"):
            assert alone[name] == pytest.approx(whole[name], rel=1e-9)
        # Labels are drawn from other vectors; the drawn part of a width errs by a ninth.
        widths = [found["interval"][1] - found["interval"][0] for found in (alone, whole)]
        assert widths[0] == pytest.approx(widths[1], rel=0.2)
        code, _, err = run("report", path, "--notion", "classwise", *FAST)
        assert code == 2
        assert "--notion classwise needs the probabilities of all classes" in one_line(err)

    def test_names(self, run, three, tmp_path):
        names = ["ost", "süd-west", "\x1b[31mred\x07"]
        path = tmp_path / "a.csv"
        with path.open("w", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(["label", *(f"p_{name}" for name in names)])
            for y, row in zip(three.y_true, three.y_prob.tolist(), strict=True):
                writer.writerow([names[y], *row])
        code, out, _ = run("report", path, *FAST, "--csv", tmp_path / "b.csv")
        assert code == 0
        assert "süd-west" in out
        assert "\x1b" not in out
        assert "\x07" not in out
        with (tmp_path / "b.csv").open(newline="") as text:
            written = [row["class"] for row in csv.DictReader(text)]
        assert written == names

    def test_logits(self, run, three, tmp_path):
        np.save(tmp_path / "z.npy", np.log(three.y_prob) + 3)
        np.save(tmp_path / "y.npy", three.y_true)
        options = (tmp_path / "z.npy", "--labels", tmp_path / "y.npy", *FAST)
        code, _, err = run("report", *options)
        assert code == 2
        assert "--logits for logits, --normalize to rescale" in one_line(err)
        assert run("report", *options, "--logits")[0] == 0

    @pytest.mark.parametrize("notion", ["binary", "top-label", "classwise"])
    def test_large_parquet_files_are_never_held(self, run, tmp_path, monkeypatch, notion):
        data = ra.datasets.temperature(2_000, 2, t2=0.4, seed=0)
        path = tmp_path / "a.parquet"
        columns = {"label": data.y_true, "p_0": data.y_prob[:, 0], "p_1": data.y_prob[:, 1]}
        pq.write_table(pa.table(columns), path, row_group_size=300)
        options = ("--notion", notion, "--draws", 19, "--json")
        assert run("report", path, *options, tmp_path / "held.json")[0] == 0

        monkeypatch.setattr("riskalign.data.files.predictions.LARGE", 1_000)
        monkeypatch.setattr(PredictionFile, "read", None)
        files = ("--html", tmp_path / "a.html", "--csv", tmp_path / "a.csv")
        code, out, err = run("report", path, *options, tmp_path / "batches.json", *files)
        assert (code, err) == (0, "")
        assert "2,000 rows" in out
        held, batches = (
            json.loads((tmp_path / f"{name}.json").read_text()) for name in ("held", "batches")
        )
        assert batches["accuracy"] == held["accuracy"]
        assert batches["risk"] == pytest.approx(held["risk"], rel=1e-9)
        assert batches["value"] == pytest.approx(held["value"], rel=0.1)

    @pytest.mark.parametrize(
        ("limit", "code"),
        [("0raw", 1), ("-1raw", 1), ("0.001raw", 1), ("0.9raw", 0), ("1e9raw", 0), ("0pts", 1)],
    )
    def test_fail_above(self, run, file, limit, code, tmp_path):
        found, out, _ = run(
            "report", file, *FAST, f"--fail-above={limit}", "--json", tmp_path / "a.json"
        )
        assert found == code
        unit = "raw" if "raw" in limit else "pts"
        assert f"--fail-above {float(limit.removesuffix(unit)):g}{unit}" in out
        assert (tmp_path / "a.json").exists()

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            (("--fail-above", "1pts"), 1),
            (("--fail-above", "90pts"), 0),
            (("--fail-above", "90pts", "--upper"), 0),
            (("--fail-above", "1pts", "--metric", "ece"), 1),
            (("--fail-above", "90pts", "--metric", "ece"), 0),
        ],
    )
    def test_gates_in_points(self, run, file, options, code, tmp_path):
        outputs = ("--junit", tmp_path / "a.xml", "--markdown", tmp_path / "a.md")
        found, out, _ = run("report", file, *FAST, *options, *outputs)
        assert found == code
        assert (
            f"{options[1]}{' --upper' * ('--upper' in options)} {'failed' if code else 'passed'}, "
            in out
        )
        failures = re.search(r'failures="(\d)"', (tmp_path / "a.xml").read_text())[1]
        assert (failures != "0") == bool(code)
        assert ("**failed**" in (tmp_path / "a.md").read_text()) == bool(code)

    def test_upper_fails_unless_it_is_shown_to_be_below(self, run, tmp_path):
        """Twenty rows prove nothing: by default they pass, with --upper they do not."""
        rng = np.random.default_rng(0)
        p = rng.uniform(0.2, 0.8, 20)
        np.savez(tmp_path / "a.npz", labels=(rng.random(20) < p).astype(int), probs=p)
        options = ("report", tmp_path / "a.npz", *FAST, "--fail-above", "3pts")
        assert run(*options)[0] == 0
        assert run(*options, "--upper")[0] == 1

    @pytest.mark.parametrize("names", [None, ["ant", "bee", "cat"]])
    def test_lists_of_labels(self, run, three, tmp_path, names):
        """Labels alone: a line or an entry of a list each."""
        np.save(tmp_path / "p.npy", three.y_prob)
        labels = [y if names is None else names[y] for y in three.y_true.tolist()]
        (tmp_path / "y.txt").write_text("\n".join(map(str, labels)) + "\n\n")
        (tmp_path / "y.json").write_text(json.dumps(labels))
        classes = () if names is None else ("--classes", ",".join(names))
        found = []
        for kind in ("txt", "json"):
            out = tmp_path / f"{kind}-report.json"
            options = ("--labels", tmp_path / f"y.{kind}", *classes, *FAST, "--json", out)
            code, _, err = run("report", tmp_path / "p.npy", *options)
            assert (code, err) == (0, "")
            found.append(json.loads(out.read_text())["value"])
        assert found == [pytest.approx(ra.calibration_error(three.y_true, three.y_prob).value)] * 2

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("y.txt", "0\n\n1\n", "line 2 is empty"),
            ("y.json", '{"a": 1}', "write one JSON list of labels"),
            ("y.json", "[[1]]", "write one JSON list of labels"),
            ("y.json", "[0, null]", "the label of row 1 is missing"),
            ("y.json", "[0, ", "write one JSON list of labels"),
            ("y.xml", "", "or .txt or .json with labels alone"),
        ],
    )
    def test_bad_lists_of_labels(self, run, three, tmp_path, name, content, message):
        np.save(tmp_path / "p.npy", three.y_prob)
        (tmp_path / name).write_text(content)
        code, _, err = run("report", tmp_path / "p.npy", "--labels", tmp_path / name, *FAST)
        assert code == 2
        assert message in one_line(err)

    @pytest.mark.parametrize("limit", ["3", "0.05", "0"])
    def test_a_limit_without_a_unit_is_refused(self, run, file, limit):
        code, _, err = run("report", file, *FAST, "--fail-above", limit)
        assert code == 2
        assert f"Write {limit}pts for percentage points, or {limit}raw" in one_line(err)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--upper",), "--upper needs --fail-above"),
            (("--metric", "ece"), "--metric ece needs --fail-above"),
            (("--fail-above", "300pts"), "at most 100pts"),
            (("--fail-above=-1pts",), "a limit is not negative"),
            (("--fail-above", "-1pts"), "a limit such as 3pts that is not negative"),
        ],
    )
    def test_gates_that_make_no_sense(self, run, file, options, message):
        code, out, err = run("report", file, *FAST, *options)
        assert (code, out) == (2, "")
        assert message in one_line(err)

    def test_gates_in_json(self, run, file, tmp_path):
        out = tmp_path / "a.json"
        for options, passed in (((), []), (("--fail-above", "1pts"), [False, False])):
            run("report", file, *FAST, "--json", out, *options)
            gates = json.loads(out.read_text())["gates"]
            assert [gate["passed"] for gate in gates] == passed
            assert all("--fail-above 1pts failed" in gate["message"] for gate in gates)

    def test_the_ece_has_no_upper_end(self, run, file):
        gate = ("--fail-above", "3pts", "--metric", "ece", "--upper")
        code, out, err = run("report", file, *FAST, *gate)
        assert (code, out) == (2, "")
        assert "the ECE has none" in one_line(err)

    def test_percentages_are_told(self, run, three, tmp_path):
        path = tmp_path / "percent.npz"
        for f in (100 * three.y_prob, 99.5 * three.y_prob[:, 1]):
            np.savez(path, labels=three.y_true.clip(0, 1), probs=f)
            if f.ndim == 2:
                np.savez(path, labels=three.y_true, probs=f)
            code, _, err = run("report", path, *FAST)
            assert code == 2
            assert f"error: {path}: " in one_line(err)
            assert "They look like percentages: divide them by 100." in err
            assert "--logits" not in err

    def test_a_score_of_one_class_alone(self, run, tmp_path):
        path = tmp_path / "top1.jsonl"
        row = {"label": "a", "prediction": [{"label": "a", "score": 0.9}]}
        path.write_text(f"{json.dumps(row)}\n" * 30)
        code, _, err = run("report", path, *FAST)
        assert code == 2
        assert "'prediction' holds the score of one class; those of all" in one_line(err)

    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_predicted_classes_are_told(self, run, tmp_path, columns):
        rng = np.random.default_rng(0)
        y, guess = rng.integers(0, max(columns, 2), (2, 60))
        hard = guess.astype(float) if columns == 1 else np.eye(columns)[guess]
        np.savez(tmp_path / "hard.npz", labels=y, probs=hard)
        code, out, _ = run("report", tmp_path / "hard.npz", *FAST)
        assert code == 0
        assert "All predictions are 0 or 1." in out
        soft = 0.1 + 0.8 * hard
        soft = soft if columns == 1 else soft / soft.sum(axis=1, keepdims=True)
        np.savez(tmp_path / "soft.npz", labels=y, probs=soft)
        assert "All predictions" not in run("report", tmp_path / "soft.npz", *FAST)[1]

    def test_worse_than(self, run, file, three, tmp_path):
        better = tmp_path / "better.npz"
        np.savez(better, labels=three.y_true, probs=three.conditional)
        code, out, _ = run("report", file, *FAST, "--worse-than", better)
        assert code == 1
        assert "--worse-than better.npz failed, the calibration error is larger" in out
        gaps = re.search(
            r"typical gap ([0-9.]+) points per class, that of the other ([0-9.]+)", out
        )
        result = ra.calibration_error(three.y_true, three.y_prob)
        assert float(gaps[1]) == pytest.approx(100 * result.gap, abs=0.06)
        assert float(gaps[2]) < float(gaps[1])
        code, out, _ = run("report", file, *FAST, "--worse-than", better, "--loss", "log")
        assert "typical gap" not in out.splitlines()[-1]
        code, out, _ = run("report", better, *FAST, "--worse-than", file)
        assert code == 0
        assert "not shown to be worse" in out

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (("--estimator", "plugin"), {"estimator": "plugin"}),
            (
                ("--estimator", "plugin", "--bandwidth", "0.05", "--kernel", "rbf"),
                {"estimator": "plugin", "bandwidth": 0.05, "kernel": "rbf"},
            ),
            (
                ("--estimator", "plugin", "--bandwidth", "likelihood"),
                {"estimator": "plugin", "bandwidth": "likelihood"},
            ),
            (("--bins", "10"), {"method": ra.EqualWidthBins(10)}),
        ],
    )
    def test_the_paper_s_numbers(self, run, file, three, tmp_path, options, expected):
        code, out, err = run("report", file, *FAST, *options, "--json", tmp_path / "a.json")
        assert (code, err) == (0, "")
        assert "95% CI" not in out.split("class ")[0].replace("points, 95% CI", "")
        found = json.loads((tmp_path / "a.json").read_text())
        result = ra.calibration_error(three.y_true, three.y_prob, **expected)
        assert found["value"] == pytest.approx(result.value, rel=1e-12)
        assert found["interval"] is None

    @pytest.mark.parametrize("norm", ["l1", "l2"])
    def test_norms(self, run, file, three, tmp_path, norm):
        code, out, err = run("report", file, *FAST, "--norm", norm, "--json", tmp_path / "a.json")
        assert (code, err) == (0, "")
        assert ("of which too high" in out) == (norm == "l1")
        found = json.loads((tmp_path / "a.json").read_text())
        result = ra.calibration_error(three.y_true, three.y_prob, norm=norm, confidence=0.95)
        assert found["value"] == pytest.approx(result.value, rel=1e-12)
        assert found["interval"] == pytest.approx(result.interval, rel=1e-12)

    def test_the_ece(self, run, file, three, tmp_path):
        asked = ("--notion", "top-label", "--bins", "15", "--norm", "l1")
        code, _, _ = run("report", file, *FAST, *asked, "--json", tmp_path / "a.json")
        assert code == 0
        method = ra.EqualWidthBins(15, norm="l1")
        ece = ra.calibration_error(three.y_true, three.y_prob, notion="top-label", method=method)
        assert json.loads((tmp_path / "a.json").read_text())["value"] == pytest.approx(ece.value)

    def test_a_norm_that_does_not_exist(self, run, file):
        code, _, err = run("report", file, "--norm", "euclidean")
        assert code == 2
        assert "notion 'canonical'" in one_line(err)

    def test_bins_have_no_kernel(self, run, file):
        code, _, err = run("report", file, "--bins", "10", "--kernel", "rbf")
        assert code == 2
        assert "--bins takes no --kernel" in one_line(err)

    @pytest.mark.parametrize(
        ("options", "notion", "loss"),
        [
            (("--notion", "top_label", "--loss", "log"), "top-label", "kl"),
            (("--notion", "toplabel", "--loss", "brier"), "top-label", "l2"),
            (("--notion", "Class-wise"), "classwise", "l2"),
        ],
    )
    def test_other_spellings(self, run, file, tmp_path, options, notion, loss):
        assert run("report", file, *FAST, *options, "--json", tmp_path / "a.json")[0] == 0
        found = json.loads((tmp_path / "a.json").read_text())
        assert (found["notion"], found["loss"]) == (notion, loss)

    def test_the_command_is_kept(self, run, file, tmp_path):
        run("report", file, *FAST, "--json", tmp_path / "a.json")
        found = json.loads((tmp_path / "a.json").read_text())
        assert found["command"].startswith("riskalign report ")
        assert "--fast" in found["command"]
        assert found["riskalign"] == ra.__version__
        assert found["schema"] == 2

    def test_fail_above_is_about_the_lower_end(self, run, file, tmp_path):
        run("report", file, *FAST, "--json", tmp_path / "a.json")
        low, _ = json.loads((tmp_path / "a.json").read_text())["interval"]
        assert low > 0
        assert run("report", file, *FAST, "--fail-above", f"{low!r}raw")[0] == 0
        assert run("report", file, *FAST, "--fail-above", f"{low * (1 - 1e-9)!r}raw")[0] == 1

    @pytest.mark.skipif(DATA is None, reason="RISKALIGN_DATA is not set")
    def test_real_files(self, run, tmp_path):
        for path in sorted(Path(DATA).glob("*.npz")):
            many = "imagenet5k" in path.name or "cifar100_" in path.name
            notion = ("--notion", "top-label") if many else ()
            out_files = ("--html", tmp_path / "a.html", "--json", tmp_path / "a.json")
            code, out, err = run("report", path, *notion, *FAST, *out_files)
            assert (code, err) == (0, ""), path
            assert max(map(len, out.splitlines()[:-2])) <= 80, path
            found = json.loads((tmp_path / "a.json").read_text())
            assert 0 <= found["interval"][0] <= found["interval"][1], path
            assert (tmp_path / "a.html").stat().st_size < 200_000, path  # curves of 20 classes


class TestErrors:
    def test_no_file(self, run, tmp_path):
        code, out, err = run("report", tmp_path / "nothing.csv")
        assert (code, out) == (2, "")
        assert "nothing.csv: no such file" in one_line(err)

    @pytest.mark.parametrize(
        ("probs", "expected"),
        [
            ([[0.5, 0.6]] * 3, "rows must sum to 1"),
            ([[1.5, -0.5]] * 3, "--logits for logits"),
            ([[np.nan, 0.5]] * 3, "NaN"),
            ([[0.5, 0.5]], "At least two samples"),
        ],
    )
    def test_bad_numbers(self, run, tmp_path, probs, expected):
        np.savez(tmp_path / "a.npz", labels=np.zeros(len(probs)), probs=np.array(probs))
        code, _, err = run("report", tmp_path / "a.npz")
        assert code == 2
        assert expected in one_line(err)
        assert "`" not in err

    @pytest.mark.parametrize(
        ("rows", "place"),
        [
            ("0,0.5,0.5\n1,0.1,1.7\n1,-1,2\n", "line 3, column 'p_b': found 1.7 there; pred"),
            ("0,0.5,0.5\n\n1,nan,0.3\n", "line 4, column 'p_a': found NaN there. Drop"),
            ("0,0.5,0.5\n1,0.9,0.3\n", "line 3: found the sum 1.2 there; rows must sum to 1"),
        ],
    )
    @pytest.mark.parametrize("command", ["report", "compare", "plot", "batches"])
    def test_bad_numbers_have_a_place(self, run, tmp_path, monkeypatch, rows, place, command):
        path = tmp_path / "a.csv"
        path.write_text(f"y,p_a,p_b\n{rows}")
        if command == "batches":
            monkeypatch.setattr("riskalign.data.files.predictions.LARGE", 0)
            monkeypatch.setattr("riskalign.data.files.tables.BATCH", 1)
        more = {"compare": [path], "plot": ["-o", tmp_path / "a.png"]}
        name = "report" if command == "batches" else command
        code, _, err = run(name, path, *more.get(command, ()))
        assert code == 2
        assert f"{path}: {place}" in one_line(err)

    def test_bad_numbers_of_parquet_files(self, run, tmp_path):
        p = np.full(50, 0.5)
        p[34] = 1.7
        pq.write_table(pa.table({"y": [0, 1] * 25, "p": p}), tmp_path / "a.parquet")
        code, _, err = run("report", tmp_path / "a.parquet")
        assert code == 2
        assert "a.parquet: row 34, column 'p': found 1.7 there; predictions must lie" in err

    def test_one_row(self, run, tmp_path):
        (tmp_path / "a.csv").write_text("y,p\n1,0.7\n")
        code, _, err = run("report", tmp_path / "a.csv")
        assert code == 2
        assert "found 1." in one_line(err)
        assert "sketch" not in err

    @pytest.mark.parametrize("text", ["3,1,10", "1,3", "1,2,x"])
    def test_thresholds_ascend(self, run, file, text):
        code, _, err = run("report", file, "--thresholds", text)
        assert code == 2
        assert f"{text!r} must be three percentage points that ascend" in one_line(err)

    def test_standard_input(self, run):
        code, _, err = run("report", "-")
        assert code == 2
        assert "reading from the standard input is not supported" in one_line(err)

    def test_binary_of_three_classes(self, run, file):
        code, _, err = run("report", file, "--notion", "binary")
        assert code == 2
        assert "In the rows" not in err
        assert "--notion binary needs two classes" in one_line(err)

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("report",),
            ("report", "a.csv", "--notion", "odd"),
            ("report", "a.csv", "--fail-above", "nan"),
            ("report", "a.csv", "--fail-above", "x"),
            ("report", "a.csv", "--fail-above", "1-2pts"),
            ("report", "a.csv", "--draws", "-1"),
            ("report", "a.csv", "--no-such-option"),
            ("plot", "a.csv"),
        ],
    )
    def test_usage(self, run, arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert ". See riskalign" in one_line(err)
        assert err.endswith(" --help.\n")

    def test_nothing_is_written_into_missing_places(self, run, file, tmp_path):
        for path in (tmp_path / "no" / "a.html", tmp_path):
            code, _, err = run("report", file, *FAST, "--html", path)
            assert code == 2
            one_line(err)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["three.npz"]

    def test_memory(self, run, file, monkeypatch):
        def too_much(*_, **__):
            raise MemoryError

        monkeypatch.setattr("riskalign.cli.report.survey", too_much)
        code, _, err = run("report", file)
        assert code == 2
        assert "memory" in one_line(err)

    def test_interrupt(self, run, file, monkeypatch):
        def stop(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("riskalign.cli.report.survey", stop)
        code, out, err = run("report", file)
        assert (code, err) == (130, "riskalign: interrupted\n")
        assert out.startswith("three.npz: ")

    def test_interrupt_keeps_what_is_known(self, run, file, monkeypatch, tmp_path):
        """Ctrl-C during the test of calibration: the rest is printed and written."""

        def stop(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("riskalign.sketches.sketch.perform_test", stop)
        gate = ("--fail-above", "0pts")
        code, out, err = run("report", file, "--json", tmp_path / "a.json", *gate)
        assert (code, err) == (130, "")
        assert "typical gap, per class" in out
        assert re.search(r"p-value +not finished", out)
        assert "Interrupted before the p-value" in out
        assert "--fail-above" not in out
        found = json.loads((tmp_path / "a.json").read_text())
        assert not found["complete"]
        assert found["p_value"] is None
        assert found["interval"][0] > 0

    @pytest.mark.parametrize("command", [("report",), ("plot", "-o", "a.png")])
    def test_too_many_bins(self, run, file, command):
        code, _, err = run(command[0], file, "--bins", "999999999999", *command[1:])
        assert code == 2
        assert "at most 1,000,000 bins; found 999,999,999,999" in one_line(err)

    def test_weights_count_in_the_comparison_too(self, run, three, tmp_path, monkeypatch):
        weights = np.arange(300) % 3
        np.savez(tmp_path / "a.npz", labels=three.y_true, probs=three.y_prob, w=weights)
        np.savez(tmp_path / "b.npz", labels=three.y_true, probs=three.conditional)
        seen = []
        compare = ra.compare
        monkeypatch.setattr(
            "riskalign.cli.report.compare",
            lambda *given, **options: seen.append(options) or compare(*given, **options),
        )
        options = ("--weight", "w", "--worse-than", tmp_path / "b.npz", *FAST)
        code, out, err = run("report", tmp_path / "a.npz", *options)
        assert (code, err) == (1, "")
        assert "weights from 'w'" in out
        assert seen[0]["sample_weight"].tolist() == weights.tolist()

    def test_the_baseline_is_opened_before_the_work(self, run, file, tmp_path, monkeypatch):
        monkeypatch.setattr("riskalign.cli.report.survey", None)
        code, out, err = run("report", file, "--worse-than", tmp_path / "nothing.csv")
        assert (code, out) == (2, "")
        assert "nothing.csv: no such file" in one_line(err)

    def test_names_of_files_that_are_no_text(self, run, file, tmp_path):
        odd = tmp_path / os.fsdecode(b"odd-\xff.npz")
        try:
            odd.write_bytes(file.read_bytes())
        except OSError:
            pytest.skip("names of files must be text here")
        outputs = [tmp_path / f"out.{kind}" for kind in ("html", "json", "csv", "md", "xml")]
        options = zip(("--html", "--json", "--csv", "--markdown", "--junit"), outputs, strict=True)
        code, _, err = run("report", odd, *FAST, *(part for pair in options for part in pair))
        assert (code, err) == (0, "")
        assert "odd-?.npz" in outputs[0].read_text(encoding="utf-8")


class TestExitCodes:
    """A crash is never 0 or 1, the codes of a verdict."""

    @pytest.mark.parametrize("debug", [(), ("--debug",)])
    def test_internal_errors(self, run, file, monkeypatch, debug):
        def crash(*_, **__):
            raise ZeroDivisionError("float division\nby zero")

        monkeypatch.setattr("riskalign.report.surveying.error_of", crash)
        code, out, err = run("report", file, "--fail-above", "0pts", *debug)
        assert (code, out.count("\n")) == (3, 1)  # what was read
        trace, line = err.splitlines()[:-1], err.splitlines()[-1]
        assert line.startswith("riskalign: internal error: ZeroDivisionError: float division by")
        assert f"riskalign {ra.__version__}" in line
        assert "--debug" in line
        assert ("Traceback (most recent call last):" in trace) == bool(debug)
        assert bool(trace) == bool(debug)

    def test_debug_may_come_first(self, run, tmp_path):
        code, _, err = run("--debug", "report", tmp_path / "nothing.csv")
        assert code == 2
        assert err.startswith("Traceback")
        assert err.splitlines()[-1].endswith("nothing.csv: no such file.")

    @pytest.mark.parametrize(
        ("crash", "expected"),
        [
            (lambda *_, **__: np.linalg.inv(np.zeros((2, 2))), "LinAlgError"),  # inside numpy
            (len, "TypeError"),  # compiled: the last Python line is riskalign's own
        ],
    )
    def test_errors_of_others_are_not_the_user_s(self, run, file, monkeypatch, crash, expected):
        """The same types as errors about input have, but no check of ours raised them."""
        monkeypatch.setattr("riskalign.report.surveying.error_of", crash)
        code, _, err = run("report", file, *FAST)
        assert (code, err.count("\n")) == (3, 1)
        assert err.startswith(f"riskalign: internal error: {expected}: ")

    def test_models_that_differ_in_every_row_alike(self, run, tmp_path):
        (tmp_path / "a.csv").write_text("y,p\n0,0\n1,1\n0,0\n1,1\n")
        (tmp_path / "b.csv").write_text("y,p\n0,1\n1,0\n0,1\n1,0\n")
        code, out, err = run("compare", tmp_path / "a.csv", tmp_path / "b.csv")
        assert (code, err) == (0, "")
        assert "p-value 0.125" in out
        assert "do not tell" in out

    def test_help_lists_them(self, run):
        for command in ((), ("report",), ("compare",), ("plot",), ("demo",)):
            out = run(*command, "--help")[1]
            codes = out.partition("exit codes:")[2]
            assert re.findall(r"^  (\d+) ", codes, re.MULTILINE) == ["0", "1", "2", "3", "130"]
            assert "--debug" in out


class TestCompare:
    def save(self, path, labels, probs, names=("a", "b", "c")):
        with path.open("w", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(["y", *(f"p_{name}" for name in names)])
            writer.writerows([y, *row] for y, row in zip(labels, probs.tolist(), strict=True))
        return path

    def test_two_models(self, run, three, tmp_path):
        labels = np.array(["a", "b", "c"])[three.y_true]
        one = self.save(tmp_path / "one.csv", labels, three.y_prob)
        other = self.save(tmp_path / "other.csv", labels, three.conditional)
        code, out, _ = run("compare", one, other, "--json", tmp_path / "c.json")
        assert code == 0
        assert "other.csv is calibrated better" in out
        assert max(map(len, out.splitlines()[:-1])) <= 80
        found = json.loads((tmp_path / "c.json").read_text())
        expected = ra.compare(three.y_true, three.y_prob, three.conditional)
        assert found["difference"] == pytest.approx(expected.difference, rel=1e-9)
        assert "do not tell" in run("compare", one, one)[1]

    def test_columns_in_another_order(self, run, three, tmp_path):
        labels = np.array(["a", "b", "c"])[three.y_true]
        one = self.save(tmp_path / "one.csv", labels, three.y_prob)
        turned = self.save(
            tmp_path / "other.csv", labels, three.y_prob[:, [2, 0, 1]], ("c", "a", "b")
        )
        assert run("compare", one, turned, "--json", tmp_path / "c.json")[0] == 0
        assert json.loads((tmp_path / "c.json").read_text())["difference"] == 0

    def test_logits_and_probabilities(self, run, three, file, tmp_path):
        np.savez(tmp_path / "z.npz", labels=three.y_true, logits=np.log(three.y_prob))
        assert run("compare", file, tmp_path / "z.npz", "--json", tmp_path / "c.json")[0] == 0
        found = json.loads((tmp_path / "c.json").read_text())
        assert found["difference"] == pytest.approx(0, abs=1e-12)

    def test_other_rows(self, run, three, file, tmp_path):
        np.savez(tmp_path / "b.npz", labels=three.y_true[::-1], probs=three.y_prob)
        assert "the labels of row" in one_line(run("compare", file, tmp_path / "b.npz")[2])
        np.savez(tmp_path / "b.npz", labels=three.y_true[1:], probs=three.y_prob[1:])
        assert "300 rows of 3 classes and 299" in run("compare", file, tmp_path / "b.npz")[2]

    def test_other_classes(self, run, three, tmp_path):
        one = self.save(tmp_path / "one.csv", three.y_true, three.y_prob)
        other = self.save(tmp_path / "other.csv", three.y_true, three.y_prob, ("a", "b", "d"))
        code, _, err = run("compare", one, other)
        assert code == 2
        assert "the files name different classes: a, b, c and a, b, d" in one_line(err)

    def test_errors_name_the_file(self, run, three, file, tmp_path):
        probs = np.where(three.y_prob == three.y_prob[3, 0], np.inf, three.y_prob)
        np.savez(tmp_path / "inf.npz", labels=three.y_true, probs=probs)
        for files in ((file, tmp_path / "inf.npz"), (tmp_path / "inf.npz", file)):
            code, _, err = run("compare", *files)
            assert code == 2
            assert one_line(err).startswith(f"riskalign: error: {tmp_path / 'inf.npz'}: ")
        code, _, err = run(
            "calibrate", file, "--fit", tmp_path / "inf.npz", "-o", tmp_path / "o.npz"
        )
        assert one_line(err).startswith(f"riskalign: error: {tmp_path / 'inf.npz'}: ")

    def test_top_label_alone(self, run, tmp_path):
        np.savez(tmp_path / "a.npz", labels=[0, 1], pred=[0, 1], confidence=[0.5, 0.6])
        code, _, err = run("compare", tmp_path / "a.npz", tmp_path / "a.npz")
        assert code == 2
        assert "probabilities of all classes" in one_line(err)


MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


class TestPlot:
    @pytest.fixture
    def pictures(self, monkeypatch):
        """Figures as they are when they are written."""
        kept, save = [], Figure.savefig

        def keep(figure, *args, **kwargs):
            kept.append(figure)
            save(figure, *args, **kwargs)

        monkeypatch.setattr(Figure, "savefig", keep)
        yield kept
        plt.close("all")

    @pytest.mark.parametrize("notion", ["top-label", "classwise"])
    def test_bands_and_bins(self, run, file, notion, tmp_path):
        """Bins add points, and without a band there is less to draw."""
        sizes = {}
        for options in ((), ("--band", "none"), ("--bins", "15"), ("--band", "simultaneous")):
            out = tmp_path / "a.svg"
            assert run("plot", file, "-o", out, "--notion", notion, *options)[0] == 0
            sizes[options[1:]] = out.read_text()
        assert len(set(sizes.values())) == 4
        assert len(sizes[("none",)]) < len(sizes[()]) < len(sizes[("15",)])
        assert run("plot", file, "-o", tmp_path / "b.svg", "--band", "thick")[0] == 2

    @pytest.mark.parametrize("kind", MAGIC)
    @pytest.mark.parametrize("notion", ["top-label", "classwise"])
    def test_formats(self, run, file, tmp_path, kind, notion):
        out = tmp_path / f"picture{kind}"
        code, text, err = run("plot", file, "-o", out, "--notion", notion)
        assert (code, err) == (0, "")
        assert text == f"wrote {out}\n"
        assert out.read_bytes().startswith(MAGIC[kind])

    def test_the_classes_of_a_part_are_named(self, run, tmp_path):
        data = ra.datasets.temperature(200, 14, seed=0)
        names = [f"name-{k}" for k in range(14)]
        np.savez(tmp_path / "a.npz", labels=data.y_true, probs=data.y_prob)
        options = ("--notion", "classwise", "--classes", ",".join(names))
        code, out, _ = run("plot", tmp_path / "a.npz", "-o", tmp_path / "a.svg", *options)
        assert code == 0
        assert out.startswith("drawn are the 12 most frequent of 14 classes: name-")
        rarest = np.argsort(np.bincount(data.y_true, minlength=14))[:1]
        listed = re.findall(r"name-\d+", out)
        assert len(listed) == 12
        assert f"name-{rarest[0]}" not in listed

    def test_what_is_drawn(self, run, three, file, tmp_path, pictures):
        for options, subject in (
            ((), "predicted probability of the predicted class"),
            (("--class", "2"), "predicted probability of class 2"),
            (("--class", "b", "--classes", "a,b,c"), "predicted probability of b"),
        ):
            assert run("plot", file, "-o", tmp_path / "a.svg", *options)[0] == 0
            assert pictures[-1].axes[0].get_xlabel() == subject
        expected = ra.plots.reliability_diagram(three.y_true, three.y_prob, pos_label=1)
        curves = [ax.lines[0].get_ydata() for ax in (pictures[-1].axes[0], expected)]
        np.testing.assert_array_equal(*curves)
        assert run("plot", file, "-o", tmp_path / "a.svg", "--notion", "classwise")[0] == 0
        titles = [ax.get_title() for ax in pictures[-1].axes]
        assert titles == ["class 0", "class 1", "class 2"]

    def test_two_classes(self, run, three, tmp_path, pictures):
        np.savez(tmp_path / "two.npz", labels=three.y_true == 1, probs=three.y_prob[:, 1])
        for notion, subject in ((), "class 1"), (("--notion", "top-label"), "the predicted class"):
            assert run("plot", tmp_path / "two.npz", "-o", tmp_path / "a.png", *notion)[0] == 0
            assert pictures[-1].axes[0].get_xlabel() == f"predicted probability of {subject}"

    def test_a_rare_class_has_logit_axes(self, run, tmp_path, pictures):
        rng = np.random.default_rng(0)
        p = rng.beta(0.5, 40, 2_000)
        path = tmp_path / "rare.npz"
        np.savez(path, labels=rng.random(2_000) < p, probs=p)
        for options, scale in (((), "logit"), (("--scale", "linear"), "linear")):
            assert run("plot", path, "-o", tmp_path / "a.png", *options)[0] == 0
            assert pictures[-1].axes[0].get_xscale() == scale
        assert run("report", path, *FAST, "--html", tmp_path / "a.html")[0] == 0
        assert '"logit_first":true' in (tmp_path / "a.html").read_text(encoding="utf-8")

    def test_confidence_and_prediction(self, run, three, tmp_path, pictures):
        top, confidence = three.y_prob.argmax(axis=1), three.y_prob.max(axis=1)
        path = tmp_path / "top.npz"
        np.savez(path, labels=three.y_true, pred=top, confidence=confidence)
        assert run("plot", path, "-o", tmp_path / "a.png")[0] == 0
        drawn = pictures[-1].axes[0]
        assert drawn.get_xlabel() == "predicted probability of the predicted class"
        expected = ra.plots.reliability_diagram(three.y_true, three.y_prob, notion="top-label")
        np.testing.assert_array_equal(drawn.lines[0].get_ydata(), expected.lines[0].get_ydata())
        err = one_line(run("plot", path, "-o", tmp_path / "b.png", "--notion", "classwise")[2])
        assert "--notion top-label" in err

    def test_a_thousand_classes(self, run, tmp_path, pictures):
        data = ra.datasets.peaked(2_000, 1_000, seed=0)
        path = tmp_path / "many.npz"
        np.savez(path, labels=data.y_true, probs=data.y_prob.astype(np.float32))
        assert run("plot", path, "-o", tmp_path / "a.png")[0] == 0
        assert run("plot", path, "-o", tmp_path / "b.png", "--notion", "classwise")[0] == 0
        assert len(pictures[-1].axes) == 12
        assert run("plot", path, "-o", tmp_path / "c.png", "--class", "999")[0] == 0

    def test_predictions_near_one(self, run, tmp_path, pictures):
        generator = np.random.default_rng(0)
        p = 1 - 0.01 * generator.random(5_000) ** 2
        p[:100] = generator.random(100)
        p[100:200] = 1
        assert (p > 0.99).mean() > 0.97
        y = generator.random(5_000) < p
        np.savez(tmp_path / "a.npz", labels=y, probs=p)
        code, _, err = run("plot", tmp_path / "a.npz", "-o", tmp_path / "a.png", "--scale", "logit")
        assert (code, err) == (0, "")
        (ax,) = pictures[-1].axes
        assert ax.get_xscale() == "logit"
        (band,) = ax.collections
        assert np.isfinite(band.get_paths()[0].vertices).all()

    def test_batches_are_one_picture(self, run, three, tmp_path, pictures, monkeypatch):
        file = tmp_path / "rows.csv"
        rows = zip(three.y_true.tolist(), three.y_prob.tolist(), strict=True)
        lines = [",".join(map(str, (y, *p))) for y, p in rows]
        file.write_text("\n".join(["label,p_0,p_1,p_2", *lines]) + "\n")
        assert run("plot", file, "-o", tmp_path / "whole.png")[0] == 0
        monkeypatch.setattr("riskalign.data.files.tables.BATCH", 30)
        assert run("plot", file, "-o", tmp_path / "parts.png")[0] == 0
        assert (tmp_path / "whole.png").read_bytes() == (tmp_path / "parts.png").read_bytes()

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (("-o", "a.jpeg"), ".png, .svg or .pdf; found 'a.jpeg'"),
            (("-o", "a.png", "--notion", "canonical"), "Use --notion top-label or classwise"),
            (("-o", "a.png", "--notion", "binary"), "two classes"),
            (("-o", "a.png", "--class", "cat"), "--class must be one of the classes, 0, 1, 2"),
            (("-o", "nowhere/a.png"), "no such directory"),
        ],
    )
    def test_errors(self, run, file, options, expected, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, err = run("plot", file, *options)
        assert (code, out) == (2, "")
        assert expected in one_line(err)
        assert not (tmp_path / "a.png").exists()
        assert plt.get_fignums() == []

    def test_without_matplotlib(self, run, file, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        code, _, err = run("plot", file, "-o", tmp_path / "a.png")
        assert code == 2
        assert "pip install 'riskalign[plots]'" in one_line(err)


def test_the_readme_shows_the_demo(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("demo")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.split("$ riskalign demo\n```\n\n```text\n")[1].split("```")[0]
    for part in shown.split("...\n"):
        assert part.rstrip() in out


def test_demo(run, tmp_path):
    code, out, _ = run("demo", "--directory", tmp_path)
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "riskalign-demo.csv",
        "riskalign-demo.html",
    ]
    assert "over-confident" in out


def test_help_has_examples(run):
    for command in ((), ("report",), ("compare",), ("plot",), ("demo",)):
        code, out, _ = run(*command, "--help")
        assert code == 0
        assert "example" in out
        assert f"riskalign {' '.join(command)}" in out
        assert max(map(len, out.splitlines())) <= 80


class TestOutputs:
    """Checked before the work: nothing is read, and no input is ever replaced."""

    @pytest.fixture(autouse=True)
    def no_work(self, monkeypatch):
        def work(*_, **__):
            raise AssertionError("the work has begun")

        for name in ("reading.open_predictions", "pictures.opened"):
            monkeypatch.setattr(f"riskalign.cli.{name}", work)

    def refused(self, run, *arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        return one_line(err)

    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "io.csv"
        path.write_text("y,p\n0,0.2\n1,0.7\n")
        return path

    @pytest.mark.parametrize("kind", ["html", "json", "csv"])
    @pytest.mark.parametrize("way", ["same", "relative", "symbolic", "hard"])
    def test_the_input_is_not_replaced(self, run, table, monkeypatch, kind, way):
        monkeypatch.chdir(table.parent)
        out = {"same": table, "relative": Path("../") / table.parent.name / "io.csv"}.get(way)
        if out is None:
            out = table.parent / "link.csv"
            out.symlink_to(table) if way == "symbolic" else out.hardlink_to(table)
        before = table.read_text()
        said = self.refused(run, "report", table, f"--{kind}", out)
        assert f"--{kind} {out} would replace the input" in said
        assert table.read_text() == before

    def test_inputs_of_all_commands(self, run, table, tmp_path):
        labels, scores = tmp_path / "labels.npy", tmp_path / "scores.npy"
        np.save(labels, [0, 1])
        np.save(scores, [0.2, 0.7])
        picture = tmp_path / "io.png"
        picture.write_text(table.read_text())
        for arguments in (
            ("report", scores, "--labels", labels, "--json", labels),
            ("compare", table, scores, "--json", scores),
            ("compare", scores, table, "--json", scores),
            ("plot", picture, "-o", picture),
        ):
            assert "would replace the input" in self.refused(run, *arguments)

    def test_outputs_with_one_name(self, run, table, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "out")
        for other in ("out", "link", "./out"):
            said = self.refused(
                run, "report", table, "--html", tmp_path / "out", "--csv", f"{tmp_path}/{other}"
            )
            assert "--html and --csv name the same file" in said
        check_outputs({"--html": Path(os.devnull), "--csv": Path(os.devnull)}, [])

    def test_missing_folders(self, run, table, tmp_path):
        out = tmp_path / "no" / "a.png"
        for arguments in (
            ("report", table, "--html", out),
            ("compare", table, table, "--json", out),
            ("plot", table, "-o", out),
            ("demo", "--directory", out.parent),
        ):
            assert "no such directory" in self.refused(run, *arguments)

    def test_folders_that_are_not_writable(self, run, table, tmp_path, monkeypatch):
        monkeypatch.setattr(output_module.os, "access", lambda *_: False)  # tests may run as root
        said = self.refused(run, "report", table, "--html", tmp_path / "a.html")
        assert f"{tmp_path} is not writable" in said


def test_no_file_is_named_by_a_dash(run, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("report", file, *FAST, "--json", "-")
    assert (code, out) == (2, "")
    assert "--json -: outputs are written to files" in one_line(err)
    assert not Path("-").exists()


class TestWriting:
    def test_whole_or_not_at_all(self, tmp_path, monkeypatch):
        path = tmp_path / "a.txt"
        write_whole(path, "old")

        def broken(*_):
            raise OSError("the disk is full")

        monkeypatch.setattr(output_module.os, "replace", broken)
        with pytest.raises(OSError, match="full"):
            write_whole(path, "new")
        assert path.read_text() == "old"
        assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]

    def test_permissions_are_kept(self, tmp_path):
        path = tmp_path / "a.txt"
        write_whole(path, "new")
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
        path.chmod(0o640)
        write_whole(path, "newer")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_links_stay_links(self, tmp_path):
        (tmp_path / "target.txt").write_text("old")
        (tmp_path / "link.txt").symlink_to("target.txt")
        write_whole(tmp_path / "link.txt", "new")
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "target.txt").read_text() == "new"

    def test_devices(self):
        write_whole(Path(os.devnull), "gone")
        assert not Path(os.devnull).is_file()
        reader, writer = os.pipe()
        write_whole(Path(f"/dev/fd/{writer}"), "through")  # as /dev/stdout before a pipe
        assert os.read(reader, 100) == b"through"
        os.close(reader)
        os.close(writer)


def test_formulas_in_class_names_stay_text(run, tmp_path):
    names = ["=cmd|' /C calc'!A0", "+SUM(1)", "@x", "-1+2", " =1", "plain"]
    f = np.random.default_rng(0).dirichlet(np.ones(6), 60)
    table = tmp_path / "a.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["y", *(f"p_{name}" for name in names)])
        writer.writerows([names[i % 6].strip(), *row] for i, row in enumerate(f.tolist()))
    code, _, err = run("report", table, *FAST, "--csv", tmp_path / "out.csv")
    assert (code, err) == (0, "")
    with (tmp_path / "out.csv").open(newline="") as file:
        found = [row["class"] for row in csv.DictReader(file)]
    assert [name.strip("'") for name in found] == [name.strip("'") for name in names]
    assert all(name.startswith("'") for name in found[:5])
    assert found[5] == "plain"


def test_interrupt_during_imports(monkeypatch, capsys):
    plain = builtins.__import__

    def interrupted(name, *arguments, **options):
        if name == "riskalign.cli":
            raise KeyboardInterrupt
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert riskalign_command.main() == 130
    assert capsys.readouterr().err == "riskalign: interrupted\n"


@pytest.mark.parametrize(
    "error", [ImportError("no symbol\nin libblas"), MemoryError(), OSError("gone"), ValueError()]
)
def test_errors_during_imports(monkeypatch, capsys, error):
    plain = builtins.__import__

    def failing(name, *arguments, **options):
        if name == "riskalign.cli":
            raise error
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", failing)
    assert riskalign_command.main() == 3
    said = capsys.readouterr().err
    assert said.startswith(f"riskalign: internal error: {type(error).__name__}")
    assert said.count("\n") == 1


def test_words_of_options():
    said = words_of_options(
        "`y_prob` rows\nmust sum to 1. Pass `from_logits=True`, `normalize=True`, `classes=` or "
        "`notion='binary'`; `unknown=3` stays."
    )
    assert said == (
        "predictions rows must sum to 1. Pass --logits, --normalize, --classes or "
        "--notion binary; `unknown=3` stays."
    )


def test_printable():
    assert printable("a\x1b[2J\r\nb\u202e") == "a\ufffd[2J\ufffd\nb\ufffd"


class TestProcess:
    """What only shows in a process of its own."""

    def command(self, *arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "riskalign.cli", *map(str, arguments)],
            capture_output=True,
            check=False,
            timeout=300,
            **options,
        )

    def test_a_closed_pipe_is_no_error(self, file):
        line = f"{sys.executable} -m riskalign.cli report {file} --draws 0 | true"
        found = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert (found.returncode, found.stderr) == (0, b"")

    def test_a_closed_pipe_does_not_pass_the_gate(self, file, tmp_path):
        page = tmp_path / "a.json"
        options = f"--draws 0 --fail-above 0pts --json {page}"
        line = f"{sys.executable} -m riskalign.cli report {file} {options} | true"
        found = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert (found.returncode, found.stderr) == (1, b"")
        assert page.exists()

    def test_an_interrupt_during_imports(self, file):
        code = (
            "import sys\n"
            "class Finder:\n"
            "    def find_spec(self, name, *_):\n"
            "        if name == 'riskalign.cli.commands':\n"
            "            raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Finder())\n"
            "from riskalign.cli import main\n"
            f"sys.exit(main(['report', {str(file)!r}]))"
        )
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=False, timeout=300
        )
        assert (found.returncode, found.stderr) == (130, b"riskalign: interrupted\n")

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["report", "nothing.csv"], 2),
            (["report"], 2),
            (["--version"], 0),
            (["report", "{file}", "--fast", "--fail-above", "0pts"], 1),
        ],
    )
    @pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
    def test_a_standard_error_that_cannot_be_written(self, file, arguments, code, redirection):
        line = " ".join(["-m riskalign", *arguments]).replace("{file}", str(file))
        found = subprocess.run(
            ["bash", "-c", f"{sys.executable} {line} {redirection}"],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert found.returncode == code

    def test_a_standard_output_that_cannot_be_written(self, file):
        with open("/dev/full", "wb") as full:
            found = subprocess.run(
                [sys.executable, "-m", "riskalign", "report", file, "--fast"],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                timeout=300,
            )
        assert found.returncode == 2
        assert one_line(found.stderr.decode()).endswith("(No space left on device).\n")

    @pytest.mark.parametrize("module", ["riskalign", "riskalign.cli"])
    def test_as_a_module(self, module):
        command = [sys.executable, "-m", module]
        found = subprocess.run([*command, "--version"], capture_output=True, check=False)
        assert (found.returncode, found.stdout.decode()) == (0, f"{ra.__version__}\n")
        found = subprocess.run([*command, "merge"], capture_output=True, check=False)
        assert found.returncode == 2
        assert one_line(found.stderr.decode()).startswith("riskalign: error: the following")

    def test_a_poor_terminal(self, three, tmp_path):
        header = "y,p_süd,p_b,p_c\n"
        rows = "".join(
            f"{y},{','.join(map(str, row))}\n"
            for y, row in zip(three.y_true, three.y_prob, strict=True)
        )
        (tmp_path / "a.csv").write_text(header + rows, encoding="utf-8")
        found = self.command(
            "report", tmp_path / "a.csv", "--draws", 0, env={"PYTHONIOENCODING": "ascii"}
        )
        assert found.returncode == 0
        assert b"s?d" in found.stdout
        assert found.stderr == b""  # no bar: no terminal

    def test_heavy_libraries_stay_out(self, file):
        code = (
            "import sys; from riskalign.cli import main; "
            f"main(['report', {str(file)!r}, '--draws', '0']); "
            "print([m for m in ('matplotlib', 'pandas', 'polars', 'pyarrow', 'sklearn', 'torch') "
            "if m in sys.modules])"
        )
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, timeout=300
        )
        assert found.stdout.decode().splitlines()[-1] == "[]"


def test_the_grid_holds_both_ends():
    assert GRID[0] == 0
    assert GRID[-1] == 1
    assert (np.diff(GRID) > 0).all()
