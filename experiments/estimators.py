"""The methods of the paper's tables, by the names that published_mae.csv gives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

import riskalign as ra
from experiments import ridge
from experiments.cells import Row
from riskalign.equations.arrays import FloatArray, IntArray

DIVERGENCES = ("l2", "kl")
RIDGE = "krr"
DEBIASED = "debiased"
RISK_ALIGNMENT = "kde-risk-alignment"
LIKELIHOOD = "kde-likelihood"
ZERO = "always-zero"

METHODS = {
    "classwise": (
        ZERO,
        "equal-width-15",
        "equal-width-20",
        "equal-mass-10",
        "equal-mass-15",
        RISK_ALIGNMENT,
        LIKELIHOOD,
        DEBIASED,
    ),
    "canonical": (
        ZERO,
        "equal-width-10",
        "equal-width-15",
        RISK_ALIGNMENT,
        LIKELIHOOD,
        RIDGE,
        DEBIASED,
    ),
}
"""Methods of each notion; a canonical "equal-width" is joint bins of the simplex."""


def rows_of(
    method: str,
    notion: str,
    y: IntArray,
    f: FloatArray,
    divergences: Sequence[str] = DIVERGENCES,
    **options: object,
) -> list[Row]:
    """One row a divergence that the method knows: value, mean bandwidth, seconds and a note.

    A method that has no answer (bins of a simplex without company) answers NaN.
    """
    if method == RIDGE:
        return [_timed(lambda: _by_ridge(y, f), "l2")] if "l2" in divergences else []
    if method == LIKELIHOOD:  # a criterion that knows no loss: one search for all of them
        started = time.perf_counter()
        options["bandwidth"] = ra.select_bandwidth(
            y, f, notion=notion, criterion="likelihood", progress=False, **options
        )
        searching = (time.perf_counter() - started) / len(divergences)
    else:
        searching = 0.0
    return [
        _timed(lambda d=d: _by_library(method, notion, d, y, f, options), d, searching)
        for d in divergences
    ]


def _timed(compute: Callable[[], Row], divergence: str, before: float = 0.0) -> Row:
    started = time.perf_counter()
    row = compute()
    seconds = round(before + time.perf_counter() - started, 3)
    return {"divergence": divergence, **row, "seconds": seconds}


def _by_ridge(y: IntArray, f: FloatArray) -> Row:
    found = ridge.squared_error(y, f)
    note = f"rho {found.penalty:g}; rank {found.rank}; residual {found.residual:.1e} of lambda"
    return {"value": found.value, "bandwidth": "", "note": note}


def _by_library(
    method: str,
    notion: str,
    divergence: str,
    y: IntArray,
    f: FloatArray,
    options: dict[str, object],
) -> Row:
    arguments = {"notion": notion, "loss": divergence, "progress": False}
    try:
        result = ra.calibration_error(y, f, **arguments, **_options(method, notion, options))
    except ValueError as error:
        if "no two samples in one cell" not in str(error):
            raise
        return {"value": float("nan"), "bandwidth": "", "note": "no two samples in one cell"}
    row: Row = {"value": result.value, "bandwidth": "", "note": ""}
    if result.bandwidth is not None:
        row["bandwidth"] = float(f"{np.mean(result.bandwidth):.4g}")
    if result.search is not None and (edge := np.mean(result.search.at_edge)) > 0:
        row["note"] = f"bandwidth at the edge of its range for {edge:.0%}"
    return row


def _options(method: str, notion: str, given: dict[str, object]) -> dict[str, object]:
    """The library's words for a method."""
    if method == RISK_ALIGNMENT:
        return {"estimator": "plugin", "bandwidth": "risk-alignment", **given}
    if method == LIKELIHOOD:
        return {"estimator": "plugin", **given}
    if method == DEBIASED:
        return {"estimator": "debiased"}
    if method == ZERO:
        return {"method": ra.AlwaysZero()}
    kind, bins = method.rsplit("-", 1)
    if notion == "canonical":
        return {"method": ra.SimplexBins(int(bins))}
    made = {"equal-width": ra.EqualWidthBins, "equal-mass": ra.EqualMassBins}[kind]
    return {"method": made(int(bins))}
