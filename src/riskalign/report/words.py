"""What a first screen says in words: headline, sentences, rows. Every rendering draws these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from riskalign.data.notions import NOTIONS
from riskalign.display import help, numbers
from riskalign.display.averages import DIRECTIONS, BinarySummary
from riskalign.display.classes import ClassLine, class_head, class_lines
from riskalign.display.described import Told
from riskalign.display.judgement import FACTOR, GRADES, UNCLEAR
from riskalign.display.numbers import percent, points, shortened
from riskalign.display.table import Row
from riskalign.equations.arrays import FLOOR
from riskalign.inference.calibration_test import DOUBT
from riskalign.methods import EqualWidthBins
from riskalign.report.diagrams import N_BINS
from riskalign.report.screen import Screen
from riskalign.results import CalibrationResult

NAME = 24
"""Letters of a class's name within a sentence."""

NAMED = 2
"""Classes that the sentences name."""

ECE = EqualWidthBins(N_BINS, norm="l1")
"""The estimator whose answer for one probability is the ECE, which every report shows."""


@dataclass(frozen=True)
class Answer:
    """What is said of one answer.

    Attributes
    ----------
    result : the answer
    told : its verdict and rows
    question, about : what is asked, and what the answer is about, such as "confidence"
    of_confidence : whether it is about the probability of the predicted class
    is_ece : whether it is the expected calibration error, which every report shows
    tested : whether only the test of calibration, which is about one answer, shows that it is off
    """

    result: CalibrationResult
    told: Told
    question: str
    about: str
    of_confidence: bool
    is_ece: bool
    tested: bool


@dataclass(frozen=True)
class Words:
    """What a screen says, ready to be drawn.

    Attributes
    ----------
    headline : the verdict in a few words, such as "Confidence is good; class probabilities are
        poor"
    subject : how much was looked at
    one_class, positive : whether the report is about the probability of one class, and that class
    answers : what is said of each answer, the confidence first
    sentences : one per answer, then the classes that stand out
    rows, details : the numbers of the first screen, and what is behind them
    ece : the row of the expected calibration error; None where scores are not known yet
    grades : how grades are given
    class_head, classes, classes_note : the table of classes by evidence, and which of them were
        estimated where not all were
    """

    headline: str
    subject: str
    one_class: bool
    positive: str
    answers: tuple[Answer, ...]
    sentences: tuple[str, ...]
    rows: tuple[Row, ...]
    details: tuple[Row, ...]
    ece: Row | None
    grades: str
    class_head: tuple[str, ...]
    classes: tuple[ClassLine, ...]
    classes_note: str


def tell(screen: Screen) -> Words:
    """The words of a screen.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report import summarize
    >>> data = ra.datasets.temperature(1000, 3, t2=0.6, seed=0)
    >>> screen = summarize(data.y_true, data.y_prob, pictures=False, advice=False)
    >>> tell(screen).headline
    'Confidence is poor to bad; class probabilities are poor'
    """
    positive = shortened(screen.classes[-1], NAME) if screen.classes else "1"
    classes: list[ClassLine] = []
    if screen.evidence is not None and screen.result is not None:
        errors = {k: found.value for k, found in screen.class_errors.items()}
        classes = class_lines(screen.result, screen.evidence, errors)
    answers = tuple(_answer(screen, result, positive, classes) for result in screen.answers)
    one_class = NOTIONS[screen.notion].is_one_class
    grades = str(screen.options.thresholds)
    if one_class:
        grades += f"; at best poor if too high or low by a factor above {FACTOR} on average"
    ece = _ece(screen)
    K, known = len(classes), len(screen.class_errors)
    note = (
        f"Of {K:,} classes, the {known} with the most evidence are estimated; "
        'the others show "-" as typical gap. --notion classwise estimates all of them.'
    )
    of_classes = f", {len(screen.classes):,} classes" if screen.classes else ""
    return Words(
        headline=_headline(answers),
        subject=f"{screen.n_samples:,} rows{of_classes}",
        one_class=one_class,
        positive=positive,
        answers=answers,
        sentences=tuple(_sentences(screen, answers, classes, positive)),
        rows=tuple(_rows(screen, answers, ece, one_class=one_class)),
        details=(*_details(answers), Row("grades", "", "", grades)),
        ece=ece,
        grades=grades,
        class_head=class_head(screen.options.confidence),
        classes=tuple(classes),
        classes_note=note if 0 < known < K else "",
    )


