"""Views of the residuals y - f, for the test of calibration.

A view assigns every pair of a row i and an outcome k to a group by the prediction f_ik, or to none.
For labels y it sees the sums of residuals in the groups,

    D_g = sum of w_i (y_ik - f_ik) over the pairs (i, k) of group g,

which are linear in the labels. With functions t_1, t_2, ... of the groups, from coarse to fine,
that are made uncorrelated with variance 1 if labels are drawn from f, Neyman's smooth statistics
are

    S_r = sum_{j <= r} z_j^2,    z_j = sum_g t_j(g) D_g.

The functions are the constant, the log-odds of the prediction, and cosines of its rank. A small r
finds a wrong level or slope with much power, a large r finds fine structure.

Shapes: labels are (n, B) for B label sets; groups are (n, K); D is (M, B); functions are (M, J).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.simplex import log_odds

GROUPS, GROUPS_PER_CLASS = 256, 32
"""Groups of predictions: eight for each half wave of the finest cosine, four for each class's."""

DEPENDENT = 1e-6
"""Share of a function's variance below which it is a combination of the coarser ones."""

ROUNDING = 1e-13
"""Share of a function's second moment below which its variance may be rounding."""

FREQUENCY = "each class: frequency"
"""The statistic that looks for classes which occur more or less often than predicted."""

MOST_CROSSED = 100
"""Classes up to which the residuals of each are related to the predictions of every other."""


class View(Protocol):
    """One way to look at the residuals of label sets."""

    @property
    def names(self) -> Sequence[str]:
        """What each statistic looks for."""

    def statistics(self, labels: IntArray) -> FloatArray:
        """The statistics of label sets ``(n, B)``, ``(C, B)``; large ones speak against f."""


