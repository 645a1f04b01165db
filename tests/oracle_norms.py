"""Norms of R - f as plain loops over the rows of `oracle_debiased`; nothing from the package."""

import math

import oracle_debiased as debiased
from oracle import dot


def variances(points, labels, weights, start, kernel, h, tau):
    """v_ik of every row i and outcome k: s_i R_ik (1 - R_ik), and what the fit adds."""
    n, n_classes = len(points), len(points[0])
    rows = debiased.smoothed_rows(points, labels, weights, start, kernel, h, tau)
    v = [[s * R[k] * (1 - R[k]) for k in range(n_classes)] for R, s, _ in rows]
    if start == "identity":
        return v
    g = debiased.left_out_starts(points, labels, weights, start)
    _, information = debiased.fit(points, labels, weights, start)
    slopes = [debiased.slopes_of(debiased.features(points[i], start), g[i]) for i in range(n)]
    w = [debiased.weights_of_row(i, points, weights, kernel, h, tau) for i in range(n)]
    averages = [debiased.smoothed_slopes(w[i], slopes) for i in range(n)]
    left = debiased.left_of_noise(weights, slopes, averages, information)
    unit = debiased.mean_weight(weights)
    for i in range(n):
        for k in range(n_classes):
            moving = debiased.solve(information, slopes[i][k])  # V slopes
            v[i][k] += max(unit * dot(slopes[i][k], [dot(row, moving) for row in left]), 0.0)
    return v


def directions(norm, gap, v):
    """u of one row: a sign per outcome, or one vector, shortened where it is not clear."""
    groups = [[k] for k in range(len(gap))] if norm == "l1" else [list(range(len(gap)))]
    u = [0.0] * len(gap)
    for group in groups:
        x = math.fsum(gap[k] ** 2 - v[k] for k in group)
        c = math.sqrt(math.fsum(v[k] ** 2 for k in group))
        square = (x + math.sqrt(x**2 + 4 * c**2)) / 2
        if square > 0:
            for k in group:
                u[k] = gap[k] / math.sqrt(square)
    return u


def sides(norm, problem, weights, start, kernel, h, tau):
    """(too high, too low) of a problem: weighted means of u (y - f) by the sign of u.

    Of one probability, a point (1 - p, p), the outcome 1 alone is counted.
    """
    points, labels = problem
    rows = debiased.smoothed_rows(points, labels, weights, start, kernel, h, tau)
    v = variances(points, labels, weights, start, kernel, h, tau)
    high, low = 0.0, 0.0
    for f, y, w, (R, _, _), v_i in zip(points, labels, weights, rows, v, strict=True):
        counted = [1] if len(f) == 2 else range(len(f))
        gap, own = [R[k] - f[k] for k in counted], [v_i[k] for k in counted]
        for u, k in zip(directions(norm, gap, own), counted, strict=True):
            part = w * u * ((y == k) - f[k])
            high, low = (high + part, low) if u < 0 else (high, low + part)
    return high / math.fsum(weights), low / math.fsum(weights)