def _answer(
    screen: Screen, result: CalibrationResult, positive: str, classes: Sequence[ClassLine]
) -> Answer:
    notion, test = NOTIONS[result.notion], screen.test
    told = result.told(screen.options.thresholds)
    tested = (
        test is not None
        and test.p_value <= DOUBT
        and result is screen.result
        and not told.verdict.significant
        and not told.shown_off
        and (notion.is_confidence or not any(line.direction for line in classes))
    )
    return Answer(
        result,
        told,
        notion.heading.format(name=positive),
        notion.subject.format(name=positive),
        notion.is_confidence,
        (notion.is_confidence or notion.is_one_class) and screen.options.method == ECE,
        tested,
    )


def _headline(answers: Sequence[Answer]) -> str:
    if not answers:
        return "No answer yet"
    told = [(answer.about, _grade_words(answer)) for answer in answers]
    if len(told) == 2 and told[0][1] == told[1][1]:
        text = f"{told[0][0]} and {told[1][0]} are {told[0][1]}"
    else:
        verbs = ["is" if what == "confidence" else "are" for what, _ in told]
        text = "; ".join(
            f"{what} {verb} {grade}" for (what, grade), verb in zip(told, verbs, strict=True)
        )
    return text[0].upper() + text[1:]


def _grade_words(answer: Answer) -> str:
    found, result = answer.told.verdict, answer.result
    unsure = "miscalibrated, by an unclear amount"
    if not answer.told.in_points:
        if found.significant is False and answer.tested:
            return unsure
        words = {None: "estimated", False: "not shown to be off", True: "miscalibrated"}
        return words[found.significant]
    if result.binary is not None and found.grade not in (*GRADES[:2], UNCLEAR):
        fault = result.binary.main_fault(result.value, FACTOR)
        if fault:
            return f"{found.words}: {fault}"
    if found.grade != UNCLEAR:
        return found.words
    if answer.told.shown_off or answer.tested:
        return unsure
    return "unclear: too few rows to tell"


def _sentences(
    screen: Screen, answers: Sequence[Answer], classes: Sequence[ClassLine], positive: str
) -> Iterator[str]:
    if screen.hard:
        yield (
            "All predictions are 0 or 1. They look like predicted classes: a report needs "
            "probabilities, such as those of predict_proba."
        )
    result = screen.result
    if result is not None and result.note and result.bandwidth is not None:
        yield result.note  # other methods explain themselves in the details
    for answer in answers:
        if answer.result.binary is not None:
            yield _binary_sentence(answer.result.binary, positive)
        elif answer.of_confidence:
            yield _confidence_sentence(screen, answer)
        yield answer.result.sentence(
            screen.options.thresholds,
            answer.about,
            many=not answer.of_confidence,
            tested=answer.tested,
        )
    if classes:
        yield _class_sentence(classes)
    for answer in answers:
        if answer.tested:
            yield _test_sentence(screen, answer)
    if screen.impossible and not screen.hard:
        rows = "1 row" if screen.impossible == 1 else f"{screen.impossible:,} rows"
        slope = ", and so do slope and intercept" if result and result.binary else ""
        happened = f"What happened had the predicted probability 0 in {rows}"
        if not screen.classes:  # only the confidence is known
            happened = f"The model was 100% sure and wrong, or 0% sure and right, in {rows}"
        yield (
            f"{happened}. The log loss, which is infinite there, counts a probability of "
            f"{FLOOR:g} instead and depends on it{slope}."
        )


def _test_sentence(screen: Screen, answer: Answer) -> str:
    """What the test finds where nothing else does."""
    assert screen.test is not None
    p = numbers.p_value(screen.test.p_value, 1 / (1 + screen.test.n_draws))
    found = answer.told.verdict
    if found.interval is None:
        return f"The test finds miscalibration (p-value {p})."
    size = "the data do not tell how large it is"
    if answer.told.in_points and found.grade != UNCLEAR:
        size = "it is no larger than the interval allows"
    return f"The test finds miscalibration all the same (p-value {p}); {size}."