def groups_of(p: FloatArray, most: int) -> IntArray:
    """Groups of about equally many predictions ``(n,)``; equal predictions share one."""
    values, place, counts = np.unique(p, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    group = np.minimum(before * most // len(p), most - 1) if len(values) > most else before
    numbers = np.unique(group, return_inverse=True)[1]
    found: IntArray = numbers[place]
    return found


def functions_of(p: FloatArray, groups: IntArray, n_functions: int) -> FloatArray:
    """The constant, the log-odds and cosines of the rank, at each group, ``(M, J)``."""
    n_groups = int(groups.max()) + 1
    counts = np.bincount(groups, minlength=n_groups)
    slope = np.bincount(groups, log_odds(p), n_groups) / counts
    rank = (np.cumsum(counts) - counts / 2) / counts.sum()
    cosines = np.cos(np.pi * rank[:, None] * np.arange(1, n_functions - 1))
    return np.column_stack([np.ones(n_groups), slope, cosines])[:, :n_functions]


def uncorrelated(covariance: FloatArray, least: FloatArray | float = 0.0) -> FloatArray:
    """A lower triangular A with A C A' = 1, by Gram and Schmidt, for matrices ``(..., J, J)``.

    Rows of functions that are combinations of earlier ones are 0, and of those whose variance is
    not above the `least`, ``(..., J)``.
    """
    least = np.broadcast_to(least, covariance.shape[:-1])
    A = np.zeros_like(covariance)
    identity = np.eye(covariance.shape[-1])
    for j, unit in enumerate(identity):
        row = np.broadcast_to(unit, A[..., 0, :].shape).copy()
        earlier = A[..., :j, :]
        for _ in range(2):  # once more, against rounding
            overlap = np.einsum("...ij,...jk,...k->...i", earlier, covariance, row)
            row -= np.einsum("...i,...ij->...j", overlap, earlier)
        variance = np.einsum("...j,...jk,...k->...", row, covariance, row)
        keeps = variance > np.maximum(DEPENDENT * covariance[..., j, j], least[..., j])
        scale = np.where(keeps, 1 / np.sqrt(np.where(keeps, variance, 1.0)), 0.0)
        A[..., j, :] = scale[..., None] * row
    return A


@dataclass(frozen=True)
class GroupSums:
    """The sums of residuals D in groups, for any label sets.

    Attributes
    ----------
    groups : (n, K), the group of each row and outcome; the number of groups stands for none
    weights : (n,)
    expected : (M,), the sum of w_i f_ik in each group
    """

    groups: IntArray
    weights: FloatArray
    expected: FloatArray

    @classmethod
    def of(cls, groups: IntArray, f: FloatArray, weights: FloatArray) -> GroupSums:
        """Sums in groups ``(n, K)``, of which negative ones are none."""
        n_groups = int(groups.max()) + 1
        groups = np.where(groups < 0, n_groups, groups).astype(np.int32)
        mass = np.bincount(groups.ravel(), (weights[:, None] * f).ravel(), n_groups + 1)
        return cls(groups, weights, mass[:n_groups].astype(np.float64))

    def of_sets(self, labels: IntArray) -> FloatArray:
        """D of label sets ``(n, B)``, ``(M, B)``."""
        n_sets, n_groups = labels.shape[1], len(self.expected)
        hit = np.take_along_axis(self.groups, labels, axis=1) + np.arange(n_sets) * (n_groups + 1)
        weights = np.broadcast_to(self.weights[:, None], hit.shape)
        equal = bool((self.weights == self.weights[0]).all())
        length = n_sets * (n_groups + 1)
        counts = np.bincount(hit.ravel(), None if equal else weights.ravel(), length)
        sums = counts.reshape(n_sets, n_groups + 1)[:, :n_groups].T
        return (sums * self.weights[0] if equal else sums) - self.expected[:, None]


def covariance_of(
    functions: FloatArray, groups: IntArray, f: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The covariance of sum_g t(g) D_g if labels are drawn from f, ``(J, J)``.

    A row's label falls into one group, so that it adds E[t t'] - E[t] E[t]'. The second array are
    the variances ``(J,)`` that rounding may leave of this difference.
    """
    n, n_classes = f.shape
    ends = np.arange(n + 1) * n_classes
    shape = n, len(functions) + 1
    share = csr_array((f.ravel(), groups.ravel(), ends), shape=shape)[:, : len(functions)]
    mean = (share @ functions) * weights[:, None]
    mass = share.T @ weights**2
    moments = (functions * mass[:, None]).T @ functions
    return moments - mean.T @ mean, ROUNDING * np.diag(moments)


class Smooth:
    """Smooth statistics of one set of groups, with some numbers of functions."""

    def __init__(
        self,
        sums: GroupSums,
        functions: FloatArray,
        f: FloatArray,
        numbers: Sequence[int],
        names: Sequence[str],
    ) -> None:
        covariance, least = covariance_of(functions, sums.groups, f, sums.weights)
        self._sums, self._numbers, self.names = sums, np.array(numbers), names
        self._functions = uncorrelated(covariance, least) @ functions.T  # (J, M)

    def statistics(self, labels: IntArray) -> FloatArray:
        """See `View`."""
        z = self._functions @ self._sums.of_sets(labels)
        partial: FloatArray = np.cumsum(z**2, axis=0)[np.minimum(self._numbers, len(z)) - 1]
        return partial


class OneProbability(Smooth):
    """Smooth statistics of one probability per row, and Kuiper's.

    `hits` ``(n, K)`` says which outcome the probability is of. Kuiper's statistic is the largest
    sum of residuals over an interval of predictions.
    """

    def __init__(
        self,
        f: FloatArray,
        weights: FloatArray,
        hits: BoolArray,
        numbers: dict[int, str],
        name: str,
    ) -> None:
        p = (f * hits).sum(axis=1)
        own = groups_of(p, GROUPS)
        groups = np.where(hits, own[:, None], -1)
        functions = functions_of(p, own, max(numbers))
        names = [*(f"{name}: {words}" for words in numbers.values()), f"{name}: cumulative"]
        super().__init__(GroupSums.of(groups, f, weights), functions, f, list(numbers), names)

    def statistics(self, labels: IntArray) -> FloatArray:
        """See `View`."""
        steps = np.cumsum(self._sums.of_sets(labels), axis=0)
        kuiper = np.maximum(steps.max(axis=0), 0.0) - np.minimum(steps.min(axis=0), 0.0)
        return np.concatenate([super().statistics(labels), kuiper[None]])


class Pooled(Smooth):
    """Smooth statistics of all classes as one: their probabilities may err in the same way."""

    def __init__(self, f: FloatArray, weights: FloatArray) -> None:
        numbers = {1: "slope", 8: "curve", 32: "fine structure"}
        groups = groups_of(f.ravel(), GROUPS)
        every = functions_of(f.ravel(), groups, max(numbers) + 1)
        functions = every[:, 1:]  # not the constant: the residuals of a row add up to 0
        names = [f"all classes: {words}" for words in numbers.values()]
        sums = GroupSums.of(groups.reshape(f.shape), f, weights)
        super().__init__(sums, functions, f, list(numbers), names)


class ByClass:
    """Smooth statistics of every class, summed over classes."""

    def __init__(self, f: FloatArray, weights: FloatArray) -> None:
        numbers = {1: FREQUENCY, 2: "each class: slope", 8: "each class: curve"}
        self.names = list(numbers.values())
        self._numbers = np.array(list(numbers))
        n_functions, n_classes = int(self._numbers.max()), f.shape[1]
        functions = np.zeros((n_classes, GROUPS_PER_CLASS, n_functions))
        covariance = np.empty((n_classes, n_functions, n_functions))
        groups = np.empty(f.shape, dtype=np.intp)
        for k, p in enumerate(f.T):
            own = groups_of(p, GROUPS_PER_CLASS)
            found = functions_of(p, own, n_functions)
            functions[k, : len(found)] = found
            mass = np.bincount(own, weights**2 * p * (1 - p), len(found))
            covariance[k] = (found * mass[:, None]).T @ found
            groups[:, k] = k * GROUPS_PER_CLASS + own
        self._functions = uncorrelated(covariance) @ functions.transpose(0, 2, 1)  # (K, J, M)
        self._sums = GroupSums.of(groups, f, weights)

    def statistics(self, labels: IntArray) -> FloatArray:
        """See `View`."""
        n_classes, _, n_groups = self._functions.shape
        sums = np.zeros((n_classes * n_groups, labels.shape[1]))
        found = self._sums.of_sets(labels)
        sums[: len(found)] = found  # the last groups of the last class may be empty
        z = self._functions @ sums.reshape(n_classes, n_groups, -1)  # (K, J, B)
        partial: FloatArray = np.cumsum((z**2).sum(axis=0), axis=0)[self._numbers - 1]
        return partial


class Crossed:
    """Residuals of each class against the predictions of every class."""

    names = ("classes against each other",)

    def __init__(self, f: FloatArray, weights: FloatArray) -> None:
        self._f, self._weights = f, weights
        self._centred = f - weights @ f / weights.sum()
        self._expected = (weights[:, None] * f).T @ self._centred
        self._variance = (weights[:, None] ** 2 * f * (1 - f)).T @ self._centred**2

    def statistics(self, labels: IntArray) -> FloatArray:
        """See `View`."""
        n, n_classes = self._f.shape
        found = np.empty((1, labels.shape[1]))
        known = self._variance > 0
        for b, own in enumerate(labels.T):
            shape = n, n_classes
            chosen = csr_array((self._weights, own, np.arange(n + 1)), shape=shape)
            difference = chosen.T @ self._centred - self._expected
            found[0, b] = (difference[known] ** 2 / self._variance[known]).sum()
        return found
