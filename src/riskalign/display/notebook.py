"""The frame of an answer in a notebook: a title, rows, perhaps a table, and a small picture."""

from __future__ import annotations

import html
from collections.abc import Sequence

from riskalign.display.table import Row, html_rows

STYLE = (
    "<style>.riskalign{display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start;margin:4px 0}"
    ".riskalign table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:6px 0}"
    ".riskalign th,.riskalign td{text-align:left;padding:2px 14px 2px 0;font-weight:400;"
    "background:none;border:0;white-space:nowrap}"
    ".riskalign th{opacity:.7}.riskalign thead th{font-size:90%}"
    ".riskalign td:last-child{white-space:normal;max-width:22em}</style>"
)


def framed(
    title: str,
    lead: str,
    rows: Sequence[Row],
    picture: str = "",
    grid: Sequence[Sequence[str]] = (),
) -> str:
    """The HTML of an answer; `grid` is a table whose first row names its columns.

    Examples
    --------
    >>> framed("<b>", "", [Row("a", "1")]).count("&lt;b&gt;")
    1
    """
    said = f"<div>{html.escape(lead)}</div>" if lead else ""
    return (
        f'<div class="riskalign">{STYLE}<div><strong>{html.escape(title)}</strong>{said}'
        f"{html_rows(rows)}{_grid(grid)}</div><div>{picture}</div></div>"
    )


def _grid(grid: Sequence[Sequence[str]]) -> str:
    if not grid:
        return ""
    head, *rest = grid
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rest
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
