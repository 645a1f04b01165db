"""The calibration loss in plain loops, from probabilities and labels."""

import math

import numpy as np

FLOOR = 1e-9


def log(x):
    return math.log(max(x, FLOOR))


def kernel(x, c, h):
    """The log density of the Dirichlet kernel at x, without what is the same for all c."""
    return sum(log(a) * b / h - math.lgamma(b / h + 1) for a, b in zip(x, c, strict=True))


def problems(notion, f, y):
    """Points of the simplex and one-hot outcomes of each problem."""
    n_classes = f.shape[1]
    if notion == "canonical":
        return [(f, np.eye(n_classes)[y])]
    if notion == "top-label":
        pairs = [(f.max(1), f.argmax(1) == y)]
    elif notion == "binary":
        pairs = [(f[:, 1], y == 1)]
    else:
        pairs = [(f[:, k], y == k) for k in range(n_classes)]
    return [(np.stack([1 - p, p], 1), np.eye(2)[came.astype(int)]) for p, came in pairs]


def quadratic(a, b, loss, one_dimensional):
    if one_dimensional:
        return a[1] * b[1]
    if loss == "ranked":
        return sum(sum(a[: m + 1]) * sum(b[: m + 1]) for m in range(len(a) - 1))
    return sum(u * v for u, v in zip(a, b, strict=True))


def weights_of(f, i, h, u):
    """Normalised weights of the other rows, and by how much a lone row is shrunk."""
    logs = {j: kernel(f[i], f[j], h) + math.log(u[j]) for j in range(len(f)) if j != i and u[j] > 0}
    if not logs:
        return {}, 0.0
    top = max(logs.values())
    total = sum(math.exp(value - top) for value in logs.values())
    own = kernel(f[i], f[i], h) + math.log(u[i])
    nearby = math.exp(min(top + math.log(total) - own, 700))
    return {j: math.exp(v - top) / total for j, v in logs.items()}, min(1.0, nearby / 0.15)


def terms(notion, loss, estimator, f, y, bandwidths, u=None):
    """The terms of all rows, summed over problems."""
    u = np.ones(len(f)) if u is None else u
    total = np.zeros(len(f))
    one_dimensional = notion != "canonical"
    for (points, outcomes), h in zip(problems(notion, f, y), bandwidths, strict=True):
        for i in range(len(f)):
            if u[i] == 0:
                continue
            w, shrink = weights_of(points, i, h, u)
            if not w:
                continue
            x, came = points[i], outcomes[i]
            if estimator == "plugin":
                R = sum(w[j] * outcomes[j] for j in w)
                if loss == "kl":
                    total[i] += sum(r * (log(r) - log(a)) for r, a in zip(R, x, strict=True))
                else:
                    total[i] += quadratic(R - x, R - x, loss, one_dimensional)
                continue
            A = shrink * sum(w[j] * (outcomes[j] - points[j]) for j in w)
            if loss != "kl":
                total[i] += quadratic(came - x, A, loss, one_dimensional)
                continue
            s = shrink**2 * sum(w[j] ** 2 for j in w)
            R = np.maximum(x + A, 0.1 * x)
            R = R / R.sum()
            let_in = np.maximum(R + s * (came - R), 0.1 * R)
            k = int(np.argmax(came))
            total[i] += -log(x[k]) + (log(R[k]) + log(let_in[k])) / 2
    return total
