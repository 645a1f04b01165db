"""Files of predictions: what is found in each format, and the errors of bad ones."""

import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import ordinary

import riskalign as ra
from riskalign.data.files import arrays, open_predictions, predictions
from riskalign.data.files import parquet as parquet_module
from riskalign.data.files import tables as tables_module
from riskalign.data.files.columns import find_layout

DATA = os.environ.get("RISKALIGN_DATA")


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, 50), rng.dirichlet(np.ones(3), 50)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def message(path, **options):
    """The error of reading a file, which must be one line."""
    with pytest.raises((ValueError, OSError)) as caught:
        open_predictions(path, **options).read()
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestFormats:
    """The same predictions come out of every format."""

    def check(self, path, sample, expected=None, **options):
        found = open_predictions(path, **options).read()
        np.testing.assert_array_equal(found.labels, sample[0])
        np.testing.assert_allclose(found.scores, sample[1], rtol=1e-15)
        assert found.classes == expected

    def test_csv(self, sample, tmp_path):
        lines = [f"{y},{','.join(map(repr, p.tolist()))}" for y, p in zip(*sample, strict=True)]
        path = write(tmp_path / "a.csv", "y,p_0,p_1,p_2\n" + "\n".join(lines))
        self.check(path, sample, ("0", "1", "2"))

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def test_other_delimiters(self, sample, tmp_path, delimiter):
        names = np.array(["cat", "dog", "a cow"])
        rows = [[names[y], *map(repr, p.tolist()), "0"] for y, p in zip(*sample, strict=True)]
        header = ["target", "prob_cat", "prob_dog", "prob_a cow", "id"]
        text = "\n".join(delimiter.join(row) for row in [header, *rows])
        self.check(write(tmp_path / "a.csv", text), sample, ("cat", "dog", "a cow"))

    def test_jsonl_lists(self, sample, tmp_path):
        rows = [
            json.dumps({"id": "x", "label": int(y), "probs": p.tolist()})
            for y, p in zip(*sample, strict=True)
        ]
        self.check(write(tmp_path / "a.jsonl", "\n\n".join(rows)), sample)

    def test_jsonl_keys(self, sample, tmp_path):
        rows = [
            json.dumps({"label": f"c{y}", **{f"p_c{k}": x for k, x in enumerate(p)}})
            for y, p in zip(*sample, strict=True)
        ]
        self.check(write(tmp_path / "a.jsonl", "\n".join(rows)), sample, ("c0", "c1", "c2"))

    @pytest.mark.parametrize("key", ["probs", "p", "y_prob"])
    def test_npz(self, sample, tmp_path, key):
        np.savez_compressed(tmp_path / "a.npz", labels=sample[0], **{key: sample[1]})
        self.check(tmp_path / "a.npz", sample)

    @pytest.mark.parametrize("labels", ["y.npy", "y.csv", "y.jsonl"])
    def test_npy_with_labels(self, sample, tmp_path, labels):
        np.save(tmp_path / "p.npy", sample[1])
        if labels == "y.npy":
            np.save(tmp_path / labels, sample[0])
        elif labels == "y.csv":
            write(tmp_path / labels, "id,label\n" + "\n".join(f"a,{y}" for y in sample[0]))
        else:
            write(tmp_path / labels, "\n".join(f'{{"y": {y}}}' for y in sample[0]))
        self.check(tmp_path / "p.npy", sample, labels=tmp_path / labels)

    def test_parquet(self, sample, tmp_path):
        y, p = sample
        columns = {"label": y, **{f"prob{k}": p[:, k] for k in range(3)}}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        self.check(tmp_path / "a.parquet", sample, ("0", "1", "2"))
        names = pa.array([f"c{k}" for k in y]).dictionary_encode()
        flat = pa.array(p.ravel())
        for kind in (
            pa.FixedSizeListArray.from_arrays(flat, 3),
            pa.ListArray.from_arrays(np.arange(0, 151, 3, dtype=np.int32), flat),
        ):
            pq.write_table(pa.table({"target": names, "probs": kind}), tmp_path / "b.parquet")
            classes = ("c0", "c1", "c2")
            self.check(tmp_path / "b.parquet", sample, classes, classes=classes)

    def test_batches_are_the_whole(self, sample, tmp_path, monkeypatch):
        lines = [f"{y},{','.join(map(repr, p.tolist()))}" for y, p in zip(*sample, strict=True)]
        path = write(tmp_path / "a.csv", "y,p_0,p_1,p_2\n" + "\n".join(lines))
        monkeypatch.setattr(tables_module, "BATCH", 7)
        file = open_predictions(path)
        for _ in range(2):  # may be read again
            assert [len(part.labels) for part in file.batches()] == [7] * 7 + [1]
        self.check(path, sample, ("0", "1", "2"))

    @pytest.mark.skipif(DATA is None, reason="RISKALIGN_DATA is not set")
    def test_real_files(self):
        manifest = Path(DATA, "manifest.jsonl").read_text().splitlines()
        for record in map(json.loads, manifest):
            file = open_predictions(Path(DATA, record["file"]))
            found = file.read()
            assert len(found.labels) == record["n"]
            if file.top_label:
                assert np.mean(found.labels) == pytest.approx(record["acc"], abs=1e-9)
                continue
            assert found.scores.shape == (record["n"], record["K"])
            assert file.from_logits == (record["kind"] == "logits")
            right = found.scores.argmax(axis=1) == found.labels
            assert np.mean(right) == pytest.approx(record["acc"], abs=2e-3)


