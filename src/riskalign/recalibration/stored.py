"""Fitted maps as plain values, to be stored: names, numbers, and arrays of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riskalign.data.validation import ROW_SUM_TOLERANCE
from riskalign.equations.arrays import FloatArray
from riskalign.recalibration.forms import FEATURES, MATRIX, PLATT, TEMPERATURE, VECTOR, Form
from riskalign.recalibration.kernel import Recalibration
from riskalign.recalibration.scaling import Scaling
from riskalign.recalibration.smoothed import TABULATED, Curves, Joint, Residuals
from riskalign.smoothing import Tuning

FORMS = tuple(form.name for form in (TEMPERATURE, PLATT, VECTOR, MATRIX))

ARRAYS = ("theta", "centre", "penalties", "curves", "predictions", "residuals", "weights")
"""What a state holds as arrays; the rest are names and numbers."""

State = dict[str, Any]
"""Texts, numbers, lists of texts, and arrays of numbers, by name."""


def state_of(fitted: Scaling | Recalibration) -> State:
    """What a fitted map consists of."""
    if isinstance(fitted, Scaling):
        return _state_of_scaling(fitted)
    state = _state_of_scaling(fitted.scaling)
    state |= {"share": fitted.share, "shrinkage": fitted.shrinkage}
    if fitted.tuning is not None:
        state |= {"bandwidth": fitted.tuning.bandwidth, "flattening": fitted.tuning.flattening}
    if isinstance(fitted.residuals, Curves):
        state |= {"curves": fitted.residuals.values}
    elif isinstance(fitted.residuals, Joint):
        joint = fitted.residuals
        state |= {
            "predictions": joint.predictions,
            "residuals": joint.residuals,
            "weights": joint.weights,
        }
    return state


def _state_of_scaling(scaling: Scaling) -> State:
    form = scaling.form
    return {
        "form": form.name,
        "shared": list(form.shared),
        "own": list(form.own),
        "crossed": int(form.crossed),
        "theta": scaling.theta,
        "centre": scaling.centre,
        "penalties": scaling.penalties,
    }


def from_state(state: Mapping[str, Any], n_classes: int) -> Scaling | Recalibration:
    """The map that a state describes; states come from files and are checked."""
    shared, own = (_names(state, key) for key in ("shared", "own"))
    crossed = _number(state, "crossed") == 1
    if state.get("form") not in FORMS or not (crossed or state["crossed"] == 0):
        raise _broken("form")
    form = Form(str(state["form"]), shared, own, crossed)
    # Counted, not built: a few class names would ask for any amount of memory.
    n_weights = len(shared) + n_classes * len(own) + (n_classes**2 if crossed else 0)
    theta = _array(state, "theta", (n_weights,))
    centre = _array(state, "centre", (n_classes,))
    penalties = _array(state, "penalties", (len(own) + (2 if crossed else 0),))
    scaling = Scaling(form, theta, centre, penalties)
    if "share" not in state:
        return scaling
    tuning = None
    if "bandwidth" in state:
        bandwidth = _number(state, "bandwidth", above=0.0)
        tuning = Tuning(bandwidth, _number(state, "flattening", above=0.0, most=1.0))
    residuals = _residuals(state, n_classes, tuning)
    share, shrinkage = (_number(state, key, least=0.0, most=1.0) for key in ("share", "shrinkage"))
    return Recalibration(scaling, share, residuals, tuning, shrinkage)


def _residuals(state: Mapping[str, Any], n_classes: int, tuning: Tuning | None) -> Residuals | None:
    if "curves" in state:
        shape = (1 if n_classes == 2 else n_classes, TABULATED)
        return Curves(_array(state, "curves", shape, least=-1.0, most=1.0))
    if "predictions" not in state:
        return None
    if tuning is None:
        raise _broken("bandwidth")
    weights = _array(state, "weights", (None,), least=0.0)
    if not 0 < weights.sum() < np.inf:
        raise _broken("weights")
    shape = (len(weights), n_classes)
    predictions = _array(state, "predictions", shape, least=0.0, most=1.0)
    if (np.abs(predictions.sum(axis=1) - 1) > ROW_SUM_TOLERANCE).any():
        raise _broken("predictions")
    residuals = _array(state, "residuals", shape, least=-1.0, most=1.0)
    return Joint(predictions, residuals, weights, tuning)


def _broken(key: str) -> ValueError:
    return ValueError(f"{key!r} is missing, or is not what a calibrator holds there.")


def _names(state: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = state.get(key)
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name in FEATURES for name in names
    ):
        raise _broken(key)
    if len(set(names)) < len(names):
        raise _broken(key)
    return tuple(names)


def _number(
    state: Mapping[str, Any],
    key: str,
    *,
    above: float = -np.inf,
    least: float = -np.inf,
    most: float = np.inf,
) -> float:
    value = state.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _broken(key)
    try:
        found = float(value)
    except OverflowError:  # of an integer
        raise _broken(key) from None
    if not (np.isfinite(found) and above < found and least <= found <= most):
        raise _broken(key)
    return found


def _array(
    state: Mapping[str, Any],
    key: str,
    shape: tuple[int | None, ...],
    *,
    least: float = -np.inf,
    most: float = np.inf,
) -> FloatArray:
    """Finite numbers of a shape, in which None is any length, between two limits."""
    try:
        found = np.asarray(state.get(key))
    except ValueError:  # lists of different lengths
        raise _broken(key) from None
    if found.dtype.kind not in "iuf" or found.ndim != len(shape):
        raise _broken(key)
    if any(wanted not in (None, n) for n, wanted in zip(found.shape, shape, strict=True)):
        raise _broken(key)
    with np.errstate(over="ignore"):  # of long doubles
        numbers: FloatArray = found.astype(np.float64)
    if not (np.isfinite(numbers) & (numbers >= least) & (numbers <= most)).all():
        raise _broken(key)
    return numbers
