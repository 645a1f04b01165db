"""The debiased estimate with a fitted start, as plain loops: what the package must reproduce.

Written like `oracle`: lists of floats, nothing vectorised, nothing from the package. Points are
tuples of floats, labels are column numbers, and every row is one sample. A tuning is a pair
(h, tau), bandwidth and flattening. Vectors over parameters are lists, and a table over outcomes k
and parameters p is a list of lists, table[k][p].

`numpy.linalg` is used for two things only, on matrices of one row per parameter: to solve a
linear system, and to find the eigenvalues and eigenvectors of a symmetric matrix.
"""

import math
from functools import cache

import numpy as np
import oracle
from oracle import dot, log

NOISE = 0.2  # c of the feature log(f + c / K)
SHIFTED = 30  # classes up to which each has a shift
PRIOR = 0.25  # precision of the prior, in samples
SMALLEST_STEP = 1e-6  # Newton's method stops where no parameter would move by more
LARGEST_MOVE = 1.0  # of a parameter when one row leaves the fit
KEPT_SHARE = 0.1  # of the start, below which no probability is pressed
ALONE = 0.15  # samples at its own place that the neighbours of a row must weigh together
FLATTENINGS = (1.0, 0.5, 0.25)
BENT = 1.05  # the power of g that shows the scale of a loss


# Small matrices.


def solve(A, b):
    """x of A x = b."""
    return np.linalg.solve(np.array(A), np.array(b)).tolist()


def eigen(A):
    """Pairs (eigenvalue, eigenvector) of a symmetric matrix."""
    values, vectors = np.linalg.eigh(np.array(A))
    return list(zip(values.tolist(), vectors.T.tolist(), strict=True))


def transposed(A):
    return [list(column) for column in zip(*A, strict=True)]


def product(A, B):
    return [[dot(row, column) for column in transposed(B)] for row in A]


def of_eigenvectors(pairs, function):
    """sum function(lambda) v v^T over eigenpairs (lambda, v)."""
    size = len(pairs)
    return [
        [math.fsum(function(value) * v[p] * v[q] for value, v in pairs) for q in range(size)]
        for p in range(size)
    ]


def pseudo_inverse(A):
    """The inverse of a symmetric matrix in the directions in which it is not 0 but for rounding.

    Where slopes vanish in some direction, parameters move neither g nor averages of it.
    """
    pairs = eigen(A)
    zero = 1e-12 * max(value for value, _ in pairs)
    return of_eigenvectors(pairs, lambda value: 1 / value if value > zero else 0.0)


# Starts: g = softmax(sum_p theta_p phi_p(f)).


def n_parameters(start, n_classes):
    if start == "identity":
        return 0
    if start == "temperature":
        return 1
    if n_classes == 2:
        return 2  # slope and shift in log-odds: Platt scaling
    return 2 + (n_classes if n_classes <= SHIFTED else 0)


def features(f, start):
    """phi[k][p]: log f, a shift of outcome 1; for K > 2 log f, log(f + 0.2 / K), K shifts."""
    n_classes, count = len(f), n_parameters(start, len(f))
    table = []
    for k in range(n_classes):
        row = [log(f[k])]
        if n_classes == 2:
            row += [float(k == 1)]
        else:
            row += [math.log(f[k] + NOISE / n_classes)]
            row += [float(k == shifted) for shifted in range(n_classes)]
        table.append(row[:count])
    return table


def softmax(logits):
    top = max(logits)
    odds = [math.exp(z - top) for z in logits]
    return [o / math.fsum(odds) for o in odds]


def logits_of(phi, theta):
    return [dot(phi_k, theta) for phi_k in phi]


def start_of(phi, theta):
    """g."""
    return softmax(logits_of(phi, theta))


def log_loss_of_start(phi, theta, y):
    """-log g_y, without a floor."""
    logits = logits_of(phi, theta)
    top = max(logits)
    return top + math.log(math.fsum(math.exp(z - top) for z in logits)) - logits[y]


def slopes_of(phi, g):
    """dg_k / dtheta_p = g_k (phi_kp - sum_m g_m phi_mp)."""
    means = [dot(g, column) for column in transposed(phi)]
    return [[g[k] * (phi[k][p] - means[p]) for p in range(len(means))] for k in range(len(phi))]


def score_of(phi, g, y):
    """<y - g, phi_p>: derivative of log g_y by theta_p."""
    return [column[y] - dot(g, column) for column in transposed(phi)]


def information_of(phi, g):
    """sum_k dg_k/dtheta_p phi_kq: minus the second derivative of log g_y, whatever y is."""
    return product(transposed(slopes_of(phi, g)), phi)


def moved(slopes, push):
    """By how much g moves where the parameters move by `push`: slopes . push."""
    return [dot(slopes_k, push) for slopes_k in slopes]


