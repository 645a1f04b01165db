"""The report of a model whose predictions come in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from riskalign.data.sample import Sample, reduce
from riskalign.equations.losses import L2, ProperLoss
from riskalign.gathering import Batches, Rows
from riskalign.methods.method import KernelSmoother
from riskalign.report.summary import (
    GRID,
    TEST_TERMS,
    Counts,
    Diagram,
    Summary,
    as_top_label,
    diagrams,
    some_rows,
)
from riskalign.significance import calibration_test
from riskalign.streaming import Stream

METHOD = KernelSmoother(estimator="debiased")


def summarize_batches(
    batches: Batches,
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
    """What `summarize` says, of batches that are read two or three times, never held.

    Parameters are those of `summarize`, and `batches` as for `calibration_error_of_batches`.
    The test of calibration takes some of the rows.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report.batch_summary import summarize_batches
    >>> data = ra.datasets.temperature(1000, 3, seed=0)
    >>> batches = [(data.y_true[:600], data.y_prob[:600]), (data.y_true[600:], data.y_prob[600:])]
    >>> summary = summarize_batches(batches)
    >>> len(summary.diagrams), summary.top.name, summary.result.n_samples
    (3, 'top label', 1000)
    """
    if top_label and notion not in (None, "top-label"):
        raise ValueError(
            f"`notion={notion!r}` needs the probabilities of all classes; there is only that of "
            "the predicted class. Use 'top-label'."
        )
    rows = Rows(batches, from_logits, normalize, classes)
    tally = _Tally("binary" if top_label else notion)
    stream = Stream.read(rows, tally.notion, loss, METHOD, tally.add, progress)
    result, case = stream.result(confidence), stream.gathering.case
    own = tuple(tally.diagrams(stream, confidence))
    top = None
    if case.notion == "classwise":
        counted = _Tally("top-label")
        (top,) = counted.diagrams(
            Stream.read(rows, "top-label", loss, METHOD, counted.add, progress), confidence
        )
    test = None
    if n_draws:
        held = case.sample
        some = some_rows(len(held.labels), TEST_TERMS // (n_draws * len(own)))
        test = calibration_test(
            held.labels[some],
            held.probabilities[some],
            notion=case.notion,
            loss=loss,
            n_draws=n_draws,
            progress=progress,
        )
    if top_label:
        alone = replace(own[0], name="top label")
        accuracy, mean_confidence = alone.frequency, alone.mean_prediction
        return Summary(as_top_label(result), accuracy, mean_confidence, (alone,), test=test)
    n = result.n_samples
    return Summary(result, tally.right / n, tally.confidence / n, own, top, test)


class _Tally:
    """Where predictions lie, and how many are right, batch by batch."""

    def __init__(self, notion: str | None) -> None:
        self.notion = notion
        self.right = 0.0
        self.confidence = 0.0
        self._names: list[str] = []
        self._counts: list[Counts] = []

    def add(self, sample: Sample) -> None:
        """Count some rows."""
        notion = self.notion or ("binary" if len(sample.classes) == 2 else "classwise")
        problems = reduce(sample, notion, L2)
        counts = [Counts.of(problem) for problem in problems]
        if self._counts:
            counts = [old + new for old, new in zip(self._counts, counts, strict=True)]
        self._names, self._counts = [problem.name for problem in problems], counts
        best = sample.probabilities.argmax(axis=1)
        self.right += float(np.count_nonzero(best == sample.labels))
        self.confidence += float(sample.probabilities.max(axis=1).sum())

    def diagrams(self, stream: Stream, confidence: float) -> Sequence[Diagram]:
        """A diagram for each problem of the stream."""
        return list(diagrams(stream.curve(GRID), self._names, self._counts, confidence))
