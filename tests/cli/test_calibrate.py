"""`riskalign calibrate`: every format, kept columns, folds, stored calibrators, refusals."""

import csv
import json
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import riskalign as ra
from riskalign.cli import main
from riskalign.data.validation import as_sample
from riskalign.recalibration.calibrators import cross_fitted

DATA = ra.datasets.temperature(400, 3, t2=0.5, seed=0)
NAMES = ("ant", "bee", "cat")
METHOD = ("--method", "vector")


def expected(data=DATA, method="vector"):
    return cross_fitted(as_sample(data.y_true, data.y_prob), method)


def write(path, data=DATA):
    """The data with an identifier, in the format of the path."""
    f, y = data.y_prob, data.y_true
    identifiers = [f"row {i}; ü" for i in range(len(y))]
    kind = path.suffix
    if kind == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "p_cat", "y", "p_ant", "p_bee"])
            for name, row, label in zip(identifiers, f.tolist(), y, strict=True):
                writer.writerow([name, row[2], NAMES[label], row[0], row[1]])
    elif kind == ".jsonl":
        lines = [
            json.dumps({"id": name, "label": int(label), "probs": row, "more": {"a": [1]}})
            for name, row, label in zip(identifiers, f.tolist(), y, strict=True)
        ]
        path.write_text("\n".join(lines) + "\n")
    elif kind == ".npz":
        np.savez(path, labels=y, probs=f, id=np.array(identifiers))
    elif kind == ".parquet":
        pq.write_table(pa.table({"id": identifiers, "y": y, "probs": list(f)}), path)


def read(path):
    """Identifiers and predictions of a file."""
    kind = path.suffix
    if kind == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        f = [[float(row[f"p_{name}"]) for name in NAMES] for row in rows]
        return [row["id"] for row in rows], np.array(f)
    if kind == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(row["more"] == {"a": [1]} for row in rows)
        return [row["id"] for row in rows], np.array([row["probs"] for row in rows])
    if kind == ".npz":
        with np.load(path) as file:
            return file["id"].tolist(), file["probs"]
    table = pq.read_table(path)
    return table["id"].to_pylist(), np.array(table["probs"].to_pylist())


@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".npz", ".parquet"])
def test_every_format_keeps_what_is_no_prediction(tmp_path, kind, capsys):
    source, out = tmp_path / f"in{kind}", tmp_path / f"out{kind}"
    write(source)
    before = source.read_bytes()
    assert main(["calibrate", str(source), "-o", str(out), *METHOD]) == 0
    assert source.read_bytes() == before
    identifiers, f = read(out)
    assert identifiers == read(source)[0]
    data = DATA
    if kind == ".csv":  # columns are in another order there
        order = [2, 0, 1]
        names = [NAMES[k] for k in order]
        sample = as_sample(np.array(NAMES)[data.y_true], data.y_prob[:, order], classes=names)
        np.testing.assert_allclose(f[:, order], cross_fitted(sample, "vector"), rtol=1e-12)
    else:
        np.testing.assert_allclose(f, expected(), rtol=1e-12)
    said = capsys.readouterr().out
    assert "vector calibrator: each row is recalibrated by a map fitted on the other folds" in said
    assert "before" in said
    assert main(["calibrate", str(out), "-o", str(tmp_path / f"again{kind}"), *METHOD]) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_npy_with_labels_beside(tmp_path, dtype):
    np.save(tmp_path / "f.npy", DATA.y_prob.astype(dtype))
    np.save(tmp_path / "y.npy", DATA.y_true)
    call = ["calibrate", str(tmp_path / "f.npy"), "--labels", str(tmp_path / "y.npy")]
    assert main([*call, "-o", str(tmp_path / "out.npy"), *METHOD]) == 0
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == dtype
    sample = as_sample(DATA.y_true, DATA.y_prob.astype(dtype))
    np.testing.assert_array_equal(found, cross_fitted(sample, "vector").astype(dtype))


