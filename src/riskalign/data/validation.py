"""From anything a user passes to a `Sample`: every error about input data is raised here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from riskalign.data.sample import Sample
from riskalign.data.weights import exponent_of, in_units
from riskalign.equations.arrays import FloatArray, IntArray

OUTWEIGHED = 1e-12
"""The least share of the heaviest sample that the others must weigh together: sums without a
sample are totals less its own."""

ROW_SUM_TOLERANCE = 1e-3
"""How far from one a row of probabilities may sum (half-precision files reach 4e-4), and how
far above one a probability may lie (fastText's reach 2e-5)."""


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """The option itself, or an error that lists the known ones."""
    options = list(known)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {listed}; found {value!r}.")
    return value


def as_sample(
    y_true: object,
    y_prob: object,
    *,
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    fewest: int = 2,
) -> Sample:
    """Check predictions and labels, and bring them to one form.

    Parameters are those of `riskalign.calibration_error`; fewer samples than `fewest` are an
    error, as are fewer with a positive weight. Weights of a whole sample are divided by a power
    of two, so that the largest lies between 1 and 2; those of a batch (`fewest` below 2) stay.
    """
    scores = _numeric(y_prob, "y_prob")
    truth = _array(y_true, "y_true")
    if classes is None:
        truth = _as_numbers(truth)
    _reject_swapped(truth, scores)
    if scores.ndim not in (1, 2) or (scores.ndim == 2 and scores.shape[1] < 2):
        raise ValueError(
            f"`y_prob` must have shape (n,) for one probability or (n, K) with K >= 2; found "
            f"{scores.shape}. Pass `y_prob[:, 0]` for a single column, or reshape."
        )
    if len(truth) != len(scores):
        raise ValueError(
            f"`y_true` and `y_prob` must have the same length; found {len(truth)} and "
            f"{len(scores)}."
        )
    weights = _weights(sample_weight, len(scores))
    if ignore_index is not None:
        if truth.ndim != 1:
            raise ValueError("`ignore_index` needs labels of shape (n,), not one-hot rows.")
        keep = truth != ignore_index
        truth, scores, weights = truth[keep], scores[keep], weights[keep]
    if len(scores) < fewest:
        raise ValueError(
            "At least two samples are needed (each is estimated from the others); found "
            f"{len(scores)}."
        )
    _check_weights(weights, fewest)
    if fewest >= 2:
        weights = in_units(weights, exponent_of(weights))

    if from_logits:
        probabilities = _from_logits(scores, normalize)
    else:
        probabilities = _probabilities(scores, normalize)
    n_classes = probabilities.shape[1]
    names = _class_names(classes, n_classes)
    labels = _labels(truth, n_classes, classes)
    return Sample(probabilities, labels, weights, names)


def _array(values: object, name: str) -> npt.NDArray[Any]:
    if np.ma.is_masked(values):
        raise ValueError(f"`{name}` has masked entries. Drop those samples from all arguments.")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"`{name}` cannot be read as an array ({error}). Pass a numpy array, a list, a data "
            "frame or a tensor on the CPU without gradient (`tensor.detach().cpu()`)."
        ) from error
    if array.ndim == 0:
        raise TypeError(
            f"`{name}` must be array-like with one entry a sample; found {type(values).__name__}."
        )
    return array


def _numeric(values: object, name: str) -> FloatArray:
    array = _array(values, name)
    if array.dtype.kind in "OUSb" and array.size:
        try:
            return array.astype(np.float64)
        except OverflowError:
            raise ValueError(f"`{name}` holds an integer that is too large for float64.") from None
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"`{name}` must hold numbers; found {array.dtype}. The order is (y_true, y_prob)."
            ) from error
    if array.dtype.kind not in "fiubOUS":
        raise TypeError(f"`{name}` must hold real numbers; found {array.dtype}.")
    return array.astype(np.float64, copy=False)


