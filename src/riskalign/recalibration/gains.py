"""What to do about miscalibration: what each way of recalibrating would gain, by cross-fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riskalign.data.limits import announce_errors
from riskalign.data.notions import notion_of
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.display.notebook import framed
from riskalign.display.numbers import number
from riskalign.equations.arrays import FloatArray, floored_log
from riskalign.equations.losses import ProperLoss
from riskalign.inference.null import one_per_row, systematic_rows
from riskalign.methods import KernelSmoother
from riskalign.options import sketched_case
from riskalign.pipeline import error_of
from riskalign.recalibration.calibrators import CALIBRATORS, cross_fitted
from riskalign.recalibration.kernel import order_of_content

MOST_ROWS, MOST_NUMBERS = 100_000, 50_000
"""Rows of two classes, and probabilities of more, that are looked at: the rows with the smallest
hash, if there are more. A gain that matters shows in these, and a report should not wait for the
others. Fits of two classes are cheap (100,000 rows take about a second), and where one class is
rare, few rows tell of it."""

METHOD = KernelSmoother()
"""How errors before and after are estimated."""

Z95 = 1.96
"""Standard errors from a value to the ends of its 95% interval."""

FOLDS = 3
"""Folds of the cross-fitting. Five take twice the time, and say the same."""


@dataclass(frozen=True, repr=False)
class Gain:
    """What one way of recalibrating would gain on data that it has not seen.

    All numbers are cross-fitted: each row is recalibrated by a map learnt from the rows of other
    folds.

    Attributes
    ----------
    method : name of the calibrator, for ``riskalign calibrate --method``
    description : what the calibrator is, with what was fitted
    log_loss_before, log_loss_after : mean log loss
    error_before, error_after : calibration error, of the notion and loss asked for
    command : the command that recalibrates the predictions of a file named FILE
    code : the Python code that does so
    n : rows that were looked at
    log_loss_doubt : standard error of the difference to the lowest log loss of all methods
    change_error : standard error of `change`, for the maps as they were fitted

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(1000, 2, t2=0.5, seed=0)
    >>> (gain,) = ra.recalibration_gains(data.y_true, data.y_prob, methods=["temperature"])
    >>> print(gain.command)
    riskalign calibrate FILE -o OUT --method temperature
    >>> gain.lowers_log_loss
    True
    """

    method: str
    description: str
    log_loss_before: float
    log_loss_after: float
    error_before: float
    error_after: float
    command: str
    code: str
    n: int
    log_loss_doubt: float = 0.0
    change_error: float = 0.0

    @property
    def change(self) -> float:
        """By which share the log loss changes; negative where it falls."""
        return self.log_loss_after / self.log_loss_before - 1 if self.log_loss_before else 0.0

    @property
    def change_interval(self) -> tuple[float, float]:
        """The 95% interval of `change`, by the normal approximation."""
        reach = Z95 * self.change_error
        return self.change - reach, self.change + reach

    @property
    def change_in_words(self) -> str:
        """The change of the log loss with its interval."""
        low, high = self.change_interval
        ends = f" (95% CI {low:+.1%} to {high:+.1%})" if self.change_error > 0 else ""
        return f"{self.change:+.1%}{ends}"

    @property
    def removed_share(self) -> float | None:
        """The share of the calibration error that is removed; None where there is no error."""
        if self.error_before <= 0:
            return None
        return (self.error_before - max(self.error_after, 0.0)) / self.error_before

    @property
    def lowers_log_loss(self) -> bool:
        """Whether the log loss falls."""
        return self.log_loss_after < self.log_loss_before

    def __repr__(self) -> str:
        """One line."""
        errors = (max(error, 0.0) for error in (self.error_before, self.error_after))
        losses = self.log_loss_before, self.log_loss_after
        return (
            f"<Gain: {self.method}, error {' to '.join(map(number, errors))}, "
            f"log loss {' to '.join(map(number, losses))}, n={self.n:,}>"
        )

    def __str__(self) -> str:
        """One sentence."""
        share = self.removed_share
        if share is None:
            of_error = "there is no calibration error to remove"
        elif share >= 0:
            of_error = f"removes {share:.0%} of the calibration error"
        else:
            of_error = "raises the calibration error"
        return f"{self.description}: {of_error}, log loss {self.change_in_words}"

    def _repr_html_(self) -> str:
        """A table of one row, for notebooks."""
        return Gains([self])._repr_html_()


class Gains(list[Gain]):
    """The gains of several methods: a list that notebooks show as a table."""

    def _repr_html_(self) -> str:
        """A row per method, for notebooks."""
        head = ("method", "calibration error", "log loss", "change (95% CI)")
        rows = [
            (
                gain.description,
                f"{number(max(gain.error_before, 0.0))} to {number(max(gain.error_after, 0.0))}",
                f"{number(gain.log_loss_before)} to {number(gain.log_loss_after)}",
                gain.change_in_words.replace("95% CI ", "") if gain.log_loss_before else "",
            )
            for gain in self
        ]
        n = f"{self[0].n:,} rows, cross-fitted" if self else ""
        return framed("What recalibration would gain", n, [], grid=[head, *rows])


def recalibration_gains(
    y_true: object,
    y_prob: object,
    *,
    methods: Sequence[str] | None = None,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
) -> list[Gain]:
    """Estimate what recalibrating would gain, one entry per method.

    Parameters
    ----------
    methods : names of calibrators, optional
        By default temperature scaling; Platt scaling for two classes, vector scaling for more;
        and the kernel calibrator.
    others
        As for `calibration_error`.

    Returns
    -------
    list of Gain
        In the order of `methods`, from the simplest to the most flexible. Notebooks show a table.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(600, 3, t2=0.5, seed=0)
    >>> gains = recalibration_gains(data.y_true, data.y_prob)
    >>> [gain.method for gain in gains]
    ['temperature', 'vector', 'kernel']
    >>> gains[0].removed_share > 0.9
    True
    """
    sample = as_sample(y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes)
    return Gains(gains_of(some_rows(sample), methods, notion, loss))


def gains_of_drawn(
    sample: Sample,
    most: int | None,
    methods: Sequence[str] | None,
    notion: str | None,
    loss: str | ProperLoss,
) -> list[Gain]:
    """The gains on so many samples at most, by default as many as `recalibration_gains` looks at.

    A row of a sketch may stand for many equal samples: it is drawn as often as it occurs.
    """
    most = most_rows(len(sample.classes)) if most is None else most
    rows = np.sort(systematic_rows([sample], most))  # again in the order without meaning
    return gains_of(one_per_row(sample).take(rows), methods, notion, loss)


def gains_of(
    sample: Sample,
    methods: Sequence[str] | None = None,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
) -> list[Gain]:
    """The gains of `recalibration_gains`, of a checked sample and all of its rows."""
    n_classes = sample.probabilities.shape[1]
    two = n_classes == 2
    if methods is None:
        methods = ("temperature", "platt" if two else "vector", "kernel")

    def error(f: FloatArray) -> float:
        own = replace(sample, probabilities=f)
        case = sketched_case(own, notion, loss, "auto", weighted=True)
        return error_of(case, METHOD, progress=False).value

    if notion_of(notion, n_classes).per_class:
        announce_errors(n_classes, 1 + len(methods))
    before = sample.probabilities
    loss_before, error_before = log_loss(sample, before), error(before)
    losses_before = _losses(sample, before)
    recalibrated = [cross_fitted(sample, method, FOLDS) for method in methods]
    losses = np.array([_losses(sample, after) for after in recalibrated])
    share = sample.weights / sample.weights.sum()
    lowest = losses[np.argmin(losses @ share)] if len(losses) else losses
    gains = []
    for method, after, own in zip(methods, recalibrated, losses, strict=True):
        more = own - lowest
        doubt = float(np.sqrt(share**2 @ (more - share @ more) ** 2))
        gains.append(
            Gain(
                method,
                _description(sample, method),
                loss_before,
                log_loss(sample, after),
                error_before,
                error(after),
                f"riskalign calibrate FILE -o OUT --method {method}",
                CODE.format(method=method),
                len(after),
                doubt,
                _change_error(losses_before, own, share),
            )
        )
    return gains


CODE = "riskalign.fit_calibrator(y_true, y_prob, method={method!r})(y_prob_new)"


def most_rows(n_classes: int) -> int:
    """How many rows are looked at."""
    return MOST_ROWS if n_classes == 2 else max(MOST_NUMBERS // n_classes, 2)


def some_rows(sample: Sample) -> Sample:
    """The rows that are looked at; which ones does not depend on their order."""
    most = most_rows(sample.probabilities.shape[1])
    if len(sample.labels) <= most:
        return sample
    return sample.take(np.sort(order_of_content(sample)[:most]))


def log_loss(sample: Sample, f: FloatArray) -> float:
    """The mean log loss of predictions f ``(n, K)`` for a sample's labels."""
    return float(sample.weights @ _losses(sample, f) / sample.weights.sum())


def _losses(sample: Sample, f: FloatArray) -> FloatArray:
    return -floored_log(f[np.arange(len(f)), sample.labels])


def _change_error(before: FloatArray, after: FloatArray, share: FloatArray) -> float:
    """The standard error of the ratio of two mean losses of the same rows, each ``(n,)``."""
    mean = float(share @ before)
    if mean <= 0:
        return 0.0
    terms = (after - float(share @ after) / mean * before) / mean
    return float(np.sqrt(share**2 @ terms**2))


def _description(sample: Sample, method: str) -> str:
    """What a method is, with what it fits to all rows."""
    if method == "temperature":
        slope = getattr(CALIBRATORS[method](sample), "slope", 1.0)
        return f"temperature scaling (temperature {1 / max(slope, 1e-3):.2f})"
    return {
        "platt": "Platt scaling (slope and shift of the log-odds)",
        "vector": "vector scaling (slope and shift per class)",
        "matrix": "matrix scaling (all pairs of classes)",
        "kernel": "kernel calibrator (scaling, then smoothed residuals)",
    }[method]