def test_one_probability_and_logits(tmp_path):
    data = ra.datasets.temperature(300, 2, t2=0.5, seed=1)
    p, y = data.y_prob[:, 1], data.y_true
    z = np.log(p / (1 - p))
    np.savez(tmp_path / "p.npz", labels=y, probs=p)
    np.savez(tmp_path / "z.npz", labels=y, logits=z)
    for name, sample in (("p", as_sample(y, p)), ("z", as_sample(y, z, from_logits=True))):
        R = cross_fitted(sample, "platt")[:, 1]
        out = tmp_path / f"{name}-out.npz"
        call = ["calibrate", str(tmp_path / f"{name}.npz"), "-o", str(out), "--method", "platt"]
        assert main(call) == 0
        with np.load(out) as file:
            found = file["probs"] if name == "p" else 1 / (1 + np.exp(-file["logits"]))
        np.testing.assert_allclose(found, R, rtol=1e-6)


def test_confidences_of_predicted_classes(tmp_path):
    top = DATA.y_prob.argmax(axis=1)
    confidence = DATA.y_prob.max(axis=1)
    np.savez(tmp_path / "in.npz", labels=DATA.y_true, pred=top, confidence=confidence)
    call = ["calibrate", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    assert main([*call, "--method", "platt"]) == 0
    sample = as_sample((top == DATA.y_true).astype(int), confidence)
    with np.load(tmp_path / "out.npz") as file:
        np.testing.assert_allclose(file["confidence"], cross_fitted(sample, "platt")[:, 1])
        np.testing.assert_array_equal(file["pred"], top)


def test_the_order_of_rows_does_not_matter(tmp_path):
    order = np.random.default_rng(0).permutation(400)
    np.savez(tmp_path / "a.npz", labels=DATA.y_true, probs=DATA.y_prob)
    np.savez(tmp_path / "b.npz", labels=DATA.y_true[order], probs=DATA.y_prob[order])
    for name in "ab":
        paths = [str(tmp_path / f"{name}.npz"), "-o", str(tmp_path / f"{name}-out.npz")]
        assert main(["calibrate", *paths, *METHOD]) == 0
    with np.load(tmp_path / "a-out.npz") as a, np.load(tmp_path / "b-out.npz") as b:
        np.testing.assert_allclose(a["probs"][order], b["probs"], rtol=1e-6)


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize("method", ["temperature", "kernel"])
def test_learnt_from_another_file_saved_and_loaded(tmp_path, ending, method):
    other = ra.datasets.wavy(1500, 3, seed=5)
    write(tmp_path / "in.npz")
    write(tmp_path / "other.npz", other)
    stored = tmp_path / f"calibrator.{ending}"
    call = ["calibrate", str(tmp_path / "in.npz"), "-o"]
    fit = ["--fit", str(tmp_path / "other.npz"), "--method", method, "--save", str(stored)]
    assert main([*call, str(tmp_path / "a.npz"), *fit]) == 0
    assert main([*call, str(tmp_path / "b.npz"), "--load", str(stored)]) == 0
    calibrator = ra.fit_calibrator(other.y_true, other.y_prob, method=method)
    for name in "ab":
        np.testing.assert_array_equal(read(tmp_path / f"{name}.npz")[1], calibrator(DATA.y_prob))


def test_a_calibrator_alone(tmp_path):
    write(tmp_path / "in.csv")
    stored = tmp_path / "calibrator.json"
    assert main(["calibrate", str(tmp_path / "in.csv"), "--save", str(stored), *METHOD]) == 0
    assert ra.load_calibrator(stored).method == "vector"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "in.npz"], "would replace the input"),
        (["-o", "out.csv"], "must end in .npz"),
        ([], "nothing to write"),
        (["--save", "c.pickle"], "must end in .json or .npz"),
        (["-o", "out.npz", "--fit", "two.npz", "--load", "c.json"], "Give one"),
        (["-o", "out.npz", "--load", "c.json", "--method", "kernel"], "Leave it out"),
        (["-o", "out.npz", "--fit", "two.npz", "--method", "temperature"], "must be the same"),
        (["-o", "out.npz", "--load", "broken.json"], "cannot be read as a calibrator"),
        (["-o", "out.npz", "--load", "in.npz"], "it has no settings"),
    ],
)
def test_refusals_leave_nothing_behind(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.npz")
    two = ra.datasets.temperature(50, 2, seed=0)
    write(tmp_path / "two.npz", two)
    (tmp_path / "broken.json").write_text('{"format": "riskalign calibrator", "version": 1}')
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["calibrate", "in.npz", *options]) == 2
    assert message in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_calibrator_to_load(tmp_path, capsys):
    write(tmp_path / "a.csv")
    path = tmp_path / "nope.json"
    command = ["calibrate", str(tmp_path / "a.csv"), "-o", str(tmp_path / "b.csv")]
    assert main([*command, "--load", str(path)]) == 2
    assert capsys.readouterr().err == f"riskalign: error: {path}: no such file.\n"


