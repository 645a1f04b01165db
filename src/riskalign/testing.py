"""Whether a model is calibrated, and which of two is calibrated better: check, dispatch, return."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskalign.data.hashing import hash_rows
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.arrays import IntArray
from riskalign.equations.losses import ProperLoss
from riskalign.inference.calibration_test import CalibrationTest, perform_test
from riskalign.inference.comparison import Comparison, compared
from riskalign.inference.interval import doubts_of
from riskalign.methods import KernelSmoother
from riskalign.methods.kernel import DEBIASED
from riskalign.options import check_draws, check_question, make_case, sketched_case
from riskalign.pipeline import model_of, row_terms
from riskalign.sketches.sketch import CalibrationSketch


def calibration_test(
    y_true: object,
    y_prob: object,
    *,
    notion: str | None = None,
    n_draws: int = 999,
    seed: int = 0,
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    progress: bool | None = None,
) -> CalibrationTest:
    """Test whether the labels could have been drawn from the predictions.

    Label sets are drawn from the predictions, and several statistics of the residuals y - f are
    compared with theirs: smooth curves from a wrong level to fine structure, and cumulative sums,
    of the top label, of all classes as one and of each class. Their p-values are combined. The size
    is exact for any number of samples and classes. The null hypothesis is y ~ f, whatever the
    notion, which decides what departures are looked for: a model that is calibrated class by class
    but not as a whole may be rejected, and may be missed.

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
    check_draws(n_draws, seed)
    sample = as_sample(y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes)
    weighted = sample_weight is not None
    case = sketched_case(sample, notion, "l2", "auto", weighted=weighted)
    return perform_test(case, n_draws, seed, progress)


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
    if any(isinstance(given, CalibrationSketch) for given in (y_true, prob_a, prob_b)):
        raise TypeError(
            "`prob_a` and `prob_b` must be predictions for the same samples: a sketch does not "
            "know which rows belong together, so it cannot be compared in pairs. Use "
            "sketch_a.compare(sketch_b), which is unpaired."
        )
    method = KernelSmoother(kernel=kernel, estimator=DEBIASED, start=start)
    samples = [
        as_sample(y_true, each, sample_weight, from_logits, normalize, ignore_index, classes)
        for each in (prob_a, prob_b)
    ]
    if samples[0].probabilities.shape != samples[1].probabilities.shape:
        shapes = " and ".join(str(sample.probabilities.shape) for sample in samples)
        raise ValueError(f"`prob_a` and `prob_b` must have one shape; found {shapes}.")
    order = _order_of_content(samples)
    models, terms, doubts = [], [], []
    for sample in samples:
        case = make_case(sample.take(order), notion, loss)
        check_question(case, method, confidence, engine, seed)
        outcome = method.outcome(case, engine, progress)
        models.append(model_of(case, method, outcome, engine))
        terms.append(row_terms(case, method, outcome))
        doubts.append(doubts_of(outcome.residuals or []))
    return compared(models, terms, doubts, names, confidence, seed)


def _order_of_content(samples: Sequence[Sample]) -> IntArray:
    """An order of the rows that depends on what they hold alone.

    It depends neither on how they came, nor on the scale of weights, nor on which model is first.
    """
    first, second = (hash_rows(sample.probabilities, sample.labels) for sample in samples)
    return np.lexsort((samples[0].weights, first + second))
