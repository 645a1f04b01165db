import io
import pickle

import numpy as np
import pytest
import torch
import torchmetrics

import riskalign as ra
from riskalign.data.cells import Cells
from riskalign.torch import CalibrationError, totals
from riskalign.torch.counts import CellTables, bits_of, encode

NOTIONS = ("binary", "top-label", "classwise", "canonical")


def rows(n, n_classes, seed=0, dtype=torch.float32, scale=2.0):
    """Over-confident predictions, some exactly one-hot, some twice, some exactly 1/2."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, n_classes, generator=generator, dtype=dtype)
    p = logits.softmax(1)
    y = torch.multinomial((0.8 * logits).softmax(1), 1, generator=generator)[:, 0]
    some = n // 10
    p[:some] = torch.eye(n_classes, dtype=dtype)[y[:some].roll(1)]
    p[some : 2 * some], y[some : 2 * some] = p[2 * some : 3 * some], y[2 * some : 3 * some]
    p[-2:] = torch.eye(n_classes, dtype=dtype)[:2].mean(0)
    return p, y


def filled(metric, p, y, sizes=(100, 1, 300)):
    start = 0
    for size in (*sizes, len(y)):
        metric.update(p[start : start + size], y[start : start + size])
        start += size
    return metric


def sketch_of(notion, n_classes, p, y, **options):
    sketch = ra.CalibrationSketch(notion, n_classes, **options)
    return sketch.update(y.numpy(), p.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_its_state_is_that_of_a_sketch_to_the_bit(notion, n_classes, dtype):
    if notion == "binary" and n_classes != 2:
        pytest.skip("binary errors have two classes")
    p, y = rows(800, n_classes, dtype=dtype, scale=4)
    for limit in (0, 40, 5000):  # no rows, some of them, all of them
        metric = filled(CalibrationError(notion, n_classes, exact_limit=limit), p, y)
        expected = sketch_of(notion, n_classes, p, y, exact_limit=limit)
        assert metric.sketch().to_bytes() == expected.to_bytes()
        assert metric.sketch().scores == expected.scores


@pytest.mark.parametrize("limit", [0, 50])
@pytest.mark.parametrize("notion", NOTIONS)
def test_probabilities_above_one_by_rounding(notion, limit):
    p, y = torch.tensor([1.0005, 0.3, 0.9]), torch.tensor([1, 0, 1])
    if notion != "binary":
        p = torch.stack([(1 - p).clamp(min=0), p], 1)
    metric = CalibrationError(notion, np.int64(2), exact_limit=limit)
    metric.update(p, y)
    assert metric.sketch().to_bytes() == sketch_of(notion, 2, p, y, exact_limit=limit).to_bytes()


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_cells_are_those_of_the_numpy_core(bits):
    ends = np.array([0, 5e-324, 1e-310, 2**-31, 2**-30, 1e-9, 0.5, 1 - 2**-24, 1], dtype=np.float64)
    edges = np.linspace(0, 1, 8)
    near = np.concatenate([edges, np.nextafter(edges, 2), np.nextafter(edges, -1)]).clip(0, 1)
    random = np.random.default_rng(0).random(2000) ** 8
    wide = np.concatenate([ends, 1 - ends, near, random, 1 - random])
    narrow = np.concatenate([wide.astype(np.float32), np.float32([1e-45, 1e-40])])
    cells = Cells(bits, 7)
    tables = CellTables.of(cells)
    for p in (wide, narrow):
        x = torch.from_numpy(p)
        np.testing.assert_array_equal(
            bits_of(x).numpy(), (p.astype(np.float64) + 0.0).view(np.int64)
        )
        found = encode(x, cells, tables.edges_for(x.dtype), tables.parts)
        expected = cells.encode(p.astype(np.float64))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.parametrize("notion", NOTIONS[:3])
@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_it_is_close_to_the_error_of_all_rows(notion, loss):
    n_classes = 2 if notion == "binary" else 4
    data = ra.datasets.temperature(8_000, n_classes, t2=0.7, seed=1)
    metric = CalibrationError(notion, n_classes, loss)
    metric.update(torch.from_numpy(data.y_prob).float(), torch.from_numpy(data.y_true))
    whole = ra.calibration_error(
        data.y_true, data.y_prob, notion=notion, loss=loss, confidence=0.95
    )
    assert abs(float(metric.compute()) - whole.value) < 0.02 * whole.standard_error


def test_canonical_errors_come_from_the_row_sample():
    p, y = rows(600, 3)
    exact = CalibrationError("canonical", 3)
    exact.update(p, y)
    expected = ra.calibration_error(y.numpy(), p.numpy(), notion="canonical").value
    assert float(exact.compute()) == pytest.approx(expected, rel=1e-6)
    part = filled(CalibrationError("canonical", 3, exact_limit=200), p, y)
    assert part.compute_result().n_samples < 400
    assert part.compute_result(confidence=0.95).interval[0] < expected
    assert part.rows.shape == (2, 201, 6)


def test_the_state_does_not_grow():
    metric = CalibrationError("classwise", 3, exact_limit=50)
    sizes = []
    for seed in range(3):
        metric.update(*rows(1000, 3, seed))
        sizes.append([getattr(metric, name).shape for name in metric._defaults])
    assert sizes[0] == sizes[1] == sizes[2]
    assert int(metric.n_rows) == 3000
    large = CalibrationError("top-label", 1000)
    assert sum(getattr(large, name).nbytes for name in large._defaults) < 1e6


def test_images_and_ignored_labels():
    p, y = rows(400, 3)
    y = torch.where(torch.arange(400) % 5 == 0, 255, y)
    metric = CalibrationError("classwise", 3, ignore_index=255, exact_limit=10)
    metric.update(p.reshape(4, 10, 10, 3).movedim(-1, 1), y.reshape(4, 10, 10))
    expected = ra.CalibrationSketch("classwise", 3, exact_limit=10)
    expected.update(y.numpy(), p.numpy(), ignore_index=255)
    assert metric.sketch().to_bytes() == expected.to_bytes()


def test_one_probability_per_row():
    p, y = rows(500, 2)
    metric = CalibrationError()
    metric.update(p[:, 1].reshape(5, 100), y.reshape(5, 100))
    expected = ra.CalibrationSketch(exact_limit=0).update(y.numpy(), p[:, 1].numpy())
    assert metric.sketch().to_bytes() == expected.to_bytes()
    logits = CalibrationError(from_logits=True)
    logits.update(torch.logit(p[:, 1].clamp(0.01, 0.99)), y)
    assert torch.isfinite(logits.compute())


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("notion", [None, "binary"])
def test_one_column_is_one_probability_per_row(notion, from_logits):
    p, y = rows(500, 2)
    given = torch.logit(p[:, 1]) if from_logits else p[:, 1]
    expected = CalibrationError(notion, from_logits=from_logits)
    expected.update(given, y)
    for shape in ((500, 1), (5, 1, 100)):
        for labels in (y.reshape(shape), y.reshape(shape).squeeze(1)):
            metric = CalibrationError(notion, from_logits=from_logits)
            metric.update(given.reshape(shape), labels)
            assert metric.sketch().to_bytes() == expected.sketch().to_bytes()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(500, 3, generator=generator).to(dtype)
    y = torch.randint(3, (500,), generator=generator)
    metric = CalibrationError("classwise", 3, from_logits=True)
    metric.update(logits.requires_grad_(), y)  # a gradient does not matter
    expected = sketch_of("classwise", 3, logits.detach().float().softmax(1), y, exact_limit=0)
    assert metric.sketch().to_bytes() == expected.to_bytes()
    binary = CalibrationError()
    binary.update(logits.detach()[:, 0].sigmoid(), (y > 0).long())
    assert torch.isfinite(binary.compute())


def test_logits_are_never_guessed():
    metric = CalibrationError("top-label", 3)
    metric.update(torch.randn(10, 3), torch.zeros(10).long())
    with pytest.raises(ValueError, match="Pass `from_logits=True` for logits"):
        metric.compute()


def test_bad_rows_are_counted_and_raise_in_compute():
    p, y = rows(100, 3)
    p[3, 1] = torch.nan
    p[4] = torch.tensor([-0.1, 0.6, 0.5])
    p[5:7] *= 0.9
    y[7:10] = 3
    metric = CalibrationError("classwise", 3)
    metric.update(p, y)
    assert metric.bad.tolist() == [1, 1, 2, 3]
    assert int(metric.n_rows) == 93
    for question in (metric.compute, metric.sketch, metric.compute_result):
        with pytest.raises(ValueError, match="Rows that cannot be used") as error:
            question()
        assert "1 with a prediction that is NaN" in str(error.value)
        assert "3 with a label that is not a class number" in str(error.value)
    metric.reset()
    metric.update(*rows(100, 3))
    assert torch.isfinite(metric.compute())


def test_wrong_arguments_raise_at_once():
    p, y = rows(10, 3)
    metric = CalibrationError("classwise", 3)
    with pytest.raises(TypeError, match=r"The order is \(preds, target\)"):
        metric.update(y, p)
    with pytest.raises(TypeError, match="`target` must hold class numbers"):
        metric.update(p, p)
    with pytest.raises(ValueError, match=r"shape \(N, 3, ...\).*found \(10, 2\)"):
        metric.update(p[:, :2], y)
    with pytest.raises(ValueError, match=r"found \(10, 3\) and \(9,\)"):
        metric.update(p, y[:9])
    with pytest.raises(ValueError, match=r"\(N, 2, ...\).*Make .* with `classes=3`\."):
        CalibrationError("top-label").update(p, y)
    with pytest.raises(ValueError, match=r"`classes=3` and another notion than 'binary'\."):
        CalibrationError("binary").update(p, y)
    with pytest.raises(ValueError, match="Use notion='binary' for one prediction per row"):
        metric.update(p[:, :1], y)
    with pytest.raises(ValueError, match=r"found \(10, 1\) and \(9,\)\.$"):
        CalibrationError("binary").update(p[:, :1], y[:9])
    with pytest.raises(ValueError, match="`notion` must be one of"):
        CalibrationError("marginal", 3)
    with pytest.raises(ValueError, match="needs two classes"):
        CalibrationError("binary", 3)


def test_a_metric_prints_what_it_measures():
    assert repr(CalibrationError()) == "CalibrationError(binary, classes=2, l2)"
    own = ra.ProperLoss("own", lambda f: (1 - f) ** 2)
    assert (
        repr(CalibrationError("top-label", 3, own)) == "CalibrationError(top-label, classes=3, own)"
    )


def test_fewer_than_two_rows_give_nan():
    metric = CalibrationError("top-label", 3)
    p, y = rows(20, 3)
    metric.update(p[:1], y[:1])
    assert torch.isnan(metric.compute())
    with pytest.raises(ValueError, match="At least two samples"):
        metric.compute_result()


def test_results_and_sketches():
    p, y = rows(900, 3)
    names = ("cat", "dog", "fox")
    metric = CalibrationError("classwise", names, "kl", exact_limit=2000)
    metric.update(p, y)
    result = metric.compute_result(confidence=0.95)
    whole = ra.calibration_error(
        y.numpy(), p.numpy(), loss="kl", confidence=0.95, notion="classwise"
    )
    assert (result.value, result.interval) == (whole.value, whole.interval)
    assert float(metric.compute()) == pytest.approx(result.value, rel=1e-6)
    assert metric.compute_result(loss="l2").value != result.value
    assert metric.sketch().classes == names
    assert (metric.sketch() + metric.sketch()).n_samples == 1800


def test_forward_gives_the_batch_and_keeps_the_rest():
    p, y = rows(600, 3)
    for limit in (0, 100):
        metric = CalibrationError("classwise", 3, exact_limit=limit)
        first = metric(p[:300], y[:300])
        alone = CalibrationError("classwise", 3, exact_limit=limit)
        alone.update(p[300:], y[300:])
        assert torch.equal(metric(p[300:], y[300:]), alone.compute())
        assert not torch.equal(first, alone.compute())
        expected = sketch_of("classwise", 3, p, y, exact_limit=limit)
        assert metric.sketch().to_bytes() == expected.to_bytes()


def test_a_collection_shares_one_state():
    p, y = rows(500, 3)
    collection = torchmetrics.MetricCollection(
        {
            "l2": CalibrationError("classwise", 3),
            "kl": CalibrationError("classwise", 3, "kl"),
            "top": CalibrationError("top-label", 3),
            "accuracy": torchmetrics.classification.MulticlassAccuracy(3),
        }
    )
    for part in (slice(0, 200), slice(200, 500)):
        collection.update(p[part], y[part])
    found = collection.compute()
    assert ["l2", "kl"] in [sorted(g, reverse=True) for g in collection.compute_groups.values()]
    for name, options in {"l2": ("classwise", 3), "kl": ("classwise", 3, "kl")}.items():
        alone = CalibrationError(*options)
        alone.update(p, y)
        assert torch.equal(found[name], alone.compute())
    clone = collection.clone(prefix="val_")
    clone.reset()
    assert set(clone.keys()) == {"val_l2", "val_kl", "val_top", "val_accuracy"}


def test_reset_state_dict_pickle_and_checkpoints():
    p, y = rows(500, 3)
    metric = filled(CalibrationError("classwise", 3, exact_limit=30), p, y)
    assert metric.state_dict() == {}  # torchmetrics' habit
    metric.persistent(True)
    stored = io.BytesIO()
    torch.save(metric.state_dict(), stored)
    stored.seek(0)
    again = CalibrationError("classwise", 3, exact_limit=30)
    again.load_state_dict(torch.load(stored, weights_only=True))
    again.update(p[:5], y[:5])
    metric.update(p[:5], y[:5])
    assert again.sketch().to_bytes() == metric.sketch().to_bytes()
    assert pickle.loads(pickle.dumps(metric)).sketch().to_bytes() == metric.sketch().to_bytes()
    assert torch.equal(metric.to("cpu").half().compute(), again.compute())
    metric.reset()
    assert int(metric.n_rows) == 0
    assert (
        metric.sketch().to_bytes()
        == ra.CalibrationSketch("classwise", 3, exact_limit=30).to_bytes()
    )


def test_plot():
    import matplotlib

    matplotlib.use("agg")
    metric = filled(CalibrationError("top-label", 3), *rows(300, 3))
    figure, axes = metric.plot()
    assert len(axes.get_lines()) >= 1
    matplotlib.pyplot.close(figure)


def test_a_loop_in_the_manner_of_lightning():
    """A module with metrics as attributes, logged at the end of each epoch, then reset."""
    torch.manual_seed(0)

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)
            self.calibration = CalibrationError("top-label", 3, from_logits=True)

    x = torch.randn(400, 4)
    y = (x[:, :3] + torch.randn(400, 3)).argmax(1)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    logged = []
    for _ in range(3):
        for part in torch.randperm(400).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model.layer(x[part]), y[part]).backward()
            optimizer.step()
        with torch.no_grad():
            for part in torch.arange(400).split(64):
                model.calibration.update(model.layer(x[part]), y[part])
        logged.append(model.calibration.compute())
        assert int(model.calibration.n_rows) == 400
        model.calibration.reset()
    assert len(set(map(float, logged))) == 3
    assert "calibration.cells" not in model.state_dict()


@pytest.mark.parametrize("name", ["_add", "update"])
@pytest.mark.parametrize(("notion", "limit"), [("classwise", 60), ("top-label", 0)])
def test_update_compiles_as_one_graph(notion, limit, name):
    """So does torchmetrics' wrapper around it."""
    p, y = rows(300, 3)
    metric = CalibrationError(notion, 3, exact_limit=limit)
    compiled = torch.compile(getattr(metric, name), backend="aot_eager", fullgraph=True)
    for part in (slice(0, 100), slice(100, 200), slice(200, 300)):
        compiled(p[part], y[part])
    expected = sketch_of(notion, 3, p, y, exact_limit=limit)
    assert metric.sketch().to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("limit", [0, 40])
