"""Which features of a probability a scaling weights, and with which weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray, floored_log

LIFT = 0.2
"""c of the feature log(f + c / K), which lifts small probabilities as random labels do."""

FEATURES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "logarithm": floored_log,
    "lifted logarithm": lambda f: np.log(f + LIFT / f.shape[1]),
    "probability": lambda f: f,
    "one": np.ones_like,
}
"""Functions of a probability, from ``(n, K)`` to ``(n, K)``."""

MOST_CROSSED = 500
"""Weights of pairs of classes up to which they are fitted: Newton steps cost their square."""

FEWEST_PER_CLASS = 5
"""Rows per class on average, below which classes have no weights of their own."""


@dataclass(frozen=True)
class Form:
    """What a scaling is made of.

    Attributes
    ----------
    name : as users know it
    shared : features with one weight for all classes; the first is log f
    own : features with one weight per class
    crossed : whether each class's logit depends on the logarithms of the others
    """

    name: str
    shared: tuple[str, ...] = ("logarithm",)
    own: tuple[str, ...] = ()
    crossed: bool = False

    def for_sample(self, n: int, n_classes: int) -> Form:
        """The form without what is too much for so many rows and classes."""
        if n < FEWEST_PER_CLASS * n_classes and n_classes > 2:
            return replace(self, own=(), crossed=False)
        if self.crossed and n_classes**2 > MOST_CROSSED:
            return replace(self, own=(*self.own, "logarithm"), crossed=False)
        return self


TEMPERATURE = Form("temperature")
PLATT = Form("platt", own=("one",))
VECTOR = Form("vector", own=("logarithm", "one"))
MATRIX = Form("matrix", ("logarithm", "lifted logarithm", "probability"), ("one",), crossed=True)


@dataclass(frozen=True)
class Features:
    """The features of some predictions: classes first, so that sums over classes are fast.

    Attributes
    ----------
    shared : (S, K, n)
    own : (B, K, n)
    crossed : (K, n), z; None where no pairs of classes have weights
    """

    shared: FloatArray
    own: FloatArray
    crossed: FloatArray | None

    @classmethod
    def of(cls, form: Form, f: FloatArray, centre: FloatArray) -> Features:
        """The features of predictions ``(n, K)``; `centre` ``(K,)`` is the mean of log f."""
        shared, own = _stacked(form.shared, f), _stacked(form.own, f)
        if not form.crossed:
            return cls(shared, own, None)
        logarithms = shared[0] if form.shared[0] == "logarithm" else floored_log(f.T)
        return cls(shared, own, logarithms - centre[:, None])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """S, B, K and n."""
        return len(self.shared), len(self.own), *self.shared.shape[1:]

    def take(self, rows: slice) -> Features:
        """The features of some rows."""
        crossed = None if self.crossed is None else self.crossed[:, rows]
        return Features(self.shared[:, :, rows], self.own[:, :, rows], crossed)

    def logits(self, theta: FloatArray) -> FloatArray:
        """Eta, by class: ``(K, n)``."""
        S, B, K, _ = self.shape
        eta = theta[0] * self.shared[0]
        for weight, feature in zip(theta[1:S], self.shared[1:], strict=True):
            eta += weight * feature
        for weights, feature in zip(theta[S : S + K * B].reshape(K, B).T, self.own, strict=True):
            eta += weights[:, None] * feature
        if self.crossed is not None:
            eta += theta[S + K * B :].reshape(K, K) @ self.crossed
        return eta


@dataclass(frozen=True)
class Pairs:
    """Pairs of K classes, each class with itself, too.

    Attributes
    ----------
    first, second : (P,), the classes; none is after the other
    number : (K, K), the pair of two classes
    """

    first: IntArray
    second: IntArray
    number: IntArray

    @classmethod
    def of(cls, n_classes: int) -> Pairs:
        """The pairs of so many classes."""
        first, second = np.triu_indices(n_classes)
        number = np.empty((n_classes, n_classes), dtype=np.intp)
        number[first, second] = number[second, first] = np.arange(len(first))
        return cls(first, second, number)


def _stacked(names: tuple[str, ...], f: FloatArray) -> FloatArray:
    columns = np.empty((len(names), f.shape[1], len(f)))
    for column, name in zip(columns, names, strict=True):
        column[:] = FEATURES[name](f).T
    return columns


def blocks_of(form: Form, n_classes: int) -> IntArray:
    """The block of each parameter, ``(p,)``; -1 for shared ones."""
    own = np.tile(np.arange(len(form.own)), n_classes)
    parts = [np.full(len(form.shared), -1), own]
    if form.crossed:
        pairs = np.full((n_classes, n_classes), len(form.own))
        np.fill_diagonal(pairs, len(form.own) + 1)
        parts.append(pairs.ravel())
    return np.concatenate(parts).astype(np.intp)
