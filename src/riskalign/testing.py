"""Whether a model is calibrated, and which of two is calibrated better: check, dispatch, return."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskalign.data.hashing import hash_rows
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample, one_of
from riskalign.equations.arrays import IntArray
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import ProperLoss
from riskalign.estimate import model_of, row_terms, sketched_case
from riskalign.inference.calibration_test import CalibrationTest, perform_test
from riskalign.inference.comparison import Comparison, compared
from riskalign.methods import KernelSmoother
from riskalign.methods.kernel import DEBIASED
from riskalign.options import check_confidence, check_draws, engine_of, make_case


def calibration_test(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    n_draws: int = 999,
    seed: int = 0,
    kernel: str = "dirichlet",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    progress: bool | None = None,
) -> CalibrationTest:
    """Test whether the labels could have been drawn from the predictions.

    The mean of <y - f, l(f) - l(R)>, with R = f + smoothed residuals, is compared with that
    of label sets drawn from the predictions, at five bandwidths from wide to narrow. Nothing
    else depends on the labels, the bandwidths neither: the size is exact for any number of
    samples and classes. The null hypothesis is y ~ f, whatever the notion, which decides what
    departures are looked for: a model that is calibrated class by class but not as a whole
    may be rejected, and may be missed.

    Parameters
    ----------
    n_draws : int
        Label sets drawn. The smallest p-value is 1 / (n_draws + 1).
    seed : int
        Seed of the draws.
    others
        As for `calibration_error`.

    Returns
    -------
    CalibrationTest

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(1000, 3, t2=0.6, seed=0)
    >>> test = ra.calibration_test(data.y_true, data.y_prob, n_draws=99)
    >>> test.p_value
    0.01
    """
    check_draws(n_draws)
    sample = as_sample(
        y_true,
        y_prob,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        ignore_index=ignore_index,
        classes=classes,
    )
    weighted = sample_weight is not None
    case = sketched_case(sample, notion, loss, engine_of(engine), weighted=weighted)
    chosen = KERNELS[one_of("kernel", kernel, KERNELS)]
    return perform_test(case, chosen, engine, n_draws, seed, progress)


def compare(
    y_true: object,
    prob_a: object,
    prob_b: object,
    *,
    notion: str | None = None,
    loss: str | ProperLoss = "l2",
    names: tuple[str, str] = ("A", "B"),
    confidence: float = 0.95,
    start: str = "logistic",
    kernel: str = "dirichlet",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    engine: str = "auto",
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Compare the calibration errors of two models on the same samples.

    The difference of two debiased errors, with the interval of paired data: what moves both
    estimates alike does not widen it.

    Parameters
    ----------
    prob_a, prob_b : array-like of shape (n,) or (n, K)
        Predictions of the two models for the same samples.
    names : pair of str
        The models' names.
    confidence : float
        Level of the interval.
    others
        As for `calibration_error`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(2000, 3, t2=0.6, seed=0)
    >>> diff = ra.compare(data.y_true, data.y_prob, data.conditional, names=("model", "truth"))
    >>> diff.interval[0] > 0, diff.p_value < 0.001
    (True, True)
    """
    method = KernelSmoother(kernel=kernel, estimator=DEBIASED, start=start)
    check_confidence(confidence, method)
    samples = [
        as_sample(
            y_true,
            probabilities,
            sample_weight=sample_weight,
            from_logits=from_logits,
            normalize=normalize,
            ignore_index=ignore_index,
            classes=classes,
        )
        for probabilities in (prob_a, prob_b)
    ]
    if samples[0].probabilities.shape != samples[1].probabilities.shape:
        shapes = " and ".join(str(sample.probabilities.shape) for sample in samples)
        raise ValueError(f"`prob_a` and `prob_b` must have one shape; found {shapes}.")
    order = _order_of_content(samples)
    models, terms = [], []
    for sample in samples:
        case = make_case(sample.take(order), notion, loss)
        method.check(len(case.problems), case.notion.name)
        outcome = method.outcome(case, engine_of(engine), progress)
        models.append(model_of(case, method, outcome, engine))
        terms.append(row_terms(case, method, outcome))
    return compared(models, terms, names, confidence, seed)


def _order_of_content(samples: Sequence[Sample]) -> IntArray:
    """An order of the rows that depends on what they hold alone.

    It depends neither on how they came, nor on the scale of weights, nor on which model is first.
    """
    first, second = (hash_rows(sample.probabilities, sample.labels) for sample in samples)
    return np.lexsort((samples[0].weights, first + second))
