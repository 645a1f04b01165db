"""Calibration errors of classifiers, with the bandwidth found by risk alignment."""

from riskalign import datasets
from riskalign.bandwidth import BandwidthSearch
from riskalign.baselines import (
    AlwaysZero,
    EqualMassBins,
    EqualWidthBins,
    KernelRidge,
    SimplexBins,
    SmoothECE,
)
from riskalign.estimate import calibration_error, reliability_curve, select_bandwidth
from riskalign.losses import ProperLoss
from riskalign.methods import KernelSmoother
from riskalign.reliability import ReliabilityCurve
from riskalign.results import CalibrationResult
from riskalign.significance import CalibrationTest, Comparison, calibration_test, compare

__all__ = [
    "AlwaysZero",
    "BandwidthSearch",
    "CalibrationResult",
    "CalibrationTest",
    "Comparison",
    "EqualMassBins",
    "EqualWidthBins",
    "KernelRidge",
    "KernelSmoother",
    "ProperLoss",
    "ReliabilityCurve",
    "SimplexBins",
    "SmoothECE",
    "calibration_error",
    "calibration_test",
    "compare",
    "datasets",
    "reliability_curve",
    "select_bandwidth",
]
__version__ = "0.1.0"
