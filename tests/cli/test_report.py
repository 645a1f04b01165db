"""`riskalign report`, as a user meets it."""

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import one_line

import riskalign as ra
from riskalign.data.files import PredictionFile

DATA = os.environ.get("RISKALIGN_DATA")
FAST = ("--fast",)


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

    def test_confidence_and_outcome(self, run, tmp_path):
        generator = np.random.default_rng(0)
        said = generator.choice([0.3, 0.6, 0.9], 600)  # a confidence may be below 1/2
        right = generator.random(600) < 0.7 * said
        lowered = np.where(said < 0.5, 0.2, 0.7 * said)
        for name, values in (("said", said), ("lowered", lowered)):
            lines = [f"{c},{r}" for c, r in zip(values, right, strict=True)]
            (tmp_path / f"{name}.csv").write_text("confidence,correct\n" + "\n".join(lines) + "\n")
        paths = [tmp_path / f"{name}.csv" for name in ("said", "lowered")]
        code, out, _ = run("report", paths[0], *FAST)
        assert code == 0
        assert out.startswith("said.csv: right or wrong from 'correct', confidence from 'confid")
        assert "CONFIDENCE IS" in out
        assert f"right {right.mean():.1%} of the time: it is over-confident" in " ".join(
            out.split()
        )
        code, out, _ = run("compare", *paths)
        assert code == 0
        assert "lowered.csv is calibrated better" in out
        for notion in ((), ("--notion", "top-label")):
            assert run("report", paths[0], *FAST, *notion, "--worse-than", paths[1])[0] == 1
            assert run("report", paths[1], *FAST, *notion, "--worse-than", paths[0])[0] == 0

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
        assert "Pass --logits for logits; map other scores" in one_line(err)
        assert run("report", *options, "--logits")[0] == 0

    def test_one_column_of_predictions_for_many_classes(self, run, tmp_path):
        path = tmp_path / "p.csv"
        for p, looks in (("{k}", "looks like predicted classes"), ("0.{k}", "values. Give")):
            rows = [f"{k},{p.format(k=k)}" for k in range(10)]
            path.write_text("\n".join(["y,p", *rows]))
            code, _, err = run("report", path, *FAST)
            assert code == 2
            assert "'p', which would be the probability of one class" in one_line(err)
            assert "the labels have 10 values" in err
            assert looks in err
            assert "a column of probabilities for each class" in err
        path.write_text("y,p\n1,0.5\n2,0.5\n")
        assert "Give the classes in the order" in run("report", path, *FAST)[2]

    def test_a_single_score_is_not_to_be_normalised(self, run, tmp_path):
        (tmp_path / "s.csv").write_text("y,score\n1,-0.5\n0,1.5\n1,2\n")
        err = run("report", tmp_path / "s.csv", *FAST)[2]
        assert "--logits for logits" in one_line(err)
        assert "--normalize" not in err

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

    @pytest.mark.parametrize("method", [("--bins", "10"), ("--estimator", "plugin")])
    def test_upper_needs_an_interval(self, run, file, method):
        """Without one, nothing shows that the error is below the limit."""
        gate = ("--fail-above", "90pts", "--upper")
        code, _, err = run("report", file, *FAST, *method, *gate)
        assert code == 2
        assert "--upper compares the end of an interval, and there is none" in one_line(err)
        assert run("report", file, *FAST, *method, *gate[:2])[0] == 0

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
