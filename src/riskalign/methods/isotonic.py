"""Isotonic regression: R grows with the prediction, and is otherwise free.

The pool-adjacent-violators algorithm finds the R that minimises the mean of <y, l(R)> among all
functions of f that do not decrease, for every proper loss at once. The difference to the observed
risk is the miscalibration MCB of the CORP decomposition,

    MCB = mean of <y, l(f)> - mean of <y, l(R)>.

It is never negative, and above 0 on average for a calibrated model, because R is fitted to the same
labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import betaincinv

from riskalign.data.notions import ONE_DIMENSIONAL
from riskalign.display import numbers, svg
from riskalign.display.notebook import framed
from riskalign.display.table import Row
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.problem import Problem
from riskalign.methods.binning import sum_by
from riskalign.methods.method import ByProblem, Estimate, Scope, plug_in


def isotonic_fit(problem: Problem) -> FloatArray:
    """R at each row, ``(n,)``: non-decreasing in f, equal for equal f; NaN without any weight."""
    used = problem.weights > 0
    p, place = np.unique(problem.predictions[used], return_inverse=True)
    w = problem.weights[used] / problem.weights.max()
    mass = sum_by(place, w, len(p))
    mean = sum_by(place, w * problem.labels[used], len(p)) / mass
    fitted = isotonic_regression(mean, weights=mass).x
    # A row without weight lies between others: it gets the value of the step that it is on.
    steps = np.searchsorted(p, problem.predictions, side="right") - 1
    found: FloatArray = np.clip(fitted, 0.0, 1.0)[np.maximum(steps, 0)]
    return found


@dataclass(frozen=True)
class Isotonic(ByProblem):
    """Isotonic regression of the labels (pool-adjacent-violators), as in CORP.

    R is the non-decreasing function of the prediction that has the smallest risk, and the error is
    the mean of <y, l(f) - l(R)>: by how much recalibration by R would lower the risk of the same
    samples. There is nothing to choose. The error is above 0 for a calibrated model, because R is
    fitted to the labels that judge it, and it misses what a non-decreasing curve cannot follow.
    `isotonic_band` gives a confidence band.

    References
    ----------
    Dimitriadis, Gneiting, Jordan: Stable reliability diagrams for probabilistic classifiers,
    PNAS 118(8), 2021.

    Examples
    --------
    >>> import riskalign as ra
    >>> y, p = [0, 1, 0, 1], [0.1, 0.3, 0.7, 0.8]
    >>> result = ra.calibration_error(y, p, method=ra.Isotonic())
    >>> result.conditional.tolist()
    [0.0, 0.5, 0.5, 1.0]
    """

    norm: ClassVar[None] = None
    scope: ClassVar[Scope] = Scope(ONE_DIMENSIONAL)

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return "observed risk - risk of the isotonic fit (MCB)"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        for problem in problems:
            answer = plug_in(problem, isotonic_fit(problem), "R is an isotonic fit")
            assert answer.refinement is not None
            yield replace(answer, value=answer.risk - answer.refinement)  # <R, l(R)> = <y, l(R)>


MOST_GROUPS = 200
"""Groups of neighbouring predictions whose blocks make a band: 20,100 blocks."""


SHOWN = 200
"""Points of a band that are drawn in a notebook."""


@dataclass(frozen=True, repr=False)
class IsotonicBand:
    """An isotonic curve with a confidence band that holds at all predictions at once.

    Attributes
    ----------
    notion : what must be calibrated
    predictions : (m,), the distinct predictions, ascending
    conditional : (m,), the isotonic fit R
    lower, upper : (m,), the band
    confidence : probability that the band covers E[y | f] at all predictions

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 2, t2=0.6, seed=0)
    >>> band = ra.isotonic_band(data.y_true, data.y_prob[:, 1], confidence=0.9)
    >>> bool(((band.lower <= band.conditional) & (band.conditional <= band.upper)).all())
    True
    """

    notion: str
    predictions: FloatArray
    conditional: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<IsotonicBand: {self.notion}, {len(self.predictions):,} distinct predictions, "
            f"{self._n_outside} outside the band, confidence={self.confidence:g}>"
        )

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks."""
        n = len(self.predictions)
        some = np.unique(np.linspace(0, n - 1, min(n, SHOWN)).astype(np.intp))
        arrays = self.predictions, self.conditional, self.lower, self.upper
        rows = [
            Row("distinct predictions", numbers.count(n)),
            Row("of these outside the band", numbers.count(self._n_outside)),
            Row("confidence", numbers.percent(self.confidence)),
        ]
        picture = svg.reliability(*(array[some] for array in arrays))
        return framed(f"Isotonic band, {self.notion} calibration", "", rows, picture)

    @property
    def _n_outside(self) -> int:
        """Predictions whose own value the band excludes."""
        return int(self.excludes(self.predictions).sum())

    def excludes(self, p: object) -> BoolArray:
        """Whether the band excludes that predictions ``(m,)`` are calibrated, one by one.

        Examples
        --------
        >>> import riskalign as ra
        >>> band = ra.isotonic_band([0] * 50 + [1] * 50, [0.6] * 50 + [0.7] * 50)
        >>> band.excludes([0.6, 0.65, 0.7]).tolist()
        [True, False, True]
        """
        at = np.asarray(p, dtype=np.float64)
        below = np.searchsorted(self.predictions, at, side="right") - 1
        above = np.searchsorted(self.predictions, at, side="left")
        lower = np.where(below >= 0, self.lower[np.maximum(below, 0)], 0.0)
        last = len(self.upper) - 1
        upper = np.where(above <= last, self.upper[np.minimum(above, last)], 1.0)
        found: BoolArray = (at < lower) | (at > upper)
        return found


