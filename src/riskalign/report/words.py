"""What a first screen says in words: headline, sentences, rows. Every rendering uses them."""

from __future__ import annotations

from collections.abc import Iterator

from riskalign.data.notions import NOTIONS
from riskalign.display import help, numbers
from riskalign.display.judgement import FACTOR, GRADES, UNCLEAR
from riskalign.display.numbers import percent, points, points_between, shortened
from riskalign.display.table import Row
from riskalign.equations.arrays import FLOOR
from riskalign.inference.calibration_test import DOUBT
from riskalign.methods import EqualWidthBins
from riskalign.report.diagrams import N_BINS
from riskalign.report.screen import Scores, Screen
from riskalign.results import CalibrationResult

NAME = 24
"""Letters of a class's name within a sentence."""

NAMED = 2
"""Classes that the sentences name."""


def positive(screen: Screen) -> str:
    """The class whose probability a binary report is about."""
    return shortened(screen.classes[-1], NAME) if screen.classes else "1"


def question(screen: Screen, answer: CalibrationResult) -> str:
    """The question that an answer answers."""
    return NOTIONS[answer.notion].heading.format(name=positive(screen))


def about(screen: Screen, answer: CalibrationResult) -> str:
    """What an answer is about, such as "confidence"."""
    return NOTIONS[answer.notion].subject.format(name=positive(screen))


def headline(screen: Screen) -> str:
    """The verdict in a few words, such as "Confidence is good; class probabilities are poor"."""
    if not screen.answers:
        return "No answer yet"
    told = [(about(screen, answer), _grade_words(screen, answer)) for answer in screen.answers]
    if len(told) == 2 and told[0][1] == told[1][1]:
        text = f"{told[0][0]} and {told[1][0]} are {told[0][1]}"
    else:
        verbs = ["is" if what == "confidence" else "are" for what, _ in told]
        text = "; ".join(
            f"{what} {verb} {grade}" for (what, grade), verb in zip(told, verbs, strict=True)
        )
    return text[0].upper() + text[1:]


def _grade_words(screen: Screen, answer: CalibrationResult) -> str:
    found = screen.verdict_of(answer)
    unsure = "miscalibrated, by an unclear amount"
    if not answer.in_points:
        if found.significant is False and is_tested(screen, answer):
            return unsure
        words = {None: "estimated", False: "not shown to be off", True: "miscalibrated"}
        return words[found.significant]
    if answer.binary is not None and found.grade not in (*GRADES[:2], UNCLEAR):
        fault = answer.binary.main_fault(answer.value, FACTOR)
        if fault:
            return f"{found.words}: {fault}"
    if found.grade != UNCLEAR:
        return found.words
    if answer.is_shown_off or is_tested(screen, answer):
        return unsure
    return "unclear: too few rows to tell"


def is_tested(screen: Screen, answer: CalibrationResult) -> bool:
    """Whether only the test of calibration, which is about one answer, shows that it is off."""
    test = screen.test
    if test is None or test.p_value > DOUBT or answer is not screen.result:
        return False
    if screen.verdict_of(answer).significant or answer.is_shown_off:
        return False
    classes = None if NOTIONS[answer.notion].is_confidence else screen.evidence
    return classes is None or not classes.findings.any()


def sentences(screen: Screen) -> Iterator[str]:
    """One sentence per answer, then the classes that stand out."""
    if screen.hard:
        yield (
            "All predictions are 0 or 1. They look like predicted classes: a report needs "
            "probabilities, such as those of predict_proba."
        )
    if screen.result is not None and screen.result.note and screen.result.bandwidth is not None:
        yield screen.result.note  # other methods explain themselves in the details
    for answer in screen.answers:
        if answer.binary is not None:
            yield _binary_sentence(screen, answer)
        elif NOTIONS[answer.notion].is_confidence:
            yield _confidence_sentence(screen, answer)
        many = not NOTIONS[answer.notion].is_confidence
        yield answer.sentence(
            screen.options.thresholds,
            about(screen, answer),
            many=many,
            tested=is_tested(screen, answer),
        )
    if screen.evidence is not None:
        yield _class_sentence(screen)
    for answer in screen.answers:
        if is_tested(screen, answer):
            yield _test_sentence(screen, answer)
    if screen.impossible and not screen.hard:
        rows = "1 row" if screen.impossible == 1 else f"{screen.impossible:,} rows"
        slope = ", and so do slope and intercept" if screen.result and screen.result.binary else ""
        happened = f"What happened had the predicted probability 0 in {rows}"
        if not screen.classes:  # only the confidence is known
            happened = f"The model was 100% sure and wrong, or 0% sure and right, in {rows}"
        yield (
            f"{happened}. The log loss, which is infinite there, counts a probability of "
            f"{FLOOR:g} instead and depends on it{slope}."
        )


def _test_sentence(screen: Screen, answer: CalibrationResult) -> str:
    """What the test finds where nothing else does."""
    assert screen.test is not None
    p = numbers.p_value(screen.test.p_value, 1 / (1 + screen.test.n_draws))
    found = screen.verdict_of(answer)
    if found.interval is None:
        return f"The test finds miscalibration (p-value {p})."
    size = "the data do not tell how large it is"
    if answer.in_points and found.grade != UNCLEAR:
        size = "it is no larger than the interval allows"
    return f"The test finds miscalibration all the same (p-value {p}); {size}."


def _confidence_sentence(screen: Screen, answer: CalibrationResult) -> str:
    gaps, scores = answer.overconfidence, screen.scores
    assert gaps is not None
    assert scores is not None
    means = (
        f"On average the model is {percent(scores.confidence)} sure and right "
        f"{percent(scores.accuracy)} of the time"
    )
    ends = points_between(*gaps.gap_interval, signed=True)
    gap = f"{points(gaps.gap, signed=True)} points, {gaps.confidence:.0%} CI {ends}"
    if gaps.sign:
        return f"{means}: it is {answer.direction} ({gap})."
    return f"{means}: no clear direction ({gap})."


