"""Estimates with finer curves, as plain loops: what `riskalign.methods.finer` must reproduce.

Written like `oracle_debiased`: lists of floats, nothing from the package. A form has the number of
knots, whether each class has its own curve, and whether every distinct probability is a knot.
Of a problem that is made from one probability, points are pairs (1 - p, p), and outcome 1 alone has
features.
"""

import math

import oracle_debiased as plain
from oracle import dot, log

OUTCOMES, OUTCOMES_EVERY = 8, 4  # outcomes per knot


def column(points, single, k):
    """The probabilities whose curve outcome k has."""
    return [f[1] if single else f[k] for f in points]


def quantile_knots(x, mass, outcomes, form):
    """Values of x at equal steps of cumulated mass, first and last included; all if few."""
    pairs = sorted(zip(x, mass, strict=True), key=lambda pair: pair[0])
    distinct = sorted(set(x))
    most, _, every = form
    count = max(1, min(most, int(outcomes / OUTCOMES)))
    if len(distinct) <= count or (every and len(distinct) <= outcomes / OUTCOMES_EVERY):
        return distinct
    if count == 1:
        return distinct[:1]
    sums, total = [], 0.0
    for _, m in pairs:
        total += m
        sums.append(total)
    found = {distinct[0], distinct[-1]}
    for step in range(count):
        wanted = sums[0] + (sums[-1] - sums[0]) * step / (count - 1)
        found.add(next((value for (value, _), s in zip(pairs, sums, strict=True) if s >= wanted),
                       distinct[-1]))  # fmt: skip
    return sorted(found)


def knots_of(points, g, weights, form, single):
    """A list of knots per outcome that has a curve; the same list where it is shared."""
    count, per_class, _ = form
    outcomes = [1] if single else list(range(len(points[0])))
    if not count:
        return {k: [] for k in outcomes}
    mass, rarer = {}, {}
    for k in outcomes:
        pairs = list(zip(weights, g, strict=True))
        mass[k] = [w * math.sqrt(max(g_i[k] * (1 - g_i[k]), 1e-12)) for w, g_i in pairs]
        rarer[k] = math.fsum(w * min(g_i[k], 1 - g_i[k]) for w, g_i in pairs)
        rarer[k] *= plain.PRIOR / plain.prior_precision(weights)
    if per_class:
        return {
            k: quantile_knots(column(points, single, k), mass[k], rarer[k], form) for k in outcomes
        }
    together = [x for k in outcomes for x in column(points, single, k)]
    masses = [m for k in outcomes for m in mass[k]]
    shared = quantile_knots(together, masses, math.fsum(rarer.values()), form)
    return dict.fromkeys(outcomes, shared)


def hat_values(x, knots):
    """Hat functions at x: linear between knots, constant outside."""
    if len(knots) < 2:
        return [1.0] * len(knots)
    x = min(max(x, knots[0]), knots[-1])
    values = []
    for j, top in enumerate(knots):
        value = 0.0
        if x == top:
            value = 1.0
        elif j > 0 and knots[j - 1] < x < top:
            value = (x - knots[j - 1]) / (top - knots[j - 1])
        elif j + 1 < len(knots) and top < x < knots[j + 1]:
            value = (knots[j + 1] - x) / (knots[j + 1] - top)
        values.append(value)
    return values


def features(f, knots, form, single):
    """table[k][p]: log-odds and hats; or log f, log(f + 0.2 / K), shifts or own hats, hats."""
    if single:
        row = [plain_log_odds(f), *hat_values(f[1], knots[1])]
        return [[0.0] * len(row), row]
    n_classes, per_class = len(f), form[1]
    table = []
    for k in range(n_classes):
        row = [log(f[k]), math.log(f[k] + plain.NOISE / n_classes)]
        if not per_class:
            row += [float(k == other) for other in range(n_classes)]
            row += hat_values(f[k], knots[k])
        else:
            for other in range(n_classes):
                own = hat_values(f[k], knots[k]) if other == k else [0.0] * len(knots[other])
                row += own
        table.append(row)
    return table


def plain_log_odds(f):
    """Log-odds of outcome 1, at most those of 1e-9 in size."""
    nearer = max(min(f), 1e-9)
    size = math.log((1 - nearer) / nearer)
    return size if f[1] > 0.5 else -size


