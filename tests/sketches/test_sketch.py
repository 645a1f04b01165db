"""Sketches and batches against the same rows in memory."""

import os
import tracemalloc

import numpy as np
import pytest
from cases import NOTIONS

import riskalign as ra
from riskalign.data.format import SketchFormatError
from riskalign.equations.starts import STARTS

DATA = os.environ.get("RISKALIGN_DATA")
NUMBERS = ("value", "risk", "refinement", "reconstructed_risk")
FAMILIES = ("temperature", "wavy", "peaked")
CLASSES = {"binary": 2, "top-label": 4, "classwise": 3, "canonical": 3}


def made(n, n_classes, family="temperature", seed=0, *, tenths=False):
    """Labels and predictions, rounded to tenths where they shall be tied."""
    data = ra.datasets.FAMILIES[family](n, n_classes, seed)
    if not tenths:
        return data.y_true, data.y_prob
    p = np.round(data.y_prob, 1)
    p[:, 0] = np.clip(p[:, 0] + 1 - p.sum(axis=1), 0, None)
    return data.y_true, p / p.sum(axis=1, keepdims=True)


def split(y, p, size):
    return [(y[i : i + size], p[i : i + size]) for i in range(0, len(y), size)]


def sketch_of(y, p, weights=None, *, size=None, **settings):
    """A sketch of rows that come in batches."""
    settings = {"classes": None if p.ndim == 1 else p.shape[1]} | settings
    sketch = ra.CalibrationSketch(**settings)
    for i in range(0, len(y), size or len(y)):
        rows = slice(i, i + (size or len(y)))
        w = None if weights is None else weights[rows]
        sketch.update(y[rows], p[rows], sample_weight=w)
    return sketch


def agree(found, expected, rel=1e-9):
    """Two results are of the same numbers; the first knows no rows."""
    for name in NUMBERS:
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=rel, abs=1e-12)
    assert found.n_samples == expected.n_samples
    assert found.classes == expected.classes
    assert found.notion == expected.notion
    assert found.conditional is None
    np.testing.assert_allclose(found.bandwidth, expected.bandwidth)
    gaps, expected_gaps = found.overconfidence, expected.overconfidence
    np.testing.assert_allclose(gaps.per_class, expected_gaps.per_class, rtol=rel, atol=1e-12)
    for name in ("top_label", "gap", "gap_error", "confidence"):
        assert getattr(gaps, name) == pytest.approx(getattr(expected_gaps, name), rel=rel)
    assert (found.binary is None) == (expected.binary is None)
    if expected.binary is not None:
        for name, value in vars(expected.binary).items():
            assert getattr(found.binary, name) == pytest.approx(value, rel=rel, abs=1e-12)
    if expected.per_class is not None:
        np.testing.assert_allclose(found.per_class, expected.per_class, rtol=rel, atol=1e-12)
    assert (found.interval is None) == (expected.interval is None)
    if expected.interval is not None:
        assert found.interval == pytest.approx(expected.interval, rel=rel, abs=1e-12)
        assert found.standard_error == pytest.approx(expected.standard_error, rel=rel)