def test_update_does_not_wait_for_the_device(notion, limit):
    # Tensors of the device "meta" have no numbers: reading one on the host would be an error.
    n_classes = 2 if notion == "binary" else 3
    metric = CalibrationError(
        notion, n_classes, exact_limit=limit, from_logits=True, ignore_index=-1
    ).to("meta")
    logits = torch.empty(100, n_classes, device="meta")
    metric.update(logits, torch.empty(100, dtype=torch.int64, device="meta"))
    assert metric.n_rows.device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("notion", NOTIONS[1:])
def test_probabilities_of_narrow_types(notion, dtype):
    p, y = rows(600, 3)
    p = p.to(dtype)
    metric = CalibrationError(notion, 3, exact_limit=1000)
    metric.update(p, y)
    assert metric.bad.tolist() == [0, 0, 0, 0]
    expected = ra.calibration_error(y, p, notion=notion).value
    assert float(metric.compute()) == pytest.approx(expected, rel=1e-6)
    wide = CalibrationError(notion, 3)
    wide.update(p.float(), y)
    assert (int(wide.bad[2]) > 100) == (dtype == torch.bfloat16)  # float32 is held to more
    metric.update(1.02 * p[:5], y[:5])
    assert int(metric.bad.sum()) == 5


@pytest.mark.parametrize("change", ["set_dtype", "half", "double"])
def test_counts_stay_whole_numbers(change):
    p, y = rows(3000, 3)
    p[:] = p[0]  # one cell with more rows than float16 counts exactly
    metric = CalibrationError("classwise", 3, exact_limit=40)
    metric.update(p, y)
    options = (torch.float16,) if change == "set_dtype" else ()
    getattr(metric, change)(*options)
    metric.update(p, y)
    whole = CalibrationError("classwise", 3, exact_limit=40)
    for _ in range(2):
        whole.update(p, y)
    assert metric.sketch().to_bytes() == whole.sketch().to_bytes()
    metric.reset()
    metric.update(p, y)
    assert {getattr(metric, name).dtype for name in metric._defaults} == {torch.int64}


