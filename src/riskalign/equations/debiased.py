"""The debiased estimate: a second-order correction removes what the noise of R adds to a risk.

With g a start, e = y - g its residuals and w_ij the kernel's weights without the row itself,

    R_i = g_i + sum_j w_ij e_j,    s_i = sum_j w_ij^2.

The variational error <y, l(f) - l(R)> falls short of the truth by E D(E[y | f], R): the squared
bias of R and its variance. The variance is known: adding y_i to its own average with the weight
s_i lowers its loss by twice what the noise of R adds to it when it is left out. So

    terms_i = <y_i, l(f_i)> - 1/2 <y_i, l(R_i) + l(R_i + s_i (y_i - R_i) + shift_i)>

has an expectation below the true error by the squared smoothing bias alone. The fitted
parameters of a start are noise of R too; `shift` lets the label into their fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import KEPT_SHARE, mirrored, onto_simplex
from riskalign.equations.starts import moved, scores
from riskalign.equations.terms import risk_of

TINIEST = 1e-290
"""Sums of squared slopes below this one are 0."""

UNSEEN = 1e-10
"""Directions of the parameters whose slopes have less than this share of the largest do not move g,
such as one shift for all classes. Their slopes are rounding errors, which must not be normalised.
"""


@dataclass(frozen=True)
class FitNoise:
    """How the labels of a problem move its fitted start, and how much of that remains in R.

    A fitted theta errs by some delta, and g by slopes delta. The kernel sees and smooths away
    a part, slopes overlap delta, but the noise of the averages contains the same part, so that
    all of it remains in R. `left` is the share of its variance that is not counted as noise of
    the averages already.

    Attributes
    ----------
    variance : inverse of the information, ``(p, p)``
    left : ``(p, p)``
    """

    variance: FloatArray
    left: FloatArray

    @classmethod
    def of(cls, information: FloatArray, size: FloatArray, seen: FloatArray) -> FitNoise:
        """From the information of all rows, sum w <slopes, slopes> and sum w <slopes, W slopes>.

        Arrays are ``(p, p)``, or ``(..., p, p)`` for several problems at once.
        """
        values, vectors = np.linalg.eigh(information)  # positive: the prior is in it
        roots = np.sqrt(values)[..., None, :]
        root, inverse = vectors * roots, vectors / roots
        return cls(inverse @ _turned(inverse), _left(size, seen, root, inverse))

    def __getitem__(self, number: int) -> FitNoise:
        """That of one of several problems."""
        return FitNoise(self.variance[number], self.left[number])

    def pushes(self, problem: Problem, phi: FloatArray, residuals: FloatArray) -> FloatArray:
        """By how much each sample's label moves the parameters, ``(n, p)``."""
        return problem.units[:, None] * scores(phi, residuals) @ self.variance

    def own_shift(self, slopes: FloatArray, push: FloatArray) -> FloatArray:
        """What letting a label into the fit does to its own R, ``(n, d)``."""
        return moved(slopes, push @ self.left.T)

    def variance_of_fit(self, slopes: FloatArray, unit: float) -> FloatArray:
        """The part of the variance of R that the fit adds to that of the averages, ``(n, d)``.

        For samples of the mean weight `unit`, the information is `unit` times too large.
        """
        remaining = unit * self.left @ self.variance  # V - O V O', see `_left`
        return np.maximum(np.sum((slopes @ remaining) * slopes, axis=2), 0.0)


def recalibrated(start: FloatArray, smoothed: FloatArray) -> FloatArray:
    """R = g + W e on the simplex, from g ``(n, K)`` and the averages W e in free columns."""
    return onto_simplex(start, mirrored(smoothed))


def variance_of(
    problem: Problem, R: FloatArray, s: FloatArray, noise: FitNoise | None, slopes: FloatArray
) -> FloatArray:
    """The variance of R: of averages of labels whose squared weights add up to s, and of the fit.

    `R` is ``(n, d)``, or ``(n, B, d)`` of B label sets; `s` is ``(n,)``, `slopes` ``(n, d, p)``.
    """
    sets = (1,) * (R.ndim - 2)
    variance: FloatArray = s.reshape(-1, *sets, 1) * R * (1 - R)
    if noise is not None:
        of_fit = noise.variance_of_fit(slopes, problem.unit)
        variance += of_fit.reshape(len(s), *sets, -1)
    return variance


def _left(size: FloatArray, seen: FloatArray, root: FloatArray, inverse: FloatArray) -> FloatArray:
    """1 - overlap^2, for matrices: (V - O V O') V^-1, with V the variance of the parameters.

    `root` is that of the information, root root' = V^-1, and `inverse` is inverse' root = 1: in
    the coordinates root' theta the parameters are independent, with variance 1.
    """
    # Slopes of predictions near 0 are tiny: their squares may have no inverse that is a number.
    largest = np.abs(size).max(axis=(-1, -2), keepdims=True, initial=0.0)
    known = largest > TINIEST
    unit = np.where(known, largest, 1.0)
    size, seen = (np.where(known, each / unit, 0.0) for each in (size, seen))
    overlap = np.linalg.pinv(size, rcond=UNSEEN, hermitian=True) @ seen
    axes, shares, _ = np.linalg.svd(_turned(root) @ overlap @ inverse)
    kept = 1.0 - np.minimum(shares, 1.0) ** 2
    return inverse @ (axes * kept[..., None, :]) @ _turned(axes) @ _turned(root)


def _turned(matrices: FloatArray) -> FloatArray:
    """The transposes of matrices ``(..., p, p)``."""
    return np.swapaxes(matrices, -1, -2)


def second_order(
    problem: Problem, R: FloatArray, s: FloatArray, shift: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """<y, l(R)> and its half with <y, l(R + s (y - R) + shift)>, row by row, ``(n,)`` each.

    The first is the risk of R left out; the second is the refinement without R's noise.
    """
    let_in = R + s[:, None] * (problem.one_hot() - R)
    if shift is not None:
        let_in += mirrored(shift)
    # The shift is linear in the label. Where one sample outweighs the others it has no bound.
    np.clip(let_in, KEPT_SHARE * R, 1.0, out=let_in)
    left_out = risk_of(problem.loss, problem.labels, R)
    return left_out, (left_out + risk_of(problem.loss, problem.labels, let_in)) / 2
