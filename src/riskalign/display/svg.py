"""Small pictures for notebooks, as inline SVG that suits light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskalign.equations.arrays import FloatArray

BLUE, ORANGE = "#2a78d6", "#d9730d"
SIDE, MARGIN = 160, 26
FONT = 'font-size="10" font-family="sans-serif" fill="currentColor" opacity="0.75"'


def svg(width: float, height: float, body: Sequence[str], label: str) -> str:
    """A picture with a name for those who cannot see it; the name must be plain text."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{label}">'
        f"{''.join(body)}</svg>"
    )


def reliability(
    grid: FloatArray, conditional: FloatArray, low: FloatArray, high: FloatArray
) -> str:
    """A reliability diagram, NaN where nothing is known; all arrays ``(m,)``.

    The curve is dotted where it has no band, because few rows lie near.
    """
    body = [_frame()]
    for run in runs(np.isfinite(low)):
        ends = _places(grid[run], high[run]) + _places(grid[run], low[run])[::-1]
        body.append(f'<polygon points="{" ".join(ends)}" fill="{BLUE}" opacity="0.25"/>')
    known, informed = np.isfinite(conditional), np.isfinite(low)
    for shown, dashes in ((known & informed, ""), (known & ~informed, 'stroke-dasharray="0.1 4" ')):
        for run in runs(shown):
            line = _places(grid[run], conditional[run])
            body.append(
                f'<polyline points="{" ".join(line if len(line) > 1 else line * 2)}" fill="none" '
                f'stroke="{BLUE}" stroke-width="2" {dashes}stroke-linecap="round"/>'
            )
    body += _titles("predicted", "observed")
    return svg(SIDE + 2 * MARGIN, SIDE + 2 * MARGIN, body, "Reliability diagram")


def criterion(candidates: FloatArray, objective: FloatArray, chosen: float) -> str:
    """A criterion against the bandwidth on a logarithmic axis, with the choice marked."""
    span = float(np.ptp(objective)) or 1.0
    logs = np.log(candidates)
    width = float(np.ptp(logs)) or 1.0
    x = MARGIN + SIDE * (logs - logs[0]) / width
    y = MARGIN + SIDE / 2 * (1 - (objective - objective.min()) / span)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    at = MARGIN + SIDE * (np.log(chosen) - logs[0]) / width
    bottom = MARGIN + SIDE / 2
    body = [
        f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="2"/>',
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{MARGIN}" y2="{bottom}" stroke="{ORANGE}" '
        'stroke-dasharray="3 3"/>',
        f'<line x1="{MARGIN}" x2="{MARGIN + SIDE}" y1="{bottom}" y2="{bottom}" '
        'stroke="currentColor" opacity="0.5"/>',
        f'<text x="{MARGIN}" y="{bottom + 13}" {FONT}>{candidates[0]:.2g}</text>',
        f'<text x="{MARGIN + SIDE}" y="{bottom + 13}" text-anchor="end" {FONT}>'
        f"{candidates[-1]:.2g}</text>",
        f'<text x="{MARGIN + SIDE / 2}" y="{bottom + 13}" text-anchor="middle" {FONT}>'
        "bandwidth</text>",
    ]
    return svg(SIDE + 2 * MARGIN, SIDE / 2 + 2 * MARGIN, body, "Criterion against bandwidth")


def interval_bars(
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    at: float = 0.0,
    marked: Sequence[bool] | None = None,
) -> str:
    """Values with their intervals, one below the other, and a line at a value of reference.

    Those that are `marked` are orange; by default those whose interval lies above the reference.
    """
    known = np.array([*values, *lows, *highs, at])
    first, last = float(known.min()), float(known.max())
    span = (last - first) or 1.0

    def x(v: float) -> float:
        return 8 + (SIDE + MARGIN) * (v - first) / span

    height = 18 * len(values) + 8
    body = [
        f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="0" y2="{height}" stroke="currentColor" '
        'opacity="0.5" stroke-dasharray="3 3"/>'
    ]
    for i, (value, low, high) in enumerate(zip(values, lows, highs, strict=True)):
        color = ORANGE if (low > at if marked is None else marked[i]) else BLUE
        y = 18 * i + 13
        body.append(
            f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y}" y2="{y}" stroke="{color}" '
            f'stroke-width="3" opacity="0.5"/><circle cx="{x(value):.1f}" cy="{y}" r="4" '
            f'fill="{color}"/>'
        )
    return svg(SIDE + MARGIN + 16, height, body, "Values with their intervals")


def split_bar(share: float) -> str:
    """A bar of which a share is coloured."""
    width = SIDE + 2 * MARGIN
    body = [
        f'<rect x="0" y="0" width="{width}" height="12" fill="currentColor" opacity="0.2"/>',
        f'<rect x="0" y="0" width="{width * min(max(share, 0.0), 1.0):.1f}" height="12" '
        f'fill="{ORANGE}"/>',
    ]
    return svg(width, 12, body, "Share of the risk that is calibration error")


def runs(shown: np.ndarray) -> list[slice]:
    """Stretches of a curve between its gaps.

    Examples
    --------
    >>> import numpy as np
    >>> runs(np.array([True, True, False, True]))
    [slice(0, 2, None), slice(3, 4, None)]
    """
    padded = np.concatenate([[False], shown, [False]]).astype(np.int8)
    steps = np.diff(padded)
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return [slice(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def _places(x: FloatArray, y: FloatArray) -> list[str]:
    return [f"{_x(a):.1f},{_y(b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _x(p: float) -> float:
    return MARGIN + SIDE * p


def _y(p: float) -> float:
    return MARGIN / 2 + SIDE * (1 - p)


def _frame() -> str:
    top = MARGIN / 2
    return (
        f'<rect x="{MARGIN}" y="{top}" width="{SIDE}" height="{SIDE}" fill="none" '
        'stroke="currentColor" opacity="0.3"/>'
        f'<line x1="{MARGIN}" y1="{top + SIDE}" x2="{MARGIN + SIDE}" y2="{top}" '
        'stroke="currentColor" opacity="0.6" stroke-dasharray="4 3"/>'
    )


def _titles(across: str, up: str) -> list[str]:
    bottom, middle = MARGIN / 2 + SIDE, MARGIN + SIDE / 2
    return [
        f'<text x="{MARGIN}" y="{bottom + 12}" {FONT}>0</text>',
        f'<text x="{MARGIN + SIDE}" y="{bottom + 12}" text-anchor="end" {FONT}>1</text>',
        f'<text x="{middle}" y="{bottom + 12}" text-anchor="middle" {FONT}>{across}</text>',
        f'<text x="{MARGIN - 8}" y="{MARGIN / 2 + SIDE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 {MARGIN - 8} {MARGIN / 2 + SIDE / 2})" {FONT}>{up}</text>',
    ]