@pytest.mark.parametrize(
    ("made", "asked", "words"),
    [
        (("classwise", 3, {"bits": 8}), ("classwise", 3, {"bits": 10}), "bits=8"),
        (("classwise", 3, {}), ("classwise", 5, {}), "3 classes"),
        (("top-label", 3, {}), ("top-label", 5, {}), "3 classes"),
        (("binary", 2, {}), ("top-label", 2, {}), "notion='binary'"),
        (("canonical", 3, {"exact_limit": 20}), ("canonical", 3, {}), "exact_limit=20"),
    ],
)
def test_the_state_of_other_settings_is_an_error(made, asked, words):
    notion, n_classes, options = made
    metric = filled(CalibrationError(notion, n_classes, **options), *rows(500, n_classes))
    metric.persistent(True)
    notion, n_classes, options = asked
    other = CalibrationError(notion, n_classes, **options)
    other.persistent(True)
    state = metric.state_dict()
    with pytest.raises(RuntimeError, match=f"of a CalibrationError with .*{words}.*; this one has"):
        other.load_state_dict(state)
    with pytest.raises(RuntimeError, match="Make the metric with the settings of the state"):
        torch.nn.ModuleDict({"error": other}).load_state_dict(
            {f"error.{name}": value for name, value in state.items()}
        )
    assert int(other.n_rows) == 0
    other.update(*rows(50, n_classes))
    assert torch.isfinite(other.compute())


