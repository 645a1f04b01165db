"""Binned estimates: R is the label mean of the samples that fall into one bin."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from riskalign.data.notions import ONE_DIMENSIONAL
from riskalign.data.validation import one_of
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.problem import Problem
from riskalign.methods.method import (
    CLASSICAL,
    NORMS,
    ByProblem,
    Estimate,
    Scope,
    norm_of,
    plug_in,
    spelled,
)
from riskalign.smoothing.threads import ordered_map

ROUNDING = 1e-12
"""Relative error of sums of weights: a bin that is full up to rounding is full."""

DEFINITIONS = {
    "l1": "sum_b n_b/n |mean y - mean f|",
    "l2": "sqrt(sum_b n_b/n (mean y - mean f)^2)",
    "max": "max_b |mean y - mean f|",
}
"""The classical norms, of the means in each bin."""


MOST_BINS = 1_000_000

CUBE_ROOT = "cube_root"
"""As many bins as the cube root of the number of samples, rounded up."""


def number_of_bins(n_bins: int | str, n_samples: int) -> int:
    """The number of bins for so many samples."""
    return math.ceil(np.cbrt(n_samples)) if isinstance(n_bins, str) else int(n_bins)


def checked_bins(n_bins: object) -> int:
    """The number of bins, or an error."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(
            f"`n_bins` must be a whole number from 1 on, or 'cube_root'; found {n_bins!r}."
        )
    if n_bins > MOST_BINS:
        raise ValueError(f"`n_bins` must be at most {MOST_BINS:,}; found {n_bins:,}.")
    return int(n_bins)