def _as_numbers(truth: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels that are objects or strings as numbers; other labels as they are."""
    if truth.dtype.kind not in "OUSfiub":
        raise TypeError(
            f"`y_true` must hold class numbers; found {truth.dtype}. Pass `classes=` for other "
            "labels."
        )
    if truth.dtype.kind not in "OUS":
        return truth
    try:
        return truth.astype(np.float64)
    except OverflowError:
        raise ValueError(
            "`y_true` holds an integer that is too large for a class number. Pass `classes=` for "
            "other labels."
        ) from None
    except (TypeError, ValueError):
        raise TypeError(
            "`y_true` holds names. Pass `classes=` with the names in the order of the columns "
            "of `y_prob` (for one probability: the negative class, then the positive)."
        ) from None


def _reject_swapped(truth: npt.NDArray[Any], scores: FloatArray) -> None:
    fractional = truth.dtype.kind == "f" and bool(np.any(truth != np.floor(truth)))
    if fractional and np.isfinite(truth).all():
        raise ValueError(
            "`y_true` must hold labels, found fractions. The order is (y_true, y_prob): were the "
            "two swapped? Soft labels are not supported."
        )
    if truth.ndim == 1 and scores.ndim == 2 and len(truth) == scores.shape[1] != len(scores):
        raise ValueError(
            f"`y_prob` has shape {scores.shape} for {len(truth)} labels; rows are samples. "
            "Pass `y_prob.T`."
        )


def _weights(sample_weight: object, n: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n)
    weights = _numeric(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise ValueError(f"`sample_weight` must have shape ({n},); found {weights.shape}.")
    return weights


def _check_weights(weights: FloatArray, fewest: int) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        row = int(np.argmax(~np.isfinite(weights) | (weights < 0)))
        raise ValueError(
            f"`sample_weight` must be finite and not negative; row {row} has {weights[row]}."
        )
    if fewest < 2:
        return
    heaviest = int(np.argmax(weights))
    shares = in_units(weights, exponent_of(weights))  # their sum stays finite
    found = f"; row {heaviest} outweighs them with {weights[heaviest]:.3g}"
    check_shares(int(np.count_nonzero(weights)), shares.sum(), shares[heaviest], found)


def check_shares(n_positive: float, total: float, heaviest: float, found: str = "") -> None:
    """Refuse weights that leave a sample nothing to be estimated from.

    Parameters
    ----------
    n_positive : number of samples that have weight
    total, heaviest : sum and maximum of the weights of samples
    found : which sample is the heaviest, for the message
    """
    if round(n_positive) < 2:
        raise ValueError(
            "`sample_weight` must be positive for at least two samples (each is estimated from "
            f"the others); found {round(n_positive)}."
        )
    if total - heaviest < OUTWEIGHED * heaviest:
        raise ValueError(
            "`sample_weight` must leave the others some part of the total (1e-12, what float64 "
            f"resolves){found}. Cap it."
        )


def _from_logits(scores: FloatArray, normalize: bool) -> FloatArray:
    if normalize:
        raise ValueError("`normalize` is for probabilities: a softmax already sums to one.")
    _reject_nan(scores)
    if np.isinf(scores).any():
        row = int(np.argmax(np.isinf(scores.reshape(len(scores), -1)).any(axis=1)))
        raise ValueError(f"`y_prob` holds an infinite logit in row {row}. Replace or drop it.")
    if scores.ndim == 1:
        return np.stack([expit(-scores), expit(scores)], axis=1)
    result: FloatArray = softmax(scores, axis=1)
    return result


def _reject_nan(scores: FloatArray) -> None:
    if not np.isnan(scores).any():
        return
    rows = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
    if rows.any():
        raise ValueError(
            f"`y_prob` holds NaN in {np.count_nonzero(rows)} of {len(scores)} rows, first in row "
            f"{int(np.argmax(rows))}. Drop those rows or mend the predictions."
        )


def _probabilities(scores: FloatArray, normalize: bool) -> FloatArray:
    _reject_nan(scores)
    low, high = float(scores.min(initial=0.0)), float(scores.max(initial=0.0))
    if low < 0 or (high > 1 + ROW_SUM_TOLERANCE and not normalize):
        raise ValueError(
            f"`y_prob` must lie in [0, 1]; found values from {low:.4g} to {high:.4g}. Pass "
            "`from_logits=True` for logits, `normalize=True` to rescale counts or votes."
        )
    if not np.isfinite(high):
        raise ValueError("`y_prob` holds infinite values. Drop those rows or mend the predictions.")
    if scores.ndim == 1:
        if normalize:
            raise ValueError(
                "`normalize` needs `y_prob` of shape (n, K); found one probability a row."
            )
        return np.stack([1.0 - scores, scores], axis=1)
    sums = scores.sum(axis=1)
    if normalize:
        if (sums <= 0).any():
            raise ValueError(
                f"`y_prob` cannot be normalised: row {int(np.argmax(sums <= 0))} sums to "
                f"{sums.min():.4g}."
            )
        return scores / sums[:, None]
    off = np.abs(sums - 1)
    if (off > ROW_SUM_TOLERANCE).any():
        row = int(np.argmax(off > ROW_SUM_TOLERANCE))
        raise ValueError(
            f"`y_prob` rows must sum to 1 (tolerance {ROW_SUM_TOLERANCE:g}); row {row} sums to "
            f"{sums[row]:.4g}. Pass `from_logits=True` for logits, `normalize=True` to rescale."
        )
    return scores


def _class_names(classes: Sequence[object] | None, n_classes: int) -> tuple[str, ...]:
    if classes is None:
        return tuple(str(k) for k in range(n_classes))
    names = tuple(str(c) for c in classes)
    if len(names) != n_classes or len(set(names)) != n_classes:
        raise ValueError(
            f"`classes` must name each of the {n_classes} columns of `y_prob` once, in their "
            f"order; found {len(names)} names, {len(set(names))} different."
        )
    return names


def _labels(truth: npt.NDArray[Any], n_classes: int, classes: Sequence[object] | None) -> IntArray:
    if truth.ndim == 2:
        return _from_one_hot(truth, n_classes)
    if truth.ndim != 1:
        raise ValueError(f"`y_true` must have shape (n,) or one-hot (n, K); found {truth.shape}.")
    if classes is not None:
        column = {c: k for k, c in enumerate(classes)}
        try:
            return np.array([column[label] for label in truth.tolist()], dtype=np.intp)
        except KeyError as error:
            raise ValueError(
                f"`y_true` holds {error.args[0]!r}, which is not among `classes`. The classes are "
                f"{', '.join(repr(c) for c in list(classes)[:10])}"
                f"{', ...' if n_classes > 10 else ''}."
            ) from None
    if truth.dtype.kind == "f" and not np.isfinite(truth).all():
        row = int(np.argmax(~np.isfinite(truth)))
        raise ValueError(f"`y_true` holds {truth[row]} in row {row}. Drop unlabelled rows.")
    out = (truth < 0) | (truth >= n_classes)
    if out.any():
        row = int(np.argmax(out))
        raise ValueError(
            f"`y_true` must hold labels 0 to {n_classes - 1} for {n_classes} classes; row {row} "
            f"has {truth[row]}. Pass `classes=` for other labels, `ignore_index=` for padding."
        )
    return truth.astype(np.intp)


def _from_one_hot(truth: npt.NDArray[Any], n_classes: int) -> IntArray:
    values = truth.astype(np.float64)
    if values.shape[1] != n_classes:
        raise ValueError(
            f"One-hot `y_true` must have a column for each of the {n_classes} classes; found "
            f"shape {values.shape}."
        )
    valid = np.isin(values, (0.0, 1.0)).all(axis=1) & (values.sum(axis=1) == 1)
    if not valid.all():
        raise ValueError(
            f"`y_true` of shape (n, K) must be one-hot: a single 1 a row; row "
            f"{int(np.argmax(~valid))} is not. Pass class numbers of shape (n,) otherwise."
        )
    return np.argmax(values, axis=1).astype(np.intp)
