"""All that a report says of one model: its error, its curves, where its predictions lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem
from riskalign.inference.calibration_test import CalibrationTest
from riskalign.methods.curve import ReliabilityCurve
from riskalign.results import CalibrationResult
from riskalign.sketch import CalibrationSketch, sketch_of_batches

LOGIT_END = 9.0
"""Where a logit axis ends: at a probability of 1.2e-4, and its mirror image."""

GRID = np.unique(
    np.concatenate(
        [np.linspace(0, 1, 61), expit(np.linspace(-LOGIT_END, LOGIT_END, 37))],
    ).round(6)
)
"""Points of a curve that serve a linear and a logit axis."""

LINEAR_EDGES = np.linspace(0, 1, 31)
LOGIT_EDGES = np.concatenate([[0.0], expit(np.linspace(-LOGIT_END, LOGIT_END, 37)[1:-1]), [1.0]])
"""Edges of the bins in which predictions are counted for the two axes; the outermost bins of a
logit axis reach to 0 and 1."""

TEST_TERMS, FEWEST = 40_000_000, 1_000
"""Samples times classes times label sets that the test of a report may take, a few seconds; and
samples that it takes in any case."""

ARC_BINS = 64
"""Bins of the arc 2 arcsin sqrt(p), along which a probability's noise is even."""

EMPTY = 0.5
"""Samples near a point, counted by their kernel weights, below which a curve shows nothing."""


@dataclass(frozen=True)
class Counts:
    """Where the predictions of one problem lie.

    Attributes
    ----------
    linear, logit, arc : samples in the bins of each axis, and of the arc
    mean_prediction, frequency : means of predictions and of outcomes
    """

    linear: FloatArray
    logit: FloatArray
    arc: FloatArray
    mean_prediction: float
    frequency: float

    @classmethod
    def of(cls, problem: Problem) -> Counts:
        """Counts of all samples of a problem."""
        p, weights = np.clip(problem.predictions, 0, 1), problem.weights
        samples = weights / problem.units
        share = weights / weights.sum()
        return cls(
            np.histogram(p, LINEAR_EDGES, weights=samples)[0],
            np.histogram(p, LOGIT_EDGES, weights=samples)[0],
            np.bincount(_arc_bin(p), samples, ARC_BINS).astype(np.float64),
            float(share @ p),
            float(share @ problem.labels),
        )

    def near(self, grid: FloatArray) -> BoolArray:
        """Whether a prediction lies in the bin of the arc, or next to it, of each point."""
        filled = np.concatenate([[False], self.arc > 0, [False]])
        around = filled[:-2] | filled[1:-1] | filled[2:]
        near: BoolArray = around[_arc_bin(grid)]
        return near


def _arc_bin(p: FloatArray) -> IntArray:
    arc = (np.arcsin(np.sqrt(p)) * (2 / np.pi * ARC_BINS)).astype(np.intp)
    return np.minimum(arc, ARC_BINS - 1)


@dataclass(frozen=True)
class Diagram:
    """One probability against what came true.

    Attributes
    ----------
    name : what the probability is of
    grid : (m,)
    conditional, low, high : (m,), the estimate of E[y | f] and its band, NaN where no
        prediction lies
    linear_counts, logit_counts : predictions in the bins of each axis
    mean_prediction, frequency : on average, what was predicted and how often it came true
    """

    name: str
    grid: FloatArray
    conditional: FloatArray
    low: FloatArray
    high: FloatArray
    linear_counts: FloatArray
    logit_counts: FloatArray
    mean_prediction: float
    frequency: float


@dataclass(frozen=True)
class Summary:
    """One model's report.

    Attributes
    ----------
    result : the calibration error
    accuracy : share of rows whose first-ranked class is right
    mean_confidence : mean probability of the first-ranked class
    diagrams : the notion's own, one per class for class-wise errors, none for canonical ones
    top : the first-ranked class's, where it is not the notion's own
    test : the test of calibration, None if it was not made
    """

    result: CalibrationResult
    accuracy: float
    mean_confidence: float
    diagrams: tuple[Diagram, ...]
    top: Diagram | None = None
    test: CalibrationTest | None = None


