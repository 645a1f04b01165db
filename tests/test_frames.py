"""Data frames: pandas and polars in, either out."""

import sys

import numpy as np
import pytest

import riskalign as ra

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

FIXED = {"estimator": "plugin", "bandwidth": 0.02}


@pytest.fixture(scope="module")
def data():
    return ra.datasets.temperature(300, 3, seed=0)


def as_pandas(array, names):
    return pd.DataFrame(array, columns=names, index=np.arange(len(array))[::-1] * 7)


def as_polars(array, names):
    return pl.DataFrame(array, schema=names)


@pytest.mark.parametrize("make", [as_pandas, as_polars])
@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_frames_in(data, make, notion):
    plain = ra.calibration_error(data.y_true, data.y_prob, notion=notion, **FIXED)
    frame = make(data.y_prob, ["a", "b", "c"])
    labels = make(data.y_true[:, None], ["y"])["y"]
    found = ra.calibration_error(labels, frame, notion=notion, **FIXED)
    # Frames are stored by columns: sums over rows round differently.
    assert found.value == pytest.approx(plain.value, rel=1e-12)


@pytest.mark.parametrize("make", [as_pandas, as_polars])
def test_a_column_in(data, make):
    y, p = (data.y_true == 1).astype(int), data.y_prob[:, 1]
    frame = make(np.stack([y, p], axis=1), ["y", "p"])
    plain = ra.calibration_error(y, p, notion="binary", **FIXED)
    assert ra.calibration_error(frame["y"], frame["p"], **FIXED).value == plain.value


@pytest.mark.parametrize(
    "names", [pd.Series, pd.Categorical, pl.Series, lambda x: pd.Series(x, dtype="string")]
)
def test_names_in(data, names):
    classes = ["cat", "dog", "cow"]
    labels = names([classes[k] for k in data.y_true])
    plain = ra.calibration_error(data.y_true, data.y_prob, **FIXED)
    found = ra.calibration_error(labels, data.y_prob, classes=classes, **FIXED)
    assert found.value == plain.value
    assert found.classes == ("cat", "dog", "cow")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_class_wise_out(data, library):
    result = ra.calibration_error(
        data.y_true, data.y_prob, estimator="plugin", bandwidth=[0.01, 0.02, 0.03]
    )
    frame = result.to_frame(library)
    assert list(frame.columns) == ["class", "error", "overconfidence", "bandwidth", "at_edge"]
    assert list(frame["class"]) == ["0", "1", "2"]
    np.testing.assert_array_equal(np.asarray(frame["error"]), result.per_class)
    np.testing.assert_array_equal(np.asarray(frame["bandwidth"]), [0.01, 0.02, 0.03])
    gaps = result.overconfidence.per_class
    np.testing.assert_array_equal(np.asarray(frame["overconfidence"]), gaps)
    assert not any(frame["at_edge"])


@pytest.mark.parametrize("notion", ["top-label", "canonical"])
def test_one_row_out(data, notion):
    search = ra.select_bandwidth(data.y_true, data.y_prob, notion=notion, candidates=[0.1, 0.2])
    result = ra.calibration_error(
        data.y_true, data.y_prob, notion=notion, bandwidth=search, estimator="plugin"
    )
    (row,) = result.to_frame().to_dict("records")
    assert row == {
        "class": {"top-label": "top label", "canonical": "all classes"}[notion],
        "error": result.value,
        "overconfidence": result.overconfidence.top_label,
        "bandwidth": result.bandwidth,
        "at_edge": result.search.at_edge,
    }


def test_methods_without_bandwidth_or_conditional(data):
    bins = ra.calibration_error(data.y_true, data.y_prob, method=ra.EqualMassBins(10))
    assert bins.to_frame()["bandwidth"].isna().all()
    assert bins.to_frame()["overconfidence"].notna().all()
    ridge = ra.calibration_error(
        data.y_true, data.y_prob, notion="canonical", method=ra.KernelRidge()
    )
    assert ridge.to_frame()["overconfidence"].isna().all()


def test_binary_row_is_of_the_positive_class(data):
    y = np.where(data.y_true == 1, "yes", "no")
    result = ra.calibration_error(y, data.y_prob[:, 1], classes=["no", "yes"], **FIXED)
    frame = result.to_frame()
    assert frame["class"].tolist() == ["yes"]
    assert frame["overconfidence"].tolist() == result.overconfidence.per_class.tolist()


def test_other_libraries(data, monkeypatch):
    result = ra.calibration_error(data.y_true, data.y_prob, **FIXED)
    with pytest.raises(ValueError, match="'pandas' or 'polars'; found 'os'"):
        result.to_frame("os")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        result.to_frame("polars")