def mutations():
    state = json.loads(ra.fit_calibrator([0, 1] * 20, [0.2, 0.7] * 20).to_bytes())
    yield {**state, "version": 2}
    yield {**state, "classes": ["a"]}
    yield {**state, "classes": [["a"], "b"]}
    yield {**state, "method": "pickle"}
    yield {**state, "theta": state["theta"][:-1]}
    yield {**state, "theta": ["x"] * len(state["theta"])}
    yield {**state, "theta": [float("nan")] * len(state["theta"])}
    yield {**state, "shared": ["__import__"]}
    yield {**state, "shared": "logarithm"}
    yield {**state, "share": "1"}
    yield {**state, "curves": [[0.0]]}
    yield {**state, "curves": [[1.5] * 2001]}
    yield {**state, "format": []}
    yield {**state, "method": []}
    yield {**state, "method": "vector"}  # but it has what only a kernel calibrator has
    yield {**state, "classes": ["a", "a"]}
    yield {**state, "classes": ["a", "\ud800"]}
    yield {**state, "classes": [0, float("inf")]}
    yield {**state, "classes": list(map(str, range(100_000)))}  # of 10 ** 10 pairs
    yield {**state, "form": {}}
    yield {**state, "crossed": 2}
    yield {**state, "own": ["one"] * 1000}
    yield {**state, "penalties": [[1.0]]}
    for key in ("share", "shrinkage", "bandwidth", "flattening", "crossed"):
        for number in (10**400, -1, float("nan"), True, None):
            yield {**state, "bandwidth": 0.1, "flattening": 1.0, key: number}
    yield {**state, "bandwidth": 0, "flattening": 1.0}
    for key in ("theta", "centre"):
        yield {**state, key: [10**400] * len(state[key])}
        yield {**state, key: [str(number) for number in state[key]]}
        yield {**state, key: [[number] for number in state[key]]}
    joint = {"predictions": [[0.3, 0.7]], "residuals": [[-0.3, 0.3]], "weights": [1.0]}
    joint = {**state, "bandwidth": 0.1, "flattening": 1.0, **joint}
    joint.pop("curves", None)
    yield {**joint, "weights": [0.0]}
    yield {**joint, "weights": [-1.0]}
    yield {**joint, "weights": []}
    yield {**joint, "predictions": [[0.3, 0.3]]}
    yield {**joint, "predictions": [[-0.3, 1.3]]}
    yield {**joint, "residuals": [[5.0, 0.0]]}
    yield {key: value for key, value in joint.items() if key != "bandwidth"}
    yield [state]


@pytest.mark.parametrize("state", list(mutations()))
def test_stored_calibrators_are_checked(tmp_path, state):
    path = tmp_path / "calibrator.json"
    path.write_text(json.dumps(state))
    with pytest.raises(ValueError, match="cannot be read as a calibrator"):
        ra.load_calibrator(path)


