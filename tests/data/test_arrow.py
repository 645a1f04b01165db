"""Labels and predictions of Arrow batches, and what is said of bad rows."""

import numpy as np
import pyarrow as pa
import pytest

from riskalign.data.arrow import Reading
from riskalign.sketches.groups import Groups

N = 40


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def read(one, **options):
    (rows,) = Reading.of(one.schema.names, **options).rows(one, "part 7", 100)
    return rows


def sketched(one, **options):
    reading = Reading.of(one.schema.names, **options)
    return Groups(reading, {"notion": None}).add(iter([(one, "part 7", 100)]))


class TestLabels:
    @pytest.mark.parametrize(
        "labels",
        [
            pa.array([0, 1, 1], pa.int8()),
            pa.array([0, 1, 1], pa.uint64()),
            pa.array([0.0, 1.0, 1.0]),
            pa.array([False, True, True]),
            pa.array(["0", "1", "1"]),
            pa.array(["0", "1", "1"]).dictionary_encode(),
        ],
    )
    def test_any_type_of_two_classes(self, labels):
        rows = read(batch(y=labels, p=pa.array([0.1, 0.2, 0.3])))
        assert rows.labels.tolist() == [0, 1, 1]
        assert rows.labels.dtype == np.intp

    @pytest.mark.parametrize("labels", [["dog", "cat"], [1, 0], ["1", "0"]])
    def test_names_of_columns_name_the_classes(self, labels):
        rows = read(batch(y=labels, p_cat=[0.1, 0.2], p_dog=[0.9, 0.8]))
        assert rows.labels.tolist() == [1, 0]

    def test_classes_that_are_numbers_are_names(self):
        rows = read(batch(y=[5, 3, 5], p=[0.1, 0.2, 0.3]), classes=[3, 5])
        assert rows.labels.tolist() == [1, 0, 1]

    def test_classes_are_in_the_order_of_their_numbers(self):
        one = batch(y=[10, 2], p_10=[0.9, 0.2], p_2=[0.1, 0.8])
        rows = read(one)
        assert rows.labels.tolist() == [1, 0]
        np.testing.assert_array_equal(rows.scores, [[0.1, 0.9], [0.8, 0.2]])

    def test_words_that_no_row_has_do_not_matter(self):
        words = pa.array(["0", "1", "stray"]).dictionary_encode()[:2]
        assert read(batch(y=words, p=[0.1, 0.2])).labels.tolist() == [0, 1]

    def test_predicted_class_and_confidence(self):
        rows = read(batch(y=["a", "b", "c"], pred=["a", "c", "c"], confidence=[0.6, 0.7, 0.8]))
        assert rows.labels.tolist() == [1, 0, 1]
        assert rows.scores.tolist() == [0.6, 0.7, 0.8]


class TestScores:
    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 2)]
    )
    def test_lists(self, kind):
        lists = pa.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], kind)
        rows = read(batch(y=[0, 1, 0], probs=lists))
        np.testing.assert_array_equal(rows.scores, [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])

    def test_lists_of_a_slice(self):
        lists = pa.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], pa.list_(pa.float64(), 2))
        rows = read(batch(y=[0, 1, 0], probs=lists).slice(1))
        np.testing.assert_array_equal(rows.scores, [[0.5, 0.5], [1.0, 0.0]])

    @pytest.mark.parametrize("probs", ["p_*", ["p_a", "p_b"], "p_a,p_b"])
    def test_columns(self, probs):
        one = batch(y=[0, 1], p_a=[0.2, 0.4], p_b=[0.8, 0.6], other=[1, 1])
        np.testing.assert_array_equal(read(one, probs=probs).scores, [[0.2, 0.8], [0.4, 0.6]])

    def test_wide_rows_are_read_in_parts(self, monkeypatch):
        monkeypatch.setattr("riskalign.data.arrow.CELLS", 10)
        p = np.full((25, 4), 0.25)
        one = batch(y=[0] * 25, probs=pa.array(p.tolist()))
        parts = list(Reading.of(one.schema.names).rows(one, "here", 5))
        assert [len(rows.labels) for rows in parts] == [2] * 12 + [1]
        assert [rows.first for rows in parts] == [5 + 2 * k for k in range(13)]