class TestColumns:
    """Names tell what a column holds."""

    @pytest.mark.parametrize("label", ["y", "Y", "label", "labels", "target", "y_true"])
    @pytest.mark.parametrize("score", ["p", "prob", "probability", "y_prob", "proba"])
    def test_one_probability(self, label, score):
        layout = find_layout(["id", score, label])
        assert (layout.label, layout.scores, layout.names) == (label, (score,), None)

    @pytest.mark.parametrize(
        ("columns", "names"),
        [
            (["p_cat", "p_dog"], ("cat", "dog")),
            (["prob_cat", "prob_dog"], ("cat", "dog")),
            (["Prob.cat", "Prob.dog"], ("cat", "dog")),
            (["p_10", "p_9", "p_0"], ("0", "9", "10")),
            (["prob1", "prob0"], ("0", "1")),
            (["proba_b", "proba_a"], ("b", "a")),
        ],
    )
    def test_classes(self, columns, names):
        layout = find_layout(["y", "problem", "probably", "pred", *columns])
        assert layout.names == names
        assert not layout.from_logits

    def test_logits_only_when_said_or_named_so(self):
        assert find_layout(["y", "logit_0", "logit_1"]).from_logits
        assert find_layout(["y", "p_0", "p_1"], logits=True).from_logits
        assert not find_layout(["y", "p_0", "p_1"]).from_logits
        both = ["labels", "probs", "logits"]
        assert find_layout(both).scores == ("probs",)
        assert find_layout(both, logits=True).scores == ("logits",)

    def test_confidence_and_prediction(self, tmp_path):
        text = "label,pred,confidence\n1,1.0,0.9\n2,1,0.8\ncat,cat,0.5\n"
        file = open_predictions(write(tmp_path / "a.csv", text))
        assert file.top_label
        assert file.read().labels.tolist() == [1, 0, 1]
        assert file.read().scores.tolist() == [0.9, 0.8, 0.5]

    @pytest.mark.parametrize("name", ["correct", "is_correct"])
    def test_confidence_and_outcome(self, tmp_path, name):
        text = f"{name},confidence\nTrue,0.9\nFalse,0.8\ntrue,0.5\n"
        file = open_predictions(write(tmp_path / "a.csv", text))
        assert file.top_label
        assert file.classes is None
        assert file.description == f"right or wrong from '{name}', confidence from 'confidence'"
        assert file.read().labels.tolist() == [1, 0, 1]
        assert file.read().scores.tolist() == [0.9, 0.8, 0.5]
        layout = find_layout([name, "pred", "confidence"])
        assert (layout.label, layout.scores, layout.predicted) == (name, ("confidence",), None)

    @pytest.mark.parametrize("other", ["p", "score", "logit_0", "conf"])
    def test_outcomes_beside_other_predictions(self, other):
        with pytest.raises(ValueError, match="no column of labels was found"):
            find_layout(["correct", "confidence", other])
        layout = find_layout(["y", "correct", "confidence", "pred"])
        assert (layout.label, layout.predicted) == ("y", "pred")

    def test_all_names_of_labels_are_listed(self):
        with pytest.raises(ValueError, match=r"\(y, y_true, label, labels, target, targets, or c"):
            find_layout(["truth", "p"])
        with pytest.raises(ValueError, match="or the file that holds them with --labels"):
            find_layout(["p"])

    def test_users_words(self, tmp_path):
        columns = ["truth", "cat", "dog", "m1_cat", "m1_dog", "m2_cat", "m2_dog"]
        chosen = find_layout(columns, label="truth", probs="m2_*")
        assert (chosen.scores, chosen.names) == (("m2_cat", "m2_dog"), ("cat", "dog"))
        listed = find_layout(columns, label="truth", probs="dog, cat")
        assert (listed.scores, listed.names) == (("dog", "cat"), ("dog", "cat"))
        assert find_layout(columns, label="truth", probs="dog").names is None

    def test_description(self):
        layout = find_layout(["y", *(f"p_{k}" for k in range(5))])
        assert str(layout) == (
            "labels from 'y', probabilities from 'p_0', 'p_1', 'p_2', ... (5 columns)"
        )


