"""Methods of estimation, one module each, and which of them serve a notion and a loss."""

from __future__ import annotations

from riskalign.equations.losses import ProperLoss
from riskalign.methods.always_zero import AlwaysZero
from riskalign.methods.binning import EqualMassBins, EqualWidthBins
from riskalign.methods.isotonic import Isotonic
from riskalign.methods.kernel import KernelSmoother
from riskalign.methods.kuiper import Kuiper
from riskalign.methods.method import Method
from riskalign.methods.ridge import KernelRidge
from riskalign.methods.simplex_bins import SimplexBins
from riskalign.methods.smooth_ece import SmoothECE
from riskalign.methods.spiegelhalter import Spiegelhalter

__all__ = [
    "AlwaysZero",
    "EqualMassBins",
    "EqualWidthBins",
    "Isotonic",
    "KernelRidge",
    "KernelSmoother",
    "Kuiper",
    "SimplexBins",
    "SmoothECE",
    "Spiegelhalter",
    "out_of_scope",
]

EVERY: tuple[Method, ...] = (
    KernelSmoother(),
    EqualWidthBins(15),
    EqualMassBins(15),
    SimplexBins(10),
    Isotonic(),
    KernelRidge(),
    SmoothECE(),
    Kuiper(),
    Spiegelhalter(),
    AlwaysZero(),
)
"""One of each, to tell which methods serve a combination of notion and loss."""


def out_of_scope(method: Method, notion: str, loss: ProperLoss) -> ValueError:
    """The error about a combination that has no meaning, which says what has one."""
    others = [type(other).__name__ for other in EVERY if other.scope.covers(notion, loss)]
    return ValueError(
        f"`method={method!r}` has no meaning for notion={notion!r} with loss={loss.name!r}. It "
        f"takes {method.scope}. Methods for notion={notion!r} with loss={loss.name!r}: "
        f"{', '.join(others)}."
    )
