"""The calibration loss and the metric for PyTorch, against peers, on one thread.

    python -m benchmarks.run --only loss_canonical_10 loss_canonical_100 loss_classwise_10 \
        loss_classwise_100

The peer of the loss is the published loss ece-kde: its file ece_kde.py, if it can be imported, or
the same formulas written here. Times are CPU seconds of a forward and a backward pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import Work, synthetic

N, H = 512, 0.05


def _cpu_seconds(*works: Work, turns: int = 25) -> list[float]:
    """Shortest CPU seconds of works that alternate."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for own, work in zip(times, works, strict=True):
            start = time.process_time()
            work()
            own.append(time.process_time() - start)
    return [min(own) for own in times]


def _dense(f: Any, y: Any, classwise: bool) -> Any:
    """The plug-in squared error as ece-kde computes it, with all pairs (and classes) at once."""
    import torch

    n, n_classes = f.shape
    one_hot = torch.nn.functional.one_hot(y, n_classes).to(f)
    blocked = torch.diag(torch.full((n,), torch.finfo(f.dtype).min))
    if classwise:
        a, b = f / H + 1, (1 - f) / H + 1
        norm = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
        x = f[:, None, :]
        scores = (a - 1) * torch.log(x) + (b - 1) * torch.log(1 - x) - norm  # (n, n, K)
        scores = scores + torch.stack(n_classes * [blocked], 2)
        came = torch.where(scores * one_hot == 0, torch.finfo(f.dtype).min, scores * one_hot)
        ratio = torch.exp(torch.logsumexp(came, 1) - torch.logsumexp(scores, 1))
        return ((ratio - f).abs() ** 2).mean(0).sum()
    alpha = f / H + 1
    norm = torch.lgamma(alpha).sum(1) - torch.lgamma(alpha.sum(1))
    scores = torch.log(f) @ (alpha - 1).T - norm + blocked
    if n_classes <= 60:
        kernel = torch.exp(scores)
        R = (kernel @ one_hot) / kernel.sum(1).clamp(min=1e-10)[:, None]
        return ((R - f).abs() ** 2).sum(1).mean()
    total, found = torch.logsumexp(scores, 1), 0.0
    logs = torch.log(one_hot)
    for k in range(n_classes):
        ratio = torch.exp(torch.logsumexp(scores + logs[:, k], 1) - total)
        found = found + (ratio - f[:, k]).abs() ** 2
    return found.mean()


def _peer(classwise: bool) -> tuple[Callable[[Any, Any], Any], str]:
    try:
        import ece_kde
    except ImportError:
        return lambda f, y: _dense(f, y, classwise), "ece-kde's formulas, written again"
    kind = "marginal" if classwise else "canonical"
    return lambda f, y: ece_kde.get_ece_kde(f, y, H, 2, kind, "cpu"), "ece-kde"


def _loss(notion: str, n_classes: int, target: float, *, once: bool = False) -> dict[str, Any]:
    """A loss beside its peer, which runs once where that takes seconds."""
    import torch

    from riskalign.torch import CalibrationLoss

    torch.set_num_threads(1)
    y_np, f_np = synthetic(N, n_classes)
    y, z = torch.from_numpy(y_np), torch.from_numpy(np.log(f_np)).float().requires_grad_()
    peer, name = _peer(notion == "classwise")
    ours = {each: CalibrationLoss(notion, bandwidth=H, estimator=each)
            for each in ("debiased", "plugin")}  # fmt: skip

    def passes(value: Callable[[], Any]) -> Work:
        def run() -> None:
            z.grad = None
            value().backward()

        return run

    found: list[float] = []

    def theirs_kept() -> Any:
        value = peer(z.softmax(1), y)
        found.append(float(value.detach()))
        return value

    works = [
        passes(lambda: ours["debiased"](z, y)),
        passes(lambda: ours["plugin"](z, y)),
        passes(theirs_kept),
        passes(lambda: torch.nn.functional.cross_entropy(z, y)),
    ]
    if once:
        (theirs,) = _cpu_seconds(works.pop(2), turns=1)
        debiased, plugin, cross_entropy = _cpu_seconds(*works, turns=25)
    else:
        turns = 25 if target == 1 else 7
        debiased, plugin, theirs, cross_entropy = _cpu_seconds(*works, turns=turns)
    with torch.no_grad():
        same = float(ours["plugin"](z, y)) / found[-1] - 1
    ratio = theirs / debiased
    return {
        "seconds": debiased,
        "against": name,
        "reference_seconds": theirs,
        "ratio": ratio,
        "unit": "times faster",
        "target": target,
        "reached": bool(ratio >= target),
        "note": f"one thread{', the peer once' if once else ''}; plug-in {plugin:.3g} s, differs "
        f"from the peer by {same:.0e}; cross-entropy {cross_entropy:.2g} s",
    }


def loss_canonical_10() -> dict[str, Any]:
    """Canonical calibration loss, forward and backward, n = 512, K = 10."""
    return _loss("canonical", 10, 1)


def loss_canonical_100() -> dict[str, Any]:
    """Canonical calibration loss, forward and backward, n = 512, K = 100."""
    return _loss("canonical", 100, 20)


def loss_classwise_10() -> dict[str, Any]:
    """Class-wise calibration loss, forward and backward, n = 512, K = 10."""
    return _loss("classwise", 10, 20)


def loss_classwise_100() -> dict[str, Any]:
    """Class-wise calibration loss, forward and backward, n = 512, K = 100."""
    return _loss("classwise", 100, 20, once=True)


def loss_classwise_large() -> dict[str, Any]:
    """Class-wise calibration loss, forward and backward, n = 4,096, K = 100."""
    import torch

    from riskalign.torch import CalibrationLoss

    torch.set_num_threads(1)
    y_np, f_np = synthetic(4096, 100)
    y, logits = torch.from_numpy(y_np), torch.from_numpy(np.log(f_np)).float()
    calibration = CalibrationLoss("classwise", bandwidth=H)

    def passes(n: int) -> Work:
        z = logits[:n].clone().requires_grad_()
        return lambda: calibration(z, y[:n]).backward()

    ours, small = _cpu_seconds(passes(4096), passes(512), turns=5)
    return {
        "seconds": ours,
        "against": "itself at n = 512",
        "reference_seconds": small,
        "ratio": ours / small,
        "unit": "times its time",
        "target": None,
        "reached": None,
        "note": "for information, one thread; all pairs of all classes would take 6.7 GB",
    }


def metric_update() -> dict[str, Any]:
    """Update of the class-wise metric for PyTorch, 10,000 rows, K = 10."""
    import torch

    import riskalign as ra
    from riskalign.torch import CalibrationError

    torch.set_num_threads(1)
    y, f = synthetic(10_000, 10)
    f = f.astype(np.float32)
    p, target = torch.from_numpy(f), torch.from_numpy(y)
    metric = CalibrationError("classwise", 10)
    sketch = ra.CalibrationSketch("classwise", 10, exact_limit=0)
    ours, theirs = _cpu_seconds(
        lambda: metric.update(p, target), lambda: sketch.update(y, f), turns=9
    )
    return {
        "seconds": ours,
        "against": "update of a sketch in numpy",
        "reference_seconds": theirs,
        "ratio": ours / theirs,
        "unit": "times its time",
        "target": None,
        "reached": None,
        "note": "for information, one thread; the state takes "
        f"{sum(getattr(metric, name).nbytes for name in metric._defaults) / 1e6:.1f} MB",
    }


WORKS = (
    loss_canonical_10,
    loss_canonical_100,
    loss_classwise_10,
    loss_classwise_100,
    loss_classwise_large,
    metric_update,
)