@pytest.mark.parametrize("kind", [".json", ".npz"])
def test_settings_of_an_archive_are_not_its_arrays(tmp_path, kind):
    fitted = ra.fit_calibrator([0, 1] * 20, [0.2, 0.7] * 20)
    path = tmp_path / f"calibrator{kind}"
    fitted.save(path)
    if kind == ".npz":
        with zipfile.ZipFile(path, "a") as archive, archive.open("format.npy", "w") as member:
            np.save(member, np.arange(3))
    assert (ra.load_calibrator(path)([0.1, 0.9]) == fitted([0.1, 0.9])).all()


def test_maps_that_give_no_probabilities(tmp_path, capsys):
    state = json.loads(ra.fit_calibrator([0, 1] * 20, [0.2, 0.7] * 20).to_bytes())
    path = tmp_path / "calibrator.json"
    path.write_text(json.dumps({**state, "theta": [-1e308] * len(state["theta"])}))
    (tmp_path / "a.csv").write_text("y,p\n0,0.2\n1,0.7\n")
    with pytest.raises(ValueError, match="values that are no probabilities"):
        ra.load_calibrator(path)([0.1, 0.9])
    command = ["calibrate", tmp_path / "a.csv", "--load", path, "--classes", "0,1"]
    assert main([*map(str, command), "-o", str(tmp_path / "b.csv")]) == 2
    assert not (tmp_path / "b.csv").exists()
    assert capsys.readouterr().err.count("\n") == 1


class TestWithoutLabels:
    """A stored calibrator, or one learnt from another file, needs no labels."""

    @pytest.fixture
    def folder(self, tmp_path):
        data = ra.datasets.temperature(300, 3, t2=0.5, seed=0)
        f = data.y_prob
        np.savez(tmp_path / "labelled.npz", labels=data.y_true, probs=f)
        np.savez(tmp_path / "new.npz", probs=f)
        np.save(tmp_path / "new.npy", f)
        np.savetxt(tmp_path / "new.csv", f, delimiter=",")
        pq.write_table(pa.table({f"p_{k}": f[:, k] for k in range(3)}), tmp_path / "new.parquet")
        lines = [json.dumps({"probs": row}) for row in f.tolist()]
        (tmp_path / "new.jsonl").write_text("\n".join(lines) + "\n")
        return tmp_path

    @pytest.mark.parametrize("kind", [".npz", ".npy", ".csv", ".parquet", ".jsonl"])
    def test_a_stored_calibrator(self, folder, kind, capsys):
        labelled, stored = folder / "labelled.npz", folder / "c.json"
        save = ["calibrate", str(labelled), "--method", "temperature", "--save", str(stored)]
        assert main(save) == 0
        f = np.load(labelled)["probs"]
        expected = ra.load_calibrator(stored)(f)
        new, out = folder / f"new{kind}", folder / f"out{kind}"
        capsys.readouterr()
        assert main(["calibrate", str(new), "-o", str(out), "--load", str(stored)]) == 0
        printed = capsys.readouterr().out
        assert "no labels" in printed
        assert "log loss" not in printed
        found = {
            ".npz": lambda: np.load(out)["probs"],
            ".npy": lambda: np.load(out),
            ".csv": lambda: np.loadtxt(out, delimiter=","),
            ".parquet": lambda: np.column_stack(list(pq.read_table(out).to_pydict().values())),
            ".jsonl": lambda: [json.loads(line)["probs"] for line in out.read_text().splitlines()],
        }[kind]()
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_learnt_from_another_file(self, folder, capsys):
        new, out = folder / "new.parquet", folder / "out.parquet"
        fit = ["--fit", str(folder / "labelled.npz"), "--method", "temperature"]
        assert main(["calibrate", str(new), "-o", str(out), *fit]) == 0
        assert "log loss" not in capsys.readouterr().out

    def test_a_file_that_is_learnt_from_needs_labels(self, folder, capsys):
        new, out = folder / "new.parquet", folder / "out.parquet"
        assert main(["calibrate", str(new), "-o", str(out)]) == 2
        assert "labels" in capsys.readouterr().err


