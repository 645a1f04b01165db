"""Files as other tools write them: pandas, numpy, Hugging Face, lm-evaluation-harness."""

import json

import numpy as np
import pytest

from riskalign.data.files import open_predictions
from riskalign.data.files.labels import spelled


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def lines(path, *objects):
    return write(path, "\n".join(map(json.dumps, objects)) + "\n")


def message(path, **options):
    """The error of reading a file, which must be one line."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        open_predictions(path, **options).read()
    assert "\n" not in str(caught.value)
    assert "Mend" not in str(caught.value)
    return str(caught.value)


class TestColumns:
    """Names that other tools give to columns."""

    @pytest.mark.parametrize("name", ["score", "y_score", "Score", "risk", "scores"])
    def test_a_score(self, tmp_path, name):
        path = write(tmp_path / "a.csv", f"target,{name}\n1,0.9\n0,0.2\n")
        file = open_predictions(path)
        found = file.read()
        assert found.labels.tolist() == [1, 0]
        assert found.scores.tolist() == [0.9, 0.2]
        assert file.description == f"labels from 'target', probabilities from {name!r}"

    def test_scores_of_classes(self, tmp_path):
        path = write(tmp_path / "a.csv", "label,score_cat,score_dog\ndog,0.1,0.9\n")
        found = open_predictions(path).read()
        assert found.classes == ("cat", "dog")
        assert found.labels.tolist() == [1]

    def test_a_probability_wins_over_a_score(self, tmp_path):
        path = write(tmp_path / "a.csv", "y,score,p\n1,7.5,0.9\n")
        assert open_predictions(path).read().scores.tolist() == [0.9]

    def test_a_score_beside_the_predicted_class(self, tmp_path):
        path = write(tmp_path / "a.csv", "y,pred,score\ncat,dog,0.7\ncat,cat,0.9\n")
        file = open_predictions(path)
        assert file.top_label
        assert file.read().labels.tolist() == [0, 1]

    def test_the_columns_of_a_data_frame(self, tmp_path):
        text = ",0,1,2,y\n0,0.1,0.2,0.7,2\n1,0.5,0.3,0.2,0\n"
        file = open_predictions(write(tmp_path / "a.csv", text))
        assert file.read().scores.tolist() == [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]
        assert "from '0', '1', '2'" in file.description

    def test_numbers_with_gaps_are_no_classes(self, tmp_path):
        path = write(tmp_path / "a.csv", "y,2019,2020\n1,0.5,0.5\n")
        assert "no column of predictions was found" in message(path)


class TestNestedJson:
    """A score per class inside one value."""

    SHIRTS = ({"shirt": 0.1, "coat": 0.9}, {"coat": 0.25, "shirt": 0.75})

    @pytest.mark.parametrize("key", ["scores", "probs", "probabilities", "prediction"])
    def test_an_object_of_scores(self, tmp_path, key):
        rows = ({"label": "shirt", key: scores, "meta": {"id": 7}} for scores in self.SHIRTS)
        found = open_predictions(lines(tmp_path / "a.jsonl", *rows)).read()
        assert found.classes == ("shirt", "coat")
        assert found.labels.tolist() == [0, 0]
        assert found.scores.tolist() == [[0.1, 0.9], [0.75, 0.25]]

    def test_numbered_classes_are_in_order(self, tmp_path):
        scores = {"10": 0.1, "2": 0.2, "0": 0.7}
        path = lines(tmp_path / "a.jsonl", {"y": 10, "probs": scores}, {"y": 2, "probs": scores})
        found = open_predictions(path).read()
        assert found.classes == ("0", "2", "10")
        assert found.labels.tolist() == [2, 1]

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_pipelines_of_hugging_face(self, tmp_path, wrapped):
        one = [{"label": "LABEL_10", "score": 0.7}, {"label": "LABEL_2", "score": 0.3}]
        two = [{"label": "LABEL_2", "score": 0.6}, {"label": "LABEL_10", "score": 0.4}]
        rows = [{"target": "LABEL_2", "output": [each] if wrapped else each} for each in (one, two)]
        file = open_predictions(lines(tmp_path / "a.jsonl", *rows))
        found = file.read()
        assert found.classes == ("LABEL_2", "LABEL_10")
        assert found.scores.tolist() == [[0.3, 0.7], [0.6, 0.4]]
        assert file.description == "labels from 'target', probabilities from 'output'"

    def test_raw_output_of_a_pipeline_beside_labels(self, tmp_path):
        row = [{"label": "no", "score": 0.2}, {"label": "yes", "score": 0.8}]
        path = lines(tmp_path / "a.jsonl", row, row)
        labels = write(tmp_path / "y.csv", "answer\nyes\nno\n")
        found = open_predictions(path, labels=labels).read()
        assert found.labels.tolist() == [1, 0]
        assert found.classes == ("no", "yes")

    def test_two_candidates_are_told_apart_by_the_user(self, tmp_path):
        row = {"y": "a", "first": {"a": 0.4, "b": 0.6}, "second": {"a": 0.9, "b": 0.1}}
        path = lines(tmp_path / "a.jsonl", row, row)
        assert "--probs" in message(path)
        assert open_predictions(path, probs="second").read().scores[0].tolist() == [0.9, 0.1]

    @pytest.mark.parametrize(
        ("second", "expected"),
        [
            ({"a": 0.5}, "line 2: 'probs' lacks the class 'b'. Write the scores of all classes"),
            ({"a": 0.5, "b": 0.3, "c": 0.2}, "has, other than the first line, the class 'c'"),
            ([0.5, 0.5], "must hold a score per class, as the first line does; found [0.5, 0.5]"),
            (None, "must hold a score per class"),
        ],
    )
    def test_lines_of_another_form(self, tmp_path, second, expected):
        path = lines(
            tmp_path / "a.jsonl",
            {"y": "a", "probs": {"a": 0.5, "b": 0.5}},
            {"y": "a", "probs": second},
        )
        assert expected in message(path)

    def test_nested_values_that_are_no_scores(self, tmp_path):
        path = lines(tmp_path / "a.jsonl", {"y": 1, "probs": {"a": {"b": 1}}})
        found = message(path)
        assert "numbers by class {class: score}" in found


class TestWithoutNames:
    """What numpy.savetxt writes, with labels in another file."""

    F = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])

    def predictions(self, tmp_path):
        path = tmp_path / "probabilities.csv"
        np.savetxt(path, self.F, delimiter=",")
        return path

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("y.csv", "y\n2\n0\n"),
            ("y.csv", "2\n0\n"),
            ("y.csv", "2.000000000000000000e+00\n0.000000000000000000e+00\n"),
            ("y.csv", ",class\n0,2\n1,0\n"),
            ("y.csv", "id,target,when\n7,2,x\n8,0,z\n"),
            ("y.jsonl", '{"label": 2}\n{"label": 0}\n'),
        ],
    )
    def test_labels_of_text(self, tmp_path, name, text):
        labels = write(tmp_path / name, text)
        file = open_predictions(self.predictions(tmp_path), labels=labels)
        found = file.read()
        assert found.labels.tolist() == [2, 0]
        np.testing.assert_array_equal(found.scores, self.F)
        assert file.description.startswith(f"labels from {name!r}, probabilities from '0', '1', ")

    @pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet"])
    def test_labels_of_arrays(self, tmp_path, ending):
        labels = tmp_path / f"y{ending}"
        if ending == ".npy":
            np.save(labels, [2, 0])
        elif ending == ".npz":
            np.savez(labels, whatever=[2, 0])
        else:
            pa = pytest.importorskip("pyarrow")
            pq = pytest.importorskip("pyarrow.parquet")
            pq.write_table(pa.table({"y": [2, 0]}), labels)
        found = open_predictions(self.predictions(tmp_path), labels=labels).read()
        assert found.labels.tolist() == [2, 0]

    def test_predictions_of_other_formats(self, tmp_path):
        labels = write(tmp_path / "y.csv", "y\n2\n0\n")
        np.savez(tmp_path / "f.npz", probs=self.F)
        lines(tmp_path / "f.jsonl", *({"probs": row} for row in self.F.tolist()))
        write(tmp_path / "f.csv", "p_a,p_b,p_c\n0.2,0.5,0.3\n0.6,0.3,0.1\n")
        for name in ("f.npz", "f.jsonl", "f.csv"):
            found = open_predictions(tmp_path / name, labels=labels).read()
            assert found.labels.tolist() == [2, 0]
            np.testing.assert_array_equal(found.scores, self.F)

    def test_one_probability(self, tmp_path):
        path = tmp_path / "p.csv"
        np.savetxt(path, [0.25, 0.75])
        labels = write(tmp_path / "y.csv", "0\n1\n")
        assert open_predictions(path, labels=labels).read().scores.tolist() == [0.25, 0.75]

    @pytest.mark.parametrize("text", ["y\n2\n", "y\n2\n0\n1\n"])
    def test_rows_that_do_not_match(self, tmp_path, text):
        labels = write(tmp_path / "y.csv", text)
        found = message(self.predictions(tmp_path), labels=labels)
        assert "there are 2 rows of predictions and " in found
        assert "Give a label per row, in the same order." in found

    def test_without_labels(self, tmp_path):
        found = message(self.predictions(tmp_path))
        assert "the first line holds 3 numbers and no names of columns" in found
        assert "--labels FILE" in found

    def test_a_wrong_label_has_its_line(self, tmp_path):
        labels = write(tmp_path / "y.csv", "y\n2\n5\n")
        assert "line 2, 'y.csv': the label '5'" in message(
            self.predictions(tmp_path), labels=labels
        )

    def test_no_file_of_labels(self, tmp_path):
        found = message(self.predictions(tmp_path), labels=tmp_path / "none.csv")
        assert "none.csv: no such file" in found


def test_labels_as_numbers_in_text():
    spellings = {"3.000e+00": "3", "-1.0e+00": "-1", "1e5": "1e5", "2.50e+00": "2.50e+00"}
    assert {text: spelled(text) for text in spellings} == spellings


def question(target, logs, **more):
    pairs = [[str(log), "False"] for log in logs]
    return {"doc_id": 0, "doc": {}, "target": target, "filtered_resps": pairs, **more}


class TestHarness:
    """Samples of lm-evaluation-harness."""

    def test_multiple_choice(self, tmp_path):
        logs = [[-1.0, -2.0, -3.0, -4.0], [-5.0, -1.0], [-30.0, -20.0, -25.0]]
        path = lines(
            tmp_path / "samples.jsonl",
            question(0, logs[0]),
            question("0", logs[1]),
            question("C", logs[2]),
        )
        file = open_predictions(path)
        found = file.read()
        assert file.top_label
        assert "lm-evaluation-harness" in file.description
        assert found.labels.tolist() == [1, 0, 0]  # whether the predicted choice is right
        expected = [np.exp(max(row)) / np.exp(row).sum() for row in logs]
        np.testing.assert_allclose(found.scores, expected)

    def test_numbers_and_repetitions(self, tmp_path):
        sample = {"target": 1, "resps": [[[-2.0, False]], [[-1.0, True]]]}
        found = open_predictions(lines(tmp_path / "a.jsonl", sample)).read()
        assert found.labels.tolist() == [1]
        assert found.scores[0] == pytest.approx(1 / (1 + np.exp(-1)))

    @pytest.mark.parametrize(
        "arguments",
        [
            {"gen_args_0": {"arg_0": "Q", "arg_1": " no"}, "gen_args_1": {"arg_1": " yes"}},
            [["Q", " no"], ["Q", " yes"]],
        ],
    )
    def test_targets_by_their_text(self, tmp_path, arguments):
        sample = question(" yes", [-1.0, -2.0], arguments=arguments)
        assert open_predictions(lines(tmp_path / "a.jsonl", sample)).read().labels.tolist() == [0]

    def test_one_line_per_filter(self, tmp_path):
        path = lines(
            tmp_path / "a.jsonl",
            question(0, [-1.0, -2.0], filter="none"),
            question(0, [-1.0, -2.0], filter="other"),
        )
        assert len(open_predictions(path).read().labels) == 1

    @pytest.mark.parametrize(
        ("sample", "expected"),
        [
            ({"target": "18", "filtered_resps": ["18"], "resps": [["so 18"]]}, "multiple_choice"),
            (question("9", [-1.0, -2.0]), "'target' is \"9\", which is none of the 2 choices"),
            (question(0, ["nan", -2.0]), "a log-probability per choice"),
        ],
    )
    def test_other_samples(self, tmp_path, sample, expected):
        assert expected in message(lines(tmp_path / "a.jsonl", sample))