class TestBelowTheLimit:
    """The sketch holds the sample itself: its answers are those of `calibration_error`."""

    @pytest.mark.parametrize("loss", ["l2", "kl"])
    @pytest.mark.parametrize("notion", NOTIONS)
    def test_values_and_intervals_are_equal(self, notion, loss):
        y, p = made(600, CLASSES[notion])
        whole = ra.calibration_error(y, p, notion=notion, loss=loss, confidence=0.9)
        sketch = sketch_of(y, p, size=170, notion=notion)
        assert sketch.is_exact
        found = sketch.calibration_error(loss=loss, confidence=0.9)
        agree(found, whole)
        assert (found.value, found.interval) == (whole.value, whole.interval)

    @pytest.mark.parametrize(
        ("estimator", "bandwidth"),
        [
            ("plugin", 0.01),
            ("variational", 0.01),
            ("cross", 0.1),
            ("debiased", 0.01),
            ("debiased", "likelihood"),
            ("plugin", "risk-alignment"),
        ],
    )
    @pytest.mark.parametrize("notion", NOTIONS)
    def test_options_are_those_of_calibration_error(self, notion, estimator, bandwidth):
        y, p = made(1500, CLASSES[notion])
        options = {"estimator": estimator, "bandwidth": bandwidth, "loss": "kl"}
        whole = ra.calibration_error(y, p, notion=notion, **options)
        agree(sketch_of(y, p, size=400, notion=notion).calibration_error(**options), whole)
        if notion != "canonical":
            found = ra.calibration_error_of_batches(
                split(y, p, 997), notion=notion, engine="grid", **options
            )
            agree(found, ra.calibration_error(y, p, notion=notion, engine="grid", **options))

    @pytest.mark.parametrize("start", STARTS)
    @pytest.mark.parametrize("kernel", ["dirichlet", "rbf"])
    def test_starts_and_kernels(self, start, kernel):
        y, p = made(500, 3)
        options = {"start": start, "kernel": kernel, "candidates": [0.02, 0.2]}
        whole = ra.calibration_error(y, p, **options)
        agree(sketch_of(y, p, size=99).calibration_error(**options), whole)

    @pytest.mark.parametrize("notion", NOTIONS)
    def test_equal_rows_are_held_once(self, notion):
        y, p = made(3000, CLASSES[notion], tenths=True)
        sketch = sketch_of(y, p, size=500, notion=notion, exact_limit=500)
        assert sketch.is_exact
        whole = ra.calibration_error(y, p, notion=notion, confidence=0.95)
        agree(sketch.calibration_error(confidence=0.95), whole)

    @pytest.mark.parametrize("notion", NOTIONS)
    def test_weights(self, notion):
        y, p = made(400, CLASSES[notion])
        weights = np.random.default_rng(0).uniform(0.2, 7, 400)
        weights[::50] = 0.0
        whole = ra.calibration_error(y, p, notion=notion, sample_weight=weights, confidence=0.95)
        agree(
            sketch_of(y, p, weights, size=90, notion=notion).calibration_error(confidence=0.95),
            whole,
        )
        batches = [(y[i::3], p[i::3], weights[i::3]) for i in range(3)]
        found = ra.calibration_error_of_batches(batches, notion=notion, confidence=0.95)
        agree(found, whole)

    def test_a_thousand_classes(self):
        y, p = made(300, 1000)
        options = {"notion": "classwise", "estimator": "plugin", "bandwidth": 0.02}
        whole = ra.calibration_error(y, p, **options)
        agree(ra.calibration_error_of_batches(split(y, p, 100), **options), whole)

    def test_curves_searches_and_tests(self):
        y, p = made(800, 3)
        sketch = sketch_of(y, p, size=300)
        grid = np.linspace(0.05, 0.95, 19)
        for options in (
            {},
            {"estimator": "plugin", "bandwidth": 0.05},
            {"bandwidth": 0.05, "start": "temperature"},
        ):
            found = sketch.reliability_curve(grid=grid, **options)
            asked = {
                "estimator": "debiased",
                "bandwidth": "cross-validation",
                "start": "logistic",
            } | options
            whole = ra.reliability_curve(y, p, grid=grid, **asked)
            for name in ("conditional", "effective_samples", "nearby_samples", "density"):
                np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-9)
        for criterion in ("risk-alignment", "likelihood"):
            found = sketch.select_bandwidth(criterion=criterion)
            whole = ra.select_bandwidth(y, p, criterion=criterion)
            np.testing.assert_array_equal(found.value, whole.value)
        found = sketch.calibration_test(n_draws=99)
        whole = ra.calibration_test(y, p, n_draws=99)
        assert (found.p_value, found.n_samples) == (whole.p_value, 800)
        assert found.parts == whole.parts

    def test_the_curve_behind_an_error(self):
        y, p = made(500, 3)
        whole = ra.calibration_error(y, p).reliability_curve([0.2, 0.7])
        sketch = sketch_of(y, p, size=100)
        for found in (
            sketch.calibration_error().reliability_curve([0.2, 0.7]),
            sketch.reliability_curve(grid=[0.2, 0.7]),
        ):
            np.testing.assert_allclose(found.conditional, whole.conditional, rtol=1e-9)


