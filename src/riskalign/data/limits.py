"""Work that takes minutes is announced with a cure before it begins; work of days is refused.

The estimates are rough, seconds of one core of an ordinary machine (`benchmarks/scale.py`
measures them). They depend on the numbers of samples, classes and draws alone.
"""

from __future__ import annotations

import warnings

PER_PROBLEM = 0.0075
"""Seconds of a debiased error per class: the search costs the same for few and many rows."""

PER_DRAW, PER_DRAWN_LABEL = 1e-4, 2e-7
"""Seconds of the test per label set, and per label of it."""

SLOW = 120.0
"""Seconds from which work is announced."""

ENDLESS = 86_400.0
"""Seconds from which it is refused."""


class SlowWarning(UserWarning):
    """What was asked takes minutes or hours; the message says what would be faster.

    Examples
    --------
    >>> import warnings
    >>> import riskalign as ra
    >>> warnings.simplefilter("ignore", ra.SlowWarning)  # it may take its time
    """


def announce_errors(n_problems: int) -> None:
    """Before debiased errors of many classes.

    Examples
    --------
    >>> announce_errors(1_000)
    >>> announce_errors(20_000_000)
    Traceback (most recent call last):
    ...
    ValueError: The errors of 20,000,000 classes would take about 2 days. `notion='top-label'` ...
    """
    _announce(
        PER_PROBLEM * n_problems,
        f"The errors of {n_problems:,} classes",
        "`notion='top-label'` is one problem; `bandwidth=0.05` saves the search.",
    )


def announce_test(n_samples: int, n_draws: int) -> None:
    """Before a test of calibration with many label sets.

    Examples
    --------
    >>> announce_test(5_000, 999)
    """
    _announce(
        (PER_DRAW + PER_DRAWN_LABEL * n_samples) * n_draws,
        f"The test with {n_draws:,} label sets of {n_samples:,} samples",
        "A smaller `n_draws` is enough to reject at 1% from 199 on.",
    )


def _announce(seconds: float, what: str, cure: str) -> None:
    if seconds > ENDLESS:
        raise ValueError(f"{what} would take about {seconds / 86_400:.0f} days. {cure}")
    if seconds > SLOW:
        minutes = f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
        warnings.warn(f"{what} will take about {minutes}. {cure}", SlowWarning, stacklevel=2)