# The fit: theta minimises the weighted log loss plus the prior.


def prior_mean(count):
    """The parameters of f itself."""
    return [1.0] + [0.0] * (count - 1)


def mean_weight(weights):
    """Of a sample, each counted by its weight: sum w^2 / sum w."""
    return dot(weights, weights) / math.fsum(weights)


def prior_precision(weights):
    """That of a quarter of a sample of mean weight."""
    positive = [weight for weight in weights if weight > 0]
    return PRIOR * math.fsum(positive) / len(positive)


def penalised_loss(theta, phis, labels, weights):
    """sum_i w_i (-log g_i,y) + precision / 2 |theta - prior mean|^2."""
    total = [weights[i] * log_loss_of_start(phis[i], theta, labels[i]) for i in range(len(labels))]
    for value, expected in zip(theta, prior_mean(len(theta)), strict=True):
        total.append(prior_precision(weights) / 2 * (value - expected) ** 2)
    return math.fsum(total)


def derivatives(theta, phis, labels, weights):
    """Minus the gradient of the penalised loss, and its second derivative (the information)."""
    count, precision = len(theta), prior_precision(weights)
    expected = prior_mean(count)
    gradient = [-precision * (theta[p] - expected[p]) for p in range(count)]
    information = [[precision * (p == q) for q in range(count)] for p in range(count)]
    for phi, y, w in zip(phis, labels, weights, strict=True):
        g = start_of(phi, theta)
        score, own = score_of(phi, g, y), information_of(phi, g)
        for p in range(count):
            gradient[p] += w * score[p]
            for q in range(count):
                information[p][q] += w * own[p][q]
    return gradient, information


@cache
def fit(points, labels, weights, start, smallest_step=SMALLEST_STEP):
    """(theta, information) by Newton's method from the prior mean.

    A step is halved until it brings a tenth of the gain that the gradient promises. A step of
    at most `smallest_step` is not taken: the fit is accurate to about its size.
    """
    phis = [features(f, start) for f in points]
    theta = prior_mean(n_parameters(start, len(points[0])))
    for _ in range(30):
        gradient, information = derivatives(theta, phis, labels, weights)
        step = solve(information, gradient)
        if max(abs(s) for s in step) < smallest_step:
            break
        before = penalised_loss(theta, phis, labels, weights)
        for _ in range(30):
            reached = [t + s for t, s in zip(theta, step, strict=True)]
            after = penalised_loss(reached, phis, labels, weights)
            if after <= before - dot(gradient, step) / 10:
                break
            step = [s / 2 for s in step]
        theta = [t + s for t, s in zip(theta, step, strict=True)]
    return theta, derivatives(theta, phis, labels, weights)[1]


@cache
def left_out_starts(points, labels, weights, start):
    """g_i, row i left out of the fit by one Newton step, clipped in each parameter."""
    if start == "identity":
        return list(points)
    theta, information = fit(points, labels, weights, start)
    count, result = len(theta), []
    for f, y, w in zip(points, labels, weights, strict=True):
        phi = features(f, start)
        g = start_of(phi, theta)
        own = information_of(phi, g)
        rest = [[information[p][q] - w * own[p][q] for q in range(count)] for p in range(count)]
        move = solve(rest, [w * s for s in score_of(phi, g, y)])
        without = [
            t - max(-LARGEST_MOVE, min(LARGEST_MOVE, m)) for t, m in zip(theta, move, strict=True)
        ]
        result.append(start_of(phi, without))
    return result


# The smoother.


def flattened(f, tau):
    """f^tau, renormalised."""
    return tuple(f) if tau == 1.0 else tuple(softmax([tau * log(f_k) for f_k in f]))


@cache
def weights_of_row(i, points, weights, kernel, h, tau):
    """w_ij over all rows j, 0 for row i itself.

    They sum to 1; to less where row i is alone: with `rest` the sum of the kernel over the others
    and `own` what the sample itself would add to it, to min(1, rest / (ALONE own)). A row without
    weight is as alone as one of mean weight would be.
    """
    x = [flattened(f, tau) for f in points]
    others = [j for j in range(len(x)) if j != i and weights[j] > 0]
    scores = {j: oracle.KERNELS[kernel](x[i], x[j], h) for j in others}
    top = max(scores.values())
    terms = {j: weights[j] * math.exp(scores[j] - top) for j in others}
    rest = math.fsum(terms.values())
    own = math.log(weights[i] or mean_weight(weights)) + oracle.KERNELS[kernel](x[i], x[i], h)
    share = math.exp(min(math.log(rest) + top - own - math.log(ALONE), 0.0))
    return [share * terms.get(j, 0.0) / rest for j in range(len(x))]


