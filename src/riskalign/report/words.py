"""What a report says in words, for the page and for the terminal."""

from __future__ import annotations

import numpy as np

from riskalign.data.notions import NOTIONS
from riskalign.inference.calibration_test import CalibrationTest
from riskalign.report.summary import Summary
from riskalign.results import CalibrationResult

LOSSES = {"l2": "squared error", "kl": "log loss", "ranked": "ranked probability score"}


def asks(result: CalibrationResult) -> str:
    """The question that the notion puts to the predictions."""
    return NOTIONS[result.notion].question.format(name=result.classes[1] if result.classes else "")


NAME = 30
"""Letters of a class's name within a sentence."""

DOUBT = 0.05
"""The p-value above which labels are taken to follow the predictions."""


def title_of(result: CalibrationResult) -> str:
    """The kind of error."""
    loss = LOSSES.get(result.loss, result.loss)
    return f"{NOTIONS[result.notion].title} calibration error ({loss})"


def number(x: float) -> str:
    """Three significant digits, four decimals at least, plain where that is readable."""
    if x == 0:
        return "0"
    if abs(x) < 1e-4:
        return f"{x:.2e}"
    return f"{x:.{max(4, 2 - int(np.floor(np.log10(abs(x)))))}f}"


def percent(x: float) -> str:
    """A share."""
    return f"{100 * x:.2f}%"


def p_value(p: float, smallest: float = 0.0) -> str:
    """A p-value; a test by drawing has a smallest one."""
    if smallest and p <= smallest:
        return f"<= {smallest:.3g}"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def test_p_value(test: CalibrationTest) -> str:
    """The p-value of a test of calibration."""
    return p_value(test.p_value, 1 / (1 + test.n_draws))


def interval(result: CalibrationResult) -> str:
    """The interval in words, empty where there is none."""
    if result.interval is None:
        return ""
    low, high = result.interval
    return f"{result.confidence:.0%} interval {number(low)} to {number(high)}"


def per_class(result: CalibrationResult) -> str:
    """What is said after a typical |R - f|: class-wise errors have one for all classes."""
    return " per class" if result.per_class is not None else ""


def points(x: float) -> str:
    """A signed difference of shares, in percentage points."""
    return f"{100 * x:+.2f}"


def gap_interval(result: CalibrationResult) -> str:
    """The interval of mean confidence less accuracy, in points, with its confidence."""
    assert result.overconfidence is not None
    low, high = result.overconfidence.gap_interval
    return f"{points(low)} to {points(high)} ({result.overconfidence.confidence:.0%})"


def share(x: float) -> str:
    """A share that may be small, with two digits at least."""
    return percent(x) if x == 0 or x >= 1e-3 else f"{100 * x:.2g}%"


def ratio(x: float) -> str:
    """A quotient; a dash where it has no value."""
    return f"{x:.2f}" if np.isfinite(x) else "-"


def ends(interval: tuple[float, float], confidence: float) -> str:
    """An interval with its confidence."""
    low, high = interval
    limits = f"{low:.2f} to {high:.2f}" if np.isfinite(high) else f"at least {low:.2f}"
    return f"{limits} ({confidence:.0%})"


def positive_class(result: CalibrationResult) -> str:
    """The class whose probability a binary error is about, its name cut to a readable length."""
    name = " ".join(result.classes[1].split())
    return f"class {name if len(name) <= NAME else name[: NAME - 3] + '...'}"


def verdict(summary: Summary) -> str:
    """The report in two sentences."""
    result = summary.result
    if result.interval is None:
        first = f"The {title_of(result)} is {number(result.value)}."
    elif result.interval[0] > 0:
        first = (
            f"The probabilities are off: the {title_of(result)} is {number(result.value)}, and "
            f"its {interval(result)} lies above 0."
        )
    elif summary.test is not None and summary.test.p_value <= DOUBT:
        first = (
            f"The probabilities are off (p-value {test_p_value(summary.test)}), but how far is "
            f"unsettled: the {title_of(result)} is {number(result.value)}, and its "
            f"{interval(result)} reaches 0."
        )
    else:
        first = (
            f"No miscalibration is visible at this sample size: the {title_of(result)} is "
            f"{number(result.value)}, and its {interval(result)} reaches 0."
        )
    return f"{first} {_direction(result)}"


def _direction(result: CalibrationResult) -> str:
    """Which way the probabilities err on average; said only if an interval shows it."""
    if result.binary is not None:
        found = result.binary
        _, low, high = found.factor()
        of = "ratio " if found.sign == 0 else ""
        known = np.isfinite(float(high))
        limits = f" ({of}{low} to {high} with {found.confidence:.0%} confidence)" if known else ""
        return (
            f"The mean probability of {positive_class(result)} is {share(found.mean_prediction)}; "
            f"it is observed in {share(found.frequency)} of the rows: {found.direction}{limits}."
        )
    assert result.overconfidence is not None
    subject = "the model is " if result.overconfidence.sign else ""
    return (
        f"Mean confidence less accuracy is {points(result.overconfidence.gap)} points, interval "
        f"{gap_interval(result)}: {subject}{result.direction}."
    )


def bandwidths(result: CalibrationResult) -> str:
    """The bandwidth, or the range of bandwidths, and how it was found."""
    h = np.atleast_1d(np.asarray(result.bandwidth, dtype=np.float64))
    origin = "given" if result.search is None else result.search.criterion
    edges = 0 if result.search is None else int(np.count_nonzero(result.search.at_edge))
    if len(h) == 1:
        return f"{h[0]:.3g} ({origin}{', at the edge of its range' if edges else ''})"
    note = f", {edges} at edge" if edges else ""
    return f"{h.min():.3g} to {h.max():.3g} a class ({origin}{note})"
