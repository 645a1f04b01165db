"""The functions of the library take tensors as they are."""

import numpy as np
import pytest
import torch

import riskalign as ra


def rows(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 3, generator=generator).to(dtype)
    labels = torch.randint(3, (300,), generator=generator)
    return logits, labels


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_tensors_of_any_type_with_gradients(dtype):
    logits, labels = rows(dtype)
    attached = logits.clone().requires_grad_() * 1  # not a leaf
    plain = logits.to(torch.float64).numpy()  # float64 holds all numbers of the others
    options = {"from_logits": True, "notion": "classwise", "bandwidth": 0.1}
    found = ra.calibration_error(labels, attached, **options)
    assert found.value == ra.calibration_error(labels.numpy(), plain, **options).value


def test_every_function_takes_them():
    logits, labels = rows(torch.float32)
    p = logits.softmax(1).requires_grad_()
    weights = torch.linspace(1, 2, 300, requires_grad=True)
    y, f, w = labels.numpy(), p.detach().numpy(), weights.detach().numpy()
    one = ra.calibration_error(labels, p, sample_weight=weights, bandwidth=0.1)
    assert one.value == ra.calibration_error(y, f, sample_weight=w, bandwidth=0.1).value
    assert ra.select_bandwidth(labels, p, notion="top-label").value == (
        ra.select_bandwidth(y, f, notion="top-label").value
    )
    curves = [ra.reliability_curve(a, b, notion="top-label") for a, b in ((labels, p), (y, f))]
    np.testing.assert_array_equal(curves[0].conditional, curves[1].conditional)
    sketch = ra.CalibrationSketch("classwise", 3).update(labels, p)
    assert sketch.to_bytes() == ra.CalibrationSketch("classwise", 3).update(y, f).to_bytes()
    tests = [ra.calibration_test(a, b, n_draws=19) for a, b in ((labels, p), (y, f))]
    assert tests[0].p_value == tests[1].p_value
    softer = (0.5 * logits).softmax(1)
    compared = [
        ra.compare(labels, p, softer, notion="top-label"),
        ra.compare(y, f, softer.numpy(), notion="top-label"),
    ]
    assert compared[0].difference == compared[1].difference


def test_one_hot_and_boolean_labels():
    logits, labels = rows(torch.float32)
    p = logits.softmax(1)
    whole = ra.calibration_error(labels, p, bandwidth=0.1).value
    one_hot = torch.nn.functional.one_hot(labels, 3)
    assert ra.calibration_error(one_hot, p, bandwidth=0.1).value == whole
    binary = ra.calibration_error(labels == 0, p[:, 0], bandwidth=0.1).value
    assert binary == ra.calibration_error((labels == 0).long(), p[:, 0], bandwidth=0.1).value


class OnlyDLPack:
    """An array of some library that speaks DLPack and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_dlpack():
    logits, labels = rows(torch.float32)
    p = logits.softmax(1)
    found = ra.calibration_error(OnlyDLPack(labels), OnlyDLPack(p), bandwidth=0.1)
    assert found.value == ra.calibration_error(labels, p, bandwidth=0.1).value


def test_a_tensor_without_numbers_is_an_error():
    with pytest.raises(TypeError, match="`y_prob` cannot be read as an array"):
        ra.calibration_error([0, 1], torch.ones(2, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_probabilities_of_narrow_types(dtype):
    logits, labels = rows(torch.float32)
    p = logits.softmax(1).to(dtype)
    off = (p.float().sum(1) - 1).abs().max()
    assert (off > 1e-3) == (dtype == torch.bfloat16)
    found = ra.calibration_error(labels, p, bandwidth=0.1).value
    exact = ra.calibration_error(labels, logits.softmax(1), bandwidth=0.1).value
    assert found == pytest.approx(exact, rel=0.05)
    sketch = ra.CalibrationSketch("classwise", 3).update(labels, p)
    assert sketch.n_samples == 300
    tolerance = 0.008 if dtype == torch.bfloat16 else 0.001
    with pytest.raises(ValueError, match=rf"sum to 1 \(tolerance {tolerance}\)"):
        ra.calibration_error(labels, 0.98 * p)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        ra.calibration_error(labels, logits.to(dtype))