class TestOrder:
    """Neither the order of the rows nor their division into batches or sketches matters."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("exact_limit", [None, 100])
    @pytest.mark.parametrize("notion", NOTIONS)
    def test_any_order_and_partition(self, notion, exact_limit, weighted):
        y, p = made(400, CLASSES[notion])
        rng = np.random.default_rng(1)
        weights = rng.uniform(0.5, 2, 400) if weighted else None
        one = sketch_of(y, p, weights, notion=notion, exact_limit=exact_limit)
        assert one.is_exact == (exact_limit is None)
        expected = one.calibration_error(confidence=0.95)
        order = rng.permutation(400)
        parts = [
            sketch_of(
                y[rows],
                p[rows],
                None if weights is None else weights[rows],
                size=31,
                notion=notion,
                exact_limit=exact_limit,
            )
            for rows in np.split(order, [7, 8, 250])
        ]
        merged = parts[2] + parts[0] + parts[3] + parts[1]
        assert merged.n_samples == 400
        found = merged.calibration_error(confidence=0.95)
        if not weighted:
            assert merged.to_bytes() == one.to_bytes()
            assert (found.value, found.interval) == (expected.value, expected.interval)
        agree(found, expected)

    @pytest.mark.parametrize("size", [1, 2, 3, 999, 1000, 5000])
    def test_the_size_of_batches_does_not_matter(self, size):
        y, p = made(1000, 3)
        options = {"notion": "top-label", "estimator": "debiased", "bandwidth": 0.05}
        one = ra.calibration_error_of_batches([(y, p)], **options)
        many = ra.calibration_error_of_batches(split(y, p, size), **options)
        assert many.value == one.value

    def test_an_iterator_is_read_once(self):
        y, p = made(300, 3)
        found = ra.calibration_error_of_batches(iter(split(y, p, 100)), bandwidth=0.1)
        assert found.value == ra.calibration_error(y, p, bandwidth=0.1).value


class TestBeyondTheLimit:
    """Counts of rounded probabilities, and a sample of the rows."""

    @pytest.mark.parametrize("tenths", [False, True])
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("notion", ["binary", "top-label", "classwise"])
    def test_values_move_by_less_than_a_fiftieth_of_a_standard_error(self, notion, family, tenths):
        y, p = made(4000, CLASSES[notion], family, tenths=tenths)
        for loss in ("l2", "kl"):
            whole = ra.calibration_error(y, p, notion=notion, loss=loss, confidence=0.95)
            sketch = sketch_of(y, p, size=1000, notion=notion, exact_limit=0)
            assert not sketch.is_exact
            if notion == "classwise":
                found = sketch.calibration_error(loss=loss)
            else:
                found = sketch.calibration_error(loss=loss, confidence=0.95)
                assert found.standard_error == pytest.approx(whole.standard_error, rel=0.25)
            assert abs(found.value - whole.value) < 0.02 * whole.standard_error
            assert found.risk == pytest.approx(whole.risk, rel=1e-3)
            assert found.n_samples == 4000

    @pytest.mark.parametrize(("n_classes", "concentration"), [(2, 20), (2, 2000), (20, 50)])
    def test_many_rows_in_few_cells(self, n_classes, concentration):
        """Labels of a cell are not told apart by where in the cell their rows lie."""
        rng = np.random.default_rng(8)
        p = rng.dirichlet(np.full(n_classes, float(concentration)), 8000)
        y = (np.cumsum(p, axis=1)[:, :-1] < rng.random((8000, 1))).sum(axis=1)
        whole = ra.calibration_error(y, p, confidence=0.95)
        sketch = ra.CalibrationSketch(classes=n_classes, exact_limit=0).update(y, p)
        found = sketch.calibration_error()
        assert abs(found.value - whole.value) < 0.05 * whole.standard_error
        assert abs(found.value) < 4 * whole.standard_error

    @pytest.mark.parametrize(
        ("estimator", "bandwidth"), [("plugin", 0.01), ("cross", 0.1), ("debiased", 0.05)]
    )
    @pytest.mark.parametrize("notion", ["binary", "top-label", "classwise"])
    def test_given_bandwidths(self, notion, estimator, bandwidth):
        y, p = made(6000, CLASSES[notion])
        options = {"estimator": estimator, "bandwidth": bandwidth}
        whole = ra.calibration_error(y, p, notion=notion, **options)
        sketch = sketch_of(y, p, size=1000, notion=notion, exact_limit=500)
        found = sketch.calibration_error(**options)
        assert found.value == pytest.approx(whole.value, rel=1e-2, abs=1e-5)
        np.testing.assert_allclose(
            found.overconfidence.per_class, whole.overconfidence.per_class, atol=1e-4
        )

    def test_intervals_of_classes_come_from_some_rows(self):
        y, p = made(4000, 3)
        whole = ra.calibration_error(y, p, confidence=0.95)
        found = sketch_of(y, p, exact_limit=1500).calibration_error(confidence=0.95)
        assert abs(found.value - whole.value) < 0.02 * whole.standard_error
        assert found.standard_error == pytest.approx(whole.standard_error, rel=0.25)

    def test_canonical_errors_come_from_some_rows(self):
        y, p = made(3000, 3)
        found = sketch_of(y, p, notion="canonical", exact_limit=1000).calibration_error(
            confidence=0.95
        )
        whole = ra.calibration_error(y, p, notion="canonical", confidence=0.95)
        assert found.n_samples == 1000
        assert abs(found.value - whole.value) < 4 * found.standard_error

    def test_curves_and_tests(self):
        data = ra.datasets.temperature(6000, 3, t2=0.4, seed=0)
        y, p = data.y_true, data.y_prob
        sketch = sketch_of(y, p, size=1000, exact_limit=800)
        grid = np.linspace(0.05, 0.95, 19)
        options = {"estimator": "debiased", "bandwidth": 0.05, "start": "logistic"}
        found = sketch.reliability_curve(grid=grid, **options)
        whole = ra.reliability_curve(y, p, grid=grid, **options)
        np.testing.assert_allclose(found.conditional, whole.conditional, atol=1e-3)
        np.testing.assert_allclose(found.nearby_samples, whole.nearby_samples, rtol=2e-2)
        test = sketch.calibration_test(n_draws=19)
        assert test.n_samples == 800
        assert test.p_value == 0.05
        values = sketch.select_bandwidth().value / ra.select_bandwidth(y, p).value
        np.testing.assert_allclose(values, 1, rtol=0.1)

    def test_a_thousand_million_rows(self):
        """A sketch that is merged with itself: the error of one copy, known ever more exactly."""
        for exact_limit in (None, 50):
            y, p = made(1000, 3)
            sketch = sketch_of(y, p, exact_limit=exact_limit)
            for _ in range(21):
                sketch = sketch + sketch
            assert sketch.n_samples == 1000 * 2**21
            found = sketch.calibration_error(confidence=0.95)
            low, high = found.interval
            assert np.isfinite([found.value, low, high, found.standard_error]).all()
            assert 0 < low <= found.value <= high
            assert 0 < found.standard_error < 1e-3
            assert all(np.isfinite(list(sketch.scores.values())))
            assert np.isfinite(sketch.reliability_curve(grid=[0.1, 0.4]).conditional).all()
            assert sketch.calibration_test(n_draws=19).p_value == 0.05
            assert sketch.nbytes < 10_000_000

    @pytest.mark.parametrize("estimator", ["plugin", "debiased"])
    def test_memory_does_not_grow_with_the_rows(self, estimator):
        options = {"estimator": estimator, "bandwidth": 0.05}
        ra.calibration_error_of_batches(Made(2, 20_000), **options)  # nodes are made once
        peaks = []
        for n_batches in (3, 20):
            tracemalloc.start()
            ra.calibration_error_of_batches(Made(n_batches, 20_000), **options)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < 1.2 * peaks[0]


class Made:
    """Batches that are made as they are read."""

    def __init__(self, n_batches, size):
        self.n_batches, self.size = n_batches, size

    def __iter__(self):
        for seed in range(self.n_batches):
            rng = np.random.default_rng(seed)
            p = rng.random(self.size)
            yield (rng.random(self.size) < p).astype(np.int8), p


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
    found = ra.calibration_error_of_batches(split(y, p, 700), engine="grid", **options)
    agree(found, whole)
    rounded = sketch_of(y, p, size=700, exact_limit=0).calibration_error(**options)
    assert rounded.risk == pytest.approx(whole.risk, rel=1e-3)
    assert np.isfinite(rounded.value)


class TestTopLabel:
    """A sketch of whole rows knows the top label too."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("tenths", [False, True])
    @pytest.mark.parametrize("notion", ["classwise", "canonical"])
    @pytest.mark.parametrize("exact_limit", [None, 200])
    def test_it_is_that_of_a_top_label_sketch(self, notion, exact_limit, tenths, weighted):
        y, p = made(1200, 3, tenths=tenths)
        weights = np.random.default_rng(0).uniform(10, 30, 1200) if weighted else None
        wide = sketch_of(y, p, weights, notion=notion, exact_limit=exact_limit, size=500)
        limit = exact_limit if not wide.is_exact else None
        narrow = sketch_of(
            y, p, weights, notion="top-label", exact_limit=0 if limit else None, size=500
        )
        found = wide.calibration_error(notion="top-label", confidence=0.95)
        agree(found, narrow.calibration_error(confidence=0.95))
        curve = wide.reliability_curve(notion="top-label", grid=9)
        np.testing.assert_allclose(
            curve.conditional, narrow.reliability_curve(grid=9).conditional, rtol=1e-9
        )

    def test_it_is_that_of_the_rows(self):
        y, p = made(700, 3)
        found = sketch_of(y, p).calibration_error(notion="top-label", confidence=0.95)
        whole = ra.calibration_error(y, p, notion="top-label", confidence=0.95)
        assert (found.value, found.interval) == (whole.value, whole.interval)

    def test_other_notions_need_another_sketch(self):
        y, p = made(50, 3)
        for mine, asked in (
            ("classwise", "canonical"),
            ("canonical", "classwise"),
            ("top-label", "classwise"),
        ):
            with pytest.raises(ValueError, match=f"Make the sketch with notion='{asked}'"):
                sketch_of(y, p, notion=mine).calibration_error(notion=asked)


