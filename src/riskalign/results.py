"""What the library answers: frozen numbers, printed so that a person can read them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from riskalign.bandwidth.search import BandwidthSearch
from riskalign.equations.arrays import FloatArray
from riskalign.methods.curve import ReliabilityCurve

SHOWN = 5
"""Classes listed by `print`; the rest are in `per_class`."""

NAME_WIDTH = 40
"""Letters of a class's name that are printed: tables fit into 100 columns."""

CONFIDENCE = 0.95
"""The confidence of intervals that are printed where none was asked for."""

DIRECTIONS = {0: "no clear direction", 1: "over-confident", -1: "under-confident"}
"""Words for the sign of a gap, where its interval excludes 0."""

SIDES = {0: "no clear direction", 1: "too high", -1: "too low"}
"""The same for the probability of one class."""


@dataclass(frozen=True)
class Overconfidence:
    """Signed differences, positive where the model claims too much.

    Attributes
    ----------
    per_class : (K,), mean of f - R; for binary and top-label errors the one probability's
    top_label : the same for the class each row ranks first; mean of f - y where a sketch holds a
        part of the rows
    gap : mean of f - y as observed, for binary errors of the one probability, for others of the
        class each row ranks first: mean confidence less accuracy
    gap_error : the standard error of `gap`
    confidence : that of `gap_interval`
    """

    per_class: FloatArray
    top_label: float
    gap: float
    gap_error: float
    confidence: float = CONFIDENCE

    @property
    def gap_interval(self) -> tuple[float, float]:
        """The interval of the gap, by the normal approximation."""
        reach = float(ndtri((1 + self.confidence) / 2)) * self.gap_error
        return self.gap - reach, self.gap + reach

    @property
    def sign(self) -> int:
        """The sign of the gap where its interval excludes 0, else 0."""
        low, high = self.gap_interval
        return int(low > 0) - int(high < 0)


