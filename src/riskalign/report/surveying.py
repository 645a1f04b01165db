"""The first screen is filled in stages: the quick and important ones come first.

`survey` yields the screen after every stage, so that a reader sees something at once and Ctrl-C
keeps what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from riskalign.data.case import Case
from riskalign.data.notions import BINARY, NOTIONS, TOP_LABEL, named_notion
from riskalign.equations.evidence import ClassEvidence
from riskalign.equations.problem import Problem
from riskalign.pipeline import error_of
from riskalign.progress import track
from riskalign.recalibration.gains import gains_of_drawn
from riskalign.report.advice import ENOUGH, Advice
from riskalign.report.diagrams import GRID, Bins, Diagram, diagrams
from riskalign.report.screen import ClassError, Options, Scores, Screen
from riskalign.results import CalibrationResult
from riskalign.sketches.batches import sketch_of_batches
from riskalign.sketches.sketch import CalibrationSketch

MANY = 100
"""With up to so many classes, all are estimated; with more, those with the most evidence are,
unless a notion is asked for."""

WORST = 20
"""Classes that are estimated if there are many."""

FEW = 20
"""With up to so many classes, recalibration is judged by the worst answer; with more, by the
confidence, which is estimated quickly."""

QUICK = ("temperature", "kernel")
"""Calibrators that are tried if there are many classes: vector scaling takes too long then, and
beyond `MANY` classes the kernel calibrator too."""

ADVISED = 2_000
"""Rows on which they are tried."""

TEST_TERMS, FEWEST = 20_000_000, 1_000
"""The test of a report may take so many samples times classes times label sets, which is a few
seconds; it takes at least so many samples."""


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
) -> Screen:
    """The first screen of predictions in memory.

    Parameters
    ----------
    notion, from_logits, normalize, classes
        As for `calibration_error`. Beyond 100 classes, the default is the top label and the
        classes with the most evidence.
    top_label : bool
        `y_prob` is the probability of the predicted class alone, and `y_true` whether that
        class was right.
    **options
        Those of `Options`.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report import summarize
    >>> data = ra.datasets.temperature(1000, 3, t2=0.6, seed=0)
    >>> screen = summarize(data.y_true, data.y_prob)
    >>> len(screen.class_errors), screen.grade, 0.4 < screen.scores.accuracy < 1
    (3, 'poor', True)
    """
    sketch = sketch_rows(
        [(y_true, y_prob)],
        notion=notion,
        top_label=top_label,
        from_logits=from_logits,
        normalize=normalize,
        classes=classes,
    )
    return screen_of(sketch, notion=notion, top_label=top_label, **options)


def sketch_rows(
    batches: Iterable[tuple[Any, ...]],
    *,
    notion: str | None,
    top_label: bool,
    **reading: Any,
) -> CalibrationSketch:
    """The sketch of batches that a report needs."""
    asked = named_notion(notion)
    if top_label and asked is not None and not asked.is_confidence:
        raise ValueError(
            f"`notion={notion!r}` needs the probabilities of all classes; there is only that of "
            "the predicted class. Use 'top-label'."
        )
    return sketch_of_batches(batches, notion=BINARY.name if top_label else notion, **reading)


def screen_of(
    sketch: CalibrationSketch, *, notion: str | None = None, top_label: bool = False, **options: Any
) -> Screen:
    """The first screen of the rows of a sketch, which may have been merged from others.

    Parameters
    ----------
    notion : str, optional
        What is asked, by default the sketch's notion; beyond 100 classes the top label.
    top_label : bool
        The binary sketch is about whether the predicted class was right.
    **options
        Those of `Options`.
    """
    *_, last = survey(sketch, Options(**options), notion=notion, top_label=top_label)
    return last


def survey(
    sketch: CalibrationSketch,
    options: Options,
    *,
    notion: str | None = None,
    top_label: bool = False,
) -> Iterator[Screen]:
    """The screen as it grows; `stage` of each says what comes next."""
    case = sketch.case(options.loss)
    many = case.notion.per_class and len(case.problems) > MANY and notion is None
    asked = TOP_LABEL.name if top_label or many else case.notion.name
    classes = () if top_label else case.sample.classes
    screen = Screen(asked, classes, sketch.n_samples, options)
    screen = replace(screen, stage="scores", stages=_stages(screen))
    yield screen
    screen = replace(screen, scores=_scores(sketch, case, top_label), stage="confidence")
    f = _one(case).predictions
    hard = bool(((f == 0) | (f == 1)).all())
    screen = replace(screen, hard=hard, impossible=_impossible(case))
    yield screen
    if many:
        steps = _of_many_classes(screen, case)
    elif case.notion.whole_rows:
        steps = _of_whole_rows(screen, case)
    else:
        steps = _of_one_probability(screen, case, top_label)
    for screen in steps:
        yield screen
    yield from _finished(screen, sketch, case)


def _stages(screen: Screen) -> dict[str, float]:
    """The stages that a survey goes through, with their rough costs in relation."""
    K = max(len(screen.classes), 1)
    whole = NOTIONS[screen.notion].whole_rows
    estimated = K if whole else WORST if K > MANY else 1
    costs = {"scores": 0.05, "confidence": 0.15}  # seconds of 10,000 rows, about
    if estimated > 1:
        costs["classes"] = 0.3 + 0.02 * estimated
    if screen.options.pictures:
        costs["diagrams"] = 0.2 + 0.01 * estimated
    if _is_advised(screen):
        costs["advice"] = 1.0 + 0.03 * min(K, MANY)
    if screen.options.n_draws:
        costs["p-value"] = 0.3
    return costs


def _is_advised(screen: Screen) -> bool:
    """Whether recalibration is tried."""
    return screen.options.advice and screen.n_samples >= ENOUGH


def _drawing(screen: Screen) -> str:
    """The stage after an estimate: its diagrams, where they are wanted."""
    return "diagrams" if screen.options.pictures else screen.stage


def _scores(sketch: CalibrationSketch, case: Case, top_label: bool) -> Scores:
    found = dict(sketch.scores)
    one = _one(case)
    if top_label:  # below 1/2 the predicted class is still the predicted class
        gap = one.weights / one.weights.sum()
        found["accuracy"] = float(gap @ one.labels)
        found["confidence"] = float(gap @ one.predictions)
    return Scores(**found, ece_by_chance=Bins.of(one).by_chance)


def _one(case: Case) -> Problem:
    """The probability of one class, or that of the predicted class."""
    return case.problems[0] if case.notion.is_one_class else case.top


def _estimated(screen: Screen, case: Case) -> CalibrationResult:
    """The error of a case, without the rows behind it."""
    return replace(error_of(case, screen.options.method, screen.options.level), rows=None)


def _curve(screen: Screen, result: CalibrationResult, case: Case) -> list[Diagram]:
    if not screen.options.pictures or result.curve is None:
        return []
    curve = result.reliability_curve(GRID)
    order = None if result.per_class is None else _worst_classes(result)
    drawn = diagrams(curve, case.problems, screen.options.confidence, order)
    steps = ((1, diagram) for diagram in drawn)
    return list(track(steps, len(case.problems), "diagrams", progress=False))


def _of_one_probability(screen: Screen, case: Case, top_label: bool) -> Iterator[Screen]:
    result = _estimated(screen, case)
    own = as_top_label(result) if top_label else result
    screen = replace(screen, result=own, stage=_drawing(screen))
    yield screen
    for diagram in _curve(screen, result, case):
        name = "top label" if top_label else diagram.name
        screen = replace(screen, diagram=replace(diagram, name=name))
    yield screen


def _of_whole_rows(screen: Screen, case: Case) -> Iterator[Screen]:
    of_top = case.of_top_label()
    top = _estimated(screen, of_top)
    screen = replace(screen, top=top, stage="classes")
    yield screen
    result = _estimated(screen, case)
    screen = replace(screen, result=result, stage=_drawing(screen))
    if result.per_class is not None:
        errors = {k: ClassError(value) for k, value in enumerate(result.per_class.tolist())}
        screen = replace(screen, evidence=result.evidence, class_errors=errors)
        if result.per_class_interval is not None:
            for k in _worst_classes(result):
                low, high = result.per_class_interval[k].tolist()
                errors[k] = replace(errors[k], interval=(low, high))
        screen = replace(screen, class_errors=errors)
    yield screen
    for diagram in _curve(screen, top, of_top):
        screen = replace(screen, top_diagram=diagram)
    if result.per_class is not None:
        errors = dict(screen.class_errors)
        for k, diagram in enumerate(_curve(screen, result, case)):
            errors[k] = replace(errors[k], diagram=diagram)
        screen = replace(screen, class_errors=errors)
    yield screen


def _of_many_classes(screen: Screen, case: Case) -> Iterator[Screen]:
    of_top = case.of_top_label()
    result = _estimated(screen, of_top)
    evidence = ClassEvidence.of(case.problems, case.n_samples, screen.options.confidence)
    screen = replace(screen, result=result, evidence=evidence, stage="classes")
    yield screen
    errors: dict[int, ClassError] = {}
    for k in evidence.order()[:WORST].tolist():
        one = case.of_class(k)
        found = _estimated(screen, one)
        drawn = _curve(screen, found, one)
        errors[k] = ClassError(found.value, found.interval, drawn[0] if drawn else None)
        screen = replace(screen, class_errors=dict(errors))
        yield screen
    screen = replace(screen, stage=_drawing(screen))
    for diagram in _curve(screen, result, of_top):
        screen = replace(screen, diagram=diagram)
    yield screen


def _finished(screen: Screen, sketch: CalibrationSketch, case: Case) -> Iterator[Screen]:
    """What recalibration would gain, and the p-value last: it takes longest."""
    options, worst = screen.options, screen.worst
    if options.advice and worst is not None:
        if _is_advised(screen):
            screen = replace(screen, stage="advice")
            yield screen
        screen = replace(screen, advice=_advice(screen, worst, case))
    if options.n_draws:
        screen = replace(screen, stage="p-value")
        yield screen
        affordable = TEST_TERMS // (options.n_draws * len(case.problems))
        most = max(affordable, FEWEST)
        asked = None
        if case.notion.per_class and not NOTIONS[screen.notion].per_class:
            asked, most = screen.notion, max(TEST_TERMS // options.n_draws, FEWEST)
        test = sketch.calibration_test(notion=asked, n_draws=options.n_draws, most_samples=most)
        screen = replace(screen, test=test)
    yield replace(screen, stage="")


def _impossible(case: Case) -> int:
    """Rows whose label had the predicted probability 0; 0 if a part of the rows is known."""
    if not case.complete and case.notion.whole_rows:
        return 0
    sample = case.sample
    none = sample.probabilities[np.arange(len(sample.labels)), sample.labels] == 0
    each = 1.0 if sample.sample_weights is None else sample.weights / sample.sample_weights
    return round(float(np.sum(none * each)))


def _advice(screen: Screen, worst: CalibrationResult, case: Case) -> Advice:
    """What recalibration would gain in the answer that is worst; of many classes, in confidence."""
    K, n, in_points = len(screen.classes), screen.n_samples, worst.in_points
    if n < ENOUGH:
        return Advice(worst.notion, 1, (), in_points, n)
    notion = TOP_LABEL.name if FEW < K else worst.notion
    methods, most = None, None
    if FEW < K:  # a sample of rows that is large enough to see a gain, and few methods
        methods, most = QUICK if K <= MANY else QUICK[:1], ADVISED
    asked = notion if K else case.notion.name  # of a mere confidence: was it right?
    gains = gains_of_drawn(case.sample, most, methods, asked, screen.options.loss)
    n_parts = K if NOTIONS[notion].per_class else 1
    level_off = worst.binary is not None and worst.binary.sign != 0
    return Advice(notion, n_parts, tuple(gains), in_points, n, level_off)


def _worst_classes(result: CalibrationResult) -> list[int]:
    """The classes of a class-wise error that are drawn, by evidence."""
    assert result.evidence is not None
    return result.evidence.order(result.per_class)[:WORST].tolist()


def as_top_label(result: CalibrationResult) -> CalibrationResult:
    """The result of "was the predicted class right?", asked as a binary question."""
    assert result.overconfidence is not None
    top = replace(result.overconfidence, top_label=float(result.overconfidence.per_class[0]))
    return replace(result, notion=TOP_LABEL.name, overconfidence=top, classes=(), binary=None)
