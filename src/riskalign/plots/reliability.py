"""Reliability diagrams: what was predicted against what came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from riskalign.data.notions import CLASSWISE
from riskalign.equations.losses import L2
from riskalign.estimate import reliability_curve
from riskalign.plots.canvas import grid_of_axes
from riskalign.plots.diagram import draw, legend_of_all
from riskalign.plots.display import ReliabilityDisplay, axis_of
from riskalign.plots.problems import column_of, named, split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 12
"""Classes of a grid, unless more are asked for."""


def reliability_diagram(
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
) -> Axes:
    """Draw how often events came true against their predicted probability.

    The curve is the R behind the default calibration error; on the diagonal, what is predicted
    comes true. The band allows for chance and for smoothing (see `ReliabilityCurve.band`). Where
    fewer than 30 rows lie near, there is no band and the curve is dotted; where fewer than 5 do,
    nothing is drawn. Below the curve is the histogram of the predictions.

    Drawn on the same Axes again, another model's curve is added.

    Parameters
    ----------
    y_true, y_prob
        As for `calibration_error`.
    notion : {"binary", "top-label"}, optional
        The probability of class 1, or of the predicted class. Default: "binary" for two
        classes, else "top-label".
    pos_label : optional
        The class whose probability is drawn, one of `classes` or a column's number.
    scale : {"linear", "logit"}, optional
        "logit" spreads out predictions near 0 and 1. Default: that of the diagram on `ax`, if
        there is one; else "logit" for one of two classes that is predicted with less than 5% on
        average, as in `riskalign plot` and reports, and "linear" otherwise.
    band : {"pointwise", "simultaneous"}, None or False
        Whether the band holds the truth at each point, or at all points at once, at the rate
        `confidence`; None, False and "none" draw no band.
    confidence : float
        Level of the band.
    bins : int, optional
        Draws also the rows in so many bins of equal width, as dots with Wilson's intervals.
    discrete : bool, optional
        Draw a dot per distinct prediction, with its interval, in place of a curve. Default: up
        to 25 distinct predictions, if they have two rows each on average.
    name : str, optional
        Of the model, for the legend.
    ax : matplotlib.axes.Axes, optional
        Where to draw.
    **options
        Of the data (`sample_weight`, `from_logits`, `normalize`, `ignore_index`, `classes`), of
        `reliability_curve` (`bandwidth`, `kernel`, ...), and of matplotlib's lines (`color`,
        `linestyle`, `label`, ...).

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    ReliabilityDisplay : The same with the numbers kept, and `from_estimator`.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, t2=0.5, seed=0)
    >>> ax = ra.plots.reliability_diagram(data.y_true, data.y_prob, bins=15, color="black")
    >>> ax.get_ylabel()
    'observed frequency'
    """
    display = ReliabilityDisplay.from_predictions(
        y_true,
        y_prob,
        notion=notion,
        pos_label=pos_label,
        scale=scale,
        band=band,
        confidence=confidence,
        bins=bins,
        discrete=discrete,
        name=name,
        ax=ax,
        **options,
    )
    assert display.ax_ is not None
    return display.ax_


def reliability_grid(
    y_true: object,
    y_prob: object,
    *,
    pos_labels: Sequence[object] | None = None,
    scale: str = "linear",
    band: str | bool | None = "pointwise",
    confidence: float = 0.95,
    bins: int | None = None,
    discrete: bool | None = None,
    axes: Sequence[Axes] | npt.NDArray[Any] | None = None,
    **options: Any,
) -> npt.NDArray[Any]:
    """Draw the reliability diagrams of several classes, each against the rest.

    The curves are the R behind the default class-wise error.

    Parameters
    ----------
    pos_labels : sequence, optional
        The classes to draw. Default: all of up to twelve, else the twelve most frequent.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, one per class.
    scale : {"linear", "logit"}
        Of all classes.
    y_true, y_prob, band, confidence, bins, discrete, **options
        As for `reliability_diagram`.

    Returns
    -------
    array of matplotlib.axes.Axes
        One per class, in their order.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.class_bias(500, 3, seed=0)
    >>> axes = ra.plots.reliability_grid(data.y_true, data.y_prob)
    >>> [ax.get_title() for ax in axes]
    ['class 0', 'class 1', 'class 2']
    """
    sample, of_curve, of_line = split(y_true, y_prob, options)
    if pos_labels is None:
        counts = np.bincount(sample.labels, sample.weights, minlength=len(sample.classes))
        columns = sorted(np.argsort(-counts, kind="stable")[:MOST].tolist())
    else:
        columns = [column_of(sample, label) for label in pos_labels]
    chosen = grid_of_axes(len(columns)) if axes is None else np.asarray(axes).ravel()
    if len(chosen) < len(columns):
        raise ValueError(
            f"`axes` must have one Axes per class, {len(columns)}; found {len(chosen)}."
        )
    problems = CLASSWISE.problems(sample, L2)
    shown = np.concatenate([problems[k].predictions for k in columns])
    curve = reliability_curve(
        sample.labels,
        sample.probabilities,
        grid=axis_of(shown, scale)[1],
        notion=CLASSWISE.name,
        sample_weight=sample.weights,
        progress=False,
        **of_curve,
    )
    for i, (ax, k) in enumerate(zip(chosen, columns, strict=False)):
        title = named(sample.classes[k])
        display = ReliabilityDisplay.of_problem(
            problems[k],
            scale,
            band,
            confidence,
            bins,
            discrete,
            title,
            None,
            of_curve,
            curve.of_class(k),
        )
        draw(ax, display, None, small=True, keywords=of_line)
        ax.set_title(title, fontsize=10)
        place = ax.get_subplotspec()
        if place is None or i + place.get_gridspec().ncols >= len(columns):
            ax.set_xlabel("predicted")
        if place is None or place.is_first_col():
            ax.set_ylabel("observed")
    if axes is None:
        legend_of_all(chosen[: len(columns)].tolist())
    return chosen[: len(columns)]
