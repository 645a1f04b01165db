"""Norms of R - f as plain loops over the rows of `oracle_debiased`; nothing from the package."""

import math

import oracle_debiased as debiased
import oracle_finer as finer
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
    return sides_of_rows(norm, problem, weights, [R for R, _, _ in rows], v)


def sides_of_rows(norm, problem, weights, conditional, v):
    """(too high, too low), from R and its variance at every row."""
    points, labels = problem
    high, low = 0.0, 0.0
    for f, y, w, R, v_i in zip(points, labels, weights, conditional, v, strict=True):
        counted = [1] if len(f) == 2 else range(len(f))
        gap, own = [R[k] - f[k] for k in counted], [v_i[k] for k in counted]
        for u, k in zip(directions(norm, gap, own), counted, strict=True):
            part = w * u * ((y == k) - f[k])
            high, low = (high + part, low) if u < 0 else (high, low + part)
    return high / math.fsum(weights), low / math.fsum(weights)


def curve_sides(norm, problem, weights, start, form, single, steps):
    """The same by a finer curve, fitted by some Newton steps."""
    R = curve_without_own(problem, weights, start, form, single, steps)
    v = curve_variances(problem, weights, start, form, single)
    return sides_of_rows(norm, problem, weights, R, v)


def curve_variances(problem, weights, start, form, single):
    """v_ik = S C S' of every row, S the slopes of R at the start: what the first step adds."""
    points, _ = problem
    g, J, _, _, F = finer.newton(problem, weights, start, form, single, 1)
    count, precision = len(F), debiased.prior_precision(weights)
    inverse = [debiased.solve(F, [float(p == q) for q in range(count)]) for p in range(count)]
    square = debiased.product(inverse, inverse)
    unit = debiased.mean_weight(weights)
    C = [
        [unit * (a - precision * b) for a, b in zip(*rows, strict=True)]
        for rows in zip(inverse, square, strict=True)
    ]
    slopes = [debiased.slopes_of(J[i], g[i]) for i in range(len(points))]
    return [[dot(S_k, [dot(row, S_k) for row in C]) for S_k in S] for S in slopes]


def curve_without_own(problem, weights, start, form, single, steps):
    """R of every row, its own sample left out of the last step and of where that begins."""
    points, labels = problem
    g, J, here, theta, F = finer.newton(problem, weights, start, form, single, steps)
    outcomes, found = range(len(points[0])), []
    for i, y in enumerate(labels):
        own = debiased.solve(F, [weights[i] * s for s in debiased.score_of(J[i], here[i], y)])
        moved = [max(-1.0, min(1.0, each)) for each in own]
        if steps > 1:
            u = [dot(J[i][k], moved) for k in outcomes]
            along = sum(((k == y) - here[i][k]) * u[k] for k in outcomes)
            spread = sum(here[i][k] * u[k] ** 2 for k in outcomes) - dot(here[i], u) ** 2
            kept = max(1 - finer.ratio(spread, along), 0.5)
            moved = [each / kept for each in moved]
        found.append(finer.tilted(g[i], J[i], [a - b for a, b in zip(theta, moved, strict=True)]))
    return found
