import copy
import io
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from loss_oracle import terms

import riskalign as ra
from riskalign.torch import CalibrationLoss
from riskalign.torch import attention as tiles
from riskalign.torch.attention import attend

NOTIONS = ("binary", "top-label", "classwise", "canonical")
CASES = list(product(NOTIONS, ("l2", "kl", "ranked"), ("debiased", "plugin")))


def rows(n, n_classes, seed=0, scale=1.5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, n_classes, generator=generator, dtype=dtype)
    labels = torch.multinomial((0.7 * logits).softmax(1), 1, generator=generator)[:, 0]
    return logits, labels


@pytest.mark.parametrize(("notion", "loss", "estimator"), CASES)
def test_it_is_the_oracle(notion, loss, estimator):
    n_classes = 2 if notion == "binary" else 4
    logits, labels = rows(23, n_classes)
    h = [0.03, 0.05, 0.08, 0.2][: n_classes if notion == "classwise" else 1]
    given = h if notion == "classwise" else h[0]
    module = CalibrationLoss(notion, loss, given, estimator, reduction="none")
    if notion == "classwise":  # the module holds a sequence in float32
        h = module.bandwidth.double().tolist()
    expected = terms(notion, loss, estimator, logits.softmax(1).numpy(), labels.numpy(), h)
    found = module(logits, labels)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)
    mean = CalibrationLoss(notion, loss, given, estimator)(logits, labels)
    assert float(mean) == pytest.approx(expected.mean(), rel=1e-9)


@pytest.mark.parametrize(("notion", "loss", "estimator"), CASES)
def test_the_gradient_is_that_of_the_oracle(notion, loss, estimator):
    n_classes = 2 if notion == "binary" else 3
    logits, labels = rows(9, n_classes, seed=1)
    h = 0.1
    module = CalibrationLoss(notion, loss, h, estimator)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: module(z, labels), (logits,), eps=1e-6, atol=1e-6)
    module(logits, labels).backward()
    step, count = 1e-5, n_classes if notion == "classwise" else 1

    def value(z):
        return terms(notion, loss, estimator, z.softmax(1).numpy(), labels.numpy(), [h] * count)

    with torch.no_grad():
        for i, k in product(range(len(labels)), range(n_classes)):
            up, down = logits.detach().clone(), logits.detach().clone()
            up[i, k] += step
            down[i, k] -= step
            slope = (value(up).mean() - value(down).mean()) / (2 * step)
            assert float(logits.grad[i, k]) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize(("notion", "loss"), list(product(NOTIONS[1:], ("l2", "kl"))))
def test_it_is_the_estimate_of_the_library(notion, loss):
    logits, labels = rows(300, 3, seed=2)
    f = logits.softmax(1).numpy()
    options = {"notion": notion, "loss": loss, "bandwidth": 0.05, "engine": "exact"}
    plugin = CalibrationLoss(notion, loss, 0.05, "plugin")(logits, labels)
    expected = ra.calibration_error(labels.numpy(), f, estimator="plugin", **options)
    assert float(plugin) == pytest.approx(expected.value, rel=1e-6)
    if loss == "kl":  # for l2 the loss is the U-statistic, the library's term is not
        ours = CalibrationLoss(notion, loss, 0.05)(logits, labels)
        expected = ra.calibration_error(labels.numpy(), f, start="identity", **options)
        assert float(ours) == pytest.approx(expected.value, rel=1e-6)


def test_tiles_do_not_change_values_or_gradients(monkeypatch):
    logits, labels = rows(60, 3, seed=3)
    found = []
    for size in (1 << 18, 7, 200, 4000):
        monkeypatch.setattr(tiles, "TILE", size)
        z = logits.clone().requires_grad_()
        total = sum(
            CalibrationLoss(notion, loss, 0.05)(z, labels)
            for notion in NOTIONS[1:]
            for loss in ("l2", "kl")
        )
        total.backward()
        found.append((float(total.detach()), z.grad))
    for value, slopes in found[1:]:
        assert value == pytest.approx(found[0][0], rel=1e-12)
        torch.testing.assert_close(slopes, found[0][1], rtol=1e-9, atol=1e-14)


