"""The HTML page: static words and tables, and the data that its script draws."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import numpy as np

from riskalign.bandwidth.search import Curve
from riskalign.equations.arrays import FloatArray
from riskalign.report import words
from riskalign.report.summary import LINEAR_EDGES, LOGIT_EDGES, LOGIT_END, Diagram, Summary

MINUS = "\u2212"

DIGITS = 4
"""Significant digits of the numbers that are drawn."""


def to_html(summary: Summary, *, source: str = "", version: str = "") -> str:
    """A report as one page that needs nothing else.

    Parameters
    ----------
    summary : Summary
    source : str
        Where the predictions come from, shown under the title.
    version : str
        The version that made the page.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report import to_html
    >>> from riskalign.report.summary import summarize
    >>> data = ra.datasets.temperature(300, 3, seed=0)
    >>> page = to_html(summarize(data.y_true, data.y_prob), source="three classes")
    >>> page.startswith("<!DOCTYPE html>"), "https://" in page
    (True, False)
    """
    here = files("riskalign.report")
    style = (here / "style.css").read_text(encoding="utf-8")
    script = (here / "script.js").read_text(encoding="utf-8")
    result = summary.result
    has_search = result.search is not None
    pieces = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "title": html.escape(f"Calibration report: {source}" if source else "Calibration report"),
        "subject": html.escape(_subject(summary, source)),
        "verdict": html.escape(words.verdict(summary)),
        "cards": "".join(_card(*card) for card in _cards(summary)),
        "band": "The band is what chance allows at each point"
        + (f" ({result.confidence:.0%})." if result.confidence else "."),
        "classes": _class_section(summary),
        "bandwidth_hidden": "" if has_search else " hidden",
        "bandwidth_caption": html.escape(_bandwidth_caption(summary)),
        "meaning": _definitions(_meaning(summary)),
        "method": _definitions(_method(summary)),
        "version": html.escape(version),
        "data": _json(_data(summary)),
        "style": style,
        "script": script,
    }
    # Each piece is put in once: what a piece contains is never looked at again.
    first, *rest = (here / "template.html").read_text(encoding="utf-8").split("{{")
    page = [first]
    for part in rest:
        name, _, text = part.partition("}}")
        page += [pieces[name], text]
    return "".join(page)


def _hash(text: str) -> str:
    """A script's or style's fingerprint, by which the page allows it and no other."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _json(data: object) -> str:
    """JSON that is inert inside a script element, whatever names it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _rounded(values: FloatArray) -> list[float | None]:
    """Numbers to a few digits, None for NaN."""
    return [None if math.isnan(x) else float(f"{x:.{DIGITS}g}") for x in values.tolist()]


def _data(summary: Summary) -> dict[str, Any]:
    result = summary.result
    shown = ([summary.top] if summary.top else []) + list(summary.diagrams)
    offset = len(shown) - len(summary.diagrams)
    curves = () if result.search is None else result.search.curves
    total = float(result.n_samples)
    share = result.value / result.risk if result.risk > 0 and result.norm is None else None
    return {
        "grid": shown[0].grid.round(6).tolist(),
        "linear_edges": LINEAR_EDGES.round(6).tolist(),
        "logit_edges": LOGIT_EDGES.tolist(),
        "logit_end": LOGIT_END,
        "offset": offset,
        "worst": 0 if result.per_class is None else int(np.argmax(result.per_class)),
        "error_share": share if share is not None and 0 <= share <= 1 else None,
        "diagrams": [_diagram(diagram, summary) for diagram in shown],
        "searches": [
            _search(curve, total, f"class {name}" if len(curves) > 1 else "")
            for curve, name in zip(curves, result.classes or ("",), strict=False)
        ],
    }


def _diagram(diagram: Diagram, summary: Summary) -> dict[str, Any]:
    top = diagram is summary.top or summary.result.notion == "top-label"
    name = "the predicted class" if top else f"class {diagram.name}"
    return {
        "name": name,
        "label": "the predicted class (top label)" if top else name,
        "R": _rounded(diagram.conditional),
        "low": _rounded(diagram.low),
        "high": _rounded(diagram.high),
        "linear": diagram.linear_counts.tolist(),
        "logit": diagram.logit_counts.tolist(),
    }


def _search(curve: Curve, total: float, name: str) -> dict[str, Any]:
    """A bandwidth curve; its objective a sample, less the lowest, which alone is drawn."""
    objective = (curve.objective - curve.objective.min()) / total
    return {
        "name": name,
        "h": _rounded(curve.candidates),
        "objective": _rounded(objective),
        "value": curve.value,
        "at_edge": bool(curve.at_edge),
    }


def _subject(summary: Summary, source: str) -> str:
    result = summary.result
    parts = [source] if source else []
    parts.append(f"{result.n_samples:,} predictions")
    if result.classes:
        parts.append(f"{len(result.classes)} classes")
    return " \u00b7 ".join([*parts, words.title_of(result)])


def _card(name: str, value: str, *notes: str) -> str:
    lines = "".join(f'<dd class="note">{html.escape(note)}</dd>' for note in notes if note)
    return f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>{lines}</div>"


def _cards(summary: Summary) -> Iterable[tuple[str, ...]]:
    result = summary.result
    typical = f"typical |R {MINUS} f|: {words.number(result.root)}{words.per_class(result)}"
    root = typical if result.loss == "l2" else ""
    yield "Calibration error", words.number(result.value), words.interval(result), root
    yield from _averages(summary)
    yield "Risk", words.number(result.risk), "mean loss, observed"
    if result.refinement is not None:
        yield "Refinement", words.number(result.refinement), "what calibration cannot mend"
    if summary.test is not None:
        yield (
            "p-value",
            words.test_p_value(summary.test).replace("<=", "\u2264"),
            "that labels follow the predictions",
        )


def _averages(summary: Summary) -> Iterable[tuple[str, ...]]:
    """What was predicted on average and what came true: of one class, or of the top label."""
    result, found = summary.result, summary.result.binary
    if found is None:
        yield "Accuracy", words.percent(summary.accuracy)
        yield "Mean confidence", words.percent(summary.mean_confidence)
        if result.overconfidence is not None:
            gap = f"{words.points(result.overconfidence.gap)} points".replace("-", MINUS)
            interval = words.gap_interval(result).replace("-", MINUS)
            yield "Confidence less accuracy", gap, interval, result.direction or ""
        return
    yield "Mean predicted", words.share(found.mean_prediction), words.positive_class(result)
    yield "Observed", words.share(found.frequency)
    ratio = words.ends(found.ratio_interval, found.confidence)
    yield "Predicted / observed", words.ratio(found.ratio), ratio, found.direction
    for name, value, limits, ideal in (
        ("Calibration slope", found.slope, found.slope_interval, "1 is ideal"),
        ("Calibration intercept", found.intercept, found.intercept_interval, "0 is ideal"),
    ):
        ends = words.ends(limits, found.confidence).replace("-", MINUS)
        yield name, f"{value:.2f}".replace("-", MINUS), ends, ideal


def _class_section(summary: Summary) -> str:
    """The table of classes, as it is without a script."""
    result = summary.result
    if result.notion != "classwise":
        return ""
    assert result.per_class is not None
    assert result.overconfidence is not None
    h = np.broadcast_to(np.asarray(result.bandwidth, dtype=np.float64), result.per_class.shape)
    heads = ("error", "share", "f \u2212 R", "mean f", "frequency", "rows", "h")
    total = float(np.abs(result.per_class).sum()) or 1.0
    rows = []
    for k in np.argsort(-result.per_class, kind="stable").tolist():
        diagram = summary.diagrams[k]
        error, gap = float(result.per_class[k]), float(result.overconfidence.per_class[k])
        n_rows = result.n_samples * diagram.frequency
        cells = [
            (error, f"{error:.6f}"),
            (error / total, f"{100 * error / total:.1f}%"),
            (gap, f"{gap:+.4f}"),
            (diagram.mean_prediction, f"{diagram.mean_prediction:.4f}"),
            (diagram.frequency, f"{diagram.frequency:.4f}"),
            (n_rows, f"{n_rows:,.0f}"),
            (float(h[k]), f"{h[k]:.2g}"),
        ]
        data = "".join(
            f'<td data-value="{value:.6g}">{text.replace("-", MINUS)}</td>' for value, text in cells
        )
        name = html.escape(diagram.name)
        rows.append(f'<tr data-number="{k}"><td>{name}</td><td class="spark"></td>{data}</tr>')
    head = "".join(f'<th scope="col" data-sort="number">{name}</th>' for name in heads)
    head = head.replace(">error", ' aria-sort="descending">error')
    return (
        '<section aria-labelledby="classes-title"><h2 id="classes-title">Classes</h2>'
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="classes-title">'
        '<table id="class-table"><thead><tr><th scope="col" data-sort="name">class</th>'
        f'<th scope="col">diagram</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="caption">The errors of the classes add up to the calibration error. f \u2212 R '
        "is the mean of predicted less estimated probability: above 0 the class's probability is "
        "too high on average, be it by chance. Headings sort; a class's name shows it in the "
        "diagram.</p></section>"
    )


def _definitions(entries: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in entries
    )


def _bandwidth_caption(summary: Summary) -> str:
    search = summary.result.search
    if search is None:
        return ""
    each = "Each class has its own; choose one above. " if len(search.curves) > 1 else ""
    return (
        f"How wide the kernel averages. {each}The curve is the criterion ({search.criterion}), per "
        "row and less its lowest value; the marked bandwidth was chosen. A flat curve says that "
        "the choice matters little."
    )


def _meaning(summary: Summary) -> Iterable[tuple[str, str]]:
    result = summary.result
    yield (
        "Calibration error",
        f"{words.asks(result)} The error is the "
        f"{result.definition}, where f is predicted and R is the frequency. 0 is perfect.",
    )
    if result.interval is not None:
        yield (
            f"{result.confidence:.0%} interval",
            "Errors that chance does not rule out, by the noise of the labels and of the smoother. "
            "Its lower end is above 0 when miscalibration is visible. What the kernel is too wide "
            "to follow is not in it.",
        )
    if result.loss == "l2":
        whole = " between whole vectors" if result.notion == "canonical" else ""
        mean = "mean over the classes" if result.per_class is not None else "error"
        yield (
            f"Typical |R {MINUS} f|",
            f"The square root of the {mean}, on the scale of probabilities: the root mean square "
            f"of R {MINUS} f{words.per_class(result) or whole}.",
        )
    yield "Risk", f"The mean {words.LOSSES.get(result.loss, result.loss)} of the predictions."
    yield (
        "Refinement",
        "Risk less calibration error: what would remain if each probability were replaced by "
        "the frequency behind it. Only a better model lowers it.",
    )
    if result.binary is None:
        yield (
            "Over-confidence",
            "Mean confidence (the probability of the class each row ranks first) less accuracy: "
            "above 0 the model claims more than comes true. A direction is named only if the "
            "interval of this difference excludes 0.",
        )
    else:
        yield (
            "Predicted / observed",
            "The mean predicted probability over the frequency of the class: above 1 the "
            "probability is too high. This is said only if the interval of the ratio excludes 1.",
        )
        yield (
            "Slope and intercept",
            "Logistic recalibration: log-odds(R) = intercept + slope \u00d7 log-odds(f). A slope "
            "below 1 says that predictions are too extreme, one above 1 that they are too timid.",
        )
    if summary.test is not None:
        yield (
            "p-value",
            "How often labels that are drawn from the predictions look as far from them as the "
            f"real ones: {summary.test.n_draws} label sets were drawn, for "
            f"{summary.test.n_samples:,} rows.",
        )


def _method(summary: Summary) -> Iterable[tuple[str, str]]:
    result = summary.result
    yield (
        "Estimate of R",
        f"Residuals (label less prediction, its slope and shift corrected) are averaged with the "
        f"{result.kernel} kernel, each row left out of its own average."
        if result.estimator == "debiased"
        else f"Labels are averaged with the {result.kernel} kernel, each row left out.",
    )
    if result.estimator == "debiased":
        yield (
            "Debiased",
            "What the noise of R adds to the error is subtracted, so a calibrated model scores "
            "0 on average, and may score slightly below.",
        )
    yield "Bandwidth", words.bandwidths(result)
    yield "Band of the curve", "Wilson's interval with the effective number of rows at each point."
    yield "Notion, loss", f"{result.notion}, {result.loss}"
    yield "Rows", f"{result.n_samples:,}"
    yield (
        "Reference",
        "Zhou, Popordanoska, Blaschko: Bandwidth Selection in Kernel Density Estimation for "
        "Model Calibration, UAI 2026.",
    )