def _binary_sentence(screen: Screen, answer: CalibrationResult) -> str:
    found = answer.binary
    assert found is not None
    _, low, high = found.factor()
    of = "ratio " if found.sign == 0 else ""
    known = "inf" not in (low, high) and "nan" not in (low, high)
    limits = f" ({of}{found.confidence:.0%} CI {low} to {high})" if known else ""
    shape = f" Predictions are {found.shape}." if found.shape else ""
    return (
        f"The mean predicted probability of class {positive(screen)} is "
        f"{percent(found.mean_prediction)}; it is observed in {percent(found.frequency)} of the "
        f"rows: {found.direction}{limits}.{shape}"
    )


def _class_sentence(screen: Screen) -> str:
    """Which classes are off by more than chance."""
    found = screen.evidence
    assert found is not None
    off, K = int(found.findings.sum()), len(found.names)
    if not off:
        return f"No single class is off by more than chance, corrected for {K:,} classes."
    words = found.directions
    named = []
    for k in screen.class_order[: min(off, NAMED)]:
        gap = points(abs(float(found.gaps[k])))
        by = f" by {gap} points" if words[k] in ("too high", "too low") else ""
        part = screen.share(k)
        cause = f", {part:.0%} of the class-wise error" if part is not None else ""
        named.append(f"class {shortened(found.names[k], NAME)} is {words[k]}{by}{cause}")
    count = f"{off:,} of {K:,} classes {'is' if off == 1 else 'are'} off by more than chance"
    return f"{count}: {'; '.join(named)}." if named else f"{count}."


def rows(screen: Screen) -> Iterator[Row]:
    """The numbers of the first screen."""
    scores, thresholds = screen.scores, screen.options.thresholds
    if scores is None:
        return
    if screen.options.level is not None and screen.answers:
        yield Row("", "", f"{screen.options.confidence:.0%} CI")
    if not screen.one_class:
        yield Row("accuracy", percent(scores.accuracy), help=help.ACCURACY)
        yield Row("mean confidence", percent(scores.confidence), help=help.CONFIDENCE)
    for answer in screen.answers:
        if answer.binary is not None or answer is screen.answers[0]:
            yield from answer.average_rows()
    yield ece_row(scores)
    for answer in screen.answers:
        if not is_ece(screen, answer):
            yield answer.gap_row(thresholds)
        yield from answer.side_rows()
    if screen.test is not None:
        yield screen.test.row
    elif screen.stage == "p-value":
        yield Row("p-value", "", "", "not finished", help.P_VALUE)
    yield Row("log loss", numbers.number(scores.log_loss), "", _share_of_risk(screen, "kl"),
              help.LOG_LOSS)  # fmt: skip
    yield Row("Brier score", numbers.number(scores.brier), "", _share_of_risk(screen, "l2"),
              help.BRIER)  # fmt: skip


def ece_row(scores: Scores) -> Row:
    """The expected calibration error, and what chance makes of it."""
    chance = f"{points(scores.ece_by_chance)} by chance alone"
    return Row(f"ECE ({N_BINS} bins)", f"{points(scores.ece)} pts", "", chance, help.ECE)


def is_ece(screen: Screen, answer: CalibrationResult) -> bool:
    """Whether an answer is the expected calibration error, which every report shows."""
    notion = NOTIONS[answer.notion]
    one = notion.is_confidence or notion.is_one_class
    return one and screen.options.chosen == EqualWidthBins(N_BINS, norm="l1")


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


def detail_rows(screen: Screen) -> Iterator[Row]:
    """What is behind the numbers: squared errors, risk, smoothing, thresholds.

    Those of several answers have a head each, and are indented below it.
    """
    for answer in screen.answers:
        if len(screen.answers) > 1:
            yield Row(NOTIONS[answer.notion].title, "")
        for row in answer.detail_rows():
            name = f"  {row.name}" if len(screen.answers) > 1 else row.name
            yield Row(name, row.value, row.interval, row.note, row.help)
    yield Row("grades", "", "", grades(screen))


def grades(screen: Screen) -> str:
    """How grades are given."""
    text = str(screen.options.thresholds)
    factor = f"; at best poor if too high or low by a factor above {FACTOR} on average"
    return text + factor if screen.one_class else text


def class_head(screen: Screen) -> tuple[str, ...]:
    """The columns of the table of classes."""
    level = f"{screen.options.confidence:.0%}"
    return ("class", "predicted", "observed", f"gap ({level} CI), points", "typical", "share", "")


def class_cells(screen: Screen, k: int, name: int = 18) -> tuple[str, ...]:
    """The cells of one class."""
    found = screen.evidence
    assert found is not None
    error, part = screen.class_errors.get(k), screen.share(k)
    typical = "-"
    if error is not None and screen.result is not None:
        off = bool(found.findings[k])
        typical = screen.result.class_gap(error.value, off=off)
    gap = points(float(found.gaps[k]), signed=True)
    ends = points_between(float(found.low[k]), float(found.high[k]), signed=True)
    return (
        shortened(found.names[k], name),
        percent(float(found.mean_prediction[k])),
        percent(float(found.frequency[k])),
        f"{gap} ({ends})",
        typical,
        "-" if part is None else f"{part:.0%}",
        found.directions[k],
    )


def subject(screen: Screen) -> str:
    """How much was looked at."""
    classes = f", {len(screen.classes):,} classes" if screen.classes else ""
    return f"{screen.n_samples:,} rows{classes}"