def smoothed(w_i, values):
    """sum_j w_ij v_j of vectors over outcomes."""
    return [math.fsum(w * v[k] for w, v in zip(w_i, values, strict=True))
            for k in range(len(values[0]))]  # fmt: skip


def smoothed_slopes(w_i, slopes):
    """sum_j w_ij slopes_j, table[k][p]."""
    return [
        [
            math.fsum(w * table[k][p] for w, table in zip(w_i, slopes, strict=True))
            for p in range(len(slopes[0][0]))
        ]
        for k in range(len(slopes[0]))
    ]


# The noise of the fit.


def products(weights, a, b):
    """sum_i w_i sum_k a_i[k][p] b_i[k][q]."""
    counts = range(len(a[0][0])), range(len(b[0][0]))
    return [
        [
            math.fsum(
                w * a_i[k][p] * b_i[k][q]
                for w, a_i, b_i in zip(weights, a, b, strict=True)
                for k in range(len(a_i))
            )
            for q in counts[1]
        ]
        for p in counts[0]
    ]


def left_of_noise(weights, slopes, averages, information):
    """(V - O V O') V^-1: the share of the variance of theta that is not noise of the averages.

    V is the inverse of the information, and O, the overlap, is the least-squares fit
    smoothed slopes = slopes O. In coordinates in which V is the identity no direction of O V O'
    counts more than once.
    """
    overlap = product(
        pseudo_inverse(products(weights, slopes, slopes)), products(weights, slopes, averages)
    )
    pairs = eigen(information)  # all positive, by the prior
    root = of_eigenvectors(pairs, math.sqrt)
    inverse = of_eigenvectors(pairs, lambda value: 1 / math.sqrt(value))
    standard = product(product(root, overlap), inverse)
    seen = eigen(product(standard, transposed(standard)))
    remaining = of_eigenvectors(seen, lambda value: 1.0 - min(value, 1.0))
    return product(product(inverse, remaining), root)


# R and the terms.


def onto_simplex(g, q):
    """g + q, each entry at least a tenth of that of g, renormalised."""
    R = [max(g_k + q_k, KEPT_SHARE * g_k) for g_k, q_k in zip(g, q, strict=True)]
    return [r / math.fsum(R) for r in R]


@cache
def smoothed_rows(points, labels, weights, start, kernel, h, tau):
    """(R_i, s_i, shift_i) of every row: nothing here depends on the loss."""
    n, n_classes = len(points), len(points[0])
    g = left_out_starts(points, labels, weights, start)
    w = [weights_of_row(i, points, weights, kernel, h, tau) for i in range(n)]
    q = smoothed_residuals(points, labels, weights, start, kernel, h, tau)
    s = [dot(w[i], w[i]) for i in range(n)]
    shift = [[0.0] * n_classes for _ in range(n)]
    if start != "identity":
        _, information = fit(points, labels, weights, start)
        phis = [features(f, start) for f in points]
        slopes = [slopes_of(phis[i], g[i]) for i in range(n)]
        averages = [smoothed_slopes(w[i], slopes) for i in range(n)]
        left = left_of_noise(weights, slopes, averages, information)
        for i in range(n):
            score = score_of(phis[i], g[i], labels[i])
            push = solve(information, [weights[i] * each for each in score])
            shift[i] = moved(slopes[i], [dot(row, push) for row in left])
            # The row leaves the starts of its neighbours too.
            q[i] = [q_k + by for q_k, by in zip(q[i], moved(averages[i], push), strict=True)]
    return [(onto_simplex(g[i], q[i]), s[i], shift[i]) for i in range(n)]


def smoothed_residuals(points, labels, weights, start, kernel, h, tau):
    """sum_j w_ij (y_j - g_j) of every row i."""
    n, n_classes = len(points), len(points[0])
    g = left_out_starts(points, labels, weights, start)
    residuals = [[(labels[i] == k) - g[i][k] for k in range(n_classes)] for i in range(n)]
    return [
        smoothed(weights_of_row(i, points, weights, kernel, h, tau), residuals) for i in range(n)
    ]


def terms(loss, f, y, R, s, shift):
    """The terms of one row by one tuning.

    term = <y, l(f)> - 1/2 <y, l(R) + l(R + s (y - R) + shift)>
    """
    let_in = [
        min(max(R[k] + s * ((y == k) - R[k]) + shift[k], KEPT_SHARE * R[k]), 1.0)
        for k in range(len(R))
    ]
    refinement = (loss(R)[y] + loss(let_in)[y]) / 2
    gain = [a - b for a, b in zip(loss(f), loss(R), strict=True)]
    return {
        "terms": loss(f)[y] - refinement,
        "risk": loss(f)[y],
        "plugin": dot(R, gain),
        "left_out": loss(R)[y],
        "variance_removed": loss(R)[y] - refinement,
        "gains": gain,
        "conditional": R,
    }


