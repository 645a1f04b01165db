"""Two processes that talk by gloo on this machine give what one process gives."""

import os
import sys

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import riskalign as ra
from riskalign.torch import CalibrationError, CalibrationLoss

SIZE, BATCH = 2, 60


def rows(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2 * BATCH, 3, generator=generator)
    labels = torch.multinomial((0.7 * logits).softmax(1), 1, generator=generator)[:, 0]
    return logits, labels


def one_process(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=SIZE)
    found = {}
    for notion, limit in (("classwise", 0), ("top-label", 40), ("canonical", 30)):
        metric = CalibrationError(notion, 3, exact_limit=limit, from_logits=True)
        for step in range(3):
            logits, labels = rows(step)
            own = slice(rank * BATCH, rank * BATCH + BATCH)
            metric.update(logits[own], labels[own])
        found[notion] = (metric.compute(), metric.sketch().to_bytes(), metric.n_rows)
    logits, labels = rows(9)
    own = slice(rank * BATCH, rank * BATCH + BATCH)
    losses = {}
    for name, options in {
        "canonical": {"notion": "canonical", "bandwidth": 0.1},
        "classwise": {"notion": "classwise", "bandwidth": 0.1, "estimator": "plugin"},
    }.items():
        z = logits[own].clone().requires_grad_()
        value = CalibrationLoss(gather=True, **options)(z, labels[own])
        value.backward()
        losses[name] = (value.detach(), z.grad)
    uneven = slice(0, 40) if rank == 0 else slice(40, 2 * BATCH)
    z = logits[uneven].clone().requires_grad_()
    value = CalibrationLoss("classwise", gather=True, bandwidth=0.1)(z, labels[uneven])
    value.backward()
    losses["uneven"] = (value.detach(), z.grad)
    try:
        CalibrationLoss("canonical", gather=True, bandwidth=0.1)(
            logits[own, : 3 - rank], labels[own].clamp(max=1)
        )
    except ValueError as error:
        losses["classes"] = str(error)
    tuned = CalibrationLoss("canonical", gather=True)
    tuned(logits[own], labels[own])
    torch.save((found, losses, tuned.bandwidth), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("torch without gloo")
    folder = tmp_path_factory.mktemp("processes")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    # A fresh interpreter finds this module by its path.
    sys.path.insert(0, os.path.dirname(__file__))
    mp.spawn(one_process, (str(folder),), nprocs=SIZE, join=True)
    return [torch.load(folder / f"{rank}.pt") for rank in range(SIZE)]


@pytest.mark.parametrize(
    ("notion", "limit"), [("classwise", 0), ("top-label", 40), ("canonical", 30)]
)
def test_the_metric_of_two_processes_is_that_of_one(both, notion, limit):
    alone = CalibrationError(notion, 3, exact_limit=limit, from_logits=True)
    for step in range(3):
        alone.update(*rows(step))
    for found, _, _ in both:
        value, blob, own_rows = found[notion]
        assert torch.equal(value, alone.compute())
        assert blob == alone.sketch().to_bytes()
        assert int(own_rows) == 3 * BATCH  # and each goes on with its own rows
    assert ra.CalibrationSketch.from_bytes(blob).n_samples == 6 * BATCH


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("canonical", {"notion": "canonical", "bandwidth": 0.1}),
        ("classwise", {"notion": "classwise", "bandwidth": 0.1, "estimator": "plugin"}),
    ],
)
def test_the_losses_of_two_processes_average_to_that_of_one(both, name, options):
    logits, labels = rows(9)
    each = CalibrationLoss(reduction="none", **options)(logits, labels)
    for rank, (_, losses, _) in enumerate(both):
        own = slice(rank * BATCH, rank * BATCH + BATCH)
        value, slopes = losses[name]
        torch.testing.assert_close(value, each[own].mean())
        # The gradient of the own rows: that of the own terms with the other rows held still.
        z = logits[own].clone().requires_grad_()
        whole = torch.cat([logits[: own.start], z, logits[own.stop :]])
        CalibrationLoss(reduction="none", **options)(whole, labels)[own].mean().backward()
        torch.testing.assert_close(slopes, z.grad)


def test_batches_of_processes_may_differ_in_size(both):
    logits, labels = rows(9)
    each = CalibrationLoss("classwise", bandwidth=0.1, reduction="none")
    for own, (_, losses, _) in zip((slice(0, 40), slice(40, 2 * BATCH)), both, strict=True):
        value, slopes = losses["uneven"]
        z = logits[own].clone().requires_grad_()
        whole = torch.cat([logits[: own.start], z, logits[own.stop :]])
        expected = each(whole, labels)[own].mean()
        expected.backward()
        torch.testing.assert_close(value, expected.detach())
        torch.testing.assert_close(slopes, z.grad)


def test_classes_must_be_the_same_in_all_processes(both):
    for _, losses, _ in both:
        assert "same number of classes in all processes; found (3, 2)" in losses["classes"]


def test_all_processes_have_the_same_bandwidth(both):
    assert torch.equal(both[0][2], both[1][2])