def test_attention_has_the_right_derivatives():
    generator = torch.Generator().manual_seed(0)
    q, k, b, v = (
        torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 3, 4), (2, 3, 7), (2, 7), (2, 2, 7))
    )
    assert torch.autograd.gradcheck(lambda *each: attend(*each, 2, True), (q, k, b, v))
    q, k = q[:, :1], k[:, :1]  # the other way to multiply
    assert torch.autograd.gradcheck(lambda *each: attend(*each, 0, True), (q, k, b, v))


HARD = {
    "x 40": lambda z: 40 * z,
    "x 10,000": lambda z: 1e4 * z,
    "all equal": lambda z: 0 * z,
    "one column": lambda z: z + torch.tensor([1e4] + [0.0] * (z.shape[1] - 1)),
    "infinitely far": lambda z: 1e30 * z,
}


@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("n_classes", [2, 3, 100])
@pytest.mark.parametrize("n", [1, 2, 64])
def test_hard_inputs_stay_finite(n, n_classes, hard):
    logits, labels = rows(n, n_classes, seed=4, dtype=torch.float32)
    notions = NOTIONS if n_classes == 2 else NOTIONS[1:]
    for notion, loss, estimator, h in product(
        notions, ("l2", "kl", "ranked"), ("debiased", "plugin"), (1e-3, 0.2)
    ):
        for y in (labels, torch.zeros_like(labels)):  # also a single class
            z = HARD[hard](logits).requires_grad_()
            value = CalibrationLoss(notion, loss, h, estimator)(z, y)
            value.backward()
            assert torch.isfinite(value)
            assert torch.isfinite(z.grad).all()
            if n == 1:
                assert float(value.detach()) == 0


def test_the_debiased_loss_is_zero_on_average_if_calibrated():
    # 400 batches of 16 rows; the plug-in is far from 0 there, the debiased loss is not.
    generator = torch.Generator().manual_seed(5)
    values = {"debiased": [], "plugin": []}
    for _ in range(400):
        logits = 1.5 * torch.randn(16, 3, generator=generator)
        labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
        for estimator, found in values.items():
            found.append(CalibrationLoss("classwise", "l2", 0.02, estimator)(logits, labels))
    means, errors = zip(
        *((float(torch.stack(v).mean()), float(torch.stack(v).std()) / 400**0.5)
          for v in values.values()), strict=True,
    )  # fmt: skip
    assert abs(means[0]) < 3.3 * errors[0]  # one in a thousand
    assert means[1] > 10 * errors[1]


def test_only_the_debiased_loss_is_smallest_at_calibration():
    # Batches of 32 calibrated rows: by scaling the logits the plug-in can still be lowered.
    generator = torch.Generator().manual_seed(6)
    logits = 1.5 * torch.randn(150, 32, 3, generator=generator)
    labels = torch.stack(
        [torch.multinomial(z.softmax(1), 1, generator=generator)[:, 0] for z in logits]
    )
    best = {}
    scales = (0.7, 1.0, 1.4)
    for estimator in ("debiased", "plugin"):
        module = CalibrationLoss("classwise", "l2", 0.05, estimator)
        means = [
            float(
                torch.stack([module(a * z, y) for z, y in zip(logits, labels, strict=True)]).mean()
            )
            for a in scales
        ]
        best[estimator] = scales[int(np.argmin(means))]
    assert best["debiased"] == 1.0
    assert best["plugin"] < 1.0


