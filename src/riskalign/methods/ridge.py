"""Kernel ridge regression of the squared calibration error, after Gruber and Bach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh

from riskalign.data.notions import OF_ONE_PROBLEM
from riskalign.data.validation import one_of
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.equations.problem import Problem
from riskalign.methods.method import ByProblem, Estimate, Scope, observed_risk, spelled

PENALTIES = {
    "residual": 10.0 ** np.arange(4.0, -5.0, -0.5),
    "kronecker": 10.0 ** np.arange(8.0, -10.0, -1.0),
}
"""The penalties rho that were published for each form."""

TEST = -1
"""The part of the samples on which the error is read, a fifth of them."""

ACCURACY = 1e-12
"""Largest error of a kernel entry (they are at most 1) in the low-rank form."""

FEATURES = 10**8
"""Most numbers that low-rank features may have: 800 MB."""


def parts_of(problem: Problem, folds: int, seed: int) -> IntArray:
    """The part of each row, see `split`: rows are sorted first, so that their order has no say."""
    order = np.lexsort((problem.labels, *problem.free(problem.predictions).T))
    parts = np.empty(len(order), dtype=np.intp)
    parts[order] = split(len(order), folds, seed)
    return parts


def split(n: int, folds: int, seed: int) -> IntArray:
    """The part of each sample: `TEST` for a fifth, a fold's number for the others."""
    parts = np.full(n, TEST)
    shuffled = np.random.default_rng(seed).permutation(n)[: int(0.8 * n)]
    for fold, rows in enumerate(np.array_split(shuffled, folds)):
        parts[rows] = fold
    return parts


def kernel(x: FloatArray, centres: FloatArray) -> FloatArray:
    """exp(-|x - c|^2), ``(n, m)``."""
    squares = np.sum(x * x, axis=1)[:, None] + np.sum(centres * centres, axis=1)
    return np.exp(-np.maximum(squares - 2 * x @ centres.T, 0.0))


def low_rank(x: FloatArray, most: int) -> FloatArray | None:
    """Features phi ``(n, r)`` with <phi, phi'> = k up to `ACCURACY`, or None if r > most.

    Cholesky's decomposition with pivots. One probability needs about ten features at any
    n, four classes two hundred.
    """
    left = np.ones(len(x))  # what the features do not yet explain of k(x, x)
    features = np.empty((most, len(x)))
    for r in range(most):
        pivot = int(np.argmax(left))
        if left[pivot] <= ACCURACY:
            return features[:r].T
        explained = features[:r, pivot] @ features[:r]
        features[r] = (kernel(x, x[[pivot]])[:, 0] - explained) / np.sqrt(left[pivot])
        left -= features[r] ** 2
    return None


