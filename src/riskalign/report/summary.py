"""All that a report says of one model: its error, its curves, where its predictions lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from riskalign.equations.problem import Problem
from riskalign.data.notions import NOTIONS, TOP_LABEL
from riskalign.data.validation import as_sample
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.losses import L2, ProperLoss
from riskalign.estimate import calibration_error, reliability_curve
from riskalign.methods.curve import ReliabilityCurve
from riskalign.results import CalibrationResult
from riskalign.testing import CalibrationTest, calibration_test

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

TEST_TERMS = 20_000_000
"""Rows times classes times label sets that a test may take, about ten seconds."""

FEWEST = 1_000
"""Rows that a test takes in any case."""

ARC_BINS = 64
"""Bins of the arc 2 arcsin sqrt(p), along which a probability's noise is even."""

EMPTY = 0.5
"""Samples near a point, counted by their kernel weights, below which a curve shows nothing."""


@dataclass(frozen=True)
class Counts:
    """Where the predictions of one problem lie; counts of disjoint rows add up.

    Attributes
    ----------
    linear, logit, arc : predictions in the bins of each axis, and of the arc
    rows : number of rows
    predicted, positive : sums of predictions and of labels
    """

    linear: IntArray
    logit: IntArray
    arc: IntArray
    rows: int
    predicted: float
    positive: float

    @classmethod
    def of(cls, problem: Problem) -> Counts:
        """Counts of some rows."""
        p = np.clip(problem.predictions, 0, 1)  # float32 files reach 1 + 1e-7
        arc = (np.arcsin(np.sqrt(p)) * (2 / np.pi * ARC_BINS)).astype(np.intp)
        return cls(
            np.histogram(p, LINEAR_EDGES)[0],
            np.histogram(p, LOGIT_EDGES)[0],
            np.bincount(np.minimum(arc, ARC_BINS - 1), minlength=ARC_BINS),
            len(p),
            float(p.sum()),
            float(problem.labels.sum()),
        )

    def __add__(self, other: Counts) -> Counts:
        """Counts of both sets of rows."""
        mine, others = vars(self), vars(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})

    def near(self, grid: FloatArray) -> BoolArray:
        """Whether a prediction lies in the bin of the arc, or next to it, of each point."""
        filled = np.concatenate([[False], self.arc > 0, [False]])
        around = filled[:-2] | filled[1:-1] | filled[2:]
        place = (np.arcsin(np.sqrt(grid)) * (2 / np.pi * ARC_BINS)).astype(np.intp)
        near: BoolArray = around[np.minimum(place, ARC_BINS - 1)]
        return near


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
    linear_counts: IntArray
    logit_counts: IntArray
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
    diagrams : the notion's own, one a class for class-wise errors, none for canonical ones
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
    loss: str | ProperLoss = "l2",
    confidence: float = 0.95,
    top_label: bool = False,
    from_logits: bool = False,
    normalize: bool = False,
    classes: Sequence[object] | None = None,
    n_draws: int = 0,
    progress: bool | None = None,
) -> Summary:
    """The debiased calibration error with its interval, curves and counts.

    Parameters
    ----------
    notion : str, optional
        As for `calibration_error`; by default "binary" for two classes, else "classwise".
    top_label : bool
        `y_prob` is the probability of the predicted class alone, and `y_true` whether that
        class was right.
    n_draws : int
        Label sets drawn for the test of calibration, 0 for no test. Many rows of many classes
        are tested by some of the rows.
    others
        As for `calibration_error`.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report.summary import summarize
    >>> data = ra.datasets.temperature(1000, 3, seed=0)
    >>> summary = summarize(data.y_true, data.y_prob)
    >>> len(summary.diagrams), summary.top.name, 0.4 < summary.accuracy < 1
    (3, 'top label', True)
    """
    if top_label and notion not in (None, "top-label"):
        raise ValueError(
            f"`notion={notion!r}` needs the probabilities of all classes; there is only that of "
            "the predicted class. Use 'top-label'."
        )
    sample = as_sample(
        y_true, y_prob, from_logits=from_logits, normalize=normalize, classes=classes
    )
    y, p = sample.labels, sample.probabilities
    asked = "binary" if top_label else notion or ("binary" if p.shape[1] == 2 else "classwise")
    options: dict[str, Any] = {"loss": loss, "estimator": "debiased", "progress": progress}
    result = calibration_error(y, p, notion=asked, confidence=confidence, **options)
    result = replace(result, classes=sample.classes)
    # Curves show the R behind the error: the same start, the same way to a bandwidth.
    as_estimated = options | {"grid": GRID, "start": "logistic"}
    own: tuple[Diagram, ...] = ()
    if asked != "canonical":
        curve = reliability_curve(y, p, notion=asked, bandwidth=result.search, **as_estimated)
        own = tuple(_of_problems(curve, NOTIONS[asked].problems(sample, L2), confidence))
    top = None
    if asked in ("classwise", "canonical"):
        curve = reliability_curve(
            y, p, notion="top-label", bandwidth="cross-validation", **as_estimated
        )
        (top,) = _of_problems(curve, TOP_LABEL.problems(sample, L2), confidence)
    test = None
    if n_draws:
        rows = some_rows(len(y), TEST_TERMS // (n_draws * max(len(own), 1)))
        test = calibration_test(
            y[rows], p[rows], notion=asked, loss=loss, n_draws=n_draws, progress=progress
        )
    if top_label:
        own = (replace(own[0], name="top label"),)
        result = as_top_label(result)
        return Summary(result, own[0].frequency, own[0].mean_prediction, own, test=test)
    best = p.argmax(axis=1)
    accuracy, mean_confidence = float(np.mean(best == y)), float(np.mean(p.max(axis=1)))
    return Summary(result, accuracy, mean_confidence, own, top, test)


def some_rows(n: int, affordable: int) -> IntArray:
    """All rows, or as many of them, drawn at random, as can be afforded."""
    m = max(affordable, FEWEST)
    if m >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, m, replace=False))


def _of_problems(
    curve: ReliabilityCurve, problems: Sequence[Problem], confidence: float
) -> Iterator[Diagram]:
    names = [problem.name for problem in problems]
    return diagrams(curve, names, [Counts.of(problem) for problem in problems], confidence)


def diagrams(
    curve: ReliabilityCurve, names: Sequence[str], counts: Sequence[Counts], confidence: float
) -> Iterator[Diagram]:
    """A diagram for each problem of a notion, from the notion's curve."""
    m = len(curve.grid)
    R, low, high, nearby = (
        values.reshape(m, -1)
        for values in (curve.conditional, *curve.band(confidence), curve.nearby_samples)
    )
    for k, (name, count) in enumerate(zip(names, counts, strict=True)):
        shown = np.where((nearby[:, k] >= EMPTY) & count.near(curve.grid), 1.0, np.nan)
        yield Diagram(
            name=name,
            grid=curve.grid,
            conditional=R[:, k] * shown,
            low=low[:, k] * shown,
            high=high[:, k] * shown,
            linear_counts=count.linear,
            logit_counts=count.logit,
            mean_prediction=count.predicted / count.rows,
            frequency=count.positive / count.rows,
        )


def as_top_label(result: CalibrationResult) -> CalibrationResult:
    """The result of "was the predicted class right?", asked as a binary question."""
    assert result.overconfidence is not None
    top = replace(result.overconfidence, top_label=float(result.overconfidence.per_class[0]))
    return replace(result, notion="top-label", overconfidence=top, classes=(), binary=None)
