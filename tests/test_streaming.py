"""Batches against the same rows in memory."""

import os
import tracemalloc

import numpy as np
import pytest

import riskalign as ra
from riskalign import gathering as gathering_module
from riskalign.bandwidth.choosing import choose
from riskalign.data.sample import reduce
from riskalign.data.validation import as_sample
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import L2
from riskalign.equations.starts import STARTS, started
from riskalign.gathering import Rows
from riskalign.methods.method import KernelSmoother
from riskalign.streaming import Stream, calibration_error_of_batches

DATA = os.environ.get("RISKALIGN_DATA")
NUMBERS = ("value", "risk", "refinement", "reconstructed_risk")


def split(y, p, size):
    return [(y[i : i + size], p[i : i + size]) for i in range(0, len(y), size)]


def agree(found, expected, rel):
    for name in NUMBERS:
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=rel, abs=1e-9)
    assert found.n_samples == expected.n_samples
    assert found.classes == expected.classes
    assert found.conditional is None
    np.testing.assert_allclose(found.bandwidth, expected.bandwidth)
    gaps, expected_gaps = found.overconfidence, expected.overconfidence
    np.testing.assert_allclose(gaps.per_class, expected_gaps.per_class, atol=1e-6)
    assert gaps.top_label == pytest.approx(expected_gaps.top_label, abs=1e-6)
    for name in ("gap", "gap_error", "confidence"):
        assert getattr(gaps, name) == pytest.approx(getattr(expected_gaps, name), rel=1e-9)
    assert (found.binary is None) == (expected.binary is None)
    if expected.binary is not None:
        for name, value in expected.binary.to_dict().items():
            assert getattr(found.binary, name) == pytest.approx(value, rel=1e-4, abs=1e-4)
    if expected.per_class is not None:
        np.testing.assert_allclose(found.per_class, expected.per_class, rtol=rel, atol=1e-9)


@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
def test_one_probability(estimator):
    data = ra.datasets.temperature(6000, 2, t2=0.6, seed=0)
    y, p = data.y_true, data.y_prob[:, 1] ** 1.2
    options = {"estimator": estimator, "bandwidth": 0.05}
    expected = ra.calibration_error(y, p, **options)
    agree(calibration_error_of_batches(split(y, p, 1700), **options), expected, rel=1e-3)
    assert (expected.binary is None) == (estimator == "plugin")


@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize("notion", ["top-label", "classwise"])
@pytest.mark.parametrize(
    ("estimator", "bandwidth"),
    [
        ("plugin", 0.01),
        ("variational", 0.01),
        ("cross", 0.1),
        ("debiased", 0.01),
        ("debiased", 0.1),
    ],
)
def test_given_bandwidths(notion, loss, estimator, bandwidth):
    data = ra.datasets.temperature(6000, 3, t2=0.6, seed=0)
    options = {
        "notion": notion,
        "loss": loss,
        "estimator": estimator,
        "bandwidth": bandwidth,
        "confidence": 0.9 if estimator == "debiased" else None,
    }
    whole = ra.calibration_error(data.y_true, data.y_prob, engine="grid", **options)
    found = calibration_error_of_batches(split(data.y_true, data.y_prob, 997), **options)
    # What a kernel sees of the start comes from the rows held, hence 1e-5 and not 1e-9.
    agree(found, whole, 1e-5)
    if estimator == "debiased":
        assert found.standard_error == pytest.approx(whole.standard_error, rel=0.05)
        assert found.confidence == 0.9