class TestBadRows:
    """Errors name the partition, the rows in it and the column."""

    def refused(self, one, **options):
        with pytest.raises((ValueError, TypeError)) as info:
            sketched(one, **options)
        return str(info.value)

    def binary(self, **changed):
        columns = {"y": [0, 1] * (N // 2), "p": np.linspace(0.1, 0.9, N).tolist()}
        for name, values in changed.items():
            for row, value in values.items():
                columns[name][row] = value
        return batch(**columns)

    def test_predictions_outside(self):
        said = self.refused(self.binary(p={3: 1.5, 8: -0.1}))
        assert said.startswith("part 7, column 'p', rows 103, 108: found 1.5 there; ")

    def test_nan_and_null(self):
        assert "part 7, column 'p', row 103: found nan" in self.refused(
            self.binary(p={3: float("nan")})
        )
        assert "part 7, column 'p', row 103: found nothing" in self.refused(
            self.binary(p={3: None})
        )

    def test_many_rows_are_counted(self):
        said = self.refused(self.binary(p=dict.fromkeys(range(20), 7.0)))
        assert "rows 100, 101, 102, 103, 104 and 15 more" in said

    def test_labels(self):
        said = self.refused(self.binary(y={5: 2}))
        assert "part 7, column 'y', row 105: found labels that are not 0 to 1" in said
        assert "column 'y', row 106: found nothing" in self.refused(self.binary(y={6: None}))
        words = batch(y=["cat", "cow"], p_cat=[0.5, 0.5], p_dog=[0.5, 0.5])
        said = self.refused(words)
        assert said.startswith("part 7, column 'y', row 101: the label 'cow' is not one of")
        assert "--" not in said

    def test_sums(self):
        said = self.refused(batch(y=[0, 1], p_a=[0.5, 0.5], p_b=[0.5, 0.7]))
        assert "column 'p_a, p_b', row 101: found predictions whose sum is 1.2, not 1" in said

    def test_one_of_many_columns(self):
        said = self.refused(batch(y=[0, 1], p_a=[0.5, 0.5], p_b=[0.5, -0.5], p_c=[0.0, 1.0]))
        assert "column 'p_b', row 101: found -0.5 there" in said

    def test_lists(self):
        one = batch(y=[0, 1, 0], probs=[[0.5, 0.5], [0.1, 0.2, 0.7], None])
        assert "column 'probs', rows 101, 102: found lists" in self.refused(one)
        one = batch(y=[0, 1, 0], probs=[[0.5, 0.5], [None, 1.0], [1.0, 0.0]])
        assert "column 'probs', row 101: found an empty place" in self.refused(one)

    def test_weights(self):
        one = batch(y=[0, 1, 0], p=[0.5, 0.5, 0.5], w=[1.0, -1.0, 2.0])
        assert "part 7, column 'w', row 101: found weights" in self.refused(one, weight="w")

    def test_infinite_logits(self):
        one = batch(y=[0, 1], logit=[0.5, float("inf")])
        assert "column 'logit', row 101: found inf there" in self.refused(one)

    def test_words_as_predictions(self):
        one = batch(y=[0, 1], p=["a", "b"])
        assert "column 'p' holds string, not numbers" in self.refused(one)

    def test_columns_that_are_not_there(self):
        for options in ({"label": "z"}, {"probs": "z"}, {"by": "z"}, {"weight": "z"}):
            with pytest.raises(ValueError, match=r"'z' of `\w+` is not there") as info:
                Reading.of(["y", "p"], **options)
            assert "--" not in str(info.value)
