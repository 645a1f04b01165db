"""Inputs that the tests share: ordinary samples, and those that break estimators."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import riskalign as ra

SPHERICAL = ra.ProperLoss(
    "spherical", lambda f: 1 - f / np.sqrt(np.sum(f * f, axis=1, keepdims=True))
)
LOSSES = {"l2": "l2", "kl": "kl", "ranked": "ranked", "spherical": SPHERICAL}
NOTIONS = ("binary", "top-label", "classwise", "canonical")
CRITERIA = ("risk-alignment", "likelihood", "cross-validation")
ESTIMATORS = ("plugin", "variational", "cross")
CANDIDATES = {"dirichlet": (0.003, 0.04, 0.3), "rbf": (0.02, 0.15, 0.8)}


@dataclass(frozen=True)
class Case:
    """Labels, predictions and weights, as arrays for the package and tuples for the oracle."""

    y: np.ndarray
    f: np.ndarray
    weights: np.ndarray | None = None

    @property
    def plain(self):
        """(y, f, weights) as tuples of Python numbers, each exactly what the array holds."""
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        rows = tuple(tuple(float(x) for x in row) for row in self.f)
        return tuple(int(k) for k in self.y), rows, tuple(float(w) for w in weights)

    @property
    def n_classes(self):
        return self.f.shape[1]

    def notions(self):
        return NOTIONS if self.n_classes == 2 else NOTIONS[1:]


def ordinary(n, n_classes, seed=0, sharpness=1.5):
    """Predictions spread over the simplex, labels that follow them roughly."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n_classes)) * sharpness
    f = np.exp(scores)
    f /= f.sum(axis=1, keepdims=True)
    tilted = f**0.7 / (f**0.7).sum(axis=1, keepdims=True)
    return Case(np.array([rng.choice(n_classes, p=row) for row in tilted]), f)


def _hard():
    base = ordinary(9, 3, seed=1)
    vertices = base.f.copy()
    vertices[:4] = [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]]
    peaked = ordinary(9, 3, seed=2, sharpness=25)
    tied = base.f[[0, 0, 0, 1, 1, 2, 3, 3, 4]]
    off = base.f * np.array([1 + 5e-4, 1 - 5e-4, 1] * 3)[:, None]
    two = ordinary(9, 2, seed=3)
    yield (
        "zeros and ones, some wrong",
        Case(np.array([0, 2, 0, 2, 1, 1, 0, 2, 1]), vertices),
    )
    yield "only zeros and ones", Case(np.array([0, 1, 2, 1, 0, 1]), np.eye(3)[[0, 1, 2, 0, 1, 2]])
    yield "peaked beyond the floor", Case(np.argsort(-peaked.f, axis=1)[:, 0], peaked.f)
    yield "peaked and wrong", Case(np.argsort(peaked.f, axis=1)[:, 0], peaked.f)
    yield "ties with different labels", Case(np.array([0, 1, 1, 2, 2, 0, 0, 1, 2]), tied)
    yield "all predictions equal", Case(base.y, np.tile([0.2, 0.3, 0.5], (9, 1)))
    yield "a class without positives", Case(np.array([0, 1] * 4 + [0]), base.f)
    yield "a class with one positive", Case(np.array([0, 1] * 4 + [2]), base.f)
    yield "one class alone", Case(np.zeros(9, dtype=int), base.f)
    yield "two samples", Case(np.array([0, 2]), base.f[:2])
    yield "two samples, two classes", Case(np.array([0, 1]), two.f[:2])
    yield "two equal samples", Case(np.array([0, 1]), two.f[[0, 0]])
    yield (
        "two classes, zeros and ones",
        Case(np.array([0, 1, 1, 0, 1]), np.array([[1, 0], [0, 1], [1, 0], [0.5, 0.5], [0, 1.0]])),
    )
    yield "float32", Case(base.y, base.f.astype(np.float32))
    yield "float32, peaked", Case(peaked.y, peaked.f.astype(np.float32))
    yield "weights", Case(base.y, base.f, np.linspace(0.1, 3, 9))
    yield "integer weights, some zero", Case(base.y, base.f, np.array([1, 0, 2, 3, 0, 1, 1, 5, 1]))
    yield "two samples of weight", Case(base.y, base.f, np.array([0, 0, 2.0, 0, 0, 0.5, 0, 0, 0]))
    yield "rows off by 5e-4", Case(base.y, off)


HARD = dict(_hard())


@st.composite
def simplex_points(draw, n, n_classes):
    """Rows on the simplex, with exact zeros, ones and ties among them."""
    counts = st.lists(st.integers(0, 12), min_size=n_classes, max_size=n_classes)
    rows = draw(st.lists(counts.filter(any), min_size=n, max_size=n))
    table = np.array(rows, dtype=float)
    return table / table.sum(axis=1, keepdims=True)


@st.composite
def samples(draw, min_classes=2, max_classes=4, max_samples=9):
    """Small samples with labels of every kind."""
    n = draw(st.integers(2, max_samples))
    n_classes = draw(st.integers(min_classes, max_classes))
    f = draw(simplex_points(n, n_classes))
    y = draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
    return Case(np.array(y), f)


bandwidths = st.sampled_from([1e-3, 0.01, 0.07, 0.4, 1.0])
kernels = st.sampled_from(["dirichlet", "rbf"])