def test_shapes_are_those_of_cross_entropy():
    logits, labels = rows(24, 3)
    module = CalibrationLoss("canonical", bandwidth=0.1)
    flat = module(logits, labels)
    image = logits.reshape(2, 3, 4, 3).movedim(-1, 1)  # (N, C, d1, d2)
    assert image.shape == (2, 3, 3, 4)
    assert torch.equal(module(image, labels.reshape(2, 3, 4)), flat)
    each = CalibrationLoss("canonical", bandwidth=0.1, reduction="none")
    assert (
        each(image, labels.reshape(2, 3, 4)).shape
        == F.cross_entropy(image, labels.reshape(2, 3, 4), reduction="none").shape
    )
    assert float(module(logits[0], labels[0])) == 0
    total = CalibrationLoss("canonical", bandwidth=0.1, reduction="sum")(logits, labels)
    assert float(total) == pytest.approx(24 * float(flat))


ONE_LOGIT = [((24,), (24,)), ((24, 1), (24,)), ((24, 1), (24, 1)), ((4, 1, 6), (4, 6))]


@pytest.mark.parametrize(("shape", "of_target"), ONE_LOGIT)
def test_one_logit_per_row_is_that_of_the_second_class(shape, of_target):
    logits, labels = rows(24, 2)
    one = logits[:, 1] - logits[:, 0]
    for options in ({}, {"loss": "kl", "bandwidth": 0.1}, {"weight": torch.tensor([1.0, 3.0])}):
        expected = CalibrationLoss("binary", reduction="none", **options)(logits, labels)
        module = CalibrationLoss("binary", reduction="none", **options)
        found = module(one.reshape(shape), labels.reshape(of_target))
        assert found.shape == of_target
        torch.testing.assert_close(found.reshape(-1), expected)
        module(logits, labels)  # one object takes both forms


@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_the_gradient_of_one_logit_per_row(loss):
    logits, labels = rows(9, 2, seed=1)
    module = CalibrationLoss("binary", loss, 0.1)
    for one in (logits[:, 1], logits[:, 1:]):
        z = one.clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda z: module(z, labels), (z,), eps=1e-6, atol=1e-6)


def test_one_logit_needs_no_notion():
    logits, labels = rows(24, 2)
    found = CalibrationLoss(bandwidth=0.1)(logits[:, 1] - logits[:, 0], labels)
    torch.testing.assert_close(found, CalibrationLoss("binary", bandwidth=0.1)(logits, labels))


@pytest.mark.parametrize("notion", NOTIONS[1:])
def test_rows_that_are_ignored_leave_no_trace(notion):
    logits, labels = rows(30, 3, seed=7)
    kept = torch.arange(30) % 4 != 0
    marked = torch.where(kept, labels, -100)
    module = CalibrationLoss(notion, "kl", 0.1)
    z = torch.where(kept[:, None], logits, torch.nan).requires_grad_()
    found = module(z, marked)
    found.backward()
    expected = module(logits[kept], labels[kept])
    assert float(found.detach()) == pytest.approx(float(expected), rel=1e-12)
    assert (z.grad[~kept] == 0).all()
    assert (z.grad[kept] != 0).any()
    nothing = module(logits, torch.full_like(labels, -100))
    assert float(nothing) == 0
    assert float(CalibrationLoss(notion, bandwidth=0.1, ignore_index=7)(logits, labels + 0)) != 0


@pytest.mark.parametrize("estimator", ["debiased", "plugin"])
def test_class_weights_are_the_weights_of_rows(estimator):
    logits, labels = rows(20, 3, seed=8)
    weight = torch.tensor([1.0, 0.0, 2.5])
    module = CalibrationLoss("classwise", "l2", 0.1, estimator, weight=weight)
    u = weight.double()[labels].numpy()
    each = terms(
        "classwise", "l2", estimator, logits.softmax(1).numpy(), labels.numpy(), [0.1] * 3, u
    )
    assert float(module(logits, labels)) == pytest.approx((u * each).sum() / u.sum(), rel=1e-9)


BOTH_ENGINES = [(0.3, 40), (0.3, 240)]  # all pairs, and sums at nodes (for squared errors)