def test_the_advice_about_a_log_can_be_followed(tmp_path, capsys, monkeypatch):
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        logits = generator.normal(0, 3, 4)
        truth = np.exp(0.4 * logits) / np.exp(0.4 * logits).sum()
        resps = [[float(value), False] for value in logits]
        lines.append({"target": int(generator.choice(4, p=truth)), "filtered_resps": resps})
    monkeypatch.chdir(tmp_path)
    Path("samples.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert main(["report", "samples.jsonl", "--draws", "0"]) == 0
    _, _, command = capsys.readouterr().out.replace("\\\n", "").partition("$ riskalign ")
    assert main(shlex.split(command.splitlines()[0])) == 0
    assert "log loss" in capsys.readouterr().out
    assert Path("samples-calibrator.json").is_file()


def test_nothing_is_written_into_the_log_of_another_tool(tmp_path, capsys):
    path = tmp_path / "samples.jsonl"
    lines = [{"target": i % 2, "filtered_resps": [[-1.0, False], [-2.0, False]]} for i in range(40)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert main(["calibrate", str(path), "-o", str(tmp_path / "out.jsonl")]) == 2
    assert "log of lm-evaluation-harness" in capsys.readouterr().err
    save = ["--save", str(tmp_path / "c.json"), "--method", "platt"]
    assert main(["calibrate", str(path), *save]) == 0


class TestAdvisedCommand:
    """What a report advises can be pasted: the file, its folder, how it is read, an output."""

    def run(self, capsys, arguments):
        assert main(["report", *arguments, "--draws", "0"]) == 0
        text = capsys.readouterr().out.replace("\\\n", " ")
        command = next(line for line in text.splitlines() if line.startswith("  $ "))
        words = shlex.split(command.removeprefix("  $ "))
        assert words[:2] == ["riskalign", "calibrate"]
        assert main(words[1:]) == 0
        return Path(words[words.index("-o") + 1])

    def test_columns_of_other_names(self, tmp_path, capsys):
        folder = tmp_path / "a folder"
        folder.mkdir()
        path = folder / "it's.csv"
        lines = [
            f"{NAMES[y]},{','.join(map(repr, row))}"
            for y, row in zip(DATA.y_true.tolist(), DATA.y_prob.tolist(), strict=True)
        ]
        path.write_text("\n".join(["truth,m_ant,m_bee,m_cat", *lines]) + "\n")
        out = self.run(capsys, [str(path), "--label", "truth", "--probs", "m_*"])
        assert out == folder / "it's-calibrated.csv"
        assert out.exists()

    def test_labels_in_another_file_and_logits(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        np.save("y.npy", DATA.y_true)
        np.save("-z.npy", np.log(DATA.y_prob) + 3.0)
        arguments = ["./-z.npy", "--labels", "y.npy", "--logits", "--classes", "ant,bee,cat"]
        out = self.run(capsys, arguments)
        assert np.load(out).shape == (400, 3)


def pairs(row):
    """The scores of a row as a pipeline of Hugging Face returns them."""
    found = [{"label": name, "score": p} for name, p in zip(NAMES, row, strict=True)]
    return sorted(found, key=lambda pair: -pair["score"])


FORMS = {
    "dict": lambda row: dict(zip(reversed(NAMES), reversed(row), strict=True)),
    "pairs": pairs,
    "pairs in a list": lambda row: [pairs(row)],
}


@pytest.mark.parametrize(
    ("form", "bare"),
    [(form, bare) for form in FORMS for bare in (False, True) if not (bare and form == "dict")],
)
def test_scores_by_class_keep_their_form(tmp_path, form, bare):
    path, out, truth = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "y.npy"
    np.save(truth, np.array(NAMES)[DATA.y_true])
    rows = []
    for y, row in zip(DATA.y_true.tolist(), DATA.y_prob.tolist(), strict=True):
        scores = FORMS[form](row)
        rows.append(scores if bare else {"label": NAMES[y], "scores": scores, "id": "ü"})
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    labels = ["--labels", str(truth)] if bare else []
    assert main(["calibrate", str(path), "-o", str(out), *labels, *METHOD]) == 0
    written = [json.loads(line) for line in out.read_text().splitlines()]
    scores = written if bare else [row["scores"] for row in written]
    assert bare or all(row["id"] == "ü" for row in written)
    R = expected()
    order = list(NAMES)
    if form == "dict":  # the classes are in the order of the first line
        order = list(reversed(NAMES))
        flipped = as_sample(2 - DATA.y_true, DATA.y_prob[:, ::-1])
        R = cross_fitted(flipped, "vector")
    for own, row in zip(scores, R.tolist(), strict=True):
        if form == "dict":
            assert list(own) == order
            assert list(own.values()) == pytest.approx(row)
        else:
            own = own[0] if form == "pairs in a list" else own
            found = {pair["label"]: pair["score"] for pair in own}
            assert [found[name] for name in order] == pytest.approx(row)
            assert own == sorted(own, key=lambda pair: -pair["score"])


def test_predictions_that_get_worse_are_told(tmp_path, capsys):
    """Few rows of a calibrated model: whatever is fitted to them is chance."""
    data = ra.datasets.calibrated(24, 2, seed=3)
    path = tmp_path / "few.csv"
    rows = zip(data.y_true, data.y_prob[:, 1], strict=True)
    path.write_text("y,p\n" + "".join(f"{y},{p:.6f}\n" for y, p in rows))
    assert main(["calibrate", str(path), "-o", str(tmp_path / "out.csv")]) == 0
    assert "warning: recalibration did not lower the log loss" in capsys.readouterr().out


def test_a_gain_on_the_rows_of_the_fit_is_not_taken_for_one(tmp_path, capsys):
    data = ra.datasets.calibrated(40, 2, seed=0)
    path = tmp_path / "some.csv"
    rows = zip(data.y_true, data.y_prob[:, 1], strict=True)
    path.write_text("y,p\n" + "".join(f"{y},{p:.6f}\n" for y, p in rows))
    head, *lines = path.read_text().splitlines()
    same, other = tmp_path / "same.csv", tmp_path / "other.csv"
    same.write_text("\n".join([head, *reversed(lines)]))
    other.write_text("\n".join([head, *lines[1:]]))
    out = ["-o", str(tmp_path / "out.csv")]
    for fit, warned in ((path, True), (same, True), (other, False)):
        assert main(["calibrate", str(path), *out, "--fit", str(fit)]) == 0
        assert ("fitted to these very rows" in capsys.readouterr().out) == warned
    for kind in ("json", "npz"):
        stored = str(tmp_path / f"calibrator.{kind}")
        assert main(["calibrate", str(path), "--save", stored]) == 0
        for file, warned in ((path, True), (same, True), (other, False)):
            capsys.readouterr()
            assert main(["calibrate", str(file), *out, "--load", stored]) == 0
            said = capsys.readouterr().out
            assert ("fitted to these very rows" in said) == warned
            assert ("Without --load, each row is left out" in said) == warned


def test_a_stored_calibrator_without_a_digest_is_read(tmp_path):
    """Files of earlier versions have none."""
    data = ra.datasets.temperature(200, 2, seed=0)
    fitted = ra.fit_calibrator(data.y_true, data.y_prob, method="platt")
    assert fitted.rows.startswith("200 rows, ")
    state = json.loads(fitted.to_bytes())
    path = tmp_path / "old.json"
    for rows, known in ((None, True), (7, False)):
        path.write_text(
            json.dumps(
                {k: v for k, v in state.items() if k != "rows"}
                | ({} if rows is None else {"rows": rows})
            )
        )
        if known:
            found = ra.load_calibrator(path)
            assert found.rows is None
            assert (found(data.y_prob) == fitted(data.y_prob)).all()
        else:
            with pytest.raises(ValueError, match="digest of rows must be text"):
                ra.load_calibrator(path)


def test_a_bad_row_is_named(tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text("y,p\n0,0.2\n1,1.7\n0,0.4\n")
    assert main(["calibrate", str(path), "-o", str(tmp_path / "out.csv")]) == 2
    assert "line 3, column 'p': found 1.7 there" in capsys.readouterr().err
