"""Labels and classes as users pass them, as class numbers and names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.equations.arrays import FloatArray, IntArray, LabelArray


def readable(
    truth: npt.NDArray[Any], scores: FloatArray, classes: Sequence[object] | None
) -> npt.NDArray[Any]:
    """Labels that can be told apart: numbers or, where `classes` are given, as they are.

    Labels that look like predictions, or belong to other rows than `scores`, are an error.
    """
    labels = _as_numbers(truth) if classes is None else truth
    _reject_swapped(labels, scores)
    return labels


def named_and_numbered(
    truth: npt.NDArray[Any], scores: FloatArray, classes: Sequence[object] | None
) -> tuple[tuple[str, ...], LabelArray]:
    """The names of the classes, and labels, names or one-hot rows as class numbers ``(n,)``."""
    n_classes = 2 if scores.ndim == 1 else scores.shape[1]
    names = _class_names(classes, n_classes)
    if scores.ndim == 1 and classes is None:
        _reject_many(truth)
    return names, _class_numbers(truth, n_classes, classes)


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
    """Refuse arguments in the wrong order, and predictions whose columns are samples."""
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


def listed(classes: Iterable[object]) -> list[object]:
    """The labels of `classes`, which may be any iterable of names or numbers."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise TypeError(f"`classes` must be a list of labels; found {classes!r}.")
    labels = list(classes)
    for label in labels:
        if not isinstance(label, Hashable):
            raise TypeError(f"`classes` must hold names or numbers; found {label!r}.")
    return labels


def _reject_many(truth: npt.NDArray[Any]) -> None:
    """Refuse labels of more than two classes beside the probability of one class."""
    if truth.ndim != 1 or truth.dtype.kind not in "iuf" or not np.isfinite(truth).all():
        return
    if len(truth) and (truth.min() < 0 or truth.max() > 1):
        n = len(np.unique(truth[truth >= 0]))  # below 0 lies padding
        if n > 2:
            raise ValueError(
                "`y_prob` of shape (n,) is the probability of one class, but `y_true` has "
                f"{n} different labels. Pass the probabilities of all classes, of shape (n, K); "
                "or, for the probability of the predicted class, whether it was right as `y_true`."
            )


def _class_names(classes: Sequence[object] | None, n_classes: int) -> tuple[str, ...]:
    """The names of the classes; by default their numbers."""
    if classes is None:
        return tuple(str(k) for k in range(n_classes))
    names = tuple(str(c) for c in classes)
    if len(names) != n_classes or len(set(names)) != n_classes:
        raise ValueError(
            f"`classes` must name each of the {n_classes} columns of `y_prob` once, in their "
            f"order; found {len(names)} names, {len(set(names))} different."
        )
    return names


def _class_numbers(
    truth: npt.NDArray[Any], n_classes: int, classes: Sequence[object] | None
) -> LabelArray:
    """Labels, names or one-hot rows as class numbers ``(n,)``."""
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
                f"{', '.join(repr(c) for c in classes[:10])}"
                f"{', ...' if n_classes > 10 else ''}."
            ) from None
        except TypeError:
            raise TypeError(
                "`y_true` must hold one name or number per sample; found lists, sets or dicts."
            ) from None
    if truth.dtype.kind == "f" and not np.isfinite(truth).all():
        row = int(np.argmax(~np.isfinite(truth)))
        raise ValueError(f"`y_true` holds {truth[row]} in row {row}. Drop unlabelled rows.")
    if len(truth) and (truth.min() < 0 or truth.max() >= n_classes):
        row = int(np.argmax((truth < 0) | (truth >= n_classes)))
        raise ValueError(
            f"`y_true` must hold labels 0 to {n_classes - 1} for {n_classes} classes; row {row} "
            f"has {truth[row]}. Pass `classes=` for other labels, `ignore_index=` for padding."
        )
    if truth.dtype.kind == "i":
        return truth
    return truth.view(np.int8) if truth.dtype.kind == "b" else truth.astype(np.intp)


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