class TestWeights:
    def test_they_are_no_predictions(self, tmp_path):
        text = "y,p_a,p_b,p_w\na,0.2,0.8,3\nb,0.6,0.4,0.5\n"
        found = open_predictions(write(tmp_path / "a.csv", text), weight="p_w")
        assert found.description.endswith("probabilities from 'p_a', 'p_b', weights from 'p_w'")
        assert found.read().weights.tolist() == [3.0, 0.5]
        assert found.classes == ("a", "b")
        assert [len(rows) for rows in found] == [3]

    def test_beside_labels_in_another_file(self, tmp_path):
        labels = write(tmp_path / "labels.csv", "y\n1\n0\n")
        np.savez(tmp_path / "a.npz", probs=[0.2, 0.7], w=[1, 2])
        found = open_predictions(tmp_path / "a.npz", labels=labels, weight="w").read()
        assert (found.labels.tolist(), found.weights.tolist()) == ([1, 0], [1.0, 2.0])

    @pytest.mark.parametrize("bad", ["-1", "nan", "inf", "x", ""])
    def test_bad_ones(self, tmp_path, bad):
        path = write(tmp_path / "a.csv", f"y,p,w\n0,0.2,1\n1,0.6,{bad}\n")
        assert message(path, weight="w").endswith(
            f"line 3, 'w': '{bad}' is no weight. Weights are numbers from 0 on; correct it or drop "
            "the row."
        )

    def test_columns_that_are_not_there(self, tmp_path):
        path = write(tmp_path / "a.csv", "y,p\n0,0.2\n")
        assert "the column 'w' of --weight is not there" in message(path, weight="w")
        np.save(tmp_path / "a.npy", [0.2])
        said = message(tmp_path / "a.npy", labels=path, weight="w")
        assert "--weight names a column beside the predictions; there is none" in said


