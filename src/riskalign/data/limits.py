"""Work that takes minutes is announced with a cure before it begins; work of days is refused.

The estimates are rough, seconds of one core of an ordinary machine (`benchmarks/scale.py`
measures them). They depend on the numbers of samples, classes, bandwidths and draws alone.
"""

from __future__ import annotations

import warnings

PER_PROBLEM = 0.0075
"""Seconds of a debiased error per class: the search costs the same for few and many rows."""

PER_DRAW, PER_DRAWN_LABEL = 1e-4, 2e-7
"""Seconds of the test per label set, and per label of it."""

PER_PAIR, PER_PRODUCT = 6e-9, 2e-10
"""Seconds of an average over all pairs of rows per pair, and per number that is multiplied for it:
the probabilities of a row, and what is averaged."""

PER_FEATURE, PER_ENTRY, PER_INVERSE = 5e-8, 1e-10, 3e-11
"""Seconds of a Newton step per feature of each row and class, per row and entry of the matrix of
second derivatives, and of its inverse by the cube of its side."""

NO_PAIRS = "`engine='auto'` needs no pairs."
FEWER_PAIRS = "Fewer rows, a number as `bandwidth` or `notion='classwise'` take less."
"""Cures where averages are over pairs."""

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


def announce_errors(n_problems: int, times: int = 1) -> None:
    """Announce debiased errors of many classes if they will take minutes.

    Examples
    --------
    >>> announce_errors(1_000)
    >>> announce_errors(20_000_000)
    Traceback (most recent call last):
    ...
    ValueError: The errors of 20,000,000 classes would take about 2 days. `notion='top-label'` ...
    """
    _announce(
        PER_PROBLEM * n_problems * times,
        f"The errors of {n_problems:,} classes",
        "`notion='top-label'` is one problem; `bandwidth=0.05` saves the search.",
    )


def announce_test(n_samples: int, n_draws: int) -> None:
    """Announce a test of calibration with many label sets if it will take minutes.

    Examples
    --------
    >>> announce_test(5_000, 999)
    """
    _announce(
        (PER_DRAW + PER_DRAWN_LABEL * n_samples) * n_draws,
        f"The test with {n_draws:,} label sets of {n_samples:,} samples",
        "A smaller `n_draws` is enough to reject at 1% from 199 on.",
    )


def announce_pairs(n_rows: int, averages: float, products: float, cure: str) -> None:
    """Announce averages over all pairs of rows, and their products, if they will take minutes.

    Examples
    --------
    >>> announce_pairs(5_000, 30, 100, NO_PAIRS)
    >>> announce_pairs(2_000_000, 30, 100, NO_PAIRS)
    Traceback (most recent call last):
    ...
    ValueError: Averages over all pairs of 2,000,000 rows would take about 9 days. ...
    """
    _announce(
        n_rows**2 * (PER_PAIR * averages + PER_PRODUCT * products),
        f"Averages over all pairs of {n_rows:,} rows",
        cure,
    )


def announce_scaling(
    size: tuple[int, int],
    n_steps: int,
    n_features: int,
    n_entries: float,
    n_weights: int,
    times: int = 1,
) -> None:
    """Announce the fits of a scaling by Newton steps if they will take minutes.

    Parameters
    ----------
    size
        Rows and classes of a sample.
    n_steps, n_weights
        Newton steps, and what they find.
    n_features
        Features of all rows and classes.
    n_entries
        Entries of the matrix of second derivatives, times the rows that it is summed over.
    times
        How many such fits there are.

    Examples
    --------
    >>> announce_scaling((5_000, 10), 40, 150_000, 5_000 * 23**2, 23)
    """
    step = PER_FEATURE * n_features + PER_ENTRY * n_entries + PER_INVERSE * n_weights**3
    one = "" if n_weights == 1 else "`method='temperature'` fits one weight; "
    _announce(
        times * n_steps * step,
        f"Fitting {n_weights:,} weight{'s' * (n_weights > 1)} to {size[0]:,} rows of {size[1]:,} "
        "classes",
        f"{one}{'fewer' if one else 'Fewer'} rows take less.",
    )


def _announce(seconds: float, what: str, cure: str) -> None:
    if seconds > ENDLESS:
        raise ValueError(f"{what} would take about {seconds / 86_400:.0f} days. {cure}")
    if seconds > SLOW:
        minutes = f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
        warnings.warn(f"{what} will take about {minutes}. {cure}", SlowWarning, stacklevel=2)
