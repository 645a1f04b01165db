"""Sums of log loss and Brier score on any device: `riskalign.data.totals` on tensors.

A sum is two integers, sum = high 2^32 + low, in units of 2^-38, so that it never overflows.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from riskalign.data.logs import FIRST, SHIFT, _table
from riskalign.data.totals import UNIT
from riskalign.equations.arrays import FLOOR

LIMB = 32


@cache
def wide(device: torch.device) -> torch.dtype:
    """The widest floats of a device: some have no float64."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.float32
    return torch.float64


def tables() -> Tensor:
    """What `riskalign.data.logs` reads: inverses and logarithms, ``(2, cells)``, on the CPU."""
    inverse, logarithm = _table()
    return torch.stack([torch.from_numpy(inverse), torch.from_numpy(logarithm)])


def added(totals: Tensor, p: Tensor, labels: Tensor, valid: Tensor, logs: Tensor) -> Tensor:
    """Sums ``(2, 2)`` of log loss and Brier score, high and low, with valid rows added.

    Parameters
    ----------
    p : (n, K)
    labels, valid : (n,)
    logs : (2, cells), of `tables`, in the widest floats of the device
    """
    p = p.to(logs.dtype)
    true = p.gather(1, labels[:, None])[:, 0]
    squares = p * 2.0 ** (UNIT // 2)
    brier = (squares * squares).round().sum(1) + ((1 - 2 * true) * 2.0**UNIT).round()
    log = (log_loss(true.clamp(max=1.0), logs) * 2.0**UNIT).round()
    whole = torch.where(valid, torch.stack([log, brier]), 0.0).to(torch.int64)  # (2, n)
    low = totals[:, 1] + (whole & ((1 << LIMB) - 1)).sum(1)
    high = totals[:, 0] + (whole >> LIMB).sum(1) + (low >> LIMB)
    return torch.stack([high, low & ((1 << LIMB) - 1)], 1)


def log_loss(p: Tensor, logs: Tensor) -> Tensor:
    """-log max(p, FLOOR), as `riskalign.data.logs.log_loss`; the logarithm itself in float32."""
    x = p.clamp(min=FLOOR)
    if x.dtype != torch.float64:
        return -x.log()
    cell = (x.view(torch.int64) >> SHIFT) - FIRST
    r = x * logs[0][cell]
    r = r - 1.0
    series = r * -0.25
    series = series + 1 / 3
    series = series * r
    series = series - 0.5
    series = series * r
    series = series + 1.0
    series = series * r
    return logs[1][cell] - series


def exact(totals: Tensor) -> tuple[int, int]:
    """The sums as Python integers."""
    (log_high, log_low), (brier_high, brier_low) = totals.tolist()
    return (log_high << LIMB) + log_low, (brier_high << LIMB) + brier_low
