"""Sums at nodes against sums over all pairs."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from riskalign.torch import CalibrationLoss, nodes

END = -math.log(1e-9)


def points(n, scale, seed=0):
    """Log-odds with ties and with the most extreme ones."""
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(2, n, generator=generator, dtype=torch.float64) - scale / 2
    x[:, :4] = torch.tensor([END, -END, 0.0, 0.0])
    return x.clamp(-END, END)


def pair(x, p, h):
    """The kernel in plain floats."""
    log_density = math.lgamma(1 / h + 2) - math.lgamma(p / h + 1) - math.lgamma((1 - p) / h + 1)
    return math.exp(log_density + (p * x - math.log1p(math.exp(x))) / h)


@pytest.mark.parametrize(("h", "scale"), list(product((0.3, 0.05, 0.01, 0.002), (1.0, 8.0))))
def test_sums_are_those_of_plain_loops(h, scale):
    x = points(40, scale)
    values = torch.randn(2, 2, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = slice(0, 25)
    sums, peaks = nodes.kernel_sums(x, values, h, nodes.count(h), rows)
    for problem in range(2):
        z, v = x[problem].tolist(), values[problem].numpy()
        p = torch.sigmoid(x[problem]).tolist()
        kernel = np.array([[pair(z[i], p[j], h) for j in range(40)] for i in range(25)])
        peak = np.array([pair(z[i], p[i], h) for i in range(25)])
        np.testing.assert_allclose(peaks[problem].numpy(), peak, rtol=1e-5)
        size = np.abs(v).sum(1, keepdims=True)
        error = np.abs(sums[problem].numpy() - v @ kernel.T) / size
        assert (error < 1e-4 * peak).all()  # the limit that `DENSITY` states


def test_one_bandwidth_per_problem_in_blocks(monkeypatch):
    x, h = points(50, 2.0), torch.tensor([[0.05], [0.2]], dtype=torch.float64)
    values = torch.randn(2, 2, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    n_nodes = nodes.count(0.05)
    found, peaks = nodes.kernel_sums(x, values, h, n_nodes, slice(0, 50))
    for i in range(2):
        alone = nodes.kernel_sums(x[i, None], values[i, None], float(h[i]), n_nodes, slice(0, 50))
        torch.testing.assert_close((found[i, None], peaks[i, None]), alone)
    monkeypatch.setattr(nodes, "BLOCK", 1)
    again = nodes.kernel_sums(x, values, h, n_nodes, slice(0, 50))
    torch.testing.assert_close(again, (found, peaks), rtol=1e-12, atol=1e-12)


def test_sums_have_the_right_derivatives():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    values = torch.randn(2, 2, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    h = torch.tensor([[0.1], [0.3]], dtype=torch.float64)

    def sums(x, values):
        return nodes.kernel_sums(x, values, h, nodes.count(0.1), slice(2, 6))

    assert torch.autograd.gradcheck(sums, (x, values))


def passes(monkeypatch, gain, options, logits, labels):
    """Terms and gradient, at nodes (gain 0) or from all pairs."""
    monkeypatch.setattr(nodes, "GAIN", gain)
    z = logits.clone().requires_grad_()
    module = CalibrationLoss(**options, reduction="none")
    if module.queue:
        module(z.detach().flip(0), labels.flip(0))
    found = module(z, labels)
    found.mean().backward()
    return found.detach(), z.grad


OPTIONS = {
    "one bandwidth": {"bandwidth": 0.05},
    "per class": {"bandwidth": [0.02, 0.05, 0.1, 0.3]},
    "narrow": {"bandwidth": 0.003},
    "weights": {"bandwidth": 0.05, "weight": torch.tensor([1.0, 0.0, 2.0, 0.3])},
    "queue": {"bandwidth": 0.05, "queue": 70},
}


@pytest.mark.parametrize(
    ("scale", "dtype"), [(1.0, torch.float64), (5.0, torch.float32), (1e4, torch.float32)]
)
@pytest.mark.parametrize("name", OPTIONS)
def test_the_loss_at_nodes_is_that_of_all_pairs(monkeypatch, name, scale, dtype):
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(150, 4, generator=generator, dtype=dtype)
    logits, labels = scale * base, torch.multinomial(base.softmax(1), 1, generator=generator)[:, 0]
    labels[::7] = -100
    for notion in ("classwise", "top-label"):
        options = {"notion": notion} | OPTIONS[name]
        if notion == "top-label" and name == "per class":
            continue
        terms, slopes = passes(monkeypatch, 0, options, logits, labels)
        expected, expected_slopes = passes(monkeypatch, math.inf, options, logits, labels)
        size, steep = expected.abs().max(), expected_slopes.abs().max()
        assert (terms - expected).abs().max() <= 2e-4 * size
        assert (terms.mean() - expected.mean()).abs() <= 1e-5 * size
        assert (slopes - expected_slopes).abs().max() <= 1e-3 * steep + 1e-9
        assert (slopes[::7] == 0).all()


def test_hard_inputs_stay_finite_at_nodes(monkeypatch):
    monkeypatch.setattr(nodes, "GAIN", 0)
    generator = torch.Generator().manual_seed(4)
    for n, (n_classes, h), scale in product(
        (1, 2, 64), ((2, 1e-3), (2, 0.2), (100, 0.05)), (0.0, 1.0, 40.0, 1e4, 1e30)
    ):
        labels = torch.randint(n_classes, (n,), generator=generator)
        for y in (labels, torch.zeros_like(labels)):
            z = (scale * torch.randn(n, n_classes, generator=generator)).requires_grad_()
            for notion in ("classwise", "top-label"):
                value = CalibrationLoss(notion, bandwidth=h)(z, y)
                value.backward()
                assert torch.isfinite(value)
                assert torch.isfinite(z.grad).all()
                if n == 1:
                    assert abs(float(value.detach())) < 1e-3  # nothing but rounding


def test_nodes_serve_large_batches_of_the_debiased_loss_alone():
    small, large = nodes.count(0.05), nodes.count(0.001)
    assert not nodes.worthwhile(128, 128, small)
    assert nodes.worthwhile(512, 512, small)
    assert not nodes.worthwhile(512, 512, large)
    assert CalibrationLoss("classwise", bandwidth=0.05)._n_nodes(512, 512) == small
    assert CalibrationLoss("classwise", "l2", 0.05, "plugin")._n_nodes(512, 512) == 0
    assert CalibrationLoss("classwise", "kl", 0.05)._n_nodes(512, 512) == 0
    per_class = CalibrationLoss("classwise", bandwidth=[0.3, 0.05])
    assert per_class._n_nodes(512, 512) == small
    again = CalibrationLoss("classwise", bandwidth=[0.1, 0.1])
    again.load_state_dict(per_class.state_dict())
    assert again._n_nodes(512, 512) == small


def test_many_rows_and_classes_need_little_memory():
    # All pairs of all classes would be 6.7 GB in float32; 4,096 x 100 numbers are 1.6 MB.
    generator = torch.Generator().manual_seed(5)
    z = (2 * torch.randn(4096, 100, generator=generator)).requires_grad_()
    labels = torch.randint(100, (4096,), generator=generator)
    with torch.profiler.profile(profile_memory=True) as profile:
        CalibrationLoss("classwise", bandwidth=0.05)(z, labels).backward()
    held = most = 0
    for event in sorted(profile.events(), key=lambda event: event.time_range.start):
        held += event.self_cpu_memory_usage
        most = max(most, held)
    assert torch.isfinite(z.grad).all()
    assert 10e6 < most < 200e6
