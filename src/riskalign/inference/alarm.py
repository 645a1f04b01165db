r"""Has the calibration error grown since a reference window? A test that may be asked every day.

The null hypothesis is that no window after the reference has a larger error than the reference,
theta_t <= theta_0 + tolerance for all t. Asked anew after every window at a fixed level, an
ordinary test would raise a false alarm sooner or later. Here the probability that a false alarm
is *ever* raised is at most alpha. Half of alpha is spent on the reference, half on the windows:

1. U, the upper end of the reference's interval, lies below theta_0 with probability alpha / 2.
2. If theta_t <= L = U + tolerance, the estimate of window t has at most the mean L and the
   variance V_t(L) (see `interval`). With z_t = (value_t - L) / sqrt(V_t(L)) and psi the logarithm
   of the moment generating function of its noise,

       e_t = exp(lambda z_t - psi(lambda))

   has a mean of at most 1: it is an e-value, and windows hold different rows, so that products of
   them are, too. The error may grow at any time j; with weights gamma_j = 1 / (j (j + 1)), which
   sum to 1,

       M_t = sum_(j <= t) gamma_j prod_(s = j..t) e_s + sum_(j > t) gamma_j,

   averaged over a few lambda, has a mean of at most 1, given the past at most M_(t - 1). By
   Ville's inequality it ever reaches 2 / alpha with probability at most alpha / 2.

Of an estimate only what is beyond doubt counts, as for the lower end of an interval. The noise of
the smoother is that of a sum of squares, skewed to the right; psi is that of a gamma
distribution of the same variance and skewness, and of a normal one for the rest.

References
----------
Ville: Étude critique de la notion de collectif, 1939.
Podkopaev, Ramdas: Tracking the risk of a deployed model and detecting harmful distribution
shifts, ICLR 2022 (an upper bound for the reference, a sequential test for what comes after).
Shin, Ramdas, Rinaldo: E-detectors: a nonparametric framework for sequential change detection,
New England Journal of Statistics in Data Science, 2023 (sums of e-processes over change points).
Ramdas, Grünwald, Vovk, Shafer: Game-theoretic statistics and safe anytime-valid inference,
Statistical Science, 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskalign.display.notebook import framed
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.inference.interval import Chance

BETS = (0.5, 1.0, 2.0)
"""The values of lambda: the first suits small changes that last, the last large ones."""

MARGIN = 1.25
"""The null variance comes from 30 label sets or more; one standard error of 30, a quarter, is
added to it."""

LARGEST = 8.0
"""Standard errors that a window counts at most: further out, tails are not known."""


@dataclass(frozen=True, repr=False)
class Alarm:
    """Whether the error of the windows after a reference exceeds that of the reference.

    Attributes
    ----------
    raised : bool
        Whether the evidence ever reached the threshold.
    at : str or None
        The window at which it first did.
    since : str or None
        The window from which on the error has most likely been larger, if the alarm is raised.
    reference : float
        The error of the reference window.
    limit : float
        The error that the windows are tested against: the upper end of the reference's
        interval, and the tolerance.
    windows : names of the windows that were tested
    evidence : after each window, the evidence M_t; on average at most 1 if nothing has grown
    threshold : 2 / alpha
    alpha : the probability that a false alarm is ever raised

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(600, 2, seed=0)
    >>> sketch = ra.CalibrationSketch().update(data.y_true, data.y_prob[:, 1])
    >>> history = ra.CalibrationHistory().append("monday", sketch).append("tuesday", sketch)
    >>> alarm = history.alarm()
    >>> alarm.raised, alarm.windows, alarm.to_dict()["threshold"]
    (False, ('tuesday',), 40.0)
    """

    raised: bool
    at: str | None
    since: str | None
    reference: float
    limit: float
    windows: tuple[str, ...]
    evidence: tuple[float, ...]
    threshold: float
    alpha: float

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        lists = {name: list(getattr(self, name)) for name in ("windows", "evidence")}
        return vars(self) | lists

    def __repr__(self) -> str:
        """One line."""
        outcome = f"raised at {self.at!r}, since {self.since!r}" if self.raised else "not raised"
        last = f"{self.evidence[-1]:.3g}" if self.evidence else "none"
        return (
            f"<Alarm: {outcome}, {len(self.windows)} windows, evidence {last}, "
            f"threshold {self.threshold:.3g}>"
        )

    def _repr_html_(self) -> str:
        """The outcome in words, for notebooks."""
        return framed("Alarm", str(self), [])

    def __str__(self) -> str:
        """One or two sentences."""
        return self.sentence()

    def sentence(
        self, name: str = "calibration error", shown: Callable[[float], str] = "{:.3g}".format
    ) -> str:
        """The outcome in words; `shown` writes an error under the name by which it is called."""
        if not self.windows:
            return "No alarm: no window has come after the reference."
        if not self.raised:
            n = len(self.windows)
            return (
                f"No alarm after {n} window{'' if n == 1 else 's'}: the evidence that the {name} "
                f"has grown is {self.evidence[-1]:.3g}; an alarm needs {self.threshold:.3g}."
            )
        return (
            f"ALARM at {self.at}: the {name} has grown above the reference's "
            f"{shown(self.reference)} (tested against {shown(self.limit)}), most likely since "
            f"{self.since}. The probability that a false alarm is ever raised is at most "
            f"{self.alpha:g}."
        )


def raise_alarm(
    reference: tuple[float, Chance],
    windows: Sequence[tuple[str, float, Chance]],
    *,
    alpha: float,
    tolerance: float = 0.0,
) -> Alarm:
    """Test windows, in their order, against a reference.

    Parameters
    ----------
    reference : the estimate of the reference, and how far chance moves it
    windows : names, estimates, and how far chance moves them
    """
    value, chance = reference
    _, upper = chance.interval(value, 1 - alpha)
    limit = upper + tolerance
    logs = np.array([log_e_values(found, own, limit) for _, found, own in windows])
    total, starts = evidence(logs.reshape(-1, len(BETS)))
    threshold = 2 / alpha
    names = tuple(name for name, *_ in windows)
    reached = np.flatnonzero(total >= threshold)
    at = int(reached[0]) if len(reached) else None
    return Alarm(
        raised=at is not None,
        at=None if at is None else names[at],
        since=None if at is None else names[starts[at]],
        reference=value,
        limit=limit,
        windows=names,
        evidence=tuple(total.tolist()),
        threshold=threshold,
        alpha=alpha,
    )


def log_e_values(value: float, chance: Chance, limit: float) -> FloatArray:
    """Logarithms of a window's e-values, one per lambda.

    Examples
    --------
    >>> log_e_values(0.013, Chance(noise=0.0, rate=1e-4), limit=0.01).round(2).tolist()
    [1.37, 2.5, 4.0]
    """
    noise = MARGIN * chance.noise
    rest = max(chance.rate * limit, 0.0)
    variance = noise + rest
    if variance <= 0:
        return np.zeros(len(BETS))
    sure = value - max(chance.bias, 0.0) - chance.doubts[0]
    z = min((sure - limit) / variance**0.5, LARGEST)
    share = noise / variance
    return np.array(
        [
            bet * z - _log_moment(bet * share**0.5, chance.skewness) - bet**2 * (1 - share) / 2
            for bet in BETS
        ]
    )


def _log_moment(bet: float, skewness: float) -> float:
    """Logarithm of the moment generating function of a gamma variable of mean 0, variance 1.

    It is that of (G - k) / sqrt(k) with G of shape k = 4 / skewness^2; infinite from sqrt(k) on.
    """
    if skewness < 1e-6:
        return bet**2 / 2
    shape = 4 / skewness**2
    ratio = bet / shape**0.5
    return float("inf") if ratio >= 1 else -shape * (ratio + float(np.log1p(-ratio)))


def evidence(logs: FloatArray) -> tuple[FloatArray, IntArray]:
    """M_t after each window ``(T,)``, and the start j of the largest product ``(T,)``.

    Parameters
    ----------
    logs : (T, number of lambda), logarithms of e-values

    Examples
    --------
    >>> import numpy as np
    >>> total, starts = evidence(np.log([[0.5], [0.5], [40.0], [40.0]]))
    >>> total.round(2).tolist(), starts.tolist()
    ([0.75, 0.54, 11.92, 468.87], [0, 1, 2, 2])
    """
    n_windows, n_bets = logs.shape
    total, starts = np.zeros(n_windows), np.zeros(n_windows, dtype=np.intp)
    products = np.zeros((0, n_bets))  # logarithms of the products since j
    for t in range(n_windows):
        products = np.concatenate([products, np.zeros((1, n_bets))]) + logs[t]
        means = np.exp(np.minimum(products, 600.0)).mean(axis=1)
        j = np.arange(1.0, t + 2)
        total[t] = (means / (j * (j + 1))).sum() + 1 / (t + 2)
        starts[t] = int(np.argmax(means))
    return total, starts
