"""What a method of estimation is: from problems to errors, and what it may be asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Protocol

import numpy as np

from riskalign.bandwidth.result import BandwidthSearch
from riskalign.data.case import Case
from riskalign.data.notions import NOTIONS, OF_ONE_PROBABILITY
from riskalign.equations.arrays import FloatArray
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex
from riskalign.equations.terms import decompose, risk_of
from riskalign.methods.norms import NormEstimate
from riskalign.methods.residuals import Debiased
from riskalign.smoothing import Tuning

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
"""The classical norms of R - f, over bins or samples of one probability."""

CLASSICAL = Scope(OF_ONE_PROBABILITY, ("l2",))
"""Norms are of one probability, and no loss has a part in them: `loss` keeps its default."""


@dataclass(frozen=True)
class Outcome:
    """What a method says of a case.

    Attributes
    ----------
    estimates : one per problem
    tunings : how each problem was smoothed, for kernel methods
    search : how the bandwidths were found, None where they were given
    residuals : the debiased estimates, row by row, from which an interval is made
    norms : where a mean norm of smoothed residuals was asked for, its parts
    """

    estimates: Sequence[Estimate]
    tunings: Sequence[Tuning] | None = None
    search: BandwidthSearch | None = None
    residuals: Sequence[Debiased] | None = None
    norms: Sequence[NormEstimate] | None = None


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

    def outcome(self, case: Case, engine: str, progress: bool | None) -> Outcome:
        """The estimates of a case."""


class ByProblem(ABC):
    """The part that methods share which estimate problem by problem, without an engine."""

    @abstractmethod
    def estimates(self, problems: Sequence[Problem]) -> Iterable[Estimate]:
        """One estimate per problem, in their order."""

    def outcome(self, case: Case, engine: str, progress: bool | None) -> Outcome:
        """See `Method`."""
        return Outcome(list(self.estimates(case.problems)))


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
        if not is_default(option, getattr(options, option.name))
    ]
    return f"{type(options).__name__}({', '.join(said)})"


def is_default(option: Field[Any], value: object) -> bool:
    """Whether an option has its default value."""
    default = option.default
    plain = isinstance(value, str | int | float)  # arrays and searches have no plain equality
    return default is not MISSING and (value is default or (plain and value == default))
