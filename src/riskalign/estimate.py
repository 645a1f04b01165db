"""From predictions and labels to a calibration error: the one place that composes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riskalign.bandwidth.coordinates import Choice
from riskalign.bandwidth.search import CRITERIA, BandwidthSearch
from riskalign.composition import Case, by_method, overconfidence
from riskalign.data.validation import as_sample, one_of
from riskalign.debiasing import DEBIASED, by_residuals, found_by
from riskalign.equations.arrays import FloatArray, IntArray, as_slice
from riskalign.equations.losses import ProperLoss
from riskalign.equations.starts import STARTS, Start
from riskalign.equations.terms import ESTIMATORS, Terms, decompose
from riskalign.inference.interval import Fit
from riskalign.methods import check_scope
from riskalign.methods.curve import ReliabilityCurve, curve_of_labels, curve_of_residuals
from riskalign.methods.method import Bandwidth, Candidates, KernelSmoother, Method, norm_of
from riskalign.methods.recalibration import align, choose_by_risk
from riskalign.methods.residuals import debiased
from riskalign.options import (
    Setup,
    check_confidence,
    choose_method,
    default_notion,
    grid_points,
    make_case,
    make_setup,
    resolve_bandwidth,
    search_bandwidth,
    smoothing_choices,
)
from riskalign.progress import track
from riskalign.results import CalibrationResult
from riskalign.smoothing import Average


def calibration_error(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    method: Method | KernelSmoother | None = None,
    estimator: str = DEBIASED,
    bandwidth: Bandwidth | None = None,
    kernel: str = "dirichlet",
    candidates: Candidates = None,
    power: float = 2,
    start: str = "logistic",
    confidence: float | None = None,
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    progress: bool | None = None,
) -> CalibrationResult:
    """Estimate how far predicted probabilities are from the frequencies they promise.

    With R = E[y | f], the error is the mean of <R, l(f) - l(R)>, the Bregman divergence
    between R and f that belongs to the loss l.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, K)
        Labels: class numbers, names (with `classes`), or one-hot rows.
    y_prob : array-like of shape (n,) or (n, K)
        Predictions: the probability of class 1, or of each class. Rows may sum to one within
        1e-3 and are used as given; where a problem is made from one probability, one that
        rounding put above 1 counts as 1.
    notion : {"binary", "top-label", "classwise", "canonical"}, optional
        What must be calibrated: P(y = 1); the probability of the predicted class; each
        class's probability (the errors are summed); the whole vector. Default: "binary" for
        one probability, else "classwise".
    loss : {"l2", "kl", "ranked"} or ProperLoss
        Squared error, log loss, ranked probability score (ordered classes), or your own.
    method : KernelSmoother, EqualWidthBins, EqualMassBins, SimplexBins, KernelRidge, ...
        How R or the error is estimated, in place of `estimator`, `bandwidth`, `kernel`,
        `candidates` and `power`, which are the options of the default, `KernelSmoother`.
    estimator : {"debiased", "plugin", "variational", "cross"}
        "debiased" smooths residuals and takes out what their noise adds; it may be slightly
        negative for a calibrated model. The others smooth labels, as the paper does: mean of
        <R, l(f) - l(R)>; of <y, l(f) - l(R)>; of the mean of the two.
    bandwidth : str, float, sequence of K floats or BandwidthSearch
        A criterion ("risk-alignment", "likelihood", "cross-validation"), the bandwidth
        itself (one, or one a class), or the outcome of `select_bandwidth`. Default:
        "risk-alignment"; for debiased errors "cross-validation" of the smoothed residuals,
        which chooses the kernel's coordinates too. Each of five folds of the rows is then
        smoothed as the other rows choose; the median of the five is shown.
    kernel : {"dirichlet", "rbf"}
        Dirichlet (Beta for one probability), or Gaussian, whose bandwidth is a standard
        deviation.
    candidates : None, "paper" or array-like
        Bandwidths to choose from: the paper's range searched continuously, the paper's set,
        or your own.
    power : float
        p of the risk-alignment objective sum |reconstructed - observed risk|^p.
    start : {"logistic", "temperature", "identity"}
        Whose residuals a debiased error smooths: those of f at the temperature that fits,
        with "logistic" also shifted in log-odds as fits best (Platt's scaling; of more than
        two classes each is shifted, up to 30 of them, and small probabilities are lifted), or
        of f itself.
    confidence : float, optional
        Level of the interval of a debiased error, such as 0.95.
    sample_weight : array-like of shape (n,), optional
        Weights in kernel sums, criteria and averages. An integer weight m equals m copies
        wherever no sample is left out and no start is fitted (`reliability_curve`); here it
        differs, because leaving out one copy keeps the others, while leaving out a weighted
        sample removes all of it.
    from_logits : bool
        `y_prob` holds logits: take the softmax (the logistic function of one column).
    normalize : bool
        Rescale rows of `y_prob` to sum to one.
    ignore_index : int, optional
        Label of rows to leave out.
    classes : sequence, optional
        Labels in the order of the columns of `y_prob`.
    engine : {"auto", "exact", "grid"}
        "exact" sums over all pairs in float64; "grid" interpolates sums between nodes, for
        problems made from one probability, in O(n). "auto" chooses by structure.
    progress : bool, optional
        Show a progress bar; by default on a terminal.

    Returns
    -------
    CalibrationResult

    References
    ----------
    Zhou, Popordanoska, Blaschko: Bandwidth Selection in Kernel Density Estimation for Model
    Calibration, UAI 2026.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(2000, 4, t2=0.6, seed=0)
    >>> result = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95)
    >>> low, high = result.interval
    >>> bool(low < data.truth(notion="classwise", loss="l2") < high)
    True
    """
    sample = as_sample(
        y_true,
        y_prob,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        ignore_index=ignore_index,
        classes=classes,
    )
    options = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start)
    chosen = choose_method(method, options, engine)
    case = make_case(sample, default_notion(notion, y_prob), loss)
    check_scope(chosen, case.notion, case.loss)
    check_confidence(confidence, chosen)
    if not isinstance(chosen, KernelSmoother):
        return by_method(case, chosen)
    one_of("estimator", chosen.estimator, (*ESTIMATORS, DEBIASED))
    one_of("start", chosen.start, STARTS)
    if chosen.estimator == DEBIASED and chosen.norm is None:
        fit, found = fit_debiased(case, chosen, engine, progress)
        return by_residuals(case, fit, found, confidence)
    setup = make_setup(case, chosen.kernel, engine, progress)
    bandwidths, search = resolve_bandwidth(setup, chosen.bandwidth, chosen.candidates, chosen.power)
    return _estimate(setup, bandwidths, search, chosen)


def select_bandwidth(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    criterion: str = "risk-alignment",
    kernel: str = "dirichlet",
    candidates: Candidates = None,
    power: float = 2,
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    progress: bool | None = None,
) -> BandwidthSearch:
    """Choose the kernel's bandwidth, and keep the curve it was read from.

    Parameters are those of `calibration_error`; `criterion` is its `bandwidth`.

    Returns
    -------
    BandwidthSearch
        To look at, or to pass as `bandwidth`.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> search = ra.select_bandwidth(data.y_true, data.y_prob, candidates=[0.001, 0.01, 0.1])
    >>> search.value.shape, len(search.objective)
    ((3,), 3)
    >>> result = ra.calibration_error(data.y_true, data.y_prob, bandwidth=search)
    >>> bool((result.bandwidth == search.value).all())
    True
    """
    sample = as_sample(
        y_true,
        y_prob,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        ignore_index=ignore_index,
        classes=classes,
    )
    case = make_case(sample, default_notion(notion, y_prob), loss)
    setup = make_setup(case, kernel, engine, progress)
    return search_bandwidth(setup, one_of("criterion", criterion, CRITERIA), candidates, power)


def reliability_curve(
    y_true: object,
    y_prob: object,
    *,
    grid: object = 101,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    estimator: str = "plugin",
    bandwidth: Bandwidth | None = None,
    kernel: str = "dirichlet",
    candidates: Candidates = None,
    power: float = 2,
    start: str = "identity",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    progress: bool | None = None,
) -> ReliabilityCurve:
    """Estimate E[y | f] at points of your choice; no sample is left out.

    Parameters
    ----------
    grid : int or array-like
        Number of evenly spaced probabilities, the probabilities ``(m,)``, or for the
        canonical notion points of the simplex ``(m, K)``.
    others
        As for `calibration_error`. "debiased" curves smooth residuals, others labels; their
        bandwidth is risk-aligned by default, and the kernel's coordinates with it.

    Returns
    -------
    ReliabilityCurve

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 3, seed=0)
    >>> curve = ra.reliability_curve(data.y_true, data.y_prob, grid=[0.2, 0.5, 0.8])
    >>> curve.conditional.shape
    (3, 3)
    """
    sample = as_sample(
        y_true,
        y_prob,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        ignore_index=ignore_index,
        classes=classes,
    )
    case = make_case(sample, default_notion(notion, y_prob), loss)
    setup = make_setup(case, kernel, engine, progress)
    points = grid_points(grid, setup)
    one_of("start", start, STARTS)
    if one_of("estimator", estimator, (*ESTIMATORS, DEBIASED)) == DEBIASED:
        options = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start)
        choices = _curve_choices(setup, options, engine)
        return curve_of_residuals(case, points, setup.kernel, engine, start, choices)
    bandwidths, _ = resolve_bandwidth(setup, bandwidth, candidates, power)
    choices = [Choice(h) for h in bandwidths.tolist()]
    return curve_of_labels(case, points, setup.kernel, engine, choices)


def _estimate(
    setup: Setup, bandwidths: FloatArray, search: BandwidthSearch | None, method: KernelSmoother
) -> CalibrationResult:
    weights = setup.sample.weights / setup.sample.weights.sum()
    totals = np.zeros((4, len(setup.problems)))
    conditional = np.empty((len(weights), setup.n_columns))

    def rows_of(k: int, rows: IntArray) -> Callable[[Average], tuple[FloatArray, Terms]]:
        part = setup.problems[k].take(as_slice(rows))
        return lambda average: (
            average.mean,
            decompose(part.loss, part.points, part.labels, average.mean),
        )

    requests = list(enumerate(bandwidths.tolist()))
    tiles = setup.smoother.each(requests, rows_of)
    steps = ((len(tile[1]), tile) for tile in tiles)
    total = len(weights) * len(requests)
    for k, rows, (R, terms) in track(steps, total, "estimate", setup.progress):
        parts = (
            getattr(terms, method.estimator),
            terms.risk,
            terms.refinement,
            terms.reconstructed_risk,
        )
        totals[:, k] += [weights[rows] @ part for part in parts]
        if setup.problems[k].predictions.ndim == 1:
            conditional[rows, k] = R[:, 1]
        else:
            conditional[rows] = R

    value, risk, refinement, reconstructed = totals.sum(axis=1).tolist()
    if method.norm is not None:
        value = norm_of(conditional[:, 0] - setup.problems[0].predictions, weights, method.norm)
    return CalibrationResult(
        value=value,
        risk=risk,
        refinement=refinement,
        reconstructed_risk=reconstructed,
        bandwidth=setup.shown_bandwidth(bandwidths),
        per_class=totals[0] if setup.notion == "classwise" else None,
        search=search,
        overconfidence=overconfidence(setup, conditional),
        conditional=conditional[:, 0] if setup.single else conditional,
        notion=setup.notion,
        loss=setup.loss.name,
        estimator=method.estimator if method.norm is None else None,
        kernel=setup.kernel.name,
        definition=_definition(setup, method),
        classes=setup.sample.classes,
        n_samples=len(weights),
        method="KernelSmoother",
        norm=method.norm,
    )


def fit_debiased(
    case: Case, method: KernelSmoother, engine: str, progress: bool | None
) -> tuple[Fit, BandwidthSearch | None]:
    """The debiased estimates of a case, and the search that found their bandwidths."""
    setup = make_setup(case, method.kernel, engine, progress)
    choices, candidates, search = smoothing_choices(setup, method)
    estimates, parts = debiased(
        case.problems, setup.kernel, engine, method.start, choices, candidates, progress
    )
    fit = Fit(
        case.sample,
        case.notion,
        case.loss,
        case.problems,
        estimates,
        parts,
        setup.kernel,
        engine,
        method.start,
    )
    return fit, search or found_by(estimates, case.notion == "classwise")


def _curve_choices(setup: Setup, method: KernelSmoother, engine: str) -> list[Choice]:
    """How the residuals of a curve are smoothed: as asked for, or by risk alignment."""
    if method.bandwidth is None and method.candidates is None:
        return align(setup.problems, setup.kernel, engine, method.power, setup.progress)
    choices, candidates, _ = smoothing_choices(setup, method)
    if choices is not None:
        return choices
    starts = [Start.fit(problem, method.start).at(problem.points) for problem in setup.problems]
    return choose_by_risk(setup.problems, starts, setup.kernel, engine, candidates, setup.progress)


def _definition(setup: Setup, method: KernelSmoother) -> str:
    """What the value estimates, in words."""
    if method.norm is not None:
        of = {"l1": "mean of |R - f|", "l2": "root mean square of R - f", "max": "max of |R - f|"}
        return of[method.norm]
    return setup.over_problems(f"mean {setup.divergence}")