@pytest.mark.parametrize("notion", NOTIONS[1:])
@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize(("h", "n"), BOTH_ENGINES)
def test_laws_of_weights_and_order(notion, loss, h, n):
    logits, labels = rows(n, 3, seed=12)

    def value(z, y, **options):
        return float(CalibrationLoss(notion, loss, h, **options)(z, y))

    plain = value(logits, labels)
    same = value(logits, labels, weight=torch.full((3,), 2.5))
    assert same == pytest.approx(plain, rel=1e-9, abs=1e-12)  # the unit of weights does not matter
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    assert value(logits[order], labels[order]) == pytest.approx(plain, rel=1e-9, abs=1e-12)
    # Rows of a class without weight are as good as ignored, by any number.
    without = value(logits, labels, weight=torch.tensor([1.0, 0.0, 1.0]))
    marked = torch.where(labels == 1, 255, labels)
    assert without == pytest.approx(value(logits, marked, ignore_index=255), rel=1e-9, abs=1e-12)
    kept = labels != 1
    assert without == pytest.approx(value(logits[kept], labels[kept]), rel=2e-4, abs=1e-6)


@pytest.mark.parametrize(("h", "n"), BOTH_ENGINES)
def test_the_same_call_gives_the_same_bits(h, n):
    logits, labels = rows(n, 3, dtype=torch.float32)
    found = []
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(2):
            z = logits.clone().requires_grad_()
            value = CalibrationLoss("classwise", bandwidth=h)(z, labels)
            value.backward()
            found.append((value.detach(), z.grad))
    finally:
        torch.use_deterministic_algorithms(before)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize(("h", "n"), BOTH_ENGINES)