@dataclass(frozen=True)
class BinarySummary:
    """One probability on average, and its logistic recalibration.

    The recalibration is log-odds(R) = intercept + slope log-odds(f): a calibrated model has slope
    1 and intercept 0, and a slope below 1 says that predictions are too extreme.

    Attributes
    ----------
    mean_prediction, frequency : the means of f and of y
    ratio, ratio_interval : mean_prediction / frequency; infinite where the class never occurs,
        NaN where it is never predicted either
    slope, slope_interval, intercept, intercept_interval : of the logistic recalibration
    confidence : that of the intervals
    """

    mean_prediction: float
    frequency: float
    ratio: float
    ratio_interval: tuple[float, float]
    slope: float
    slope_interval: tuple[float, float]
    intercept: float
    intercept_interval: tuple[float, float]
    confidence: float

    @property
    def sign(self) -> int:
        """1 where the probability is too high, -1 where it is too low, 0 where that is not clear.

        It is clear if the interval of the ratio excludes 1.
        """
        low, high = self.ratio_interval
        return int(low > 1) - int(high < 1)

    @property
    def direction(self) -> str:
        """The sign in words, with the factor: "1.7 times too high"."""
        value, least, _ = self.factor()
        if self.sign == 0 or least == "inf":
            return SIDES[self.sign]
        times = f"at least {least}" if value == "inf" else value
        return f"{times} times {SIDES[self.sign]}"

    def factor(self) -> tuple[str, str, str]:
        """The ratio and the ends of its interval, inverted where the probability is too low.

        They have as many digits as tell the near end from 1.
        """
        value, (low, high) = self.ratio, self.ratio_interval
        if self.sign < 0:
            value, low, high = (1 / x if x > 0 else math.inf for x in (value, high, low))
        digits = 2 if self.sign == 0 else next((d for d in (1, 2, 3) if low >= 1 + 10**-d), 4)
        return f"{value:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types, None where they are not finite."""
        return {
            name: [_finite(x) for x in value] if isinstance(value, tuple) else _finite(value)
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Interval:
    """How far chance moves a value: the last three fields of a result."""

    standard_error: float
    interval: tuple[float, float]
    confidence: float


@dataclass(frozen=True)
class CalibrationResult:
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
        The terms whose sum is `value`, for class-wise errors.
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
        The classical norm of R - f that `value` is, None for a loss's divergence.
    note : str
        What else the method has to say.
    standard_error, interval, confidence : float, (low, high), float, or None
        How far chance moves `value`, and the interval of that confidence, cut at 0; for
        debiased errors, where `confidence` was asked for.
    binary : BinarySummary or None
        For debiased binary errors: mean prediction and frequency with their ratio, and the slope
        and intercept of the logistic recalibration.

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
    binary: BinarySummary | None = None

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
        return vars(self) | {"rows": None, "curve": None, "conditional": self.conditional}

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
        return (SIDES if self.notion == "binary" else DIRECTIONS)[self.overconfidence.sign]

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
        }

    def to_columns(self) -> dict[str, list[Any]]:
        """A row for each class of a class-wise error, one row for others, as columns.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(300, 3, seed=0)
        >>> result = ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.1)
        >>> list(result.to_columns())
        ['class', 'error', 'overconfidence', 'bandwidth', 'at_edge']
        """
        name = {"top-label": "top label", "canonical": "all classes"}.get(self.notion)
        one = [name or (self.classes[-1] if self.classes else "")]
        names = list(self.classes) if self.per_class is not None else one
        values = np.atleast_1d(self.value if self.per_class is None else self.per_class)
        gaps = np.full(len(names), np.nan)
        if self.overconfidence is not None:
            whole = self.notion == "canonical"
            gaps[:] = self.overconfidence.top_label if whole else self.overconfidence.per_class
        h = np.nan if self.bandwidth is None else self.bandwidth
        edge = False if self.search is None else self.search.at_edge
        return {
            "class": names,
            "error": values.tolist(),
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
        if library not in ("pandas", "polars"):
            raise ValueError(f"`library` must be 'pandas' or 'polars'; found {library!r}.")
        try:
            module = importlib.import_module(library)
        except ImportError:
            raise ImportError(f"`to_frame` needs {library}: pip install {library}.") from None
        return module.DataFrame(self.to_columns())

    def __str__(self) -> str:
        """A short table."""
        measure = f"{self.loss} loss" if self.norm is None else f"{self.norm} norm"
        lines = [
            f"{self.notion} calibration error, {measure}, "
            f"n = {self.n_samples:,}, K = {len(self.classes)}",
            "",
            _line("calibration error", self.value, self.definition),
        ]
        if self.interval is not None:
            low, high = self.interval
            lines.append(f"  {f'  {self.confidence:.0%} interval':<20}{low:.6f} to {high:.6f}")
        if self.norm is None:
            lines += self._risk_lines()
        if self.binary is not None:
            lines += self._binary_lines(self.binary)
        elif self.overconfidence is not None:
            lines.append(self._gap_line(self.overconfidence))
        lines.append(self._method_line())
        if self.per_class is not None:
            lines += ["", *self._class_table()]
        return "\n".join(lines)

    def _gap_line(self, gaps: Overconfidence) -> str:
        low, high = gaps.gap_interval
        meaning = f"{gaps.confidence:.0%} interval {low:+.4f} to {high:+.4f}: {self.direction}"
        name = "mean f - y" if self.notion == "binary" else "top-label f - y"
        return _line(name, gaps.gap, meaning, signed=True)

    def _binary_lines(self, found: BinarySummary) -> list[str]:
        confidence = f"{found.confidence:.0%} interval"

        def line(name: str, value: float, interval: tuple[float, float], meaning: str) -> str:
            ends = f"{interval[0]:.4f} to {interval[1]:.4f}"
            return _line(name, value, f"{confidence} {ends}{meaning}")

        return [
            _line(
                "mean predicted", found.mean_prediction, f"of class {_shortened(self.classes[-1])}"
            ),
            _line("observed", found.frequency, "its frequency"),
            line("predicted / observed", found.ratio, found.ratio_interval, f": {found.direction}"),
            line("calibration slope", found.slope, found.slope_interval, ", 1 is ideal"),
            line("  and intercept", found.intercept, found.intercept_interval, ", 0 is ideal"),
        ]

    def _risk_lines(self) -> list[str]:
        lines = []
        if self.loss == "l2":
            per_class = ", per class" if self.per_class is not None else ""
            meaning = f"root mean square of R - f{per_class}"
            lines.append(_line("  typical |R - f|", self.root, meaning))
        if self.refinement is not None:
            of = "risk - calibration error" if self.estimator == "debiased" else "mean <R, l(R)>"
            meaning = f"{of}, what calibration cannot mend"
            lines.append(_line("refinement", self.refinement, meaning))
        lines.append(_line("risk", self.risk, "mean <y, l(f)>, observed"))
        if self.reconstructed_risk is not None:
            lines.append(_line("reconstructed risk", self.reconstructed_risk, "mean <R, l(f)>"))
        return lines

    def _method_line(self) -> str:
        if self.bandwidth is not None:
            return f"  {'bandwidth':<20}{self._bandwidth()}"
        return f"  {'method':<20}{self.method}" + (f"; {self.note}" if self.note else "")

    def _bandwidth(self) -> str:
        h = np.atleast_1d(np.asarray(self.bandwidth, dtype=np.float64))
        origin = "given" if self.search is None else self.search.criterion
        edges = 0 if self.search is None else int(np.count_nonzero(self.search.at_edge))
        if len(h) == 1:
            return f"{h[0]:.4g} ({origin}{'; at the edge of its range' if edges else ''})"
        note = f"; {edges} at the edge of the range" if edges else ""
        return f"{h.min():.3g} to {h.max():.3g} ({origin}, one a class{note})"

    def _class_table(self) -> list[str]:
        assert self.per_class is not None
        assert self.overconfidence is not None
        worst = np.argsort(-self.per_class, kind="stable")[:SHOWN]
        names = {k: _shortened(self.classes[k]) for k in worst}
        width = max(5, *map(len, names.values()))
        n_classes = len(self.per_class)
        more = f" (largest {SHOWN} of {n_classes})" if n_classes > SHOWN else ""
        rows = [f"  {'class':<{width}}  {'error':>10}  {'f - R':>9}{more}"]
        rows += [
            f"  {names[k]:<{width}}  {self.per_class[k]:>10.6f}  "
            f"{self.overconfidence.per_class[k]:>+9.4f}"
            for k in worst
        ]
        return rows


def _line(name: str, value: float, meaning: str, *, signed: bool = False) -> str:
    number = f"{value:+.6f}" if signed else f"{value:.6f}"
    return f"  {name:<20}{number:>10}   {meaning}"


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 3] + "..."


def _plain(x: float | FloatArray | None) -> Any:
    return x.tolist() if isinstance(x, np.ndarray) else x


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _search_dict(search: BandwidthSearch) -> dict[str, Any]:
    return {
        "criterion": search.criterion,
        "value": _plain(search.value),
        "at_edge": np.asarray(search.at_edge).tolist(),
    }