def _confidence_sentence(screen: Screen, answer: Answer) -> str:
    gaps, scores = answer.result.overconfidence, screen.scores
    assert gaps is not None
    assert scores is not None
    (row,) = answer.told.averages
    value, ends = row.value.removesuffix(" pts"), row.interval.removesuffix(" pts")
    it = "" if row.note == DIRECTIONS[0] else "it is "
    return (
        f"On average the model is {percent(scores.confidence)} sure and right "
        f"{percent(scores.accuracy)} of the time: {it}{row.note} "
        f"({value} points, {gaps.confidence:.0%} CI {ends})."
    )


def _binary_sentence(found: BinarySummary, positive: str) -> str:
    _, low, high = found.factor()
    of = "ratio " if found.sign == 0 else ""
    known = "inf" not in (low, high) and "nan" not in (low, high)
    limits = f" ({of}{found.confidence:.0%} CI {low} to {high})" if known else ""
    shape = f" Predictions are {found.shape}." if found.shape else ""
    return (
        f"The mean predicted probability of class {positive} is "
        f"{percent(found.mean_prediction)}; it is observed in {percent(found.frequency)} of the "
        f"rows: {found.direction}{limits}.{shape}"
    )


def _class_sentence(classes: Sequence[ClassLine]) -> str:
    """Which classes are off by more than chance; they come first."""
    off, K = sum(bool(line.direction) for line in classes), len(classes)
    if not off:
        return f"No single class is off by more than chance, corrected for {K:,} classes."
    named = []
    for line in classes[: min(off, NAMED)]:
        one_sided = line.direction in ("too high", "too low")
        by = f" by {points(abs(line.gap))} points" if one_sided else ""
        cause = "" if line.share is None else f", {line.share:.0%} of the class-wise error"
        named.append(f"class {shortened(line.name, NAME)} is {line.direction}{by}{cause}")
    count = f"{off:,} of {K:,} classes {'is' if off == 1 else 'are'} off by more than chance"
    return f"{count}: {'; '.join(named)}."


def _rows(
    screen: Screen, answers: Sequence[Answer], ece: Row | None, *, one_class: bool
) -> Iterator[Row]:
    scores = screen.scores
    if scores is None or ece is None:
        return
    if answers and answers[0].result.confidence is not None:
        yield Row("", "", f"{screen.options.confidence:.0%} CI")
    if not one_class:
        yield Row("accuracy", percent(scores.accuracy), help=help.ACCURACY)
        yield Row("mean confidence", percent(scores.confidence), help=help.CONFIDENCE)
    for answer in answers:
        if answer.result.binary is not None or answer is answers[0]:
            yield from answer.told.averages
    yield ece
    for answer in answers:
        if not answer.is_ece:
            yield answer.told.gap
        yield from answer.told.sides
    if screen.test is not None:
        yield screen.test.row
    elif screen.stage == "p-value":
        yield Row("p-value", "", "", "not finished", help.P_VALUE)
    for name, score, loss, meaning in (
        ("log loss", scores.log_loss, "kl", help.LOG_LOSS),
        ("Brier score", scores.brier, "l2", help.BRIER),
    ):
        yield Row(name, numbers.number(score), "", _share_of_risk(screen, loss), meaning)


def _ece(screen: Screen) -> Row | None:
    """The expected calibration error, and what chance makes of it."""
    if screen.scores is None:
        return None
    ece, chance = points(screen.scores.ece), points(screen.scores.ece_by_chance)
    return Row(f"ECE ({N_BINS} bins)", f"{ece} pts", "", f"{chance} by chance alone", help.ECE)


def _share_of_risk(screen: Screen, loss: str) -> str:
    """Which part of a score is calibration error, where the answer knows it."""
    result = screen.result
    if result is None or NOTIONS[result.notion].is_confidence or result.loss != loss:
        return ""
    if result.norm or result.risk <= 0:
        return ""
    if loss == "kl" and result.per_class is not None:  # a sum of binary log losses
        return ""
    return f"{max(result.value, 0.0) / result.risk:.1%} of it is calibration error"


def _details(answers: Sequence[Answer]) -> Iterator[Row]:
    """What is behind the numbers: squared errors, risk, smoothing.

    Those of several answers have a head each, and are indented below it.
    """
    for answer in answers:
        if len(answers) > 1:
            yield Row(NOTIONS[answer.result.notion].title, "")
        for row in answer.told.details:
            name = f"  {row.name}" if len(answers) > 1 else row.name
            yield Row(name, row.value, row.interval, row.note, row.help)