def test_a_second_derivative_is_an_error(h, n):
    logits, labels = rows(n, 3)
    z = logits.requires_grad_()
    value = CalibrationLoss("classwise", bandwidth=h)(z, labels)
    (slopes,) = torch.autograd.grad(value, z, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slopes.square().sum().backward()


@pytest.mark.parametrize(("h", "n"), BOTH_ENGINES)
@pytest.mark.parametrize(("notion", "loss", "estimator"), CASES[6:])
def test_nothing_waits_for_the_device(notion, loss, estimator, h, n):
    # Tensors of the device "meta" have no numbers: reading one on the host would be an error.
    module = CalibrationLoss(notion, loss, h, estimator, queue=50).to("meta")
    z = torch.empty(n, 3, device="meta", requires_grad=True)
    labels = torch.empty(n, dtype=torch.int64, device="meta")
    for _ in range(2):
        module(z, labels).backward()
    assert z.grad.shape == (n, 3)


@pytest.mark.parametrize(("h", "n"), BOTH_ENGINES)
@pytest.mark.parametrize("notion", ["classwise", "canonical"])
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_it_compiles(notion, h, n):
    logits, labels = rows(n, 3, dtype=torch.float32)
    module = CalibrationLoss(notion, bandwidth=h)
    found = []
    for call in (module, torch.compile(module, backend="aot_eager")):
        z = logits.clone().requires_grad_()
        value = call(z, labels)
        value.backward()
        found.append((value.detach(), z.grad))
    torch.testing.assert_close(found[0], found[1])


def test_a_queue_adds_keys_without_gradient():
    logits, labels = rows(40, 3, seed=9, dtype=torch.float32)
    module = CalibrationLoss("canonical", bandwidth=0.1, queue=30, reduction="none")
    first = module(logits[:20], labels[:20])
    alone = CalibrationLoss("canonical", bandwidth=0.1, reduction="none")
    torch.testing.assert_close(first, alone(logits[:20], labels[:20]))
    z = logits.clone().requires_grad_()
    found = module(z[20:], labels[20:])
    everything = alone(logits.roll(-20, 0), labels.roll(-20))[:20]
    torch.testing.assert_close(found, everything)
    found.sum().backward()
    assert (z.grad[:20] == 0).all()
    module.eval()(logits, labels)  # evaluation leaves the queue as it is
    assert module.recent.n_rows == 30
    assert module.recent.seen == 40


def test_the_bandwidth_is_chosen_by_risk_alignment_and_stored():
    logits, labels = rows(200, 3, seed=10, dtype=torch.float32)
    module = CalibrationLoss(every=5, recent=400)
    assert module.bandwidth.numel() == 0
    z = logits.requires_grad_()
    module(z, labels).backward()
    f = logits.detach().double().log_softmax(1).softmax(1).numpy()
    tried = np.geomspace(0.05, 0.2, 8)  # narrower ones give noisy gradients
    expected = ra.select_bandwidth(labels.numpy(), f, notion="classwise", candidates=tried).value
    np.testing.assert_allclose(module.bandwidth.numpy(), expected, rtol=1e-3)
    before = module.bandwidth.clone()
    for _ in range(3):
        module(0.3 * logits, labels)
        assert torch.equal(module.bandwidth, before)
    module(0.3 * logits, labels)
    assert not torch.equal(module.bandwidth, before)
    stored = io.BytesIO()
    torch.save(module.state_dict(), stored)
    stored.seek(0)
    again = CalibrationLoss(every=5, recent=400)
    again.load_state_dict(torch.load(stored, weights_only=True))
    assert torch.equal(again.bandwidth, module.bandwidth)
    assert (again.steps, again.recent.seen) == (5, 1000)
    for step in range(5):  # they go on alike, choices included
        scale = 1 + step
        assert torch.equal(module(scale * logits, labels), again(scale * logits, labels))
    assert torch.equal(again.bandwidth, module.bandwidth)
    assert torch.equal(copy.deepcopy(module)(logits, labels), again(logits, labels))


def test_a_first_batch_with_nothing_to_choose_on_is_no_error():
    module = CalibrationLoss("canonical")
    z = torch.randn(1, 3, requires_grad=True)
    module(z, torch.tensor([0])).backward()
    assert module.bandwidth.shape == (1,)
    assert float(z.grad.abs().sum()) == 0


def test_half_precision_and_autocast_compute_in_float32():
    logits, labels = rows(64, 3, dtype=torch.float32)
    module = CalibrationLoss("classwise", bandwidth=0.05)
    for dtype in (torch.bfloat16, torch.float16):
        z = logits.to(dtype).requires_grad_()
        value = module(z, labels)
        assert value.dtype == torch.float32
        assert torch.equal(value, module(z.detach().float(), labels))
        value.backward()
        assert z.grad.dtype == dtype
    weights = torch.randn(3, 3, requires_grad=True)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            z = logits @ weights
            assert z.dtype == dtype
            value = module(z, labels)
            (F.cross_entropy(z, labels) + value).backward()
        assert value.dtype == torch.float32
        assert torch.isfinite(weights.grad).all()


@pytest.mark.parametrize(
    ("notion", "loss", "n_classes", "limit"),
    [
        ("canonical", "l2", 200, 30e6),  # n x n x K would be 13 GB, n x n 64 MB
        ("top-label", "kl", 3, 10e6),  # n x n would be 64 MB; this is not summed at nodes
    ],
)
def test_large_batches_need_little_memory(notion, loss, n_classes, limit):
    logits, labels = rows(4096, n_classes, dtype=torch.float32)
    z = logits.requires_grad_()
    with torch.profiler.profile(profile_memory=True) as profile:
        CalibrationLoss(notion, loss, 0.1)(z, labels).backward()
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert 1e6 < largest < limit
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"notion": "marginal"}, "`notion` must be one of"),
        ({"loss": "l1"}, "`loss` must be one of"),
        ({"estimator": "cross"}, "`estimator` must be one of"),
        ({"reduction": "max"}, "`reduction` must be one of"),
        ({"bandwidth": "likelihood"}, "`bandwidth` must be one of"),
        ({"bandwidth": 0.0}, "`bandwidth` must be positive"),
        ({"queue": -1}, "`queue` must be an integer from 0 up; found -1"),
        ({"every": 0}, "`every` must be an integer from 1 up; found 0"),
    ],
)
def test_bad_options_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        CalibrationLoss(**options)


def test_a_loss_has_other_names():
    assert (CalibrationLoss(loss="brier").loss, CalibrationLoss(loss="log").loss) == ("l2", "kl")


