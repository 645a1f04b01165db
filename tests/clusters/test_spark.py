"""Sketches of Spark data frames in local mode, with tasks that fail and partitions of all sizes."""

import os
import sys

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import riskalign as ra
import riskalign.spark

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BINARY = {"label": "y", "probs": "p"}


@pytest.fixture(scope="module")
def spark():
    """Two threads; a task may fail twice before its job does."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _few_tasks(monkeypatch):
    """A tree of two levels, of few tasks, each of which starts a Python process."""
    monkeypatch.setattr(riskalign.spark, "TREE", (4, 2))


@pytest.fixture(scope="module")
def df(spark, frame, tmp_path_factory):
    """The rows in seven partitions, read from Parquet."""
    path = str(tmp_path_factory.mktemp("spark") / "rows.parquet")
    frame.to_parquet(path, index=False)
    return spark.read.parquet(path).repartition(7).cache()


class TestColumns:
    @pytest.mark.parametrize("tree", [False, True])
    def test_one_probability(self, df, binary, tree):
        assert riskalign.spark.sketch(df, tree=tree, **BINARY).to_bytes() == binary

    def test_columns_array_and_vector(self, spark, df, frame, classwise):
        options = {"label": "kind", "notion": "classwise", "classes": ["a", "b", "c"]}
        found = riskalign.spark.sketch(df, probs=["p_a", "p_b", "p_c"], **options)
        assert found.to_bytes() == classwise
        with_array = df.withColumn("probs", F.array("p_a", "p_b", "p_c")).drop("p")
        assert riskalign.spark.sketch(with_array, **options, probs="probs").to_bytes() == classwise

    def test_vectors_of_both_kinds(self, spark):
        dense = [(0, Vectors.dense([0.2, 0.3, 0.5])), (2, Vectors.dense([0.1, 0.1, 0.8]))]
        sparse = [(1, Vectors.sparse(3, [1], [1.0]))]
        rows = spark.createDataFrame(dense + sparse, ["label", "probability"])
        found = riskalign.spark.sketch(rows, label="label", probs="probability")
        expected = ra.CalibrationSketch(classes=3).update(
            [0, 2, 1], [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0.0, 1.0, 0.0]]
        )
        assert found.to_bytes() == expected.to_bytes()

    @pytest.mark.parametrize("tree", [False, True])
    def test_groups(self, df, days, tree):
        found = riskalign.spark.sketch(df, by="day", tree=tree, **BINARY)
        assert {day: sketch.to_bytes() for day, sketch in found.items()} == days

    @pytest.mark.parametrize("by", [None, "the.day"])
    def test_names_with_dots(self, df, binary, days, by):
        dotted = df.select(
            df.y.alias("y.true"), df.p.alias("p.`1`"), df.day.alias("the.day"), "kind"
        )
        found = riskalign.spark.sketch(dotted, label="y.true", probs="p.`1`", by=by)
        if by is None:
            assert found.to_bytes() == binary
        else:
            assert {day: sketch.to_bytes() for day, sketch in found.items()} == days

    def test_vectors_that_are_missing(self, spark):
        rows = [(0, Vectors.dense([0.2, 0.8])), (1, None), (1, Vectors.dense([0.5, 0.5]))]
        df = spark.createDataFrame(rows, ["label", "probability"]).coalesce(1)
        expected = "partition 0, column 'probability', row 1: found lists of different lengths, or"
        with pytest.raises(Exception, match=expected):
            riskalign.spark.sketch(df, label="label", probs="probability")


class TestPartitions:
    def test_skewed_and_empty(self, df, binary):
        """By day, one partition has 98% of the rows and most have none."""
        skewed = df.repartition(16, "day")
        sizes = skewed.groupBy(F.spark_partition_id()).count().count()
        assert sizes <= 3
        assert riskalign.spark.sketch(skewed, **BINARY).to_bytes() == binary

    def test_no_rows(self, df):
        with pytest.raises(ValueError, match="no rows"):
            riskalign.spark.sketch(df.filter("p > 2"), **BINARY)
        assert riskalign.spark.sketch(df.filter("p > 2"), by="day", **BINARY) == {}

    def test_a_task_that_fails_is_run_again(self, df, binary, tmp_path):
        """Partition 3 breaks off in the middle of its rows, once."""
        marker = tmp_path / "failed"

        def flaky(batches):
            from pyspark import TaskContext

            context = TaskContext.get()
            for number, batch in enumerate(batches):
                if number == 2 and context.partitionId() == 3 and context.attemptNumber() == 0:
                    marker.write_text("once")
                    raise RuntimeError("lost")
                yield batch

        broken = df.mapInArrow(flaky, df.schema)
        assert riskalign.spark.sketch(broken, **BINARY).to_bytes() == binary
        assert marker.read_text() == "once"

    def test_bad_rows(self, df):
        wrong = df.withColumn(
            "p", F.when(F.spark_partition_id() == 5, F.lit(1.25)).otherwise(F.col("p"))
        )
        with pytest.raises(Exception, match=r"partition 5, column 'p', rows 0, 1, 2, 3, 4 and"):
            riskalign.spark.sketch(wrong, **BINARY)

    def test_columns_that_are_not_there(self, df):
        with pytest.raises(ValueError, match="'nothing' of `probs` is not there"):
            riskalign.spark.sketch(df, label="y", probs="nothing")


def test_the_code_of_the_page_runs(run_page, spark, binary, days):
    columns = {"y": "label", "p": "probability"}
    found = run_page("Spark", "hdfs:///predictions", columns, spark=spark)
    assert found["sketch"].to_bytes() == binary
    assert {day: sketch.to_bytes() for day, sketch in found["by_country"].items()} == days
