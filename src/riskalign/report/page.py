"""The HTML page: static words and tables, and the data that its script draws."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from riskalign.equations.arrays import FloatArray
from riskalign.plots.problems import first_scale
from riskalign.report import sections
from riskalign.report.diagrams import GRID, LINEAR_EDGES, LOGIT_EDGES, LOGIT_END, Diagram
from riskalign.report.exchange import plain, to_dict
from riskalign.report.screen import Screen
from riskalign.report.words import Words, tell

DIGITS = 4
"""Significant digits of the numbers that are drawn."""


@dataclass(frozen=True)
class Provenance:
    """Where a report comes from.

    Attributes
    ----------
    source : the file or what else the predictions are from
    command : that made the report, to be typed again
    made : date and time
    version : of riskalign
    reading : which columns were used
    file : the path and the options with which it is read, for `riskalign calibrate`; empty where
        predictions come from elsewhere
    """

    source: str = ""
    command: str = ""
    made: str = ""
    version: str = ""
    reading: str = ""
    file: tuple[str, ...] = ()


def to_html(screen: Screen, provenance: Provenance | None = None) -> str:
    """A report as one page that needs nothing else.

    Examples
    --------
    >>> import riskalign as ra
    >>> from riskalign.report import summarize
    >>> from riskalign.report.page import Provenance, to_html
    >>> data = ra.datasets.temperature(300, 3, seed=0)
    >>> page = to_html(summarize(data.y_true, data.y_prob), Provenance("three classes"))
    >>> page.startswith("<!DOCTYPE html>"), "https://" in page
    (True, False)
    """
    origin = provenance or Provenance()
    here = files("riskalign.report")
    style = (here / "style.css").read_text(encoding="utf-8")
    script = (here / "script.js").read_text(encoding="utf-8")
    said = tell(screen)
    title = f"Calibration report: {origin.source}" if origin.source else "Calibration report"
    pieces = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "title": html.escape(title),
        "grade": html.escape(screen.grade),
        "headline": html.escape(said.headline),
        "subject": html.escape(" \u00b7 ".join(filter(None, (origin.source, said.subject)))),
        "sentences": sections.sentences(said),
        "cards": sections.cards(screen, said),
        "tabs": sections.tabs(screen),
        "classes": sections.class_section(screen, said),
        "advice": sections.advice_section(screen.advice, said, origin.file),
        "rows": sections.table_of(said.rows),
        "details": sections.table_of(said.details),
        "decomposition": sections.decomposition(screen),
        "method": sections.method(screen),
        "origin": sections.origin(origin.command, origin.reading),
        "footer": html.escape(_footer(origin)),
        "data": _json(_data(screen, said, origin)),
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
    text = json.dumps(plain(data), separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _footer(origin: Provenance) -> str:
    when = f" on {origin.made.replace('T', ' ').replace('+00:00', ' UTC')}" if origin.made else ""
    return (
        f"Made by riskalign {origin.version}{when}. This page is one file and loads nothing from "
        "anywhere."
    )


def _rounded(values: FloatArray) -> list[float | None]:
    """Numbers to a few digits, None for NaN."""
    return [None if math.isnan(x) else float(f"{x:.{DIGITS}g}") for x in values.tolist()]


def _data(screen: Screen, said: Words, origin: Provenance) -> dict[str, Any]:
    facts = {
        "riskalign": origin.version,
        "made": origin.made,
        "command": origin.command,
        "source": origin.source,
    }
    drawn = _drawn(screen, said)
    worst = screen.worst
    first = 0
    if worst is not None and worst.per_class is not None:
        first = next((i for i, each in enumerate(drawn) if each["tab"] == "classes"), 0)
    one = screen.diagram
    return {
        "grid": GRID.round(6).tolist(),
        "linear_edges": LINEAR_EDGES.round(6).tolist(),
        "logit_edges": LOGIT_EDGES.tolist(),
        "logit_end": LOGIT_END,
        "logit_first": one is not None
        and first_scale(one.mean_prediction, one_of_two=said.one_class) == "logit",
        "first": first,
        "diagrams": drawn,
        "report": to_dict(screen, **facts),
    }


def _drawn(screen: Screen, said: Words) -> list[dict[str, Any]]:
    """The diagrams: of the confidence or of one class, then of classes by evidence."""
    found = []
    if screen.top_diagram is not None:
        found.append(_diagram(screen.top_diagram, "confidence", "the predicted class"))
    if screen.diagram is not None:
        if said.one_class:
            name = f"class {screen.diagram.name}"
            found.append(_diagram(screen.diagram, "class", name))
        else:
            found.append(_diagram(screen.diagram, "confidence", "the predicted class"))
    for line in said.classes:
        error = screen.class_errors.get(line.number)
        if error is not None and error.diagram is not None:
            name = f"class {error.diagram.name}"
            found.append(_diagram(error.diagram, "classes", name) | {"number": line.number})
    return found


def _diagram(diagram: Diagram, tab: str, name: str) -> dict[str, Any]:
    bins = diagram.bins
    filled = bins.counts > 0
    return {
        "tab": tab,
        "name": name,
        "R": _rounded(diagram.conditional),
        "low": _rounded(diagram.low),
        "high": _rounded(diagram.high),
        "linear": diagram.linear_counts.tolist(),
        "logit": diagram.logit_counts.tolist(),
        "bins": [
            _rounded(bins.predicted[filled]),
            _rounded(bins.observed[filled]),
            bins.counts[filled].tolist(),
        ],
    }
