"""Proper losses: one function, from a prediction to the K losses it would suffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from riskalign.equations.arrays import FloatArray, floored_log


@dataclass(frozen=True)
class ProperLoss:
    """A proper loss, given by the losses of each possible outcome.

    Parameters
    ----------
    name : str
        Shown in results.
    outcomes : callable
        Maps predictions ``(n, K)`` to losses ``(n, K)``: column k holds what each
        prediction suffers when class k comes true.
    binary_form : ProperLoss, optional
        The loss of two-class problems made from one probability (binary, top-label and
        class-wise errors). The default is the same function on the two columns
        ``(1 - p, p)``.
    divergence : str, optional
        The calibration error of one prediction in words, for printed results.

    Examples
    --------
    The spherical score as a loss:

    >>> import numpy as np
    >>> import riskalign as ra
    >>> spherical = ra.ProperLoss(
    ...     "spherical", lambda f: 1 - f / np.linalg.norm(f, axis=1, keepdims=True)
    ... )
    >>> spherical(np.array([[0.6, 0.8]])).round(2).tolist()
    [[0.4, 0.2]]
    """

    name: str
    outcomes: Callable[[FloatArray], FloatArray]
    binary_form: ProperLoss | None = None
    divergence: str = "<R, l(f) - l(R)>"

    def __call__(self, f: FloatArray) -> FloatArray:
        """Losses of every outcome, ``(n, K)``."""
        return self.outcomes(f)

    @property
    def binary(self) -> ProperLoss:
        """The form this loss takes on a two-class problem made from one probability."""
        return self.binary_form or self


def _brier(f: FloatArray) -> FloatArray:
    """l_k(f) = sum_m (1{m=k} - f_m)^2, expanded so that it costs one pass."""
    return np.sum(f * f, axis=1, keepdims=True) - 2 * f + 1  # (n, K)


def _brier_one_term(f: FloatArray) -> FloatArray:
    """(1 - p)^2 and p^2: the outcome's own term alone."""
    return (1 - f) ** 2  # (n, 2)


def _log(f: FloatArray) -> FloatArray:
    """l_k(f) = -log f_k."""
    return -floored_log(f)  # (n, K)


def _ranked(f: FloatArray) -> FloatArray:
    """l_k(f) = sum_{m<K} (F_m - 1{k <= m})^2, with F the cumulative sums of f."""
    F = np.cumsum(f, axis=1)[:, :-1]  # (n, K-1)
    # (F - 1)^2 = F^2 + (1 - 2F): outcome k adds the bracket for every m >= k.
    switch = np.zeros_like(f)  # (n, K); the last outcome adds none
    switch[:, :-1] = np.cumsum((1 - 2 * F)[:, ::-1], axis=1)[:, ::-1]
    return np.sum(F * F, axis=1, keepdims=True) + switch


L2 = ProperLoss("l2", _brier, ProperLoss("l2", _brier_one_term, None, "(R - f)^2"), "|R - f|^2")
KL = ProperLoss("kl", _log, None, "KL(R || f)")
RANKED = ProperLoss(
    "ranked",
    _ranked,
    ProperLoss("ranked", _ranked, None, "(R - f)^2"),
    "sum_m (cum R_m - cum f_m)^2",
)

LOSSES = {loss.name: loss for loss in (L2, KL, RANKED)}
"""The losses known by name."""

ALIASES = {"brier": "l2", "squared": "l2", "log": "kl", "logloss": "kl", "rps": "ranked"}
"""Other names that users have for them."""


def loss_name(loss: object) -> object:
    """The name of a loss in results, from any of its names; what is no text is given back.

    Examples
    --------
    >>> loss_name("Brier"), loss_name("kl")
    ('l2', 'kl')
    """
    if not isinstance(loss, str):
        return loss
    plain = loss.lower()
    return ALIASES.get(plain, plain)