class TestScores:
    """Against plain numpy."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("exact_limit", [None, 0])
    @pytest.mark.parametrize("notion", NOTIONS)
    def test_they_are_those_of_the_rows(self, notion, exact_limit, weighted):
        y, p = made(2000, CLASSES[notion])
        w = np.random.default_rng(0).uniform(0.1, 3, 2000) if weighted else np.ones(2000)
        sketch = sketch_of(
            y, p, w if weighted else None, notion=notion, exact_limit=exact_limit, size=300
        )
        w = w / w.sum()
        top = p.max(axis=1)
        right = (p.argmax(axis=1) == y).astype(float)
        shown, came = (p[:, 1], y) if notion == "binary" else (top, right)
        bins = np.minimum((shown * 15).astype(int), 14)
        one_hot = np.eye(p.shape[1])[y]
        brier = (p[:, 1] - y) ** 2 if notion == "binary" else ((p - one_hot) ** 2).sum(axis=1)
        expected = {
            "accuracy": w @ right,
            "confidence": w @ top,
            "log_loss": w @ -np.log(p[np.arange(2000), y]),
            "brier": w @ brier,
            "ece": np.abs(np.bincount(bins, w * (shown - came), 15)).sum(),
        }
        # Differences within bins are of sums of rounded offsets.
        assert sketch.scores.pop("ece") == pytest.approx(expected["ece"], rel=1e-7)
        del expected["ece"]
        found = {name: sketch.scores[name] for name in expected}
        assert found == pytest.approx(expected, rel=1e-9 if exact_limit is None else 1e-6)

    def test_they_are_of_all_rows_of_all_parts(self):
        y, p = made(900, 3)
        parts = [sketch_of(y[i::2], p[i::2], exact_limit=100) for i in range(2)]
        assert (parts[0] + parts[1]).scores == pytest.approx(sketch_of(y, p).scores, rel=1e-9)

    @pytest.mark.parametrize("notion", NOTIONS)
    def test_an_empty_sketch_has_none(self, notion):
        with pytest.raises(ValueError, match="sketch is empty"):
            _ = ra.CalibrationSketch(notion, CLASSES[notion]).scores


class TestState:
    def test_updates_return_the_sketch_itself(self):
        sketch = ra.CalibrationSketch()
        assert sketch.update([0, 1], [0.2, 0.7]) is sketch
        assert sketch.n_samples == 2

    def test_merging_changes_the_first_alone(self):
        y, p = made(300, 3)
        a, b = sketch_of(y[:100], p[:100]), sketch_of(y[100:], p[100:])
        bytes_of_b = b.to_bytes()
        total = a + b
        assert (a.n_samples, b.n_samples, total.n_samples) == (100, 200, 300)
        assert a.merge(b) is a
        assert a.n_samples == 300
        assert a.to_bytes() == total.to_bytes() == sketch_of(y, p).to_bytes()
        assert b.to_bytes() == bytes_of_b
        assert a.merge(a).n_samples == 600

    def test_copies_are_filled_on_their_own(self):
        y, p = made(200, 3)
        sketch = sketch_of(y[:100], p[:100])
        twin = sketch.copy()
        twin.update(y[100:], p[100:])
        assert (sketch.n_samples, twin.n_samples) == (100, 200)
        assert sketch.to_bytes() == sketch_of(y[:100], p[:100]).to_bytes()
        assert twin.calibration_error().value == ra.calibration_error(y, p).value

    @pytest.mark.parametrize("exact_limit", [None, 60, 0])
    @pytest.mark.parametrize("notion", NOTIONS)
    def test_bytes_hold_the_sketch(self, notion, exact_limit):
        y, p = made(200, CLASSES[notion])
        weights = np.random.default_rng(0).uniform(1, 2, 200)
        sketch = sketch_of(y, p, weights, notion=notion, exact_limit=exact_limit)
        twin = ra.CalibrationSketch.from_bytes(sketch.to_bytes())
        assert twin.to_bytes() == sketch.to_bytes()
        assert (twin.notion, twin.classes, twin.n_samples, twin.is_exact) == (
            sketch.notion,
            sketch.classes,
            sketch.n_samples,
            sketch.is_exact,
        )
        assert twin.scores == sketch.scores
        if notion != "canonical" or exact_limit != 0:
            assert twin.calibration_error().value == sketch.calibration_error().value
        twin.update(y, p)
        assert twin.n_samples == 400
        assert sketch.n_samples == 200

    def test_bytes_of_something_else(self):
        blob = ra.CalibrationSketch().update([0, 1], [0.2, 0.7]).to_bytes()
        for wrong in (b"", b"something else", blob[:-1], blob[:40] + b"\0" + blob[41:]):
            with pytest.raises(SketchFormatError):
                ra.CalibrationSketch.from_bytes(wrong)

    def test_names_of_classes(self):
        y, p = made(300, 3)
        names = ["cat", "dog", "owl"]
        labels = np.array(names, dtype=object)[y]
        sketch = ra.CalibrationSketch(classes=names).update(labels, p)
        assert sketch.classes == ("cat", "dog", "owl")
        found = sketch.calibration_error()
        assert found.classes == ("cat", "dog", "owl")
        assert found.value == ra.calibration_error(y, p).value
        again = ra.CalibrationSketch.from_bytes(sketch.to_bytes()).update(labels, p)
        assert again.n_samples == 600
        with pytest.raises(ValueError, match="newt"):
            sketch.update(["newt"] * 300, p)
        assert sketch.n_samples == 300

    def test_names_and_logits_in_batches(self):
        y, p = made(500, 3)
        names = ["a", "b", "c"]
        labels = np.array(names, dtype=object)[y]
        found = ra.calibration_error_of_batches(
            split(labels, np.log(p), 200),
            classes=names,
            from_logits=True,
            bandwidth=0.05,
            estimator="plugin",
        )
        whole = ra.calibration_error(y, p, bandwidth=0.05, estimator="plugin")
        assert found.classes == ("a", "b", "c")
        assert found.value == pytest.approx(whole.value, rel=1e-9)

    def test_forms_of_rows(self):
        y, p = made(300, 3)
        sketch = sketch_of(y, p)
        rescaled = ra.CalibrationSketch(classes=3).update(y, 2 * p, normalize=True)
        assert rescaled.calibration_error().value == pytest.approx(
            sketch.calibration_error().value, rel=1e-9
        )
        marked = np.where(np.arange(300) < 30, -1, y)
        some = ra.CalibrationSketch(classes=3).update(marked, p, ignore_index=-1)
        assert some.to_bytes() == sketch_of(y[30:], p[30:]).to_bytes()

    def test_an_empty_update_changes_nothing(self):
        y, p = made(100, 3)
        sketch = sketch_of(y, p)
        before = sketch.to_bytes()
        sketch.update(np.empty(0, int), np.empty((0, 3)))
        assert sketch.to_bytes() == before
        sketch.update(np.empty(0, int), np.empty((0, 3)), sample_weight=np.empty(0))
        assert sketch.to_bytes() == before

    def test_a_batch_of_one_row(self):
        found = ra.calibration_error_of_batches([([0], [0.2]), ([1], [0.7])], estimator="plugin")
        assert found.n_samples == 2
        assert np.isfinite(found.value)

    def test_what_it_says_of_itself(self):
        sketch = ra.CalibrationSketch(classes=3, exact_limit=1)
        assert "classwise" in repr(sketch)
        assert "exact" in repr(sketch)
        sketch.update([0, 1, 2], np.eye(3) * 0.4 + 0.2)
        assert "rounded" in repr(sketch)
        assert "n_samples=3" in repr(sketch)

    def test_its_size_is_bounded(self):
        sizes = []
        sketch = ra.CalibrationSketch(exact_limit=1000)
        for y, p in Made(12, 20_000):
            sizes.append(sketch.update(y, p).nbytes)
        assert max(sizes) < 500_000
        assert len(sketch.to_bytes()) < 300_000


class TestErrors:
    def test_too_few_rows(self):
        for sketch in (ra.CalibrationSketch(), ra.CalibrationSketch().update([1], [0.7])):
            for ask in (
                sketch.calibration_error,
                sketch.select_bandwidth,
                sketch.reliability_curve,
                sketch.calibration_test,
            ):
                with pytest.raises(ValueError, match="At least two samples"):
                    ask()

    def test_rows_without_weight(self):
        sketch = ra.CalibrationSketch().update([0, 1, 1], [0.2, 0.7, 0.8], sample_weight=[0, 1, 0])
        with pytest.raises(ValueError, match="rows of weight 0 do not count"):
            sketch.calibration_error()

    def test_other_settings(self):
        one = ra.CalibrationSketch(classes=3)
        for other, name in (
            (ra.CalibrationSketch(notion="canonical", classes=3), "notion"),
            (ra.CalibrationSketch(classes=4), "classes"),
            (ra.CalibrationSketch(classes=["a", "b", "c"]), "classes"),
            (ra.CalibrationSketch(classes=3, exact_limit=7), "limit"),
            (ra.CalibrationSketch(classes=3, bits=8), "bits"),
        ):
            with pytest.raises(ValueError, match=f"settings are the same; `{name}`"):
                one.merge(other)
            with pytest.raises(ValueError, match=f"settings are the same; `{name}`"):
                one + other
        with pytest.raises(TypeError, match="merge with sketches"):
            one.merge(b"bytes")
        with pytest.raises(TypeError):
            one + 1

    def test_other_numbers_of_classes(self):
        sketch = ra.CalibrationSketch(classes=3)
        with pytest.raises(ValueError, match="must have the sketch's 3 classes; found 4"):
            sketch.update([0, 1], np.full((2, 4), 0.25))
        with pytest.raises(ValueError, match="must have the sketch's 3 classes; found 2"):
            sketch.update([0, 1], [0.5, 0.5])
        assert sketch.n_samples == 0
        batches = [([0, 1], np.full((2, 2), 0.5)), ([0, 1], np.full((2, 4), 0.25))]
        with pytest.raises(ValueError, match=r"In the rows from 2 on: .*2 classes; found 4"):
            ra.calibration_error_of_batches(batches)

    @pytest.mark.parametrize("classes", [1, 0, -3, [], ["a"], ["a", "a"], [1, "1"]])
    def test_bad_classes(self, classes):
        with pytest.raises(ValueError, match="`classes` must be a number from 2 to"):
            ra.CalibrationSketch(classes=classes)

    @pytest.mark.parametrize("classes", ["ab", [["a"], ["b"]]])
    def test_classes_that_no_label_can_be(self, classes):
        with pytest.raises(TypeError, match="`classes` must"):
            ra.CalibrationSketch(classes=classes)

    @pytest.mark.parametrize("limit", [-1, 2.5, "many", True, 2**43 + 1])
    def test_bad_limits(self, limit):
        with pytest.raises(ValueError, match="`exact_limit` must be a number of rows"):
            ra.CalibrationSketch(exact_limit=limit)

    @pytest.mark.parametrize("limit", [7, 2**43])
    def test_the_largest_limit_and_numbers_of_numpy(self, limit):
        y, p = made(50, 2)
        plain = sketch_of(y, p, exact_limit=limit, bits=8).to_bytes()
        assert sketch_of(y, p, exact_limit=np.int64(limit), bits=np.int8(8)).to_bytes() == plain
        assert ra.CalibrationSketch.from_bytes(plain).to_bytes() == plain

    @pytest.mark.parametrize("bits", [0, -1, 17, 2.5, "ten", True])
    def test_bad_bits(self, bits):
        with pytest.raises(ValueError, match="`bits` must lie between 4 and 16"):
            ra.CalibrationSketch(bits=bits)

    def test_bad_notions(self):
        with pytest.raises(ValueError, match="`notion` must be one of"):
            ra.CalibrationSketch(notion="joint")
        with pytest.raises(ValueError, match="binary"):
            ra.CalibrationSketch(notion="binary", classes=3)

    def test_exact_sums_need_all_rows(self):
        y, p = made(100, 3)
        assert np.isfinite(sketch_of(y, p).calibration_error(engine="exact").value)
        with pytest.raises(ValueError, match="needs all rows, and this sketch holds a part"):
            sketch_of(y, p, exact_limit=50).calibration_error(engine="exact")

    def test_questions_about_rows_of_sketches_without_any(self):
        y, p = made(100, 3)
        sketch = sketch_of(y, p, notion="canonical", exact_limit=0)
        for ask in (sketch.calibration_error, sketch.reliability_curve, sketch.calibration_test):
            with pytest.raises(ValueError, match="exact_limit"):
                ask()
        assert np.isfinite(sketch.calibration_error(notion="top-label").value)
        sketch = sketch_of(y, p, exact_limit=0)
        with pytest.raises(ValueError, match="exact_limit"):
            sketch.calibration_error(confidence=0.95)
        with pytest.raises(ValueError, match="exact_limit"):
            sketch.calibration_test()

    def test_rows_without_weight_take_no_room(self):
        rng = np.random.default_rng(0)
        y, w = [1, 0, 0, 0, 1, 0, 0, 1], [2.0, 0, 0, 2, 0, 0, 2, 0]
        p = rng.dirichlet(np.ones(2), 8)
        sketch = ra.CalibrationSketch("classwise", 2, exact_limit=5)
        result = sketch.update(y, p, sample_weight=w).calibration_error(confidence=0.95)
        assert np.isfinite(result.interval).all()
        assert result.n_samples == 3
        y, p = made(3000, 3)
        weights = np.zeros(3000)
        weights[[5, 700, 2500]] = 1.0, 2.0, 0.5
        for notion in ("classwise", "canonical"):
            sketch = ra.CalibrationSketch(notion, 3, exact_limit=1000)
            sketch.update(y, p, sample_weight=weights)
            assert np.isfinite(sketch.calibration_error(confidence=0.95).interval).all()
            assert 0 < sketch.calibration_test(n_draws=19).p_value <= 1

    def test_too_few_rows_are_kept(self):
        p = np.full((40, 4), 0.25)
        sketch = ra.CalibrationSketch("canonical", 4, exact_limit=3).update(np.arange(40) % 4, p)
        with pytest.raises(ValueError, match="holds none, as it was made with exact_limit=3"):
            sketch.calibration_error()
        sketch = ra.CalibrationSketch("canonical", 4, exact_limit=3)
        sketch.update(np.arange(40) % 4, p, sample_weight=np.zeros(40))
        with pytest.raises(ValueError, match="rows of weight 0 do not count"):
            sketch.calibration_error()

    def test_a_kept_row_that_outweighs_the_others(self):
        y, p = made(500, 3)
        for notion in ("classwise", "canonical"):
            sketch = ra.CalibrationSketch(notion, 3, exact_limit=50).update(y, p)
            kept = sketch._state.rows.find(p, y) >= 0
            weights = np.where(np.arange(500) == np.flatnonzero(kept)[0], 1.0, 1e-14)
            weights[~kept] = 1.0
            sketch = ra.CalibrationSketch(notion, 3, exact_limit=50)
            sketch.update(y, p, sample_weight=weights)
            with pytest.raises(ValueError, match="of the rows that are kept one outweighs"):
                sketch.calibration_error(confidence=0.95)

    def test_bad_rows_leave_the_sketch_as_it_was(self):
        sketch = ra.CalibrationSketch().update([0, 1], [0.2, 0.7])
        before = sketch.to_bytes()
        for y, p, weights in (
            ([0, 1], [0.2, np.nan], None),
            ([0, 3], [0.2, 0.3], None),
            ([0, 1], [0.2, 1.3], None),
            ([0, 1], [0.2, 0.3], [1.0, -1.0]),
            ([0, 1], [0.2, 0.3], [1.0, np.inf]),
        ):
            with pytest.raises(ValueError, match=r"y_prob|y_true|sample_weight"):
                sketch.update(y, p, sample_weight=weights)
        assert sketch.to_bytes() == before

    def test_no_rows(self):
        with pytest.raises(ValueError, match="no rows"):
            ra.calibration_error_of_batches([])

    def test_bad_rows_are_placed(self):
        p = np.full(100, 0.5)
        p[57] = np.nan
        with pytest.raises(ValueError, match="In the rows from 50 on: `y_prob` holds NaN"):
            ra.calibration_error_of_batches(split(np.zeros(100), p, 10), estimator="plugin")

    def test_confidence_needs_the_debiased_estimator(self):
        y, p = made(100, 3)
        with pytest.raises(ValueError, match="needs estimator='debiased'"):
            sketch_of(y, p).calibration_error(estimator="plugin", confidence=0.9)


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
    whole = ra.calibration_error(y, p, **options)
    found = ra.calibration_error_of_batches(split(y, p, 3000), **options)
    # A fiftieth of what chance does to the estimate, where that is known.
    chance = 0.02 * (whole.standard_error or 0.0)
    assert found.value == pytest.approx(whole.value, rel=1e-3, abs=chance)


@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_a_probability_above_one_by_rounding_is_read_back(notion):
    sketch = ra.CalibrationSketch(notion, 2).update([0, 1, 1, 0], [0.0, 1.0005, 0.3, 1.0])
    again = ra.CalibrationSketch.from_bytes(sketch.to_bytes())
    assert again.calibration_error().value == sketch.calibration_error().value


def test_numbers_of_classes_and_labels_by_name():
    rng = np.random.default_rng(3)
    y, p = rng.choice([10, 20, 30], 50), rng.dirichlet(np.ones(3), 50)
    assert ra.CalibrationSketch("classwise", np.int64(3)).classes == ("0", "1", "2")
    for wrong in (3.0, 1, 10**9):
        with pytest.raises(ValueError, match="`classes` must be a number from 2 to"):
            ra.CalibrationSketch("classwise", wrong)
    sketch = ra.CalibrationSketch("classwise", [10, 20, 30]).update(y, p)
    restored = ra.CalibrationSketch.from_bytes(sketch.to_bytes())
    both = restored.update(y, p).update(y.astype(str), p)
    assert both.to_bytes() == sketch.update(y, p).update(y, p).to_bytes()


def test_questions_that_no_sketch_knows():
    sketch = ra.CalibrationSketch().update([0, 1, 1], [0.2, 0.7, 0.9])
    with pytest.raises(ValueError, match="`notion` must be one of"):
        sketch.calibration_error(notion="binnary")
    with pytest.raises(TypeError, match="made from bytes; found str"):
        ra.CalibrationSketch.from_bytes("abc")
