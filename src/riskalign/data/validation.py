"""From anything a user passes to a `Sample`: every error about input data is raised here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from riskalign.data.labels import listed, named_and_numbered, readable
from riskalign.data.sample import Sample
from riskalign.data.weights import in_own_unit
from riskalign.equations.arrays import BoolArray, FloatArray, LabelArray

OUTWEIGHED = 1e-12
"""The least share of the heaviest sample that the others must weigh together: sums without a
sample are totals less its own."""

ROW_SUM_TOLERANCE = 1e-3
"""How far from one a row of probabilities may sum (half-precision files reach 4e-4), and how
far above one a probability may lie (fastText's reach 2e-5)."""

BFLOAT16_TOLERANCE = 8e-3
"""The same for bfloat16, whose rounding alone moves sums by up to 4e-3."""


UNSUMMED = (
    "Pass `normalize=True` to rescale them. If a row may be of several classes, use one call per "
    "column."
)
"""What to do about probabilities of a row that do not sum to 1."""


class OutweighedError(ValueError):
    """One sample outweighs all others, so that it has nothing to be estimated from."""


class RowError(ValueError):
    """An error about one row of predictions.

    Attributes
    ----------
    row, column : where it is; the column is None if the whole row is wrong
    found : what is said of it beside the name of its place in a file
    """

    def __init__(
        self, message: str, row: int = 0, column: int | None = None, found: str = ""
    ) -> None:
        super().__init__(message)  # the one argument with which it is made again elsewhere
        self.row = row
        self.column = column
        self.found = found or message

    def after(self, first: int) -> RowError:
        """The same error of a batch before which there are so many rows."""
        said = f"In the rows from {first:,} on: {self}" if first else str(self)
        return RowError(said, self.row + first, self.column, self.found)


def _first(wrong: BoolArray, scores: FloatArray) -> tuple[int, int, str]:
    """Row and column of the first number that is wrong, and what is said of it."""
    place = int(np.argmax(wrong))
    row, column = divmod(place, scores[0].size)
    return row, column, f"found {scores.ravel()[place]:.6g} there"


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """The option itself, or an error that lists the known ones."""
    options = list(known)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{name}` must be one of {listed}; found {value!r}.")
    return value


def is_whole(value: object) -> TypeGuard[int]:
    """Whether something is a whole number, of Python or of numpy.

    Examples
    --------
    >>> import numpy as np
    >>> is_whole(3), is_whole(np.int64(3)), is_whole(3.0), is_whole(True)
    (True, True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_sample(
    y_true: object,
    y_prob: object,
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    *,
    fewest: int = 2,
) -> Sample:
    """Check predictions and labels, and bring them to one form.

    Parameters are those of `riskalign.calibration_error`, in the order in which all functions take
    them; fewer samples than `fewest` are an error, as are fewer with a positive weight. Weights of
    a whole sample are divided by a power of two, so that the largest lies between 1 and 2; those of
    a part (`fewest` below 2) stay.
    """
    batch = as_batch(
        y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes, pairs=True
    )
    n = len(batch.labels)
    if n < fewest:
        raise ValueError(
            f"At least two samples are needed (each is estimated from the others); found {n}."
        )
    weights = np.ones(n) if batch.weights is None else batch.weights
    if batch.weights is not None and fewest >= 2:
        weights = _in_their_unit(weights)
    labels = batch.labels.astype(np.intp, copy=False)
    return Sample(batch.probabilities, labels, weights, batch.classes)


@dataclass(frozen=True)
class Batch:
    """Checked rows, held as they came: nothing is copied that need not be.

    Attributes
    ----------
    probabilities : (n, K), or (n,) for one probability
    labels : (n,), integers of any size
    weights : (n,), or None where all are 1
    classes : K names
    """

    probabilities: FloatArray
    labels: LabelArray
    weights: FloatArray | None
    classes: tuple[str, ...]


def as_batch(
    y_true: object,
    y_prob: object,
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
    *,
    pairs: bool = False,
) -> Batch:
    """Check rows of a sample, however few; with `pairs` one probability p becomes (1 - p, p)."""
    classes = None if classes is None else listed(classes)
    scores = _numeric(y_prob, "y_prob")
    truth = readable(_array(y_true, "y_true"), scores, classes)
    _check_shape(scores)
    if len(truth) != len(scores):
        raise ValueError(
            f"`y_true` and `y_prob` must have the same length; found {len(truth)} and "
            f"{len(scores)}."
        )
    weights = None if sample_weight is None else _weights(sample_weight, len(scores))
    if ignore_index is not None:
        if truth.ndim != 1:
            raise ValueError("`ignore_index` needs labels of shape (n,), not one-hot rows.")
        keep = truth != ignore_index
        truth, scores = truth[keep], scores[keep]
        weights = None if weights is None else weights[keep]
    if weights is not None:
        _check_weights(weights)
    _reject_several(truth, scores)
    if from_logits:
        probabilities = _from_logits(scores, normalize, pairs)
    else:
        probabilities = _probabilities(scores, normalize, pairs, _tolerance(y_prob))
    names, labels = named_and_numbered(truth, scores, classes)
    return Batch(probabilities, labels, weights, names)


def _reject_several(truth: npt.NDArray[Any], scores: FloatArray) -> None:
    """Refuse rows of several classes, whose probabilities need not sum to one."""
    if truth.ndim != 2 or truth.shape != scores.shape or not np.isin(truth, (0, 1)).all():
        return
    several = truth.sum(axis=1) > 1
    if several.any():
        raise ValueError(
            f"`y_true` has several classes per row (first in row {int(np.argmax(several))}): use "
            "one call per column, each with `y_true[:, k]` and `y_prob[:, k]`."
        )


def as_probabilities(
    y_prob: object, *, from_logits: bool = False, normalize: bool = False
) -> FloatArray:
    """Check predictions without labels, ``(n,)`` or ``(n, K)``, and return them as ``(n, K)``."""
    scores = _numeric(y_prob, "y_prob")
    _check_shape(scores)
    if from_logits:
        return _from_logits(scores, normalize, pairs=True)
    return _probabilities(scores, normalize, True, _tolerance(y_prob))


def _check_shape(scores: FloatArray) -> None:
    if scores.ndim not in (1, 2) or (scores.ndim == 2 and scores.shape[1] < 2):
        raise ValueError(
            f"`y_prob` must have shape (n,) for one probability or (n, K) with K >= 2; found "
            f"{scores.shape}. Pass `y_prob[:, 0]` for a single column, or reshape."
        )


def _array(values: object, name: str) -> npt.NDArray[Any]:
    if np.ma.is_masked(values):
        raise ValueError(f"`{name}` has masked entries. Drop those samples from all arguments.")
    try:
        array = np.asarray(_on_host(values))
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(
            f"`{name}` cannot be read as an array ({error}). Pass a numpy array, a list, a data "
            "frame or a tensor."
        ) from error
    if array.ndim == 0:
        raise TypeError(
            f"`{name}` must be array-like with one entry per sample; found {type(values).__name__}."
        )
    return array


def _on_host(values: object) -> object:
    """Tensors as arrays that numpy reads: on the CPU, without gradient; other things as they are.

    Nothing is imported: who has a tensor has imported its library.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        tensor = values.detach().cpu()
        # numpy has no bfloat16; float32 holds all of its numbers.
        return tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
        return np.from_dlpack(values)
    return values


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


def _weights(sample_weight: object, n: int) -> FloatArray:
    weights = _numeric(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise ValueError(f"`sample_weight` must have shape ({n},); found {weights.shape}.")
    return weights


def _check_weights(weights: FloatArray) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        row = int(np.argmax(~np.isfinite(weights) | (weights < 0)))
        raise ValueError(
            f"`sample_weight` must be finite and not negative; row {row} has {weights[row]}."
        )


def _in_their_unit(weights: FloatArray) -> FloatArray:
    """Weights divided by a power of two, whose sum is finite; each sample has others beside it."""
    heaviest = int(np.argmax(weights))
    (shares,) = in_own_unit(weights)
    found = f"; row {heaviest} outweighs them with {weights[heaviest]:.3g}"
    check_shares(int(np.count_nonzero(weights)), shares.sum(), shares[heaviest], found)
    return shares


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
        raise OutweighedError(
            "`sample_weight` must leave the others some part of the total (1e-12, what float64 "
            f"resolves){found}. Cap it."
        )


def _from_logits(scores: FloatArray, normalize: bool, pairs: bool) -> FloatArray:
    if normalize:
        raise ValueError("`normalize` is for probabilities: a softmax already sums to one.")
    _reject_nan(scores)
    if np.isinf(scores).any():
        row, column, found = _first(np.isinf(scores), scores)
        raise RowError(
            f"`y_prob` holds an infinite logit in row {row}. Replace or drop it.",
            row,
            column,
            f"{found}, an infinite logit. Replace it or drop the row.",
        )
    if scores.ndim == 1:
        return np.stack([expit(-scores), expit(scores)], axis=1) if pairs else expit(scores)
    result: FloatArray = softmax(scores, axis=1)
    return result


def _reject_nan(scores: FloatArray) -> None:
    if not np.isnan(scores).any():
        return
    rows = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
    if rows.any():
        row, column, _ = _first(np.isnan(scores), scores)
        cure = "Drop those rows or correct the predictions."
        raise RowError(
            f"`y_prob` holds NaN in {np.count_nonzero(rows)} of {len(scores)} rows, first in row "
            f"{row}. {cure}",
            row,
            column,
            f"found NaN there. {cure}",
        )


def _tolerance(y_prob: object) -> float:
    """How far from one rows may sum, by the type of the numbers as they were given."""
    narrow = str(getattr(y_prob, "dtype", "")).endswith("bfloat16")
    return BFLOAT16_TOLERANCE if narrow else ROW_SUM_TOLERANCE


def _are_percentages(scores: FloatArray) -> bool:
    """Whether scores above 1 lie between 0 and 100 and, if there is one per class, sum to 100."""
    if scores.min() < 0 or not 10 < scores.max() <= 100:
        return False
    return scores.ndim == 1 or bool((np.abs(scores.sum(axis=1) - 100) < 1).all())


def _cure(scores: FloatArray, low: float) -> str:
    """What scores outside [0, 1] look like, and what is to be done."""
    if scores.ndim == 1 and low >= 0 and (scores == np.floor(scores)).all():
        return "These look like class labels: pass probabilities, such as those of `predict_proba`."
    if _are_percentages(scores):
        return "They look like percentages: divide them by 100."
    if low < 0 or scores.ndim == 1:  # neither can be rescaled
        return "Pass `from_logits=True` for logits; map other scores to [0, 1] first."
    return "Pass `from_logits=True` for logits, `normalize=True` to rescale counts or votes."


def _probabilities(
    scores: FloatArray, normalize: bool, pairs: bool, tolerance: float
) -> FloatArray:
    low, high = float(scores.min(initial=0.0)), float(scores.max(initial=0.0))
    if np.isnan(low):
        _reject_nan(scores)
    if low < 0 or (high > 1 + tolerance and not normalize):
        rule = f"`y_prob` must lie in [0, 1]; found values from {low:.4g} to {high:.4g}."
        message = f"{rule} {_cure(scores, low)}"
        outside = (scores < 0) | ((scores > 1 + tolerance) & (not normalize))
        row, column, found = _first(outside, scores)
        raise RowError(message, row, column, f"{found}; {message}")
    if not np.isfinite(high):
        message = "`y_prob` holds infinite values. Drop those rows or correct the predictions."
        row, column, found = _first(np.isinf(scores), scores)
        raise RowError(message, row, column, f"{found}; {message}")
    if scores.ndim == 1:
        if normalize:
            raise ValueError(
                "`normalize` needs `y_prob` of shape (n, K); found one probability per row."
            )
        # A probability may lie above 1 by rounding; that of the other class is then 0.
        return np.stack([np.maximum(1.0 - scores, 0.0), scores], axis=1) if pairs else scores
    sums = scores.sum(axis=1)
    if normalize:
        if (sums <= 0).any():
            row = int(np.argmax(sums <= 0))
            raise RowError(
                f"`y_prob` cannot be normalised: row {row} sums to {sums.min():.4g}.",
                row,
                None,
                f"the row sums to {sums[row]:.4g} and cannot be normalised.",
            )
        return scores / sums[:, None]
    off = np.abs(sums - 1)
    if (off > tolerance).any():
        row = int(np.argmax(off > tolerance))
        rule = f"rows must sum to 1 (tolerance {tolerance:g})"
        cure = UNSUMMED
        raise RowError(
            f"`y_prob` {rule}; row {row} sums to {sums[row]:.4g}. {cure}",
            row,
            None,
            f"found the sum {sums[row]:.4g} there; {rule}. {cure}",
        )
    return scores