@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
@pytest.mark.parametrize("start", STARTS)
def test_rows_that_are_all_held_choose_as_in_memory(estimator, start):
    data = ra.datasets.temperature(3000, 3, t2=0.6, seed=0)
    options = {"notion": "classwise", "estimator": estimator, "start": start}
    found = calibration_error_of_batches(split(data.y_true, data.y_prob, 700), **options)
    search = found.search
    whole = ra.calibration_error(
        data.y_true, data.y_prob, engine="grid", bandwidth=search, **options
    )
    agree(found, whole, 1e-6)
    if estimator == "plugin":
        searched = ra.calibration_error(data.y_true, data.y_prob, engine="grid", **options)
        curves = searched.search.curves
    else:  # in memory each fold of the rows is smoothed as the others choose
        sample = as_sample(data.y_true, data.y_prob)
        problems = reduce(sample, "classwise", L2)
        starts = [started(problem, start) for problem in problems]
        choices = choose(problems, starts, DIRICHLET, "grid", None, False)
        curves = [choice.curve for choice in choices]
    for mine, theirs in zip(search.curves, curves, strict=True):
        assert mine.value == pytest.approx(theirs.value, rel=0.01)
        wide = mine.candidates >= 0.01  # below, a row without neighbours: rough masses
        np.testing.assert_allclose(mine.objective[wide], theirs.objective[wide], rtol=1e-9)
        np.testing.assert_allclose(mine.objective, theirs.objective, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 999, 1000, 5000])
def test_the_size_of_batches_does_not_matter(size, monkeypatch):
    monkeypatch.setattr(gathering_module, "CELLS", 600)
    data = ra.datasets.temperature(1000, 3, seed=0)
    options = {"notion": "top-label", "estimator": "debiased", "bandwidth": 0.05}
    one = calibration_error_of_batches([(data.y_true, data.y_prob)], **options)
    many = calibration_error_of_batches(split(data.y_true, data.y_prob, size), **options)
    assert many.value == pytest.approx(one.value, rel=1e-9)


def hard_cases():
    rng = np.random.default_rng(0)
    peaked = np.clip(rng.beta(0.02, 0.05, 3000), 0, 1)
    yield "peaked", (rng.random(3000) < peaked).astype(int), peaked
    zeros = np.where(rng.random(3000) < 0.5, 0.0, 1.0)
    zeros[:100] = rng.random(100)
    yield "zeros and ones", (rng.random(3000) < np.clip(zeros, 0.05, 0.95)).astype(int), zeros
    tied = rng.choice([0.1, 0.35, 0.8], 3000)
    yield "ties", (rng.random(3000) < tied).astype(int), tied
    yield "one label", np.zeros(2000, dtype=int), rng.random(2000)
    single = rng.random(2000).astype(np.float32)
    yield "float32", (rng.random(2000) < single).astype(int), single


@pytest.mark.parametrize(
    ("y", "p"), [case[1:] for case in hard_cases()], ids=[case[0] for case in hard_cases()]
)
@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize(
    ("estimator", "bandwidth"), [("plugin", 0.02), ("plugin", 0.001), ("debiased", 0.02)]
)
def test_hard_inputs(y, p, loss, estimator, bandwidth):
    options = {"loss": loss, "estimator": estimator, "bandwidth": bandwidth}
    whole = ra.calibration_error(y, p, engine="grid", **options)
    found = calibration_error_of_batches(split(y, p, 700), **options)
    # Rows without neighbours are summed over rough masses: they err by parts of their own R.
    assert found.value == pytest.approx(whole.value, rel=2e-3, abs=2e-5)
    assert found.risk == pytest.approx(whole.risk, rel=1e-9)


def test_two_rows():
    found = calibration_error_of_batches([([0], [0.2]), ([1], [0.7])], estimator="plugin")
    assert found.n_samples == 2
    assert np.isfinite(found.value)


def test_a_thousand_classes():
    data = ra.datasets.temperature(300, 1000, seed=0)
    options = {"notion": "classwise", "estimator": "plugin", "bandwidth": 0.02}
    whole = ra.calibration_error(data.y_true, data.y_prob, engine="grid", **options)
    found = calibration_error_of_batches(split(data.y_true, data.y_prob, 100), **options)
    assert found.value == pytest.approx(whole.value, rel=1e-3)


def test_names_and_logits():
    data = ra.datasets.temperature(500, 3, seed=0)
    names = ["a", "b", "c"]
    labels = np.array(names, dtype=object)[data.y_true]
    found = calibration_error_of_batches(
        split(labels, np.log(data.y_prob), 200),
        classes=names,
        from_logits=True,
        bandwidth=0.05,
        estimator="plugin",
    )
    whole = ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.05, estimator="plugin")
    assert found.classes == ("a", "b", "c")
    assert found.value == pytest.approx(whole.value, rel=1e-5)


