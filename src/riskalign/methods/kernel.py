"""The default method: kernel averages of labels, or of a start's residuals."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from riskalign.bandwidth.criteria import CRITERIA
from riskalign.bandwidth.result import BandwidthSearch
from riskalign.bandwidth.search import (
    Bandwidth,
    Candidates,
    announce_averages,
    candidate_set,
    positive,
    search_bandwidth,
)
from riskalign.data.case import Case
from riskalign.data.limits import announce_errors
from riskalign.data.notions import JOINT
from riskalign.data.validation import one_of
from riskalign.equations.kernels import KERNELS
from riskalign.equations.norms import MEANS
from riskalign.equations.starts import STARTS
from riskalign.equations.terms import ESTIMATORS as OF_LABELS
from riskalign.methods.finer import OF_NORMS, finer
from riskalign.methods.labels import label_estimates
from riskalign.methods.method import (
    CLASSICAL,
    NORMS,
    Estimate,
    Outcome,
    Scope,
    is_default,
    norm_of,
    spelled,
)
from riskalign.methods.norms import norm_estimates
from riskalign.methods.residuals import Debiased, debiased
from riskalign.smoothing import Tuning, choose_smoother

DEBIASED = "debiased"
"""The estimator that smooths residuals."""

ESTIMATORS = (*OF_LABELS, DEBIASED)
"""Estimators by name."""

NORM_WORDS = {
    "l1": "mean of |R - f|",
    "l2": "root mean square of R - f",
    "max": "max of |R - f|",
    "euclidean": "mean length of R - f",
}
"""What the norms are, in words."""

OF_RESIDUALS = {
    "l1": Scope(losses=("l2",)),
    "l2": Scope(losses=("l2",)),
    "euclidean": Scope(JOINT, ("l2",)),
}
"""What the norms of smoothed residuals may be asked for; no loss has a part in them."""


@dataclass(frozen=True, repr=False)
class KernelSmoother:
    """The default method, spelled out: the options of `calibration_error` as an object.

    Parameters
    ----------
    bandwidth, kernel, estimator, candidates, power, start
        As for `calibration_error`.
    norm : {"l1", "l2", "euclidean", "max"}, optional
        A norm of R - f in place of a mean divergence, see `calibration_error`. With
        estimator="plugin" it is that of R itself, for binary and top-label errors; "max" always is.

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
        one_of("norm", self.norm, NORM_WORDS)
        if self.norm not in OF_RESIDUALS and self.estimator == DEBIASED:
            object.__setattr__(self, "estimator", "plugin")  # a maximum is no mean of terms
        known = [DEBIASED] if self.norm in OF_RESIDUALS else []
        known += ["plugin"] if self.norm in NORMS else []
        if self.estimator not in known:
            listed = " or ".join(f"estimator={each!r}" for each in known)
            raise ValueError(
                f"`norm={self.norm!r}` needs {listed}; found estimator={self.estimator!r}. Leave "
                "out one of the two."
            )

    def changed(self, *names: str) -> list[str]:
        """Those options, of some or of all, that differ from their defaults."""
        return [
            option.name
            for option in fields(self)
            if option.name in (names or [field.name for field in fields(self)])
            and not is_default(option, getattr(self, option.name))
        ]

    @property
    def scope(self) -> Scope:
        """See `Method`."""
        if self.norm is None:
            return Scope()
        return OF_RESIDUALS[self.norm] if self.smooths_residuals else CLASSICAL

    @property
    def smooths_residuals(self) -> bool:
        """Whether residuals are smoothed, as debiased errors do; otherwise labels are."""
        return self.estimator == DEBIASED

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return f"mean {divergence}" if self.norm is None else NORM_WORDS[self.norm]

    def check(self, n_problems: int, notion: str) -> None:
        """Refuse options that are not known, before anything is computed."""
        one_of("estimator", self.estimator, ESTIMATORS)
        one_of("start", self.start, STARTS)
        one_of("kernel", self.kernel, KERNELS)
        bandwidth = self.bandwidth
        if bandwidth is None:
            return
        if isinstance(bandwidth, str):
            if bandwidth not in CRITERIA:
                listed = ", ".join(repr(name) for name in CRITERIA)
                raise ValueError(
                    f"`bandwidth` must be one of {listed}, a number, one number per class or a "
                    f"BandwidthSearch; found {bandwidth!r}."
                )
        elif isinstance(bandwidth, BandwidthSearch):
            if len(bandwidth.curves) != n_problems:
                raise ValueError(
                    f"`bandwidth` is a search for {len(bandwidth.curves)} problem(s), but "
                    f"notion={notion!r} makes {n_problems}. Search with the same notion."
                )
        elif (given := positive(bandwidth, "bandwidth")).shape not in ((), (1,), (n_problems,)):
            raise ValueError(
                f"`bandwidth` must be one number or {n_problems} for notion={notion!r}; found "
                f"{given.size}."
            )

    def outcome(self, case: Case, engine: str, progress: bool | None) -> Outcome:
        """See `Method`."""
        return (self._of_residuals if self.smooths_residuals else self._of_labels)(
            case, engine, progress
        )

    def _of_labels(self, case: Case, engine: str, progress: bool | None) -> Outcome:
        kernel = KERNELS[self.kernel]
        tunings, search = self.tunings(case, engine, progress)
        announce_averages(case.problems, engine, 1)
        smoother = choose_smoother(case.problems, kernel, engine)
        estimates = label_estimates(case.problems, smoother, tunings, self.estimator, progress)
        if self.norm is not None:
            problem, (estimate,) = case.problems[0], estimates
            assert estimate.conditional is not None
            gap = estimate.conditional - problem.predictions
            value = norm_of(gap, problem.weights, self.norm)
            estimates = [replace(estimate, value=value)]
        return Outcome(estimates, tunings, search)

    def _of_residuals(self, case: Case, engine: str, progress: bool | None) -> Outcome:
        kernel, start = KERNELS[self.kernel], STARTS[self.start]
        tunings, search, candidates = None, None, None
        if self.chooses_by_risk:
            announce_errors(len(case.problems))
            n_classes = case.problems[0].n_classes
            candidates = candidate_set(self.candidates, kernel, n_classes)
        else:
            tunings, search = self.tunings(case, engine, progress)
        kernels = residuals = debiased(
            case.problems,
            kernel,
            engine,
            start,
            tunings,
            candidates,
            progress,
            by_nodes=not case.complete,
        )
        if tunings is None:
            residuals = finer(kernels, OF_NORMS if self.norm in MEANS else None)
            tunings = [each.tunings.best for each in residuals]
            found = (each.tunings.curve for each in residuals)
            curves = tuple(curve for curve in found if curve is not None)
            search = BandwidthSearch("cross-validation", curves, case.notion.per_class)
        estimates = [summed(each) for each in residuals]
        if self.norm not in MEANS:
            return Outcome(estimates, tunings, search, residuals)
        norms = norm_estimates(kernels, residuals, self.norm)
        pairs = zip(estimates, norms, strict=True)
        estimates = [replace(each, value=float(own.value.sum())) for each, own in pairs]
        return Outcome(estimates, tunings, search, residuals, norms)

    @property
    def chooses_by_risk(self) -> bool:
        """Whether tunings of residuals are weighted by their leave-one-out risk."""
        return isinstance(self.bandwidth, str | None) and self.bandwidth in (
            None,
            "cross-validation",
        )

    def tunings(
        self, case: Case, engine: str, progress: bool | None
    ) -> tuple[list[Tuning], BandwidthSearch | None]:
        """The tuning of each problem, given or found by a criterion, and the search."""
        bandwidth = "risk-alignment" if self.bandwidth is None else self.bandwidth
        search = bandwidth if isinstance(bandwidth, BandwidthSearch) else None
        if isinstance(bandwidth, str):
            search = search_bandwidth(
                case.problems,
                KERNELS[self.kernel],
                bandwidth,
                per_class=case.notion.per_class,
                candidates=self.candidates,
                power=self.power,
                engine=engine,
                progress=progress,
            )
        if search is not None:
            return [Tuning(curve.value, curve.flattening) for curve in search.curves], search
        given = np.broadcast_to(positive(bandwidth, "bandwidth"), (len(case.problems),))
        return [Tuning(h) for h in given.tolist()], None


def summed(each: Debiased) -> Estimate:
    """The estimate of a problem from its rows."""
    value, risk = each.mean(each.terms), each.mean(each.risk)
    return Estimate(value, risk, risk - value, each.mean(each.reconstructed_risk))
