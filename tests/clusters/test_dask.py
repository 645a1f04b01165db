"""Sketches of Dask collections, on schedulers of one process and on two worker processes."""

import os
import signal

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster

import riskalign.dask

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BINARY = {"label": "y", "probs": "p"}


@pytest.fixture(scope="module")
def ddf(frame):
    return dd.from_pandas(frame, npartitions=11)


@pytest.fixture
def client():
    """Two worker processes on this machine."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
class TestSchedulers:
    def test_frames(self, ddf, binary, scheduler):
        lazy = riskalign.dask.sketch(ddf, **BINARY)
        assert lazy.compute(scheduler=scheduler).to_bytes() == binary

    def test_classes(self, ddf, classwise, scheduler):
        lazy = riskalign.dask.sketch(ddf, label="kind", probs="p_*", notion="classwise")
        found = lazy.compute(scheduler=scheduler)
        assert found.to_bytes() == classwise
        assert found.update(["a"], [[0.2, 0.3, 0.5]]).n_samples == len(ddf) + 1

    def test_groups(self, ddf, days, scheduler):
        found = riskalign.dask.sketch(ddf, by="day", **BINARY).compute(scheduler=scheduler)
        assert {day: sketch.to_bytes() for day, sketch in found.items()} == days

    def test_arrays(self, frame, binary, scheduler):
        y = da.from_array(frame["y"].to_numpy(), chunks=7_000)
        p = da.from_array(frame["p"].to_numpy(), chunks=9_999)
        lazy = riskalign.dask.sketch((y, p))
        assert lazy.compute(scheduler=scheduler).to_bytes() == binary

    def test_arrays_of_classes(self, frame, classwise, scheduler):
        names = {"a": 0, "b": 1, "c": 2}
        y = da.from_array(frame["kind"].map(names).to_numpy(), chunks=7_000)
        p = da.from_array(frame[["p_a", "p_b", "p_c"]].to_numpy(), chunks=(8_000, 2))
        lazy = riskalign.dask.sketch((y, p), notion="classwise", classes=["a", "b", "c"])
        assert lazy.compute(scheduler=scheduler).to_bytes() == classwise

    def test_numbers_as_names(self, frame, binary, scheduler):
        numbered = frame[["p", "y"]].set_axis([0, 1], axis=1)
        lazy = riskalign.dask.sketch(dd.from_pandas(numbered, npartitions=3), label="1", probs="0")
        assert lazy.compute(scheduler=scheduler).to_bytes() == binary


class TestLazy:
    def test_nothing_is_read_before_compute(self, ddf):
        def never(part):
            raise AssertionError

        lazy = riskalign.dask.sketch(ddf.map_partitions(never, meta=ddf._meta), **BINARY)
        with pytest.raises(AssertionError):
            lazy.compute(scheduler="synchronous")

    def test_merging_is_a_tree(self, frame):
        ddf = dd.from_pandas(frame, npartitions=100)
        lazy = riskalign.dask.sketch(ddf, **BINARY)
        graph = lazy.__dask_graph__()
        merging = [key for key in dict(graph) if "_merged" in str(key)]
        assert len(merging) == 13 + 2 + 1

    def test_twice_the_same(self, ddf, binary):
        lazy = riskalign.dask.sketch(ddf, **BINARY)
        first, second = dask.compute(lazy, lazy, scheduler="threads")
        assert first.to_bytes() == second.to_bytes() == binary

    def test_empty_partitions(self, ddf, frame):
        few = ddf[ddf["p"] > 0.9999]
        part = frame[frame["p"] > 0.9999]
        found = riskalign.dask.sketch(few, **BINARY).compute(scheduler="synchronous")
        expected = riskalign.CalibrationSketch().update(part["y"], part["p"])
        assert found.to_bytes() == expected.to_bytes()
        none = riskalign.dask.sketch(ddf[ddf["p"] > 2], **BINARY)
        with pytest.raises(ValueError, match="no rows"):
            none.compute(scheduler="synchronous")


class TestBadRows:
    def test_partition_row_and_column(self, frame):
        p = frame["p"].to_numpy().copy()
        p[25_123] = 1.5
        ddf = dd.from_pandas(frame.assign(p=p), npartitions=6)
        lazy = riskalign.dask.sketch(ddf, **BINARY)
        with pytest.raises(ValueError, match=r"partition 2, column 'p', row 5123: found 1\.5"):
            lazy.compute(scheduler="synchronous")

    def test_blocks_of_arrays(self, frame):
        p = frame["p"].to_numpy().copy()
        p[30_001] = np.nan
        y, p = (da.from_array(each, chunks=10_000) for each in (frame["y"].to_numpy(), p))
        with pytest.raises(ValueError, match="partition 3, column 'y_prob', row 1: found nan"):
            riskalign.dask.sketch((y, p)).compute(scheduler="synchronous")

    def test_arrays_of_different_lengths(self):
        y, p = da.zeros(10, chunks=5), da.zeros(12, chunks=5)
        with pytest.raises(ValueError, match="`y_true` and `y_prob` must have the same length"):
            riskalign.dask.sketch((y, p))

    def test_one_column(self):
        y, p = da.zeros(10, chunks=5), da.zeros((10, 1), chunks=(5, 1))
        with pytest.raises(ValueError, match=r"found one column. Pass `y_prob\[:, 0\]`"):
            riskalign.dask.sketch((y, p))

    def test_different_numbers_of_unknown_blocks(self):
        y, p = (da.ones(12, chunks=chunk) for chunk in (3, 4))
        with pytest.raises(ValueError, match="has 3 blocks and `y_true` 4, and their lengths"):
            riskalign.dask.sketch((y[y > 0], p[p > 0]))

    def test_other_things(self):
        with pytest.raises(TypeError, match="dask data frame or a pair"):
            riskalign.dask.sketch(3)


class TestCluster:
    def test_two_processes_give_the_bytes_of_one(self, client, ddf, binary, classwise, days):
        lazy = riskalign.dask.sketch(ddf, **BINARY)
        assert client.compute(lazy).result(timeout=120).to_bytes() == binary
        lazy = riskalign.dask.sketch(ddf, label="kind", probs="p_*", notion="classwise")
        assert lazy.compute().to_bytes() == classwise
        found = riskalign.dask.sketch(ddf, by="day", **BINARY).compute()
        assert {day: sketch.to_bytes() for day, sketch in found.items()} == days

    def test_a_worker_that_dies_in_the_middle(self, client, frame, ddf, binary, tmp_path):
        """Its partitions are computed again elsewhere, and none is counted twice."""
        marker = tmp_path / "died"
        row = int(frame.index[35_000])

        def deadly(part):
            if row in part.index and not marker.exists():
                marker.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return part

        lazy = riskalign.dask.sketch(ddf.map_partitions(deadly, meta=ddf._meta), **BINARY)
        found = client.compute(lazy).result(timeout=180)
        assert marker.exists()
        assert int(marker.read_text()) != os.getpid()
        assert found.to_bytes() == binary


def test_the_code_of_the_page_runs(run_page, frame, binary):
    names = {
        "y_array": da.from_array(frame["kind"].map({"a": 0, "b": 1, "c": 2}).to_numpy()),
        "p_array": da.from_array(frame[["p_a", "p_b", "p_c"]].to_numpy()),
    }
    with dask.config.set(scheduler="threads"):
        found = run_page("Dask", "s3://bucket/predictions/", {}, **names)
    assert found["sketch"].to_bytes() == binary
