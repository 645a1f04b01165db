"""From predictions and labels to a calibration error: check, dispatch, return."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskalign.bandwidth.search import (
    CRITERIA,
    Bandwidth,
    BandwidthSearch,
    Candidates,
    search_bandwidth,
)
from riskalign.compose import compose
from riskalign.data.case import Case
from riskalign.data.sample import Sample
from riskalign.data.settings import Settings
from riskalign.data.state import SketchState
from riskalign.data.validation import as_sample, one_of
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import ProperLoss
from riskalign.equations.starts import STARTS
from riskalign.inference.interval import Chance
from riskalign.inference.null import Model
from riskalign.methods import KernelSmoother, check_scope
from riskalign.methods.curve import ReliabilityCurve, curve_of, grid_points
from riskalign.methods.kernel import DEBIASED
from riskalign.methods.method import Method, Outcome
from riskalign.options import (
    check_confidence,
    choose_method,
    engine_of,
    loss_of,
    make_case,
    notion_of,
)
from riskalign.results import CalibrationResult, Interval
from riskalign.smoothing import read_at
from riskalign.smoothing.threads import one_blas_thread


def calibration_error(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    method: Method | None = None,
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
    seed: int = 0,
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
        one probability and for two classes (of which the second is the positive one), else
        "classwise".
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
        itself (one, or one per class), or the outcome of `select_bandwidth`. Default:
        "risk-alignment"; for debiased errors "cross-validation" of the smoothed residuals,
        which weights candidate bandwidths and coordinates of the kernel by their leave-one-out
        risk. The candidate of the largest weight is shown.
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
    seed : int
        Seed of the label sets that are drawn for the interval. They depend on the data beside
        it, not on the order of the rows.
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
    if not isinstance(chosen, KernelSmoother):  # the other methods see every row
        case, rows = make_case(sample, notion, loss), None
    else:
        weighted = sample_weight is not None
        case, rows = sketched_case(sample, notion, loss, engine, weighted=weighted), sample
    return error_of(
        case, chosen, confidence, engine=engine, seed=seed, progress=progress, rows=rows
    )


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
    case = sketched_case(sample, notion, loss, engine, weighted=sample_weight is not None)
    return search_bandwidth(
        case.problems,
        KERNELS[one_of("kernel", kernel, KERNELS)],
        one_of("criterion", criterion, CRITERIA),
        per_class=case.notion.per_class,
        candidates=candidates,
        power=power,
        engine=engine_of(engine),
        progress=progress,
    )


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
    case = sketched_case(sample, notion, loss, engine, weighted=sample_weight is not None)
    method = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start)
    method.check(len(case.problems), case.notion.name)
    points = grid_points(grid, case.notion, case.problems[0].n_classes)
    return curve_of(case, method, points, engine_of(engine), progress)


def error_of(
    case: Case,
    method: Method,
    confidence: float | None = None,
    *,
    engine: str = "auto",
    seed: int = 0,
    progress: bool | None = None,
    rows: Sample | None = None,
) -> CalibrationResult:
    """The calibration error of a case, with its interval if a confidence is given.

    `rows` are the user's rows, at which R is wanted, where they are not those of the case.
    """
    check_scope(method, case.notion.name, case.loss)
    check_confidence(confidence, method)
    if isinstance(method, KernelSmoother):
        method.check(len(case.problems), case.notion.name)
    engine_of(engine)
    interval = None
    with one_blas_thread:
        outcome = method.outcome(case, engine, progress)
        if confidence is not None and isinstance(method, KernelSmoother):
            interval = interval_of(case, method, outcome, confidence, engine, seed)
        return compose(case, method, outcome, interval, rows)


def sketched_case(
    sample: Sample, notion: str | None, loss: str | ProperLoss, engine: str, *, weighted: bool
) -> Case:
    """What is asked of a sample in memory, as of a sketch of one batch.

    Exact sums need all rows, so that the sketch keeps them.
    """
    asked = notion_of(notion, len(sample.classes))
    limit = len(sample.labels) if engine == "exact" else None
    state = SketchState(Settings.of(asked.name, sample.classes, limit))
    state.update(sample.probabilities, sample.labels, sample.weights if weighted else None)
    return Case.of_state(state, loss_of(loss, asked, len(sample.classes)))


def interval_of(
    case: Case, method: KernelSmoother, outcome: Outcome, confidence: float, engine: str, seed: int
) -> Interval:
    """The interval of a debiased error."""
    assert outcome.residuals is not None
    if not len(case.sample.labels):
        raise ValueError(
            "`confidence` needs some rows of a class-wise or canonical sketch, to see how classes "
            "vary together; this one was made with exact_limit=0. Make it with a larger one."
        )
    chance = Chance.of(
        model_of(case, method, outcome, engine), outcome.residuals, case.n_samples, seed
    )
    value = float(np.sum([estimate.value for estimate in outcome.estimates]))
    return Interval(chance.standard_error(value), chance.interval(value, confidence), confidence)


def model_of(case: Case, method: KernelSmoother, outcome: Outcome, engine: str) -> Model:
    """What intervals and comparisons need to know of a debiased estimate."""
    assert outcome.residuals is not None
    return Model(
        case.sample,
        case.notion,
        case.loss,
        KERNELS[method.kernel],
        engine,
        STARTS[method.start],
        [each.tunings for each in outcome.residuals],
    )


def row_terms(case: Case, method: KernelSmoother, outcome: Outcome) -> FloatArray:
    """The terms of a debiased error at each row of the case, summed over problems, ``(n,)``."""
    assert outcome.residuals is not None
    rows, kernel = np.arange(len(case.sample.labels)), KERNELS[method.kernel]
    total = np.zeros(len(rows))
    for problem, each in zip(case.problems, outcome.residuals, strict=True):
        total += read_at(each.problem, each.terms[:, None], problem, rows, kernel)[:, 0]
    return total
