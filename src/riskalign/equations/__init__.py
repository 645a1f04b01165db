"""The equations: arrays in, arrays out, in the notation of the paper.

There are n samples and K classes. Rows are samples, columns are classes.

    f       predictions ``(n, K)``, each row a point of the simplex. A binary, top-label or
            class-wise problem has one probability p per row: it is stored as ``(n,)``, and
            enters the equations as the pair (1 - p, p), so that K = 2
    y       labels: one-hot rows ``(n, K)`` in formulas, column numbers ``(n,)`` in code
    R       an estimate of E[y | f], ``(n, K)``
    l(f)    a proper loss ``(n, K)``: column k is what f suffers when class k comes true
    <a, b>  the inner product over classes, row by row, ``(n,)``: <y, l(f)> is the observed
            risk, and <R, l(f) - l(R)> is the divergence of R from f, the calibration error

A kernel k_h(x; c) is centred at a data point c and evaluated at x.

    h       the bandwidth, one for each problem (class-wise: one for each class)
    tau     the flattening: a kernel may see f^tau, renormalised, in place of f. The map is
            invertible and leaves E[y | f] as it is
    w_ij    k_h(f_i; f_j) times the weight of sample j, divided by the sum of these over all
            j other than i; w_ii = 0. Every row is left out of its own average
    W       the operator (W a)_i = sum_j w_ij a_j on arrays ``(n, d)``, never held as a matrix
    s       ``(n,)``, s_i = sum_j w_ij^2: one over the effective number of neighbours

The paper's estimate smooths labels: R = W y. The debiased estimate smooths residuals, so that
smoothing bias affects only what a simple model has missed: R = g + W e.

    g       the start ``(n, K)``: f itself, or f corrected by a few parameters, fitted without
            the row at which it is evaluated
    e       the residuals y - g, ``(n, K)``

Conventions: logarithms are natural, and no probability inside one is below `arrays.FLOOR`.
Terms are given row by row, ``(n,)``; the caller takes their mean, weighted by the samples'
weights. Sums over classes are left as sums. The loss of a problem made from one probability
is the loss's binary form, which for the squared error has one term: (1 - p)^2 or p^2.

Modules: `arrays` (types, the floor), `simplex` (points and powers of f), `problem` (rows with
labels and a loss), `losses` (l), `kernels` (k_h), `terms` (of the risk, from f, y and R), `starts`
(g), `debiased` (the default estimate), `fit_noise` (what the fit of g adds to its noise), `curves`
and `curve_fit` (finer curves on top of g), `norms` (of R - f), `gaps` (mean of f against mean of y)
and `evidence` (for that, class by class).
"""