# Weights of several tunings.


def likelihood_scale(loss, g, weights, tempering):
    """lambda = tempering 2 D / V: mean cost of a small change of a true g, and its variance."""
    cost, noise = [], []
    for g_i, w in zip(g, weights, strict=True):
        excess = [a - b for a, b in zip(loss(flattened(g_i, BENT)), loss(g_i), strict=True)]
        mean = dot(g_i, excess)
        cost.append(w * mean)
        noise.append(w * dot(g_i, [(e - mean) ** 2 for e in excess]))
    cost, noise = math.fsum(cost), math.fsum(noise)
    return tempering * 2 * cost / noise if cost > 0 and noise > 0 else 0.0


def losses_of_candidates(problem, weights, loss, start, kernel, candidates, tempering):
    """(lambda, [lambda L_c]) for samples of mean weight 1: L_c = sum_i w_i <y_i, l(R_ci)>.

    R is without the row's part in the starts of its neighbours.
    """
    points, labels = problem
    g = left_out_starts(points, labels, weights, start)
    scale = likelihood_scale(loss, g, weights, tempering) / mean_weight(weights)
    losses = []
    for h, tau in candidates:
        q = smoothed_residuals(points, labels, weights, start, kernel, h, tau)
        R = [onto_simplex(g_i, q_i) for g_i, q_i in zip(g, q, strict=True)]
        total = math.fsum(w * loss(r)[y] for w, r, y in zip(weights, R, labels, strict=True))
        losses.append(scale * total)
    return scale, losses


def pooled(losses, share, limit):
    """(D_kc + share sum_(j != k) min(D_jc, limit)) / (1 + share / (K - 1)), D_kc from the least.

    Of one problem and of two mirrored ones D_kc itself.
    """
    excess = [[loss - min(own) for loss in own] for own in losses]
    n_classes = len(losses)
    if n_classes < 3:
        return excess
    result = []
    for k in range(n_classes):
        others = [j for j in range(n_classes) if j != k]
        added = [math.fsum(min(excess[j][c], limit) for j in others) for c in range(len(excess[k]))]
        result.append(
            [
                (own + share * more) / (1 + share / (n_classes - 1))
                for own, more in zip(excess[k], added, strict=True)
            ]
        )
    return result


def weighted_tunings(losses, candidates, share, most):
    """(tunings, evidence): candidates (h, tau) that hold a share of the weight, best first.

    evidence_c = log h_c - losses_c.
    """
    evidence = [math.log(h) - loss for (h, _), loss in zip(candidates, losses, strict=True)]
    order = sorted(range(len(candidates)), key=lambda c: -evidence[c])
    shares, kept = softmax(evidence), []
    for c in order:
        kept.append(c)
        if math.fsum(shares[b] for b in kept) >= share or len(kept) == most:
            break
    return [candidates[c] for c in kept], [evidence[c] for c in kept]


def own_weights(evidence, scale, losses, own_share):
    """omega_c of one row: proportional to exp(evidence_c + own_share scale l_c).

    l_c is what the row adds to the losses of the tuning, its weight included.
    """
    return softmax([e + own_share * scale * x for e, x in zip(evidence, losses, strict=True)])


def debiased(
    problem, weights, loss, start, kernel, tunings, evidence=(0.0,), scale=0.0, own_share=0.0
):
    """Terms of every row of a problem (points, labels), averaged over tunings (h, tau)."""
    points, labels = problem
    by_tuning = []
    for h, tau in tunings:
        rows = smoothed_rows(points, labels, weights, start, kernel, h, tau)
        by_tuning.append(
            [terms(loss, f, y, *row) for f, y, row in zip(points, labels, rows, strict=True)]
        )
    result = []
    for i, f in enumerate(points):
        each = [rows[i] for rows in by_tuning]
        own = [weights[i] * row["left_out"] for row in each]
        omega = own_weights(evidence, scale, own, own_share)
        mean = {
            name: dot(omega, [row[name] for row in each])
            for name in ("terms", "risk", "plugin", "left_out", "variance_removed")
        }
        for name in ("gains", "conditional"):
            mean[name] = [dot(omega, [row[name][k] for row in each]) for k in range(len(f))]
        mean["reconstructed_risk"] = dot(mean["conditional"], loss(f))
        result.append(mean)
    return result


def mean_terms(rows, weights):
    """Weighted mean of each term that is a number."""
    total = math.fsum(weights)
    return {
        name: math.fsum(w * row[name] for w, row in zip(weights, rows, strict=True)) / total
        for name in rows[0]
        if isinstance(rows[0][name], float)
    }
