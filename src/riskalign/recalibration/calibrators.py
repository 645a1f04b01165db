"""Calibrators by name, and cross-fitting: each row recalibrated by rows of other folds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from riskalign.data.sample import Sample
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.recalibration.forms import MATRIX, PLATT, TEMPERATURE, VECTOR, Form
from riskalign.recalibration.kernel import Recalibration, Start, order_of_content
from riskalign.recalibration.scaling import Scaling, announce_fits
from riskalign.smoothing.threads import ordered_map

FOLDS = 5


def _matrix(sample: Sample) -> Scaling:
    return Start.of(sample, "matrix").scaling


CALIBRATORS: dict[str, Callable[[Sample], Scaling | Recalibration]] = {
    "temperature": partial(Scaling.fit, form=TEMPERATURE),
    "platt": partial(Scaling.fit, form=PLATT),
    "vector": partial(Scaling.fit, form=VECTOR),
    "matrix": _matrix,
    "kernel": Recalibration.fit,
}
"""How each calibrator learns from a sample, by the name that users pass."""

LARGEST: dict[str, Form] = {"temperature": TEMPERATURE, "platt": PLATT, "vector": VECTOR}
"""The form that takes the longest of what a calibrator fits; "matrix" where none is named."""


def folds_of(sample: Sample, n_folds: int = FOLDS) -> IntArray:
    """The fold of each row, ``(n,)``, dealt in the order of a hash of the row's content.

    Folds do not depend on the order of the rows, and their sizes differ by one at most.

    Examples
    --------
    >>> import numpy as np
    >>> from riskalign.data.validation import as_sample
    >>> p, y = np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1])
    >>> folds = folds_of(as_sample(y, p), 2)
    >>> moved = folds_of(as_sample(y[::-1], p[::-1]), 2)
    >>> bool((folds == moved[::-1]).all())
    True
    """
    order = order_of_content(sample)
    folds = np.empty(len(order), dtype=np.intp)
    folds[order] = np.arange(len(order)) % n_folds
    return folds


def cross_fitted(sample: Sample, method: str, n_folds: int = FOLDS) -> FloatArray:
    """Recalibrated predictions ``(n, K)``: each row by a map learnt from the other folds."""
    announce_fits(sample, LARGEST.get(method, MATRIX), n_folds)
    folds = folds_of(sample, n_folds)
    R = np.empty_like(sample.probabilities)

    def recalibrate(fold: int) -> None:
        held = folds == fold
        learnt = CALIBRATORS[method](sample.take(np.flatnonzero(~held)))
        R[held] = learnt(sample.probabilities[held])

    for _ in ordered_map(recalibrate, range(min(n_folds, len(folds)))):
        pass
    return R