@dataclass(frozen=True)
class Fit:
    """The regression on m training points, ready for every penalty.

    With K = Q L Q^T, both forms are functions of the eigenvalues l, the projections
    psi(x) = Q^T k_x and b = Q^T D. Low-rank features give the same with K = Phi Phi^T:
    l and V from Phi^T Phi, psi = V^T phi, b = V^T Phi^T D; the roots of l cancel.

    Attributes
    ----------
    eigenvalues : (r,)
    held, test : (v, r) and (t, r), psi of the samples that judge and of those that are read
    targets : (r, K), b
    m : number of training points
    """

    eigenvalues: FloatArray
    held: FloatArray
    test: FloatArray
    targets: FloatArray
    m: int

    @classmethod
    def leaving_out(
        cls, fold: int, parts: IntArray, x: FloatArray, d: FloatArray, features: FloatArray | None
    ) -> Fit:
        """The regression on all other folds: one eigendecomposition."""
        train = (parts != fold) & (parts != TEST)
        if features is None:
            matrix, targets = kernel(x[train], x[train]), d[train]
        else:
            matrix, targets = features[train].T @ features[train], features[train].T @ d[train]
        driver = "evd" if len(matrix) > 1 else None  # scipy before 1.13 cannot do one by one
        values, vectors = eigh(matrix, driver=driver, overwrite_a=True, check_finite=False)

        def projected(rows: BoolArray) -> FloatArray:
            columns = kernel(x[rows], x[train]) if features is None else features[rows]
            return columns @ vectors

        return cls(
            np.maximum(values, 0.0),
            projected(parts == fold),
            projected(parts == TEST),
            vectors.T @ targets,
            int(np.count_nonzero(train)),
        )

    def factors(self, form: str, penalty: float, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Two matrices, one row per sample, whose products are h(x, x')."""
        if form == "residual":
            g = psi @ (self.targets / (self.eigenvalues + penalty * self.m**0.75)[:, None])
            return g, g
        weights = np.multiply.outer(self.eigenvalues, self.eigenvalues)
        weights += penalty * self.m**1.5
        np.divide(self.targets @ self.targets.T, weights, out=weights)  # A_ab / (l_a l_b + ...)
        return psi @ weights, psi


def pair_risk(d: FloatArray, left: FloatArray, right: FloatArray) -> float:
    """The mean of (<d_i, d_j> - h_ij)^2 over pairs i != j, with h = left right^T."""
    v = len(d)
    if left.shape[1] < v:  # |D D^T - L R^T|^2 from small matrices
        total = np.sum((d.T @ d) ** 2) - 2 * np.sum((d.T @ left) * (d.T @ right))
        total += np.sum((left.T @ left) * (right.T @ right))
    else:
        total = np.sum((d @ d.T - left @ right.T) ** 2)
    same = np.sum((np.sum(d * d, axis=1) - np.sum(left * right, axis=1)) ** 2)  # i = j
    return float(total - same) / (v * (v - 1))


def estimate_on(
    problem: Problem, parts: IntArray, form: str, penalties: Sequence[float]
) -> tuple[float, int]:
    """The error, and the number of the penalty with the least cross-validated pair risk.

    Every fold is left out once: the regression on the others is judged by its pairs, and
    read at the test part. The error is the mean over folds at the penalty chosen.
    """
    x = problem.predictions.reshape(len(parts), -1)  # (n, K), or (n, 1) for one probability
    y = problem.labels[:, None] if x.shape[1] == 1 else problem.one_hot()
    d = x - y
    folds = range(int(parts.max()) + 1)
    features = low_rank(x, most=min(len(x) // 8, FEATURES // len(x)))
    risks = np.empty((len(folds), len(penalties)))
    fits = []
    for fold in folds:
        fit = Fit.leaving_out(fold, parts, x, d, features)
        for i, penalty in enumerate(penalties):
            factors = fit.factors(form, penalty, fit.held)
            risks[fold, i] = pair_risk(d[parts == fold], *factors)
        fits.append(fit)
    best = int(np.argmin(risks.mean(axis=0)))
    at_test = [fit.factors(form, penalties[best], fit.test) for fit in fits]
    return float(np.mean([np.sum(left * right, axis=1).mean() for left, right in at_test])), best


@dataclass(frozen=True, repr=False)
class KernelRidge(ByProblem):
    """The squared calibration error by kernel ridge regression; it has no R.

    With residuals d = f - y, <d_i, d_j> is regressed on pairs of predictions by h(x, x'),
    with the kernel exp(-|f - f'|^2); E h(x, x) is the squared error. A fifth of the samples
    is set aside; on the rest the penalty is chosen by cross-validation of the mean of
    (<d_i, d_j> - h(x_i, x_j))^2 over pairs; the error is the mean of h(x, x) over the fifth,
    averaged over the folds' regressions. Time grows as n^3 and memory as n^2 with many
    classes; as n where few features represent the kernel (up to about four classes).
    It does not use sample weights.

    Parameters
    ----------
    form : {"residual", "kronecker"}
        Regress d, h(x, x') = <g(x), g(x')> with penalty rho m^0.75; or regress products of
        residuals, with penalty rho m^1.5 on products of eigenvalues.
    penalties : sequence of float, optional
        Values of rho; default: those published.
    folds : int
        Folds of the cross-validation.
    seed : int
        Seed of the shuffle that makes test part and folds. Rows are sorted before it, so that the
        order in which they come does not matter.

    References
    ----------
    Gruber, Bach: Optimizing Estimators of Squared Calibration Errors in Classification,
    TMLR 2025.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(300, 4, t2=0.6, seed=0)
    >>> result = ra.calibration_error(
    ...     data.y_true, data.y_prob, notion="canonical", method=ra.KernelRidge()
    ... )
    >>> result.note
    'penalty 0.316228, from 18 by 5-fold cross-validation'
    """

    form: str = "residual"
    penalties: Sequence[float] | None = None
    folds: int = 5
    seed: int = 0

    norm: ClassVar[None] = None
    scope: ClassVar[Scope] = Scope(OF_ONE_PROBLEM, ("l2",))
    __repr__: ClassVar = spelled

    def __post_init__(self) -> None:
        one_of("form", self.form, PENALTIES)
        if not isinstance(self.folds, int) or self.folds < 2:
            raise ValueError(f"`folds` must be a whole number from 2 on; found {self.folds!r}.")
        if self.penalties is None:
            return
        given = np.asarray(self.penalties, dtype=np.float64)
        if given.ndim != 1 or given.size == 0 or not (np.isfinite(given) & (given > 0)).all():
            raise ValueError(
                f"`penalties` must be positive numbers, one or more; found {self.penalties!r}."
            )
        object.__setattr__(self, "penalties", tuple(sorted(given.tolist(), reverse=True)))

    def definition(self, divergence: str) -> str:
        """See `Method`."""
        return f"mean h(x, x), regression of {divergence}"

    def estimates(self, problems: Sequence[Problem]) -> Iterator[Estimate]:
        """See `Method`."""
        return map(self._estimate, problems)

    def _estimate(self, problem: Problem) -> Estimate:
        self._check(problem)
        penalties = PENALTIES[self.form].tolist() if self.penalties is None else self.penalties
        parts = parts_of(problem, self.folds, self.seed)
        value, best = estimate_on(problem, parts, self.form, penalties)
        note = f"penalty {penalties[best]:g}, from {len(penalties)} by {self.folds}-fold "
        note += "cross-validation"
        if len(penalties) > 1 and best in (0, len(penalties) - 1):
            note += ", at the edge of its set"
        return Estimate(value, observed_risk(problem), note=note)

    def _check(self, problem: Problem) -> None:
        n = len(problem.labels)
        if int(0.8 * n) < 2 * self.folds:
            raise ValueError(
                f"`method={self!r}` needs two samples in each of {self.folds} folds of 80% of the "
                f"data; found {n} samples in all. Use fewer folds, or another method."
            )
        if (problem.weights != problem.weights[0]).any():
            raise ValueError(
                f"`sample_weight` is not used by {self!r}. Leave the weights out, or use "
                "ra.KernelSmoother() or bins."
            )