class TestLabels:
    """Labels are names, numbers, or truth values."""

    def read(self, tmp_path, labels, header="p", row="0.5", **options):
        text = f"y,{header}\n" + "".join(f"{label},{row}\n" for label in labels)
        return open_predictions(write(tmp_path / "a.csv", text), **options).read().labels.tolist()

    def test_one_probability(self, tmp_path):
        assert self.read(tmp_path, [0, 1, "1.0", "true", "False", " 1"]) == [0, 1, 1, 1, 0, 1]
        assert self.read(tmp_path, ["no", "yes"], classes=["no", "yes"]) == [0, 1]
        assert self.read(tmp_path, [-1, 1], classes=["-1", "1"]) == [0, 1]

    def test_names_and_numbers(self, tmp_path):
        two = {"header": "p_cat,p_dog", "row": "0.5,0.5"}
        assert self.read(tmp_path, ["dog", "cat"], **two) == [1, 0]
        assert self.read(tmp_path, [1, 0], **two) == [1, 0]
        assert self.read(tmp_path, [2, 7], header="p_7,p_2", row="0.5,0.5") == [0, 1]

    def test_numbered_classes_are_names(self, tmp_path):
        text = message(write(tmp_path / "a.csv", "y,p_1,p_2\n1,.5,.5\n0,.5,.5\n"))
        assert "line 3" in text
        assert "'0' is not one of the classes '1', '2'" in text

    def test_json_truth_values(self, tmp_path):
        rows = '{"y": true, "p": 0.5}\n{"y": false, "p": 1}\n{"y": 1.0, "p": 0}'
        found = open_predictions(write(tmp_path / "a.jsonl", rows)).read()
        assert found.labels.tolist() == [1, 0, 1]
        assert found.scores.tolist() == [0.5, 1.0, 0.0]