def test_bad_inputs_are_errors():
    logits, labels = rows(6, 3)
    module = CalibrationLoss(bandwidth=0.1)
    with pytest.raises(ValueError, match=r"`target` must have shape \(6,\).*found \(5,\)"):
        module(logits, labels[:5])
    with pytest.raises(ValueError, match=r"`input` of shape \(6,\), or \(6,\) .*found \(5,\)"):
        module(logits[:, 0], labels[:5])
    with pytest.raises(ValueError, match=r"must have shape \(6,\).*found \(6, 3\)"):
        module(logits, F.one_hot(labels, 3))
    with pytest.raises(ValueError, match=r"found [12]\. Use notion='binary' for one logit"):
        module(logits[:, :1], labels)
    with pytest.raises(TypeError, match=r"soft labels.*`target\.long\(\)`"):
        module(logits, labels.double())
    with pytest.raises(ValueError, match=r"`notion='binary'` needs two classes.*shape \(N,\)"):
        CalibrationLoss("binary", bandwidth=0.1)(logits, labels)
    with pytest.raises(ValueError, match="one bandwidth per class"):
        CalibrationLoss(bandwidth=[0.1, 0.2])(logits, labels)
    assert "classwise, l2, bandwidth=0.1" in repr(CalibrationLoss("classwise", bandwidth=0.1))


@pytest.mark.parametrize("wrong", [-2, -1, 3, 5])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_labels_that_are_no_classes_are_errors(wrong, dtype):
    logits, labels = rows(6, 3)
    labels[4] = wrong
    message = rf"class numbers from 0 to 2, or `ignore_index` \(-100\); found {wrong}\."
    for options in ({"bandwidth": 0.1}, {}):
        with pytest.raises(ValueError, match=message):
            CalibrationLoss(**options)(logits, labels.to(dtype))
    ignoring = CalibrationLoss(bandwidth=0.1, ignore_index=wrong)
    expected = CalibrationLoss(bandwidth=0.1)(logits[labels != wrong], labels[labels != wrong])
    assert float(ignoring(logits, labels.to(dtype))) == pytest.approx(float(expected))


def test_a_class_can_be_ignored():
    logits, labels = rows(40, 3)
    kept = labels != 1
    found = CalibrationLoss(bandwidth=0.1, ignore_index=1)(logits, labels)
    expected = CalibrationLoss(bandwidth=0.1)(logits[kept], labels[kept])
    assert float(found) == pytest.approx(float(expected))


def test_labels_are_checked_without_waiting_for_a_device(monkeypatch):
    asserted = []
    monkeypatch.setattr(torch, "_assert_async", lambda *given: asserted.append(given))
    module = CalibrationLoss(bandwidth=0.1)
    z, labels = torch.empty(9, 3, device="meta"), torch.empty(9, dtype=torch.int64, device="meta")
    module(z, labels)
    ((condition, message),) = asserted
    assert condition.is_meta
    assert "class numbers from 0 to 2" in message

    def missing(*given):
        raise NotImplementedError

    monkeypatch.setattr(torch, "_assert_async", missing)
    assert module(z, labels).is_meta


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_labels_are_checked_in_compiled_code():
    logits, labels = rows(20, 3, dtype=torch.float32)
    module = CalibrationLoss("canonical", bandwidth=0.1)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    compiled(logits, labels)
    labels[3] = 3
    with pytest.raises(RuntimeError, match="class numbers from 0 to 2"):
        compiled(logits, labels)


@pytest.mark.parametrize("weight", [[1.0, -1.0, 1.0], [1.0, float("nan"), 1.0], [[1.0, 1.0, 1.0]]])
def test_bad_class_weights_are_errors(weight):
    with pytest.raises(ValueError, match="`weight` must"):
        CalibrationLoss(weight=torch.tensor(weight))


