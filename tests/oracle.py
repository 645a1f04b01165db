"""The paper's equations as plain loops: what every engine must reproduce.

Nothing here is vectorised, nothing comes from the package, and nothing is clever, so that
each function can be read against the equation it names. Points are tuples of floats, labels
are column numbers.
"""

import math
from functools import cache

FLOOR = 1e-9


def log(x):
    return math.log(max(x, FLOOR))


def dot(a, b):
    return math.fsum(s * t for s, t in zip(a, b, strict=True))


# Losses: f -> the K losses it would suffer, one an outcome.


def brier(f):
    return [sum(((m == k) - f[m]) ** 2 for m in range(len(f))) for k in range(len(f))]


def brier_one_term(f):
    return [(1 - f[k]) ** 2 for k in range(len(f))]


def log_loss(f):
    return [-log(f[k]) for k in range(len(f))]


def ranked(f):
    losses = []
    for k in range(len(f)):
        total = 0.0
        for m in range(len(f) - 1):
            total += (math.fsum(f[: m + 1]) - (k <= m)) ** 2
        losses.append(total)
    return losses


def spherical(f):
    norm = math.sqrt(dot(f, f))
    return [1 - f[k] / norm for k in range(len(f))]


LOSSES = {
    # name: (on a simplex, made from one probability)
    "l2": (brier, brier_one_term),
    "kl": (log_loss, log_loss),
    "ranked": (ranked, ranked),
    "spherical": (spherical, spherical),
}


# The same errors as the Bregman divergences that the paper writes.


def squared_distance(R, f):
    return sum((R[k] - f[k]) ** 2 for k in range(len(f)))


def kullback_leibler(R, f):
    return sum(R[k] * (log(R[k]) - log(f[k])) for k in range(len(f)))


def cumulative_distance(R, f):
    return sum((math.fsum(R[: m + 1]) - math.fsum(f[: m + 1])) ** 2 for m in range(len(f) - 1))


# Kernels: the logarithm of the density centred at c, evaluated at x.


def dirichlet(x, c, h):
    alpha = [c[k] / h + 1 for k in range(len(c))]
    log_density = math.lgamma(math.fsum(alpha))
    for k in range(len(c)):
        log_density += (alpha[k] - 1) * log(x[k]) - math.lgamma(alpha[k])
    return log_density


def rbf(x, c, h):
    return -squared_distance(x, c) / (2 * h**2) - (len(c) - 1) / 2 * math.log(2 * math.pi * h**2)


KERNELS = {"dirichlet": dirichlet, "rbf": rbf}


# Kernel averages.


def average(x, left_out, points, labels, weights, kernel, h):
    """R and the log density at x, from all samples but `left_out`."""
    others = [j for j in range(len(points)) if j != left_out and weights[j] > 0]
    scores = [KERNELS[kernel](x, points[j], h) for j in others]
    top = max(scores)
    R = [0.0] * len(x)
    total = 0.0
    for j, score in zip(others, scores, strict=True):
        k_ij = weights[j] * math.exp(score - top)
        R[labels[j]] += k_ij
        total += k_ij
    of_others = math.fsum(weights[j] for j in others)
    return [r / total for r in R], top + math.log(total / of_others)


@cache
def leave_one_out(points, labels, weights, kernel, h):
    """(R_i, log density at i) for every sample i."""
    return [average(points[i], i, points, labels, weights, kernel, h) for i in range(len(points))]


# Notions.


def top_class(f):
    return max(range(len(f)), key=lambda k: (f[k], -k))


def problems(notion, f, y):
    """The (points, labels) that a notion makes of predictions (n, K) and labels."""

    def pairs(p):
        return tuple((1 - p_i, p_i) for p_i in p)

    if notion == "canonical":
        return [(f, y)]
    if notion == "binary":
        return [(pairs(f_i[1] for f_i in f), y)]
    if notion == "top-label":
        tops = [top_class(f_i) for f_i in f]
        right = tuple(int(t == y_i) for t, y_i in zip(tops, y, strict=True))
        return [(pairs(f_i[t] for f_i, t in zip(f, tops, strict=True)), right)]
    return [
        (pairs(f_i[k] for f_i in f), tuple(int(y_i == k) for y_i in y)) for k in range(len(f[0]))
    ]


def loss_of(name, notion):
    return LOSSES[name][0 if notion == "canonical" else 1]


# The criteria, each as the sum over samples that is minimised.


def objective(problem, weights, loss, kernel, h, criterion, power=2):
    points, labels = problem
    total = 0.0
    for i, (R, log_density) in enumerate(leave_one_out(points, labels, weights, kernel, h)):
        f, y = points[i], labels[i]
        if criterion == "risk-alignment":
            term = abs(dot(R, loss(f)) - loss(f)[y]) ** power
        elif criterion == "likelihood":
            term = -log_density
        else:
            term = loss(R)[y]
        total += weights[i] * term
    return total


def best_bandwidth(problem, weights, loss, kernel, candidates, criterion, power=2):
    """The minimum over ascending candidates; the larger bandwidth among equals."""
    best, lowest = None, math.inf
    for h in candidates:
        value = objective(problem, weights, loss, kernel, h, criterion, power)
        if value <= lowest:
            best, lowest = h, value
    return best


# The decomposition, one sample at a time.


def terms(loss, f, y, R):
    gain = [a - b for a, b in zip(loss(f), loss(R), strict=True)]
    return {
        "risk": loss(f)[y],
        "refinement": dot(R, loss(R)),
        "reconstructed_risk": dot(R, loss(f)),
        "plugin": dot(R, gain),
        "variational": gain[y],
        "cross": (dot(R, gain) + gain[y]) / 2,
    }


def calibration_error(y, f, weights, notion, loss, kernel, bandwidths):
    """Means of all terms, per problem and summed, with R: one bandwidth per problem."""
    chosen = loss_of(loss, notion)
    per_problem, conditional = [], []
    for (points, labels), h in zip(problems(notion, f, y), bandwidths, strict=True):
        means = dict.fromkeys(
            ("risk", "refinement", "reconstructed_risk", "plugin", "variational", "cross"), 0.0
        )
        R_rows = []
        for i, (R, _) in enumerate(leave_one_out(points, labels, weights, kernel, h)):
            for name, term in terms(chosen, points[i], labels[i], R).items():
                means[name] += weights[i] * term / math.fsum(weights)
            R_rows.append(R)
        per_problem.append(means)
        conditional.append(R_rows)
    total = {name: math.fsum(means[name] for means in per_problem) for name in per_problem[0]}
    return total, per_problem, conditional
