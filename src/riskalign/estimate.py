"""From predictions and labels to a calibration error: check, dispatch, return."""

from __future__ import annotations

from collections.abc import Sequence

from riskalign.bandwidth.criteria import CRITERIA
from riskalign.bandwidth.result import BandwidthSearch
from riskalign.bandwidth.search import Bandwidth, Candidates, search_bandwidth
from riskalign.data.validation import as_sample, one_of
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import ProperLoss
from riskalign.methods import KernelSmoother
from riskalign.methods.curve import ReliabilityCurve, curve_of, grid_points
from riskalign.methods.isotonic import IsotonicBand, band_of
from riskalign.methods.method import Method
from riskalign.options import (
    check_confidence,
    choose_method,
    engine_of,
    make_case,
    sketched_case,
)
from riskalign.pipeline import error_of
from riskalign.results import CalibrationResult


def calibration_error(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    method: Method | None = None,
    estimator: str = "debiased",
    bandwidth: Bandwidth | None = None,
    kernel: str = "dirichlet",
    candidates: Candidates = None,
    power: float = 2,
    start: str = "logistic",
    norm: str | None = None,
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
    """Estimate how far predicted probabilities are from the frequencies observed.

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
        `candidates`, `power` and `norm`, which are the options of the default, `KernelSmoother`.
    estimator : {"debiased", "plugin", "variational", "cross"}
        "debiased" smooths residuals and removes the bias that their noise adds; it may be slightly
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
        Which first-stage recalibration g a debiased error subtracts before it smooths: Platt
        scaling, a slope and a shift of the log-odds (for canonical errors of more than two classes
        its analogue: a temperature, one shift per class for up to 30 classes, and a term that
        raises small probabilities); temperature scaling; or none.
    norm : {"l1", "l2", "euclidean", "max"}, optional
        A norm of R - f on the scale of probabilities in place of the mean divergence of a loss:
        "l1" is the mean of |R - f|, summed over classes for class-wise and canonical errors (the
        ECE; `result.too_high` and `result.too_low` are its two sides); "l2" is the root mean
        square, the square root of the error of loss="l2"; "euclidean" is the mean length of the
        vector R - f, for canonical errors; "max" is the largest |R - f| of a plug-in estimate, for
        one probability.
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
    sample = as_sample(y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes)
    options = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start, norm)
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
    sample = as_sample(y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes)
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
    estimator: str = "debiased",
    bandwidth: Bandwidth | None = None,
    kernel: str = "dirichlet",
    candidates: Candidates = None,
    power: float = 2,
    start: str = "logistic",
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
        As for `calibration_error`: by default the curve is the R behind its error.
        "debiased" curves smooth residuals, others labels.

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
    sample = as_sample(y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes)
    case = sketched_case(sample, notion, loss, engine, weighted=sample_weight is not None)
    method = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start)
    method.check(len(case.problems), case.notion.name)
    points = grid_points(grid, case.notion, case.problems[0].n_classes)
    return curve_of(case, method, points, engine_of(engine), progress)


def isotonic_band(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    confidence: float = 0.95,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
) -> IsotonicBand:
    """Fit an isotonic curve of E[y | f] with a confidence band.

    The band assumes that E[y | f] does not decrease in f and that samples are independent, and
    nothing else: it covers the whole curve with at least the given probability for any number of
    samples. It is therefore wider than bands that hold approximately or point by point.

    Parameters
    ----------
    notion : {"binary", "top-label"}
        What must be calibrated; "binary" by default, for one probability or two classes.
    confidence : float
        Probability with which the band covers the whole curve.
    others
        As for `calibration_error`. Samples have no weights.

    Returns
    -------
    IsotonicBand

    References
    ----------
    Dimitriadis, Dümbgen, Henzi, Puke, Ziegel: Honest calibration assessment for binary outcome
    predictions, Biometrika 110(3), 2023.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(2000, 2, t2=0.5, seed=0)
    >>> band = ra.isotonic_band(data.y_true, data.y_prob)
    >>> band.excludes([0.5, 0.9]).tolist()  # over-confident: fewer than 90% are right at 0.9
    [False, True]
    """
    check_confidence(confidence, KernelSmoother())
    sample = as_sample(
        y_true,
        y_prob,
        from_logits=from_logits,
        normalize=normalize,
        ignore_index=ignore_index,
        classes=classes,
    )
    case = make_case(sample, notion, "l2")
    if len(case.problems) > 1 or case.notion.joint:
        raise ValueError(
            f"`isotonic_band` is for one probability; notion={case.notion.name!r} has more. Pass "
            "notion='top-label', or one column of `y_prob` with labels 0 and 1."
        )
    return IsotonicBand(case.notion.name, *band_of(case.problems[0], confidence), confidence)