def test_a_state_without_settings_must_have_the_right_shape():
    metric = filled(CalibrationError("classwise", 3), *rows(500, 3))
    metric.persistent(True)
    state = metric.state_dict()
    del state["settings"]
    again = CalibrationError("classwise", 3)
    again.load_state_dict(dict(state))
    assert again.sketch().to_bytes() == metric.sketch().to_bytes()
    with pytest.raises(RuntimeError, match=r"with other settings; this one has .* 5 classes"):
        CalibrationError("classwise", 5).load_state_dict(dict(state))


def test_the_label_to_leave_out_may_change_with_a_checkpoint():
    p, y = rows(500, 3)
    metric = filled(CalibrationError("classwise", 3), p, y)
    metric.persistent(True)
    again = CalibrationError("classwise", 3, ignore_index=255)
    again.load_state_dict(metric.state_dict())
    again.update(p[:5], torch.full((5,), 255))
    assert torch.equal(again.compute(), metric.compute())
    assert torch.equal(again.settings, CalibrationError("classwise", 3, ignore_index=255).settings)


def test_a_collection_keeps_states_apart_that_leave_out_other_labels():
    p, y = rows(500, 3)
    options = {"none": None, "first": 0, "last": 2}
    collection = torchmetrics.MetricCollection(
        {
            name: CalibrationError("classwise", 3, ignore_index=index)
            for name, index in options.items()
        }
    )
    only = y == 1  # in the first batch all of them count the same rows
    collection.update(p[only], y[only])
    collection.update(p, y)
    for name, index in options.items():
        alone = CalibrationError("classwise", 3, ignore_index=index)
        alone.update(p[only], y[only])
        alone.update(p, y)
        assert collection[name].sketch().to_bytes() == alone.sketch().to_bytes()


@pytest.mark.parametrize("error", [TypeError, RuntimeError])
def test_devices_without_float64(monkeypatch, error):
    made = torch.zeros

    def zeros(*shape, dtype=None, device=None, **options):
        if dtype == torch.float64 and device is not None:
            raise error("no float64 on this device")
        return made(*shape, dtype=dtype, device=device, **options)

    p, y = rows(500, 3)
    expected = filled(CalibrationError("classwise", 3), p, y)
    with monkeypatch.context() as patch:
        patch.setattr(totals.torch, "zeros", zeros)
        totals.wide.cache_clear()
        metric = filled(CalibrationError("classwise", 3), p, y)
        assert totals.wide(torch.device("cpu")) == torch.float32
    totals.wide.cache_clear()
    assert totals.wide(torch.device("cpu")) == torch.float64
    assert metric._constants.logs.dtype == torch.float32
    assert torch.equal(metric.compute(), expected.compute())  # from counts, which are the same
    assert metric.sketch().scores == pytest.approx(expected.sketch().scores, rel=1e-5)
