"""Parts of the HTML page as they are without a script. Everything from outside is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from riskalign.data.notions import NOTIONS
from riskalign.display import help, numbers
from riskalign.display.classes import ClassLine
from riskalign.display.numbers import MINUS, points
from riskalign.display.table import Row
from riskalign.recalibration.gains import Gain
from riskalign.report.advice import Advice
from riskalign.report.screen import Screen
from riskalign.report.words import Words

SHOWN = 20
"""Classes that the table shows before it is asked for more."""

RULE = (
    " The marked method has the lowest log loss, or is a simpler one that does about as well and "
    "leaves hardly more error."
)
LEVEL = (
    " A temperature cannot correct predictions that are too high or too low on average: where "
    "Platt scaling does as well, it comes first."
)
"""How `Advice.chosen` is found, and what is added where one probability is off on average."""

SIGN = re.compile(r"(?<!\w)-(?=\d)|(?<=\de)-(?=\d)")
"""The sign of a number or of its exponent."""

KERNELS = {"dirichlet": "Dirichlet", "rbf": "Gaussian"}
"""Kernels in a sentence."""

BAR, HALF = 120, 60
"""Width of an interval bar, and where its 0 is."""


def tip(text: str) -> str:
    """A question mark that explains what stands before it."""
    if not text:
        return ""
    said = html.escape(text)
    return (
        f'<span class="tip" tabindex="0" role="note" aria-label="{said}" data-tip="{said}">?</span>'
    )


def minus(text: str) -> str:
    """Escaped text with proper minus signs in numbers; names such as "covid-19" keep theirs."""
    return SIGN.sub(MINUS, html.escape(text)).replace("&lt;=", "\u2264")


def sentences(said: Words) -> str:
    """What the report says, one sentence per line."""
    return "".join(f"<p>{minus(sentence)}</p>" for sentence in said.sentences)


def cards(screen: Screen, said: Words) -> str:
    """Four numbers of equal rank."""
    return "".join(_card(*card) for card in _cards(screen, said))


def _cards(screen: Screen, said: Words) -> Iterator[tuple[Row, str, str]]:
    """A row, what is said below it, and its grade."""
    level = f"{screen.options.confidence:.0%} CI"
    chance = ""
    if screen.scores is not None:
        by_chance = points(screen.scores.ece_by_chance)
        chance = f"a calibrated model shows {by_chance} pts by chance"
    for answer in said.answers:
        row = answer.told.gap
        note = f"{level} {row.interval}" if row.interval else ""
        if said.ece is not None and answer.is_ece:
            row, note = replace(said.ece, note=row.note), chance
        yield row, note, row.note if answer.told.in_points else ""
        if answer is said.answers[0]:
            yield from _average_cards(answer.told.averages, level)
    if screen.scores is not None and len(said.answers) == 1 and not said.one_class:
        row = next(row for row in said.rows if row.name == "accuracy")
        yield row, f"mean confidence {numbers.percent(screen.scores.confidence)}", ""
    if said.ece is not None and not any(answer.is_ece for answer in said.answers):
        yield said.ece, chance, ""


def _average_cards(averages: Sequence[Row], level: str) -> Iterator[tuple[Row, str, str]]:
    joined = {
        "predicted / observed": ":",
        "confidence - accuracy": ":",
        "predicted - observed": ":",
        "calibration slope": ";",
    }
    for row in averages:
        if row.name in joined:
            yield row, f"{level} {row.interval}{joined[row.name]} {row.note}", ""


def _card(row: Row, note: str, grade: str) -> str:
    worst = html.escape(grade.removesuffix(" by the factor").split()[-1]) if grade else ""
    badge = f'<span class="badge {worst}">{html.escape(grade)}</span>' if grade else ""
    name = (row.name[0].upper() + row.name[1:]).replace(" - ", f" {MINUS} ")
    return (
        f"<div><dt>{html.escape(name)}{tip(row.help)}</dt>"
        f'<dd>{minus(row.value)} {badge}</dd><dd class="note">{minus(note)}</dd></div>'
    )


def tabs(screen: Screen) -> str:
    """A tab for each notion that has a diagram, where there are several."""
    drawn = [error.diagram for error in screen.class_errors.values() if error.diagram is not None]
    has_top = screen.top_diagram is not None or (screen.diagram is not None and drawn)
    if not (has_top and drawn):
        return ""
    buttons = (("confidence", "Confidence"), ("classes", "Each class"))
    return (
        '<div class="tabs" role="tablist" aria-label="What the diagram shows">'
        + "".join(
            f'<button type="button" role="tab" data-tab="{key}" aria-controls="reliability">{name}'
            "</button>"
            for key, name in buttons
        )
        + "</div>"
    )


def table_of(rows: Iterable[Row]) -> str:
    """Rows as a table."""
    return (
        '<table class="numbers"><tbody>'
        + "".join(
            f'<tr><th scope="row">{html.escape(row.name)}{tip(row.help)}</th>'
            f"<td>{minus(row.value)}</td><td>{minus(row.interval)}</td><td>{minus(row.note)}</td></tr>"
            for row in rows
            if row.name
        )
        + "</tbody></table>"
    )


def class_section(screen: Screen, said: Words) -> str:
    """The table of classes, by evidence."""
    if not said.classes:
        return ""
    first = said.classes[:SHOWN]
    reach = max(abs(end) for line in first for end in (line.low, line.high))
    rows = "".join(_class_row(line, place, reach) for place, line in enumerate(said.classes))
    K, off = len(said.classes), sum(bool(line.direction) for line in said.classes)
    level = f"{screen.options.confidence:.0%}"
    heads = (
        ("name", "class", ""),
        ("", "diagram", ""),
        ("number", "finding", help.EVIDENCE),
        ("number", f"gap in points, {level} CI", help.CLASS_GAP),
        ("number", "typical gap", help.TYPICAL),
        ("number", "share", help.SHARE),
        ("number", "predicted", ""),
        ("number", "observed", ""),
        ("number", "rows", ""),
    )
    note = f'<p class="caption">{html.escape(said.classes_note)}</p>' if said.classes_note else ""
    head = "".join(
        f'<th scope="col"{f" data-sort={kind}" if kind else ""}><span>{html.escape(name)}</span>'
        f"{tip(text)}</th>"
        for kind, name, text in heads
    )
    return (
        '<section id="classes" aria-labelledby="classes-title"><h2 id="classes-title">Classes</h2>'
        f'<p class="caption">{off:,} of {K:,} classes {"is" if off == 1 else "are"} off by more '
        "than chance, corrected for "
        f"{K:,} classes; the list is ordered by evidence.</p>"
        '<div class="controls" id="class-controls" hidden>'
        '<label>Filter <input type="search" id="filter" autocomplete="off" spellcheck="false">'
        '</label><label><input type="checkbox" id="only"> only beyond chance</label>'
        '<span id="showing" aria-live="polite"></span>'
        '<button type="button" id="more">Show all</button></div>'
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="classes-title">'
        f'<table id="class-table" data-shown="{SHOWN}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}</section>"
    )


def _class_row(line: ClassLine, place: int, reach: float) -> str:
    _, predicted, observed, gap, typical, share, finding = line.cells(0)
    side = "over" if finding in ("too high", "too extreme") else "under" if finding else "none"
    bar = interval_bar(line.gap, line.low, line.high, reach, side)
    value = -1.0 if line.error is None else line.error
    cells = (
        ("finding", -float(place), None),
        ("gap", line.gap, None),
        ("typical gap", value, typical if typical == "-" else f"{typical} pts"),
        ("share", -1.0 if line.share is None else line.share, None),
        ("predicted", line.mean_prediction, predicted),
        ("observed", line.frequency, observed),
        ("rows", line.count, numbers.count(line.count)),
    )
    made = []
    for name, number, text in cells:
        content = (
            minus(text)
            if text is not None
            else {
                "gap": f'{bar}<span class="gap">{minus(gap)}</span>',
                "share": _share_bar(line.share, share),
                "finding": f'<span class="finding {side}">{html.escape(finding)}</span>',
            }[name]
        )
        made.append(f'<td data-label="{name}" data-value="{number:.6g}">{content}</td>')
    beyond = ' data-beyond=""' if finding else ""
    name = html.escape(line.name)
    return (
        f'<tr data-number="{line.number}"{beyond}><td data-label="class">{name}</td>'
        f'<td class="spark"></td>{"".join(made)}</tr>'
    )


def interval_bar(value: float, low: float, high: float, reach: float, side: str) -> str:
    """A value with its interval on an axis from -reach to reach."""

    def x(v: float) -> float:
        return HALF + (HALF - 4) * max(-1.0, min(1.0, v / reach if reach > 0 else 0.0))

    return (
        f'<svg class="interval {side}" viewBox="0 0 {BAR} 16" aria-hidden="true">'
        f'<line class="zero" x1="{HALF}" x2="{HALF}" y1="0" y2="16"/>'
        f'<line class="reach" x1="{x(low):.1f}" x2="{max(x(high), x(low) + 1):.1f}" y1="8" y2="8"/>'
        f'<circle class="value" cx="{x(value):.1f}" cy="8" r="3.5"/></svg>'
    )


def _share_bar(part: float | None, text: str) -> str:
    if part is None:
        return html.escape(text)
    width = 40 * min(max(part, 0.0), 1.0)
    return (
        '<svg class="share" viewBox="0 0 40 10" aria-hidden="true">'
        f'<rect class="rest" width="40" height="10"/><rect class="part" width="{width:.1f}" '
        f'height="10"/></svg><span class="percent">{html.escape(text)}</span>'
    )


def advice_section(advice: Advice | None, said: Words, source: Sequence[str]) -> str:
    """What recalibration would gain; empty where it was not tried."""
    if advice is None:
        return ""
    title = '<section aria-labelledby="todo"><h2 id="todo">What to do</h2>'
    if not advice.gains:
        return f"{title}<p>{minus(advice.sentence)}</p></section>"
    error = "typical gap" if advice.in_points else "error"
    heads = ("method", error, "", "log loss", "change (95% CI)")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    errors = [e for gain in advice.gains for e in (gain.error_before, gain.error_after)]
    most = max(map(advice.gap, errors), default=1.0) or 1.0
    rows = "".join(_gain_row(advice, gain, most) for gain in advice.gains)
    command = advice.command(source)
    shown = f'<p class="command"><code>{html.escape(command)}</code></p>' if command else ""
    about = NOTIONS[advice.notion].subject.format(name=said.positive)
    rule = RULE + (LEVEL if advice.level_off else "")
    return (
        f'{title}<p>{minus(advice.sentence)}</p>{shown}<div class="scroll"><table class="gains">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        '<p class="caption"><span class="keys"><span class="key before"></span>before '
        '<span class="key after"></span>after, if better '
        '<span class="key worse"></span>after, if worse. </span>'
        f"Typical gap ({html.escape(about)}) and log loss, before and after, "
        f"cross-fitted on {advice.rows}: each row is recalibrated by a map fitted on other rows. "
        "These are estimates: 0 means that no gap can be seen in these rows."
        f"{rule if advice.chosen else ''}</p></section>"
    )


def _gain_row(advice: Advice, gain: Gain, most: float) -> str:
    before, after = (
        100 * advice.gap(error) / most for error in (gain.error_before, gain.error_after)
    )
    worse = gain.error_after > max(gain.error_before, 0.0)
    bar = (
        '<svg class="gain" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="before" y="1" width="{before:.1f}" height="5"/>'
        f'<rect class="{"worse" if worse else "after"}" y="9" width="{max(after, 1.0):.1f}" '
        'height="5"/></svg>'
    )
    change = gain.change_in_words.replace("95% CI ", "")  # the head says so
    chosen = ' class="chosen"' if gain is advice.chosen else ""
    name = "typical gap" if advice.in_points else "error"
    return (
        f'<tr{chosen}><th scope="row">{html.escape(gain.description)}</th>'
        f'<td data-label="{name}">{minus(advice.size(gain.error_before))} \u2192 '
        f"{minus(advice.size(gain.error_after))}</td><td>{bar}</td>"
        f"<td>{numbers.number(gain.log_loss_before)} \u2192 "
        f"{numbers.number(gain.log_loss_after)}</td><td>{minus(change)}</td></tr>"
    )


def decomposition(screen: Screen) -> str:
    """The risk as calibration error and refinement, as a bar with its legend."""
    result = screen.result
    if result is None or result.norm is not None or result.risk <= 0:
        return ""
    share = min(max(result.value / result.risk, 0.0), 1.0)
    return (
        '<figure class="split"><svg viewBox="0 0 1000 10" preserveAspectRatio="none" '
        'aria-hidden="true"><rect class="rest" width="1000" height="10"/>'
        f'<rect class="error" width="{max(1000 * share, 2 if share > 0 else 0):.1f}" height="10"/>'
        '</svg><figcaption><span class="key error"></span>calibration error '
        f'({share:.1%} of the risk), which recalibration can remove <span class="key rest"></span>'
        "refinement, which only a better model lowers</figcaption></figure>"
    )


def method(screen: Screen) -> str:
    """How the numbers were computed, in a paragraph."""
    result = screen.result
    if result is None:
        return ""
    name = result.kernel or ""
    kernel = html.escape(KERNELS.get(name, name))
    if result.estimator == "debiased":
        text = (
            "We average residuals (label minus a Platt-scaled prediction) with the "
            f"{kernel} kernel, each row left out of its own average, and subtract what the noise "
            "of the average adds to a squared gap. A calibrated model therefore has an error of 0 "
            "on average; an estimate below 0 is shown as 0. Miscalibration finer than the "
            "smoothing width is not included."
        )
    elif result.kernel is not None:
        text = (
            f"We average labels with the {kernel} kernel, each row left out of its own average "
            "(the estimator of the paper)."
        )
    else:
        text = f"Estimated by {html.escape(result.method)}."
    return (
        f"<p>{text}</p><p>Reference: Zhou, Popordanoska, Blaschko: Bandwidth Selection in Kernel "
        "Density Estimation for Model Calibration, UAI 2026.</p>"
    )


def origin(command: str, reading: str) -> str:
    """The command that made the page, and which columns it read."""
    parts = []
    if reading:
        parts.append(f'<p class="caption">Read: {html.escape(reading)}.</p>')
    if command:
        parts.append(
            f'<p class="command"><code id="command">{html.escape(command)}</code> '
            '<button type="button" id="copy" hidden>Copy</button></p>'
        )
    return "".join(parts)
