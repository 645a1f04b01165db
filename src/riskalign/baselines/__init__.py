"""The methods that calibration errors are usually estimated with, to compare against."""

from __future__ import annotations

from riskalign.baselines.binning import EqualMassBins, EqualWidthBins
from riskalign.baselines.null import AlwaysZero
from riskalign.baselines.ridge import KernelRidge
from riskalign.baselines.simplex import SimplexBins
from riskalign.baselines.smooth_ece import SmoothECE
from riskalign.losses import ProperLoss
from riskalign.methods import KernelSmoother, Method

__all__ = [
    "AlwaysZero",
    "EqualMassBins",
    "EqualWidthBins",
    "KernelRidge",
    "SimplexBins",
    "SmoothECE",
    "check_scope",
]

EVERY: tuple[Method | KernelSmoother, ...] = (
    KernelSmoother(),
    EqualWidthBins(15),
    EqualMassBins(15),
    SimplexBins(10),
    KernelRidge(),
    SmoothECE(),
    AlwaysZero(),
)
"""One of each, to tell which methods serve a combination of notion and loss."""


def check_scope(method: Method | KernelSmoother, notion: str, loss: ProperLoss) -> None:
    """Refuse a combination that has no meaning, and say which have one."""
    if method.scope.covers(notion, loss):
        return
    others = [type(other).__name__ for other in EVERY if other.scope.covers(notion, loss)]
    raise ValueError(
        f"`method={method!r}` has no meaning for notion={notion!r} with loss={loss.name!r}. It "
        f"takes {method.scope}. Methods for notion={notion!r} with loss={loss.name!r}: "
        f"{', '.join(others)}."
    )
