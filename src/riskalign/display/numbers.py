"""Numbers as people read them: percentage points, shares, p-values."""

from __future__ import annotations

import math

MINUS = "\u2212"


def points(p: float, *, signed: bool = False) -> str:
    """A difference of probabilities in percentage points, without the unit.

    Examples
    --------
    >>> points(0.0334), points(0.0334, signed=True), points(0.00061), points(0.0), points(1e-6)
    ('3.3', '+3.3', '0.06', '0', '< 0.001')
    >>> points(-1e-6, signed=True)
    '0.0'
    """
    x = 100 * p
    size = abs(x)
    if size == 0 or not math.isfinite(x):
        return "0" if x == 0 else "-"
    if size < 0.0005:
        return "0.0" if signed or x < 0 else "< 0.001"
    decimals = 1 if size >= 0.095 else 2 if size >= 0.0095 else 3
    return f"{x:{'+' if signed else ''}.{decimals}f}"


def points_between(low: float, high: float, *, signed: bool = False) -> str:
    """An interval in percentage points.

    Examples
    --------
    >>> points_between(0.0, 0.018), points_between(-0.012, 0.0002, signed=True)
    ('0 to 1.8', '-1.2 to +0.02')
    """
    return f"{points(low, signed=signed)} to {points(high, signed=signed)}"


def percent(x: float) -> str:
    """A share of the whole with one decimal, more where it is small.

    Examples
    --------
    >>> percent(0.8528), percent(0.0039), percent(0.00012), percent(0.0)
    ('85.3%', '0.39%', '0.012%', '0%')
    """
    size = abs(100 * x)
    if size == 0 or not math.isfinite(size):
        return "0%" if size == 0 else "-"
    decimals = 1 if size >= 1 else min(1 - math.floor(math.log10(size)), 6)
    return f"{100 * x:.{decimals}f}%"


def number(x: float) -> str:
    """Three significant digits, and at least four decimals where that is readable.

    Examples
    --------
    >>> number(0.0123456), number(0.5), number(1e-7)
    ('0.0123', '0.5000', '1.00e-07')
    """
    if x == 0:
        return "0"
    if abs(x) < 1e-4:
        return f"{x:.2e}"
    return f"{x:.{max(4, 2 - math.floor(math.log10(abs(x))))}f}"


def p_value(p: float, smallest: float = 0.0) -> str:
    """A p-value; a test by simulation has a smallest one.

    Examples
    --------
    >>> p_value(0.005, 0.005), p_value(0.2), p_value(1e-9)
    ('<= 0.005', '0.200', '< 0.001')
    """
    if smallest and p <= smallest:
        return f"<= {smallest:.3g}"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(n: float) -> str:
    """A number of rows.

    Examples
    --------
    >>> count(12345.0)
    '12,345'
    """
    return f"{n:,.0f}"


def ratio(x: float, digits: int = 2) -> str:
    """A quotient or a coefficient; a dash where it has no value.

    Examples
    --------
    >>> ratio(1.234), ratio(-0.001), ratio(float("nan"))
    ('1.23', '0.00', '-')
    """
    return f"{round(x, digits) + 0.0:.{digits}f}" if math.isfinite(x) else "-"  # no "-0.00"


def ratio_between(low: float, high: float, digits: int = 2) -> str:
    """The interval of a quotient."""
    first = ratio(low, digits)
    return f"{first} to {ratio(high, digits)}" if math.isfinite(high) else f"at least {first}"


def digits_from_one(low: float, high: float) -> int:
    """Decimals that tell the ends of an interval from 1, from 2 to 4.

    Examples
    --------
    >>> digits_from_one(1.36, 2.03), digits_from_one(1.0049, 1.02)
    (2, 3)
    """
    nearest = min(abs(low - 1), abs(high - 1))
    return next((d for d in (2, 3) if nearest >= 10.0**-d), 4 if nearest > 0 else 2)


def shortened(text: str, width: int) -> str:
    """Text on one line, cut to a width.

    Examples
    --------
    >>> shortened("a long name", 8)
    'a lon...'
    """
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."
