"""Fitted maps as plain values, to be stored: names, numbers, and arrays of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riskalign.equations.arrays import FloatArray
from riskalign.recalibration.forms import FEATURES, Form, blocks_of
from riskalign.recalibration.kernel import Recalibration
from riskalign.recalibration.scaling import Scaling
from riskalign.recalibration.smoothed import TABULATED, Curves, Joint, Residuals
from riskalign.smoothing import Tuning

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
    form = Form(str(state.get("form")), shared, own, bool(_number(state, "crossed")))
    theta = _array(state, "theta", (len(blocks_of(form, n_classes)),))
    centre = _array(state, "centre", (n_classes,))
    scaling = Scaling(form, theta, centre, _array(state, "penalties", None))
    if "share" not in state:
        return scaling
    tuning = None
    if "bandwidth" in state:
        tuning = Tuning(_number(state, "bandwidth"), _number(state, "flattening"))
    residuals = _residuals(state, n_classes, tuning)
    share, shrinkage = _number(state, "share"), _number(state, "shrinkage")
    return Recalibration(scaling, share, residuals, tuning, shrinkage)


def _residuals(state: Mapping[str, Any], n_classes: int, tuning: Tuning | None) -> Residuals | None:
    if "curves" in state:
        return Curves(_array(state, "curves", (1 if n_classes == 2 else n_classes, TABULATED)))
    if "predictions" in state and tuning is not None:
        predictions = _array(state, "predictions", None)
        residuals = _array(state, "residuals", (len(predictions), n_classes))
        if predictions.shape != residuals.shape:
            raise _broken("predictions")
        weights = _array(state, "weights", (len(predictions),))
        return Joint(predictions, residuals, weights, tuning)
    return None


def _broken(key: str) -> ValueError:
    return ValueError(f"{key!r} is missing, or is not what a calibrator holds there.")


def _names(state: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = state.get(key)
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name in FEATURES for name in names
    ):
        raise _broken(key)
    return tuple(names)


def _number(state: Mapping[str, Any], key: str) -> float:
    value = state.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise _broken(key)
    return float(value)


def _array(state: Mapping[str, Any], key: str, shape: tuple[int, ...] | None) -> FloatArray:
    try:
        found = np.asarray(state.get(key), dtype=np.float64)
    except (TypeError, ValueError):
        raise _broken(key) from None
    if found.ndim == 0 or (shape is not None and found.shape != shape):
        raise _broken(key)
    if not np.isfinite(found).all():
        raise _broken(key)
    return found