def summarize(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    top_label: bool = False,
    from_logits: bool = False,
    normalize: bool = False,
    classes: Sequence[object] | None = None,
    **options: Any,
) -> Summary:
    """The debiased calibration error with its interval, curves and counts.

    Parameters
    ----------
    notion, from_logits, normalize, classes
        As for `calibration_error`.
    top_label : bool
        `y_prob` is the probability of the predicted class alone, and `y_true` whether that
        class was right.
    **options
        Those of `summary_of`.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report.summary import summarize
    >>> data = ra.datasets.temperature(1000, 3, seed=0)
    >>> summary = summarize(data.y_true, data.y_prob)
    >>> len(summary.diagrams), summary.top.name, 0.4 < summary.accuracy < 1
    (3, 'top label', True)
    """
    return summarize_batches(
        [(y_true, y_prob)],
        notion=notion,
        top_label=top_label,
        from_logits=from_logits,
        normalize=normalize,
        classes=classes,
        **options,
    )


def summarize_batches(
    batches: Iterable[tuple[Any, ...]],
    *,
    notion: str | None = None,
    top_label: bool = False,
    from_logits: bool = False,
    normalize: bool = False,
    classes: Sequence[object] | None = None,
    **options: Any,
) -> Summary:
    """What `summarize` says, of batches (y_true, y_prob) that are read once and never held."""
    if top_label and notion not in (None, "top-label"):
        raise ValueError(
            f"`notion={notion!r}` needs the probabilities of all classes; there is only that of "
            "the predicted class. Use 'top-label'."
        )
    sketch = sketch_of_batches(
        batches,
        notion="binary" if top_label else notion,
        from_logits=from_logits,
        normalize=normalize,
        classes=classes,
    )
    summary = summary_of(sketch, **options)
    if not top_label:
        return summary
    own = replace(summary.diagrams[0], name="top label")
    result = as_top_label(summary.result)
    return Summary(result, own.frequency, own.mean_prediction, (own,), test=summary.test)


def summary_of(
    sketch: CalibrationSketch,
    *,
    loss: str | ProperLoss = "l2",
    confidence: float = 0.95,
    n_draws: int = 0,
    progress: bool | None = None,
) -> Summary:
    """All that a report says of the rows of a sketch.

    Parameters
    ----------
    n_draws : int
        Label sets drawn for the test of calibration, 0 for no test.
    others
        As for `calibration_error`.
    """
    case = sketch.case(loss)
    asked: dict[str, Any] = {"loss": loss, "confidence": confidence, "progress": progress}
    result = sketch.calibration_error(**asked)
    own: tuple[Diagram, ...] = ()
    if not case.notion.joint:
        own = tuple(diagrams(result.reliability_curve(GRID), case.problems, confidence))
    top = None
    if case.notion.whole_rows:
        of_top = sketch.calibration_error(notion="top-label", **asked)
        (top,) = diagrams(of_top.reliability_curve(GRID), [case.top], confidence)
    test = None
    if n_draws:
        affordable = TEST_TERMS // (n_draws * len(case.problems))
        test = sketch.calibration_test(
            loss=loss,
            n_draws=n_draws,
            most_samples=max(affordable, FEWEST),
            progress=progress,
        )
    scores = sketch.scores
    return Summary(result, scores["accuracy"], scores["confidence"], own, top, test)


def diagrams(
    curve: ReliabilityCurve, problems: Sequence[Problem], confidence: float
) -> Iterator[Diagram]:
    """A diagram for each problem of a notion, from the notion's curve."""
    m = len(curve.grid)
    R, low, high, nearby = (
        values.reshape(m, -1)
        for values in (curve.conditional, *curve.band(confidence), curve.nearby_samples)
    )
    for k, problem in enumerate(problems):
        counts = Counts.of(problem)
        shown = np.where((nearby[:, k] >= EMPTY) & counts.near(curve.grid), 1.0, np.nan)
        yield Diagram(
            name=problem.name,
            grid=curve.grid,
            conditional=R[:, k] * shown,
            low=low[:, k] * shown,
            high=high[:, k] * shown,
            linear_counts=counts.linear,
            logit_counts=counts.logit,
            mean_prediction=counts.mean_prediction,
            frequency=counts.frequency,
        )


def as_top_label(result: CalibrationResult) -> CalibrationResult:
    """The result of "was the predicted class right?", asked as a binary question."""
    assert result.overconfidence is not None
    top = replace(result.overconfidence, top_label=float(result.overconfidence.per_class[0]))
    return replace(result, notion="top-label", overconfidence=top, classes=(), binary=None)
