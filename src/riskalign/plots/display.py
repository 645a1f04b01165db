"""The numbers of a reliability diagram, in the form of scikit-learn's displays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from riskalign.data.notions import CLASSWISE, OF_ONE_PROBABILITY
from riskalign.data.validation import one_of
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.problem import Problem
from riskalign.estimate import reliability_curve
from riskalign.methods.band import FEWEST, KINDS, critical, wilson
from riskalign.methods.curve import ReliabilityCurve
from riskalign.plots.canvas import axes_for, n_diagrams
from riskalign.plots.problems import (
    bin_numbers,
    column_of,
    first_scale,
    is_classwise,
    is_one_of_two,
    problem_of,
    split,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 5
"""Rows near a point below which no curve is drawn there."""

POINTS = 201
"""Points of a curve."""

BARS = 25
"""Bars that count predictions."""

ATOMS = 25
"""Distinct predictions up to which they are scores such as 0.1, 0.2, ..., 1: drawn as dots."""

OUTER = 1e-5
"""Where a logit axis ends at the latest; what lies beyond is counted in the last bar."""


@dataclass(frozen=True, repr=False)
class Dots:
    """Groups of rows: what was predicted on average, and how often it came true.

    Attributes
    ----------
    predicted, observed : (b,), means of f and of y
    low, high : (b,), Wilson's interval of `observed`
    samples : (b,), effective numbers of rows
    label : what the groups are, in words
    """

    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    samples: FloatArray
    label: str

    def __repr__(self) -> str:
        """One line."""
        return f"<Dots: {len(self.predicted)} groups of rows, {self.label}>"

    @classmethod
    def of(cls, problem: Problem, groups: FloatArray | IntArray, z: float, label: str) -> Dots:
        """The rows of a problem by a number ``(n,)`` that those of one group share."""
        _, group = np.unique(groups, return_inverse=True)
        w = problem.weights
        total, squares, p, y = (
            np.bincount(group, v)
            for v in (w, w * problem.units, w * problem.predictions, w * problem.labels)
        )
        used = total > 0
        total, squares, p, y = (v[used] for v in (total, squares, p, y))
        n = total**2 / squares
        low, high = wilson(y / total, np.zeros_like(n), 1 / n, z)
        return cls(p / total, y / total, low, high, n, label)


@dataclass(repr=False)
class ReliabilityDisplay:
    """A reliability diagram: its numbers, and how to draw them.

    Made by `from_predictions`, `from_estimator` or `riskalign.plots.reliability_diagram`; `plot`
    only draws, as often as you like.

    Attributes
    ----------
    grid, conditional : (m,), the curve of E[y | f]; NaN where fewer than 5 rows lie near
    low, high : (m,), its band; NaN where fewer than 30 rows lie near, None without a band
    informed : (m,), where at least 30 rows lie near: elsewhere the curve is drawn faintly
    atoms : Dots or None, in place of the curve if there are up to 25 distinct predictions
    bins : Dots or None, rows in bins of equal width
    edges, shares : (b + 1,), (b,), of the histogram of predictions
    ends : where the axis begins and ends
    subject : what is predicted, in words
    name : the model's, for the legend
    ax_, figure_, line_ : where it was drawn last

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, t2=0.5, seed=0)
    >>> display = ra.plots.ReliabilityDisplay.from_predictions(data.y_true, data.y_prob)
    >>> display.plot(color="black").ax_.get_ylabel()
    'observed frequency'
    """

    grid: FloatArray
    conditional: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    informed: BoolArray
    atoms: Dots | None
    bins: Dots | None
    edges: FloatArray
    shares: FloatArray
    ends: tuple[float, float]
    scale: str
    band: str | None
    confidence: float
    n_samples: int
    subject: str = "predicted probability"
    name: str | None = None
    ax_: Axes | None = field(default=None, repr=False, compare=False)
    figure_: Any = field(default=None, repr=False, compare=False)
    line_: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """One line."""
        name = "" if self.name is None else f"{self.name}, "
        drawn = "no band" if self.band is None else f"{self.confidence:.0%} band, {self.band}"
        if self.atoms is not None:
            drawn = f"{len(self.atoms.predicted)} distinct predictions"
        return f"<ReliabilityDisplay: {name}{self.subject}, {drawn}, n={self.n_samples:,}>"

    @classmethod
    def from_predictions(
        cls,
        y_true: object,
        y_prob: object,
        *,
        notion: str | None = None,
        pos_label: object = None,
        scale: str | None = None,
        band: str | bool | None = "pointwise",
        confidence: float = 0.95,
        bins: int | None = None,
        discrete: bool | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Compute and draw; the parameters are those of `reliability_diagram`.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(500, 2, t2=0.5, seed=0)
        >>> display = ra.plots.ReliabilityDisplay.from_predictions(
        ...     data.y_true, data.y_prob[:, 1], bins=15
        ... )
        >>> len(display.bins.predicted)
        15
        """
        if notion is not None:
            one_of("notion", notion, OF_ONE_PROBABILITY)
        sample, of_curve, of_line = split(y_true, y_prob, options)
        problem, subject = problem_of(sample, notion, pos_label)
        if scale is None and ax is not None and n_diagrams(ax):
            scale = ax.get_xscale()
        elif scale is None:
            mean = float(np.average(problem.predictions, weights=problem.weights))
            scale = first_scale(mean, one_of_two=is_one_of_two(len(sample.classes), notion))
        known = None
        if is_classwise(len(sample.classes), pos_label):
            curve = reliability_curve(
                sample.labels,
                sample.probabilities,
                grid=axis_of(problem.predictions, scale)[1],
                notion=CLASSWISE.name,
                sample_weight=sample.weights,
                progress=False,
                **of_curve,
            )
            known = curve.of_class(column_of(sample, pos_label))
        display = cls.of_problem(
            problem, scale, band, confidence, bins, discrete, subject, name, of_curve, known
        )
        return display.plot(ax=ax, **of_line)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: object, y: object, **options: Any
    ) -> ReliabilityDisplay:
        """Predict, compute and draw.

        Parameters
        ----------
        estimator : a fitted classifier with `predict_proba` and `classes_`
        X, y : rows and their labels
        **options : as for `reliability_diagram`; `name` is by default the classifier's type

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> import riskalign as ra
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> y = np.where(X[:, 0] > 0, "spam", "mail")
        >>> model = LogisticRegression().fit(X, y)
        >>> display = ra.plots.ReliabilityDisplay.from_estimator(model, X, y)
        >>> display.name, display.subject
        ('LogisticRegression', 'predicted probability of spam')
        """
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"`estimator` must have `predict_proba`; {type(estimator).__name__} has none. Pass "
                "its probabilities to `from_predictions`."
            )
        defaults: dict[str, Any] = {"name": type(estimator).__name__}
        if hasattr(estimator, "classes_"):
            defaults["classes"] = list(estimator.classes_)
        return cls.from_predictions(y, estimator.predict_proba(X), **(defaults | options))

    @classmethod
    def of_problem(
        cls,
        problem: Problem,
        scale: str,
        band: str | bool | None,
        confidence: float,
        bins: int | None,
        discrete: bool | None,
        subject: str,
        name: str | None,
        options: dict[str, Any],
        known: ReliabilityCurve | None = None,
    ) -> ReliabilityDisplay:
        """The numbers of one probability, from its own curve or from one that is known."""
        band = kind_of_band(band)
        kind = band or KINDS[0]
        z = critical(confidence, kind)
        if bins is not None and (not isinstance(bins, int | np.integer) or bins < 1):
            raise ValueError(f"`bins` must be a number of bins, 1 or more; found {bins!r}.")
        p = problem.predictions
        ends, grid, edges = axis_of(p, scale)
        if known is not None:
            grid, edges = known.grid, edges_of(known.grid)
            ends = float(grid[0]), float(grid[-1])
        values = np.unique(p)
        if discrete is None:
            discrete = len(values) <= ATOMS and len(p) >= 2 * len(values)
        atoms, low, high = None, None, None
        R, informed = np.full(len(grid), np.nan), np.zeros(len(grid), dtype=np.bool_)
        if discrete:
            of_each = confidence if kind == "pointwise" else confidence ** (1 / len(values))
            atoms = Dots.of(problem, p, critical(of_each, kind), "share that came true")
        else:
            curve = known or reliability_curve(
                problem.labels,
                p,
                grid=grid,
                sample_weight=problem.weights,
                progress=False,
                **options,
            )
            R = np.where(curve.local_samples >= FEW, curve.conditional, np.nan)
            informed = curve.local_samples >= FEWEST
            if band is not None:
                low, high = curve.band(confidence, kind)
        counted = None
        if bins is not None:
            counted = Dots.of(problem, bin_numbers(p, bins), z, f"{bins} bins of equal width")
        counts, _ = np.histogram(np.clip(p, edges[0], edges[-1]), edges, weights=problem.weights)
        return cls(
            grid,
            R,
            low,
            high,
            informed,
            atoms,
            counted,
            edges,
            counts / problem.weights.sum(),
            ends,
            scale,
            band,
            confidence,
            len(p),
            subject,
            name,
        )

    def drawn(self, heights: FloatArray) -> FloatArray:
        """Heights as drawn: 0 and 1 are just beyond the ends of a logit axis."""
        inside = (0.0, 1.0) if self.scale == "linear" else (OUTER / 10, 1 - OUTER / 10)
        return np.clip(heights, *inside)

    def plot(
        self, *, ax: Axes | None = None, name: str | None = None, **keywords: Any
    ) -> ReliabilityDisplay:
        """Draw on an Axes, beside the diagrams that it already has.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure's.
        name : str, optional
            For the legend, in place of the display's own.
        **keywords
            Of matplotlib's lines, for the curve: `color`, `linestyle`, `label`, `lw`, ...

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(500, 2, t2=0.5, seed=0)
        >>> display = ra.plots.ReliabilityDisplay.from_predictions(data.y_true, data.y_prob)
        >>> display.plot(label="model A", linestyle=":").line_.get_linestyle()
        ':'
        """
        from riskalign.plots.diagram import draw

        ax = axes_for(ax, 5.0, 5.6)
        self.line_ = draw(ax, self, name or self.name, keywords=keywords)
        ax.set_xlabel(self.subject)
        ax.set_ylabel("observed frequency")
        self.ax_, self.figure_ = ax, ax.get_figure(root=False)
        return self


def kind_of_band(band: object) -> str | None:
    """The kind of a band; None for no band, which is said in several ways."""
    if band is None or band is False or band == "none":
        return None
    if band not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise ValueError(f"`band` must be one of {known}, or None for no band; found {band!r}.")
    return str(band)


def axis_of(p: FloatArray, scale: str) -> tuple[tuple[float, float], FloatArray, FloatArray]:
    """The ends of the axis, the points of the curve, and the edges of the bars."""
    if one_of("scale", scale, ("linear", "logit")) == "linear":
        grid = np.linspace(0, 1, POINTS)
        return (0.0, 1.0), grid, edges_of(grid)
    # around nearly all predictions, and around 1/2
    low, high = np.quantile(np.clip(p, OUTER, 1 - OUTER), [0.001, 0.999])
    ends = min(float(low), 0.4), max(float(high), 0.6)
    first, last = logit(ends)
    grid = expit(np.linspace(first, last, POINTS))
    return ends, grid, edges_of(grid)


def edges_of(grid: FloatArray) -> FloatArray:
    """Edges of bars, at points of a curve."""
    return grid[:: (POINTS - 1) // BARS]