class TestErrors:
    """An error is one line that names the file, the place and the cure."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "the file is empty"),
            ("y,p\n", "no rows"),
            ("a,b\n1,2\n", "--label"),
            ("y,b\n1,2\n", "--probs"),
            ("y,label,p\n1,1,1\n", "Say which with --label"),
            ("y,p,p_0,p_1\n1,1,1,1\n", "Say which with --probs"),
            ("y,p,p\n1,1,1\n", "is there 2 times: rename one"),
            ("y,p\n1,0.5\n1,abc\n", "line 3, column 'p': 'abc' is not a number"),
            ("y,p\n1,0.5\n1,0_1\n", "line 3, column 'p': '0_1' is not a number"),
            ("y,p\n1,0.5\n1,\n", "line 3, column 'p': '' is not a number"),
            ('y,p,note\n1,0.5,"two\nlines"\n1,x,\n', "line 4, column 'p'"),
            ("y,p\n1,0.5\n\n\n1,0.5,7\n", "line 5 has 3 columns, the first line has 2"),
            ("y,p\n1,0.5\n,0.5\n", "line 3, 'y': the label is empty"),
            ("y,p\n1,0.5\n2,0.5\n", "line 3, 'y': the label '2' is not one of 0 to 1"),
            ("y,p\nyes,0.5\n", "--classes"),
            ("y,p_a,p_b\n0,0.5,0.5\nc,0.5,0.5\n", "'c' is not one of the classes 'a', 'b'"),
            ("y,p_a,p_a\n0,0.5,0.5\n", "'p_a'"),
        ],
    )
    def test_csv(self, tmp_path, text, expected):
        found = message(write(tmp_path / "some.csv", text))
        assert expected in found
        assert "some.csv: " in found

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "the file is empty"),
            ("{", "line 1 is no JSON object"),
            ('{"y": 1, "p": 0.5, "y": 0}', "line 1 has the key 'y' twice"),
            ('{"y": 1, "p": 0.5}\n{"y": 1, "p": 0.1, "p": 0.5}', "line 2 has the key 'p' twice"),
            ('{"y": 1, "p": 0.5}\n[1]', "line 2 is no JSON object"),
            ('{"y": 1, "p": 0.5}\n\n{"y": 1, "p": "0.5"}', "line 3: p must hold a number"),
            ('{"y": 1, "p": 0.5}\n{"y": 1}', "line 2: p must hold a number"),
            ('{"y": 1, "p": 0.5}\n{"p": 0.5}', "line 2: 'y' is missing"),
            ('{"y": [1], "p": 0.5}', "line 1: 'y' holds"),
            ('{"y": 1, "p": [0.5, 0.5]}\n{"y": 1, "p": [1]}', "line 2: p must hold 2 numbers"),
            ('{"y": 1, "p": [0.5, [0.5]]}', "line 1: p must hold 2 numbers"),
            ('{"y": 1, "p": [0.5, null]}', "line 1: p must hold 2 numbers"),
            ('{"y": 1, "p": 1' + "0" * 400 + "}", "line 1: p must hold a number"),
            ("[" * 100_000, "line 1 is no JSON object"),
        ],
    )
    def test_jsonl(self, tmp_path, text, expected):
        assert expected in message(write(tmp_path / "some.jsonl", text))

    def test_directories_and_links(self, tmp_path):
        (tmp_path / "folder.csv").mkdir()
        with pytest.raises(IsADirectoryError, match="Name a file in it"):
            open_predictions(tmp_path / "folder.csv")
        (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
        with pytest.raises(FileNotFoundError, match="leads nowhere"):
            open_predictions(tmp_path / "loop.csv")

    def test_an_open_quotation_mark(self, tmp_path):
        path = write(tmp_path / "a.csv", 'y,p\n1,"0.5\n' + "1,0.5\n" * 30_000)
        assert "quotation mark left open" in message(path)

    @pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0)])
    def test_empty_arrays(self, tmp_path, shape):
        np.savez(tmp_path / "a.npz", labels=np.zeros(shape[0]), probs=np.zeros(shape))
        assert f"holds no predictions: its shape is {shape}" in message(tmp_path / "a.npz")

    @pytest.mark.parametrize("strange", [np.uint32(0x7FA00000).view("f4"), np.longdouble("1e4000")])
    def test_numbers_that_no_float64_is(self, tmp_path, strange):
        """A signalling NaN and an extended float: read as NaN and infinity, without a warning."""
        path = tmp_path / "a.npz"
        np.savez(path, labels=[0, 1], probs=np.array([0.5, strange], dtype=strange.dtype))
        assert not np.isfinite(open_predictions(path).read().scores).all()

    def test_an_archive_without_arrays(self, tmp_path):
        np.savez(tmp_path / "a.npz")
        assert "There are no keys at all" in message(tmp_path / "a.npz")

    def test_row_groups_without_rows(self, tmp_path):
        table = pa.table({"y": [0, 1, 1], "p": [0.2, 0.7, 0.4]})
        with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
            for part in (table[:0], table[:1], table[:0], table[1:], table[:0]):
                writer.write_table(part)
        assert open_predictions(tmp_path / "a.parquet").read().labels.tolist() == [0, 1, 1]

    def test_empty_lists(self, tmp_path):
        pq.write_table(pa.table({"y": [1, 0], "p": [[], []]}), tmp_path / "a.parquet")
        assert "lists of predictions are empty" in message(tmp_path / "a.parquet")
        path = write(tmp_path / "a.jsonl", '{"y": 1, "p": []}')
        assert "lists of predictions are empty" in message(path)

    def test_labels_that_are_no_numbers_or_names(self, tmp_path):
        path = tmp_path / "a.parquet"
        for labels in ([[1], [0]], [{"a": 1}, {"a": 0}]):
            pq.write_table(pa.table({"y": labels, "p": [0.5, 0.5]}), path)
            assert "one number or name per row is needed" in message(path)
        stamps = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
        pq.write_table(pa.table({"y": stamps, "p": [0.5, 0.5]}), path)
        assert "is not one of 0 to 1" in message(path)
        np.savez(tmp_path / "a.npz", labels=stamps, p=[0.5, 0.5])
        assert "holds datetime64[ns], neither numbers nor text" in message(tmp_path / "a.npz")
        for label in (10**30, 10**400, -(10**30)):
            path = write(tmp_path / "a.jsonl", f'{{"y": {label}, "p": 0.5}}')
            assert "is not one of 0 to 1" in message(path)
            assert len(message(path)) < 200 + len(str(path))

    def test_no_file(self, tmp_path):
        assert "no such file" in message(tmp_path / "nothing.csv")

    def test_a_key_that_is_missing(self, tmp_path):
        text = '{"y": 1, "p_a": 0.5, "p_b": 0.5}\n{"y": 1, "p_a": 0.5}'
        said = message(write(tmp_path / "a.jsonl", text))
        assert "line 2: p_a, p_b must hold 2 numbers; 'p_b' is missing. Correct" in said
        said = message(write(tmp_path / "a.jsonl", '{"y": 1, "p": 0.5}\n{"y": 1, "p": "x"}'))
        assert """must hold a number; found '"x"'. Correct""" in said

    def test_all_endings_are_listed(self, tmp_path):
        said = message(write(tmp_path / "a.bin", "x"))
        assert ".tsv" in said
        assert "sketches in .sketch" in said

    def test_unknown_ending(self, tmp_path):
        assert ".csv, .parquet" in message(write(tmp_path / "a.xls", "x"))

    def test_not_utf8(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"y,p\n1,0.5\n\xff\xfe,0.5\n")
        assert "UTF-8" in message(tmp_path / "a.csv")

    def test_a_column_that_is_not_there(self, tmp_path):
        path = write(tmp_path / "a.csv", "y,p\n1,0.5\n")
        assert "'q' of --probs is not there. The columns are 'y', 'p'" in message(path, probs="q")
        assert "'q' of --label is not there" in message(path, label="q")
        assert "no column matches the pattern 'q*'" in message(path, probs="q*")

    def test_names_for_other_classes(self, tmp_path):
        path = write(tmp_path / "a.csv", "y,p\n1,0.5\n")
        assert "the negative class, then the positive" in message(path, classes=["a", "b", "c"])
        assert "are not all different" in message(path, classes=["a", "a"])

    def test_labels_file(self, tmp_path):
        np.save(tmp_path / "p.npy", np.full(3, 0.5))
        np.save(tmp_path / "y.npy", np.zeros(2))
        assert "--labels FILE" in message(tmp_path / "p.npy")
        assert "has 3" in message(tmp_path / "p.npy", labels=tmp_path / "y.npy")
        np.savez(tmp_path / "a.npz", labels=np.zeros(2), p=np.zeros(2))
        np.save(tmp_path / "y.npy", np.ones(2))
        found = open_predictions(tmp_path / "a.npz", labels=tmp_path / "y.npy").read()
        assert found.labels.tolist() == [1, 1]  # the file that was named wins

    def test_one_hot_labels(self, tmp_path):
        np.savez(tmp_path / "a.npz", labels=np.eye(3), probs=np.eye(3))
        assert "argmax" in message(tmp_path / "a.npz")

    @pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk", b"\x93NUMPY\x01\x00"])
    @pytest.mark.parametrize("ending", ["npz", "npy"])
    def test_broken_arrays(self, tmp_path, content, ending):
        path = tmp_path / f"a.{ending}"
        path.write_bytes(content)
        np.save(tmp_path / "y.npy", np.zeros(2))
        assert f"a.{ending}: " in message(
            path, labels=tmp_path / "y.npy" if ending == "npy" else None
        )

    def test_broken_parquet(self, tmp_path):
        path = tmp_path / "a.parquet"
        for content in (b"", b"junk", b"PAR1junkPAR1"):
            path.write_bytes(content)
            assert "not a Parquet file" in message(path)
        pq.write_table(pa.table({"y": [1, 0], "p": [0.5, None]}), path)
        assert "row 1, column 'p' is empty" in message(path)
        pq.write_table(pa.table({"y": [1, 0], "p": ["a", "b"]}), path)
        assert "'p' holds string, not numbers" in message(path)
        pq.write_table(pa.table({"y": [1, 0], "p": [[0.5, 0.5], [1.0]]}), path)
        assert "row 1, column 'p' has 1 numbers" in message(path)
        pq.write_table(pa.table({"y": [1, None], "p": [0.5, 0.5]}), path)
        assert "row 1, 'y': the label is empty" in message(path)


def test_damaged_pages_of_parquet_files(tmp_path):
    """Checksums of pages, where a file has them, tell numbers that were changed on the way."""
    path = tmp_path / "a.parquet"
    table = pa.table({"y": np.arange(2000) % 2, "p": np.random.default_rng(0).random(2000)})
    pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)
    assert len(open_predictions(path).read().labels) == 2000
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert "the file cannot be read" in message(path)
    path.write_bytes(bytes(content[:-40]) + b"\xff" * 32 + bytes(content[-8:]))
    assert "a.parquet: " in message(path)


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_nothing_is_unpickled(tmp_path, ending):
    trace = tmp_path / "trace"
    objects = np.array([Bomb(str(trace)), None], dtype=object)
    pickle.loads(pickle.dumps(objects))[0].close()  # the bomb works
    trace.unlink()
    np.save(tmp_path / "y.npy", np.zeros(2))
    path = tmp_path / f"a.{ending}"
    if ending == "npy":
        np.save(path, objects, allow_pickle=True)
        found = message(path, labels=tmp_path / "y.npy")
    else:
        np.savez(path, labels=np.zeros(2), probs=objects)
        found = message(path)
    assert "Python objects" in found
    assert not trace.exists()


def test_the_arrays_of_an_archive_are_limited_together(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, labels=np.zeros(100_000), probs=np.zeros(100_000), other=np.zeros(9))
    monkeypatch.setattr(arrays, "LARGEST", 1_500_000)  # each takes 800,000

    def unpacked(*_, **__):
        raise AssertionError("an array was read")

    monkeypatch.setattr(np.lib.format, "read_array", unpacked)
    assert "take 0.0 GB, more than" in message(path)


@pytest.mark.parametrize("shape", [(10**12,), (2**40, 2**40), (2, 10**9)])
def test_a_header_that_promises_more_than_there_is(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"0" * 64
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("labels.npy", content)
        archive.writestr("probs.npy", content)
    assert "its header promises" in message(tmp_path / "a.npz")
    (tmp_path / "a.npy").write_bytes(content)
    np.save(tmp_path / "y.npy", np.zeros(2))
    assert "its header promises" in message(tmp_path / "a.npy", labels=tmp_path / "y.npy")


def test_arrays_are_converted_some_rows_at_a_time(tmp_path, monkeypatch):
    case = ordinary(500, 3)
    np.savez(tmp_path / "a.npz", labels=case.y, probs=case.f.astype(np.float32))
    monkeypatch.setattr(predictions, "BATCH_NUMBERS", 100)
    parts = list(open_predictions(tmp_path / "a.npz").batches())
    assert {len(part.labels) for part in parts} == {33, 500 % 33}
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), case.y)
    np.testing.assert_array_equal(
        np.concatenate([part.scores for part in parts]), case.f.astype(np.float32)
    )


def test_an_archive_that_promises_too_much(tmp_path, monkeypatch):
    import riskalign.data.files.arrays as arrays_module

    np.savez_compressed(tmp_path / "a.npz", labels=np.zeros(1000), probs=np.zeros(1000))
    monkeypatch.setattr(arrays_module, "LARGEST", 5_000)
    assert "Parquet" in message(tmp_path / "a.npz")
    np.save(tmp_path / "p.npy", np.zeros(1000))
    assert "Parquet" in message(tmp_path / "p.npy", labels=tmp_path / "p.npy")


@pytest.mark.parametrize("place", [6, 42])  # the version needed, and where the array is
def test_an_archive_with_a_wrong_directory(tmp_path, place):
    path = tmp_path / "a.npz"
    np.savez(path, labels=np.array([0, 1]), probs=np.array([0.2, 0.7]))
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + place : entry + place + 2] = b"\xff\xff"
    path.write_bytes(data)
    assert "cannot be read" in message(path) or "not an .npz archive" in message(path)


def test_a_header_that_promises_too_much(tmp_path):
    header = str({"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises((ValueError, MemoryError)):
        open_predictions(tmp_path / "a.npy", labels=tmp_path / "a.npy")


@pytest.mark.parametrize("rows", [1, 3])
def test_lists_that_are_too_long_are_not_read(tmp_path, monkeypatch, rows):
    """By what the file says, and where it says little, by the first list."""
    monkeypatch.setattr(parquet_module, "MOST_CLASSES", 99)
    lists = [[0.01] * 100] + [[]] * (rows - 1)
    pq.write_table(pa.table({"y": [0] * rows, "probs": lists}), tmp_path / "a.parquet")
    said = message(tmp_path / "a.parquet")
    assert said.endswith(
        "a.parquet: column 'probs' has lists of 100 numbers; at most 99 classes are read. Store "
        "the predicted class's probability (confidence, pred) in place of all."
    )
    with pytest.raises(ValueError, match="at most 99 classes"):
        ra.sketch_batches(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="at most 99 classes"):
        ra.sketch_batches(pa.table({"y": [0] * rows, "probs": lists}))


def test_the_length_of_lists_comes_from_the_file_s_end(tmp_path):
    values = pa.array(np.full(2_000_000, 5e-7))
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    pq.write_table(pa.table({"y": [0], "probs": lists}), tmp_path / "a.parquet")
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    assert "2,000,000 numbers" in message(tmp_path / "a.parquet")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
    assert pa.total_allocated_bytes() - before < 2_000_000


def test_names_that_cannot_be_written(tmp_path):
    line = '{"label": "a", "probs": {"a": 0.5, "\\ud800": 0.5}}'
    path = write(tmp_path / "a.jsonl", line + "\n")
    assert message(path).endswith(
        "the class '\\ud800' holds half a letter (a surrogate). Rename it."
    )
    other = write(tmp_path / "b.jsonl", '{"label": 0, "probs": [0.5, 0.5]}\n')
    assert "half a letter" in message(other, classes=["a", "\udcff"])


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".npz", ".npy", ".parquet"])
def test_pipes_are_refused(tmp_path, ending):
    """Reading one waits for ever where nobody writes."""
    pipe, file = tmp_path / f"pipe{ending}", write(tmp_path / "a.csv", "y,p\n0,0.5\n")
    os.mkfifo(pipe)
    assert "is a pipe or a device" in message(pipe)
    assert "is a pipe or a device" in message(file, labels=pipe)
    if ending == ".parquet":
        with pytest.raises(ValueError, match="is a pipe or a device"):
            ra.sketch_batches(pipe)


def test_parquet_files_are_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("riskalign.data.files.parquet.CELLS", 100_000)
    probs = np.random.default_rng(0).dirichlet(np.ones(10), 200_000)  # 16 MB, which no zip shrinks
    columns = {"y": np.zeros(len(probs), dtype=int)} | {f"p_{k}": p for k, p in enumerate(probs.T)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=10_000)
    assert (tmp_path / "a.parquet").stat().st_size > 16_000_000
    before = pa.total_allocated_bytes()
    for part in open_predictions(tmp_path / "a.parquet").batches():
        assert len(part.labels) == 10_000
        assert pa.total_allocated_bytes() - before < 4_000_000


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"")
    with pytest.raises(ImportError, match=r"pip install 'riskalign\[parquet\]'"):
        open_predictions(path)
