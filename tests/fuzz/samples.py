"""Random samples for the fuzzer: small, and with everything that breaks estimators."""

from dataclasses import dataclass

import numpy as np

SIZES = (2, 3, 5, 8, 13, 24, 40)


@dataclass(frozen=True)
class Draw:
    """Labels ``(n,)``, predictions ``(n,)`` or ``(n, K)``, and weights ``(n,)`` or None."""

    y: np.ndarray
    p: np.ndarray
    weights: np.ndarray | None

    @property
    def n_classes(self):
        return 2 if self.p.ndim == 1 else self.p.shape[1]

    @property
    def matrix(self):
        return np.stack([1 - self.p, self.p], axis=1) if self.p.ndim == 1 else self.p

    def take(self, rows):
        weights = None if self.weights is None else self.weights[rows]
        return Draw(self.y[rows], self.p[rows], weights)

    def __repr__(self):
        weights = None if self.weights is None else self.weights.tolist()
        return f"y={self.y.tolist()}, p={self.p.tolist()}, weights={weights}"


def draw_sample(rng):
    """A sample of at most 40 rows and six classes."""
    n, n_classes = int(rng.choice(SIZES)), int(rng.choice([2] * 5 + [3, 3, 3, 4, 6]))
    f = _predictions(rng, n, n_classes)
    y = _labels(rng, f)
    if n_classes == 2 and rng.random() < 0.7:
        f = f[:, 1]
    if rng.random() < 0.2:
        f = f.astype(np.float32).astype(np.float64)
    return Draw(y, f, _weights(rng, n))


def _predictions(rng, n, n_classes):
    kind = rng.integers(10)
    if kind == 0:
        return np.eye(n_classes)[rng.integers(0, n_classes, n)]
    if kind == 1:
        return np.tile(rng.dirichlet(np.ones(n_classes)), (n, 1))
    f = rng.dirichlet(np.full(n_classes, (1.0, 0.05, 0.3, 20.0)[kind % 4]), n)
    if kind == 2:  # ties
        f = np.round(4 * f) + 0.01
    elif kind == 3:  # some exactly 0 and 1
        hard = rng.random(n) < 0.5
        f[hard] = np.eye(n_classes)[rng.integers(0, n_classes, np.count_nonzero(hard))]
    elif kind == 4:  # far below what a logarithm sees
        f = f ** rng.choice([20, 300])
        f[f.sum(axis=1) == 0] = 1.0
    elif kind == 5:  # equal rows
        f = f[rng.integers(0, max(1, n // 3), n)]
    f = f / f.sum(axis=1, keepdims=True)
    if kind == 6:  # sums a little off
        f = f * rng.uniform(0.9992, 1, (n, 1))
    return f


def _labels(rng, f):
    n, n_classes = f.shape
    kind = rng.integers(5)
    if kind == 0:
        return rng.integers(0, n_classes, n)
    if kind == 1:
        return f.argmax(axis=1)
    if kind == 2:
        return np.full(n, rng.integers(n_classes))
    cumulative = np.cumsum(f, axis=1)
    drawn = rng.random((n, 1)) * cumulative[:, -1:]
    return np.minimum((drawn > cumulative).sum(axis=1), n_classes - 1)


def _weights(rng, n):
    kind = rng.integers(12)
    if kind == 0:
        return np.ones(n)
    if kind == 1:
        return rng.uniform(0.1, 3, n)
    if kind == 2:
        return rng.integers(0, 3, n).astype(float)
    if kind == 3:
        return 10 ** rng.uniform(-5, 5, n)
    if kind == 4:
        return rng.uniform(0.1, 3, n) * float(rng.choice([1e-300, 1e-200, 1e150, 1e300]))
    if kind == 5:
        weights = np.ones(n)
        weights[rng.integers(n)] = float(rng.choice([1e3, 1e9, 1e13]))
        return weights
    return None