def sum_by(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    """Sums ``(length,)`` of the values that share an index."""
    sums: FloatArray = np.bincount(index, values, length).astype(np.float64, copy=False)
    return sums


def _over(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """The quotient, NaN where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)


@dataclass(frozen=True)
class BinMeans:
    """Weights and means of the bins of one problem; NaN where a bin has no weight.

    Attributes
    ----------
    index : (n,), the bin of each sample
    weights : (n,), the largest of which is 1
    mass : (B,), sum of weights
    label, prediction : (B,)
    """

    index: IntArray
    weights: FloatArray
    mass: FloatArray
    label: FloatArray
    prediction: FloatArray

    @classmethod
    def of(cls, problem: Problem, upper_edges: FloatArray) -> BinMeans:
        """Means over bins (lower, upper] that the edges cut; the first one holds 0."""
        p, n_bins = problem.predictions, len(upper_edges) + 1
        w = problem.weights / problem.weights.max()  # squares stay within range
        index = np.searchsorted(upper_edges, p)
        mass = sum_by(index, w, n_bins)
        label = _over(sum_by(index, w * problem.labels, n_bins), mass)
        return cls(index, w, mass, label, _over(sum_by(index, w * p, n_bins), mass))

    @property
    def held(self) -> BoolArray:
        """The bins that hold samples: the others do not enter any sum."""
        return self.mass > 0

    def norm(self, norm: str) -> float:
        """A norm of the gaps between mean label and mean prediction."""
        gap = (self.label - self.prediction)[self.held]
        return norm_of(gap, self.mass[self.held], norm)

    def debiased(self) -> float:
        """The squared gap less the variance that sampling labels gives it.

        Bins with one sample say nothing about their variance and stay out. The number of
        samples is Kish's effective one, (sum w)^2 / sum w^2.
        """
        squares = sum_by(self.index, self.weights**2, len(self.mass))
        effective = _over(self.mass**2, squares)
        use = effective > 1 + ROUNDING  # not where it is NaN
        y, m = self.label[use], effective[use]
        unbiased = (y - self.prediction[use]) ** 2 - y * (1 - y) / (m - 1)
        return float(self.mass[use] @ unbiased / self.mass.sum())


@dataclass(frozen=True)
class _IntervalBins(ByProblem):
    n_bins: int | str
    debias: bool = field(default=False, kw_only=True)
    norm: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.n_bins, str):
            one_of("n_bins", self.n_bins, [CUBE_ROOT])
        else:
            checked_bins(self.n_bins)
        if self.norm is None:
            return
        one_of("norm", self.norm, NORMS)
        if self.debias:
            raise ValueError(
                "`debias=True` is of the squared error and takes no `norm`. Leave `norm` out; "
                "`result.root` is the square root."
            )

    @property
    def scope(self) -> Scope:
        """See `Method`."""
        if self.norm is not None:
            return CLASSICAL
        return Scope(ONE_DIMENSIONAL, ("l2",) if self.debias else None)

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        if self.norm is not None:
            return DEFINITIONS[self.norm]
        if self.debias:
            return "sum_b n_b/n ((mean y - mean f)^2 - variance)"
        return f"mean {divergence}"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        return ordered_map(self._estimate, problems)

    def _estimate(self, problem: Problem) -> Estimate:
        p = np.ascontiguousarray(problem.predictions)
        problem = replace(problem, predictions=p)
        bins = BinMeans.of(problem, self._upper_edges(p, problem.weights))
        answer = plug_in(problem, bins.label[bins.index], "R is the observed frequency of each bin")
        if self.norm is not None:
            return replace(answer, value=bins.norm(self.norm))
        return replace(answer, value=bins.debiased()) if self.debias else answer

    @abstractmethod
    def _upper_edges(self, p: FloatArray, weights: FloatArray) -> FloatArray:
        """Upper edges of all bins but the last, ascending."""


@dataclass(frozen=True, repr=False)
class EqualWidthBins(_IntervalBins):
    """Bins of equal width: ((b-1)/B, b/B], the first with 0.

    R_i is the label mean of sample i's bin (itself included), and the error is the mean of
    <R, l(f) - l(R)> at each sample's own f. Weighted samples give weighted means.

    Parameters
    ----------
    n_bins : int or "cube_root"
        Number of bins B, or the cube root of the number of samples, rounded up.
    debias : bool
        Compare bin means instead, (mean y - mean f)^2, and subtract the sampling variance
        mean y (1 - mean y) / (n_b - 1), with n_b the effective number of samples if they
        are weighted; bins with one sample stay out. For the l2 loss.
    norm : {"l1", "l2", "max"}, optional
        The classical binned error (ECE, its root mean square form, MCE) of the bin means,
        for binary and top-label errors.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks, ICML 2017.
    Kumar, Liang, Ma: Verified Uncertainty Calibration, NeurIPS 2019.

    Examples
    --------
    >>> import riskalign as ra
    >>> y, p = [0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8]
    >>> round(ra.calibration_error(y, p, method=ra.EqualWidthBins(2, norm="l1")).value, 6)
    0.2
    """

    __repr__: ClassVar = spelled

    def _upper_edges(self, p: FloatArray, weights: FloatArray) -> FloatArray:
        return np.linspace(0.0, 1.0, number_of_bins(self.n_bins, len(p)) + 1)[1:-1]


@dataclass(frozen=True, repr=False)
class EqualMassBins(_IntervalBins):
    """Bins that hold equal shares of the samples ("adaptive"), or of their weight.

    The upper edges are the b/B-quantiles of the predictions: the smallest prediction up to
    which a share of b/B has been seen. Equal predictions share a bin, so ties make fewer
    bins, never empty or reversed ones.

    Parameters
    ----------
    n_bins, debias, norm
        As for `EqualWidthBins`.

    References
    ----------
    Ding, Liu, Xiong, Shi: Revisiting the Evaluation of Uncertainty Estimation and Its
    Application to Explore Model Complexity-Uncertainty Trade-Off, CVPR workshops 2020.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> result = ra.calibration_error(data.y_true, data.y_prob, method=ra.EqualMassBins(15))
    >>> result.conditional.shape
    (500, 3)
    """

    __repr__: ClassVar = spelled

    def _upper_edges(self, p: FloatArray, weights: FloatArray) -> FloatArray:
        if (weights == weights[0]).all():
            ordered, seen = np.sort(p), np.arange(1.0, len(p) + 1)
        else:
            order = np.argsort(p)
            ordered, seen = p[order], np.cumsum(weights[order])
        n_bins = number_of_bins(self.n_bins, len(p))
        shares = np.arange(1, n_bins) / n_bins * seen[-1]
        cuts = np.unique(ordered[np.searchsorted(seen, shares * (1 - ROUNDING))])
        return cuts[cuts < p[weights > 0].max()]
