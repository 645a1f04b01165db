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


def effective_outcomes(x, rarer, weights, unit, value):
    """Expected number of the rarer outcome at a value, of as many samples as its weights are worth.

    `unit` is the mean weight of a sample.
    """
    own = [i for i in range(len(x)) if x[i] == value]
    total, squares = sum(weights[i] for i in own), sum(weights[i] ** 2 for i in own)
    share = sum(rarer[i] for i in own) * unit / total if total > 0 else 0.0
    return share * total**2 / squares if squares > 0 else 0.0


def quantile_knots(x, mass, rarer, weights, form):
    """Values of x at equal steps of cumulated mass, first and last included; all if few.

    `rarer` are expected numbers of the rarer outcome, row by row.
    """
    pairs = sorted(zip(x, mass, strict=True), key=lambda pair: pair[0])
    distinct = sorted(set(x))
    most, _, every = form
    count = max(1, min(most, int(math.fsum(rarer) / OUTCOMES)))
    if len(distinct) <= count:
        return distinct
    if every:
        unit = plain.prior_precision(weights) / plain.PRIOR
        often = [
            value
            for value in distinct
            if effective_outcomes(x, rarer, weights, unit, value) >= OUTCOMES_EVERY
        ]
        if len(often) > count:
            return sorted({distinct[0], *often, distinct[-1]})
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
        unit = plain.prior_precision(weights) / plain.PRIOR
        rarer[k] = [w * min(g_i[k], 1 - g_i[k]) / unit for w, g_i in pairs]
    if per_class:
        return {
            k: quantile_knots(column(points, single, k), mass[k], rarer[k], weights, form)
            for k in outcomes
        }
    together = [x for k in outcomes for x in column(points, single, k)]
    masses = [m for k in outcomes for m in mass[k]]
    rares = [r for k in outcomes for r in rarer[k]]
    shared = quantile_knots(together, masses, rares, weights, form)
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


def level(problem, weights, loss, start, form, single, steps):
    """What a level finds after some Newton steps, row by row, and its effective parameters.

    (<y, l(f)> - refinement, <y, l(R)> - refinement, refinement - <y, l(let in)>, R, parameters)
    """
    points, labels = problem
    n, outcomes = len(points), range(len(points[0]))
    g, J, here, theta, F = newton(problem, weights, start, form, single, steps)
    count, precision = len(theta), plain.prior_precision(weights)
    inverse = [plain.solve(F, [float(p == q) for q in range(count)]) for p in range(count)]
    free = effective_parameters(inverse, precision)
    terms, removed, added, R = [], [], [], []
    for i in range(n):
        own = plain.solve(F, [weights[i] * s for s in plain.score_of(J[i], here[i], labels[i])])
        moved = [max(-1.0, min(1.0, each)) for each in own]
        left = tilted(g[i], J[i], [a - b for a, b in zip(theta, moved, strict=True)])
        let_in = tilted(g[i], J[i], theta)
        u = [dot(J[i][k], moved) for k in outcomes]
        along = sum(((k == labels[i]) - here[i][k]) * u[k] for k in outcomes)
        spread = sum(here[i][k] * u[k] ** 2 for k in outcomes) - dot(here[i], u) ** 2
        h = ratio(spread, along)
        s = 1 - ratio(precision * dot(moved, moved) / weights[i], along)
        a = (2 - s) / (2 - h) if steps == 1 else (2 - s) / ((2 + h) * (1 - 2 * h + h * s))
        a = min(a, 1.0)
        out, within = (loss(each)[labels[i]] for each in (left, let_in))
        refinement = a * out + (1 - a) * within
        R.append(left)
        terms.append(loss(points[i])[labels[i]] - refinement)
        removed.append(out - refinement)
        added.append(refinement - within)
    return terms, removed, added, R, free


def newton(problem, weights, start, form, single, steps):
    """Some Newton steps to a start with curves: (g, J, where the last begins, theta, F).

    g is the fitted start, theta where the steps lead, F the information of the last.
    """
    points, labels = problem
    n = len(points)
    theta, _ = plain.fit(points, labels, weights, start)
    g = [plain.start_of(plain.features(f, start), theta) for f in points]
    knots = knots_of(points, g, weights, form, single)
    J = [features(f, knots, form, single) for f in points]
    count, precision = len(J[0][0]), plain.prior_precision(weights)
    theta = [0.0] * count
    for _ in range(steps):
        here = [tilted(g[i], J[i], theta) for i in range(n)]
        total = [-precision * t for t in theta]
        F = [[precision * (p == q) for q in range(count)] for p in range(count)]
        for i in range(n):
            own = plain.information_of(J[i], here[i])
            score = plain.score_of(J[i], here[i], labels[i])
            for p in range(count):
                total[p] += weights[i] * score[p]
                for q in range(count):
                    F[p][q] += weights[i] * own[p][q]
        theta = [a + b for a, b in zip(theta, plain.solve(F, total), strict=True)]
    return g, J, here, theta, F


def tilted(g, J, theta):
    """A start with its logits moved by J theta."""
    return plain.softmax([log(g[k]) + dot(J[k], theta) for k in range(len(g))])


def ratio(above, below):
    """A share between 0 and 1."""
    return min(max(above / below, 0.0), 1.0) if below > 0 else 0.0


def effective_parameters(variance, precision):
    """Parameters, less the squared shares that the prior takes from them."""
    return len(variance) - precision**2 * sum(v**2 for row in variance for v in row)


def start_dimension(problem, weights, start):
    """The effective number of parameters of the start."""
    _, information = plain.fit(*problem, weights, start)
    count = len(information)
    unit = [[float(p == q) for q in range(count)] for p in range(count)]
    inverse = [plain.solve(information, row) for row in unit]
    return effective_parameters(inverse, plain.prior_precision(weights))


def normal_score(excess, degrees):
    """Wilson and Hilferty's score of a chi-square variable less its mean."""
    root = max(1 + excess / degrees, 0.0) ** (1 / 3)
    return (root - 1 + 2 / (9 * degrees)) / math.sqrt(2 / (9 * degrees))


def share(above, added, dimension, before, ends):
    more = dimension - before
    if more < 1 or added <= 0:
        return 0.0
    t = (normal_score(above * dimension / added, more) - ends[0]) / (ends[1] - ends[0])
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
        for steps in (1, 2):
            found = [level(each, weights, loss, start, form, single, steps) for each in problems]
            fine = [mean(each[0]) for each in found]
            if sum(fine) <= sum(chains[0]):
                break
        added = sum(mean(each[2]) for each in found)
        chance = added, sum(each[4] for each in found), before
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