def test_the_curve():
    data = ra.datasets.temperature(4000, 3, t2=0.6, seed=0)
    grid = np.linspace(0.05, 0.95, 19)
    for estimator in ("plugin", "debiased"):
        options = {"notion": "classwise", "estimator": estimator, "bandwidth": 0.05}
        whole = ra.reliability_curve(
            data.y_true, data.y_prob, grid=grid, start="logistic", **options
        )
        method = KernelSmoother(0.05, "dirichlet", estimator)
        rows = Rows(split(data.y_true, data.y_prob, 999))
        found = Stream.read(rows, "classwise", "l2", method).curve(grid)
        np.testing.assert_allclose(found.conditional, whole.conditional, atol=1e-4)
        np.testing.assert_allclose(found.effective_samples, whole.effective_samples, rtol=1e-5)
        np.testing.assert_allclose(found.nearby_samples, whole.nearby_samples, rtol=1e-5)
        np.testing.assert_allclose(found.density, whole.density, rtol=1e-5)


class TestErrors:
    def test_an_iterator_is_read_only_once(self):
        with pytest.raises(TypeError, match="Pass a list"):
            calibration_error_of_batches(iter([([0, 1], [0.5, 0.5])]))

    def test_no_rows(self):
        with pytest.raises(ValueError, match="no rows"):
            calibration_error_of_batches([])

    def test_canonical(self):
        with pytest.raises(ValueError, match="needs all rows at once"):
            calibration_error_of_batches([([0, 1], [0.5, 0.5])], notion="canonical")

    def test_bad_rows_are_placed(self, monkeypatch):
        monkeypatch.setattr(gathering_module, "CELLS", 10)
        p = np.full(100, 0.5)
        p[57] = np.nan
        with pytest.raises(ValueError, match="In the rows from 50 on: `y_prob` holds NaN"):
            calibration_error_of_batches([(np.zeros(100), p)], estimator="plugin")

    def test_batches_of_different_widths(self):
        batches = [([0, 1], np.full((2, 2), 0.5)), ([0, 1], np.full((2, 4), 0.25))]
        with pytest.raises(ValueError, match="must agree in their classes"):
            calibration_error_of_batches(batches)


class Made:
    """Batches that are made as they are read."""

    def __init__(self, n_batches, size):
        self.n_batches, self.size = n_batches, size

    def __iter__(self):
        for seed in range(self.n_batches):
            rng = np.random.default_rng(seed)
            p = rng.random(self.size)
            yield (rng.random(self.size) < p).astype(np.int8), p


@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
def test_memory_does_not_grow_with_the_rows(estimator, monkeypatch):
    monkeypatch.setattr(gathering_module, "CELLS", 20_000)
    monkeypatch.setattr(gathering_module, "HELD_CELLS", 20_000)
    options = {"estimator": estimator, "bandwidth": 0.05}
    calibration_error_of_batches(Made(1, 20_000), **options)  # nodes are made once
    peaks = []
    for n_batches in (2, 20):
        tracemalloc.start()
        calibration_error_of_batches(Made(n_batches, 20_000), **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.skipif(DATA is None, reason="RISKALIGN_DATA is not set")
@pytest.mark.parametrize(
    "name", ["cifar10_wideresnet-16-4", "cardio_gaussianNB", "20news_cleanlab", "mnist_cleanlab"]
)
@pytest.mark.parametrize("estimator", ["plugin", "debiased"])
def test_real_files(name, estimator):
    with np.load(os.path.join(DATA, f"{name}.npz"), allow_pickle=False) as file:
        y, p = file["labels"], file["probs"]
    options = {"notion": "classwise", "estimator": estimator, "bandwidth": 0.02}
    if estimator == "debiased":
        options["confidence"] = 0.95
    whole = ra.calibration_error(y, p, engine="grid", **options)
    found = calibration_error_of_batches(split(y, p, 3000), **options)
    # A hundredth of what chance does to the estimate, where that is known.
    chance = 0.01 * (whole.standard_error or 0.0)
    assert found.value == pytest.approx(whole.value, rel=1e-3, abs=chance)