def level(problem, weights, loss, start, form, single):
    """(values of <y, l(f)> - refinement, of <y, l(R)> - refinement, R, effective parameters)."""
    points, labels = problem
    n, outcomes = len(points), range(len(points[0]))
    theta, _ = plain.fit(points, labels, weights, start)
    g = [plain.start_of(plain.features(f, start), theta) for f in points]
    without = plain.left_out_starts(points, labels, weights, start)
    knots = knots_of(points, g, weights, form, single)
    J = [features(f, knots, form, single) for f in points]
    count, precision = len(J[0][0]), plain.prior_precision(weights)
    total = [0.0] * count
    F = [[precision * (p == q) for q in range(count)] for p in range(count)]
    for i in range(n):
        own = plain.information_of(J[i], g[i])
        score = plain.score_of(J[i], g[i], labels[i])
        for p in range(count):
            total[p] += weights[i] * score[p]
            for q in range(count):
                F[p][q] += weights[i] * own[p][q]
    step = plain.solve(F, total)
    inverse = [plain.solve(F, [float(p == q) for q in range(count)]) for p in range(count)]
    free = count - precision * math.fsum(inverse[p][p] for p in range(count))
    terms, removed, R = [], [], []
    for i in range(n):
        own = plain.solve(F, [weights[i] * s for s in plain.score_of(J[i], without[i], labels[i])])
        moved = [max(-1.0, min(1.0, each)) for each in own]
        logits = [log(g[i][k]) for k in outcomes]
        let_in = [z + dot(J[i][k], step) for k, z in enumerate(logits)]
        left = [z - dot(J[i][k], moved) for k, z in enumerate(let_in)]
        R.append(plain.softmax(left))
        risks = [loss(plain.softmax(each))[labels[i]] for each in (left, let_in)]
        refinement = sum(risks) / 2
        terms.append(loss(points[i])[labels[i]] - refinement)
        removed.append(risks[0] - refinement)
    return terms, removed, R, free


def start_dimension(problem, weights, start):
    """The effective number of parameters of the start."""
    _, information = plain.fit(*problem, weights, start)
    count, precision = len(information), plain.prior_precision(weights)
    return count - precision * math.fsum(
        plain.solve(information, [float(p == q) for q in range(count)])[p] for p in range(count)
    )


def normal_score(excess, degrees):
    """Wilson and Hilferty's score of a chi-square variable less its mean."""
    root = max(1 + excess / degrees, 0.0) ** (1 / 3)
    return (root - 1 + 2 / (9 * degrees)) / math.sqrt(2 / (9 * degrees))


def share(above, removed, dimension, before, ends):
    more = dimension - before
    if more < 1 or removed <= 0:
        return 0.0
    t = (normal_score(above * dimension / removed, more) - ends[0]) / (ends[1] - ends[0])
    t = min(max(t, 0.0), 1.0)
    return 3 * t**2 - 2 * t**3


def ladder(base, problems, weights, loss, start, forms, gates, single):
    """(values, below, above, shares): one number per problem; one share per level.

    `gates` are the ends of thresholds: those of the estimate, of its lower and of its upper end.

    `base` has the value of each problem by kernels.
    """
    total = math.fsum(weights)

    def mean(rows):
        return dot(weights, rows) / total

    chains, shares = [list(base) for _ in gates], []
    before = sum(start_dimension(problem, weights, start) for problem in problems)
    for form in forms:
        found = [level(each, weights, loss, start, form, single) for each in problems]
        fine = [mean(each[0]) for each in found]
        removed = sum(mean(each[1]) for each in found)
        chance = removed, sum(each[3] for each in found), before
        omegas = [
            share(sum(fine) - sum(chain), *chance, ends)
            for chain, ends in zip(chains, gates, strict=True)
        ]
        chains = [
            [a + omega * (b - a) for a, b in zip(chain, fine, strict=True)]
            for chain, omega in zip(chains, omegas, strict=True)
        ]
        shares.append(omegas[0])
    values, low, high = chains
    below = [a - b for a, b in zip(values, low, strict=True)]
    above = [a - b for a, b in zip(high, values, strict=True)]
    doubts = [each if sum(each) > 0 else [0.0] * len(each) for each in (below, above)]
    return values, *doubts, shares
