"""What the library answers: frozen numbers, printed so that a person can read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from riskalign.bandwidth.result import BandwidthSearch
from riskalign.data.notions import NOTIONS
from riskalign.display.averages import (
    CONFIDENCE,
    DIRECTIONS,
    SIDES,
    BinarySummary,
    Overconfidence,
)
from riskalign.display.frames import data_frame
from riskalign.display.printed import Printed
from riskalign.equations.arrays import FloatArray
from riskalign.equations.evidence import ClassEvidence
from riskalign.methods.curve import ReliabilityCurve

__all__ = ["CONFIDENCE", "BinarySummary", "CalibrationResult", "Interval", "Overconfidence"]


@dataclass(frozen=True)
class Side:
    """The part of a norm that comes from probabilities that are too high, or too low.

    Attributes
    ----------
    value : mean of max(f - R, 0), or of max(R - f, 0); for class-wise errors summed over classes
    standard_error, interval : how far chance moves it; None where no `confidence` was asked for
    """

    value: float
    standard_error: float | None = None
    interval: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        ends = None if self.interval is None else list(self.interval)
        return {**vars(self), "interval": ends}


@dataclass(frozen=True)
class Interval:
    """How far chance moves a value, and for class-wise errors that of each class."""

    standard_error: float
    interval: tuple[float, float]
    confidence: float
    per_class_standard_error: FloatArray | None = None
    per_class_interval: FloatArray | None = None
    too_high: Side | None = None
    too_low: Side | None = None


@dataclass(frozen=True, repr=False)
class CalibrationResult(Printed):
    """A calibration error with everything it was computed from.

    Attributes
    ----------
    value : float
        The calibration error; for class-wise errors the sum over classes.
    risk, refinement, reconstructed_risk : float
        Observed risk <y, l(f)>; <R, l(R)>; <R, l(f)>. Plug-in error and refinement add up
        to the reconstructed risk. The last two are None for methods that have no R.
    bandwidth : float, (K,) array or None
        The kernel's bandwidth, one per class for class-wise errors; None for other methods.
    per_class : (K,) array or None
        The terms whose sum is `value`, for class-wise errors; with norm="l2" their squares add up
        to its square.
    search : BandwidthSearch or None
        How the bandwidth was found; None if it was given as numbers.
    overconfidence : Overconfidence or None
        Signed mean of f - R, and of f - y with its standard error.
    conditional : array or None
        R, the estimate of E[y | f], one row per sample: ``(n,)`` for binary and top-label
        errors, ``(n, K)`` otherwise. NaN for a sample, None for a method, that has none.
    definition : str
        What `value` estimates.
    method : str
        The method that estimated it, as it was called.
    norm : str or None
        The norm of R - f that `value` is, None for a loss's divergence.
    too_high, too_low : Side or None
        With norm="l1", except for canonical errors: the parts of `value` that come from
        probabilities above and below the truth. Of the top label they are the over-confident and
        the under-confident part.
    note : str
        What else there is to say: by the method, of labels that are all of one class, and of a
        canonical error that comes from a sample of the rows, with its size.
    standard_error, interval, confidence : float, (low, high), float, or None
        How far chance moves `value`, and the interval of that confidence, cut at 0; for
        debiased errors, where `confidence` was asked for.
    per_class_standard_error, per_class_interval : (K,) and (K, 2) arrays, or None
        The same for each class of a class-wise error.
    binary : BinarySummary or None
        For debiased binary errors: mean prediction and frequency with their ratio, and the slope
        and intercept of the logistic recalibration.
    evidence : ClassEvidence or None
        For class-wise errors: predicted against observed frequency of each class, with intervals,
        and which classes are off by more than chance.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(400, 3, seed=0)
    >>> result = ra.calibration_error(data.y_true, data.y_prob, estimator="plugin", bandwidth=0.05)
    >>> result.per_class.shape, bool(abs(result.per_class.sum() - result.value) < 1e-12)
    ((3,), True)
    """

    value: float
    risk: float
    refinement: float | None
    reconstructed_risk: float | None
    bandwidth: float | FloatArray | None
    per_class: FloatArray | None
    search: BandwidthSearch | None
    overconfidence: Overconfidence | None
    rows: Callable[[], FloatArray | None] | None = field(repr=False, compare=False)
    curve: Callable[[object], ReliabilityCurve] | None = field(repr=False, compare=False)
    notion: str
    loss: str
    estimator: str | None
    kernel: str | None
    definition: str
    classes: tuple[str, ...] = field(repr=False)
    n_samples: int
    method: str = "KernelSmoother"
    norm: str | None = None
    note: str = ""
    standard_error: float | None = None
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    per_class_standard_error: FloatArray | None = None
    per_class_interval: FloatArray | None = None
    too_high: Side | None = None
    too_low: Side | None = None
    binary: BinarySummary | None = None
    evidence: ClassEvidence | None = field(default=None, compare=False)
    bound: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def upper_bound(self) -> float | None:
        """A conservative upper bound of the error, computed when it is first asked for.

        It allows for what kernels that are too wide to follow rough miscalibration may miss, which
        the interval does not: the upper end of the interval of an estimate whose averages rest on
        20 samples each, or that of `interval` if it is larger. None without `confidence`.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.wavy(500, 2, seed=0)
        >>> result = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95)
        >>> result.upper_bound >= result.interval[1]
        True
        """
        return None if self.bound is None else self.bound()

    @cached_property
    def conditional(self) -> FloatArray | None:
        """R at each sample, computed when it is first asked for."""
        return None if self.rows is None else self.rows()

    def reliability_curve(self, grid: object = 101) -> ReliabilityCurve:
        """The R behind the error as a curve; `grid` as for `reliability_curve`.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(500, 3, seed=0)
        >>> result = ra.calibration_error(data.y_true, data.y_prob)
        >>> result.reliability_curve([0.2, 0.5, 0.8]).conditional.shape
        (3, 3)
        """
        if self.curve is None:
            raise ValueError(f"{self.method} has no curve, or the result was stored without it.")
        return self.curve(grid)

    def __getstate__(self) -> dict[str, Any]:
        """What is stored of a result: not how to compute more from the sample."""
        more = {
            "rows": None,
            "curve": None,
            "bound": None,
            "conditional": self.conditional,
        }
        return vars(self) | more

    def without_rows(self) -> CalibrationResult:
        """The result without `conditional`.

        Examples
        --------
        >>> import riskalign as ra
        >>> result = ra.calibration_error([0, 1, 1], [0.2, 0.6, 0.9])
        >>> result.conditional.shape, result.without_rows().conditional
        ((3,), None)
        """
        return replace(self, rows=None)

    @property
    def root(self) -> float:
        """Square root of the error, per class for class-wise errors; 0 if it is negative.

        For the squared error it is a typical |R - f|: the root mean square over rows and, for
        class-wise errors, over classes.
        """
        mean = self.value if self.per_class is None else float(np.mean(self.per_class))
        return float(np.sqrt(max(mean, 0.0)))

    @property
    def direction(self) -> str | None:
        """Which way the probabilities err on average, if an interval shows it.

        The interval is that of mean(f - y), or of the ratio in `binary`. The direction is None
        for methods that have no R.
        """
        if self.binary is not None:
            return SIDES[self.binary.sign]
        if self.overconfidence is None:
            return None
        return (SIDES if self._one_class else DIRECTIONS)[self.overconfidence.sign]

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types; the per-sample estimate is left out.

        Examples
        --------
        >>> import json
        >>> import riskalign as ra
        >>> result = ra.calibration_error([0, 1, 1], [0.2, 0.6, 0.9], bandwidth=0.1)
        >>> json.loads(json.dumps(result.to_dict()))["value"] == result.value
        True
        """
        return {
            "value": self.value,
            "root": self.root,
            "risk": self.risk,
            "refinement": self.refinement,
            "reconstructed_risk": self.reconstructed_risk,
            "bandwidth": _plain(self.bandwidth),
            "per_class": _plain(self.per_class),
            "overconfidence": None
            if self.overconfidence is None
            else {
                "per_class": _plain(self.overconfidence.per_class),
                "top_label": self.overconfidence.top_label,
                "gap": self.overconfidence.gap,
                "gap_standard_error": self.overconfidence.gap_error,
                "gap_interval": list(self.overconfidence.gap_interval),
            },
            "direction": self.direction,
            "binary": None if self.binary is None else self.binary.to_dict(),
            "search": None if self.search is None else _search_dict(self.search),
            "notion": self.notion,
            "loss": self.loss,
            "estimator": self.estimator,
            "kernel": self.kernel,
            "definition": self.definition,
            "classes": list(self.classes),
            "n_samples": self.n_samples,
            "method": self.method,
            "norm": self.norm,
            "note": self.note,
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": self.confidence,
            "per_class_standard_error": _plain(self.per_class_standard_error),
            "per_class_interval": _plain(self.per_class_interval),
            **{
                name: side.to_dict()
                for name, side in (("too_high", self.too_high), ("too_low", self.too_low))
                if side is not None
            },
        }

    def to_columns(self) -> dict[str, list[Any]]:
        """A row for each class of a class-wise error, one row for others, as columns.

        Where a confidence was asked for, `low` and `high` are the ends of the intervals.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(300, 3, seed=0)
        >>> result = ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.1)
        >>> list(result.to_columns())
        ['class', 'error', 'overconfidence', 'bandwidth', 'at_edge']
        """
        notion = NOTIONS[self.notion]
        names = notion.names(self.classes or ("", ""))
        values = np.atleast_1d(self.value if self.per_class is None else self.per_class)
        gaps = np.full(len(names), np.nan)
        if self.overconfidence is not None:
            gaps[:] = (
                self.overconfidence.top_label if notion.joint else self.overconfidence.per_class
            )
        h = np.nan if self.bandwidth is None else self.bandwidth
        edge = False if self.search is None else self.search.at_edge
        ends: dict[str, list[Any]] = {}
        if self.interval is not None:
            own = self.per_class_interval
            both = np.array([self.interval]) if own is None else own
            ends = {"low": both[:, 0].tolist(), "high": both[:, 1].tolist()}
        return {
            "class": names,
            "error": values.tolist(),
            **ends,
            "overconfidence": gaps.tolist(),
            "bandwidth": np.broadcast_to(h, values.shape).tolist(),
            "at_edge": np.broadcast_to(edge, values.shape).tolist(),
        }

    def to_frame(self, library: str = "pandas") -> Any:
        """A data frame: a row for each class of a class-wise error, one row for others.

        Parameters
        ----------
        library : {"pandas", "polars"}
            Whose data frame.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(400, 3, seed=0)
        >>> result = ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.05)
        >>> result.to_frame().columns.tolist()
        ['class', 'error', 'overconfidence', 'bandwidth', 'at_edge']
        """
        return data_frame(self.to_columns, library, "to_frame")


def _plain(x: float | FloatArray | None) -> Any:
    return x.tolist() if isinstance(x, np.ndarray) else x


def _search_dict(search: BandwidthSearch) -> dict[str, Any]:
    return {
        "criterion": search.criterion,
        "value": _plain(search.value),
        "at_edge": np.asarray(search.at_edge).tolist(),
    }
