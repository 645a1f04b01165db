"""What a method of estimation is: from problems to errors, and what it may be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from riskalign.bandwidth.search import BandwidthSearch
from riskalign.data.sample import NOTIONS, Problem, on_simplex
from riskalign.data.validation import one_of
from riskalign.equations.arrays import FloatArray
from riskalign.equations.losses import ProperLoss
from riskalign.equations.terms import decompose, risk_of

Bandwidth = str | float | Sequence[float] | FloatArray | BandwidthSearch
Candidates = str | Sequence[float] | FloatArray | None

CHUNK = 50_000
"""Rows whose terms are computed at once: temporaries stay small beside the data."""


@dataclass(frozen=True)
class Estimate:
    """What a method says of one problem.

    Attributes
    ----------
    value : the calibration error
    risk : the observed risk, over all samples
    refinement, reconstructed_risk : <R, l(R)> and <R, l(f)>, for methods that have an R
    conditional : R, in the form of the problem's predictions, NaN where a sample has none
    note : what else there is to say, for people
    """

    value: float
    risk: float
    refinement: float | None = None
    reconstructed_risk: float | None = None
    conditional: FloatArray | None = None
    note: str = ""


@dataclass(frozen=True)
class Scope:
    """The notions and losses that a method has a meaning for; None stands for any loss."""

    notions: tuple[str, ...] = tuple(NOTIONS)
    losses: tuple[str, ...] | None = None

    def covers(self, notion: str, loss: ProperLoss) -> bool:
        """Whether the combination exists."""
        return notion in self.notions and (self.losses is None or loss.name in self.losses)

    def __str__(self) -> str:
        """The combinations in words."""
        notions = " | ".join(repr(notion) for notion in self.notions)
        losses = " | ".join(repr(loss) for loss in self.losses or ()) or "any"
        return f"notion {notions}, loss {losses}"


NORMS = ("l1", "l2", "max")
"""The classical norms of R - f."""

CLASSICAL = Scope(("binary", "top-label"), ("l2",))
"""Norms are of one probability, and no loss has a part in them: `loss` keeps its default."""


class Method(Protocol):
    """A way to estimate calibration errors, given as `method` to `calibration_error`."""

    @property
    def norm(self) -> str | None:
        """The norm that the value is, None for the mean of a loss's divergence."""

    @property
    def scope(self) -> Scope:
        """What the method may be asked for."""

    def definition(self, divergence: str) -> str:
        """What the value of one problem is, in words; `divergence` is the loss's."""

    def estimates(self, problems: Sequence[Problem]) -> Iterable[Estimate]:
        """One estimate a problem, in their order."""


def plug_in(problem: Problem, R: FloatArray, note: str = "") -> Estimate:
    """The mean of <R, l(f) - l(R)> at each sample's own f, over samples that have an R."""
    known = np.isfinite(R if R.ndim == 1 else R[:, 0])
    weights = np.where(known, problem.weights, 0.0)
    risk, terms = 0.0, np.zeros(3)
    for start in range(0, len(R), CHUNK):
        rows = slice(start, start + CHUNK)
        part, filled = problem.take(rows), R[rows]
        if not known[rows].all():
            filled = filled.copy()
            filled[~known[rows]] = part.predictions[~known[rows]]
        of = decompose(part.loss, part.points, part.labels, on_simplex(filled))
        risk += float(part.weights @ of.risk)
        terms += [weights[rows] @ t for t in (of.plugin, of.refinement, of.reconstructed_risk)]
    value, refinement, reconstructed = (terms / weights.sum()).tolist()
    risk /= float(problem.weights.sum())
    return Estimate(value, risk, refinement, reconstructed, R, note)


def observed_risk(problem: Problem) -> float:
    """The mean of <y, l(f)>."""
    each = risk_of(problem.loss, problem.labels, problem.points)
    return float(problem.weights @ each / problem.weights.sum())


def norm_of(gap: FloatArray, weights: FloatArray, norm: str) -> float:
    """A norm of gaps ``(m,)`` under weights: mean, root mean square, or maximum of |gap|."""
    if norm == "max":
        return float(np.abs(gap[weights > 0]).max())
    mean = float(weights @ np.abs(gap) ** (1 if norm == "l1" else 2) / weights.sum())
    return mean if norm == "l1" else mean**0.5


def spelled(options: Any) -> str:
    """The call that makes these options, without those left at their default."""
    said = [
        f"{option.name}={getattr(options, option.name)!r}"
        for option in fields(options)
        if not _is_default(option, getattr(options, option.name))
    ]
    return f"{type(options).__name__}({', '.join(said)})"


def _is_default(option: Field[Any], value: object) -> bool:
    default = option.default
    plain = isinstance(value, str | int | float)  # arrays and searches have no plain equality
    return default is not MISSING and (value is default or (plain and value == default))


@dataclass(frozen=True, repr=False)
class KernelSmoother:
    """The default method, spelled out: the options of `calibration_error` as an object.

    Parameters
    ----------
    bandwidth, kernel, estimator, candidates, power, start
        As for `calibration_error`.
    norm : {"l1", "l2", "max"}, optional
        Mean, root mean square or maximum of |R - f|, for binary and top-label errors, in
        place of an estimator.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> method = ra.KernelSmoother(bandwidth=0.01, estimator="plugin")
    >>> spelled_out = ra.calibration_error(data.y_true, data.y_prob, method=method)
    >>> plain = ra.calibration_error(
    ...     data.y_true, data.y_prob, bandwidth=0.01, estimator="plugin"
    ... )
    >>> spelled_out.value == plain.value
    True
    """

    bandwidth: Bandwidth | None = None
    kernel: str = "dirichlet"
    estimator: str = "debiased"
    candidates: Candidates = None
    power: float = 2
    start: str = "logistic"
    norm: str | None = None

    __repr__: ClassVar = spelled

    def __post_init__(self) -> None:
        if self.norm is None:
            return
        one_of("norm", self.norm, NORMS)
        if self.estimator != "plugin" and self.changed("estimator"):
            raise ValueError(
                f"`norm={self.norm!r}` is of R - f itself and takes no estimator; found "
                f"estimator={self.estimator!r}. Leave out one of the two."
            )
        object.__setattr__(self, "estimator", "plugin")  # whose R smooths labels

    def changed(self, *names: str) -> list[str]:
        """Those options, of some or of all, that differ from their defaults."""
        return [
            option.name
            for option in fields(self)
            if option.name in (names or [field.name for field in fields(self)])
            and not _is_default(option, getattr(self, option.name))
        ]

    @property
    def scope(self) -> Scope:
        """See `Method`."""
        return Scope() if self.norm is None else CLASSICAL