@pytest.mark.parametrize("n", [2, 4])
def test_class_weights_of_another_number_are_errors(n):
    logits, labels = rows(6, 3)
    message = f"one weight per class; found {n} for 3 classes"
    with pytest.raises(ValueError, match=message):
        CalibrationLoss(bandwidth=0.1, weight=torch.ones(n))(logits, labels % 2)


class WithoutFloat64(torch.Tensor):
    """A tensor of a device that has no float64, such as Apple's."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor).clone()
        if func is torch.Tensor.double:
            raise TypeError("no float64 on this device")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_the_bandwidth_is_chosen_on_devices_without_float64():
    logits, labels = rows(60, 3, dtype=torch.float32)
    plain, other = CalibrationLoss(), CalibrationLoss()
    plain._tune(logits.log_softmax(1), labels)
    other._tune(logits.log_softmax(1).as_subclass(WithoutFloat64), labels)
    assert torch.equal(plain.bandwidth, other.bandwidth)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [{}, {"queue": 30}, {"bandwidth": 0.1, "queue": 30}])
def test_it_can_be_trained_after_inference_mode(mode, options):
    logits, labels = rows(40, 3, dtype=torch.float32)
    module = CalibrationLoss(**options)
    getattr(module, mode)()
    with torch.inference_mode():
        module(logits.clone(), labels)
    assert not any(buffer.is_inference() for buffer in module.buffers())
    module.train()
    z = logits.clone().requires_grad_()
    for _ in range(2):
        module(z, labels).backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("size", [0, 8, 20, 64])
@pytest.mark.parametrize("n_before", [0, 6, 18, 50])
def test_checkpoints_of_another_number_of_rows_keep_the_newest(size, n_before):
    logits, labels = rows(80, 3, dtype=torch.float32)
    stored = CalibrationLoss("canonical", bandwidth=0.1, queue=20)
    for part in torch.arange(n_before).split(6):
        stored(logits[part], labels[part])
    loaded = CalibrationLoss("canonical", bandwidth=0.1, queue=size)
    loaded.load_state_dict(stored.state_dict())
    n = min(n_before, 20, size)
    for end in (50, 60, 70, 80):
        if end > 50:
            loaded(logits[end - 10 : end], labels[end - 10 : end])
        past = torch.cat([torch.arange(n_before - n, n_before), torch.arange(50, end)])
        newest = past[max(len(past) - size, 0) :]
        log_f, known = loaded.recent.last(size)
        assert len(known) == len(newest)
        if size and len(newest):
            found, order = log_f[:, 0].sort()
            expected, of_rows = logits[newest].log_softmax(1)[:, 0].sort()
            torch.testing.assert_close(found, expected)
            assert torch.equal(known[order], labels[newest][of_rows])


@pytest.mark.parametrize("options", [{}, {"bandwidth": 0.1}, {"queue": 20}])
@pytest.mark.parametrize("notion", [None, "top-label", "classwise", "canonical"])
@pytest.mark.parametrize("loss", ["l2", "kl", "ranked"])
@pytest.mark.parametrize("estimator", ["debiased", "plugin"])
def test_one_column_gives_zero_with_a_gradient(options, notion, loss, estimator):
    z = torch.randn(5, 1, requires_grad=True)
    module = CalibrationLoss(notion, loss, estimator=estimator, **options)
    for _ in range(12):  # the bandwidth is chosen again after ten steps
        value = module(z, torch.zeros(5).long())
        value.backward()
        assert float(value.detach()) == 0
    assert torch.equal(z.grad, torch.zeros(5, 1))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [{}, {"notion": "top-label"}, {"bandwidth": 0.1, "queue": 9}])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_another_number_of_classes_is_an_error(mode, options, n_classes):
    module = CalibrationLoss(**options)
    getattr(module, mode)()
    module(*rows(20, 3))
    if mode == "eval" and options:  # nothing of the rows is held
        assert torch.isfinite(module(*rows(20, n_classes)))
        return
    with pytest.raises(ValueError, match="Use one CalibrationLoss for each number of classes"):
        module(*rows(20, n_classes))
    assert torch.isfinite(module(*rows(20, 3)))
