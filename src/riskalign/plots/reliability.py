"""Reliability diagrams: what was predicted against what came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from riskalign.data.notions import CLASSWISE, TOP_LABEL
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample, one_of
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.options import make_case
from riskalign.plots.canvas import axes_for, grid_of_axes
from riskalign.plots.diagram import Diagram, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 12
"""Classes of a grid, unless more are asked for."""

LONGEST = 24
"""Letters of a class's name that are written."""

BEHIND_THE_ERROR = {
    "estimator": "debiased",
    "bandwidth": "cross-validation",
    "start": "logistic",
}
"""Options of the curve that is the R behind the default calibration error."""

_OF_DATA = ("sample_weight", "from_logits", "normalize", "ignore_index", "classes")


def reliability_diagram(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    pos_label: object = None,
    scale: str = "linear",
    confidence: float = 0.95,
    name: str | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Draw the estimate of E[y | f] against f, with the band that chance allows it.

    The curve is the R behind the default calibration error; on the diagonal, what is predicted
    comes true. The band is pointwise, Wilson's interval for the number of effective samples
    (see `ReliabilityCurve.band`). Nothing is drawn in gaps between the predictions, and where
    fewer than five samples lie within the kernel's width. Below, the distribution of the
    predictions.

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
    scale : {"linear", "logit"}
        "logit" spreads out predictions near 0 and 1.
    confidence : float
        Level of the band.
    name : str, optional
        Of the model, for the legend.
    ax : matplotlib.axes.Axes, optional
        Where to draw.
    **options
        Of the data (`sample_weight`, `from_logits`, `normalize`, `ignore_index`, `classes`),
        and of `reliability_curve` (`bandwidth`, `kernel`, ...).

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, t2=0.5, seed=0)
    >>> ax = ra.plots.reliability_diagram(data.y_true, data.y_prob)
    >>> ax.get_ylabel()
    'observed frequency'
    """
    if notion is not None:
        one_of("notion", notion, ("binary", "top-label"))
    sample, options = _split(y_true, y_prob, options)
    problem, subject = problem_of(sample, notion, pos_label)
    diagram = Diagram.of(problem, scale, confidence, options)
    ax = axes_for(ax, 5.0, 5.6)
    draw(ax, diagram, name)
    ax.set_xlabel(subject)
    ax.set_ylabel("observed frequency")
    return ax


def problem_of(sample: Sample, notion: str | None, pos_label: object) -> tuple[Problem, str]:
    """The problem that a diagram shows, and what its probability is of, in words."""
    if pos_label is not None:
        column = _column(sample, pos_label)
        subject = _named(sample.classes[column])
        problem = CLASSWISE.problems(sample, L2)[column]
    elif notion == "top-label" or (notion is None and len(sample.classes) > 2):
        subject = "the predicted class"
        (problem,) = TOP_LABEL.problems(sample, L2)
    else:
        subject = _named(sample.classes[1])
        (problem,) = make_case(sample, "binary", "l2").problems
    return problem, f"predicted probability of {subject}"


def reliability_grid(
    y_true: object,
    y_prob: object,
    *,
    pos_labels: Sequence[object] | None = None,
    scale: str = "linear",
    confidence: float = 0.95,
    axes: Sequence[Axes] | npt.NDArray[Any] | None = None,
    **options: Any,
) -> npt.NDArray[Any]:
    """Draw the reliability diagrams of several classes, each against the rest.

    Parameters
    ----------
    pos_labels : sequence, optional
        The classes to draw. Default: all of up to twelve, else the twelve most frequent.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, one per class.
    y_true, y_prob, scale, confidence, **options
        As for `reliability_diagram`.

    Returns
    -------
    array of matplotlib.axes.Axes
        One a class, in their order.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.class_bias(500, 3, seed=0)
    >>> axes = ra.plots.reliability_grid(data.y_true, data.y_prob)
    >>> [ax.get_title() for ax in axes]
    ['class 0', 'class 1', 'class 2']
    """
    sample, options = _split(y_true, y_prob, options)
    if pos_labels is None:
        counts = np.bincount(sample.labels, sample.weights, minlength=len(sample.classes))
        columns = sorted(np.argsort(-counts, kind="stable")[:MOST].tolist())
    else:
        columns = [_column(sample, label) for label in pos_labels]
    chosen = grid_of_axes(len(columns)) if axes is None else np.asarray(axes).ravel()
    if len(chosen) < len(columns):
        raise ValueError(f"`axes` must have one Axes a class, {len(columns)}; found {len(chosen)}.")
    problems = CLASSWISE.problems(sample, L2)
    for i, (ax, k) in enumerate(zip(chosen, columns, strict=False)):
        draw(ax, Diagram.of(problems[k], scale, confidence, options), None, small=True)
        ax.set_title(_named(sample.classes[k]), fontsize=10)
        place = ax.get_subplotspec()
        if place is None or i + place.get_gridspec().ncols >= len(columns):
            ax.set_xlabel("predicted")
        if place is None or place.is_first_col():
            ax.set_ylabel("observed")
    return chosen[: len(columns)]


def _split(
    y_true: object, y_prob: object, options: dict[str, Any]
) -> tuple[Sample, dict[str, Any]]:
    """The data, checked, and the options that are of the curve."""
    of_data = {key: value for key, value in options.items() if key in _OF_DATA}
    rest = {key: value for key, value in options.items() if key not in _OF_DATA}
    return as_sample(y_true, y_prob, **of_data), BEHIND_THE_ERROR | rest


def _column(sample: Sample, label: object) -> int:
    if str(label) not in sample.classes:
        listed = ", ".join(sample.classes[:10]) + (", ..." if len(sample.classes) > 10 else "")
        raise ValueError(f"`pos_label` must be one of the classes, {listed}; found {label!r}.")
    return sample.classes.index(str(label))


def _named(name: str) -> str:
    """A class's name, not too long; a mere number is said to be a class."""
    if name.lstrip("-").isdigit():
        return f"class {name}"
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."