def band_of(
    problem: Problem, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Distinct predictions, isotonic fit, and the ends of the band, ``(m,)`` each.

    If E[y | f] does not decrease, the labels of a block of consecutive predictions are all at least
    as likely to be 1 as at the block's first prediction and all before it. So the upper limit of
    Clopper and Pearson for the block is a limit at all these predictions; in the same way its lower
    limit holds at and behind the block's last prediction. Each of B blocks is allowed to err with
    probability (1 - confidence) / (2 B) at each end, and the best limit counts.
    """
    p, place = np.unique(problem.predictions, return_inverse=True)
    counts = np.bincount(place, minlength=len(p))
    positives = sum_by(place, problem.labels.astype(np.float64), len(p))
    # Neighbours share a group where predictions are many; groups are made by f alone.
    group = np.minimum((np.cumsum(counts) - 1) * MOST_GROUPS // counts.sum(), MOST_GROUPS - 1)
    group = np.arange(len(p)) if len(p) <= MOST_GROUPS else np.unique(group, return_inverse=True)[1]
    m = int(group[-1]) + 1
    n_before = np.concatenate([[0], np.cumsum(np.bincount(group, counts, m))])
    k_before = np.concatenate([[0], np.cumsum(sum_by(group, positives, m))])
    first, last = np.triu_indices(m)
    n, k = n_before[last + 1] - n_before[first], k_before[last + 1] - k_before[first]
    share = (1 - confidence) / 2 / len(first)
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, share), 0.0)
        high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - share), 1.0)
    lower, upper = np.zeros(m), np.ones(m)
    np.maximum.at(lower, last, low)
    np.minimum.at(upper, first, high)
    lower = np.maximum.accumulate(lower)
    upper = np.minimum.accumulate(upper[::-1])[::-1]
    fit = isotonic_fit(problem)[np.unique(place, return_index=True)[1]]
    return p, fit, *_at_members(group, lower, upper)


def _at_members(
    group: IntArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The ends at the members of groups: a block's lower limit holds from its last member on."""
    is_last = np.append(group[1:] != group[:-1], True)
    is_first = np.insert(group[1:] != group[:-1], 0, True)
    before = np.concatenate([[0.0], lower])[group]  # the limit of the group before
    after = np.append(upper, 1.0)[group + 1]
    return np.where(is_last, lower[group], before), np.where(is_first, upper[group], after)
